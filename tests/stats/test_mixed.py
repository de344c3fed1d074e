"""The ordinal mixed model against R's published answers, against itself done another way, and on planted effects."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from statsmodels.miscmodels.ordinal_model import OrderedModel

from stillme.core.errors import InputError
from stillme.stats import cumulative, mixed
from stillme.stats.cumulative import Chances, Floats
from stillme.stats.gee import exchangeable
from stillme.stats.laplace import Laplace, Rows
from stillme.stats.mixed import Fit, arrange, fit

MODELS = ("clm_wine", "clmm_wine", "gee_ohio", "glmer_cbpp")  # vectors that are reproduced here
DATA = Path(__file__).parent / "data"


def table(name: str) -> dict[str, list[str]]:
    with (DATA / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {column: [row[column] for row in rows] for column in rows[0]}


def wine(*factors: str) -> Fit:
    data = table("wine.csv")
    design = np.column_stack([np.array(data["temp"]) == "warm", np.array(data["contact"]) == "yes"])
    levels = {name: data[name] for name in factors}
    return fit(np.array(data["rating"], int), design, ["temp", "contact"], levels)


# Published answers


def test_the_ordered_logit_of_the_wine() -> None:
    found = wine()
    assert found.coefficients == pytest.approx({"temp": 2.503, "contact": 1.528}, abs=1e-3)
    assert found.thresholds == pytest.approx([-1.344, 1.251, 3.467, 5.006], abs=1e-3)
    assert found.loglik == pytest.approx(-86.49, abs=5e-3)
    assert found.errors == pytest.approx({"temp": 0.5287, "contact": 0.4766}, abs=1e-3)
    assert (found.observations, found.parameters, found.converged, found.why) == (72, 6, True, "")


def test_the_mixed_model_of_the_wine() -> None:
    found = wine("judge")
    assert found.coefficients == pytest.approx({"temp": 3.063, "contact": 1.835}, abs=1e-3)
    assert found.thresholds == pytest.approx([-1.624, 1.513, 4.229, 6.089], abs=1e-3)
    assert found.spreads["judge"] ** 2 == pytest.approx(1.279, abs=1e-3)
    assert found.loglik == pytest.approx(-81.57, abs=5e-3)
    assert found.errors == pytest.approx({"temp": 0.5954, "contact": 0.5125}, abs=1e-3)
    for name, value in r_on_wine().items():  # R itself, where it is there
        assert {**found.coefficients, "loglik": found.loglik}[name] == pytest.approx(value, abs=1e-3)


def r_on_wine() -> Mapping[str, float]:
    """What R's ordinal::clmm finds here, or nothing where there is no R with it."""
    script = (
        "suppressMessages(library(ordinal)); m <- clmm(rating ~ temp + contact + (1|judge), data = wine);"
        'cat(sprintf(\'{"temp": %f, "contact": %f, "loglik": %f}\', m$beta[1], m$beta[2], m$logLik))'
    )
    if shutil.which("Rscript") is None:
        return {}
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def test_the_mixed_logistic_regression_of_the_herds() -> None:
    data = {name: np.array(column, int) for name, column in table("cbpp.csv").items()}
    periods = np.column_stack([data["period"] == k for k in (2, 3, 4)])
    scores = np.repeat([1, 0], len(data["herd"]))
    weights = np.concatenate([data["cases"], data["size"] - data["cases"]])
    herds = {"herd": np.tile(data["herd"], 2)}
    found = fit(scores, np.tile(periods, (2, 1)), ["2", "3", "4"], herds, weights)
    assert [-found.thresholds[0], *found.coefficients.values()] == pytest.approx(
        [-1.3983, -0.9919, -1.1282, -1.5797], abs=1e-3
    )
    assert found.spreads["herd"] ** 2 == pytest.approx(0.4123, abs=1e-3)
    assert found.observations == 842


