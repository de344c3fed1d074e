"""gender_presentation: how feminine the person appears before and after, to a model trained on photographs.

From 0, masculine to the model, to 1, feminine to it: continuous, and no statement about anybody's gender. The
model knows two classes only and errs more for some groups than for others; attribute_errors.csv lists by how much.
"""

from __future__ import annotations

from collections.abc import Mapping

from stillme.engine.backends import BackendContext, PreparedMeasure
from stillme.measures import Reader, attributes

VERSION = 1  # raise when the same pictures and settings give other figures


class Settings(attributes.Settings):
    pass


def prepare(settings: Settings, context: BackendContext) -> PreparedMeasure[Reader]:
    return attributes.prepared("gender_presentation", VERSION, attributes.GENDER, settings, read)


def read(before: attributes.Apparent, after: attributes.Apparent) -> Mapping[str, float]:
    shift = after.feminine - before.feminine
    return {"feminine_before": before.feminine, "feminine_after": after.feminine, "feminine_shift": shift}
