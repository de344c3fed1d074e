"""FairFace as Parquet shards, as Hugging Face hosts it: image bytes, and class ids for age, gender and race.

Labels are read without touching images; images are read from the row groups that were drawn from, a few rows at a
time, so that a page and a few images are in memory however large a row group is. Nothing is fetched: the shards
lie on disk already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, field_validator

from stillme.core.errors import Fault, FaultsError
from stillme.core.yaml import Frozen, unknown
from stillme.protocol.schema import Name
from stillme.sources import Reason, Remark, Row
from stillme.sources.files import LARGEST, inside
from stillme.sources.labels import Seen, Vocabulary, label
from stillme.sources.tables import Spot, brief, check_columns, open_parquet, scan, text

DATASET = "FairFace"
LICENCE = "CC BY 4.0, FairFace by Kimmo Kärkkäinen and Jungseock Joo (WACV 2021)"
CONFIGS = ("0.25", "1.25")  # how much margin is left around a face
DIMENSIONS = ("age", "gender", "race")
FEW = 16  # images that are in memory at a time
_IMAGE = "image"
_SHARDS = "*.parquet"


class Settings(Frozen):
    """`folder`: the shards' folder, or one shard. `columns`: what differs from image, age, gender, race."""

    folder: str = Field(min_length=1)
    config: str | None = None
    splits: tuple[Name, ...] = Field(default=("train", "val"), min_length=1)
    columns: dict[str, str] = Field(default_factory=dict)
    aliases: dict[str, dict[str, str]] = Field(default_factory=dict)
    licence: str = ""
    dataset: str = ""

    @field_validator("config", mode="before")
    @classmethod
    def _config_is_a_name(cls, value: Any) -> Any:
        """Unquoted, 0.25 is a number in YAML."""
        return str(value) if isinstance(value, float) else value

    @field_validator("config")
    @classmethod
    def _config_is_known(cls, value: str | None) -> str | None:
        if value is not None and value not in CONFIGS:
            raise ValueError(unknown(value, "config of FairFace", CONFIGS))
        return value


@dataclass(frozen=True)
class Shard:
    """One Parquet file. `name`: its path below the shards' folder, the same on every machine."""

    path: Path
    name: str
    split: str

    @property
    def stem(self) -> str:
        return self.name.removesuffix(".parquet")


def read(settings: Settings, folder: Path, vocabulary: Vocabulary) -> Shards:
    columns = {word: word for word in (_IMAGE, *DIMENSIONS)} | settings.columns
    known = (_IMAGE, *vocabulary.dimensions)
    if wrong := [unknown(word, "thing that a column can hold", known) for word in columns if word not in known]:
        raise ValueError(f"columns: {'; '.join(wrong)}")
    shards = _shards(folder / settings.folder, settings)
    if faults := [fault for shard in shards for fault in _faults(shard.path, columns)]:
        raise FaultsError(faults)
    return Shards(shards, columns, vocabulary)


def _faults(path: Path, columns: Mapping[str, str]) -> Sequence[Fault]:
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
        check_columns(path, schema.names, columns.values())
    except FaultsError as error:
        return error.faults
    kind = schema.field(columns[_IMAGE]).type
    said = f"the column '{columns[_IMAGE]}' holds {kind}; image files as bytes are needed"
    return () if _holds_bytes(kind) else (Fault(str(path), 0, "", said),)


