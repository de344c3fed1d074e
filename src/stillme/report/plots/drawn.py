"""The block that a drawn figure is: its words and numbers at once, its picture when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl
from markupsafe import Markup

from stillme.report.blocks import Block, Data, data
from stillme.report.plots import inline, render
from stillme.report.plots.sheet import NARROW, WIDE, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn(Block):
    """`alternative`: the figure in words, lowest and highest named. `note`: how many, of whom, what is missing.
    `narrow`: the same for a phone; the page shows one of the two, and says the words once."""

    kind = "drawn"
    id: str
    title: str
    alternative: str
    note: str
    data: Data
    sheet: Sheet = field(compare=False, repr=False)
    narrow: Sheet = field(compare=False, repr=False)

    @cached_property
    def svg(self) -> Markup:
        """Inline, for a page."""
        return inline.page(self._svg, self.id, self.title, self.alternative, self.sheet)

    @cached_property
    def phone(self) -> Markup:
        """Inline, for a page that is narrow."""
        return inline.phone(render.encoded(render.figure(self.narrow), "svg"), self.id, self.narrow)

    def figure(self) -> Figure:
        """For a notebook, or for a paper that wants it otherwise."""
        return render.figure(self.sheet)

    def encoded(self, form: render.Format) -> bytes:
        """The content of a file."""
        if form == "svg":
            return inline.alone(self._svg, self.title, self.alternative, self.sheet).encode()
        return render.encoded(self.figure(), form, self.title)

    @cached_property
    def _svg(self) -> bytes:
        """As matplotlib writes it."""
        return render.encoded(self.figure(), "svg")


Layout = Callable[[float], Sheet]


def drawn(id: str, title: str, layout: Layout, alternative: str, note: str, numbers: pl.DataFrame) -> Drawn:
    """`layout`: width -> the sheet. `numbers`: the tidy frame behind the figure, offered as CSV."""
    return Drawn(id, title, alternative, note, data(id, numbers), layout(WIDE), layout(NARROW))
