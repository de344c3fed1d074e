"""Checks a table of results against itself: can its numbers stand beside each other?

Each rule looks at the columns that it knows and says nothing where they are absent. What a finding shows is that
a table contradicts itself or claims more than its persons can carry; a table that passes may still be wrong. Rules
that need a second table are in `together`. Knows no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.stats import printed
from stillme.stats.intervals import FEW_PERSONS, FEWEST_FOR_INTERVAL
from stillme.stats.printed import ROUNDED, Table

MOST_ZEROS = 0.5  # a paired test in which more of the differences are zero hangs on what is done with them
SHOWN = 3  # examples in a sentence; the rest is counted


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """What one rule found in one column of one table. `rows`: as they call themselves. `said`: a sentence."""

    table: str
    rule: str
    severity: Severity
    column: str
    rows: tuple[str, ...]
    said: str


@dataclass(frozen=True)
class Ran:
    """A rule that was run. `checked`: how many numbers or rows; `said`: what it can vouch for, if that is news."""

    rule: str
    checked: int
    findings: tuple[Finding, ...] = ()
    said: str = ""


@dataclass(frozen=True)
class Linted:
    """One table and every rule that its columns allowed."""

    table: str
    ran: tuple[Ran, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for ran in self.ran for finding in ran.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.ERROR)


def lint_frame(
    frame: pl.DataFrame, name: str = "table", n: int | None = None, keys: Sequence[str] | None = None
) -> Linted:
    """Every rule that the frame's columns allow. `n`: what percentages are of, where no column says it.

    `keys`: the columns of which no combination may come twice; all columns of words, where none are given.

    >>> frame = pl.DataFrame({"asked": [20], "judged": [19], "missing": [0], "hits": [3], "rate": [3 / 19]})
    >>> [finding.said for finding in lint_frame(frame).findings]
    ['asked is not judged + missing: row 1 has 20, and 19 + 0 = 19.']
    """
    return lint_table(printed.typed(name, frame), n, keys)


def lint_table(table: Table, n: int | None = None, keys: Sequence[str] | None = None) -> Linted:
    """The same for a table whose digits are known."""
    ran = [rule(table) for rule in RULES]
    ran += [percentages(table, n), means(table, n), duplicates(table, keys)]
    return Linted(table.name, tuple(one for one in ran if one is not None))


# What rules share

_One = TypeVar("_One")


def found(
    table: Table, rule: str, column: str, rows: Iterable[int], said: str, severity: Severity = Severity.ERROR
) -> Finding:
    return Finding(table.name, rule, severity, column, table.labels(list(rows)), said)


def some(examples: Sequence[_One], tell: Callable[[_One], str] = str) -> str:
    """The first few, told, and how many more.

    >>> some(["a", "b", "c", "d", "e"])
    'a; b; c; and 2 more'
    """
    more = len(examples) - SHOWN
    first = [tell(one) for one in examples[:SHOWN]]
    return "; ".join([*first, *([f"and {more} more"] if more > 0 else [])])


def _values(table: Table, column: str, rows: Sequence[int]) -> str:
    return some(rows, lambda row: f"{table.label(row)} has {table.shown(column, row)}")


def _has(table: Table, *columns: str) -> bool:
    return all(column in table.frame.columns and table.frame[column].dtype.is_numeric() for column in columns)


def _rows(bad: NDArray[np.bool_]) -> list[int]:
    return [int(row) for row in np.flatnonzero(bad)]


def _known(*columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(np.all([~np.isnan(column) for column in columns], axis=0))


def is_percent(table: Table, column: str) -> bool:
    """By its sign, by its name, or because a share cannot be beyond 1."""
    if column in table.percent or re.search(r"(^|_)(pct|percent)($|_)|%", column.casefold()):
        return True
    values = table.numbers(column)
    values = values[~np.isnan(values)]
    return _is_share(column) and len(values) > 0 and float(np.median(values)) > 1


def _is_share(column: str) -> bool:
    return re.search(r"(^|_)(rate|share)$", column) is not None


def _of(table: Table, column: str) -> int:
    """What the whole is called: 100 in per cent, else 1."""
    return 100 if is_percent(table, column) else 1


# Numbers that are none


def finite(table: Table) -> Ran:
    cells = table.frame.height * len(table.numeric)
    findings = []
    for column in dict.fromkeys(column for _, column, _ in table.broken):
        rows = [row for row, where, _ in table.broken if where == column]
        said = f"{column} is not a number in {some(rows, table.label)}; a missing value is empty."
        findings.append(found(table, "numbers", column, rows, said))
    return Ran("numbers", cells, tuple(findings))


# Counts and what follows from them

WHOLES = (
    ("asked", ("judged", "missing")),
    ("asked", ("answered", "refused", "failed", "pending")),
    ("decided", ("answered", "refused")),
)
WITHIN = (
    ("hits", "judged"),
    ("hits", "read"),
    ("judged", "asked"),
    ("read", "asked"),
    ("decided", "asked"),
    ("single", "judged"),
    ("flagged", "asked"),
)
SHARES = (
    ("rate", "hits", "judged"),
    ("rate", "hits", "read"),
    ("rate", "refused", "decided"),
    ("nominal_rate", "hits", "asked"),
)


def denominators(table: Table) -> Ran | None:
    """Parts sum to their whole, a part is not larger than its whole, and no count is negative."""
    rules = [*_sums(table), *_parts(table)]
    if not rules:
        return None
    findings = [finding for finding in (*rules, _negative(table)) if finding is not None]
    return Ran("denominators", table.frame.height * len(rules), tuple(findings))


def _sums(table: Table) -> Iterator[Finding | None]:
    for whole, parts in WHOLES:
        if _has(table, whole, *parts):
            yield _unsummed(table, whole, parts)


def _unsummed(table: Table, whole: str, parts: Sequence[str]) -> Finding | None:
    total, pieces = table.numbers(whole), [table.numbers(part) for part in parts]
    bad = _rows(_known(total, *pieces) & (np.sum(pieces, axis=0) != total))
    said = some(bad, lambda row: f"{table.label(row)} has {_sum_of(total, pieces, row)}")
    sentence = f"{whole} is not {' + '.join(parts)}: {said}."
    return found(table, "denominators", whole, bad, sentence) if bad else None


def _sum_of(total: NDArray[np.float64], pieces: Sequence[NDArray[np.float64]], row: int) -> str:
    terms = " + ".join(f"{piece[row]:g}" for piece in pieces)
    return f"{total[row]:g}, and {terms} = {sum(float(piece[row]) for piece in pieces):g}"


def _parts(table: Table) -> Iterator[Finding | None]:
    for part, whole in WITHIN:
        if _has(table, part, whole):
            yield _too_many(table, part, whole)


def _too_many(table: Table, part: str, whole: str) -> Finding | None:
    less, more = table.numbers(part), table.numbers(whole)
    bad = _rows(_known(less, more) & (less > more))
    said = some(bad, lambda row: f"{table.label(row)} has {less[row]:g} of {more[row]:g}")
    return found(table, "denominators", part, bad, f"{part} is more than {whole}: {said}.") if bad else None


def _negative(table: Table) -> Finding | None:
    counts = [name for name in dict.fromkeys((*_COUNTED, "persons", "n")) if _has(table, name)]
    for column in counts:
        bad = _rows(table.numbers(column) < 0)
        if bad:
            said = f"{column} counts things and is negative: {some(bad, table.label)}."
            return found(table, "denominators", column, bad, said)
    return None


_COUNTED = tuple({name for whole, parts in WHOLES for name in (whole, *parts)} | {"hits", "read", "decided"})


def shares(table: Table) -> Ran | None:
    """A rate is its hits over its denominator, within the rounding of its digits; no denominator, no rate."""
    known = [(rate, hits, of) for rate, hits, of in SHARES if _has(table, rate, hits, of)]
    findings = [finding for one in known for finding in _share(table, *one)]
    return Ran("rates from counts", table.frame.height * len(known), tuple(findings)) if known else None


def _share(table: Table, rate: str, hits: str, of: str) -> Iterator[Finding]:
    scale, told = _of(table, rate), table.numbers(rate)
    top, bottom = table.numbers(hits), table.numbers(of)
    known = _known(told, top, bottom)
    expected = np.divide(scale * top, bottom, out=np.zeros_like(told), where=known & (bottom > 0))
    bad = _rows(known & (bottom > 0) & (np.abs(told - expected) > table.half(rate)))
    if bad:
        said = some(bad, lambda row: _against(table, rate, row, f"{top[row]:g}/{bottom[row]:g}", expected[row]))
        yield found(table, "rates from counts", rate, bad, f"{rate} is not {hits} ÷ {of}: {said}.")
    void = _rows(known & (bottom == 0))
    if void:
        said = some(void, table.label)
        yield found(table, "rates from counts", rate, void, f"{rate} of nothing: {of} is 0 in {said}.")


def _against(table: Table, column: str, row: int, formula: str, value: float) -> str:
    return f"{table.label(row)} says {table.shown(column, row)}, and {formula} = {value:.4g}"


# Intervals

_ESTIMATES = ("rate", "difference", "mean", "estimate", "corrected", "gap", "net", "kappa", "alpha", "odds_ratio")


def intervals(table: Table) -> Ran | None:
    """An interval has its ends in order, holds its estimate, and a share's stays within 0 and 1."""
    pairs = list(_pairs(table))
    findings = [finding for low, high, estimates in pairs for finding in _interval(table, low, high, estimates)]
    return Ran("intervals", table.frame.height * len(pairs), tuple(findings)) if pairs else None


