"""FairFace as released: `fairface_label_{train,val}.csv` beside folders of images, or beside zips of them.

Its labels are annotators' perceptions of race, gender and age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pydantic import Field

from stillme.core.yaml import Frozen
from stillme.protocol.schema import Name
from stillme.sources import Remark, Row
from stillme.sources.files import Files, contents, listed, open_files
from stillme.sources.labels import Vocabulary, label
from stillme.sources.tables import Table, open_table

DATASET = "FairFace"
LICENCE = "CC BY 4.0, FairFace by Kimmo Kärkkäinen and Jungseock Joo (WACV 2021)"
DIMENSIONS = ("age", "gender", "race")
_FILE = "file"


class Settings(Frozen):
    """`images`: a folder or zip that holds `train/1.jpg`; by default what lies in `folder`."""

    folder: str = Field(min_length=1)
    splits: tuple[Name, ...] = Field(default=("train", "val"), min_length=1)
    images: str | None = None
    aliases: dict[str, dict[str, str]] = Field(default_factory=dict)
    licence: str = ""
    dataset: str = ""


def read(settings: Settings, folder: Path, vocabulary: Vocabulary) -> FairFace:
    here = folder / settings.folder
    if not here.is_dir():
        raise ValueError(f"folder: {here} is not a folder")
    lists = {split: here / f"fairface_label_{split}.csv" for split in dict.fromkeys(settings.splits)}
    found = {split: path for split, path in lists.items() if path.is_file()}
    missing = [path.name for split, path in lists.items() if split not in found]
    if not found or (missing and "splits" in settings.model_fields_set):
        raise ValueError(f"folder: {here} holds no list of labels; looked for {', '.join(missing)}")
    given = open_files(folder / settings.images) if settings.images else None
    files = {split: given or _files_beside(here, split) for split in found}
    tables = {split: open_table(path, (_FILE, *DIMENSIONS)) for split, path in found.items()}
    return FairFace(tables, {split: path.name for split, path in found.items()}, files, vocabulary)


def _files_beside(folder: Path, split: str) -> Files:
    """The one folder or zip beside the list that holds a split's images."""
    fitting = [folder] if (folder / split).is_dir() else []
    fitting += [path for path in sorted(folder.glob("*.zip")) if open_files(path).has_folder(split)]
    if len(fitting) > 1:
        listed = ", ".join(f"{path.name}/{split}" if path == folder else path.name for path in fitting)
        raise ValueError(f"images: several hold the split '{split}': {listed}; say which with 'images'")
    if not fitting:
        looked = f"a folder '{split}', '{split}.zip', or another zip with a folder '{split}' in it"
        raise ValueError(
            f"images: {folder} holds no images of the split '{split}'; looked for {looked}. "
            f"Say where they are with 'images', or leave the split out of 'splits'"
        )
    return open_files(fitting[0])


@dataclass(frozen=True)
class FairFace:
    tables: Mapping[str, Table]
    names: Mapping[str, str]  # split -> the list's file name
    files: Mapping[str, Files]
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | Remark]:
        return label(self._rows(), self.vocabulary)

    def _rows(self) -> Iterator[Row | Remark]:
        for split, table in self.tables.items():
            for found in table.rows():
                yield found if isinstance(found, Remark) else self._row(split, *found)

    def _row(self, split: str, row: int, values: Mapping[str, str]) -> Row | Remark:
        annotated = {dimension: values[dimension].strip() for dimension in DIMENSIONS}
        return listed(
            self.files[split], values[_FILE].strip(), Row("", split, {}, annotated, self.names[split], row)
        )

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
        for split, some in groupby(sorted(rows, key=lambda row: row.split), key=lambda row: row.split):
            yield from contents(self.files[split], list(some))
