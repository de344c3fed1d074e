"""The export: what was answered and what was meant, under pseudonyms, one state of the database, in little memory."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet
import pytest
from sqlalchemy import update

from stillme.core.errors import InputError, SetupError
from stillme.study.db import people, seats
from stillme.study.db.deal import deal, questions
from stillme.study.db.store import Lite, connect
from stillme.study.db.tables import answer, opening, participant, sitting
from stillme.study.server.codebook import SHEETS, Column, columns_table
from stillme.study.server.export import Exported, export, snapshot
from stillme.study.server.rows import Sat
from stillme.study.server.sheets import cell
from tests.study import bundles
from tests.study.conftest import ON_BOTH_DATABASES
from tests.study.db.test_core import KEYS, Desk, op

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def desk(database: str) -> Iterator[Desk]:
    made = Desk(database, bundles.make(minimum_seconds_item=5)[0])
    yield made
    made.engine.dispose()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundles.make()[0])
    yield made
    made.engine.dispose()


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def exported(desk: Desk, folder: Path, **more: Any) -> Exported:
    return export(desk.engine, desk.bundle, KEYS, folder, say=lambda said: None, **{"form": "csv", **more})


def screens(desk: Desk, sat: str) -> Any:
    return desk.do(lambda c: seats.sit(c, sat)).deal.screens


def test_everything_that_was_asked_is_there_answered_or_not(desk: Desk, tmp_path: Path) -> None:
    anna = desk.enter("anna")
    desk.do(lambda c: people.consent(c, anna, "c1", desk.now))
    sat = desk.take(anna)
    for number in range(4):
        desk.rate(sat, number)
    desk.finish(sat)
    gone = desk.take(desk.enter("bert"))
    desk.rate(gone, 0)
    desk.do(lambda c: seats.free(c, gone, "returned", desk.now))
    desk.take(desk.enter("carl"))  # opened nothing
    desk.enter("dora")  # took no task
    exported(desk, tmp_path / "out")
    found = rows(tmp_path / "out", "ratings")
    asked = 4 * 2 * 3  # items, outputs, questions
    assert len(found) == 2 * asked
    by_rater = {row["rater"]: row["sitting_state"] for row in found}
    assert sorted(by_rater.values()) == ["complete", "returned"]
    skipped = [row for row in found if row["answer"] == "skipped"]
    assert len(skipped) == asked - 6 and not any(row["value"] or row["score"] for row in skipped)
    assert {row["complete"] for row in skipped} == {"false"}
    scored = [row for row in found if row["answer"] == "scored"]
    assert {row["value"] for row in scored} == {"1"} == {row["score"] for row in scored}
    first = screens(desk, sat)[0]
    mine = [row for row in found if by_rater[row["rater"]] == "complete"]
    assert mine[0]["item"] == first.item and mine[0]["position"] == "1"
    assert {(row["output"], row["place"]) for row in mine if row["item"] == first.item} == {
        (first.order[0], "left"),
        (first.order[1], "right"),
    }
    assert mine[0]["consent_version"] == "c1" and mine[0]["study"] == desk.bundle.hash
    states = sorted(row["state"] for row in rows(tmp_path / "out", "participants"))
    assert states == ["active", "complete", "entered", "returned"]


def test_rows_stand_in_the_order_of_answering(desk: Desk, tmp_path: Path) -> None:
    sat = desk.take(desk.enter("anna"))
    last, first = screens(desk, sat)[3], screens(desk, sat)[0]
    for screen in (last, first):
        field = next(field for field, *_ in questions(desk.bundle, screen) if field != "check")
        desk.now += 1
        desk.send(sat, op("open", screen.item), op("answer", screen.item, field, "3", ms=2500))
    exported(desk, tmp_path / "out")
    given = [row for row in rows(tmp_path / "out", "ratings") if row["answer"] == "scored"]
    assert [row["item"] for row in given] == [last.item, first.item]
    assert [row["position"] for row in given] == ["4", "1"]
    assert [float(row["at_seconds"]) for row in given] == [1.0, 2.0]
    assert given[0]["ms"] == "2500" and float(given[0]["seconds"]) == 2.5


def test_left_and_right_are_undone(tmp_path: Path) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundles.make("triplet", seats=6)[0])
    for name in "abcdef":
        sat = desk.take(desk.enter(name))
        for screen in screens(desk, sat):
            side = "left" if screen.order[0].endswith("x") else "right"
            desk.send(
                sat,
                op("open", screen.item),
                op("answer", screen.item, "identity", side),
                op("answer", screen.item, "age", "both_equally"),
            )
    exported(desk, tmp_path / "out")
    desk.engine.dispose()
    found = rows(tmp_path / "out", "ratings")
    identity = [row for row in found if row["question"] == "identity"]
    assert len(identity) == 24 and {row["shown"] for row in identity} == {"left", "right"}
    assert all(row["value"].endswith("x") and row["answer"] == "chosen" for row in identity)
    assert all(row[row["shown"]] == row["value"] for row in identity)
    assert {row["value"] for row in found if row["question"] == "age"} == {"both_equally"}
    assert {(row["output"], row["place"]) for row in found} == {("", "")}


def test_one_output_is_named_and_cannot_determine_is_an_answer(tmp_path: Path) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundles.make("pair")[0])
    sat = desk.take(desk.enter("anna"))
    screen = screens(desk, sat)[0]
    desk.send(sat, op("open", screen.item), op("answer", screen.item, "tone", "cannot_determine"))
    exported(desk, tmp_path / "out")
    desk.engine.dispose()
    (row,) = [row for row in rows(tmp_path / "out", "ratings") if row["shown"]]
    assert (row["output"], row["place"], row["left"]) == (screen.order[0], "single", "")
    assert (row["answer"], row["value"], row["score"]) == ("cannot_determine", "", "")


def test_checks_flags_and_exclusions(tmp_path: Path) -> None:
    rules = {"median_response_below_seconds": 3.0, "straight_lining_share_above": 0.8}
    bundle, _ = bundles.make(exclude=rules)
    desk = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundle)
    person = desk.enter("anna")
    sat = desk.take(person)
    wrong = 0
    for screen in screens(desk, sat):
        given = [op("open", screen.item)]
        for field, _, question in questions(bundle, screen):
            value = "2"
            if field == "check":
                wanted = question.options[screen.check.option - 1].value
                value, wrong = ("2" if wanted != "2" else "3"), wrong + 1
            given.append(op("answer", screen.item, field, value, ms=1000))
        desk.send(sat, *given, op("done", screen.item))
    desk.do(lambda c: c.execute(update(participant).values(excluded="wrote so", excluded_by="maria")))
    exported(desk, tmp_path / "out")
    desk.engine.dispose()
    checks = rows(tmp_path / "out", "checks")
    assert len(checks) == wrong and {row["passed"] for row in checks} == {"false"}
    assert all(row["asked"] != row["given"] for row in checks)
    found = {row["rule"]: row for row in rows(tmp_path / "out", "exclusions")}
    assert set(found) == {"fast", "one answer", "attention", "by_hand"}
    assert (float(found["fast"]["value"]), float(found["fast"]["threshold"])) == (1.0, 3.0)
    assert found["by_hand"]["by"] == "maria"
    (who,) = rows(tmp_path / "out", "participants")
    assert who["excluded"] == "true" and who["attention"] == "0.0" and "fast" in who["flags"]


@pytest.mark.parametrize("comment", ["=HYPERLINK(1)", "+1", "-1", "@x"])
def test_no_cell_is_run_by_a_spreadsheet(lite: Desk, tmp_path: Path, comment: str) -> None:
    sat = lite.take(lite.enter("anna"))
    item = screens(lite, sat)[0].item
    lite.send(sat, op("comment", item, value=comment))
    exported(lite, tmp_path / "out")
    (row,) = rows(tmp_path / "out", "comments")
    assert row["comment"] == f"'{comment}" and row["review"] == "review before release"


def test_cells_begin_with_nothing_that_runs() -> None:
    text, number = Column("a", "text", ""), Column("b", "number", "")
    assert [cell(text, one) for one in ("\t=1", "\r=1", "a", None)] == ["'\t=1", "'\r=1", "a", ""]
    assert cell(number, -1.5) == -1.5, "numbers are untouched"


def test_nothing_of_a_person_is_in_it(lite: Desk, tmp_path: Path) -> None:
    pid, submission = "5f3c0ffee0ddba11cafe0001", "64aaaaaaaaaaaaaaaaaa0002"
    person = lite.enter(pid, submission)
    sat = lite.take(person)
    lite.rate(sat, 0)
    exported(lite, tmp_path / "out", history=True)
    content = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    for secret in (pid, submission, person, sat, KEYS.person(pid), KEYS.address("127.0.0.1"), "127.0.0.1"):
        assert secret.encode() not in content
    assert KEYS.pseudonym(person).encode() in content


def test_parquet_holds_the_same_as_csv(desk: Desk, tmp_path: Path) -> None:
    sat = desk.take(desk.enter("anna"))
    desk.rate(sat, 0)
    exported(desk, tmp_path / "csv", history=True)
    exported(desk, tmp_path / "parquet", form="parquet", history=True)
    for name in ("ratings", "operations"):
        columns = pl.read_parquet(tmp_path / "parquet" / f"{name}.parquet")
        text = pl.read_csv(tmp_path / "csv" / f"{name}.csv", schema=columns.schema)
        assert columns.height and columns.equals(text)
    assert columns["kind"].to_list().count("done") == 1


def test_without_pyarrow_csv_is_offered(lite: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError, match="--format csv"):
        exported(lite, tmp_path / "out", form="parquet")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "nothing is left half done"
    exported(lite, tmp_path / "out")


def test_the_folder_says_what_it_is_and_is_never_overwritten(lite: Desk, tmp_path: Path) -> None:
    said: list[str] = []
    export(lite.engine, lite.bundle, KEYS, tmp_path / "out", "csv", say=said.append)
    about = json.loads((tmp_path / "out" / "export.json").read_text())
    assert about["bundle"] == lite.bundle.hash and about["rows"]["ratings"] == 0
    for name, known in about["sha256"].items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == known
    assert said == [f"{tmp_path / 'out'}: 0 ratings, 0 checks, 0 participants, 0 exclusions, 0 comments."]
    with pytest.raises(InputError, match="never overwritten"):
        exported(lite, tmp_path / "out")
    other, _ = bundles.make(items=5)
    with pytest.raises(InputError, match="another bundle"):
        export(lite.engine, other, KEYS, tmp_path / "other", "csv")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["out"]


def test_the_codebook_names_every_question_and_column(lite: Desk, tmp_path: Path) -> None:
    exported(lite, tmp_path / "out")
    text = (tmp_path / "out" / "codebook.md").read_text()
    for question in lite.bundle.questions:
        assert f"`{question.id}`" in text and question.text in text
    found = json.loads((tmp_path / "out" / "codebook.json").read_text())
    for path in (tmp_path / "out").glob("*.csv"):
        head = path.read_text().splitlines()[0].split(",")
        assert head == list(found["files"][path.stem]["columns"])
    assert "operations" not in found["files"]


def test_the_page_about_the_data_has_these_columns() -> None:
    page = (ROOT / "docs" / "study-data.md").read_text(encoding="utf-8")
    for sheet in SHEETS:
        assert columns_table(sheet) in page


@ON_BOTH_DATABASES
def test_an_export_is_one_state_though_people_go_on(desk: Desk) -> None:
    """Somebody answers and somebody else comes between two looks of the export."""
    sat = desk.take(desk.enter("anna"))
    desk.rate(sat, 0)
    with snapshot(desk.engine) as connection:
        before = connection.execute(participant.select()).all()
        desk.rate(sat, 1)
        desk.enter("bert")
        assert connection.execute(participant.select()).all() == before
        whole = connection.execute(sitting.select()).one()
        seen = _Known(whole)
        given = Sat(connection, desk.bundle, seen, "r").given
        assert {one.item for one in given} == {screens(desk, sat)[0].item}


class _Known:
    """A sitting's row with what an export adds to it."""

    consent_version = "c1"

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