def test_the_estimating_equations_of_the_children() -> None:
    hits, design, clusters = ohio()
    found = exchangeable(hits, design, clusters)
    assert found.coefficients == pytest.approx([-1.9005, -0.1412, 0.3138, 0.0708], abs=1e-3)
    assert np.sqrt(np.diag(found.robust)) == pytest.approx([0.1191, 0.0582, 0.1878, 0.0883], abs=1e-3)
    assert found.correlation == pytest.approx(0.3546, abs=1e-3)
    assert found.clusters == 537


def ohio() -> tuple[Floats, Floats, Floats]:
    data = {name: np.array(column, int) for name, column in table("ohio.csv").items()}
    patterns = np.repeat(np.arange(len(data["children"])), data["children"])
    answers = np.column_stack([data[f"age_{age}"] for age in (7, 8, 9, 10)])[patterns]
    age, smoke = np.tile([-2, -1, 0, 1], len(patterns)), np.repeat(data["smoke"][patterns], 4)
    return (
        answers.ravel().astype(float),
        np.column_stack([age, smoke, age * smoke]),
        np.repeat(np.arange(len(patterns)), 4),
    )


# The same done another way


def planted(
    seed: int = 0,
    persons: int = 24,
    prompts: int = 5,
    effect: float = 0.0,
    judge: float = 0.0,
    spread: float = 0.8,
) -> tuple[np.ndarray, Floats, list[str], dict[str, np.ndarray]]:
    """Two groups of persons × prompts × 2 judges; group 1 is `effect` higher, and `judge` more with judge 1."""
    chance = np.random.default_rng(seed)
    person, prompt, reader = (
        axis.ravel() for axis in np.meshgrid(np.arange(persons), np.arange(prompts), [0, 1], indexing="ij")
    )
    edit = person * prompts + prompt
    group = person % 2
    eta = effect * group + judge * group * reader
    eta = eta + spread * chance.normal(size=persons)[person] + 0.6 * chance.normal(size=prompts)[prompt]
    eta = eta + 0.9 * chance.normal(size=persons * prompts)[edit] + chance.logistic(size=len(person))
    scores = 1 + (eta[:, None] > np.array([-1.0, 0.5, 1.5])).sum(axis=1)
    design = np.column_stack([group, reader, group * reader]).astype(float)
    names = ["group", "judge", "group:judge"]
    return scores, design, names, {"person": person, "prompt": prompt, "edit": edit}


def rows_of(scores: np.ndarray, design: Floats, names: list[str], factors: Mapping[str, np.ndarray]) -> Rows:
    made = arrange(mixed._table(scores, design, names, factors, None, None), design, tuple(factors))[0]
    assert made is not None
    return made


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.floats(-1.5, 1.5), st.floats(0.05, 2.0), st.sampled_from([0, 1, 2, 3, 4]))
def test_the_gradient_is_the_slope_of_the_likelihood(
    seed: int, coefficient: float, spread: float, factors: int
) -> None:
    scores, design, names, levels = planted(seed, persons=8, prompts=3)
    half = {"half": 2 * levels["person"] + levels["prompt"] % 2}  # two a person
    chosen = dict(list((levels | half).items())[:factors])
    rows = rows_of(scores, design, names, chosen)
    laplace = Laplace(rows)
    steps = np.linspace(-1, 0.5, rows.categories - 1)
    at = np.concatenate([steps, [coefficient, 0.3, -0.2], spread * np.arange(1, factors + 1)])
    slope = laplace.value_and_slope(at)[1]
    nudges = 1e-5 * np.eye(len(at))
    differences = [(laplace.value(at + n) - laplace.value(at - n)) / 2e-5 for n in nudges]
    assert slope == pytest.approx(differences, abs=2e-4)


