"""The raters' pages over HTTP without scripts: every step and its gate, kind refusals, and who gets which code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from stillme.study.db import people, seats
from stillme.study.db.store import upsert
from stillme.study.db.tables import lesson, meta, participant, seat, sitting
from stillme.study.prolific.client import SITE
from stillme.study.server.pages import BACK
from tests.study.visiting import House, Visitor

Open = Callable[..., House]
STEPS = (
    "/guide",
    "/consent",
    "/declined",
    "/tutorial",
    "/tutorial/1",
    "/tasks",
    "/debrief",
    "/complete",
    "/closed",
)


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[Open]:
    made: list[House] = []

    def begin(**changes: Any) -> House:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(House.of(folder, **{"items": 2, **changes}))
        return made[-1]

    yield begin
    for house in made:
        house.close()


@pytest.fixture
def house(open_house: Open) -> House:
    return open_house()


def row(house: House, table: Any) -> Any:
    """The only row of a table."""
    return house.do(lambda c: c.execute(select(table)).one())


def ids(house: House) -> list[str]:
    return list(house.do(lambda c: c.scalars(select(participant.c.id)).all()))


@pytest.mark.parametrize(
    "layout",
    [
        "pair",
        "triplet",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("side_by_side", "occupation_pair")),
    ],
)
def test_the_whole_study_by_plain_forms(open_house: Open, layout: str) -> None:
    house = open_house(layout=layout)
    anna = house.visitor("anna")
    walked = [anna.path]
    for step in (anna.read_guide, anna.agree, anna.learn, anna.choose, anna.rate, anna.finish):
        step()
        walked.append(anna.path)
    anna.send("/debrief")
    walked.append(anna.path)
    assert walked[:5] == ["/guide", "/consent", "/tutorial/1", "/tasks", "/items/1"]
    assert walked[-2:] == ["/debrief", "/complete"] and anna.page.data["code"] == house.codes()["COMPLETED"]
    assert row(house, sitting).state == "complete" and "All 2 items are saved" in anna.text()
    assert not any("anna" in page for page in anna.seen), "the name that somebody came with is on no page"
    assert not any(person in page for page in anna.seen for person in ids(house))
    anna.open("/")
    assert anna.path == "/complete", "coming back shows the code again"


def test_nobody_is_ahead_of_or_behind_their_step(house: House) -> None:
    anna = house.visitor("anna")

    def everywhere() -> set[str]:
        return {anna.open(path).path for path in ("/", *STEPS)}

    assert everywhere() == {"/guide"}
    anna.read_guide()
    assert everywhere() == {"/consent", "/guide"}, "the guide can be read again"
    anna.open("/consent")
    anna.agree()
    assert everywhere() == {"/tutorial/1", "/guide"}
    anna.open("/tutorial")
    anna.learn()
    assert everywhere() == {"/tasks", "/guide"}
    anna.open("/tasks")
    anna.choose()
    assert everywhere() == {"/items/1", "/guide"}
    anna.open("/")
    anna.rate()
    anna.finish()
    assert everywhere() == {"/debrief", "/guide"}
    anna.open("/debrief")
    anna.send("/debrief")
    assert everywhere() == {"/complete", "/guide"}


def test_forms_of_other_steps_change_nothing(house: House) -> None:
    anna = house.visitor("anna")
    token = ("token", anna.token)
    agreed = [("statement", "1"), ("statement", "2"), ("version", "c1")]
    for path, fields in (
        ("/consent", agreed),
        ("/decline", []),
        ("/tutorial/1", [("value", "1"), ("tries", "0")]),
        ("/tutorial/1", [("go", "on")]),
        ("/tasks", [("task", "t00")]),
        ("/debrief", []),
        ("/leave", [("sure", "yes")]),
    ):
        assert anna.post(path, [token, *fields]).path in ("/guide", "/leave"), path
    known = row(house, participant)
    assert not any((known.consented, known.declined, known.tutored, known.debriefed, known.guided))
    assert house.do(lambda c: c.execute(select(sitting)).all()) == []


def test_agreeing_takes_every_tick_and_is_kept_with_version_and_time(house: House) -> None:
    anna = house.visitor("anna")
    anna.read_guide()
    anna.send("/consent", ("statement", "2"))
    assert anna.page.status == 422 and "tick every box" in anna.text()
    assert [one.is_set for one in anna.form("/consent").fields if one.kind == "checkbox"] == [False, True]
    anna.post("/consent", [("token", anna.token), ("statement", "1"), ("statement", "2"), ("version", "c0")])
    assert anna.page.status == 422, "a form of another version is not the one that was read"
    anna.agree()
    known = row(house, participant)
    assert (known.consented, known.consent_version) == (house.clock.now, "c1")
    house.clock.now += 60
    anna.post("/consent", [("token", anna.token), ("statement", "1"), ("statement", "2"), ("version", "c1")])
    assert row(house, participant).consented == known.consented, "a second click changes nothing"
    anna.post("/decline", [("token", anna.token)])
    assert row(house, participant).declined is None


def test_who_does_not_agree_gets_that_code_and_may_still_change_their_mind(house: House) -> None:
    anna = house.visitor("anna")
    anna.read_guide()
    anna.send("/decline")
    codes = house.codes()
    assert anna.path == "/declined" and anna.page.data["code"] == codes["NO_CONSENT"]
    anna.open("/tasks")
    assert anna.path == "/declined"
    anna.open("/consent")
    anna.agree()
    assert anna.path == "/tutorial/1"
    assert row(house, participant).declined is None
    assert not any(codes["COMPLETED"] in page for page in anna.seen)


def test_an_example_is_tried_again_and_then_explained(open_house: Open) -> None:
    house = open_house(layout="pair", tutorial=2)
    anna = house.visitor("anna")
    anna.read_guide()
    anna.agree()
    assert "Example 1 of 2" in anna.text() and "As expected" not in anna.text()
    first = anna.page.posts("/tutorial")[0]
    anna.send("", ("value", "3"))
    assert "Look again: nothing was changed." in anna.text() and anna.form().choices()
    anna.post(first.action, [*first.filled(), ("value", "1")])  # the first form once more: another tab, a reload
    assert row(house, lesson).tries == 1
    anna.send("", ("value", "99"))
    anna.send("")
    assert row(house, lesson).tries == 1, "what is no answer is no try"
    anna.open("/tutorial/2")
    assert anna.path == "/tutorial/1"
    anna.send("", ("value", "4"))
    assert "We had expected: 1 (Label 1)." in anna.text() and not anna.form().choices()
    anna.send("")
    assert anna.path == "/tutorial/2"
    anna.send("", ("value", "1"))
    assert "Right: nothing was changed." in anna.text()
    anna.open("/tutorial/1")
    assert anna.path == "/tutorial/1", "an example that is over can be looked at again"
    anna.open("/tutorial/2")
    anna.send("")
    assert anna.path == "/tasks"
    kept = house.do(lambda c: c.execute(select(lesson).order_by(lesson.c.example)).all())
    assert [(one.first, one.tries, one.right) for one in kept] == [("3", 2, 0), ("1", 1, 1)]


def test_a_study_without_examples_goes_straight_to_the_tasks(open_house: Open) -> None:
    house = open_house(tutorial=0)
    anna = house.visitor("anna")
    anna.read_guide()
    assert "Examples" not in anna.text()
    anna.agree()
    assert anna.path == "/tasks"


def test_the_dashboard_says_how_the_tasks_stand_in_words(open_house: Open) -> None:
    house = open_house(seats=1, tasks=3)
    anna, ben = house.visitor("anna").arrive(), house.visitor("ben").arrive()
    assert "Each task contains 2 items and takes about 25 to 30 minutes." in ben.text()
    anna.choose("t01")
    assert anna.path == "/items/1"
    ben.choose("t01")
    assert ben.page.status == 409 and "Somebody else has just taken the last place" in ben.text()
    assert "Task 2 2 items 1/1 places taken Locked" in ben.text()
    assert "Task 1 2 items 0/1 places taken Choose Task 1" in ben.text()
    counts = dict(zip(("Tasks in all", "Available", "Locked"), ("3", "2", "1"), strict=True))
    assert all(f"{label} {count}" in ben.text() for label, count in counts.items())
    ben.choose("t99")
    assert ben.page.status == 409 and "no such task" in ben.text()
    ben.choose("t00")
    ben.post("/tasks", [("token", ben.token), ("task", "t02")])
    assert ben.path == "/items/1"
    assert [one.task for one in house.do(lambda c: c.execute(select(sitting)).all())] == ["t01", "t00"]


def test_a_task_that_the_link_names_is_the_one_that_is_offered_while_it_is_free(open_house: Open) -> None:
    house = open_house(seats=1, tasks=3, tutorial=0)
    anna, ben = Visitor(house, "anna"), Visitor(house, "ben")
    for one in (anna, ben):
        one.open(f"/p/start?PROLIFIC_PID={one.name}&SESSION_ID=s-{one.name}&task=t01")
        one.read_guide()
        one.agree()
    assert "This one was chosen for you" in ben.text() and "Task 2" in ben.text() and "Task 1" not in ben.text()
    anna.choose("t01")
    ben.open("/tasks")
    assert "any of them will do" in ben.text() and "Choose Task 1" in ben.text(), "ours is the check: it is full"


def test_surplus_people_get_a_kind_page_and_no_code_anywhere(open_house: Open) -> None:
    house = open_house(seats=1, tasks=1)
    anna = house.visitor("anna").arrive()
    ben = house.visitor("ben").arrive()
    anna.choose()
    for path in ("/", "/tasks", *STEPS, "/leave", "/device", "/items", "/items/1", "/finish"):
        ben.open(path)
    ben.open("/device")
    for path, more in (
        ("/device", []),
        ("/tasks", [("task", "t00")]),
        ("/debrief", []),
        ("/finish", []),
        ("/decline", []),
        ("/leave", [("sure", "yes")]),
    ):
        ben.post(path, [("token", house.study.keys.form_token(ben.client.cookies["stillme-study"])), *more])
    ben.open("/tasks")
    assert ben.page.status == 200 and "All places of this study are taken" in ben.text()
    codes = house.codes().values()
    assert not [code for code in codes for page in ben.seen if code in page]
    anna.open("/leave")
    anna.send("/leave", ("sure", "yes"))
    ben.open("/tasks")
    ben.choose()
    assert ben.path == "/items/1", "a place that was given back can be taken"


def test_no_code_before_every_item_is_done(house: House) -> None:
    anna = house.visitor("anna").arrive()
    anna.choose()
    anna.post("/finish", [("token", anna.token)])
    for path in ("/debrief", "/complete", "/complete?stay=1"):
        anna.open(path)
    anna.post("/debrief", [("token", anna.token)])
    assert anna.path == "/items/1"
    assert not [code for code in house.codes().values() for page in anna.seen if code in page]


def test_withdrawing_takes_a_tick_frees_the_seat_and_is_for_good(house: House) -> None:
    anna = house.visitor("anna")
    anna.open("/leave")
    assert "you hold no place" in anna.text() and not anna.page.posts("/leave")
    anna.open("/guide")
    anna.arrive()
    anna.choose()
    anna.open("/leave")
    assert "Your place is held for 30 minutes" in anna.text()
    anna.send("/leave")
    assert anna.page.status == 422 and row(house, sitting).state == "active"
    anna.send("/leave", ("sure", "yes"))
    assert anna.path == "/closed" and "You have withdrawn" in anna.text()
    assert row(house, sitting).state == "withdrew"
    assert house.do(lambda c: c.scalars(select(seat.c.sitting)).all()) == [None] * 6
    for path in ("/", "/tasks", "/items/1", "/complete", "/leave"):
        assert anna.open(path).path == "/closed"
    assert not [code for code in house.codes().values() for page in anna.seen if code in page]


def test_who_was_away_too_long_goes_on_where_a_place_is_left(open_house: Open) -> None:
    house = open_house(seats=1, tasks=1)
    anna, ben = house.visitor("anna").arrive(), house.visitor("ben").arrive()
    anna.choose()
    house.clock.now += 3600
    house.do(lambda c: seats.sweep(c, house.clock.now))
    anna.open("/items/1")
    assert anna.path == "/tasks" and "Welcome back" in anna.text()
    anna.send("/tasks")
    assert anna.path == "/items/1"
    house.clock.now += 3600
    house.do(lambda c: seats.sweep(c, house.clock.now))
    ben.choose()
    anna.open("/")
    assert "given to somebody else" in anna.text() and not anna.page.posts("/tasks")
    anna.post(
        "/tasks", [("token", house.study.keys.form_token(anna.client.cookies["stillme-study"])), ("task", "t00")]
    )
    assert anna.page.status == 409 and anna.path == "/tasks"


def test_a_device_that_does_not_fit_gets_its_code_only_on_request(house: House) -> None:
    anna = house.visitor("anna")
    code = house.codes()["INCOMPATIBLE_DEVICE"]
    anna.open("/device")
    assert code not in anna.page.text
    anna.send("/device")
    assert anna.page.data["code"] == code
    anna.open("/guide")
    assert 'media="(max-width: 1279px), (max-device-height: 719px)"' in anna.page.text
    anna.arrive()
    anna.choose()
    assert "smaller than 1280 × 720" in anna.text() and "max-width: 1279px" in anna.page.text
    anna.open("/device")
    assert not anna.page.posts("/device"), "who holds a place withdraws instead"


def test_from_prolific_the_code_comes_with_the_way_back(open_house: Open) -> None:
    house = open_house(entry="prolific", layout="pair")
    anna = house.visitor("anna").arrive()
    anna.choose()
    anna.rate()
    anna.finish()
    anna.send("/debrief")
    back = SITE + BACK + house.codes()["COMPLETED"]
    assert anna.path == "/complete" and back in anna.page.links and "data-seconds" in anna.page.text
    anna.open("/complete?stay=1")
    assert back in anna.page.links and "data-seconds" not in anna.page.text, "who wants to stay is not sent away"
    cookie = house.do(lambda c: people.who(c, house.study.keys, anna.client.cookies["__Host-stillme-study"], 0))
    assert cookie and cookie.state == "complete"


def test_without_a_link_there_is_a_sentence_and_in_a_pilot_a_form(open_house: Open) -> None:
    recruited, pilot = open_house(entry="prolific"), open_house()
    stranger = Visitor(recruited, "nobody")
    stranger.open("/")
    assert stranger.page.status == 401 and "your link from Prolific" in stranger.text()
    stranger.open("/welcome")
    assert stranger.page.status == 401
    assert stranger.post("/welcome", [("name", "carl")]).status == 404
    assert stranger.open("/tasks").status == 401
    guest = Visitor(pilot, "carl")
    guest.open("/p/start")
    assert guest.path == "/welcome"
    for name in ("", "two words", "x" * 65, "<b>"):
        guest.post("/welcome", [("name", name)])
        assert guest.page.status == 422 and "letters, digits" in guest.text()
    guest.post("/welcome", [("name", "carl")])
    assert guest.path == "/guide"
    other = Visitor(pilot, "x")
    other.open("/p/start?PROLIFIC_PID=%3Cb%3E&SESSION_ID=1")
    assert other.page.status == 409 and "use the whole link" in other.text()


def test_ids_leave_the_address_and_the_cookie_is_strict(house: House) -> None:
    anna = Visitor(house, "anna")
    answer = anna.client.get("/p/start?PROLIFIC_PID=anna&SESSION_ID=s1&STUDY_ID=x", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(answer.headers["set-cookie"].split("; "))
    assert "anna" not in answer.headers["set-cookie"]
    again = anna.open("/p/start?PROLIFIC_PID=anna&SESSION_ID=s2")
    assert again.status == 409 and "taken part in this study before" in anna.text()


def test_a_paused_study_lets_nobody_new_in_and_nobody_out(house: House) -> None:
    anna = house.visitor("anna")
    house.do(lambda c: upsert(c, meta, {"key": "paused", "value": "yes"}))
    ben = Visitor(house, "ben")
    ben.open("/p/start?PROLIFIC_PID=ben")
    assert ben.page.status == 409 and "takes a break" in ben.text()
    anna.open("/p/start?PROLIFIC_PID=anna")
    assert anna.path == "/guide"
    anna.arrive()
    anna.choose()
    assert anna.path == "/items/1"


def test_every_page_says_whom_to_ask(house: House) -> None:
    anna = house.visitor("anna")
    anna.open("/leave")
    anna.open("/device")
    anna.open("/guide")
    anna.arrive()
    anna.choose()
    anna.rate()
    anna.finish()
    anna.send("/debrief")
    assert all("study@example.org" in page for page in anna.seen)
    assert all(page.count("<h1") == 1 and "<main" in page and "<title>" in page for page in anna.seen)