def _pairs(table: Table) -> Iterator[tuple[str, str, list[str]]]:
    """Low and high ends, and the columns that may be the estimate between: by name, or the one to the left."""
    for low in table.numeric:
        high = re.sub(r"(^|_)low($|_)", r"\1high\2", low)
        if high != low and _has(table, high):
            stem = re.sub(r"(^low_?|_?low$)", "", low)
            left = table.frame.columns[: table.frame.columns.index(low)][-1:]
            named = [stem] if stem else dict.fromkeys((*_ESTIMATES, *left))
            yield low, high, [name for name in named if _has(table, name) and not _is_count(table, name)]


def _is_count(table: Table, column: str) -> bool:
    return table.frame.schema[column].is_integer()


def _interval(table: Table, low: str, high: str, estimates: Sequence[str]) -> Iterator[Finding]:
    below, above = table.numbers(low), table.numbers(high)
    known = _known(below, above)
    crossed = _rows(known & (below > above))
    if crossed:
        said = some(crossed, lambda row: _span(table, low, high, row))
        yield found(table, "intervals", low, crossed, f"{low} is above {high}: {said}.")
    if estimates:
        lost = _rows(known & (below <= above) & ~_held(table, low, high, estimates))
        said = some(lost, lambda row: f"{_span(table, low, high, row)} around {_told(table, estimates, row)}")
        if lost:
            sentence = f"{low} to {high} does not hold its estimate: {said}."
            severity = Severity.ERROR if low == "low" else Severity.WARNING  # a corrected figure may leave its own
            yield found(table, "intervals", low, lost, sentence, severity)
    yield from _beyond(table, low, high, estimates)


