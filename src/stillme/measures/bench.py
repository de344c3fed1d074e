"""The bench: all measures of a pair in one go, on views that they share.

A picture is decoded once, and the views of the last few sources are kept, so that a source's face is found, shaped
and embedded once for all its edits. Memory stays flat: nothing else is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from stillme.core.records import MeasureRequest, Reading, Status
from stillme.measures import Reader
from stillme.measures.view import Optics, Pair, UnreadableError, View

KEPT = 2  # sources


class Bench:
    """Takes measures by their names."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._optics = Optics()
        self._sources: OrderedDict[str, View] = OrderedDict()

    def measure(self, request: MeasureRequest) -> list[Reading]:
        try:
            pair = self.pair(request)
        except UnreadableError as error:
            return [_unread(error)] * len(request.measures)
        return [_read(self._readers[name], pair) for name in request.measures]

    def pair(self, request: MeasureRequest) -> Pair:
        return Pair(self._source(request), View(request.edited, "edit", self._optics))

    def _source(self, request: MeasureRequest) -> View:
        if request.source_key not in self._sources:
            self._sources[request.source_key] = View(request.source, "source", self._optics)
        self._sources.move_to_end(request.source_key)
        if len(self._sources) > KEPT:
            self._sources.popitem(last=False)
        return self._sources[request.source_key]


def _read(reader: Reader, pair: Pair) -> Reading:
    try:
        return Reading(Status.OK, {name: _plain(value) for name, value in reader(pair).items()})
    except UnreadableError as error:
        return _unread(error)


def _plain(value: float) -> float:
    """As it is stored: enough digits for any use, and no more than the pictures hold."""
    return round(float(value), 6)


def _unread(error: UnreadableError) -> Reading:
    return Reading(error.status, detail=error.detail)
