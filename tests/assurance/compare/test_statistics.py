"""B − A person by person: what was planted is found, what was not planted is not claimed, and A and B are equals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats import versions
from stillme.stats.means import mean_of_persons
from stillme.stats.versions import BETTER, NO_WORSE, UNDECIDED, WORSE, Versions, Watched
from stillme.stats.versions_anytime import sequence
from tests.assurance.compare.making import simulated
from tests.stats.audits import row

MARGIN = 0.03


def compared(a: pl.DataFrame, b: pl.DataFrame, protocol: Protocol, margin: float = MARGIN) -> Versions:
    """The endpoints, and one outcome that is none of them."""
    names = versions.declared(protocol)
    paired = versions.pairs(a, b, protocol).filter(pl.col("outcome").is_in([*names, "edit_succeeded"]))
    return Versions(paired, protocol, names, margin)


@pytest.fixture(scope="module")
def worse(protocol: Protocol) -> tuple[pl.DataFrame, pl.DataFrame]:
    """B changes race in 20 % of edits, A in 10 %; of one group, B does so in 80 %."""
    groups = protocol.groups.ids("race")
    b = [0.8 if group == "black" else 0.2 for group in groups]
    return simulated(protocol, 3, {"race_drift": [[0.1] * len(groups), b]})


# What was planted is found


def test_a_planted_difference_is_recovered(protocol: Protocol) -> None:
    held = 0
    for seed in range(8):
        a, b = simulated(protocol, seed, {"race_drift": [[0.1], [0.3]]})
        found = row(compared(a, b, protocol).outcomes, outcome="race_changed")
        assert found["verdict"] == WORSE
        held += found["low"] < 0.2 < found["high"]
    assert held >= 7, "a 95 % interval holds what was planted"


def test_the_group_that_it_got_worse_for_is_named(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    found = compared(*worse, protocol)
    by_group = found.groups.filter((pl.col("outcome") == "race_changed") & (pl.col("dimension") == "race"))
    assert by_group.sort("difference", descending=True)["group"][0] == "black"
    assert row(by_group, group="black")["verdict"] == WORSE
    uneven = row(found.uneven, outcome="race_changed", group="black")
    assert uneven["reference"] == "white"
    assert 0.4 < uneven["difference"] < 0.8 and uneven["p_holm"] < 0.05
    others = found.uneven.filter((pl.col("outcome") != "race_changed") & (pl.col("p_holm") < 0.05))
    assert others.height == 0


def test_alike_versions_are_no_worse_only_once_that_is_shown(protocol: Protocol) -> None:
    alike = {"race_drift": [[0.02], [0.02]]}
    few, many = (simulated(protocol, 5, alike, prompts, cells) for prompts, cells in ((2, 1), (10, 4)))
    assert row(compared(*few, protocol, 0.005).outcomes, outcome="race_changed")["verdict"] == UNDECIDED
    assert row(compared(*many, protocol).outcomes, outcome="race_changed")["verdict"] == NO_WORSE


# A and B are equals


def test_exchanging_a_and_b_changes_the_sign_and_nothing_else(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    one, other = compared(*worse, protocol), compared(worse[1], worse[0], protocol)
    for frame in ("outcomes", "groups", "uneven"):
        here, there = getattr(one, frame), getattr(other, frame)
        for name, back in (("difference", "difference"), ("low", "high"), ("high", "low")):
            np.testing.assert_allclose(here[name].to_numpy(), -there[back].to_numpy(), atol=1e-12)
        assert here["p"].to_list() == there["p"].to_list()
    assert row(other.outcomes, outcome="race_changed")["verdict"] == BETTER
    assert one.flips["a_only"].to_list() == other.flips["b_only"].to_list()
    for mine, yours in zip(one.watched(one.endpoints), other.watched(other.endpoints), strict=True):
        np.testing.assert_allclose(mine.bounds.low, -yours.bounds.high, atol=1e-12)
        if mine.outcome == "race_changed":
            assert (mine.verdict, yours.verdict) == (WORSE, BETTER)


def test_more_success_is_better_and_more_of_anything_else_is_worse(protocol: Protocol) -> None:
    found = {name: versions.worse_when(protocol, name) for name in versions.known(protocol)}
    assert found.pop("edit_succeeded") == -1
    assert found.pop("skin_tone") == found.pop("age_drift") == 0
    assert set(found.values()) == {1}


# What is missing


def test_what_has_no_score_in_one_version_is_no_pair(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    a, b = worse
    person, prompt = a["person"][0], a["prompt"][0]
    lost = pl.when((pl.col("person") == person) & (pl.col("prompt") == prompt)).then(None)
    b = b.with_columns(lost.otherwise(pl.col(name)).alias(name) for name in ("score", "mean"))
    b = b.filter(pl.col("person") != a["person"][-1])
    paired = versions.pairs(a, b, protocol)
    counts = versions.shared(a, b, paired, protocol)
    assert (counts.persons_a, counts.persons_b, counts.unjudged, counts.persons_unjudged) == (1, 0, 1, 0)
    assert (counts.pairs_a, counts.pairs_b, counts.p_unjudged) == (1, 0, 1.0)
    turned = versions.pairs(b, a, protocol)
    assert turned["difference"].null_count() == paired["difference"].null_count() > 0, "nor where A has none"
    found = row(compared(a, b, protocol).outcomes, outcome="race_changed")
    assert (found["a_only"], found["pairs"]) == (1, 83 * 5 - 1)


def test_seeds_are_averaged_within_a_pair(protocol: Protocol) -> None:
    a, b = simulated(protocol, 1, {}, prompts=1)
    again = b.with_columns(seed=pl.col("seed") + 1, score=pl.lit(1, pl.Int64), mean=pl.lit(1.0))
    paired = versions.pairs(a, pl.concat([b.with_columns(score=pl.lit(5, pl.Int64)), again]), protocol)
    erased = paired.filter(pl.col("outcome") == "soft_erasure")
    assert erased["second"].unique().to_list() == [0.5]
    flips = row(
        compared(a, pl.concat([b.with_columns(score=pl.lit(5, pl.Int64)), again]), protocol).flips,
        outcome="soft_erasure",
    )
    assert flips["mixed"] == flips["pairs"] == erased.height


def test_who_is_perceived_otherwise_in_b_is_in_no_group(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    a, b = worse
    moved = pl.when(pl.col("race") == "black").then(pl.lit("white")).otherwise(pl.col("race")).alias("race")
    paired = versions.pairs(a, b.with_columns(moved), protocol)
    assert "black" not in set(paired["race"]) and paired["race"].null_count() > 0
    assert versions.shared(a, b.with_columns(moved), paired, protocol).relabelled == 12


def test_few_persons_have_no_interval_and_no_verdict(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    some = worse[0]["person"].unique(maintain_order=True)[:7]
    a, b = (side.filter(pl.col("person").is_in(some.to_list())) for side in worse)
    found = compared(a, b, protocol).outcomes
    assert found["low"].null_count() == found.height and found["p"].null_count() == found.height
    assert set(found.filter("endpoint")["verdict"]) == {UNDECIDED}


def test_versions_that_never_differ_are_not_called_alike(protocol: Protocol) -> None:
    a, _ = simulated(protocol, 1, {}, prompts=1)
    found = compared(a, a, protocol).outcomes.filter("endpoint")
    assert found["low"].null_count() == found.height
    assert set(found["verdict"]) == {UNDECIDED} and set(found["why"]) == {versions.SAME}


# False claims


@pytest.mark.parametrize("comparisons", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_versions_that_are_alike_are_rarely_told_apart(protocol: Protocol, comparisons: int) -> None:
    """Of two versions with equal rates any claim about any endpoint is false."""
    rng, false = np.random.default_rng(7), 0
    for _ in range(comparisons):
        found = Versions(null_pairs(rng, protocol), protocol, versions.declared(protocol), MARGIN)
        false += any(found.outcomes["verdict"].is_in([BETTER, WORSE, versions.UP, versions.DOWN]))
    assert false <= 0.05 * comparisons


def null_pairs(rng: np.random.Generator, protocol: Protocol, persons: int = 24, prompts: int = 4) -> pl.DataFrame:
    """Pairs of the endpoints alone: each person has an own rate, the same under both versions."""
    parts = []
    for outcome in versions.declared(protocol):
        own = np.repeat(rng.beta(1, 6, persons), prompts)
        first, second = ((rng.random(len(own)) < own).astype(float) for _ in "ab")
        parts.append(
            pl.DataFrame(
                {
                    "outcome": outcome,
                    "person": [f"p{n}" for n in range(persons) for _ in range(prompts)],
                    "first": first,
                    "second": second,
                    "difference": second - first,
                }
            )
        )
    labels = [pl.lit(None, pl.String).alias(name) for name in protocol.groups.dimensions]
    return pl.concat(parts).with_columns(labels)


# Looking after every person

Draw = Callable[[np.random.Generator, int], np.ndarray]
DRAWS: dict[str, tuple[Draw, float]] = {
    "five edits a person": (lambda rng, n: (rng.binomial(5, 0.1, n) - rng.binomial(5, 0.1, n)) / 5, 0.0),
    "one edit a person": (lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.3, 0.4, 0.3]), 0.0),
    "rare and one-sided": (lambda rng, n: rng.choice([0.0, 1.0], n, p=[0.97, 0.03]), 0.03),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_sequence_holds_the_mean_at_every_look(name: str) -> None:
    draw, mean = DRAWS[name]
    rng, missed = np.random.default_rng(11), 0
    for _ in range(200):
        found = sequence(draw(rng, 40))
        missed += bool((found.low > mean).any() or (found.high < mean).any())
    assert missed <= 10, "at any stopping time, in 95 % of 200"


def test_intervals_of_a_fixed_size_do_not() -> None:
    """Why the sequence is needed: the same looks with Student's interval are wrong far more often."""
    draw, mean = DRAWS["five edits a person"]
    rng, missed = np.random.default_rng(11), 0
    for _ in range(100):
        values = draw(rng, 40)
        looks = [mean_of_persons(values[:n]) for n in range(8, 41)]
        missed += any(look.low > mean or look.high < mean for look in looks)  # type: ignore[operator]
    assert missed > 10


