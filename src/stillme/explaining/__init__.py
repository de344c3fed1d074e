"""What a term means, in plain words, from where it is defined: the protocol, the tables' columns, terms.yaml."""

from stillme.explaining.saying import find, folded, listed, plain, words
from stillme.explaining.terms import Term, vocabulary

__all__ = ["Term", "find", "folded", "listed", "plain", "vocabulary", "words"]
