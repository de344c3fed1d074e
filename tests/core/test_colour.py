"""Colour arithmetic, against published values and against another implementation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage import color

from stillme.core import colour

# Sharma, Wu & Dalal 2005, Table 1: pairs that find the mistakes people make. L1 a1 b1 L2 a2 b2 ΔE00
SHARMA = """
50.0000   2.6772 -79.7751  50.0000   0.0000 -82.7485   2.0425
50.0000   3.1571 -77.2803  50.0000   0.0000 -82.7485   2.8615
50.0000   2.8361 -74.0200  50.0000   0.0000 -82.7485   3.4412
50.0000  -1.3802 -84.2814  50.0000   0.0000 -82.7485   1.0000
50.0000  -1.1848 -84.8006  50.0000   0.0000 -82.7485   1.0000
50.0000  -0.9009 -85.5211  50.0000   0.0000 -82.7485   1.0000
50.0000   0.0000   0.0000  50.0000  -1.0000   2.0000   2.3669
50.0000  -1.0000   2.0000  50.0000   0.0000   0.0000   2.3669
50.0000   2.4900  -0.0010  50.0000  -2.4900   0.0009   7.1792
50.0000   2.4900  -0.0010  50.0000  -2.4900   0.0010   7.1792
50.0000   2.4900  -0.0010  50.0000  -2.4900   0.0011   7.2195
50.0000   2.4900  -0.0010  50.0000  -2.4900   0.0012   7.2195
50.0000  -0.0010   2.4900  50.0000   0.0009  -2.4900   4.8045
50.0000  -0.0010   2.4900  50.0000   0.0010  -2.4900   4.8045
50.0000  -0.0010   2.4900  50.0000   0.0011  -2.4900   4.7461
50.0000   2.5000   0.0000  50.0000   0.0000  -2.5000   4.3065
50.0000   2.5000   0.0000  73.0000  25.0000 -18.0000  27.1492
50.0000   2.5000   0.0000  61.0000  -5.0000  29.0000  22.8977
50.0000   2.5000   0.0000  56.0000 -27.0000  -3.0000  31.9030
50.0000   2.5000   0.0000  58.0000  24.0000  15.0000  19.4535
50.0000   2.5000   0.0000  50.0000   3.1736   0.5854   1.0000
50.0000   2.5000   0.0000  50.0000   3.2972   0.0000   1.0000
50.0000   2.5000   0.0000  50.0000   1.8634   0.5757   1.0000
50.0000   2.5000   0.0000  50.0000   3.2592   0.3350   1.0000
60.2574 -34.0099  36.2677  60.4626 -34.1751  39.4387   1.2644
63.0109 -31.0961  -5.8663  62.8187 -29.7946  -4.0864   1.2630
61.2901   3.7196  -5.3901  61.4292   2.2480  -4.9620   1.8731
35.0831 -44.1164   3.7933  35.0232 -40.0716   1.5901   1.8645
22.7233  20.0904 -46.6940  23.0331  14.9730 -42.5619   2.0373
36.4612  47.8580  18.3852  36.2715  50.5065  21.2231   1.4146
90.8027  -2.0831   1.4410  91.1528  -1.6435   0.0447   1.4441
90.9257  -0.5406  -0.9208  88.6381  -0.8985  -0.7239   1.5381
 6.7747  -0.2908  -2.4247   5.8714  -0.0985  -2.2286   0.6377
 2.0776   0.0795  -1.1350   0.9033  -0.0636  -0.5514   0.9082
"""
PAIRS = np.array([[float(number) for number in line.split()] for line in SHARMA.strip().splitlines()])


def test_ciede2000_of_the_published_pairs() -> None:
    assert PAIRS.shape == (34, 7)
    found = colour.delta_e_2000(PAIRS[:, :3], PAIRS[:, 3:6])
    assert found == pytest.approx(PAIRS[:, 6], abs=6e-5)
    assert colour.delta_e_2000(PAIRS[:, 3:6], PAIRS[:, :3]) == pytest.approx(found, abs=1e-12)


def test_ciede2000_in_the_pictures_own_precision() -> None:
    """As it is used on pictures; the pairs whose hue lies on the edge between two branches are left out."""
    steady = np.r_[0:8, 15:34]
    one, other = PAIRS[steady, :3].astype(np.float32), PAIRS[steady, 3:6].astype(np.float32)
    found = colour.delta_e_2000(one, other)
    assert found.dtype == np.float32
    assert found == pytest.approx(PAIRS[steady, 6], abs=2e-3)


def colours(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.random.default_rng(7).integers(0, 256, (count, 3), np.uint8)


def test_ciede2000_as_skimage_has_it() -> None:
    lab = color.rgb2lab(colours(20_000)[None])[0]
    one, other = lab[:10_000], lab[10_000:]
    theirs = color.deltaE_ciede2000(one, other)  # type: ignore[no-untyped-call]
    assert np.abs(colour.delta_e_2000(one, other) - theirs).max() < 1e-6


def test_srgb_to_lab_as_skimage_has_it() -> None:
    every = np.vstack([colours(50_000), np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)])
    assert np.abs(colour.srgb_to_lab(every) - color.rgb2lab(every[None])[0]).max() < 0.01


def test_grey_has_no_chroma_and_white_is_100() -> None:
    lab = colour.srgb_to_lab(np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1))
    assert np.abs(lab[:, 1:]).max() < 1e-3
    assert lab[0, 0] == pytest.approx(0, abs=1e-5) and lab[255, 0] == pytest.approx(100, abs=1e-4)
    assert (np.diff(lab[:, 0]) > 0).all()


lab_colours = st.tuples(st.floats(0, 100), st.floats(-100, 100), st.floats(-100, 100))


@given(lab_colours, lab_colours)
def test_a_difference_is_symmetric_and_never_negative(one: tuple[float, ...], other: tuple[float, ...]) -> None:
    there = colour.delta_e_2000(np.array(one), np.array(other))
    assert np.isfinite(there) and there >= 0
    assert colour.delta_e_2000(np.array(other), np.array(one)) == pytest.approx(there, abs=1e-9)
    assert colour.delta_e_2000(np.array(one), np.array(one)) == 0


@pytest.mark.parametrize(
    ("before", "after", "turn"), [(10, 30, 20), (30, 10, -20), (175, -175, 10), (-175, 175, -10), (42, 42, 0)]
)
def test_angles_are_compared_the_short_way_round(before: float, after: float, turn: float) -> None:
    assert colour.turn(before, after) == pytest.approx(turn)


def test_hue_and_ita() -> None:
    assert colour.hue(np.array([60.0, 10.0, 10.0])) == pytest.approx(45)
    assert colour.hue(np.array([60.0, 10.0, 0.0])) == 0
    assert colour.individual_typology_angle(np.array([60.0, 5.0, 10.0])) == pytest.approx(45)
    assert colour.individual_typology_angle(np.array([50.0, 5.0, 10.0])) == 0
    swatch = colour.srgb_to_lab(np.array([0x82, 0x5C, 0x43], np.uint8)).astype(np.float64)
    assert swatch[0] == pytest.approx(42.5, abs=0.1)
    assert colour.individual_typology_angle(swatch) == pytest.approx(-20, abs=1)
