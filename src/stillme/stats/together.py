"""Checks tables against each other: what one says of groups, another says of the whole, or says again.

Tables are matched by what stands in them: columns named like another table's rows, the same rows under quantities
that are called the same, a split of the same counts. A match is named in what is said, so that a reader can judge
it. Knows no file, and no protocol: which columns split a whole is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.stats.lint import Finding, Linted, Ran, found, is_percent, lint_table, percentages, some
from stillme.stats.printed import Table

COUNTS = ("asked", "judged", "missing", "hits", "answered", "refused", "failed")
SHARED_ROWS = 3  # two tables with fewer rows in common may be alike by chance
_FILLERS = frozenset(("by", "and", "of", "the", "table", "pct", "percent", "per"))


def lint_together(
    tables: Sequence[Table], n: int | None = None, totals: str | None = None, splits: Sequence[str] = ()
) -> list[Linted]:
    """Every table by itself, then against the others. `totals`: the only table that may hold the others' totals.

    `splits`: columns whose values divide a whole into parts, so that counts over them must add up.
    """
    across = [*_totals(tables, totals, n), *_twice(tables), *_splits(tables, splits)]
    return [_joined(table, n, [ran for name, ran in across if name == table.name]) for table in tables]


def _joined(table: Table, n: int | None, across: Sequence[Ran]) -> Linted:
    """A rule that another table made possible replaces the same rule without it."""
    own = lint_table(table, n)
    again = {ran.rule for ran in across}
    return Linted(table.name, (*(ran for ran in own.ran if ran.rule not in again), *across))


# Groups in columns, their totals in another table's rows


def _totals(tables: Sequence[Table], only: str | None, n: int | None) -> Iterator[tuple[str, Ran]]:
    for table, whole in permutations(tables, 2):
        if only is not None and whole.name != only:
            continue
        key = _row_of(table, whole)
        column = _quantity(table, whole, key) if key is not None else None
        if key is not None and column is not None:
            yield table.name, _against_totals(table, whole, key, column)
            each = n or _cell_size(table, whole)
            ran = percentages(table, each, table.numeric) if each and is_percent(whole, column) else None
            if ran is not None:
                yield table.name, ran


def _row_of(table: Table, whole: Table) -> str | None:
    """The column of `whole` whose words are the names of all of the table's columns of numbers."""
    if len(table.words) != 1 or len(table.numeric) < 2 or table.frame.height < 2:
        return None
    for key in whole.words:
        values = whole.frame[key].to_list()
        if set(table.numeric) <= set(values) and len(set(values)) == len(values):
            return key
    return None


def _quantity(table: Table, whole: Table, key: str) -> str | None:
    """The column of `whole` that the table is about: by name, else the only one whose totals the groups span."""
    columns = [name for name in whole.numeric if name not in ("n", "persons")]
    alike = {name: len(_common(_named(name), _about(table))) for name in columns}
    best = [name for name in columns if alike[name] == max(alike.values()) > 0]
    if len(best) != 1:
        best = [name for name in best or columns if _among(table, whole, key, name)]
    return best[0] if len(best) == 1 else None


def _among(table: Table, whole: Table, key: str, column: str) -> bool:
    """Whether every column's total lies among its numbers."""
    totals = whole.numbers(column)
    return all(_spans(table.numbers(name), totals[_place(whole, key, name)]) for name in table.numeric)


def _spans(values: NDArray[np.float64], total: float) -> bool:
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool(known.min() <= total <= known.max())


def _place(whole: Table, key: str, name: str) -> int:
    return whole.frame[key].to_list().index(name)


def _cell_size(table: Table, whole: Table) -> int | None:
    """How many things a group has, if the whole divides evenly into the groups."""
    sizes = set(whole.frame["n"].to_list()) if "n" in whole.frame.columns else set()
    size = sizes.pop() if len(sizes) == 1 else None
    rows = table.frame.height
    return size // rows if isinstance(size, int) and size % rows == 0 else None


def _against_totals(table: Table, whole: Table, key: str, column: str) -> Ran:
    """Groups of equal size force the total to be their mean, within the rounding of both."""
    findings, fitting = [], []
    for name in table.numeric:
        values, row = table.numbers(name), _place(whole, key, name)
        total, mean = float(whole.numbers(column)[row]), float(np.mean(values))
        if np.isnan(mean) or np.isnan(total):
            continue
        room = float(table.half(name).mean()) + float(whole.half(column)[row])
        told = (
            f"the mean of the {len(values)} rows is {mean:.2f}, and {whole.name} says {whole.shown(column, row)}"
        )
        if abs(mean - total) > room:
            findings.append(_cannot(table, whole, name, f"{name}: {told} ({column}).", abs(mean - total), room))
        else:
            fitting.append(f"{name} fits its total: {told}")
    return Ran("totals", len(findings) + len(fitting), tuple(findings), some(fitting))


