"""How far groups lie apart: in an outcome, in refusals, in what is missing; and how much is missing at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from stillme.analysis.numbers import lowered, percent, points
from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.figure import (
    ALIKE,
    FEW,
    Figure,
    Row,
    also_beyond,
    editors,
    is_beyond,
    perceived,
    rows_of,
    whole,
)
from stillme.assurance.gate.matching import dimension_of
from stillme.assurance.gate.policy import Disparity, Missingness, OfGroups, RefusalGap, Rule
from stillme.stats.disparity import is_wanted
from stillme.stats.extremes import Ends, highest, share_ends
from stillme.stats.intervals import FEWEST_FOR_INTERVAL
from stillme.stats.missingness import EDIT_REFUSED, NO_SCORE

_Pair = tuple[str, float | None, Ends]  # a group, by how much it is worse off, between what


def disparity(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Disparity)
    label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
    dimension = dimension_of(rule, evidence.protocol)
    for editor in editors(rule, evidence):
        if rule.of == "reference":
            yield from _against_reference(rule, editor, evidence, dimension, label)
            continue
        for row in rows_of(evidence, f"disparity_by_{dimension}", editor=editor, outcome=rule.outcome):
            yield _lying_apart(row, f"disparity of {label}", dimension, rule.at_most, evidence)


def refusals(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, RefusalGap)
    yield from _gap(rule, evidence, EDIT_REFUSED, "gap in refused edits", rule.at_most)


def missing(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Missingness)
    if rule.at_most is not None:
        yield from _unscored(rule, evidence, rule.at_most)
    if rule.gap_at_most is not None:
        yield from _gap(rule, evidence, NO_SCORE, "gap in edits without a score", rule.gap_at_most)


def _gap(rule: OfGroups, evidence: Evidence, reason: str, what: str, most: float) -> Iterator[Figure]:
    dimension = dimension_of(rule, evidence.protocol)
    for editor in editors(rule, evidence):
        about = {"editor": editor, "outcome": reason, "dimension": dimension}
        for row in rows_of(evidence, "missing_disparity", **about):
            found = _lying_apart(row, what, dimension, most, evidence)
            if reason == EDIT_REFUSED:
                yield replace(found, things="edits answered or refused")
            else:
                yield replace(_nothing_missing(found, row), things="scores asked for")


def _lying_apart(row: Row, what: str, dimension: str, most: float, evidence: Evidence) -> Figure:
    """Max − min behind its gate."""
    ends, why = Ends(row["low"], row["high"]), row["reason"] or ""
    if _is_certain(row["highest"], row["lowest"]) and row["low"] is None:
        within = _within(row["editor"], dimension, evidence)
        ends, why = (Ends(), why) if within is None else (Ends(0.0, within), "")
    return Figure(
        what=what,
        editor=row["editor"],
        dimension=dimension,
        who=f"groups of perceived {dimension}",
        brief=dimension,
        estimate=row["corrected"],
        low=ends.low,
        high=ends.high,
        n=whole(row["judged"]),
        persons=whole(row["persons"]),
        at_most=most,
        is_difference=True,
        why=why,
        more=_extremes(row, evidence.protocol.groups.labels(dimension)),
    )


def _nothing_missing(found: Figure, row: Row) -> Figure:
    """Where every score is there no group lacks any: that is known, and not a matter of sampling."""
    if row["highest"] != 0:
        return found
    return replace(found, low=0.0, high=0.0, is_counted=True, why="", more="No score is missing.")


def _is_certain(one: float | None, other: float | None) -> bool:
    """Whether it happened to nobody of either group, or to everybody."""
    return one == other and one in (0.0, 1.0)


def _within(editor: str, dimension: str, evidence: Evidence) -> float | None:
    """How far apart groups may lie in what happened to nobody, or to everybody. That has no spread to draw from:
    the bound in the smallest group is the difference's too."""
    rows = rows_of(evidence, f"outcomes_by_{dimension}", editor=editor)
    fewest = min((int(row["persons"]) for row in rows if row["persons"]), default=0)
    return share_ends(0.0, fewest, 1.0, fewest).high


