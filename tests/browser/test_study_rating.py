"""The evaluation page in real Chromium: by keyboard, offline, in two tabs, through crashes; every answer once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stillme.study.bundle import OUTPUTS, Checks
from stillme.study.db import seats
from stillme.study.db.tables import opening, sitting
from tests.browser.conftest import CHROMIUM, IN_CHROMIUM, Open, expect, press, violations
from tests.browser.desk import Desk
from tests.study import bundles

pytestmark = IN_CHROMIUM
QUICK = ("pair", "side_by_side")
LAYOUTS = [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in OUTPUTS]
SCREEN = {"width": 1280, "height": 720}
Start = Callable[..., Desk]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a study of one task."""
    started: list[Desk] = []

    def begin(**changes: Any) -> Desk:
        folder = tmp_path / f"bundle{len(started)}"
        bundles.write(
            folder, **{"items": 5, "tasks": 1, "seats": 8, "minimum_seconds_item": 0, "side": 256, **changes}
        )
        started.append(Desk(folder).start())
        return started[-1]

    yield begin
    for desk in started:
        desk.stop()


NO_CHECKS = Checks(count=(0, 0), pass_share=0.8)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Desk]]:
    """A study of a layout, without checks, for tests that are each somebody else in it."""
    desks: dict[str, Desk] = {}

    def of(layout: str) -> Desk:
        if layout not in desks:
            folder = tmp_path_factory.mktemp(layout) / "bundle"
            bundles.write(folder, layout=layout, items=3, tasks=1, seats=30, side=256, checks=NO_CHECKS)
            desks[layout] = Desk(folder).start()
        return desks[layout]

    yield of
    for desk in desks.values():
        desk.stop()


@pytest.fixture
def pair(shared: Callable[[str], Desk]) -> Desk:
    return shared("pair")


@pytest.fixture
def each(shared: Callable[[str], Desk]) -> Desk:
    return shared("side_by_side")


def sit(context: Any, desk: Desk, name: str) -> Any:
    context.add_cookies([desk.cookie(name)])
    return visit(context.new_page(), desk)


def visit(page: Any, desk: Desk, path: str = "/items") -> Any:
    page.goto(f"{desk.origin}{path}")
    ready(page)
    return page


def ready(page: Any) -> None:
    """The item is there, its pictures decoded, its questions open."""
    item = page.locator("main").get_attribute("data-item")
    page.wait_for_selector(f"body[data-ready={item}]")


def at(page: Any, number: int) -> None:
    """Waits for an item."""
    page.wait_for_selector(f"main[data-number='{number}']")
    ready(page)


def item(page: Any) -> str:
    return str(page.locator("main").get_attribute("data-item"))


def cards(page: Any) -> int:
    return int(page.locator("fieldset.card").count())


def state(page: Any, text: str) -> None:
    expect(page.locator("#state")).to_contain_text(text)


def saved(page: Any) -> None:
    state(page, "All answers saved")


def shown(page: Any) -> dict[tuple[str, str], str]:
    """(item, field) -> value, of what is ticked on the page."""
    found = page.eval_on_selector_all(
        "fieldset.card input:checked", "all => all.map(one => [one.name, one.value])"
    )
    return {(item(page), name): value for name, value in found}


def rate(page: Any, keys: str = "12345") -> dict[tuple[str, str], str]:
    """Answers every question of the item by keys; what it shows then."""
    for place in range(cards(page)):
        page.keyboard.press(keys[place % len(keys)])
    expect(page.locator("#lacking")).not_to_contain_text("left")
    return shown(page)


