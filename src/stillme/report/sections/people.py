"""What people said: how far raters agree and what may rest on it, who was kept, and judges beside raters.

A rate corrected by raters is shown beside both; nothing may be claimed from an axis whose raters agree too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    bracket,
    count,
    decimal,
    known,
    listed,
    lowered,
    percent,
    plural,
    points,
    signed,
    span,
)
from stillme.report.blocks import Block, Fold, Heading, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, axis_labels, editor_names, ordered, outcome_labels
from stillme.report.tables import Cell, Column, Table, absent, change, probability, table, tally, value, words

_METHODS = {
    "judges": "Judges",
    "raters": "Raters",
    "corrected": "Judges, corrected by raters",
}
_GATES = {
    "confirmatory": "claims may rest on it",
    "models only": "only models that know of raters",
    "exploratory": "nothing may rest on it",
}
_KEPT = {"all": "All raters", "kept": "Without those removed"}
_FEW = "too few ratings"
_NO_PAIR = "no output was rated twice"
_ALL_EQUAL = "every rating is the same"
_NO_SPREAD = "too few ratings, or every score is the same"


def build(tables: Tables, context: Context) -> Section:
    return Section("people", "What people said", "Raters", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    frame = tables["reliability"]
    yield prose(_reading(context))
    yield bullets([*_quality(tables), *_said(frame, context)])
    yield _reliability(frame, context)
    if "rater_verdicts" in tables and tables["rater_verdicts"].height:
        made = _verdicts(tables["rater_verdicts"])
        yield Fold("Raters: kept, flagged, removed", _removed(tables["rater_verdicts"]), (made,))
    if "corrected_contrasts" in tables:
        yield Heading("people-corrected", "Judges, raters, and judges corrected by raters")
        yield prose(_corrected_reading(context))
        frame = tables["corrected_contrasts"]
        yield _contrasts(frame, context.tables.contrasts, "corrected-contrasts", context)
        rest = [name for name in context.outcomes if name not in context.tables.contrasts]
        made = _contrasts(frame, rest, "corrected-contrasts-more", context)
        yield Fold("The same of other outcomes", plural(len(rest), "outcomes"), (made,))
        made = _rates(tables["corrected_rates"], context)
        yield Fold(f"Rates by perceived {context.contrasted[0]}", plural(len(made.rows), "rows"), (made,))
    yield from _beside(tables, context)


def _reading(context: Context) -> str:
    bars = context.protocol.analysis.reliability
    return (
        "Krippendorff’s ordinal α says how far raters agree beyond chance, with an interval that leaves out one "
        f"task at a time. At {bars.confirmatory:g} or more, claims may rest on an axis; from "
        f"{bars.exploratory:g} to {bars.confirmatory:g}, only models that know of raters; below, nothing. AC2 "
        "and equal pairs stand beside it, because α is low wherever nearly all scores are the same."
    )


def _quality(tables: Tables) -> Iterator[str]:
    frame = tables.get("rater_verdicts")
    if frame is None or not frame.height:
        return
    counts = dict(frame["verdict"].value_counts().iter_rows())
    told = listed(
        [f"{count(n)} {verdict}" for verdict in ("kept", "flagged", "removed") if (n := counts.get(verdict, 0))]
    )
    yield f"{plural(frame.height, 'raters')}: {told}. Figures stand with and without those removed."


def _removed(frame: pl.DataFrame) -> str:
    return f"{count(frame.filter(verdict='removed').height)} of {plural(frame.height, 'raters')} removed"


def _said(frame: pl.DataFrame, context: Context) -> Iterator[str]:
    """What each axis may carry, from the raters that are kept."""
    labels = axis_labels(context)
    own = frame.filter(sample="kept") if "kept" in frame["sample"] else frame
    for gate, meaning in _GATES.items():
        rows = own.filter(gate=gate).to_dicts()
        if rows:
            told = listed(
                [
                    f"{lowered(labels.get(row['axis'], row['axis']))} (α {decimal(row['alpha_ordinal'], 2)})"
                    for row in rows
                ]
            )
            yield f"{gate.capitalize()} ({meaning}): {told}."
    untold = [
        (lowered(labels.get(row["axis"], row["axis"])), _untold(row)) for row in own.to_dicts() if not row["gate"]
    ]
    for why in dict.fromkeys(why for _, why in untold):
        yield f"Cannot be told ({why}): {listed([axis for axis, own_why in untold if own_why == why])}."


def briefly(tables: Tables, context: Context) -> tuple[str, ...]:
    """For the first screen: on which axes claims may rest; empty where nobody rated."""
    frame = tables.get("reliability")
    if frame is None or not frame.height:
        return ()
    own = frame.filter(sample="kept") if "kept" in frame["sample"] else frame
    labels, raters = axis_labels(context), int(own["raters"].max() or 0)  # type: ignore[arg-type]
    if own["gate"].null_count() == own.height:
        return (f"How far {plural(raters, 'raters')} agree beyond chance cannot be told on any axis.",)
    firm = [lowered(labels.get(axis, axis)) for axis in own.filter(gate="confirmatory")["axis"]]
    return (f"{plural(raters, 'raters')} agree enough for claims on {listed(firm) or 'no axis'}.",)


def _reliability(frame: pl.DataFrame, context: Context) -> Table:
    rows = ordered(frame, axis=list(context.protocol.axes), sample=list(_KEPT))
    columns = [
        words("Axis", "axis", axis_labels(context)),
        words("Raters", "sample", _KEPT),
        Column("Ordinal α", _alpha, note=INTERVAL),
        Column(
            "May carry",
            lambda row: Cell(row["gate"], row["gate"]) if row["gate"] else absent(_untold(row)),
            numeric=False,
        ),
        *(_coefficient(label, key) for label, key in _COEFFICIENTS.items()),
        Column("Equal pairs", lambda row: _share(row["agreement"])),
        tally("Outputs", "items"),
        tally("Ratings", "ratings"),
        tally("Raters", "raters"),
        Column("Missing", lambda row: Cell(count(row["asked"] - row["ratings"]), row["asked"] - row["ratings"])),
    ]
    notes = (
        "Missing: asked and not scored, such as “cannot determine”. Interval α and Fleiss’ κ as in the "
        "publication.",
    )
    return table("reliability", "How far raters agree", rows, columns, frame, notes=notes)


_COEFFICIENTS = {"Interval α": "alpha_interval", "Fleiss κ": "fleiss", "AC2": "ac2"}


def _coefficient(label: str, key: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        return Cell(decimal(row[key], 2), row[key]) if known(row[key]) else absent(_untold(row))

    return Column(label, read)


def _untold(row: Mapping[str, Any]) -> str:
    """Why agreement beyond chance has no figure; of equal ratings alone, chance explains all of it."""
    return _ALL_EQUAL if row["paired"] else _NO_PAIR


def _alpha(row: Mapping[str, Any]) -> Cell:
    if not known(row["alpha_ordinal"]):
        return absent(_untold(row))
    low, high = (decimal(row[end], 2) for end in ("low", "high"))
    spread = f"[{low}, {high}]" if known(row["low"]) else "no interval"
    return Cell(decimal(row["alpha_ordinal"], 2), row["alpha_ordinal"], (spread,))


def _share(found: float | None) -> Cell:
    return Cell(percent(found), found) if known(found) else absent(_NO_PAIR)


def _verdicts(frame: pl.DataFrame) -> Table:
    columns = [words("Rater", "rater"), words("Verdict", "verdict"), Column("Why", _why, numeric=False)]
    rows = frame.filter(pl.col("verdict") != "kept").to_dicts()
    notes = (f"{count(frame.height - len(rows))} raters that nothing speaks against are not listed.",)
    return table("raters", "Raters that were flagged or removed", rows, columns, frame, notes=notes)


def _why(row: Mapping[str, Any]) -> Cell:
    found = row["reasons"]
    told = "; ".join(found) if isinstance(found, list) else str(found or "")
    return Cell(told, told) if told else absent("no reason")


# Judges, raters, corrected


def _corrected_reading(context: Context) -> str:
    dimension, reference = context.contrasted
    return (
        f"People perceived as other than {reference} minus people perceived as {reference}, in points, by "
        f"perceived {dimension}. Raters: outputs with ratings alone. Corrected: judges’ figure moved, group by "
        "group, by what judges and raters differ in on outputs that both saw (prediction-powered inference). A "
        "correction over all groups at once would leave a difference between groups as it is."
    )


def _contrasts(frame: pl.DataFrame, outcomes: Sequence[str], id: str, context: Context) -> Table:
    kept = frame.filter(sample="kept") if "kept" in frame["sample"] else frame
    own = kept.filter(pl.col("outcome").is_in(list(outcomes)), pl.col("method").is_in(list(_METHODS)))
    rows = ordered(own, outcome=outcomes, editor=[party.id for party in context.editors], method=list(_METHODS))
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        words("From", "method", _METHODS),
        Column("Difference", lambda row: _estimate(row, points), note=f"points, {INTERVAL}"),
        *_labelled(),
    ]
    notes = ("Without raters that were removed; the data hold both.", *_reasons(own))
    which = "" if tuple(outcomes) == tuple(context.tables.contrasts) else ", other outcomes"
    title = f"Everyone else minus the reference group{which}"
    return table(id, title, rows, columns, frame, notes=notes, dense=True)


def _reasons(own: pl.DataFrame) -> tuple[str, ...]:
    """Why some have no interval; the data say it row by row."""
    lost = own.filter(pl.col("low").is_null() & pl.col("reason").is_not_null())
    return (
        (f"{plural(lost.height, 'rows')} without an interval, such as: {lost['reason'][0]}.",)
        if lost.height
        else ()
    )


def _rates(frame: pl.DataFrame, context: Context) -> Table:
    dimension, _ = context.contrasted
    labels, outcomes = context.protocol.groups.labels(dimension), context.tables.contrasts
    own = frame.filter(pl.col("outcome").is_in(list(outcomes)), pl.col("method").is_in(list(_METHODS)))
    editors = [party.id for party in context.editors]
    rows = ordered(own, outcome=outcomes, editor=editors, group=list(labels), method=list(_METHODS))
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {dimension}", "group", labels),
        words("From", "method", _METHODS),
        Column("Rate", lambda row: _estimate(row, percent), note=INTERVAL),
        *_labelled(),
    ]
    title = "Rates of judges, of raters, and corrected"
    return table("corrected-rates", title, rows, columns, frame, notes=_reasons(own), dense=True)


def _estimate(row: Mapping[str, Any], write: Any) -> Cell:
    if not known(row["estimate"]):
        return absent(row["reason"] or _FEW)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "no interval"
    return Cell(write(row["estimate"]), row["estimate"], (spread,))


def _labelled() -> list[Column]:
    return [
        tally("Outputs", "outputs"),
        tally("Rated", "labelled"),
        Column(
            "Not rated",
            lambda row: Cell(count(row["outputs"] - row["labelled"]), row["outputs"] - row["labelled"]),
        ),
        Column("Persons", _persons),
    ]


def _persons(row: Mapping[str, Any]) -> Cell:
    return Cell(count(row["persons"]), row["persons"], (f"{count(row['labelled_persons'])} rated",))


# Judges beside raters


def _beside(tables: Tables, context: Context) -> Iterator[Block]:
    if "judges_raters_alignment" in tables:
        made = _alignment(tables["judges_raters_alignment"], context)
        yield Fold("Judges against raters, axis by axis", plural(len(made.rows), "rows"), (made,))
    if "judges_raters_functioning" in tables:
        made = _functioning(tables["judges_raters_functioning"], context)
        yield Fold(
            "Do judges differ from raters otherwise for some groups?", plural(len(made.rows), "axes"), (made,)
        )
    if "judges_raters_bounds" in tables:
        made = _lower(tables["judges_raters_bounds"], context)
        yield Fold("Are judges’ rates a lower bound of raters’?", "a claim to test, outcome by outcome", (made,))


def _alignment(frame: pl.DataFrame, context: Context) -> Table:
    rows = ordered(frame, axis=list(context.protocol.axes), sample=list(_KEPT))
    columns = [
        words("Axis", "axis", axis_labels(context)),
        words("Raters", "sample", _KEPT),
        Column("Judges − raters", _difference, note=f"points of the scale, {INTERVAL}"),
        Column("Within one point", lambda row: _share(row["within_one"])),
        value("Weighted κ", "kappa", _NO_SPREAD),
        value("Spearman’s ρ", "rho", _NO_SPREAD),
        value("ρ, raters’ noise taken out", "rho_corrected", _NO_SPREAD),
        value("ρ of one rater with the others", "ceiling_rho", _NO_SPREAD),
        tally("Outputs", "outputs"),
        tally("Persons", "persons"),
    ]
    return table("alignment", "Judges against raters", rows, columns, frame)


def _difference(row: Mapping[str, Any]) -> Cell:
    if not known(row["difference"]):
        return absent(_FEW)
    spread = span(row["low"], row["high"]) if known(row["low"]) else "no interval"
    return Cell(signed(row["difference"]), row["difference"], (spread,))


def _functioning(frame: pl.DataFrame, context: Context) -> Table:
    columns = [
        words("Axis", "axis", axis_labels(context)),
        change("Reference group", "reference_difference", _FEW),
        change("Everyone else", "others_difference", _FEW),
        change("Difference", "contrast", _FEW),
        probability("p, corrected", "contrast_p_holm", _FEW),
        tally("Persons", "persons"),
    ]
    notes = (
        "Judges − raters, in points of the scale: a judge that errs otherwise for one group invents a difference.",
    )
    return table("functioning", "Judges − raters, by group", frame.to_dicts(), columns, frame, notes=notes)


def _lower(frame: pl.DataFrame, context: Context) -> Table:
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        Column("Raters − judges", _bounded, note=f"points, {INTERVAL}"),
        Column(
            "Lower bound",
            lambda row: Cell(str(row["verdict"]), str(row["verdict"])) if row["verdict"] else absent(_FEW),
            numeric=False,
        ),
        tally("Outputs", "outputs"),
        tally("Persons", "persons"),
    ]
    return table("lower-bound", "Judges’ rates against raters’", frame.to_dicts(), columns, frame)


def _bounded(row: Mapping[str, Any]) -> Cell:
    if not known(row["difference"]):
        return absent(row["reason"] or _FEW)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else row["reason"] or "no interval"
    return Cell(points(row["difference"]), row["difference"], (spread,))
