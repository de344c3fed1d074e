"""report.html read as a reader does: every cell of every table, every sentence, every link's data; no pictures.

Both the printed page and the one made anew are read here, so whatever the templates do, they do it to both.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote

CSV = "data:text/csv"
UNITS = frozenset(
    {"p", "li", "h1", "h2", "h3", "h4", "caption", "figcaption", "summary", "dt", "dd", "title", "th", "td"}
)
_SILENT = frozenset({"script", "style"})
_VOID = frozenset({"meta", "link", "img", "br", "hr", "input", "wbr", "col", "source"})


@dataclass(frozen=True)
class Table:
    """Headings, and rows of cells; `numeric`: which columns are."""

    id: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()


@dataclass
class Page:
    """`sentences`: section -> its texts. `drawn`: figure -> its markup. `data`: file -> the rows of its CSV."""

    tables: dict[str, Table] = field(default_factory=dict)
    sentences: dict[str, list[str]] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    data: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


def read_page(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page


def collapse_space(text: str) -> str:
    """One space wherever there is any."""
    return " ".join(text.split())


class _Reader(HTMLParser):
    """Keeps the elements that are open; text belongs to the innermost unit of text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open: list[tuple[str, dict[str, str]]] = []
        self._texts: list[list[str]] = []  # of the units that are open
        self._svg: list[str] | None = None
        self._rows: list[tuple[bool, list[tuple[str, bool]]]] = []  # of the open table: is heading, cells

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if self._svg is not None:
            self._svg.append(self.get_starttag_text() or "")
        elif tag == "svg":
            self._svg = [self.get_starttag_text() or ""]
        href = attributes.get("href", "")
        if tag == "a" and href.startswith(CSV):
            rows = csv.reader(io.StringIO(unquote(href.partition(",")[2])))
            self.page.data[attributes.get("download", "")] = tuple(map(tuple, rows))
        if tag in _VOID:
            return
        self._open.append((tag, attributes))
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append((False, []))
        elif tag in UNITS:
            self._texts.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._svg is not None:
            self._svg.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if not any(name == tag for name, _ in self._open):
            return
        while self._open:
            name, attributes = self._open.pop()
            self._close(name, attributes)
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if any(name in _SILENT for name, _ in self._open):
            return
        if self._svg is not None:
            self._svg.append(data)
        elif self._texts:
            self._texts[-1].append(data)
        elif text := collapse_space(data):
            self._add_sentence(text)

    def _close(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "svg" and self._svg is not None and all(name != "svg" for name, _ in self._open):
            figure = self._inside("figure") or self._inside("section") or "page"
            self.page.drawn[figure] = self.page.drawn.get(figure, "") + "".join(self._svg)
            self._svg = None
        if tag == "table":
            self._add_table()
        if tag not in UNITS:
            return
        text = collapse_space("".join(self._texts.pop()))
        if tag in ("th", "td") and self._rows:
            is_heading, cells = self._rows.pop()
            cells.append((text, "n" in attributes.get("class", "").split()))
            self._rows.append((is_heading or attributes.get("scope") == "col", cells))
        elif text:
            self._add_sentence(text)

    def _add_sentence(self, text: str) -> None:
        self.page.sentences.setdefault(self._inside("section") or "page", []).append(text)

    def _inside(self, tag: str) -> str:
        """The id of the innermost element of a kind that has one."""
        return next(
            (
                attributes["id"]
                for name, attributes in reversed(self._open)
                if name == tag and attributes.get("id")
            ),
            "",
        )

    def _add_table(self) -> None:
        id = self._inside("table") or self._inside("div") or f"{self._inside('section')}-{len(self.page.tables)}"
        heads = [cells for is_heading, cells in self._rows if is_heading]
        body = [cells for is_heading, cells in self._rows if not is_heading]
        head = heads[-1] if heads else []
        columns, numeric = tuple(text for text, _ in head), tuple(is_number for _, is_number in head)
        rows = tuple(tuple(text for text, _ in cells) for cells in body)
        self.page.tables[id] = Table(id, columns, rows, numeric)
        self._rows = []


def cells(table: Table) -> Iterator[tuple[str, str, str]]:
    """Row, column and text of every cell. A row is called by its words; rows of one name are numbered, as
    are columns: no cell may hide behind another."""
    row_counts: dict[str, int] = {}
    column_counts: dict[str, int] = {}
    columns = [
        _numbered(name or f"column {number}", column_counts) for number, name in enumerate(table.columns, 1)
    ]
    for row in table.rows:
        words = [text for text, is_number in zip(row[1:], table.numeric[1:], strict=False) if not is_number]
        name = ", ".join([*row[:1], *(word for word in words if word and len(word) < 60)][:4])
        label = _numbered(name, row_counts)
        for index, text in enumerate(row):
            yield label, columns[index] if index < len(columns) else f"column {index + 1}", text


def _numbered(name: str, counts: dict[str, int]) -> str:
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name} ({counts[name]})"
