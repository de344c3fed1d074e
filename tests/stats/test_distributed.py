"""Scores over their scale, swatches before and after, and the interval that nobody claims by."""

from __future__ import annotations

import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats.distributed import distributions
from stillme.stats.naive import with_naive
from stillme.stats.tones import tone_flow


def scored(means: list[float | None], axis: str = "skin_tone", requested: bool = False) -> pl.DataFrame:
    rows = [
        {"trial": f"t{n}", "axis": axis, "editor": "e", "race": "white", "person": f"p{n % 2}", "mean": mean,
         "score": None if mean is None else round(mean), "requested": requested}
        for n, mean in enumerate(means)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"mean": pl.Float64, "score": pl.Int64})


def test_a_mean_between_two_scores_counts_in_both(protocol: Protocol) -> None:
    found = distributions(scored([3, 3.5, 2.5, 4.75, None]), protocol, ["editor", "race"])
    assert found["score"].to_list() == [1, 2, 3, 4, 5]
    assert found["edits"].to_list() == [0, 0.5, 2, 0.75, 0.75]
    assert found["part"].sum() == pytest.approx(1)
    assert found.select("asked", "judged", "missing", "persons").unique().row(0) == (5, 4, 1, 2)


def test_judges_who_are_even_show_no_direction(protocol: Protocol) -> None:
    """Rounding would move both halves to one side."""
    found = dict(distributions(scored([2.5, 3.5]), protocol, ["editor"]).select("score", "edits").iter_rows())
    assert found[2] == found[4] == 0.5 and found[3] == 1


def test_nothing_judged_has_no_share_and_what_was_asked_for_is_left_out(protocol: Protocol) -> None:
    found = distributions(scored([None, None]), protocol, ["editor"])
    assert found["part"].null_count() == 5 and found["missing"].to_list() == [2] * 5
    assert distributions(scored([4], requested=True), protocol, ["editor"]).height == 0


def test_swatches_are_counted_and_what_cannot_be_read_is_apart() -> None:
    edits = pl.DataFrame(
        {
            "editor": ["b", "b", "b", "a"],
            "person": ["p", "q", "p", "p"],
            "monk_before": [7.0, 7.0, 5.0, None],
            "monk_after": [5.0, 5.0, None, 3.0],
        }
    )
    assert tone_flow(edits).rows() == [("b", 7, 5, 2, 2), ("b", None, None, 1, 1), ("a", None, None, 1, 1)]


def test_the_naive_interval_stands_only_beside_another() -> None:
    rows = pl.DataFrame({"hits": [81, 81, 0], "judged": [263, 263, 0], "low": [0.2, None, None]})
    found = with_naive(rows)
    assert found["naive_low"].to_list()[0] == pytest.approx(0.2553, abs=1e-4)
    assert found["naive_high"].null_count() == 2 and with_naive(rows.clear()).width == 5
