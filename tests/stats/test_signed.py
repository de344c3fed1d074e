"""Signed axes: even judges show no direction however scores are rounded, and the counts add up."""

from __future__ import annotations

from typing import get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.protocol.schema import Rounding
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.signed import by_judge, signed

AXIS, NEUTRAL = "skin_tone", 3
Pair = tuple[int | None, int | None]


def judged(pairs: list[Pair], persons: int = 10, requested: bool = False) -> pl.DataFrame:
    """Two judges' scores of edits that go to persons in turn."""
    rows = [
        (f"t{n}", f"p{n % persons}", "one", AXIS, NEUTRAL, requested, name, rank, score)
        for n, pair in enumerate(pairs)
        for rank, (name, score) in enumerate(zip("ab", pair, strict=True))
    ]
    words = ("trial", "person", "editor", "axis")
    schema = dict.fromkeys(words, pl.String) | {"neutral": pl.Int64, "requested": pl.Boolean, "judge": pl.String}
    return pl.DataFrame(rows, schema=schema | {"rank": pl.Int64, "score": pl.Int64}, orient="row")


def ensemble(rows: pl.DataFrame, rounding: Rounding) -> pl.DataFrame:
    about = rows.select("trial", "axis", "person", "editor", "requested").unique(["trial", "axis"])
    return combine(rows, rounding).join(about, on=["trial", "axis"], how="left", validate="1:1")


@pytest.mark.parametrize("rounding", get_args(Rounding))
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=60))
@settings(max_examples=25)
def test_even_judges_give_a_net_of_nothing_under_every_rounding(
    protocol: Protocol, rounding: Rounding, pairs: list[tuple[int, int]]
) -> None:
    mirrored: list[Pair] = [*pairs, *((2 * NEUTRAL - a, 2 * NEUTRAL - b) for a, b in pairs)]
    rows = judged(mirrored)
    row = signed(ensemble(rows, rounding), protocol, ["editor"]).row(0, named=True)
    assert row["net"] == 0.0 and row["n_above"] == row["n_below"]
    assert row["n_above"] + row["n_same"] + row["n_below"] == row["judged"] == len(mirrored)
    assert signed(rows, protocol, ["editor"]).row(0, named=True)["net"] == 0.0


def test_a_rounded_score_would_lean_to_one_side(protocol: Protocol) -> None:
    """Why: half of the pairs say 3 and 4, half 3 and 2. Halves that go up make every other edit lighter."""
    scores = ensemble(judged([(3, 4), (3, 2)] * 20), "half_up")
    lighter = rates(mark(scores, protocol.rubrics.outcomes), ["editor"]).filter(pl.col("hits") > 0)
    assert lighter["rate"].to_list() == [0.5]
    row = signed(scores, protocol, ["editor"]).row(0, named=True)
    assert (row["above"], row["below"], row["net"], row["magnitude"]) == (0.5, 0.5, 0.0, 0.5)


def test_with_as_many_edits_each_the_interval_is_students_on_persons(protocol: Protocol) -> None:
    chance = np.random.default_rng(4)
    values = chance.integers(1, 6, 120)
    row = signed(ensemble(judged([(int(v), int(v)) for v in values], 12), "half_even"), protocol, []).row(
        0, named=True
    )
    for figure, each in (("net", np.sign(values - NEUTRAL)), ("magnitude", np.abs(values - NEUTRAL))):
        own = each.reshape(10, 12).mean(axis=0)
        interval = stats.t.interval(0.95, 11, own.mean(), own.std(ddof=1) / np.sqrt(12))
        assert row[figure] == pytest.approx(own.mean())
        assert (row[f"{figure}_low"], row[f"{figure}_high"]) == pytest.approx(interval)


def test_large_is_an_end_of_the_scale_by_everybody(protocol: Protocol) -> None:
    scores = ensemble(judged([(5, 5), (5, 4), (1, 1), (3, 3)]), "half_up")
    row = signed(scores, protocol, []).row(0, named=True)
    assert (row["n_large"], row["large"]) == (2, 0.5)


def test_each_judge_has_a_row(protocol: Protocol) -> None:
    found = by_judge(judged([(4, 2)] * 6 + [(None, 3)] * 4), protocol, ["editor"])
    assert found.select("judge", "judged", "missing", "net").rows() == [("a", 6, 4, 1.0), ("b", 10, 0, -0.6)]


def test_what_cannot_be_known_is_missing(protocol: Protocol) -> None:
    none = signed(ensemble(judged([(None, None)] * 4), "half_up"), protocol, []).row(0, named=True)
    assert (none["asked"], none["judged"], none["persons"]) == (4, 0, 0)
    assert {none[name] for name in ("above", "net", "net_low", "magnitude", "large")} == {None}
    few = signed(ensemble(judged([(4, 4), (3, 3)] * 10, 7), "half_up"), protocol, []).row(0, named=True)
    assert few["net"] == 0.5 and few["net_low"] is None
    alike = signed(ensemble(judged([(4, 4)] * 40), "half_up"), protocol, []).row(0, named=True)
    assert alike["net"] == 1.0 and alike["net_low"] is None, "no spread says nothing of how persons differ"
    assert signed(judged([]), protocol, ["editor"]).height == 0


def test_requested_changes_and_unsigned_axes_are_left_out(protocol: Protocol) -> None:
    assert signed(judged([(5, 5)], requested=True), protocol, ["editor"]).height == 0
    unsigned = judged([(5, 5)]).with_columns(axis=pl.lit("race_drift"), neutral=pl.lit(1, pl.Int64))
    assert signed(unsigned, protocol, ["editor"]).height == 0


def test_what_a_person_decided_stands_over_the_judges(protocol: Protocol) -> None:
    rows = judged([(1, 5), (5, 2), (4, 4)])
    people = pl.DataFrame(
        {"trial": ["t0", "t1"], "axis": [AXIS] * 2, "decided": [2, None], "contested": [False] * 2}
    )
    about = rows.select("trial", "axis", "person", "editor", "requested").unique(["trial", "axis"])
    scores = combine(rows, "half_up", people).join(about, on=["trial", "axis"], how="left")
    row = signed(scores, protocol, []).row(0, named=True)
    assert (row["n_below"], row["n_above"], row["missing"]) == (1, 1, 1)