def fill(desk: Desk, number: int) -> None:
    """So many people who answered everything, without the long way."""
    people_, sittings, opened, answers = [], [], [], []
    for name in (f"{one:024x}" for one in range(number)):
        dealt = deal(desk.bundle, "t00", name)
        people_.append({"id": name, "pid_hash": name, "created": 0.0})
        known = {"id": name, "participant": name, "task": "t00", "slot": 1, "state": "complete", "seed": name}
        sittings.append({**known, "dealt": dealt.model_dump_json(), "began": 0.0, "ended": 9.0, "clock": 9.0})
        for screen in dealt.screens:
            about = {"sitting": name, "item": screen.item}
            opened.append({**about, "opened": 1.0, "done": 2.0})
            given = {**about, "value": "3", "rev": 1, "ms": 900, "at": 1.5}
            answers += [{**given, "field": field} for field, *_ in questions(desk.bundle, screen)]
    for table, made in ((participant, people_), (sitting, sittings), (opening, opened), (answer, answers)):
        with desk.engine.begin() as connection:
            connection.execute(table.insert(), made)


_EXPORT = """
import sys
from pathlib import Path
from stillme.study.bundle import read
from stillme.study.server.export import export
from stillme.study.db.keys import Keys
from stillme.study.db.store import connect

folder = Path(sys.argv[1])
engine = connect(f"sqlite:///{folder / 'study.db'}")
export(engine, read(folder), Keys(b"k" * 32), folder / "out", "csv", say=lambda said: None)
engine.dispose()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) // 1024)
"""