def test_eliminating_the_edits_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(3, effect=0.5)
    eliminated, rows = fit(*data), rows_of(*data)
    assert rows.has_inner and (rows.anchors, rows.slots, rows.sizes) == (24, 1, (5,))
    monkeypatch.setattr(mixed, "_is_nested", lambda *_: False)
    assert not rows_of(*data).has_inner
    dense = fit(*data)
    assert eliminated.loglik == pytest.approx(dense.loglik, abs=1e-8)
    assert eliminated.estimate == pytest.approx(dense.estimate, abs=1e-6)
    assert eliminated.covariance == pytest.approx(dense.covariance, abs=1e-4)


def test_what_is_nested_in_persons_is_eliminated_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, design, names, levels = planted(10, effect=0.5)
    levels = {**levels, "half": 2 * levels["person"] + levels["prompt"] % 2}
    rows, nested = rows_of(scores, design, names, levels), fit(scores, design, names, levels)
    assert (rows.anchors, rows.slots, rows.sizes, rows.has_inner) == (24, 3, (5,), True)
    monkeypatch.setattr(mixed, "_is_nested", lambda *_: False)
    dense = fit(scores, design, names, levels)
    assert nested.loglik == pytest.approx(dense.loglik, abs=1e-8)
    assert nested.estimate == pytest.approx(dense.estimate, abs=1e-5)
    assert list(nested.spreads) == ["person", "prompt", "edit", "half"]


def test_the_likelihood_is_the_one_of_the_whole_matrix() -> None:
    """Laplace's formula with every effect in one vector and H built whole."""
    scores, design, names, levels = planted(5, persons=6, prompts=3)
    rows = rows_of(scores, design, names, levels)
    at = np.array([-1.0, 0.3, 0.1, 0.4, 0.1, -0.2, 0.7, 0.5, 0.9])
    codes = [rows.anchor, *rows.levels, np.arange(len(rows.times))]
    assert rows.unit is not None and rows.times.tolist() == [1.0] * 18
    z = np.concatenate([np.eye(c.max() + 1)[c] for c in codes], axis=1)[rows.unit]
    z = z * np.repeat(at[-3:], [c.max() + 1 for c in codes])
    theta, fixed, u = cumulative.thresholds(at[:3]), (rows.patterns @ at[3:6])[rows.cell], np.zeros(z.shape[1])
    for _ in range(30):
        c = Chances(rows.y, fixed + z @ u, theta)
        whole = np.eye(len(u)) + z.T @ (z * c.bend[:, None])
        u = u - np.linalg.solve(whole, z.T @ c.pull + u)
    expected = -c.log.sum() + u @ u / 2 + np.linalg.slogdet(whole)[1] / 2
    assert Laplace(rows).value(at) == pytest.approx(expected, abs=1e-9)


def test_equal_edits_are_one_that_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, design, names, levels = planted(4)
    again = {name: np.concatenate([codes, codes + 1000 * (name == "edit")]) for name, codes in levels.items()}
    data = np.tile(scores, 2), np.tile(design, (2, 1)), names, again
    rows, collapsed = rows_of(*data), fit(*data)
    assert len(rows.times) == 120 and set(rows.times.tolist()) == {2.0}
    monkeypatch.setattr(mixed, "_is_nested", lambda *_: False)
    assert not rows_of(*data).has_inner
    whole = fit(*data)
    assert collapsed.observations == whole.observations == 480
    assert collapsed.loglik == pytest.approx(whole.loglik, abs=1e-8)
    assert collapsed.estimate == pytest.approx(whole.estimate, abs=1e-5)


def test_weights_are_rows_that_occur_so_often() -> None:
    scores, design, names, levels = planted(4)
    person = {"person": levels["person"]}
    thrice = fit(np.tile(scores, 3), np.tile(design, (3, 1)), names, {"person": np.tile(levels["person"], 3)})
    assert fit(scores, design, names, person, np.full(len(scores), 3)).loglik == pytest.approx(thrice.loglik)


def test_the_order_of_rows_means_nothing() -> None:
    scores, design, names, levels = planted(2, effect=0.7)
    order = np.random.default_rng(0).permutation(len(scores))
    moved = fit(scores[order], design[order], names, {name: codes[order] for name, codes in levels.items()})
    assert fit(scores, design, names, levels).estimate == pytest.approx(moved.estimate, abs=1e-9)


