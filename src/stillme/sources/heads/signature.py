"""How a synthetic portrait is recognised again: a number in its JPEG comment, which says nothing of the person."""

from __future__ import annotations

import re

from stillme.sources import heads

_TEXT = "stillme synthetic portrait {number}"
_PATTERN = re.compile(_TEXT.format(number=r"(\d+)"))


def signature(key: str) -> str:
    return _TEXT.format(number=heads.keys().index(key))


def key_in(comment: str) -> str | None:
    """The head that a comment names, or None for any other picture."""
    found = _PATTERN.fullmatch(comment)
    number = int(found.group(1)) if found else -1
    return heads.keys()[number] if 0 <= number < len(heads.keys()) else None
