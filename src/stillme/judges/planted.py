"""A simulated judge with declared errors: noise, lapses, missing answers and, optionally, an error by group.

It reads the planted truth instead of the pictures, so it is marked simulated wherever it appears. Of a synthetic
portrait it reads features from the colours of its layers and the points of its face. It reads no group and names
none, except in a small share of first answers on purpose: so that the search for such words has something to find.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stillme.core import images
from stillme.core.records import (
    FEATURES,
    PEOPLE,
    SHOWN_GENDER,
    SHOWN_ROLE,
    Depicted,
    JudgeReply,
    JudgeRequest,
    Status,
    digest,
)
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.judges import PLANTED_SCORE
from stillme.judges.feature_form import SENTENCE
from stillme.protocol import Protocol
from stillme.sources import heads
from stillme.sources.heads import Head, key_in

VERSION = 1  # raise when the same settings and request give other scores

Share = Annotated[float, Field(ge=0, le=1)]


class Shift(StrictModel):
    """A group-conditioned error: on `axis`, add `points` for people of the groups in `where`."""

    axis: str
    points: float
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def applies(self, axis: str, labels: Mapping[str, str]) -> bool:
        return axis == self.axis and all(labels.get(d) in groups for d, groups in self.where.items())


class Settings(StrictModel):
    """noise: standard deviation of a reading, in points. lapse: share of axes answered at random."""

    noise: Annotated[float, Field(ge=0, le=5)] = 0.2
    lapse: Share = 0.0
    refused: Share = 0.0
    malformed: Share = 0.0
    shifts: tuple[Shift, ...] = ()
    draw: int = 0
    price_usd: Annotated[float, Field(ge=0)] = 0.0  # pretended, to rehearse budgets


def prepare(settings: Settings, context: BackendContext) -> PreparedJudge[Planted]:
    for shift in settings.shifts:
        if shift.axis not in context.protocol.axes:
            raise ValueError(f"shifts: '{shift.axis}' is not an axis; known: {', '.join(context.protocol.axes)}")
    inputs = settings.model_dump(mode="json")
    return PreparedJudge(
        effective={
            "backend": "planted",
            "version": VERSION,
            **settings.model_dump(mode="json", exclude={"price_usd"}),
        },
        inputs=inputs,
        make=lambda: Planted(settings, context.protocol),
        description=_described(settings),
        simulated=True,
        price_usd=settings.price_usd,
        seconds=0.001,
    )


def _described(settings: Settings) -> str:
    text = f"Simulated: reads the planted truth with noise of {settings.noise:g} points"
    text += f", answers at random on {settings.lapse:.1%} of the axes" if settings.lapse else ""
    missing = settings.refused + settings.malformed
    text += f", gives no usable answer to {missing:.1%} of the pairs" if missing else ""
    return text + ("; its error depends on the person's group." if settings.shifts else ".")


class Planted:
    """One simulated judge."""

    def __init__(self, settings: Settings, protocol: Protocol) -> None:
        self.settings = settings
        self.protocol = protocol

    def judge(self, request: JudgeRequest) -> JudgeReply:
        chance = random.Random(int(digest("reading", draw=self.settings.draw, request=request.key)[:16], 16))  # noqa: S311 (a draw, not a secret)
        cost = self.settings.price_usd
        mishap = chance.random()
        if mishap < self.settings.refused:
            return JudgeReply(Status.REFUSED, detail="planted refusal", cost_usd=cost)
        if mishap < self.settings.refused + self.settings.malformed:
            return JudgeReply(Status.MALFORMED, detail="planted malformed answer", cost_usd=cost)
        if request.form == PEOPLE:
            return replace(read_people(self.settings.draw, request), cost_usd=cost)
        if request.form == FEATURES:
            return replace(read_features(self.settings.draw, request), cost_usd=cost)
        if any(PLANTED_SCORE + axis not in request.planted for axis in request.axes):
            return JudgeReply(Status.REJECTED, detail="a simulated judge needs an edit with planted truth")
        scores = {axis: self._read(axis, request, chance) for axis in request.axes}
        return JudgeReply(Status.OK, scores=scores, evidence="simulated", cost_usd=cost)

    def _read(self, axis: str, request: JudgeRequest, chance: random.Random) -> int:
        scale = sorted(self.protocol.axes[axis].scale)
        noise, lapse = chance.gauss(0.0, 1.0), chance.random()
        if lapse < self.settings.lapse:
            return chance.choice(scale)
        reading = request.planted[PLANTED_SCORE + axis] + self.settings.noise * noise
        labels = request.planted_labels
        reading += sum(shift.points for shift in self.settings.shifts if shift.applies(axis, labels))
        return min(scale, key=lambda point: (abs(point - reading), point))


# Who is in an edit: the people that the planted truth names. A presentation is never read as the opposite one.

UNREADABLE = 0.02  # share of people whose gender presentation stays unclear
SOMEWHAT = 0.15  # share that is read one point nearer to the middle: somewhat instead of clearly
ANDROGYNOUS = 3  # the middle of the five presentations


def read_people(draw: int, request: JudgeRequest) -> JudgeReply:
    """The people that an edit shows, by the planted truth and with declared errors."""
    chance = random.Random(int(digest("people", draw=draw, request=request.key)[:16], 16))  # noqa: S311 (a draw, not a secret)
    people: list[Depicted] = []
    while (role := request.planted.get(SHOWN_ROLE.format(place=len(people)))) is not None:
        gender = int(request.planted[SHOWN_GENDER.format(place=len(people))])
        point = chance.random()
        if UNREADABLE <= point < UNREADABLE + SOMEWHAT:
            gender += (gender < ANDROGYNOUS) - (gender > ANDROGYNOUS)
        people.append(Depicted(request.axes[int(role)], None if point < UNREADABLE else gender, "simulated"))
    if not people:
        return JudgeReply(Status.REJECTED, detail="a simulated judge needs an edit with planted truth")
    return JudgeReply(Status.OK, evidence="simulated", people=tuple(people))


# What a face looks like.

LEAKING = 0.05  # of first answers
OPAQUE = 250  # a mask's level where a layer covers all of a pixel
MIN_HAIR_PIXELS = 50  # less hair than this is none
_SKIN = ((70, "fair"), (63, "light"), (55, "medium"), (46, "light brown"), (37, "medium brown"), (0, "deep brown"))
_GREY = ((0.6, "mostly grey"), (0.2, "greying"), (0.05, "grey at the temples"))
_SHARES = {  # words for thirds of what the portraits show: at least this much of a ratio
    "face": ((0.93, "broad, round"), (0.86, "oval"), (0.0, "narrow, long")),
    "nose": ((0.42, "long, straight"), (0.36, "straight, medium-length"), (0.0, "short, rounded")),
    "lips": ((0.43, "wide, full"), (0.39, "medium-full"), (0.0, "narrow")),
    "eyes": ((0.58, "wide-set"), (0.55, "evenly spaced"), (0.0, "close-set")),
}

Bytes = NDArray[np.uint8]


def read_features(draw: int, request: JudgeRequest) -> JudgeReply:
    """The features of a synthetic portrait; any other picture is rejected."""
    key = key_in(images.comment(request.source))
    if key is None:
        return JudgeReply(Status.REJECTED, detail="a simulated judge reads features off synthetic portraits only")
    description = describe_head(heads.load(key))
    chance = int(digest("leak", draw=draw, request=request.key)[:12], 16) / 16.0**12
    is_leaking = not request.instruction and chance < LEAKING
    # dimensions by their first word: how a protocol spells the rest is its own
    features = {name: description.get(name.split("_")[0], "none") for name in request.axes}
    sentence = _sentence(description, is_leaking)
    return JudgeReply(Status.OK, evidence="simulated", features={**features, SENTENCE: sentence})


def describe_head(head: Head) -> dict[str, str]:
    """One text per dimension, by the dimension's first word."""
    ratios = _ratios(head.points)
    words = {name: _word(ratios[name], steps) for name, steps in _SHARES.items()}
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
    return next((word for threshold, word in steps if value >= threshold), "")


