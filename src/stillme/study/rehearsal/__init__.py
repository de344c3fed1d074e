"""A study rehearsed: a fake Prolific, bots, and the server as it would be with people and money."""
