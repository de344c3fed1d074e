"""Intraclass correlation beside pingouin."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pingouin
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.stats.icc import Form, icc, of_ratings

NAMES = {
    Form.ONE: "ICC(1,1)",
    Form.TWO: "ICC(A,1)",
    Form.THREE: "ICC(C,1)",
    Form.ONE_K: "ICC(1,k)",
    Form.TWO_K: "ICC(A,k)",
    Form.THREE_K: "ICC(C,k)",
}


@settings(max_examples=5)
@given(st.integers(0, 10_000), st.integers(5, 30), st.integers(2, 5))
def test_it_is_pingouins(seed: int, things: int, raters: int) -> None:
    chance = np.random.default_rng(seed)
    scores = (
        chance.normal(0, 1, (things, 1)) + chance.normal(0, 0.5, raters) + chance.normal(0, 0.8, (things, raters))
    )
    where = np.indices(scores.shape)
    long = pd.DataFrame({"thing": where[0].ravel(), "rater": where[1].ravel(), "score": scores.ravel()})
    with warnings.catch_warnings():  # pingouin's own, about pandas
        warnings.simplefilter("ignore")
        theirs = pingouin.intraclass_corr(long, "thing", "rater", "score").set_index("Type")
    for form, found in icc(scores).items():
        other = theirs.loc[NAMES[form]]
        assert found.icc == pytest.approx(other["ICC"], abs=1e-9), form
        if found.low is not None:  # where the mean of raters has no lower bound, they print one above 1
            assert found.low == pytest.approx(other["CI95"][0], abs=0.0051), "they round to two digits"
        assert found.high == pytest.approx(other["CI95"][1], abs=0.0051)


def test_things_that_a_rater_left_out_do_not_count() -> None:
    scores = np.array([[1.0, 2, 1], [4, 5, 5], [2, 2, 3], [5, 4, 4]])
    with_gap = np.vstack([scores, [3, np.nan, 3]])
    assert icc(with_gap) == icc(scores)


@pytest.mark.parametrize(
    "scores", [[], [[1, 2, 3]], [[1], [2], [3]], [[3, 3], [3, 3]], [[1, 2], [2, 3], [4, 5]], [[1, 2], [2, 1]]]
)
def test_what_cannot_be_told_is_left_out(scores: list[list[int]]) -> None:
    assert icc(np.array(scores, float)) == {}


def test_raters_who_contradict_each_other_have_no_common_mean() -> None:
    found = icc(np.array([[1, 5, 3], [5, 1, 3.1], [3, 3, 2.9]]))
    single = found[Form.ONE].icc
    assert single is not None and single < 0
    assert all(value is None or np.isfinite(value) for form in found.values() for value in vars(form).values())


def test_ratings_of_tasks_are_read_one_way() -> None:
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    rows = [{"trial": f"t{t}", "axis": "a", "score": score} for t, scores in enumerate(table) for score in scores]
    rows += [{"trial": "alone", "axis": "a", "score": 3}, {"trial": "t0", "axis": "b", "score": None}]
    found = {row["axis"]: row for row in of_ratings(pl.DataFrame(rows)).iter_rows(named=True)}
    assert found["a"]["items"] == 6 and found["a"]["raters_per_item"] == 4
    assert found["a"]["icc1"] == pytest.approx(0.1657, abs=1e-4) and found["a"]["icc1k"] == pytest.approx(
        0.4428, abs=1e-4
    )
    assert "b" not in found, "nothing was scored there"