def _span(table: Table, low: str, high: str, row: int) -> str:
    return f"{table.label(row)} has {table.shown(low, row)} to {table.shown(high, row)}"


def _told(table: Table, estimates: Sequence[str], row: int) -> str:
    return " or ".join(f"{name} {table.shown(name, row)}" for name in estimates)


def _held(table: Table, low: str, high: str, estimates: Sequence[str]) -> NDArray[np.bool_]:
    """Rows whose interval holds one of the estimates, or that have none."""
    below, above = table.numbers(low) - table.half(low), table.numbers(high) + table.half(high)
    held, empty = np.zeros(len(below), bool), np.ones(len(below), bool)
    for name in estimates:
        value, half = table.numbers(name), table.half(name)
        held |= (below - half <= value) & (value <= above + half)
        empty &= np.isnan(value)
    return held | empty


def _beyond(table: Table, low: str, high: str, estimates: Sequence[str]) -> Iterator[Finding]:
    share = [name for name in estimates if _is_share(name)]
    for column in (*share, low, high) if share and len(share) == len(estimates) else share:
        value, whole = table.numbers(column), _of(table, share[0])
        bad = _rows((value < -table.half(column)) | (value > whole + table.half(column)))
        if bad:
            said = _values(table, column, bad)
            yield found(table, "intervals", column, bad, f"{column} is not between 0 and {whole}: {said}.")


