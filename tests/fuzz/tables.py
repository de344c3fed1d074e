"""Tables that people bring: scores, labels, shards of pictures, a folder of portraits, published tables, ratings."""

from __future__ import annotations

import io
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl

from stillme.analysis.tables import files, reading
from stillme.assurance import lint
from stillme.cli.render.release import render_lint
from stillme.core.errors import ConfigIssuesError, InputError, StillmeError
from stillme.protocol import builtin
from stillme.sources import RowIssue, fairface_parquet, portraits
from stillme.sources import folder as folders
from stillme.sources.labels import UnknownLabelError, Vocabulary
from stillme.sources.tables import open_table
from tests.fuzz.damage import ODD, Input, bytes_of, lines_of
from tests.fuzz.target import Feed, Target, sentence
from tests.sources import written

PROTOCOL = builtin()
SCORES = """person,editor,prompt,axis,score,race,gender,age,judge,seed,status
p1,even,O-01,race_drift,1,white,female,20s,a,0,ok
p1,even,O-01,edit_success,5,white,female,20s,a,0,ok
p2,even,O-01,race_drift,3,black,male,60s,a,0,ok
p2,even,O-01,race_drift,,black,male,60s,b,0,refused
"""
WIDE = """person,model,prompt,race,gender,age,race_drift,edit_success,skin_tone
p1,even,O-01,white,female,20s,1,5,3
p2,even,V-02,black,male,60s,2,4,
"""
LABELS = (
    "file,race,gender,age,split\na.jpg,White,Female,20-29,train\nb.jpg,Black,Male,34,val\n"
    + '"c,d.jpg",Indian,Male,3-9,\n'
)
PUBLISHED = (
    "editor,race,n,changed,rate,low,high\neven,white,84,12,14.3,8.1,23.4\neven,black,84,21,25.0,17.0,35.2\n"
)


def parquet(frame: pl.DataFrame, **how: Any) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **how)
    return buffer.getvalue()


def csv_frame(text: str) -> pl.DataFrame:
    return pl.read_csv(io.StringIO(text))


def odd_frame(text: str, chance: random.Random) -> bytes:
    """A Parquet file that is whole, with columns of other types, values that are none, rows that come twice."""
    frame = csv_frame(text)
    for _ in range(chance.choice((1, 2, 3))):
        frame = _odder(frame, chance)
    return parquet(frame)


def _odder(frame: pl.DataFrame, chance: random.Random) -> pl.DataFrame:
    name = chance.choice(frame.columns)
    kind = chance.randrange(5)
    if kind == 0:
        values = [chance.choice((float("nan"), float("inf"), -1e308, 1e30, 3.5)) for _ in range(frame.height)]
        return frame.with_columns(pl.Series(name, values, pl.Float64))
    if kind == 1:
        others: Any = chance.choice(
            (pl.Int8, pl.UInt64, pl.Boolean, pl.String, pl.Categorical, pl.Null, pl.Binary)
        )
        return frame.with_columns(pl.Series(name, [None] * frame.height, others))
    if kind == 2:
        made = [[chance.choice((1, 2))] for _ in range(frame.height)]
        return frame.with_columns(pl.Series(name, made, pl.List(pl.Int64)))
    if kind == 3:
        return pl.concat([frame, frame]) if chance.random() < 0.7 else frame.head(0)
    return frame.with_columns(pl.Series(name, [str(chance.choice(ODD)) for _ in range(frame.height)], pl.String))


def _either(text: str, *more: str) -> Input:
    """A table as CSV, as a whole Parquet file with odd content, or as one with damaged bytes; the first byte says."""
    lines, packed = lines_of(text, *more), bytes_of(*(parquet(csv_frame(one)) for one in (text, *more)))

    def made(chance: random.Random) -> bytes:
        kind = chance.randrange(3)
        if kind == 0:
            return b"c" + lines(chance)
        return b"p" + (packed(chance) if kind == 1 else odd_frame(chance.choice((text, *more)), chance))

    return made