def exactly_once(desk: Desk, name: str, expected: dict[tuple[str, str], str]) -> None:
    """The study has these answers of somebody, and took each of them once."""
    assert desk.answers(name) == expected
    taken = [(row.item, row.field, row.value) for row in desk.operations(name) if row.kind == "answer"]
    assert sorted(taken) == sorted((item, field, value) for (item, field), value in expected.items())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_task_by_keyboard_alone(
    shared: Callable[[str], Desk], open_context: Open, axe: str, layout: str
) -> None:
    desk = shared(layout)
    page = sit(open_context(viewport=SCREEN), desk, "key")
    given: dict[tuple[str, str], str] = {}
    for number in (1, 2, 3):
        at(page, number)
        assert page.evaluate("document.activeElement.closest('fieldset.card') !== null"), "ready to be answered"
        given |= rate(page, "2413" if layout == "triplet" else "25413")
        box = page.locator(".surround").first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 720, "the pictures stay in sight"
        if number == 2:
            assert violations(page, axe, ["dark" if layout == "pair" else "light"]) == []
        page.keyboard.press("Enter")
    expect(page.locator("#finish")).to_be_focused()
    expect(page.locator("#count")).to_have_text("(3 done)")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{desk.origin}/debrief")
    exactly_once(desk, "key", given)
    assert desk.sitting("key").state == "complete"
    times = [row.ms for row in desk.operations("key") if row.kind == "answer"]
    assert all(isinstance(ms, int) and ms >= 0 for ms in times)


def test_keys_move_choose_and_can_be_turned_off(pair: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, pair, "kim")
    first, second, third = (page.locator("fieldset.card").nth(n) for n in range(3))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("4")
    expect(second.locator("input").nth(3)).to_be_checked()
    expect(first.locator("input:checked")).to_have_count(0)
    page.keyboard.press("c")
    expect(third.locator(".cannot input")).to_be_checked()
    page.keyboard.press("0")
    expect(first.locator("input:checked")).to_have_count(0)  # this question does not offer it
    page.keyboard.press("Enter")
    at(page, 1)
    expect(page.locator("#told")).to_have_text("1 question is not answered yet.")
    page.locator("#comment").focus()
    page.keyboard.type("a 3 n z g 1?")
    expect(first.locator("input:checked")).to_have_count(0)
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("Escape")
    page.locator("#keys").press("Space")
    first.locator("input").first.focus()
    press(page, "3", "z", "g", "n")
    expect(first.locator("input:checked")).to_have_count(0)
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("Space")
    expect(first.locator("input").first).to_be_checked()
    saved(page)
    visit(page, pair)
    expect(page.locator("#keys")).not_to_be_checked()
    expect(page.locator("#comment")).to_have_value("a 3 n z g 1?")
    assert ("comment" in {field for _, field in pair.answers("kim")}) and len(pair.answers("kim")) == 4


def test_a_key_that_is_held_answers_once(each: Desk, open_context: Open) -> None:
    page = sit(open_context(), each, "hal")
    for _ in range(5):
        page.keyboard.down("3")
    page.keyboard.up("3")
    expect(page.locator("fieldset.card input:checked")).to_have_count(1)
    for _ in range(2):
        page.keyboard.down("ArrowDown")
    page.keyboard.up("ArrowDown")
    page.keyboard.press("4")
    expect(page.locator("fieldset.card").nth(3).locator("input").nth(3)).to_be_checked()
    expect(page.locator("fieldset.card input:checked")).to_have_count(2)


@pytest.mark.slow
def test_pictures_zoom_together_and_guidelines_are_one_key_away(each: Desk, open_context: Open, axe: str) -> None:
    page = sit(open_context(viewport=SCREEN), each, "lee")
    held = page.evaluate("document.activeElement.name + document.activeElement.value")
    sizes = page.eval_on_selector_all("main img", "all => all.map(i => [i.clientWidth, i.clientHeight])")
    page.keyboard.press("z")
    large = page.eval_on_selector_all(
        "#zoom img", "all => all.map(i => [i.clientWidth, i.clientHeight, i.naturalWidth])"
    )
    assert len(large) == 3 and all(one[2] == 256 for one in large)
    assert min(one[1] for one in large) > max(size[1] for size in sizes)
    assert violations(page, axe, ["light"]) == []
    page.keyboard.press("Escape")
    expect(page.locator("#zoom")).to_be_hidden()
    assert page.evaluate("document.activeElement.name + document.activeElement.value") == held
    page.locator("main img").last.click()
    expect(page.locator("#zoom")).to_be_visible()
    page.keyboard.press("z")
    expect(page.locator("#zoom")).to_be_hidden()
    for key in ("g", "?"):
        page.keyboard.press(key)
        expect(page.locator("#panel")).to_be_visible()
        expect(page.get_by_text("Compare the two images.").first).to_be_in_viewport()
        press(page, "3", "Escape")
    press(page, "g")
    assert violations(page, axe, ["light"]) == []
    press(page, "Escape")
    assert shown(page) == {}, "keys do not answer behind a dialog"


