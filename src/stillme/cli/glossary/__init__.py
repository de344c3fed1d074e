"""What a term means, in plain words, from where it is defined: the protocol, the tables' columns, terms.yaml."""

from stillme.cli.glossary.saying import find, folded, listed, plain, words
from stillme.cli.glossary.terms import Term, vocabulary

__all__ = ["Term", "find", "folded", "listed", "plain", "vocabulary", "words"]
