"""A gate's results: figures with thresholds, the verdict on each, in a sentence, and whether the gate is open.

A figure passes where the bound of its interval lies on the good side, fails where the whole interval lies on the
bad one, and is undecided where the interval reaches across the threshold or is not known.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from stillme.analysis.numbers import bracket, capital, count, percent, plural, points
from stillme.assurance.gate.evidence import MissingWork
from stillme.assurance.gate.policy import Otherwise, Severity
from stillme.stats.intervals import LEVEL

COMPLETE = "completeness"
CLOSED = 5  # the exit code of a closed gate


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 (a name, not a password)
    FAIL = "fail"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"  # an optional rule that is about nothing here


class Effect(StrEnum):
    """What a verdict does to the gate."""

    NONE = "none"
    WARNS = "warns"
    CLOSES = "closes"


@dataclass(frozen=True, kw_only=True)
class ThresholdCheck:
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


_NOT_IN_JSON = ("verdict", "more", "why", "brief")  # the result's verdict and sentence have them


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """One verdict. `place`: the rule's index in the policy, None of what is not a rule; `line`: its line there."""

    rule: str
    kind: str
    place: int | None
    line: int
    figure: ThresholdCheck
    verdict: Verdict
    effect: Effect
    message: str

    @property
    def about(self) -> str:
        """Of whom, in few words."""
        return ", ".join(word for word in (self.figure.editor, self.figure.brief) if word)

    @property
    def number(self) -> str:
        """The estimate with its interval."""
        figure = self.figure
        if figure.estimate is None:
            return ""
        estimate = points(figure.estimate) if figure.is_difference else percent(figure.estimate)
        if figure.is_counted or (figure.low is None and figure.high is None):
            return estimate
        return f"{estimate} {bracket(figure.low, figure.high)}"

    def to_dict(self) -> dict[str, Any]:
        head = {"rule": self.rule, "kind": self.kind, "place": self.place, "line": self.line}
        head |= {"verdict": self.verdict.value, "effect": self.effect.value}
        figure = {name: value for name, value in asdict(self.figure).items() if name not in _NOT_IN_JSON}
        return {**head, **figure, "said": self.message}


@dataclass(frozen=True)
class GateResult:
    """The gate, of what by which policy."""

    run: str
    policy: Path
    name: str
    results: tuple[RuleResult, ...]

    @property
    def is_open(self) -> bool:
        return all(result.effect is not Effect.CLOSES for result in self.results)

    @property
    def word(self) -> str:
        return "open" if self.is_open else "closed"

    def counts(self) -> dict[str, int]:
        numbers = Counter(result.verdict for result in self.results)
        return {verdict.value: numbers[verdict] for verdict in Verdict}

    @property
    def summary(self) -> str:
        """In one line: how many verdicts of which kind, and what they do."""
        closing = sum(result.effect is Effect.CLOSES for result in self.results)
        warning = sum(result.effect is Effect.WARNS for result in self.results)
        counts = ", ".join(f"{number} {word}" for word, number in self.counts().items() if number)
        effects = [f"{closing} of them {'closes' if closing == 1 else 'close'} it"] if closing else []
        effects += [f"{warning} {'warns' if warning == 1 else 'warn'}"] if warning else []
        ending = f"; {' and '.join(effects)}" if effects else ""
        return f"Gate {self.word}: {plural(len(self.results), 'verdicts')} ({counts}){ending}."

    def to_dict(self) -> dict[str, Any]:
        return {
            "gate": self.word,
            "run": self.run,
            "policy": str(self.policy),
            "name": self.name,
            "level": LEVEL,
            "counts": self.counts(),
            "summary": self.summary,
            "results": [result.to_dict() for result in self.results],
        }


# Verdicts and effects


def verdict_on(
    low: float | None, high: float | None, at_least: float | None = None, at_most: float | None = None
) -> Verdict:
    """Compare an interval with one threshold, or two. A bound that is missing or NaN decides nothing.

    >>> verdict_on(0.02, 0.08, at_most=0.1).value, verdict_on(0.02, 0.12, at_most=0.1).value
    ('pass', 'undecided')
    >>> verdict_on(0.11, 0.2, at_most=0.1).value, verdict_on(None, None, at_most=0.1).value
    ('fail', 'undecided')
    """
    low, high = (None if bound is None or math.isnan(bound) else bound for bound in (low, high))
    sides = []
    if at_most is not None:
        sides.append(_verdict_below(low, high, at_most))
    if at_least is not None:  # a lower threshold is an upper one with every sign turned
        low, high = (None if bound is None else -bound for bound in (high, low))
        sides.append(_verdict_below(low, high, -at_least))
    for worst in (Verdict.FAIL, Verdict.UNDECIDED):
        if worst in sides:
            return worst
    return Verdict.PASS if sides else Verdict.UNDECIDED


