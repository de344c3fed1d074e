"""Rank tests beside scipy, statsmodels and scikit-posthocs."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scikit_posthocs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from stillme.core.errors import InputError
from stillme.stats import ranks
from stillme.stats.ranks import (
    cliff,
    dunn,
    kruskal,
    kruskal_counts,
    mann_whitney,
    mann_whitney_counts,
    spearman,
    wilcoxon,
)

scores = st.lists(st.integers(1, 5), min_size=2, max_size=30)
groups = st.lists(scores, min_size=2, max_size=5)


def differ(*samples: list[int]) -> bool:
    return len({value for sample in samples for value in sample}) > 1


@given(groups)
def test_kruskal_is_scipys_from_values_and_from_counts(samples: list[list[int]]) -> None:
    assume(differ(*samples))
    found, theirs = kruskal(samples), stats.kruskal(*samples)
    assert found.h == pytest.approx(theirs.statistic, abs=1e-9)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-6), "scipy's H is a little above 0 where it is 0"
    assert found.epsilon2 == pytest.approx(theirs.statistic / (found.n - 1), abs=1e-9)
    counted = kruskal_counts([np.bincount(sample, minlength=6)[1:] for sample in samples])
    assert counted.h == pytest.approx(found.h, abs=1e-9) and counted.groups == len(samples)


def test_groups_that_say_nothing_have_no_h() -> None:
    for empty in (kruskal([]), kruskal([[1, 2, 3]]), kruskal([[3, 3], [3, 3]]), kruskal([[1, 2], []])):
        assert empty.h is empty.p is empty.epsilon2 is None
    assert kruskal_counts([[0, 0], [0, 0]]).h is kruskal_counts([[4, 0], [3, 0]]).h is None
    assert kruskal([[1, 2], [], [3, 4]]) == kruskal([[1, 2], [3, 4]]), "an empty group is no group"


def test_dunn_of_an_example_that_scikit_posthocs_computed() -> None:
    found = dunn("abc", [[1, 2, 3, 3], [2, 4, 5], [4, 5, 5]])
    assert [pair.p for pair in found] == pytest.approx([0.2038936, 0.0258777, 0.3704319], abs=1e-7)
    assert [pair.p_holm for pair in found] == pytest.approx([0.4077871, 0.0776331, 0.4077871], abs=1e-7)


@pytest.mark.slow  # the first use of scikit_posthocs takes seconds
@settings(max_examples=8)
@given(groups)
def test_dunn_is_scikit_posthocs(samples: list[list[int]]) -> None:
    assume(differ(*samples))
    theirs = {how: scikit_posthocs.posthoc_dunn(samples, p_adjust=how).to_numpy() for how in (None, "holm")}
    names = [str(place) for place in range(len(samples))]
    for pair in dunn(names, samples):
        i, j = int(pair.first), int(pair.second)
        assert pair.p == pytest.approx(theirs[None][i, j], abs=1e-9)
        assert pair.p_holm == pytest.approx(theirs["holm"][i, j], abs=1e-9)


def test_dunn_of_constants_or_nobody_is_missing() -> None:
    assert [pair.z for pair in dunn("ab", [[3, 3], [3]])] == [None]
    assert next(pair.p_holm for pair in dunn("abc", [[1, 2], [], [3, 4]])) is None
    assert dunn("", []) == []


@settings(max_examples=50)
@given(scores, scores)
def test_mann_whitney_is_scipys_from_values_and_from_counts(first: list[int], second: list[int]) -> None:
    assume(differ(first, second))
    found = mann_whitney(first, second)
    theirs = stats.mannwhitneyu(first, second)
    assert (found.u, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    normal = stats.mannwhitneyu(first, second, method="asymptotic")
    counts = (np.bincount(sample, minlength=6)[1:] for sample in (first, second))
    u, p, delta = mann_whitney_counts(*counts)
    assert (u, p) == pytest.approx((normal.statistic, normal.pvalue))
    assert delta == pytest.approx(found.cliff.delta)


@given(scores, scores)
def test_cliffs_delta_counts_pairs_and_its_interval_turns_with_them(first: list[int], second: list[int]) -> None:
    found, turned = cliff(first, second), cliff(second, first)
    signs = np.sign(np.subtract.outer(first, second))
    assert found.delta == pytest.approx(signs.mean())
    assert found.delta is not None and found.low is not None and found.high is not None
    assert -1 <= found.low <= found.delta + 1e-12 and found.delta - 1e-12 <= found.high <= 1
    assert turned.low == pytest.approx(-found.high)


def test_cliffs_variance_is_that_of_the_dominance_matrix() -> None:
    chance = np.random.default_rng(4)
    first, second = chance.integers(1, 6, 40), chance.integers(2, 6, 30)
    d = np.sign(np.subtract.outer(first, second))
    rows, columns, n, m = d.mean(1) - d.mean(), d.mean(0) - d.mean(), 40, 30
    variance = (m**2 * (rows**2).sum() + n**2 * (columns**2).sum() - ((d - d.mean()) ** 2).sum()) / (
        n * m * (n - 1) * (m - 1)
    )
    t, delta = stats.t.ppf(0.975, n + m - 2), d.mean()
    half = t * np.sqrt(variance * ((1 - delta**2) ** 2 + t**2 * variance))
    low = (delta - delta**3 - half) / (1 - delta**2 + t**2 * variance)
    assert cliff(first, second).low == pytest.approx(low)


def test_cliff_without_overlap_is_one_with_room_below() -> None:
    found = cliff([4, 5, 5], [1, 2, 2, 3])
    assert found.delta == found.high == 1.0 and found.low is not None and found.low < 1
    assert cliff([], [1]).delta is None and cliff([1], [2, 3]).low is None


def test_equal_values_everywhere_have_no_p() -> None:
    found = mann_whitney([3, 3], [3, 3, 3])
    assert (found.u, found.p, found.cliff.delta) == (3.0, None, 0.0)
    assert mann_whitney([], [1]).p is None and mann_whitney_counts([0, 0], [1, 2]) == (None, None, None)


@settings(max_examples=5)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_wilcoxon_counts_out_all_signs(differences: list[int]) -> None:
    assume(sum(map(bool, differences)) > 1)
    everything = stats.PermutationMethod(n_resamples=np.inf)
    for zeros in ("wilcox", "pratt"):
        for side in ("two-sided", "greater", "less"):
            found = wilcoxon(differences, zeros=zeros, side=side)
            theirs = stats.wilcoxon(differences, zero_method=zeros, alternative=side, method=everything)
            assert found.p == pytest.approx(theirs.pvalue, abs=1e-12) and found.is_exact


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(["wilcox", "pratt", "zsplit"]))
def test_many_differences_are_normal_as_scipys(seed: int, zeros: ranks.Zeros) -> None:
    differences = np.random.default_rng(seed).integers(-3, 5, 300)
    found = wilcoxon(differences, zeros=zeros)
    theirs = stats.wilcoxon(differences, zero_method=zeros, method="asymptotic")
    assert not found.is_exact or zeros == "wilcox"
    if not found.is_exact:
        assert (found.p, found.t) == pytest.approx((theirs.pvalue, theirs.statistic))


def test_thirds_tie_as_whole_numbers_do() -> None:
    """In floating point 5/3 − 4/3 and 4/3 − 1 differ; taken as thirds they are one and the same step."""
    chance = np.random.default_rng(7)
    before, after = chance.integers(3, 16, (500, 1)), chance.integers(3, 16, (500, 1))
    steps = np.where(chance.random(500) < 0.6, 0, (after - before).ravel())
    raw = (before.ravel() + steps) / 3 - before.ravel() / 3
    assert len(np.unique(np.abs(raw))) > len(np.unique(np.abs(steps))), "floats break the ties"
    assert wilcoxon(raw, denominator=3) == wilcoxon(steps)
    with pytest.raises(InputError, match="multiples of 1/2"):
        wilcoxon(raw, denominator=2)
    with pytest.raises(InputError):
        wilcoxon([1.0, np.nan])


def test_zeros_are_shown_and_dropping_them_makes_the_rest_more_decided() -> None:
    differences = [0] * 318 + [1] * 120 + [-1] * 62
    by = {zeros: wilcoxon(differences, zeros=zeros) for zeros in ("wilcox", "pratt", "zsplit")}
    assert by["pratt"].zeros == 318 and by["pratt"].zero_share == 0.636 and by["pratt"].tie_share == 1.0
    p = {zeros: found.p for zeros, found in by.items()}
    assert p["wilcox"] is not None and p["pratt"] is not None and p["zsplit"] is not None
    assert p["zsplit"] > p["pratt"]
    nothing = wilcoxon([0, 0, 0])
    assert (nothing.zero_share, nothing.p) == (1.0, None) and wilcoxon([]).zero_share is None


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=40))
def test_spearman_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = spearman(x, y)
    if not differ(list(x)) or not differ(list(y)):
        assert found.rho is found.p is found.p_exact is None
        return
    theirs = stats.spearmanr(x, y)
    assert found.rho == pytest.approx(theirs.statistic, abs=1e-9)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-7)


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=3, max_size=6))
def test_spearmans_exact_p_is_over_all_orders(pairs: list[tuple[int, int]]) -> None:
    x, y = (list(values) for values in zip(*pairs, strict=True))
    assume(differ(x) and differ(y))
    a, b = stats.rankdata(x) - (len(x) + 1) / 2, stats.rankdata(y) - (len(x) + 1) / 2
    far = [abs(a @ np.array(order)) >= abs(a @ b) - 1e-9 for order in permutations(b)]
    assert spearman(x, y).p_exact == pytest.approx(np.mean(far))


def paired(seed: int, persons: int = 60, each: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    own = chance.normal(0, 2, (persons, 1))
    another = own + chance.normal(0, 2, (persons, 1))
    x = np.digitize(own + chance.normal(0, 0.7, (persons, each)), [0, 1, 2])
    y = np.digitize(another + chance.normal(0, 0.7, (persons, each)), [0, 1, 2])
    return x.ravel(), y.ravel(), np.repeat(np.arange(persons), each)


def test_spearmans_interval_takes_persons_as_the_unit() -> None:
    x, y, who = paired(1)
    found, alone = spearman(x, y, who, seed=3), spearman(x, y, np.arange(len(x)), seed=3)
    assert found.rho == alone.rho and found.persons == 60
    assert found.low is not None and found.high is not None and found.rho is not None
    assert alone.low is not None and alone.high is not None
    assert found.low < found.rho < found.high, "around the estimate"
    assert found.high - found.low > 2 * (alone.high - alone.low), "wider than if all pairs were independent"
    assert spearman(x, y, who, seed=3) == found and spearman(x, y, who, seed=4).low != found.low


def test_spearmans_replicates_are_the_correlations_of_the_drawn_rows() -> None:
    x, y, who = paired(2, persons=12)
    weights = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), size=3).astype(float)
    drawn = ranks._drawn_rho(x.astype(float), y.astype(float), who, 12, weights)
    for weight, rho in zip(weights, drawn, strict=True):
        rows = np.repeat(np.arange(len(x)), weight[who].astype(int))
        assert rho == pytest.approx(stats.spearmanr(x[rows], y[rows]).statistic)


def test_spearman_of_values_that_never_repeat_is_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, who = paired(3)
    anew = spearman(x, y, who)
    monkeypatch.setattr(ranks, "MOST_CELLS", 0)
    once = spearman(x, y, who)
    assert once.low == pytest.approx(anew.low, abs=0.03) and once.high == pytest.approx(anew.high, abs=0.03)


def test_spearman_of_too_little_is_missing() -> None:
    assert spearman([1, 2], [2, 1]).rho is None
    assert spearman([], []).rho is None and spearman([], [], []).persons == 0
    assert spearman([1, 2, np.nan, 3], [1, 2, 3, np.nan]).n == 2
    perfect = spearman([1, 2, 3, 4], [1, 2, 3, 4], ["a", "b", "c", "d"])
    assert (perfect.rho, perfect.low) == (1.0, None)


def test_an_order_that_hangs_on_two_persons_has_no_interval() -> None:
    """Each of the two has to be drawn for anything to be ranked, which most draws miss."""
    x, y = np.zeros(12), np.zeros(12)
    x[0] = y[1] = 1
    found = spearman(x, y, np.arange(12))
    assert found.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.low is None and found.high is None
