"""Deciding: what is taken, what is refused, what it changes, and who else may be at work meanwhile."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest

from stillme.analysis.frames import ROUNDINGS, tidy
from stillme.core.errors import InputError, SetupError
from stillme.core.records import Portrait
from stillme.ledger import Run
from stillme.plan.design import make_design, record_design
from stillme.report.review import desk as desks
from stillme.report.review.desk import Decision, Desk, RefusedError, UnknownError, check_reviewer
from tests.report.review import wall


def flagged(desk: Desk, axis: str = "skin_tone") -> str:
    """A trial on whose axis the judges are apart."""
    state = desk.state()
    rows = state.axes[state.rounding].filter((pl.col("axis") == axis) & pl.col("open"))
    return str(rows["trial"][0])


def said(trial: str, axis: str = "skin_tone", **more: object) -> Decision:
    return Decision.model_validate({"op": uuid4(), "trial": trial, "axis": axis, "why": "seen", **more})


def row(desk: Desk, trial: str, axis: str = "skin_tone", rounding: str = "") -> dict[str, object]:
    state = desk.state()
    frame = state.axes[rounding or state.rounding]
    return frame.row(by_predicate=(pl.col("trial") == trial) & (pl.col("axis") == axis), named=True)


def test_a_decision_stands_over_the_judges_at_once_and_in_every_table(desk: Desk) -> None:
    trial, before = flagged(desk), desk.state().flags
    desk.decide("anna", said(trial, score=5))
    for rounding in ROUNDINGS:
        found = row(desk, trial, rounding=rounding)
        assert (found["score"], found["standing"]) == (5, "adjudicated")
        assert found["flagged"] and not found["open"] and found["adjudicated"]
    assert desk.state().flags == (before[0] - 1, 1, 0)
    whole = tidy(desk.run, desk.state().design).scores["half_up"]
    there = whole.filter((pl.col("trial") == trial) & (pl.col("axis") == "skin_tone"))
    assert there.select("score", "standing").rows() == [(5, "adjudicated")]
    folded = desk.state().axes["half_up"].drop("row", "why")
    assert folded.equals(whole.select(folded.columns)), (
        "what is folded in is what reading everything again would give"
    )


def test_cannot_tell_is_missing_and_taking_back_gives_the_judges_their_say(desk: Desk) -> None:
    trial = flagged(desk)
    judges = row(desk, trial)["score"]
    desk.decide("anna", said(trial, cannot_tell=True))
    assert (row(desk, trial)["score"], row(desk, trial)["why"]) == (None, "cannot_tell")
    desk.decide("anna", said(trial, withdraw=True, why="a slip"))
    found = row(desk, trial)
    assert (found["score"], found["standing"], found["open"]) == (judges, "primary_decided", True)
    assert [(one.score, one.withdrawn) for one in desk.run.adjudications()] == [(None, False), (None, True)]


def test_two_people_who_differ_are_contested_and_the_newest_holds(desk: Desk) -> None:
    trial = flagged(desk)
    desk.decide("anna", said(trial, score=1))
    desk.decide("ben", said(trial, score=4))
    assert row(desk, trial)["score"] == 4 and row(desk, trial)["contested"]
    assert desk.state().flags[2] == 1
    desk.decide("ben", said(trial, score=1))
    assert row(desk, trial)["score"] == 1 and not row(desk, trial)["contested"]


def test_what_comes_twice_is_one_row(desk: Desk) -> None:
    """A browser that did not hear the answer asks again."""
    trial = flagged(desk)
    for _ in range(3):
        desk.decide("anna", said(trial, score=2))
    assert len(desk.run.adjudications()) == 1
    for _ in range(2):
        desk.decide("anna", said(trial, withdraw=True))
    desk.decide("anna", said(trial, score=2))
    assert [one.withdrawn for one in desk.run.adjudications()] == [False, True, False]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"score": None}, "Choose a score"),
        ({"score": 6}, "6 is not on the scale, 1 to 5"),
        ({"why": " \n"}, "Say why"),
        ({"axis": "age_accuracy"}, "not judged on that axis"),
        ({"withdraw": True}, "no decision of yours"),
        ({"trial": "nothing"}, "no such edit"),
    ],
)
def test_what_cannot_be_decided_is_a_sentence_and_no_row(
    desk: Desk, change: dict[str, object], error: str
) -> None:
    asked = {"trial": flagged(desk), "score": 3, **change}
    with pytest.raises((RefusedError, UnknownError), match=error):
        desk.decide("anna", said(**asked))  # type: ignore[arg-type]
    assert desk.run.adjudications() == []


def test_nobody_decides_without_a_name_or_a_picture(desk: Desk) -> None:
    for name in ("", "-", "a b", "x" * 41):
        with pytest.raises(RefusedError, match="name to decide under"):
            desk.decide(name, said(flagged(desk), score=3))
    lost = desk.state().trials.filter(pl.col("image").is_null())["trial"][0]
    with pytest.raises(RefusedError, match="no picture"):
        desk.decide("anna", said(lost, score=3))
    with pytest.raises(InputError, match="not a reviewer's name"):
        check_reviewer("a b")
    check_reviewer("")


def test_a_ledger_that_could_not_be_written_once_takes_the_next_decision(desk: Desk) -> None:
    desk.run._writer._failure = SetupError("The ledger was locked.")  # type: ignore[union-attr]
    trial = flagged(desk)
    desk.decide("anna", said(trial, score=3))
    desk.decide("anna", said(trial, score=4))
    assert [one.score for one in desk.run.adjudications()] == [3, 4] and row(desk, trial)["score"] == 4


def test_decisions_go_in_while_another_process_holds_and_writes(run: Path, desk: Desk) -> None:
    protocol = desk.state().protocol
    with Run.open_for_writing(run, protocol) as writing:
        desk.decide("anna", said(flagged(desk), score=3))
        assert len(writing.adjudications()) == 1
        writing.add_draw("key", [1])
    with closing(sqlite3.connect(run / "ledger.sqlite")) as beside, pytest.raises(sqlite3.IntegrityError):
        beside.execute("UPDATE adjudication SET score = 1")


def test_what_an_audit_adds_meanwhile_shows_up(run: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "REST", 0.0)
    before = desk.state()
    design = before.design
    more = make_design(design.config, [*design.portraits, newcomer(run, design.portraits[0])])
    with Run.open_for_writing(run, before.protocol) as writing:
        record_design(writing, more)
        wall.edit(writing, more, random.Random(5))
    desk._took = 0.0
    desk.state()
    desk._reading.acquire()  # the reading that goes on beside is over
    desk._reading.release()
    after = desk.state()
    assert after.trials.height == before.trials.height + 10
    assert before.trials.height == 240, "whoever is looking meanwhile keeps what they look at"


def newcomer(run: Path, like: Portrait) -> Portrait:
    """One more portrait, of somebody perceived like another."""
    picture = wall.plain(150)
    with Run.open_readonly(run) as seen:
        protocol = seen.protocol()
    with Run.open_for_writing(run, protocol) as writing:
        made = Portrait.of(like.source, "newcomer", writing.store(picture).sha256, like.labels)
        writing.add_portrait(replace(made), picture).result()
    return made