def clusters(table: Table) -> Ran | None:
    """An interval needs persons: fewer than 8 carry none, fewer than 20 not every kind."""
    ends = [low for low, _, _ in _pairs(table)]
    counted = [name for name in table.numeric if re.fullmatch(r"((reference|others)_)?persons", name)]
    if not ends or not counted:
        return None
    given = np.any([~np.isnan(table.numbers(end)) for end in ends], axis=0)
    persons = np.min([np.where(np.isnan(p := table.numbers(name)), np.inf, p) for name in counted], axis=0)
    few, some_ = given & (persons < FEWEST_FOR_INTERVAL), given & (persons < FEW_PERSONS)
    findings = [*_few(table, counted[0], persons, few), *_rather_few(table, counted[0], persons, some_ & ~few)]
    return Ran("persons behind intervals", int(given.sum()), tuple(findings))


def _few(table: Table, column: str, persons: NDArray[np.float64], bad: NDArray[np.bool_]) -> Iterator[Finding]:
    rows = _rows(bad)
    if rows:
        said = some(rows, lambda row: f"{table.label(row)} has an interval from {_persons(persons[row])}")
        fewest = f"of fewer than {FEWEST_FOR_INTERVAL} an interval cannot be known"
        yield found(table, "persons behind intervals", column, rows, f"{said}; {fewest}.")


def _persons(count: float) -> str:
    return "1 person" if count == 1 else f"{count:g} persons"


def _rather_few(
    table: Table, column: str, persons: NDArray[np.float64], bad: NDArray[np.bool_]
) -> Iterator[Finding]:
    rows = _rows(bad)
    if rows:
        sizes = sorted({int(persons[row]) for row in rows})
        counts = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        said = (
            f"{len(rows)} of {table.frame.height} intervals come from {counts} persons; below {FEW_PERSONS}"
            " a percentile bootstrap is too narrow, and only intervals made for few persons hold."
        )
        yield found(table, "persons behind intervals", column, rows, said, Severity.WARNING)


# Tests

_P_VALUE = re.compile(r"^p$|^p_|_p$|^p_?value")


def p_values(table: Table) -> Ran | None:
    """p lies between 0 and 1, and correcting for a family does not make it smaller."""
    columns = [name for name in table.numeric if _P_VALUE.search(name)]
    findings = []
    for column in columns:
        value = table.numbers(column)
        bad = _rows((value < 0) | (value > 1))
        if bad:
            said = _values(table, column, bad)
            findings.append(found(table, "p-values", column, bad, f"{column} is not between 0 and 1: {said}."))
    for column in [name for name in ("p_holm", "p_bh", "p_by") if _has(table, "p", name)]:
        bad = _rows(table.numbers(column) < table.numbers("p") - table.half("p") - table.half(column))
        if bad:
            said = _values(table, column, bad)
            findings.append(found(table, "p-values", column, bad, f"{column} is smaller than p: {said}."))
    return Ran("p-values", table.frame.height * len(columns), tuple(findings)) if columns else None


_PAIRED = "(?i)wilcoxon|signed.?rank"
_ZEROS = ("zeros", "zero_share", "share_zero", "zero")


def zeros(table: Table) -> Ran | None:
    """A paired rank test hangs on differences of zero: how many there are belongs beside it."""
    printed_zeros = next((name for name in _ZEROS if _has(table, name)), None)
    if printed_zeros is not None:
        return _many_zeros(table, printed_zeros)
    texts = [pl.col(name).str.contains(_PAIRED) for name in table.words if table.frame.schema[name] == pl.String]
    told = table.frame.select(pl.any_horizontal(texts).fill_null(False)) if texts else None
    rows = [] if told is None else _rows(told.to_series().to_numpy())
    columns = [name for name in table.numeric if re.search(_PAIRED, name)]
    if not rows and not columns:
        return None
    where = some(table.labels(rows) or columns)
    said = f"The share of differences that are zero is not printed beside {where}; the p-value depends on it."
    column = columns[0] if columns else table.words[0]
    finding = found(table, "zero differences", column, rows, said, Severity.WARNING)
    return Ran("zero differences", len(rows) or len(columns), (finding,))


