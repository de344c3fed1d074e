"""The block that a drawn figure is: its words and numbers at once, its picture when somebody looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl
from markupsafe import Markup

from stillme.report.blocks import Block, Data, data
from stillme.report.plots import inline, render
from stillme.report.plots.sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn(Block):
    """`alternative`: the figure in words, lowest and highest named. `note`: how many, of whom, what is missing."""

    kind = "drawn"
    id: str
    title: str
    alternative: str
    note: str
    data: Data
    sheet: Sheet = field(compare=False, repr=False)

    @cached_property
    def svg(self) -> Markup:
        """Inline, for a page."""
        return inline.page(self._svg, self.id, self.title, self.alternative, self.sheet)

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


def drawn(id: str, title: str, sheet: Sheet, alternative: str, note: str, numbers: pl.DataFrame) -> Drawn:
    """`numbers`: the tidy frame behind the figure, offered as CSV."""
    return Drawn(id, title, alternative, note, data(id, numbers), sheet)
