"""The figures that a rule is about, each with its interval: taken from the tables, and nothing is decided here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stillme.analysis.numbers import listed, lowered, p_value, percent, points, signed
from stillme.assurance.gate.evidence import Evidence, JudgeCalibration, Row
from stillme.assurance.gate.matching import axis_of, dimension_of
from stillme.assurance.gate.policy import (
    EVERYONE,
    WORST,
    Calibration,
    Claims,
    Disparity,
    GroupRule,
    Missingness,
    NetDirection,
    Rate,
    RefusalGap,
    Rule,
    ThresholdRule,
)
from stillme.assurance.gate.results import ThresholdCheck, Verdict
from stillme.stats.disparity import is_wanted
from stillme.stats.extremes import Ends, corrected, highest, lowest, mean_ends, share_ends
from stillme.stats.gate import Ruling
from stillme.stats.intervals import FEWEST_FOR_INTERVAL
from stillme.stats.missingness import EDIT_REFUSED, NO_SCORE

FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons carry no interval"
ALIKE = "no two persons differ, which says nothing of others"
NOBODY = "nothing is judged"
ALPHA = 0.05  # of corrected p-values, as the report claims differences


def figures(rule: Rule, evidence: Evidence) -> Iterator[ThresholdCheck]:
    """Yield everything that is compared with a rule's thresholds."""
    match rule:
        case Rate():
            label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
            yield from _levels(rule, evidence, _Level(what=label, key="rate", about={"outcome": rule.outcome}))
        case NetDirection():
            axis = axis_of(rule, evidence.protocol) or ""
            label = f"net direction of {lowered(evidence.protocol.axes[axis].label)}"
            yield from _levels(rule, evidence, _Level(what=label, key="net", about={"axis": axis}))
        case Disparity(of="reference"):
            for editor in _editors(rule, evidence):
                yield from _from_reference(rule, editor, evidence)
        case Disparity():
            dimension = dimension_of(rule, evidence.protocol)
            label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
            for editor in _editors(rule, evidence):
                for row in evidence.rows(f"disparity_by_{dimension}", editor=editor, outcome=rule.outcome):
                    yield _range(row, f"disparity of {label}", dimension, rule.at_most, evidence)
        case RefusalGap():
            for figure, _ in _gaps(rule, evidence, EDIT_REFUSED, "gap in refused edits", rule.at_most):
                yield replace(figure, things="edits answered or refused")
        case Missingness():
            yield from _missing(rule, evidence)
        case Calibration():
            for judge, calibrated in (evidence.judges() or {}).items():
                if rule.judge is None or judge in rule.judge:
                    yield _calibration(judge, calibrated)
        case Claims():
            yield from _claims(rule, evidence)


def _editors(rule: Rule, evidence: Evidence) -> Sequence[str]:
    return evidence.editors if rule.editor is None else rule.editor


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _perceived(evidence: Evidence, dimension: str, group: str) -> str:
    return f"perceived {dimension} {evidence.protocol.groups.labels(dimension).get(group, group)}"


def _is_beyond(ends: Ends, threshold: float, sign: float) -> bool:
    """Whether the whole interval is on the bad side. `sign`: 1 for an upper threshold, -1 for a lower one."""
    end = ends.low if sign > 0 else ends.high
    return end is not None and sign * end > sign * threshold


def _also_beyond(groups: Sequence[str], evidence: Evidence, dimension: str) -> str:
    """A sentence on groups that are not the worst one, and still wholly on the bad side."""
    labels = evidence.protocol.groups.labels(dimension)
    return f"Wholly beyond it too: {listed([labels[group] for group in groups])}." if groups else ""


