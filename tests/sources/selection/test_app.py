"""The selection tool over HTTP, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from stillme.core import images
from stillme.core.errors import SetupError
from stillme.sources.selection.app import make_app
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import Grid
from stillme.sources.selection.store import Candidate, Store
from stillme.web.middleware import Sessions
from tests.sources.selection import shelf

KEY = b"s" * 64
REVIEWERS = ("anna", "ben")
OURS = {"Origin": "http://localhost"}
PAGES = ("/", "/?show=undecided", "/?show=differ", "/all", "/log", "/compare", "/export")


Enter = Callable[[str], TestClient]


@pytest.fixture
def enter(plan: Plan, store: Store) -> Enter:
    app = make_app(plan, store, REVIEWERS, KEY, findings=["Fewer <b>portraits</b> pass."])

    def visit(name: str) -> TestClient:
        client = TestClient(app, "http://localhost", headers=OURS)
        client.get("/enter", params={"key": Sessions(KEY, REVIEWERS).key(name)})
        return client

    return visit


def candidates(store: Store, cell: str) -> list[Candidate]:
    return [one for one in store.candidates() if one.cell == cell]


def act(client: TestClient, **fields: object) -> dict[str, object]:
    answer = client.post("/api/act", json={"op": str(uuid4()), **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def decide(client: TestClient, plan: Plan, store: Store, number: int) -> None:
    for cell in plan.grid.cells:
        key = candidates(store, cell.id)[number - 1].key
        act(client, verb="choose", cell=cell.id, candidate=key, value=True)


def test_every_page_opens_and_none_without_a_session(enter: Enter, plan: Plan, store: Store) -> None:
    one = store.candidates()[0]
    every = (*PAGES, f"/cell/{one.cell}", f"/image/{one.portrait.image}", f"/thumb/{one.portrait.image}?s=192")
    anna = enter("anna")
    outside = TestClient(anna.app, "http://localhost")
    for page in every:
        assert anna.get(page).status_code == 200, page
        assert outside.get(page).status_code == 401, page
    assert "Fewer &lt;b&gt;portraits" in anna.get("/").text


def test_an_action_is_answered_with_the_cell_as_it_stands(enter: Enter, store: Store) -> None:
    one = store.candidates()[0]
    sent = {"op": str(uuid4()), "verb": "choose", "cell": one.cell, "candidate": one.key, "value": True}
    anna = enter("anna")
    first, again = (anna.post("/api/act", json={**sent, "milliseconds": 900}) for _ in range(2))
    assert first.json() == again.json()
    assert first.json()["chosen"] == [one.key] and first.json()["progress"] == "1 of 6 decided"
    assert [a.milliseconds for a in store.actions()] == [900]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cell": "nowhere"}, 404),
        ({"candidate": "nobody"}, 404),
        ({"value": "yes"}, 409),
        ({"value": None}, 409),
        ({"verb": "compare"}, 422),
        ({"op": "1"}, 422),
        ({"reviewer": "ben"}, 422),
        ({"milliseconds": -1}, 422),
        ({"verb": "note", "value": "x" * 2001}, 409),
        ({"verb": "undo"}, 409),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_no_row(
    enter: Enter, store: Store, change: dict[str, object], status: int
) -> None:
    one = store.candidates()[0]
    sent = {"op": str(uuid4()), "verb": "choose", "cell": one.cell, "candidate": one.key, "value": True, **change}
    answer = enter("anna").post("/api/act", json=sent)
    assert answer.status_code == status
    assert answer.json()["refused"].endswith(".")
    assert store.actions() == []


def test_pictures_come_as_they_are_and_only_those_of_the_selection(enter: Enter, store: Store) -> None:
    anna, one = enter("anna"), store.candidates()[0]
    sha256 = one.portrait.image
    whole, small = anna.get(f"/image/{sha256}"), anna.get(f"/thumb/{sha256}?s=96")
    assert whole.content == store.image(sha256) and whole.headers["content-type"] == "image/jpeg"
    assert images.inspect(small.content).width == 96 and "immutable" in small.headers["cache-control"]
    assert "private" in whole.headers["cache-control"]
    for path in (f"/image/{'0' * 64}", "/image/..%2f..%2fsecret", f"/thumb/{sha256}?s=5000", f"/thumb/{sha256}"):
        assert anna.get(path).status_code == 404, path


def form(page: str, verb: str, number: int = 1) -> dict[str, str]:
    """The fields of the nth form of a kind, as a browser without scripts would send them."""
    forms = [f for f in re.findall(r"<form.*?</form>", page, re.S) if f'name="verb" value="{verb}"' in f]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', forms[number - 1]))
    ticked = re.findall(r'<input type="checkbox"[^>]* name="([^"]+)" value="yes"[^>]* checked>', forms[number - 1])
    return {**fields, **dict.fromkeys(ticked, "yes")}


def test_forms_do_the_same_without_a_script(enter: Enter, plan: Plan, store: Store) -> None:
    anna, cell = enter("anna"), plan.grid.cells[0].id
    page = f"/cell/{cell}?show=undecided"
    after = anna.post("/act", data=form(anna.get(page).text, "choose", 2))
    assert str(after.url).endswith(f"/cell/{cell}?show=undecided&saved=1")
    assert "chosen: 2 · pool 2" in after.text and "Saved" in after.text
    anna.post("/act", data={**form(after.text, "note"), "value": "one\r\ntwo"})
    anna.post("/act", data=form(after.text, "flag"))
    boxes = form(after.text, "ticks", 2)
    criterion = plan.protocol.groups.selection_criteria[0].id
    final = anna.post("/act", data={**boxes, f"box-{criterion}": "yes"})
    assert "1 of 6 criteria met" in final.text and "second look" in final.text and "one\ntwo" in final.text
    assert [a.verb.value for a in store.actions()] == ["choose", "note", "flag", "tick"]
    undone = anna.post("/act", data=form(final.text, "undo"))
    assert "1 of 6 criteria met" not in undone.text
    assert len(store.actions()) == 5


def test_a_form_sent_twice_counts_once_and_a_strange_token_never(enter: Enter, plan: Plan, store: Store) -> None:
    anna, ben = enter("anna"), enter("ben")
    fields = form(anna.get(f"/cell/{plan.grid.cells[0].id}").text, "choose")
    for _ in range(2):
        anna.post("/act", data=fields)
    assert len(store.actions()) == 1
    for visitor, token in ((anna, "x"), (ben, fields["token"])):
        answer = visitor.post("/act", data={**fields, "op": str(uuid4()), "token": token})
        assert answer.status_code == 403
    assert len(store.actions()) == 1


def test_moving_follows_the_filter(enter: Enter, plan: Plan, store: Store) -> None:
    anna, cells = enter("anna"), [cell.id for cell in plan.grid.cells]
    act(anna, verb="choose", cell=cells[1], candidate=candidates(store, cells[1])[0].key, value=True)

    def go(to: str, show: str = "all") -> str:
        answer = anna.get("/go", params={"from": cells[0], "to": to, "show": show}, follow_redirects=False)
        return answer.headers["location"]

    assert go("next") == f"/cell/{cells[1]}?show=all"
    assert go("next", "undecided") == f"/cell/{cells[2]}?show=undecided"
    assert go("undecided") == f"/cell/{cells[2]}?show=all"
    assert go("previous") == f"/cell/{cells[-1]}?show=all"
    assert go("next", "second-look") == "/?show=second-look"
    assert anna.get("/go", params={"from": "nowhere"}).status_code == 404


def test_a_reviewer_sees_nothing_of_the_other_before_both_are_done(enter: Enter, plan: Plan, store: Store) -> None:
    anna, ben = enter("anna"), enter("ben")
    pages = (*PAGES, *(f"/cell/{cell.id}" for cell in plan.grid.cells))

    def seen(client: TestClient) -> list[str]:
        return [re.sub(r'name="op" value="[^"]+"', "", client.get(page).text) for page in pages]

    before = seen(ben)
    decide(anna, plan, store, 2)
    act(anna, verb="note", cell=plan.grid.cells[0].id, value="anna was here")
    act(anna, verb="flag", cell=plan.grid.cells[0].id, value=True)
    assert seen(ben) == before, "what the other did changes not a byte"
    refused = ben.post("/compare", data={"token": Sessions(KEY, REVIEWERS).token("ben"), "op": str(uuid4())})
    assert refused.status_code == 409
    assert seen(ben) == before
    answer = act(ben, verb="flag", cell=plan.grid.cells[0].id, value=True)
    assert answer["chosen"] == [] and answer["note"] == "" and answer["progress"] == "0 of 6 decided"


def test_two_reviewers_who_are_done_end_the_blindness_by_a_deed(enter: Enter, plan: Plan, store: Store) -> None:
    anna, ben = enter("anna"), enter("ben")
    decide(anna, plan, store, 2)
    decide(ben, plan, store, 2)
    cell = plan.grid.cells[0].id
    act(ben, verb="choose", cell=cell, candidate=candidates(store, cell)[0].key, value=True)
    asking = ben.get("/compare").text
    assert "ends the blindness" in asking and "chosen: 2" not in ben.get(f"/cell/{cell}").text
    fields = dict(re.findall(r'name="(token|op)" value="([^"]+)"', asking))
    shown = ben.post("/compare", data=fields).text
    row = re.search(r'<tr id="choices">.*?</tr>', shown)
    assert row and re.findall(r'<td class="n">([^<]*)</td>', row[0])[:3] == ["6", "83 %", "0.00"]
    assert "1 cell differs now" in shown
    assert "anna: chosen: 2" in ben.get(f"/cell/{cell}").text
    assert "reviewers differ (1)" in anna.get("/").text


def test_a_full_disk_is_said_and_nothing_is_shown_as_done(
    enter: Enter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, one = enter("anna"), store.candidates()[0]

    def full(action: object) -> None:
        raise SetupError("The disk is full.", "Free some space.")

    monkeypatch.setattr(store, "add_action", full)
    sent = {"op": str(uuid4()), "verb": "choose", "cell": one.cell, "candidate": one.key, "value": True}
    answer = anna.post("/api/act", json=sent)
    assert answer.status_code == 503 and "disk is full" in answer.json()["refused"]
    monkeypatch.undo()
    assert "undecided" in anna.get(f"/cell/{one.cell}").text and "1 of 6" not in anna.get("/").text


def test_several_a_cell_and_a_cell_without_candidates_are_shown(tmp_path: Path) -> None:
    plan = shelf.make_plan(tmp_path, shelf.FEW, pools=2, per_cell=2)
    with Store.open_for_writing(plan.folder) as store:
        shelf.fill(plan, store, per_pool=2, without=[(n, plan.grid.cells[0].id) for n in (1, 2)])
        client = TestClient(make_app(plan, store, ["anna"], KEY), "http://localhost", headers=OURS)
        client.get("/enter", params={"key": Sessions(KEY, ["anna"]).key("anna")})
        page = client.get("/").text
        assert "0 of 2 chosen" in page and "no candidate" in page and 'href="/compare"' not in page
        assert "nothing to choose" in client.get(f"/cell/{plan.grid.cells[0].id}").text


def test_a_grid_of_one_axis_is_one_row(plan: Plan, store: Store) -> None:
    axis = list(plan.grid.axes)[-1]
    narrow = replace(plan, grid=Grid({axis: plan.grid.axes[axis]}))
    client = TestClient(make_app(narrow, store, ["anna"], KEY), "http://localhost", headers=OURS)
    client.get("/enter", params={"key": Sessions(KEY, ["anna"]).key("anna")})
    page = client.get("/").text
    assert page.count("<tr>") == 2 + 1 + 3 and "0 of 0 decided, 3 without a candidate" in page
