"""Agreement of judges with each other and with themselves, beside figures computed by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.stats.agreement import agreement, cohen, self_agreement, weighted_kappa
from stillme.stats.intervals import clustered_share

# Twenty persons rated by two people (R package irr, data set anxiety); its manual: 0.119, quadratic weights 0.297.
ANXIETY = (
    (3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3),
    (3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4),
)


def kappa(first: tuple[int, ...], second: tuple[int, ...]) -> float | None:
    frame = pl.DataFrame({"first": first, "second": second}, schema={"first": pl.Int64, "second": pl.Int64})
    value = frame.select(weighted_kappa().alias("kappa")).item()
    return None if value is None else float(value)


def test_the_published_kappa_with_quadratic_weights() -> None:
    assert kappa(*ANXIETY) == pytest.approx(0.297, abs=0.0005)
    assert cohen(*ANXIETY).kappa == pytest.approx(0.119, abs=0.0005)


def test_kappa_of_four_pairs_by_hand() -> None:
    """Squared differences 0, 1, 0, 1; variances 0.25 and 0.5; means 1.5 and 2: 1 − 0.5 ÷ (0.25 + 0.5 + 0.25)."""
    assert kappa((1, 1, 2, 2), (1, 2, 2, 3)) == pytest.approx(0.5)
    assert kappa((1, 5, 3), (1, 5, 3)) == 1.0
    assert kappa((3, 3, 3), (3, 3, 3)) is None, "all alike: chance explains everything"
    assert kappa((), ()) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=40))
def test_kappa_is_what_the_weighted_table_gives(pairs: list[tuple[int, int]]) -> None:
    table = np.zeros((5, 5))
    for one, other in pairs:
        table[one - 1, other - 1] += 1 / len(pairs)
    weights = np.subtract.outer(np.arange(5), np.arange(5)) ** 2
    chance = float((np.outer(table.sum(1), table.sum(0)) * weights).sum())
    found = kappa(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
    if chance < 1e-12:
        assert found is None
    else:
        assert found == pytest.approx(1 - float((table * weights).sum()) / chance)


def scored(*judges: tuple[int | None, ...]) -> pl.DataFrame:
    rows = [
        (f"t{trial}", "axis", f"judge{rank}", rank, score)
        for rank, scores in enumerate(judges)
        for trial, score in enumerate(scores)
    ]
    schema = {"trial": pl.String, "axis": pl.String, "judge": pl.String, "rank": pl.Int64, "score": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_two_judges_are_one_row_an_axis_over_the_edits_that_both_scored() -> None:
    found = agreement(scored((1, 2, 5, None), (1, 3, 3, 4))).row(0, named=True)
    assert (found["first_judge"], found["second_judge"], found["pairs"]) == ("judge0", "judge1", 3)
    assert (found["exact"], found["within_one"], found["flagged"]) == (
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
        1,
    )
    assert found["difference"] == pytest.approx(-1 / 3)
    assert found["missing"] == 1 and "persons" not in found


def test_persons_of_the_pairs_are_counted_where_they_are_named() -> None:
    whose = pl.DataFrame({"trial": ["t0", "t1", "t2", "t3"], "person": ["a", "a", "b", "c"]})
    found = agreement(scored((1, 2, 5, None), (1, 3, 3, 4)).join(whose, on="trial")).row(0, named=True)
    assert (found["pairs"], found["missing"], found["persons"]) == (3, 1, 2)


def test_of_three_judges_every_pair_is_compared_once() -> None:
    found = agreement(scored((1, 2), (1, 1), (5, None)))
    assert found.select("first_judge", "second_judge", "pairs", "flagged").rows() == [
        ("judge0", "judge1", 2, 0),
        ("judge0", "judge2", 1, 1),
        ("judge1", "judge2", 1, 1),
    ]


def twice(*looks: tuple[str, int | None, int | None]) -> pl.DataFrame:
    schema = {"person": pl.String, "score": pl.Int64, "score_again": pl.Int64}
    frame = pl.DataFrame(list(looks), schema=schema, orient="row")
    return frame.with_columns(judge=pl.lit("one"), axis=pl.lit("axis"))


def test_a_judge_agrees_with_itself_over_what_it_scored_twice() -> None:
    looks = twice(
        ("a", 1, 1), ("a", 1, 2), ("b", 2, 2), ("b", 2, 3), ("c", 4, None), ("c", None, 4), ("c", None, None)
    )
    found = self_agreement(looks).row(0, named=True)
    assert (found["asked"], found["pairs"], found["persons"]) == (7, 4, 2), "a missing look is in no pair"
    assert (found["exact"], found["within_one"], found["flagged"]) == (0.5, 1.0, 0)
    assert found["kappa"] == pytest.approx(0.5) and found["difference"] == 0.5
    interval = clustered_share([1, 1], [2, 2])
    assert (found["low"], found["high"]) == (interval.low, interval.high), "persons are the unit"


def test_a_judge_that_never_answered_twice_has_no_agreement_and_is_counted() -> None:
    found = self_agreement(twice(("a", 1, None), ("b", None, None))).row(0, named=True)
    assert (found["asked"], found["pairs"], found["flagged"]) == (2, 0, 0)
    assert found["exact"] is found["within_one"] is found["kappa"] is found["low"] is None


def test_without_repeats_there_is_nothing() -> None:
    assert self_agreement(twice()).is_empty()
