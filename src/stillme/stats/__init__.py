"""Statistics: pure functions, frame in, frame out. No database, network or image is reached from here."""
