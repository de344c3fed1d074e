"""The selection's own database: candidates, what was measured of them, and every action; rows are only appended.

folder/selection.sqlite   the rows                 folder/objects/   images by SHA-256
folder/selection.backup   an earlier, checked copy folder/thumbnails/   made when first shown; may be deleted
folder/lock               which process writes to it
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stillme import __version__
from stillme.core import images
from stillme.core.errors import InputError, disk
from stillme.core.lock import Lock
from stillme.core.records import Portrait, Reading, Status, canonical
from stillme.ledger import backup
from stillme.ledger.database import connect, database, migrate
from stillme.ledger.objects import Objects
from stillme.ledger.run import now
from stillme.ledger.writer import RowInsert, Writer
from stillme.sources import Reason, RowIssue
from stillme.sources.selection.action_log import Action
from stillme.sources.selection.pools import Grid

FILE = "selection.sqlite"

_CORE = """
CREATE TABLE meta (                    -- what the selection is: settings of the draw, protocol, versions
    key TEXT PRIMARY KEY, value TEXT NOT NULL
) STRICT;
CREATE TABLE object (                  -- files in objects/, by content
    sha256 TEXT PRIMARY KEY, format TEXT NOT NULL, bytes INTEGER NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL
) STRICT;
CREATE TABLE pool (
    number INTEGER PRIMARY KEY, seed INTEGER NOT NULL, at TEXT NOT NULL
) STRICT;
CREATE TABLE candidate (               -- a portrait in a place of a pool
    key TEXT PRIMARY KEY, pool INTEGER NOT NULL REFERENCES pool, cell TEXT NOT NULL, reader TEXT NOT NULL,
    source TEXT NOT NULL, source_id TEXT NOT NULL, split TEXT NOT NULL, licence TEXT NOT NULL,
    file TEXT NOT NULL, row INTEGER NOT NULL,          -- where the data set lists it
    image TEXT NOT NULL REFERENCES object,             -- as it is shown and exported
    original TEXT NOT NULL,                            -- SHA-256 of the data set's own file
    mended TEXT NOT NULL,                              -- what was done to it, in words; else empty
    fingerprint TEXT NOT NULL,                         -- perceptual hash
    UNIQUE (reader, source_id)
) STRICT;
CREATE TABLE label (                   -- how annotators perceived the person: as we say it, and as they spelled it
    candidate TEXT NOT NULL REFERENCES candidate, dimension TEXT NOT NULL, value TEXT NOT NULL,
    annotated TEXT NOT NULL, PRIMARY KEY (candidate, dimension)
) STRICT;
CREATE TABLE census (                  -- what a draw found: rows of the data set by cell, skips by reason
    draw INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, rows INTEGER NOT NULL,
    PRIMARY KEY (draw, kind, name)
) STRICT;
CREATE TABLE remark (                  -- rows that gave no candidate, or gave one only after a change
    id INTEGER PRIMARY KEY, draw INTEGER NOT NULL, file TEXT NOT NULL, row INTEGER NOT NULL,
    reason TEXT NOT NULL, said TEXT NOT NULL
) STRICT;
CREATE TABLE screening (               -- what the pre-screen measured
    image TEXT NOT NULL REFERENCES object, settings TEXT NOT NULL, status TEXT NOT NULL,
    figures TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (image, settings)
) STRICT;
CREATE TABLE reviewer (                -- pseudonyms only
    name TEXT PRIMARY KEY, place INTEGER NOT NULL UNIQUE, at TEXT NOT NULL
) STRICT;
CREATE TABLE action (                  -- everything that a reviewer did, in order
    id INTEGER PRIMARY KEY, op TEXT NOT NULL UNIQUE, at TEXT NOT NULL,
    reviewer TEXT NOT NULL REFERENCES reviewer, verb TEXT NOT NULL, cell TEXT NOT NULL, candidate TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL,         -- JSON
    criteria TEXT NOT NULL,                            -- JSON: ticks of the candidate at that time
    milliseconds INTEGER                               -- on the page; missing where the browser did not say
) STRICT;
CREATE INDEX action_reviewer ON action (reviewer, id);
"""

MIGRATIONS = (_CORE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A portrait in a slot of a pool. `portrait.labels` are in the protocol's words."""

    pool: int
    seed: int
    cell: str
    reader: str
    portrait: Portrait
    annotated: Mapping[str, str]
    file: str
    row: int
    original: str  # SHA-256 of the data set's own file
    mended: str  # what was done to it, in words; else empty
    fingerprint: str
    width: int = 0
    height: int = 0

    @property
    def key(self) -> str:
        return self.portrait.key