def _extremes(row: Row, labels: Mapping[str, str]) -> str:
    if _is_certain(row["highest"], row["lowest"]):
        return "It happened to everybody." if row["highest"] else "It happened to nobody."
    if not row["disparity"]:
        return ""
    chance = "" if row["expected"] is None else f", {points(row['expected'])} expected by chance"
    return (
        f"Highest {labels[row['highest_group']]} {percent(row['highest'])}, lowest {labels[row['lowest_group']]} "
        f"{percent(row['lowest'])}; max − min {points(row['disparity'])}{chance}."
    )


def _against_reference(
    rule: Disparity, editor: str, evidence: Evidence, dimension: str, label: str
) -> Iterator[Figure]:
    """The group that is worst off against the reference group; bounds hold for all pairs at once."""
    protocol = evidence.protocol
    reference, labels = protocol.groups.reference_group[dimension], protocol.groups.labels(dimension)
    each = rows_of(evidence, f"outcomes_by_{dimension}", editor=editor, outcome=rule.outcome)
    pairs = _pairs(rule, editor, evidence, dimension, {row[dimension]: row["rate"] for row in each})
    asked = [one for one in pairs if rule.group is None or one[0] in rule.group]
    known = {group: difference for group, difference, _ in asked if difference is not None}
    if not known:
        return
    group = max(known, key=lambda name: known[name])
    every = [ends for _, _, ends in asked]
    ends = highest(every, every)
    beyond = [name for name, _, own in asked if name != group and is_beyond(own, rule.at_most, 1.0)]
    both = [row for row in each if row[dimension] in (group, reference)]
    few = any(row["persons"] < FEWEST_FOR_INTERVAL for row in each)
    yield Figure(
        what=f"disparity of {label}",
        editor=editor,
        dimension=dimension,
        group=group,
        who=f"{perceived(evidence, dimension, group)} against {labels[reference]}",
        brief=f"{labels[group]} − {labels[reference]}",
        estimate=known[group],
        low=ends.low,
        high=ends.high,
        n=sum(int(row["judged"]) for row in both),
        persons=sum(int(row["persons"]) for row in both),
        at_most=rule.at_most,
        is_difference=True,
        why="" if ends.high is not None else FEW if few else ALIKE,
        more=also_beyond(beyond, evidence, dimension),
    )


def _pairs(
    rule: Disparity, editor: str, evidence: Evidence, dimension: str, rates: Mapping[str, float | None]
) -> Iterator[_Pair]:
    """Every other group against the reference group."""
    protocol = evidence.protocol
    reference = protocol.groups.reference_group[dimension]
    sign = -1.0 if is_wanted(protocol, protocol.rubrics.outcomes[rule.outcome]) else 1.0
    within = _within(editor, dimension, evidence)
    for row in rows_of(evidence, f"pairs_by_{dimension}", editor=editor, outcome=rule.outcome):
        if reference in (row["group"], row["other"]):
            name, difference, ends = _from_reference(row, reference, sign)
            if within is not None and _is_certain(rates.get(name), rates.get(reference)):
                ends = Ends(-within, within)
            yield name, difference, ends


def _from_reference(row: Row, reference: str, sign: float) -> _Pair:
    """The other group, and by how much it is worse off."""
    turned = row["group"] == reference
    ends = Ends(row["low"], row["high"])
    flip = turned != (sign < 0)
    difference = row["difference"]
    found = difference if difference is None or not flip else -difference
    return (row["other"] if turned else row["group"]), found, ends.flipped() if flip else ends


def _unscored(rule: Missingness, evidence: Evidence, most: float) -> Iterator[Figure]:
    """Of everything that was asked for on any outcome; a fact of the run, so it needs no interval."""
    frame = evidence.table("outcomes_by_editor")
    for editor in editors(rule, evidence):
        rows = [] if frame is None else frame.filter(editor=editor).to_dicts()
        worst = max(rows, key=lambda row: row["missing"] / max(row["asked"], 1), default=None)
        if worst is None or not worst["asked"]:
            continue
        share = float(worst["missing"] / worst["asked"])
        label = lowered(evidence.protocol.rubrics.outcomes[worst["outcome"]].label)
        yield Figure(
            what=f"without a score on {label}",
            editor=editor,
            who="everyone",
            brief="everyone",
            estimate=share,
            low=share,
            high=share,
            n=whole(worst["asked"]),
            persons=whole(worst["persons"]),
            at_most=most,
            is_counted=True,
        )
