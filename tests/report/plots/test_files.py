"""Figures as files: the same bytes for the same numbers, text as text, fonts inside."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

import stillme.report
from stillme.report import figures
from stillme.report.plots import files
from stillme.report.plots.palette import SERIES, THEME
from tests.report.plots.frames import draw

TEMPLATES = Path(stillme.report.__file__).parent / "templates"
SVG = "{http://www.w3.org/2000/svg}"


def inflated(pdf: bytes) -> bytes:
    """The file and what its compressed streams hold."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    found = [pdf]
    for stream in streams:
        try:
            found.append(zlib.decompress(stream))
        except zlib.error:
            continue
    return b"\n".join(found)


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        files.write(draw("forest"), tmp_path / folder)
    names = [path.name for path in sorted((tmp_path / "one").iterdir())]
    assert names == ["f1.pdf", "f1.png", "f1.svg"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_pdf_has_its_fonts_inside_and_no_date() -> None:
    pdf = inflated(draw("forest").encoded("pdf"))
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    assert b"CreationDate" not in pdf and b"ModDate" not in pdf
    width, height = map(float, re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf).groups())  # type: ignore[union-attr]
    assert width == 504 and 200 < height < 720  # seven inches, and a page holds it


def test_a_png_is_seven_inches_at_three_hundred_dots(tmp_path: Path) -> None:
    path = next(path for path in files.write(draw("ladder"), tmp_path) if path.suffix == ".png")
    with Image.open(path) as image:
        assert image.width == 2100 and round(image.info["dpi"][0]) == 300
        assert image.convert("RGB").getpixel((image.width - 1, 0)) == (255, 255, 255)


def test_an_svg_stands_alone_with_text_as_text() -> None:
    drawn = draw("forest")
    root = ElementTree.fromstring(drawn.encoded("svg"))
    assert root.get("width") == "504pt" and "DejaVu Sans" in str(root.get("font-family"))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "Southeast Asian" in texts and root.findtext(f"{SVG}desc") == drawn.alternative
    assert "class" not in {name for element in root.iter() for name in element.attrib}


def test_a_name_in_another_script_or_with_signs_is_no_fault() -> None:
    from dataclasses import replace

    from tests.report.synthetic_audit import EDITORS

    named = tuple(replace(party, label=f"编辑器 $x_{n}$ <&>") for n, party in enumerate(EDITORS))
    drawn = draw("forest", editors=named)
    assert drawn.encoded("png") and drawn.encoded("pdf")
    assert "编辑器 $x_0$ &lt;&amp;&gt;" in drawn.svg


def test_figures_look_as_the_page_does() -> None:
    """Colours are those of report.css, and every class that a figure uses is spelled in plots.css."""
    css, own = ((TEMPLATES / name).read_text() for name in ("report.css", "plots.css"))
    for place, colour in enumerate(SERIES):
        assert f"--c{place}: {colour};" in css and figures.colour(place) == f"c{place}"
    for colour, name in THEME.items():
        assert (
            f".fill-{name} {{ fill: var(--{name}); }}" in own
            and f".stroke-{name} {{ stroke: var(--{name}); }}" in own
        )
        assert f"--{name}: {colour};" in css + own


@pytest.mark.parametrize("kind", ["forest", "heatmap", "flow"])
def test_classes_of_a_figure_are_spelled_in_its_style(kind: str) -> None:
    own = (TEMPLATES / "plots.css").read_text()
    for name in {name for found in re.findall(r'class="([^"]+)"', draw(kind).svg) for name in found.split()}:
        assert f".{name} " in own
