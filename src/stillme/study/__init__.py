"""The human study: built from a run, served as an island, rehearsed, and read back as ratings."""
