"""Sensitivity: declared thresholds give the rates of the report, neighbours theirs, and each scoring its own."""

from __future__ import annotations

from typing import get_args

import numpy as np
import polars as pl
import pytest

from stillme.core.errors import InputError
from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.protocol.schema import Rounding
from stillme.stats.contrast import contrasts
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.sensitivity import ALONE, ROUNDED, UNROUNDED, denominators, moves, scoring, thresholds, variants

ABOUT = ("trial", "axis", "person", "editor", "requested", "race")


def judged(protocol: Protocol, persons: int = 28, edits: int = 5, seed: int = 1) -> pl.DataFrame:
    """Two judges, every axis; some scores missing, some changes asked for."""
    chance, races = np.random.default_rng(seed), protocol.groups.ids("race")
    rows = [
        {
            "trial": f"{person} {edit}",
            "person": f"p{person}",
            "editor": "one",
            "race": races[person % len(races)],
            "axis": axis.id,
            "neutral": axis.neutral,
            "requested": axis.id == "age_drift" and edit == 0,
            "judge": judge,
            "rank": rank,
            "score": None if chance.random() < 0.1 else int(chance.integers(1, 6)),
        }
        for person in range(persons)
        for edit in range(edits)
        for axis in protocol.rubrics.axes
        for rank, judge in enumerate(("first", "second"))
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def ensembles(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    about = rows.select(ABOUT).unique(["trial", "axis"])
    return {
        mode: combine(rows, mode).join(about, on=["trial", "axis"], how="left", validate="1:1")
        for mode in get_args(Rounding)
    }


def test_every_threshold_is_the_rate_of_an_outcome_with_it(protocol: Protocol) -> None:
    scores = ensembles(judged(protocol))["half_even"]
    found = thresholds(scores, protocol)
    for one in variants(protocol):
        marked = mark(scores, {one.outcome: one.rule})
        expected = rates(marked, ["editor"]).row(0, named=True)
        row = found.row(
            by_predicate=(pl.col("outcome") == one.outcome) & (pl.col("threshold") == one.threshold), named=True
        )
        assert row["is_declared"] == one.is_declared
        for name in (
            "asked",
            "judged",
            "missing",
            "persons",
            "hits",
            "rate",
            "nominal_rate",
            "low",
            "high",
            "deff",
        ):
            assert row[name] == pytest.approx(expected[name], abs=1e-12), name
    assert found.height == len(list(variants(protocol)))


def test_the_contrast_at_the_declared_threshold_is_the_reports(protocol: Protocol) -> None:
    scores = ensembles(judged(protocol, persons=70))["half_even"]
    declared = thresholds(scores, protocol).filter(pl.col("is_declared"))
    outcomes, (dimension, reference) = protocol.rubrics.outcomes, *protocol.groups.reference_group.items()
    report = contrasts(mark(scores, outcomes), list(outcomes), dimension, reference)
    both = declared.join(report, on=["outcome", "editor"], suffix="_report")
    assert both.height == len(outcomes)
    assert both["difference"].to_list() == pytest.approx(both["difference_report"].to_list(), abs=1e-12)
    assert both["difference_low"].to_list() == pytest.approx(both["low_report"].to_list(), abs=1e-12)


def test_neighbouring_thresholds_say_something(protocol: Protocol) -> None:
    found = {(one.outcome, one.threshold): one.is_declared for one in variants(protocol)}
    assert {t: declared for (name, t), declared in found.items() if name == "race_changed"} == {
        2: False,
        3: True,
        4: False,
    }
    assert {t for name, t in found if name == "soft_erasure"} == {1, 2, 3}
    lightened = {t for name, t in found if name == "skin_lightened"}
    assert lightened == {4, 5}, "3 is no change: it cannot count as lightened"
    assert {t for name, t in found if name == "skin_darkened"} == {1, 2}


def test_scorings_stand_beside_each_other(protocol: Protocol) -> None:
    rows = judged(protocol)
    modes = ensembles(rows)
    found = scoring(rows, modes, protocol)
    kinds = found.select("scoring", "name", "is_primary").unique(maintain_order=True).rows()
    alone = [(ALONE, "first", True), (ALONE, "second", False)]
    assert kinds == [*((ROUNDED, mode, None) for mode in modes), (UNROUNDED, "", None), *alone]
    for mode, scores in modes.items():
        part = found.filter(pl.col("name") == mode).select("outcome", "hits", "rate", "low")
        assert part.equals(rates(mark(scores, protocol.rubrics.outcomes), ["editor"]).select(part.columns))
    first = rows.filter(pl.col("judge") == "first").drop_nulls("score")
    darker = first.filter(pl.col("axis") == "skin_tone")["score"].le(2).mean()
    row = found.row(by_predicate=(pl.col("name") == "first") & (pl.col("outcome") == "skin_darkened"), named=True)
    assert row["rate"] == pytest.approx(darker)


def test_a_mean_of_three_and_a_half_is_lightened_by_rounding_alone(protocol: Protocol) -> None:
    rows = judged(protocol).filter(pl.col("axis") == "skin_tone")
    rows = rows.with_columns(score=3 + pl.col("rank"))  # 3 by the first judge, 4 by the second
    found = scoring(rows, ensembles(rows), protocol).filter(pl.col("outcome") == "skin_lightened")
    expected = {"half_even": 1.0, "half_up": 1.0, "toward_neutral": 0.0, "": 0.0, "first": 0.0, "second": 1.0}
    assert dict(found.select("name", "rate").iter_rows()) == expected
    assert moves(found).rows() == [("skin_lightened", "one", 0.0, 1.0, 1.0)]


def test_a_table_of_finished_scores_has_its_own_rounding_alone(protocol: Protocol) -> None:
    scores = ensembles(judged(protocol))["half_up"].drop("mean")
    assert set(scoring(None, {"as given": scores}, protocol)["name"]) == {"as given"}
    with pytest.raises(InputError, match="no way of scoring"):
        scoring(None, {}, protocol)


def test_denominators_and_bounds_stand_in_order(protocol: Protocol) -> None:
    scores = ensembles(judged(protocol))["half_even"]
    found = denominators(mark(scores, protocol.rubrics.outcomes))
    assert found["missing"].sum() > 0
    assert (found["lowest"] <= found["rate"]).all() and (found["rate"] <= found["highest"]).all()
    row = found.row(0, named=True)
    assert row["lowest"] == row["nominal_rate"] == row["hits"] / row["asked"]
    assert row["highest"] == pytest.approx((row["hits"] + row["missing"]) / row["asked"])


def test_all_missing_and_one_group_give_no_number(protocol: Protocol) -> None:
    scores = ensembles(judged(protocol, persons=9))["half_even"].with_columns(race=pl.lit("white"))
    one_group = thresholds(scores, protocol)
    assert one_group["difference"].null_count() == one_group.height and one_group["rate"].null_count() == 0
    nothing = thresholds(scores.with_columns(score=pl.lit(None, pl.Int64)), protocol)
    assert nothing["rate"].null_count() == nothing["low"].null_count() == nothing.height
    assert (nothing["missing"] == nothing["asked"]).all()
