"""A place to look at everything: each edit beside its source, what was said of it, and what people decide.

Reads a run and appends decisions to it, also while another process writes there. Makes no edit, asks no judge.
"""

from stillme.review.app import serve

__all__ = ["serve"]
