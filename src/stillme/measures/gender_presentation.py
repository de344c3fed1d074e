"""gender_presentation: how feminine the person appears before and after, to a model trained on photographs.

From 0, masculine to the model, to 1, feminine to it: continuous, and no statement about anybody's gender. The
model knows two classes only and errs more for some groups than for others; attribute_errors.csv lists by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stillme.backends import Place, Prepared
from stillme.measures import Reader, attributes

if TYPE_CHECKING:
    from stillme.measures.view import Pair

VERSION = 1  # raise when the same pictures and settings give other figures


class Settings(attributes.Settings):
    pass


def prepare(settings: Settings, place: Place) -> Prepared[Reader]:
    return Prepared(
        {
            "measure": "gender_presentation",
            "version": VERSION,
            **attributes.effective(attributes.GENDER, settings),
        },
        settings.model_dump(mode="json"),
        make=lambda: make(settings),
        description="How feminine or masculine the person appears to a model, before and after.",
        seconds=0.03,
        computes=True,
        requires=("cv2", attributes.MODULE),
    )


def make(settings: Settings) -> Reader:
    attributes.model()  # a file that is not what it should be is found here, before anything is measured
    return lambda pair: read(pair, settings)


def read(pair: Pair, settings: Settings) -> Mapping[str, float]:
    before, after = attributes.both(pair, settings)
    shift = after.feminine - before.feminine
    return {"feminine_before": before.feminine, "feminine_after": after.feminine, "feminine_shift": shift}
