"""A gate for releases: a policy's thresholds held against the bounds of intervals, never against bare numbers.

`stillme gate`: read the policy, find every fault at once, compute the tables that its rules ask for, decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stillme.assurance.gate import policy as policies
from stillme.assurance.gate.evidence import Evidence, look
from stillme.assurance.gate.figure import Figure
from stillme.assurance.gate.figures import figures
from stillme.assurance.gate.matching import Mismatch, mismatches
from stillme.assurance.gate.policy import Calibration, Placed, Policy, Rule
from stillme.assurance.gate.results import CLOSED, Gated, Result, decided, of_completeness, sentence
from stillme.assurance.gate.saying import words
from stillme.assurance.gate.starting import start
from stillme.assurance.gate.verdicts import Effect, Verdict, effect
from stillme.assurance.gate.writing import Files, write
from stillme.core.errors import FaultsError, InputError

__all__ = ["CLOSED", "Files", "Gated", "gate", "named", "start", "words", "write"]


def named(run: Path | None) -> Path:
    """What is to be gated, or a sentence where nothing was named."""
    if run is None:
        raise InputError("What is to be gated?", "`stillme gate RUN policy.yaml`; --init FILE writes a policy.")
    return run


def gate(path: Path, policy: Path, protocol: Path | None = None, seed: int = 0) -> Gated:
    """Every verdict of a policy on a run, an analysis or a table of scores; or every fault of the policy."""
    policies.opened(policy)  # what is no policy is said before scores are read
    return judged(look(path, protocol, seed), policy)


def judged(evidence: Evidence, path: Path) -> Gated:
    policy = policies.read(path, evidence.protocol)
    unmatched = {placed.place: list(mismatches(placed.rule, evidence)) for placed in policy.rules}
    _raise_faults(policy, unmatched)
    complete = of_completeness(evidence.left, policy.head.incomplete, policy.document.line(("incomplete",)))
    results = [complete]
    for placed in policy.rules:
        results += _results(placed, policy, evidence, unmatched[placed.place])
    return Gated(evidence.name, path, policy.head.name, tuple(results))


def _raise_faults(policy: Policy, unmatched: dict[int, list[Mismatch]]) -> None:
    document, faults = policy.document, list(policy.document.faults)
    for placed in policy.rules:
        if not placed.rule.optional:
            faults += [document.fault(("rules", placed.place, f), said) for f, said in unmatched[placed.place]]
    if faults:
        step = "A rule that may be about nothing says `optional: true`." if any(unmatched.values()) else ""
        raise FaultsError(faults, step)


def _results(placed: Placed, policy: Policy, evidence: Evidence, unmatched: list[Mismatch]) -> Iterator[Result]:
    if unmatched:
        yield _left_out(placed, unmatched)
        return
    found = list(figures(placed.rule, evidence))
    for figure in [*found, *_unseen(placed.rule, found, evidence)]:
        verdict = decided(figure)
        made = effect(verdict, placed.rule.severity, policy.otherwise(placed.rule))
        yield _result(placed, figure, verdict, made, sentence(figure, verdict))


def _unseen(rule: Rule, found: list[Figure], evidence: Evidence) -> Iterator[Figure]:
    """Editors of which no table has a row: what is not there decides nothing, and must not pass for good."""
    asked = () if isinstance(rule, Calibration) else rule.editor or evidence.editors
    for editor in asked:
        if editor not in {figure.editor for figure in found}:
            what = f"nothing to hold against {rule.kind.replace('_', ' ')}"
            yield Figure(what, editor, who="everyone", verdict=Verdict.UNDECIDED)


def _left_out(placed: Placed, unmatched: list[Mismatch]) -> Result:
    said = f"Left out, because it is about nothing here: {'; '.join(said for _, said in unmatched)}."
    return _result(placed, Figure(placed.name), Verdict.SKIPPED, Effect.NONE, said)


def _result(placed: Placed, figure: Figure, verdict: Verdict, made: Effect, said: str) -> Result:
    return Result(placed.name, placed.rule.kind, placed.place, placed.line, figure, verdict, made, said)
