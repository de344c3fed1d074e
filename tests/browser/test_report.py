"""The report in a real browser, from file://, by mouse-free means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import build
from tests.browser.conftest import COLOURS, IN_CHROMIUM, Open, focus, in_both_schemes, is_wide, violations
from tests.report.synthetic_audit import audit, context, examples
from tests.report.synthetic_measures import AGE, BY, GENDER, KINDS, REFERENCE, measurements
from tests.report.synthetic_tables import small

pytestmark = IN_CHROMIUM
Go = Callable[..., Any]
SCREEN = {"width": 1280, "height": 720}
PAPER = {"width": 688, "height": 1000}  # A4 less its margins
EVERY = (*KINDS, AGE, GENDER)
OTHERS = [group for group in builtin().groups.ids(BY) if group != REFERENCE]

EDITORS, OUTCOMES = ("even", "lighten", "replace"), builtin().manifest.tables.contrasts
LOUD = {  # every group but the reference group's is named, of every editor and outcome
    f"disparity_by_{BY}": pl.DataFrame(
        [{"editor": e, "outcome": o, "p_rank": 0.0001} for e in EDITORS for o in OUTCOMES]
    ),
    f"mean_by_{BY}": pl.DataFrame(
        [
            {"editor": e, "outcome": o, "group": g, "deviation": side, "low": side - 0.01, "high": side + 0.01}
            for e in EDITORS
            for o in OUTCOMES
            for g, side in ((REFERENCE, -0.3), *((other, 0.1) for other in OTHERS))
        ]
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    findings = audit(measure=measurements(kinds=EVERY, share=0.25, missed=dict.fromkeys(OTHERS, 0.3)))
    path.write_text(build(findings, context(examples=examples(2), measured_share=0.25)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def loudest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every editor fails everywhere: the longest summary that three editors can have."""
    path = tmp_path_factory.mktemp("loudest") / "report.html"
    findings = audit(
        rates=lambda editor, outcome, group: 0.05 if group == REFERENCE else 0.5,
        measure=measurements(share=0.1, missed=dict.fromkeys(OTHERS, 0.5)),
    )
    path.write_text(build(findings, context(), None, LOUD), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every section that analysis tables make, and their figures."""
    made, path = small(), tmp_path_factory.mktemp("analysed") / "report.html"
    path.write_text(build(made.findings, made.context, None, made.tables), encoding="utf-8")
    return path


@pytest.fixture
def go(open_context: Open) -> Iterator[Go]:
    """Opens a page; whatever it calls an error, or asks the network for, fails the test."""
    wrong: list[str] = []

    def open_(path: Path, viewport: dict[str, int] = SCREEN, unfold: str = "", **options: Any) -> Any:
        page = open_context(viewport=viewport, **options).new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(path.as_uri())
        if unfold:
            page.evaluate("s => { for (const one of document.querySelectorAll(s)) one.open = true; }", unfold)
        return page

    yield open_
    assert wrong == []


def test_the_summary_fits_one_screen(go: Go, report: Path, loudest: Path) -> None:
    for path in (report, loudest):
        bottom = go(path).evaluate("document.querySelector('#summary .summary').getBoundingClientRect().bottom")
        assert bottom <= SCREEN["height"]


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.slow)])
def test_no_page_is_wider_than_its_screen(go: Go, report: Path, analysed: Path, width: int) -> None:
    for path in (report, analysed):
        assert not is_wide(go(path, {"width": width, "height": 844}, unfold="details"))


def test_tables_sort_by_keyboard_and_the_foot_stays(go: Go, report: Path) -> None:
    page = go(report)
    table = page.locator("#groups table").first
    table.locator("thead button").nth(3).focus()
    page.keyboard.press("Enter")
    assert column(table) == sorted(column(table))
    page.keyboard.press("Space")
    assert column(table) == sorted(column(table), reverse=True)
    assert table.locator("th[aria-sort=descending]").count() == 1
    assert "raw" in table.locator("tfoot th").inner_text()
    assert focus(page) == ["solid", "3px"]


def column(table: Any) -> list[float]:
    cells = table.locator("tbody tr td:nth-child(4)").all()
    return [float(cell.get_attribute("data-sort")) for cell in cells]


CONTRAST = """
() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = parse(c).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
  for (const d of document.querySelectorAll('details')) d.open = true;
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || ['SCRIPT', 'STYLE', 'title', 'desc'].includes(e.tagName)) continue;
    const s = getComputedStyle(e), ink = e instanceof SVGElement ? s.fill : s.color;
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(e.tagName + ' ' + e.className + ' ' + ink + ' on ' + behind(e));
  }
  return bad;
}
"""


@in_both_schemes
def test_text_has_contrast_and_marks_stand_out_from_the_noise(go: Go, report: Path, scheme: str) -> None:
    page = go(report, color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate(CONTRAST) == []
    band = (
        "(b => [getComputedStyle(b).fill, b.getBBox().width])(document.querySelector('#figure-lightness .band'))"
    )
    fill, width = page.evaluate(band)
    assert fill != paper and width > 0


def test_pictures_are_shown_equal_in_size_and_not_cropped(go: Go, report: Path) -> None:
    page = go(report)
    page.evaluate("Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode() }))")
    assert page.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    pairs = page.evaluate(
        "[...document.querySelectorAll('.pair')].map(p => [...p.querySelectorAll('img')]"
        ".map(i => [i.clientWidth, i.clientHeight, getComputedStyle(i).objectFit]))"
    )
    assert pairs
    for before, after in pairs:
        assert before == after and before[2] == "contain" and before[0] > 100


def test_numbers_in_the_lightness_figure_do_not_touch(go: Go, report: Path) -> None:
    page = go(report)
    for width in (1280, 420):
        page.set_viewport_size({"width": width, "height": 844})
        boxes = page.evaluate(
            "[...document.querySelectorAll('#figure-lightness .number text')]"
            ".filter(t => t.getClientRects().length).map(t => t.getBBox()).map(b => [Math.round(b.y), b.x, b.x + b.width])"
        )
        assert boxes
        boxes.sort()
        for (y, _, right), (below, left, _) in pairwise(boxes):
            assert y != below or right + 2 <= left


# With analysis tables


@pytest.mark.parametrize("colours", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_is_out_of_reach(go: Go, analysed: Path, axe: str, colours: bool) -> None:
    """For colours axe takes longest; the test above looks at them, too."""
    page = go(analysed, unfold="main details")
    found = violations(page, axe) if colours else violations(page, axe, ["light"], without=COLOURS)
    assert found == []


def test_the_contents_open_by_keyboard_and_close_after_a_choice(go: Go, analysed: Path) -> None:
    page = go(analysed)
    heading = page.locator("nav summary", has_text="Certainty")
    heading.focus()
    page.keyboard.press("Enter")
    link = page.locator("nav a", has_text="Bounds")
    assert link.is_visible()
    page.locator("nav summary", has_text="Appendix").click()
    assert not link.is_visible()  # one heading at a time
    page.keyboard.press("Escape")
    assert page.locator("nav details[open]").count() == 0
    heading.press("Enter")
    link.click()
    assert page.locator("nav details[open]").count() == 0
    assert page.evaluate("location.hash") == "#bounds"
    assert 0 <= page.evaluate("document.getElementById('bounds').getBoundingClientRect().top") < 200
    cut_short = "new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = '#bounds%E0%A4%A'; })"
    page.evaluate(cut_short)  # is no error


@pytest.mark.slow
def test_on_paper_all_is_light_and_fits(go: Go, analysed: Path) -> None:
    page = go(analysed, PAPER, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    wide = page.evaluate(
        "[...document.querySelectorAll('table, svg')].filter(e => !e.closest('details') && "
        "e.getBoundingClientRect().right > 689).map(e => e.closest('[id]').id)"
    )
    assert wide == []
    assert not page.locator("nav").is_visible()
    page.evaluate("for (const d of document.querySelectorAll('main details')) d.open = true")
    cut = """() => [...document.querySelectorAll('.dense td')].filter(cell => {
      const text = cell.firstChild, at = text ? text.textContent.indexOf('(simulated)') : -1;
      if (at < 0) return false;
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + '(simulated)'.length);
      return range.getClientRects().length > 1;
    }).map(cell => cell.closest('.table').id)"""
    assert page.evaluate(cut) == [], "no name is cut within a word"
