"""A filter that passes one group less often is found, and an even one is not accused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from scipy.stats import fisher_exact

from stillme.stats.passing import less_often, passing

DIMENSIONS = {"race": 7, "gender": 2, "age": 6}
CRITERIA = [f"criterion {number}" for number in range(6)]


def people(each: int = 2) -> list[dict[str, str]]:
    """The grid of the design, with so many candidates a cell."""
    sizes = DIMENSIONS.values()
    return [
        dict(zip(DIMENSIONS, (str(place) for place in cell), strict=True))
        for cell in np.ndindex(*sizes)
        for _ in range(each)
    ]


def frame(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema_overrides={"passed": pl.Boolean}, infer_schema_length=None)


def alike(rng: Generator, rates: Sequence[float]) -> pl.DataFrame:
    """Everybody passes a criterion as often as anybody else; some candidates cannot be measured."""
    return frame(
        [
            {**person, "criterion": name, "passed": None if unread else bool(rng.random() < rate)}
            for person in people()
            for unread in [rng.random() < 0.05]
            for name, rate in zip(CRITERIA, rates, strict=True)
        ]
    )


@pytest.mark.parametrize("sets", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_with_equal_rates_it_hardly_ever_says_otherwise(sets: int) -> None:
    rng = np.random.default_rng(4)
    drawn = [alike(rng, rng.uniform(0.3, 0.98, len(CRITERIA)).tolist()) for _ in range(sets)]
    accused = [passing(one, list(DIMENSIONS))["less_often"].any() for one in drawn]
    assert sum(accused) <= 0.05 * sets


def test_a_planted_difference_is_found() -> None:
    """60 % of one half against 95 % of the other, 84 people each."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = [
            {**person, "criterion": name, "passed": bool(rng.random() < rate)}
            for person in people()
            for name in CRITERIA
            for rate in [0.6 if person["gender"] == "0" and name == CRITERIA[2] else 0.95]
        ]
        table = passing(frame(rows), list(DIMENSIONS)).filter("less_often")
        found.append(table.filter(dimension="gender", group="0", criterion=CRITERIA[2]).height == 1)
    assert all(found)


def test_counts_rates_and_the_others() -> None:
    rows = [
        ("a", True),
        ("a", False),
        ("a", None),
        ("b", True),
        ("b", True),
        ("b", False),
        ("b", True),
        (None, True),
    ]
    table = passing(frame([{"race": g, "criterion": "sharp", "passed": p} for g, p in rows]), ["race"])
    first = table.row(0, named=True)
    counts = ("group", "candidates", "measured", "unmeasured", "passed", "others_measured", "others_passed")
    assert [first[name] for name in counts] == ["a", 3, 2, 1, 1, 4, 3]
    assert (first["rate"], first["others_rate"]) == (0.5, 0.75)
    assert first["low"] == pytest.approx(0.0945, abs=1e-3) and first["high"] == pytest.approx(0.9055, abs=1e-3)
    assert first["p"] == pytest.approx(0.6) and not first["less_often"]


def test_few_people_do_not_shout() -> None:
    """Two of three fail where one in ten of the others does: by itself p < 0.05, but not among ninety looks."""
    few = [person for person in people(1) if person["race"] == "0"][:3]
    many = [person for person in people(1) if person["race"] != "0"]
    rows: list[dict[str, object]] = [
        {**person, "criterion": name, "passed": name != CRITERIA[0] or number % 10 > 1}
        for number, person in enumerate([*few, *many])
        for name in CRITERIA
    ]
    rows += [{**person, "criterion": CRITERIA[0], "passed": True} for person in many]
    table = passing(frame(rows), list(DIMENSIONS))
    one = table.filter(dimension="race", group="0", criterion=CRITERIA[0]).row(0, named=True)
    assert (one["passed"], one["measured"]) == (1, 3)
    assert one["p"] < 0.05 < one["p_holm"] and not one["less_often"]


def test_nothing_measured_is_no_rate() -> None:
    rows: list[dict[str, object]] = [{"race": group, "criterion": "sharp", "passed": None} for group in "ab"]
    table = passing(frame(rows), ["race"])
    assert table["rate"].to_list() == [None, None] and table["p"].to_list() == [None, None]
    assert table["unmeasured"].to_list() == [1, 1] and not table["less_often"].any()


def test_a_single_group_has_nobody_beside_it() -> None:
    table = passing(frame([{"race": "a", "criterion": "sharp", "passed": False}] * 9), ["race"])
    assert table["rate"].to_list() == [0] and table["others_rate"].to_list() == [None]
    assert not table["less_often"].any()


def test_no_candidates_is_an_empty_table() -> None:
    empty = pl.DataFrame(schema={"race": pl.String, "criterion": pl.String, "passed": pl.Boolean})
    table = passing(empty, ["race"])
    assert table.height == 0 and {"dimension", "group", "criterion", "rate", "p", "less_often"} <= set(
        table.columns
    )


@given(st.integers(1, 40), st.integers(1, 200), st.data())
def test_the_test_is_fishers(measured: int, others: int, data: st.DataObject) -> None:
    passed, others_passed = data.draw(st.integers(0, measured)), data.draw(st.integers(0, others))
    table = [[passed, measured - passed], [others_passed, others - others_passed]]
    expected = fisher_exact(table, alternative="less")[1]
    assert less_often(passed, measured, others_passed, others) == pytest.approx(expected, abs=1e-9)