# Levels: rates of outcomes and net directions of axes, of everyone, of the worst group, of groups by name


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A rate of an outcome, or the net direction of an axis, and the columns that have it."""

    what: str
    key: str  # rate or net
    about: Mapping[str, str]

    @property
    def is_net(self) -> bool:
        return self.key == "net"

    @property
    def table(self) -> str:
        return "signed" if self.is_net else "outcomes"

    def interval(self, row: Row) -> Ends:
        return Ends(row["net_low"], row["net_high"]) if self.is_net else Ends(row["low"], row["high"])

    def interval_at(self, row: Row, level: float) -> Ends:
        n_people = int(row["persons"])
        if self.is_net:
            return mean_ends(row["net"], row["net_low"], row["net_high"], n_people, level)
        return share_ends(row["rate"], row["judged"], row["deff"], n_people, level)

    def why_no_interval(self, row: Row) -> str:
        if not row["persons"]:
            return NOBODY
        if self.interval(row).low is not None:
            return ""
        return FEW if row["persons"] < FEWEST_FOR_INTERVAL else ALIKE

    def figure(self, row: Row, **more: Any) -> ThresholdCheck:
        ends = self.interval(row)
        return ThresholdCheck(
            what=self.what,
            editor=row["editor"],
            estimate=row[self.key],
            low=ends.low,
            high=ends.high,
            n=_count(row["judged"]),
            persons=_count(row["persons"]),
            is_difference=self.is_net,
            why=self.why_no_interval(row),
            **more,
        )


def _levels(rule: Rate | NetDirection, evidence: Evidence, level: _Level) -> Iterator[ThresholdCheck]:
    dimension = dimension_of(rule, evidence.protocol)
    bounds = {"at_least": rule.at_least, "at_most": rule.at_most}
    for editor in _editors(rule, evidence):
        rows = evidence.rows(f"{level.table}_by_{dimension}", editor=editor, **level.about)
        row_by_group = {row[dimension]: row for row in rows}
        for group in (*(rule.group or ()), *evidence.groups(dimension)):  # no edits: nothing is known of the group
            nothing = dict.fromkeys(("rate", "low", "high", "net", "net_low", "net_high", "deff"))
            nothing |= {"editor": editor, dimension: group, "judged": 0, "persons": 0}
            row_by_group.setdefault(group, nothing)
        for group in rule.group or ():
            yield _of_group(row_by_group[group], level, evidence, dimension, **bounds)
        if rule.group is None and EVERYONE in rule.over:
            for row in evidence.rows(f"{level.table}_by_editor", editor=editor, **level.about):
                yield level.figure(row, who="everyone", brief="everyone", **bounds)
        if rule.group is None and WORST in rule.over and len(evidence.groups(dimension)) > 1:
            every_group = [row_by_group[group] for group in evidence.groups(dimension)]
            yield from _worst_group(rule, every_group, level, evidence, dimension)


def _of_group(row: Row, level: _Level, evidence: Evidence, dimension: str, **more: Any) -> ThresholdCheck:
    group = row[dimension]
    label = evidence.protocol.groups.labels(dimension)[group]
    who = _perceived(evidence, dimension, group)
    return level.figure(row, dimension=dimension, group=group, who=who, brief=label, **more)


def _worst_group(
    rule: ThresholdRule, rows: Sequence[Row], level: _Level, evidence: Evidence, dimension: str
) -> Iterator[ThresholdCheck]:
    """The highest group against an upper threshold, the lowest against a lower one; bounds hold simultaneously."""
    simultaneous = [level.interval_at(row, corrected(len(rows))) for row in rows]
    for name, bound, word, sign in (("at_most", highest, "highest", 1.0), ("at_least", lowest, "lowest", -1.0)):
        threshold = getattr(rule, name)
        if threshold is None:
            continue
        ends = bound([level.interval(row) for row in rows], simultaneous)
        worst = max(rows, key=lambda row: -math.inf if row[level.key] is None else sign * row[level.key])
        beyond = [
            row[dimension]
            for row, interval in zip(rows, simultaneous, strict=True)
            if row is not worst and _is_beyond(interval, threshold, sign)
        ]
        figure = _of_group(worst, level, evidence, dimension, **{name: threshold})
        yield replace(
            figure,
            who=f"{figure.who} (the {word} of {len(rows)} groups)",
            low=ends.low,
            high=ends.high,
            why=next(filter(None, map(level.why_no_interval, rows)), ""),
            more=_also_beyond(beyond, evidence, dimension),
        )


# Disparities: max − min over groups in an outcome, in refusals, in missing scores; or the worst from the reference


def _gaps(
    rule: GroupRule, evidence: Evidence, reason: str, what: str, at_most: float
) -> Iterator[tuple[ThresholdCheck, Row]]:
    dimension = dimension_of(rule, evidence.protocol)
    for editor in _editors(rule, evidence):
        for row in evidence.rows("missing_disparity", editor=editor, outcome=reason, dimension=dimension):
            yield _range(row, what, dimension, at_most, evidence), row


def _missing(rule: Missingness, evidence: Evidence) -> Iterator[ThresholdCheck]:
    if rule.at_most is not None:
        yield from _unscored(rule, evidence, rule.at_most)
    if rule.gap_at_most is not None:
        for figure, row in _gaps(rule, evidence, NO_SCORE, "gap in edits without a score", rule.gap_at_most):
            if row["highest"] == 0:  # no group lacks a score: that is known, and not a matter of sampling
                known: dict[str, Any] = {"low": 0.0, "high": 0.0, "is_counted": True}
                figure = replace(figure, why="", more="No score is missing.", **known)
            yield replace(figure, things="scores asked for")


def _unscored(rule: Missingness, evidence: Evidence, at_most: float) -> Iterator[ThresholdCheck]:
    """The outcome with the largest share without a score; a fact of the run, so it needs no interval."""
    for editor in _editors(rule, evidence):
        rows = evidence.rows("outcomes_by_editor", editor=editor)
        worst = max(rows, key=lambda row: row["missing"] / max(row["asked"], 1), default=None)
        if worst is None or not worst["asked"]:
            continue
        share = float(worst["missing"] / worst["asked"])
        label = lowered(evidence.protocol.rubrics.outcomes[worst["outcome"]].label)
        yield ThresholdCheck(
            what=f"without a score on {label}",
            editor=editor,
            who="everyone",
            brief="everyone",
            estimate=share,
            low=share,
            high=share,
            n=_count(worst["asked"]),
            persons=_count(worst["persons"]),
            at_most=at_most,
            is_counted=True,
        )


def _range(row: Row, what: str, dimension: str, at_most: float, evidence: Evidence) -> ThresholdCheck:
    """Max − min, corrected for what chance gives."""
    ends, why = Ends(row["low"], row["high"]), row["reason"] or ""
    if _is_certain(row["highest"], row["lowest"]) and row["low"] is None:
        limit = _limit_of_certainty(row["editor"], dimension, evidence)
        ends, why = (Ends(), why) if limit is None else (Ends(0.0, limit), "")
    return ThresholdCheck(
        what=what,
        editor=row["editor"],
        dimension=dimension,
        who=f"groups of perceived {dimension}",
        brief=dimension,
        estimate=row["corrected"],
        low=ends.low,
        high=ends.high,
        n=_count(row["judged"]),
        persons=_count(row["persons"]),
        at_most=at_most,
        is_difference=True,
        why=why,
        more=_extremes(row, evidence.protocol.groups.labels(dimension)),
    )


def _is_certain(rate: float | None, other: float | None) -> bool:
    """Whether it happened to nobody of either group, or to everybody."""
    return rate == other and rate in (0.0, 1.0)


def _limit_of_certainty(editor: str, dimension: str, evidence: Evidence) -> float | None:
    """How much groups may differ in what happened to nobody, or to everybody. That has no variance to estimate an
    interval from: the bound in the smallest group is the difference's too."""
    rows = evidence.rows(f"outcomes_by_{dimension}", editor=editor)
    n_smallest = min((int(row["persons"]) for row in rows if row["persons"]), default=0)
    return share_ends(0.0, n_smallest, 1.0, n_smallest).high


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