def _cannot(table: Table, whole: Table, name: str, said: str, apart: float, room: float) -> Finding:
    each = _cell_size(table, whole)
    equal = f"With {each} in each row" if each else "With rows of equal size"
    sentence = f"{said} {equal} the total is the mean; rounding explains {room:.2g}, not {apart:.2f}."
    return found(table, "totals", name, (), sentence)


# The same quantity in two tables


def _twice(tables: Sequence[Table]) -> Iterator[tuple[str, Ran]]:
    for first, second in permutations(tables, 2):
        if len(first.words) == len(second.words) == 1 and first.words == second.words:
            for one in first.numeric:
                for other in second.numeric:
                    if _same(first, one, second, other):
                        yield from _agreement(first, one, second, other)


def _same(first: Table, one: str, second: Table, other: str) -> bool:
    """Each column's words stand in the other's name or in its table's, and at least two are common to both."""
    left, right = _named(one), _named(other)
    whole_left, whole_right = left | _about(first), right | _about(second)
    covered = len(_common(left, whole_right)) == len(left) and len(_common(right, whole_left)) == len(right)
    return covered and bool(_common(left, right)) and len(_common(whole_left, whole_right)) > 1


def _agreement(first: Table, one: str, second: Table, other: str) -> Iterator[tuple[str, Ran]]:
    places = {label: row for row, label in enumerate(second.frame[second.words[0]].to_list())}
    labels = first.frame[first.words[0]].to_list()
    pairs = [(row, places[label]) for row, label in enumerate(labels) if label in places]
    if len(pairs) < SHARED_ROWS:
        return
    left, right = first.numbers(one), second.numbers(other)
    room = [first.half(one)[a] + second.half(other)[b] for a, b in pairs]
    bad = [(a, b) for (a, b), r in zip(pairs, room, strict=True) if abs(left[a] - right[b]) > r]
    told = some([f"{labels[a]} {first.shown(one, a)} and {second.shown(other, b)}" for a, b in bad])
    sentence = f"{one} is not {other} of {second.name}: {told}."
    findings = (found(first, "said twice", one, [a for a, _ in bad], sentence),) if bad else ()
    fits = f"{one} agrees with {other} of {second.name} in all {len(pairs)} rows"
    yield first.name, Ran("said twice", len(pairs), findings, "" if bad else fits)


# Counts of groups that sum to those of the whole


def _splits(tables: Sequence[Table], splits: Sequence[str]) -> Iterator[tuple[str, Ran]]:
    for part, whole in permutations(tables, 2):
        extra = [name for name in part.words if name not in whole.words]
        counts = [name for name in COUNTS if name in part.numeric and name in whole.numeric]
        if extra and set(extra) <= set(splits) and set(whole.words) < set(part.words) and counts:
            ran = _summed(part, whole, " × ".join(extra), counts)
            if ran is not None:
                yield part.name, ran


def _summed(part: Table, whole: Table, split: str, counts: Sequence[str]) -> Ran | None:
    keys = whole.words
    sums = part.frame.group_by(keys, maintain_order=True).agg(pl.col(name).sum() for name in counts)
    both = sums.join(whole.frame.select(*keys, *counts), on=keys, how="inner", suffix=":whole", nulls_equal=True)
    if both.height == 0 or both.height != whole.frame.height:
        return None  # not a split of this table's rows
    findings = []
    for name in counts:
        bad = both.filter(pl.col(name) != pl.col(f"{name}:whole"))
        if bad.height:
            said = some(
                [f"{_row(row, keys)} {row[name]} against {row[f'{name}:whole']}" for row in bad.to_dicts()]
            )
            sentence = f"{name} over {split} does not sum to that of {whole.name}: {said}."
            findings.append(found(part, "sums over groups", name, (), sentence))
    return Ran("sums over groups", both.height * len(counts), tuple(findings))


def _row(row: dict[str, object], keys: Sequence[str]) -> str:
    return " · ".join(str(row[key]) for key in keys)


# Names


def _named(column: str) -> frozenset[str]:
    """The words of a name, without those that say nothing.

    >>> sorted(_named("race_changed_pct"))
    ['changed', 'race']
    """
    return frozenset(re.findall(r"[a-z]+", column.casefold())) - _FILLERS


def _about(table: Table) -> frozenset[str]:
    """What a table's name says that it is about; what follows "by" is how it is split."""
    stem = re.sub(r"\.[a-z]+$", "", table.name.casefold())
    return _named(re.split(r"(?:^|[_\W])by[_\W]", stem)[0])


def _common(left: frozenset[str], right: frozenset[str]) -> set[str]:
    """Words of `left` that stand in `right`, an ending more or less."""
    return {a for a in left if any(a == b or (min(len(a), len(b)) > 3 and _starts(a, b)) for b in right)}


def _starts(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
