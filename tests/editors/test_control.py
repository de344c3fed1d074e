from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stillme.core import images
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors.control import Control, Settings, prepare
from stillme.engine.backends import BackendContext
from stillme.protocol import Protocol
from stillme.sources import heads


@pytest.fixture(scope="module")
def portrait() -> bytes:
    return images.encode(heads.photograph(heads.load("black-female-40s")), quality=95, comment="who it is")


def made(portrait: bytes, quality: int = 60, scale: float = 1.0, **asked: object) -> EditReply:
    request = EditRequest("k", portrait, **{"instruction": "x", "seed": 0, **asked})  # type: ignore[arg-type]
    return Control(Settings(quality=quality, scale=scale)).edit(request)


def test_a_re_encode_changes_hardly_anything_and_drops_the_comment(portrait: bytes) -> None:
    reply = made(portrait)
    assert reply.status is Status.OK and reply.image is not None
    before, after = images.pixels(portrait), images.pixels(reply.image)
    assert before.shape == after.shape and 0 < np.abs(before.astype(int) - after).mean() < 3
    assert len(reply.image) < len(portrait)
    assert images.comment(reply.image) == ""
    assert not reply.truth


def test_an_upscale_is_larger_and_shows_the_same(portrait: bytes) -> None:
    reply = made(portrait, quality=95, scale=2.0)
    assert reply.image is not None
    before, after = images.pixels(portrait), images.pixels(reply.image)
    assert after.shape == (2 * before.shape[0], 2 * before.shape[1], 3)
    shrunk = after.reshape(before.shape[0], 2, before.shape[1], 2, 3).mean((1, 3))
    assert np.abs(shrunk - before).mean() < 2


def test_the_same_portrait_gives_the_same_bytes_whatever_is_asked(portrait: bytes) -> None:
    assert made(portrait) == made(portrait, instruction="Do something.", seed=9)


def test_what_is_no_picture_is_rejected() -> None:
    reply = made(b"not a picture")
    assert reply.status is Status.REJECTED and reply.detail == "the portrait is not an image file"


def test_a_portrait_too_large_to_be_enlarged_is_rejected() -> None:
    reply = made(images.lossless(np.zeros((4000, 4100, 3), np.uint8)), scale=2.0)
    assert reply.status is Status.REJECTED
    assert reply.detail == "the portrait would have 8200 × 8000 pixels; the limit is 64,000,000"


def test_settings_are_part_of_what_is_done(protocol: Protocol) -> None:
    place = BackendContext(Path(), protocol)
    one, other = (prepare(Settings(quality=60, scale=scale), place) for scale in (1.0, 2.0))
    assert one.effective != other.effective
    assert one.description == "Saved again as JPEG of quality 60; nothing is edited."
    assert other.description == "Scaled by 2 and saved as JPEG of quality 60; nothing is edited."
