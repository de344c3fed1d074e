from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.core.records import Adjudication
from stillme.judges.ensemble import combine, decisions
from stillme.protocol.schema import Rounding

ROUNDINGS: tuple[Rounding, ...] = ("half_even", "half_up", "toward_neutral")
SCORES = (None, 1, 2, 3, 4, 5)


def frame(pairs: Sequence[tuple[int | None, ...]], neutral: int | None) -> pl.DataFrame:
    rows = [
        (f"t{n:03d}", "axis", neutral, rank, score)
        for n, pair in enumerate(pairs)
        for rank, score in enumerate(pair)
    ]
    schema = {"trial": pl.String, "axis": pl.String, "neutral": pl.Int64, "rank": pl.Int64, "score": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def by_hand(first: int | None, second: int | None, rounding: Rounding, neutral: int | None) -> int | None:
    """Equation 1, written as a person would."""
    if first is None or second is None:
        return first if second is None else second
    if abs(first - second) > 1:
        return first
    mean = (first + second) / 2
    if mean == int(mean):
        return int(mean)
    if rounding == "half_up":
        return math.ceil(mean)
    if rounding == "toward_neutral" and neutral is not None:
        return math.floor(mean) if neutral < mean else math.ceil(mean)
    return round(mean)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("neutral", [None, 1, 3])
def test_every_pair_of_scores(rounding: Rounding, neutral: int | None) -> None:
    pairs = list(itertools.product(SCORES, SCORES))
    found = combine(frame(pairs, neutral), rounding)
    assert found["score"].to_list() == [by_hand(a, b, rounding, neutral) for a, b in pairs]
    assert found["flagged"].to_list() == [a is not None and b is not None and abs(a - b) > 1 for a, b in pairs]
    assert found["single"].to_list() == [(a is None) != (b is None) for a, b in pairs]
    assert found["judges"].to_list() == [(a is not None) + (b is not None) for a, b in pairs]


def test_the_unrounded_mean_is_kept() -> None:
    assert combine(frame([(3, 4), (1, 5), (None, 2), (None, None)], 3), "half_up")["mean"].to_list() == [
        3.5,
        3.0,
        2.0,
        None,
    ]


def test_symmetric_scores_stay_symmetric_except_under_half_up() -> None:
    pairs: list[tuple[int | None, ...]] = [(3, 4), (4, 3), (2, 3), (3, 2), (4, 4), (2, 2), (3, 3)]
    net = {}
    for rounding in ROUNDINGS:
        scores = combine(frame(pairs, 3), rounding)["score"]
        net[rounding] = int((scores > 3).sum()) - int((scores < 3).sum())
    assert net["half_even"] == net["toward_neutral"] == 0
    assert net["half_up"] == 2


def test_one_judge_and_three_judges() -> None:
    assert combine(frame([(4,), (None,)], 3), "half_even").select("score", "single").rows() == [
        (4, True),
        (None, False),
    ]
    found = combine(
        frame([(3, 4, 4), (5, 3, 4), (1, 5, 5), (None, 2, 5), (5, None, 2), (None, None, 1)], 3), "half_up"
    )
    assert found["score"].to_list() == [4, 4, 5, 2, 5, 1], "the median of three; of two the one ranked higher"
    assert found["flagged"].to_list() == [False, True, True, True, True, False]
    assert found["single"].to_list() == [False] * 5 + [True]
    assert found["judges"].to_list() == [3, 3, 3, 2, 2, 1]


@pytest.mark.parametrize(
    ("rounding", "expected"), [("half_even", [2, 4, 4]), ("half_up", [3, 4, 5]), ("toward_neutral", [3, 3, 4])]
)
def test_the_median_of_four_judges_is_rounded_as_asked(rounding: Rounding, expected: list[int]) -> None:
    halves: list[tuple[int | None, ...]] = [(1, 2, 3, 5), (4, 3, 3, 4), (4, 4, 5, 5)]
    found = combine(frame(halves, 3), rounding)
    assert found["score"].to_list() == expected and found["flagged"].to_list() == [True, False, False]


def test_the_order_of_rows_does_not_matter() -> None:
    pairs: list[tuple[int | None, ...]] = [(1, 5), (4, 3)]
    shuffled = frame(pairs, 3).sample(fraction=1.0, shuffle=True, seed=1)
    assert combine(shuffled, "half_even").equals(combine(frame(pairs, 3), "half_even"))


judging = st.lists(st.sampled_from(SCORES), min_size=1, max_size=6)
rounding_modes = st.sampled_from(ROUNDINGS)
neutrals = st.sampled_from((None, 1, 3))
COMBINED = ("score", "mean", "judges", "spread", "flagged", "single")


def combined(scores: Sequence[int | None], rounding: Rounding, neutral: int | None) -> dict[str, Any]:
    return combine(frame([tuple(scores)], neutral), rounding).select(COMBINED).row(0, named=True)


@given(judging, rounding_modes, neutrals)
def test_a_score_lies_between_those_given_and_comes_from_somebody(
    scores: list[int | None], rounding: Rounding, neutral: int | None
) -> None:
    given_ = [score for score in scores if score is not None]
    found = combined(scores, rounding, neutral)
    assert found["judges"] == len(given_) and found["single"] == (len(given_) == 1)
    if not given_:
        assert found["score"] is found["mean"] is None and not found["flagged"]
    else:
        assert min(given_) <= found["score"] <= max(given_)
        assert found["flagged"] == (max(given_) - min(given_) > 1)


@given(judging, st.data(), rounding_modes, neutrals)
def test_who_is_ranked_where_matters_only_when_two_are_apart(
    scores: list[int | None], data: st.DataObject, rounding: Rounding, neutral: int | None
) -> None:
    found = combined(scores, rounding, neutral)
    turned = combined(data.draw(st.permutations(scores)), rounding, neutral)
    if found["judges"] == 2 and found["flagged"]:
        assert found["score"] == next(score for score in scores if score is not None)
    else:
        assert found["score"] == turned["score"]
    rest = ("judges", "spread", "flagged", "single")
    assert [found[name] for name in rest] == [turned[name] for name in rest]


@given(judging, st.data(), rounding_modes, neutrals)
def test_a_judge_who_says_nothing_changes_nothing(
    scores: list[int | None], data: st.DataObject, rounding: Rounding, neutral: int | None
) -> None:
    place = data.draw(st.integers(0, len(scores)))
    silent = [*scores[:place], None, *scores[place:]]
    assert combined(silent, rounding, neutral) == combined(scores, rounding, neutral)


@given(st.lists(st.sampled_from(SCORES[1:]), min_size=3, max_size=6), rounding_modes, neutrals)
def test_three_and_more_judges_give_their_median(
    scores: list[int | None], rounding: Rounding, neutral: int | None
) -> None:
    found = combined(scores, rounding, neutral)["score"]
    assert found in {math.floor(median(s for s in scores if s)), math.ceil(median(s for s in scores if s))}


# What people decide


def decided(who: str, score: int | None, withdrawn: bool = False, edit: str = "e") -> Adjudication:
    return Adjudication(edit, "p", "axis", score, who, "seen", withdrawn=withdrawn)


def held(*said: Adjudication) -> list[tuple[int | None, bool]]:
    return decisions(said).select("decided", "contested").rows()


def test_of_what_people_said_the_newest_holds() -> None:
    assert held(decided("anna", 2), decided("anna", 4)) == [(4, False)], "one's own later word takes the place"
    assert held(decided("anna", 2), decided("ben", 4)) == [(4, True)]
    assert held(decided("anna", 4), decided("ben", 4)) == [(4, False)]
    assert held(decided("anna", 2), decided("ben", None)) == [(None, True)], "cannot tell is an answer of its own"
    assert held(decided("anna", 2), decided("ben", 4), decided("anna", 3)) == [(3, True)]


def test_taking_back_leaves_what_others_said() -> None:
    assert held(decided("anna", 2), decided("anna", None, withdrawn=True)) == []
    assert held(decided("anna", 2), decided("ben", 4), decided("ben", None, withdrawn=True)) == [(2, False)]
    assert held(decided("ben", None, withdrawn=True), decided("ben", 5)) == [(5, False)]
    both = decisions([decided("anna", 2), decided("anna", 5, edit="f")])
    assert both.select("edit", "decided").rows() == [("e", 2), ("f", 5)]


ASKED: list[tuple[int | None, ...]] = [(3, 4), (1, 5), (None, 2), (None, None), (1, 5), (1, 5), (None, None)]
PEOPLE = pl.DataFrame(
    [("t004", 2, False), ("t005", None, True), ("t006", 3, False)],
    schema={"trial": pl.String, "decided": pl.Int64, "contested": pl.Boolean},
    orient="row",
).with_columns(axis=pl.lit("axis"))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_person_stands_over_the_judges_under_every_rounding(rounding: Rounding) -> None:
    found = combine(frame(ASKED, 3), rounding, PEOPLE)
    assert found["standing"].to_list() == [
        "agreed",
        "primary_decided",
        "single",
        "missing",
        "adjudicated",
        "cannot_tell",
        "adjudicated",
    ]
    assert found["score"].to_list()[1:] == [1, 2, None, 2, None, 3], "what cannot be told is missing, not a 3"
    assert found["flagged"].to_list() == [False, True, False, False, True, True, False]
    assert found["open"].to_list() == [False, True, False, False, False, False, False]
    assert found["adjudicated"].to_list() == [False] * 4 + [True] * 3
    assert found["contested"].to_list() == [False] * 5 + [True, False]
    assert found["mean"].to_list() == [3.5, 3.0, 2.0, None, 3.0, 3.0, None], "what judges said stays"


def test_without_people_only_the_judges_are_told() -> None:
    found = combine(frame([(3, 4, 5), (1, 5, 5), (3, 3)], 3), "half_up")
    assert found["standing"].to_list() == ["median", "median", "agreed"]
    assert found["open"].to_list() == found["flagged"].to_list() == [True, True, False]
    assert not found["adjudicated"].any() and not found["contested"].any()