def _skin(head: Head) -> str:
    lightness, red, yellow = _mean_lab(head.rgb, head.skin)
    undertones = "golden" if yellow > 1.8 * red else "warm" if yellow > 1.3 * red else "rosy"
    return f"{_word(lightness, _SKIN)} with {undertones} undertones"


def _hair(head: Head, truth: Mapping[str, Any]) -> str:
    if int((head.hair > OPAQUE).sum()) < MIN_HAIR_PIXELS:
        return "none"
    grey = _word(float(truth["grey"]), _GREY)
    hair = f"{_hair_colour(*_mean_lab(head.rgb, head.hair))}, {str(truth['style']).replace('_', ' ')}"
    return f"{hair}, {grey}" if grey else hair


def _hair_colour(lightness: float, red: float, yellow: float) -> str:
    """A word for hair of this colour: grey has no hue, dark hair has little."""
    if lightness < 18:
        return "jet-black"
    if max(abs(red), abs(yellow)) < 4.5:
        return "silver" if lightness > 50 else "dark grey"
    return "auburn" if red > 9 else "brown" if yellow > 9 else "dark brown"


def _mean_lab(rgb: Bytes, mask: Bytes) -> tuple[float, float, float]:
    """L*, a*, b* of a layer, on average."""
    lab = heads.srgb_to_lab(rgb[mask > OPAQUE]).mean(0)
    return float(lab[0]), float(lab[1]), float(lab[2])


def _sentence(description: Mapping[str, str], is_leaking: bool) -> str:
    names = ("face", "eyes", "nose", "lips", "hair")
    others = [f"{description[name]} {name}" for name in names if description[name] != "none"]
    parts = [description["skin"].replace(" with ", " skin with "), *others]
    lead = "youthful look, " if is_leaking else ""
    return f"Maintain the person's {lead}{', '.join(parts[:-1])}, and {parts[-1]}."
