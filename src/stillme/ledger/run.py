"""A run directory, opened for writing or for reading: typed appends, and queries of what is already done.

run/ledger.sqlite   rows, only appended        run/objects/   images by SHA-256, unless they are at a URL
run/ledger.backup   an earlier, checked copy   run/report.html
run/lock            which process writes to the run
"""

from __future__ import annotations

import json
import platform
import sqlite3
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from stillme import __version__
from stillme.core import images
from stillme.core.errors import InputError, SetupError, disk
from stillme.core.lock import Lock
from stillme.core.records import (
    Adjudication,
    Attempt,
    Depicted,
    Edit,
    Exchange,
    Feature,
    JudgeReply,
    Measurement,
    Portrait,
    Status,
    Trial,
    Verdict,
    canonical,
    digest,
)
from stillme.ledger import backup
from stillme.ledger.backup import BackupScheduler
from stillme.ledger.database import add_axes, connect, database, is_current, migrate, up_to_date, wrap_row_errors
from stillme.ledger.objects import Store, objects_at
from stillme.ledger.writer import RowInsert, Writer
from stillme.protocol import Protocol, from_files

LEDGER = "ledger.sqlite"
OBJECTS = "objects"


@dataclass(frozen=True)
class StoredImage:
    """An image that is on disk, and its row, to be added with the record that uses it."""

    sha256: str
    row: RowInsert


