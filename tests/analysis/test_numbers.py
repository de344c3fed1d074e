import doctest

import pytest

from stillme.analysis import numbers


def test_examples_in_the_text_are_true() -> None:
    assert doctest.testmod(numbers).failed == 0


@pytest.mark.parametrize("write", [numbers.decimal, numbers.percent, numbers.points, numbers.p_value])
@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_a_missing_number_is_a_dash(write: object, nothing: float | None) -> None:
    assert callable(write)
    assert write(nothing) == numbers.DASH
