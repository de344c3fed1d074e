"""The evaluation page over HTTP: what it shows, what its script and its plain forms may send, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from stillme.study.bundle import OUTPUTS
from stillme.study.db import people, seats
from stillme.study.db.deal import allowed, questions
from stillme.study.db.people import Launch
from stillme.study.db.tables import answer, opening, operation, seat, sitting
from stillme.study.server.answers import Operation
from stillme.study.server.door import cookie_name
from tests.study.visiting import KEYS, House, Visitor

LAYOUTS = tuple(OUTPUTS)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House.of(tmp_path, items=3, tasks=2, minimum_seconds_item=5)
    yield made
    made.close()


class Rater:
    """Somebody who sits at a task; sends what the page's script would send."""

    def __init__(self, house: House, name: str = "anna", task: str = "t00") -> None:
        self.house = house
        self.visitor = Visitor(house, name)
        now = house.clock()
        launch = Launch(name, "study", f"s-{name}")
        token = house.do(lambda c: people.enter(c, KEYS, launch, "127.0.0.1", now))
        person = house.do(lambda c: people.who(c, KEYS, token, now)).id
        house.do(lambda c: people.note(c, person, "guided", now))
        house.do(lambda c: people.note(c, person, "tutored", now))
        house.do(lambda c: people.consent(c, person, "c1", now))
        self.id = house.do(lambda c: seats.take(c, house.study.bundle, person, task, now))
        self.visitor.client.cookies.set(cookie_name(house.study), token)
        self.screens = house.do(lambda c: seats.sit(c, self.id)).deal.screens
        self.token = KEYS.form_token(token)

    def fields(self, number: int) -> dict[str, frozenset[str]]:
        return dict(allowed(self.house.study.bundle, self.screens[number - 1]))

    def post(self, *operations: dict[str, Any], **headers: str) -> Any:
        sent = {"X-Stillme-Token": self.token, **headers}
        return self.visitor.client.post("/api/operations", json={"operations": operations}, headers=sent)

    def send(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self.post(*operations)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    def op(self, kind: str, number: int = 1, field: str = "", value: str = "", **more: Any) -> dict[str, Any]:
        made = {"id": str(uuid4()), "kind": kind, "item": self.screens[number - 1].item, "field": field}
        return {**made, "value": value, "rev": 1, "ms": None, "age": 0, **more}

    def all_of(self, number: int) -> list[dict[str, Any]]:
        return [self.op("answer", number, field, min(values)) for field, values in self.fields(number).items()]

    def form(self, number: int, **fields: str) -> Any:
        page = self.visitor.open(f"/items/{number}")
        filled = [*page.posts("/items")[0].filled(), *fields.items()]
        return self.visitor.post(f"/items/{number}", filled)


def count(house: House, table: Any) -> int:
    return int(house.do(lambda c: c.scalar(select(func.count()).select_from(table))))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_page_shows_its_item_and_asks_its_questions(tmp_path: Path, layout: str) -> None:
    house = House.of(tmp_path, layout=layout, items=3, tasks=1)
    rater = Rater(house)
    bundle, screen = house.study.bundle, rater.screens[1]
    item = bundle.item[screen.item]
    page = rater.visitor.open("/items/2")
    house.close()
    shown = re.findall(r'<img src="/images/(\w+)" width="96" height="96"', page.text)
    images = {output.id: output.image.sha256 for output in item.outputs}
    assert shown == [item.source.sha256, *(images[id] for id in screen.order)], "as dealt, from left to right"
    assert list(page.posts("/items")[0].choices()) == [field for field, _, _ in questions(bundle, screen)]
    assert (item.occupation if layout == "occupation_pair" else item.prompt) in page.text
    assert "2/3" in page.text and "(0 done)" in page.text
    assert len(page.text) < 60_000
    for said in ("anna", *screen.order) if not bundle.is_each else ("anna",):
        assert said not in page.text


def test_the_check_asks_for_the_option_that_was_drawn(tmp_path: Path) -> None:
    from stillme.study.bundle import Checks

    house = House.of(tmp_path, items=3, tasks=1, checks=Checks(count=(3, 3), pass_share=0.8))
    rater = Rater(house)
    for number, screen in enumerate(rater.screens, start=1):
        assert screen.check is not None
        page = rater.visitor.open(f"/items/{number}")
        assert f"please select option {screen.check.option} for this question" in page.text
        assert "cannot_determine" not in {field.value for field in page.posts("/items")[0].choices()["check"]}
    house.close()


def test_answers_are_kept_and_shown_again(house: House) -> None:
    rater = Rater(house)
    field, values = next(iter(rater.fields(1).items()))
    value = max(values - {"cannot_determine"})
    rater.send(rater.op("open"), rater.op("answer", field=field, value=value, ms=1200), rater.op("away", ms=2000))
    rater.send(rater.op("comment", field="comment", value='<b>odd</b> & "quoted"'))
    page = rater.visitor.open("/items/1")
    checked = [one for one in page.posts("/items")[0].choices()[field] if one.is_set]
    assert [one.value for one in checked] == [value]
    assert "&lt;b&gt;odd&lt;/b&gt; &amp; &#34;quoted&#34;</textarea>" in page.text
    row = house.do(lambda c: c.execute(select(answer).where(answer.c.field == field)).one())
    assert (row.value, row.ms) == (value, 1200)
    assert house.do(lambda c: c.execute(select(sitting.c.away, sitting.c.away_seconds)).one()) == (1, 2.0)


def test_somebody_elses_item_is_not_there(house: House) -> None:
    rater = Rater(house)
    other = Rater(house, "berta", "t01")
    stolen = {**rater.op("answer", field=next(iter(rater.fields(1))), value="1"), "item": other.screens[0].item}
    refused, beside = rater.send(stolen, rater.op("open"))
    assert "no such item" in refused["refused"] and refused["wait"] is None
    assert beside["saved"] and count(house, answer) == 0, "what else was sent is taken"
    for path in ("/items/0", "/items/4", "/items/999999999999", "/items/x"):
        assert rater.visitor.open(path).status == 404
    assert rater.visitor.post("/items/4", [("token", rater.token), ("go", "next")]).status == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"operations": []}', b'{"operations": [1]}', b"\xff\xfe"])
