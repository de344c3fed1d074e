from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.core.errors import InputError
from stillme.stats import resample
from stillme.stats.resample import (
    People,
    bootstrap_rates,
    disparity_replicates,
    gather,
    is_movable,
    permuted_sums,
    reach,
    resampled,
)
from stillme.stats.simulate import people as simulated


def some(hits: np.ndarray, trials: int = 20, strata: bool = True) -> People:
    """[columns, groups, persons] -> People; a stratum has one person of each group."""
    columns, groups, persons = hits.shape
    sums = hits.reshape(columns, -1).T.astype(float)
    return People(
        tuple(f"g{group}" for group in range(groups)),
        np.repeat(np.arange(groups), persons),
        np.tile(np.arange(persons), groups) if strata else np.zeros(groups * persons, int),
        tuple(("e", str(column)) for column in range(columns)),
        sums,
        np.full_like(sums, trials),
    )


def drawn(columns: int = 2, seed: int = 0) -> People:
    return some(simulated(np.random.default_rng(seed), [0.05, 0.2, 0.3], 12, 20, replicates=columns))


FRAME = pl.DataFrame(
    {
        "person": ["a", "a", "b", "b", "c", "c", "d"],
        "group": ["x", "x", "x", "x", "y", "y", None],
        "editor": "e",
        "outcome": "o",
        "hit": [True, False, None, None, True, True, True],
    }
)


def test_edits_are_summed_per_person() -> None:
    found = gather(FRAME, "group", ["y", "x", "z"])
    assert found.groups == ("y", "x") and found.columns == (("e", "o"),)
    assert found.sums[:, 0].tolist() == [1, 0, 2] and found.trials[:, 0].tolist() == [2, 0, 2]
    assert found.rates()[:, 0].tolist() == [1.0, 0.5]
    assert found.persons()[:, 0].tolist() == [1, 1]  # b has no judged edit, d no group


def test_a_person_of_two_groups_is_named() -> None:
    with pytest.raises(InputError, match="Person a is in two groups"):
        gather(FRAME.with_columns(group=pl.Series(["x", "y", "x", "x", "y", "y", "y"])), "group", ["x", "y"])


def test_replicates_agree_with_drawing_persons_by_hand() -> None:
    found = drawn(1)
    quick = disparity_replicates(found, 4_000, seed=1)[:, 0]
    rng = np.random.default_rng(7)
    slow = []
    for _ in range(4_000):
        rates = [rng.choice(found.sums[found.group == group, 0], 12).sum() / 240 for group in range(3)]
        slow.append(max(rates) - min(rates))
    assert quick.mean() == pytest.approx(np.mean(slow), abs=0.003)
    assert quick.std() == pytest.approx(np.std(slow), rel=0.06)


def test_editors_with_the_same_persons_move_together() -> None:
    one = drawn(1)
    twice = People(
        one.groups,
        one.group,
        one.stratum,
        (("e", "o"), ("f", "o")),
        *(np.hstack([x, x]) for x in (one.sums, one.trials)),
    )
    rates = bootstrap_rates(twice, 200, seed=3)
    assert np.array_equal(rates[..., 0], rates[..., 1])


def test_replicates_are_the_same_whatever_else_is_drawn_beside_them() -> None:
    two = drawn(2)
    first = People(two.groups, two.group, two.stratum, two.columns[:1], two.sums[:, :1], two.trials[:, :1])
    assert np.allclose(bootstrap_rates(two, 100, 5)[..., 0], bootstrap_rates(first, 100, 5)[..., 0])


def test_many_persons_are_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resampled(drawn(), 300, seed=1)
    monkeypatch.setattr("stillme.stats.resample.AT_ONCE", 500)
    pieces = resampled(drawn(), 300, seed=1)
    assert np.allclose(whole.replicates, pieces.replicates)


def test_permutations_keep_strata_and_sums() -> None:
    found = drawn()
    sums = permuted_sums(found, found.sums, seed=1, draws=200)
    assert np.allclose(sums.sum(axis=1), found.sums.sum(axis=0))
    in_one = np.where(found.stratum == 0, 1.0, 0.0)[:, None]
    assert (permuted_sums(found, in_one, seed=1, draws=200) == 1).all()  # each group keeps one person of a stratum
    assert np.ptp(sums[:, 0, 0]) > 0
    only = permuted_sums(found, found.sums, seed=1, draws=200, groups=[2])
    assert np.array_equal(only[:, 0], sums[:, 2])


def test_variances_are_those_between_persons() -> None:
    found = drawn(1)
    own = found.sums[found.group == 1, 0] / 20
    assert resampled(found, 10).variances[1, 0] == pytest.approx(own.var(ddof=1) / 12)


def test_replicates_spread_as_far_as_the_variance_says() -> None:
    result = resampled(drawn(1), 20_000, seed=2)
    assert result.replicates[:, :, 0].std(axis=0) == pytest.approx(np.sqrt(result.variances[:, 0]), rel=0.03)


def test_groups_without_a_rate_are_left_out_of_max_minus_min() -> None:
    assert reach(np.array([[0.1], [np.nan], [0.3]])) == pytest.approx([0.2])
    assert np.isnan(reach(np.full((2, 1), np.nan))).all()


def test_nobody_moves_where_strata_and_groups_are_the_same() -> None:
    found = drawn()
    assert is_movable(found)
    assert not is_movable(People(found.groups, found.group, found.group, found.columns, found.sums, found.trials))


@pytest.mark.parametrize("together", [1, 12, 10_000])
def test_how_many_strata_are_dealt_at_a_time_changes_nothing(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = drawn()
    expected = permuted_sums(people, people.sums, draws=50, seed=4)
    monkeypatch.setattr(resample, "TOGETHER", together)
    assert np.array_equal(permuted_sums(people, people.sums, draws=50, seed=4), expected)
