"""The core on both databases: entering, seats, answers, finishing; what is refused and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, func, select, update

from stillme.core.errors import InputError
from stillme.study.bundle import Bundle
from stillme.study.db import people, seats
from stillme.study.db.deal import allowed, deal, questions
from stillme.study.db.keys import Keys
from stillme.study.db.people import Launch, RefusedError
from stillme.study.db.store import connect, prepare, write_now
from stillme.study.db.tables import answer, operation, seat, sitting
from stillme.study.server import answers
from stillme.study.server.answers import Operation
from tests.study import bundles
from tests.study.conftest import ON_BOTH_DATABASES

KEYS = Keys(b"k" * 32)


class Desk:
    """A study on a database, with a clock that tests move."""

    def __init__(self, url: str, bundle: Bundle) -> None:
        self.engine = connect(url)
        prepare(self.engine)
        self.bundle = bundle
        self.now = 1_000_000.0
        self.do(lambda c: seats.attach(c, bundle, self.now))

    def do(self, work: Callable[[Connection], Any]) -> Any:
        return write_now(self.engine, work)

    def enter(self, pid: str, submission: str = "") -> str:
        launch = Launch(pid, "study", submission or f"s-{pid}")
        token = self.do(lambda c: people.enter(c, KEYS, launch, "127.0.0.1", self.now))
        person = self.do(lambda c: people.who(c, KEYS, token, self.now))
        return str(person.id)

    def take(self, person: str, task: str = "t00") -> str:
        return str(self.do(lambda c: seats.take(c, self.bundle, person, task, self.now)))

    def send(self, sat: str, *operations: Operation) -> list[answers.Result]:
        def work(connection: Connection) -> list[answers.Result]:
            return answers.apply(connection, self.bundle, seats.sit(connection, sat), operations, self.now)

        return list(self.do(work))

    def rate(self, sat: str, number: int) -> None:
        """Everything about one item, as fast as the study allows."""
        screen = self.do(lambda c: seats.sit(c, sat)).deal.screens[number]
        given = [
            op("answer", screen.item, field, min(values)) for field, values in allowed(self.bundle, screen).items()
        ]
        self.send(sat, op("open", screen.item), *given)
        self.now += self.bundle.minimum_seconds
        assert self.send(sat, op("done", screen.item))[0].refused == ""

    def finish(self, sat: str) -> None:
        self.do(lambda c: answers.finish(c, self.bundle, seats.sit(c, sat), self.now))


def op(kind: Any, item: str, field: str = "", value: str = "", **more: Any) -> Operation:
    return Operation(id=str(uuid4()), kind=kind, item=item, field=field, value=value, **{"rev": 1, **more})


@pytest.fixture
def desk(database: str) -> Iterator[Desk]:
    made = Desk(database, bundles.make(minimum_seconds_item=5)[0])
    yield made
    made.engine.dispose()


def first(desk: Desk, sat: str) -> tuple[str, str]:
    """The first item of a sitting, and one of its fields."""
    screen = desk.do(lambda c: seats.sit(c, sat)).deal.screens[0]
    return screen.item, next(field for field, _, _ in questions(desk.bundle, screen) if field != "check")


@ON_BOTH_DATABASES
def test_a_task_is_rated_from_entering_to_the_end(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    with pytest.raises(RefusedError, match="4 items are not done yet"):
        desk.finish(sat)
    for number in range(4):
        desk.rate(sat, number)
    desk.finish(sat)
    desk.finish(sat)  # a second click changes nothing
    card = desk.do(lambda c: seats.board(c, desk.bundle))["t00"]
    assert (card.complete, card.held, card.free) == (1, 0, 2)
    item, field = first(desk, sat)
    with pytest.raises(RefusedError, match="complete"):
        desk.send(sat, op("answer", item, field, "1"))


def test_a_task_has_no_more_raters_than_seats_and_nobody_two_tasks(desk: Desk) -> None:
    people_ = [desk.enter(f"p{n}") for n in range(4)]
    sittings = [desk.take(person) for person in people_[:3]]
    assert len(set(sittings)) == 3
    with pytest.raises(RefusedError, match="last place"):
        desk.take(people_[3])
    assert desk.take(people_[0]) == sittings[0], "a second click on the same task changes nothing"
    with pytest.raises(RefusedError, match="everybody can do one"):
        desk.take(people_[0], "t01")


def test_a_return_frees_the_seat_and_keeps_the_answers(desk: Desk) -> None:
    people_ = [desk.enter(f"p{n}") for n in range(4)]
    sat, *_ = [desk.take(person) for person in people_[:3]]
    item, field = first(desk, sat)
    desk.send(sat, op("answer", item, field, "2"))
    assert desk.do(lambda c: seats.free(c, sat, "returned", desk.now))
    assert desk.take(people_[3])
    assert desk.do(lambda c: c.scalar(select(func.count()).select_from(answer))) == 1
    with pytest.raises(RefusedError, match="given back"):
        desk.send(sat, op("answer", item, field, "3"))
    with pytest.raises(RefusedError, match="closed for you"):
        desk.take(people_[0])


def test_whoever_times_out_goes_on_if_a_seat_is_free(desk: Desk) -> None:
    person = desk.enter("anna")
    sat = desk.take(person)
    desk.now += seats.LEASE + 1
    assert desk.do(lambda c: seats.sweep(c, desk.now)) == [sat]
    assert desk.take(person) == sat
    assert desk.do(lambda c: seats.sweep(c, desk.now)) == []
    desk.now += seats.LEASE + 1
    desk.do(lambda c: seats.sweep(c, desk.now))
    desk.rate(sat, 0)  # an answer is a sign of life too
    desk.now += seats.LEASE + 1
    desk.do(lambda c: seats.sweep(c, desk.now))
    for n in range(3):
        desk.take(desk.enter(f"p{n}"))
    with pytest.raises(RefusedError, match="given to somebody else"):
        desk.take(person)


def test_a_sign_of_life_keeps_the_seat(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    item, field = first(desk, sat)
    for _ in range(3):
        desk.now += seats.LEASE - 60
        desk.send(sat, op("answer", item, field, "2"))
        assert desk.do(lambda c: seats.sweep(c, desk.now)) == []


def test_an_operation_counts_once_and_the_newest_value_holds(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    item, field = first(desk, sat)
    newer, older = op("answer", item, field, "4", rev=9), op("answer", item, field, "2", rev=3)
    for _ in range(2):
        assert all(not result.refused for result in desk.send(sat, newer, older, older))
    kept = desk.do(lambda c: c.execute(select(answer.c.value, answer.c.rev)).all())
    assert [tuple(row) for row in kept] == [("4", 9)]
    assert desk.do(lambda c: c.scalar(select(func.count()).select_from(operation))) == 2


def test_what_was_not_asked_is_refused_and_not_kept(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    item, field = first(desk, sat)
    elsewhere = desk.bundle.task["t01"].items[0]
    for wrong, said in (
        (op("answer", item, field, "99"), "not one of the answers"),
        (op("answer", item, field, ""), "not one of the answers"),
        (op("answer", item, "unknown", "1"), "no such question"),
        (op("answer", item, "comment", "1"), "no such question"),
        (op("answer", elsewhere, field, "1"), "no such item"),
        (op("done", item), "not opened"),
    ):
        assert said in desk.send(sat, wrong)[0].refused
    assert desk.do(lambda c: c.scalar(select(func.count()).select_from(answer))) == 0


def test_nobody_is_quicker_than_the_minimum(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    screens = desk.do(lambda c: seats.sit(c, sat)).deal.screens
    everything = [
        op("answer", screen.item, field, min(values))
        for screen in screens
        for field, values in allowed(desk.bundle, screen).items()
    ]
    desk.send(sat, *(op("open", screen.item, age=3_600_000) for screen in screens), *everything)
    done = op("done", screens[0].item)
    desk.now += 3
    result = desk.send(sat, done)[0]
    assert "2 more seconds" in result.refused and result.wait == pytest.approx(2)
    desk.now += 2
    assert not desk.send(sat, done)[0].refused, "the same operation may be tried again after waiting"
    second = desk.send(sat, op("done", screens[1].item, age=3_600_000))[0]
    assert second.wait == pytest.approx(5), "items that were opened together are not done together"


def test_who_was_offline_does_not_wait_again(desk: Desk) -> None:
    sat = desk.take(desk.enter("anna"))
    screens = desk.do(lambda c: seats.sit(c, sat)).deal.screens[:2]
    desk.now += 60
    queued = []
    for place, screen in enumerate(screens):
        opened = 50_000 - place * 20_000  # milliseconds ago
        queued.append(op("open", screen.item, age=opened))
        for field, values in allowed(desk.bundle, screen).items():
            queued.append(op("answer", screen.item, field, min(values), age=opened - 4_000))
        queued.append(op("done", screen.item, age=opened - 6_000))
    assert not [result.refused for result in desk.send(sat, *queued) if result.refused]


def test_the_same_person_comes_back_and_another_submission_does_not(desk: Desk) -> None:
    assert desk.enter("anna") == desk.enter("anna")
    with pytest.raises(RefusedError, match="taken part in this study before"):
        desk.enter("anna", "another")
    with pytest.raises(RefusedError, match="belongs to somebody else"):
        desk.enter("bert", "s-anna")
    assert desk.enter("bert"), "the refusal left nothing behind"


def test_a_session_ends(desk: Desk) -> None:
    token = desk.do(lambda c: people.enter(c, KEYS, Launch("a", "s", "x"), "::1", desk.now))
    assert desk.do(lambda c: people.who(c, KEYS, token, desk.now)) is not None
    assert desk.do(lambda c: people.who(c, KEYS, token + "x", desk.now)) is None
    assert desk.do(lambda c: people.who(c, KEYS, token, desk.now + people.SESSION_SECONDS + 1)) is None


def test_answers_to_different_bundles_are_never_mixed(desk: Desk) -> None:
    other, _ = bundles.make(items=5)
    with pytest.raises(InputError, match="another bundle"):
        desk.do(lambda c: seats.attach(c, other, desk.now))


def test_the_database_itself_refuses_a_second_task(desk: Desk) -> None:
    """Whatever a process believes: the constraint has the last word."""
    one, two = (desk.take(desk.enter(name)) for name in ("anna", "bert"))
    with pytest.raises(Exception, match=r"(?i)unique"):
        desk.do(lambda c: c.execute(update(seat).where(seat.c.sitting == two).values(sitting=one)))
    owner = select(sitting.c.participant).where(sitting.c.id == one).scalar_subquery()
    with pytest.raises(Exception, match=r"(?i)unique"):
        desk.do(lambda c: c.execute(update(sitting).where(sitting.c.id == two).values(participant=owner)))


def test_what_a_rater_is_dealt_is_drawn_at_random_and_stays(desk: Desk) -> None:
    dealt = [deal(desk.bundle, "t00", str(seed)) for seed in range(40)]
    assert deal(desk.bundle, "t00", "7") == dealt[7]
    assert len({tuple(screen.item for screen in one.screens) for one in dealt}) > 5
    assert {screen.order for one in dealt for screen in one.screens if screen.item == "i000"} == {
        ("o000x", "o000y"),
        ("o000y", "o000x"),
    }
    assert {sum(screen.check is not None for screen in one.screens) for one in dealt} == {1, 2}


@pytest.mark.parametrize("layout", ["pair", "triplet", "side_by_side"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_attention_check_that_was_drawn_is_asked(layout: str, count: int) -> None:
    asked = tuple(bundles.scale(f"q{number}") for number in range(count))
    bundle, _ = bundles.make(layout, questions=asked)
    drawn = [screen for seed in range(20) for screen in deal(bundle, "t00", str(seed)).screens if screen.check]
    assert drawn and all("check" in allowed(bundle, screen) for screen in drawn)
