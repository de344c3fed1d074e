"""Verdicts that are told elsewhere: whether judges passed their calibration, which declared contrast is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stillme.analysis.numbers import lowered, p_value, signed
from stillme.assurance.gate.evidence import Calibrated, Evidence
from stillme.assurance.gate.figure import Figure, Row, editors, rows_of, whole
from stillme.assurance.gate.policy import Calibration, Claims, Rule
from stillme.assurance.gate.verdicts import Verdict
from stillme.stats.gate import Ruling

SURE = 0.05


def calibration(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
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


def claims(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    assert isinstance(rule, Claims)
    protocol = evidence.protocol
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    whom = f"everyone else − perceived {protocol.groups.labels(dimension)[reference]}"
    for row in rows_of(evidence, "primary"):
        is_asked = rule.outcome is None or row["outcome"] in rule.outcome
        if not is_asked or row["editor"] not in editors(rule, evidence):
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
    rates = rows_of(evidence, "outcomes_by_editor", outcome=row["outcome"], **about)
    rows = rates or rows_of(evidence, "signed_by_editor", axis=row["outcome"], **about)
    return whole(rows[0]["judged"]) if rows else None


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
