"""The selection tool in real Chromium: by keyboard alone, through crashes, blind, and for everybody."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from stillme.sources.selection.action_log import Verb, fold
from stillme.sources.selection.store import Store
from tests.browser.conftest import IN_CHROMIUM, Open, expect, focus, is_wide, press, small, violations
from tests.browser.serving import ROOT, Tool
from tests.sources.selection import shelf

pytestmark = IN_CHROMIUM

Start = Callable[..., Tool]
PAGES = ("/", "/?show=undecided", "/?show=second-look", "/all", "/log", "/compare", "/export")


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six cells with three candidates each; the second of the first cell fails a criterion, the third was unread."""
    folder = tmp_path_factory.mktemp("shelves")
    plan = Tool(folder).plan
    first, criterion = plan.grid.cells[0].id, plan.protocol.groups.selection_criteria[1].id
    with Store.open_for_writing(plan.folder) as store:
        shelf.fill(plan, store)
        shelf.screen_all(plan, store, {f"{first}/2-1.jpg": [criterion]}, unread=[f"{first}/3-1.jpg"])
    return folder


@pytest.fixture
def start(shelves: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the tool over a copy of the shelves."""
    started: list[Tool] = []

    def begin(*reviewers: str) -> Tool:
        shutil.copytree(shelves, tmp_path / "copy")
        started.append(Tool(tmp_path / "copy", reviewers=reviewers or ("anna",)).start())
        return started[-1]

    yield begin
    for tool in started:
        tool.kill()


@pytest.fixture(scope="module")
def shown(shelves: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """The same for tests that only look."""
    tool = Tool(Path(shutil.copytree(shelves, tmp_path_factory.mktemp("shown") / "copy"))).start()
    yield tool
    tool.kill()


def enter(context: Any, tool: Tool, name: str = "anna") -> Any:
    page = context.new_page()
    page.goto(tool.links[name])
    assert page.url == f"{tool.base}/", "the key is no longer in the address"
    return page


def visit(page: Any, tool: Tool, place: int = 0, show: str = "all") -> str:
    cell = tool.plan.grid.cells[place].id
    page.goto(f"{tool.base}/cell/{cell}?show={show}")
    ready(page)
    return cell


def ready(page: Any) -> None:
    page.wait_for_selector("body[data-ready=yes]")


def saved(page: Any, text: str = "") -> None:
    expect(page.locator("#status")).to_have_class(re.compile("saved"))
    if text:
        expect(page.locator("#status")).to_contain_text(text)


def stored(tool: Tool, name: str = "anna") -> Any:
    with Store.open_readonly(tool.plan.folder) as store:
        return fold(store.actions(), name)


def actions(tool: Tool) -> list[Any]:
    with Store.open_readonly(tool.plan.folder) as store:
        return store.actions()


def numbers(tool: Tool, name: str = "anna") -> dict[str, list[int]]:
    """Cell -> the pools chosen there, as stored."""
    with Store.open_readonly(tool.plan.folder) as store:
        pools = {one.key: one.pool for one in store.candidates()}
    return {cell: [pools[key] for key in keys] for cell, keys in stored(tool, name).chosen.items() if keys}


def test_choosing_by_keyboard_alone(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    cells = [cell.id for cell in tool.plan.grid.cells]
    page.keyboard.press("Tab")  # the skip link
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.tile')"):
            break
    page.keyboard.press("Enter")
    for place, key in enumerate("231"):
        page.wait_for_url(f"**/cell/{cells[place]}?show=all")
        ready(page)
        press(page, key)
        saved(page, f"chosen: {key} · pool {key}")
        press(page, "n")
    page.wait_for_url(f"**/cell/{cells[3]}?show=all")
    assert numbers(tool) == {cells[0]: [2], cells[1]: [3], cells[2]: [1]}
    assert [a.milliseconds is not None and a.milliseconds >= 0 for a in actions(tool)] == [True] * 3
    ready(page)
    press(page, "p")
    page.wait_for_url(f"**/cell/{cells[2]}?show=all")
    ready(page)
    press(page, "1")
    saved(page, "undecided")
    press(page, "u")
    expect(page.locator(".card.chosen .top")).to_contain_text("1 · pool 1")
    press(page, "g")
    page.wait_for_url("**/?show=all")
    assert "3 of 6 decided" in page.inner_text("h1")
    assert page.locator(".figures tbody td:nth-child(3)").all_inner_texts() == ["1", "1", "1"]


@pytest.mark.slow
def test_undo_goes_to_the_cell_concerned(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    first = visit(page, tool)
    press(page, "3")
    saved(page)
    visit(page, tool, 4)
    press(page, "u")
    page.wait_for_url(f"**/cell/{first}?show=all")
    ready(page)
    assert page.locator(".card.chosen").count() == 0 and stored(tool).chosen[first] == ()
    assert page.locator("#undo").is_disabled()
    press(page, "u")
    expect(page.locator("#status")).to_contain_text("nothing to take back")


@pytest.mark.slow
def test_notes_flags_and_ticks_and_keys_that_are_typed(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    cell = visit(page, tool)
    press(page, "m")
    page.keyboard.type("glasses 123 n u")
    assert page.url.endswith(f"/cell/{cell}?show=all")
    press(page, "Escape")
    saved(page)
    press(page, "f")
    expect(page.locator("#flag")).to_have_attribute("aria-pressed", "true")
    assert stored(tool).notes[cell] == "glasses 123 n u" and stored(tool).flagged[cell]
    assert stored(tool).chosen == {}, "digits in a note choose nobody"
    criterion = tool.plan.protocol.groups.selection_criteria[1]
    assert not page.is_checked(f"#c2-{criterion.id}")
    press(page, "2")
    expect(page.locator("#marks")).to_contain_text(f"fails: {criterion.label.lower()}")
    page.focus(f"#c2-{criterion.id}")
    expect(page.locator(f"#c2-{criterion.id}-why")).to_be_visible()
    assert "at least" in page.inner_text(f"#c2-{criterion.id}-why")
    press(page, "Escape")
    expect(page.locator(f"#c2-{criterion.id}-why")).to_be_hidden()
    press(page, "Space")
    saved(page)
    expect(page.locator("#marks")).not_to_contain_text("fails")
    expect(page.locator(".card").nth(1)).to_contain_text("by you")
    assert "6 not measured" in page.locator(".card").nth(2).inner_text()
    page.reload()
    ready(page)
    assert page.is_checked(f"#c2-{criterion.id}") and page.input_value("#note") == "glasses 123 n u"


@pytest.mark.slow
def test_filters_carry_through_moving(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    cells = [cell.id for cell in tool.plan.grid.cells]
    for place in (1, 3):
        visit(page, tool, place)
        press(page, "f")
        expect(page.locator("#flag")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{tool.base}/?show=second-look")
    assert page.locator(".tile").count() == 2
    page.locator(".tile").first.click()
    page.wait_for_url(f"**/cell/{cells[1]}?show=second-look")
    ready(page)
    press(page, "n")
    page.wait_for_url(f"**/cell/{cells[3]}?show=second-look")
    ready(page)
    press(page, "n")
    page.wait_for_url(f"**/cell/{cells[1]}?show=second-look")


@pytest.mark.slow
def test_criteria_hide_and_single_keys_can_be_turned_off(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    visit(page, tool)
    press(page, "c")
    expect(page.locator(".criteria").first).to_be_hidden()
    page.reload()
    ready(page)
    expect(page.locator(".criteria").first).to_be_hidden()
    press(page, "c")
    press(page, "?")
    expect(page.locator("#help")).to_be_visible()
    page.uncheck("#keys-on")
    page.click("#close-help")
    press(page, "1", "f", "c")
    page.reload()
    ready(page)
    press(page, "1")
    expect(page.locator(".criteria").first).to_be_visible()
    page.locator(".choose").nth(1).click()
    saved(page, "chosen: 2")
    assert len(actions(tool)) == 1, "the button works, the keys did nothing"


def test_what_was_acknowledged_survives_a_kill_and_what_was_not_is_kept_and_delivered_once(
    open_context: Open, start: Start
) -> None:
    tool = start()
    page = enter(open_context(), tool)
    other = visit(page, tool, 1)
    press(page, "2")
    saved(page)
    cell = visit(page, tool)
    tool.end(signal.SIGKILL)
    assert numbers(tool) == {other: [2]}
    press(page, "1", "3")
    status = page.locator("#status")
    expect(status).to_have_class(re.compile("failing"))
    expect(status).to_contain_text("Not saved.")
    expect(status).to_contain_text("2 actions are kept in this browser")
    assert page.locator(".card.chosen").count() == 0, "nothing is shown as chosen before the server has it"
    assert page.locator(".card.pending").count() == 2
    press(page, "n")
    assert page.url.endswith(f"/cell/{cell}?show=all"), "no page is left with actions unsent"
    tool.start()
    saved(page, "chosen: 3")
    assert page.locator(".card.pending").count() == 0
    assert numbers(tool) == {other: [2], cell: [3]} and len(actions(tool)) == 3
    visit(page, tool, 1)
    expect(page.locator(".card.chosen .top")).to_contain_text("2 · pool 2")


@pytest.mark.slow
def test_unsent_actions_survive_the_tab(open_context: Open, start: Start) -> None:
    tool = start()
    context = open_context()
    page = enter(context, tool)
    cell = visit(page, tool)
    tool.end(signal.SIGKILL)
    press(page, "1")
    expect(page.locator("#status")).to_contain_text("1 action is kept")
    page.close()
    tool.start()
    page = context.new_page()
    page.goto(f"{tool.base}/log")
    saved(page)
    assert numbers(tool) == {cell: [1]} and len(actions(tool)) == 1


@pytest.mark.slow
def test_an_answer_that_was_lost_is_asked_for_again_and_counts_once(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(), tool)
    cell = visit(page, tool)
    lost: list[int] = []

    def lose(route: Any) -> None:
        route.fetch()
        lost.append(1)
        route.abort()

    page.route("**/api/act", lose, times=1)
    press(page, "2")
    expect(page.locator("#status")).to_have_class(re.compile("failing"))
    saved(page, "chosen: 2")
    assert lost == [1] and len(actions(tool)) == 1 and numbers(tool) == {cell: [2]}


@pytest.mark.slow
def test_two_reviewers_are_blind_until_both_are_done(open_context: Open, start: Start) -> None:
    tool = start("anna", "ben")
    anna, ben = (enter(open_context(), tool, name) for name in ("anna", "ben"))
    for page, keys in ((anna, "123123"), (ben, "123111")):
        assert page.goto(f"{tool.base}/compare").ok
        assert page.locator("#confirm").count() == 0
        for place, key in enumerate(keys):
            visit(page, tool, place)
            assert page.locator(".card.chosen").count() == 0
            press(page, key)
            saved(page)
    anna.goto(f"{tool.base}/compare")
    assert "ends the blindness" in anna.inner_text("main")
    anna.click("#confirm")
    expect(anna.locator("#choices")).to_contain_text("67 %")
    assert anna.locator("#choices td").all_inner_texts()[:3] == ["6", "67 %", "0.50"]
    assert anna.locator(".pairs li").count() == 2
    boxes = anna.evaluate("[...document.querySelectorAll('.pair img')].map(i => [i.clientWidth, i.clientHeight])")
    assert len({tuple(box) for box in boxes}) == 1
    anna.locator(".pairs a").first.click()
    ready(anna)
    assert "ben: chosen: 1" in anna.inner_text("main")
    press(anna, "1")
    saved(anna)
    ben.goto(f"{tool.base}/?show=differ")
    assert ben.locator(".tile").count() == 1
    assert [a.verb for a in actions(tool)].count(Verb.COMPARE) == 1


@pytest.mark.slow
def test_without_scripts_forms_do_it(open_context: Open, start: Start) -> None:
    tool = start()
    page = enter(open_context(java_script_enabled=False), tool)
    cell = tool.plan.grid.cells[0].id
    page.goto(f"{tool.base}/cell/{cell}")
    page.get_by_role("button", name="Choose candidate 2").click()
    assert "chosen: 2 · pool 2" in page.inner_text("main") and page.inner_text("#status") == "Saved"
    page.fill("#note", "by form")
    page.get_by_role("button", name="Save the note").click()
    page.get_by_role("button", name="Needs a second look").click()
    criterion = tool.plan.protocol.groups.selection_criteria[1].id
    page.check(f"#c2-{criterion}")
    page.get_by_role("button", name="Save these criteria of candidate 2").click()
    state = stored(tool)
    assert numbers(tool) == {cell: [2]} and state.notes[cell] == "by form" and state.flagged[cell]
    assert list(state.ticks.values()) == [True]
    page.get_by_role("link", name="Next undecided").click()
    assert page.url.endswith(f"/cell/{tool.plan.grid.cells[1].id}?show=all")
    page.get_by_role("button", name="Undo").click()
    assert stored(tool).ticks == {}


@pytest.mark.slow
def test_axe_finds_nothing_on_cells_and_on_one(open_context: Open, shown: Tool, axe: str) -> None:
    page = enter(open_context(), shown)
    assert violations(page, axe, ["light"]) == []
    visit(page, shown)
    assert violations(page, axe, ["light"]) == []


@pytest.mark.slow
def test_axe_finds_nothing_on_any_page_in_light_and_dark(open_context: Open, start: Start, axe: str) -> None:
    tool = start("anna", "ben")
    other = enter(open_context(), tool, "ben")
    page = enter(open_context(), tool)
    cells = [f"/cell/{cell.id}" for cell in tool.plan.grid.cells[:1]]

    def look(where: str) -> None:
        assert violations(page, axe) == [], where

    for address in (*PAGES, *cells):
        page.goto(tool.base + address)
        ready(page)
        look(address)
    press(page, "2")
    saved(page)
    press(page, "f")
    expect(page.locator("#flag")).to_have_attribute("aria-pressed", "true")
    press(page, "?")
    look("help")
    page.click("#close-help")
    for place in range(6):
        for person, key in ((page, "2"), (other, "1")):
            visit(person, tool, place)
            if not person.locator(".card.chosen").count():
                press(person, key)
                saved(person)
    for address in (*PAGES, *cells):
        page.goto(tool.base + address)
        ready(page)
        look(f"{address}, decided")
    page.click("text=Compare")
    page.click("#confirm")
    look("compared")
    stranger = open_context().new_page()
    stranger.goto(tool.base)
    assert violations(stranger, axe) == []


@pytest.mark.parametrize("width", [1920, 1280, 390])
@pytest.mark.slow
def test_faces_are_equal_whole_and_undistorted_and_targets_large(
    open_context: Open, shown: Tool, width: int
) -> None:
    page = enter(open_context(viewport={"width": width, "height": 844}), shown)
    visit(page, shown)
    boxes = page.evaluate(
        "[...document.querySelectorAll('.card img')].map(i => [i.clientWidth, i.clientHeight,"
        " getComputedStyle(i).objectFit, i.naturalWidth > 0])"
    )
    assert len({tuple(box) for box in boxes}) == 1
    assert boxes[0][2:] == ["contain", True] and boxes[0][0] > 100
    assert small(page, "main a, main button, .criteria label, header a, header button") == []
    assert focus(page) == ["solid", "3px"]
    for address in (*PAGES, f"/cell/{shown.plan.grid.cells[0].id}"):
        page.goto(shown.base + address)
        assert not is_wide(page), address


SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => { for (const e of list.getEntries()) window.shifted += e.value; })
  .observe({type: 'layout-shift', buffered: true});
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """All 84 cells with seven candidates each."""
    tool = Tool(tmp_path_factory.mktemp("whole"), "all", 7)
    cell, criterion = tool.plan.grid.cells[3].id, tool.plan.protocol.groups.selection_criteria[0].id
    with Store.open_for_writing(tool.plan.folder) as store:
        shelf.fill(tool.plan, store)
        shelf.screen_all(tool.plan, store, {f"{cell}/2-1.jpg": [criterion]}, unread=[f"{cell}/4-1.jpg"])
    yield tool.start()
    tool.kill()


@pytest.mark.slow
def test_588_thumbnails_come_decoded_and_move_nothing(open_context: Open, whole: Tool) -> None:
    context = open_context()
    context.add_init_script(SHIFTS)
    page = enter(context, whole)
    page.goto(f"{whole.base}/all")
    ready(page)
    assert page.locator(".strip img").count() == 588
    scroll = "here => new Promise(done => { scrollTo(0, here); requestAnimationFrame(() => requestAnimationFrame(done)); })"
    for here in range(0, page.evaluate("document.documentElement.scrollHeight"), 700):
        page.evaluate(scroll, here)
    page.evaluate(
        "Promise.all([...document.querySelectorAll('.strip img')].map(async (i) => {"
        " i.loading = 'eager'; await i.decode(); }))"
    )
    every = "[...document.querySelectorAll('.strip img')]"
    assert page.evaluate(f"{every}.every(i => i.complete && i.naturalWidth === 192 || i.naturalHeight === 192)")
    assert page.evaluate(f"{every}.every(i => !i.parentElement.classList.contains('waiting'))")
    assert page.evaluate("window.shifted") < 0.01
    assert len(list((whole.plan.folder / "thumbnails").glob("*.192.webp"))) == 588


@pytest.mark.slow
def test_ctrl_c_says_that_everything_is_saved(start: Start) -> None:
    tool = start()
    assert "is saved" in tool.end(signal.SIGINT)


@pytest.mark.slow
def test_the_pictures_on_the_page_about_selecting(open_context: Open, whole: Tool, tmp_path: Path) -> None:
    """With STILLME_PICTURES=1 they are put where docs/selecting.md shows them. Rendered heads, nobody's photographs."""
    page = enter(open_context(viewport={"width": 1680, "height": 1000}), whole)
    for place, key in enumerate("2412353"):
        visit(page, whole, place)
        if not page.locator(".card.chosen").count():
            press(page, key)
            saved(page)
    visit(page, whole, 3)
    to = ROOT / "docs/images" if os.environ.get("STILLME_PICTURES") else tmp_path
    page.locator("#c2-" + whole.plan.protocol.groups.selection_criteria[0].id).focus()
    keep(page, to / "select-cell.png")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{whole.base}/")
    ready(page)
    page.evaluate("Promise.all([...document.images].slice(0, 7).map(i => i.decode()))")
    keep(page, to / "select-overview.png")
    for name in ("select-cell.png", "select-overview.png"):
        assert 10_000 < (to / name).stat().st_size <= 300_000


def keep(page: Any, path: Path) -> None:
    """256 colours do for a page, and weigh a third."""
    whole = Image.open(io.BytesIO(page.screenshot()))
    whole.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
