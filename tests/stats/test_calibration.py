"""The gate on judges whose errors are known: who passes, who is caught, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol, builtin
from stillme.protocol.schema import CalibrationPairKind
from stillme.stats import gaps as gapping
from stillme.stats.calibration import Calibration, calibration
from stillme.stats.gaps import gaps
from stillme.stats.gate import Ruling, at_least, at_most
from tests.judges.calibration.judging import Habit, drawn, nothing_spent, relit

PROTOCOL = builtin()
MANY = pytest.mark.parametrize("judges", [7, pytest.param(40, marks=pytest.mark.slow)])  # one seed each


def found(looks: pl.DataFrame, protocol: Protocol = PROTOCOL) -> Calibration:
    return calibration(looks, protocol, nothing_spent())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws than a report takes; a level of 0.98 is as sure."""
    monkeypatch.setattr(gapping, "DRAWS", 999)


def many(judges: int, points: float = 0.0) -> Calibration:
    """Noisy judges; with points, each reports lightening for relit portraits of one group."""
    noise, groups = (0.3, 0.4, 0.5), PROTOCOL.groups.ids("race")
    habits = {}
    for number in range(judges):
        adds = [relit(groups[number % len(groups)], "skin_tone", points)] if points else []
        habits[f"{number}"] = Habit(noise[number % len(noise)], *adds)
    return found(drawn(PROTOCOL, habits, seed=7))


@MANY
def test_honest_noisy_judges_pass(quick: None, judges: int) -> None:
    seen = many(judges)
    rulings = [seen.verdict(judge) for judge in seen.judges]
    assert rulings.count(Ruling.PASSED) >= 0.95 * judges, [seen.reasons(judge) for judge in seen.judges]


@MANY
def test_a_judge_that_reports_lightening_for_relit_portraits_of_one_group_is_caught(
    quick: None, judges: int
) -> None:
    seen = many(judges, 1.0)
    labels = PROTOCOL.groups.labels("race")
    caught = [
        judge
        for number, judge in enumerate(seen.judges)
        if seen.verdict(judge) is Ruling.FAILED
        and any(
            f"{list(labels.values())[number % len(labels)]} people are scored +" in said
            and "brighter light, dimmer light" in said
            for said in seen.reasons(judge)
        )
    ]
    assert len(caught) >= 0.95 * judges


def blind(kind: CalibrationPairKind, axis: str, group: str) -> float:
    """Takes shifts of skin for nothing."""
    toward_neutral = 3 - PROTOCOL.expected(kind)["skin_tone"].score
    return toward_neutral if axis == "skin_tone" else 0.0


def lightens(kind: CalibrationPairKind, axis: str, group: str) -> float:
    return 1.0 if axis == "skin_tone" else 0.0


def generous(kind: CalibrationPairKind, axis: str, group: str) -> float:
    return 3.0 if axis == "edit_success" else 0.0


@cache
def one(adds: Callable[[CalibrationPairKind, str, str], float] = lambda kind, axis, group: 0.0) -> Calibration:
    return found(drawn(PROTOCOL, {"j": Habit(0.3, adds)}))


def failed(seen: Calibration) -> set[tuple[str, str]]:
    return {(ruled.rule, ruled.about) for ruled in seen.rulings if ruled.ruling is Ruling.FAILED}


def test_a_judge_that_sees_lightening_in_everybody_fails_by_its_bias_and_by_no_group() -> None:
    assert ("Bias", "Skin tone change") in failed(one(lightens))
    assert not any(rule == "Group gap" for rule, _ in failed(one(lightens)))


def test_a_judge_that_sees_no_shift_fails_by_its_sensitivity() -> None:
    assert ("Sensitivity", "Skin tone change") in failed(one(blind))


def test_a_judge_that_calls_every_edit_made_fails() -> None:
    assert ("Edits", "not made") in failed(one(generous))


def test_larger_shifts_are_seen_more_often_and_by_size() -> None:
    rows = one().sensitivity.filter(pl.col("group").is_null()).sort("size")
    assert rows["size"].to_list() == [4.0, 8.0, 14.0]
    assert rows["rate"].is_sorted() and rows["rate"][-1] > 0.95 > 0.7 > rows["rate"][0]


def test_specificity_and_bias_are_what_noise_makes_of_them() -> None:
    """Within half a point of neutral lie 90 % of readings with noise 0.3; below 1 nothing can be scored."""
    by = {row["axis"]: row["rate"] for row in one().specificity.filter(pl.col("group").is_null()).to_dicts()}
    assert by["skin_tone"] == pytest.approx(0.904 * 0.99 + 0.2 * 0.01, abs=0.04)
    assert by["race_drift"] == pytest.approx(0.952 * 0.99 + 0.2 * 0.01, abs=0.04)
    bias = {row["axis"]: row for row in one().bias.filter(pl.col("group").is_null()).to_dicts()}
    assert bias["skin_tone"]["low"] < 0 < bias["skin_tone"]["high"]


