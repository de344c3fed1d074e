"""selection.yaml: which data sets, which grid, how many pools. Every fault is named, all at once.

`load` makes a Plan of the file; `init` writes a commented file that fits the data set in a folder.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from stillme import sources
from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError, disk
from stillme.core.records import digest
from stillme.core.yaml import Document, Path_, StrictModel, faults_of, path_from, read_text, unknown
from stillme.engine import backends
from stillme.protocol import Protocol, chosen
from stillme.protocol.schema import Name, Portraits, Word
from stillme.sources import Reader
from stillme.sources.labels import Vocabulary
from stillme.sources.selection.pools import Grid

LOCATIONS = ("folder", "labels", "images")  # settings that say where a data set lies, not what it is
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
MAX_FILES_INSPECTED = 200  # enough to recognise a layout without listing a whole data set
_UTKFACE_NAME = re.compile(r"^\d+_[01]_[0-4]_\d+\.")  # [age]_[gender]_[race]_[date].jpg


class ReaderRow(StrictModel):
    """One data set: which kind of reader, under which name, with which settings."""

    id: Name
    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)


CustomGroups = dict[Word, tuple[str, ...]]  # group -> how the data set spells it


class GridSettings(StrictModel):
    """Axis -> all of its groups, some of them, or custom groups with their spellings."""

    axes: dict[Word, Literal["all"] | tuple[Word, ...] | CustomGroups] | None = Field(default=None, min_length=1)
    per_cell: int = Field(default=1, ge=1, le=100)


class PoolSettings(StrictModel):
    """Pool n has the seed `seed + n - 1`."""

    count: int = Field(default=7, ge=1, le=99)
    seed: int = Field(default=1, ge=0)

    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.count))


class Upscaling(StrictModel):
    """Portraits whose shorter side is below `to` are enlarged to it when they are exported."""

    method: Literal["lanczos", "bicubic", "none"] = "lanczos"
    to: int = Field(default=1024, ge=64, le=4096)


class Selection(StrictModel):
    """The whole of selection.yaml."""

    stillme: Literal[1]
    name: Name
    folder: str
    protocol: str = "builtin"
    readers: tuple[ReaderRow, ...] = Field(min_length=1)
    grid: GridSettings = GridSettings()
    pools: PoolSettings = PoolSettings()
    upscaling: Upscaling = Upscaling()


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """An opened reader, and the name and licence of its data set."""

    reader: Reader
    name: str
    licence: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A selection with its protocol, its grid, and its opened readers."""

    selection: Selection
    protocol: Protocol
    rules: Portraits
    path: Path
    grid: Grid
    readers: Mapping[str, DataSet]

    @property
    def folder(self) -> Path:
        return self.path.parent / self.selection.folder

    @property
    def grid_hash(self) -> str:
        axes = {axis: list(groups) for axis, groups in self.grid.axes.items()}
        return digest("grid", axes=axes, per_cell=self.grid.per_cell)

    @property
    def draw_hash(self) -> str:
        """Names everything that changes a draw, except how many pools there are."""
        readers = [
            {
                "id": row.id,
                "kind": row.kind,
                "settings": {name: value for name, value in row.settings.items() if name not in LOCATIONS},
            }
            for row in self.selection.readers
        ]
        return digest(
            "draw",
            readers=readers,
            grid=self.grid_hash,
            seed=self.selection.pools.seed,
            duplicates=self.rules.duplicates.model_dump(mode="json"),
            least_side=self.rules.least_side,
        )


def load(path: Path, data_sets: bool = True) -> Plan:
    """Read and check a selection. Nothing is written. Without `data_sets` nothing is opened to sample from."""
    document = Document(str(path), read_text(path))
    selection = document.read_as(Selection)
    if selection is None:
        raise ConfigIssuesError(document.faults)
    protocol = chosen(selection.protocol, path.parent, document)
    faults = [document.fault(location, message) for location, message in _check(selection, protocol)]
    if faults or protocol.portraits is None:
        raise ConfigIssuesError(faults)
    requested = selection.grid.axes or dict.fromkeys(protocol.groups.dimensions, "all")
    custom_axes = {axis: groups for axis, groups in requested.items() if isinstance(groups, dict)}
    axes: dict[str, dict[str, str]] = {}
    for axis, groups in requested.items():
        if axis in custom_axes:
            axes[axis] = {word: word.replace("_", " ") for word in custom_axes[axis]}
        else:
            labels = protocol.groups.labels(axis)
            axes[axis] = {word: labels[word] for word in labels if groups == "all" or word in groups}
    readers: dict[str, DataSet] = {}
    for index, row in enumerate(selection.readers if data_sets else ()):
        data_set = _open_reader(row, ("readers", index, "settings"), path, document, protocol, custom_axes)
        if isinstance(data_set, DataSet):
            readers[row.id] = data_set
        else:
            faults += data_set
    if faults:
        raise ConfigIssuesError(faults)
    return Plan(
        selection=selection,
        protocol=protocol,
        rules=protocol.portraits,
        path=path,
        grid=Grid(axes, selection.grid.per_cell),
        readers=readers,
    )


