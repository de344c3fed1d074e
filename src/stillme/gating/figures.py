"""The figures that a rule is about, each with its interval: read off the tables, and nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stillme.analysis.disparity import is_wanted
from stillme.analysis.extremes import Ends, corrected, highest, lowest, mean_ends, share_ends
from stillme.analysis.gate import Ruling
from stillme.analysis.intervals import FEWEST_FOR_INTERVAL
from stillme.analysis.missingness import EDIT_REFUSED, NO_SCORE
from stillme.gating.evidence import Calibrated, Evidence
from stillme.gating.matching import axis_of, dimension_of
from stillme.gating.policy import (
    EVERYONE,
    WORST,
    Calibration,
    Claims,
    Disparity,
    Figured,
    Missingness,
    NetDirection,
    OfGroups,
    Rate,
    RefusalGap,
    Rule,
)
from stillme.gating.verdicts import Verdict
from stillme.report.numbers import listed, lowered, p_value, percent, points, signed

Row = Mapping[str, Any]
Bounds = Mapping[str, float | None]
SURE = 0.05
FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons carry no interval"
ALIKE = "no two persons differ, which says nothing of others"
NOBODY = "nothing is judged"


@dataclass(frozen=True)
class Figure:
    """A number with its interval and its threshold. `what`: in words; `who`: of whom, and `brief`: in few
    words; `n`: of how many `things`.

    `is_difference`: it is printed in percentage points. `is_counted`: it is a fact of the run. `why`: why there is
    no interval. `more`: what else a reader should know. `verdict`: where it does not follow from bounds.
    """

    what: str
    editor: str | None = None
    dimension: str | None = None
    group: str | None = None
    who: str = ""
    brief: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    persons: int | None = None
    at_least: float | None = None
    at_most: float | None = None
    is_difference: bool = False
    is_counted: bool = False
    things: str = "edits"
    why: str = ""
    more: str = ""
    verdict: Verdict | None = None


def figures(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    yield from _OF[type(rule)](rule, evidence)


def _editors(rule: Rule, evidence: Evidence) -> Sequence[str]:
    return evidence.editors if rule.editor is None else rule.editor


def _rows(evidence: Evidence, id: str, **about: str) -> list[Row]:
    frame = evidence.table(id)
    return [] if frame is None else list(frame.filter(**about).iter_rows(named=True))


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _perceived(evidence: Evidence, dimension: str, group: str) -> str:
    return f"perceived {dimension} {evidence.protocol.groups.labels(dimension).get(group, group)}"


# Rates and net directions: of everyone, of the worst group, of groups by name


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


def _rate(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Rate)
    label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
    kind = _Kind(label, "outcomes", {"outcome": rule.outcome}, "rate", "low", "high", is_net=False)
    yield from _figured(rule, evidence, kind)


def _net(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, NetDirection)
    axis = axis_of(rule, evidence.protocol) or ""
    label = f"net direction of {lowered(evidence.protocol.axes[axis].label)}"
    kind = _Kind(label, "signed", {"axis": axis}, "net", "net_low", "net_high", is_net=True)
    yield from _figured(rule, evidence, kind)


def _figured(rule: Rate | NetDirection, evidence: Evidence, kind: _Kind) -> Iterator[Figure]:
    dimension = dimension_of(rule, evidence.protocol)
    bounds = {"at_least": rule.at_least, "at_most": rule.at_most}
    for editor in _editors(rule, evidence):
        grouped = _rows(evidence, f"{kind.table}_by_{dimension}", editor=editor, **kind.about)
        if rule.group is not None:
            yield from (
                _of_group(r, kind, evidence, dimension, bounds) for r in grouped if r[dimension] in rule.group
            )
            continue
        if EVERYONE in rule.over:
            for row in _rows(evidence, f"{kind.table}_by_editor", editor=editor, **kind.about):
                yield replace(_figure(row, kind, bounds), who="everyone", brief="everyone")
        if WORST in rule.over and len(grouped) > 1:
            yield from _worst(rule, grouped, kind, evidence, dimension)


def _figure(row: Row, kind: _Kind, bounds: Bounds) -> Figure:
    return Figure(
        what=kind.what,
        editor=row["editor"],
        estimate=row[kind.key],
        low=row[kind.low],
        high=row[kind.high],
        n=_whole(row["judged"]),
        persons=_whole(row["persons"]),
        at_least=bounds.get("at_least"),
        at_most=bounds.get("at_most"),
        is_difference=kind.is_net,
        why=kind.why(row),
    )


def _of_group(row: Row, kind: _Kind, evidence: Evidence, dimension: str, bounds: Bounds) -> Figure:
    group = row[dimension]
    who, label = _perceived(evidence, dimension, group), evidence.protocol.groups.labels(dimension)[group]
    return replace(_figure(row, kind, bounds), dimension=dimension, group=group, who=who, brief=label)


def _worst(
    rule: Figured, rows: Sequence[Row], kind: _Kind, evidence: Evidence, dimension: str
) -> Iterator[Figure]:
    """The highest group against an upper threshold, the lowest against a lower one."""
    for name, end, sign in (("at_most", highest, 1.0), ("at_least", lowest, -1.0)):
        threshold = getattr(rule, name)
        known = [row for row in rows if row[kind.key] is not None]
        if threshold is None or not known:
            continue
        level = corrected(len(rows))
        at_once = [kind.ends(row, level) for row in rows]
        ends = end([kind.own(row) for row in rows], at_once)
        row = max(known, key=lambda row: sign * row[kind.key])
        word = "highest" if sign > 0 else "lowest"
        beyond = [
            evidence.protocol.groups.labels(dimension)[other[dimension]]
            for other, one in zip(rows, at_once, strict=True)
            if other is not row and _is_beyond(one, threshold, sign)
        ]
        found = _of_group(row, kind, evidence, dimension, {name: threshold})
        yield replace(
            found,
            who=f"{found.who} (the {word} of {len(rows)} groups)",
            low=ends.low,
            high=ends.high,
            why=next((kind.why(row) for row in rows if kind.why(row)), ""),
            more=f"Wholly beyond it too: {listed(beyond)}." if beyond else "",
        )


def _is_beyond(ends: Ends, threshold: float, sign: float) -> bool:
    end = ends.low if sign > 0 else ends.high
    return end is not None and sign * end > sign * threshold


# How far groups lie apart


def _disparity(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Disparity)
    label = lowered(evidence.protocol.rubrics.outcomes[rule.outcome].label)
    dimension = dimension_of(rule, evidence.protocol)
    for editor in _editors(rule, evidence):
        if rule.of == "reference":
            yield from _against_reference(rule, editor, evidence, dimension, label)
            continue
        for row in _rows(evidence, f"disparity_by_{dimension}", editor=editor, outcome=rule.outcome):
            yield _lying_apart(row, f"disparity of {label}", dimension, rule.at_most, evidence)


def _refusals(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, RefusalGap)
    yield from _gap(rule, evidence, EDIT_REFUSED, "gap in refused edits", rule.at_most)


def _missing(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Missingness)
    if rule.at_most is not None:
        yield from _unscored(rule, evidence, rule.at_most)
    if rule.gap_at_most is not None:
        yield from _gap(rule, evidence, NO_SCORE, "gap in edits without a score", rule.gap_at_most)


def _gap(rule: OfGroups, evidence: Evidence, reason: str, what: str, most: float) -> Iterator[Figure]:
    dimension = dimension_of(rule, evidence.protocol)
    for editor in _editors(rule, evidence):
        about = {"editor": editor, "outcome": reason, "dimension": dimension}
        for row in _rows(evidence, "missing_disparity", **about):
            found = _lying_apart(row, what, dimension, most, evidence)
            if reason == EDIT_REFUSED:
                yield replace(found, things="edits answered or refused")
            else:
                yield replace(_nothing_missing(found, row), things="scores asked for")


def _lying_apart(row: Row, what: str, dimension: str, most: float, evidence: Evidence) -> Figure:
    """Max − min behind its gate."""
    ends, why = Ends(row["low"], row["high"]), row["reason"] or ""
    if row["highest"] == 0 and row["low"] is None:
        ends = _never(row["editor"], dimension, evidence)
        why = "" if ends.high is not None else why
    return Figure(
        what=what,
        editor=row["editor"],
        dimension=dimension,
        who=f"groups of perceived {dimension}",
        brief=dimension,
        estimate=row["corrected"],
        low=ends.low,
        high=ends.high,
        n=_whole(row["judged"]),
        persons=_whole(row["persons"]),
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


def _never(editor: str, dimension: str, evidence: Evidence) -> Ends:
    """What nobody met with has no spread to draw from; its bound in the smallest group is the difference's too."""
    rows = _rows(evidence, f"outcomes_by_{dimension}", editor=editor)
    fewest = min((int(row["persons"]) for row in rows if row["persons"]), default=0)
    high = share_ends(0.0, fewest, 1.0, fewest).high
    return Ends(None if high is None else 0.0, high)


