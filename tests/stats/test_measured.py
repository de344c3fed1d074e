"""The tables of measurements on frames small enough to compute by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.core.records import CONTROLS
from stillme.protocol import Protocol
from stillme.stats.intervals import clustered_share
from stillme.stats.measured import NO_CHANGE, SCORES, THRESHOLDS, Counts, Measured, instruments, measure_findings
from tests.stats.audits import row

ASKED = dict.fromkeys(
    ("trial", "experiment", "editor", "prompt", "person", "source_image", "race", "gender", "age", "status"),
    pl.String,
)
SKIN = {
    "skin_tone_shift_status": pl.String,
    "lightness_shift": pl.Float64,
    "lightness_change": pl.Float64,
    "controlled": pl.Boolean,
    "noise_floor": pl.Float64,
}
CHANGE = {"change_status": pl.String, "lpips": pl.Float64}
IDENTITY = {"identity_status": pl.String, "similarity": pl.Float64, "similarity_reencoded": pl.Float64}
AGE = {"apparent_age_status": pl.String, "age_shift": pl.Float64}
NOTHING: dict[str, Any] = {
    "no_change": pl.DataFrame(schema=NO_CHANGE),
    "thresholds": pl.DataFrame(schema=THRESHOLDS),
    "instrument_scores": pl.DataFrame(schema=SCORES),
    "ensemble_scores": pl.DataFrame(schema=SCORES),
}


def edit(person: str, *, editor: str = "e", **given: Any) -> dict[str, Any]:
    """One row; a person's group is told by their first letter, w or b."""
    row = {
        "experiment": "diagnose",
        "editor": editor,
        "prompt": "O-01",
        "person": person,
        "source_image": f"image of {person}",
        "race": {"w": "white", "b": "black"}.get(person[0]),
        "gender": "female",
        "age": "20s",
        "status": "ok",
        **given,
    }
    for column in ("skin_tone_shift_status", "change_status", "identity_status", "apparent_age_status"):
        row.setdefault(column, "ok")
    if "lightness_change" in given:
        row.setdefault("lightness_shift", given["lightness_change"])
        row.setdefault("controlled", True)
    return row


def missed(person: str, why: str = "no_face", **given: Any) -> dict[str, Any]:
    return edit(person, **{"skin_tone_shift_status": why, "identity_status": why, **given})


def control(person: str, id: str, **given: Any) -> dict[str, Any]:
    return edit(person, **{"experiment": CONTROLS, "prompt": id, "editor": id, **given})


def frame(rows: list[dict[str, Any]], *measures: dict[str, Any]) -> pl.DataFrame:
    schema: dict[str, Any] = dict(ASKED)
    for measure in measures:
        schema |= measure
    named = [{"trial": f"t{n}", **row} for n, row in enumerate(rows)]
    return pl.DataFrame([{k: row.get(k) for k in schema} for row in named], schema=schema)


def findings(measured: pl.DataFrame, protocol: Protocol, **given: Any) -> Measured:
    return measure_findings(measured, protocol=protocol, **{**NOTHING, **given})


# Skin lightness


def test_the_shift_is_the_mean_of_persons_with_students_interval(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=x) for x in (1.0, 3.0)]
    rows += [edit("w2", lightness_change=5.0), edit("w3", lightness_change=-2.0, controlled=False), missed("w3")]
    rows += [edit(f"w{n}", lightness_change=float(n)) for n in range(4, 9)]
    found = row(findings(frame(rows, SKIN), protocol).shifts, dimension="race", group="white")
    people = np.array([2.0, 5.0, -2.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    low, high = stats.t.interval(0.95, 7, loc=people.mean(), scale=stats.sem(people))
    assert found["mean"] == pytest.approx(people.mean())
    assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))
    assert (found["asked"], found["read"], found["persons"]) == (10, 9, 8)
    assert (found["controlled"], found["controlled_share"]) == (8, pytest.approx(8 / 9))