def _check(selection: Selection, protocol: Protocol) -> Iterator[tuple[Path_, str]]:
    """What is wrong with a selection, each with its location in the file."""
    if protocol.portraits is None:
        yield (
            ("protocol",),
            "needs portraits.yaml in its folder; `stillme init --protocol` writes one",
        )
    for index, row in enumerate(selection.readers):
        if row.kind not in sources.READERS:
            yield ("readers", index, "kind"), unknown(row.kind, "kind of reader", sources.READERS)
    for word, count in Counter(row.id for row in selection.readers).items():
        if count > 1:
            yield ("readers",), f"the id '{word}' stands there {count} times"
    dimensions = protocol.groups.dimensions
    for axis, groups in (selection.grid.axes or {}).items():
        location = ("grid", "axes", axis)
        if isinstance(groups, dict):
            if axis in dimensions:
                yield location, "is an axis of the protocol: list its groups, without spellings"
        elif axis not in dimensions:
            message = unknown(axis, "dimension of the protocol", dimensions)
            yield location, f"{message}; an axis of your own gives its groups with their spellings"
        elif isinstance(groups, tuple):
            for word in groups:
                if word not in protocol.groups.ids(axis):
                    yield location, unknown(word, "group", protocol.groups.ids(axis))
            if not groups or len(set(groups)) < len(groups):
                yield location, "needs at least one group, each of them once"


def _open_reader(
    row: ReaderRow,
    location: Path_,
    path: Path,
    document: Document,
    protocol: Protocol,
    custom_axes: Mapping[str, Mapping[str, Sequence[str]]],
) -> DataSet | list[ConfigIssue]:
    module = backends.load(sources.READERS, row.kind)
    model: type[BaseModel] = module.Settings
    try:
        settings: Any = model.model_validate(row.settings)
        vocabulary = Vocabulary.of(protocol, custom_axes, settings.aliases)
        reader: Reader = module.read(settings, path.parent, vocabulary)
    except ValidationError as error:
        return faults_of(error, document, model, location)
    except ConfigIssuesError as error:
        return list(error.faults)
    except ValueError as error:
        return [document.fault(location, str(error))]
    except OSError as error:  # e.g. a name longer than any file's
        return [document.fault(location, f"names a file that cannot be read: {error.strerror}")]
    return DataSet(
        reader=reader,
        name=getattr(settings, "dataset", "") or module.DATASET,
        licence=settings.licence or module.LICENCE,
    )


# A new selection

_FAIRFACE = """\
  - id: fairface
    kind: fairface              # fairface_label_*.csv beside image folders or zips
    settings: {{folder: {folder}}}
"""
_PARQUET = """\
  - id: fairface
    kind: fairface_parquet      # Hugging Face shards: images and class ids
    settings: {{folder: {folder}}}
"""
_UTKFACE = """\
  - id: faces
    kind: folder
    settings:
      folder: {folder}
      naming: utkface           # [age]_[gender]_[race]_[date].jpg
      licence: ""               # say here under which licence the portraits are yours to use
      # aliases: {{race: {{Asian: east_asian}}}}   # where the data set's words name a group of the design
"""
_LABELLED = """\
  - id: faces
    kind: folder
    settings:
      folder: {folder}
      labels: {labels}          # CSV, TSV or Parquet
      columns: {{file: file, race: race, gender: gender, age: age}}   # its columns
      licence: ""               # say here under which licence the portraits are yours to use
"""


def init(data: Path, file: Path) -> Path:
    """Write a commented selection for the data set in `data`. Never overwrites anything."""
    if file.exists():
        raise InputError(f"{file} exists already.", "Give another name with --file, or move it away.")
    if not data.exists():
        raise InputError(f"There is no {data}.", "Give the folder that holds the data set.")
    template = resources.files("stillme.sources.selection").joinpath("templates/selection.yaml")
    text = template.read_text(encoding="utf-8").format(
        file=file,
        name=_quote(file.stem),
        folder=_quote(f"{file.stem}-work"),
        readers=_starter_readers(data, path_from(file, data)),
    )
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file


def _starter_readers(data: Path, folder: str) -> str:
    """The YAML of the readers that fit the data set's layout. `folder`: as the file names it."""
    if data.is_file():
        names = [data.name]
    else:
        with disk(data):
            # The files of the folder itself first: label tables are there, images may be in folders below it.
            top = sorted(path for path in data.iterdir() if path.is_file() and path.suffix not in IMAGE_SUFFIXES)
            below = (path for path in data.rglob("*") if path.is_file())
            names = [path.name for path in islice(chain(top, below), MAX_FILES_INSPECTED)]
    if any(re.fullmatch(r"fairface_label_\w+\.csv", name) for name in names):
        return _FAIRFACE.format(folder=_quote(folder))
    if any(_UTKFACE_NAME.match(name) for name in names):
        return _UTKFACE.format(folder=_quote(folder))
    tables = [name for name in names if name.endswith((".csv", ".tsv"))]
    if not tables and any(name.endswith(".parquet") for name in names):
        return _PARQUET.format(folder=_quote(folder))
    labels = f"{folder}/{tables[0]}" if tables else "labels.csv"
    return _LABELLED.format(folder=_quote(folder), labels=_quote(labels))


def _quote(text: str) -> str:
    """Text as YAML reads it wherever it stands."""
    return json.dumps(text, ensure_ascii=False)
