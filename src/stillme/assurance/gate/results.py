"""What a gate says: a verdict a figure, in a sentence, and whether the gate is open."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stillme.analysis.numbers import bracket, capital, count, percent, plural, points
from stillme.assurance.gate.evidence import Left
from stillme.assurance.gate.figure import Figure
from stillme.assurance.gate.verdicts import Effect, Otherwise, Verdict, verdict
from stillme.stats.intervals import LEVEL

COMPLETE = "completeness"
CLOSED = 5  # the exit code of a closed gate


@dataclass(frozen=True)
class Result:
    """One verdict. `place`: the rule's in the policy, None of what is not a rule; `line`: where it stands."""

    rule: str
    kind: str
    place: int | None
    line: int
    figure: Figure
    verdict: Verdict
    effect: Effect
    said: str

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
        told = points(figure.estimate) if figure.is_difference else percent(figure.estimate)
        if figure.is_counted or (figure.low is None and figure.high is None):
            return told
        return f"{told} {bracket(figure.low, figure.high)}"

    def plain(self) -> dict[str, Any]:
        told = {
            name: value
            for name, value in asdict(self.figure).items()
            if name not in ("verdict", "more", "why", "brief")
        }
        head = {"rule": self.rule, "kind": self.kind, "place": self.place, "line": self.line}
        return {**head, "verdict": self.verdict.value, "effect": self.effect.value, **told, "said": self.said}


@dataclass(frozen=True)
class Gated:
    """The gate, of what by which policy."""

    run: str
    policy: Path
    name: str
    results: tuple[Result, ...]

    @property
    def is_open(self) -> bool:
        return all(one.effect is not Effect.CLOSES for one in self.results)

    @property
    def word(self) -> str:
        return "open" if self.is_open else "closed"

    def counts(self) -> dict[str, int]:
        found = Counter(one.verdict for one in self.results)
        return {verdict.value: found[verdict] for verdict in Verdict}

    @property
    def summary(self) -> str:
        """In one line: how many verdicts of which kind, and what they do."""
        closing = sum(one.effect is Effect.CLOSES for one in self.results)
        warning = sum(one.effect is Effect.WARNS for one in self.results)
        told = ", ".join(f"{number} {word}" for word, number in self.counts().items() if number)
        effects = [f"{closing} of them {'closes' if closing == 1 else 'close'} it"] if closing else []
        effects += [f"{warning} {'warns' if warning == 1 else 'warn'}"] if warning else []
        ending = f"; {' and '.join(effects)}" if effects else ""
        return f"Gate {self.word}: {plural(len(self.results), 'verdicts')} ({told}){ending}."

    def plain(self) -> dict[str, Any]:
        return {
            "gate": self.word,
            "run": self.run,
            "policy": str(self.policy),
            "name": self.name,
            "level": LEVEL,
            "counts": self.counts(),
            "summary": self.summary,
            "results": [one.plain() for one in self.results],
        }


# In sentences


def decided(figure: Figure) -> Verdict:
    if figure.verdict is not None:
        return figure.verdict
    return verdict(figure.low, figure.high, figure.at_least, figure.at_most)


def allowed(figure: Figure) -> str:
    """The threshold in words.

    >>> allowed(Figure("x", at_most=0.1)).replace(chr(160), " ")
    'at most 10.0 %'
    """
    told = (lambda v: f"{points(v)} points") if figure.is_difference else percent
    parts = [("at least", figure.at_least), ("at most", figure.at_most)]
    return " and ".join(f"{word} {told(value)}" for word, value in parts if value is not None)


def sentence(figure: Figure, found: Verdict) -> str:
    """Of whom, the number, the interval, of how many, the threshold, why that is the verdict, and what else."""
    whose = f"{figure.editor}, {figure.who}" if figure.editor else capital(figure.who)
    told = f"{whose}: {figure.what}{_said(figure)}."
    limit = allowed(figure)
    verb = "Allowed" if figure.at_least is None else "Asked for"
    why = f"{verb}: {limit}; {_because(figure, found)}." if limit else ""
    return " ".join(part for part in (told, why, figure.more) if part)


def _said(figure: Figure) -> str:
    counts = [f"{count(figure.n)} {figure.things}"] if figure.n else []
    counts += [plural(figure.persons, "persons")] if figure.persons else []
    return _number(figure) + (f" ({', '.join(counts)})" if counts else "")


def _number(figure: Figure) -> str:
    if figure.estimate is None:
        return "" if figure.verdict is not None else " has no number"
    value = f"{points(figure.estimate)} points" if figure.is_difference else percent(figure.estimate)
    if figure.is_counted:
        return f" {value}"
    known = figure.low is not None or figure.high is not None
    return f" {value} {bracket(figure.low, figure.high)}" if known else f" {value}, no interval"


def _because(figure: Figure, found: Verdict) -> str:
    if figure.is_counted:
        return "counted, so it needs no interval"
    if found is Verdict.PASS:
        return "the whole interval lies within"
    if found is Verdict.FAIL:
        return "the whole interval lies beyond"
    if figure.why:
        return f"this cannot be told ({figure.why})"
    return "the interval reaches across, so this many persons do not tell"


def of_completeness(left: Left | None, otherwise: Otherwise, line: int) -> Result:
    """Whether everything that was asked for is there."""
    if left is None:
        figure = Figure("everything asked for", brief="not known")
        said = "Nothing says what was asked for, so it cannot be told whether something is missing."
        return Result(COMPLETE, COMPLETE, None, line, figure, Verdict.SKIPPED, Effect.NONE, said)
    some = [
        plural(number, noun) for number, noun in ((left.edits, "edits"), (left.verdicts, "verdicts")) if number
    ]
    figure = Figure("everything asked for", brief="the run")
    found = Verdict.FAIL if some else Verdict.PASS
    said = "Everything that was asked for is there."
    if some:
        said = (
            f"The run is not finished: {' and '.join(some)} missing. Go on with `stillme run`, then gate it again."
        )
    made = {"fail": Effect.CLOSES, "warn": Effect.WARNS, "pass": Effect.NONE}[otherwise] if some else Effect.NONE
    return Result(COMPLETE, COMPLETE, None, line, figure, found, made, said)
