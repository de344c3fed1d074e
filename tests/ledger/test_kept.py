"""Everything that a run keeps comes back as it was put in; what is not there is missing, or a sentence."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stillme.core.errors import InputError, SetupError
from stillme.core.lock import holder
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
)
from stillme.ledger import Run, batches
from stillme.ledger.batches import Shard, Step
from stillme.ledger.database import wrap_row_errors
from stillme.ledger.frames import measured, perceived
from stillme.ledger.run import LEDGER, EditProvenance, attempts, call_row, mark_of, question_row, shows
from stillme.ledger.writer import RowInsert
from stillme.protocol import Protocol, from_files
from tests.ledger.test_run import CALL, picture

FIRST = Path(__file__).parent / "first_schema.sql"
AT = "2026-01-01T00:00:00.000+00:00"


def with_an_edit(run: Run) -> str:
    """One edit with an image; the image's name."""
    stored = run.store(picture(10))
    run.add_edit(Edit("e1", Status.OK, stored.sha256), CALL, stored).result()
    return stored.sha256


def test_what_people_decide_is_added_beside_a_writer(tmp_path: Path, protocol: Protocol) -> None:
    said = Adjudication("e1", "O-01", "skin_tone", None, "anna", "too dark to tell", AT)
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        with_an_edit(run)
        with Run.join(tmp_path / "r") as joined:
            joined.add_adjudication(said).result()
            joined.add_adjudication(Adjudication("e1", "O-01", "skin_tone", 4, "ben", "", withdrawn=True)).result()
        first, second = run.adjudications()
    assert first == said
    assert (second.reviewer, second.score, second.withdrawn) == ("ben", 4, True)
    assert second.at > AT, "where nothing is said of the time, it is now"


def test_a_ledger_of_an_earlier_stillme_is_brought_up_to_date_before_anything_is_added(
    tmp_path: Path, protocol: Protocol
) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass
    with closing(sqlite3.connect(tmp_path / "r" / LEDGER)) as fresh:
        meta = fresh.execute("SELECT key, value FROM meta").fetchall()
    (tmp_path / "old").mkdir()
    with closing(sqlite3.connect(tmp_path / "old" / LEDGER, isolation_level=None)) as old:
        old.executescript(FIRST.read_text(encoding="utf-8"))
        old.execute("DROP TRIGGER meta_no_delete")
        old.execute("DELETE FROM meta")
        old.executemany("INSERT INTO meta VALUES (?, ?)", meta)
        edit = old.execute("SELECT key FROM edit").fetchone()[0]
    with Run.join(tmp_path / "old") as joined:
        joined.add_adjudication(Adjudication(edit, "O-01", "skin_tone", 4, "anna", "")).result()
    with Run.open_readonly(tmp_path / "old") as seen:
        assert [one.score for one in seen.adjudications()] == [4]


def test_a_run_is_of_one_protocol_and_has_a_name_of_its_own(tmp_path: Path, protocol: Protocol) -> None:
    files = {**protocol.files, "protocol.yaml": protocol.files["protocol.yaml"].replace("1.0.0", "2.0.0")}
    with (
        Run.open_for_writing(tmp_path / "r", protocol) as run,
        Run.open_for_writing(tmp_path / "s", protocol) as other,
    ):
        run.expect(protocol)
        with pytest.raises(InputError, match=r"this audit uses stillme 2\.0\.0"):
            run.expect(from_files(files, "x"))
        assert run.id != other.id and len(run.id) == 32
        with pytest.raises(InputError, match=r"has not been planned yet\. Start it with `stillme run`"):
            run.last_audit()


