from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.protocol import Protocol
from stillme.stats.disparity import between_groups, by_chance, disparities, is_wanted, max_minus_min, of_people
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.resample import People, resampled
from stillme.stats.simulate import audit, main_dimension
from stillme.stats.simulate import people as simulated
from tests.stats.audits import no_nan
from tests.stats.test_resample import some

FLUX = [0.013, 0.167, 0.096, 0.151, 0.185, 0.179, 0.151]


@pytest.fixture(scope="module")
def marked() -> pl.DataFrame:
    from stillme.protocol import builtin

    protocol = builtin()
    axis = protocol.rubrics.outcomes["race_changed"].axis
    return mark(audit(protocol, 1, {axis: FLUX}, ["e1", "e2"]).scores, protocol.rubrics.outcomes)


@pytest.fixture(scope="module")
def found(marked: pl.DataFrame) -> pl.DataFrame:
    from stillme.protocol import builtin

    return disparities(marked, builtin(), "race")


def row(frame: pl.DataFrame, outcome: str, editor: str = "e1") -> dict[str, object]:
    return frame.row(by_predicate=(pl.col("outcome") == outcome) & (pl.col("editor") == editor), named=True)


def test_max_minus_min_is_that_of_the_rates_table(marked: pl.DataFrame, found: pl.DataFrame) -> None:
    plain = max_minus_min(rates(marked, ["editor", "race"]), ["outcome", "editor"], "race")
    both = found.join(plain, on=["outcome", "editor"], suffix="_plain", validate="1:1")
    assert len(both) == len(plain) == 16
    assert np.allclose(both["disparity"], both["disparity_plain"])
    assert (both["highest"] == both["highest_plain"]).all()


def test_a_planted_disparity_is_found_and_named(found: pl.DataFrame) -> None:
    told = row(found, "race_changed")
    assert told["lowest_group"] == "white" and told["gated"] and told["p_rank"] < 0.01 and told["p_range"] < 0.01  # type: ignore[operator]
    assert 0 < told["low"] < told["corrected"] < told["disparity"] and told["corrected"] < told["high"]  # type: ignore[operator]
    assert told["bound_low"] <= told["low"] and told["high"] <= told["bound_high"]  # type: ignore[operator]
    assert told["sd"] < told["sd_raw"] and told["sd_low"] < told["sd"] < told["sd_high"]  # type: ignore[operator]
    assert told["reason"] is None


def test_without_a_difference_the_interval_starts_at_zero(found: pl.DataFrame) -> None:
    closed = found.filter(~pl.col("gated"))
    assert len(closed) >= 10
    assert (closed["low"] == 0).all() and (closed["high"] > 0).all()
    assert (closed["expected"] > 0.02).all()  # what chance alone makes of max − min


def test_the_worst_group_of_what_was_asked_for_is_the_lowest(protocol: Protocol, found: pl.DataFrame) -> None:
    outcomes = protocol.rubrics.outcomes
    assert [name for name in outcomes if is_wanted(protocol, outcomes[name])] == ["edit_succeeded"]
    good, bad = row(found, "edit_succeeded"), row(found, "soft_erasure")
    assert good["worst_group"] == good["lowest_group"] and bad["worst_group"] == bad["highest_group"]
    assert good["worst_low"] < good["worst"] < good["worst_high"]  # type: ignore[operator]


def test_the_rank_test_is_kruskal_wallis_where_nothing_is_stratified() -> None:
    hits = simulated(np.random.default_rng(4), [0.1, 0.2, 0.25], 30, 20, replicates=1)
    p = by_chance(some(hits, strata=False), seed=1, draws=4_999).p_rank[0]
    assert p == pytest.approx(stats.kruskal(*hits[0]).pvalue, abs=0.02)


