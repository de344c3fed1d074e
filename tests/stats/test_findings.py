from __future__ import annotations

import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats.contrast import contrasts
from stillme.stats.disparity import max_minus_min
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates

# Judged edits and counts of the published study (the protocol's "Published figures").
PUBLISHED = {
    "FLUX.2-dev": (1674, 225, 105, 1184),
    "Step1X-Edit-v1p2": (1677, 135, 363, 1044),
    "Qwen-Image-Edit-2511": (1679, 155, 51, 1128),
}


def published_scores() -> pl.DataFrame:
    """5,040 rows an axis with the published counts: 1,680 a model, some without a score."""
    rows = []
    for editor, (judged, race, erased, lighter) in PUBLISHED.items():
        for axis, hit, miss, count in (
            ("race_drift", 4, 1, race),
            ("edit_success", 1, 5, erased),
            ("skin_tone", 4, 3, lighter),
        ):
            for n in range(1680):
                score = None if n >= judged else hit if n < count else miss
                rows.append((f"{editor}{n}", editor, f"p{n % 84}", axis, score))
    schema = {"trial": pl.String, "editor": pl.String, "person": pl.String, "axis": pl.String, "score": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(requested=pl.lit(False), single=pl.lit(False), flagged=pl.lit(False))


def test_the_published_counts_give_the_published_percentages(protocol: Protocol) -> None:
    found = rates(mark(published_scores(), protocol.rubrics.outcomes), ["editor"])

    def percent(outcome: str, column: str) -> list[float]:
        return [round(100 * value, 1) for value in found.filter(pl.col("outcome") == outcome)[column]]

    assert percent("race_changed", "nominal_rate") == [13.4, 8.0, 9.2]
    assert percent("soft_erasure", "nominal_rate") == [6.2, 21.6, 3.0]
    assert percent("skin_lightened", "rate") == [70.7, 62.3, 67.2]
    row = found.row(
        by_predicate=(pl.col("outcome") == "race_changed") & (pl.col("editor") == "FLUX.2-dev"), named=True
    )
    assert (row["asked"], row["judged"], row["missing"], row["persons"]) == (1680, 1674, 6, 84)


def small(scores: list[int | None], requested: bool = False) -> pl.DataFrame:
    n = len(scores)
    return pl.DataFrame(
        {
            "trial": [str(i) for i in range(n)],
            "editor": ["e"] * n,
            "person": [f"p{i % 4}" for i in range(n)],
            "race": ["white" if i % 4 == 0 else "black" for i in range(n)],
            "axis": ["edit_success"] * n,
            "score": pl.Series(scores, dtype=pl.Int64),
            "requested": [requested] * n,
            "single": [False] * n,
            "flagged": [False] * n,
        }
    )


def test_a_missing_score_is_in_no_rate_but_is_counted(protocol: Protocol) -> None:
    found = rates(mark(small([1, 5, None, None, 3, 5, 1, 5]), protocol.rubrics.outcomes), ["editor"])
    row = found.row(by_predicate=pl.col("outcome") == "soft_erasure", named=True)
    assert (row["asked"], row["judged"], row["missing"], row["hits"]) == (8, 6, 2, 2)
    assert row["rate"] == pytest.approx(2 / 6) and row["nominal_rate"] == pytest.approx(2 / 8)
    succeeded = found.row(by_predicate=pl.col("outcome") == "edit_succeeded", named=True)
    assert succeeded["hits"] + row["hits"] == 5, "a score of 3 is in neither"


def test_a_group_without_any_score_has_no_rate(protocol: Protocol) -> None:
    found = rates(mark(small([None, 5, 5, 5, None, 5, 5, 1]), protocol.rubrics.outcomes), ["editor", "race"])
    row = found.row(by_predicate=(pl.col("outcome") == "soft_erasure") & (pl.col("race") == "white"), named=True)
    assert row["rate"] is None and row["low"] is None and row["missing"] == 2


def test_requested_changes_are_left_out(protocol: Protocol) -> None:
    assert mark(small([1, 2, 3], requested=True), protocol.rubrics.outcomes).height == 0


def test_max_minus_min_names_its_groups(protocol: Protocol) -> None:
    table = rates(mark(small([1, 5, 5, 5, 1, 5, 5, 1]), protocol.rubrics.outcomes), ["editor", "race"])
    row = max_minus_min(table, ["outcome", "editor"], "race").row(
        by_predicate=pl.col("outcome") == "soft_erasure", named=True
    )
    assert (row["highest_group"], row["lowest_group"]) == ("white", "black")
    assert row["disparity"] == pytest.approx(1 - 1 / 6)


def test_a_contrast_needs_persons_on_both_sides(protocol: Protocol) -> None:
    marked = mark(small([1, 5, 5, 5]), protocol.rubrics.outcomes)
    row = contrasts(marked, ["soft_erasure"], "race", "white").row(0, named=True)
    assert row["p"] is None and row["p_holm"] is None
    assert (row["reference_persons"], row["others_persons"]) == (1, 3)
