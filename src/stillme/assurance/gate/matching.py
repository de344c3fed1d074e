"""Whether a rule is about something that is there: a word that nobody knows is more likely a typo than a wish.

What does not match is (field, sentence). Only an optional rule may be about nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.policy import (
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
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.stats.missingness import EDIT_REFUSED, NO_SCORE

Mismatch = tuple[str, str]


def mismatches(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    """Everything that a rule names and that is not there."""
    yield from _words("editor", rule.editor or (), "editor of the run", evidence.editors)
    dimension, known = getattr(rule, "dimension", None), evidence.protocol.groups.dimensions
    if dimension is not None and dimension not in known:
        yield "dimension", unknown(dimension, "dimension", known)
        return
    yield from _OF[type(rule)](rule, evidence)


def _words(field: str, given: Sequence[str], what: str, known: Sequence[str]) -> Iterator[Mismatch]:
    for word in given:
        if word not in known:
            yield field, unknown(word, what, known)


# What a rule says without saying it


def dimension_of(rule: OfGroups, protocol: Protocol) -> str:
    """The rule's own, else that of the groups that it names, else that of the reference group."""
    if rule.dimension is not None:
        return rule.dimension
    named = getattr(rule, "group", None) or ()
    for dimension in protocol.groups.dimensions:
        if named and set(named) & set(protocol.groups.ids(dimension)):
            return dimension
    return next(iter(protocol.groups.reference_group))


def axis_of(rule: NetDirection, protocol: Protocol) -> str | None:
    """The rule's own, else the first signed axis that claims rest on."""
    return rule.axis or next(iter(protocol.analysis.primary.net), None)


# Rule by rule


def _rate(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, Rate)
    yield from _outcome(rule.outcome, evidence)
    yield from _figured(rule, evidence)


def _net(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, NetDirection)
    axes = [axis.id for axis in evidence.protocol.rubrics.axes if axis.is_signed]
    axis = axis_of(rule, evidence.protocol)
    if axis is None:
        yield "axis", "is missing, and the protocol declares no net direction to take instead"
    elif axis not in axes:
        yield "axis", unknown(axis, "signed axis", axes)
    elif not _has(evidence.table("signed_by_editor"), axis=axis):
        yield "axis", f"nothing has a score on '{axis}'"
    yield from _figured(rule, evidence)


def _figured(rule: Figured, evidence: Evidence) -> Iterator[Mismatch]:
    if rule.group is not None:
        yield from _groups(rule, rule.group, evidence)
    elif WORST in rule.over and {"over", "dimension"} & rule.model_fields_set:
        yield from _compared(rule, evidence)


def _disparity(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, Disparity)
    yield from _outcome(rule.outcome, evidence)
    yield from _compared(rule, evidence)
    if rule.of == "reference":
        yield from _reference(dimension_of(rule, evidence.protocol), evidence)
        yield from _groups(rule, rule.group or (), evidence)
        yield from _itself(rule, evidence)


def _itself(rule: Disparity, evidence: Evidence) -> Iterator[Mismatch]:
    reference = evidence.protocol.groups.reference_group.get(dimension_of(rule, evidence.protocol))
    if reference in (rule.group or ()):
        yield "group", f"'{reference}' is the reference group itself; name others"


def _refusals(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, RefusalGap)
    yield from _compared(rule, evidence)
    if not _has(evidence.table("missing_disparity"), outcome=EDIT_REFUSED):
        yield "kind", "nothing says how edits ended, so refusals are not known; give the run itself"


def _missingness(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, Missingness)
    if rule.gap_at_most is not None:
        yield from _compared(rule, evidence)
        if not _has(evidence.table("missing_disparity"), outcome=NO_SCORE):
            yield "gap_at_most", "no table says how far groups lie apart in what is missing; analyse the run again"


def _calibration(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, Calibration)
    judges = evidence.judges()
    if judges is None:
        yield "kind", f"{evidence.name} does not say whether judges were calibrated; give the run itself"
    elif not judges:
        yield "kind", "the run asks no judge"
    else:
        yield from _words("judge", rule.judge or (), "judge of the run", list(judges))


def _claims(rule: Rule, evidence: Evidence) -> Iterator[Mismatch]:
    assert isinstance(rule, Claims)
    declared = evidence.protocol.analysis.primary
    yield from _words("outcome", rule.outcome or (), "declared endpoint", [*declared.outcomes, *declared.net])
    yield from _reference(next(iter(evidence.protocol.groups.reference_group)), evidence)


def _outcome(outcome: str, evidence: Evidence) -> Iterator[Mismatch]:
    known = evidence.protocol.rubrics.outcomes
    if outcome not in known:
        yield "outcome", unknown(outcome, "outcome", known)
    elif not _has(evidence.table("outcomes_by_editor"), outcome=outcome):
        yield "outcome", f"nothing has a score on '{known[outcome].axis}', so '{outcome}' is not known"


def _compared(rule: OfGroups, evidence: Evidence) -> Iterator[Mismatch]:
    dimension = dimension_of(rule, evidence.protocol)
    if len(evidence.groups(dimension)) < 2:
        yield "dimension", f"nobody can be compared by {dimension}: that takes persons of two groups"


def _groups(rule: OfGroups, groups: Sequence[str], evidence: Evidence) -> Iterator[Mismatch]:
    dimension = dimension_of(rule, evidence.protocol)
    known, here = evidence.protocol.groups.ids(dimension), evidence.groups(dimension)
    for group in groups:
        if group not in known:
            yield "group", unknown(group, f"group of {dimension}", known)
        elif group not in here:
            yield "group", f"nobody here is of the group '{group}'; there are: {', '.join(here) or 'none'}"


def _reference(dimension: str, evidence: Evidence) -> Iterator[Mismatch]:
    reference = evidence.protocol.groups.reference_group.get(dimension)
    if reference is None:
        named = ", ".join(evidence.protocol.groups.reference_group)
        yield "dimension", f"{dimension} has no reference group in the protocol; {named} has"
    elif reference not in evidence.groups(dimension):
        yield "kind", f"nobody here is of the reference group '{reference}'"


def _has(frame: pl.DataFrame | None, **about: str) -> bool:
    return frame is not None and frame.filter(**about).height > 0


_OF: Mapping[type[Rule], Callable[[Rule, Evidence], Iterator[Mismatch]]] = {
    Rate: _rate,
    NetDirection: _net,
    Disparity: _disparity,
    RefusalGap: _refusals,
    Missingness: _missingness,
    Calibration: _calibration,
    Claims: _claims,
}
