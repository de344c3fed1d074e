"""Bonuses: to whoever earned one, once, whatever happens in between."""

from __future__ import annotations

import copy
import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from stillme.core.errors import IncompleteError, InputError
from stillme.study.db.store import connect, write_now
from stillme.study.db.tables import audit, bonus, participant, payment
from stillme.study.prolific import approve, pay
from stillme.study.prolific.client import Prepared, Prolific, ProlificError
from stillme.study.rehearsal.fake.app import API, Fault
from tests.study.conftest import ON_BOTH_DATABASES
from tests.study.prolific.stage import Rater, Stage

KILLED = -9
OPEN = IncompleteError.exit_code


def bonuses(stage: Stage, go: bool = True) -> list[pay.Payment]:
    return stage.run(lambda c: pay.pay(stage.store, c, stage.bundle, time.time, stage.say, go))


def approved(stage: Stage, *tasks: str) -> list[Rater]:
    """People who finished, attentively, and were approved."""
    raters = [stage.finished(task) for task in tasks]
    stage.run(lambda c: approve.approve(stage.store, c, stage.bundle, time.time, stage.say))
    return raters


def settle(stage: Stage, made: str, outcome: str) -> None:
    stage.run(lambda c: pay.settle(stage.store, made, outcome, time.time, stage.say))


@ON_BOTH_DATABASES
def test_whoever_earned_a_bonus_gets_it_once_and_nobody_else_gets_one(
    staged: Callable[..., Stage], database: str
) -> None:
    stage = staged(database)
    stage.publish()
    earned = approved(stage, "t00", "t00")
    asleep = stage.finished("t00", attentive=False)
    stage.world.move(asleep.submission, "APPROVE")
    waiting, at_work = stage.finished("t01"), stage.seated("t01")
    assert bonuses(stage, go=False) == []
    assert "2 bonuses are due, 2.00 USD without fees. Nothing was paid" in stage.said[-1]
    assert stage.payments() == []
    (made,) = bonuses(stage)
    assert (made.people, made.amount) == (2, 200)
    assert bonuses(stage) == []
    assert stage.said[-1] == "No bonus is due."
    paid = stage.paid()
    assert [paid[one.submission] for one in earned] == [[100], [100]]
    assert [paid[one.submission] for one in (asleep, waiting, at_work)] == [[], [], []]
    approved(stage, "t01")
    (later,) = bonuses(stage)
    assert later.people == 2, "who was approved since then, and only they"
    assert stage.payments() == ["paid", "paid"]
    assert [stage.paid()[one.submission] for one in (*earned, waiting)] == [[100]] * 3


