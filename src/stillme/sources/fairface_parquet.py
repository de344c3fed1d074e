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

from stillme.core.errors import ConfigIssue, ConfigIssuesError
from stillme.core.yaml import StrictModel, unknown
from stillme.protocol.schema import Name
from stillme.sources import Reason, Row, RowIssue
from stillme.sources.files import MAX_IMAGE_BYTES, safe_member_name, too_large
from stillme.sources.labels import FAIRFACE, FAIRFACE_DIMENSIONS, FAIRFACE_LICENCE, Seen, Vocabulary, label
from stillme.sources.tables import RowLocation, check_columns, first_line, open_parquet, scan, text

DATASET, LICENCE = FAIRFACE, FAIRFACE_LICENCE
CONFIGS = ("0.25", "1.25")  # how much margin is left around a face
MAX_IMAGES_IN_MEMORY = 16  # that are read at a time
_IMAGE = "image"
_SHARDS = "*.parquet"


class Settings(StrictModel):
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


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One Parquet file. `name`: its path below the shards' folder, the same on every machine."""

    path: Path
    name: str
    split: str

    @property
    def stem(self) -> str:
        return self.name.removesuffix(".parquet")


def read(settings: Settings, folder: Path, vocabulary: Vocabulary) -> Shards:
    columns = {word: word for word in (_IMAGE, *FAIRFACE_DIMENSIONS)} | settings.columns
    vocabulary.check_columns(columns, _IMAGE)
    shards = _find_shards(folder / settings.folder, settings)
    if faults := [fault for shard in shards for fault in _shard_faults(shard.path, columns)]:
        raise ConfigIssuesError(faults)
    return Shards(shards=shards, columns=columns, vocabulary=vocabulary)


def _shard_faults(path: Path, columns: Mapping[str, str]) -> Sequence[ConfigIssue]:
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
        check_columns(path, schema.names, columns.values())
    except ConfigIssuesError as error:
        return error.faults
    kind = schema.field(columns[_IMAGE]).type
    if _holds_bytes(kind):
        return ()
    message = f"the column '{columns[_IMAGE]}' holds {kind}; image files as bytes are needed"
    return (ConfigIssue(str(path), 0, "", message),)


