"""The review tool in real Chromium: 5,040 edits by keyboard, decisions through a kill, and for everybody."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.analysis.frames import Tidy, tidy
from stillme.core.records import Adjudication
from stillme.ledger import Run
from stillme.plan import design as designing
from tests.browser.conftest import CHROMIUM, Open, violations
from tests.report.review import wall
from tests.report.review.serving import Tool

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("review"),
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() and os.environ.get("CI") != "true",
        reason="Chromium is not installed (apt-get install chromium)",
    ),
]

STALL = 200  # milliseconds in which a page answers nobody
# Long tasks of every page, kept over navigation
WATCH = """
if (location.protocol === 'http:') {
  new PerformanceObserver(list => {
    const kept = JSON.parse(sessionStorage.getItem('long') ?? '[]');
    kept.push(...list.getEntries().map(entry => [location.href, Math.round(entry.duration)]));
    sessionStorage.setItem('long', JSON.stringify(kept));
  }).observe({ type: 'longtask', buffered: true });
  sessionStorage.setItem('pages', Number(sessionStorage.getItem('pages') ?? 0) + 1);
}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """5,040 edits of 84 portraits; tests of this module only look at them."""
    tool = Tool(wall.build(tmp_path_factory.mktemp("whole"))).start()
    yield tool
    tool.kill()


@pytest.fixture(scope="module")
def found(whole: Tool) -> Tidy:
    """What the tool should show, from the run itself."""
    with Run.look(whole.run) as seen:
        return tidy(seen, designing.recall(seen))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wall.build(tmp_path_factory.mktemp("few"), prompts=3, races=2, editors=("even", "erases"))


@pytest.fixture
def fresh(few: Path, tmp_path: Path) -> Iterator[Tool]:
    """144 edits, in a copy of its own, served by a process that may be killed."""
    tool = Tool(Path(shutil.copytree(few, tmp_path / "run"))).start()
    yield tool
    tool.kill()


@pytest.fixture(scope="module")
def small(few: Path) -> Iterator[Tool]:
    """The same for tests that may find decisions of each other."""
    tool = Tool(few).start()
    yield tool
    tool.kill()


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as playwright_expect

    return playwright_expect(locator)


def ready(page: Any) -> None:
    page.wait_for_selector("body[data-ready=yes]")


def enter(context: Any, tool: Tool) -> Any:
    page = context.new_page()
    page.goto(tool.link)
    assert page.url == f"{tool.base}/samples", "the key is no longer in the address"
    ready(page)
    return page


def visit(page: Any, address: str) -> None:
    page.goto(address)
    ready(page)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def go(page: Any, key: str, address: str) -> None:
    """A key that leads to another page."""
    page.keyboard.press(key)
    page.wait_for_url(re.compile(address))
    ready(page)


def shown(page: Any) -> list[str]:
    return [str(key) for key in page.eval_on_selector_all(".card", "cards => cards.map(c => c.dataset.trial)")]


def total(page: Any) -> int:
    return int(page.locator("#count").get_attribute("data-total"))


def decisions(tool: Tool) -> list[Adjudication]:
    with Run.look(tool.run) as seen:
        return seen.adjudications()


def standing(tool: Tool, trial: str, axis: str) -> tuple[Any, ...]:
    """As the ensemble has it, read from the run."""
    with Run.look(tool.run) as seen:
        design = designing.recall(seen)
        scores = tidy(seen, design).scores["toward_neutral"]
    row = scores.filter((pl.col("trial") == trial) & (pl.col("axis") == axis))
    return row.select("standing", "score", "flagged", "open").row(0)


def test_5040_edits_are_filtered_and_paged_by_keyboard_without_a_stall(
    open_context: Open, whole: Tool, found: Tidy
) -> None:
    context = open_context()
    context.add_init_script(WATCH)
    page = enter(context, whole)
    every = found.edits["trial"].to_list()
    assert total(page) == len(every) == 5040 and "84 persons" in page.inner_text("h1")
    for number in range(2, 8):
        go(page, "n", rf"/samples\?page={number}$")
        assert shown(page) == every[24 * (number - 1) : 24 * number]
    go(page, "p", r"/samples\?page=6$")

    press(page, "/")
    page.keyboard.type("red scarf")
    go(page, "Enter", r"/samples\?text=red\+scarf$")
    spoken = total(page)
    assert 0 < spoken < 5040
    press(page, "Escape")
    page.focus("input[name=outcome][value='']")
    go(page, "ArrowDown", r"outcome=edit_succeeded")
    assert page.evaluate("document.activeElement.value") == "edit_succeeded", "the focus stays where it was"
    go(page, "ArrowDown", r"outcome=soft_erasure")
    assert 0 < total(page) < spoken
    page.get_by_role("link", name=re.compile("Take all away")).press("Enter")
    page.wait_for_url(f"{whole.base}/samples")
    ready(page)

    page.focus("input[name=editor][value=erases]")
    go(page, "Space", r"/samples\?editor=erases$")
    mine = found.edits.filter(pl.col("editor") == "erases")["trial"].to_list()
    assert total(page) == len(mine) == 1680 and shown(page) == mine[:24]
    press(page, "Escape", "j", "j", "j", "ArrowRight", "ArrowLeft", "k")
    go(page, "Enter", rf"/samples/{mine[1]}\?editor=erases")
    go(page, "j", rf"/samples/{mine[2]}\?")
    go(page, "ArrowRight", rf"/samples/{mine[3]}\?")
    go(page, "k", rf"/samples/{mine[2]}\?")
    assert "3 of 1,680" in page.inner_text("main")
    scores = found.scores["toward_neutral"].filter((pl.col("editor") == "erases") & pl.col("open"))
    later = set(scores["trial"].to_list()) & set(mine[3:])
    go(page, "f", rf"/samples/{next(key for key in mine if key in later)}\?editor=erases")
    go(page, "g", r"/samples\?editor=erases#")
    assert page.evaluate("document.activeElement.className") == "card", "back where one was"

    assert int(page.evaluate("sessionStorage.getItem('pages')")) >= 18
    slow = {address for address, ms in long_tasks(page) if ms > STALL}
    for address in slow:  # a busy machine holds a page up once; what a page does itself, it does again
        page.evaluate("sessionStorage.setItem('long', '[]')")
        visit(page, address)
        assert not [ms for _, ms in long_tasks(page) if ms > STALL], address