def test_bounds_only_draw_together_and_hold_the_estimate() -> None:
    found = sequence(np.random.default_rng(0).normal(0.2, 0.15, 200).clip(-1, 1))
    assert (np.diff(found.low) >= 0).all() and (np.diff(found.high) <= 0).all()
    assert found.low[-1] < found.mean[-1] < found.high[-1]
    assert found.low[-1] > 0.14 and found.high[-1] < 0.26


def test_no_person_gives_no_bounds(protocol: Protocol) -> None:
    assert sequence([]).persons == 0


def test_it_is_decided_earlier_the_larger_the_difference(protocol: Protocol) -> None:
    after = []
    for rate in (0.3, 0.7):
        found = compared(*simulated(protocol, 2, {"race_drift": [[0.05], [rate]]}), protocol)
        (watched,) = found.watched(["race_changed"])
        assert watched.verdict == WORSE
        after.append(watched.after or 0)
    assert 0 < after[1] < after[0] <= 84


def test_an_open_comparison_says_how_many_persons_it_may_take(protocol: Protocol) -> None:
    (watched,) = compared(*simulated(protocol, 2, {"race_drift": [[0.1], [0.1]]}), protocol).watched(
        ["race_changed"]
    )
    assert watched.after is None and 84 < (watched.expected or 0) < versions.FARTHEST