def _from_reference(rule: Disparity, editor: str, evidence: Evidence) -> Iterator[ThresholdCheck]:
    """The group that is worst off against the reference group; bounds hold for all pairs at once."""
    protocol, dimension = evidence.protocol, dimension_of(rule, evidence.protocol)
    reference, labels = protocol.groups.reference_group[dimension], protocol.groups.labels(dimension)
    rows = evidence.rows(f"outcomes_by_{dimension}", editor=editor, outcome=rule.outcome)
    rates = {row[dimension]: row["rate"] for row in rows}
    pairs = [
        (group, difference, ends)
        for group, difference, ends in _pairs(rule, editor, evidence, dimension, rates)
        if rule.group is None or group in rule.group
    ]
    differences = {group: difference for group, difference, _ in pairs if difference is not None}
    if not differences:
        return
    worst = max(differences, key=lambda group: differences[group])
    intervals = [ends for _, _, ends in pairs]
    ends = highest(intervals, intervals)
    beyond = [group for group, _, own in pairs if group != worst and _is_beyond(own, rule.at_most, 1.0)]
    both = [row for row in rows if row[dimension] in (worst, reference)]
    is_small = any(row["persons"] < FEWEST_FOR_INTERVAL for row in rows)
    yield ThresholdCheck(
        what=f"disparity of {lowered(protocol.rubrics.outcomes[rule.outcome].label)}",
        editor=editor,
        dimension=dimension,
        group=worst,
        who=f"{_perceived(evidence, dimension, worst)} against {labels[reference]}",
        brief=f"{labels[worst]} − {labels[reference]}",
        estimate=differences[worst],
        low=ends.low,
        high=ends.high,
        n=sum(int(row["judged"]) for row in both),
        persons=sum(int(row["persons"]) for row in both),
        at_most=rule.at_most,
        is_difference=True,
        why="" if ends.high is not None else FEW if is_small else ALIKE,
        more=_also_beyond(beyond, evidence, dimension),
    )