def test_somebody_excluded_gets_none_and_a_study_without_bonus_pays_none(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.publish()
    approved(stage, "t00")
    stage.do(lambda c: c.execute(update(participant).values(excluded="copied")))
    assert bonuses(stage) == []
    assert stage.payments() == []


def test_the_database_itself_refuses_a_second_bonus(stage: Stage) -> None:
    stage.publish()
    approved(stage, "t00")
    first = stage.do(lambda c: pay.plan(c, stage.bundle, 1.0))
    assert first
    assert stage.do(lambda c: pay.plan(c, stage.bundle, 2.0)) == ""
    assert (stage.payments(), stage.bonuses()) == (["planned"], 1)


def test_a_payment_whose_answer_was_lost_waits_for_a_person(stage: Stage) -> None:
    stage.publish()
    (rater,) = approved(stage, "t00")
    stage.options.faults.append(Fault("/pay/", 502, after=True))
    with pytest.raises(IncompleteError, match="not known whether this was paid") as said:
        bonuses(stage)
    assert "where 1 of them have a bonus now" in str(said.value)
    assert rater.pid not in str(said.value)
    for _ in range(2):
        with pytest.raises(IncompleteError, match="not known"):
            bonuses(stage)
    made = stage.do(lambda c: c.scalar(select(payment.c.id))) or ""
    with pytest.raises(InputError, match="Say paid or unpaid"):
        settle(stage, made, "perhaps")
    settle(stage, made, "paid")
    assert bonuses(stage) == []
    assert stage.paid()[rater.submission] == [100]
    with pytest.raises(InputError, match="no payment"):
        settle(stage, made, "unpaid")


def test_one_that_was_not_paid_is_paid_after_a_person_said_so(stage: Stage) -> None:
    stage.publish()
    (rater,) = approved(stage, "t00")
    stage.options.faults.append(Fault("/pay/", 502))
    with pytest.raises(IncompleteError):
        bonuses(stage)
    settle(stage, stage.do(lambda c: c.scalar(select(payment.c.id))) or "", "unpaid")
    assert len(bonuses(stage)) == 1
    assert stage.paid()[rater.submission] == [100]
    assert len(stage.world.payments) == 1, "the one that was prepared is used"


def test_a_clear_refusal_is_no_open_end(stage: Stage) -> None:
    stage.publish()
    (rater,) = approved(stage, "t00")
    stage.options.faults.append(Fault("/pay/", 400))
    with pytest.raises(ProlificError, match="refuses"):
        bonuses(stage)
    assert stage.payments() == ["created"]
    assert len(bonuses(stage)) == 1
    assert stage.paid()[rater.submission] == [100]


def test_another_amount_than_was_planned_is_not_paid(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def more(self: Prolific, study: str, rows: object) -> Prepared:
        return Prepared("abc", 10_000, 13_000)

    stage.publish()
    approved(stage, "t00")
    monkeypatch.setattr(Prolific, "prepare_bonus", more)
    with pytest.raises(IncompleteError, match=r"prepared 100.00 where 1.00 were planned; nothing was paid"):
        bonuses(stage)
    assert stage.payments() == ["planned"]


def test_every_step_leaves_a_line(stage: Stage) -> None:
    stage.publish()
    approved(stage, "t00")
    bonuses(stage)
    steps = stage.do(lambda c: c.scalars(select(audit.c.detail).where(audit.c.what == "bonus")).all())
    assert steps == ["planned -> created", "created -> paying", "paying -> paid"]


class Mortal:
    """The process of dying.py."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.study.prolific.dying"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, command: str, moment: int, database: str, base: str) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command} {moment} {database} {base}{API}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    made = Mortal()
    yield made
    made.process.communicate()


def copies(stage: Stage) -> Iterator[str]:
    """The study again and again as it is now, at Prolific and here; the address of each new database."""
    stage.store.close()  # what is in the file is all there is
    world = {name: copy.deepcopy(getattr(stage.world, name)) for name in ("studies", "submissions", "payments")}
    for number in range(60):
        for name, value in world.items():
            getattr(stage.world, name).clear()
            getattr(stage.world, name).update(copy.deepcopy(value))
        path = Path(stage.folder / f"copy{number}.db")
        shutil.copy(stage.folder / "study.db", path)
        yield f"sqlite:///{path}"


def states(database: str) -> list[tuple[str, str]]:
    engine = connect(database)
    found = write_now(engine, lambda c: [(row.id, row.state) for row in c.execute(select(payment))])
    engine.dispose()
    return found


def settled(database: str, outcome: str) -> None:
    """What a person would do who looks on Prolific."""
    engine = connect(database)
    after = "paid" if outcome == "paid" else "created"
    write_now(engine, lambda c: c.execute(update(payment).where(payment.c.state == "paying").values(state=after)))
    engine.dispose()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_between_any_two_steps_everybody_is_paid_once(stage: Stage, mortal: Mortal, step: int) -> None:
    """`step`: how many moments lie between two deaths that are tried."""
    stage.publish()
    raters = approved(stage, "t00", "t01")
    open_ends = deaths = forgotten = 0
    for moment, database in zip(itertools.count(1, step), copies(stage), strict=False):
        died = mortal.run("bonus", moment, database, stage.base)
        deaths += died == KILLED
        again = mortal.run("bonus", 0, database, stage.base)
        if again == OPEN:
            open_ends += 1
            before = stage.paid()
            assert mortal.run("bonus", 0, database, stage.base) == OPEN, "it never decides by itself"
            assert stage.paid() == before
            settled(database, "paid" if before[raters[0].submission] else "unpaid")
            again = mortal.run("bonus", 0, database, stage.base)
        assert again == 0
        assert [stage.paid()[one.submission] for one in raters] == [[100], [100]], f"killed at moment {moment}"
        assert [state for _, state in states(database)] == ["paid"]
        forgotten += sorted(one["paid"] for one in stage.world.payments.values()) == [0, 1]
        if died == 0:
            break
    assert deaths >= 14 // step, "before and after: list, note, plan, prepare, created, paying, pay, paid"
    if step == 1:
        assert forgotten == 2, "prepared, killed before that was kept, prepared anew, and one of the two is paid"
    assert open_ends == 4 // step, "from when it is written that it is being paid until it is written that it was"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_study_whose_publishing_was_killed_is_published_once(stage: Stage, mortal: Mortal, step: int) -> None:
    deaths = 0
    for moment, database in zip(itertools.count(1, step), copies(stage), strict=False):
        died = mortal.run("publish", moment, database, stage.base)
        deaths += died == KILLED
        assert mortal.run("publish", 0, database, stage.base) == 0
        assert [one["status"] for one in stage.world.studies.values()] == ["ACTIVE"], f"killed at moment {moment}"
        if died == 0:
            break
    assert deaths >= 10 // step


def test_nobody_is_planned_twice_by_two_at_once(stage: Stage) -> None:
    """What the second process would write is refused by the key, and it leaves no empty payment."""
    stage.publish()
    approved(stage, "t00", "t00")
    with stage.store.engine.begin() as connection:
        found = pay.due(connection, stage.bundle)
        pay.plan(connection, stage.bundle, 1.0)
    late = [one.participant for one in found]
    rows = stage.do(lambda c: c.scalars(select(bonus.c.participant)).all())
    assert sorted(rows) == sorted(late)
    assert stage.do(lambda c: pay.plan(c, stage.bundle, 2.0)) == ""