def _extremes(row: Row, labels: Mapping[str, str]) -> str:
    if row["highest"] == 0:
        return "It happened to nobody."
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
    reference = protocol.groups.reference_group[dimension]
    sign = -1.0 if is_wanted(protocol, protocol.rubrics.outcomes[rule.outcome]) else 1.0
    rows = _rows(evidence, f"pairs_by_{dimension}", editor=editor, outcome=rule.outcome)
    turned = [_from_reference(row, reference, sign) for row in rows if reference in (row["group"], row["other"])]
    asked = [one for one in turned if rule.group is None or one[0] in rule.group]
    known = [one for one in asked if one[1] is not None]
    if not known:
        return
    group, difference, _ = max(known, key=lambda one: one[1] or 0.0)
    ends = highest([one[2] for one in asked], [one[2] for one in asked])
    each = _rows(evidence, f"outcomes_by_{dimension}", editor=editor, outcome=rule.outcome)
    counted = {row[dimension]: row for row in each}
    both = [counted[name] for name in (group, reference) if name in counted]
    labels = protocol.groups.labels(dimension)
    beyond = [labels[one[0]] for one in asked if one[0] != group and _is_beyond(one[2], rule.at_most, 1.0)]
    few = any(row["persons"] < FEWEST_FOR_INTERVAL for row in counted.values())
    yield Figure(
        what=f"disparity of {label}",
        editor=editor,
        dimension=dimension,
        group=group,
        who=f"{_perceived(evidence, dimension, group)} against {labels[reference]}",
        brief=f"{labels[group]} − {labels[reference]}",
        estimate=difference,
        low=ends.low,
        high=ends.high,
        n=sum(int(row["judged"]) for row in both),
        persons=sum(int(row["persons"]) for row in both),
        at_most=rule.at_most,
        is_difference=True,
        why="" if ends.high is not None else FEW if few else ALIKE,
        more=f"Wholly beyond it too: {listed(beyond)}." if beyond else "",
    )


