"""FairFace as released: `fairface_label_{train,val}.csv` beside folders of images, or beside zips of them.

Its labels are annotators' perceptions of race, gender and age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pydantic import Field

from stillme.core.yaml import StrictModel
from stillme.protocol.schema import Name
from stillme.sources import Row, RowIssue
from stillme.sources.files import Files, locate_image, open_files, read_images
from stillme.sources.labels import FAIRFACE, FAIRFACE_DIMENSIONS, FAIRFACE_LICENCE, Vocabulary, label
from stillme.sources.tables import Table, open_table

DATASET, LICENCE = FAIRFACE, FAIRFACE_LICENCE
_FILE = "file"


class Settings(StrictModel):
    """`images`: a folder or zip that holds `train/1.jpg`; by default what lies in `folder`."""

    folder: str = Field(min_length=1)
    splits: tuple[Name, ...] = Field(default=("train", "val"), min_length=1)
    images: str | None = None
    aliases: dict[str, dict[str, str]] = Field(default_factory=dict)
    licence: str = ""
    dataset: str = ""


def read(settings: Settings, folder: Path, vocabulary: Vocabulary) -> FairFace:
    data = folder / settings.folder
    if not data.is_dir():
        raise ValueError(f"folder: {data} is not a folder")
    paths = {split: data / f"fairface_label_{split}.csv" for split in dict.fromkeys(settings.splits)}
    lists = {split: path for split, path in paths.items() if path.is_file()}
    missing = [path.name for split, path in paths.items() if split not in lists]
    if not lists or (missing and "splits" in settings.model_fields_set):
        raise ValueError(f"folder: {data} holds no list of labels; looked for {', '.join(missing)}")
    images = open_files(folder / settings.images) if settings.images else None
    return FairFace(
        files={split: images or _find_images(data, split) for split in lists},
        tables={split: open_table(path, (_FILE, *FAIRFACE_DIMENSIONS)) for split, path in lists.items()},
        names={split: path.name for split, path in lists.items()},
        vocabulary=vocabulary,
    )


def _find_images(folder: Path, split: str) -> Files:
    """The one folder or zip next to the list that holds a split's images."""
    matches = [folder] if (folder / split).is_dir() else []
    matches += [path for path in sorted(folder.glob("*.zip")) if open_files(path).has_folder(split)]
    if len(matches) > 1:
        listed = ", ".join(f"{path.name}/{split}" if path == folder else path.name for path in matches)
        raise ValueError(f"images: several hold the split '{split}': {listed}; say which with 'images'")
    if not matches:
        looked = f"a folder '{split}', '{split}.zip', or another zip with a folder '{split}' in it"
        raise ValueError(
            f"images: {folder} holds no images of the split '{split}'; looked for {looked}. "
            f"Say where they are with 'images', or leave the split out of 'splits'"
        )
    return open_files(matches[0])


@dataclass(frozen=True, kw_only=True)
class FairFace:
    tables: Mapping[str, Table]
    names: Mapping[str, str]  # split -> the list's file name
    files: Mapping[str, Files]
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | RowIssue]:
        return label(self._unlabelled_rows(), self.vocabulary)

    def _unlabelled_rows(self) -> Iterator[Row | RowIssue]:
        for split, table in self.tables.items():
            for item in table.rows():
                if isinstance(item, RowIssue):
                    yield item
                    continue
                number, values = item
                annotated = {dimension: values[dimension].strip() for dimension in FAIRFACE_DIMENSIONS}
                row = Row(id="", split=split, labels={}, annotated=annotated, file=self.names[split], row=number)
                yield locate_image(self.files[split], values[_FILE].strip(), row)

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        by_split = sorted(rows, key=lambda row: row.split)
        for split, split_rows in groupby(by_split, key=lambda row: row.split):
            yield from read_images(self.files[split], list(split_rows))
