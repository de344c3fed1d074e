"""Which edits are asked for, as the query of an address says it: a filter a name, a value or several. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

PAGE = "page"
LONGEST = 200  # characters of a value

# Of a trial; several values of one filter are alternatives
OF_TRIAL = ("experiment", "editor", "arm", "category", "prompt", "status", "ended", "stage", "person", "trial")
# Of a score on an axis; `outcome` and `axis` say which axis is meant, and without them it is any
OF_SCORE = ("outcome", "happened", "axis", "low", "high", "flag", "why", "standing", "single")
REST = ("text", "rounding", "sort")


@dataclass(frozen=True)
class Query:
    """Filters with their values, in one order; none is empty. Equal questions are equal."""

    chosen: tuple[tuple[str, str], ...] = ()
    page: int = field(default=1, compare=False)

    @classmethod
    def read(cls, pairs: Iterable[tuple[str, str]], dimensions: Iterable[str]) -> Query:
        """What an address asks. Names that are no filter are left out; unknown values find nothing."""
        order = [*OF_TRIAL, *dimensions, *OF_SCORE, *REST]
        listed = [(name, value.strip()[:LONGEST]) for name, value in pairs]
        chosen = dict.fromkeys(pair for pair in listed if pair[0] in order and pair[1])
        page = next((value for name, value in listed if name == PAGE and value.isdecimal()), "1")
        return cls(tuple(sorted(chosen, key=lambda pair: order.index(pair[0]))), max(1, int(page[:9])))

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for known, value in self.chosen if known == name)

    def one(self, name: str, otherwise: str = "") -> str:
        """The value of a filter that takes one."""
        return next(iter(self.all(name)), otherwise)

    def number(self, name: str) -> int | None:
        found = self.one(name)
        return int(found) if found.isdecimal() and len(found) < 9 else None

    def names(self) -> Iterator[str]:
        """Every filter that is set, once."""
        yield from dict.fromkeys(name for name, _ in self.chosen)

    def without(self, name: str, value: str = "") -> Query:
        """Without a filter, or without one of its values."""
        return Query(tuple(pair for pair in self.chosen if pair[0] != name or (value and pair[1] != value)))

    def plus(self, more: Mapping[str, str]) -> Query:
        return Query((*self.chosen, *more.items()))

    def text(self, page: int = 1) -> str:
        """As it stands in an address."""
        return urlencode([*self.chosen, *([(PAGE, str(page))] if page > 1 else [])])
