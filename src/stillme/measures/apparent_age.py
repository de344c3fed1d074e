"""apparent_age: how old the person appears before and after, to a model trained on photographs.

Paired, so that much of the model's error for a person cancels; what is left differs by group and is listed in
attribute_errors.csv. Nothing here knows how old anybody is.
"""

from __future__ import annotations

from collections.abc import Mapping

from stillme.engine.backends import BackendContext, PreparedMeasure
from stillme.measures import Reader, attributes

VERSION = 1  # raise when the same pictures and settings give other figures


class Settings(attributes.Settings):
    pass


def prepare(settings: Settings, context: BackendContext) -> PreparedMeasure[Reader]:
    return attributes.prepared("apparent_age", VERSION, attributes.AGE, settings, read)


def read(before: attributes.Apparent, after: attributes.Apparent) -> Mapping[str, float]:
    return {"age_before": before.age, "age_after": after.age, "age_shift": after.age - before.age}