def _holds_bytes(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


# Where the shards are


def _find_shards(path: Path, settings: Settings) -> tuple[Shard, ...]:
    """The shards of the splits asked for, split by split, in the order of their names."""
    if path.is_file():
        return (Shard(path=path, name=path.name, split=_split_of(path, path.parent, settings.splits) or ""),)
    if not path.is_dir():
        raise ValueError(f"folder: {path} does not exist")
    base = _base_folder(path, settings.config)
    files = sorted((*base.glob(_SHARDS), *base.glob(f"*/{_SHARDS}")))
    shards = tuple(
        Shard(path=file, name=file.relative_to(base).as_posix(), split=split)
        for split in dict.fromkeys(settings.splits)
        for file in files
        if split == _split_of(file, base, settings.splits)
    )
    missing = [split for split in settings.splits if split not in {shard.split for shard in shards}]
    if not shards or (missing and "splits" in settings.model_fields_set):
        looked = ", ".join(f"{split}-*.parquet" for split in missing)
        raise ValueError(f"folder: {base} holds no shards of these splits; looked for {looked}")
    return shards


def _base_folder(path: Path, config: str | None) -> Path:
    """The folder of a config, where there are configs; else `data`, or the folder itself."""
    configs = [name for name in CONFIGS if (path / name).is_dir()]
    if config is None and len(configs) > 1:
        raise ValueError(f"config: {path} holds {' and '.join(configs)}; say which")
    if config is not None and config not in configs and path.name != config:
        raise ValueError(f"config: {path} has no folder '{config}'")
    base = path / (config or configs[0]) if configs and path.name != config else path
    return base / "data" if (base / "data").is_dir() else base


def _split_of(file: Path, base: Path, splits: Iterable[str]) -> str | None:
    """The split that a shard's name, or its folder's, begins a part with: `validation-00000` is of `val`."""
    parts = re.split(r"[-_./]", file.relative_to(base).as_posix().lower())
    return next((split for split in splits if any(part.startswith(split.lower()) for part in parts)), None)


# What the shards hold


@dataclass(frozen=True, kw_only=True)
class Shards:
    shards: tuple[Shard, ...]
    columns: Mapping[str, str]
    vocabulary: Vocabulary

    def rows(self) -> Iterator[Row | RowIssue]:
        return label(self._unlabelled_rows(), self.vocabulary)

    def _unlabelled_rows(self) -> Iterator[Row | RowIssue]:
        """An image keeps the data set's own name where only one row has it; other rows go by their position."""
        seen = Seen()
        for number, shard in enumerate(self.shards):
            for row in self._shard_rows(number, shard):
                if isinstance(row, Row) and seen.before(row.id):
                    yield replace(row, id=f"{shard.stem}#{row.row}")
                else:
                    yield row

    def _shard_rows(self, number: int, shard: Shard) -> Iterator[Row | RowIssue]:
        with open_parquet(shard.path) as file:
            schema = file.schema_arrow
        labels = {dimension: column for dimension, column in self.columns.items() if dimension != _IMAGE}
        class_names = {
            dimension: _class_names(schema, column, dimension, self.vocabulary)
            for dimension, column in labels.items()
        }
        image = self.columns[_IMAGE]
        kind = schema.field(image).type
        has_path = pa.types.is_struct(kind) and any(field.name == "path" for field in kind)
        for item in scan(shard.path, shard.name, [*([f"{image}.path"] if has_path else []), *labels.values()]):
            if isinstance(item, RowIssue):
                yield item
                continue
            spot, values = item
            yield Row(
                id=_row_id((values.get(image) or {}).get("path"), shard, spot),
                split=shard.split,
                labels={},
                annotated={
                    dimension: _spelling(values[column], class_names[dimension])
                    for dimension, column in labels.items()
                },
                file=shard.name,
                row=spot.row,
                address=(number, spot.group, spot.offset),
            )

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        ordered = sorted(rows, key=lambda row: row.address)
        for number, shard_rows in groupby(ordered, key=lambda row: int(row.address[0])):
            with open_parquet(self.shards[number].path) as file:
                for group, group_rows in groupby(shard_rows, key=lambda row: int(row.address[1])):
                    yield from self._group_images(file, group, list(group_rows))

    def _group_images(self, file: Any, group: int, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        """Some rows of one row group, a few images at a time; what comes after the last of them is not read."""
        image = self.columns[_IMAGE]
        leaf = f"{image}.bytes" if pa.types.is_struct(file.schema_arrow.field(image).type) else image
        n_done, first, problem = 0, 0, "the column of images ends before this row"
        try:
            for batch in file.iter_batches(
                MAX_IMAGES_IN_MEMORY, row_groups=[group], columns=[leaf], use_threads=False
            ):
                column = batch.column(0)
                while n_done < len(rows) and rows[n_done].address[2] < first + len(column):
                    row = rows[n_done]
                    n_done += 1
                    yield row, _content(column[row.address[2] - first].as_py(), row)
                if n_done == len(rows):
                    return
                first += len(column)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            problem = first_line(error)
        for row in rows[n_done:]:
            yield row, row.issue(Reason.CORRUPT, f"{row.id} cannot be read from row group {group}: {problem}")


def _content(value: Any, row: Row) -> bytes | RowIssue:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        message = f"{row.id} has no image in the shard" + (", only labels" if content is None else ": 0 bytes")
        return row.issue(Reason.MISSING_FILE, message)
    if len(content) > MAX_IMAGE_BYTES:
        flaw = too_large(row.id)
        return row.issue(flaw.reason, flaw.message)
    return bytes(content)


def _row_id(path: Any, shard: Shard, spot: RowLocation) -> str:
    """The image's own path if no machine is named in it, else its position. A bare name is one of its split."""
    name = safe_member_name(path) if isinstance(path, str) else None
    if name is None:
        return f"{shard.stem}#{spot.row}"
    return name if "/" in name or not shard.split else f"{shard.split}/{name}"


# Labels


def _class_names(schema: Any, column: str, dimension: str, vocabulary: Vocabulary) -> Sequence[str]:
    """The class ids of a column by name: as the file itself says, else as FairFace is known to have them."""
    if not pa.types.is_integer(schema.field(column).type) and not pa.types.is_floating(schema.field(column).type):
        return ()
    declared: tuple[str, ...] = ()
    try:
        names = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]["names"]
        declared = tuple(str(name) for name in names)
    except (KeyError, TypeError, ValueError, RecursionError):  # none, or in another form
        pass
    return declared or vocabulary.fairface_classes.get(dimension, ())


def _spelling(value: Any, class_names: Sequence[str]) -> str:
    """A class id by its name; a word as it is. -1 is how Hugging Face writes a class that is missing."""
    if not class_names or not isinstance(value, int | float) or value != value:  # only NaN differs from itself
        return text(value)
    if 0 <= value < len(class_names):
        return class_names[int(value)]
    return "" if value == -1 else f"class {text(value)}"
