"""What figures are drawn from: scores over their whole scale, and every prompt × group, shrunken. Files only."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import Tabled
from stillme.stats.distributed import distributions
from stillme.stats.shrunken import BELOW, shrunken

PART = "How often"


def build(audit: Audit) -> Iterator[Tabled]:
    for dimension in audit.dimensions:
        known = audit.scores.drop_nulls(dimension)
        frame = distributions(known, audit.protocol, ["editor", dimension])
        title = f"Scores over their scale, by perceived {dimension}"
        yield Tabled(f"distributions_by_{dimension}", PART, title, frame)
    if audit.dimension in audit.dimensions:
        frame = shrunken(audit.marked, audit.dimension)
        title = f"Every prompt by perceived {audit.dimension}, shrunken, marked where the rest differs"
        notes = (f"Exploratory: at most {BELOW:.0%} of the marked cells are expected to be marked by chance.",)
        yield Tabled(f"shrunken_by_{audit.dimension}", PART, title, frame, (), notes)