def test_pictures_are_whole_equal_and_undistorted(each: Desk, open_context: Open) -> None:
    page = sit(open_context(viewport=SCREEN), each, "max")
    page.locator("#strip button").nth(1).click()
    at(page, 2)
    boxes = page.eval_on_selector_all(
        "main img",
        """all => all.map(i => ({fit: getComputedStyle(i).objectFit, side: Math.min(i.clientWidth, i.clientHeight)}))""",
    )
    assert {box["fit"] for box in boxes} == {"contain"} and len({box["side"] for box in boxes}) == 1
    assert not page.locator(".small-screen").is_visible()
    page.set_viewport_size({"width": 1000, "height": 720})
    assert page.locator(".small-screen").is_visible(), "a small window is told so"


def test_the_minimum_is_counted_down_and_the_server_agrees(start: Start, open_context: Open) -> None:
    """A minute, which page and study are told has passed: however long the test takes, it is not over before."""
    desk = start(layout="pair", items=2, minimum_seconds_item=60)
    context = open_context()
    context.clock.install()
    page = sit(context, desk, "anna")
    given = rate(page)
    expect(page.locator("#next")).to_contain_text(re.compile(r"Next in \d+ s"))
    expect(page.locator("#next")).to_be_disabled()
    page.keyboard.press("n")
    expect(page.locator("#told")).to_contain_text("more seconds")
    assert page.locator("main").get_attribute("data-number") == "1"
    saved(page)
    desk.do(lambda c: c.execute(opening.update().values(opened=opening.c.opened - 61)))
    desk.do(lambda c: c.execute(sitting.update().values(clock=sitting.c.clock - 61)))
    page.clock.fast_forward(61_000)
    expect(page.locator("#told")).to_have_text("You can go on now.")
    page.keyboard.press("n")
    at(page, 2)
    saved(page)
    assert desk.done("anna") == {next(iter(given))[0]}
    assert [row for row in desk.operations("anna") if row.refused] == []


@pytest.mark.slow
def test_two_minutes_offline_then_closed_then_restarted(start: Start, tmp_path: Path, browser: Any) -> None:
    """Answering goes on into items that were fetched before; the tab and the browser are closed; nothing is lost."""
    desk = start(layout="side_by_side", items=6, minimum_seconds_item=1)
    profile = tmp_path / "profile"
    options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"], "viewport": SCREEN}
    launch = browser.browser_type.launch_persistent_context
    context = launch(profile, **options)
    context.add_cookies([{**desk.cookie("anna"), "expires": time.time() + 3600}])
    page = context.new_page()
    page.clock.install()
    visit(page, desk)
    given = rate(page)
    saved(page)
    page.wait_for_load_state("networkidle")  # the next items are on their way
    context.set_offline(True)
    for number in (2, 3, 4):
        expect(page.locator("#next")).to_be_enabled()
        page.keyboard.press("n")
        at(page, number)
        given |= rate(page, "54321")
        if number == 2:
            page.clock.fast_forward(120_000)
            state(page, "You are offline: ")
    expect(page.locator("#state")).to_contain_text(re.compile(r"\d+ answers are kept on this computer"))
    assert len(desk.answers("anna")) < len(given)
    page.close()
    context.close()

    context = launch(profile, **options)
    page = context.new_page()
    page.clock.install(time=datetime.now() + timedelta(seconds=125))
    visit(page, desk)
    saved(page)
    exactly_once(desk, "anna", given)
    assert len(desk.done("anna")) == 3
    page.reload()
    ready(page)
    saved(page)
    exactly_once(desk, "anna", given)
    context.close()


