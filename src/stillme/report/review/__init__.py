"""A place to look at everything: each edit beside its source, what was said of it, and what people decide.

Reads a run and appends decisions to it, also while another process writes there. Makes no edit, asks no judge.
Only `app` needs the web tools' packages; what a query means, and what is known of an edit, is here without them.
"""
