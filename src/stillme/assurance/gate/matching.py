"""Whether a rule is about something that is there: a word that nobody knows is more likely a typo than a wish.

What does not match is (field, sentence). Only an optional rule may be about nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.policy import (
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
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.stats.missingness import EDIT_REFUSED, NO_SCORE

Mismatch = tuple[str, str]

# What a rule says without saying it


def dimension_of(rule: GroupRule, protocol: Protocol) -> str:
    """The rule's own, else that of the groups that it names, else that of the reference group."""
    if rule.dimension is not None:
        return rule.dimension
    named = set(getattr(rule, "group", None) or ())
    for dimension in protocol.groups.dimensions:
        if named & set(protocol.groups.ids(dimension)):
            return dimension
    return next(iter(protocol.groups.reference_group))


def axis_of(rule: NetDirection, protocol: Protocol) -> str | None:
    """The rule's own, else the first signed axis that claims rest on."""
    return rule.axis or next(iter(protocol.analysis.primary.net), None)


# What a rule names and is not there


def mismatches(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    """Yield everything that a rule names and that is not there."""
    yield from _words("editor", rule.editor, "editor of the run", evidence.editors)
    dimensions = evidence.protocol.groups.dimensions
    if isinstance(rule, GroupRule) and rule.dimension is not None and rule.dimension not in dimensions:
        yield "dimension", unknown(rule.dimension, "dimension", dimensions)
        return
    match rule:
        case Rate():
            yield from _outcome(rule.outcome, evidence)
            yield from _groups_or_worst(rule, evidence)
        case NetDirection():
            yield from _axis(rule, evidence)
            yield from _groups_or_worst(rule, evidence)
        case Disparity():
            yield from _outcome(rule.outcome, evidence)
            yield from _two_groups(rule, evidence)
            if rule.of == "reference":
                dimension = dimension_of(rule, evidence.protocol)
                yield from _reference_group(dimension, evidence)
                yield from _groups(rule, rule.group or (), evidence)
                reference = evidence.protocol.groups.reference_group.get(dimension)
                if reference in (rule.group or ()):
                    yield "group", f"'{reference}' is the reference group itself; name others"
        case RefusalGap():
            yield from _two_groups(rule, evidence)
            if not _has(evidence.table("missing_disparity"), outcome=EDIT_REFUSED):
                yield "kind", "nothing says how edits ended, so refusals are not known; give the run itself"
        case Missingness() if rule.gap_at_most is not None:
            yield from _two_groups(rule, evidence)
            if not _has(evidence.table("missing_disparity"), outcome=NO_SCORE):
                problem = "no table says how far groups lie apart in what is missing; analyse the run again"
                yield "gap_at_most", problem
        case Calibration():
            yield from _calibration(rule, evidence)
        case Claims():
            primary = evidence.protocol.analysis.primary
            yield from _words("outcome", rule.outcome, "declared endpoint", [*primary.outcomes, *primary.net])
            yield from _reference_group(next(iter(evidence.protocol.groups.reference_group)), evidence)


def _words(field: str, words: Sequence[str] | None, what: str, known: Sequence[str]) -> Iterator[Mismatch]:
    for word in words or ():
        if word not in known:
            yield field, unknown(word, what, known)


def _axis(rule: NetDirection, evidence: Evidence) -> Iterator[Mismatch]:
    signed_axes = [axis.id for axis in evidence.protocol.rubrics.axes if axis.is_signed]
    axis = axis_of(rule, evidence.protocol)
    if axis is None:
        yield "axis", "is missing, and the protocol declares no net direction to take instead"
    elif axis not in signed_axes:
        yield "axis", unknown(axis, "signed axis", signed_axes)
    elif not _has(evidence.table("signed_by_editor"), axis=axis):
        yield "axis", f"nothing has a score on '{axis}'"


def _groups_or_worst(rule: ThresholdRule, evidence: Evidence) -> Iterator[Mismatch]:
    if rule.group is not None:
        yield from _groups(rule, rule.group, evidence)
    elif WORST in rule.over and {"over", "dimension"} & rule.model_fields_set:
        yield from _two_groups(rule, evidence)


def _calibration(rule: Calibration, evidence: Evidence) -> Iterator[Mismatch]:
    judges = evidence.judges()
    if judges is None:
        yield "kind", f"{evidence.name} does not say whether judges were calibrated; give the run itself"
    elif not judges:
        yield "kind", "the run asks no judge"
    else:
        yield from _words("judge", rule.judge, "judge of the run", list(judges))


def _outcome(outcome: str, evidence: Evidence) -> Iterator[Mismatch]:
    outcomes = evidence.protocol.rubrics.outcomes
    if outcome not in outcomes:
        yield "outcome", unknown(outcome, "outcome", outcomes)
    elif not _has(evidence.table("outcomes_by_editor"), outcome=outcome):
        yield "outcome", f"nothing has a score on '{outcomes[outcome].axis}', so '{outcome}' is not known"


def _two_groups(rule: GroupRule, evidence: Evidence) -> Iterator[Mismatch]:
    dimension = dimension_of(rule, evidence.protocol)
    if len(evidence.groups(dimension)) < 2:
        yield "dimension", f"nobody can be compared by {dimension}: that takes persons of two groups"


def _groups(rule: GroupRule, groups: Sequence[str], evidence: Evidence) -> Iterator[Mismatch]:
    dimension = dimension_of(rule, evidence.protocol)
    declared, present = evidence.protocol.groups.ids(dimension), evidence.groups(dimension)
    for group in groups:
        if group not in declared:
            yield "group", unknown(group, f"group of {dimension}", declared)
        elif group not in present:
            yield "group", f"nobody here is of the group '{group}'; there are: {', '.join(present) or 'none'}"


def _reference_group(dimension: str, evidence: Evidence) -> Iterator[Mismatch]:
    references = evidence.protocol.groups.reference_group
    reference = references.get(dimension)
    if reference is None:
        yield "dimension", f"{dimension} has no reference group in the protocol; {', '.join(references)} has"
    elif reference not in evidence.groups(dimension):
        yield "kind", f"nobody here is of the reference group '{reference}'"


def _has(frame: pl.DataFrame | None, **values: str) -> bool:
    return frame is not None and frame.filter(**values).height > 0
