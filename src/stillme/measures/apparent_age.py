"""apparent_age: how old the person appears before and after, to a model trained on photographs.

Paired, so that much of the model's error for a person cancels; what is left differs by group and is listed in
attribute_errors.csv. Nothing here knows how old anybody is.
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
        {"measure": "apparent_age", "version": VERSION, **attributes.effective(attributes.AGE, settings)},
        settings.model_dump(mode="json"),
        make=lambda: make(settings),
        description="How old the person appears to a model, before and after.",
        seconds=0.03,
        computes=True,
        requires=("cv2", attributes.MODULE),
    )


def make(settings: Settings) -> Reader:
    attributes.model()  # a file that is not what it should be is found here, before anything is measured
    return lambda pair: read(pair, settings)


def read(pair: Pair, settings: Settings) -> Mapping[str, float]:
    before, after = attributes.both(pair, settings)
    return {"age_before": before.age, "age_after": after.age, "age_shift": after.age - before.age}
