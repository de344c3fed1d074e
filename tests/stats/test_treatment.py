"""What else is asked of paired arms: margins, all groups at once, the published rank test."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.protocol import Protocol
from stillme.stats import drift, flips, mitigation, selection, tradeoff, treatment
from stillme.stats.treatment import NO_WORSE, NOT_SHOWN, SAME, TOO_FEW, WORSE, no_worse, omnibus, signed_ranks

RACES = 7


def pairs(
    protocol: Protocol, differences: np.ndarray, axis: str = "race_drift", editor: str = "one", races: int = RACES
) -> pl.DataFrame:
    """persons × cases of differences; persons in all strata alike, race changing fastest."""
    persons, cases = differences.shape
    names, genders, ages = (protocol.groups.ids(d) for d in ("race", "gender", "age"))
    number = np.repeat(np.arange(persons), cases)
    return pl.DataFrame(
        {
            "arm": "feature",
            "against": "baseline",
            "axis": axis,
            "editor": editor,
            "prompt": [f"P{n}" for n in range(cases)] * persons,
            "person": [f"p{n}" for n in number],
            "race": [names[n % races] for n in number],
            "gender": [genders[n // races % 2] for n in number],
            "age": [ages[n // (2 * races) % 6] for n in number],
            "difference": differences.ravel().astype(float),
        }
    )


def drawn(seed: int, means: list[float], spreads: list[float], cases: int = 6) -> np.ndarray:
    """Whole differences of 84 persons, by race."""
    race = np.arange(84) % RACES
    chance = np.random.default_rng(seed)
    centre, width = np.array(means)[race][:, None], np.array(spreads)[race][:, None]
    return np.rint(chance.normal(centre, width, (84, cases)))


# Is the edit still made?


def success(protocol: Protocol, differences: np.ndarray) -> dict[str, object]:
    frame = no_worse(pairs(protocol, differences, axis="edit_success"), protocol)
    whole, own = frame.filter(pl.col("editor").is_null()), frame.filter(editor="one")
    assert whole.height == own.height == 1 and whole.drop("editor").equals(own.drop("editor"))
    return whole.to_dicts()[0]


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, NO_WORSE), (-0.25, NOT_SHOWN), (-0.6, WORSE), (0.5, NO_WORSE)]
)
def test_a_loss_within_the_margin_is_no_worse_and_one_beyond_it_is(
    protocol: Protocol, shift: float, verdict: str
) -> None:
    chance = np.random.default_rng(1)
    differences = np.rint(chance.normal(shift, 0.8, (84, 6)))
    differences -= differences.mean() - shift  # the mean is exactly the shift
    row = success(protocol, differences)
    assert row["verdict"] == verdict and row["margin"] == 0.25 and row["persons"] == 84
    persons = differences.mean(axis=1)
    exact = stats.ttest_1samp(persons, -0.25, alternative="greater")
    assert row["p"] == pytest.approx(exact.pvalue)
    assert row["low"] == pytest.approx(exact.confidence_interval(0.95).low)
    assert (row["p"] < 0.05) == (verdict == NO_WORSE)  # type: ignore[operator]


def test_too_few_persons_and_no_spread_show_nothing(protocol: Protocol) -> None:
    few = success(protocol, np.zeros((2, 5)))
    assert (few["verdict"], few["why"], few["p"], few["low"]) == (NOT_SHOWN, TOO_FEW, None, None)
    same = success(protocol, np.zeros((20, 5)))
    assert (same["verdict"], same["why"], same["difference"], same["p"]) == (NOT_SHOWN, SAME, 0.0, None)
    assert no_worse(pairs(protocol, np.zeros((9, 2))), protocol).is_empty(), "no margin is declared for drift"
    assert no_worse(pairs(protocol, np.zeros((9, 2))).clear(), protocol).is_empty()


def test_a_true_loss_of_the_margin_is_called_no_worse_in_one_of_twenty(protocol: Protocol) -> None:
    chance = np.random.default_rng(3)
    frames = [pairs(protocol, chance.normal(-0.25, 1.0, (24, 3)), "edit_success", f"e{n}") for n in range(250)]
    found = no_worse(pl.concat(frames), protocol).drop_nulls("editor")
    assert 0.02 <= (found["verdict"] == NO_WORSE).mean() <= 0.08  # type: ignore[operator]
    assert 0.02 <= (found["verdict"] == WORSE).mean() <= 0.08  # type: ignore[operator]


# Is the effect the same for every group?


def asked(protocol: Protocol, differences: np.ndarray, **how: int) -> dict[str, object]:
    (row,) = omnibus(pairs(protocol, differences), protocol, **how).to_dicts()
    return row


def test_h_is_kruskals_and_p_is_near_its_own(protocol: Protocol) -> None:
    differences = drawn(2, [0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6], [0.8] * RACES)
    row = asked(protocol, differences)
    means = differences.mean(axis=1)
    known = stats.kruskal(*(means[np.arange(84) % RACES == race].round(9) for race in range(RACES)))
    assert row["h"] == pytest.approx(known.statistic) and row["p_rank"] == pytest.approx(known.pvalue, abs=0.01)
    own = [means[np.arange(84) % RACES == race].mean() for race in range(RACES)]
    assert (row["smallest"], row["largest"]) == pytest.approx((min(own), max(own)))
    assert (row["groups"], row["persons"], row["p_holm"]) == (7, 84, row["p"])


def test_an_effect_that_one_group_lacks_is_found_and_an_equal_one_is_not(protocol: Protocol) -> None:
    lacking = asked(protocol, drawn(4, [0.0] + [-0.7] * 6, [0.6] + [1.0] * 6))
    assert lacking["p_holm"] < 0.001  # type: ignore[operator]
    equal = asked(protocol, drawn(4, [-0.7] * RACES, [1.0] * RACES))
    assert equal["p"] > 0.05 and equal["p_rank"] > 0.05  # type: ignore[operator]


@pytest.mark.slow
def test_groups_whose_persons_vary_more_are_not_accused(protocol: Protocol) -> None:
    """No effect anywhere, one group far noisier: 5 % of 200 experiments; the rank statistic is allowed more."""
    p = [asked(protocol, drawn(n, [0.0] * RACES, [0.5] * 6 + [1.5]), draws=99, seed=n)["p"] for n in range(200)]
    assert np.mean([one is not None and one <= 0.05 for one in p]) <= 0.08  # type: ignore[operator]


def test_what_cannot_be_exchanged_has_no_p(protocol: Protocol) -> None:
    alone = omnibus(pairs(protocol, np.arange(18.0).reshape(9, 2), races=1), protocol).to_dicts()[0]
    assert (alone["groups"], alone["p"], alone["q"], alone["p_holm"]) == (1, None, None, None)
    constant = asked(protocol, np.zeros((84, 2)))
    assert (constant["groups"], constant["p"], constant["h"]) == (7, None, None)
    few = asked(protocol, np.arange(28.0).reshape(14, 2))
    assert (few["groups"], few["persons"], few["p"]) == (0, 0, None), "two persons a group"
    assert omnibus(pairs(protocol, np.zeros((9, 2))).clear(), protocol).is_empty()


def test_the_same_seed_gives_the_same_p(protocol: Protocol) -> None:
    differences = drawn(5, [0.0] * RACES, [1.0] * RACES)
    first, second = (asked(protocol, differences, draws=499, seed=2) for _ in range(2))
    assert first == second != asked(protocol, differences, draws=499, seed=3)


# The published test


def test_ranks_are_wilcoxons_per_edit_and_per_person(protocol: Protocol) -> None:
    differences = drawn(6, [-0.06] * RACES, [0.8] * RACES)
    (row,) = signed_ranks(pairs(protocol, differences)).to_dicts()
    each = stats.wilcoxon(differences.ravel(), zero_method="pratt", correction=False, method="asymptotic")
    assert row["p"] == pytest.approx(each.pvalue, rel=1e-6)
    assert row["zeros"] == pytest.approx((differences == 0).mean()) and row["pairs"] == 504
    sums = differences.sum(axis=1)
    exact = stats.wilcoxon(sums, zero_method="pratt", method="asymptotic").pvalue
    assert row["person_p"] == pytest.approx(exact, rel=0.05) and row["persons"] == 84
    assert row["person_p_holm"] == pytest.approx(row["person_p"])
    assert row["person_zeros"] == pytest.approx((sums == 0).mean())


def test_edits_of_one_person_make_the_published_test_too_sure(protocol: Protocol) -> None:
    """No effect, but persons who differ: the per-edit test accuses, the per-person one hardly ever."""
    chance = np.random.default_rng(7)
    found = []
    for _ in range(120):
        differences = np.rint(chance.normal(0, 0.8, (30, 1)) + chance.normal(0, 0.8, (30, 12)))
        (row,) = signed_ranks(pairs(protocol, differences)).to_dicts()
        found.append((row["p"] < 0.05, row["person_p"] < 0.05))
    per_edit, per_person = np.mean(found, axis=0)
    assert per_edit > 0.3 and per_person <= 0.1


def test_nothing_changed_is_no_evidence(protocol: Protocol) -> None:
    (row,) = signed_ranks(pairs(protocol, np.zeros((12, 3)))).to_dicts()
    assert (row["zeros"], row["p"], row["person_p"], row["person_p_holm"]) == (1.0, None, None, None)
    (two,) = signed_ranks(pairs(protocol, np.array([[1.0], [2.0]]))).to_dicts()
    assert two["person_p"] is None
    assert signed_ranks(pairs(protocol, np.zeros((2, 2))).clear()).is_empty()


# What is never done


def test_no_change_is_set_against_its_own_baseline() -> None:
    """A change correlates with its baseline without any effect: nothing here correlates or regresses at all."""
    forbidden = {
        "corr",
        "corrcoef",
        "cov",
        "pearsonr",
        "spearmanr",
        "spearman",
        "linregress",
        "polyfit",
        "lstsq",
        "ols",
    }
    for module in (drift, flips, mitigation, selection, tradeoff, treatment):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        named = {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(tree)
                 if isinstance(node, ast.Attribute | ast.Name)}  # fmt: skip
        assert not {name.lower() for name in named} & forbidden, module.__name__
