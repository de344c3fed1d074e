from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.protocol import Protocol, builtin
from stillme.stats.contrast import contrasts, permutation_p, permutation_ps, primary, welch
from stillme.stats.families import holm
from stillme.stats.outcomes import direction, mark
from stillme.stats.simulate import EVEN_CUTS, Audit, Spread, audit, ensemble, judges_scores, severities
from tests.stats.audits import no_nan
from tests.stats.test_disparity import FLUX


@pytest.fixture(scope="module")
def made() -> Audit:
    protocol = builtin()
    return audit(protocol, 1, {protocol.rubrics.outcomes["race_changed"].axis: FLUX}, ["e1", "e2"])


@pytest.fixture(scope="module")
def marked(made: Audit) -> pl.DataFrame:
    return mark(made.scores, builtin().rubrics.outcomes)


def told(marked: pl.DataFrame, **options: object) -> pl.DataFrame:
    return contrasts(marked, ["race_changed", "soft_erasure"], "race", "white", ["gender", "age"], **options)  # type: ignore[arg-type]


def test_error_and_df_make_the_interval(marked: pl.DataFrame) -> None:
    for row in told(marked).iter_rows(named=True):
        half = stats.t.ppf(0.975, row["df"]) * row["error"]
        assert row["high"] - row["difference"] == pytest.approx(half)
        assert row["difference"] - row["low"] == pytest.approx(half)
        assert row["df"] <= 11  # no more than the 12 reference persons allow


def test_the_difference_is_that_of_persons_means(marked: pl.DataFrame) -> None:
    row = told(marked).row(0, named=True)
    chosen = marked.filter((pl.col("outcome") == row["outcome"]) & (pl.col("editor") == row["editor"]))
    persons = chosen.group_by("person", "race").agg(pl.col("hit").mean())
    others, own = (
        persons.filter(keep)["hit"].to_numpy() for keep in (pl.col("race") != "white", pl.col("race") == "white")
    )
    assert row["difference"] == pytest.approx(others.mean() - own.mean())
    assert row["error"] == pytest.approx(np.sqrt(others.var(ddof=1) / 72 + own.var(ddof=1) / 12))


def test_columns_drawn_together_have_the_p_of_each_alone() -> None:
    rng = np.random.default_rng(3)
    shares, chosen, strata = rng.random((84, 3)), np.arange(84) % 7 == 0, np.arange(84) // 7
    together = permutation_ps(shares, chosen, strata, 999, seed=1)
    assert together == [permutation_p(shares[:, column], chosen, strata, 999, seed=1) for column in range(3)]


def test_prompts_as_a_sample_widen_the_interval(marked: pl.DataFrame) -> None:
    fixed, sample = told(marked), told(marked, prompts="sample")
    assert (sample["error"] >= fixed["error"] - 1e-12).all() and (sample["error"] > fixed["error"] + 1e-4).any()
    assert (sample["df"] <= 19).all()
    assert sample["p"].equals(fixed["p"]) and sample["difference"].equals(fixed["difference"])


def test_two_way_variance_by_hand() -> None:
    """8 persons a side, 3 prompts: V_prompt − V_both from the parts that each cell adds to the difference."""
    rng = np.random.default_rng(5)
    hit = np.stack([rng.random((8, 3)) < [0.1, 0.2, 0.9], rng.random((8, 3)) < [0.4, 0.3, 0.2]])
    side, person, prompt = (index.ravel() for index in np.indices(hit.shape))
    frame = pl.DataFrame(
        {"side": side, "person": side * 8 + person, "prompt": prompt, "hit": hit.ravel()}
    ).with_columns(pl.lit("e").alias("editor"), pl.lit("o").alias("outcome"), pl.col("side").cast(pl.String))
    row = contrasts(frame, ["o"], "side", "1", prompts="sample").row(0, named=True)
    part = (hit - hit.mean(axis=(1, 2), keepdims=True)) / (3 * 8) * np.array([1, -1])[:, None, None]
    v_person = 8 / 7 * (part.sum(axis=2) ** 2).sum()
    v_prompt = 3 / 2 * (part.sum(axis=(0, 1)) ** 2).sum()
    assert v_prompt > (part**2).sum()
    assert row["error"] ** 2 == pytest.approx(v_person + v_prompt - (part**2).sum())
    assert row["df"] == 2


def test_one_prompt_says_nothing_of_others(marked: pl.DataFrame) -> None:
    one = told(marked.filter(pl.col("prompt") == "O-01"), prompts="sample")
    assert one["low"].null_count() == len(one) and one["difference"].null_count() == 0


def test_the_declared_family_is_one(made: Audit, marked: pl.DataFrame, protocol: Protocol) -> None:
    found = primary(marked, made.scores, protocol)
    assert found.select("outcome", "kind").unique(maintain_order=True).rows() == [
        ("soft_erasure", "rate"),
        ("race_changed", "rate"),
        ("skin_tone", "net"),
    ]
    assert found["p_holm"].to_list() == holm(found["p"].to_list())
    shown = found.filter(pl.col("p_holm") < 0.05)
    assert set(shown["outcome"]) == {"race_changed"} and len(shown) == 2
    plain = told(marked).filter(pl.col("outcome") == "race_changed")
    assert found.filter(pl.col("outcome") == "race_changed")["difference"].equals(plain["difference"])