def test_raw_and_controlled_stand_side_by_side(protocol: Protocol) -> None:
    rows = [edit(p, lightness_change=1.0, lightness_shift=4.0) for p in ("w1", "w2")]
    found = row(findings(frame(rows, SKIN), protocol).shifts, editor="e", dimension=None)
    assert (found["mean"], found["raw_mean"]) == (1.0, 4.0)


def test_few_persons_have_a_mean_and_no_interval(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=2.0), edit("b1", lightness_change=1.0), edit("b2", lightness_change=3.0)]
    shifts = findings(frame(rows, SKIN), protocol).shifts
    alone, two = (row(shifts, dimension="race", group=group) for group in ("white", "black"))
    assert (alone["mean"], alone["low"], alone["high"], alone["sd"]) == (2.0, None, None, None)
    assert (two["mean"], two["low"], two["high"]) == (2.0, None, None) and two["sd"] > 0


def test_where_nothing_could_be_read_everything_is_missing_and_counted(protocol: Protocol) -> None:
    found = findings(frame([missed("w1"), missed("b1"), missed("b2")], SKIN, IDENTITY), protocol)
    shift, likeness = row(found.shifts, dimension=None), row(found.identity, dimension=None)
    for one in (shift, likeness):
        assert (one["asked"], one["read"], one["persons"], one["mean"], one["low"]) == (3, 0, 0, None, None)
    assert shift["controlled_share"] is None
    assert found.noise is not None and found.noise.is_empty()
    covered = row(found.coverage, measure="skin_tone_shift", group="black")
    assert (covered["asked"], covered["read"], covered["rate"], covered["warns"]) == (2, 0, 0.0, False)


def test_an_edit_without_a_picture_was_never_asked_of_an_instrument(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=2.0), missed("w1", "refused", status="refused")]
    found = findings(frame(rows, SKIN), protocol)
    assert row(found.shifts, dimension=None)["asked"] == 1
    assert row(found.coverage, dimension=None)["asked"] == 1
    assert row(found.statuses, status="refused")["edits"] == 1


def test_controls_are_in_no_shift_and_keep_their_makers(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=6.0)]
    rows += [
        control("w1", "no_op", editor="e", lightness_change=1.0),
        control("w1", "re_encode", lightness_change=0.1),
    ]
    found = findings(frame(rows, SKIN), protocol)
    assert found.shifts is not None and found.controls is not None
    assert row(found.shifts, dimension=None)["mean"] == 6.0
    assert set(found.shifts["editor"]) == {"e"}
    everybody = found.controls.filter(pl.col("dimension").is_null())
    assert everybody.select("control", "editor", "mean").rows() == [
        ("no_op", "e", 1.0),
        ("re_encode", "re_encode", 0.1),
    ]
    assert row(found.controls, control="no_op", dimension="race", group="white")["mean"] == 1.0
    assert found.counts == Counts(edits=1, measured=1, controls=2, controls_measured=2)


def test_prompts_that_ask_for_the_change_are_left_out(protocol: Protocol) -> None:
    older = next(
        p.id for p in protocol.prompts.prompts if not protocol.unrequested(p.id, instruments(protocol).age.axis)
    )
    rows = [
        edit("w1", age_shift=2.0, lightness_change=1.0),
        edit("w1", prompt=older, age_shift=30.0, lightness_change=3.0),
    ]
    found = findings(frame(rows, SKIN, AGE), protocol)
    assert row(found.attributes, figure="age_shift", dimension=None)["mean"] == 2.0
    assert row(found.shifts, dimension=None)["mean"] == 2.0, "ageing asks for no other skin"


# Noise


