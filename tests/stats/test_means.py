from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stillme.stats.intervals import clustered_share
from stillme.stats.means import by_groups, mean_of_persons, means, shares

values = st.lists(st.floats(-50, 50, allow_subnormal=False), min_size=8, max_size=30)


def edits(**columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_the_interval_is_students() -> None:
    people = np.random.default_rng(2).normal(3, 2, 12)
    found = mean_of_persons(people)
    low, high = stats.t.interval(0.95, 11, loc=people.mean(), scale=stats.sem(people))
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)
    assert found.sd == pytest.approx(people.std(ddof=1))


def test_what_cannot_be_known_is_missing() -> None:
    nobody, one = mean_of_persons([]), mean_of_persons([4.0])
    assert (nobody.persons, nobody.mean, nobody.low) == (0, None, None)
    assert (one.persons, one.mean, one.low, one.high, one.sd) == (1, 4.0, None, None, None)
    few = mean_of_persons([1.0, 2.0, 3.0] * 2 + [4.0])
    assert few.persons == 7 and few.mean is not None and few.sd is not None and few.low is few.high is None


@given(values)
def test_an_interval_surrounds_its_mean_and_turns_with_its_sign(people: list[float]) -> None:
    found, turned = mean_of_persons(people), mean_of_persons([-value for value in people])
    assert found.low is not None and found.high is not None and found.mean is not None and turned.low is not None
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert turned.low == pytest.approx(-found.high, abs=1e-9)


@given(values, st.floats(-20, 20))
def test_a_shift_of_everybody_shifts_the_interval(people: list[float], by: float) -> None:
    here, there = mean_of_persons(people), mean_of_persons([value + by for value in people])
    assert here.low is not None and there.low is not None
    assert there.low == pytest.approx(here.low + by, abs=1e-6)


def test_a_person_with_many_edits_counts_once() -> None:
    frame = edits(editor=["e"] * 5, person=["a", "a", "a", "b", "b"], x=[1.0, 2.0, 3.0, 8.0, None])
    row = means(frame, "x", ["editor"]).row(0, named=True)
    assert row["mean"] == (2.0 + 8.0) / 2
    assert (row["asked"], row["read"], row["persons"]) == (5, 4, 2)


def test_a_person_without_any_figure_is_no_person_of_the_mean() -> None:
    frame = edits(editor=["e"] * 3, person=["a", "b", "c"], x=[1.0, 3.0, None])
    row = means(frame, "x", ["editor"]).row(0, named=True)
    assert (row["asked"], row["read"], row["persons"], row["mean"]) == (3, 2, 2, 2.0)


def test_shares_are_the_projects_clustered_ones() -> None:
    frame = edits(
        editor=["e"] * 6, person=["a", "a", "b", "b", "c", "c"], x=[True, False, True, True, False, None]
    )
    row = shares(frame, "x", ["editor"]).row(0, named=True)
    expected = clustered_share([1, 2, 0], [2, 2, 1])
    assert (row["asked"], row["read"], row["hits"]) == (6, 5, 3)
    assert (row["rate"], row["low"], row["high"]) == (expected.rate, expected.low, expected.high)


def test_everybody_and_every_group_stand_in_one_frame() -> None:
    frame = edits(editor=["e"] * 3, person=["a", "b", "c"], tone=["x", "y", None], x=[1.0, 2.0, 6.0])
    found = by_groups(frame, ["editor"], ["tone"], lambda part, by: means(part, "x", by))
    assert found.select("editor", "dimension", "group", "mean").rows() == [
        ("e", None, None, 3.0),
        ("e", "tone", "x", 1.0),
        ("e", "tone", "y", 2.0),
    ]


def test_nothing_gives_no_rows() -> None:
    frame = edits(editor=["e"], person=["a"], tone=["x"], x=[1.0]).clear()
    found = by_groups(frame, ["editor"], ["tone"], lambda part, by: means(part, "x", by))
    assert found.is_empty()
    assert found.columns[:4] == ["editor", "dimension", "group", "asked"]
