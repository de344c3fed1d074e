"""One Chromium for all, and pages that note what goes wrong in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
IN_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() and os.environ.get("CI") != "true",
        reason="Chromium is not installed (apt-get install chromium)",
    ),
]
PATIENCE = 60_000  # milliseconds; only what never comes takes so long


@pytest.fixture(scope="module")  # Playwright runs once in a process, and other modules start their own
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


Open = Callable[..., Any]


@pytest.fixture
def open_context(browser: Any) -> Iterator[Open]:
    """New browser contexts; a script error or a breach of the policy in any of their pages fails the test."""
    made: list[Any] = []
    wrong: list[str] = []

    def new(**options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(PATIENCE)
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        context.on("console", lambda m: wrong.append(m.text) if "Content Security Policy" in m.text else None)
        made.append(context)
        return context

    yield new
    for context in made:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def axe() -> str:
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


in_both_schemes = pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
COLOURS = ("color-contrast", "link-in-text-block")  # the rules that another scheme may break
RUN = """async ([only, without, parts]) => {
  const rules = Object.fromEntries(without.map(name => [name, { enabled: false }]));
  const how = { preload: location.protocol !== "file:", resultTypes: ["violations"], rules };
  if (only.length) how.runOnly = only;
  const found = await axe.run(parts.length ? { include: parts } : document, how);
  return found.violations.map(one => one.id + " " + one.nodes[0].html.slice(0, 200));
}"""


def violations(
    page: Any,
    axe: str,
    schemes: Sequence[str] = ("light", "dark"),
    without: Sequence[str] = (),
    parts: Sequence[Sequence[str]] = (),
) -> list[str]:
    """What axe finds on a page or its parts, in light everything and in dark what another scheme changes."""
    page.evaluate(axe)
    found: list[str] = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        seen = page.evaluate(RUN, [COLOURS if scheme == "dark" else (), without, parts])
        found += [f"{scheme}: {one}" for one in seen]
    page.emulate_media(color_scheme="light")
    return found


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=PATIENCE)
    return playwright_expect(locator)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


SMALL = """([selector, least]) => [...document.querySelectorAll(selector)]
  .filter(one => one.checkVisibility() && !one.matches(".skip"))
  .map(one => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
  .filter(([, box]) => box.height < least || box.width < least)
  .map(([html]) => html)"""


def small(page: Any, selector: str) -> list[str]:
    """What a finger would miss: visible controls of fewer than 44 pixels, give or take half a one of rounding."""
    return [str(one) for one in page.evaluate(SMALL, [selector, 43.5])]


def focus(page: Any) -> list[str]:
    """How the focus is drawn after a few steps by Tab."""
    press(page, "Tab", "Tab", "Tab")
    style = "(e => [e.outlineStyle, e.outlineWidth])(getComputedStyle(document.activeElement))"
    return [str(one) for one in page.evaluate(style)]


def is_wide(page: Any) -> bool:
    """Whether a page is wider than its screen."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))
