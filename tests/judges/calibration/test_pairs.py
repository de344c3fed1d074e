"""Calibration pairs are what they say: measured on pixels, with the colour code that measures edits."""

from __future__ import annotations

import numpy as np
import pytest

from stillme.core import images
from stillme.core.colour import hue, srgb_to_lab, turn
from stillme.core.records import DELTA_L, EditReply, EditRequest, Status
from stillme.judges.calibration import instruction, planted
from stillme.judges.calibration.pairs import Maker
from stillme.protocol import Protocol
from stillme.sources import heads
from stillme.sources.heads import signature
from tests.editors.providers import png

KEYS = [heads.keys()[number] for number in (0, 17, 40, 66)]


def portrait(key: str, signed: bool = True) -> bytes:
    comment = signature(key) if signed else ""
    return images.encode(heads.photograph(heads.load(key)), quality=95, comment=comment)


@pytest.fixture(scope="module")
def maker(protocol: Protocol) -> Maker:
    assert protocol.calibration is not None
    return Maker(protocol.calibration.made())


def made(maker: Maker, kind: str, content: bytes, *references: bytes) -> EditReply:
    wanted = maker.kinds[kind]
    return maker.edit(EditRequest("key", content, instruction(wanted), 0, references=references))


def picture(maker: Maker, kind: str, content: bytes) -> images.Pixels:
    reply = made(maker, kind, content)
    assert reply.image is not None, reply
    return images.pixels(reply.image)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("delta_l", [4, -4, 14, -14])
def test_skin_moves_by_what_is_said_and_nothing_else_does(maker: Maker, key: str, delta_l: int) -> None:
    kind = f"skin_{'lighter' if delta_l > 0 else 'darker'}_{abs(delta_l)}"
    before, after = images.pixels(portrait(key)), picture(maker, kind, portrait(key))
    skin = heads.load(key).skin
    whole = skin == 255
    moved = (srgb_to_lab(after) - srgb_to_lab(before))[..., 0]
    assert np.median(moved[whole]) == pytest.approx(delta_l, rel=0.05)
    assert (after[skin == 0] == before[skin == 0]).all()
    middle = [np.median(srgb_to_lab(one)[whole], axis=0).astype(float) for one in (before, after)]
    assert abs(turn(hue(middle[0]), hue(middle[1]))) < 3
    assert made(maker, kind, portrait(key)).truth[DELTA_L] == delta_l


@pytest.mark.parametrize("kind", ["relit_brighter", "relit_darker"])
def test_light_falls_on_skin_and_background_alike(maker: Maker, kind: str) -> None:
    for key in KEYS:
        before, after = (
            one.astype(float) / 255 for one in (images.pixels(portrait(key)), picture(maker, kind, portrait(key)))
        )
        head, gain = heads.load(key), maker.kinds[kind].gain
        lit = [((one + 0.055) / 1.055) ** 2.4 for one in (before, after)]
        usable = (before > 0.1).all(-1) & (after < 0.98).all(-1)
        for part in (head.skin == 255, head.figure == 0):
            some = usable & part
            assert some.sum() > 500
            assert np.median(lit[1][some] / lit[0][some]) == pytest.approx(gain, rel=0.02)


def test_a_copy_is_the_same_file_and_another_person_is_theirs(maker: Maker) -> None:
    one, other = portrait(KEYS[0]), portrait(KEYS[1])
    assert made(maker, "identical", one).image == one
    assert made(maker, "another_person", one, other).image == other


def test_a_re_encode_moves_no_pixel_far(maker: Maker) -> None:
    before = images.pixels(portrait(KEYS[0])).astype(int)
    after = picture(maker, "re_encoded", portrait(KEYS[0]))
    assert 0 < np.abs(after - before).mean() < 3


def test_a_frame_is_put_around_and_the_picture_stays(maker: Maker) -> None:
    before, after = images.pixels(portrait(KEYS[2])), picture(maker, "framed", portrait(KEYS[2]))
    border = round(0.1 * heads.SIZE)
    assert (after[border:-border, border:-border] == before).all()
    assert (after[:border] == np.array(maker.kinds["framed"].colour)).all()


def test_the_same_portrait_gives_the_same_bytes(maker: Maker) -> None:
    for kind in maker.kinds:
        replies = [made(maker, kind, portrait(KEYS[0]), portrait(KEYS[1])) for _ in range(2)]
        assert replies[0].image == replies[1].image


def test_a_picture_without_a_face_gives_no_pair_and_says_why(maker: Maker) -> None:
    pytest.importorskip("cv2")
    reply = made(maker, "skin_lighter_8", png(7, 200))
    assert reply.status is Status.NO_FACE and reply.image is None
    assert made(maker, "relit_darker", png(7, 200)).status is Status.OK
    assert made(maker, "re_encoded", b"no picture").status is Status.REJECTED


def test_skin_of_a_photograph_is_found_and_moves_as_the_measures_see_it(maker: Maker) -> None:
    """A head without its signature is any photograph: its mask is looked for, and the background stays."""
    pytest.importorskip("cv2")
    from stillme.measures.skin_tone_shift import Settings
    from stillme.measures.view import Pair, View, VisionModels

    optics, content = VisionModels(), portrait(KEYS[1], signed=False)
    for kind, delta_l in (("skin_lighter_14", 14), ("skin_darker_8", -8)):
        reply = made(maker, kind, content)
        assert reply.image is not None
        pair = Pair(View(content, "source", optics), View(reply.image, "edit", optics))
        before, after = pair.tones(Settings())
        assert after.lightness - before.lightness == pytest.approx(delta_l, rel=0.06)
        figure = heads.load(KEYS[1]).figure
        still = images.pixels(reply.image)[figure == 0] == images.pixels(content)[figure == 0]
        assert still.all(-1).mean() > 0.97


def test_a_pair_shown_the_other_way_round_is_expected_the_other_way_round(protocol: Protocol) -> None:
    assert protocol.calibration is not None
    for kind in protocol.calibration.kinds:
        if kind.swaps:
            shown, other = planted(protocol, kind.id), planted(protocol, kind.swaps)
            assert shown["score.skin_tone"] - 3 == 3 - other["score.skin_tone"] != 0
            assert instruction(kind) == instruction(protocol.calibration.kind(kind.swaps))
