"""What Prolific knows is brought here: statuses, freed seats, and who needs a look."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from sqlalchemy import delete, select

from stillme.core.errors import InputError
from stillme.study.db import people, seats
from stillme.study.db.tables import identity, submission
from stillme.study.prolific.client import Submission
from stillme.study.prolific.sync import Synced, lines, note, sync
from stillme.study.rehearsal.fake.world import NoError
from tests.study.prolific.stage import Stage


def look(stage: Stage) -> Synced:
    return stage.run(lambda client: sync(stage.store, client, time.time()))


def test_seats_of_those_who_left_become_free(staged: Callable[..., Stage], database: str) -> None:
    stage = staged(database)
    stage.publish()
    returned, late, screened, at_work = (stage.seated(task) for task in ("t00", "t00", "t00", "t01"))
    done = stage.finished("t01")
    stage.world.move(returned.submission, "RETURN")
    stage.world.move(late.submission, "TIMEOUT")
    stage.world.move(screened.submission, "SCREEN_OUT")
    found = look(stage)
    assert found.freed == 3
    assert [stage.state(one) for one in (returned, late, screened)] == ["returned", "timed_out", "released"]
    assert [stage.state(one) for one in (at_work, done)] == ["active", "complete"]
    assert stage.free_seats() == 4
    again = look(stage)
    assert (again.freed, again.changes) == (0, ())


def test_a_rejection_and_a_late_return_free_the_seat_of_somebody_who_had_finished(stage: Stage) -> None:
    stage.publish()
    rejected, returned = stage.finished(), stage.finished()
    look(stage)
    reason = {"message": "x" * 100, "rejection_category": "FAILED_CHECK"}
    stage.world.move(rejected.submission, "REJECT", **reason)
    stage.world.move(returned.submission, "RETURN")
    assert look(stage).freed == 2
    assert stage.free_seats() == 6


def test_whoever_finished_keeps_it_though_prolifics_time_ran_out(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished(code="")
    stage.world.move(rater.submission, "TIMEOUT")
    found = look(stage)
    assert (found.freed, found.late, stage.state(rater)) == (0, (rater.submission,), "complete")
    assert "their time at Prolific ran out" in "\n".join(lines(found))


def test_who_needs_a_look_is_named_by_submission_and_never_by_person(stage: Stage) -> None:
    stage.publish()
    right = stage.do(lambda c: seats.code(c, "COMPLETED"))
    cheat, uncoded, surplus = stage.seated(), stage.finished(code=""), stage.arrive()
    stage.world.complete(cheat.submission, right)
    stage.world.complete(uncoded.submission, "WRONG")
    stage.do(lambda c: people.note(c, surplus.person, "tutored", 1.0))
    found = look(stage)
    assert (found.unfinished, found.uncoded, found.surplus) == (
        (cheat.submission,),
        (uncoded.submission,),
        (surplus.submission,),
    )
    said = "\n".join(lines(found))
    assert "have not finished here" in said
    assert not any(one.pid in said for one in (cheat, uncoded, surplus))


def test_somebody_who_never_came_is_counted_and_invents_nobody(stage: Stage) -> None:
    stage.publish()
    stage.world.arrive(stage.study)
    assert look(stage).counts == {"ACTIVE": 1}
    assert stage.do(lambda c: c.scalars(select(submission.c.participant)).all()) == [None]


def test_what_was_read_earlier_does_not_replace_what_was_read_later(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()

    def seen(status: str, at: float) -> None:
        found = Submission(id=rater.submission, pid=rater.pid, study=stage.study, status=status)
        stage.do(lambda c: note(c, found, at))

    seen("RETURNED", 20.0)
    seen("ACTIVE", 10.0)
    assert stage.do(lambda c: c.scalar(select(submission.c.status))) == "RETURNED"


def test_many_submissions_come_in_one_look(stage: Stage) -> None:
    stage.publish()
    for _ in range(250):
        stage.world.arrive(stage.study, surplus=True)
    found = look(stage)
    assert (found.counts, len(found.changes)) == ({"ACTIVE": 250}, 250)


def test_a_study_that_is_not_there_yet_is_said(stage: Stage) -> None:
    with pytest.raises(InputError, match="has not been published"):
        look(stage)


def test_who_was_away_too_long_and_then_returned_cannot_take_the_seat_again(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()
    stage.do(lambda c: seats.free(c, rater.sitting, "timed_out", 1.0))
    stage.world.move(rater.submission, "RETURN")
    assert look(stage).freed == 0, "there was none to free"
    assert stage.state(rater) == "returned"


def test_a_submission_stays_with_its_rater_when_the_identity_is_removed(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished()
    look(stage)
    stage.do(lambda c: c.execute(delete(identity)))
    look(stage)
    assert stage.do(lambda c: c.scalars(select(submission.c.participant)).all()) == [rater.person]


def test_who_asks_for_a_place_again_has_the_one_they_hold(stage: Stage) -> None:
    """An answer may get lost on its way; a person who has left does not come in a second time."""
    stage.publish()
    first = stage.world.arrive(stage.study, "p" * 24)
    assert stage.world.arrive(stage.study, "p" * 24)["id"] == first["id"] and stage.world.taken(stage.study) == 1
    stage.world.move(first["id"], "RETURN")
    with pytest.raises(NoError, match="taken part already"):
        stage.world.arrive(stage.study, "p" * 24)