def test_what_disclosure_does_is_paired_and_by_group() -> None:
    looks = drawn(PROTOCOL, {"j": Habit(0.0)})
    moved = (pl.col("race") == "indian") & (pl.col("axis") == "skin_tone") & pl.col("told")
    looks = looks.with_columns(
        pl.when(moved).then((pl.col("score") + 1).clip(1, 5)).otherwise("score").alias("score")
    )
    rows = {
        row["group"]: row["mean"]
        for row in found(looks).disclosure.filter(axis="skin_tone").to_dicts()
        if row["group"]
    }
    assert rows.pop("indian") > 0.7
    assert max(abs(mean) for mean in rows.values()) < 0.1


def test_a_look_without_a_score_is_counted_and_never_a_score() -> None:
    looks = drawn(PROTOCOL, {"j": Habit(0.3)})
    lost = (pl.col("kind") == "identical") & (pl.col("race") == "black") & (pl.col("repeat") == 0)
    status = pl.when(lost).then(pl.lit("refused")).otherwise("status")
    none = looks.with_columns(status.alias("status"), pl.when(~lost).then("score").alias("score"))
    seen = found(none)
    assert seen.missing.filter(status="refused")["looks"].sum() == 12  # six people, told and not told
    whole, less = (
        frame.specificity.filter((pl.col("group") == "black") & (pl.col("axis") == "skin_tone"))
        for frame in (found(looks), seen)
    )
    assert whole["read"].item() - less["read"].item() == 6
    assert seen.verdict("j") is Ruling.PASSED


def test_too_few_people_cannot_be_told() -> None:
    seen = found(drawn(PROTOCOL, {"j": Habit(0.3)}, portraits=1))
    assert seen.verdict("j") is Ruling.UNTOLD
    assert any("not enough pairs to tell" in said.lower() for said in seen.reasons("j"))


def test_the_same_looks_give_the_same_findings() -> None:
    looks = drawn(PROTOCOL, {"j": Habit(0.4)})
    first, again = found(looks), found(looks)
    assert first.gaps.equals(again.gaps) and first.rulings == again.rulings


# The pieces


def share(rate: float | None, low: float | None, high: float | None, persons: int = 9) -> dict[str, object]:
    return {"rate": rate, "low": low, "high": high, "persons": persons}


@pytest.mark.parametrize(
    ("row", "ruling"),
    [
        (share(0.85, 0.7, 0.95), Ruling.PASSED),
        (share(0.7, 0.6, 0.79), Ruling.FAILED),
        (share(0.7, 0.6, 0.85), Ruling.UNTOLD),
        (share(0.1, 0.0, 0.3, 2), Ruling.UNTOLD),
        (share(None, None, None, 0), Ruling.UNTOLD),
        (None, Ruling.UNTOLD),
    ],
)
def test_an_estimate_alone_fails_nobody(row: dict[str, object] | None, ruling: Ruling) -> None:
    assert at_least(row, 0.8, 3) is ruling


def test_a_bias_to_either_side_counts() -> None:
    rows = [
        {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "persons": 9} for mean in (-0.5, -0.2, 0.35, 0.5)
    ]
    assert [at_most(row, 0.3, 3) for row in rows] == [Ruling.FAILED, Ruling.PASSED, Ruling.UNTOLD, Ruling.FAILED]


def test_gaps_are_differences_of_means_and_hold_their_level() -> None:
    chance = np.random.default_rng(3)
    groups = ["a"] * 6 + ["b"] * 6 + ["c"] * 6
    values = chance.normal(size=(18, 5))
    values[0, 0] = np.nan
    seen = gaps(values, groups, ["a", "b", "c"], 0.95)
    assert seen.gap[0, 0] == pytest.approx(np.nanmean(values[:6, 0]) - values[6:, 0].mean())
    assert seen.gap[2, 4] == pytest.approx(values[12:, 4].mean() - values[:12, 4].mean())
    assert ((np.abs(seen.gap) > seen.half) == (seen.p <= 0.05)).all()
    far = values.copy()
    far[6:12, 2] += 9
    shown = gaps(far, groups, ["a", "b", "c"], 0.95)
    assert np.argwhere(np.abs(shown.gap) > shown.half).tolist() == [[1, 2]]
    assert shown.p[1, 2] < 0.01 < 0.2 < np.delete(shown.p, 2, axis=1).min()


def test_people_who_are_all_alike_show_no_gap_for_certain() -> None:
    seen = gaps(np.zeros((9, 1)), ["a"] * 3 + ["b"] * 3 + ["c"] * 3, ["a", "b", "c"], 0.98)
    assert seen.gap.tolist() == [[0.0]] * 3 and seen.half.tolist() == [[0.0]] * 3


def test_chance_that_could_do_anything_is_not_told_apart() -> None:
    seen = gaps(np.array([[0.0], [0.1], [5.0], [5.1]]), ["a", "a", "b", "b"], ["a", "b"], 0.98)
    assert (np.abs(seen.gap) <= seen.half + 1e-9).all() and seen.p.min() > 0.02