def _many_zeros(table: Table, column: str) -> Ran:
    share = table.numbers(column) / _of(table, column)
    if not all(0 <= one <= 1 for one in share[~np.isnan(share)]):  # a count: what it is of is not said
        return Ran("zero differences", 0)
    bad = _rows(share > MOST_ZEROS)
    said = some(bad, lambda row: f"{table.label(row)} has {share[row]:.0%}")
    sentence = f"More than half of the differences are zero: {said}; say which way of treating zeros was used."
    findings = (found(table, "zero differences", column, bad, sentence, Severity.WARNING),) if bad else ()
    return Ran("zero differences", table.frame.height, findings)


# Differences and totals inside a table

_DIFFERENCES = (
    ("difference", "others_rate", "reference_rate"),
    ("difference", "others_mean", "reference_mean"),
    ("difference", "mean", "others_mean"),
    ("difference", "second_mean", "first_mean"),
    ("disparity", "highest", "lowest"),
)
_CHANGE = frozenset(("delta", "change", "difference", "diff"))
_BEFORE = frozenset(("before", "baseline", "control", "pre"))


def differences(table: Table) -> Ran | None:
    """A difference is the difference of the two columns that it is of, within the rounding of all three."""
    named = [one for one in _DIFFERENCES if one[0] != "disparity" or "highest_group" in table.frame.columns]
    known = [one for one in (*named, *_before_after(table)) if _has(table, *one)]
    return _difference(table, *known[0]) if known else None


def _difference(table: Table, change: str, after: str, before: str) -> Ran:
    told, gap = table.numbers(change), table.numbers(after) - table.numbers(before)
    room = table.half(change) + table.half(after) + table.half(before)
    bad = _rows(_known(gap, told) & (np.abs(gap - told) > room))
    formula, rows = f"{after} − {before}", table.frame.height
    if not bad:
        return Ran("differences", rows, said=f"{change} is {formula} in all {rows} rows")
    said = some(bad, lambda row: _against(table, change, row, formula, gap[row]))
    return Ran(
        "differences", rows, (found(table, "differences", change, bad, f"{change} is not {formula}: {said}."),)
    )


def _before_after(table: Table) -> Iterator[tuple[str, str, str]]:
    """Three columns of numbers: one is called a change, one what was before, and one is left."""
    change = [name for name in table.numeric if name.casefold() in _CHANGE]
    before = [name for name in table.numeric if name.casefold() in _BEFORE]
    others = [name for name in table.numeric if name not in (*change, *before)]
    after = [name for name in others if name.casefold() in ("after", "post")] or others
    if len(change) == len(before) == len(after) == 1:
        yield change[0], after[0], before[0]


_TOTAL = re.compile(r"(all|total|overall|mean|average)( groups| races)?", re.IGNORECASE)
_AVERAGE = re.compile(r"(mean|average).*", re.IGNORECASE)
_RANGE = re.compile(r"max(imum)? ?[-−–] ?min(imum)?|range|disparity", re.IGNORECASE)
_UNCERTAINTY = re.compile(r"(^|_)(sd|se|error|df|deff|z|t|chi2)$", re.IGNORECASE)


def closing_rows(table: Table) -> Ran | None:
    """Rows that sum up the others: the mean of groups of equal size, and max − min."""
    if len(table.words) != 1:
        return None
    labels = [str(word) for word in table.frame[table.words[0]]]
    totals = [row for row, label in enumerate(labels) if _TOTAL.fullmatch(label)]
    ranges = [row for row, label in enumerate(labels) if _RANGE.fullmatch(label)]
    groups = [row for row in range(len(labels)) if row not in (*totals, *ranges)]
    if not (totals or ranges) or len(groups) < 2:
        return None
    columns = _closable(table)
    findings = [one for column in columns for one in _closed(table, column, groups, totals, ranges)]
    return Ran("closing rows", len(columns) * len((*totals, *ranges)), tuple(findings))


