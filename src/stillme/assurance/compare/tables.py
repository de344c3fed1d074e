"""The tables of a comparison: what each shows, and how it is written. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from stillme.analysis.numbers import DASH, SPACE, percent, signed
from stillme.analysis.tables.tables import Row, Shown, Tabled, probability, whole, wide, within, word
from stillme.assurance.compare.comparison import ComparisonResult
from stillme.stats.intervals import LEVEL
from stillme.stats.versions import (
    BETTER,
    DOWN,
    NET,
    NO_WORSE,
    UNDECIDED,
    UP,
    WATCHED,
    WITHIN,
    WORSE,
)

FIXED, LOOKS = "With all persons", "Person after person"
SEQUENCE = f"{LEVEL * 100:.0f}{SPACE}% sequence"


def labels(compared: ComparisonResult) -> dict[str, str]:
    """Outcomes and directions in words."""
    rubrics = compared.protocol.rubrics
    names = {name: outcome.label for name, outcome in rubrics.outcomes.items()}
    return names | {axis.id: f"{axis.label}, net" for axis in rubrics.axes if axis.is_signed}


def points(margin: float) -> str:
    return f"{margin * 100:g} points"


def verdicts(margin: float) -> dict[str, str]:
    """Verdicts as tables print them."""
    unchanged = {name: name for name in (BETTER, WORSE, UP, DOWN, UNDECIDED)}
    return {**unchanged, NO_WORSE: f"not worse by > {points(margin)}", WITHIN: f"within ± {points(margin)}"}


def tables(compared: ComparisonResult) -> list[Tabled]:
    """Every table, those that a reader needs first first."""
    everything = [*_person_after_person(compared), _outcomes(compared)]
    everything += _with_all_persons(compared) if compared.driven is None else [_flips(compared)]
    if compared.watched:
        frame = pl.concat([sequence.looks() for sequence in compared.watched])
        everything.append(Tabled("looks", LOOKS, "The confidence sequence after every person", frame))
    return everything


def _person_after_person(compared: ComparisonResult) -> Iterator[Tabled]:
    outcome = word("outcome", names=labels(compared))
    difference = (_moved("difference", "B − A"), within(heading=SEQUENCE))
    verdict = word("verdict", names=verdicts(compared.versions.margin))
    shown: tuple[Shown, ...]
    if compared.watched:
        frame = pl.DataFrame([sequence.last() for sequence in compared.watched], schema=WATCHED)
        shown = (outcome, *difference, verdict, whole("after", "decided after"), whole("persons"))
        title = "B − A person after person, in percentage points; bounds hold at every look"
        yield Tabled("sequence", LOOKS, title, frame, shown, first=True)
    if compared.driven is not None:
        rows = [
            {
                **sequence.last(),
                "step": number,
                "persons": step.persons,
                "scored": sequence.bounds.persons,
                "calls": step.calls,
            }
            for number, step in enumerate(compared.driven.steps, 1)
            for sequence in step.watched
        ]
        columns = ("step", "persons", "scored", "calls", "outcome", "difference", "low", "high", "verdict")
        schema = {**WATCHED, **dict.fromkeys(("step", "scored", "calls"), pl.Int64)}
        frame = pl.DataFrame(rows, schema=schema).select(columns)
        shown = (whole("step"), whole("persons"), whole("calls"), outcome, *difference, verdict)
        yield Tabled("steps", LOOKS, "What was run, step by step", frame, shown, first=True)


def _outcomes(compared: ComparisonResult) -> Tabled:
    """What a fixed number of persons says; where audits stopped by what was seen, only means and counts may be
    read."""
    is_fixed, frame, names = compared.driven is None, compared.versions.outcomes, labels(compared)
    if not is_fixed:
        frame = frame.select(
            "outcome", "kind", "cases", "pairs", "a_only", "b_only", "persons", "a", "b", "difference"
        )
    shown = [word("outcome", names=names), _mean("a", "A"), _mean("b", "B"), _moved("difference", "B − A")]
    shown += [within(), word("verdict", names=verdicts(compared.versions.margin))] if is_fixed else []
    shown += [whole("persons"), *wide(whole("pairs"), whole("a_only", "A only"), whole("b_only", "B only"))]
    shown += wide(probability("p"), probability("p_holm", "corrected p")) if is_fixed else []
    return Tabled("outcomes", FIXED, "B − A by outcome, in percentage points", frame, tuple(shown), first=True)


def _with_all_persons(compared: ComparisonResult) -> Iterator[Tabled]:
    group_labels = compared.protocol.groups.labels
    outcomes = labels(compared)
    groups = {name: label for d in compared.protocol.groups.dimensions for name, label in group_labels(d).items()}
    names = outcomes | groups
    p_values = (probability("p"), probability("p_holm", "corrected p"))
    shown: tuple[Shown, ...] = (
        *(word("dimension"), word("group", names=names), word("outcome", names=names)),
        *(_mean("a", "A"), _mean("b", "B"), _moved("difference", "B − A"), within()),
        *(whole("persons"), whole("pairs"), *p_values, word("verdict")),
    )
    yield Tabled("by_group", FIXED, "B − A by perceived group", compared.versions.groups, shown)
    if compared.versions.uneven.height:
        shown = (
            *(word("dimension"), word("group", names=names), word("reference", names=names)),
            *(word("outcome", names=names), _moved("difference", "difference"), within()),
            *(whole("persons"), whole("reference_persons", "of the reference"), *p_values),
        )
        title = "Did it change more for a group than for the reference group? (B − A) − (B − A), in points"
        yield Tabled("difference_of_differences", FIXED, title, compared.versions.uneven, shown)
    yield _flips(compared)
    # Intervals of other arms are for reading; none is claimed about.
    if compared.arms.select("experiment", "arm").unique().height > 1:
        shown = (
            *(word("experiment"), word("arm"), word("outcome", names=outcomes)),
            *(_moved("difference", "B − A"), within(), whole("persons"), whole("pairs")),
        )
        yield Tabled("by_arm", FIXED, "B − A in every experiment and arm that both have", compared.arms, shown)


def _flips(compared: ComparisonResult) -> Tabled:
    frame = compared.versions.flips
    shown = [
        *(word("outcome", names=labels(compared)), whole("pairs"), whole("both"), whole("a_only", "A only")),
        *(whole("b_only", "B only"), whole("neither"), whole("mixed"), whole("persons")),
    ]
    if compared.driven is None:
        shown += wide(probability("p", "p, pairs independent"), probability("p_persons", "p, by person"))
    else:
        frame = frame.drop("p", "p_persons")
    return Tabled("flips", FIXED, "Pairs of edits that changed sides, for reading", frame, tuple(shown))


# How columns are written


def _mean(key: str, heading: str) -> Shown:
    """A rate in percent; a direction in points, with its sign."""

    def read(row: Row) -> str:
        value: Any = row[key]
        if value is None:
            return DASH
        return signed(value * 100, 1) if row.get("kind") == NET else percent(value)

    return Shown(heading, read)


def _moved(key: str, heading: str) -> Shown:
    return Shown(heading, lambda row: DASH if row[key] is None else signed(row[key] * 100, 1))
