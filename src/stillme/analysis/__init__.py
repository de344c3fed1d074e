"""From a run to numbers: its frames, every table with its uncertainty, and how numbers are written."""
