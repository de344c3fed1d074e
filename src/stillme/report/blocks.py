"""What a report is made of: sections of blocks. Data only; each kind of block has one template of its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

import polars as pl
import polars.selectors as cs

from stillme.core.table_files import escape_formulas


@dataclass(frozen=True)
class Block:
    """Anything that a section holds. `kind` names its template."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Prose(Block):
    kind = "prose"
    paragraphs: tuple[str, ...]
    listed: bool = False


@dataclass(frozen=True)
class Notice(Block):
    """Something that a reader must know before the numbers."""

    kind = "notice"
    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Heading(Block):
    """`opens`: with a button that opens all folds of the section."""

    kind = "heading"
    id: str
    text: str
    opens: bool = True


@dataclass(frozen=True)
class Fold(Block):
    """Blocks that stay closed until they are asked for."""

    kind = "fold"
    title: str
    hint: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Beside(Block):
    """Blocks that stand side by side where the screen is wide enough."""

    kind = "beside"
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """One section of the report, with its place in the contents; `part`: the heading there that it is under."""

    id: str
    title: str
    entry: str
    blocks: tuple[Block, ...]
    part: str = ""


@dataclass(frozen=True)
class Data:
    """The numbers behind a table or a figure, one click away."""

    file: str
    href: str


def data(id: str, frame: pl.DataFrame) -> Data:
    """The frame as CSV inside a link."""
    return Data(f"{id}.csv", f"data:text/csv;charset=utf-8,{quote(csv(frame), safe=',:()/+')}")


def csv(frame: pl.DataFrame) -> str:
    """The frame as text. Six decimals: more than any reader of a share can use."""
    return escape_formulas(frame).with_columns(cs.float().round(6)).write_csv()


def prose(*paragraphs: str) -> Prose:
    return Prose(tuple(p for p in paragraphs if p))


def bullets(sentences: Sequence[str]) -> Prose:
    return Prose(tuple(sentences), listed=True)
