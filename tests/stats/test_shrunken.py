"""Cells of prompts and groups: shrunken towards their prompt, and marked no more often than they may be."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.stats.shrunken import fisher, shrunken

GROUPS = ("a", "b", "c", "d", "e", "f", "g")


def drawn(seed: int, high: float = 0.1, persons: int = 12, prompts: int = 10, edits: int = 1) -> pl.DataFrame:
    """Every group alike at 0.1, besides `a` at `high`."""
    random = np.random.default_rng(seed)
    rows = [
        (
            "x",
            "one",
            f"{group}{person}",
            group,
            f"q{prompt}",
            bool(random.random() < (high if group == "a" else 0.1)),
        )
        for group in GROUPS
        for person in range(persons)
        for prompt in range(prompts)
        for _ in range(edits)
    ]
    return pl.DataFrame(rows, schema=["outcome", "editor", "person", "race", "prompt", "hit"], orient="row")


def test_cells_of_groups_that_are_alike_stand_near_their_prompt() -> None:
    found = shrunken(drawn(1), "race")
    spread, raw = (
        (found["shrunken"] - found["prompt_rate"]).abs().mean(),
        (found["rate"] - found["prompt_rate"]).abs().mean(),
    )
    assert spread < 0.25 * raw  # type: ignore[operator]
    assert found["marked"].null_count() == found.height


def test_cells_that_differ_keep_their_distance_and_are_marked() -> None:
    found = shrunken(drawn(2, high=0.9), "race")
    own = found.filter(group="a")
    assert (own["shrunken"] > 0.5).all() and (own["marked"] == "above").sum() >= 8
    assert found.filter(pl.col("group") != "a")["marked"].null_count() >= 55


def test_nothing_is_marked_by_chance_more_often_than_it_may_be() -> None:
    runs = [
        shrunken(drawn(seed, prompts=6, persons=8), "race")["marked"].is_not_null().any() for seed in range(40)
    ]
    assert sum(runs) <= 5


def test_many_edits_of_the_same_persons_are_not_more_persons() -> None:
    """Three edits that always agree are tested and weighed as one."""
    once = drawn(3, high=0.5)
    thrice = pl.concat([once] * 3)
    one, three = shrunken(once, "race"), shrunken(thrice, "race")
    assert one["p"].to_list() == three["p"].to_list()
    assert one["effective"].to_list() == pytest.approx(three["effective"].to_list())
    assert one["shrunken"].to_list() == pytest.approx(three["shrunken"].to_list())


def test_a_cell_without_a_score_has_no_rate_and_no_mark() -> None:
    marked = drawn(4).with_columns(
        hit=pl.when(~((pl.col("race") == "b") & (pl.col("prompt") == "q0"))).then(pl.col("hit"))
    )
    row = shrunken(marked, "race").filter(group="b", prompt="q0").row(0, named=True)
    assert (row["judged"], row["missing"], row["persons"]) == (0, 12, 0)
    assert row["rate"] is row["shrunken"] is row["p"] is row["marked"] is None


def test_one_group_has_nothing_to_be_held_against() -> None:
    found = shrunken(drawn(5).filter(pl.col("race") == "a"), "race")
    assert found["p"].null_count() == found.height
    assert found["shrunken"].to_list() == pytest.approx(found["prompt_rate"].to_list())
    assert shrunken(drawn(5).clear(), "race").height == 0


@pytest.mark.parametrize("table", [(8, 10, 1, 10), (0, 12, 5, 72), (3, 12, 3, 72), (12, 12, 72, 72), (1, 5, 0, 3)])
def test_the_test_is_fishers(table: tuple[int, int, int, int]) -> None:
    hits, persons, other, others = table
    expected = stats.fisher_exact([[hits, persons - hits], [other, others - other]]).pvalue
    assert fisher(*table) == pytest.approx(expected)
