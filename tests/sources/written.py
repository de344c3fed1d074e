"""Data sets written for tests: FairFace's layouts with rendered heads instead of photographs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stillme.core import images
from stillme.protocol import builtin
from stillme.sources import Reader, Row, RowIssue, heads
from stillme.sources.labels import Vocabulary

COLUMNS = ("file", "age", "gender", "race", "service_test")
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
GENDERS = ("Male", "Female")
RACES = ("East Asian", "Indian", "Black", "White", "Middle Eastern", "Latino_Hispanic", "Southeast Asian")
CLASSES = {"age": AGES, "gender": GENDERS, "race": RACES}


def vocabulary(**given: Any) -> Vocabulary:
    return Vocabulary.of(builtin(), **given)


@cache
def _head() -> images.Pixels:
    return heads.photograph(heads.load(next(iter(heads.keys()))))[::8, ::8].copy()


def picture(number: int) -> bytes:
    """A small JPEG; no two numbers give the same bytes."""
    return images.encode(_head(), comment=f"picture {number}")


def labels(number: int) -> dict[str, str]:
    """FairFace's spellings, going round; neighbours differ."""
    return {word: names[number % len(names)] for word, names in CLASSES.items()}


def listed(numbers: Sequence[int], split: str = "train") -> list[list[str]]:
    return [[f"{split}/{n}.jpg", *labels(n).values(), "False"] for n in numbers]


def write_csv(path: Path, rows: Sequence[Sequence[str]], header: Sequence[str] = COLUMNS, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding = how.pop("encoding", "utf-8")
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, **how).writerows([header, *rows])


def fairface(folder: Path, count: int = 5, split: str = "train") -> Path:
    """FairFace as released, with `count` portraits."""
    write_csv(folder / f"fairface_label_{split}.csv", listed(range(1, count + 1), split))
    (folder / split).mkdir(parents=True)
    for number in range(1, count + 1):
        (folder / split / f"{number}.jpg").write_bytes(picture(number))
    return folder


def shard(path: Path, count: int = 10, start: int = 1, group: int = 4, **how: Any) -> Path:
    """A Parquet shard as Hugging Face writes it: `paths` None leaves the images' names out."""
    numbers = range(start, start + count)
    paths = how.get("paths", [f"{n}.jpg" for n in numbers])
    columns: dict[str, Any] = {
        "image": [
            {"bytes": picture(n), "path": paths[place] if paths else None} for place, n in enumerate(numbers)
        ],
        **{word: [names.index(labels(n)[word]) for n in numbers] for word, names in CLASSES.items()},
        "service_test": [False] * count,
    }
    columns |= how.get("columns", {})
    columns = {name: values for name, values in columns.items() if values is not None}
    table = pa.table(columns)
    if how.get("declared", True):
        table = table.replace_schema_metadata({"huggingface": json.dumps(declared(how.get("classes", CLASSES)))})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group, **how.get("write", {}))
    return path


PLAIN = {"compression": "none", "use_dictionary": False}  # how a shard is written that `cut_short` can cut


def cut_short(path: Path, column: str, count: int) -> None:
    """Halves the number of values that the first page of a column says it has: Arrow reads fewer rows, and is content."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunks = [group.column(n) for n in range(group.num_columns)]
    start = next(chunk.data_page_offset for chunk in chunks if chunk.path_in_schema == column)
    content = path.read_bytes()
    head, tail = content[:start], content[start:]
    said, halved = (b"\x2c\x15" + bytes([2 * n]) for n in (count, count // 2))  # Thrift: a struct's first integer
    assert tail.index(said) < 40
    path.write_bytes(head + tail.replace(said, halved, 1))


def declared(classes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    features = {name: {"names": list(names), "_type": "ClassLabel"} for name, names in classes.items()}
    return {"info": {"features": {"image": {"_type": "Image"}, **features}}}


def split_up(reader: Reader) -> tuple[list[Row], list[RowIssue]]:
    found = list(reader.rows())
    return [one for one in found if isinstance(one, Row)], [one for one in found if isinstance(one, RowIssue)]


def rows_of(reader: Reader) -> list[Row]:
    """All rows of a data set that has nothing wrong with it."""
    rows, remarks = split_up(reader)
    assert remarks == []
    return rows


def contents(reader: Reader, rows: Sequence[Row]) -> Iterator[tuple[str, bytes]]:
    for row, content in reader.images(rows):
        assert isinstance(content, bytes), content
        yield row.id, content
