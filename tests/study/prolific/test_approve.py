"""Who is approved and who is only looked at; nobody is rejected but by a person, with reasons."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from stillme.core.errors import InputError
from stillme.study.db.tables import audit, participant
from stillme.study.prolific import approve
from stillme.study.prolific.client import ProlificError
from stillme.study.rehearsal.fake.app import Fault
from tests.study.prolific.stage import Rater, Stage


def run(stage: Stage, dry: bool = False) -> approve.Approved:
    return stage.run(lambda c: approve.approve(stage.store, c, stage.bundle, time.time, stage.say, dry))


def status(stage: Stage, rater: Rater) -> str:
    return str(stage.world.submissions[rater.submission]["status"])


def test_finishers_with_the_right_code_and_attention_are_approved_and_nobody_else(stage: Stage) -> None:
    stage.publish()
    good = [stage.finished("t00"), stage.finished("t00")]
    asleep = stage.finished("t00", attentive=False)
    uncoded = stage.finished("t01", code="NO_CONSENT")
    early = stage.finished("t01", code="")
    at_work = stage.seated("t01")
    stage.run(lambda c: approve.approve(stage.store, c, stage.bundle, time.time, stage.say, dry=True))
    assert [status(stage, one) for one in good] == ["AWAITING REVIEW"] * 2, "a dry run changes nothing"
    assert any("passed only 0 of" in line and asleep.submission in line for line in stage.said)
    assert any(line.startswith("  wait") and early.submission in line for line in stage.said)
    done = run(stage)
    assert sorted(done.done) == sorted(one.submission for one in good)
    assert [status(stage, one) for one in good] == ["APPROVED"] * 2
    assert status(stage, asleep) == status(stage, uncoded) == "AWAITING REVIEW"
    assert status(stage, early) == status(stage, at_work) == "ACTIVE"
    assert run(stage).done == ()
    kept = stage.do(lambda c: c.execute(select(audit.c.what, audit.c.about)).all())
    assert {tuple(row) for row in kept} == {("approve", one.submission) for one in good}


def test_somebody_excluded_is_left_to_a_person(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished()
    stage.do(lambda c: c.execute(update(participant).values(excluded="copied comments")))
    assert run(stage).done == ()
    assert status(stage, rater) == "AWAITING REVIEW"
    assert any("copied comments" in line for line in stage.said)


def test_one_that_changed_meanwhile_does_not_hold_up_the_others(stage: Stage) -> None:
    """Between our look and the approval somebody returns: the lot is refused, so they go one by one."""
    stage.publish()
    first, second = stage.finished(), stage.finished()
    stage.options.faults.append(Fault("/bulk-approve/", 400))
    stage.world.submissions[second.submission]["status"] = "AWAITING REVIEW"
    original = stage.world.move

    def race(one: str, action: str, **more: object) -> dict[str, object]:
        if action == "APPROVE" and one == second.submission:
            original(one, "RETURN")
        return original(one, action, **more)

    stage.world.move = race  # type: ignore[assignment,method-assign]
    done = run(stage)
    assert (done.done, done.later) == ((first.submission,), (second.submission,))
    assert any("1 could not be yet" in line for line in stage.said)


def test_approving_goes_in_chunks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approve, "CHUNK", 2)
    stage.publish()
    for task in ("t00", "t00", "t00", "t01", "t01"):
        stage.finished(task)
    assert len(run(stage).done) == 5
    sizes = [len(body["submission_ids"]) for _, path, body in stage.options.log or [] if "bulk-approve" in path]
    assert sizes == [2, 2, 1]


def test_a_prolific_that_fails_approves_nobody_twice_and_says_so(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished()
    stage.options.faults.append(Fault("/bulk-approve/", 502, after=True))
    with pytest.raises(ProlificError):
        run(stage)
    assert status(stage, rater) == "APPROVED"
    assert run(stage).done == ()


LONG = "The answers to all four attention checks were wrong, and every item was answered in under a second each."


def test_a_rejection_needs_a_person_a_reason_and_a_category(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished(attentive=False)

    def reject(category: str, message: str) -> None:
        stage.run(
            lambda c: approve.reject(stage.store, c, rater.submission, category, message, time.time, stage.say)
        )

    with pytest.raises(InputError, match="at least 100 characters; this has 8"):
        reject("FAILED_CHECK", "too bad.")
    with pytest.raises(InputError, match="not a category"):
        reject("BECAUSE", LONG)
    assert status(stage, rater) == "AWAITING REVIEW"
    reject("FAILED_CHECK", LONG)
    assert status(stage, rater) == "REJECTED"
    assert (stage.free_seats(), stage.state(rater)) == (6, "released")
    with pytest.raises(InputError, match="is rejected, not awaiting review"):
        reject("FAILED_CHECK", LONG)


def test_a_return_is_asked_for_with_reasons(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished(attentive=False)

    def ask(*reasons: str) -> None:
        stage.run(lambda c: approve.ask_return(stage.store, c, rater.submission, reasons, time.time, stage.say))

    with pytest.raises(InputError, match="needs a reason"):
        ask()
    ask("Most attention checks were wrong.")
    assert stage.world.submissions[rater.submission]["return_requested"]
    assert stage.state(rater) == "complete", "asking is not returning"


def test_a_submission_of_another_study_is_not_touched(stage: Stage) -> None:
    stage.publish()
    fields = {name: value for name, value in stage.world.studies[stage.study].items() if name != "id"}
    other = stage.world.create(fields)
    stage.world.move_study(other["id"], "PUBLISH")
    came = stage.world.arrive(other["id"])
    with pytest.raises(InputError, match="another study"):
        stage.run(lambda c: approve.ask_return(stage.store, c, came["id"], ["x"], time.time, stage.say))


def test_a_person_can_approve_somebody_who_did_the_work_without_the_code(stage: Stage) -> None:
    stage.publish()
    uncoded, late, at_work = stage.finished(code="NO_CONSENT"), stage.finished(code=""), stage.seated()
    stage.world.move(late.submission, "TIMEOUT")

    def by_name(rater: Rater) -> None:
        stage.run(lambda c: approve.approve_one(stage.store, c, rater.submission, time.time, stage.say))

    for rater in (uncoded, late, late):
        by_name(rater)
    assert [status(stage, one) for one in (uncoded, late)] == ["APPROVED"] * 2
    assert "already" in stage.said[-1]
    with pytest.raises(InputError, match="cannot be approved"):
        by_name(at_work)
