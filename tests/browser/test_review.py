"""The review tool in real Chromium: edits by keyboard, decisions through a kill, and for everybody."""

from __future__ import annotations

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
from stillme.plan.design import load_design
from tests.browser.conftest import IN_CHROMIUM, Open, expect, focus, is_wide, press, violations
from tests.browser.conftest import small as too_small
from tests.report.review import wall
from tests.report.review.serving import Tool

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """240 edits of 24 portraits; tests of this module only look at them."""
    tool = Tool(
        Path(shutil.copytree(wall.small(tmp_path_factory), tmp_path_factory.mktemp("few") / "run"))
    ).start()
    yield tool
    tool.kill()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """5,040 edits of 84 portraits."""
    tool = Tool(wall.build(tmp_path_factory.mktemp("whole"))).start()
    yield tool
    tool.kill()


@pytest.fixture
def fresh(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """240 edits, in a copy of its own, served by a process that may be killed."""
    tool = Tool(Path(shutil.copytree(wall.small(tmp_path_factory), tmp_path / "run"))).start()
    yield tool
    tool.kill()


def tidied(tool: Tool) -> Tidy:
    """What the tool should show, from the run itself."""
    with Run.open_readonly(tool.run) as seen:
        return tidy(seen, load_design(seen))


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
    with Run.open_readonly(tool.run) as seen:
        return seen.adjudications()


def standing(tool: Tool, trial: str, axis: str) -> tuple[Any, ...]:
    """As the ensemble has it, read from the run."""
    row = tidied(tool).scores["toward_neutral"].filter((pl.col("trial") == trial) & (pl.col("axis") == axis))
    return row.select("standing", "score", "flagged", "open").row(0)


@pytest.mark.parametrize(
    ("size", "edits", "persons"), [("small", 240, 24), pytest.param("large", 5040, 84, marks=pytest.mark.slow)]
)
def test_edits_are_filtered_and_paged_by_keyboard(
    open_context: Open, request: pytest.FixtureRequest, size: str, edits: int, persons: int
) -> None:
    tool: Tool = request.getfixturevalue(size)
    found, page = tidied(tool), enter(open_context(), tool)
    every = found.edits["trial"].to_list()
    assert total(page) == len(every) == edits and f"{persons} persons" in page.inner_text("h1")
    for number in (2, 3, 4):
        go(page, "n", rf"/samples\?page={number}$")
        assert shown(page) == every[24 * (number - 1) : 24 * number]
        assert page.evaluate("document.querySelectorAll('*').length") < 1500, "of any run a page holds as much"
    go(page, "p", r"/samples\?page=3$")

    press(page, "/")
    page.keyboard.type("red scarf")
    go(page, "Enter", r"/samples\?text=red\+scarf$")
    spoken = total(page)
    assert 0 < spoken < edits
    press(page, "Escape")
    page.focus("input[name=outcome][value='']")
    go(page, "ArrowDown", r"outcome=edit_succeeded")
    assert page.evaluate("document.activeElement.value") == "edit_succeeded", "the focus stays where it was"
    go(page, "ArrowDown", r"outcome=soft_erasure")
    assert 0 < total(page) < spoken
    page.get_by_role("link", name=re.compile("Take all away")).press("Enter")
    page.wait_for_url(f"{tool.base}/samples")
    ready(page)

    page.focus("input[name=editor][value=erases]")
    go(page, "Space", r"/samples\?editor=erases$")
    mine = found.edits.filter(pl.col("editor") == "erases")["trial"].to_list()
    assert total(page) == len(mine) and shown(page) == mine[:24]
    press(page, "Escape", "j", "j", "j", "ArrowRight", "ArrowLeft", "k")
    go(page, "Enter", rf"/samples/{mine[1]}\?editor=erases")
    go(page, "j", rf"/samples/{mine[2]}\?")
    go(page, "ArrowRight", rf"/samples/{mine[3]}\?")
    go(page, "k", rf"/samples/{mine[2]}\?")
    assert f"3 of {len(mine):,}" in page.inner_text("main")
    scores = found.scores["toward_neutral"].filter((pl.col("editor") == "erases") & pl.col("open"))
    later = set(scores["trial"].to_list()) & set(mine[3:])
    go(page, "f", rf"/samples/{next(key for key in mine if key in later)}\?editor=erases")
    go(page, "g", r"/samples\?editor=erases#")
    assert page.evaluate("document.activeElement.className") == "card", "back where one was"


def test_every_filter_is_in_the_address_and_counts_exactly(open_context: Open, small: Tool) -> None:
    page = enter(open_context(), small)
    races = ["white", "black"]
    asked = "".join(f"&race={one}" for one in races)
    visit(page, f"{small.base}/samples?flag=open{asked}&axis=skin_tone&low=4&sort=highest")
    scores = (
        tidied(small)
        .scores["toward_neutral"]
        .filter(
            pl.col("open") & pl.col("race").is_in(races) & (pl.col("axis") == "skin_tone") & (pl.col("score") >= 4)
        )
    )
    assert total(page) == scores.height > 0
    assert page.is_checked("input[name=race][value=black]") and page.input_value("#axis") == "skin_tone"
    beside = page.locator("label:has(input[name=gender]) .count").all_text_contents()
    assert sum(int(one.replace(",", "")) for one in beside) == scores.height
    page.get_by_role("link", name=re.compile("Perceived race: Black")).click()
    ready(page)
    assert total(page) == scores.filter(pl.col("race") == "white").height
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
    assert (made.reviewer, made.score, made.axis) == ("anna", other, axis) and made.reason.endswith("1 2 3 j k")
    assert standing(fresh, trial, axis) == ("adjudicated", other, True, False)
    fresh.start()
    visit(page, f"{fresh.base}/samples/{trial}")
    row = page.locator(f"#scores tr[data-axis={axis}]")
    expect(row).to_contain_text("decided by a person")
    expect(row).to_contain_text("flag closed")
    visit(page, f"{fresh.base}/decisions")
    expect(page.locator("#log")).to_contain_text("The shadow moved")


@pytest.mark.slow
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
    assert [(one.score, one.reason) for one in decisions(fresh)] == [(None, "too dark")]
    assert standing(fresh, trial, axis) == ("cannot_tell", None, True, False)


@pytest.mark.slow
def test_without_scripts_forms_do_it(open_context: Open, fresh: Tool) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(fresh.link)
    page.check("input[name=flag][value=open]")
    page.get_by_role("button", name="Show these edits").first.click()
    assert "flag=open" in page.url and total(page) < 240
    page.get_by_role("link", name=re.compile("Next open flag")).click()
    fold = page.locator(".decide[data-open=yes]").first
    fold.locator("summary").click()
    fold.get_by_label(re.compile("^2 ")).check()
    fold.get_by_label("Why").fill("by form")
    fold.get_by_role("button", name="Save the decision").click()
    assert page.inner_text("#status") == "Saved"
    assert [(one.score, one.reason) for one in decisions(fresh)] == [(2, "by form")]


@pytest.mark.slow
def test_a_number_of_the_report_is_one_click_from_its_samples(open_context: Open, small: Tool) -> None:
    page = enter(open_context(), small)
    page.get_by_role("link", name="Report").click()
    cell = page.locator("#outcomes-by-editor td:has(a)").nth(3)
    hits = int(re.findall(r"([\d,]+)/[\d,]+", cell.inner_text())[-1])
    cell.locator("a").click()
    ready(page)
    assert total(page) == hits > 0 and "outcome=" in page.url and len(shown(page)) == min(24, hits)


@pytest.mark.slow
def test_single_keys_can_be_turned_off_and_zoom(open_context: Open, small: Tool) -> None:
    page = enter(open_context(), small)
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


@pytest.mark.slow
def test_axe_finds_nothing_on_edits_and_on_one(open_context: Open, small: Tool, axe: str) -> None:
    page = enter(open_context(), small)
    assert violations(page, axe, ["light"]) == []
    first_flag(page, small)
    assert violations(page, axe, ["light"]) == []


@pytest.mark.slow
def test_axe_finds_nothing_on_any_page_in_light_and_dark(open_context: Open, fresh: Tool, axe: str) -> None:
    page = enter(open_context(), fresh)

    def look(where: str) -> None:
        assert violations(page, axe) == [], where

    _, axis = first_flag(page, fresh)
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
        page.goto(fresh.base + address)
        look(address)
    page.goto(fresh.base + lost)
    page.locator(".card").first.click()
    page.wait_for_url("**/samples/*")
    look("an edit that was refused")
    page.goto(f"{fresh.base}/report")
    look("report")


@pytest.mark.parametrize("width", [1920, 1280, 390])
@pytest.mark.slow
def test_faces_are_equal_whole_and_undistorted_and_targets_large(
    open_context: Open, small: Tool, width: int
) -> None:
    page = enter(open_context(viewport={"width": width, "height": 844}), small)
    visit(page, f"{small.base}/samples?ended=answered&outcome=edit_succeeded")
    boxes = "sides => sides.map(i => [i.clientWidth, i.clientHeight, getComputedStyle(i).objectFit])"
    assert_equal(page.eval_on_selector_all(".card:first-child img", boxes), 80)
    assert_large(page)
    page.locator(".card").first.click()
    page.wait_for_url("**/samples/*")
    ready(page)
    page.evaluate("Promise.all([...document.images].map(i => i.decode()))")
    assert_equal(page.eval_on_selector_all(".large img", boxes), 150)
    assert_large(page)
    assert focus(page) == ["solid", "3px"]


def assert_equal(boxes: list[list[Any]], least: int) -> None:
    assert len({tuple(box) for box in boxes}) == 1 and boxes[0][2] == "contain" and boxes[0][0] > least


def assert_large(page: Any) -> None:
    assert too_small(page, "a, button, summary, select, label.choice, input[type=text]") == []
    assert not is_wide(page)