def long_tasks(page: Any) -> list[tuple[str, int]]:
    found = page.evaluate("JSON.parse(sessionStorage.getItem('long') ?? '[]')")
    print("long tasks:", found)
    return [(address, ms) for address, ms in found]


def test_every_filter_is_in_the_address_and_counts_exactly(open_context: Open, whole: Tool, found: Tidy) -> None:
    page = enter(open_context(), whole)
    visit(page, f"{whole.base}/samples?flag=open&race=black&race=latino&axis=skin_tone&low=4&sort=highest")
    scores = found.scores["toward_neutral"].filter(
        pl.col("open")
        & pl.col("race").is_in(["black", "latino"])
        & (pl.col("axis") == "skin_tone")
        & (pl.col("score") >= 4)
    )
    assert total(page) == scores.height > 0
    assert page.is_checked("input[name=race][value=black]") and page.input_value("#axis") == "skin_tone"
    beside = page.locator("label:has(input[name=gender]) .count").all_text_contents()
    assert sum(int(one.replace(",", "")) for one in beside) == scores.height
    page.get_by_role("link", name=re.compile("Perceived race: Black")).click()
    ready(page)
    assert total(page) == scores.filter(pl.col("race") == "latino").height
    page.go_back()
    ready(page)
    assert total(page) == scores.height, "a state is an address"


def first_flag(page: Any, tool: Tool) -> tuple[str, str]:
    """Opens the first edit with an open flag and the axis to decide on; both."""
    go(page, "f", r"/samples/\w+")
    press(page, "a")
    axis = page.evaluate("document.activeElement.closest('.decide').id").removeprefix("decide-")
    return page.url.split("/")[-1].split("?")[0], axis


def test_a_decision_survives_a_kill_and_changes_the_ensemble(open_context: Open, fresh: Tool) -> None:
    page = enter(open_context(), fresh)
    trial, axis = first_flag(page, fresh)
    before = standing(fresh, trial, axis)
    assert before[0] == "primary_decided" and before[2:] == (True, True)
    other = 5 if before[1] == 1 else 1
    press(page, str(other))
    page.keyboard.type("The shadow moved, not the skin. 1 2 3 j k")
    with page.expect_response("**/api/decide") as answer:
        press(page, "Control+Enter")
    fresh.end(signal.SIGKILL)
    assert answer.value.status == 200
    (made,) = decisions(fresh)
    assert (made.who, made.score, made.axis) == ("anna", other, axis) and made.why.endswith("1 2 3 j k")
    assert standing(fresh, trial, axis) == ("adjudicated", other, True, False)
    fresh.start()
    visit(page, f"{fresh.base}/samples/{trial}")
    row = page.locator(f"#scores tr[data-axis={axis}]")
    expect(row).to_contain_text("decided by a person")
    expect(row).to_contain_text("flag closed")
    visit(page, f"{fresh.base}/decisions")
    expect(page.locator("#log")).to_contain_text("The shadow moved")


def test_a_decision_that_did_not_arrive_is_kept_and_delivered_once(open_context: Open, fresh: Tool) -> None:
    page = enter(open_context(), fresh)
    trial, axis = first_flag(page, fresh)
    fresh.end(signal.SIGKILL)
    press(page, "0")
    page.keyboard.type("too dark")
    press(page, "Control+Enter")
    expect(page.locator("#status")).to_have_class(re.compile("failing"))
    expect(page.locator("#status")).to_contain_text("Not saved.")
    assert decisions(fresh) == []
    fresh.start()
    page.wait_for_url("**saved=1")
    expect(page.locator("#status")).to_have_text("Saved")
    assert [(one.score, one.why) for one in decisions(fresh)] == [(None, "too dark")]
    assert standing(fresh, trial, axis) == ("cannot_tell", None, True, False)


