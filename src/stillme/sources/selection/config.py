"""selection.yaml -> Plan: which data sets, which grid, how many pools. Every fault is named, all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from stillme import sources
from stillme.core.errors import Fault, FaultsError
from stillme.core.records import digest
from stillme.core.yaml import Document, Frozen, Path_, faults_of, read_text, unknown
from stillme.engine import backends
from stillme.protocol import Protocol, chosen
from stillme.protocol.schema import Name, Portraits, Word
from stillme.sources import Reader
from stillme.sources.labels import Vocabulary
from stillme.sources.selection.grid import Grid


class ReaderRow(Frozen):
    """One data set: which kind of reader, under which name, with which settings."""

    id: Name
    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)


Own = dict[Word, tuple[str, ...]]  # group -> how the data set spells it


class GridSettings(Frozen):
    """Axis -> all of its groups, some of them, or groups of one's own with their spellings."""

    axes: dict[Word, Literal["all"] | tuple[Word, ...] | Own] | None = Field(default=None, min_length=1)
    per_cell: int = Field(default=1, ge=1, le=100)


class PoolSettings(Frozen):
    """Pool n has the seed `seed + n - 1`."""

    count: int = Field(default=7, ge=1, le=99)
    seed: int = Field(default=1, ge=0)

    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.count))


class Upscaling(Frozen):
    """Portraits whose shorter side is below `to` are enlarged to it when they are exported."""

    method: Literal["lanczos", "bicubic", "none"] = "lanczos"
    to: int = Field(default=1024, ge=64, le=4096)


class Selection(Frozen):
    """The whole of selection.yaml."""

    stillme: Literal[1]
    name: Name
    folder: str
    protocol: str = "builtin"
    readers: tuple[ReaderRow, ...] = Field(min_length=1)
    grid: GridSettings = GridSettings()
    pools: PoolSettings = PoolSettings()
    upscaling: Upscaling = Upscaling()


@dataclass(frozen=True)
class DataSet:
    """A reader made ready, and what is said of its data set."""

    reader: Reader
    name: str
    licence: str


@dataclass(frozen=True)
class Plan:
    """A selection with its protocol, its grid, and every reader made ready."""

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
        return digest(
            "draw",
            readers=[_without_places(row) for row in self.selection.readers],
            grid=self.grid_hash,
            seed=self.selection.pools.seed,
            duplicates=self.rules.duplicates.model_dump(mode="json"),
            least_side=self.rules.least_side,
        )


PLACES = ("folder", "labels", "images")  # settings that say where a data set lies, not what it is


def _without_places(row: ReaderRow) -> dict[str, Any]:
    settings = {name: value for name, value in row.settings.items() if name not in PLACES}
    return {"id": row.id, "kind": row.kind, "settings": settings}


def load(path: Path, data_sets: bool = True) -> Plan:
    """Reads and checks a selection. Nothing is written. Without `data_sets` nothing is opened to sample from."""
    document = Document(str(path), read_text(path))
    selection = document.read_as(Selection)
    if selection is None:
        raise FaultsError(document.faults)
    protocol = chosen(selection.protocol, path.parent, document)
    faults = [document.fault(where, said) for where, said in _checks(selection, protocol)]
    if faults or protocol.portraits is None:
        raise FaultsError(faults)
    grid, own = _grid(selection, protocol)
    readers = _readers(selection, path, document, protocol, own) if data_sets else {}
    return Plan(selection, protocol, protocol.portraits, path, grid, readers)


_Said = tuple[Path_, str]


def _checks(selection: Selection, protocol: Protocol) -> Iterator[_Said]:
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
    for axis, groups in (selection.grid.axes or {}).items():
        yield from _check_axis(axis, groups, protocol)


def _check_axis(axis: str, groups: object, protocol: Protocol) -> Iterator[_Said]:
    at, known = ("grid", "axes", axis), protocol.groups.dimensions
    if isinstance(groups, dict):
        if axis in known:
            yield at, "is an axis of the protocol: list its groups, without spellings"
    elif axis not in known:
        said = unknown(axis, "dimension of the protocol", known)
        yield at, f"{said}; an axis of your own gives its groups with their spellings"
    elif isinstance(groups, tuple):
        for word in groups:
            if word not in protocol.groups.ids(axis):
                yield at, unknown(word, "group", protocol.groups.ids(axis))
        if not groups or len(set(groups)) < len(groups):
            yield at, "needs at least one group, each of them once"


_OwnAxes = Mapping[str, Mapping[str, Sequence[str]]]


def _grid(selection: Selection, protocol: Protocol) -> tuple[Grid, _OwnAxes]:
    asked = selection.grid.axes or dict.fromkeys(protocol.groups.dimensions, "all")
    own = {axis: groups for axis, groups in asked.items() if isinstance(groups, dict)}
    axes: dict[str, dict[str, str]] = {}
    for axis, groups in asked.items():
        if axis in own:
            axes[axis] = {word: word.replace("_", " ") for word in own[axis]}
        else:
            labels = protocol.groups.labels(axis)
            axes[axis] = {word: labels[word] for word in labels if groups == "all" or word in groups}
    return Grid(axes, selection.grid.per_cell), own


def _readers(
    selection: Selection, path: Path, document: Document, protocol: Protocol, own: _OwnAxes
) -> dict[str, DataSet]:
    made: dict[str, DataSet] = {}
    faults: list[Fault] = []
    for index, row in enumerate(selection.readers):
        found = _reader(row, ("readers", index, "settings"), path, document, protocol, own)
        if isinstance(found, DataSet):
            made[row.id] = found
        else:
            faults += found
    if faults:
        raise FaultsError(faults)
    return made


def _reader(
    row: ReaderRow, at: Path_, path: Path, document: Document, protocol: Protocol, own: _OwnAxes
) -> DataSet | list[Fault]:
    module = backends.load(sources.READERS, row.kind)
    model: type[BaseModel] = module.Settings
    try:
        settings: Any = model.model_validate(row.settings)
        vocabulary = Vocabulary.of(protocol, own, settings.aliases)
        reader: Reader = module.read(settings, path.parent, vocabulary)
    except ValidationError as error:
        return faults_of(error, document, model, at)
    except FaultsError as error:
        return list(error.faults)
    except ValueError as error:
        return [document.fault(at, str(error))]
    except OSError as error:  # e.g. a name longer than any file's
        return [document.fault(at, f"names a file that cannot be read: {error.strerror}")]
    return DataSet(reader, getattr(settings, "dataset", "") or module.DATASET, settings.licence or module.LICENCE)
