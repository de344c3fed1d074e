"""How numbers are written, in one place. A missing number is a dash: never 0, never NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stillme.stats.intervals import LEVEL

SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
INTERVAL = f"{LEVEL * 100:.0f}{SPACE}% interval"


def known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def decimal(value: float | None, digits: int = 1) -> str:
    """A number with a true minus sign and no negative zero.

    >>> decimal(-0.04), decimal(-1.25, 2), decimal(None)
    ('0.0', '−1.25', '–')
    """
    if value is None or math.isnan(value):
        return DASH
    text = f"{abs(value):,.{digits}f}"
    return MINUS + text if value < 0 and float(text.replace(",", "")) else text


def signed(value: float | None, digits: int = 2) -> str:
    """A change, with its sign; what is printed as zero has none.

    >>> signed(1.5), signed(-0.251), signed(-0.004), signed(None)
    ('+1.50', '−0.25', '0.00', '–')
    """
    text = decimal(value, digits)
    return f"+{text}" if value is not None and value > 0 and float(text.replace(",", "")) else text


def percent(share: float | None) -> str:
    r"""A share with one decimal; only none is 0.0 % and only all is 100.0 %.

    >>> percent(0.4118), percent(0.0001), percent(0.9999), percent(1), percent(None)
    ('41.2\xa0%', '<\xa00.1\xa0%', '>\xa099.9\xa0%', '100.0\xa0%', '–')
    """
    if share is None or math.isnan(share):
        return DASH
    if 0 < share < 0.0005:
        return f"<{SPACE}0.1{SPACE}%"
    return f">{SPACE}99.9{SPACE}%" if 0.9995 <= share < 1 else f"{decimal(share * 100)}{SPACE}%"


def points(share: float | None) -> str:
    """A difference of shares in percentage points, without its unit."""
    return decimal(None if share is None else share * 100)


def bracket(low: float | None, high: float | None) -> str:
    return f"[{points(low)}, {points(high)}]"


def span(low: float | None, high: float | None, digits: int = 2) -> str:
    """An interval of changes.

    >>> span(-0.5, 1.25)
    '[−0.50, +1.25]'
    """
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def between(low: float | None, high: float | None) -> str:
    return f"{points(low)} to {points(high)}"


def count(number: int) -> str:
    return f"{number:,}"


def of(part: int, whole: int) -> str:
    return f"{count(part)}/{count(whole)}"


def p_value(p: float | None) -> str:
    r"""
    >>> p_value(0.00004), p_value(0.0321), p_value(None)
    ('<\xa00.001', '0.032', '–')
    """
    if p is None or math.isnan(p):
        return DASH
    return f"<{SPACE}0.001" if p < 0.001 else f"{p:.3f}"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "portraits"), plural(5040, "edits")
    ('1 portrait', '5,040 edits')
    """
    return f"{count(number)} {noun.removesuffix('s') if number == 1 else noun}"


def lowered(label: str) -> str:
    """A label inside a sentence; abbreviations keep their capitals."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def capital(text: str) -> str:
    """A sentence's first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]
