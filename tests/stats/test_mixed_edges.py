"""The mixed model where it cannot go on: too many levels, no step that gains, a search that is cut short."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from stillme.core.errors import InputError
from stillme.stats import laplace, mixed
from stillme.stats.cumulative import Floats
from stillme.stats.laplace import Laplace
from stillme.stats.mixed import descend, fit
from tests.stats.test_mixed import planted, rows_of, wine


def test_factors_with_too_many_levels_to_be_crossed_are_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    scores, x = chance.integers(1, 4, 200), chance.integers(0, 2, (200, 1))
    crossed = {"person": chance.integers(0, 12, 200), "prompt": chance.integers(0, 8, 200)}
    assert fit(scores, x, ["x"], crossed).loglik is not None
    monkeypatch.setattr(mixed, "MOST_REST", 5)
    found = fit(scores, x, ["x"], crossed)
    assert found.why == "person and prompt have too many levels to be crossed"
    assert found.loglik is None and found.coefficients == {"x": None} and found.observations == 200
    assert found.values == (1, 2, 3), "what was seen is still told"


def test_a_search_that_is_cut_short_is_not_called_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wine("judge").converged
    monkeypatch.setattr(mixed, "ROUNDS", 1)
    assert not wine("judge").converged


class Uphill:
    """A slope that points the wrong way: no step along it gains."""

    def value_and_slope(self, at: Floats) -> tuple[float, Floats]:
        return float(at @ at), -2 * at


def test_where_no_step_gains_the_search_stays_where_it_is() -> None:
    start = np.array([1.0, -2.0])
    found = descend(cast(Laplace, Uphill()), start, np.eye(2), np.array([]))
    assert found.at.tolist() == start.tolist() and found.loss == 5.0 and not found.settled


def test_a_search_for_the_mode_goes_on_where_the_last_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that many short searches come to the same mode as one that is long enough."""
    scores, design, names, levels = planted(1, persons=8, prompts=3)
    rows = rows_of(scores, design, names, levels)
    at = np.array([*np.full(len(np.unique(scores)) - 1, 0.3), *np.zeros(len(names)), *np.full(len(levels), 0.8)])
    whole, short = Laplace(rows), Laplace(rows)
    whole.mode(at)
    monkeypatch.setattr(laplace, "STEPS", 1)
    short.mode(at)
    first = short.outer
    for _ in range(20):
        short.mode(at)
    assert short.outer == pytest.approx(whole.outer, abs=1e-8) and short.inner == pytest.approx(
        whole.inner, abs=1e-8
    )
    assert first != pytest.approx(whole.outer, abs=1e-8), "one step is not enough"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"design": [[0.0], [1.0]]}, "differ in length", id="a design that is too short"),
        pytest.param({"weights": [1.0]}, "differ in length", id="too few weights"),
        pytest.param({"factors": {"person": [1]}}, "differ in length", id="too few levels"),
        pytest.param({"design": [[0.0], [np.nan], [1.0]]}, "missing values", id="a hole in the design"),
        pytest.param({"weights": [1.0, np.nan, 1.0]}, "missing values", id="a hole in the weights"),
    ],
)
def test_columns_that_do_not_fit_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        mixed.fit([1, 2, 3], given.pop("design", [[0.0], [1.0], [1.0]]), ["x"], **given)
