"""A run directory, opened for writing or for reading: typed appends, and what is already done.

run/ledger.sqlite   rows, only appended        run/objects/   images by SHA-256, unless they are at a URL
run/ledger.backup   an earlier, checked copy   run/report.html
run/lock            who holds the run
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
from stillme.core.errors import InputError, SurroundingsError, disk
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
from stillme.ledger.backup import Keeper
from stillme.ledger.database import as_written, connect, database
from stillme.ledger.migrations import add_axes, is_current, migrate, up_to_date
from stillme.ledger.objects import Store, objects_at
from stillme.ledger.writer import Insert, Writer
from stillme.protocol import Protocol, from_files

LEDGER = "ledger.sqlite"
OBJECTS = "objects"


@dataclass(frozen=True)
class Stored:
    """An image that is on disk, and the row that will say so."""

    sha256: str
    row: Insert


@dataclass(frozen=True)
class Making:
    """How an edit was made: what edits of one process share, what is this one's alone, and pictures on the way."""

    circumstances: Mapping[str, Any]
    notes: Mapping[str, str]
    extras: Mapping[str, Stored]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Run:
    """Use `Run.hold` to write, `Run.look` to read beside a writer."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, writer: Writer | None, keeper: Keeper | None = None
    ) -> None:
        self.path = path
        self.connection = connection
        self._reading = threading.Lock()
        self._formats: dict[str, str] = {}  # of the images, as far as they were asked for
        self.objects = objects_at(_store(self.meta()), path / "objects")
        self._writer = writer
        self._keeper = keeper

    @classmethod
    @contextmanager
    def hold(cls, path: Path, protocol: Protocol, objects: Store | None = None) -> Iterator[Run]:
        """The run, made if new, locked for this process. Refuses a run of another protocol or another store."""
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
        with Lock(path):
            backup.check(path / LEDGER, thorough=True)
            with closing(_prepare(path, protocol, objects)) as connection, _writing(path / LEDGER) as kept:
                run = cls(path, connection, *kept)
                run._check_statuses()
                run.objects.make()
                yield run

    @classmethod
    @contextmanager
    def join(cls, path: Path) -> Iterator[Run]:
        """The run, for adding what people decide; another process may hold it and write meanwhile.

        A ledger of an earlier stillme is brought up to date first, which only a run that nobody holds allows.
        """
        with cls.look(path) as seen:
            protocol, objects = seen.protocol(), _store(seen.meta())
        if not is_current(path / LEDGER):
            with cls.hold(path, protocol, objects):
                pass
        with closing(connect(path / LEDGER)) as connection, _writing(path / LEDGER) as kept:
            yield cls(path, connection, *kept)

    @classmethod
    @contextmanager
    def look(cls, path: Path) -> Iterator[Run]:
        """The run, read-only; a writer may be at work meanwhile."""
        backup.check(path / LEDGER)
        if not (path / LEDGER).is_file():
            raise InputError(f"{path} is not a run: it has no {LEDGER}.", "Give the directory of an earlier run.")
        with database(path / LEDGER):
            connection = up_to_date(connect(path / LEDGER, read_only=True), str(path / LEDGER))
        with closing(connection):
            run = cls(path, connection, None)
            run._check_statuses()
            yield run

    def _check_statuses(self) -> None:
        """Refuse a ledger with a status that stillme never writes: everything that reads it builds on these."""
        tables = ("edit", "verdict", "measurement", "feature")
        with as_written(self.path, "a status"):
            for (word,) in self.query(" UNION ".join(f"SELECT status FROM {table}" for table in tables)):  # noqa: S608 (names are ours)
                Status(word)

    # What is there

    def expect(self, protocol: Protocol) -> None:
        """Refuses a run that was made with another protocol."""
        _refuse_other(self.meta(), self.path, protocol)

    def protocol(self) -> Protocol:
        """The protocol that the run was made with, from the run itself."""
        return from_files(json.loads(self.meta()["protocol_files"]), f"{self.path}: protocol")

    def last_audit(self) -> dict[str, Any]:
        """The newest configuration that the run has seen."""
        rows = self.query("SELECT content FROM audit ORDER BY id DESC LIMIT 1")
        if not rows:
            raise InputError(f"The run {self.path} has not been planned yet.", "Start it with `stillme run`.")
        with as_written(self.path, "a configuration"):
            return dict(json.loads(rows[0][0]))

    def portraits(self, keys: Sequence[str]) -> list[Portrait]:
        """The portraits with these keys, in this order."""
        labels: dict[str, dict[str, str]] = {}
        for key, dimension, value in self.query("SELECT portrait, dimension, value FROM label ORDER BY rowid"):
            labels.setdefault(key, {})[dimension] = value
        columns = "key, source, source_id, image, licence, split"
        rows = {row[0]: row for row in self.query(f"SELECT {columns} FROM portrait")}  # noqa: S608 (names are ours, values are parameters)
        with as_written(self.path, "a list of portraits"):
            found = [rows[key] for key in keys]
            return [Portrait(k, s, i, image, labels[k], li, sp) for k, s, i, image, li, sp in found]

    def meta(self) -> dict[str, str]:
        return dict(self.query("SELECT key, value FROM meta ORDER BY key"))

    @property
    def id(self) -> str:
        """A name that no other run has: what is left elsewhere under it belongs here."""
        meta = self.meta()
        return meta.get("id") or digest("run", created=meta["created"], protocol=meta["protocol_hash"])[:32]

    def keys(self, table: str) -> set[str]:
        """All keys of a table: what a resume compares the plan with."""
        column = {"object": "sha256", "settings": "hash"}.get(table, "key")
        return {row[0] for row in self.query(f"SELECT {column} FROM {table}")}  # noqa: S608 (names are ours, values are parameters)

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, database(self.path / LEDGER):
            return self.connection.execute(sql, tuple(values)).fetchall()

    def image(self, sha256: str) -> bytes:
        return self.objects.get(sha256, self._formats.get(sha256) or self._format(sha256))

    def has_images(self, names: Iterable[str]) -> bool:
        """Whether these images are all there, as large as they were."""
        known = {row[0]: row[1:] for row in self.query("SELECT sha256, format, bytes FROM object")}
        return all(self.objects.has(name, *known[name]) for name in names)

    def fault(self, sha256: str) -> str:
        """What is wrong with an image; nothing where it is what its name says."""
        try:
            self.image(sha256)
        except SurroundingsError as error:
            return error.sentence
        return ""

    def _format(self, sha256: str) -> str:
        """Whoever asks for one image soon asks for the others: all are looked up at once."""
        self._formats.update(self.query("SELECT sha256, format FROM object"))
        if sha256 not in self._formats:
            raise SurroundingsError(f"The run {self.path} knows no image {sha256}.")
        return self._formats[sha256]

    def truth(self, edit: str) -> dict[str, float]:
        """What was planted into an edit; empty for a real one."""
        return dict(self.query("SELECT quantity, value FROM truth WHERE edit = ?", (edit,)))

    def scores(self, verdict: str) -> dict[str, int]:
        """The scores of a verdict; empty where it has none."""
        with self._reading, database(self.path / LEDGER):
            found = self.connection.execute("SELECT * FROM score WHERE verdict = ?", (verdict,))
            names = [column[0] for column in found.description]
            row = found.fetchone()
        pairs = zip(names[1:], row[1:], strict=True) if row else ()
        return {name: score for name, score in pairs if score is not None}

    def spent_usd(self) -> float:
        return float(self.query("SELECT coalesce(sum(cost_usd), 0) FROM attempt")[0][0])

    def people(self, verdict: str) -> tuple[Depicted, ...]:
        """Whom a judge saw, from left to right."""
        rows = self.query("SELECT role, gender, note FROM depicted WHERE verdict = ? ORDER BY place", (verdict,))
        return tuple(Depicted(*row) for row in rows)

    # What is added

    def back_up(self) -> None:
        """A copy of the ledger as it is now; what costs money or people's time is worth one when it is done."""
        if self._keeper is not None:
            self._keeper.now()

    def append(self, *rows: Insert, patient: bool = False) -> Future[None]:
        if self._writer is None:
            raise RuntimeError("this run was opened for reading")
        return self._writer.append(*rows, patient=patient)

    def add_audit(self, content: Mapping[str, Any]) -> None:
        """Notes the configuration, unless it is the one noted last."""
        text = canonical(content)
        last = self.query("SELECT content FROM audit ORDER BY id DESC LIMIT 1")
        if last != [(text,)]:
            self.append(Insert("audit", (None, now(), text))).result()

    def add_settings(self, kind: str, content: Mapping[str, Any]) -> str:
        """Stores settings by their hash and returns it."""
        key = settings_hash(kind, content)
        self.append(Insert("settings", (key, kind, canonical(content)), again=True)).result()
        return key

    def add_portrait(self, portrait: Portrait, image: bytes) -> Future[None]:
        p = portrait
        row = (p.key, p.source, p.source_id, p.image, p.licence, p.split)
        labels = [Insert("label", (p.key, name, value), again=True) for name, value in p.labels.items()]
        return self.append(self.store(image).row, Insert("portrait", row, again=True), *labels)

    def add_trials(self, trials: Iterable[Trial]) -> None:
        """Stores the trials that are not there yet, and waits until they are on disk."""
        known = self.keys("trial")
        added = [self.append(*_trial_rows(trial)) for trial in trials if trial.key not in known]
        for answer in added:
            answer.result()

    def add_edit(
        self, edit: Edit, attempt: Attempt, image: Stored | None, making: Making | None = None
    ) -> Future[None]:
        """One unit: the image's row, the edit, how the call went, what was planted, how it was made."""
        truth = [Insert("truth", (edit.key, name, value)) for name, value in edit.truth.items()]
        row = Insert("edit", (edit.key, edit.status.value, edit.image, edit.detail))
        made = _making_rows(edit.key, making) if making else ()
        return self.append(*([image.row] if image else []), row, _attempt(attempt), *truth, *made)

    def add_verdicts(
        self,
        verdicts: Iterable[Verdict],
        attempts: Iterable[Attempt],
        asked: Iterable[Insert] = (),
        patient: bool = False,
    ) -> Future[None]:
        """One unit: how the call went, what was asked, and every verdict that is read off it."""
        rows = [row for verdict in verdicts for row in _verdict_rows(verdict)]
        return self.append(*asked, *(_attempt(one) for one in attempts), *rows, patient=patient)

    def add_verdict(self, verdict: Verdict, attempt: Attempt) -> Future[None]:
        return self.add_verdicts([verdict], [attempt])

    def add_measurements(self, measurements: Iterable[Measurement]) -> Future[None]:
        """One unit: everything that was read off one pair."""
        rows = [
            (m.key, m.source, m.image, m.measure, m.settings, m.status.value, canonical(dict(m.figures)), m.detail)
            for m in measurements
        ]
        return self.append(*(Insert("measurement", row) for row in rows))

    def add_feature(self, feature: Feature, attempts: Iterable[Attempt]) -> Future[None]:
        """One unit: how the calls went, and what was read off the portrait."""
        f = feature
        texts = (canonical(dict(f.features)) if f.features else "", canonical(list(f.leaks)), f.detail)
        row = Insert("feature", (f.key, f.image, f.settings, f.status.value, *texts))
        return self.append(*(_attempt(one) for one in attempts), row)

    def features(self, keys: Iterable[str]) -> dict[str, Feature]:
        """Those of these keys that are there."""
        wanted = set(keys)
        rows = self.query("SELECT key, image, settings, status, features, leaks, detail FROM feature")
        return {
            key: Feature(
                key, image, settings, Status(status), json.loads(said or "{}"), tuple(json.loads(leaks)), detail
            )
            for key, image, settings, status, said, leaks, detail in rows
            if key in wanted
        }

    def add_draw(self, key: str, content: Any) -> None:
        """Keeps a sample, and waits until it is on disk."""
        self.append(Insert("draw", (key, now(), canonical(content)), again=True)).result()

    def drawn(self, key: str) -> Any | None:
        """A sample that was kept; None where it was not drawn yet."""
        rows = self.query("SELECT content FROM draw WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def add_adjudication(self, adjudication: Adjudication) -> Future[None]:
        a = adjudication
        row = (None, a.edit, a.prompt, a.axis, a.score, int(a.withdrawn), a.who, a.why, a.at or now())
        return self.append(Insert("adjudication", row))

    def adjudications(self) -> list[Adjudication]:
        """All of them, the oldest first."""
        columns = "edit, prompt, axis, score, who, why, at, withdrawn"
        rows = self.query(f"SELECT {columns} FROM adjudication ORDER BY id")  # noqa: S608 (names are ours, values are parameters)
        return [
            Adjudication(edit, prompt, axis, score, who, why, at, bool(withdrawn))
            for edit, prompt, axis, score, who, why, at, withdrawn in rows
        ]

    def studies(self) -> dict[str, dict[str, Any]]:
        """Hash of a bundle -> what the key of that study says, of every study that was taken in."""
        return {name: json.loads(content) for name, content in self.query("SELECT hash, content FROM study")}

    def exclusions(self, study: str) -> dict[str, str]:
        """Rater -> why a coordinator left them out, as it is now."""
        newest = "SELECT max(id) FROM rating_exclusion WHERE study = ? GROUP BY rater"
        sql = f"SELECT rater, why FROM rating_exclusion WHERE id IN ({newest}) AND NOT withdrawn"  # noqa: S608 (names are ours, values are parameters)
        return dict(self.query(sql, (study,)))

    def add_ratings(self, rows: Iterable[Insert]) -> None:
        """What was taken in at once: all of it or nothing; waits until it is on disk."""
        self.append(*rows).result()

    def add_attempt(self, attempt: Attempt) -> Future[None]:
        return self.append(_attempt(attempt))

    def store(self, image: bytes, facts: images.Facts | None = None) -> Stored:
        """Puts an image into objects/, durably; its row goes in with the record that uses it."""
        facts = facts or images.inspect(image)
        sha256 = self.objects.put(image, facts.extension)
        row = (sha256, facts.extension, len(image), facts.width, facts.height)
        return Stored(sha256, Insert("object", row, again=True))


def attempts(subject: str, reply: JudgeReply) -> Iterator[Attempt]:
    """Every attempt that a call took; one that never came to ask is an attempt too."""
    alone = Exchange(reply.status, now(), cost_usd=reply.cost_usd, detail=reply.detail)
    for one in reply.exchanges or (alone,):
        told = (one.cost_usd, one.detail, one.code, one.request_id, one.http, one.usage, one.raw)
        yield Attempt(subject, one.status, one.started, round(one.seconds, 6), *told)


def settings_hash(kind: str, content: Mapping[str, Any]) -> str:
    return digest("settings", of=kind, content=dict(content))


def _scores(verdict: str, scores: Mapping[str, int]) -> Insert:
    return Insert(_score_columns(tuple(scores)), (verdict, *scores.values()))


@lru_cache(maxsize=64)
def _score_columns(axes: tuple[str, ...]) -> str:
    return f"score ({', '.join(_quoted(name) for name in ('verdict', *axes))})"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _verdict_rows(verdict: Verdict) -> Iterator[Insert]:
    v = verdict
    seen = canonical(dict(v.observations)) if v.observations else ""
    row = (v.key, v.edit, v.judge, v.settings, v.status.value, v.evidence, v.detail, seen, v.call, v.repeat)
    yield Insert("verdict", row)
    if v.scores:
        yield _scores(v.key, v.scores)
    for place, person in enumerate(v.people):
        yield Insert("depicted", (v.key, place, person.role, person.gender, person.note))


def _attempt(attempt: Attempt) -> Insert:
    a = attempt
    told = (a.cost_usd, a.detail, a.code, a.request_id, a.http, canonical(dict(a.usage)) if a.usage else "")
    raw = _packed(a.raw) if a.raw else None
    return Insert("attempt", (None, a.subject, a.status.value, a.started, a.seconds, *told, raw))


def _packed(raw: bytes) -> bytes:
    """By zlib, with little memory: setting up the usual amount takes six times as long as packing an answer."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 12, 4)
    return packer.compress(raw) + packer.flush()


def question_row(name: str, content: Mapping[str, Any]) -> Insert:
    """What is asked, without the pictures: kept once, whoever is asked about."""
    return Insert("question", (name, canonical(content)), again=True)


def call_row(key: str, question: str, source: str, edited: str, repeat: int) -> Insert:
    return Insert("call", (key, question, source, edited, repeat), again=True)


def _making_rows(edit: str, making: Making) -> Iterator[Insert]:
    content = canonical(dict(making.circumstances))
    named = digest("circumstances", content=content)
    yield Insert("circumstances", (named, content), again=True)
    yield Insert("making", (edit, named, canonical(dict(making.notes))))
    for name, stored in making.extras.items():
        yield stored.row
        yield Insert("extra", (edit, name, stored.sha256))


def _trial_rows(trial: Trial) -> tuple[Insert, Insert]:
    t = trial
    text = digest("instruction", text=t.instruction)
    about = canonical(dict(t.about)) if t.about else ""
    named = (t.key, t.edit, t.experiment, t.arm, t.prompt, text, t.editor, t.settings)
    row = (*named, t.seed, t.portrait, t.partner, about)
    return Insert("instruction", (text, t.instruction), again=True), Insert("trial", row)


@contextmanager
def _writing(ledger: Path) -> Iterator[tuple[Writer, Keeper]]:
    """A writer, and what keeps the copy: the last one is made when everything is written."""
    writer = Writer(ledger)
    keeper = Keeper(ledger, writer)
    try:
        yield writer, keeper
    finally:
        try:
            writer.close()
        finally:
            keeper.close()


def _prepare(path: Path, protocol: Protocol, objects: Store | None) -> sqlite3.Connection:
    """Opens the ledger, brings its schema up to date, and checks that the run is of this protocol and store."""
    connection = connect(path / LEDGER)
    try:
        with database(path / LEDGER):
            migrate(connection, str(path / LEDGER))
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            if meta:
                _refuse_other(meta, path, protocol)
                _refuse_elsewhere(_store(meta), path, objects)
            else:
                _sign(connection, protocol, objects)
            add_axes(connection, protocol.axes)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_other(meta: Mapping[str, str], path: Path, protocol: Protocol) -> None:
    if meta["protocol_hash"] != protocol.hash:
        raise InputError(
            f"The run {path} was made with the protocol {meta['protocol']} (hash {meta['protocol_hash'][:12]}); "
            f"this audit uses {protocol.name} (hash {protocol.hash[:12]}). Answers to different questions "
            "are not mixed in one run.",
            "Give the audit another run directory, or the protocol that the run was made with.",
        )


def _store(meta: Mapping[str, str]) -> Store | None:
    """Where the run says that its images are; None: in its own folder."""
    return Store.model_validate_json(meta[OBJECTS]) if OBJECTS in meta else None


def _refuse_elsewhere(noted: Store | None, path: Path, given: Store | None) -> None:
    if noted != given:
        there, here = (store.url if store else "its own folder" for store in (noted, given))
        raise InputError(
            f"The run {path} keeps its images in {there}; this audit says {here}.",
            "Give the audit another run directory, or the 'objects' that the run was made with.",
        )


def _sign(connection: sqlite3.Connection, protocol: Protocol, objects: Store | None) -> None:
    signed = {
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
    connection.executemany("INSERT INTO meta VALUES (?, ?)", list(signed.items()))
    connection.execute("COMMIT")
