"""Whole studies in real Chromium, from the link to the code: every preset by keyboard alone, axe on every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from stillme.study.db import seats
from stillme.study.db.deal import allowed
from stillme.study.db.store import upsert
from stillme.study.db.tables import answer, meta, participant, sitting
from tests import studies
from tests.browser.conftest import IN_CHROMIUM, Open, is_wide, small, violations
from tests.study import bundles
from tests.study.running import Running
from tests.study.visiting import PUBLIC, House

pytestmark = IN_CHROMIUM
PRESETS = ("paper", "exp1", "exp2-pairwise", "exp2-independent", "exp3")
SCREEN = {"width": 1280, "height": 720}
CONTROLS = "main a.button, main button, main summary, main label:has(input), header a.button, footer a"
Serve = Callable[..., Running]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with ThreadPoolExecutor(1) as apart:  # Playwright's event loop runs in this thread
        return apart.submit(studies.make_run, tmp_path_factory.mktemp("run")).result()


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Running] = []

    def begin(folder: Path, **changes: Any) -> Running:
        if changes:
            bundles.write(folder, **changes)
        started.append(Running(folder).start())
        return started[-1]

    yield begin
    for one in started:
        one.stop()


class Walk:
    """Somebody who has a keyboard and no mouse. `axe` looks at pages in the schemes, where it is given."""

    def __init__(
        self, page: Any, server: Running, axe: str = "", schemes: Sequence[str] = ("light", "dark")
    ) -> None:
        self.page, self.server, self.axe, self.schemes = page, server, axe, schemes
        self.bundle = server.bundle
        self.looked: set[str] = set()

    def to(self, selector: str) -> None:
        """Tabs to a control; whatever has the focus is seen to have it."""
        for _ in range(150):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement.matches(s)", selector):
                shown = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert shown != "none", f"{selector} has the focus, but nobody sees it"
                return
        raise AssertionError(f"{selector} cannot be reached by Tab on {self.page.url}")

    def press(self, selector: str, key: str = "Enter") -> None:
        self.to(selector)
        self.page.keyboard.press(key)

    def at(self, path: str) -> None:
        self.page.wait_for_url(f"**{path}")

    def look(self, name: str = "") -> None:
        """No violation, one heading of the page, large targets."""
        if not self.axe:
            return
        self.looked.add(name or self.page.url.rsplit("/", 1)[1])
        assert violations(self.page, self.axe, self.schemes) == [], self.page.url
        assert self.page.locator("h1").count() == 1 and self.page.title()
        assert small(self.page, CONTROLS) == [], self.page.url

    def enter(self, name: str = "anna") -> None:
        self.page.goto(f"http://127.0.0.1:{self.server.port}/p/start")
        self.look("welcome")
        self.to("#name")
        self.page.keyboard.type(name)
        self.page.keyboard.press("Enter")
        self.at("/guide")

    def read_guide(self) -> None:
        self.at("/guide")
        self.press("summary")
        self.look()
        self.press("form[action='/guide'] button")
        self.at("/consent")

    def agree(self) -> None:
        self.at("/consent")
        self.look()
        for number in range(1, len(self.bundle.texts.consent.statements) + 1):
            self.press(f"input[value='{number}']", "Space")
        self.press("#agree")

    def learn(self) -> None:
        """Every example by arrow keys; the first answer to the first one is another."""
        for number, example in enumerate(self.bundle.tutorial, start=1):
            self.at(f"/tutorial/{number}")
            if "tutorial" not in self.looked:
                self.look("tutorial")
            if number == 1:
                self.answer(next(one for one in self.values(example.question) if one not in example.expected))
                self.page.wait_for_selector(".feedback.again")
                self.look("again")
            self.answer(example.expected[0])
            self.page.wait_for_selector(".feedback.well")
            self.press("form button")

    def values(self, question: str) -> list[str]:
        asked = self.bundle.question[question]
        return [option.value for option in asked.options] + ["cannot_determine"] * asked.cannot_determine

    def answer(self, value: str) -> None:
        self.press("input[type=radio]", "Space")
        for _ in range(10):
            if self.page.evaluate("document.activeElement.value") == value:
                break
            self.page.keyboard.press("ArrowDown")
        self.press("form button")

    def choose(self) -> None:
        self.at("/tasks")
        self.look()
        self.press("form[action='/tasks'] button")
        self.at("/items/1")

    def rate(self) -> None:
        """Every item by digits alone."""
        items = len(self.bundle.tasks[0].items)
        for number in range(1, items + 1):
            self.at(f"/items/{number}")
            self.page.wait_for_selector(f"body[data-ready]:has(main[data-number='{number}'])")
            asked = self.page.locator("main fieldset").count()
            if number == 1:
                self.look("item")
            for _ in range(asked):
                self.page.keyboard.press("2")
            self.page.keyboard.press("n")
        self.page.wait_for_selector("#finish")
        self.press("#finish")
        self.at("/debrief")

    def end(self) -> None:
        self.look()
        self.press("form[action='/debrief'] button")
        self.at("/complete")
        self.look()


def check_end(page: Any, server: Running) -> None:
    """The code is the one for people who have finished, and everything that was asked is kept."""
    code = server.do(lambda c: seats.code(c, "COMPLETED"))
    assert page.locator("#code").inner_text() == code
    found = server.do(lambda c: seats.sit(c, c.scalars(select(sitting.c.id)).one()))
    kept = server.do(lambda c: c.scalar(select(func.count()).select_from(answer)))
    bundle = server.bundle
    assert found.state == "complete" and kept == sum(len(allowed(bundle, one)) for one in found.deal.screens)


PAGES = {"welcome", "guide", "consent", "tutorial", "again", "tasks", "item", "debrief", "complete"}


def test_a_small_study_from_the_link_to_the_code_by_keyboard(
    open_context: Open, serve: Serve, tmp_path: Path, axe: str
) -> None:
    """Longer than other quick tests: the one study that they walk through from end to end."""
    server = serve(tmp_path / "bundle", items=2, tasks=1)
    walk = Walk(open_context(viewport=SCREEN).new_page(), server, axe, ["light"])
    walk.enter()
    for step in (walk.read_guide, walk.agree, walk.learn, walk.choose, walk.rate, walk.end):
        step()
    check_end(walk.page, server)
    assert walk.looked == PAGES


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_from_the_link_to_the_code_by_keyboard(
    open_context: Open, serve: Serve, run: Path, tmp_path: Path, axe: str, preset: str
) -> None:
    few = {"size": 2, "tasks": 1, "raters": 3, "minimum_seconds": 0, "checks": (3, 3), "contact": "us@example.org"}
    server = serve(studies.built(run, tmp_path / preset, preset, **few).folder)
    walk = Walk(open_context(viewport=SCREEN).new_page(), server, axe if preset == "exp1" else "")
    walk.enter()
    for step in (walk.read_guide, walk.agree, walk.learn, walk.choose, walk.rate, walk.end):
        step()
        if preset != "exp1" and step == walk.choose:
            walk.axe = axe
            walk.look("item")
            walk.axe = ""
    check_end(walk.page, server)
    assert walk.looked == (PAGES if preset == "exp1" else {"item"})


@pytest.mark.slow
def test_the_whole_study_without_scripts(open_context: Open, serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "bundle", items=3, tasks=1)
    walk = Walk(open_context(viewport=SCREEN, java_script_enabled=False).new_page(), server)
    walk.enter()
    for step in (walk.read_guide, walk.agree, walk.learn, walk.choose):
        step()
    for number in range(1, 4):
        walk.at(f"/items/{number}")
        for name in dict.fromkeys(walk.page.locator("input[type=radio]").evaluate_all("a => a.map(e => e.name)")):
            walk.press(f"input[type=radio][name='{name}']", "Space")
        walk.press("#next")
    walk.page.wait_for_selector("#finish")
    walk.press("#finish")
    walk.at("/debrief")
    walk.end()
    check_end(walk.page, server)


@pytest.mark.slow
def test_pages_beside_the_way(open_context: Open, serve: Serve, tmp_path: Path, axe: str) -> None:
    """Refusals, leaving, declining, a full study: in both schemes, and with a way on where there is one."""
    server = serve(tmp_path / "bundle", items=1, tasks=1, seats=1)
    page = open_context(viewport=SCREEN).new_page()
    walk = Walk(page, server, axe)
    base = f"http://127.0.0.1:{server.port}"
    page.goto(f"{base}/p/start?PROLIFIC_PID=%20")
    walk.look("refused")
    page.goto(f"{base}/p/start?PROLIFIC_PID=anna")
    walk.at("/guide")
    page.goto(f"{base}/leave")
    walk.look("leave")
    page.goto(f"{base}/device")
    walk.look()
    walk.press("form button")
    page.wait_for_selector("#code")
    walk.look("unfit")
    page.goto(base)
    quiet = Walk(page, server)
    quiet.read_guide()
    assert page.locator("#agree").is_disabled()
    walk.press("button[form=decline]")
    walk.at("/declined")
    walk.look()
    walk.press("a[href='/consent']")
    quiet.agree()
    quiet.learn()
    quiet.choose()
    ben = Walk(open_context(viewport=SCREEN).new_page(), server)
    ben.enter("ben")
    ben.read_guide()
    ben.agree()
    ben.learn()
    ben.at("/tasks")
    ben.axe = axe
    assert ben.page.inner_text("h1") == "All places are taken"
    ben.look("full")
    walk.press("#exit")
    walk.at("/leave")
    walk.look("leave")
    walk.press("input[name=sure]", "Space")
    walk.press("form[action='/leave'] button")
    walk.at("/closed")
    walk.look()
    ben.page.reload()
    assert ben.page.inner_text("h1") == "Choose a task"
    server.do(lambda c: upsert(c, meta, {"key": "paused", "value": "yes"}))
    page.goto(f"{base}/p/start?PROLIFIC_PID=carl")
    assert "takes a break" in page.inner_text("main")
    assert server.do(lambda c: c.scalar(select(func.count()).select_from(participant))) == 2


@pytest.mark.slow
def test_a_small_window_is_told_so_with_and_without_scripts(
    open_context: Open, serve: Serve, tmp_path: Path
) -> None:
    server = serve(tmp_path / "bundle", items=1, tasks=1, seats=1)
    link = f"http://127.0.0.1:{server.port}/p/start?PROLIFIC_PID=anna"
    for scripts in (True, False):
        page = open_context(viewport=SCREEN, java_script_enabled=scripts).new_page()
        page.goto(link)
        assert not page.locator(".small-screen").is_visible()
        page.set_viewport_size({"width": 1000, "height": 720})
        assert "smaller than 1280 × 720" in page.locator(".small-screen").inner_text()
        assert not is_wide(page), "nothing is cut off"
        page.set_viewport_size({"width": 360, "height": 640})
        assert not is_wide(page)


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[House]:
    """Somebody from Prolific has finished; the study is behind https."""
    house = House.of(tmp_path, "prolific", items=1, tasks=1)
    yield house
    house.close()


def come_back(context: Any, house: House, path: str) -> Any:
    """The page of the code, in a browser that finds the study and Prolific by their names."""
    anna = house.visitor("anna")
    if anna.path == "/guide":
        anna.arrive().choose()
        anna.rate()
        anna.finish()
    if path != "/debrief" and anna.open("/").path == "/debrief":
        anna.send("/debrief")

    def answer(route: Any) -> None:
        found = anna.client.get(route.request.url, follow_redirects=False)
        route.fulfill(status=found.status_code, headers=dict(found.headers), body=found.content)

    context.route(f"{PUBLIC}/**", answer)
    context.route(
        "https://app.prolific.com/**", lambda route: route.fulfill(body="Prolific", content_type="text/html")
    )
    page = context.new_page()
    page.clock.install()
    page.goto(PUBLIC + path)
    return page


@pytest.mark.slow
def test_people_from_prolific_are_taken_back_unless_they_stay(
    open_context: Open, finished: House, axe: str
) -> None:
    code = finished.codes()["COMPLETED"]
    page = come_back(open_context(viewport=SCREEN), finished, "/debrief")
    assert page.is_checked("input[name=return]")
    assert violations(page, axe, ["light"]) == []
    page = come_back(open_context(viewport=SCREEN), finished, "/complete")
    page.wait_for_selector("#returning")
    page.clock.run_for(6_000)
    page.wait_for_url(f"https://app.prolific.com/submissions/complete?cc={code}")
    for options, path, key in (
        ({}, "/complete", "Tab"),
        ({"reduced_motion": "reduce"}, "/complete", ""),
        ({}, "/complete?stay=1", ""),
        ({"java_script_enabled": False}, "/complete", ""),
    ):
        page = come_back(open_context(viewport=SCREEN, **options), finished, path)
        if key:
            page.wait_for_selector("#returning")
            page.keyboard.press(key)
            page.wait_for_selector("text=You stay on this page")
            assert violations(page, axe, ["light"]) == []
        if options.get("java_script_enabled", True):
            page.clock.run_for(60_000)
        assert page.locator("#code").inner_text() == code
        assert (
            page.locator("#back").get_attribute("href")
            == f"https://app.prolific.com/submissions/complete?cc={code}"
        )