def test_the_noise_floor_counts_every_source_once(protocol: Protocol) -> None:
    floors = {"w1": 0.1, "w2": 0.3, "b1": 0.2, "b2": 0.8}
    rows = [edit(p, noise_floor=floor, lightness_change=0.0) for p, floor in floors.items() for _ in range(3)]
    rows += [missed("w1")]
    noise = findings(frame(rows, SKIN), protocol).noise
    found, black = row(noise, control=None, group=None), row(noise, control=None, group="black")
    assert found["images"] == 4
    assert found["median"] == pytest.approx(np.median([0.1, 0.3, 0.2, 0.8]))
    assert found["p95"] == pytest.approx(np.quantile([0.1, 0.3, 0.2, 0.8], 0.95))
    assert (black["images"], black["most"]) == (2, 0.8)


def test_noise_of_controls_is_about_those_that_no_editor_makes(protocol: Protocol) -> None:
    rows = [control("w1", "re_encode", lightness_change=-0.4), control("b1", "re_encode", lightness_change=0.2)]
    rows += [control("w1", "no_op", editor="e", lightness_change=9.0)]
    noise = findings(frame(rows, SKIN), protocol).noise
    assert noise is not None
    assert set(noise["control"].drop_nulls()) == {"re_encode"}
    found = row(noise, control="re_encode", group=None)
    assert (found["images"], found["median"], found["most"]) == (2, pytest.approx(0.3), 0.4)


# Coverage


def coverage(protocol: Protocol, white: tuple[int, int], black: tuple[int, int]) -> pl.DataFrame:
    """read and missed edits of two groups, spread over ten persons each."""
    rows = []
    for letter, (read, lost) in (("w", white), ("b", black)):
        rows += [edit(f"{letter}{n % 10}", lightness_change=0.0) for n in range(read)]
        rows += [missed(f"{letter}{n % 10}", "profile") for n in range(lost)]
    return findings(frame(rows, SKIN), protocol).coverage


def test_a_group_read_clearly_less_often_raises_a_warning(protocol: Protocol) -> None:
    found = coverage(protocol, white=(100, 0), black=(88, 12))
    black, white = (row(found, dimension="race", group=group) for group in ("black", "white"))
    assert (black["asked"], black["read"], black["rate"], black["best"]) == (100, 88, 0.88, 1.0)
    assert black["behind"] == pytest.approx(0.12)
    assert (black["warns"], white["warns"]) == (True, False)
    per_person = clustered_share([8, 8, *[9] * 8], [10] * 10)
    assert (black["low"], black["high"]) == (pytest.approx(per_person.low), pytest.approx(per_person.high))
    assert not row(found, dimension=None)["warns"]


def test_exactly_the_allowed_distance_raises_none(protocol: Protocol) -> None:
    assert instruments(protocol).coverage.warn_points == 10
    assert not coverage(protocol, white=(100, 0), black=(90, 10))["warns"].any()


def test_what_is_still_to_be_measured_is_not_missed(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=1.0), edit("b1", lightness_change=1.0), missed("b2", "pending")]
    found = findings(frame(rows, SKIN), protocol)
    assert row(found.coverage, dimension="race", group="black")["asked"] == 1
    assert row(found.statuses, group="black", status="pending")["edits"] == 1
    assert found.counts == Counts(edits=3, measured=2, controls=0, controls_measured=0)


def test_statuses_count_every_reason_by_group(protocol: Protocol) -> None:
    reasons = ("no_face", "no_face", "profile", "greyscale", "too_small")
    rows = [missed("b1", reason) for reason in reasons] + [edit("w1", lightness_change=0.0)]
    found = findings(frame(rows, SKIN, CHANGE), protocol).statuses
    assert row(found, measure="skin_tone_shift", group="black", status="no_face")["edits"] == 2
    assert row(found, measure="change", group="black", status="ok")["edits"] == 5
    assert found.filter(measure="skin_tone_shift")["edits"].sum() == len(rows)


# Identity


