"""The whole analysis: every part in its order, and what the tables' own arithmetic says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from stillme.analysing.audit import Audit
from stillme.analysing.inputs import Inputs
from stillme.analysing.parts import (
    disparities,
    experiments,
    missing,
    models,
    outcomes,
    people,
    published,
    sureness,
)
from stillme.analysing.tables import Tabled, word
from stillme.analysis.lint import lint_frame

Part = Callable[[Audit], Iterator[Tabled]]
PARTS: tuple[Part, ...] = (
    outcomes.design,
    models.components,
    outcomes.build,
    disparities.build,
    sureness.directions,
    published.build,
    models.build,
    sureness.choices,
    missing.build,
    people.build,
    experiments.build,
)
_LINT = dict.fromkeys(("table", "severity", "rule", "column", "said"), pl.String)


def tables(inputs: Inputs, seed: int = 0) -> list[Tabled]:
    """Every table that the inputs allow, and last what lint says of them."""
    audit = Audit(inputs, seed)
    found = [table for part in PARTS for table in part(audit)]
    return [*found, linted(found)]


def linted(tables: Sequence[Tabled]) -> Tabled:
    rows = [
        (table.id, one.severity.value, one.rule, one.column, one.said)
        for table in tables
        for one in lint_frame(table.frame, table.id).findings
    ]
    frame = pl.DataFrame(rows, schema=_LINT, orient="row")
    shown = tuple(word(name) for name in _LINT)
    return Tabled("lint", "Lint", "What the tables' own arithmetic says", frame, shown)