def test_net_is_the_share_above_minus_the_share_below(
    made: Audit, marked: pl.DataFrame, protocol: Protocol
) -> None:
    row = primary(marked, made.scores, protocol).row(
        by_predicate=(pl.col("kind") == "net") & (pl.col("editor") == "e1"), named=True
    )
    skin = made.scores.filter(
        (pl.col("axis") == "skin_tone") & (pl.col("editor") == "e1") & (pl.col("race") == "white")
    )
    above, below = ((skin["mean"].to_numpy() * side > 3 * side).mean() for side in (1, -1))
    assert row["reference_rate"] == pytest.approx(above - below)


@pytest.mark.parametrize("mode", ["half_even", "half_up", "toward_neutral"])
def test_even_judges_have_no_direction_however_halves_are_rounded(mode: str) -> None:
    rng = np.random.default_rng(2)
    one = judges_scores(rng, severities(rng, [0.5], 200, 20, Spread()).ravel(), EVEN_CUTS)
    score, mean, _ = ensemble(np.hstack([one, 6 - one]), mode, 3)
    frame = pl.DataFrame({"score": score, "mean": mean, "neutral": 3})
    assert frame.select(direction(frame).sum()).item() == 0
    rounded = np.sign(score - 3).mean()
    assert (rounded > 0.05) == (mode == "half_up")  # why it is never taken from a rounded score


def test_what_a_person_decided_has_the_direction_of_the_decision() -> None:
    frame = pl.DataFrame(
        {"score": [3, None, 4], "mean": [4.5, 4.0, 3.5], "neutral": 3, "adjudicated": [True, True, False]}
    )
    assert frame.select(direction(frame)).to_series().to_list() == [0.0, None, 1.0]


def test_few_persons_keep_their_p_and_lose_their_interval(marked: pl.DataFrame) -> None:
    few = told(marked.filter(pl.col("age").is_in(["20s", "30s"])))
    assert few["low"].null_count() == few["error"].null_count() == len(few)
    assert few["p"].null_count() == 0 and few["difference"].null_count() == 0


@pytest.mark.parametrize("prompts", ["fixed", "sample"])
def test_what_cannot_be_told_is_null(marked: pl.DataFrame, prompts: str) -> None:
    for frame in (
        marked.clear(),
        marked.filter(pl.col("race") == "white"),
        marked.filter(pl.col("race") != "white"),
        marked.with_columns(hit=pl.lit(None, pl.Boolean)),
        marked.with_columns(hit=pl.lit(True)),
    ):
        found = told(frame, prompts=prompts)
        assert no_nan(found) and found["low"].null_count() == len(found)


def test_cautious_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(72), rng.random(12)
    plain, cautious = welch(a, b), welch(a, b, cautious=True)
    assert plain.df is not None and plain.df > 11 and cautious.df == 11
    assert cautious.low is not None and plain.low is not None and cautious.low < plain.low


def test_welch_is_scipys() -> None:
    chance = np.random.default_rng(2)
    others, own = chance.normal(0.4, 0.3, 30), chance.normal(0.2, 0.1, 9)
    found, theirs = welch(others, own), stats.ttest_ind(others, own, equal_var=False)
    interval = theirs.confidence_interval()
    assert found.df == pytest.approx(theirs.df)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_a_side_of_three_persons_says_something_and_one_of_two_does_not() -> None:
    many = [0.1, 0.4, 0.2, 0.3, 0.6, 0.5, 0.7, 0.2]
    assert welch(many, [0.1, 0.2, 0.3]).difference == pytest.approx(0.375 - 0.2)
    assert welch(many, [0.1, 0.2]).difference is None and welch([0.1, 0.2], many).difference is None
    shares, strata = np.arange(6.0), np.zeros(6)
    assert permutation_p(shares, np.arange(6) < 3, strata) == pytest.approx(0.1, abs=0.02), (
        "2 of 20 deals are as far"
    )
    assert permutation_p(shares, np.arange(6) < 2, strata) is None


def test_where_nobody_can_change_places_there_is_no_p_for_any_column() -> None:
    """Every stratum holds one side only."""
    shares, chosen = np.random.default_rng(1).random((12, 3)), np.arange(12) < 6
    assert permutation_ps(shares, chosen, chosen) == [None, None, None]
    assert None not in permutation_ps(shares, chosen, np.arange(12) % 3)


def test_two_prompts_say_something_of_others(marked: pl.DataFrame) -> None:
    prompts = marked["prompt"].unique(maintain_order=True)[:2]
    few = marked.filter(pl.col("prompt").is_in(prompts.implode()))
    rows = told(few, prompts="sample")
    assert rows.filter(outcome="race_changed")["low"].null_count() == 0 and (rows["df"].drop_nulls() <= 1).all()


def test_only_what_was_asked_for_and_only_persons_with_a_group(marked: pl.DataFrame) -> None:
    found = told(marked)
    assert set(found.select("editor", "outcome").rows()) == {
        (editor, outcome) for editor in ("e1", "e2") for outcome in ("race_changed", "soft_erasure")
    }
    first = marked.filter(race="black")["person"][0]
    unlabelled = marked.with_columns(race=pl.when(person=first).then(None).otherwise("race"))
    assert told(unlabelled).equals(told(marked.filter(pl.col("person") != first)))
