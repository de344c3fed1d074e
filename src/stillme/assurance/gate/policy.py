"""policy.yaml: what a release has to show. Every fault is named by file, line and field, all at once.

A rule's kind is one of KINDS, or a word of the protocol: an outcome stands for its rate, a signed axis for its net
direction, and an axis of what was asked for stands for the outcome that is wanted on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from stillme.core.errors import ConfigIssuesError, InputError
from stillme.core.yaml import Document, StrictModel, faults_of, read_text, unknown
from stillme.protocol import Protocol
from stillme.protocol.schema import Text
from stillme.stats.disparity import is_wanted

Severity = Literal["fail", "warn"]
Otherwise = Literal["fail", "warn", "pass"]  # what an undecided rule, or an unfinished run, does to the gate


def _check_number(value: Any) -> Any:
    """`true` and "0.1" would otherwise be taken for numbers."""
    if isinstance(value, bool | str):
        raise ValueError(f"is a number, such as 0.1 (given: {value!r})")
    return value


def _check_share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"is a share between 0 and 1: 10 % is 0.1 (given: {value:g})")
    return value


def _check_net(value: float) -> float:
    if not -1 <= value <= 1:
        raise ValueError(f"is a share above less a share below, between -1 and 1 (given: {value:g})")
    return value


Several = Annotated[
    tuple[Text, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(min_length=1),
]
Share = Annotated[float, BeforeValidator(_check_number), AfterValidator(_check_share)]
Net = Annotated[float, BeforeValidator(_check_number), AfterValidator(_check_net)]
Whom = Literal["everyone", "worst_group"]
EVERYONE: Whom = "everyone"
WORST: Whom = "worst_group"
BOTH = (EVERYONE, WORST)


class Rule(StrictModel):
    """What every rule has. `editor`: the one that it is about, else each. `undecided`: else as the policy says."""

    kind: str
    name: str = Field(default="", max_length=120)
    editor: Several | None = None
    severity: Severity = "fail"
    undecided: Otherwise | None = None
    optional: bool = False


class GroupRule(Rule):
    """`dimension`: else that of the reference group."""

    dimension: Text | None = None


class ThresholdRule(GroupRule):
    """A rule on a figure of everyone and of the worst group; or, with `group`, of these groups alone."""

    group: Several | None = None
    over: tuple[Whom, ...] = Field(default=BOTH, min_length=1)

    @model_validator(mode="after")
    def _a_group_is_nobody_else(self) -> ThresholdRule:
        if self.group is not None and "over" in self.model_fields_set:
            raise ValueError("give either group or over: a named group is neither everyone nor the worst one")
        return self


class Rate(ThresholdRule):
    """How often an outcome happens."""

    outcome: Text
    at_most: Share | None = None
    at_least: Share | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Rate:
        _check_bounds(self.at_least, self.at_most)
        return self


class NetDirection(ThresholdRule):
    """Which way a signed axis moves on balance: the share above no change less the share below."""

    axis: Text | None = None
    at_most: Net | None = None
    at_least: Net | None = None

    @model_validator(mode="after")
    def _bounded(self) -> NetDirection:
        _check_bounds(self.at_least, self.at_most)
        return self


class Disparity(GroupRule):
    """How far groups lie apart: all of them (max − min, corrected and gated), or the worst from the reference."""

    outcome: Text
    of: Literal["range", "reference"] = "range"
    group: Several | None = None
    at_most: Share

    @model_validator(mode="after")
    def _groups_are_held_against_the_reference(self) -> Disparity:
        if self.group is not None and self.of == "range":
            raise ValueError("group goes with `of: reference`; max − min is over all groups of the dimension")
        return self


class RefusalGap(GroupRule):
    """How far groups lie apart in how often they are refused an edit."""

    at_most: Share


class Missingness(GroupRule):
    """The share without a score, and how far groups lie apart in it."""

    at_most: Share | None = None
    gap_at_most: Share | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Missingness:
        if self.at_most is None and self.gap_at_most is None:
            raise ValueError("give at_most, gap_at_most or both")
        return self


class Calibration(Rule):
    """Judges were shown pairs of known truth, and passed."""

    editor: None = None
    judge: Several | None = None


class Claims(Rule):
    """No declared contrast between everyone else and the reference group is shown. `outcome`: only these."""

    outcome: Several | None = None


KINDS: Mapping[str, type[Rule]] = {
    "rate": Rate,
    "net": NetDirection,
    "disparity": Disparity,
    "refusal_gap": RefusalGap,
    "missingness": Missingness,
    "calibration": Calibration,
    "claims": Claims,
}


def _check_bounds(at_least: float | None, at_most: float | None) -> None:
    if at_least is None and at_most is None:
        raise ValueError("give at_most, at_least or both")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError(f"at_least {at_least:g} is above at_most {at_most:g}")


class Head(StrictModel):
    """policy.yaml, its rules unread."""

    stillme: Literal[1]
    name: Text = "release gate"
    undecided: Otherwise = "fail"
    incomplete: Otherwise = "fail"
    rules: tuple[dict[str, Any], ...] = Field(min_length=1)


@dataclass(frozen=True)
class LocatedRule:
    """A rule, its index in the policy, and its line in the file."""

    rule: Rule
    index: int
    line: int

    @property
    def name(self) -> str:
        return self.rule.name or self.rule.kind.replace("_", " ")


@dataclass(frozen=True)
class Policy:
    path: Path
    head: Head
    rules: tuple[LocatedRule, ...]
    document: Document

    def otherwise(self, rule: Rule) -> Otherwise:
        """What an undecided rule does."""
        return self.head.undecided if rule.undecided is None else rule.undecided


def read_head(path: Path) -> tuple[Document, Head]:
    """Read the file as far as that takes no protocol."""
    if not path.exists():
        raise InputError(f"There is no policy {path}.", f"`stillme gate --init {path}` writes one to start from.")
    document = Document(str(path), read_text(path))
    head = document.read_as(Head)
    if head is None:
        raise ConfigIssuesError(document.faults)
    return document, head


def read(path: Path, protocol: Protocol) -> Policy:
    """Read the policy, with the faults of all its rules noted in `document`."""
    document, head = read_head(path)
    rules: list[LocatedRule] = []
    for index, raw in enumerate(head.rules):
        rule = _read_rule(raw, index, document, protocol)
        if rule is not None:
            rules.append(LocatedRule(rule=rule, index=index, line=document.line(("rules", index))))
    names: set[str] = set()
    for placed in rules:
        if placed.rule.name and placed.rule.name in names:
            problem = f"'{placed.rule.name}' is the name of another rule too"
            document.faults.append(document.fault(("rules", placed.index, "name"), problem))
        names.add(placed.rule.name)
    return Policy(path=path, head=head, rules=tuple(rules), document=document)


def _read_rule(raw: dict[str, Any], index: int, document: Document, protocol: Protocol) -> Rule | None:
    """Return the rule, or None with its faults noted."""
    at = ("rules", index)

    def note(field: str, problem: str) -> None:
        document.faults.append(document.fault((*at, field), problem))

    kind = raw.get("kind")
    if kind is None:
        note("kind", f"is missing; known: {', '.join(KINDS)}")
        return None
    resolved = meaning(str(kind), protocol)
    if resolved is None:
        note("kind", unknown(str(kind), "kind of rule", [*KINDS, *protocol.rubrics.outcomes]))
        return None
    model, implied = resolved
    for name, value in implied.items():
        if name in raw:
            note(name, f"is said by the kind already: '{kind}' is about {value}")
            return None
    try:
        return model.model_validate({**raw, **implied})
    except ValidationError as error:
        document.faults += faults_of(error, document, model, at)
        return None


def meaning(kind: str, protocol: Protocol) -> tuple[type[Rule], dict[str, str]] | None:
    """Return the model of a kind and the fields that the word implies; None for an unknown word."""
    if kind in KINDS:
        return KINDS[kind], {}
    outcomes = protocol.rubrics.outcomes
    if kind in outcomes:
        return Rate, {"outcome": kind}
    axis = protocol.axes.get(kind)
    if axis is not None and axis.is_signed:
        return NetDirection, {"axis": kind}
    wanted = [name for name, outcome in outcomes.items() if outcome.axis == kind and is_wanted(protocol, outcome)]
    return (Rate, {"outcome": wanted[0]}) if len(wanted) == 1 else None
