"""A folder or zip of portraits, with labels in a table of one's own or in file names as UTKFace has them.

Knows what each column means only from the settings. Labels are perceptions of whoever annotated them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from stillme.core.errors import printable
from stillme.core.yaml import Frozen, unknown
from stillme.protocol.schema import Text
from stillme.sources import Reason, Remark, Row
from stillme.sources.files import Files, contents, listed, open_files
from stillme.sources.labels import Vocabulary, label
from stillme.sources.tables import Table, open_table

DATASET = "a folder of portraits"
LICENCE = ""  # nobody but the user knows it
_FILE, _SPLIT = "file", "split"
_IMAGES = (".jpg", ".jpeg", ".png", ".webp")
_UTKFACE = re.compile(r"(?P<age>\d{1,3})_(?P<gender>\d)_(?P<race>\d)_\d+ *\.(jpe?g|png)(\.chip\.jpg)?", re.I)
_AS_CLASS = ("gender", "race")  # in such a name; the age stands there in years


class Settings(Frozen):
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
    here = folder / settings.folder
    _check_columns(settings.columns, vocabulary)
    files = open_files(here)
    if settings.labels is None:
        return Named(printable(here.resolve().name), files, vocabulary)
    path = folder / settings.labels
    return Listed(open_table(path, settings.columns.values()), path.name, settings.columns, files, vocabulary)


def _check_columns(columns: Mapping[str, str], vocabulary: Vocabulary) -> None:
    known = (_FILE, _SPLIT, *vocabulary.dimensions)
    if wrong := [unknown(word, "thing that a column can hold", known) for word in columns if word not in known]:
        raise ValueError(f"columns: {'; '.join(wrong)}")


@dataclass(frozen=True)
class Listed:
    """Portraits that a table lists."""

    table: Table
    name: str
    columns: Mapping[str, str]
    files: Files
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | Remark]:
        return label(self._rows(), self.vocabulary)

    def _rows(self) -> Iterator[Row | Remark]:
        for found in self.table.rows():
            yield found if isinstance(found, Remark) else self._row(*found)

    def _row(self, row: int, values: Mapping[str, str]) -> Row | Remark:
        told = {word: values[column].strip() for word, column in self.columns.items()}
        given, split = told.pop(_FILE), told.pop(_SPLIT, "")
        return listed(self.files, given, Row("", split, {}, told, self.name, row))

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
        return contents(self.files, rows)


@dataclass(frozen=True)
class Named:
    """Portraits whose file names hold the labels: `[age]_[gender]_[race]_[date and time].jpg`."""

    name: str
    files: Files
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | Remark]:
        return label(self._rows(), self.vocabulary)

    def _rows(self) -> Iterator[Row | Remark]:
        images = (name for name in self.files.names() if name.lower().endswith(_IMAGES))
        for row, name in enumerate(images, 1):
            yield self._row(row, name)

    def _row(self, row: int, name: str) -> Row | Remark:
        if not _is_utf8(name):
            return Remark(self.name, row, Reason.BAD_ROW, f"the name {name!r} is not UTF-8; rename it")
        if flaw := self.files.flaw(name):
            return Remark(self.name, row, flaw.reason, flaw.said)
        fitting = _UTKFACE.fullmatch(name.rpartition("/")[2])
        if fitting is None:
            said = f"the name {name!r} is not of the form [age]_[gender]_[race]_[date and time].jpg"
            return Remark(self.name, row, Reason.BAD_ROW, said)
        annotated = fitting.groupdict()
        for dimension in _AS_CLASS:
            names, number = self.vocabulary.utkface_classes.get(dimension, ()), int(annotated[dimension])
            if number >= len(names):
                said = f"the name {name!r} gives the class {number} of {dimension}; there are {len(names)}, from 0"
                return Remark(self.name, row, Reason.BAD_ROW, said)
            annotated[dimension] = names[number]
        return Row(name, "", {}, annotated, self.name, row, (name,))

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
        return contents(self.files, rows)


def _is_utf8(name: str) -> bool:
    """Bytes of a file's name that are no text stand there as halves of characters, which no table can hold."""
    return name.encode("utf-8", "ignore").decode() == name