def test_bodies_of_another_shape_are_422(house: House, body: bytes) -> None:
    rater = Rater(house)
    headers = {"X-Stillme-Token": rater.token, "Content-Type": "application/json"}
    found = rater.visitor.client.post("/api/operations", content=body, headers=headers)
    assert found.status_code == 422 and found.json()["refused"]
    assert count(house, operation) == 0


@pytest.mark.parametrize(
    "change", [{"id": "short"}, {"kind": "delete"}, {"item": "i\0"}, {"value": "\0"}, {"rev": -1}, {"who": "me"}]
)
def test_an_operation_of_another_shape_is_none(change: dict[str, Any]) -> None:
    sent = {"id": "long-enough", "kind": "open", "item": "i000", "rev": 1}
    assert Operation.model_validate(sent).item == "i000"
    with pytest.raises(ValidationError):
        Operation.model_validate({**sent, **change})


def test_too_much_too_many_and_not_ours(house: House) -> None:
    rater = Rater(house)
    assert rater.post(*[rater.op("away") for _ in range(101)]).status_code == 422
    assert rater.post(*[rater.op("comment", value="x" * 1900) for _ in range(50)]).status_code == 413
    assert rater.post(rater.op("open"), **{"X-Stillme-Token": "wrong"}).status_code == 403
    assert rater.post(rater.op("open"), Origin="https://evil.example").status_code == 403
    assert rater.post(rater.op("open"), **{"Content-Type": "text/plain"}).status_code == 415
    assert rater.visitor.post("/items/1", [("token", "wrong")]).status == 403
    rater.visitor.client.cookies.clear()
    assert rater.post(rater.op("open")).status_code == 401
    assert count(house, operation) == 0


def test_the_minimum_is_the_servers(house: House) -> None:
    rater = Rater(house)
    done = rater.op("done")
    rater.send(rater.op("open"), *rater.all_of(1))
    house.clock.now += 2
    refused = rater.send(done)[0]
    assert refused["wait"] == pytest.approx(3) and "3 more seconds" in refused["refused"]
    assert 'data-left="3.000"' in rater.visitor.open("/items/1").text
    lying = rater.send({**rater.op("done"), "age": 0}, {**rater.op("open", 2), "age": 60_000})
    assert lying[0]["wait"] is not None
    house.clock.now += 3
    answer = rater.post(done).json()
    assert answer == {"results": [{"id": done["id"], "saved": True}], "done": 1, "of": 3}
    rater.send(*rater.all_of(2))
    assert rater.send({**rater.op("done", 2), "age": 0})[0]["wait"] == pytest.approx(5), (
        "counted from the last item"
    )


def test_what_waited_offline_is_dated_back(house: House) -> None:
    """Two items in one go, as a browser sends them that was offline: nobody has to look at them again."""
    rater = Rater(house)
    house.clock.now += 100
    late: list[dict[str, Any]] = []
    for number, age in ((1, 60_000), (2, 50_000)):
        late += [{**one, "age": age} for one in (rater.op("open", number), *rater.all_of(number))]
        late.append({**rater.op("done", number), "age": age - 6_000})
    assert all(one.get("saved") for one in rater.send(*late))
    assert rater.visitor.client.get("/api/progress").json()["done"] == [1, 2]


def test_done_needs_every_answer(house: House) -> None:
    rater = Rater(house)
    house.clock.now += 60
    assert "not opened" in rater.send(rater.op("done"))[0]["refused"]
    rater.send(rater.op("open"), *rater.all_of(1)[:-1])
    house.clock.now += 60
    assert rater.send(rater.op("done"))[0]["refused"] == "1 question is not answered yet."


