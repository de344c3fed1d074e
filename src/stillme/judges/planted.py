"""A simulated judge with declared errors: noise, lapses, missing answers, and on wish an error that depends on the
person's group. It reads the planted truth instead of the pictures, so it is marked simulated wherever it appears.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from stillme.core.records import FEATURES, PEOPLE, JudgeReply, JudgeRequest, Status, digest
from stillme.core.yaml import Frozen
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.judges import planted_features, planted_people
from stillme.protocol import Protocol

VERSION = 1  # raise when the same settings and request give other scores

Share = Annotated[float, Field(ge=0, le=1)]
_OTHERS = {PEOPLE: planted_people.judge, FEATURES: planted_features.judge}
QUANTITY = "score."  # planted quantities that are true scores on an axis


class Shift(Frozen):
    """A group-conditioned error: on `axis`, add `points` for persons of the groups in `where`."""

    axis: str
    points: float
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def applies(self, axis: str, labels: Mapping[str, str]) -> bool:
        return axis == self.axis and all(labels.get(d) in groups for d, groups in self.where.items())


class Settings(Frozen):
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
        if request.form in _OTHERS:
            return replace(_OTHERS[request.form](self.settings.draw, request), cost_usd=cost)
        if any(QUANTITY + axis not in request.planted for axis in request.axes):
            return JudgeReply(Status.REJECTED, detail="a simulated judge needs an edit with planted truth")
        scores = {axis: self._read(axis, request, chance) for axis in request.axes}
        return JudgeReply(Status.OK, scores, evidence="simulated", cost_usd=cost)

    def _read(self, axis: str, request: JudgeRequest, chance: random.Random) -> int:
        scale = sorted(self.protocol.axes[axis].scale)
        noise, lapse = chance.gauss(0.0, 1.0), chance.random()
        if lapse < self.settings.lapse:
            return chance.choice(scale)
        reading = request.planted[QUANTITY + axis] + self.settings.noise * noise
        labels = request.planted_labels
        reading += sum(shift.points for shift in self.settings.shifts if shift.applies(axis, labels))
        return min(scale, key=lambda point: (abs(point - reading), point))
