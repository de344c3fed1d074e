"""Portraits that people chose: the folder that `stillme sources export` wrote, as the source of an audit.

Knows the tables and image files of such a folder, not how they came about. A run notes what its report says of the
folder, so that the report needs the folder no more.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import Field

from stillme.core.errors import Fault, FaultsError, SurroundingsError, disk
from stillme.core.records import Portrait, digest
from stillme.core.yaml import Frozen, unknown
from stillme.engine.backends import BackendContext, PreparedSource
from stillme.protocol import Protocol
from stillme.sources import Remark
from stillme.sources.tables import brief, check_columns, open_table, text

CSV, PARQUET = "portraits.csv", "portraits.parquet"
NAMED = ("dataset", "source_id")
SIZED = ("width", "height", "upscaled_from")
NEEDED = (*NAMED, "split", "licence", "image", "path", *SIZED, "upscaling")
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "'",
)  # a spreadsheet takes what follows for a formula, or hides the sign
_SHA256 = re.compile(r"[0-9a-f]{64}")


def guard(value: str) -> str:
    """Text as it may stand in a CSV file that a spreadsheet opens."""
    return f"'{value}" if value.startswith(FORMULA) else value


def unguard(value: str) -> str:
    return value.removeprefix("'")


class Noted(Frozen):
    """What a run keeps of the folder."""

    content: str
    description: str
    caveats: tuple[str, ...] = ()


class Settings(Frozen):
    """`groups: {race: [white, black]}` keeps these only. `noted` is written by a run, never by hand."""

    folder: str = Field(min_length=1)
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    noted: Noted | None = None


@dataclass(frozen=True)
class Listed:
    """One row of the table."""

    portrait: Portrait
    path: str
    side: int  # the shorter one, as the data set has it
    upscaling: str  # by which method it was enlarged; else empty


def prepare(settings: Settings, context: BackendContext) -> PreparedSource[Chosen]:
    _check_groups(settings.groups, context.protocol)
    folder = context.folder / settings.folder
    if settings.noted:
        return _prepared(settings, settings.noted, lambda: Chosen(folder, _wanted(settings, context)))
    rows = _wanted(settings, context)
    return _prepared(settings, _note(rows, context.protocol), lambda: Chosen(folder, rows))


def _prepared(settings: Settings, noted: Noted, make: Callable[[], Chosen]) -> PreparedSource[Chosen]:
    return PreparedSource(
        effective={"backend": "portraits", "content": noted.content},
        inputs={**settings.model_dump(mode="json"), "noted": noted.model_dump(mode="json")},
        make=make,
        description=noted.description,
        caveats=noted.caveats,
    )


def _check_groups(groups: Mapping[str, Sequence[str]], protocol: Protocol) -> None:
    known = protocol.groups
    for dimension, words in groups.items():
        if dimension not in known.dimensions:
            raise ValueError(f"groups: {unknown(dimension, 'dimension', known.dimensions)}")
        for word in words:
            if word not in known.ids(dimension):
                raise ValueError(f"groups.{dimension}: {unknown(word, 'group', known.ids(dimension))}")


def _wanted(settings: Settings, context: BackendContext) -> list[Listed]:
    rows = read(context.folder / settings.folder, context.protocol)
    found = [row for row in rows if all(row.portrait.labels[d] in g for d, g in settings.groups.items())]
    if not found:
        raise ValueError("groups: the folder holds no portrait of these groups")
    return found


def _note(rows: Sequence[Listed], protocol: Protocol) -> Noted:
    told = [(row.portrait.key, row.portrait.licence, row.portrait.split, row.side, row.upscaling) for row in rows]
    caveats = _caveats(rows, protocol)
    return Noted(content=digest("portraits", rows=told), description=_described(rows), caveats=caveats)


def _described(rows: Sequence[Listed]) -> str:
    found = Counter(row.portrait.source for row in rows)
    counts = ", ".join(f"{count:,} of {name}" for name, count in found.items())
    return f"Chosen portraits: {counts}. Whom they show is how annotators perceived them."


@dataclass(frozen=True)
class Chosen:
    folder: Path
    rows: Sequence[Listed]

    def portraits(self) -> Iterator[tuple[Portrait, bytes]]:
        for row in self.rows:
            path = self.folder / row.path
            with disk(path):
                content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != row.portrait.image:
                raise SurroundingsError(f"{path} changed while it was read.", "Run the same command again.")
            yield row.portrait, content


# What a report has to say of the pictures


def _caveats(rows: Sequence[Listed], protocol: Protocol) -> tuple[str, ...]:
    """An editor may restore a face that was small, whatever it is asked."""
    limit = protocol.portraits.face_sized if protocol.portraits else None
    small = [row for row in rows if (row.side < limit if limit is not None else row.upscaling)]
    by_method: dict[str, list[int]] = {}
    for row in small:
        by_method.setdefault(row.upscaling, []).append(row.side)
    return tuple(_caveat(sides, method, len(rows)) for method, sides in by_method.items())


def _caveat(sides: Sequence[int], method: str, among: int) -> str:
    low, high = min(sides), max(sides)
    size = f"{low} pixels" if low == high else f"{low} to {high} pixels"
    done = f"were enlarged by the method “{method}”" if method else "were not enlarged"
    return (
        f"{len(sides):,} of {among:,} portraits are face-sized in their data set ({size} at the shorter side) and "
        f"{done}. An editor may “restore” such a face whatever the prompt asks, so a change in one of them is not "
        "the prompt’s doing alone."
    )


# The tables


def read(folder: Path, protocol: Protocol) -> list[Listed]:
    """Every portrait that the folder lists, or all faults at once."""
    columns = (*NEEDED, *protocol.groups.dimensions)
    there = [path for path in (folder / CSV, folder / PARQUET) if path.is_file()]
    if not there:
        said = f"holds neither {CSV} nor {PARQUET}" if folder.is_dir() else "is not a folder"
        said += "; give a folder that `stillme sources export` wrote"
        raise FaultsError([Fault(str(folder), 0, "", said)])
    tables = {path: _table(path, columns) for path in there}
    path, rows = next(iter(tables.items()))
    faults = [*_differences(tables), *_faults(path, rows, protocol)]
    if faults:
        raise FaultsError(faults)
    return [_listed(values, protocol) for _, values in rows]


_Rows = list[tuple[int, dict[str, str]]]


def _table(path: Path, columns: Sequence[str]) -> _Rows:
    rows = _parquet_rows(path, columns) if path.name == PARQUET else _csv_rows(path, columns)
    if not rows:
        raise FaultsError([Fault(str(path), 0, "", "lists no portraits")])
    return rows


def _csv_rows(path: Path, columns: Sequence[str]) -> _Rows:
    found = list(open_table(path, columns).rows())
    faults = [Fault(str(path), one.row, "", one.said) for one in found if isinstance(one, Remark)]
    if faults:
        raise FaultsError(faults)
    plain = [one for one in found if not isinstance(one, Remark)]
    return [(row, {name: unguard(value) for name, value in values.items()}) for row, values in plain]


def _parquet_rows(path: Path, columns: Sequence[str]) -> _Rows:
    from stillme.core.table_files import DamagedError, read_parquet

    try:
        frame = read_parquet(path.read_bytes())
    except (DamagedError, OSError) as error:
        said = f"is not a Parquet file, or not a whole one: {brief(error)}. Fetch or export it again"
        raise FaultsError([Fault(str(path), 0, "", said)]) from None
    check_columns(path, frame.columns, columns)
    rows = frame.select(columns).iter_rows(named=True)
    return [(number, {name: text(value) for name, value in row.items()}) for number, row in enumerate(rows, 1)]


def _differences(tables: Mapping[Path, _Rows]) -> Iterator[Fault]:
    """A portrait that was taken out of one table must not come back from the other."""
    if len(tables) < 2:
        return
    (path, rows), (other, others) = tables.items()
    advice = f"{other.name}; delete the table that is out of date"
    if len(rows) != len(others):
        yield Fault(str(path), 0, "", f"lists {len(rows):,} portraits and {len(others):,} stand in {advice}")
        return
    for (row, values), (_, second) in zip(rows, others, strict=True):
        for name, value in values.items():
            if value != second[name]:
                yield Fault(str(path), row, name, f"is {value!r} here and {second[name]!r} in {advice}")


def _faults(path: Path, rows: _Rows, protocol: Protocol) -> Iterator[Fault]:
    seen: dict[tuple[str, ...], int] = {}
    for row, values in rows:
        for name, said in _row_faults(path.parent, values, protocol):
            yield Fault(str(path), row, name, said)
        key = tuple(values[name] for name in NAMED)
        if first := seen.get(key):
            yield Fault(str(path), row, "source_id", f"{key[1]!r} of {key[0]!r} stands in row {first} already")
        seen.setdefault(key, row)


def _row_faults(folder: Path, values: Mapping[str, str], protocol: Protocol) -> Iterator[tuple[str, str]]:
    for name in NAMED:
        if not values[name]:
            yield name, "is missing"
    for dimension in protocol.groups.dimensions:
        known = protocol.groups.ids(dimension)
        if not values[dimension]:
            yield dimension, f"is missing; the protocol needs it of every portrait. Known: {', '.join(known)}"
        elif values[dimension] not in known:
            yield dimension, unknown(values[dimension], "group of the protocol", known)
    for name in SIZED:
        if not values[name].isdecimal() and (values[name] or name != "upscaled_from"):
            yield name, f"has to be a number of pixels (given: {values[name]!r})"
    yield from _file_faults(folder, values)


def _file_faults(folder: Path, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    image, path = values["image"], values["path"]
    if not _SHA256.fullmatch(image):
        yield "image", f"has to be a SHA-256 in 64 hexadecimal digits (given: {image!r})"
        return
    if not _is_inside(path):
        yield "path", f"has to be a file in this folder (given: {path!r})"
        return
    try:
        is_there = (folder / path).is_file()
    except OSError:  # a name longer than any file's
        is_there = False
    if not is_there:
        yield "path", f"{path} does not exist"
        return
    with disk(folder / path), (folder / path).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != image:
        yield "image", f"{path} was changed: its SHA-256 is {found}, not {image}"


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return bool(path) and not parts.is_absolute() and ".." not in parts.parts and "\\" not in path


def _listed(values: Mapping[str, str], protocol: Protocol) -> Listed:
    labels = {dimension: values[dimension] for dimension in protocol.groups.dimensions}
    named, about = (values["dataset"], values["source_id"], values["image"]), (values["licence"], values["split"])
    width, height, before = (int(values[name] or 0) for name in SIZED)
    portrait = Portrait.of(*named, labels, *about)
    return Listed(portrait, values["path"], before or min(width, height), values["upscaling"])
