from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.protocol.schema import Rounding
from stillme.stats import simulate
from stillme.stats.simulate import Spread, audit, icc_of, judges_scores, people, rounded


@pytest.mark.parametrize("sample", [False, True])
def test_every_group_has_the_rate_that_was_planted(sample: bool) -> None:
    planted = np.array([0.03, 0.1, 0.4])
    hits = people(
        np.random.default_rng(3),
        planted,
        persons=12,
        prompts=20,
        person_sd=1.2,
        replicates=2_000,
        sample_prompts=sample,
    )
    assert hits.shape == (2_000, 3, 12)
    assert hits.mean(axis=(0, 2)) / 20 == pytest.approx(planted, rel=0.06)


def test_rates_of_none_and_all_are_exact() -> None:
    hits = people(np.random.default_rng(0), [0.0, 1.0], persons=5, prompts=4, seeds=3)
    assert (hits[0, 0] == 0).all() and (hits[0, 1] == 12).all()


def test_persons_are_as_alike_as_icc_of_says() -> None:
    shares = people(np.random.default_rng(1), [0.1], persons=40_000, prompts=20, person_sd=1.2)[0, 0] / 20
    within = 0.1 * 0.9 / 20
    measured = (shares.var() - within) / (0.09 - within)
    assert measured == pytest.approx(icc_of(1.2, 0.1), abs=0.008)


def test_the_same_persons_meet_every_editor() -> None:
    hits = people(np.random.default_rng(2), [[0.2], [0.2]], persons=2_000, prompts=20, person_sd=1.2)
    assert hits.shape == (1, 2, 1, 2_000)
    assert np.corrcoef(hits[0, :, 0])[0, 1] > 0.5


def test_one_seed_is_one_simulation() -> None:
    one, same, other = (people(np.random.default_rng(seed), [0.2, 0.3], 6, 10) for seed in (5, 5, 6))
    assert (one == same).all() and (one != other).any()


def test_an_audit_has_every_cell_of_the_protocol_once(protocol: Protocol) -> None:
    made = audit(protocol, 1, editors=["e"])
    cells = made.scores.select("person", *protocol.groups.dimensions).unique()
    assert len(cells) == 84
    asked = sum(len(protocol.axes_of(prompt)) for prompt in protocol.prompt)
    assert len(made.scores) == 84 * asked == len(made.judged) / 2
    assert made.scores.select(pl.struct("trial", "axis").is_duplicated().any()).item() is False
    assert made.scores["score"].is_between(1, 5).all()


@pytest.mark.parametrize("mode", ["half_up", "half_even", "toward_neutral"])
def test_the_simulated_ensemble_is_the_product_s_own(protocol: Protocol, mode: Rounding) -> None:
    made = audit(protocol, 2, editors=["e"], rounding=mode, noise=1.0)
    again = combine(made.judged, mode).select(
        "trial", "axis", pl.col("score").alias("own"), pl.col("mean").alias("m")
    )
    both = made.scores.join(again, on=["trial", "axis"], validate="1:1")
    assert len(both) == len(made.scores)
    assert (both["score"] == both["own"]).all() and (both["mean"] == both["m"]).all()
    assert both["flagged"].any()


def test_an_audit_plants_its_rates(protocol: Protocol) -> None:
    axis = next(axis for axis in protocol.rubrics.axes if axis.neutral == 1)
    dimension = simulate.main_dimension(protocol)
    groups = protocol.groups.ids(dimension)
    planted = np.linspace(0.05, 0.6, len(groups))
    made = audit(protocol, 4, {axis.id: planted}, ["e"], per_cell=6, spread=Spread(0.5), noise=0.0)
    found = made.scores.filter(pl.col("axis") == axis.id).group_by(dimension).agg((pl.col("score") >= 3).mean())
    shares = dict(found.iter_rows())
    assert [shares[group] for group in groups] == pytest.approx(planted, abs=0.06)


def test_judges_without_noise_agree() -> None:
    scores = judges_scores(np.random.default_rng(0), np.array([-3.0, -0.5, 0.5, 1.5, 9.0]), noise=0.0)
    assert scores.tolist() == [[1, 2, 3, 4, 5]] * 2


def test_without_a_neutral_score_halves_go_to_the_even_number() -> None:
    assert rounded(np.array([2.5, 3.5]), "toward_neutral", None).tolist() == [2, 4]
