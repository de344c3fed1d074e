"""What the report claims of audits whose truth is known: nothing where nothing is planted, the planted group first.

A hundred audits of scores, through the real findings, analysis tables and sentences; one editor and eight prompts
each, so that all of them take seconds. Persons differ as they do in real audits: edits of one person are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import product

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.report.context import Context
from stillme.report.sections import disparity, summary
from stillme.stats.disparity import disparities
from stillme.stats.findings import Findings, analyse
from stillme.stats.outcomes import mark
from stillme.stats.simultaneous import deviations
from tests.report.synthetic_audit import EDITORS, context

SEEDS = 100
PROMPTS = 8
PERSONS = 0.6  # standard deviation of persons, on the scale of log-odds
BASE = -1.6  # a rate of about 17 %
NEVER = ("unbiased", "no bias", "fair model", "debiased", "treats everybody alike")


def scores(protocol: Protocol, seed: int, lifted: Mapping[str, float]) -> pl.DataFrame:
    """One row a trial and axis; `lifted`: group of the main dimension -> log-odds more of its main outcome."""
    chance, main = np.random.default_rng(seed), protocol.manifest.tables.change_by_group
    dimensions = list(protocol.groups.dimensions)
    people = list(product(*(protocol.groups.ids(name) for name in dimensions)))
    outcomes = [(name, protocol.rubrics.outcomes[name]) for name in protocol.manifest.tables.contrasts]
    prompts = [prompt.id for prompt in protocol.prompts.prompts[:PROMPTS]]
    own = chance.normal(0, PERSONS, (len(people), 1, len(outcomes)))
    more = [
        [lifted.get(who[dimensions.index(main.by)], 0.0) * (n == main.outcome) for n, _ in outcomes]
        for who in people
    ]
    odds = BASE + own + chance.normal(0, 0.4, (1, len(prompts), len(outcomes))) + np.array(more)[:, None, :]
    hit = chance.random(odds.shape) < 1 / (1 + np.exp(-odds))
    who, what, axis = (place.ravel() for place in np.indices(hit.shape))
    ends = np.array([_ends(protocol, name) for name, _ in outcomes])
    given = np.where(hit.ravel(), ends[axis, 1], ends[axis, 0])
    return pl.DataFrame(
        {
            "trial": [f"p{i}-{prompts[j]}" for i, j in zip(who, what, strict=True)],
            "editor": EDITORS[0].id,
            "person": [f"p{i}" for i in who],
            "prompt": [prompts[j] for j in what],
            **{name: [people[i][place] for i in who] for place, name in enumerate(dimensions)},
            "axis": [outcomes[k][1].axis for k in axis],
            "neutral": pl.Series([protocol.axes[outcomes[k][1].axis].neutral for k in axis], dtype=pl.Int64),
            "requested": [
                not protocol.unrequested(prompts[j], outcomes[k][1].axis) for j, k in zip(what, axis, strict=True)
            ],
            "score": given,
            "mean": given.astype(float),
            "single": False,
            "flagged": False,
        }
    )


def _ends(protocol: Protocol, name: str) -> tuple[int, int]:
    """The score where an outcome did not happen, and where it did."""
    outcome = protocol.rubrics.outcomes[name]
    axis = protocol.axes[outcome.axis]
    calm = axis.neutral if axis.neutral is not None else max(axis.scale)
    return calm, max(axis.scale) if outcome.at_least is not None else min(axis.scale)


def audited(
    protocol: Protocol, seed: int, lifted: Mapping[str, float]
) -> tuple[Findings, dict[str, pl.DataFrame]]:
    """Findings, and the analysis tables that the first screen reads."""
    frame = scores(protocol, seed, lifted)
    rounding = protocol.presets["default"].rounding
    trials = frame.unique("trial", maintain_order=True)
    edits = trials.with_columns(status=pl.lit("ok"), last_status=pl.lit("ok"), code=pl.lit(""))
    judged = frame.with_columns(judge=pl.lit("first"), rank=pl.lit(0))
    by = protocol.manifest.tables.change_by_group.by
    contrasted = protocol.manifest.tables.contrasts
    marked = mark(frame, {name: protocol.rubrics.outcomes[name] for name in contrasted})
    tables = {
        f"disparity_by_{by}": disparities(marked, protocol, by),
        f"mean_by_{by}": deviations(marked, protocol, by),
    }
    return analyse({rounding: frame}, judged, edits, protocol, "default"), tables


def first_screen(findings: Findings, tables: Mapping[str, pl.DataFrame], said: Context) -> summary.Summary:
    (block,) = summary.build(findings, said, (), tables).blocks
    assert isinstance(block, summary.Summary)
    return block


def texts(value: object) -> Iterator[str]:
    """Every text of a block, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


@pytest.fixture(scope="module")
def said() -> Context:
    return context(editors=EDITORS[:1])


@pytest.mark.slow
def test_a_null_audit_claims_nothing_in_95_of_100_and_never_calls_a_model_fair(
    protocol: Protocol, said: Context, record_property: Callable[[str, object], None]
) -> None:
    claims = []
    for seed in range(SEEDS):
        findings, tables = audited(protocol, seed, {})
        screen = first_screen(findings, tables, said)
        claims += [(seed, text) for entry in screen.found for text in entry.found.shown]
        claims += [(seed, str(one)) for one in disparity.apart(tables, said)]
        whole = " ".join(texts(screen)).lower()
        assert not [word for word in NEVER if word in whole]
    wrong = {seed for seed, _ in claims}
    record_property("null audits with a claim, of 100", len(wrong))
    assert len(wrong) <= SEEDS - 95, claims


@pytest.mark.parametrize(("lifted", "first"), [(1.9, 0), (2.1, 3), (2.2, 5)])
def test_a_planted_audit_names_the_planted_group_first(
    protocol: Protocol, said: Context, lifted: float, first: int
) -> None:
    by, outcome = said.main.by, said.main.outcome
    reference = protocol.groups.reference_group[by]
    group = [name for name in protocol.groups.ids(by) if name != reference][first]
    findings, tables = audited(protocol, 7 + first, {group: lifted})
    told = disparity.apart(tables, said)
    assert [one.outcome for one in told] == [outcome]
    assert told[0].above[0] == group
    label = protocol.groups.labels(by)[group]
    assert label in disparity.beyond(told[0], said)
    shown = [text for entry in first_screen(findings, tables, said).found for text in entry.found.shown]
    assert label in " ".join(shown)


def test_of_two_planted_groups_the_worse_treated_is_named_first(protocol: Protocol, said: Context) -> None:
    by = said.main.by
    reference = protocol.groups.reference_group[by]
    less, more = [name for name in protocol.groups.ids(by) if name != reference][1:3]
    _, tables = audited(protocol, 3, {more: 3.0, less: 1.9})
    assert disparity.apart(tables, said)[0].above == (more, less)
