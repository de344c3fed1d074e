"""A table as it was printed: its numbers, and with how many digits each of them stands there.

Knows how numbers are written, and which percentages and means whole counts can give. Knows no rule about tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

EXACT = 1e-9  # numbers that were never rounded agree within this
ROUNDED = 6  # with more digits than this a number was not rounded for print
_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.([0-9]*))?(?:[eE][+-]?[0-9]{1,3})?")
_NOTHING = frozenset(("", "-", "–", "—", "na", "n/a", "null", "none"))
_BROKEN = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_BOUND = "<>≤≥~"  # "< 0.001" is no number, and does not make its column one of words


@dataclass(frozen=True)
class Table:
    """`frame`: numbers as numbers, missing as null. `digits`: decimals of each number, of columns that were read
    from text. `percent`: columns that say so by a sign. `broken`: (row, column, word) of NaN and infinities."""

    name: str
    frame: pl.DataFrame
    digits: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    percent: frozenset[str] = frozenset()
    broken: tuple[tuple[int, str, str], ...] = ()

    @property
    def numeric(self) -> list[str]:
        return [name for name, kind in self.frame.schema.items() if kind.is_numeric()]

    @property
    def words(self) -> list[str]:
        """The columns that say what a row is about."""
        return [name for name, kind in self.frame.schema.items() if not _is_silent(kind)]

    @property
    def _heads(self) -> list[str]:
        """Columns of words before the first number; what comes later explains."""
        first = [self.frame.columns.index(name) for name in self.numeric[:1]]
        before = [name for name in self.words if first and self.frame.columns.index(name) < first[0]]
        return before or self.words

    def label(self, row: int) -> str:
        """What the row is about, as the table itself says it."""
        return self.labels([row])[0]

    def labels(self, rows: Sequence[int]) -> tuple[str, ...]:
        heads = [pl.col(name).cast(pl.String) for name in self._heads]
        if not heads:
            return tuple(f"row {row + 1}" for row in rows)
        said = self.frame[list(rows)].select(pl.concat_str(heads, separator=" · ", ignore_nulls=True)).to_series()
        return tuple(word or f"row {row + 1}" for word, row in zip(said, rows, strict=True))

    def numbers(self, column: str) -> NDArray[np.float64]:
        """The column as numbers, NaN where nothing is printed."""
        return self.frame[column].cast(pl.Float64).to_numpy().astype(np.float64)

    def half(self, column: str) -> NDArray[np.float64]:
        """By how much each number may differ from the one that was rounded."""
        rounded = self.digits.get(column)
        if rounded is None:
            return np.full(self.frame.height, EXACT)
        return np.array([EXACT if d is None or d > ROUNDED else 0.5 * 10.0**-d + EXACT for d in rounded])

    def shown(self, column: str, row: int) -> str:
        """The number as it stands there."""
        value, digits = self.frame[column][row], self.digits.get(column)
        if value is None:
            return "–"
        places = None if digits is None else digits[row]
        return f"{value:.6g}" if places is None or places > ROUNDED else f"{value:.{places}f}"


def _is_silent(kind: pl.DataType) -> bool:
    """Numbers, lists and columns without a value do not say what a row is about."""
    return kind.is_numeric() or kind.is_nested() or kind == pl.Null


def typed(name: str, frame: pl.DataFrame) -> Table:
    """A frame of unrounded numbers. NaN and infinities are noted and taken as missing."""
    floats = [column for column, kind in frame.schema.items() if kind.is_float()]
    broken = tuple(
        (row, column, str(frame[column][row]))
        for column in floats
        for row in np.flatnonzero(~np.isfinite(frame[column].fill_null(0.0).to_numpy())).tolist()
    )
    finite = [pl.when(pl.col(column).is_finite()).then(pl.col(column)).alias(column) for column in floats]
    return Table(name, frame.with_columns(finite), broken=broken)


def read(name: str, text: pl.DataFrame) -> Table:
    """A frame of words, as a CSV holds them: columns in which every word is a number become numbers.

    >>> table = read("t", pl.DataFrame({"race": ["a", "b"], "pct": ["8.0", "13.4 %"]}))
    >>> table.frame["pct"].to_list(), table.digits["pct"], sorted(table.percent)
    ([8.0, 13.4], (1, 1), ['pct'])
    """
    columns, digits, percent, broken = {}, {}, set(), []
    for column in text.columns:
        cells = [(word or "").strip().replace("−", "-") for word in text[column].cast(pl.String)]
        if not _numeric(cells):
            empty = all(word.casefold() in _NOTHING for word in cells)
            columns[column] = pl.Series(column, text[column], pl.Null if empty else pl.String, strict=False)
            continue
        broken += [(row, column, word) for row, word in enumerate(cells) if _BROKEN.fullmatch(word)]
        parsed = [_number(word) for word in cells]
        whole = all(one is None or one[1] == 0 for one in parsed)
        values = [None if one is None else one[0] for one in parsed]
        columns[column] = pl.Series(column, values, pl.Float64).cast(pl.Int64 if whole else pl.Float64)
        digits[column] = tuple(None if one is None else one[1] for one in parsed)
        percent |= {column} if any(word.endswith("%") for word in cells) else set()
    return Table(name, pl.DataFrame(columns), digits, frozenset(percent), tuple(broken))


def _numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers: at least one, and nothing that is neither a number nor a gap."""
    written = [word for word in cells if word.casefold() not in _NOTHING and not _BROKEN.fullmatch(word)]
    return any(_number(word) for word in written) and all(
        _number(word) is not None or word[0] in _BOUND for word in written
    )


