from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.protocol import Protocol, builtin
from stillme.stats.between import between, disparities, rates
from stillme.stats.families import holm
from stillme.stats.outcomes import mark
from stillme.stats.simulate import audit
from stillme.stats.simulate import people as simulated
from tests.stats.audits import no_nan
from tests.stats.test_disparity import FLUX
from tests.stats.test_resample import some


@pytest.fixture(scope="module")
def marked() -> pl.DataFrame:
    """Two editors that replace, one that does so evenly."""
    protocol = builtin()
    outcome = protocol.rubrics.outcomes["race_changed"]
    planted = {outcome.axis: [FLUX, FLUX, [0.1] * 7]}
    return mark(audit(protocol, 1, planted).scores, {"race_changed": outcome})


@pytest.fixture(scope="module")
def found(marked: pl.DataFrame) -> pl.DataFrame:
    return between(marked, builtin())


def pick(frame: pl.DataFrame, quantity: str, editor: str, other: str) -> dict[str, object]:
    keep = (pl.col("quantity") == quantity) & (pl.col("editor") == editor) & (pl.col("other") == other)
    return frame.row(by_predicate=keep, named=True)


def test_every_pair_of_editors_on_every_quantity(found: pl.DataFrame) -> None:
    assert len(found) == 9 and no_nan(found)
    assert found["persons"].unique().to_list() == [84] and found["left_out"].sum() == 0


def test_the_even_editor_is_told_apart_from_the_uneven_ones(found: pl.DataFrame) -> None:
    for quantity in ("contrast", "disparity"):
        same, other = pick(found, quantity, "e1", "e2"), pick(found, quantity, "e1", "e3")
        assert same["p_holm"] > 0.05 and same["low"] < 0 < same["high"]  # type: ignore[operator]
        assert other["low"] > 0 and other["p_holm"] < 0.05  # type: ignore[operator]


def test_rates_differ_by_the_mean_of_persons_differences(marked: pl.DataFrame, found: pl.DataFrame) -> None:
    wide = (
        marked.group_by("person", "editor").agg(pl.col("hit").mean()).pivot("editor", index="person", values="hit")
    )
    row = pick(found, "rate", "e1", "e3")
    expected = stats.ttest_rel(wide["e1"], wide["e3"])
    interval = expected.confidence_interval()
    assert row["difference"] == pytest.approx((wide["e1"] - wide["e3"]).mean())
    assert row["low"] == pytest.approx(interval.low) and row["high"] == pytest.approx(interval.high)
    assert row["p"] == pytest.approx(expected.pvalue, abs=0.01)


def test_holm_is_over_the_pairs_of_a_quantity(found: pl.DataFrame) -> None:
    for _, part in found.group_by("quantity"):
        assert part["p_holm"].to_list() == holm(part["p"].to_list())


def test_persons_of_one_editor_only_are_left_out_and_counted(marked: pl.DataFrame, protocol: Protocol) -> None:
    gone = marked.filter(~((pl.col("editor") == "e2") & (pl.col("age") == "20s")))
    told = between(gone, protocol)
    assert pick(told, "rate", "e1", "e2")["persons"] == 70 and pick(told, "rate", "e1", "e2")["left_out"] == 14
    assert pick(told, "rate", "e1", "e3")["persons"] == 84


def test_shared_persons_make_a_difference_of_disparities_sharper() -> None:
    """The same persons under both editors: their common part falls out, so the interval is narrower."""
    hits = simulated(np.random.default_rng(2), [FLUX, FLUX], 12, 20, person_sd=1.5, editor_sd=0.0)[0]
    shifted = np.stack([hits[0], np.roll(hits[1], 1, axis=1)])  # other persons in the same places
    joint, apart = (disparities(some(both), [(0, 1)], seed=1)[0].found for both in (hits, shifted))
    assert joint.error is not None and apart.error is not None and joint.error < apart.error


def test_differences_between_equal_editors_hold_their_level() -> None:
    hits = simulated(np.random.default_rng(3), [[0.1] * 7] * 2, 12, 20, replicates=200)
    columns = [(place, place + 1) for place in range(0, 400, 2)]
    found = rates(some(hits.reshape(400, 7, 12)), columns, seed=1)
    assert 1 <= sum(one.p is not None and one.p <= 0.05 for one in found) <= 20


def test_what_cannot_be_told_is_null(marked: pl.DataFrame, protocol: Protocol) -> None:
    for frame in (
        marked.clear(),
        marked.filter(pl.col("editor") == "e1"),
        marked.filter(pl.col("race") == "white"),
        marked.filter(pl.col("race") != "white"),
        marked.with_columns(hit=pl.lit(None, pl.Boolean)),
        marked.with_columns(hit=pl.lit(False)),
        marked.filter(pl.col("age") == "20s"),
    ):
        assert no_nan(between(frame, protocol))
    few = between(marked.filter((pl.col("age") == "20s") & (pl.col("gender") == "male")), protocol)
    assert few["low"].null_count() == len(few)


def test_groups_without_a_reference_have_no_contrast(marked: pl.DataFrame, protocol: Protocol) -> None:
    told = between(marked, protocol, dimension="gender")
    assert set(told["quantity"]) == {"rate", "disparity"} and len(told) == 6
