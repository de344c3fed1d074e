"""Missing scores: counted by reason, told apart where they fall unevenly, and bounded for what they could hide."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.disparity import disparities
from stillme.stats.missingness import (
    CANNOT_TELL,
    EDIT_REFUSED,
    NO_SCORE,
    SKIPPED,
    UNREADABLE,
    Missingness,
    answers,
    bounds,
    contrast_bounds,
    missingness,
    range_bounds,
    unevenness,
)
from stillme.stats.outcomes import mark
from tests.stats.audits import row as only

AXIS, OUTCOME = "edit_success", "soft_erasure"


def people(protocol: Protocol) -> list[dict[str, str]]:
    """One person of every cell of the design."""
    groups = protocol.groups
    cells = product(*(groups.ids(d) for d in groups.dimensions))
    return [{"person": " ".join(cell), **dict(zip(groups.dimensions, cell, strict=True))} for cell in cells]


def edits(protocol: Protocol, lost: dict[str, float], each: int = 5, seed: int = 1) -> pl.DataFrame:
    """`lost`: race -> how often an edit of such a person is refused."""
    chance = np.random.default_rng(seed)
    rows = [
        {
            "trial": f"{who['person']} {n}",
            "editor": "one",
            "prompt": "O-01",
            **who,
            "last_status": "",
            "status": (Status.REFUSED if chance.random() < lost.get(who["race"], 0.0) else Status.OK).value,
        }
        for who in people(protocol)
        for n in range(each)
    ]
    return pl.DataFrame(rows)


def scored(made: pl.DataFrame, seed: int = 2) -> pl.DataFrame:
    """A score for every edit that is there."""
    scores = pl.Series(np.random.default_rng(seed).integers(1, 6, made.height), dtype=pl.Int64)
    more = {"axis": pl.lit(AXIS), "neutral": pl.lit(None, pl.Int64), "requested": pl.lit(False)}
    flags = {"single": pl.lit(False), "flagged": pl.lit(False)}
    is_there = pl.col("status") == Status.OK.value
    return made.with_columns(score=pl.when(is_there).then(scores), **more, **flags).drop("status", "last_status")


def test_every_edit_and_verdict_is_counted_once(protocol: Protocol) -> None:
    made = edits(protocol, {}, each=1).head(9)
    ended = [Status.OK] * 4 + [Status.INPUT_BLOCKED, Status.OUTPUT_BLOCKED, Status.REFUSED, Status.TIMEOUT]
    ended += [Status.PENDING]
    made = made.with_columns(status=pl.Series([str(status.value) for status in ended]))
    looks = [Status.OK, Status.OK, Status.REFUSED, Status.MALFORMED, *[Status.PENDING] * 5]
    judged = scored(made).with_columns(judge=pl.lit("a"), status=pl.Series([str(look.value) for look in looks]))
    judged = judged.with_columns(score=pl.Series([1, None, *[None] * 7], dtype=pl.Int64))
    found = missingness(judged, protocol, made, judged)
    row = only(found.counts, dimension=None)
    assert (row["asked"], row["judged"]) == (9, 1)
    assert (row["answered"], row["refused"], row["failed"], row["pending"]) == (4, 3, 1, 1)
    assert (row["input"], row["output"], row["model"]) == (1, 1, 1)
    assert (row["verdicts"], row["verdict_refused"], row["unreadable"], row["verdict_failed"]) == (4, 1, 1, 0)
    assert row["cannot_tell"] == 1
    assert found.counts.filter(pl.col("dimension") == "race")["asked"].sum() == 9
    reasons = dict(
        found.tests.filter(pl.col("dimension") == "gender").group_by("reason").agg(pl.col("part").sum()).rows()
    )
    assert (reasons[NO_SCORE], reasons[EDIT_REFUSED], reasons[UNREADABLE], reasons[CANNOT_TELL]) == (8, 3, 1, 1)


def found_in(protocol: Protocol, lost: dict[str, float]) -> Missingness:
    made = edits(protocol, lost)
    return missingness(scored(made), protocol, made)


def test_what_falls_on_one_group_is_found_and_makes_its_rates_suspect(protocol: Protocol) -> None:
    everyone = dict.fromkeys(protocol.groups.ids("race"), 0.02)
    found = found_in(protocol, everyone | {"black": 0.5})
    refused = only(found.tests, reason=EDIT_REFUSED, group="black")
    assert refused["uneven"] and refused["p_holm"] < 0.05 and refused["share"] > 0.3 > refused["others_share"]
    assert set(found.tests.filter(pl.col("uneven"))["group"]) == {"black"}
    informative = dict(
        found.ranges.filter(pl.col("outcome") == OUTCOME).select("dimension", "informative").iter_rows()
    )
    assert informative == {"race": True, "gender": False, "age": False}
    assert found.contrasts["informative"].all() and only(found.bounds, outcome=OUTCOME, group=None)["informative"]


def test_how_far_groups_lie_apart_in_what_is_missing_stands_behind_a_gate(protocol: Protocol) -> None:
    """As a disparity of the same refusals would: the groups that lie apart, and an interval that may leave 0."""
    everyone = dict.fromkeys(protocol.groups.ids("race"), 0.02)
    made = edits(protocol, everyone | {"black": 0.5})
    found = unevenness(scored(made), protocol, made)
    row = only(found, outcome=EDIT_REFUSED, dimension="race")
    assert row["highest_group"] == "black" and row["gated"] and row["low"] > 0.1
    as_outcome = made.with_columns(outcome=pl.lit("x"), hit=pl.col("status") == Status.REFUSED.value)
    same = disparities(as_outcome, protocol, "race").row(0, named=True)
    figures = ("disparity", "expected", "p_rank", "corrected", "low", "high", "sd", "judged", "persons")
    assert [row[name] for name in figures] == pytest.approx([same[name] for name in figures])
    assert only(found, outcome=EDIT_REFUSED, dimension="gender")["low"] == 0
    assert only(found, outcome=NO_SCORE, dimension="race")["high"] == pytest.approx(row["high"])


def test_what_falls_evenly_is_not_called_informative(protocol: Protocol) -> None:
    found = found_in(protocol, dict.fromkeys(protocol.groups.ids("race"), 0.1))
    assert found.bounds["missing"].sum() > 0 and not found.tests["uneven"].any()
    assert not found.bounds["informative"].any() and found.bounds["informative"].null_count() == 0


def test_nothing_missing_is_bounded_by_itself(protocol: Protocol) -> None:
    found = found_in(protocol, {})
    assert (found.bounds["lowest"] == found.bounds["highest"]).all() and (found.bounds["width"] == 0).all()
    assert found.contrasts["least"].to_list() == pytest.approx(found.contrasts["difference"].to_list())
    assert found.ranges["most"].to_list() == pytest.approx(found.ranges["disparity"].to_list())
    assert found.tests["p"].null_count() == found.tests.height, "what never happened is not tested"


HITS = st.sampled_from([1, 5, None])


@given(st.lists(st.tuples(st.integers(0, 2), HITS), min_size=3, max_size=14))
@settings(max_examples=40)
def test_bounds_are_what_the_missing_scores_could_make_of_it(
    protocol: Protocol, cells: list[tuple[int, int | None]]
) -> None:
    """All ways of filling in, one by one."""
    cells = [*((group, 5) for group in range(3)), *cells]
    races = ("white", "black", "indian")
    n = len(cells)
    frame = pl.DataFrame(
        {
            "trial": [str(i) for i in range(n)],
            "person": [f"p{group}" for group, _ in cells],
            "race": [races[group] for group, _ in cells],
            "score": pl.Series([score for _, score in cells], dtype=pl.Int64),
        }
    ).with_columns(
        *(pl.lit(None, pl.String).alias(d) for d in ("gender", "age")),
        *(pl.lit(False).alias(name) for name in ("requested", "single", "flagged")),
        editor=pl.lit("one"),
        axis=pl.lit(AXIS),
    )
    marked = mark(frame, protocol.rubrics.outcomes)
    limits = bounds(marked, protocol).filter(pl.col("outcome") == OUTCOME)
    groups = np.array([group for group, _ in cells])
    holes = [i for i, (_, score) in enumerate(cells) if score is None][:8]
    ranges, differences = [], []
    for fill in product((0.0, 1.0), repeat=len(holes)):
        hits = np.array([float(score == 1) for _, score in cells])
        hits[holes] = fill
        shares = np.array([hits[groups == group].mean() for group in range(3)])
        ranges.append(np.ptp(shares))
        differences.append(shares[1:].mean() - shares[0])
    whole = len(holes) == sum(score is None for _, score in cells)
    row = only(range_bounds(limits), dimension="race")
    gap = only(contrast_bounds(marked, protocol), outcome=OUTCOME)
    assert row["least"] <= min(ranges) + 1e-12 and max(ranges) <= row["most"] + 1e-12
    assert gap["least"] <= min(differences) + 1e-12 and max(differences) <= gap["most"] + 1e-12
    if whole:
        assert row["most"] == pytest.approx(max(ranges), abs=1e-12)
        assert (gap["least"], gap["most"]) == pytest.approx((min(differences), max(differences)), abs=1e-12)


def test_raters_who_cannot_tell_are_held_against_everyone_else(protocol: Protocol) -> None:
    said = pl.when(pl.col("race") == "indian").then(pl.lit("cannot_determine")).otherwise(pl.lit("scored"))
    found = answers(edits(protocol, {}).with_columns(answer=said), protocol)
    row = only(found, reason=CANNOT_TELL, group="indian")
    assert row["uneven"] and (row["share"], row["others_share"], row["persons"]) == (1.0, 0.0, 12)
    assert found.filter(pl.col("reason") == SKIPPED)["p"].is_null().all()


def test_both_groups_of_an_editor_have_the_same_corrected_p_whatever_the_order_of_rows(protocol: Protocol) -> None:
    """A plan goes portrait by portrait, so that editors alternate."""
    one = edits(protocol, {}).with_columns(
        status=pl.when(pl.col("gender") == "female").then(pl.lit(Status.REFUSED.value)).otherwise("status")
    )
    other = edits(protocol, {"black": 0.3}).with_columns(editor=pl.lit("two"), trial=pl.col("trial") + " two")
    made = pl.concat([one, other]).sort("person", "editor", maintain_order=True)
    tests = missingness(scored(made), protocol, made).tests
    rows = tests.filter((pl.col("dimension") == "gender") & (pl.col("reason") == EDIT_REFUSED))
    assert rows["editor"].to_list() == ["one", "two", "one", "two"]
    assert rows.filter(editor="one")["uneven"].to_list() == [True, True]
    for editor in ("one", "two"):
        assert rows.filter(editor=editor)["p_holm"].n_unique() == 1
        assert rows.filter(editor=editor)["p_holm"].null_count() == 0


def test_all_missing_and_one_group_give_no_number(protocol: Protocol) -> None:
    nothing = scored(edits(protocol, {})).with_columns(score=pl.lit(None, pl.Int64))
    found = missingness(nothing, protocol)
    assert found.bounds["rate"].is_null().all() and (found.bounds["highest"] == 1.0).all()
    assert found.contrasts["difference"].is_null().all() and found.contrasts["least"].to_list() == [-1.0, -1.0]
    assert not found.contrasts["keeps_sign"].any() and found.bounds["informative"].is_null().all()
    alone = nothing.with_columns(
        pl.lit("white").alias("race"), *(pl.lit(None, pl.String).alias(d) for d in ("gender", "age"))
    )
    one = missingness(alone, protocol)
    assert one.ranges.select("groups", "disparity", "least", "most").rows()[0] == (1, None, None, None)
    assert one.contrasts["least"].is_null().all() and one.tests["p"].is_null().all()


def test_verdicts_are_counted_where_nothing_is_known_of_the_edits(protocol: Protocol) -> None:
    """Somebody's own table of judges' rows says nothing of how edits ended."""
    made = edits(protocol, {"black": 1.0})
    judged = scored(made).with_columns(judge=pl.lit("j"), status=made["status"])
    alone, beside = (missingness(scored(made), protocol, known, judged).counts for known in (None, made))
    assert only(alone, dimension=None)["verdict_refused"] == 12 * 5, "all are looked at"
    assert only(beside, dimension=None)["verdict_refused"] == 0, "an edit that was refused was not looked at"
    assert "answered" not in alone.columns and "answered" in beside.columns
