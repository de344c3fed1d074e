"""Sources: where portraits come from. One file per backend.

A source of an audit (BACKENDS) yields portraits with their images. A reader (READERS) reads a data set to choose
portraits from: first labels only, row by row, then the images of the few rows that were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from stillme.core.records import Portrait

BACKENDS = {"portraits": "stillme.sources.portraits", "synthetic": "stillme.sources.synthetic"}
READERS = {
    "fairface": "stillme.sources.fairface",
    "fairface_parquet": "stillme.sources.fairface_parquet",
    "folder": "stillme.sources.folder",
}


class Source(Protocol):
    """Yields each portrait with its image, in the same order every time."""

    def portraits(self) -> Iterator[tuple[Portrait, bytes]]: ...


class Reason(StrEnum):
    """Why a row of a data set gives no candidate, or gives one only after a change. The closed list."""

    MISSING_FILE = "missing_file"
    MISSING_LABEL = "missing_label"
    BAD_ROW = "bad_row"
    LISTED_TWICE = "listed_twice"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    ANIMATED = "animated"
    GREYSCALE = "greyscale"
    TOO_SMALL = "too_small"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    TURNED_UPRIGHT = "turned_upright"
    CONVERTED = "converted"

    @property
    def keeps(self) -> bool:
        """Whether the row still gives a candidate: its image was fixed, not skipped."""
        return self in (Reason.TURNED_UPRIGHT, Reason.CONVERTED)

    @property
    def label(self) -> str:
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class RowIssue:
    """A problem of one row: which file and row, and a sentence. The field names are keys of `sample --json`."""

    file: str  # the file that lists the row, e.g. fairface_label_train.csv
    row: int  # of that file, counted as an editor of text shows it: the header is row 1; 0 for the whole file
    reason: Reason
    said: str

    def __str__(self) -> str:
        location = f"{self.file}, row {self.row}" if self.row else self.file
        return f"{location}: {self.said}"


@dataclass(frozen=True, slots=True)
class Row:
    """One portrait as a data set lists it, without its image.

    `labels`: dimension -> group, in the vocabulary of the protocol; a dimension is missing where the annotated
    label lies outside the design (e.g. a child), and such a row is counted but never drawn.
    """

    id: str  # the data set's own name of the portrait, e.g. train/1.jpg; the same wherever the data set lies
    split: str
    labels: Mapping[str, str]
    annotated: Mapping[str, str]  # as the data set spells them
    file: str
    row: int
    address: tuple[Any, ...] = field(default=(), compare=False)  # where the reader finds the image

    def issue(self, reason: Reason, message: str) -> RowIssue:
        return RowIssue(file=self.file, row=self.row, reason=reason, said=message)


class Reader(Protocol):
    """A data set, streamed. Nothing of it stays in memory but what the caller keeps."""

    def rows(self) -> Iterator[Row | RowIssue]:
        """Every row, in the data set's order; an issue instead of a row that cannot be used."""
        ...

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        """The image files of some rows as they are, in the order that is quickest to read."""
        ...