def test_without_factors_it_is_statsmodels_ordered_logit() -> None:
    scores, design, names, _ = planted(8, persons=60, effect=0.8)
    known = OrderedModel(scores, design, distr="logit").fit(method="bfgs", disp=False, gtol=1e-8)
    found = fit(scores, design, names)
    assert list(found.coefficients.values()) == pytest.approx(known.params[:3], abs=1e-4)
    assert list(found.errors.values()) == pytest.approx(known.bse[:3], abs=1e-3)
    assert found.loglik == pytest.approx(known.llf, abs=1e-6)


@given(st.lists(st.floats(-600, 600), min_size=1, max_size=5), st.integers(0, 3))
def test_chances_hold_in_the_far_tails(etas: list[float], score: int) -> None:
    eta, theta = np.array(etas), np.array([-1.0, 0.0, 2.0])
    all_scores = [Chances(np.full(len(eta), k), eta, theta) for k in range(4)]
    assert sum(np.exp(c.log) for c in all_scores) == pytest.approx(np.ones(len(eta)))
    one = all_scores[score]
    assert np.isfinite(one.log).all() and (one.bend >= 0).all()
    assert one.upper_share - one.lower_share == pytest.approx(one.pull, abs=1e-9)


# Planted effects, and what cannot be known


def test_a_planted_effect_and_its_spreads_are_found() -> None:
    found = fit(*planted(11, persons=120, prompts=10, effect=1.0))
    value, error = found.coefficients["group"], found.errors["group"]
    assert value is not None and error is not None
    assert abs(value - 1.0) < 2.5 * error < 1.0
    assert found.spreads["person"] == pytest.approx(0.8, abs=0.2)
    assert found.coefficients["group:judge"] == pytest.approx(0.0, abs=0.35)


def test_a_judge_who_scores_one_group_higher_is_found() -> None:
    found = fit(*planted(12, persons=80, prompts=8, judge=1.0))
    assert found.coefficients["group:judge"] == pytest.approx(1.0, abs=0.35)


def test_a_spread_of_nothing_is_zero() -> None:
    """More alike than chance: the likeliest spread is 0, which is an answer."""
    scores, persons = np.tile([1, 2, 3], 40), np.repeat(np.arange(40), 3)
    found = fit(scores, np.zeros((120, 0)), [], {"person": persons})
    assert found.converged and found.spreads == {"person": 0.0}
    assert found.loglik == pytest.approx(120 * np.log(1 / 3))
    assert found.thresholds == pytest.approx(special.logit([1 / 3, 2 / 3]), abs=1e-5)


def test_a_group_at_one_end_has_no_estimate_and_harms_no_other() -> None:
    scores, design, _, levels = planted(7, persons=60, effect=0.4)
    lowest = np.where(levels["person"] % 3 == 0, 1, scores)
    columns = np.column_stack([levels["person"] % 3 == 0, design[:, 0]])
    found = fit(lowest, columns, ["lowest", "group"], levels)
    assert found.coefficients["lowest"] is None and found.errors["lowest"] is None
    assert "lowest" in found.why and found.converged
    kept = levels["person"] % 3 != 0
    alone = fit(lowest[kept], columns[kept][:, 1:], ["group"], {n: c[kept] for n, c in levels.items()})
    assert found.coefficients["group"] == pytest.approx(alone.coefficients["group"], abs=0.02)
    assert found.errors["group"] == pytest.approx(alone.errors["group"], rel=0.1)


def test_columns_that_say_the_same_have_one_estimate() -> None:
    scores, design, names, levels = planted(9)
    doubled = np.column_stack([design, design[:, 0], np.ones(len(scores))])
    found = fit(scores, doubled, [*names, "again", "constant"], levels)
    assert found.coefficients["again"] is None and found.coefficients["constant"] is None
    assert found.parameters == 9
    assert found.loglik == pytest.approx(fit(scores, design, names, levels).loglik, abs=1e-6)


