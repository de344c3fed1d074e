"""identity: how alike source and edit are to a face recogniser (SFace), as a cosine.

Continuous, with no threshold: recognisers confuse some groups' faces more than others', so one threshold would
treat people unequally. The source's likeness to its own re-encodes is recorded too, to centre each group on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedMeasure
from stillme.measures import Reader, weights

if TYPE_CHECKING:
    from stillme.measures.view import Pair, Vector

VERSION = 2  # raise when the same pictures and settings give other figures


class Settings(StrictModel):
    pass


def prepare(settings: Settings, context: BackendContext) -> PreparedMeasure[Reader]:
    used = weights.sums(weights.DETECTOR, weights.EMBEDDING)
    return PreparedMeasure(
        effective={"measure": "identity", "version": VERSION, "weights": used},
        inputs={},
        make=lambda: read,
        description="Likeness of source and edit to a face recogniser.",
        seconds=0.045,
        requires=("cv2",),
    )


def read(pair: Pair) -> Mapping[str, float]:
    before, after = pair.people
    source = pair.source.embedding(before)
    reencoded = [cosine(source, copy.edit.embedding(copy.people[1])) for copy in pair.source.reencoded_pairs]
    figures = {"similarity": cosine(source, pair.edit.embedding(after))}
    return figures | ({"similarity_reencoded": min(reencoded)} if reencoded else {})


def cosine(first: Vector, second: Vector) -> float:
    """Of two directions of length 1; written so that a direction with itself gives exactly 1."""
    difference = first - second
    return float(1 - np.dot(difference, difference) / 2)
