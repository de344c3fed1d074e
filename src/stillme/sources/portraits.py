"""Portraits that people chose: the folder that `stillme sources export` wrote, as the source of an audit.

Knows the tables and image files of such a folder, not how they came about. A run records what its report says
about the folder, so that the report can be made without the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import Field

from stillme.core.errors import ConfigIssue, ConfigIssuesError, SetupError, disk
from stillme.core.records import Portrait, digest
from stillme.core.yaml import StrictModel, unknown
from stillme.engine.backends import BackendContext, PreparedSource
from stillme.protocol import Protocol
from stillme.sources import RowIssue
from stillme.sources.tables import check_columns, first_line, open_table, text

CSV, PARQUET = "portraits.csv", "portraits.parquet"
ID_COLUMNS = ("dataset", "source_id")
SIZE_COLUMNS = ("width", "height", "upscaled_from")
REQUIRED_COLUMNS = (*ID_COLUMNS, "split", "licence", "image", "path", *SIZE_COLUMNS, "upscaling")
FORMULA_STARTS = tuple("=+-@\t\r'")  # a spreadsheet takes what follows for a formula, or hides the sign
_SHA256 = re.compile(r"[0-9a-f]{64}")


def guard(value: str) -> str:
    """Text as it may stand in a CSV file that a spreadsheet opens."""
    return f"'{value}" if value.startswith(FORMULA_STARTS) else value


def unguard(value: str) -> str:
    return value.removeprefix("'")


class Noted(StrictModel):
    """The facts about the folder that a run keeps."""

    content: str
    description: str
    caveats: tuple[str, ...] = ()


class Settings(StrictModel):
    """`groups: {race: [white, black]}` keeps these only. `noted` is written by a run, never by hand."""

    folder: str = Field(min_length=1)
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    noted: Noted | None = None


@dataclass(frozen=True, kw_only=True)
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
        return _prepared(settings, settings.noted, lambda: Chosen(folder, _select_rows(settings, context)))
    rows = _select_rows(settings, context)
    content = [
        (row.portrait.key, row.portrait.licence, row.portrait.split, row.side, row.upscaling) for row in rows
    ]
    counts = Counter(row.portrait.source for row in rows)
    sources = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
    noted = Noted(
        content=digest("portraits", rows=content),
        description=f"Chosen portraits: {sources}. Whom they show is how annotators perceived them.",
        caveats=_face_size_caveats(rows, context.protocol),
    )
    return _prepared(settings, noted, lambda: Chosen(folder, rows))


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


def _select_rows(settings: Settings, context: BackendContext) -> list[Listed]:
    all_rows = read(context.folder / settings.folder, context.protocol)
    rows = [
        row
        for row in all_rows
        if all(row.portrait.labels[dimension] in groups for dimension, groups in settings.groups.items())
    ]
    if not rows:
        raise ValueError("groups: the folder holds no portrait of these groups")
    return rows


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
                raise SetupError(f"{path} changed while it was read.", "Run the same command again.")
            yield row.portrait, content


def _face_size_caveats(rows: Sequence[Listed], protocol: Protocol) -> tuple[str, ...]:
    """What a report has to say of small faces: an editor may restore one, whatever it is asked."""
    limit = protocol.portraits.face_sized if protocol.portraits else None
    sides_by_method: dict[str, list[int]] = {}
    for row in rows:
        if row.side < limit if limit is not None else row.upscaling:
            sides_by_method.setdefault(row.upscaling, []).append(row.side)
    caveats = []
    for method, sides in sides_by_method.items():
        low, high = min(sides), max(sides)
        size = f"{low} pixels" if low == high else f"{low} to {high} pixels"
        enlarged = f"were enlarged by the method “{method}”" if method else "were not enlarged"
        caveats.append(
            f"{len(sides):,} of {len(rows):,} portraits are face-sized in their data set ({size} at the shorter"
            f" side) and {enlarged}. An editor may “restore” such a face whatever the prompt asks, so a change in"
            " one of them is not the prompt’s doing alone."
        )
    return tuple(caveats)


# The tables


def read(folder: Path, protocol: Protocol) -> list[Listed]:
    """Every portrait that the folder lists, or all faults at once."""
    columns = (*REQUIRED_COLUMNS, *protocol.groups.dimensions)
    paths = [path for path in (folder / CSV, folder / PARQUET) if path.is_file()]
    if not paths:
        message = f"holds neither {CSV} nor {PARQUET}" if folder.is_dir() else "is not a folder"
        message += "; give a folder that `stillme sources export` wrote"
        raise ConfigIssuesError([ConfigIssue(str(folder), 0, "", message)])
    tables: dict[Path, _Rows] = {}
    for path in paths:
        tables[path] = _parquet_rows(path, columns) if path.name == PARQUET else _csv_rows(path, columns)
        if not tables[path]:
            raise ConfigIssuesError([ConfigIssue(str(path), 0, "", "lists no portraits")])
    path, rows = next(iter(tables.items()))
    faults = [*_differences(tables), *_faults(path, rows, protocol)]
    if faults:
        raise ConfigIssuesError(faults)
    return [_portrait_row(values, protocol) for _, values in rows]


_Rows = list[tuple[int, dict[str, str]]]


def _csv_rows(path: Path, columns: Sequence[str]) -> _Rows:
    rows: _Rows = []
    faults = []
    for item in open_table(path, columns).rows():
        if isinstance(item, RowIssue):
            faults.append(ConfigIssue(str(path), item.row, "", item.said))
        else:
            row, values = item
            rows.append((row, {name: unguard(value) for name, value in values.items()}))
    if faults:
        raise ConfigIssuesError(faults)
    return rows


def _parquet_rows(path: Path, columns: Sequence[str]) -> _Rows:
    from stillme.core.table_files import DamagedError, read_parquet

    try:
        frame = read_parquet(path.read_bytes())
    except (DamagedError, OSError) as error:
        message = f"is not a Parquet file, or not a whole one: {first_line(error)}. Fetch or export it again"
        raise ConfigIssuesError([ConfigIssue(str(path), 0, "", message)]) from None
    check_columns(path, frame.columns, columns)
    rows = frame.select(columns).iter_rows(named=True)
    return [(number, {name: text(value) for name, value in row.items()}) for number, row in enumerate(rows, 1)]


def _differences(tables: Mapping[Path, _Rows]) -> Iterator[ConfigIssue]:
    """A portrait that was removed from one table must not come back from the other."""
    if len(tables) < 2:
        return
    (path, rows), (other, others) = tables.items()
    advice = f"{other.name}; delete the table that is out of date"
    if len(rows) != len(others):
        yield ConfigIssue(str(path), 0, "", f"lists {len(rows):,} portraits and {len(others):,} stand in {advice}")
        return
    for (row, values), (_, second) in zip(rows, others, strict=True):
        for name, value in values.items():
            if value != second[name]:
                yield ConfigIssue(str(path), row, name, f"is {value!r} here and {second[name]!r} in {advice}")


def _faults(path: Path, rows: _Rows, protocol: Protocol) -> Iterator[ConfigIssue]:
    first_rows: dict[tuple[str, ...], int] = {}
    for row, values in rows:
        for name, message in (*_value_faults(values, protocol), *_image_faults(path.parent, values)):
            yield ConfigIssue(str(path), row, name, message)
        key = tuple(values[name] for name in ID_COLUMNS)
        if first := first_rows.get(key):
            yield ConfigIssue(
                str(path), row, "source_id", f"{key[1]!r} of {key[0]!r} stands in row {first} already"
            )
        first_rows.setdefault(key, row)


def _value_faults(values: Mapping[str, str], protocol: Protocol) -> Iterator[tuple[str, str]]:
    for name in ID_COLUMNS:
        if not values[name]:
            yield name, "is missing"
    for dimension in protocol.groups.dimensions:
        known = protocol.groups.ids(dimension)
        if not values[dimension]:
            yield dimension, f"is missing; the protocol needs it of every portrait. Known: {', '.join(known)}"
        elif values[dimension] not in known:
            yield dimension, unknown(values[dimension], "group of the protocol", known)
    for name in SIZE_COLUMNS:
        if not values[name].isdecimal() and (values[name] or name != "upscaled_from"):
            yield name, f"has to be a number of pixels (given: {values[name]!r})"


def _image_faults(folder: Path, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    image, path = values["image"], values["path"]
    if not _SHA256.fullmatch(image):
        yield "image", f"has to be a SHA-256 in 64 hexadecimal digits (given: {image!r})"
        return
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts or "\\" in path:
        yield "path", f"has to be a file in this folder (given: {path!r})"
        return
    try:
        is_file = (folder / path).is_file()
    except OSError:  # a name longer than any file's
        is_file = False
    if not is_file:
        yield "path", f"{path} does not exist"
        return
    with disk(folder / path), (folder / path).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != image:
        yield "image", f"{path} was changed: its SHA-256 is {sha256}, not {image}"


def _portrait_row(values: Mapping[str, str], protocol: Protocol) -> Listed:
    width, height, upscaled_from = (int(values[name] or 0) for name in SIZE_COLUMNS)
    portrait = Portrait.of(
        source=values["dataset"],
        source_id=values["source_id"],
        image=values["image"],
        labels={dimension: values[dimension] for dimension in protocol.groups.dimensions},
        licence=values["licence"],
        split=values["split"],
    )
    return Listed(
        portrait=portrait,
        path=values["path"],
        side=upscaled_from or min(width, height),
        upscaling=values["upscaling"],
    )
