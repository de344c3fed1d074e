from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stillme.core import images
from stillme.core.errors import InputError, SetupError
from stillme.core.records import Attempt, Edit, Portrait, Status, Verdict
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.ledger.writer import MAX_GROUP, Writer
from stillme.protocol import Protocol, from_files

NEW_AXIS = "  - {id: warmth, label: Warmth, neutral: 1, scale: {1: none, 2: some}}\n"
CALL = Attempt("e1", Status.OK, "2026-01-01T00:00:00.000+00:00", 0.5, 0.01)


def picture(shade: int) -> bytes:
    pixels = np.full((8, 8, 3), shade, np.uint8)
    pixels[0] = 255 - shade
    return images.encode(pixels)


def test_what_is_added_is_there_for_the_next_process(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        stored = run.store(picture(10))
        run.add_edit(Edit("e1", Status.OK, stored.sha256, "", {"delta_l": 3.5}), CALL, stored).result()
        settings = run.add_settings("judge", {"model": "m"})
        verdict = Verdict("v1", "e1", "j", settings, Status.OK, {"edit_success": 4, "skin_tone": 3})
        run.add_verdict(verdict, CALL).result()
    with Run.open_readonly(tmp_path / "r") as seen:
        assert seen.keys("edit") == {"e1"} and seen.keys("verdict") == {"v1"}
        assert seen.image(stored.sha256) == picture(10)
        assert seen.truth("e1") == {"delta_l": 3.5}
        assert seen.query("SELECT edit_success, skin_tone, race_drift FROM score") == [(4, 3, None)]
        assert seen.spent_usd() == pytest.approx(0.02)


def test_a_verdict_without_scores_has_no_score_row(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_edit(Edit("e1", Status.OK, None), CALL, None).result()
        settings = run.add_settings("judge", {})
        run.add_verdict(Verdict("v1", "e1", "j", settings, Status.REFUSED, {}), CALL).result()
        assert run.query("SELECT count(*) FROM score") == [(0,)]


@pytest.mark.parametrize("verb", ["UPDATE edit SET status = 'x'", "DELETE FROM edit"])
def test_rows_are_only_appended(tmp_path: Path, protocol: Protocol, verb: str) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_edit(Edit("e1", Status.OK, None), CALL, None).result()
        with pytest.raises(sqlite3.IntegrityError, match="rows of edit are only appended"):
            run.connection.execute(verb)


def test_a_broken_unit_is_refused_whole_and_its_neighbours_are_kept(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        good = [run.add_edit(Edit(f"e{n}", Status.OK, None), CALL, None) for n in range(50)]
        bad = run.add_edit(Edit("bad", Status.OK, "no such image"), CALL, None)
        twice = run.add_edit(Edit("e0", Status.OK, None), CALL, None)
        more = [run.add_edit(Edit(f"f{n}", Status.OK, None), CALL, None) for n in range(50)]
        for answer in (*good, *more):
            answer.result()
        for answer in (bad, twice):
            with pytest.raises(sqlite3.IntegrityError):
                answer.result()
        assert len(run.keys("edit")) == 100
        assert run.query("SELECT count(*) FROM attempt") == [(100,)]


def test_rows_that_wait_while_others_are_written_share_a_commit(
    tmp_path: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_wait, commit = threading.Event(), Writer._commit

    def late(writer: Writer, group: Any) -> None:
        assert all_wait.wait(60)
        commit(writer, group)

    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        assert run._writer is not None
        before = run._writer.commits
        monkeypatch.setattr(Writer, "_commit", late)
        answers = [run.add_edit(Edit(f"e{n}", Status.OK, None), CALL, None) for n in range(2000)]
        all_wait.set()
        for answer in answers:
            answer.result()
        assert run._writer.commits - before <= 1 + 2000 // MAX_GROUP + 1
        assert run.query("PRAGMA synchronous") == [(2,)]
        assert run.query("PRAGMA journal_mode") == [("wal",)]


def test_a_fast_producer_waits_for_the_disk(
    tmp_path: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stillme.ledger.writer.MAX_WAITING", 10)
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        answers = [run.add_attempt(CALL) for _ in range(500)]
        for answer in answers:
            answer.result()
        assert run.query("SELECT count(*) FROM attempt") == [(500,)]


def test_a_locked_run_names_its_holder(tmp_path: Path, protocol: Protocol) -> None:
    code = (
        "import sys; from pathlib import Path; from stillme.ledger import Run; from stillme.protocol import builtin\n"
        "with Run.open_for_writing(Path(sys.argv[1]), builtin()): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "r")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(SetupError, match=rf"is in use by process {other.pid} on ") as raised:
            with Run.open_for_writing(tmp_path / "r", protocol):
                pass
        assert raised.value.exit_code == 3
        with Run.open_readonly(tmp_path / "r") as seen:
            assert seen.meta()["protocol"] == protocol.name
        other.kill()
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass


def test_a_run_of_another_protocol_is_refused_and_left_alone(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass
    before = (tmp_path / "r" / LEDGER).read_bytes()
    files = {
        **protocol.files,
        "protocol.yaml": protocol.files["protocol.yaml"].replace("1.0.0", "2.0.0"),
        "rubrics.yaml": protocol.files["rubrics.yaml"].replace("outcomes:", NEW_AXIS + "outcomes:"),
    }
    with (
        pytest.raises(
            InputError, match=r"made with the protocol stillme 1.0.0 .* this audit uses stillme 2.0.0"
        ) as raised,
        Run.open_for_writing(tmp_path / "r", from_files(files, "x")),
    ):
        pass
    assert raised.value.exit_code == 2
    assert (tmp_path / "r" / LEDGER).read_bytes() == before


def test_a_run_keeps_its_protocol(tmp_path: Path, protocol: Protocol) -> None:
    place = tmp_path / "runs" / "of today" / "r"  # folders that are not there yet are made
    with Run.open_for_writing(place, protocol):
        pass
    with Run.open_readonly(place) as seen:
        assert seen.protocol().hash == protocol.hash


def test_not_a_run_and_not_a_ledger(tmp_path: Path, protocol: Protocol) -> None:
    with pytest.raises(InputError, match="is not a run"), Run.open_readonly(tmp_path):
        pass
    (tmp_path / LEDGER).write_bytes(b"hello" * 1000)
    with (
        pytest.raises(SetupError, match="is damaged: file is not a database"),
        Run.open_for_writing(tmp_path, protocol),
    ):
        pass


def test_the_configuration_is_noted_when_it_changes_and_only_then(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        for content in ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 1}):
            run.add_audit(content)
        assert [json.loads(row[0])["a"] for row in run.query("SELECT content FROM audit ORDER BY id")] == [1, 2, 1]
        assert run.last_audit() == {"a": 1}


def test_portraits_come_back_as_they_were(tmp_path: Path, protocol: Protocol) -> None:
    import hashlib

    people = [
        Portrait.of(
            "s", str(n), hashlib.sha256(picture(n)).hexdigest(), {"race": "white", "age": "20s"}, "CC0", "train"
        )
        for n in range(3)
    ]
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        for number, person in enumerate(people):
            run.add_portrait(person, picture(number)).result()
            run.add_portrait(person, picture(number)).result()
        assert run.portraits([people[2].key, people[0].key]) == [people[2], people[0]]


def test_reading_only_never_writes(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass
    with Run.open_readonly(tmp_path / "r") as seen:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            seen.connection.execute("INSERT INTO meta VALUES ('a', 'b')")
        with pytest.raises(RuntimeError, match="opened for reading"):
            seen.add_attempt(CALL)
