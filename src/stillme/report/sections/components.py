"""Where scores differ: between persons, prompts, edits. It says what one more edit of the same person is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import decimal, known, percent, plural
from stillme.report.blocks import Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, axis_labels, ordered
from stillme.report.tables import Cell, Column, Table, absent, probability, table, tally, value, words

_UNTESTED = "not tested: the model says why below"
_MISSING = "A missing score is in no model; how many are missing is counted in the table of outcomes."


def build(tables: Tables, context: Context) -> Section:
    return Section("components", "Where scores differ", "Variance", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    frame, fits = tables["components"], tables["model_fits"]
    yield prose(
        "An ordinal mixed model of every axis takes scores apart into what comes from persons, prompts, edits and "
        "judges. Where persons have a large share, edits of one person are alike: then persons count, not "
        "edits, and more prompts of the same persons say little."
    )
    if frame.height:
        yield _components(frame, fits, context)
    else:
        yield prose("No axis could be fitted.")
    if "model_tests" in tables and tables["model_tests"].height:
        made = _tests(tables["model_tests"], fits, context)
        yield Fold("Likelihood-ratio tests", "race:judge says whether a judge treats groups otherwise", (made,))
    yield Fold("What was fitted", plural(fits.height, "axes"), (_fits(fits, context),))


def _components(frame: pl.DataFrame, fits: pl.DataFrame, context: Context) -> Table:
    factors = frame["factor"].unique(maintain_order=True).to_list()
    cells = {(row["axis"], row["factor"]): row for row in frame.to_dicts()}
    counts = {row["axis"]: row for row in fits.to_dicts()}
    axes = [axis for axis in context.protocol.axes if any((axis, factor) in cells for factor in factors)]
    rows = [{**counts.get(axis, {}), "axis": axis} for axis in axes]
    columns = [
        words("Axis", "axis", axis_labels(context)),
        *(_factor(factor, cells) for factor in factors),
        tally("Scores", "observations"),
        tally("Persons", "persons"),
    ]
    notes = (
        "Shares of the variance on the scale of the model (logits), standard deviation and number of levels "
        "beneath.",
        _MISSING,
    )
    return table("components-table", "Variance components", rows, columns, frame, notes=notes)


def _factor(factor: str, cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        found = cells.get((row["axis"], factor))
        if found is None or not known(found["share"]):
            return absent("not in the model")
        levels = () if found["levels"] is None else (plural(found["levels"], "levels"),)
        return Cell(percent(found["share"]), found["share"], (f"SD {decimal(found['sd'], 2)}", *levels))

    return Column(factor.capitalize(), read)


def _tests(frame: pl.DataFrame, fits: pl.DataFrame, context: Context) -> Table:
    counts = fits.select("axis", "observations", "persons")
    own = frame.join(counts, on="axis", how="left", maintain_order="left")
    columns = [
        words("Axis", "axis", axis_labels(context)),
        words("Term", "term"),
        value("χ²", "chi2", _UNTESTED, digits=1),
        tally("df", "df", _UNTESTED),
        probability("p", "p", _UNTESTED),
        tally("Scores", "observations"),
        tally("Persons", "persons"),
    ]
    rows = ordered(own, axis=list(context.protocol.axes))
    notes = ("Not corrected for each other, and no claim of this report rests on them.", _MISSING)
    return table(
        "model-tests", "Likelihood-ratio tests of the ordinal model", rows, columns, own, notes=notes, dense=True
    )


def _fits(frame: pl.DataFrame, context: Context) -> Table:
    columns = [
        words("Axis", "axis", axis_labels(context)),
        Column(
            "Formula", lambda row: Cell(row["formula"]) if row["formula"] else absent("not fitted"), numeric=False
        ),
        tally("Scores", "observations"),
        tally("Persons", "persons"),
        Column(
            "What to know of it", lambda row: Cell(row["why"]) if row["why"] else absent("nothing"), numeric=False
        ),
    ]
    rows = ordered(frame, axis=list(context.protocol.axes))
    return table("model-fits", "Ordinal mixed models", rows, columns, frame, notes=(_MISSING,))
