"""Twenty-seven published examples: what we compute is what the papers print, and what R and others recompute."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stillme.stats.agreement import kappa_of
from stillme.stats.equivalence import tost, welch
from stillme.stats.families import benjamini_hochberg
from stillme.stats.icc import Form, icc
from stillme.stats.intervals import wilson
from stillme.stats.ranks import cliff, dunn, kruskal, mann_whitney, spearman, wilcoxon
from stillme.stats.reliability import alpha, counts, fleiss, gwet
from stillme.stats.samplesize import whitehead
from tests.stats.test_mixed import MODELS

HERE = Path(__file__).parent
VECTORS = {vector["id"]: vector for vector in json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))}
Figures = dict[str, float | None]


def table(raters: Sequence[Sequence[float | None]], points: int) -> np.ndarray:
    """Raters × things, as printed, to things × points."""
    scores = np.array(raters, float).T
    return counts(np.repeat(np.arange(len(scores)), scores.shape[1]), scores.ravel(), range(1, points + 1))


def letters(data: dict[str, list[Any]]) -> list[list[int]]:
    values = sorted({value for scores in data.values() for value in scores})
    return [[values.index(value) + 1 for value in scores] for scores in data.values()]


def nominal(data: dict[str, list[Any]]) -> Figures:
    raters = letters(data)
    return {"alpha_nominal": alpha(table(raters, max(score for scores in raters for score in scores)), "nominal")}


def with_missing(data: Sequence[Sequence[float | None]]) -> Figures:
    rated = table(data, 5)
    alphas = {metric: alpha(rated, metric) for metric in ("nominal", "ordinal", "interval", "ratio")}
    first, others = (
        gwet(rated),
        {f"AC2_{w}": gwet(rated, w).coefficient for w in ("quadratic", "ordinal", "linear")},
    )
    return {**alphas, "AC1": first.coefficient, "AC1_se": first.error, **others}


def psychiatrists(data: list[list[int]]) -> Figures:
    found = fleiss(data)
    names = ("depression", "personality", "schizophrenia", "neurosis", "other")
    return {"kappa": found.kappa, "z": found.z, **dict(zip(names, found.categories, strict=True))}


def cohen_1968(data: dict[str, list[list[float]]]) -> Figures:
    shares, lost = 100 * np.array(data["proportions"]), np.array(data["disagreement_weights"], float)
    return {"kappa": kappa_of(shares).kappa, "kappa_w": kappa_of(shares, 1 - lost / lost.max()).kappa}


def signed_ranks(data: dict[str, list[float]]) -> Figures:
    found = wilcoxon(np.array(data["x"]) - np.array(data["y"]), denominator=1000, side="greater")
    return {"V": found.v, "p_greater": found.p}


def step_up(data: list[float]) -> Figures:
    adjusted = [p for p in benjamini_hochberg(data) if p is not None]
    rejected, simply = sum(p <= 0.05 for p in adjusted), sum(p * len(data) <= 0.05 for p in data)
    return {"n_reject_bh": rejected, "n_reject_bonf": simply, "bh_adj4": adjusted[3]}


def score_interval(data: dict[str, int]) -> Figures:
    low, high = wilson(data["r"] / data["n"], data["n"], 1.959963984540054)
    return {"lo": low, "hi": high}


def lakens(data: dict[str, Any]) -> Figures:
    found = welch(tuple(data["m"]), tuple(data["sd"]), tuple(data["n"]))
    margin = data["d"] * math.sqrt((data["sd"][0] ** 2 + data["sd"][1] ** 2) / 2)
    told = tost(found.difference, found.error, found.df, margin)
    return {"t_upper": told.t_upper, "p_tost": told.p, "df": found.df}


def dunn_z(data: list[list[float]]) -> Figures:
    found = {(pair.first, pair.second): pair.z for pair in dunn(["normal", "copd", "asb"], data)}
    return {f"z_{first}_{second}": z for (first, second), z in found.items()}


def televisions(data: dict[str, list[float]]) -> Figures:
    found = spearman(data["iq"], data["tv"])
    return {"rho": found.rho, "p_t": found.p, "p_exact": found.p_exact}


def permeability(data: dict[str, list[float]]) -> Figures:
    found = mann_whitney(data["x"], data["y"], "greater")
    return {"W": found.u, "p_greater": found.p}


COMPUTED: dict[str, Callable[[Any], Figures]] = {
    "kripp2011_A_binary": nominal,
    "kripp2011_B_nominal": nominal,
    "kripp2011_C_missing": with_missing,
    "kripp_wikipedia": lambda data: {m: alpha(table(data, 4), m) for m in ("nominal", "interval")},
    "fleiss1971": psychiatrists,
    "fleiss_wikipedia": lambda data: {"kappa": fleiss(data).kappa},
    "cohen1968": cohen_1968,
    "shrout_fleiss1979": lambda data: {form.value: found.icc for form, found in icc(data).items()},
    "kw_hollander_wolfe": lambda data: {"H": kruskal(data).h, "p": kruskal(data).p},
    "dunn_hollander_wolfe": dunn_z,
    "mwu_hollander_wolfe": permeability,
    "cliff_delta": lambda data: {"delta": cliff(data["treatment"], data["control"]).delta},
    "wsr_hollander_wolfe": signed_ranks,
    "wsr_darwin": lambda data: {"T": wilcoxon(data).t, "p": wilcoxon(data).p},
    "wsr_zeros_ties": lambda data: {
        "p_wilcoxon": wilcoxon(data, zeros="wilcox").p,
        "p_pratt": wilcoxon(data, zeros="pratt").p,
    },
    "spearman_wikipedia": televisions,
    "bh1995": step_up,
    "wilson_newcombe_81_263": score_interval,
    "wilson_newcombe_15_148": score_interval,
    "wilson_newcombe_0_20": score_interval,
    "wilson_newcombe_1_29": score_interval,
    "whitehead1993": lambda data: {"N_total": whitehead(data["control"], data["logOR"])},
    "tost_lakens2017": lakens,
}


def half_a_digit(printed: float) -> float:
    """Half of the last digit that was printed; a whole number is meant exactly."""
    text = repr(printed)
    return 0.5 * 10 ** -len(text.split(".")[1]) + 1e-12 if "." in text else 1e-12


@pytest.mark.parametrize("name", COMPUTED)
def test_it_is_what_was_published(name: str) -> None:
    vector = VECTORS[name]
    found = COMPUTED[name](vector["data"])
    for figure, printed in vector["expected"].items():
        assert found[figure] == pytest.approx(printed, abs=half_a_digit(printed)), f"{name}: {figure}"
    for figure, verified in vector["verified"].items():
        assert found[figure] == pytest.approx(verified, abs=1e-6), f"{name}: {figure}"


def test_all_of_them_are_here_or_among_the_models() -> None:
    assert len(VECTORS) == 27
    assert set(COMPUTED) | set(MODELS) == set(VECTORS)
    assert not set(COMPUTED) & set(MODELS)


def test_figures_printed_beside_the_examples() -> None:
    """From the same sources, not in the file: intervals, and coefficients of the same data."""
    found = cliff(VECTORS["cliff_delta"]["data"]["treatment"], VECTORS["cliff_delta"]["data"]["control"])
    assert (found.low, found.high) == pytest.approx((-0.727, 0.389), abs=5e-4)
    second = icc(VECTORS["shrout_fleiss1979"]["data"])[Form.TWO]
    assert (second.low, second.high) == pytest.approx((0.019, 0.761), abs=5e-4)
    first = gwet(VECTORS["fleiss1971"]["data"])
    assert (first.coefficient, first.error) == pytest.approx((0.44788, 0.05566), abs=5e-6)
