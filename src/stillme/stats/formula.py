"""From labels to the columns of a model: categorical variables, their interactions, and sums of coefficients.

Every variable has levels of which the first is the reference; a term is a variable or several that interact. A
design is made of the *cells* (combinations of levels that occur), which are few, however many rows there are.
Knows nothing of scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np
import polars as pl

from stillme.stats.cumulative import Floats

Term: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """Variables with their levels, and the terms that are in the model.

    >>> one = Formula({"a": ("x", "y"), "b": ("u", "v", "w")}, (("a",), ("a", "b")))
    >>> one.names
    ('a=y', 'a=y:b=v', 'a=y:b=w')
    >>> one.without("b").names
    ('a=y',)
    """

    levels: Mapping[str, tuple[str, ...]]
    terms: tuple[Term, ...]

    @property
    def columns(self) -> tuple[Mapping[str, str], ...]:
        """Of each column the levels that have a 1 in it."""
        return tuple(
            dict(zip(term, chosen, strict=True))
            for term in self.terms
            for chosen in product(*(self.levels[variable][1:] for variable in term))
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(":".join(f"{k}={v}" for k, v in column.items()) for column in self.columns)

    def matrix(self, cells: pl.DataFrame) -> Floats:
        """One row per cell, one column per name."""
        found = np.ones((cells.height, len(self.columns)))
        for k, column in enumerate(self.columns):
            for variable, level in column.items():
                found[:, k] *= (cells[variable] == level).to_numpy()
        return found

    def without(self, *dropped: str) -> Formula:
        """The same without every term that has all of these variables."""
        return replace(self, terms=tuple(term for term in self.terms if not set(dropped) <= set(term)))

    def has(self, *variables: str) -> bool:
        return any(set(variables) <= set(term) for term in self.terms)


def formula(levels: Mapping[str, Sequence[str]], terms: Sequence[Term]) -> Formula:
    """Without the terms of which a variable has one level: they say nothing."""
    known = {variable: tuple(found) for variable, found in levels.items()}
    return Formula(known, tuple(t for t in terms if all(len(known.get(v, ())) > 1 for v in t)))
