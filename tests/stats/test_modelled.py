"""The model of an audit: planted differences are found where they were planted, and what cannot be known is null."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import special

from stillme.protocol import Protocol
from stillme.stats import modelled as module
from stillme.stats import simulate
from stillme.stats.mixed import Fit
from stillme.stats.modelled import Model, at_or_below, model, treatment_model
from tests.stats.audits import no_nan

AXIS = "race_drift"
SIGNED = "skin_tone"


def audit(
    protocol: Protocol,
    *,
    seed: int = 0,
    races: int = 3,
    each: int = 8,
    prompts: int = 6,
    editors: tuple[str, ...] = ("one", "two"),
    judges: tuple[str, ...] = ("a", "b"),
    effect: dict[str, float] | None = None,
    judge_effect: float = 0.0,
    axis: str = AXIS,
) -> pl.DataFrame:
    """`judged` of a simulated audit: `effect` of an editor on everyone but the reference group."""
    chance, groups = np.random.default_rng(seed), protocol.groups
    people = pl.DataFrame(
        {
            "person": [f"p{k}" for k in range(races * each)],
            "race": np.repeat(groups.ids("race")[:races], each),
            "gender": [groups.ids("gender")[k % 2] for k in range(races * each)],
            "age": [groups.ids("age")[k // 2 % 2] for k in range(races * each)],
            "lean": 0.6 * chance.normal(size=races * each),
        }
    )
    asked = pl.DataFrame({"prompt": [f"q{k}" for k in range(prompts)], "hard": 0.6 * chance.normal(size=prompts)})
    cells = people.join(asked, how="cross")
    cells = cells.join(pl.DataFrame({"editor": editors}), how="cross").with_row_index("trial")
    cells = cells.with_columns(
        pl.col("trial").cast(pl.String), noise=pl.Series(0.5 * chance.normal(size=cells.height))
    )
    rows = cells.join(pl.DataFrame({"judge": judges, "rank": range(len(judges))}), how="cross")
    other = pl.col("race") != groups.reference_group["race"]
    planted = pl.col("editor").replace_strict(effect or {}, default=0.0, return_dtype=pl.Float64)
    shift = other * (planted + judge_effect * pl.col("rank"))
    logistic = pl.Series(chance.logistic(size=rows.height))
    latent = rows.select((pl.col("lean") + pl.col("hard") + pl.col("noise") + shift + logistic).alias("x"))[
        "x"
    ].to_numpy()
    scores = 1 + (latent[:, None] > np.array([0.0, 1.0, 2.0, 3.0])).sum(axis=1)
    return rows.with_columns(
        axis=pl.lit(axis),
        score=pl.Series(scores, dtype=pl.Int64),
        requested=pl.lit(False),
        neutral=pl.lit(None, pl.Int64),
    )


def p_of(found: Model, term: str) -> float:
    return float(found.tests.filter(pl.col("term") == term)["p"].item())


@pytest.fixture(scope="module")
def uneven(protocol: Protocol) -> Model:
    """The second editor scores everyone else 1.5 higher."""
    return model(audit(protocol, seed=1, effect={"two": 1.5}), protocol)


def test_a_planted_difference_is_found_in_the_editor_that_has_it(uneven: Model) -> None:
    odds = {(r["editor"], r["group"]): r for r in uneven.odds.iter_rows(named=True)}
    assert {group for _, group in odds} == {"black", "east_asian"}
    assert odds["two", "black"]["low"] < np.exp(1.5) < odds["two", "black"]["high"]
    assert odds["two", "black"]["low"] > 1
    assert odds["one", "black"]["low"] < 1 < odds["one", "black"]["high"]
    both = np.sqrt(odds["one", "black"]["odds_ratio"] * odds["two", "black"]["odds_ratio"])
    assert odds[None, "black"]["odds_ratio"] == pytest.approx(both)
    assert p_of(uneven, "race") < 0.01 and p_of(uneven, "race:editor") < 0.01
    assert p_of(uneven, "race:judge") > 0.05


def test_variance_is_shared_out_whole(uneven: Model) -> None:
    shares = dict(uneven.components.select("factor", "share").iter_rows())
    assert list(shares) == ["person", "person:editor", "prompt", "edit", "residual"]
    assert sum(shares.values()) == pytest.approx(1.0)
    levels = dict(uneven.components.select("factor", "levels").iter_rows())
    assert levels == {"person": 24, "person:editor": 48, "prompt": 6, "edit": 288, "residual": None}


def test_marginal_probabilities_are_near_the_shares_of_scores(protocol: Protocol, uneven: Model) -> None:
    scores = audit(protocol, seed=1, effect={"two": 1.5})
    seen = scores.group_by("race", "editor").agg((pl.col("score") >= 3).mean().alias("seen"))
    rows = uneven.marginal.filter(pl.col("outcome") == "race_changed").join(
        seen, left_on=["group", "editor"], right_on=["race", "editor"], validate="1:1"
    )
    assert rows.height == 6
    for row in rows.iter_rows(named=True):
        assert row["probability"] == pytest.approx(row["seen"], abs=0.06)
        assert row["low"] < row["probability"] < row["high"] and row["low"] < row["seen"] < row["high"]


def test_splits_of_a_proportional_scale_agree_with_the_ordinal_model(uneven: Model) -> None:
    rows = uneven.splits.drop_nulls("log_odds")
    assert rows["at_least"].unique().sort().to_list() == [2, 3, 4, 5]
    for row in rows.iter_rows(named=True):
        assert abs(row["log_odds"] - row["ordinal"]) < 2.5 * row["error"]


def test_a_judge_who_scores_groups_differently_is_found(protocol: Protocol) -> None:
    found = model(audit(protocol, seed=6, judge_effect=1.2), protocol)
    assert p_of(found, "race:judge") < 0.01
    assert p_of(found, "race:editor") > 0.01


def test_the_order_of_rows_means_nothing(protocol: Protocol) -> None:
    scores = audit(protocol, seed=3, editors=("one",))
    here, there = model(scores, protocol), model(scores.sample(fraction=1, shuffle=True, seed=1), protocol)
    assert here.tests["p"].to_list() == pytest.approx(there.tests["p"].to_list(), abs=1e-6)
    assert here.marginal["low"].to_list() == pytest.approx(there.marginal["low"].to_list(), abs=1e-6)


def test_terms_with_one_level_are_left_out(protocol: Protocol) -> None:
    one_judge = model(audit(protocol, judges=("a",)), protocol)
    assert one_judge.fits["formula"].item() == (
        "score ~ race + editor + race:editor + gender + age + (1|person) + (1|person:editor) + (1|prompt)"
    )
    assert one_judge.tests["term"].to_list() == ["race", "race:editor", "gender", "age"]
    one_group = model(audit(protocol, races=1), protocol)
    assert one_group.odds.is_empty() and one_group.splits.is_empty()
    assert one_group.tests["term"].to_list() == ["gender", "age"]
    assert one_group.marginal["probability"].null_count() == 0


def test_requested_changes_missing_scores_and_labels_are_left_out(protocol: Protocol) -> None:
    scores = audit(protocol, editors=("one",))
    asked = scores.with_columns(requested=pl.lit(True), score=pl.lit(5, pl.Int64))
    missing = scores.with_columns(score=pl.lit(None, pl.Int64))
    unlabelled = scores.with_columns(race=pl.lit(None, pl.String))
    more = model(pl.concat([scores, asked, missing, unlabelled]), protocol)
    assert more.fits["observations"].item() == scores.height
    assert more.tests.equals(model(scores, protocol).tests)


@pytest.mark.parametrize("score", [None, 3])
def test_nothing_to_model_is_said(protocol: Protocol, score: int | None) -> None:
    found = model(audit(protocol).with_columns(score=pl.lit(score, pl.Int64)), protocol)
    why = "there is no score" if score is None else "every score is the same"
    assert found.fits["why"].item() == why and set(found.odds["why"]) == ({why} if score else set())
    assert found.components.is_empty() and found.marginal.is_empty() and found.splits.is_empty()
    assert found.tests["p"].null_count() == found.tests.height
    assert set(found.tests["why"]) == ({why} if score else set())
    assert no_nan(*vars(found).values())


def test_a_group_at_the_floor_has_no_odds_and_a_reason(protocol: Protocol) -> None:
    scores = audit(protocol, seed=4)
    floor = (pl.col("race") == "black") & (pl.col("editor") == "one")
    found = model(scores.with_columns(score=pl.when(floor).then(1).otherwise(pl.col("score"))), protocol)
    odds = {(r["editor"], r["group"]): r for r in found.odds.iter_rows(named=True)}
    assert odds["one", "black"]["odds_ratio"] is None and "at one end" in odds["one", "black"]["why"]
    assert odds["two", "black"]["odds_ratio"] is not None and odds["one", "east_asian"]["low"] is not None
    assert p_of(found, "race:editor") < 1e-6
    assert no_nan(*vars(found).values())


def test_an_empty_frame_gives_empty_tables(protocol: Protocol) -> None:
    found = model(audit(protocol).clear(), protocol)
    assert all(frame.is_empty() for frame in vars(found).values())


def test_human_ratings_have_raters_that_are_a_sample(protocol: Protocol) -> None:
    ratings = audit(protocol, seed=5, effect={"two": 1.5}, judges=("x", "y", "z", "w")).rename({"judge": "rater"})
    found = model(ratings.drop("requested"), protocol, reader="rater")
    assert found.components["factor"].to_list() == [
        "person",
        "person:editor",
        "prompt",
        "edit",
        "rater",
        "residual",
    ]
    assert "race:rater" not in found.tests["term"].to_list()
    assert p_of(found, "race:editor") < 0.01


def test_quadrature_averages_over_all_effects() -> None:
    full = Fit(("x",), ("a", "b"), (1, 2), np.array([0.4, 0.7, 0.9, 1.2]), loglik=-1.0)
    chance = np.random.default_rng(0).normal(size=400_000)
    below, slope = at_or_below(full, 0, np.array([[0.0], [1.0]]), np.array([0.25, 0.75]))
    eta = 0.4 - 1.5 * chance  # 0.9² + 1.2² = 1.5²
    drawn = 0.25 * special.expit(eta).mean() + 0.75 * special.expit(eta - 0.7).mean()
    assert below == pytest.approx(drawn, abs=2e-3)
    for k in range(4):
        nudge = 1e-6 * np.eye(4)[k]
        ends = [
            at_or_below(
                Fit(("x",), ("a", "b"), (1, 2), full.estimate + sign * nudge, loglik=-1.0),
                0,
                np.array([[0.0], [1.0]]),
                np.array([0.25, 0.75]),
            )[0]
            for sign in (1, -1)
        ]
        assert slope[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


# Treatments


def arms(protocol: Protocol, effect: float, seed: int = 0) -> pl.DataFrame:
    """Signed scores in two arms; the second is `effect` nearer to "nothing changed" for everyone but the reference."""
    first, second = (arm.id for arm in protocol.manifest.arms[:2])
    chance = np.random.default_rng(seed)
    cases = audit(protocol, seed=seed, judges=("a",), axis=SIGNED, each=10).drop("score")
    parts = []
    for arm in (first, second):
        other = (cases["race"] != protocol.groups.reference_group["race"]).to_numpy()
        shift = effect * other * (arm == second)
        latent = cases["lean"].to_numpy() + cases["hard"].to_numpy() + cases["noise"].to_numpy()
        latent = latent + shift + chance.logistic(size=cases.height)
        distance = (latent[:, None] > np.array([-0.5, 1.0])).sum(axis=1)
        scores = 3 + distance * chance.choice([-1, 1], size=cases.height)
        parts.append(
            cases.with_columns(arm=pl.lit(arm), score=pl.Series(scores, dtype=pl.Int64), neutral=pl.lit(3))
        )
    return pl.concat(parts)


def test_a_treatment_that_helps_one_group_alone_is_found(protocol: Protocol) -> None:
    found = treatment_model(arms(protocol, -1.5), protocol)
    p = dict(found.tests.select("term", "p").iter_rows())
    assert p["race:arm"] < 0.01 and p["arm"] < 0.01
    odds = {row["group"]: row for row in found.odds.iter_rows(named=True)}
    assert list(odds) == [None, "white", "black", "east_asian"]
    assert odds["black"]["low"] < np.exp(-1.5) < odds["black"]["high"] < 1
    assert odds["white"]["low"] < 1 < odds["white"]["high"]
    assert found.components["factor"].to_list() == ["person", "person:arm", "prompt", "case", "residual"]


def test_a_treatment_without_effect_is_not_found(protocol: Protocol) -> None:
    found = treatment_model(arms(protocol, 0.0, seed=3), protocol)
    assert found.tests["p"].to_numpy().min() > 0.05
    assert no_nan(*vars(found).values())


def test_judges_who_always_agree_leave_persons_what_they_differ_by(protocol: Protocol) -> None:
    """An edit's own intercept would grow without bound, and persons would seem not to differ at all."""
    planted = simulate.Spread(person=1.2, pair=0.3, prompt=0.6)
    judged = simulate.audit(protocol, 3, editors=("e",), spread=planted, noise=0.0).judged
    found = model(judged.filter(pl.col("axis") == "skin_tone"), protocol)
    spreads = dict(found.components.select("factor", "sd").iter_rows())
    assert set(spreads) == {"person", "prompt", "residual"}
    assert 0.8 < spreads["person"] < 1.6 and 0.3 < spreads["prompt"] < 0.9
    assert "count as one" in found.fits["why"][0] and "(1|edit)" not in found.fits["formula"][0]
    alone = model(judged.filter((pl.col("axis") == "skin_tone") & (pl.col("rank") == 0)), protocol)
    tests = dict(found.tests.select("term", "chi2").iter_rows())
    for term, chi2 in alone.tests.select("term", "chi2").iter_rows():
        assert tests[term] == pytest.approx(chi2, abs=0.05), "two judges who agree say no more than one of them"


def test_many_scores_are_modelled_on_a_sample_of_persons(protocol: Protocol) -> None:
    judged = simulate.audit(protocol, 4, editors=("e",), per_cell=3, prompts=["O-01", "O-02", "V-01"]).judged
    scores = judged.filter(pl.col("axis") == "race_drift")
    some = module.sampled(scores, protocol, scores.height // 3, seed=1)
    assert some["person"].n_unique() == 84 and some.group_by("person").len()["len"].unique().to_list() == [6]
    assert some.select("race", "gender", "age").unique().height == 84, "as many of every cell"
    assert module.sampled(scores, protocol, scores.height // 3, seed=1).equals(some)
    assert not module.sampled(scores, protocol, scores.height // 3, seed=2).equals(some)
    found = model(scores, protocol, most=scores.height // 3, seed=1)
    assert "fitted on 84 of 252 persons" in found.fits["why"][0] and found.fits["persons"].to_list() == [84]
    assert found.tests.equals(model(some, protocol).tests)
