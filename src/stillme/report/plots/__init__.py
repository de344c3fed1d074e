"""The report's and papers' figures: one file a kind, each a function from a frame to a `Drawn` block.

    name(id, title, frame, context, …) -> Drawn

A sheet is put together without matplotlib; it is loaded when somebody looks at the picture or writes a file.
Prints numbers and computes none but the naive interval, which is nobody's claim.
"""

from stillme.report.plots.arms import arms
from stillme.report.plots.bars import bars
from stillme.report.plots.components import components
from stillme.report.plots.corrected import corrected
from stillme.report.plots.distributions import distributions
from stillme.report.plots.drawn import Drawn
from stillme.report.plots.flow import flow
from stillme.report.plots.forest import forest
from stillme.report.plots.heatmap import heatmap
from stillme.report.plots.ladder import ladder
from stillme.report.plots.refusal_bars import refusal_bars
from stillme.report.plots.slopes import slopes
from stillme.report.plots.stereotypes import cues, stereotypes

__all__ = [
    "Drawn",
    "arms",
    "bars",
    "components",
    "corrected",
    "cues",
    "distributions",
    "flow",
    "forest",
    "heatmap",
    "ladder",
    "refusal_bars",
    "slopes",
    "stereotypes",
]