def test_an_imbalance_of_strata_is_no_disparity() -> None:
    """Two groups differ only because one has more persons of a stratum that the editor fails more often."""
    rng = np.random.default_rng(5)
    stratum = np.array([0] * 27 + [1] * 3 + [0] * 3 + [1] * 27)
    group = np.array([0] * 30 + [1] * 30)
    sums = rng.binomial(20, np.where(stratum == 0, 0.1, 0.5)).astype(float)[:, None]
    told = People(("a", "b"), group, stratum, (("e", "o"),), sums, np.full_like(sums, 20))
    blind = People(("a", "b"), group, np.zeros(60, int), (("e", "o"),), sums, np.full_like(sums, 20))
    assert by_chance(told, draws=1_999).p_rank[0] > 0.05
    assert by_chance(blind, draws=1_999).p_rank[0] < 0.001


def test_sampling_is_taken_off_the_spread_between_groups() -> None:
    alike = simulated(np.random.default_rng(6), [0.1] * 7, 12, 20, replicates=60)
    apart = simulated(np.random.default_rng(7), FLUX, 12, 20, replicates=60)
    none, some_ = (of_people(some(hits), draws=99) for hits in (alike, apart))
    true = float(np.std(FLUX, ddof=1))
    assert none["sd_raw"].mean() > 0.02 and none["sd"].median() < 0.015  # type: ignore[operator]
    assert some_["sd"].mean() == pytest.approx(true, abs=0.006)
    assert some_["sd_raw"].mean() > true + 0.005  # type: ignore[operator]


def test_fewer_than_eight_persons_give_no_interval(marked: pl.DataFrame, protocol: Protocol) -> None:
    few = disparities(marked.filter(pl.col("age").is_in(["20s", "30s"])), protocol, "race")
    assert few["reason"].unique().to_list() == ["4 persons in a group; an interval needs 8"]
    assert few.select("low", "high", "sd_low", "sd_high", "bound_low", "bound_high").null_count().sum_horizontal()[
        0
    ] == 6 * len(few)
    assert few["disparity"].null_count() == 0 and few["p_rank"].null_count() == 0


@pytest.mark.parametrize(
    ("change", "reason"), [(pl.col("race") == "white", "one group only"), (pl.lit(False), None)]
)
def test_nothing_to_compare(marked: pl.DataFrame, protocol: Protocol, change: pl.Expr, reason: str | None) -> None:
    told = disparities(marked.filter(change), protocol, "race")
    assert no_nan(told)
    assert told["reason"].unique().to_list() == ([reason] if reason else [])
    assert told["disparity"].null_count() == len(told) and told["gated"].null_count() == len(told)


def test_all_missing_and_a_constant_are_said(marked: pl.DataFrame, protocol: Protocol) -> None:
    missing = disparities(marked.with_columns(hit=pl.lit(None, pl.Boolean)), protocol, "race")
    assert missing["reason"].unique().to_list() == ["nothing judged"] and no_nan(missing)
    constant = disparities(marked.with_columns(hit=pl.lit(True)), protocol, "race")
    assert constant["reason"].unique().to_list() == ["no difference between persons of one group"] and no_nan(
        constant
    )
    assert (
        (constant["disparity"] == 0).all()
        and (constant["p_range"] == 1).all()
        and constant["high"].null_count() == 16
    )


def test_a_group_that_one_editor_never_met_is_left_out(marked: pl.DataFrame, protocol: Protocol) -> None:
    hole = (pl.col("editor") == "e2") & (pl.col("race") == "white")
    told = disparities(marked.with_columns(hit=pl.when(~hole).then("hit")), protocol, "race")
    assert no_nan(told)
    assert row(told, "race_changed", "e1")["groups"] == 7
    other = row(told, "race_changed", "e2")
    assert other["groups"] == 6 and other["lowest_group"] != "white" and other["high"] is not None


def test_one_seed_is_one_answer(marked: pl.DataFrame, protocol: Protocol, found: pl.DataFrame) -> None:
    shuffled = marked.sample(fraction=1.0, shuffle=True, seed=1)
    again = disparities(shuffled, protocol, main_dimension(protocol))
    keys = ["editor", "outcome"]
    told = ["disparity", "p_rank", "low", "high"]
    assert again.sort(keys).select(*keys, *told).equals(found.sort(keys).select(*keys, *told))


