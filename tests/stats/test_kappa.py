"""Cohen's kappa beside published figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.stats.agreement import cohen

COHEN_1968 = ((44, 7, 9), (5, 20, 5), (1, 3, 6))


def test_the_table_of_cohen_1968() -> None:
    pairs = [(i, j) for i, row in enumerate(COHEN_1968) for j, count in enumerate(row) for _ in range(count)]
    found = cohen([i for i, _ in pairs], [j for _, j in pairs])
    assert found.n == 100 and found.agreement == pytest.approx(0.70)
    assert found.kappa == pytest.approx(0.49152542372881347)
    # statsmodels 0.15 cohens_kappa: kappa_low, kappa_upp
    assert found.low == pytest.approx(0.35015820121748686)
    assert found.high == pytest.approx(0.6328926462401401)


def test_where_it_is_not_defined() -> None:
    assert cohen([], []).kappa is None and cohen([], []).agreement is None
    alike = cohen(["a"] * 5, ["a"] * 5)
    assert (alike.agreement, alike.kappa) == (1.0, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_it_depends_neither_on_order_nor_on_who_is_first(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found, turned = cohen(first, second), cohen(second[::-1], first[::-1])
    if found.kappa is None or turned.kappa is None:
        assert found.kappa is turned.kappa is None
    else:
        assert found.kappa == pytest.approx(turned.kappa) and -1 <= found.kappa <= 1
        assert found.low is not None and found.high is not None
        assert found.low <= found.kappa + 1e-12 and found.kappa <= found.high + 1e-12