@pytest.mark.slow
def test_a_large_study_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for number in (10, 100):
        folder = tmp_path / str(number)
        bundle = bundles.write(folder, items=50, tasks=1, side=8)
        desk = Desk(f"sqlite:///{folder / 'study.db'}", bundle)
        fill(desk, number)
        desk.engine.dispose()
        done = subprocess.run(
            [sys.executable, "-c", _EXPORT, str(folder)], check=True, capture_output=True, text=True, cwd=ROOT
        )
        assert len(rows(folder / "out", "ratings")) == number * 50 * 2 * 3
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 10, f"{peaks} MB: ten times the rows"


def test_parquet_is_written_in_groups(lite: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stillme.study.server.sheets.GROUP", 10)
    fill(lite, 3)
    exported(lite, tmp_path / "out", form="parquet")
    file = pyarrow.parquet.ParquetFile(tmp_path / "out" / "ratings.parquet")
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (72, 8)
    file.close()


def test_the_writer_does_not_wait_for_an_export(lite: Desk, tmp_path: Path) -> None:
    store = Lite(connect(str(lite.engine.url)))
    try:
        with snapshot(store.engine) as connection:
            connection.execute(participant.select()).all()
            assert lite.enter("anna"), "an open snapshot locks nobody out"
    finally:
        store.close()
