"""Fingerprints: copies are near, other pictures are far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stillme.core import images
from stillme.core.phash import PerceptualHashIndex, distance, fingerprint
from stillme.sources import heads

KEYS = heads.keys()[::12]


@pytest.mark.parametrize("key", KEYS)
def test_a_copy_is_near_however_it_was_saved(key: str) -> None:
    picture = heads.photograph(heads.load(key))
    own = fingerprint(picture)[0]
    again = images.pixels(images.encode(picture, quality=40))
    assert distance(fingerprint(again)[0], own) <= 40
    assert distance(fingerprint(picture[::2, ::2])[0], own) <= 40
    assert distance(fingerprint(np.ascontiguousarray(picture[:, ::-1]))[1], own) == 0, "a mirrored copy"


def test_pictures_of_noise_are_far() -> None:
    chance = np.random.default_rng(1)
    one, other = (chance.integers(0, 256, (90, 120, 3), np.uint8) for _ in range(2))
    assert distance(fingerprint(one)[0], fingerprint(other)[0]) > 90


@given(arrays(np.uint8, st.tuples(st.integers(1, 70), st.integers(1, 70), st.just(3))))
def test_any_picture_has_one(picture: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]) -> None:
    assert [len(one) for one in fingerprint(picture)] == [64, 64]


@given(
    st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=150), st.binary(min_size=32, max_size=32)
)
def test_the_nearest_of_an_album(known: list[bytes], new: bytes) -> None:
    album = PerceptualHashIndex()
    assert album.nearest([new.hex()]) is None
    for one in known:
        album.add(one.hex())
    found = album.nearest([new.hex(), known[0].hex()])
    apart = [min(distance(one.hex(), new.hex()), distance(one.hex(), known[0].hex())) for one in known]
    assert found == (apart.index(min(apart)), min(apart))
