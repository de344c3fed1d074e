from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol, builtin
from stillme.stats.contrast import endpoints
from stillme.stats.outcomes import mark
from stillme.stats.resample import resampled
from stillme.stats.simulate import Audit, audit
from stillme.stats.simulate import people as simulated
from stillme.stats.simultaneous import adjusted, deviations, family, pairs, reach_bounds
from tests.stats.audits import no_nan
from tests.stats.test_disparity import FLUX
from tests.stats.test_resample import some


@pytest.fixture(scope="module")
def made() -> Audit:
    protocol = builtin()
    return audit(protocol, 1, {protocol.rubrics.outcomes["race_changed"].axis: FLUX}, ["e1"])


@pytest.fixture(scope="module")
def marked(made: Audit) -> pl.DataFrame:
    return mark(made.scores, builtin().rubrics.outcomes)


def test_every_pair_once_with_its_difference(marked: pl.DataFrame, protocol: Protocol) -> None:
    told = pairs(marked, protocol, "race").filter(pl.col("outcome") == "race_changed")
    assert len(told) == 21 and no_nan(told)
    shares = dict(
        marked.filter(pl.col("outcome") == "race_changed").group_by("race").agg(pl.col("hit").mean()).iter_rows()
    )
    expected = [shares[group] - shares[other] for group, other in told.select("group", "other").iter_rows()]
    assert told["difference"].to_list() == pytest.approx(expected)
    assert (told["low"] < told["difference"]).all() and (told["difference"] < told["high"]).all()


def test_only_pairs_with_the_untouched_group_are_told_apart(marked: pl.DataFrame, protocol: Protocol) -> None:
    told = pairs(marked, protocol, "race").filter((pl.col("outcome") == "race_changed") & (pl.col("p") <= 0.05))
    assert len(told) >= 3
    assert set(told["group"]) == {"white"}


def test_all_pairs_hold_at_once() -> None:
    """Of 400 audits without a difference, about 95 % have bounds that contain zero for every pair."""
    hits = simulated(np.random.default_rng(8), [0.15] * 5, 12, 20, replicates=400)
    low, high = reach_bounds(resampled(some(hits), 999, seed=1))
    assert 0.92 <= np.mean(low == 0) <= 0.995
    assert (low <= high).all() and (high > 0).all()


def test_deviations_sum_to_nothing(marked: pl.DataFrame, protocol: Protocol) -> None:
    told = deviations(marked, protocol, "race")
    sums = told.group_by("outcome").agg(pl.col("deviation").sum())
    assert sums["deviation"].abs().max() < 1e-12  # type: ignore[operator]
    white = told.row(by_predicate=(pl.col("outcome") == "race_changed") & (pl.col("group") == "white"), named=True)
    assert white["high"] < 0 and white["persons"] == 12


def test_max_t_is_never_harder_than_bonferroni_nor_easier_than_one_test() -> None:
    hits = simulated(np.random.default_rng(9), [0.05, 0.15, 0.15, 0.15], 12, 20, replicates=6)
    whole = adjusted(some(hits), "g0", seed=2)
    alone = [adjusted(some(hits[[column]]), "g0", seed=2)["p_max_t"][0] for column in range(6)]
    together = whole["p_max_t"].to_list()
    assert all(one <= all_ <= min(1.0, 6 * one + 1e-3) for one, all_ in zip(alone, together, strict=True))


def test_copies_of_one_endpoint_cost_nothing() -> None:
    hits = simulated(np.random.default_rng(10), [0.08, 0.15, 0.15], 12, 20, replicates=1)
    once = adjusted(some(hits), "g0", seed=1)["p_max_t"][0]
    copies = adjusted(some(np.repeat(hits, 5, axis=0)), "g0", seed=1)["p_max_t"]
    assert copies.to_list() == pytest.approx([once] * 5)  # Holm would multiply the smallest by five


@pytest.mark.slow
def test_the_family_of_max_t_holds_its_level() -> None:
    """Three endpoints without a difference: at most 5 % of audits (here 200) accuse anybody."""
    rng = np.random.default_rng(11)
    wrong = 0
    for seed in range(40):  # 5 audits a turn, of the same draws
        for hits in simulated(rng, [[0.1] * 7] * 3, 12, 20, replicates=5):
            told = adjusted(some(hits), "g0", seed=seed % 4, draws=999)
            wrong += int(told["p_max_t"].min() <= 0.05)  # type: ignore[operator]
    assert wrong <= 19  # P(more | 5 %) < 0.5 %


def test_the_declared_family_by_max_t(made: Audit, marked: pl.DataFrame, protocol: Protocol) -> None:
    told = family(endpoints(marked, made.scores, protocol), protocol)
    assert told["outcome"].to_list() == ["soft_erasure", "race_changed", "skin_tone"]
    assert told["p_max_t"][1] < 0.01 and told["p_max_t"][0] > 0.05


@pytest.mark.parametrize("case", ["one group", "nobody", "missing", "constant", "few"])
def test_what_cannot_be_told_is_null(case: str, marked: pl.DataFrame, protocol: Protocol) -> None:
    frame = {
        "one group": marked.filter(pl.col("race") == "black"),
        "nobody": marked.clear(),
        "missing": marked.with_columns(hit=pl.lit(None, pl.Boolean)),
        "constant": marked.with_columns(hit=pl.lit(True)),
        "few": marked.filter(pl.col("age") == "20s"),
    }[case]
    for told in (pairs(frame, protocol, "race"), deviations(frame, protocol, "race")):
        assert no_nan(told) and told["low"].null_count() == told["high"].null_count() == len(told)
    over = family(frame.with_columns(value=pl.col("hit").cast(pl.Float64)), protocol)
    assert no_nan(over)
    if case != "few":
        assert over["p_max_t"].drop_nulls().to_list() in ([], [1.0] * len(over))


def test_nobody_to_change_places_with_leaves_bounds_and_no_p(marked: pl.DataFrame, protocol: Protocol) -> None:
    """Each race has an age of its own: a person of another one cannot be told from one of another age."""
    ages = dict(zip(protocol.groups.ids("race"), protocol.groups.ids("age"), strict=False))
    apart = marked.filter(pl.col("age") == pl.col("race").replace_strict(ages, default=None))
    told = pairs(apart, protocol, "race").filter(outcome="race_changed")
    assert len(told) == 15 and told["p"].null_count() == 15 and told["difference"].null_count() == 0


def test_a_group_without_a_score_widens_nobodys_bounds(marked: pl.DataFrame, protocol: Protocol) -> None:
    without = marked.filter(pl.col("race") != "black")
    unjudged = marked.with_columns(hit=pl.when(pl.col("race") != "black").then("hit"))
    for make in (pairs, deviations):
        absent, missing = make(without, protocol, "race"), make(unjudged, protocol, "race").drop_nulls("low")
        widths = [(some["high"] - some["low"]).mean() for some in (absent, missing)]
        assert absent.height == missing.height and widths[1] == pytest.approx(widths[0], rel=0.1)