def test_similarity_is_centred_on_the_groups_own_re_encodes(protocol: Protocol) -> None:
    rows = [
        edit("w1", similarity=0.9, similarity_reencoded=0.99),
        edit("w2", similarity=0.7, similarity_reencoded=0.97),
    ]
    rows += [
        edit("b1", similarity=0.8, similarity_reencoded=0.90),
        edit("b2", similarity=0.7, similarity_reencoded=0.88),
    ]
    rows += [edit("b2", editor="other", similarity=0.5, similarity_reencoded=0.88)]
    rows += [
        edit(f"w{n}", similarity=0.8 + (0.01 if n % 2 else -0.01), similarity_reencoded=0.98) for n in range(3, 9)
    ]
    found = findings(frame(rows, IDENTITY), protocol).identity
    white = row(found, editor="e", dimension="race", group="white")
    assert white["reencoded"] == pytest.approx(0.98)
    assert white["centred"] == pytest.approx(0.8 - 0.98)
    assert white["centred_low"] == pytest.approx(white["low"] - 0.98)
    black = row(found, editor="other", dimension="race", group="black")
    assert black["centred"] == pytest.approx(0.5 - 0.89)
    assert black["centred_low"] is None


# Nothing changed, and the judges beside


def test_no_change_is_a_share_of_what_could_be_compared(protocol: Protocol) -> None:
    measured = frame([edit(p, lpips=0.1) for p in ("w1", "w1", "w2", "w2", "b1", "b1")], CHANGE)
    said = pl.DataFrame({"trial": [f"t{n}" for n in range(5)], "no_change": [True, False, True, True, None]})
    found = findings(measured, protocol, no_change=said)
    whole = row(found.no_change, editor="e", dimension=None)
    expected = clustered_share([1, 2, 0], [2, 2, 0])
    assert (whole["asked"], whole["read"], whole["hits"], whole["persons"]) == (6, 4, 3, 2)
    assert (whole["rate"], whole["low"], whole["high"]) == (expected.rate, expected.low, expected.high)
    unknown = row(found.no_change, dimension="race", group="black")
    assert (unknown["read"], unknown["rate"]) == (0, None)


def scores(axis: str, *given: int | None) -> pl.DataFrame:
    rows = [(f"t{n}", axis, score) for n, score in enumerate(given)]
    return pl.DataFrame(rows, schema=SCORES, orient="row")


