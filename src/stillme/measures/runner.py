"""Take all measures of a pair in one go, on views that they share.

A picture is decoded once, and the views of the last few sources are cached, so that a source's face is found,
shaped and embedded once for all its edits. Memory stays flat: nothing else is cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from stillme.core.records import MeasureRequest, Reading, Status
from stillme.measures import Reader
from stillme.measures.view import Pair, UnreadableError, View, VisionModels

MAX_CACHED_SOURCES = 2  # a view holds a decoded picture, so more would cost memory per process
DIGITS = 6  # of a stored figure: enough for any use, and no more than the pictures hold


class MeasureRunner:
    """Takes measures by their names."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._optics = VisionModels()
        self._sources: OrderedDict[str, View] = OrderedDict()

    def measure(self, request: MeasureRequest) -> list[Reading]:
        """One reading per measure of the request, in its order."""
        try:
            pair = self.pair(request)
        except UnreadableError as error:
            return [Reading(error.status, detail=error.detail)] * len(request.measures)
        return [_read(self._readers[name], pair) for name in request.measures]

    def pair(self, request: MeasureRequest) -> Pair:
        return Pair(self._source(request), View(request.edited, "edit", self._optics))

    def _source(self, request: MeasureRequest) -> View:
        if request.source_key not in self._sources:
            self._sources[request.source_key] = View(request.source, "source", self._optics)
        self._sources.move_to_end(request.source_key)
        if len(self._sources) > MAX_CACHED_SOURCES:
            self._sources.popitem(last=False)
        return self._sources[request.source_key]


def _read(reader: Reader, pair: Pair) -> Reading:
    try:
        return Reading(Status.OK, {name: round(float(value), DIGITS) for name, value in reader(pair).items()})
    except UnreadableError as error:
        return Reading(error.status, detail=error.detail)
