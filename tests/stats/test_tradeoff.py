"""Drift against edit success: which arm dominates which, and when that is more than chance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats.tradeoff import ANY, Tradeoff, tradeoff

Arms = Mapping[str, tuple[float, float]]  # arm -> mean race drift, mean success


def scores(arms: Arms, persons: int = 40, cases: int = 4, seed: int = 0, editor: str = "one") -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    about = [(f"p{person}", f"P{case}") for person in range(persons) for case in range(cases)]
    parts = []
    for arm, means in arms.items():
        for (axis, neutral), mean in zip((("race_drift", 1), ("edit_success", None)), means, strict=True):
            drawn = np.clip(np.rint(chance.normal(mean, 0.7, len(about))), 1, 5).astype(int)
            parts.append(
                pl.DataFrame(
                    {
                        "arm": arm,
                        "editor": editor,
                        "prompt": [prompt for _, prompt in about],
                        "person": [person for person, _ in about],
                        "axis": axis,
                        "neutral": pl.Series([neutral] * len(about), dtype=pl.Int64),
                        "requested": False,
                        "score": drawn,
                    }
                )
            )
    return pl.concat(parts)


def point(found: Tradeoff, arm: str, measure: str = "race_drift", editor: str | None = None) -> dict[str, object]:
    chosen = pl.col("editor").is_null() if editor is None else pl.col("editor") == editor
    (row,) = found.points.filter(chosen, arm=arm, measure=measure).to_dicts()
    return row


def test_less_drift_and_more_success_surely_dominates(protocol: Protocol) -> None:
    found = tradeoff(scores({"baseline": (3.0, 3.0), "feature": (2.0, 4.0)}), protocol)
    assert point(found, "baseline")["surely_dominated_by"] == point(found, "baseline")["dominated_by"] == "feature"
    assert point(found, "feature")["dominated_by"] is None
    (row,) = found.differences.filter(pl.col("editor").is_null(), measure="race_drift").to_dicts()
    assert (row["arm"], row["against"], row["dominates"], row["surely"]) == (
        "feature", "baseline", "feature", "feature"
    )  # fmt: skip
    assert row["drift_high"] < 0 < row["success_low"]


def test_less_drift_bought_with_success_dominates_nothing(protocol: Protocol) -> None:
    found = tradeoff(scores({"baseline": (3.0, 4.0), "feature": (2.0, 3.0)}), protocol)
    assert found.points["dominated_by"].null_count() == found.points.height
    assert found.differences["dominates"].null_count() == found.differences.height


def test_points_dominate_by_chance_and_intervals_do_not(protocol: Protocol) -> None:
    """Two arms that are alike, many times over: by the points one mostly dominates, surely hardly ever."""
    alike = {"baseline": (2.0, 4.0), "placebo": (2.0, 4.0)}
    many = pl.concat([scores(alike, 20, 3, seed, f"e{seed}") for seed in range(60)])
    rows = tradeoff(many, protocol).differences.drop_nulls("editor").filter(measure="race_drift")
    assert rows.height == 60 and rows["dominates"].is_not_null().mean() > 0.3  # type: ignore[operator]
    assert rows["surely"].is_not_null().sum() <= 1


def test_figures_are_means_over_persons_with_their_interval(protocol: Protocol) -> None:
    table = scores({"baseline": (2.4, 3.6), "feature": (1.8, 3.5)}, seed=3)
    found = point(tradeoff(table, protocol), "baseline", editor="one")
    own = (
        table.filter(arm="baseline", axis="race_drift").group_by("person").agg(pl.col("score").mean() - 1)["score"]
    )
    low, high = stats.t.interval(0.95, 39, own.mean(), stats.sem(own.to_numpy()))
    assert (found["drift"], found["drift_low"], found["drift_high"]) == pytest.approx((own.mean(), low, high))
    assert (found["cases"], found["persons"]) == (160, 40) and tradeoff(table, protocol).success == "edit_success"


def test_any_drift_is_a_share(protocol: Protocol) -> None:
    table = scores({"baseline": (2.6, 3.6)}, seed=4)
    expected = (table.filter(axis="race_drift")["score"] >= 3).mean()
    marked = point(tradeoff(table, protocol), "baseline", ANY)
    assert marked["drift"] == pytest.approx(expected)


def test_an_edit_counts_where_both_sides_are_known(protocol: Protocol) -> None:
    table = scores({"baseline": (2.0, 4.0), "feature": (2.0, 4.0)}, 5, 2)
    lost = (pl.col("person") == "p0") & (pl.col("arm") == "feature") & (pl.col("axis") == "edit_success")
    found = tradeoff(table.with_columns(score=pl.when(~lost).then("score")), protocol)
    assert (point(found, "feature")["cases"], point(found, "baseline")["cases"]) == (8, 10)
    assert found.differences.filter(measure="race_drift")["cases"].to_list() == [8, 8]


def test_no_scores_are_no_points_and_one_person_has_no_interval(protocol: Protocol) -> None:
    table = scores({"baseline": (2.0, 4.0), "feature": (1.0, 5.0)}, 1, 3)
    for empty in (table.clear(), table.with_columns(score=pl.lit(None, pl.Int64))):
        found = tradeoff(empty, protocol)
        assert found.points.is_empty() and found.differences.is_empty()
    alone = point(tradeoff(table, protocol), "baseline")
    assert alone["drift"] is not None and alone["drift_low"] is None and alone["surely_dominated_by"] is None


def test_arms_that_never_differ_do_not_dominate(protocol: Protocol) -> None:
    table = scores({"baseline": (2.0, 4.0)})
    same = pl.concat([table, table.with_columns(arm=pl.lit("feature"))])
    assert tradeoff(same, protocol).points["dominated_by"].null_count() == 8


def test_two_edits_of_a_case_in_one_arm_are_refused(protocol: Protocol) -> None:
    table = scores({"baseline": (2.0, 4.0)}, 2, 1)
    with pytest.raises(
        InputError, match=r"p0 × P0 × one has more than one score on race_drift in the arm baseline"
    ):
        tradeoff(pl.concat([table, table.head(1)]), protocol)


def test_arms_that_share_no_case_are_not_held_against_each_other(protocol: Protocol) -> None:
    table = scores({"baseline": (2.0, 4.0), "feature": (1.0, 5.0)}, 6, 2)
    is_first = pl.col("person").is_in(["p0", "p1", "p2"])
    found = tradeoff(table.filter(is_first == (pl.col("arm") == "feature")), protocol)
    assert found.differences.is_empty() and found.points["dominated_by"].null_count() == found.points.height > 0
