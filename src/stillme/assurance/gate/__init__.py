"""A gate for releases: a policy's thresholds are compared with the bounds of intervals, never with bare numbers.

`stillme gate`: read the policy, find every fault at once, compute the tables that its rules ask for, decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stillme.assurance.gate.evidence import Evidence, look
from stillme.assurance.gate.figures import figures
from stillme.assurance.gate.files import Files, write
from stillme.assurance.gate.matching import Mismatch, mismatches
from stillme.assurance.gate.policy import Calibration, LocatedRule, Policy, read, read_head
from stillme.assurance.gate.results import (
    CLOSED,
    Effect,
    GateResult,
    RuleResult,
    ThresholdCheck,
    Verdict,
    check_completeness,
    decide_verdict,
    effect_of,
    sentence,
)
from stillme.assurance.gate.starter_policy import start
from stillme.core.errors import ConfigIssuesError, InputError

__all__ = ["CLOSED", "Files", "GateResult", "gate", "start", "write"]


def gate(path: Path | None, policy: Path, protocol: Path | None = None, seed: int = 0) -> GateResult:
    """Every verdict of a policy on a run, an analysis or a table of scores; or every fault of the policy."""
    if path is None:
        raise InputError("What is to be gated?", "`stillme gate RUN policy.yaml`; --init FILE writes a policy.")
    read_head(policy)  # a file that is not a policy is refused before the scores are read, which takes longer
    return evaluate_gate(look(path, protocol, seed), policy)


def evaluate_gate(evidence: Evidence, path: Path) -> GateResult:
    policy = read(path, evidence.protocol)
    document, faults = policy.document, list(policy.document.faults)
    unmatched = {placed.index: list(mismatches(placed.rule, evidence)) for placed in policy.rules}
    for placed in policy.rules:
        if not placed.rule.optional:
            fields = unmatched[placed.index]
            faults += [document.fault(("rules", placed.index, field), problem) for field, problem in fields]
    if faults:
        step = "A rule that may be about nothing says `optional: true`." if any(unmatched.values()) else ""
        raise ConfigIssuesError(faults, step)
    results = [check_completeness(evidence.left, policy.head.incomplete, document.line(("incomplete",)))]
    for placed in policy.rules:
        results += _results(placed, policy, evidence, unmatched[placed.index])
    return GateResult(evidence.name, path, policy.head.name, tuple(results))


def _results(
    placed: LocatedRule, policy: Policy, evidence: Evidence, unmatched: list[Mismatch]
) -> Iterator[RuleResult]:
    if unmatched:
        problems = "; ".join(problem for _, problem in unmatched)
        message = f"Left out, because it is about nothing here: {problems}."
        yield _result(placed, ThresholdCheck(what=placed.name), Verdict.SKIPPED, Effect.NONE, message)
        return
    rule = placed.rule
    numbers = list(figures(rule, evidence))
    # Editors of which no table has a row: what is not there decides nothing, and must not pass for good.
    for editor in () if isinstance(rule, Calibration) else rule.editor or evidence.editors:
        if editor not in {figure.editor for figure in numbers}:
            what = f"nothing to hold against {rule.kind.replace('_', ' ')}"
            numbers.append(ThresholdCheck(what=what, editor=editor, who="everyone", verdict=Verdict.UNDECIDED))
    for figure in numbers:
        verdict = decide_verdict(figure)
        effect = effect_of(verdict, rule.severity, policy.otherwise(rule))
        yield _result(placed, figure, verdict, effect, sentence(figure, verdict))


def _result(
    placed: LocatedRule, figure: ThresholdCheck, verdict: Verdict, effect: Effect, message: str
) -> RuleResult:
    return RuleResult(
        rule=placed.name,
        kind=placed.rule.kind,
        place=placed.index,
        line=placed.line,
        figure=figure,
        verdict=verdict,
        effect=effect,
        message=message,
    )
