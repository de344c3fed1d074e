"""The report of a real run with every experiment and a study of raters, from a file, on a screen and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.study import ratings
from stillme.study.builder.key import Key
from stillme.study.db.deal import Screen
from tests.browser.conftest import IN_CHROMIUM, Open, is_wide, violations
from tests.studies import EDITORS, Raters, built, make_run

pytestmark = [*IN_CHROMIUM, pytest.mark.slow]
SCREEN, PHONE, SMALL_PHONE = 1280, 390, 360
FIGURES = {"drawn-arms", "drawn-slopes-baseline", "drawn-stereotypes", "drawn-cues", "drawn-occupations"}
FIGURES |= {f"drawn-corrected-{editor}" for editor in EDITORS}
# Of every figure that is shown: its name, its smallest letters in pixels, and texts that reach out of it
LOOK = """() => [...document.querySelectorAll('figure.drawn svg, figure.plot svg')]
  .filter(svg => svg.getClientRects().length)
  .map(svg => {
    const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
    const scale = svg.getBoundingClientRect().width / width, texts = [...svg.querySelectorAll('text')];
    const out = texts.filter(text => {
      if (text.hasAttribute('transform')) return false;
      const box = text.getBBox();
      return box.x < -1 || box.x + box.width > width + 1 || box.y < -2 || box.y + box.height > height + 2;
    });
    const sizes = texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale);
    return [svg.closest('figure').id, Math.min(...sizes), out.map(text => text.textContent)];
  })"""


def mostly_nothing(key: Key, screen: Screen, output: str, question: str) -> str:
    """Every edit is made; what nobody asked for is seen once in a while."""
    return {"edit_success": "5", "skin_tone": "3", "age_drift": "3"}.get(question, "1")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everything")
    run = make_run(folder, mode="joint", counterbalanced=True)
    made = built(run, folder / "study", "exp1")
    raters = Raters(folder, made)
    for task in made.bundle.tasks:
        for name in ("anna", "bob", "cleo"):
            raters.whole(f"{name}-{task.id}", mostly_nothing, task.id)
    ratings.take(run, raters.exported(), made.key)
    raters.close()
    return pipeline.rebuild_report(run, Progress(), only=["html"])


@pytest.fixture(scope="module")
def browser(report: Path, browser: Any) -> Any:
    """After the run: beside a browser no pipeline runs."""
    return browser


def opened(open_context: Open, report: Path, width: int, **options: Any) -> Any:
    page = open_context(viewport={"width": width, "height": 844}, **options).new_page()
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    wrong: list[str] = []
    page.goto(report.as_uri())
    page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    assert wrong == []
    return page


def test_every_figure_of_every_experiment_is_there_and_fits_its_screen(open_context: Open, report: Path) -> None:
    for width, least in ((SCREEN, 10.0), (PHONE, 10.0), (SMALL_PHONE, 9.5)):
        page = opened(open_context, report, width)
        seen = page.evaluate(LOOK)
        names = [name for name, _, _ in seen]
        assert set(names) >= FIGURES and len(names) == len(set(names)), "each is shown once"
        assert [(name, out) for name, _, out in seen if out] == []
        assert [(name, size) for name, size, _ in seen if size < least] == []
        assert not is_wide(page)
        scrolled = (
            "[...document.querySelectorAll('figure .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        )
        assert page.evaluate(f"{scrolled}.length") == 0


def test_nobody_is_kept_out_on_a_phone(open_context: Open, report: Path, axe: str) -> None:
    """What no other test has on its page."""
    page = opened(open_context, report, PHONE)
    parts = [["#drawn-arms"], ["#drawn-stereotypes"], ["#drawn-cues"], ["#people"], ["#made-with"]]
    assert violations(page, axe, parts=parts) == []


def test_on_paper_the_wide_figures_stand_and_fit(open_context: Open, report: Path) -> None:
    page = opened(open_context, report, 688)  # A4 without its margins, in CSS pixels
    page.emulate_media(media="print")
    seen = page.evaluate(LOOK)
    assert {name for name, _, _ in seen} >= FIGURES
    assert min(size for name, size, _ in seen if name.startswith("drawn-")) > 9, "7 pt are 9.3 pixels"
    assert page.locator("svg.narrow:visible").count() == 0
    assert not is_wide(page)