@pytest.mark.slow
def test_a_tab_that_closes_in_the_moment_of_an_answer_loses_nothing(pair: Desk, open_context: Open) -> None:
    """Answers are noted down in the very step in which they are given, not when the browser finds the time."""
    context = open_context()
    page = sit(context, pair, "uma")
    given: dict[tuple[str, str], str] = {}
    for keys in ("12", "45"):
        context.set_offline(True)
        asked = page.evaluate(
            """keys => {
                for (const key of keys) document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                const shown = [...document.querySelectorAll("fieldset.card input:checked")].map(one => [one.name, one.value]);
                window.close();
                return [document.querySelector("main").dataset.item, shown];
            }""",
            keys,
        )
        given |= {(asked[0], name): value for name, value in asked[1]}
        page.close()
        context.set_offline(False)
        page = visit(context.new_page(), pair)
        saved(page)
        assert shown(page) == given
    assert len(given) == 3, "three questions, the first of which are answered twice"
    assert pair.answers("uma") == given


def test_an_answer_that_was_not_put_away_when_its_tab_closed_is_sent(pair: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, pair, "ulf")
    page.evaluate("() => { IDBObjectStore.prototype.put = () => { throw new Error('the tab closes'); }; }")
    context.set_offline(True)
    page.keyboard.press("2")
    page.close()
    context.set_offline(False)
    saved(visit(context.new_page(), pair))
    assert list(pair.answers("ulf").values()) == ["2"]


def test_a_short_cut_in_the_network_is_said_and_mended(each: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, each, "noa")
    page.wait_for_load_state("networkidle")
    context.set_offline(True)
    given = rate(page)
    state(page, f"You are offline: {len(given)} answers are kept on this computer and will be sent")
    page.keyboard.press("Enter")
    at(page, 2)
    context.set_offline(False)
    saved(page)
    expect(page.locator("#told")).to_have_text("All answers saved")
    exactly_once(each, "noa", given)


@pytest.mark.slow
def test_two_tabs_see_each_other_and_send_once(pair: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, pair, "ola")
    other = visit(context.new_page(), pair)
    page.bring_to_front()
    given = rate(page, "234")
    expect(other.locator("fieldset.card input:checked")).to_have_count(3)
    assert shown(other) == given
    page.keyboard.press("Enter")
    expect(other.locator("#count")).to_have_text("(1 done)")
    context.set_offline(True)
    at(page, 2)
    given |= rate(page, "345")
    other.locator("#strip button").nth(2).click()
    at(other, 3)
    other.bring_to_front()
    given |= rate(other, "543")
    page.close()
    context.set_offline(False)
    saved(other)
    exactly_once(pair, "ola", given)


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing(start: Start, open_context: Open) -> None:
    desk = start(items=4)
    page = sit(open_context(), desk, "anna")
    given = rate(page)
    saved(page)
    page.wait_for_load_state("networkidle")
    desk.kill()
    page.keyboard.press("Enter")
    at(page, 2)
    given |= rate(page, "13524")
    state(page, "The study does not answer")
    page.locator("#exit").evaluate("one => one.blur()")
    desk.start()
    saved(page)
    exactly_once(desk, "anna", given)
    assert len(desk.done("anna")) == 1


def test_a_refused_answer_is_loud_until_it_is_given_again(pair: Desk, open_context: Open) -> None:
    page = sit(open_context(), pair, "pia")
    first = page.locator("fieldset.card").first
    first.locator("input").first.evaluate("one => { one.value = '77'; }")
    page.keyboard.press("1")
    alert = page.locator("#alerts")
    expect(alert).to_contain_text("was not saved")
    expect(first).to_contain_text("Not saved: This is not one of the answers to the question.")
    expect(first.locator("input:checked")).to_have_count(0)
    state(page, "1 entry was not saved")
    page.keyboard.press("3")
    expect(page.locator("#lacking")).to_have_text("2 questions left")
    visit(page, pair)
    expect(alert).to_contain_text("was not saved")
    page.locator("fieldset.card").first.locator("input").nth(1).check()
    expect(alert).to_be_empty()
    saved(page)
    visit(page, pair)
    expect(alert).to_be_empty()
    assert sorted(pair.answers("pia").values()) == ["2", "3"]


@pytest.mark.slow
def test_a_session_that_ended_is_loud_and_entering_again_sends(each: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, each, "ria")
    context.clear_cookies()
    page.keyboard.press("2")
    expect(page.locator("#alerts")).to_contain_text("Your session has ended")
    expect(page.locator("#alerts")).to_contain_text("1 answer is kept on this computer")
    context.add_cookies([each.cookie("berta")])  # somebody else on the same computer
    other = visit(context.new_page(), each)
    saved(other)
    assert each.answers("ria") == {}, "nobody sends somebody else's answers"
    other.close()
    context.add_cookies([each.cookie("ria")])
    again = visit(context.new_page(), each)
    saved(again)
    expect(again.locator("fieldset.card input:checked")).to_have_count(1)
    assert list(each.answers("ria").values()) == ["2"]
    expect(page.locator("#alerts")).to_be_empty()


