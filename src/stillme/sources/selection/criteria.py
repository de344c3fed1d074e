"""Criteria: what the figures of a portrait say by the protocol's rules, and which candidate comes first. Pure.

A figure that could not be read is neither good nor bad: the criterion is then not measured. Nothing here decides:
a person does, with these numbers at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stillme.protocol.schema import Rule

Criteria = Mapping[str, Sequence[Rule]]


@dataclass(frozen=True)
class Check:
    """One rule beside the figure that it asks for; `value` is None where that could not be read."""

    rule: Rule
    value: float | None

    @property
    def holds(self) -> bool | None:
        return None if self.value is None else self.excess == 0

    @property
    def excess(self) -> float:
        """How far beyond its bound the figure is, in parts of that bound; 0 within, and where it was not read."""
        if self.value is None:
            return 0.0
        low, high = self.rule.at_least, self.rule.at_most
        if low is not None and self.value < low:
            return (low - self.value) / (abs(low) or 1)
        if high is not None and self.value > high:
            return (self.value - high) / (abs(high) or 1)
        return 0.0

    @property
    def words(self) -> str:
        """As people read it: 'turned to a side: 31°, at most 20° either way'."""
        return f"{self.rule.label}: {self._said}, {bounds(self.rule)}"

    @property
    def _said(self) -> str:
        if self.value is None:
            return "not measured"
        value = abs(self.value) if _is_even(self.rule) else self.value
        digits = self.rule.digits if self.holds or not _looks_within(self.rule, value) else self.rule.digits + 1
        return _number(f"{value:.{digits}f}", self.rule.unit)


@dataclass(frozen=True)
class Outcome:
    """What the rules of one criterion say of one portrait."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool | None:
        """False as soon as one rule fails; else None where a figure is missing."""
        held = [check.holds for check in self.checks]
        return False if False in held else None if None in held else True

    @property
    def excess(self) -> float:
        return sum(check.excess for check in self.checks)


def judge(figures: Mapping[str, float], criteria: Criteria) -> dict[str, Outcome]:
    """Criterion -> outcome, in the order of the criteria."""
    return {
        name: Outcome(tuple(Check(rule, figures.get(rule.figure)) for rule in rules))
        for name, rules in criteria.items()
    }


def rank(judged: Iterable[tuple[str, Mapping[str, Outcome]]]) -> list[str]:
    """The keys, best first: most criteria met, then fewest not measured, then least beyond the bounds."""
    return [key for _, key in sorted((_standing(outcomes), key) for key, outcomes in judged)]


def _standing(outcomes: Mapping[str, Outcome]) -> tuple[int, int, float]:
    said = [outcome.passed for outcome in outcomes.values()]
    met, unmeasured = said.count(True), said.count(None)
    return -met, unmeasured, sum(outcome.excess for outcome in outcomes.values())


def _is_even(rule: Rule) -> bool:
    """Whether the same is allowed either way, as with angles."""
    return rule.at_least is not None and rule.at_most is not None and rule.at_least == -rule.at_most


def bounds(rule: Rule) -> str:
    """What a rule allows, in words."""
    if rule.at_least is None or rule.at_most is None:
        return f"at least {_bound(rule, rule.at_least)}" if rule.at_most is None else _at_most(rule)
    if _is_even(rule):
        return f"{_at_most(rule)} either way"
    return f"{_bound(rule, rule.at_least)} to {_bound(rule, rule.at_most)}"


def _at_most(rule: Rule) -> str:
    return f"at most {_bound(rule, rule.at_most)}"


def _bound(rule: Rule, value: float | None) -> str:
    """A bound as the protocol has it, without digits that it does not have."""
    return _number(f"{value:g}", rule.unit)


def _looks_within(rule: Rule, value: float) -> bool:
    """Whether rounding hides that the figure is beyond its bound: 20.3° is not shown as 20°, at most 20°."""
    return round(value, rule.digits) in (rule.at_least, rule.at_most)


def _number(written: str, unit: str) -> str:
    gap = "" if unit in ("", "°") else " "
    return f"{written}{gap}{unit}".replace("-", "−", 1)