@dataclass(frozen=True)
class EditProvenance:
    """How an edit was made.

    Attributes:
        circumstances: what edits of one process share.
        notes: what is this edit's alone.
        extras: further images that were made on the way.
    """

    circumstances: Mapping[str, Any]
    notes: Mapping[str, str]
    extras: Mapping[str, StoredImage]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Run:
    """A run directory. Use `Run.open_for_writing` to write, `Run.open_readonly` to read beside a writer."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        writer: Writer | None,
        keeper: BackupScheduler | None = None,
    ) -> None:
        self.path = path
        self.connection = connection
        self._reading = threading.Lock()
        self._formats: dict[str, str] = {}  # of the images, as far as they were needed
        self.objects = objects_at(_store(self.meta()), path / "objects")
        self._writer = writer
        self._keeper = keeper

    @classmethod
    @contextmanager
    def open_for_writing(cls, path: Path, protocol: Protocol, objects: Store | None = None) -> Iterator[Run]:
        """Open the run for writing, made if new, locked for this process.

        A run of another protocol or another store is refused.
        """
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
        with Lock(path):
            backup.check(path / LEDGER, thorough=True)
            with (
                closing(_prepare(path, protocol, objects)) as connection,
                _open_writer(path / LEDGER) as (writer, keeper),
            ):
                run = cls(path, connection, writer=writer, keeper=keeper)
                run._check_statuses()
                run.objects.make()
                yield run

    @classmethod
    @contextmanager
    def join(cls, path: Path) -> Iterator[Run]:
        """Open the run for adding what people decide; another process may have it open for writing meanwhile.

        A ledger of an earlier stillme is brought up to date first, which needs the run unlocked.
        """
        with cls.open_readonly(path) as run:
            protocol, objects = run.protocol(), _store(run.meta())
        if not is_current(path / LEDGER):
            with cls.open_for_writing(path, protocol, objects):
                pass
        with closing(connect(path / LEDGER)) as connection, _open_writer(path / LEDGER) as (writer, keeper):
            yield cls(path, connection, writer=writer, keeper=keeper)

    @classmethod
    @contextmanager
    def open_readonly(cls, path: Path) -> Iterator[Run]:
        """Open the run for reading; a writer may be at work meanwhile."""
        backup.check(path / LEDGER)
        if not (path / LEDGER).is_file():
            raise InputError(f"{path} is not a run: it has no {LEDGER}.", "Give the directory of an earlier run.")
        with database(path / LEDGER):
            connection = up_to_date(connect(path / LEDGER, read_only=True), str(path / LEDGER))
        with closing(connection):
            run = cls(path, connection, writer=None)
            run._check_statuses()
            yield run

    def _check_statuses(self) -> None:
        """Refuse a ledger with a status that stillme never writes: everything that reads it builds on these."""
        tables = ("edit", "verdict", "measurement", "feature")
        with wrap_row_errors(self.path, "a status"):
            for (word,) in self.query(" UNION ".join(f"SELECT status FROM {table}" for table in tables)):  # noqa: S608 (names are ours)
                Status(word)

    # What is there

    def expect(self, protocol: Protocol) -> None:
        """Refuse a run that was made with another protocol."""
        _refuse_other_protocol(self.meta(), self.path, protocol)

    def protocol(self) -> Protocol:
        """The protocol that the run was made with, from the run itself."""
        return from_files(json.loads(self.meta()["protocol_files"]), f"{self.path}: protocol")

    def last_audit(self) -> dict[str, Any]:
        """The newest configuration that the run has seen."""
        rows = self.query("SELECT content FROM audit ORDER BY id DESC LIMIT 1")
        if not rows:
            raise InputError(f"The run {self.path} has not been planned yet.", "Start it with `stillme run`.")
        with wrap_row_errors(self.path, "a configuration"):
            return dict(json.loads(rows[0][0]))

    def portraits(self, keys: Sequence[str]) -> list[Portrait]:
        """The portraits with these keys, in this order."""
        labels: dict[str, dict[str, str]] = {}
        for key, dimension, value in self.query("SELECT portrait, dimension, value FROM label ORDER BY rowid"):
            labels.setdefault(key, {})[dimension] = value
        columns = "key, source, source_id, image, licence, split"
        rows = {row[0]: row for row in self.query(f"SELECT {columns} FROM portrait")}  # noqa: S608 (names are ours, values are parameters)
        with wrap_row_errors(self.path, "a list of portraits"):
            return [
                Portrait(
                    key=key,
                    source=source,
                    source_id=source_id,
                    image=image,
                    labels=labels[key],
                    licence=licence,
                    split=split,
                )
                for key, source, source_id, image, licence, split in (rows[key] for key in keys)
            ]

    def meta(self) -> dict[str, str]:
        return dict(self.query("SELECT key, value FROM meta ORDER BY key"))

    @property
    def id(self) -> str:
        """A name that no other run has: what is kept elsewhere under it (a batch at a service) belongs here."""
        meta = self.meta()
        return meta.get("id") or digest("run", created=meta["created"], protocol=meta["protocol_hash"])[:32]

    def keys(self, table: str) -> set[str]:
        """All keys of a table: a resume compares the plan with them."""
        column = {"object": "sha256", "settings": "hash"}.get(table, "key")
        return {row[0] for row in self.query(f"SELECT {column} FROM {table}")}  # noqa: S608 (names are ours, values are parameters)

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, database(self.path / LEDGER):
            return self.connection.execute(sql, tuple(values)).fetchall()

    def image(self, sha256: str) -> bytes:
        """The content of an image, checked against its hash."""
        if sha256 not in self._formats:  # all formats at once: after one image the others are soon needed
            self._formats.update(self.query("SELECT sha256, format FROM object"))
        if sha256 not in self._formats:
            raise SetupError(f"The run {self.path} knows no image {sha256}.")
        return self.objects.get(sha256, self._formats[sha256])

    def has_images(self, names: Iterable[str]) -> bool:
        """Whether these images are all there, as large as they were."""
        rows = self.query("SELECT sha256, format, bytes FROM object")
        files = {sha256: (extension, size) for sha256, extension, size in rows}
        return all(self.objects.has(name, *files[name]) for name in names)

    def fault(self, sha256: str) -> str:
        """A sentence about what is wrong with an image; empty where it is whole."""
        try:
            self.image(sha256)
        except SetupError as error:
            return error.sentence
        return ""

    def truth(self, edit: str) -> dict[str, float]:
        """What was planted into an edit; empty for a real one."""
        return dict(self.query("SELECT quantity, value FROM truth WHERE edit = ?", (edit,)))

    def scores(self, verdict: str) -> dict[str, int]:
        """The scores of a verdict; empty where it has none."""
        with self._reading, database(self.path / LEDGER):
            result = self.connection.execute("SELECT * FROM score WHERE verdict = ?", (verdict,))
            names = [column[0] for column in result.description]
            row = result.fetchone()
        pairs = zip(names[1:], row[1:], strict=True) if row else ()
        return {name: score for name, score in pairs if score is not None}

    def spent_usd(self) -> float:
        return float(self.query("SELECT coalesce(sum(cost_usd), 0) FROM attempt")[0][0])

    def people(self, verdict: str) -> tuple[Depicted, ...]:
        """The people that a judge saw, from left to right."""
        rows = self.query("SELECT role, gender, note FROM depicted WHERE verdict = ? ORDER BY place", (verdict,))
        return tuple(Depicted(role=role, gender=gender, note=note) for role, gender, note in rows)

    # What is added

    def back_up(self) -> None:
        """Copy the ledger as it is now: after work that cost money or people's time."""
        if self._keeper is not None:
            self._keeper.now()

    def append(self, *rows: RowInsert, patient: bool = False) -> Future[None]:
        if self._writer is None:
            raise RuntimeError("this run was opened for reading")
        return self._writer.append(*rows, patient=patient)

    def add_audit(self, content: Mapping[str, Any]) -> None:
        """Record the configuration, unless it is the newest one already."""
        text = canonical(content)
        last = self.query("SELECT content FROM audit ORDER BY id DESC LIMIT 1")
        if last != [(text,)]:
            self.append(RowInsert("audit", (None, now(), text))).result()

    def add_settings(self, kind: str, content: Mapping[str, Any]) -> str:
        """Store settings by their hash and return it."""
        key = settings_hash(kind, content)
        self.append(RowInsert("settings", (key, kind, canonical(content)), again=True)).result()
        return key

    def add_portrait(self, portrait: Portrait, image: bytes) -> Future[None]:
        """One unit: the image's row, the portrait and its labels."""
        p = portrait
        row = (p.key, p.source, p.source_id, p.image, p.licence, p.split)
        labels = [RowInsert("label", (p.key, name, value), again=True) for name, value in p.labels.items()]
        return self.append(self.store(image).row, RowInsert("portrait", row, again=True), *labels)

    def add_trials(self, trials: Iterable[Trial]) -> None:
        """Store the trials that are not there yet, and wait until they are on disk."""
        present = self.keys("trial")
        commits = [self.append(*_trial_rows(trial)) for trial in trials if trial.key not in present]
        for commit in commits:
            commit.result()

    def add_edit(
        self, edit: Edit, attempt: Attempt, image: StoredImage | None, making: EditProvenance | None = None
    ) -> Future[None]:
        """One unit: the image's row, the edit, its attempt, what was planted, how it was made."""
        truth = [RowInsert("truth", (edit.key, name, value)) for name, value in edit.truth.items()]
        row = RowInsert("edit", (edit.key, edit.status.value, edit.image, edit.detail))
        provenance = _making_rows(edit.key, making) if making else ()
        return self.append(*([image.row] if image else []), row, _attempt_row(attempt), *truth, *provenance)

    def add_verdicts(
        self,
        verdicts: Iterable[Verdict],
        attempts: Iterable[Attempt],
        asked: Iterable[RowInsert] = (),
        patient: bool = False,
    ) -> Future[None]:
        """One unit: the attempts of a call, its request, and every verdict that is read from it."""
        rows = [row for verdict in verdicts for row in _verdict_rows(verdict)]
        return self.append(*asked, *map(_attempt_row, attempts), *rows, patient=patient)

    def add_verdict(self, verdict: Verdict, attempt: Attempt) -> Future[None]:
        return self.add_verdicts([verdict], [attempt])

    def add_measurements(self, measurements: Iterable[Measurement]) -> Future[None]:
        """One unit: everything that was measured of one pair."""
        rows = [
            (m.key, m.source, m.image, m.measure, m.settings, m.status.value, canonical(dict(m.figures)), m.detail)
            for m in measurements
        ]
        return self.append(*(RowInsert("measurement", row) for row in rows))

    def add_feature(self, feature: Feature, attempts: Iterable[Attempt]) -> Future[None]:
        """One unit: the attempts, and the features that were read from the portrait."""
        f = feature
        texts = canonical(dict(f.features)) if f.features else ""
        row = (f.key, f.image, f.settings, f.status.value, texts, canonical(list(f.leaks)), f.detail)
        return self.append(*map(_attempt_row, attempts), RowInsert("feature", row))

    def features(self, keys: Iterable[str]) -> dict[str, Feature]:
        """The features of these keys, as far as they are there."""
        requested = set(keys)
        rows = self.query("SELECT key, image, settings, status, features, leaks, detail FROM feature")
        return {
            key: Feature(
                key=key,
                image=image,
                settings=settings,
                status=Status(status),
                features=json.loads(texts or "{}"),
                leaks=tuple(json.loads(leaks)),
                detail=detail,
            )
            for key, image, settings, status, texts, leaks, detail in rows
            if key in requested
        }

    def add_draw(self, key: str, content: Any) -> None:
        """Keep a sample, and wait until it is on disk."""
        self.append(RowInsert("draw", (key, now(), canonical(content)), again=True)).result()

    def drawn(self, key: str) -> Any | None:
        """A sample that was kept; None if it was not drawn yet."""
        rows = self.query("SELECT content FROM draw WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def add_adjudication(self, adjudication: Adjudication) -> Future[None]:
        a = adjudication
        row = (None, a.edit, a.prompt, a.axis, a.score, int(a.withdrawn), a.reviewer, a.reason, a.at or now())
        return self.append(RowInsert("adjudication", row))

    def adjudications(self) -> list[Adjudication]:
        """All of them, the oldest first."""
        columns = "edit, prompt, axis, score, who, why, at, withdrawn"
        rows = self.query(f"SELECT {columns} FROM adjudication ORDER BY id")  # noqa: S608 (names are ours, values are parameters)
        return [
            Adjudication(
                edit=edit,
                prompt=prompt,
                axis=axis,
                score=score,
                reviewer=who,
                reason=why,
                at=at,
                withdrawn=bool(withdrawn),
            )
            for edit, prompt, axis, score, who, why, at, withdrawn in rows
        ]

    def studies(self) -> dict[str, dict[str, Any]]:
        """Hash of a bundle -> the content of that study's key, for every study that was imported."""
        return {name: json.loads(content) for name, content in self.query("SELECT hash, content FROM study")}

    def exclusions(self, study: str) -> dict[str, str]:
        """Rater -> the reason for which a coordinator excludes them now."""
        newest = "SELECT max(id) FROM rating_exclusion WHERE study = ? GROUP BY rater"
        sql = f"SELECT rater, why FROM rating_exclusion WHERE id IN ({newest}) AND NOT withdrawn"  # noqa: S608 (names are ours, values are parameters)
        return dict(self.query(sql, (study,)))

    def add_ratings(self, rows: Iterable[RowInsert]) -> None:
        """Import all of these rows or none; waits until they are on disk."""
        self.append(*rows).result()

    def add_attempt(self, attempt: Attempt) -> Future[None]:
        return self.append(_attempt_row(attempt))

    def store(self, image: bytes, facts: images.ImageInfo | None = None) -> StoredImage:
        """Put an image into objects/, durably; its row goes in with the record that uses it."""
        facts = facts or images.inspect(image)
        sha256 = self.objects.put(image, facts.extension)
        row = (sha256, facts.extension, len(image), facts.width, facts.height)
        return StoredImage(sha256=sha256, row=RowInsert("object", row, again=True))


def attempts(subject: str, reply: JudgeReply) -> Iterator[Attempt]:
    """The attempts of a judge call; a call that failed before any request counts as one."""
    alone = Exchange(status=reply.status, started=now(), cost_usd=reply.cost_usd, detail=reply.detail)
    for exchange in reply.exchanges or (alone,):
        yield Attempt(
            subject=subject,
            status=exchange.status,
            started=exchange.started,
            seconds=round(exchange.seconds, 6),
            cost_usd=exchange.cost_usd,
            detail=exchange.detail,
            code=exchange.code,
            request_id=exchange.request_id,
            http=exchange.http,
            usage=exchange.usage,
            raw=exchange.raw,
        )


def settings_hash(kind: str, content: Mapping[str, Any]) -> str:
    return digest("settings", of=kind, content=dict(content))


@lru_cache(maxsize=64)
def _score_columns(axes: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{name}"' for name in ("verdict", *axes))
    return f"score ({columns})"


def _verdict_rows(verdict: Verdict) -> Iterator[RowInsert]:
    v = verdict
    seen = canonical(dict(v.observations)) if v.observations else ""
    row = (v.key, v.edit, v.judge, v.settings, v.status.value, v.evidence, v.detail, seen, v.call, v.repeat)
    yield RowInsert("verdict", row)
    if v.scores:
        yield RowInsert(_score_columns(tuple(v.scores)), (v.key, *v.scores.values()))
    for place, person in enumerate(v.people):
        yield RowInsert("depicted", (v.key, place, person.role, person.gender, person.note))


def _attempt_row(attempt: Attempt) -> RowInsert:
    a = attempt
    usage = canonical(dict(a.usage)) if a.usage else ""
    raw = None
    if a.raw:  # with little memory: setting up zlib's usual amount takes six times as long as packing an answer
        packer = zlib.compressobj(1, zlib.DEFLATED, 12, 4)
        raw = packer.compress(a.raw) + packer.flush()
    how = (a.cost_usd, a.detail, a.code, a.request_id, a.http, usage, raw)
    return RowInsert("attempt", (None, a.subject, a.status.value, a.started, a.seconds, *how))


def question_row(name: str, content: Mapping[str, Any]) -> RowInsert:
    """A request without its images: kept once for all calls that share it."""
    return RowInsert("question", (name, canonical(content)), again=True)


def call_row(key: str, question: str, source: str, edited: str, repeat: int) -> RowInsert:
    return RowInsert("call", (key, question, source, edited, repeat), again=True)


def _making_rows(edit: str, making: EditProvenance) -> Iterator[RowInsert]:
    content = canonical(dict(making.circumstances))
    key = digest("circumstances", content=content)
    yield RowInsert("circumstances", (key, content), again=True)
    yield RowInsert("making", (edit, key, canonical(dict(making.notes))))
    for name, stored in making.extras.items():
        yield stored.row
        yield RowInsert("extra", (edit, name, stored.sha256))


def _trial_rows(trial: Trial) -> tuple[RowInsert, RowInsert]:
    t = trial
    text = digest("instruction", text=t.instruction)
    about = canonical(dict(t.about)) if t.about else ""
    request = (t.key, t.edit, t.experiment, t.arm, t.prompt, text, t.editor, t.settings)
    row = (*request, t.seed, t.portrait, t.partner, about)
    return RowInsert("instruction", (text, t.instruction), again=True), RowInsert("trial", row)


@contextmanager
def _open_writer(ledger: Path) -> Iterator[tuple[Writer, BackupScheduler]]:
    """A writer, and the scheduler of copies: the last one is made when everything is written."""
    writer = Writer(ledger)
    keeper = BackupScheduler(ledger, writer)
    try:
        yield writer, keeper
    finally:
        try:
            writer.close()
        finally:
            keeper.close()


def _prepare(path: Path, protocol: Protocol, objects: Store | None) -> sqlite3.Connection:
    """Open the ledger, bring its schema up to date, and check that the run is of this protocol and store."""
    connection = connect(path / LEDGER)
    try:
        with database(path / LEDGER):
            migrate(connection, str(path / LEDGER))
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            if meta:
                _refuse_other_protocol(meta, path, protocol)
                if (recorded := _store(meta)) != objects:
                    there, here = (store.url if store else "its own folder" for store in (recorded, objects))
                    raise InputError(
                        f"The run {path} keeps its images in {there}; this audit says {here}.",
                        "Give the audit another run directory, or the 'objects' that the run was made with.",
                    )
            else:
                _write_meta(connection, protocol, objects)
            add_axes(connection, protocol.axes)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_other_protocol(meta: Mapping[str, str], path: Path, protocol: Protocol) -> None:
    if meta["protocol_hash"] != protocol.hash:
        raise InputError(
            f"The run {path} was made with the protocol {meta['protocol']} (hash {meta['protocol_hash'][:12]}); "
            f"this audit uses {protocol.name} (hash {protocol.hash[:12]}). Answers to different questions "
            "are not mixed in one run.",
            "Give the audit another run directory, or the protocol that the run was made with.",
        )


def _store(meta: Mapping[str, str]) -> Store | None:
    """The store of the run's images; None: its own folder."""
    return Store.model_validate_json(meta[OBJECTS]) if OBJECTS in meta else None


def _write_meta(connection: sqlite3.Connection, protocol: Protocol, objects: Store | None) -> None:
    meta = {
        "protocol": protocol.name,
        "protocol_hash": protocol.hash,
        "protocol_files": canonical(protocol.files),
        "created": now(),
        "id": uuid.uuid4().hex,
        "stillme": __version__,
        "python": platform.python_version(),
        **({OBJECTS: canonical(objects.model_dump(mode="json"))} if objects else {}),
    }
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
    connection.execute("COMMIT")


# The state of a run

_COUNTS = "SELECT (SELECT max(id) FROM audit), " + ", ".join(  # noqa: S608 (names are ours, values are parameters)
    f"(SELECT count(*) FROM {table})"  # noqa: S608 (names are ours, values are parameters)
    for table in (
        *("trial", "edit", "verdict", "measurement", "feature", "adjudication"),
        *("rating", "rating_check", "rating_exclusion"),
    )
)


def state_of(run: Run) -> str:
    """A name for the run's state, so that what shows it is made again only when the run has moved on.

    Rows are only appended, so their counts name it.
    """
    return digest("state", counts=list(run.query(_COUNTS)[0]), stillme=__version__)


def mark_of(run: Run) -> str:
    """An HTML comment that names the run's state."""
    return f"<!-- stillme-state {state_of(run)} -->"


def shows(path: Path, run: Run) -> bool:
    """Whether the file ends with the mark of the run as it is now."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 200))
        return mark_of(run).encode() in file.read()