def _number(word: str) -> tuple[float, int] | None:
    """The number and how many decimals it is printed with."""
    bare = word.removesuffix("%").strip()
    found = _NUMBER.fullmatch(bare)
    if found is None:
        return None
    scaled = "e" in bare.casefold()
    return float(bare.replace(",", "")), ROUNDED + 1 if scaled else len(found[2] or "")


def attainable(printed: ArrayLike, digits: int, n: ArrayLike, of: int = 100) -> NDArray[np.bool_]:
    """Whether a number printed with `digits` decimals can be `of` · k / n for a whole k.

    With of = 100 it is a percentage of n things, with of = 1 a share of them, or a mean of n whole scores (GRIM).
    A k is found if |of · k / n − printed| ≤ half a unit of the last digit: halves may be rounded either way.

    >>> attainable([15.0, 15.1, 15.4], digits=1, n=240).tolist()  # 36 of 240 is 15.0, 37 is 15.4
    [True, False, True]
    >>> attainable([2.53, 2.54], digits=2, n=15, of=1).tolist()  # a mean of 15 scores
    [True, False]
    """
    units = np.rint(np.asarray(printed, float) * 10**digits).astype(np.int64)
    count = np.asarray(n, np.int64)
    unit = of * 10**digits
    over = (units * count) % unit
    return np.asarray(2 * np.minimum(over, unit - over) <= count)


def telling(digits: int, n: float, of: int = 100) -> bool:
    """Whether n is small enough for some printed number to be impossible.

    >>> telling(1, 240), telling(1, 1680)
    (True, False)
    """
    return bool(0 < n < of * 10**digits)


def neighbours(printed: float, digits: int, n: int, of: int = 100) -> str:
    """The possible numbers on both sides.

    >>> neighbours(15.1, 1, 240)
    '36/240 = 15.0, 37/240 = 15.4'
    """
    exact = printed * n / of
    both = (floor(exact + EXACT), ceil(exact - EXACT))
    return ", ".join(f"{k}/{n} = {of * k / n:.{digits}f}" for k in dict.fromkeys(both))


def common(printed: ArrayLike, digits: int, low: int, high: int, of: int = 100) -> int | None:
    """The largest n from `low` to `high` that makes all the numbers possible, if there is one.

    >>> common([15.1, 8.9], digits=1, low=100, high=240)
    225
    """
    for n in range(high, low - 1, -1):
        if attainable(printed, digits, n, of).all():
            return n
    return None
