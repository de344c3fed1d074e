"""Columns as strings: a letter or a few for each row, so that a browser reads a hundred thousand rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)


def packed(codes: Sequence[int] | np.ndarray[Any, Any] | pl.Series, most: int | None = None) -> dict[str, Any]:
    """Whole numbers from 0: how many letters each takes, and the letters. `most`: the highest that may occur."""
    numbers = np.asarray(codes, np.int64)
    highest = int(most if most is not None else numbers.max(initial=0))
    width = 1 if highest < 64 else 2 if highest < 64**2 else 3
    digits = [(numbers // 64**place) % 64 for place in reversed(range(width))]
    letters = _LETTERS[np.stack(digits, axis=1)] if len(numbers) else np.empty(0, np.uint8)
    return {"width": width, "codes": letters.tobytes().decode()}


def column(values: Iterable[str | None], order: Iterable[str] = ()) -> dict[str, Any]:
    """The different values, and for each row which; a missing one is the empty text, which no filter asks for."""
    listed = ["" if value is None else value for value in values]
    known = list(dict.fromkeys([*order, *listed]))
    place = {value: code for code, value in enumerate(known)}
    return {"values": known, **packed([place[value] for value in listed], len(known) - 1)}


def plus_one(values: pl.Series) -> dict[str, Any]:
    """Small whole numbers from 0; a missing one is 0, all others are one more."""
    return packed((values.cast(pl.Int64) + 1).fill_null(0))