def test_replicates_of_a_flat_group_do_not_move() -> None:
    hits = np.array([[[0] * 12, [10] * 12]])
    assert np.ptp(resampled(some(hits), 50).replicates) == pytest.approx(0.5)


def test_the_worst_group_is_the_highest_unless_more_of_it_was_asked_for() -> None:
    people = some(simulated(np.random.default_rng(3), [0.05, 0.3, 0.6], 12, 20))
    row = of_people(people, draws=99).row(0, named=True)
    assert (row["worst_group"], row["highest_group"], row["lowest_group"]) == ("g2", "g2", "g0")
    assert of_people(people, [True], draws=99)["worst_group"].to_list() == ["g0"]


def test_the_spread_is_over_groups_that_have_a_rate() -> None:
    people = some(simulated(np.random.default_rng(4), [0.1, 0.5, 0.9], 12, 20))
    raw = between_groups(resampled(people, 99)).sd_raw[0]
    assert raw == pytest.approx(people.rates()[:, 0].std(ddof=1))
    two = replace(people, trials=np.where(people.group[:, None] == 2, 0, people.trials))
    assert between_groups(resampled(two, 99)).sd_raw[0] == pytest.approx(people.rates()[:2, 0].std(ddof=1))
    one = replace(people, trials=np.where(people.group[:, None] > 0, 0, people.trials))
    assert np.isnan(between_groups(resampled(one, 99)).sd_raw[0]), "one group lies apart from nothing"


def test_a_group_without_a_hit_is_the_lowest_and_one_without_a_trial_is_none() -> None:
    hits = np.zeros((1, 3, 12))
    hits[0, 1], hits[0, 2] = 4, 9
    people = some(hits)
    row = of_people(people, draws=99).row(0, named=True)
    assert (row["lowest_group"], row["lowest"], row["highest_group"]) == ("g0", 0.0, "g2")
    unmet = replace(people, trials=np.where(people.group[:, None] == 0, 0, people.trials))
    assert of_people(unmet, draws=99)["lowest_group"].to_list() == ["g1"]


def test_a_person_without_a_trial_ranks_nowhere() -> None:
    """Neither first nor last: such a person moves the rank test to no side."""
    people = some(simulated(np.random.default_rng(5), [0.2, 0.2], 40, 20), strata=False)
    silent = np.arange(80)[:, None] < 20
    without = replace(people, sums=np.where(silent, 0, people.sums), trials=np.where(silent, 0, people.trials))
    left = np.flatnonzero(~silent[:, 0])
    alone = replace(
        people,
        group=people.group[left],
        stratum=people.stratum[left],
        sums=people.sums[left],
        trials=people.trials[left],
    )
    assert by_chance(without).p_rank[0] == pytest.approx(by_chance(alone).p_rank[0], abs=0.04)


def test_replicates_are_corrected_for_sampling_twice() -> None:
    """Twelve persons a group: a variance of their own sampling is widened by 12 ÷ 11."""
    drawn = resampled(some(simulated(np.random.default_rng(6), [0.1, 0.4, 0.8], 12, 20)), 300)
    sampled = drawn.replicate_variances[:, :, 0].mean(axis=1) * 12 / 11
    left = drawn.replicates[:, :, 0].var(axis=1, ddof=1) - 2 * sampled
    found = between_groups(drawn)
    assert (found.sd_low[0], found.sd_high[0]) == pytest.approx(np.sqrt(np.quantile(left, [0.025, 0.975])))


def test_eight_persons_in_every_group_have_an_interval(marked: pl.DataFrame, protocol: Protocol) -> None:
    eight = marked.filter(pl.col("age").is_in(["20s", "30s", "40s", "50s"]))
    told = disparities(eight, protocol, "race").filter(outcome="race_changed")
    assert told["reason"].to_list() == [None, None] and told["high"].null_count() == 0
