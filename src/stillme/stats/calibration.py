"""What judges said of pairs whose truth is known: what they saw, what they saw that was not there, in whom.

`looks` has a row for every look × axis: judge, kind, person, the reference dimension, as_audited (asked as the
audit asks), told (everything about the person was told), repeat, status, axis, score (null where there is none).
Looks as the audit asks, first and second, make every table; the other looks stand in `disclosure` alone. Intervals
are over persons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from stillme.protocol import Protocol
from stillme.protocol.schema import Calibration as Rules
from stillme.protocol.schema import CalibrationPairKind, Gate
from stillme.stats import gate
from stillme.stats.gaps import gaps
from stillme.stats.gate import Ruled, Ruling
from stillme.stats.means import by_groups, means, shares

TOGETHER = "all"  # the pool of every kind without a change
_SURE = {"gap": pl.Float64, "low": pl.Float64, "high": pl.Float64, "p": pl.Float64}


@dataclass(frozen=True)
class Calibration:
    """The tables, and what the gate says. `group` is null in the rows of everybody.

    `took`: judge, attempts and cost_usd of its calls.
    """

    dimension: str
    judges: tuple[str, ...]
    kinds: pl.DataFrame  # judge × kind × axis: mean score, expected, off by how much
    specificity: pl.DataFrame  # judge × axis × group: unchanged pairs scored neutral
    sensitivity: pl.DataFrame  # judge × axis × size × group: direction of a shift seen
    swapped: pl.DataFrame  # judge × axis × group: direction seen in pairs shown the other way round
    person: pl.DataFrame  # judge × axis × group: another person seen
    bias: pl.DataFrame  # judge × axis × group: score minus truth of unchanged pairs
    edits: pl.DataFrame  # judge × made × group: made edits scored as made, others as not made
    retest: pl.DataFrame  # judge × axis: second looks equal to the first, and within one point
    disclosure: pl.DataFrame  # judge × axis × group: score with everything told minus score with less
    gaps: pl.DataFrame  # judge × pool × axis × group against the others, unchanged pairs
    missing: pl.DataFrame  # judge × kind × status: looks
    rulings: tuple[Ruled, ...]
    took: pl.DataFrame

    def verdict(self, judge: str) -> Ruling:
        return gate.overall([one.ruling for one in self.rulings if one.judge == judge])

    def reasons(self, judge: str) -> list[str]:
        """Why a judge did not pass, the failed rules first; empty where it passed."""
        own = [one for one in self.rulings if one.judge == judge and one.ruling is not Ruling.PASSED]
        return [one.said for one in sorted(own, key=lambda one: one.ruling is not Ruling.FAILED)]


def dimension_of(protocol: Protocol) -> str:
    """The reference dimension, by whose groups judges are compared."""
    return next(iter(protocol.groups.reference_group), next(iter(protocol.groups.dimensions)))


def calibration(looks: pl.DataFrame, protocol: Protocol, took: pl.DataFrame, seed: int = 0) -> Calibration:
    rules, dimension = _rules(protocol), dimension_of(protocol)
    every = marked(looks, protocol)
    main = every.filter("as_audited")
    unchanged = main.filter(pl.col("unchanged"))
    on_axes = unchanged.filter(pl.col("neutral").is_not_null())
    found = gap_table(unchanged, protocol, seed)
    tables = {
        "kinds": _kinds(main),
        "specificity": _shared(on_axes, "is_neutral", ["judge", "axis"], dimension),
        "sensitivity": _shared(main.filter(by="skin"), "seen", ["judge", "axis", "size"], dimension, "seen"),
        "swapped": _shared(main.filter("is_swapped"), "seen", ["judge", "axis"], dimension, "seen"),
        "person": _shared(main.filter(by="person", must_change=True), "right", ["judge", "axis"], dimension),
        "bias": _mean(on_axes, "off", ["judge", "axis"], dimension),
        "edits": _shared(main.filter(pl.col("neutral").is_null()), "right", ["judge", "made"], dimension),
        "retest": retest(main),
        "disclosure": disclosure(every, dimension),
        "gaps": found,
    }
    judges = tuple(looks["judge"].unique(maintain_order=True))
    rulings = tuple(one for judge in judges for one in _rulings(judge, tables, rules, protocol))
    return Calibration(dimension, judges, **tables, missing=missing(looks), rulings=rulings, took=took)


def _rules(protocol: Protocol) -> Rules:
    assert protocol.calibration is not None  # nothing was calibrated without it
    return protocol.calibration


# What is true


def truths(protocol: Protocol) -> pl.DataFrame:
    """kind × axis: what is expected, and what the pair is good for."""
    rules = _rules(protocol)
    rows = [
        {
            "kind": kind.id,
            "by": kind.by or "",
            "is_swapped": kind.swaps is not None,
            "unchanged": kind.is_unchanged,
            "made": kind.by == "frame",
            "size": None if kind.delta_l is None else abs(kind.delta_l),
            "axis": axis,
            "expected": float(one.score),
            "lowest": one.within[0],
            "highest": one.within[1],
            "neutral": protocol.axes[axis].neutral,
        }
        for kind in rules.kinds
        for axis, one in protocol.expected(kind).items()
    ]
    types: dict[str, Any] = dict.fromkeys(("size", "expected"), pl.Float64)
    types |= dict.fromkeys(("lowest", "highest", "neutral"), pl.Int64)
    return pl.DataFrame(rows, schema_overrides=types)


def marked(looks: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """Every score beside the truth. `seen`: null where there is no direction to see."""
    score, neutral, expected = pl.col("score"), pl.col("neutral"), pl.col("expected")
    told = looks.join(truths(protocol), on=["kind", "axis"], how="inner", maintain_order="left")
    return told.with_columns(
        off=score - expected,
        right=score.is_between(pl.col("lowest"), pl.col("highest")),
        is_neutral=score == neutral,
        must_change=((neutral < pl.col("lowest")) | (neutral > pl.col("highest"))).fill_null(False),
        seen=pl.when(expected != neutral).then((score - neutral).sign() == (expected - neutral).sign()),
    )


# Tables


def _shared(
    frame: pl.DataFrame, mark: str, keys: Sequence[str], dimension: str, needs: str | None = None
) -> pl.DataFrame:
    """Shares over everybody and by group; only rows of axes on which there is something to mark."""
    if needs is not None:
        frame = frame.filter(pl.col("expected") != pl.col("neutral"))
    return by_groups(frame, keys, [dimension], lambda some, by: shares(some, mark, by))


def _mean(frame: pl.DataFrame, figure: str, keys: Sequence[str], dimension: str) -> pl.DataFrame:
    return by_groups(frame, keys, [dimension], lambda some, by: means(some, figure, by))


def _kinds(main: pl.DataFrame) -> pl.DataFrame:
    """judge × kind × axis: by how much scores are off, and how many are right."""
    by = ["judge", "kind", "axis"]
    off = means(main, "off", by).drop("sd")
    right = shares(main, "right", by).select(*by, "hits", pl.col("rate").alias("right"))
    said = main.group_by(by, maintain_order=True).agg(
        pl.col("score").mean().alias("score"), pl.col("expected", "lowest", "highest", "neutral").first()
    )
    whole = off.join(right, on=by, validate="1:1", maintain_order="left")
    return whole.join(said, on=by, validate="1:1", maintain_order="left")


def retest(main: pl.DataFrame) -> pl.DataFrame:
    """judge × axis: `exact` and `rate` (within one point, with its interval) of pairs looked at twice."""
    keys = ["judge", "kind", "person", "axis"]
    first, second = (main.filter(repeat=number).select(*keys, "score") for number in (0, 1))
    both = first.join(second.rename({"score": "again"}), on=keys, maintain_order="left")
    apart = (pl.col("again") - pl.col("score")).abs()
    both = both.with_columns(near=apart <= 1, same=apart == 0)
    near = shares(both, "near", ["judge", "axis"])
    same = both.group_by("judge", "axis", maintain_order=True).agg(pl.col("same").mean().alias("exact"))
    return near.join(same, on=["judge", "axis"], validate="1:1", maintain_order="left")


def disclosure(every: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """judge × axis × group: the mean difference that telling everything makes, pair by pair."""
    keys = ["judge", "kind", "person", "axis", dimension]
    first = every.filter(repeat=0)
    told, untold = (first.filter(told=value).select(*keys, "score") for value in (True, False))
    both = told.join(untold.rename({"score": "untold"}), on=keys, maintain_order="left")
    return _mean(
        both.with_columns(moved=pl.col("score") - pl.col("untold")), "moved", ["judge", "axis"], dimension
    )


def missing(looks: pl.DataFrame) -> pl.DataFrame:
    """judge × kind × status: how the looks ended."""
    once = looks.unique(["judge", "kind", "person", "told", "repeat"], keep="first", maintain_order=True)
    return once.group_by("judge", "kind", "status", maintain_order=True).len("looks")


def pools(kinds: Sequence[CalibrationPairKind]) -> dict[str, list[str]]:
    """Which unchanged kinds are looked at together: those made in the same way, and all of them."""
    unchanged = [kind for kind in kinds if kind.is_unchanged]
    found: dict[str, list[str]] = {}
    for kind in unchanged:
        found.setdefault(str(kind.by), []).append(kind.id)
    return {**found, TOGETHER: [kind.id for kind in unchanged]}


def gap_table(unchanged: pl.DataFrame, protocol: Protocol, seed: int) -> pl.DataFrame:
    """judge × pool × axis × group: the group's mean score minus everybody else's, where nothing changed."""
    rules, dimension = _rules(protocol), dimension_of(protocol)
    rows: list[dict[str, Any]] = []
    for (judge,), own in unchanged.group_by("judge", maintain_order=True):
        rows += [{"judge": judge, **row} for row in _gaps_of(own, rules, dimension, seed)]
    words = dict.fromkeys(("judge", "pool", "axis", "group"), pl.String)
    return pl.DataFrame(rows, schema={**words, "persons": pl.Int64, **_SURE})


def _gaps_of(own: pl.DataFrame, rules: Rules, dimension: str, seed: int) -> Iterator[dict[str, Any]]:
    cells = [(pool, axis) for pool in pools(rules.kinds) for axis in own["axis"].unique(maintain_order=True)]
    wide, groups = _by_person(own, rules, dimension, cells)
    counts = {group: groups.count(group) for group in groups}
    kept = [group for group in counts if counts[group] >= rules.gate.fewest_persons]
    if len(kept) < 2:
        return
    chosen = np.array([group in kept for group in groups])
    labels = [group for group in groups if group in kept]
    found = gaps(wide[chosen], labels, kept, rules.gate.gap.sure, seed)
    for column, (pool, axis) in enumerate(cells):
        for line, group in enumerate(kept):
            gap, half, p = (float(part[line, column]) for part in (found.gap, found.half, found.p))
            sure = None if np.isnan(gap) else gap
            low, high = (gap - half, gap + half) if np.isfinite(half) else (None, None)
            shown = {"gap": sure, "low": low, "high": high, "p": None if np.isnan(p) else p}
            yield {"pool": pool, "axis": axis, "group": group, "persons": counts[group], **shown}


def _by_person(
    own: pl.DataFrame, rules: Rules, dimension: str, cells: Sequence[tuple[str, str]]
) -> tuple[np.ndarray, list[str]]:
    """person × (pool, axis): by how much a person's pairs were scored off the truth; and each person's group."""
    known = own.filter(pl.col(dimension).is_not_null())
    people = known.select("person", pl.col(dimension).alias("group")).unique("person", maintain_order=True)
    frame, members = people, pools(rules.kinds)
    for number, (pool, axis) in enumerate(cells):
        some = known.filter((pl.col("axis") == axis) & pl.col("kind").is_in(members[pool]))
        mean = some.group_by("person").agg(pl.col("off").mean().alias(f"cell {number}"))
        frame = frame.join(mean, on="person", how="left", maintain_order="left")
    values = frame.select(pl.exclude("person", "group")).to_numpy().astype(float)
    return values, frame["group"].to_list()


# The gate

_Tables = dict[str, pl.DataFrame]


def _rulings(judge: str, tables: _Tables, rules: Rules, protocol: Protocol) -> Iterator[Ruled]:
    own = {name: frame.filter(judge=judge) for name, frame in tables.items()}
    labels = {axis.id: axis.label for axis in protocol.rubrics.axes}
    yield from _gap_rulings(judge, own["gaps"], rules, protocol)
    yield from _bias_rulings(judge, own["bias"], rules.gate, labels)
    yield from _share_rulings(judge, own, rules.gate, labels)


def _everybody(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.filter(pl.col("group").is_null()).to_dicts() if "group" in frame.columns else frame.to_dicts()


def _bias_rulings(judge: str, frame: pl.DataFrame, rule: Gate, labels: dict[str, str]) -> Iterator[Ruled]:
    for row in _everybody(frame):
        ruling, axis = gate.at_most(row, rule.most_bias, rule.fewest_persons), labels[row["axis"]]
        said = (
            f"{axis}: pairs without a change are scored {gate.points(row['mean'])} points off neutral "
            f"({gate.spanned(row['low'], row['high'])}); {rule.most_bias:g} is allowed{_open(ruling)}."
        )
        told = (row["mean"], row["low"], row["high"], rule.most_bias, row["persons"])
        yield Ruled(judge, "Bias", axis, *told, ruling, said)


def _share_rulings(judge: str, own: _Tables, rule: Gate, labels: dict[str, str]) -> Iterator[Ruled]:
    largest = own["sensitivity"].filter(pl.col("size") == pl.col("size").max())
    asked: list[tuple[str, pl.DataFrame, float, str]] = [
        ("Specificity", own["specificity"], rule.specificity_at_least, "of pairs without a change scored neutral"),
        ("Sensitivity", largest, rule.sensitivity_at_least, "of the largest shifts of skin seen the right way"),
        ("Swapped", own["swapped"], rule.swapped_at_least, "of swapped pairs seen the other way round"),
        ("Another person", own["person"], rule.person_at_least, "of changes to another person seen"),
        ("Edits", own["edits"], rule.made_at_least, ""),
        ("Test-retest", own["retest"], rule.retest_at_least, "of second looks within one point of the first"),
    ]
    for name, frame, least, words in asked:
        for row in _everybody(frame):
            yield _share_ruling(judge, name, row, least, words or _made(row), rule, labels)


def _made(row: dict[str, Any]) -> str:
    return "of edits that were made scored as made" if row["made"] else "of edits not made scored as not made"


def _share_ruling(
    judge: str, name: str, row: dict[str, Any], least: float, words: str, rule: Gate, labels: dict[str, str]
) -> Ruled:
    ruling = gate.at_least(row, least, rule.fewest_persons)
    about = labels.get(row.get("axis", ""), "made" if row.get("made") else "not made")
    spread = "no interval" if row["low"] is None else f"{row['low'] * 100:.0f} to {row['high'] * 100:.0f} %"
    start = f"{about}: " if "axis" in row else ""
    said = f"{start}{gate.percent(row['rate'])} {words} ({spread}); {gate.percent(least)} is asked{_open(ruling)}."
    told = (row["rate"], row["low"], row["high"], least, row["persons"])
    return Ruled(judge, name, about, *told, ruling, said)


def _open(ruling: Ruling) -> str:
    return ", and there are not enough pairs to tell" if ruling is Ruling.UNTOLD else ""


def _gap_rulings(judge: str, frame: pl.DataFrame, rules: Rules, protocol: Protocol) -> Iterator[Ruled]:
    """The rule on groups: one ruling for each gap that is too wide, or one that says that there is none."""
    most, together = rules.gate.gap.most, frame.filter(pool=TOGETHER)
    beyond = frame.filter((pl.col("gap").abs() > most) & (pl.col("p") <= 1 - rules.gate.gap.sure))
    if beyond.height:
        widest = beyond.sort(pl.col("gap").abs(), descending=True, maintain_order=True)
        for row in widest.unique(["axis", "group"], keep="first", maintain_order=True).to_dicts():
            yield _too_wide(judge, row, rules, protocol)
        return
    half = ((together["high"] - together["low"]) / 2).to_list()
    untold = not half or any(one is None or one > rules.gate.gap.tells for one in half)
    ruling = Ruling.UNTOLD if untold else Ruling.PASSED
    yield _no_gap(judge, together, ruling, rules, protocol)


def _too_wide(judge: str, row: dict[str, Any], rules: Rules, protocol: Protocol) -> Ruled:
    dimension = dimension_of(protocol)
    group = protocol.groups.labels(dimension).get(row["group"], row["group"])
    axis = protocol.axes[row["axis"]].label
    kinds = ", ".join(rules.kind(kind).label.lower() for kind in pools(rules.kinds)[row["pool"]])
    said = (
        f"{axis}: {group} people are scored {gate.points(row['gap'])} points against everybody else "
        f"({gate.spanned(row['low'], row['high'])}) where nothing of the person changed ({kinds}); "
        f"{rules.gate.gap.most:g} is allowed."
    )
    told = (row["gap"], row["low"], row["high"], rules.gate.gap.most, row["persons"])
    return Ruled(judge, "Group gap", f"{axis}: {kinds}", *told, Ruling.FAILED, said, row["group"])


def _no_gap(judge: str, together: pl.DataFrame, ruling: Ruling, rules: Rules, protocol: Protocol) -> Ruled:
    widest = together.sort(pl.col("gap").abs(), descending=True, nulls_last=True).head(1).to_dicts()
    row: dict[str, Any] = widest[0] if widest else {"gap": None, "low": None, "high": None, "persons": 0}
    said = f"No group is scored apart from the others; {_widest(row, protocol)}."
    if ruling is Ruling.UNTOLD:
        said = f"Not enough pairs to tell whether a group is scored {rules.gate.gap.tells:g} point off the others."
    told = (row["gap"], row["low"], row["high"], rules.gate.gap.most, row["persons"])
    return Ruled(judge, "Group gap", "every group and axis", *told, ruling, said, row.get("group"))


def _widest(row: dict[str, Any], protocol: Protocol) -> str:
    if row["gap"] is None:
        return "there is no gap"
    group = protocol.groups.labels(dimension_of(protocol)).get(row["group"], row["group"])
    where = f"{group} people, {protocol.axes[row['axis']].label.lower()}"
    return f"the widest gap is {gate.points(row['gap'])} points ({where}; {gate.spanned(row['low'], row['high'])})"