def _holds_bytes(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


# Where the shards are


def _shards(path: Path, settings: Settings) -> tuple[Shard, ...]:
    """The shards of the splits asked for, split by split, in the order of their names."""
    if path.is_file():
        return (Shard(path, path.name, next(iter(_splits_of(path, path.parent, settings.splits)), "")),)
    if not path.is_dir():
        raise ValueError(f"folder: {path} does not exist")
    base = _base(path, settings.config)
    files = sorted((*base.glob(_SHARDS), *base.glob(f"*/{_SHARDS}")))
    found = tuple(
        Shard(file, file.relative_to(base).as_posix(), split)
        for split in dict.fromkeys(settings.splits)
        for file in files
        if split in _splits_of(file, base, settings.splits)
    )
    missing = [split for split in settings.splits if split not in {shard.split for shard in found}]
    if not found or (missing and "splits" in settings.model_fields_set):
        looked = ", ".join(f"{split}-*.parquet" for split in missing)
        raise ValueError(f"folder: {base} holds no shards of these splits; looked for {looked}")
    return found


def _base(path: Path, config: str | None) -> Path:
    """The folder of a config, where there are configs; else `data`, or the folder itself."""
    there = [name for name in CONFIGS if (path / name).is_dir()]
    if config is None and len(there) > 1:
        raise ValueError(f"config: {path} holds {' and '.join(there)}; say which")
    if config is not None and config not in there and path.name != config:
        raise ValueError(f"config: {path} has no folder '{config}'")
    chosen = path / (config or there[0]) if there and path.name != config else path
    return chosen / "data" if (chosen / "data").is_dir() else chosen


def _splits_of(file: Path, base: Path, splits: Iterable[str]) -> list[str]:
    """The split that a shard's name, or its folder's, begins a part with: `validation-00000` is of `val`."""
    inner = file.relative_to(base)
    parts = re.split(r"[-_./]", inner.as_posix().lower())
    return [split for split in splits if any(part.startswith(split.lower()) for part in parts)][:1]


# What the shards hold


@dataclass(frozen=True)
class Shards:
    shards: tuple[Shard, ...]
    columns: Mapping[str, str]
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | Remark]:
        return label(self._rows(), self.vocabulary)

    def _rows(self) -> Iterator[Row | Remark]:
        """The data set's own name of an image is kept where it is a row's alone; other rows go by their place."""
        seen = Seen()
        for number, shard in enumerate(self.shards):
            for found in self._rows_of(number, shard):
                if isinstance(found, Row) and seen.before(found.id):
                    yield replace(found, id=f"{shard.stem}#{found.row}")
                else:
                    yield found

    def _rows_of(self, number: int, shard: Shard) -> Iterator[Row | Remark]:
        with open_parquet(shard.path) as file:
            schema = file.schema_arrow
        names = {d: _names(schema, column, d, self.vocabulary) for d, column in self._labels.items()}
        image = self.columns[_IMAGE]
        paths = [f"{image}.path"] if _has_path(schema.field(image).type) else []
        for found in scan(shard.path, shard.name, [*paths, *self._labels.values()]):
            if isinstance(found, Remark):
                yield found
                continue
            spot, values = found
            annotated = {d: _spelled(values[column], names[d]) for d, column in self._labels.items()}
            key = _id((values.get(image) or {}).get("path"), shard, spot)
            yield Row(key, shard.split, {}, annotated, shard.name, spot.row, (number, spot.group, spot.offset))

    @property
    def _labels(self) -> dict[str, str]:
        return {word: column for word, column in self.columns.items() if word != _IMAGE}

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
        ordered = sorted(rows, key=lambda row: row.address)
        for number, some in groupby(ordered, key=lambda row: int(row.address[0])):
            with open_parquet(self.shards[number].path) as file:
                for group, these in groupby(some, key=lambda row: int(row.address[1])):
                    yield from self._images_of(file, group, list(these))

    def _images_of(self, file: Any, group: int, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
        """Some rows of one row group; what comes after the last of them is not read."""
        done, why = 0, "the column of images ends before this row"
        try:
            for first, column in _few(file, group, self.columns[_IMAGE]):
                while done < len(rows) and rows[done].address[2] < first + len(column):
                    row = rows[done]
                    done += 1
                    yield row, _content(column[row.address[2] - first].as_py(), row)
                if done == len(rows):
                    return
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            why = brief(error)
        for row in rows[done:]:
            said = f"{row.id} cannot be read from row group {group}: {why}"
            yield row, Remark(row.file, row.row, Reason.CORRUPT, said)


def _few(file: Any, group: int, image: str) -> Iterator[tuple[int, Any]]:
    """A few images at a time: the place of the first in its row group, and the images."""
    leaf = f"{image}.bytes" if pa.types.is_struct(file.schema_arrow.field(image).type) else image
    first = 0
    for batch in file.iter_batches(FEW, row_groups=[group], columns=[leaf], use_threads=False):
        column = batch.column(0)
        yield first, column
        first += len(column)


def _content(value: Any, row: Row) -> bytes | Remark:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        said = f"{row.id} has no image in the shard" + (", only labels" if content is None else ": 0 bytes")
        return Remark(row.file, row.row, Reason.MISSING_FILE, said)
    if len(content) > LARGEST:
        said = f"{row.id} is larger than {LARGEST // 1_000_000} MB and is not read"
        return Remark(row.file, row.row, Reason.TOO_LARGE, said)
    return bytes(content)


def _has_path(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind)) and any(field.name == "path" for field in kind)


def _id(path: Any, shard: Shard, spot: Spot) -> str:
    """The image's own path if it says nothing of a machine, else its place. A bare name is one of its split."""
    name = inside(path) if isinstance(path, str) else None
    if name is None:
        return f"{shard.stem}#{spot.row}"
    return name if "/" in name or not shard.split else f"{shard.split}/{name}"


# Labels


def _names(schema: Any, column: str, dimension: str, vocabulary: Vocabulary) -> Sequence[str]:
    """What the class ids of a column mean: as the file itself says, else as FairFace is known to have them."""
    if not pa.types.is_integer(schema.field(column).type) and not pa.types.is_floating(schema.field(column).type):
        return ()
    return _declared(schema.metadata or {}, column) or vocabulary.fairface_classes.get(dimension, ())


def _declared(metadata: Mapping[bytes, bytes], column: str) -> tuple[str, ...]:
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][column]["names"]
        return tuple(str(name) for name in names)
    except (KeyError, TypeError, ValueError, RecursionError):  # none, or in another form
        return ()


def _spelled(value: Any, names: Sequence[str]) -> str:
    """A class id by its name; a word as it is. -1 is how Hugging Face writes a class that is missing."""
    if not names or not isinstance(value, int | float) or value != value:  # only NaN differs from itself
        return text(value)
    if 0 <= value < len(names):
        return names[int(value)]
    return "" if value == -1 else f"class {text(value)}"
