from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stillme.stats.contrast import permutation_p, welch
from stillme.stats.families import holm
from stillme.stats.intervals import clustered_share, wilson

Z = 1.959963984540054


def test_independent_persons_give_no_design_effect_below_one() -> None:
    share = clustered_share([1] * 8, [2] * 8)
    assert share.deff == 1.0
    assert (share.low, share.high) == wilson(0.5, 16, float(stats.t.ppf(0.975, 7)))


def test_edits_of_one_person_that_agree_count_as_one() -> None:
    share = clustered_share([10, 0] * 5, [10] * 10)
    assert share.deff == pytest.approx(10 * 10 / 9)
    naive = wilson(0.5, 100, Z)
    assert share.low is not None and share.high is not None
    assert share.high - share.low > 3 * (naive[1] - naive[0])


def test_what_cannot_be_known_is_missing() -> None:
    assert clustered_share([], []).rate is None
    assert clustered_share([0, 0], [0, 0]).rate is None
    one = clustered_share([3], [10])
    assert one.rate == 0.3 and one.low is None and one.high is None


def test_fewer_than_eight_persons_have_a_rate_and_no_interval() -> None:
    few = clustered_share([3, 1, 2, 0, 4, 1, 1], [10] * 7)
    assert few.rate == pytest.approx(12 / 70) and few.deff is not None
    assert few.low is None and few.high is None
    enough = clustered_share([3, 1, 2, 0, 4, 1, 1, 0], [10] * 8)
    assert enough.low is not None and enough.high is not None and enough.low < 0.15 < enough.high
    unjudged = clustered_share([3, 1, 2, 0, 4, 1, 1, 0], [10] * 7 + [0])
    assert unjudged.low is None, "a person without a judged edit is not one of the eight"


def test_none_and_all_use_persons_as_trials() -> None:
    none = clustered_share([0] * 12, [20] * 12)
    assert none.low == 0.0 and none.high is not None and 0.15 < none.high < 0.35


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=30))
def test_an_interval_contains_its_rate_and_stays_in_range(people: list[tuple[int, int]]) -> None:
    hits, trials = [min(p) for p in people], [max(p) for p in people]
    share = clustered_share(hits, trials)
    if share.low is not None and share.high is not None and share.rate is not None:
        assert 0 <= share.low <= share.rate + 1e-12 and share.rate - 1e-12 <= share.high <= 1


def test_coverage_with_twelve_persons() -> None:
    """95 % intervals of a rate that differs between persons cover it in at least 93 of 100 samples."""
    chance = np.random.default_rng(3)
    covered = []
    for _ in range(600):
        persons = chance.beta(0.1 * 19, 0.9 * 19, 12)
        share = clustered_share(chance.binomial(20, persons), [20] * 12)
        covered.append(share.low is not None and share.high is not None and share.low <= 0.1 <= share.high)
    assert np.mean(covered) >= 0.93


def test_welch_without_enough_persons_or_spread() -> None:
    assert welch([0.1, 0.2], [0.1, 0.2, 0.3]).difference is None
    few = welch([0.1, 0.2, 0.3] * 4, [0.1, 0.2, 0.3] * 2)
    assert few.difference == pytest.approx(0.0) and few.low is None and few.high is None
    flat = welch([0.2] * 8, [0.1] * 8)  # without any spread nothing says how persons differ
    assert flat.difference == pytest.approx(0.1) and flat.low is None and flat.error is None


def test_the_permutation_p_is_exact_for_a_design_that_can_be_counted() -> None:
    """Three strata of three persons, one of them the reference: 27 equally likely choices, one as extreme."""
    shares = [0.0, 1.0, 1.0] * 3
    p = permutation_p(shares, [True, False, False] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3], draws=200_000)
    assert p == pytest.approx(1 / 27, abs=0.002)


def test_strata_keep_an_imbalance_from_looking_like_a_difference() -> None:
    """Older persons are erased more, and the reference group is older: within ages nobody is treated differently."""
    old = [1.0] * 8
    young = [0.0] * 8
    reference = [True] * 6 + [False] * 2 + [True] * 2 + [False] * 6
    assert permutation_p(old + young, reference, ["old"] * 8 + ["young"] * 8) == 1.0
    unaware = permutation_p(old + young, reference, [""] * 16)
    assert unaware is not None and unaware < 0.2


def test_the_permutation_p_keeps_its_size_where_the_reference_group_shows_nothing() -> None:
    """A rate of 6 % over five edits: a small group often has none, and Welch's variance of zero would accuse."""
    chance = np.random.default_rng(5)
    strata, reference = np.repeat(np.arange(12), 7), np.tile([True] + [False] * 6, 12)
    p = [permutation_p(chance.binomial(5, 0.06, 84) / 5, reference, strata, draws=499) for _ in range(300)]
    assert np.mean([value is not None and value < 0.05 for value in p]) <= 0.07


def test_no_permutation_where_nothing_can_be_moved() -> None:
    assert permutation_p([0.1] * 3 + [0.2] * 3, [True] * 3 + [False] * 3, [1, 1, 1, 2, 2, 2]) is None
    assert permutation_p([0.1, 0.2], [True, False], [1, 1]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_monotone_and_never_below_p(p: list[float]) -> None:
    adjusted = holm(p)
    pairs = sorted(zip(p, adjusted, strict=True), key=lambda pair: pair[0])
    values = [second for _, second in pairs if second is not None]
    assert values == sorted(values)
    assert all(second is not None and first - 1e-12 <= second <= 1 for first, second in pairs)
