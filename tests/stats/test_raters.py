"""Careless raters are found by their own rule, honest ones are kept, and nobody goes without a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats.raters import (
    FLAGGED,
    KEPT,
    REMOVED,
    REMOVES,
    Quality,
    Rule,
    quality,
    quick_answers,
    with_and_without,
)

AXES = ("success", "skin", "race", "gender", "age")
NEUTRAL = (5, 3, 1, 1, 3)
OUTPUTS = 50
Answers = np.ndarray  # outputs × axes; 0 is skipped, -1 cannot be determined


def honest(seed: int, noise: float = 0.9) -> Answers:
    """The same outputs for everybody, each seen with some noise; most show no change."""
    truth = np.random.default_rng(7).random((OUTPUTS, len(AXES)))
    change = np.where(truth > 0.6, np.random.default_rng(8).integers(1, 4, truth.shape), 0)
    seen = np.rint(change + np.random.default_rng(seed).normal(0, noise, truth.shape)).astype(int)
    direction = np.array([-1, 1, 1, 1, -1])
    return np.asarray(np.clip(np.array(NEUTRAL) + direction * seen, 1, 5))


def careless(seed: int) -> Answers:
    return np.random.default_rng(seed).integers(1, 6, (OUTPUTS, len(AXES)))


def rated(rater: str, answers: Answers, seconds: float | None = 7.0) -> pl.DataFrame:
    flat = answers.ravel().tolist()
    spread = np.random.default_rng(len(rater)).uniform(0.8, 1.25, len(flat))
    return pl.DataFrame(
        {
            "rater": rater,
            "trial": np.repeat([f"t{i}" for i in range(len(answers))], len(AXES)),
            "axis": AXES * len(answers),
            "score": [score if score > 0 else None for score in flat],
            "answer": ["skipped" if s == 0 else "cannot_determine" if s < 0 else "scored" for s in flat],
            "seconds": [None if seconds is None else seconds * by for by in spread],
        },
        schema_overrides={"score": pl.Int64, "seconds": pl.Float64},
    )


def checked(**passed: list[bool]) -> pl.DataFrame:
    rows = [
        (rater, str(place), is_passed) for rater, all_ in passed.items() for place, is_passed in enumerate(all_)
    ]
    return pl.DataFrame(rows, schema={"rater": pl.String, "check": pl.String, "passed": pl.Boolean}, orient="row")


@pytest.fixture(scope="module")
def judge(protocol: Protocol) -> Callable[..., Quality]:
    """Five honest raters, and whoever else is given."""
    good = [rated(f"honest-{seed}", honest(seed)) for seed in range(5)]

    def found(*others: pl.DataFrame, checks: pl.DataFrame | None = None, **options: object) -> Quality:
        everyone = pl.concat([*good, *others])
        return quality(everyone, checked() if checks is None else checks, protocol.study_rules, **options)  # type: ignore[arg-type]

    return found


def verdict(found: Quality, rater: str) -> tuple[str, str]:
    (row,) = found.verdicts.filter(pl.col("rater") == rater).select("verdict", "reasons").rows()
    return row


def value(found: Quality, rater: str, rule: Rule) -> float | None:
    (figure,) = found.rules.filter((pl.col("rater") == rater) & (pl.col("rule") == rule.value))["value"].to_list()
    return figure if figure is None else float(figure)


def flags(found: Quality, rater: str) -> set[str]:
    return set(found.rules.filter((pl.col("rater") == rater) & pl.col("flagged"))["rule"])


def test_honest_raters_are_kept(judge: Callable[..., Quality]) -> None:
    found = judge()
    assert set(found.verdicts["verdict"]) == {KEPT} and set(found.verdicts["reasons"]) == {""}
    assert found.removed == []
    assert found.rules.height == 5 * len(Rule)


def test_somebody_who_sees_no_change_is_kept(judge: Callable[..., Quality]) -> None:
    """The same score on one axis for 50 outputs is an honest answer: the answers of all axes are pooled."""
    found = judge(rated("calm", np.tile(NEUTRAL, (OUTPUTS, 1))))
    assert verdict(found, "calm") == (KEPT, "")
    assert value(found, "calm", Rule.STRAIGHT) == 0.4


def test_a_straight_liner_is_flagged_for_a_person_and_removed_only_on_demand(
    judge: Callable[..., Quality],
) -> None:
    straight = rated("straight", np.full((OUTPUTS, len(AXES)), 3))
    word, reasons = verdict(judge(straight), "straight")
    assert (
        word == FLAGGED
        and "100% of all answers are the same" in reasons
        and "250 same answers in a row" in reasons
    )
    word, _ = verdict(judge(straight, removes=REMOVES | {Rule.STRAIGHT}), "straight")
    assert word == REMOVED


def test_exactly_the_share_of_the_rule_is_no_straight_line(judge: Callable[..., Quality]) -> None:
    answers = np.array([[5, 5, 5, 5, 1]] * OUTPUTS)
    found = judge(rated("edge", answers))
    assert value(found, "edge", Rule.STRAIGHT) == 0.8
    assert Rule.STRAIGHT not in flags(found, "edge")


def test_a_run_across_two_whole_outputs_is_a_long_string(judge: Callable[..., Quality]) -> None:
    answers = honest(21)
    answers[10:12] = 2
    answers[9], answers[12] = NEUTRAL, NEUTRAL
    assert Rule.LONGSTRING in flags(judge(rated("bored", answers)), "bored")
    answers[11, 4] = 4
    found = judge(rated("bored", answers))
    assert value(found, "bored", Rule.LONGSTRING) == 9 and Rule.LONGSTRING not in flags(found, "bored")


@pytest.mark.parametrize("seed", range(30, 40))
def test_random_answers_do_not_go_with_the_others(judge: Callable[..., Quality], seed: int) -> None:
    found = judge(rated("random", careless(seed)))
    word, reasons = verdict(found, "random")
    assert word == FLAGGED and "go with the other raters'" in reasons
    assert all(verdict(found, f"honest-{i}")[0] == KEPT for i in range(5))


def test_axes_that_everybody_scores_high_make_nobody_agree(judge: Callable[..., Quality]) -> None:
    """Right about which axes change and blind to the pictures: uncentred the correlation would be above 0.5."""
    blind = np.clip(np.array(NEUTRAL) + np.random.default_rng(3).integers(-1, 2, (OUTPUTS, len(AXES))), 1, 5)
    found = judge(rated("blind", blind))
    assert abs(value(found, "blind", Rule.UNRELATED) or 1) < 0.15


def test_speeders_are_removed_by_seconds_and_by_the_sample(judge: Callable[..., Quality]) -> None:
    found = judge(
        rated("fast", honest(11), 2.5), rated("quicker", honest(12), 3.3), rated("brisk", honest(13), 4.5)
    )
    assert flags(found, "fast") == {Rule.FAST, Rule.FASTER_THAN_OTHERS}
    assert flags(found, "quicker") == {Rule.FASTER_THAN_OTHERS}
    assert verdict(found, "brisk")[0] == KEPT
    assert set(found.removed) == {"fast", "quicker"}
    assert "below 3 s" in verdict(found, "fast")[1]


def test_answers_too_quick_to_be_read_are_flagged_one_by_one_and_raters_with_many(
    judge: Callable[..., Quality], protocol: Protocol
) -> None:
    hasty = rated("hasty", honest(14)).with_columns(
        pl.when(pl.int_range(pl.len()) < 30).then(1.0).otherwise("seconds").alias("seconds")
    )
    found = judge(hasty)
    assert verdict(found, "hasty")[0] == FLAGGED and flags(found, "hasty") == {Rule.QUICK}
    assert quick_answers(hasty, protocol.study_rules).height == 30


@pytest.mark.parametrize(
    ("passed", "asked", "word"), [(3, 3, KEPT), (2, 3, REMOVED), (3, 4, REMOVED), (4, 5, KEPT), (3, 5, REMOVED)]
)
def test_four_of_five_checks_are_enough_and_three_of_four_are_not(
    judge: Callable[..., Quality], passed: int, asked: int, word: str
) -> None:
    checks = checked(tested=[True] * passed + [False] * (asked - passed))
    assert verdict(judge(rated("tested", honest(15)), checks=checks), "tested")[0] == word


def test_skipped_questions_count_and_those_that_cannot_be_determined_do_not(judge: Callable[..., Quality]) -> None:
    skipping, unsure, nearly = honest(16), honest(17), honest(18)
    skipping[:6], unsure[:20], nearly[:5] = 0, -1, 0
    found = judge(rated("skipping", skipping), rated("unsure", unsure), rated("nearly", nearly))
    assert verdict(found, "skipping") == (REMOVED, "12% of questions skipped (more than 10%)")
    assert verdict(found, "unsure")[0] == KEPT
    assert verdict(found, "nearly")[0] == KEPT  # exactly a tenth


def test_what_cannot_be_told_is_null_and_flags_nobody(protocol: Protocol) -> None:
    """One rater alone, no times, no checks, no score at all."""
    found = quality(rated("alone", np.full((4, 5), -1), None), checked(), protocol.study_rules)
    told = dict(found.rules.select("rule", "value").rows())
    assert {rule for rule, figure in told.items() if figure is not None} == {Rule.INCOMPLETE}
    assert verdict(found, "alone") == (KEPT, "")


def test_a_rule_that_the_study_does_not_have_is_left_out(protocol: Protocol) -> None:
    rules = protocol.study_rules.model_copy(update={"exclude": {}})
    found = quality(rated("fast", honest(1), 0.5), checked(), rules)
    left = {Rule.FASTER_THAN_OTHERS, Rule.LONGSTRING, Rule.UNRELATED, Rule.ATTENTION}
    assert set(found.rules["rule"]) == {rule.value for rule in left}


def test_any_result_is_given_with_and_without_the_removed() -> None:
    ratings = pl.DataFrame({"rater": ["a", "a", "b"], "axis": ["x", "y", "x"], "score": [1, 2, 5]})
    found = with_and_without(
        ratings, ["b"], lambda part: part.group_by("axis").agg(pl.col("score").mean()).sort("axis")
    )
    assert found.rows() == [("all", "x", 3.0), ("all", "y", 2.0), ("kept", "x", 1.0), ("kept", "y", 2.0)]
    assert with_and_without(ratings, [], lambda part: part.select(pl.len()))["len"].to_list() == [3, 3]