def test_an_earlier_run_without_a_name_has_one_that_stays(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass
    (tmp_path / "r" / "ledger.backup").unlink()  # an earlier one had none
    with closing(sqlite3.connect(tmp_path / "r" / LEDGER, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER meta_no_delete")
        connection.execute("DELETE FROM meta WHERE key = 'id'")
    with Run.open_readonly(tmp_path / "r") as seen, Run.open_readonly(tmp_path / "r") as again:
        assert len(seen.id) == 32 and seen.id == again.id


def test_an_image_that_the_run_does_not_know_is_named(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        named = with_an_edit(run)
        assert run.image(named) == picture(10)
        with pytest.raises(SetupError, match=f"knows no image {'0' * 64}"):
            run.image("0" * 64)


def test_scores_and_people_of_a_verdict(tmp_path: Path, protocol: Protocol) -> None:
    people = (Depicted("janitor", 2, "at the door"), Depicted("neither", None))
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        with_an_edit(run)
        settings = run.add_settings("judge", {})
        full = Verdict("v1", "e1", "j", settings, Status.OK, {"skin_tone": 3}, "seen", people=people)
        run.add_verdict(full, CALL).result()
        empty = Verdict("v2", "e1", "k", settings, Status.REFUSED, {}, observations={"skin": "brown"})
        run.add_verdict(empty, CALL).result()
        assert run.scores("v1") == {"skin_tone": 3}, "an axis without a score is not there"
        assert run.scores("v2") == {} and run.people("v2") == ()
        assert run.people("v1") == people, "from left to right; unclear is no 3"
        assert run.query("SELECT observations FROM verdict ORDER BY key") == [("",), ('{"skin":"brown"}',)]


def test_trials_are_added_once(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        settings = run.add_settings("editor", {})
        image = run.store(picture(1)).sha256
        person = Portrait.of("s", "1", image, {"race": "white"})
        run.add_portrait(person, picture(1)).result()
        asked: dict[str, Any] = {
            "experiment": "stereotype",
            "arm": "a",
            "editor": "e",
            "settings": settings,
            "seed": 0,
        }
        plain = Trial.of(person, prompt="W-01", instruction="The cook left.", **asked)
        told = Trial.of(person, prompt="W-02", instruction="The cook left.", about={"target": "cook"}, **asked)
        run.add_trials([plain])
        run.add_trials([plain, told])
        assert run.keys("trial") == {plain.key, told.key}
        assert run.query("SELECT prompt, about FROM trial ORDER BY prompt") == [
            ("W-01", ""),
            ("W-02", '{"target":"cook"}'),
        ]
        assert run.query("SELECT text FROM instruction") == [("The cook left.",)], "one sentence, kept once"


def test_how_an_edit_was_made(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        stored, mask = run.store(picture(1)), run.store(picture(2))
        for name in ("e1", "e2"):
            making = EditProvenance({"torch": "2.6"}, {"steps": name}, {"mask": mask})
            run.add_edit(Edit(name, Status.OK, stored.sha256), CALL, stored, making).result()
        assert run.query("SELECT count(*) FROM circumstances") == [(1,)], "what edits share is kept once"
        assert run.query("SELECT edit, notes FROM making ORDER BY edit") == [
            ("e1", '{"steps":"e1"}'),
            ("e2", '{"steps":"e2"}'),
        ]
        assert run.query("SELECT edit, name, image FROM extra ORDER BY edit")[0] == ("e1", "mask", mask.sha256)
        assert run.image(mask.sha256) == picture(2)


def test_measurements_and_features_and_draws(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        image, settings = with_an_edit(run), run.add_settings("measure", {})
        read = Measurement("m1", image, image, "skin_tone", settings, Status.OK, {"delta_l": 3.5})
        none = Measurement("m2", image, image, "identity", settings, Status.NO_FACE, {}, "no face was found")
        run.add_measurements([read, none]).result()
        assert run.query("SELECT key, status, figures, detail FROM measurement ORDER BY key") == [
            ("m1", "ok", '{"delta_l":3.5}', ""),
            ("m2", "no_face", "{}", "no face was found"),
        ]
        kept = Feature("f1", image, settings, Status.OK, {"eyes": "brown"}, ("woman",))
        refused = Feature("f2", image, settings, Status.REFUSED, detail="it would rather not")
        run.add_feature(kept, [CALL]).result()
        run.add_feature(refused, []).result()
        assert run.features(["f1", "f2", "f3"]) == {"f1": kept, "f2": refused}
        assert run.features(["f2"]) == {"f2": refused}
        assert run.drawn("cells") is None
        run.add_draw("cells", [["p", "O-01", "even"]])
        run.add_draw("cells", [["q", "O-02", "even"]])
        assert run.drawn("cells") == [["p", "O-01", "even"]], "what was drawn stays drawn"


def test_raters_left_out_are_as_the_newest_word_says(tmp_path: Path, protocol: Protocol) -> None:
    def excluded(rater: str, why: str, withdrawn: int = 0) -> RowInsert:
        return RowInsert("rating_exclusion", (None, "s1", rater, why, "coordinator", withdrawn, AT))

    study = RowInsert("study", ("s1", AT, "paper", "paper", '{"items":3}'))
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_ratings([study, excluded("r1", "too fast"), excluded("r2", "checks"), excluded("r1", "", 1)])
        assert run.studies() == {"s1": {"items": 3}}
        assert run.exclusions("s1") == {"r2": "checks"} and run.exclusions("s2") == {}


def test_every_attempt_of_a_call_is_kept_and_one_that_never_came_to_ask_is_one_too(
    tmp_path: Path, protocol: Protocol
) -> None:
    tried = (
        Exchange(Status.TIMEOUT, AT, 1.23456789, 0.01, "slow", "timeout", "r1", 0),
        Exchange(Status.OK, AT, 2.0, 0.02, "", "", "r2", 200, {"input": 900}, b'{"a": 1}'),
    )
    first, second = attempts("c", JudgeReply(Status.OK, exchanges=tried))
    assert (first.status, first.seconds, first.code) == (Status.TIMEOUT, 1.234568, "timeout")
    assert (second.cost_usd, second.http, second.usage, second.raw) == (0.02, 200, {"input": 900}, b'{"a": 1}')
    (alone,) = attempts("c", JudgeReply(Status.REJECTED, detail="no key", cost_usd=0.0))
    assert (alone.status, alone.detail, alone.seconds) == (Status.REJECTED, "no key", 0.0) and alone.started
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        run.add_attempt(second).result()
        ((usage, raw),) = run.query("SELECT usage, raw FROM attempt")
    assert usage == '{"input":900}' and zlib.decompress(raw) == b'{"a": 1}'


def test_a_lock_that_nobody_signed_is_still_somebodys(tmp_path: Path) -> None:
    assert holder(tmp_path / "nowhere") == "another process"
    for text in ("", "{", "[]", '{"pid": 1}'):
        (tmp_path / "lock").write_text(text)
        assert holder(tmp_path / "lock") == "another process"


def test_a_file_shows_the_run_until_the_run_moves_on(tmp_path: Path, protocol: Protocol) -> None:
    page = tmp_path / "report.html"
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        assert not shows(page, run), "there is none"
        page.write_text(f"<html>{'x' * 1000}</html>\n{mark_of(run)}\n", encoding="utf-8")
        assert shows(page, run)
        with_an_edit(run)
        assert not shows(page, run)
        page.write_text(mark_of(run), encoding="utf-8")
        assert shows(page, run), "however short it is"


# Shards of calls


def shipped(run: Run, *steps: tuple[Step, dict[str, str | tuple[str, ...]]], key: str = "s1") -> Shard:
    shard = Shard(key, ("c1", "c2"))
    settings = run.add_settings("judge", {"model": "m"})
    batches.plan(run, "j", settings, shard).result()
    for step, told in steps:
        shard, done = batches.note(run, shard, step, **told)
        done.result()
    (kept,) = [one for one in batches.shards(run, "j", settings) if one.key == key]
    assert kept == shard, "what the next process reads is what this one knows"
    return kept


def test_a_shard_is_where_its_last_step_says(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        planned = shipped(run)
        assert planned.is_open and not planned.is_sent and not planned.created_at
        sent = shipped(run, (Step.UPLOADED, {"file": "f"}), (Step.CREATED, {"batch": "b"}), key="s2")
        assert (sent.file, sent.batch, sent.is_open, sent.is_sent) == ("f", "b", True, True) and sent.created_at
        ended = shipped(run, (Step.CREATED, {"batch": "b"}), (Step.ENDED, {"outputs": ("o1", "o2")}), key="s3")
        assert ended.outputs == ("o1", "o2") and ended.is_sent
        failed = shipped(run, (Step.FAILED, {"detail": "the file was refused"}), key="s4")
        assert not failed.is_open and not failed.is_sent and failed.detail == "the file was refused"
        imported = shipped(run, (Step.IMPORTED, {}), key="s5")
        assert not imported.is_open
        settings = run.add_settings("judge", {"model": "m"})
        assert [one.key for one in batches.shards(run, "j", settings)] == ["s1", "s2", "s3", "s4", "s5"]
        assert batches.shards(run, "k", settings) == []


def test_calls_that_came_back_are_told_from_those_that_did_not(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        image, settings = with_an_edit(run), run.add_settings("judge", {})
        asked = [question_row("q", {"text": "?"}), *(call_row(f"c{n}", "q", image, image, 0) for n in range(4))]
        verdict = Verdict("v1", "e1", "j", settings, Status.REFUSED, {}, call="c0")
        run.add_verdicts([verdict], [Attempt("c0", Status.REFUSED, "earlier", 0.1)], asked).result()
        run.add_attempt(Attempt("c1", Status.TIMEOUT, AT, 0.1)).result()
        run.add_attempt(Attempt("c2", Status.TIMEOUT, "earlier", 0.1)).result()
        every = ["c0", "c1", "c2", "c3"]
        assert batches.call_keys_with_verdicts(run, every) == {"c0"}
        assert batches.recorded(run, every, AT) == {"c0", "c1"}, "an attempt of another time is another one's"
        assert batches.recorded(run, ["c3"], AT) == set()


def test_a_row_that_stillme_did_not_write_is_said_with_the_way_back(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol):
        pass
    with pytest.raises(SetupError, match="holds a status that stillme did not write") as raised:
        with wrap_row_errors(tmp_path / "r", "a status"):
            Status("odd")
    assert f"stillme restore {tmp_path / 'r'}" in str(raised.value)


def test_columns_of_a_protocol_and_of_a_measure_are_described() -> None:
    assert perceived("race") == "the person's perceived race, as annotated"
    assert list(measured("skin")) == ["skin_status", "skin_detail"]
