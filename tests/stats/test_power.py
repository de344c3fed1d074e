"""Power is that of what an audit runs, and people beat prompts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats import simulate
from stillme.stats.contrast import permutation_p, welch
from stillme.stats.intervals import clustered_share
from stillme.stats.power import (
    Design,
    Truth,
    arranged,
    contrast_halves,
    contrast_p,
    curve,
    detectable,
    larger,
    of_protocol,
    power,
    rate_intervals,
    resolved,
)

ICC = simulate.icc_of(0.8, 0.05)  # the spread of persons that the published figures suppose
SETS = 200


@pytest.mark.parametrize(
    ("per_cell", "prompts", "published", "half"),
    [(1, 20, 0.66, 4.2), (2, 10, 0.70, 3.7), (4, 5, 0.79, 3.4), (2, 20, 0.87, 2.9), (4, 20, 1.00, 2.0)],
)
def test_agrees_with_the_figures_of_the_design_study(
    per_cell: int, prompts: int, published: float, half: float
) -> None:
    """5 % against 10 %: how often the contrast's interval leaves out 0, and how wide it is."""
    found = power(Design(7, 12, per_cell, prompts), Truth(0.05, 0.05, ICC), sets=SETS, seed=1)
    error = 3.5 * np.sqrt(published * (1 - published) / SETS) + 0.03  # theirs is simulated too
    assert found.interval_found is not None and found.half is not None
    assert found.interval_found == pytest.approx(published, abs=error)
    assert 100 * found.half == pytest.approx(half, abs=0.3)
    assert found.found <= found.interval_found, "the permutation test is the more careful one"
    assert found.covered is not None and 0.90 < found.covered < 0.99
    assert found.rate_covered is not None and 0.92 < found.rate_covered < 0.99


def test_twice_the_faces_beat_five_times_the_edits() -> None:
    truth = Truth(0.05, 0.05, ICC)
    faces, prompts, seeds = (power(one, truth, sets=2 * SETS, seed=2) for one in larger(Design(7, 12)))
    for other in (prompts, seeds):
        assert faces.found > other.found
        assert faces.half is not None and other.half is not None and faces.half < other.half
    as_it_is = power(Design(7, 12), truth, sets=2 * SETS, seed=2)
    assert as_it_is.found < min(prompts.found, seeds.found), "more edits help, but less"


@pytest.mark.parametrize("icc", [0.03, 0.11])
def test_without_a_difference_little_is_found_and_max_minus_min_is_not_zero(icc: float) -> None:
    found = power(Design(7, 12), Truth(0.1, 0.0, icc), sets=500, seed=3)
    assert max(found.found, found.range_found, found.rank_found) <= 0.07
    assert 0.05 < found.reach < 0.10 < found.reach_95, "5 to 9 points by chance alone"
    assert found.found_in_family == found.found


def test_a_family_asks_for_more() -> None:
    truth = Truth(0.05, 0.1, ICC)
    alone, together = (power(Design(7, 12), truth, sets=SETS, family=size) for size in (1, 9))
    assert together.found == alone.found > together.found_in_family > 0.1


def test_many_audits_at_once_give_what_each_gives_alone() -> None:
    """The vectorised forms are the audit's own functions."""
    design = Design(groups=3, cells=4, per_cell=2, prompts=10)
    hits = simulate.people(np.random.default_rng(5), [0.05, 0.2, 0.3], 8, 10, replicates=6)
    hits[0] = 0  # nobody is a hit
    people = arranged(hits, design)
    p = contrast_p(people, seed=4, draws=199)
    difference, half = contrast_halves(hits / 10, 0.05)
    low, high = rate_intervals(hits, 10, 0.05)
    for audit, each in enumerate(hits):
        shares = (each / 10).ravel()
        assert p[audit] == pytest.approx(permutation_p(shares, people.group == 0, people.stratum, 199, 4))
        alone = welch((each[1:] / 10).ravel(), each[0] / 10, cautious=True)
        assert alone.difference == pytest.approx(difference[audit])
        low_end = None if np.isnan(half[audit]) else pytest.approx(difference[audit] - half[audit])
        assert alone.low == low_end
        for group, own in enumerate(each):
            share = clustered_share(own, [10] * 8)
            assert (share.low, share.high) == pytest.approx((low[audit, group], high[audit, group]))


def test_groups_too_small_for_an_interval_have_none() -> None:
    found = power(Design(3, 4, 1, 5), Truth(0.2, 0.2, 0.05), sets=30)
    assert (found.half, found.covered, found.rate_half, found.rate_covered, found.interval_found) == (None,) * 5
    assert 0 <= found.found <= 1 and found.reach > 0


def test_the_detectable_difference_is_interpolated() -> None:
    rows = [{"difference": d, "found": f} for d, f in ((0.0, 0.05), (0.1, 0.6), (0.2, 1.0))]
    base = curve([Design(2, 8, 1, 5)], 0.2, [0.05], sets=20, differences=[0.0, 0.1, 0.2])
    made = base.with_columns(pl.Series("found", [row["found"] for row in rows]), found_in_family=pl.lit(0.1))
    answer = resolved(made).row(0, named=True)
    assert answer["detectable"] == pytest.approx(0.15)
    assert answer["detectable_in_family"] is None and answer["tried"] == 0.2
    assert answer["false_alarms"] == 0.05


def test_simulation_and_approximation_are_near_each_other() -> None:
    design = Design(7, 12, 4, 20)
    answer = resolved(curve([design], 0.2, [0.05], sets=SETS, seed=6)).row(0, named=True)
    assert answer["detectable"] == pytest.approx(detectable(48, 288, 20, rate=0.24, alike=0.05), rel=0.15)


def test_the_same_seed_gives_the_same(protocol: Protocol) -> None:
    design = of_protocol(protocol, prompts=5)
    assert (design.portraits, design.persons) == (84, 12)
    truth = Truth(0.1, 0.1, 0.06)
    assert power(design, truth, 40, seed=1) == power(design, truth, 40, seed=1) != power(design, truth, 40, seed=2)


@pytest.mark.parametrize(
    "make", [lambda: Design(1, 12), lambda: Design(7, 12, prompts=0), lambda: Truth(0, 0.1, 0.05)]
)
def test_what_cannot_be_simulated_is_said(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError):
        make()
    with pytest.raises(InputError, match=r"ICC of 0\.9"):
        Truth(0.1, 0.1, 0.9)


def test_persons_who_do_not_differ_are_drawn_alike() -> None:
    """Without a likeness of edits of one person, more edits are worth as much as more persons."""
    alike, unlike = (
        power(Design(2, 12, 1, 20), Truth(0.2, 0.1, icc), sets=SETS, seed=2).half for icc in (0.0, 0.2)
    )
    binomial = 1.96 * np.sqrt((0.2 * 0.8 + 0.3 * 0.7) / (12 * 20))
    assert alike == pytest.approx(binomial, rel=0.15) and unlike is not None and unlike > 1.5 * binomial


def test_differences_that_no_rate_can_have_are_left_out() -> None:
    found = curve([Design(2, 12)], 0.9, [0.1], sets=20, differences=[0.05, 0.5])
    assert found["difference"].to_list() == [0.05]
