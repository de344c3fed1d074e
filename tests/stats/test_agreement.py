"""Agreement of judges with each other and with themselves, beside figures computed by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.stats.agreement import Weights, agreement, cohen, self_agreement, weighted_kappa
from stillme.stats.agreement import kappa as weighted
from stillme.stats.intervals import clustered_share

WEIGHTS: tuple[Weights, ...] = ("identity", "linear", "quadratic")
# Twenty persons rated by two people (R package irr, data set anxiety)
ANXIETY = (
    (3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3),
    (3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4),
)


def kappa(first: tuple[int, ...], second: tuple[int, ...]) -> float | None:
    frame = pl.DataFrame({"first": first, "second": second}, schema={"first": pl.Int64, "second": pl.Int64})
    value = frame.select(weighted_kappa().alias("kappa")).item()
    return None if value is None else float(value)


def test_published_kappas() -> None:
    """R package irr: 0.119, with linear weights 0.189, with quadratic ones 0.297."""
    assert kappa(*ANXIETY) == pytest.approx(0.297, abs=0.0005)
    assert cohen(*ANXIETY).kappa == pytest.approx(0.119, abs=0.0005)
    found = [weighted(*ANXIETY, range(1, 7), how).kappa for how in WEIGHTS]
    assert found == pytest.approx([0.119, 0.189, 0.297], abs=0.0005)


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


# Two raters, beside published figures

COHEN_1968 = ((44, 7, 9), (5, 20, 5), (1, 3, 6))


def test_the_table_of_cohen_1968() -> None:
    pairs = [(i, j) for i, row in enumerate(COHEN_1968) for j, count in enumerate(row) for _ in range(count)]
    found = cohen([i for i, _ in pairs], [j for _, j in pairs])
    assert found.n == 100 and found.agreement == pytest.approx(0.70)
    assert found.kappa == pytest.approx(0.49152542372881347)
    # statsmodels 0.15 cohens_kappa: kappa_low, kappa_upp
    assert found.low == pytest.approx(0.35015820121748686)
    assert found.high == pytest.approx(0.6328926462401401)


def test_where_it_is_not_defined() -> None:
    assert cohen([], []).kappa is None and cohen([], []).agreement is None
    alike = cohen(["a"] * 5, ["a"] * 5)
    assert (alike.agreement, alike.kappa) == (1.0, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_it_depends_neither_on_order_nor_on_who_is_first(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found, turned = cohen(first, second), cohen(second[::-1], first[::-1])
    if found.kappa is None or turned.kappa is None:
        assert found.kappa is turned.kappa is None
    else:
        assert found.kappa == pytest.approx(turned.kappa) and -1 <= found.kappa <= 1
        assert found.low is not None and found.high is not None
        assert found.low <= found.kappa + 1e-12 and found.kappa <= found.high + 1e-12