def _verdict_below(low: float | None, high: float | None, at_most: float) -> Verdict:
    if high is not None and high <= at_most:
        return Verdict.PASS
    return Verdict.FAIL if low is not None and low > at_most else Verdict.UNDECIDED


def decide_verdict(figure: ThresholdCheck) -> Verdict:
    if figure.verdict is not None:
        return figure.verdict
    return verdict_on(figure.low, figure.high, figure.at_least, figure.at_most)


_EFFECTS = {"pass": Effect.NONE, "warn": Effect.WARNS, "fail": Effect.CLOSES}


def effect_of(verdict: Verdict, severity: Severity, undecided: Otherwise) -> Effect:
    """A rule that only warns never closes the gate, decided or not.

    >>> effect_of(Verdict.UNDECIDED, "warn", "fail").value
    'warns'
    """
    if verdict is Verdict.FAIL:
        return _EFFECTS[severity]
    if verdict is Verdict.UNDECIDED:
        return _EFFECTS["warn" if severity == "warn" and undecided == "fail" else undecided]
    return Effect.NONE


def check_completeness(left: MissingWork | None, otherwise: Otherwise, line: int) -> RuleResult:
    """Whether everything that was asked for is there. `line`: of `incomplete` in the policy."""
    verdict, made, brief = Verdict.PASS, Effect.NONE, "the run"
    message = "Everything that was asked for is there."
    if left is None:
        verdict, brief = Verdict.SKIPPED, "not known"
        message = "Nothing says what was asked for, so it cannot be told whether something is missing."
    elif left.edits or left.verdicts:
        verdict, made = Verdict.FAIL, _EFFECTS[otherwise]
        counts = ((left.edits, "edits"), (left.verdicts, "verdicts"))
        missing = " and ".join(plural(number, noun) for number, noun in counts if number)
        message = f"The run is not finished: {missing} missing. Go on with `stillme run`, then gate it again."
    return RuleResult(
        rule=COMPLETE,
        kind=COMPLETE,
        place=None,
        line=line,
        figure=ThresholdCheck(what="everything asked for", brief=brief),
        verdict=verdict,
        effect=made,
        message=message,
    )


# In sentences


def format_threshold(figure: ThresholdCheck) -> str:
    """The threshold in words.

    >>> allowed(Figure(what="x", at_most=0.1)).replace(chr(160), " ")
    'at most 10.0 %'
    """
    thresholds = {"at least": figure.at_least, "at most": figure.at_most}
    return " and ".join(
        f"{word} {f'{points(value)} points' if figure.is_difference else percent(value)}"
        for word, value in thresholds.items()
        if value is not None
    )


def sentence(figure: ThresholdCheck, verdict: Verdict) -> str:
    """Of whom, the number, the interval, of how many, the threshold, why that is the verdict, and what else."""
    whose = f"{figure.editor}, {figure.who}" if figure.editor else capital(figure.who)
    counts = [f"{count(figure.n)} {figure.things}"] if figure.n else []
    counts += [plural(figure.persons, "persons")] if figure.persons else []
    denominators = f" ({', '.join(counts)})" if counts else ""
    parts = [f"{whose}: {figure.what}{_estimate(figure)}{denominators}."]
    if limit := format_threshold(figure):
        verb = "Allowed" if figure.at_least is None else "Asked for"
        parts.append(f"{verb}: {limit}; {_reason(figure, verdict)}.")
    return " ".join([*parts, figure.more] if figure.more else parts)


def _estimate(figure: ThresholdCheck) -> str:
    if figure.estimate is None:
        return "" if figure.verdict is not None else " has no number"
    value = f"{points(figure.estimate)} points" if figure.is_difference else percent(figure.estimate)
    if figure.is_counted:
        return f" {value}"
    has_interval = figure.low is not None or figure.high is not None
    return f" {value} {bracket(figure.low, figure.high)}" if has_interval else f" {value}, no interval"


def _reason(figure: ThresholdCheck, verdict: Verdict) -> str:
    if figure.is_counted:
        return "counted, so it needs no interval"
    if verdict is Verdict.PASS:
        return "the whole interval lies within"
    if verdict is Verdict.FAIL:
        return "the whole interval lies beyond"
    if figure.why:
        return f"this cannot be told ({figure.why})"
    return "the interval reaches across, so this many persons do not tell"
