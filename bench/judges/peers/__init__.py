"""The clients that ours is measured against, each run by an interpreter that has it, and the meter of all."""