def test_a_seat_that_was_given_back_is_said(each: Desk, open_context: Open) -> None:
    page = sit(open_context(), each, "sam")
    sat = each.sitting("sam").id
    each.do(lambda c: seats.free(c, sat, "returned", time.time()))
    page.keyboard.press("2")
    expect(page.locator("#alerts")).to_contain_text("Not saved.")
    expect(page.locator("#alerts")).to_contain_text("1 answer is kept on this computer")


def test_a_picture_that_does_not_load_is_said_and_blocks(pair: Desk, open_context: Open) -> None:
    context = open_context()
    broken = {"on": True}
    edited = {f"/images/{one.outputs[0].image.sha256}" for one in pair.bundle.items}

    def serve(route: Any) -> None:
        is_edited = urlsplit(route.request.url).path in edited
        route.abort() if broken["on"] and is_edited else route.continue_()

    context.route("**/images/*", serve)
    context.add_cookies([pair.cookie("pat")])
    page = context.new_page()
    page.goto(f"{pair.origin}/items")
    alert = page.locator("figure [role=alert]")
    expect(alert).to_contain_text("The picture “Edited image” did not load")
    page.keyboard.press("1")
    expect(page.locator("fieldset.card input").first).to_be_disabled()
    expect(page.locator("#lacking")).to_have_text("A picture is missing")
    alert.get_by_role("button").click()
    expect(alert).to_be_visible()
    assert [row for row in pair.operations("pat") if row.kind in ("open", "answer")] == [], "time has not started"
    broken["on"] = False
    alert.get_by_role("button").click()
    ready(page)
    expect(alert).to_have_count(0)
    given = rate(page)
    saved(page)
    exactly_once(pair, "pat", given)


def test_looking_away_is_counted(each: Desk, open_context: Open) -> None:
    context = open_context()
    context.clock.install()
    page = sit(context, each, "tom")
    page.clock.pause_at(time.time() + 60)
    page.evaluate("dispatchEvent(new Event('blur'))")
    page.clock.fast_forward(1300)
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.evaluate("dispatchEvent(new Event('blur'))")
    page.clock.fast_forward(900)
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.clock.resume()
    saved(page)
    row = each.sitting("tom")
    assert (row.away, row.away_seconds) == (1, 1.3), "a moment is not counted"


def test_finishing_waits_for_the_last_answer(pair: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, pair, "fay")
    page.wait_for_load_state("networkidle")  # the next items are there
    context.set_offline(True)
    given: dict[tuple[str, str], str] = {}
    for number in (1, 2, 3):
        at(page, number)
        given |= rate(page)
        page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("#alerts")).to_contain_text("can be finished once everything is saved")
    assert page.url.startswith(f"{pair.origin}/items")
    context.set_offline(False)
    page.wait_for_url(f"{pair.origin}/debrief")
    exactly_once(pair, "fay", given)


@pytest.mark.slow
def test_history_leads_back_and_nothing_personal_is_kept(each: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, each, "val")
    given = rate(page)
    page.keyboard.press("n")
    at(page, 2)
    page.go_back()
    at(page, 1)
    assert shown(page) == given
    page.go_forward()
    at(page, 2)
    page.keyboard.press("p")
    at(page, 1)
    kept = json.dumps([page.evaluate("({...localStorage})"), page.content()])
    assert "val" not in kept.replace("value", "")


@pytest.mark.slow
def test_any_page_of_the_study_sends_what_waits(each: Desk, open_context: Open) -> None:
    context = open_context()
    page = sit(context, each, "wim")
    context.set_offline(True)
    given = rate(page)
    state(page, "You are offline")
    page.close()
    context.set_offline(False)
    other = context.new_page()
    with other.expect_response("**/api/operations"):
        other.goto(f"{each.origin}/leave")
    exactly_once(each, "wim", given)
