from __future__ import annotations

import polars as pl
import pytest

from stillme.judges import instrument
from stillme.protocol import Protocol
from stillme.protocol.schema import Instruments

Row = dict[str, object]
SCHEMA = dict.fromkeys(
    ("trial", "experiment", "editor", "prompt", "change_status", "change_detail", "skin_tone_shift_status",
     "skin_tone_shift_detail"), pl.String,
) | dict.fromkeys(("lpips", "changed_share", "lightness_change"), pl.Float64)  # fmt: skip


@pytest.fixture(scope="module")
def rules(protocol: Protocol) -> Instruments:
    assert protocol.measures is not None
    return protocol.measures


def trial(name: str, editor: str = "e", prompt: str = "O-01", **figures: object) -> Row:
    read = {
        f"{kind}_{what}": value
        for kind in ("change", "skin_tone_shift")
        for what, value in (("status", "ok"), ("detail", ""))
    }
    plain = {"lpips": 0.3, "changed_share": 0.5, "lightness_change": 0.0}
    return {
        "trial": name,
        "experiment": "diagnose",
        "editor": editor,
        "prompt": prompt,
        **read,
        **plain,
        **figures,
    }


def no_ops(number: int, editor: str = "e", lpips: float = 0.05, changed_share: float = 0.1) -> list[Row]:
    """An editor's trials that ask for nothing; their figures rise to those given."""
    return [
        trial(f"{editor} no-op {n}", editor, "no_op", lpips=lpips * n / number, changed_share=changed_share * n / number)
        for n in range(1, number + 1)
    ]  # fmt: skip


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def scores(rows: list[Row], protocol: Protocol, *without: str) -> dict[tuple[str, str], int | None]:
    found = instrument.scores(frame(rows).drop(without), protocol)
    return {(trial, axis): score for trial, axis, score in found.select("trial", "axis", "score").iter_rows()}


@pytest.mark.parametrize(
    ("shift", "score"),
    [
        (-30.0, 1), (-10.1, 1), (-10.0, 2), (-3.1, 2), (-3.0, 3), (0.0, 3), (3.0, 3), (3.1, 4), (10.0, 4), (10.1, 5), (30.0, 5),
        (None, None),
    ],
)  # fmt: skip
def test_a_shift_on_a_cut_point_falls_on_the_side_nearer_neutral(
    protocol: Protocol, shift: float | None, score: int | None
) -> None:
    assert scores([trial("t", lightness_change=shift)], protocol)["t", "skin_tone"] == score


def test_nothing_changed_only_below_both_thresholds(protocol: Protocol, rules: Instruments) -> None:
    rows = [
        trial("same", lpips=0.019, changed_share=0.019),
        trial("equal", lpips=0.02, changed_share=0.0),
        trial("looks", lpips=0.019, changed_share=0.5),
        trial("pixels", lpips=0.5, changed_share=0.0),
    ]
    found = scores(rows, protocol)
    assert [found[name, "edit_success"] for name in ("same", "equal", "looks", "pixels")] == [1, None, None, None]
    told = instrument.no_change(frame(rows), rules)
    assert told.rows() == [("same", True), ("equal", False), ("looks", False), ("pixels", False)]
    said = instrument.scores(frame(rows), protocol).filter(pl.col("axis") == "edit_success")
    assert set(said["status"]) == {"ok"}
    assert said["detail"][0] == "" and "how well the edit was made, pixels do not say" in said["detail"][1]


def test_what_was_not_read_has_a_status_and_no_score(protocol: Protocol, rules: Instruments) -> None:
    lost: Row = dict.fromkeys(("lpips", "changed_share", "lightness_change"))
    statuses = {
        "change_status": "corrupt",
        "skin_tone_shift_status": "no_face",
        "skin_tone_shift_detail": "none seen",
    }
    found = instrument.scores(frame([{**trial("t"), **lost, **statuses}]), protocol)
    assert found.rows() == [
        ("t", "edit_success", None, "corrupt", ""),
        ("t", "skin_tone", None, "no_face", "none seen"),
    ]
    assert instrument.no_change(frame([{**trial("t"), **lost, **statuses}]), rules)["no_change"].to_list() == [
        None
    ]


def test_too_few_controls_leave_the_protocols_thresholds(rules: Instruments) -> None:
    found = instrument.thresholds(frame([trial("t"), *no_ops(19)]), rules)
    assert found.rows() == [("e", 19, 0.02, 0.02, False, True)]
    assert found.columns == ["editor", "trials", "lpips", "changed_share", "calibrated", "usable"]


