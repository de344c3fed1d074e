"""The coordinators' pages in real Chromium: logging in by keyboard, an overview that keeps itself up to date, axe."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from stillme.study.bundle import CHECK
from stillme.study.db import people, seats
from stillme.study.db.deal import allowed, is_passed
from stillme.study.db.people import Launch
from stillme.study.server import answers, coordinators
from stillme.study.server.answers import Operation
from tests.browser.conftest import IN_CHROMIUM, Open, in_both_schemes, is_wide, violations
from tests.study import bundles
from tests.study.office import RULES
from tests.study.running import Running

pytestmark = IN_CHROMIUM
PASSWORD = "three random words"
KEPT = os.environ.get("STILLME_SHOTS", "")  # a folder for pictures of the pages


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A study with somebody at every step."""
    folder = tmp_path_factory.mktemp("admin") / "bundle"
    bundles.write(folder, items=6, tasks=4, exclude=RULES)
    running = Running(folder).start()
    coordinators.add(running.engine, "anna", PASSWORD, time.time())
    for n in range(7):
        rate(running, f"p{n}", f"t0{n // 3}", items=6 if n % 3 < 2 else 2, careless=n == 1)
    yield running
    running.stop()


def rate(served: Running, pid: str, task: str, items: int, careless: bool = False) -> None:
    """Somebody who rates the first items of a task, with or without care."""
    began = time.time() - 1500

    def work(connection: Connection) -> None:
        bundle, keys = served.bundle, served.keys
        token = people.enter(
            connection, keys, Launch(pid, "study", f"s-{pid}"), f"address {int(pid[1:]) // 2}", began
        )
        person = people.who(connection, keys, token, began)
        assert person is not None
        people.consent(connection, person.id, "c1", began)
        sat = seats.sit(connection, seats.take(connection, bundle, person.id, task, began))
        for place, screen in enumerate(sat.deal.screens[:items]):
            sent = [made("open", screen.item)]
            for field, values in allowed(bundle, screen).items():
                right = [
                    one
                    for one in sorted(values)
                    if field == CHECK and is_passed(bundle, screen, one) is not careless
                ]
                value = right[0] if right else "2" if careless else sorted(values)[(place + len(field)) % 3]
                sent.append(
                    made("answer", screen.item, field=field, value=value, rev=1, ms=900 if careless else 6_000)
                )
            if place == 0:
                sent.append(
                    made("comment", screen.item, value=f"The <light> is odd & dark, says number {pid[1:]}.", rev=1)
                )
            answers.apply(connection, bundle, sat, [*sent, made("done", screen.item)], began + 60 * (place + 1))
        if items == len(sat.deal.screens):
            answers.finish(connection, bundle, sat, began + 1400)

    served.do(work)


def made(kind: Any, item: str, **more: Any) -> Operation:
    return Operation(id=str(uuid4()), kind=kind, item=item, **more)


@pytest.fixture
def entered(served: Running, open_context: Open) -> Callable[..., Any]:
    """A page of somebody who logged in by keyboard alone."""

    def log_in(**options: Any) -> Any:
        page = open_context(**options).new_page()
        page.goto(f"{served.origin}/admin")
        assert page.url.endswith("/admin/login")
        page.locator("#name").focus()
        page.keyboard.type("anna")
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin")
        return page

    return log_in


@in_both_schemes
def test_every_page_is_for_everybody(
    served: Running, entered: Callable[..., Any], open_context: Open, axe: str, scheme: str
) -> None:
    outside = open_context().new_page()
    outside.goto(f"{served.origin}/admin/login")
    page = entered()

    def look(name: str, page: Any = page) -> None:
        """The page's picture is kept where a folder for it is given."""
        assert violations(page, axe, [scheme]) == [], name
        if KEPT:
            page.screenshot(path=str(Path(KEPT) / f"{name}-{scheme}.png"), full_page=True)

    look("login", outside)
    look("overview")
    page.locator("#marked a").first.click()
    page.wait_for_url("**/raters/*")
    look("rater")
    for name in ("comments", "log"):
        page.goto(f"{served.origin}/admin/{name}")
        look(name)


@pytest.mark.slow
def test_pages_fit_a_small_screen(served: Running, entered: Callable[..., Any]) -> None:
    page = entered(viewport={"width": 390, "height": 800})
    for path in ("/admin", "/admin/log"):
        page.goto(served.origin + path)
        assert not is_wide(page), path


@pytest.mark.slow
def test_the_overview_keeps_itself_up_to_date(served: Running, entered: Callable[..., Any]) -> None:
    context_page = entered()
    context_page.clock.install()
    context_page.goto(f"{served.origin}/admin")
    tile = context_page.locator(".tiles dd").first
    before = tile.inner_text()
    rate(served, "p90", "t03", items=6)
    with context_page.expect_response("**/admin"):
        context_page.clock.run_for(16_000)
    now = served.do(lambda c: sum(card.complete for card in seats.board(c, served.bundle).values()))
    context_page.get_by_text(f"{now} of 12").wait_for()
    assert tile.inner_text() != before
    served.do(lambda c: c.exec_driver_sql("DELETE FROM admin_session"))
    context_page.clock.run_for(16_000)
    context_page.get_by_text("could not be updated").wait_for()


@pytest.mark.slow
def test_all_works_without_scripts(served: Running, entered: Callable[..., Any]) -> None:
    page = entered(java_script_enabled=False)
    page.get_by_role("link", name="Reload").click()
    page.locator("#seats tbody tr", has_text="at work").first.get_by_role("link").click()
    rater = page.locator("h1 code").inner_text()
    page.get_by_label("The rater is marked").fill("wrote that they guessed")
    page.get_by_role("button", name="Exclude").click()
    assert page.get_by_text("wrote that they guessed").first.is_visible()
    page.get_by_role("link", name="Log", exact=True).click()
    assert page.locator("tbody tr", has_text="exclude").first.get_by_text(rater).is_visible()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("button", name="Let nobody new in").click()
    assert page.get_by_text("Entry is paused").is_visible()
    page.get_by_role("button", name="Let new people in again").click()
    page.get_by_role("button", name="Log out anna").click()
    assert page.url.endswith("/admin/login")
