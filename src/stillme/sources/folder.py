"""A folder or zip of portraits, with labels in a custom table or in file names as UTKFace has them.

Knows what each column means only from the settings. Labels are perceptions of whoever annotated them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from stillme.core.errors import printable
from stillme.core.yaml import StrictModel
from stillme.protocol.schema import Text
from stillme.sources import Reason, Row, RowIssue
from stillme.sources.files import Files, locate_image, open_files, read_images
from stillme.sources.labels import Vocabulary, label
from stillme.sources.tables import Table, open_table

DATASET = "a folder of portraits"
LICENCE = ""  # only the user knows it
_FILE, _SPLIT = "file", "split"
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_UTKFACE = re.compile(r"(?P<age>\d{1,3})_(?P<gender>\d)_(?P<race>\d)_\d+ *\.(jpe?g|png)(\.chip\.jpg)?", re.I)
_AS_CLASS = ("gender", "race")  # in such a name; the age is given in years


class Settings(StrictModel):
    """`columns`: what a column holds -> its name: `file` (the path in `folder`), race, gender, age, split."""

    folder: str = Field(min_length=1)
    labels: str | None = None
    columns: dict[str, Text] = Field(default_factory=dict)
    naming: Literal["utkface"] | None = None
    aliases: dict[str, dict[str, str]] = Field(default_factory=dict)
    licence: Text
    dataset: str = ""

    @model_validator(mode="after")
    def _one_way_to_labels(self) -> Settings:
        if (self.labels is None) == (self.naming is None):
            raise ValueError("give exactly one of 'labels' (a table) and 'naming' (labels in file names)")
        if self.naming and self.columns:
            raise ValueError("'columns' belongs to 'labels'; leave it out beside 'naming'")
        if self.labels and _FILE not in self.columns:
            raise ValueError(f"'columns' needs '{_FILE}': the column with the name of the image file")
        return self


def read(settings: Settings, folder: Path, vocabulary: Vocabulary) -> Listed | Named:
    data = folder / settings.folder
    vocabulary.check_columns(settings.columns, _FILE, _SPLIT)
    files = open_files(data)
    if settings.labels is None:
        return Named(name=printable(data.resolve().name), files=files, vocabulary=vocabulary)
    path = folder / settings.labels
    return Listed(
        table=open_table(path, settings.columns.values()),
        name=path.name,
        columns=settings.columns,
        files=files,
        vocabulary=vocabulary,
    )


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Portraits that a table lists."""

    table: Table
    name: str
    columns: Mapping[str, str]
    files: Files
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | RowIssue]:
        return label(self._unlabelled_rows(), self.vocabulary)

    def _unlabelled_rows(self) -> Iterator[Row | RowIssue]:
        for item in self.table.rows():
            if isinstance(item, RowIssue):
                yield item
                continue
            number, values = item
            fields = {word: values[column].strip() for word, column in self.columns.items()}
            image, split = fields.pop(_FILE), fields.pop(_SPLIT, "")
            row = Row(id="", split=split, labels={}, annotated=fields, file=self.name, row=number)
            yield locate_image(self.files, image, row)

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        return read_images(self.files, rows)


@dataclass(frozen=True, kw_only=True)
class Named:
    """Portraits whose file names hold the labels: `[age]_[gender]_[race]_[date and time].jpg`."""

    name: str
    files: Files
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | RowIssue]:
        return label(self._unlabelled_rows(), self.vocabulary)

    def _unlabelled_rows(self) -> Iterator[Row | RowIssue]:
        images = (name for name in self.files.names() if name.lower().endswith(_IMAGE_SUFFIXES))
        for number, name in enumerate(images, 1):
            row = Row(id=name, split="", labels={}, annotated={}, file=self.name, row=number, address=(name,))
            yield self._annotate(row, name)

    def _annotate(self, row: Row, name: str) -> Row | RowIssue:
        # Bytes of a file's name that are not text become halves of characters, which no table can hold.
        if name.encode("utf-8", "ignore").decode() != name:
            return row.issue(Reason.BAD_ROW, f"the name {name!r} is not UTF-8; rename it")
        if flaw := self.files.flaw(name):
            return row.issue(flaw.reason, flaw.message)
        match = _UTKFACE.fullmatch(name.rpartition("/")[2])
        if match is None:
            message = f"the name {name!r} is not of the form [age]_[gender]_[race]_[date and time].jpg"
            return row.issue(Reason.BAD_ROW, message)
        annotated = match.groupdict()
        for dimension in _AS_CLASS:
            names, number = self.vocabulary.utkface_classes.get(dimension, ()), int(annotated[dimension])
            if number >= len(names):
                known = f"there are {len(names)}, from 0"
                message = f"the name {name!r} gives the class {number} of {dimension}; {known}"
                return row.issue(Reason.BAD_ROW, message)
            annotated[dimension] = names[number]
        return replace(row, annotated=annotated)

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        return read_images(self.files, rows)
