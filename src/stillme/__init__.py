"""stillme: does the edited portrait still show the same person, whoever the person is?

An audit of instruction-guided image editors. `pipeline.py` tells the whole flow; start there.
"""

__version__ = "0.1.0"
