"""The one thread that writes: whatever it is given or whatever the disk says, everybody who waits is answered."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.core.records import Attempt, Status
from stillme.ledger import Run, database, writer
from stillme.protocol import Protocol

WAIT_S = 60


def call(subject: str, detail: str = "", http: int = 0) -> Attempt:
    return Attempt(subject, Status.TIMEOUT, "2026-01-01T00:00:00.000+00:00", 0.5, detail=detail, http=http)


def test_half_a_character_pair_is_marked_and_nothing_is_lost(tmp_path: Path, protocol: Protocol) -> None:
    """Services send such texts in what they say of an error; SQLite holds none of them."""
    said = {"one": "fine", "two": "half \ud83d of it", "three": "whole \ud83d\ude00 of it"}
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        for answer in [run.add_attempt(call(subject, detail)) for subject, detail in said.items()]:
            answer.result(WAIT_S)
        assert run.query("SELECT subject, detail FROM attempt ORDER BY id") == [
            ("one", "fine"),
            ("two", "half \ufffd of it"),
            ("three", "whole \U0001f600 of it"),
        ]


def test_a_value_that_sqlite_cannot_hold_is_refused_alone(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        rows = [call("before"), call("too large", http=2**63), call("after")]
        before, large, after = [run.add_attempt(row) for row in rows]
        with pytest.raises(OverflowError):
            large.result(WAIT_S)
        assert before.result(WAIT_S) is after.result(WAIT_S) is None
        assert run.query("SELECT subject FROM attempt ORDER BY id") == [("before",), ("after",)]


def test_whoever_stops_waiting_for_a_row_stops_nobody_else(tmp_path: Path, protocol: Protocol) -> None:
    """Ctrl-C cancels what an event loop waits for, and with it the future behind that."""
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        given_up = run.add_attempt(call("given up"))
        assert not given_up.cancel()
        run.add_attempt(call("after")).result(WAIT_S)
        assert run.query("SELECT subject FROM attempt ORDER BY id") == [("given up",), ("after",)]


def test_patient_rows_are_committed_together_and_those_that_hold_somebody_up_take_them_along(
    tmp_path: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAIT_S", WAIT_S)
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        patient = [run.add_verdicts([], [call(f"patient {n}")], patient=True) for n in range(3)]
        time.sleep(0.05)
        assert not any(one.done() for one in patient), "nobody is held up"
        run.add_attempt(call("urgent")).result(WAIT_S / 2)
        assert all(one.done() for one in patient)
        last = run.add_verdicts([], [call("last")], patient=True)
    assert last.done(), "whoever closes waits for nothing more"


def test_patient_rows_do_not_wait_for_long(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_verdicts([], [call("alone")], patient=True).result(WAIT_S)
        assert run.query("SELECT subject FROM attempt") == [("alone",)]


def test_a_full_disk_is_said_to_everybody_and_nothing_more_is_taken(
    tmp_path: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(path: Path) -> sqlite3.Connection:
        connection = database.connect(path)
        connection.execute("PRAGMA max_page_count=1")  # no page more than there are
        return connection

    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_attempt(call("kept")).result(WAIT_S)
    monkeypatch.setattr(writer, "connect", small)
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        large = run.add_attempt(call("large", "x" * 1_000_000))
        with pytest.raises(SetupError, match=r"The disk that holds .*ledger\.sqlite is full\. Everything recor"):
            large.result(WAIT_S)
        with pytest.raises(SetupError, match="is full"):
            run.add_attempt(call("too late")).result(WAIT_S)
        assert run.query("SELECT subject FROM attempt") == [("kept",)]


def test_what_sqlite_says_is_a_sentence(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        with pytest.raises(SetupError, match=r"The ledger .*ledger.sqlite could not be used: no such table: x\."):
            run.query("SELECT * FROM x")
