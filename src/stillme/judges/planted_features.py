"""What a simulated judge reads off a synthetic portrait: the colours of its layers and the spots of its face.

It reads no group, and names none, but for a small share of first answers that do so on purpose: so that whoever
asks for features has something to find. Any other picture is turned away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.records import JudgeReply, JudgeRequest, Status, digest
from stillme.judges.features import SENTENCE
from stillme.sources import heads
from stillme.sources.heads import Head, key_in

LEAKING = 0.05  # of first answers
FIRM = 250  # a mask's level where a layer covers all of a pixel
FEW = 50  # pixels: less hair than this is none
_SKIN = ((70, "fair"), (63, "light"), (55, "medium"), (46, "light brown"), (37, "medium brown"), (0, "deep brown"))
_GREY = ((0.6, "mostly grey"), (0.2, "greying"), (0.05, "grey at the temples"))
_SHARES = {  # words for thirds of what the portraits show: at least this much of a ratio
    "face": ((0.93, "broad, round"), (0.86, "oval"), (0.0, "narrow, long")),
    "nose": ((0.42, "long, straight"), (0.36, "straight, medium-length"), (0.0, "short, rounded")),
    "lips": ((0.43, "wide, full"), (0.39, "medium-full"), (0.0, "narrow")),
    "eyes": ((0.58, "wide-set"), (0.55, "evenly spaced"), (0.0, "close-set")),
}

Bytes = NDArray[np.uint8]


def judge(draw: int, request: JudgeRequest) -> JudgeReply:
    key = key_in(images.comment(request.source))
    if key is None:
        return JudgeReply(Status.REJECTED, detail="a simulated judge reads features off synthetic portraits only")
    told = read(heads.load(key))
    chance = int(digest("leak", draw=draw, request=request.key)[:12], 16) / 16.0**12
    leaks = not request.instruction and chance < LEAKING
    # dimensions by their first word: how a protocol spells the rest is its own
    features = {name: told.get(name.split("_")[0], "none") for name in request.axes}
    return JudgeReply(Status.OK, evidence="simulated", features={**features, SENTENCE: _sentence(told, leaks)})


def read(head: Head) -> dict[str, str]:
    """A text a dimension, by the dimension's first word."""
    spots = _ratios(head.points)
    words = {name: _word(spots[name], steps) for name, steps in _SHARES.items()}
    truth: Mapping[str, Any] = head.truth
    beard = str(truth["beard"])
    return {
        "skin": _skin(head),
        "face": words["face"],
        "eyes": f"{words['eyes']} {truth['eyes']}",
        "nose": words["nose"],
        "lips": words["lips"],
        "hair": _hair(head, truth["hair"]),
        "distinctive": "none" if beard == "none" else f"facial hair ({beard})",
    }


def _ratios(points: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """How broad and long parts of a face are, as shares of its own size."""
    width = points["jaw_right"][0] - points["jaw_left"][0]
    below = points["chin"][1] - points["eye_left"][1]
    return {
        "face": width / (points["chin"][1] - points["brow_left"][1]),
        "nose": (points["nose"][1] - points["eye_left"][1]) / below,
        "lips": (points["mouth_right"][0] - points["mouth_left"][0]) / width,
        "eyes": (points["eye_right"][0] - points["eye_left"][0]) / width,
    }


def _word(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    return next((word for least, word in steps if value >= least), "")


def _skin(head: Head) -> str:
    lightness, red, yellow = _mean(head.rgb, head.skin)
    undertones = "golden" if yellow > 1.8 * red else "warm" if yellow > 1.3 * red else "rosy"
    return f"{_word(lightness, _SKIN)} with {undertones} undertones"


def _hair(head: Head, made: Mapping[str, Any]) -> str:
    if int((head.hair > FIRM).sum()) < FEW:
        return "none"
    grey = _word(float(made["grey"]), _GREY)
    shape = f"{_hue(*_mean(head.rgb, head.hair))}, {str(made['style']).replace('_', ' ')}"
    return f"{shape}, {grey}" if grey else shape


def _hue(lightness: float, red: float, yellow: float) -> str:
    """A word for hair of this colour: grey has none, dark hair has little."""
    if lightness < 18:
        return "jet-black"
    if max(abs(red), abs(yellow)) < 4.5:
        return "silver" if lightness > 50 else "dark grey"
    return "auburn" if red > 9 else "brown" if yellow > 9 else "dark brown"


def _mean(rgb: Bytes, mask: Bytes) -> tuple[float, float, float]:
    """L*, a*, b* of a layer, on average."""
    lab = heads.srgb_to_lab(rgb[mask > FIRM]).mean(0)
    return float(lab[0]), float(lab[1]), float(lab[2])


def _sentence(told: Mapping[str, str], leaks: bool) -> str:
    others = [f"{told[name]} {name}" for name in ("face", "eyes", "nose", "lips", "hair") if told[name] != "none"]
    parts = [told["skin"].replace(" with ", " skin with "), *others]
    lead = "youthful look, " if leaks else ""
    return f"Maintain the person's {lead}{', '.join(parts[:-1])}, and {parts[-1]}."