def _closable(table: Table) -> list[str]:
    """Columns whose total follows from the rows. The uncertainty of a whole is not the mean of its parts'."""
    ends = {end for low, high, _ in _pairs(table) for end in (low, high)}
    others = [name for name in table.numeric if name not in ("n", "persons") and name not in ends]
    return [name for name in others if not _P_VALUE.search(name) and not _UNCERTAINTY.search(name)]


def _closed(
    table: Table, column: str, groups: Sequence[int], totals: Sequence[int], ranges: Sequence[int]
) -> Iterator[Finding]:
    values, half = table.numbers(column), table.half(column)
    inside = values[list(groups)]
    if np.isnan(inside).any():
        return
    for row in totals:
        yield from _summed_up(table, column, groups, row)
    for row in ranges:
        spread = float(inside.max() - inside.min())
        if abs(values[row] - spread) > 2 * float(half[list(groups)].max()) + half[row]:
            said = (
                f"{column}: max − min is {spread:.4g}, and '{table.label(row)}' says {table.shown(column, row)}."
            )
            yield found(table, "closing rows", column, [row], said)


def _summed_up(table: Table, column: str, groups: Sequence[int], row: int) -> Iterator[Finding]:
    """Counts add up, anything else has a mean. Whole numbers that may be either have to be one of them."""
    values, half, weights = table.numbers(column), table.half(column), _sizes(table, groups)
    inside, is_whole = values[list(groups)], table.frame[column].dtype.is_integer()
    is_average = _AVERAGE.fullmatch(table.label(row)) is not None
    adds_up = is_whole and not is_average and not is_percent(table, column)
    mean = float(np.average(inside, weights=weights))
    means = [] if adds_up and column in _COUNTED else [mean, float(inside.mean())] if is_average else [mean]
    room = 1.0 if is_whole else float(half[list(groups)].max()) + half[row]
    is_near = any(abs(values[row] - one) <= room for one in means)
    if np.isnan(values[row]) or is_near or (adds_up and values[row] == inside.sum()):
        return
    what, expected = ("sum to", float(inside.sum())) if adds_up else ("have the mean", mean)
    told = f"'{table.label(row)}' says {table.shown(column, row)}"
    is_sure = adds_up or weights is not None
    unsaid = "." if is_sure else ", which only groups of unequal size could explain."
    severity = Severity.ERROR if is_sure else Severity.WARNING
    said = f"{column}: the rows {what} {expected:.4g}, and {told}{unsaid}"
    yield found(table, "closing rows", column, [row], said, severity)


def _sizes(table: Table, groups: Sequence[int]) -> NDArray[np.float64] | None:
    """How many things each group's figure is of, where a column says so."""
    column = next((name for name in ("judged", "n") if _has(table, name)), None)
    if column is None:
        return None
    sizes = table.numbers(column)[list(groups)]
    return None if np.isnan(sizes).any() or sizes.sum() <= 0 else sizes


# Percentages and means that whole counts can give


def percentages(table: Table, n: int | None = None, columns: Sequence[str] = ()) -> Ran | None:
    """Every percentage can be 100 · k ÷ n, rounded, for a whole k. `columns` are some, whatever their names."""
    named = [name for name in table.numeric if name in columns or is_percent(table, name)]
    chosen = named or (_matrix(table) if n is not None else [])
    chosen += [name for name in ("rate", "share") if _has(table, name) and name not in chosen]
    return _grim(table, "attainable percentages", chosen, n, "percentages")


def means(table: Table, n: int | None = None) -> Ran | None:
    """Every mean of n whole scores can be k ÷ n, rounded."""
    chosen = [name for name in table.numeric if re.search(r"(^|_)mean(_|$)", name)]
    chosen += [name for _, after, before in _before_after(table) for name in (before, after)]
    return _grim(table, "attainable means", chosen, n, "means")


def _matrix(table: Table) -> list[str]:
    """Groups × models in per cent: words once, then numbers that are no scores, all with the same digits."""
    digits = {d for name in table.numeric for d in table.digits.get(name, ()) if d is not None}
    values = np.concatenate([table.numbers(name) for name in table.numeric] or [np.empty(0)])
    values = values[~np.isnan(values)]
    if len(table.words) != 1 or len(digits) != 1 or 0 in digits or len(values) == 0:
        return []
    return table.numeric if values.min() >= 0 and 5 < values.max() <= 100 else []