def _placed(folder: Path, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("table.parquet" if content[:1] == b"p" else "table.csv")
    path.write_bytes(content[1:])
    return path


def _scores(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    def feed(content: bytes) -> None:
        path = _placed(folder, content)
        with sentence(InputError, naming=path.name):
            found = reading.read_scores(files.read(path), PROTOCOL, next(iter(PROTOCOL.presets)))
            for frame in found.scores.values():
                assert frame["score"].drop_nulls().is_between(1, 5).all()

    return _either(SCORES, WIDE), feed


def _lint(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    def feed(content: bytes) -> None:
        path = _placed(folder, content)
        with sentence(StillmeError, naming=path.name):
            render_lint(lint.lint([path]))

    return _either(PUBLISHED, WIDE), feed


def _labels(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """A folder of portraits with a table of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("a.jpg", "b.jpg", "c,d.jpg"):
        (folder / name).write_bytes(written.picture(1))
    vocabulary = Vocabulary.of(PROTOCOL)

    def feed(content: bytes) -> None:
        path = _placed(folder, content)
        columns = {"file": "file", "race": "race", "gender": "gender", "age": "age", "split": "split"}
        given = folders.Settings(folder=".", labels=path.name, columns=columns, licence="CC0")
        with sentence(ConfigIssuesError, naming=path.name):
            found = folders.read(given, folder, vocabulary)
            try:
                rows = [row for row in found.rows() if not isinstance(row, RowIssue)]
            except (UnknownLabelError, ValueError) as error:
                assert str(error)
                return
            for _, image in found.images(rows):
                assert isinstance(image, bytes | RowIssue)

    return _either(LABELS), feed


def _spellings(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """One label, however it is spelled."""
    vocabulary = Vocabulary.of(PROTOCOL)
    known = [spelled.encode() for dimension in vocabulary.dimensions for spelled in vocabulary.shown[dimension]]

    def feed(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        for dimension in vocabulary.dimensions:
            with sentence(UnknownLabelError):
                group = vocabulary.group(dimension, text)
                assert group is None or group in PROTOCOL.groups.ids(dimension)

    return bytes_of(*known, b"34", b"120", b"34.0"), feed


def _shards(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train-00000-of-00001.parquet"
    written.shard(path, 4, group=2)
    seeds = [path.read_bytes()]
    written.shard(path, 3, paths=None, declared=False)
    seeds.append(path.read_bytes())
    vocabulary = Vocabulary.of(PROTOCOL)

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(ConfigIssuesError, ValueError):
            found = fairface_parquet.read(fairface_parquet.Settings(folder="."), folder, vocabulary)
            rows = [row for row in found.rows() if not isinstance(row, RowIssue)]
            for _, image in found.images(rows):
                assert isinstance(image, bytes | RowIssue)

    return bytes_of(*seeds), feed


def _columns(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """Any table, by its columns."""

    def feed(content: bytes) -> None:
        path = _placed(folder, content)
        with sentence(StillmeError, naming=path.name):
            for row in open_table(path, ("file", "age")).rows():
                assert isinstance(row, RowIssue) or all(isinstance(value, str) for value in row[1].values())

    return _either(LABELS), feed


def _portraits(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """The table in a folder that `stillme sources export` wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ",".join(
        (
            *portraits.ID_COLUMNS,
            "image",
            "path",
            "licence",
            "split",
            *portraits.SIZE_COLUMNS,
            "upscaling",
            *PROTOCOL.groups.dimensions,
        )
    )
    row = f"FairFace,train/1.jpg,{'0' * 64},p.jpg,CC,train,64,64,,none,white,female,20s"
    rows = portraits._csv_rows, portraits._parquet_rows

    def feed(content: bytes) -> None:
        path = _placed(folder, content)
        with sentence(ConfigIssuesError, naming=path.name):
            columns = list(dict.fromkeys(head.split(",")))
            read = rows[path.suffix == ".parquet"](path, columns)
            if faults := list(portraits._faults(path, read, PROTOCOL)):
                raise ConfigIssuesError(faults)

    return _either(f"{head}\n{row}\n"), feed


TARGETS = (
    Target("score tables", _scores, 1_500),
    Target("published tables", _lint, 1_500),
    Target("label tables of a folder", _labels, 2_500),
    Target("label tables by column", _columns, 3_000),
    Target("spellings of labels", _spellings, 20_000),
    Target("FairFace's Parquet shards", _shards, 3_000),
    Target("tables of portraits", _portraits, 2_500),
)
