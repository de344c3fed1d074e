"""Takes the pictures of docs/images: in a real browser, of a finished demo or of a study that is served as a pilot; and
the README's strip of one portrait with four edits of it, painted by the planted editor.

python tools/screenshots.py demo/run/report.html
python tools/screenshots.py http://127.0.0.1:8422
python tools/screenshots.py before-after
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent.parent / "docs/images"
STRIP_HEAD = "black-female-30s"
COLOURS = 128  # enough for pages of text, and a third of the size


def main(what: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    if what == "before-after":
        before_after()
        return
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        if what.startswith("http://"):
            study(page, what.rstrip("/"))
        else:
            report(page, Path(what).absolute())
        browser.close()


def before_after() -> None:
    """The portrait; the edit as asked; soft erasure; lightened skin; another person in place of this one."""
    from stillme.core import images
    from stillme.core.records import Status
    from stillme.editors.planted import PlantedOutcome, paint, read_truth
    from stillme.engine.backends import BackendContext
    from stillme.protocol import builtin
    from stillme.sources import heads

    protocol = builtin()
    prompt = protocol.prompt["O-01"]
    truth = {name: read_truth(name, BackendContext(Path(), protocol)) for name in ("even", "lightens")}
    effects = {effect.id: effect for name in truth for effect in truth[name].effects}
    planted = {
        "soft erasure": ("erased", 0.0),
        "skin lightened": ("lightened", 1.0),
        "race changed": ("other_race", 0.6),
    }
    drawn = {"as asked": ()} | {label: ((effects[name], size),) for label, (name, size) in planted.items()}
    shown = {"source portrait": heads.photograph(heads.load(STRIP_HEAD))}
    shown |= {
        label: images.pixels(paint(STRIP_HEAD, prompt, PlantedOutcome(Status.OK, draw), 0))
        for label, draw in drawn.items()
    }
    width, gap, line = 256, 8, 34
    strip = Image.new("RGB", (len(shown) * (width + gap) - gap, width + line), "white")
    font = ImageFont.load_default(19)
    for number, (label, pixels) in enumerate(shown.items()):
        left = number * (width + gap)
        strip.paste(Image.fromarray(pixels).resize((width, width), Image.Resampling.LANCZOS), (left, 0))
        ImageDraw.Draw(strip).text((left + width / 2, width + line / 2), label, "black", font, anchor="mm")
    strip.save(IMAGES / "before-after.webp", quality=88, method=6)


def report(page: Any, path: Path) -> None:
    """The first screen, the heat map, and every edit beside its source."""
    page.goto(path.as_uri())
    keep(page, "report")
    page.goto(f"{path.as_uri()}#prompts-by-group")
    keep(page, "report-prompts")
    page.goto((path.parent / "report/browse/index.html").as_uri())
    page.wait_for_timeout(1500)
    keep(page, "browse")


def study(page: Any, base: str) -> None:
    """Walks through a study as a rater called `screenshots`, who must not have been there before."""
    page.goto(f"{base}/p/start?PROLIFIC_PID=screenshots")
    keep(page, "study-guide")
    go(page, "form[action='/guide'] button")
    for tick in page.query_selector_all("input[name=statement]"):
        tick.check()
    page.locator("#agree").scroll_into_view_if_needed()
    keep(page, "study-consent")
    go(page, "#agree")
    learn(page)
    keep(page, "study-tasks")
    go(page, "form[action='/tasks'] button")
    rate(page)
    go(page, "form[action='/debrief'] button")
    keep(page, "study-complete")


def learn(page: Any) -> None:
    """Answers every example by its middle answer until it is over; keeps the first feedback."""
    is_kept = False
    while "/tutorial/" in page.url:
        if page.query_selector("input[name=go]") is None:
            page.locator("input[type=radio]").nth(2).check()
        go(page, "main form button")
        if not is_kept and page.query_selector(".feedback"):
            keep(page, "study-tutorial")
            is_kept = True


def rate(page: Any) -> None:
    """Every item by its keys; the first is kept half answered."""
    items = int(page.get_attribute("main", "data-of"))
    for number in range(1, items + 1):
        page.wait_for_selector(f"body[data-ready]:has(main[data-number='{number}'])")
        asked = page.locator("main fieldset").count()
        for place in range(asked):
            if number == 1 and place == asked // 2:
                keep(page, "study-item")
            page.keyboard.press(str(1 + place % 3))
        page.wait_for_selector("#next[aria-disabled=false]")
        page.keyboard.press("n")
    page.click("#finish")
    page.wait_for_url("**/debrief")


def go(page: Any, button: str) -> None:
    with page.expect_navigation():
        page.click(button)


def keep(page: Any, name: str) -> None:
    """What the window shows, with few colours."""
    shot = Image.open(io.BytesIO(page.screenshot()))
    shot.convert("RGB").quantize(COLOURS).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
