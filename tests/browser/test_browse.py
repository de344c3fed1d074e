"""The browse bundle and the page of pictures in a real browser, from a folder: no server is running."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stillme.ledger import Run
from stillme.report.browse.scripts import Scripts
from stillme.report.review.desk import Desk
from tests.browser.conftest import IN_CHROMIUM, Open, in_both_schemes, is_wide, press, small, violations
from tests.report.browse import made
from tests.report.browse.test_bundle import asked, data

pytestmark = IN_CHROMIUM
Go = Callable[..., Any]

QUERIES = [
    "",
    "editor=even",
    "editor=even&editor=erases&prompt=O-01&prompt=O-03",
    "race=black&gender=female&age=20s",
    "outcome=race_changed",
    "outcome=race_changed&happened=no",
    "outcome=soft_erasure&happened=judged&race=white",
    "outcome=skin_lightened&happened=missing",
    "outcome=seems_older&happened=any&category=occupational",
    "outcome=nothing",
    "outcome=race_changed&happened=perhaps",
    "happened=no",
    "flag=open",
    "flag=flagged&axis=race_drift",
    "flag=adjudicated",
    "flag=length",
    "axis=skin_tone&low=2&high=3",
    "high=1&outcome=gender_changed&happened=judged",
    "status=refused&status=input_blocked",
    "ended=failed&ended=refused",
    "stage=input",
    "standing=primary_decided&outcome=race_changed&happened=judged",
    "standing=adjudicated&standing=cannot_tell",
    "why=refused",
    "why=cannot_tell",
    "single=yes",
    "experiment=diagnose&arm=baseline",
    "experiment=mitigate",
    "sort=lowest&axis=edit_success",
    "sort=highest&outcome=race_changed&happened=judged",
    "sort=apart",
    "sort=lowest",
    "sort=sideways&editor=even",
    "rounding=half_up&outcome=skin_lightened",
    "rounding=toward_neutral&outcome=skin_lightened",
    "rounding=anyhow&outcome=skin_lightened",
    "editor=nobody&__proto__=x&constructor=y",
    "page=3&editor=even&editor=even&editor=+even+",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"wall": made.wall_run(tmp_path_factory), "heads": made.heads_run(tmp_path_factory)}


@pytest.fixture(scope="module")
def browser(runs: dict[str, Path], browser: Any) -> Any:
    """After the runs: beside a browser no pipeline runs."""
    return browser


@pytest.fixture(scope="module")
def wall(runs: dict[str, Path]) -> Path:
    return runs["wall"] / "report"


@pytest.fixture(scope="module")
def desk(wall: Path) -> Iterator[Desk]:
    with Run.open_readonly(wall.parent) as seen:
        yield Desk(seen)


@pytest.fixture
def go(open_context: Open) -> Go:
    """Opens a page of a folder. Whatever a console calls an error fails the test."""

    def open_(folder: Path, hash: str = "", page: str = "browse/index.html", **options: Any) -> Any:
        tab = open_context(**options).new_page()
        tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        tab.goto(f"{(folder / page).as_uri()}{f'#{hash}' if hash else ''}")
        return tab

    wrong: list[str] = []
    open_.wrong = wrong  # type: ignore[attr-defined]
    return open_


@pytest.fixture(autouse=True)
def quiet(go: Go) -> Iterator[None]:
    yield
    assert go.wrong == []  # type: ignore[attr-defined]


def ours(desk: Desk, text: str) -> list[str]:
    """What the review tool selects."""
    state = desk.state()
    return [str(state.trials["trial"][int(row)]) for row in desk.kept(state, asked(state, text))]


def shows(page: Any, count: str) -> None:
    """Waits for the number of edits: a link tells the page of its new address after the click."""
    page.locator("#count", has_text=re.compile(f"^{re.escape(count)}")).wait_for()


def test_every_query_selects_what_the_review_tool_selects(wall: Path, desk: Desk, go: Go) -> None:
    page = go(wall)
    state = desk.state()
    some = state.trials["trial"][7], state.trials["person"][9]
    queries = [*QUERIES, f"trial={some[0]}&trial={'0' * 64}", f"person={some[1]}&outcome=race_changed"]
    found = page.evaluate("queries => queries.map(query => stillme.select(query))", queries)
    sizes = set()
    for query, theirs in zip(queries, found, strict=True):
        assert theirs == ours(desk, query), query
        sizes.add(len(theirs))
    assert len(sizes) > 15  # the questions differ
    for query in QUERIES:
        theirs = page.evaluate("query => stillme.counts(query)", query)
        mine = desk.counts(state, asked(state, query))
        for name, counts in mine.items():
            assert theirs.get(name, {}) == {value: count for value, count in counts.items() if count}, (
                query,
                name,
            )


@pytest.mark.slow
def test_every_experiment_is_selected_alike(runs: dict[str, Path], go: Go) -> None:
    run = runs["heads"]
    page = go(run / "report")
    with Run.open_readonly(run) as seen:
        desk = Desk(seen)
        arms = [f"arm={arm}" for arm in desk.state().trials["arm"].unique()]
        for query in ["experiment=stereotype", "axis=target_gender", "sort=highest&axis=target_gender", *arms]:
            assert page.evaluate("query => stillme.select(query)", query) == ours(desk, query), query
            assert ours(desk, query)
    page.goto(page.url + "#experiment=stereotype")
    card = page.locator(".card").first
    assert card.locator("img").count() == 3  # two sources and the edit
    card.click()
    page.get_by_role("heading", name="Scores").wait_for()
    assert page.locator(".large figure").count() == 3
    assert "gender presentation" in page.locator(".people").first.inner_text()


def test_a_link_of_the_report_leads_to_its_edits(wall: Path, desk: Desk, go: Go) -> None:
    page = go(wall, "outcome=race_changed&race=black&editor=even")
    count = len(ours(desk, "outcome=race_changed&race=black&editor=even"))
    shows(page, f"{count} edits")
    assert page.locator("#chips li").count() == 4
    assert page.get_by_role("radio", name="Race changed").is_checked()
    assert page.get_by_role("checkbox", name="even").is_checked()
    assert page.locator(".card").first.inner_text().count("Race change") == 1


@pytest.mark.parametrize("rounding", ["its own", "anyhow"])
def test_the_audits_own_rounding_stays_when_a_link_names_it(wall: Path, desk: Desk, go: Go, rounding: str) -> None:
    own = desk.state().rounding
    assert own != next(iter(desk.state().axes)), "not what a browser chooses by itself"
    page = go(wall, f"rounding={own if rounding == 'its own' else rounding}&outcome=skin_lightened")
    assert page.locator("#rounding").input_value() == ""
    page.get_by_role("checkbox", name="even").check()
    shows(page, f"{len(ours(desk, 'outcome=skin_lightened&editor=even'))} edit")
    assert page.evaluate("location.hash") == "#editor=even&outcome=skin_lightened"


def test_filters_change_what_is_shown_and_the_address(wall: Path, desk: Desk, go: Go) -> None:
    page = go(wall)
    shows(page, "240 edits of 24 persons")
    page.get_by_role("radio", name="Soft erasure").check()
    assert page.evaluate("location.hash") == "#outcome=soft_erasure"
    assert page.evaluate("document.activeElement.value") == "soft_erasure"  # whoever filters by keys stays there
    page.get_by_role("radio", name="all with a score").check()
    count = len(ours(desk, "outcome=soft_erasure&happened=judged"))
    shows(page, f"{count} edits")
    page.locator("summary", has_text="Axis and score").click()
    page.get_by_label("Score at least").select_option("5")
    shows(page, f"{len(ours(desk, 'outcome=soft_erasure&happened=judged&low=5'))} edits")
    page.go_back()
    shows(page, f"{count} edits")
    page.get_by_role("link", name="Take all away").click()
    shows(page, "240 edits")


@pytest.mark.slow
def test_what_is_unknown_is_said(wall: Path, go: Go) -> None:
    page = go(wall, "text=scarf")
    assert "only in the review tool" in page.inner_text("#unknown")
    page.goto(page.url.split("#")[0] + "#show=" + "0" * 64)
    assert page.inner_text("#unknown") == "There is no such edit in this run."
    page.goto(page.url.split("#")[0] + "#editor=nobody")
    assert page.locator("#nothing").is_visible() and page.locator(".card").count() == 0


def test_a_sample_shows_everything_and_hostile_texts_are_texts(wall: Path, desk: Desk, go: Go) -> None:
    page = go(wall, "flag=adjudicated&prompt=O-01")
    page.locator(".card").first.click()
    page.get_by_role("heading", name="What judges wrote").wait_for()
    assert page.locator(".opinions article").count() == 2
    assert page.locator(".seen dt").first.evaluate("one => one.textContent.trim()") == "proto"
    assert page.locator(".seen dd").first.evaluate("one => one.textContent") == made.HOSTILE
    assert made.HOSTILE in page.locator(".opinions").evaluate("one => one.textContent")
    assert page.evaluate("window.hacked") is None
    assert "anna: 5" in page.inner_text("#sample table") or "anna: cannot tell" in page.inner_text("#sample table")
    for image in page.locator("#sample img").all():
        assert image.evaluate("one => one.complete && one.naturalWidth") == 64  # the run's own picture
    assert page.locator(".exchange pre").count() == 0
    page.locator("#raw summary").click()
    page.locator(".exchange h3").nth(2).wait_for()
    answers = page.locator(".exchange pre").all_inner_texts()
    assert answers.count('{"answer": "<b>as it came</b>"}') == 2
    key = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('show')")
    assert any(desk.state().trial[key].instruction in text for text in answers)


def test_a_bundle_without_its_run_shows_small_pictures(wall: Path, tmp_path: Path, open_context: Open) -> None:
    shutil.copytree(wall, tmp_path / "released")
    page = open_context().new_page()
    page.goto((tmp_path / "released" / "browse" / "index.html").as_uri())
    page.locator(".card").first.click()
    page.wait_for_function(
        "[...document.querySelectorAll('#sample img')].every(one => one.naturalWidth > 0 && one.src.includes('thumbs'))"
    )


def test_keys_go_through_everything_and_can_be_turned_off(wall: Path, go: Go) -> None:
    page = go(wall, "editor=even")
    press(page, "ArrowRight", "ArrowRight", "ArrowDown")
    columns = page.evaluate(
        "Math.round(document.querySelector('#grid').clientWidth / document.querySelector('#grid li').offsetWidth)"
    )
    place = int(page.evaluate("document.activeElement.dataset.place"))
    assert place == 1 + columns
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Scores").wait_for()
    assert f"{place + 1} of 120" in page.inner_text("#sample .heading")
    page.keyboard.press("ArrowRight")
    page.get_by_text(f"{place + 2} of 120").wait_for()
    page.keyboard.press("r")
    page.locator(".exchange h3").first.wait_for()
    page.keyboard.press("Escape")
    page.locator(f"[data-place='{place + 1}']:focus").wait_for()
    press(page, *"j" * 40)
    page.locator(f"[data-place='{place + 41}']:focus").wait_for()
    assert page.evaluate(
        "(() => { const box = document.activeElement.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; })()"
    )
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Single keys do this").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("?")
    assert not page.locator("#help").is_visible()


@in_both_schemes
def test_nothing_is_out_of_reach(wall: Path, go: Go, axe: str, scheme: str) -> None:
    page = go(wall, "outcome=race_changed")
    page.locator(".card").first.wait_for()
    assert violations(page, axe, [scheme]) == []
    page.locator(".card").first.click()
    page.locator("#raw summary").click()
    page.locator(".exchange pre").first.wait_for()
    assert violations(page, axe, [scheme]) == []
    page.goto((wall / "pictures" / "index.html").as_uri())
    assert violations(page, axe, [scheme]) == []


@pytest.mark.slow
def test_a_phone_reads_it_and_fingers_hit_it(wall: Path, go: Go) -> None:
    page = go(wall, viewport={"width": 360, "height": 740}, has_touch=True)
    assert not page.locator("#facets").is_visible()  # edits come first
    for where in ("browse", "pictures"):
        page.goto((wall / where / "index.html").as_uri())
        assert not is_wide(page)
    page.goto((wall / "browse" / "index.html").as_uri())
    page.locator("#whole > summary").click()
    assert small(page, "a, button, summary, select, .choice") == []
    page.locator(".card").first.click()
    page.get_by_role("heading", name="Scores").wait_for()
    assert not is_wide(page)


@pytest.mark.slow
def test_pictures_are_whole_and_equal_in_size(wall: Path, go: Go) -> None:
    page = go(wall, page="pictures/index.html")
    for image in page.locator("main img").all():
        image.scroll_into_view_if_needed()
    page.wait_for_function("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
    boxes = page.evaluate(
        "[...document.querySelectorAll('.sheet .surround')].map(one => [one.clientWidth, one.clientHeight].join())"
    )
    assert len(set(boxes)) == 1
    fits = page.evaluate(
        "[...document.querySelectorAll('.surround img')].map(one => getComputedStyle(one).objectFit)"
    )
    assert set(fits) == {"contain"}
    page.locator(".sheet a").first.click()
    page.get_by_role("heading", name="Scores").wait_for()


def test_without_a_script_a_sentence_says_so(wall: Path, go: Go) -> None:
    page = go(wall, java_script_enabled=False)
    assert "scripts are off in this browser" in page.inner_text("main")


def tiled(content: dict[str, Any], times: int) -> dict[str, Any]:
    """The index of a run that is so many times as large: the same rows again, with keys of their own."""
    scores = {
        name: one if name in ("rounding", "score") else repeated(one, times)
        for name, one in content["scores"].items()
    }
    scores["score"] = {mode: repeated(one, times) for mode, one in content["scores"]["score"].items()}
    total = content["total"] * times
    return {
        **content,
        "total": total,
        "originals": "",  # no run lies beside it
        "trials": {name: repeated(one, times) for name, one in content["trials"].items()},
        "places": {name: repeated(one, times) for name, one in content["places"].items()},
        "keys": "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(total)),
        "scores": scores,
    }


def repeated(column: dict[str, Any], times: int) -> dict[str, Any]:
    return {**column, "codes": column["codes"] * times}


@pytest.mark.slow
def test_a_large_run_has_few_elements_and_pages(wall: Path, tmp_path: Path, go: Go) -> None:
    """100,800 edits, of which a page holds as much as of 240."""
    folder, times = tmp_path / "large", 420
    shutil.copytree(wall, folder)
    scripts = Scripts(folder / "browse" / "data")
    scripts.write("index.js", "stillme.index", tiled(data(wall, "index.js"), times))
    scripts.write("records/100.js", "stillme.loaded", "records/100.js", data(wall, "records/0.js"))
    page = go(folder)
    shows(page, "100,800 edits")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    page.wait_for_function(
        "document.querySelector('#grid a') && Number(document.querySelector('#grid a').dataset.place) > 1000"
    )
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert page.locator(".card").count() < 60
    page.get_by_role("link", name="Next page").click()
    assert "page 2 of 11" in page.inner_text("#pages")
    page.evaluate("scrollTo(0, 0)")
    page.locator("[data-place='3']").click()
    page.get_by_text("10,004 of 100,800").wait_for()
    page.keyboard.press("Escape")
    page.locator("[data-place='3']:focus").wait_for()
    assert "page 2 of 11" in page.inner_text("#pages")