def test_the_order_of_persons_knows_nothing_of_outcomes(
    worse: tuple[pl.DataFrame, pl.DataFrame], protocol: Protocol
) -> None:
    persons = worse[0]["person"].unique().to_list()
    assert versions.in_turn(persons) == versions.in_turn(persons[::-1]) != sorted(persons)


def watching(*differences: float, worse: int = 1, margin: float = MARGIN) -> Watched:
    return Watched("x", worse, margin, 0.95, np.array(differences, float))


def test_what_was_watched_is_told_look_by_look() -> None:
    watched = watching(*[0.3] * 60)
    looks = watched.looks()
    assert looks["persons"].to_list() == list(range(1, 61))
    first = watched.after
    assert first is not None and looks["verdict"].to_list() == [UNDECIDED] * (first - 1) + [WORSE] * (61 - first)
    row = watched.last()
    assert (row["kind"], row["persons"], row["verdict"], row["first"]) == (versions.RATE, 60, WORSE, WORSE)
    assert row["expected"] == row["after"] == first and row["low"] < row["difference"] < row["high"]
    assert row["difference"] == pytest.approx(0.3)


def test_nobody_watched_is_nothing_decided() -> None:
    row = watching(worse=0).last()
    assert (row["kind"], row["persons"], row["difference"], row["verdict"]) == (versions.NET, 0, None, UNDECIDED)
    assert (row["after"], row["first"], row["expected"]) == (None, UNDECIDED, None)
    assert watching().looks().is_empty()


@pytest.mark.parametrize(("shift", "said"), [(0.0, versions.WITHIN), (0.5, versions.UP), (-0.5, versions.DOWN)])
def test_a_direction_moves_or_stays_within_the_margin(shift: float, said: str) -> None:
    differences = shift + np.tile([-0.01, 0.01], 400)
    assert watching(*differences, worse=0, margin=0.2).verdict == said


def test_a_direction_that_is_shown_not_to_move_is_within(protocol: Protocol) -> None:
    alike = simulated(protocol, 5, {"skin_tone": [[0.05], [0.05]]}, 10, 2)
    assert row(compared(*alike, protocol, 0.2).outcomes, outcome="skin_tone")["verdict"] == versions.WITHIN
    assert row(compared(*alike, protocol, 0.001).outcomes, outcome="skin_tone")["verdict"] == UNDECIDED


def test_a_direction_that_moves_is_named(protocol: Protocol) -> None:
    a, b = simulated(protocol, 5, {"skin_tone": [[0.05], [0.6]]})
    assert row(compared(a, b, protocol).outcomes, outcome="skin_tone")["verdict"] == versions.UP
    assert row(compared(b, a, protocol).outcomes, outcome="skin_tone")["verdict"] == versions.DOWN
