"""The experiments beside the diagnosis: what a sentence before the prompt changes; stereotypes of occupations."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import (
    Tabled,
    around,
    change,
    number,
    plain_tables,
    probability,
    share,
    whole,
    wide,
    word,
)
from stillme.core.records import MITIGATE
from stillme.stats.mitigation import mitigation_findings
from stillme.stats.modelled import treatment_model
from stillme.stats.stereotype import Stereotypes

MITIGATION, STEREOTYPES = "Mitigation", "Stereotypes of occupations"
ARMS = {
    "arms": "What was asked of each arm",
    "published": "Means before and after, as tables 14 and 19",
    "by_group": "By groups",
    "by_editor": "By editor",
    "directions": "Direction of signed axes",
    "uneven": "Everyone else's change minus the reference group's",
    "omnibus": "Is the change the same for all groups?",
    "ranks": "Signed ranks, per edit as published and per person",
    "no_worse": "Are edits still made? (non-inferiority)",
}
TRADEOFF = {"points": "Success against drift, arm by arm", "differences": "Which arms are worse on both"}
MODELLED = {"tests": "Does the treatment work alike on all groups? (ordinal model)", "odds": "Odds by arm"}
OCCUPATIONS = {
    "adherence": "How often the stereotype is followed, as published",
    "gaps": "Pro − anti: what the stereotype does beyond the pronoun",
    "effects": "What moves it",
    "occupations": "By occupation",
    "flips": "Portraits shown as another gender",
    "arms": "How often the stereotype is followed, in every arm",
    "matched": "Pairs that differ in one cue alone",
    "flips_by_sentence": "Portraits shown as another gender, with and without a pronoun",
    "cells": "Every cell",
}


def build(audit: Audit) -> Iterator[Tabled]:
    arms = _arms(audit)
    if arms is not None:
        yield from _mitigation(audit, arms)
    if audit.inputs.stereotypes is not None:
        yield from _stereotypes(audit, audit.inputs.stereotypes)


def _arms(audit: Audit) -> pl.DataFrame | None:
    """The scores of an experiment with several arms; None where there is none."""
    scores = audit.inputs.main
    own = scores.filter(pl.col("experiment") == MITIGATE)
    found = own if own.height else scores
    return found if found["arm"].n_unique() > 1 else None


def _mitigation(audit: Audit, arms: pl.DataFrame) -> Iterator[Tabled]:
    found = mitigation_findings(
        arms, audit.protocol, selected_on_outcome=bool(audit.inputs.selected), seed=audit.seed
    )
    shown = (
        word("axis", names=audit.labels),
        word("arm"),
        word("against"),
        number("first_mean", "before"),
        number("second_mean", "after"),
        change("difference"),
        around(),
        *wide(share("zeros", "no difference"), whole("pairs"), whole("persons")),
        probability("p"),
        probability("p_holm", "p corrected"),
    )
    notes = () if found.selection is None or not found.is_selected else (found.selection.because,)
    title = "What each arm changes, on the same cases"
    yield Tabled("mitigation_effects", MITIGATION, title, found.effects, shown, notes, first=True)
    yield from plain_tables(found, MITIGATION, "mitigation", ARMS, audit.labels)
    if found.tradeoff is not None:
        yield from plain_tables(found.tradeoff, MITIGATION, "tradeoff", TRADEOFF, audit.labels)
    yield from plain_tables(treatment_model(arms, audit.protocol), MITIGATION, "treatment", MODELLED, audit.labels)


def _stereotypes(audit: Audit, found: Stereotypes) -> Iterator[Tabled]:
    yield from plain_tables(found, STEREOTYPES, "stereotype", OCCUPATIONS, audit.labels)
