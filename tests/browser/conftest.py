"""One Chromium for all, and pages that note what goes wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


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
        context.set_default_timeout(20_000)
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


COLOURS = "runOnly: ['color-contrast', 'link-in-text-block']"  # the rules that another scheme may break


def violations(page: Any, axe: str) -> dict[str, list[str]]:
    """What axe finds on a page, in light everything and in dark what another scheme changes."""
    page.evaluate(axe)
    found: dict[str, list[str]] = {}
    for scheme, rules in (("light", "{}"), ("dark", f"{{ {COLOURS} }}")):
        page.emulate_media(color_scheme=scheme)
        said = "r.violations.map(v => v.id + ' ' + v.nodes[0].html)"
        found[scheme] = page.evaluate(f"axe.run(document, {rules}).then(r => {said})")
    page.emulate_media(color_scheme="light")
    return {scheme: some for scheme, some in found.items() if some}