def test_a_task_by_plain_forms(house: House) -> None:
    """Without scripts: answers are kept whatever the button, and the next page is the next item to do."""
    rater = Rater(house)
    visitor = rater.visitor
    answers = {field: min(values) for field, values in rater.fields(1).items()}
    (first, value), *_ = answers.items()
    page = rater.form(1, **{first: value, "go": "3"})
    assert page.path == "/items/3"
    page = rater.form(1, comment="a\r\nb", go="next")
    assert page.status == 422 and f"{len(answers) - 1} questions are not answered yet." in page.text
    assert page.text.count('class="card missing') == len(answers) - 1, "which ones can be seen"
    page = rater.form(1, **answers, comment="a\r\nb", go="next")
    assert page.status == 409 and "more seconds" in page.text, "too quick, but nothing is lost"
    assert all(any(one.is_set for one in field) for field in page.posts("/items")[0].choices().values())
    house.clock.now += 5
    assert rater.form(1, comment="a\r\nb", go="next").path == "/items/2"
    for number in (3, 2):
        visitor.open(f"/items/{number}")
        filled = {field: min(values) for field, values in rater.fields(number).items()}
        sent = visitor.page.posts("/items")[0].filled()
        house.clock.now += 6
        page = visitor.post(f"/items/{number}", [*sent, *filled.items(), ("go", "next")])
        assert page.status == 200, page.text
    assert page.path == "/items/2" and page.posts("/finish"), "all are done: it can be finished"
    assert visitor.post("/finish", page.posts("/finish")[0].filled()).path == "/debrief"
    kept = house.do(lambda c: c.execute(select(answer.c.field, answer.c.value)).all())
    expected = sum(len(rater.fields(number)) for number in (1, 2, 3))
    written = house.do(lambda c: c.scalars(select(operation.c.kind)).all())
    said = (written.count("answer"), written.count("comment"))
    assert said == (expected, 1), "what did not change was not written again"
    assert len(kept) == expected + 1 and ("comment", "a\nb") in [tuple(row) for row in kept]


def test_a_form_replaces_what_a_script_said_with_any_clock(house: House) -> None:
    rater = Rater(house)
    field = next(iter(rater.fields(1)))
    rater.send(rater.op("open"), rater.op("answer", field=field, value="1", rev=2**52))
    rater.form(1, **{field: "4"}, go="1")
    assert house.do(lambda c: c.scalars(select(answer.c.value)).all()) == ["4"]


@pytest.mark.parametrize(
    "wrong", [{"nothing": "1"}, {"check2": "1"}, {"go": "9"}, {"go": "elsewhere"}, {"comment": "x" * 2001}]
)
def test_a_form_with_what_was_not_asked_is_422(house: House, wrong: dict[str, str]) -> None:
    rater = Rater(house)
    assert rater.form(1, **wrong).status == 422
    rater.form(1, **{next(iter(rater.fields(1))): "99"})
    assert count(house, answer) == 0


def test_finishing_too_early_is_refused_kindly(house: House) -> None:
    rater = Rater(house)
    page = rater.visitor.post("/finish", [("token", rater.token)])
    assert page.status == 409 and "3 items are not done yet" in page.text
    assert house.do(lambda c: c.scalar(select(sitting.c.state))) == "active"


def test_resuming_leads_to_the_first_item_that_is_not_done(house: House) -> None:
    rater = Rater(house)
    assert rater.visitor.open("/items").path == "/items/1"
    rater.send(rater.op("open"), *rater.all_of(1))
    house.clock.now += 5
    rater.send(rater.op("done"))
    assert rater.visitor.open("/items").path == "/items/2"
    assert rater.visitor.client.get("/api/progress").json() == {
        "queue": KEYS.queue(rater.id),
        "token": rater.token,
        "done": [1],
        "of": 3,
    }


def test_who_lost_the_seat_is_told_and_loses_no_answer(house: House) -> None:
    rater = Rater(house)
    rater.send(rater.op("open"), *rater.all_of(1))
    house.do(lambda c: seats.free(c, rater.id, "returned", house.clock()))
    found = rater.post(rater.op("done"))
    assert found.status_code == 409 and found.json()["refused"]
    assert count(house, answer) == len(rater.fields(1)) and count(house, opening) == 1
    assert house.do(lambda c: c.scalar(select(func.count()).where(seat.c.sitting.is_not(None)))) == 0


def test_whoever_was_away_too_long_goes_on_by_answering_while_a_seat_is_free(tmp_path: Path) -> None:
    house = House.of(tmp_path, seats=1)
    try:
        anna = Rater(house)
        house.clock.now += seats.LEASE + 1
        house.do(lambda c: seats.sweep(c, house.clock()))
        assert all(one.get("saved") for one in anna.send(anna.op("open"), *anna.all_of(1)))
        house.clock.now += seats.LEASE + 1
        house.do(lambda c: seats.sweep(c, house.clock()))
        Rater(house, "ben")
        lost = anna.post(anna.op("open", 2))
        assert lost.status_code == 409 and "given to somebody else" in lost.json()["refused"]
    finally:
        house.close()