class Store:
    """Use `open_for_writing`, or `open_readonly` to read while another process writes."""

    def __init__(self, path: Path, connection: sqlite3.Connection, writer: Writer | None) -> None:
        self.path = path
        self.objects = Objects(path / "objects")
        self._connection = connection
        self._writer = writer
        self._reading = threading.Lock()

    @classmethod
    @contextmanager
    def open_for_writing(cls, path: Path) -> Iterator[Store]:
        """The selection, created if new, locked for this process."""
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
        with Lock(path, what="The selection"):
            backup.check(path / FILE)
            connection = connect(path / FILE)
            try:
                with database(path / FILE):
                    migrate(connection, str(path / FILE), MIGRATIONS)
                writer = Writer(path / FILE)
                keeper = backup.BackupScheduler(path / FILE, writer)
                try:
                    store = cls(path, connection, writer)
                    store.objects.make()
                    yield store
                finally:
                    writer.close()
                    keeper.close()
            finally:
                connection.close()

    @classmethod
    @contextmanager
    def open_readonly(cls, path: Path) -> Iterator[Store]:
        """The selection, read-only; another process may write to it meanwhile."""
        if not (path / FILE).is_file():
            raise InputError(
                f"{path} has no {FILE}: nothing was sampled yet.", "Run `stillme sources sample` first."
            )
        with database(path / FILE):
            connection = connect(path / FILE, read_only=True)
        try:
            yield cls(path, connection, None)
        finally:
            connection.close()

    # Reading

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, database(self.path / FILE):
            return self._connection.execute(sql, tuple(values)).fetchall()

    def meta(self) -> dict[str, str]:
        return dict(self.query("SELECT key, value FROM meta ORDER BY key"))

    def pools(self) -> dict[int, int]:
        """Pool -> seed."""
        return dict(self.query("SELECT number, seed FROM pool ORDER BY number"))

    def candidates(self) -> list[Candidate]:
        """Every candidate, pool by pool, in the order in which they were drawn."""
        labels: dict[str, dict[str, tuple[str, str]]] = {}  # as the protocol says it, as the data set spells it
        for key, dimension, value, annotated in self.query(
            "SELECT candidate, dimension, value, annotated FROM label ORDER BY rowid"
        ):
            labels.setdefault(key, {})[dimension] = (value, annotated)
        rows = self.query(
            "SELECT key, pool, seed, cell, reader, source, source_id, split, licence, file, row, image, original,"
            " mended, fingerprint, width, height FROM candidate JOIN pool ON pool = number"
            " JOIN object ON image = sha256 ORDER BY pool, candidate.rowid"
        )
        candidates = []
        for key, pool, seed, cell, reader, source, source_id, split, licence, file, number, image, *rest in rows:
            original, mended, fingerprint, width, height = rest
            own_labels = labels.get(key, {})
            candidates.append(
                Candidate(
                    pool=pool,
                    seed=seed,
                    cell=cell,
                    reader=reader,
                    portrait=Portrait(
                        key=key,
                        source=source,
                        source_id=source_id,
                        image=image,
                        labels={dimension: value for dimension, (value, _) in own_labels.items() if value},
                        licence=licence,
                        split=split,
                    ),
                    annotated={dimension: annotated for dimension, (_, annotated) in own_labels.items()},
                    file=file,
                    row=number,
                    original=original,
                    mended=mended,
                    fingerprint=fingerprint,
                    width=width,
                    height=height,
                )
            )
        return candidates

    def image(self, sha256: str) -> bytes:
        rows = self.query("SELECT format FROM object WHERE sha256 = ?", (sha256,))
        if not rows:
            raise InputError(f"The selection {self.path} knows no image {sha256}.")
        return self.objects.get(sha256, rows[0][0])

    def readings(self, settings: str) -> dict[str, Reading]:
        """Image -> what the pre-screen read, with these settings."""
        rows = self.query("SELECT image, status, figures, detail FROM screening WHERE settings = ?", (settings,))
        return {
            image: Reading(Status(status), json.loads(figures), detail) for image, status, figures, detail in rows
        }

    def census(self) -> dict[str, dict[str, int]]:
        """Of the newest draw: kind -> name -> rows. Kinds: cell, drawn, rejected, outside, reason."""
        counts: dict[str, dict[str, int]] = {}
        for kind, name, rows in self.query(
            "SELECT kind, name, rows FROM census WHERE draw = (SELECT max(draw) FROM census) ORDER BY rowid"
        ):
            counts.setdefault(kind, {})[name] = rows
        return counts

    def remarks(self) -> list[RowIssue]:
        """Of the newest draw."""
        rows = self.query(
            "SELECT file, row, reason, said FROM remark WHERE draw = (SELECT max(draw) FROM census) ORDER BY id"
        )
        return [
            RowIssue(file=file, row=row, reason=Reason(reason), said=message)
            for file, row, reason, message in rows
        ]

    def reviewers(self) -> list[str]:
        """The first reviewer decides what is exported; a second one is compared."""
        return [name for (name,) in self.query("SELECT name FROM reviewer ORDER BY place")]

    def actions(self) -> list[Action]:
        """The whole log, in order."""
        columns = "id, op, at, reviewer, verb, cell, candidate, before, after, criteria, milliseconds"
        rows = self.query(f"SELECT {columns} FROM action ORDER BY id")  # noqa: S608 (names are ours, values are parameters)
        return [
            Action(
                op=op,
                at=at,
                reviewer=reviewer,
                verb=verb,
                cell=cell,
                candidate=candidate,
                before=json.loads(before),
                after=json.loads(after),
                criteria=json.loads(criteria),
                milliseconds=milliseconds,
                number=number,
            )
            for (
                number,
                op,
                at,
                reviewer,
                verb,
                cell,
                candidate,
                before,
                after,
                criteria,
                milliseconds,
            ) in rows
        ]

    # Appending

    def append(self, *rows: RowInsert) -> Future[None]:
        if self._writer is None:
            raise RuntimeError("this selection was opened for reading")
        return self._writer.append(*rows)

    def sign(self, facts: Mapping[str, str]) -> None:
        """Record what the selection is, once."""
        meta = {"created": now(), "stillme": __version__, **facts}
        self.append(*(RowInsert("meta", item, again=True) for item in meta.items())).result()

    def add_image(self, content: bytes, facts: images.ImageInfo | None = None) -> RowInsert:
        """Put an image into objects/, durably; its row is stored with the candidate."""
        facts = facts or images.inspect(content)
        sha256 = self.objects.put(content, facts.extension)
        row = (sha256, facts.extension, len(content), facts.width, facts.height)
        return RowInsert("object", row, again=True)

    def add_draw(
        self,
        pools: Mapping[int, int],
        candidates: Sequence[tuple[Candidate, RowInsert]],
        census: Mapping[str, Mapping[str, int]],
        remarks: Sequence[RowIssue],
    ) -> None:
        """Append new pools, their candidates, counts and issues, all of them or none."""
        draw = int(self.query("SELECT coalesce(max(draw), 0) + 1 FROM census")[0][0])
        rows = [RowInsert("pool", (number, seed, now())) for number, seed in pools.items()]
        for candidate, image in candidates:
            rows += [image, *_candidate_rows(candidate)]
        rows += [
            RowInsert("census", (draw, kind, *item)) for kind, part in census.items() for item in part.items()
        ]
        rows += [RowInsert("remark", (None, draw, r.file, r.row, r.reason.value, r.said)) for r in remarks]
        self.append(*rows).result()

    def add_reading(self, image: str, settings: str, reading: Reading) -> Future[None]:
        row = (image, settings, reading.status.value, canonical(dict(reading.figures)), reading.detail)
        return self.append(RowInsert("screening", row, again=True))

    def add_reviewer(self, name: str) -> None:
        """A reviewer of this name, once; the first one added is the first reviewer."""
        names = self.reviewers()
        if name not in names:
            self.append(RowInsert("reviewer", (name, len(names) + 1, now()))).result()

    def add_action(self, action: Action) -> Future[None]:
        """The same `op` may come twice, which changes nothing: a browser that got no answer asks again."""
        row = (
            None,  # the log numbers its rows itself
            action.op,
            action.at,
            action.reviewer,
            action.verb.value,
            action.cell,
            action.candidate,
            canonical(action.before),
            canonical(action.after),
            canonical(dict(action.criteria)),
            action.milliseconds,
        )
        return self.append(RowInsert("action", row, again=True))


def by_cell(grid: Grid, candidates: Iterable[Candidate]) -> dict[str, tuple[Candidate, ...]]:
    """Every cell of the grid -> its candidates, both in their order."""
    candidates_by_cell: dict[str, list[Candidate]] = {cell.id: [] for cell in grid.cells}
    for candidate in candidates:
        if candidate.cell in candidates_by_cell:
            candidates_by_cell[candidate.cell].append(candidate)
    return {cell: tuple(in_cell) for cell, in_cell in candidates_by_cell.items()}


def _candidate_rows(candidate: Candidate) -> Iterator[RowInsert]:
    portrait = candidate.portrait
    row = (
        portrait.key,
        candidate.pool,
        candidate.cell,
        candidate.reader,
        portrait.source,
        portrait.source_id,
        portrait.split,
        portrait.licence,
        candidate.file,
        candidate.row,
        portrait.image,
        candidate.original,
        candidate.mended,
        candidate.fingerprint,
    )
    yield RowInsert("candidate", row)
    for dimension, annotated in candidate.annotated.items():
        yield RowInsert("label", (portrait.key, dimension, portrait.labels.get(dimension, ""), annotated))
