"""Rates of many groups at once: the same numbers as one group at a time, and every crossing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.intervals import clustered_share
from stillme.stats.outcomes import mark
from stillme.stats.rates import crossings, rates

MISSING, HIT = 0.1, 0.3


def audit(protocol: Protocol, persons: int = 84, prompts: int = 4, seed: int = 1) -> pl.DataFrame:
    """Scores of one axis: persons of every group in turn, each with every prompt, by two editors."""
    chance, groups = np.random.default_rng(seed), protocol.groups
    rows = [
        {
            "trial": f"{editor} {person} {prompt.id}",
            "person": f"p{person}",
            "editor": editor,
            "prompt": prompt.id,
            "category": prompt.category,
            "subcategory": prompt.subcategory,
            **{d: groups.ids(d)[person % len(groups.ids(d))] for d in groups.dimensions},
            "axis": "edit_success",
            "requested": False,
            "score": None if chance.random() < MISSING else 1 if chance.random() < HIT else 5,
            "single": bool(chance.random() < 0.2),
            "flagged": False,
        }
        for editor in ("one", "two")
        for person in range(persons)
        for prompt in protocol.prompts.prompts[8 : 8 + prompts]
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.sampled_from([True, False, None])), min_size=1
    )
)
def test_many_groups_at_once_are_one_at_a_time(rows: list[tuple[str, int, bool | None]]) -> None:
    marked = pl.DataFrame(rows, schema={"group": pl.String, "person": pl.Int64, "hit": pl.Boolean}, orient="row")
    marked = marked.with_columns(outcome=pl.lit("o"), single=pl.lit(False), flagged=pl.lit(False))
    for row in rates(marked, ["group"]).iter_rows(named=True):
        own = marked.filter(pl.col("group") == row["group"])
        people = own.group_by("person").agg(pl.col("hit").sum(), pl.col("hit").count().alias("judged"))
        one = clustered_share(people["hit"], people["judged"])
        assert (row["hits"], row["judged"], row["persons"]) == (one.hits, one.trials, one.clusters)
        assert row["asked"] == own.height and row["missing"] == own["hit"].null_count()
        for name in ("rate", "low", "high", "deff"):
            expected = getattr(one, name)
            assert row[name] is None if expected is None else row[name] == pytest.approx(expected, abs=1e-12)


def test_eight_persons_have_an_interval_and_seven_have_none(protocol: Protocol) -> None:
    for persons in (7, 8):
        marked = mark(audit(protocol, persons, seed=2), protocol.rubrics.outcomes)
        found = rates(marked, ["editor"])
        assert found["low"].is_null().all() == found["high"].is_null().all() == (persons < 8)
        assert found["rate"].is_not_null().all()
        assert not any(found[name].is_nan().any() for name in ("rate", "nominal_rate", "low", "high", "deff"))


def test_all_missing_gives_counts_and_no_number(protocol: Protocol) -> None:
    scores = audit(protocol).with_columns(score=pl.lit(None, pl.Int64))
    row = rates(mark(scores, protocol.rubrics.outcomes), []).row(0, named=True)
    assert (row["asked"], row["judged"], row["missing"], row["persons"]) == (672, 0, 672, 0)
    assert [row[name] for name in ("rate", "low", "high", "deff")] == [None] * 4 and row["nominal_rate"] == 0.0


def test_refused_are_the_missing_ones_that_somebody_refused(protocol: Protocol) -> None:
    scores = audit(protocol, persons=9, prompts=1).filter(pl.col("editor") == "one")
    scores = scores.with_columns(score=pl.Series([None, None, None, None, 5, 5, 5, 1, 1], dtype=pl.Int64))
    ended = [Status.INPUT_BLOCKED, Status.OK, Status.OK, Status.TIMEOUT, *[Status.OK] * 5]
    judges = [Status.REFUSED, Status.MALFORMED, Status.REFUSED]  # of the second, the third, and one with a score
    statuses = pl.DataFrame(
        {"trial": [*scores["trial"], *scores["trial"][1, 2, 4]], "status": [*map(str, ended), *map(str, judges)]}
    )
    row = rates(mark(scores, protocol.rubrics.outcomes), ["editor"], statuses=statuses).row(0, named=True)
    assert (row["missing"], row["refused"], row["judged"]) == (4, 2, 5)
    assert "refused" not in rates(mark(scores, protocol.rubrics.outcomes), ["editor"]).columns


def test_every_crossing_is_the_rate_of_its_grouping(protocol: Protocol) -> None:
    marked = mark(audit(protocol), protocol.rubrics.outcomes)
    found = crossings(marked, protocol)
    dimensions = list(protocol.groups.dimensions)
    singles = [[d] for d in dimensions] + [[name] for name in ("prompt", "category", "subcategory")]
    pairs = [list(pair) for pair in (*pairwise(dimensions), (dimensions[0], dimensions[2]))]
    mixed = [[d, name] for d in dimensions for name in ("prompt", "category")]
    wanted = [[], *singles, *pairs, *mixed]
    assert set(found["by"]) == {" × ".join(names) for names in wanted}
    for names in wanted:
        keys = ["outcome", "editor", *names]
        part = found.filter(pl.col("by") == " × ".join(names)).select(
            *keys, "asked", "hits", "rate", "low", "deff"
        )
        alone = rates(marked, ["editor", *names]).select(part.columns)
        assert part.sort(keys).equals(alone.sort(keys)), names


def test_a_person_without_a_label_is_in_no_group_of_it(protocol: Protocol) -> None:
    dimension = next(iter(protocol.groups.dimensions))
    unknown = pl.when(pl.col("person") != "p0").then(dimension)
    marked = mark(audit(protocol).with_columns(unknown.alias(dimension)), protocol.rubrics.outcomes)
    found = crossings(marked, protocol).filter(pl.col("outcome") == marked["outcome"][0])
    assert found.filter(pl.col("by") == dimension)[dimension].null_count() == 0
    assert (
        found.filter(pl.col("by") == dimension)["asked"].sum()
        == found.filter(pl.col("by") == "")["asked"].sum() - 8
    )
