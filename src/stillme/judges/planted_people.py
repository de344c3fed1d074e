"""Whom a simulated judge sees in an edit: those whom the planted truth names, with declared errors.

A share of the people has no gender presentation that it can tell, and stays unclear. Another share is read as
somewhat instead of clearly masculine or feminine. It never takes one for the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from stillme.core.records import SHOWN_GENDER, SHOWN_ROLE, Depicted, JudgeReply, JudgeRequest, Status, digest

UNCLEAR = 0.02  # share of people whose gender presentation it cannot tell
SOMEWHAT = 0.15  # share that is read a point nearer to the middle
MIDDLE = 3


def judge(draw: int, request: JudgeRequest) -> JudgeReply:
    chance = random.Random(int(digest("people", draw=draw, request=request.key)[:16], 16))  # noqa: S311 (a draw, not a secret)
    people = tuple(_seen(request, chance))
    if not people:
        return JudgeReply(Status.REJECTED, detail="a simulated judge needs an edit with planted truth")
    return JudgeReply(Status.OK, evidence="simulated", people=people)


def _seen(request: JudgeRequest, chance: random.Random) -> Iterator[Depicted]:
    place = 0
    while (role := request.planted.get(SHOWN_ROLE.format(place=place))) is not None:
        gender = int(request.planted[SHOWN_GENDER.format(place=place)])
        yield Depicted(request.axes[int(role)], _read(gender, chance), "simulated")
        place += 1


def _read(gender: int, chance: random.Random) -> int | None:
    point = chance.random()
    if point < UNCLEAR:
        return None
    nearer = (gender < MIDDLE) - (gender > MIDDLE)
    return gender + nearer if point < UNCLEAR + SOMEWHAT else gender
