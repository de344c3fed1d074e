"""Prolific: publishing a study there, who comes from there, and how people are approved and paid.

It talks to one address, by the project's only HTTP client. What a rater sees or answers is not known here.
"""
