"""Rates of outcomes and net directions of signed axes: of everyone, of the worst group, of groups by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stillme.analysis.numbers import lowered
from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.figure import (
    ALIKE,
    FEW,
    NOBODY,
    Bounds,
    Figure,
    Row,
    also_beyond,
    editors,
    is_beyond,
    perceived,
    rows_of,
    whole,
)
from stillme.assurance.gate.matching import axis_of, dimension_of
from stillme.assurance.gate.policy import EVERYONE, WORST, Figured, NetDirection, Rate, Rule
from stillme.stats.extremes import Ends, corrected, highest, lowest, mean_ends, share_ends
from stillme.stats.intervals import FEWEST_FOR_INTERVAL


@dataclass(frozen=True)
class _Kind:
    """How a table's rows are read: a rate of an outcome, or the net direction of an axis."""

    what: str
    table: str
    about: Mapping[str, str]
    key: str
    low: str
    high: str
    is_net: bool

    def ends(self, row: Row, level: float) -> Ends:
        persons = int(row["persons"])
        if self.is_net:
            return mean_ends(row[self.key], row[self.low], row[self.high], persons, level)
        return share_ends(row[self.key], row["judged"], row["deff"], persons, level)

    def own(self, row: Row) -> Ends:
        return Ends(row[self.low], row[self.high])

    def why(self, row: Row) -> str:
        if row[self.low] is not None or not row["persons"]:
            return "" if row["persons"] else NOBODY
        return FEW if row["persons"] < FEWEST_FOR_INTERVAL else ALIKE


def rate(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Rate)
    label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
    kind = _Kind(label, "outcomes", {"outcome": rule.outcome}, "rate", "low", "high", is_net=False)
    yield from _figured(rule, evidence, kind)


def net(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, NetDirection)
    axis = axis_of(rule, evidence.protocol) or ""
    label = f"net direction of {lowered(evidence.protocol.axes[axis].label)}"
    kind = _Kind(label, "signed", {"axis": axis}, "net", "net_low", "net_high", is_net=True)
    yield from _figured(rule, evidence, kind)


def _figured(rule: Rate | NetDirection, evidence: Evidence, kind: _Kind) -> Iterator[Figure]:
    dimension = dimension_of(rule, evidence.protocol)
    bounds = {"at_least": rule.at_least, "at_most": rule.at_most}
    for editor in editors(rule, evidence):
        grouped = rows_of(evidence, f"{kind.table}_by_{dimension}", editor=editor, **kind.about)
        there = {row[dimension]: row for row in grouped}
        for group in rule.group or ():
            row = there.get(group, _nobody(editor, dimension, group, kind))
            yield _of_group(row, kind, evidence, dimension, bounds)
        if rule.group is None and EVERYONE in rule.over:
            for row in rows_of(evidence, f"{kind.table}_by_editor", editor=editor, **kind.about):
                yield replace(_figure(row, kind, bounds), who="everyone", brief="everyone")
        if rule.group is None and WORST in rule.over and len(evidence.groups(dimension)) > 1:
            every = [there.get(g, _nobody(editor, dimension, g, kind)) for g in evidence.groups(dimension)]
            yield from _worst(rule, every, kind, evidence, dimension)


def _nobody(editor: str, dimension: str, group: str, kind: _Kind) -> Row:
    """The row of a group of which an editor has no edits: nothing is known of it."""
    unknown = dict.fromkeys((kind.key, kind.low, kind.high, "deff"))
    return {"editor": editor, dimension: group, "judged": 0, "persons": 0, **unknown}


def _figure(row: Row, kind: _Kind, bounds: Bounds) -> Figure:
    return Figure(
        what=kind.what,
        editor=row["editor"],
        estimate=row[kind.key],
        low=row[kind.low],
        high=row[kind.high],
        n=whole(row["judged"]),
        persons=whole(row["persons"]),
        at_least=bounds.get("at_least"),
        at_most=bounds.get("at_most"),
        is_difference=kind.is_net,
        why=kind.why(row),
    )


def _of_group(row: Row, kind: _Kind, evidence: Evidence, dimension: str, bounds: Bounds) -> Figure:
    group = row[dimension]
    who, label = perceived(evidence, dimension, group), evidence.protocol.groups.labels(dimension)[group]
    return replace(_figure(row, kind, bounds), dimension=dimension, group=group, who=who, brief=label)


def _worst(
    rule: Figured, rows: Sequence[Row], kind: _Kind, evidence: Evidence, dimension: str
) -> Iterator[Figure]:
    """The highest group against an upper threshold, the lowest against a lower one."""
    at_once = [kind.ends(row, corrected(len(rows))) for row in rows]
    for name, end, word, sign in (("at_most", highest, "highest", 1.0), ("at_least", lowest, "lowest", -1.0)):
        threshold = getattr(rule, name)
        if threshold is None:
            continue
        ends = end([kind.own(row) for row in rows], at_once)
        row = max(rows, key=lambda row: -math.inf if row[kind.key] is None else sign * row[kind.key])
        others = [(other, one) for other, one in zip(rows, at_once, strict=True) if other is not row]
        beyond = [other[dimension] for other, one in others if is_beyond(one, threshold, sign)]
        found = _of_group(row, kind, evidence, dimension, {name: threshold})
        yield replace(
            found,
            who=f"{found.who} (the {word} of {len(rows)} groups)",
            low=ends.low,
            high=ends.high,
            why=next((kind.why(row) for row in rows if kind.why(row)), ""),
            more=also_beyond(beyond, evidence, dimension),
        )