def test_instrument_and_judges_are_compared_where_both_scored(protocol: Protocol) -> None:
    axis = instruments(protocol).skin_tone.axis
    found = findings(
        frame([edit("w1")], SKIN),
        protocol,
        instrument_scores=scores(axis, 3, 4, 5, 1, None),
        ensemble_scores=scores(axis, 3, 3, 3, None, 3),
    ).beside
    one = row(found, axis=axis)
    assert (one["pairs"], one["exact"], one["within_one"]) == (3, pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert one["difference"] == pytest.approx(1.0), "instrument minus judges"


def test_unchanged_and_erased_are_crossed(protocol: Protocol) -> None:
    measured = frame([edit("w1", lpips=0.0) for _ in range(5)] + [edit("w1", editor="other", lpips=0.0)], CHANGE)
    said = pl.DataFrame(
        {"trial": [f"t{n}" for n in range(6)], "no_change": [True, True, False, False, None, False]}
    )
    judged = scores(instruments(protocol).no_change.axis, 1, 5, 2, 4, 1, None)
    found = findings(measured, protocol, no_change=said, ensemble_scores=judged).crossed
    one = row(found, editor="e")
    assert (one["pairs"], one["unchanged"], one["erased"], one["both"]) == (4, 2, 2, 1)
    assert row(found, editor=None) == {**one, "editor": None}, "what nobody scored is in no count"


# The planted check


def test_what_was_planted_is_read_back(protocol: Protocol) -> None:
    planted, read = np.array([0.0, 3.0, 6.0, 12.0]), np.array([0.1, 2.8, 5.6, 11.3])
    measured = frame([edit(f"w{n}", lightness_change=x) for n, x in enumerate(read)] + [missed("w9")], SKIN)
    given = pl.DataFrame({"trial": [f"t{n}" for n in range(5)], "delta_l": [*planted, 4.0]})
    one = row(findings(measured, protocol, planted=given).planted, editor="e")
    assert one["edits"] == 4
    assert one["slope"] == pytest.approx(np.polyfit(planted, read, 1)[0])
    assert one["error"] == pytest.approx((read - planted).mean())
    assert one["error_sd"] == pytest.approx((read - planted).std(ddof=1))


def test_nothing_planted_has_no_slope(protocol: Protocol) -> None:
    given = pl.DataFrame({"trial": ["t0"], "delta_l": [0.0]})
    one = row(
        findings(frame([edit("w1", lightness_change=0.2)], SKIN), protocol, planted=given).planted, editor="e"
    )
    assert (one["slope"], one["error_sd"], one["error"]) == (None, None, 0.2)


# Audits that measure little or nothing


@pytest.mark.parametrize("measures", [(), (SKIN,), (CHANGE,), (IDENTITY,), (AGE,), (SKIN, CHANGE, IDENTITY, AGE)])
def test_an_audit_without_edits_has_tables_without_rows(protocol: Protocol, measures: tuple[Any, ...]) -> None:
    found = findings(frame([], *measures), protocol)
    tables = [value for value in vars(found).values() if isinstance(value, pl.DataFrame)]
    assert tables and all(table.is_empty() for table in tables)
    assert found.counts == Counts(0, 0, 0, 0)


def test_a_measure_that_the_audit_does_not_take_has_no_table(protocol: Protocol) -> None:
    only = findings(frame([edit("w1", similarity=0.9)], IDENTITY), protocol)
    assert only.kinds == ("identity",)
    assert only.identity is not None
    for other in (
        only.shifts,
        only.controls,
        only.noise,
        only.no_change,
        only.thresholds,
        only.attributes,
        only.planted,
    ):
        assert other is None


def test_a_person_without_a_label_is_in_no_group(protocol: Protocol) -> None:
    rows = [edit("w1", lightness_change=1.0), edit("x1", lightness_change=3.0)]
    shifts = findings(frame(rows, SKIN), protocol).shifts
    assert shifts is not None
    assert row(shifts, dimension=None)["mean"] == 2.0
    assert shifts.filter(dimension="race")["group"].to_list() == ["white"]


def test_a_protocol_without_measures_says_so(protocol: Protocol) -> None:
    bare = dataclasses.replace(protocol, measures=None)
    with pytest.raises(ValueError, match=r"has no measures\.yaml"):
        findings(frame([], SKIN), bare)


def test_the_order_of_edits_does_not_matter(protocol: Protocol) -> None:
    chance = np.random.default_rng(4)
    rows = [
        edit(f"{g}{n % 5}", lightness_change=float(chance.normal()), similarity=0.9)
        for n in range(40)
        for g in "wb"
    ]
    made = frame(rows, SKIN, IDENTITY)
    one, other = (
        findings(part, protocol).shifts for part in (made, made.sample(fraction=1.0, shuffle=True, seed=1))
    )
    assert one is not None and other is not None
    keys = ["editor", "dimension", "group"]
    left, right = (part.sort(keys).select(*keys, pl.col("mean", "low").round(9)) for part in (one, other))
    assert left.equals(right)


# Tones


def test_tones_are_counted_over_the_pictures_that_were_tried(protocol: Protocol) -> None:
    monk = {"monk_before": pl.Int64, "monk_after": pl.Int64}
    rows = [
        edit("w1", monk_before=3, monk_after=2),
        edit("w1", monk_before=3, monk_after=2),
        edit("w2", monk_before=5, monk_after=5),
        missed("w3"),
        edit("w4", skin_tone_shift_status="pending"),
    ]
    found = findings(frame(rows, SKIN, monk), protocol).tones
    assert found is not None and found.rows() == [("e", 3, 2, 2, 1), ("e", 5, 5, 1, 1), ("e", None, None, 1, 1)]
    untold = findings(frame(rows, monk), protocol).tones
    assert untold is not None and untold.row(-1) == ("e", None, None, 2, 2), "what was not tried is not known here"
    assert findings(frame(rows, SKIN), protocol).tones is None