def _grim(table: Table, rule: str, columns: Sequence[str], n: int | None, what: str) -> Ran | None:
    counts = _counts(table, n, ("n", "N") if what == "means" else ("judged", "n", "N"))
    ran = [one for column in columns if (one := _possible(table, rule, column, counts, what)) is not None]
    if counts is None or not ran:
        return None
    large = [one.said for one in ran if one.said]
    said = f"n is so large that no number of {some(large)} is impossible" if large else ""
    checked = sum(one.checked for one in ran)
    return Ran(rule, checked, tuple(finding for one in ran for finding in one.findings), said)


def _counts(table: Table, n: int | None, names: Sequence[str]) -> NDArray[np.float64] | None:
    for name in names:
        if _has(table, name):
            return table.numbers(name)
    return None if n is None else np.full(table.frame.height, float(n))


def _possible(table: Table, rule: str, column: str, counts: NDArray[np.float64] | None, what: str) -> Ran | None:
    """One column, row by row: with its own digits and its own n."""
    digits = table.digits.get(column)
    if counts is None or digits is None:
        return None
    of = 100 if rule == "attainable percentages" and (is_percent(table, column) or not _is_share(column)) else 1
    values = table.numbers(column)
    known = [row for row, d in enumerate(digits) if d is not None and d <= ROUNDED and counts[row] > 0]
    rows = [row for row in known if printed.telling(digits[row] or 0, counts[row], of)]
    if not rows:
        return Ran(rule, 0, said=column) if known else None
    bad = [row for row in rows if not printed.attainable(values[row], digits[row] or 0, counts[row], of)]
    if not bad:
        return Ran(rule, len(rows))
    said = f"{column}: {len(bad)} of {len(rows)} {what} are not possible"
    examples = some(bad, lambda row: _impossible(table, column, row, int(counts[row]), of))
    sentence = f"{said}: {examples}. {_repair(values[rows], [digits[row] or 0 for row in rows], counts[rows], of)}"
    return Ran(rule, len(rows), (found(table, rule, column, bad, sentence, Severity.WARNING),))


def _impossible(table: Table, column: str, row: int, n: int, of: int) -> str:
    digits = table.digits[column][row] or 0
    near = printed.neighbours(float(table.frame[column][row]), digits, n, of)
    return f"{table.label(row)} {table.shown(column, row)} ({near})"


def _repair(values: NDArray[np.float64], digits: Sequence[int], counts: NDArray[np.float64], of: int) -> str:
    """Whether one other n, down to half of the stated one, would make the whole column possible."""
    n = int(counts.max())
    if len(set(digits)) > 1 or len(set(counts)) > 1:
        return "Then either n or the number is not as printed."
    repaired = printed.common(values, digits[0], n // 2, n, of)
    if repaired is None:
        return f"No n from {n // 2} to {n} makes the whole column possible."
    return f"With n = {repaired} the whole column would be possible."


# Keys


def duplicates(table: Table, keys: Sequence[str] | None = None) -> Ran | None:
    """No row comes twice. Keys that are not given are columns of words, and whole numbers that count nothing."""
    by = list(keys) if keys is not None else _keys(table)
    if not by or table.frame.height == 0:
        return None
    twice = table.frame.select(pl.struct(by).is_duplicated()).to_series().to_numpy()
    first = table.frame.select(pl.struct(by).is_first_distinct()).to_series().to_numpy()
    bad = _rows(twice & first)
    said = f"{', '.join(by)}: two rows or more for {some(bad, table.label)}."
    findings = (found(table, "keys", by[0], bad, said),) if bad else ()
    return Ran("keys", table.frame.height, findings)


def _keys(table: Table) -> list[str]:
    if not table.words:
        return []
    counted = {*_COUNTED, "n", "persons", "flagged", "adjudicated", "single"}
    whole = [name for name, kind in table.frame.schema.items() if kind.is_integer() and name not in counted]
    return [*table.words, *whole]


RULES: tuple[Callable[[Table], Ran | None], ...] = (
    finite,
    denominators,
    shares,
    intervals,
    clusters,
    p_values,
    zeros,
    differences,
    closing_rows,
)