def test_without_scripts_forms_do_it(open_context: Open, small: Tool) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(small.link)
    page.check("input[name=flag][value=open]")
    page.get_by_role("button", name="Show these edits").first.click()
    assert "flag=open" in page.url and total(page) < 144
    page.get_by_role("link", name=re.compile("Next open flag")).click()
    fold = page.locator(".decide[data-open=yes]").first
    fold.locator("summary").click()
    fold.get_by_label(re.compile("^2 ")).check()
    fold.get_by_label("Why").fill("by form")
    fold.get_by_role("button", name="Save the decision").click()
    assert page.inner_text("#status") == "Saved"
    assert (2, "by form") in [(one.score, one.why) for one in decisions(small)]


def test_a_number_of_the_report_is_one_click_from_its_samples(open_context: Open, small: Tool) -> None:
    page = enter(open_context(), small)
    page.get_by_role("link", name="Report").click()
    cell = page.locator("#outcomes-by-editor td:has(a)").nth(3)
    hits = int(re.findall(r"([\d,]+)/[\d,]+", cell.inner_text())[-1])
    cell.locator("a").click()
    ready(page)
    assert total(page) == hits > 0 and "outcome=" in page.url and len(shown(page)) == min(24, hits)


def test_single_keys_can_be_turned_off_and_zoom(open_context: Open, whole: Tool) -> None:
    page = enter(open_context(), whole)
    page.locator(".card").first.press("Enter")
    page.wait_for_url("**/samples/*")
    ready(page)
    press(page, "z")
    width = page.evaluate("document.querySelector('.zoomed .large').clientWidth")
    assert width >= 1200
    press(page, "Escape")
    assert page.locator(".zoomed").count() == 0
    press(page, "?")
    expect(page.locator("#help")).to_be_visible()
    page.uncheck("#keys-on")
    page.click("#close-help")
    here = page.url
    press(page, "j", "z", "a", "1")
    assert page.url == here and page.locator(".zoomed, .decide[open]").count() == 0
    page.get_by_role("link", name=re.compile("^Next j|^Next$")).click()
    page.wait_for_url(lambda url: url != here)


def test_axe_finds_nothing_on_any_page_in_light_and_dark(open_context: Open, small: Tool, axe: str) -> None:
    page = enter(open_context(), small)

    def look(where: str) -> None:
        assert violations(page, axe) == {}, where

    _, axis = first_flag(page, small)
    look("an edit, deciding")
    press(page, "4")
    page.keyboard.type("seen")
    with page.expect_navigation():
        press(page, "Control+Enter")
    ready(page)
    page.locator(f"#decide-{axis} summary").click()
    for fold in page.locator("section details summary").all():
        fold.click()
    look("an edit, decided, all open")
    press(page, "z")
    look("zoomed")
    press(page, "Escape", "?")
    look("help")
    lost = "/samples?ended=refused&ended=failed"
    pages = ("/samples", "/samples?outcome=soft_erasure&flag=flagged&text=scarf", "/samples?editor=nobody", lost)
    for address in (*pages, "/decisions", "/samples/nothing"):
        page.goto(small.base + address)
        look(address)
    page.goto(small.base + lost)
    page.locator(".card").first.click()
    page.wait_for_url("**/samples/*")
    look("an edit that was refused")
    page.goto(f"{small.base}/report")
    look("report")


@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_faces_are_equal_whole_and_undistorted_and_targets_large(
    open_context: Open, whole: Tool, width: int
) -> None:
    page = enter(open_context(viewport={"width": width, "height": 844}), whole)
    visit(page, f"{whole.base}/samples?ended=answered&outcome=edit_succeeded")
    boxes = "sides => sides.map(i => [i.clientWidth, i.clientHeight, getComputedStyle(i).objectFit])"
    assert_equal(page.eval_on_selector_all(".card:first-child img", boxes), 80)
    assert_large(page)
    page.locator(".card").first.click()
    page.wait_for_url("**/samples/*")
    ready(page)
    page.evaluate("Promise.all([...document.images].map(i => i.decode()))")
    assert_equal(page.eval_on_selector_all(".large img", boxes), 150)
    assert_large(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    style = page.evaluate("(e => [e.outlineStyle, e.outlineWidth])(getComputedStyle(document.activeElement))")
    assert style == ["solid", "3px"]


def assert_equal(boxes: list[list[Any]], least: int) -> None:
    assert len({tuple(box) for box in boxes}) == 1 and boxes[0][2] == "contain" and boxes[0][0] > least


def assert_large(page: Any) -> None:
    """Nothing to press is smaller than 44 pixels, and nothing sticks out sideways."""
    small = page.evaluate(
        "[...document.querySelectorAll('a, button, summary, select, label.choice, input[type=text]')]"
        ".filter(e => e.checkVisibility() && !e.matches('.skip')).map(e => [e.textContent.trim(), e.getBoundingClientRect()])"
        ".filter(([, r]) => r.height < 43.9 || r.width < 43.9).map(([t]) => t)"
    )
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
