"""Experiment 2: which cases are asked again, and the sentences that ask to keep a person. Pure."""