def test_a_constant_score_and_none_at_all_have_no_fit() -> None:
    same = fit([3, 3, 3], [[0.0], [1.0], [1.0]], ["x"], {"person": [0, 1, 2]})
    nothing = fit([], np.zeros((0, 1)), ["x"])
    assert (same.loglik, same.coefficients, same.why) == (None, {"x": None}, "every score is the same")
    assert (nothing.loglik, nothing.why) == (None, "there is no score")


def test_wrong_input_is_told() -> None:
    with pytest.raises(InputError, match="differ in length"):
        fit([1, 2], [[0.0], [1.0]], ["x"], {"person": [1]})
    with pytest.raises(InputError, match="missing values"):
        fit([1, 2], [[np.nan], [1.0]], ["x"])


def test_quick_errors_are_near_the_whole_ones() -> None:
    data = planted(6, persons=60, effect=0.5)
    whole, quick = fit(*data).errors, fit(*data, errors=False).errors
    for name in whole:
        assert quick[name] == pytest.approx(whole[name], rel=0.1)


def test_a_search_ends_at_the_same_place_wherever_it_starts() -> None:
    """The smaller model from what the larger one says of it, beside the smaller model from nothing."""
    scores, design, names, levels = planted(4, persons=30, effect=0.8, judge=0.5)
    full = fit(scores, design, names, levels)
    for kept in (names[:2], names[1:], names[:1], []):
        columns = design[:, [names.index(name) for name in kept]]
        guess = full.narrowed(kept)
        assert guess is not None and guess.metric is not None and len(guess.at) == len(guess.metric)
        cold, warm = fit(scores, columns, kept, levels), fit(scores, columns, kept, levels, start=guess)
        assert warm.converged and warm.evaluations < cold.evaluations
        assert warm.loglik == pytest.approx(cold.loglik, abs=1e-7)
        assert warm.estimate == pytest.approx(cold.estimate, abs=1e-3)
        assert warm.covariance == pytest.approx(cold.covariance, abs=1e-3)


def test_where_the_data_say_nothing_of_a_coefficient_no_search_starts_from_it() -> None:
    scores = [1, 2, 1, 3, 2, 3, 1, 3, 1, 1]
    design = [[0, 0]] * 4 + [[1, 0]] * 4 + [[0, 1]] * 2
    full = fit(scores, design, ["x", "lowest only"])
    assert full.flat.size and full.narrowed(["x"]) is None


def test_data_are_prepared_once_for_many_designs() -> None:
    scores, design, names, levels = planted(6, effect=0.6)
    rows = np.arange(len(scores))
    data = mixed.data_of(scores, rows, levels)
    for columns in (3, 2, 0):
        once, anew = (
            mixed.fit_to(data, design[:, :columns], names[:columns]),
            fit(scores, design[:, :columns], names[:columns], levels),
        )
        assert once.loglik == pytest.approx(anew.loglik, abs=1e-7) and once.parameters == anew.parameters
        assert once.estimate == pytest.approx(anew.estimate, abs=1e-4)
    assert mixed.fit_to(mixed.data_of([2, 2], [0, 0], {}), [[1.0]], ["x"]).why == "every score is the same"


def test_a_search_that_stays_beyond_its_limit_is_given_up() -> None:
    """Judges who always agree: an edit's own intercept grows without bound."""
    scores, design, names, levels = planted(8, persons=30)
    agreed = scores[2 * (np.arange(len(scores)) // 2)]
    whole = fit(agreed, design, names, levels, errors=False)
    stopped = fit(agreed, design, names, levels, errors=False, limits={"edit": 4.0})
    assert whole.spreads["edit"] > 4 and stopped.spreads["edit"] > 4
    assert not stopped.converged and stopped.evaluations < whole.evaluations
    far = fit(agreed, design, names, levels, errors=False, limits={"edit": 1e6})
    assert far.loglik == whole.loglik
