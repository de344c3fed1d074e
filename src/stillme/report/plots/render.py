"""A sheet drawn by matplotlib: the only file that loads it. One figure object gives SVG, PDF and PNG.

No pyplot, no state, no clock, nobody's own settings: the same sheet gives the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from stillme.report.plots.sheet import Shape, Sheet, Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["svg", "pdf", "png"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png")
INCH, DPI = 72.0, 300
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "stillme",
    "pdf.fonttype": 42,  # TrueType inside, which publishers ask for
    "path.simplify": False,
    "font.family": "DejaVu Sans",
}
_UNDATED: dict[Format, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def figure(sheet: Sheet) -> Figure:
    """The sheet as a figure of matplotlib, to be changed or saved by whoever wants it otherwise."""
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    with _settings():
        drawn = Figure(figsize=(sheet.width / INCH, sheet.height / INCH), dpi=INCH, facecolor="#ffffff")
        points = Affine2D().scale(1 / INCH, -1 / INCH).translate(0, sheet.height / INCH) + drawn.dpi_scale_trans
        for order, thing in enumerate(sheet.things()):
            artist = _words(thing) if isinstance(thing, Words) else _shape(thing)
            artist.set(transform=points, zorder=order, clip_on=False)
            drawn.add_artist(artist)
        return drawn


def encoded(drawn: Figure, form: Format, title: str = "") -> bytes:
    """The figure as a file's content."""
    about = {**_UNDATED[form], **({"Title": title} if form != "png" and title else {})}
    drawn.patch.set_visible(form == "png")  # paper has its own colour
    content = io.BytesIO()
    with _settings(), _bare_fonts(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn.savefig(content, format=form, dpi=DPI if form == "png" else INCH, metadata=about)
    return content.getvalue()


@contextmanager
def _settings() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


@contextmanager
def _bare_fonts() -> Iterator[None]:
    """Fonts go into a PDF without the tables by which letters are chosen and set: words are set already, and to
    read those tables for every figure took half of the time. Where fontTools has its list elsewhere, they go in.
    """
    from fontTools.subset import Options  # type: ignore[import-untyped]

    known = getattr(Options, _DROPPED, None)
    if known is None:
        yield
        return
    setattr(Options, _DROPPED, [*known, "GSUB", "GPOS", "GDEF"])
    try:
        yield
    finally:
        setattr(Options, _DROPPED, known)


_DROPPED = "_drop_tables_default"


def _shape(shape: Shape) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "C": Path.CURVE4, "Z": Path.CLOSEPOLY}
    style = shape.style
    return PathPatch(
        Path([step[1:] for step in shape.steps], [codes[step[0]] for step in shape.steps]),
        facecolor=style.fill or "none",
        edgecolor=style.stroke or "none",
        linewidth=style.width if style.stroke else 0,
        linestyle=(0, (2.5, 1.5)) if style.dashed else "solid",
        alpha=style.opacity if style.opacity < 1 else None,
        joinstyle="miter",
        capstyle="butt",
    )


def _words(words: Words) -> Any:
    from matplotlib.text import Text

    return Text(
        words.x,
        words.y,
        words.text,
        ha={"start": "left", "middle": "center", "end": "right"}[words.anchor],
        va="baseline",
        fontsize=words.size,
        fontweight="bold" if words.bold else "normal",
        color=words.colour,
        rotation=90 if words.turned else 0,
        rotation_mode="anchor",
        parse_math=False,
    )
