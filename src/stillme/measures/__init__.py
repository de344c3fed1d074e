"""Measures: what local instruments read off the pixels of a source and its edit. One file a measure.

Deterministic, offline, no key. An instrument reads; what a figure means on a scale stands in the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stillme.records import MeasureRequest, Reading

if TYPE_CHECKING:
    from stillme.measures.view import Pair

BACKENDS = {
    "skin_tone_shift": "stillme.measures.skin_tone_shift",
    "change": "stillme.measures.change",
    "identity": "stillme.measures.identity",
    "apparent_age": "stillme.measures.apparent_age",
    "gender_presentation": "stillme.measures.gender_presentation",
}


Reader = Callable[["Pair"], Mapping[str, float]]  # what a measure is once made; raises UnreadableError


class Measures(Protocol):
    """Takes the measures that a request names, in its order."""

    def measure(self, request: MeasureRequest) -> Sequence[Reading]: ...
