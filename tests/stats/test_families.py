"""Corrections over families, beside statsmodels and scipy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from stillme.stats.families import P, benjamini_hochberg, benjamini_yekutieli, holm

Correct = Callable[[Sequence[P]], list[P]]
BY_NAME: dict[str, Correct] = {"holm": holm, "fdr_bh": benjamini_hochberg, "fdr_by": benjamini_yekutieli}
CORRECTED: dict[Correct, list[float]] = {  # of 0.01, 0.04 and 0.03
    holm: [0.03, 0.06, 0.06],
    benjamini_hochberg: [0.03, 0.04, 0.04],
    benjamini_yekutieli: [0.055, 0.22 / 3, 0.22 / 3],
}
probabilities = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=40)


@pytest.mark.slow  # the first use of statsmodels takes seconds
@settings(max_examples=10)
@given(probabilities)
def test_they_are_statsmodels(p: list[float]) -> None:
    for name, correct in BY_NAME.items():
        assert correct(p) == pytest.approx(multipletests(p, method=name)[1].tolist(), abs=1e-12), name


@settings(max_examples=10)
@given(probabilities)
def test_they_are_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p).tolist(), abs=1e-12)
    assert benjamini_yekutieli(p) == pytest.approx(
        stats.false_discovery_control(p, method="by").tolist(), abs=1e-12
    )


@pytest.mark.parametrize("correct", BY_NAME.values(), ids=list(BY_NAME))
def test_what_is_missing_stays_missing_and_costs_nothing(correct: Correct) -> None:
    family = [0.01, 0.04, 0.03]
    known = correct(family)
    assert known == pytest.approx(CORRECTED[correct])
    assert correct([None, *family[:2], None, family[2]]) == [None, *known[:2], None, known[2]]
    assert correct([]) == [] and correct([None, None]) == [None, None]
