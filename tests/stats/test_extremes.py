"""The worst of several groups: its interval holds although the group was not chosen before looking."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stillme.stats.extremes import Ends, corrected, highest, lowest, mean_ends, share_ends
from stillme.stats.intervals import clustered_share


def test_the_lowest_is_the_highest_turned_round() -> None:
    own, at_once = [Ends(0.1, 0.3), Ends(0.2, 0.25)], [Ends(0.08, 0.33), Ends(0.19, 0.26)]
    assert lowest(own, at_once) == Ends(0.1, 0.26) and highest(own, at_once) == Ends(0.19, 0.3)
    turned = highest([one.flipped() for one in own], [one.flipped() for one in at_once])
    assert turned.flipped() == lowest(own, at_once)


def test_a_group_without_an_interval_leaves_the_far_end_open() -> None:
    """It may be the worst of all; what is known of the others still bounds it from below."""
    own = [Ends(0.1, 0.3), Ends()]
    assert highest(own, own) == Ends(0.1, None)
    assert lowest(own, own) == Ends(None, 0.3)
    assert highest([], []) == highest([Ends()], [Ends()]) == Ends()


def test_shares_have_the_interval_of_rates() -> None:
    hits, trials = [5, 0, 2, 7, 1, 3, 4, 6], [20] * 8
    found = clustered_share(hits, trials)
    ends = share_ends(found.rate, sum(trials), found.deff, 8)
    assert (ends.low, ends.high) == pytest.approx((found.low, found.high))
    wider = share_ends(found.rate, sum(trials), found.deff, 8, corrected(7))
    assert wider.low is not None and ends.low is not None and wider.low < ends.low
    for unknown in ((None, 160, 2.0, 8), (0.2, 160, None, 8), (0.2, 160, 2.0, 7)):
        assert share_ends(*unknown) == Ends()


def test_means_are_widened_by_the_ratio_of_students_quantiles_and_stay_in_range() -> None:
    at, wanted = stats.t.ppf([0.975, 0.995], 11)
    ends = mean_ends(0.2, 0.1, 0.3, 12, 0.99)
    assert (ends.low, ends.high) == pytest.approx((0.2 - 0.1 * wanted / at, 0.2 + 0.1 * wanted / at))
    capped = mean_ends(0.9, 0.7, 1.0, 12, 0.999)
    assert capped.low == pytest.approx(0.9 - 0.2 * stats.t.ppf(0.9995, 11) / at) and capped.high == 1.0
    for mean, low, high, persons in (
        (None, 0.1, 0.3, 12),
        (0.2, None, 0.3, 12),
        (0.2, 0.1, None, 12),
        (0.2, 0.1, 0.3, 7),
    ):
        assert mean_ends(mean, low, high, persons, 0.95) == Ends()


def test_it_holds_the_truly_highest_rate_where_the_interval_of_the_one_that_looks_highest_does_not() -> None:
    """Seven groups with the same rate: whichever looks worst, its own interval often lies above it."""
    chance, rate, persons, trials = np.random.default_rng(3), 0.2, 12, 20
    held = naive = 0
    for _ in range(200):
        groups = chance.binomial(trials, rate, (7, persons))
        found = [clustered_share(group, [trials] * persons) for group in groups]
        own, at_once = (
            [share_ends(one.rate, persons * trials, one.deff, persons, level) for one in found]
            for level in (0.95, corrected(7))
        )
        ends = highest(own, at_once)
        assert ends.low is not None and ends.high is not None
        worst = own[int(np.argmax(groups.sum(axis=1)))]
        assert worst.low is not None
        held += ends.low <= rate <= ends.high
        naive += worst.low <= rate
    assert held >= 0.95 * 200 > naive
