"""The whole analysis: every part in its order, and what the tables' own arithmetic says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.inputs import Inputs
from stillme.analysis.tables.parts import (
    cells,
    disparities,
    experiments,
    missing,
    models,
    outcomes,
    people,
    preferences,
    published,
    sureness,
)
from stillme.analysis.tables.tables import Tabled, word
from stillme.stats.lint import lint_frame

Part = Callable[[Audit], Iterator[Tabled]]
# In their order, with what a person who waits is told; the ordinal model takes longest
PARTS: tuple[tuple[str, Part], ...] = (
    ("what there is", outcomes.design),
    ("how persons differ: an ordinal model of every axis", models.components),
    ("how often", outcomes.build),
    ("prompt by prompt", cells.build),
    ("who is treated worse", disparities.build),
    ("which way", sureness.directions),
    ("as the seed computes it", published.build),
    ("the model's tables", models.build),
    ("other thresholds, other ways of scoring", sureness.choices),
    ("what is missing", missing.build),
    ("judges and people", people.build),
    ("what raters prefer", preferences.build),
    ("experiments", experiments.build),
)
_LINT = dict.fromkeys(("table", "severity", "rule", "column", "said"), pl.String)


def tables(inputs: Inputs, seed: int = 0, say: Callable[[str], None] | None = None) -> list[Tabled]:
    """Every table that the inputs allow, and last what lint says of them. `say`: hears what is being computed."""
    audit, found = Audit(inputs, seed), list[Tabled]()
    for name, part in PARTS if inputs.main.height else PARTS[-1:]:  # an audit may have experiments alone
        if say is not None:
            say(f"Computing: {name}")
        found += part(audit)
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
