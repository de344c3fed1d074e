"""The report in a real browser, from file://, by mouse-free means."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import build
from tests.browser.conftest import COLOURS
from tests.report.synthetic_audit import audit, context, examples
from tests.report.synthetic_measures import AGE, BY, GENDER, KINDS, REFERENCE, measurements
from tests.report.synthetic_tables import small

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SCREEN = {"width": 1280, "height": 720}
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

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() and os.environ.get("CI") != "true",
        reason="Chromium is not installed (apt-get install chromium)",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    findings = audit(measure=measurements(kinds=EVERY, share=0.25, missed=dict.fromkeys(OTHERS, 0.3)))
    path.write_text(build(findings, context(examples=examples(2), measured_share=0.25)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def loudest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every editor fails everywhere: the longest summary that three editors can have."""
    by = builtin().manifest.tables.change_by_group.by
    reference = builtin().groups.reference_group[by]
    path = tmp_path_factory.mktemp("loudest") / "report.html"
    findings = audit(
        rates=lambda editor, outcome, group: 0.05 if group == reference else 0.5,
        measure=measurements(share=0.1, missed=dict.fromkeys(OTHERS, 0.5)),
    )
    path.write_text(build(findings, context(), None, LOUD), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With every section that analysis tables make, and their figures."""
    made, path = small(), tmp_path_factory.mktemp("analysed") / "report.html"
    path.write_text(build(made.findings, made.context, None, made.tables), encoding="utf-8")
    return path.as_uri()


def open_page(browser: Any, address: str, **options: Any) -> tuple[Any, list[str]]:
    page = browser.new_page(**{"viewport": SCREEN, **options})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else errors.append("net")
    )
    page.goto(address)
    return page, errors


def bottom(page: Any, selector: str) -> float:
    return float(page.evaluate("s => document.querySelector(s).getBoundingClientRect().bottom", selector))


def test_it_opens_without_errors_and_without_the_network(browser: Any, report: str) -> None:
    page, errors = open_page(browser, report)
    page.evaluate("Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode() }))")
    assert page.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    assert errors == []


def test_the_summary_fits_one_screen(browser: Any, report: str, loudest: str) -> None:
    for address in (report, loudest):
        page, _ = open_page(browser, address)
        assert bottom(page, "#summary .summary") <= SCREEN["height"]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_its_screen(browser: Any, report: str, width: int) -> None:
    page, _ = open_page(browser, report, viewport={"width": width, "height": 844})
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_sort_by_keyboard_and_the_foot_stays(browser: Any, report: str) -> None:
    page, _ = open_page(browser, report)
    table = page.locator("#groups table").first
    button = table.locator("thead button").nth(3)
    button.focus()
    page.keyboard.press("Enter")
    assert column(table) == sorted(column(table))
    page.keyboard.press("Space")
    assert column(table) == sorted(column(table), reverse=True)
    assert table.locator("th[aria-sort=descending]").count() == 1
    assert "raw" in table.locator("tfoot th").inner_text()


def column(table: Any) -> list[float]:
    cells = table.locator("tbody tr td:nth-child(4)").all()
    return [float(cell.get_attribute("data-sort")) for cell in cells]


def test_focus_is_visible(browser: Any, report: str) -> None:
    page, _ = open_page(browser, report)
    for _ in range(3):
        page.keyboard.press("Tab")
    style = page.evaluate("(e => [e.outlineStyle, e.outlineWidth])(getComputedStyle(document.activeElement))")
    assert style == ["solid", "3px"]


def test_every_internal_link_resolves(browser: Any, report: str) -> None:
    page, _ = open_page(browser, report)
    lost = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))"
        ".filter(id => !document.getElementById(id))"
    )
    assert lost == []


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(browser: Any, report: str, scheme: str) -> None:
    page, _ = open_page(browser, report, color_scheme=scheme)
    page_colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (page_colour == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate(CONTRAST) == []


def test_pictures_are_equal_in_size_and_not_cropped(browser: Any, report: str) -> None:
    page, _ = open_page(browser, report)
    pairs = page.evaluate(
        "[...document.querySelectorAll('.pair')].map(p => [...p.querySelectorAll('img')]"
        ".map(i => [i.clientWidth, i.clientHeight, getComputedStyle(i).objectFit]))"
    )
    assert pairs
    for before, after in pairs:
        assert before == after
        assert before[2] == "contain"
        assert before[0] > 100


def test_print_is_light_even_for_readers_in_the_dark(browser: Any, report: str) -> None:
    page, _ = open_page(browser, report, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_noise_is_a_band_that_marks_stand_out_from(browser: Any, report: str, scheme: str) -> None:
    page, _ = open_page(browser, report, color_scheme=scheme)
    found = page.evaluate(
        "(b => [getComputedStyle(b).fill, getComputedStyle(document.body).backgroundColor, b.getBBox().width > 0])"
        "(document.querySelector('#figure-lightness .band'))"
    )
    assert found[0] != found[1]
    assert found[2]


@pytest.mark.parametrize("width", [1280, 420])
def test_numbers_in_the_lightness_figure_do_not_touch(browser: Any, report: str, width: int) -> None:
    page, _ = open_page(browser, report, viewport={"width": width, "height": 844})
    boxes = page.evaluate(
        "[...document.querySelectorAll('#figure-lightness .number text')]"
        ".filter(t => t.getClientRects().length).map(t => t.getBBox()).map(b => [Math.round(b.y), b.x, b.x + b.width])"
    )
    assert boxes
    boxes.sort()
    for (y, _, right), (below, left, _) in pairwise(boxes):
        assert y != below or right + 2 <= left


# With analysis tables


def test_the_whole_page_opens_without_errors_and_fits_its_screens(browser: Any, analysed: str) -> None:
    for width in (1280, 390):
        page, errors = open_page(browser, analysed, viewport={"width": width, "height": 844})
        page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_out_of_reach(browser: Any, analysed: str, scheme: str) -> None:
    import axe_playwright_python

    page, _ = open_page(browser, analysed, color_scheme=scheme)
    page.evaluate("for (const d of document.querySelectorAll('main details')) d.open = true")
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    only = f", {COLOURS}" if scheme == "dark" else ""
    run = (
        f"async () => (await axe.run(document, {{preload: false, resultTypes: ['violations']{only}}})).violations"
    )
    found = page.evaluate(run)
    assert not found, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]


def test_the_contents_open_by_keyboard_and_close_after_a_choice(browser: Any, analysed: str) -> None:
    page, _ = open_page(browser, analysed)
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


def test_a_link_that_was_cut_short_is_no_error(browser: Any, analysed: str) -> None:
    page, errors = open_page(browser, analysed)
    page.evaluate("location.hash = '#bounds%E0%A4%A'")
    page.wait_for_function("location.hash.length > 8")
    page.wait_for_timeout(100)
    assert errors == []


def test_tables_and_figures_fit_on_paper(browser: Any, analysed: str) -> None:
    page, _ = open_page(browser, analysed, viewport={"width": 688, "height": 1000})  # A4 less its margins
    page.emulate_media(media="print")
    wide = page.evaluate(
        "[...document.querySelectorAll('table, svg')].filter(e => !e.closest('details') && "
        "e.getBoundingClientRect().right > 689).map(e => e.closest('[id]').id)"
    )
    assert wide == []
    assert not page.locator("nav").is_visible()


def test_no_name_is_cut_within_a_word_on_paper(browser: Any, analysed: str) -> None:
    page, _ = open_page(browser, analysed, viewport={"width": 688, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("for (const d of document.querySelectorAll('main details')) d.open = true")
    cut = """() => [...document.querySelectorAll('.dense td')].filter(cell => {
      const text = cell.firstChild, at = text ? text.textContent.indexOf('(simulated)') : -1;
      if (at < 0) return false;
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + '(simulated)'.length);
      return range.getClientRects().length > 1;
    }).map(cell => cell.closest('.table').id)"""
    assert page.evaluate(cut) == []