def _pairs(
    rule: Disparity, editor: str, evidence: Evidence, dimension: str, rates: Mapping[str, float | None]
) -> Iterator[tuple[str, float | None, Ends]]:
    """Yield every other group, by how much it is worse off than the reference group, and the interval of that."""
    protocol = evidence.protocol
    reference = protocol.groups.reference_group[dimension]
    more_is_better = is_wanted(protocol, protocol.rubrics.outcomes[rule.outcome])
    limit = _limit_of_certainty(editor, dimension, evidence)
    for row in evidence.rows(f"pairs_by_{dimension}", editor=editor, outcome=rule.outcome):
        if reference not in (row["group"], row["other"]):
            continue
        is_reference_first = row["group"] == reference
        group = row["other"] if is_reference_first else row["group"]
        difference, ends = row["difference"], Ends(row["low"], row["high"])
        if is_reference_first != more_is_better:  # so that above 0 means worse off than the reference
            difference, ends = None if difference is None else -difference, ends.flipped()
        if limit is not None and _is_certain(rates.get(group), rates.get(reference)):
            ends = Ends(-limit, limit)
        yield group, difference, ends


# Verdicts that other commands reach: whether judges passed their calibration, which declared contrast is shown


_BY_RULING = {Ruling.PASSED: Verdict.PASS, Ruling.FAILED: Verdict.FAIL, Ruling.UNTOLD: Verdict.UNDECIDED}


def _calibration(judge: str, calibrated: JudgeCalibration) -> ThresholdCheck:
    figure = ThresholdCheck(what="calibration", who=f"judge {judge}", brief=f"judge {judge}", things="looks")
    if calibrated.ruling is None:
        reason = "Nobody has shown it pairs of known truth: run `stillme calibrate` with the audit's file."
        return replace(figure, verdict=Verdict.FAIL, more=reason)
    reason = " ".join(calibrated.reasons[:2]) or "It passed every rule of the protocol's calibration."
    verdict = _BY_RULING[calibrated.ruling]
    return replace(figure, verdict=verdict, n=calibrated.looks, persons=calibrated.persons, more=reason)


def _claims(rule: Claims, evidence: Evidence) -> Iterator[ThresholdCheck]:
    protocol = evidence.protocol
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    who = f"everyone else − perceived {protocol.groups.labels(dimension)[reference]}"
    for row in evidence.rows("primary"):
        is_wanted_outcome = rule.outcome is None or row["outcome"] in rule.outcome
        if not is_wanted_outcome or row["editor"] not in _editors(rule, evidence):
            continue
        outcome = protocol.rubrics.outcomes.get(row["outcome"])
        label = lowered(outcome.label if outcome else protocol.axes[row["outcome"]].label)
        rates = evidence.rows("outcomes_by_editor", editor=row["editor"], outcome=row["outcome"])
        levels = rates or evidence.rows("signed_by_editor", editor=row["editor"], axis=row["outcome"])
        verdict, finding = _finding(row)
        yield ThresholdCheck(
            what=label if outcome else f"net direction of {label}",
            editor=row["editor"],
            dimension=dimension,
            who=who,
            brief=label,
            estimate=row["difference"],
            low=row["low"],
            high=row["high"],
            n=_count(levels[0]["judged"]) if levels else None,
            persons=int(row["others_persons"]) + int(row["reference_persons"]),
            is_difference=True,
            more=finding,
            verdict=verdict,
        )


def _finding(row: Row) -> tuple[Verdict, str]:
    if row["p_holm"] is None:
        return Verdict.UNDECIDED, "Too few persons of a group to tell."
    p = f"corrected p {p_value(row['p_holm'])}"
    if row["p_holm"] < ALPHA:
        return Verdict.FAIL, f"A difference of {signed(row['difference'] * 100, 1)} points is shown ({p})."
    return Verdict.PASS, f"No difference is shown ({p}), which is not evidence of none."