def test_an_editors_own_controls_raise_its_thresholds_and_nobody_elses(
    protocol: Protocol, rules: Instruments
) -> None:
    rows = [
        trial("t", lpips=0.03, changed_share=0.05),
        trial("u", "f", lpips=0.03, changed_share=0.05),
        *no_ops(21),
    ]
    found = {row["editor"]: row for row in instrument.thresholds(frame(rows), rules).to_dicts()}
    assert found["e"]["lpips"] == pytest.approx(0.05 * 19 / 21) and found["e"]["calibrated"]
    assert found["e"]["changed_share"] == pytest.approx(0.1 * 19 / 21)
    assert found["f"] == {
        "editor": "f", "trials": 0, "lpips": 0.02, "changed_share": 0.02, "calibrated": False, "usable": True
    }  # fmt: skip
    told = scores(rows, protocol)
    assert told["t", "edit_success"] == 1 and told["u", "edit_success"] is None


def test_faithful_controls_do_not_lower_the_thresholds(rules: Instruments) -> None:
    found = instrument.thresholds(frame([trial("t"), *no_ops(30, lpips=0.001, changed_share=0.001)]), rules)
    assert found.rows() == [("e", 30, 0.02, 0.02, True, True)]


@pytest.mark.parametrize("wild", [(0.9, 0.1), (0.05, 0.9)])
def test_an_editor_that_changes_much_when_asked_nothing_has_no_threshold(
    protocol: Protocol, rules: Instruments, wild: tuple[float, float]
) -> None:
    rows = [trial("t", lpips=0.0, changed_share=0.0), *no_ops(30, "e", *wild)]
    row = instrument.thresholds(frame(rows), rules).to_dicts()[0]
    assert row["calibrated"] and not row["usable"]
    assert instrument.no_change(frame(rows), rules)["no_change"][0] is None
    found = instrument.scores(frame(rows), protocol).filter(pl.col("axis") == "edit_success")
    assert found["score"].to_list() == [None] and "cannot be told" in found["detail"][0]


def test_unread_controls_do_not_count(rules: Instruments) -> None:
    unread = [{**row, "change_status": "corrupt", "lpips": None, "changed_share": None} for row in no_ops(20)]
    assert instrument.thresholds(frame([trial("t"), *unread]), rules)["trials"].to_list() == [0]


def test_controls_calibrate_and_are_not_scored(protocol: Protocol) -> None:
    rows = [trial("t"), *no_ops(3), trial("r", "re_encode", "re_encode")]
    assert {name for name, _ in scores(rows, protocol)} == {"t"}
    assert protocol.measures is not None
    assert instrument.thresholds(frame(rows), protocol.measures)["editor"].to_list() == ["e"]
    assert instrument.no_change(frame(rows), protocol.measures)["no_change"][-1] is None


def test_axes_without_a_measure_have_no_rows(protocol: Protocol, rules: Instruments) -> None:
    change = ("change_status", "change_detail", "lpips", "changed_share")
    skin = ("skin_tone_shift_status", "skin_tone_shift_detail", "lightness_change")
    assert [axis for _, axis in scores([trial("t")], protocol, *change)] == ["skin_tone"]
    assert [axis for _, axis in scores([trial("t")], protocol, *skin)] == ["edit_success"]
    assert scores([trial("t")], protocol, *change, *skin) == {}
    bare = frame([trial("t")]).drop(change)
    assert instrument.no_change(bare, rules).rows() == [("t", None)]
    assert instrument.thresholds(bare, rules)["trials"].to_list() == [0]


def test_apparent_age_is_read_where_it_is_measured(protocol: Protocol) -> None:
    aged = frame([trial("t", prompt="V-03")]).with_columns(
        apparent_age_status=pl.lit("ok"), apparent_age_detail=pl.lit(""), age_shift=pl.lit(5.1)
    )
    found = instrument.scores(aged, protocol)
    assert found["axis"].to_list() == ["edit_success", "skin_tone", "age_drift"]
    assert found["score"].to_list() == [None, 3, 4]


def test_the_order_is_the_plans_and_the_rubrics(protocol: Protocol) -> None:
    found = instrument.scores(frame([trial("b"), trial("a"), *no_ops(2), trial("c")]), protocol)
    assert found["trial"].to_list() == ["b", "b", "a", "a", "c", "c"]
    assert found.columns == ["trial", "axis", "score", "status", "detail"]
    assert found["score"].dtype == pl.Int64
    assert instrument.scores(frame([]), protocol).height == 0