def _from_reference(row: Row, reference: str, sign: float) -> tuple[str, float | None, Ends]:
    """The other group, and by how much it is worse off."""
    turned = row["group"] == reference
    ends = Ends(row["low"], row["high"])
    flip = turned != (sign < 0)
    difference = row["difference"]
    found = difference if difference is None or not flip else -difference
    return (row["other"] if turned else row["group"]), found, ends.flipped() if flip else ends


# What is counted, and what is said elsewhere


def _unscored(rule: Missingness, evidence: Evidence, most: float) -> Iterator[Figure]:
    """Of everything that was asked for on any outcome; a fact of the run, so it needs no interval."""
    frame = evidence.table("outcomes_by_editor")
    for editor in _editors(rule, evidence):
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
            n=_whole(worst["asked"]),
            persons=_whole(worst["persons"]),
            at_most=most,
            is_counted=True,
        )


def _calibration(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Calibration)
    for judge, found in (evidence.judges() or {}).items():
        if rule.judge is None or judge in rule.judge:
            yield _of_judge(judge, found)


_RULED = {Ruling.PASSED: Verdict.PASS, Ruling.FAILED: Verdict.FAIL, Ruling.UNTOLD: Verdict.UNDECIDED}


def _of_judge(judge: str, found: Calibrated) -> Figure:
    about = Figure(what="calibration", who=f"judge {judge}", brief=f"judge {judge}", things="looks")
    if found.ruling is None:
        said = "Nobody has shown it pairs of known truth: run `stillme calibrate` with the audit's file."
        return replace(about, verdict=Verdict.FAIL, more=said)
    verdict = _RULED[found.ruling]
    said = " ".join(found.reasons[:2]) or "It passed every rule of the protocol's calibration."
    return replace(about, verdict=verdict, n=found.looks, persons=found.persons, more=said)


def _claims(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Claims)
    protocol = evidence.protocol
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    whom = f"everyone else − perceived {protocol.groups.labels(dimension)[reference]}"
    for row in _rows(evidence, "primary"):
        if row["editor"] not in _editors(rule, evidence) or row["outcome"] not in (
            rule.outcome or (row["outcome"],)
        ):
            continue
        outcome = protocol.rubrics.outcomes.get(row["outcome"])
        axis = lowered(outcome.label if outcome else protocol.axes[row["outcome"]].label)
        yield Figure(
            what=axis if outcome else f"net direction of {axis}",
            editor=row["editor"],
            dimension=dimension,
            who=whom,
            brief=axis,
            estimate=row["difference"],
            low=row["low"],
            high=row["high"],
            n=_judged(row, evidence),
            persons=int(row["others_persons"]) + int(row["reference_persons"]),
            is_difference=True,
            more=_shown(row),
            verdict=_claimed(row),
        )


def _judged(row: Row, evidence: Evidence) -> int | None:
    about = {"editor": row["editor"]}
    rates = _rows(evidence, "outcomes_by_editor", outcome=row["outcome"], **about)
    rows = rates or _rows(evidence, "signed_by_editor", axis=row["outcome"], **about)
    return _whole(rows[0]["judged"]) if rows else None


def _claimed(row: Row) -> Verdict:
    if row["p_holm"] is None:
        return Verdict.UNDECIDED
    return Verdict.FAIL if row["p_holm"] < SURE else Verdict.PASS


def _shown(row: Row) -> str:
    if row["p_holm"] is None:
        return "Too few persons of a group to tell."
    p = f"corrected p {p_value(row['p_holm'])}"
    if row["p_holm"] < SURE:
        return f"A difference of {signed(row['difference'] * 100, 1)} points is shown ({p})."
    return f"No difference is shown ({p}), which is not evidence of none."


_OF: Mapping[type[Rule], Callable[[Rule, Evidence], Iterator[Figure]]] = {
    Rate: _rate,
    NetDirection: _net,
    Disparity: _disparity,
    RefusalGap: _refusals,
    Missingness: _missing,
    Calibration: _calibration,
    Claims: _claims,
}
