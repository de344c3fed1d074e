"""What stands beside a mitigation's effect: is the edit still made, which arm dominates which, is the effect the
same for all groups, and what do the published test and tables show? Part of the mitigation section. Which
comparisons say something is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import INTERVAL, decimal, known, lowered, percent, plural, signed, span
from stillme.report.blocks import Block, Fold, Heading, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.sentences import SHOWN_BELOW
from stillme.report.tables import (
    FEW_PERSONS,
    Cell,
    Column,
    Row,
    Table,
    absent,
    change,
    percentage,
    probability,
    table,
    tally,
    words,
)
from stillme.stats.contrast import FEWEST_PERSONS
from stillme.stats.mitigation import AMOUNT, NET, SCORE, Contrast, Mitigation, published_order
from stillme.stats.tradeoff import ANY
from stillme.stats.treatment import NO_WORSE, WORSE

Clean = Callable[[Contrast], bool]  # whether a comparison says something about the sentence
ALL_EDITORS = "All editors"
_TOO_FEW = f"fewer than {FEWEST_PERSONS} persons"
_NONE = "no edit has both scores"
_QUANTITIES = {SCORE: "Score", AMOUNT: "Amount of change", NET: "Net direction"}
_PUBLISHED_ROWS = "table14_feature_prompt_delta_by_race"  # rows stand in its order


def blocks(found: Mitigation, context: Context, clean: Clean) -> Iterator[Block]:
    """Success and trade-off in sight; the rest folded."""
    yield from _success(found, context, clean)
    yield from _tradeoff(found, context, clean)
    yield from _folded(found, context)


def _axes(context: Context) -> dict[str, str]:
    return {id: axis.label for id, axis in context.protocol.axes.items()}


def _arms(context: Context) -> dict[str, str]:
    return {arm.id: arm.label for arm in context.protocol.manifest.arms}


def _in_order(frame: pl.DataFrame, context: Context) -> list[dict[str, Any]]:
    """Rows by editor in the report's order, those of all editors first."""
    place = {party.id: number for number, party in enumerate(context.editors, 1)}
    return sorted(frame.to_dicts(), key=lambda row: place.get(row["editor"] or "", 0))


def _named(row: Row, context: Context) -> str:
    arms = _arms(context)
    return f"{arms[row['arm']]}, against {lowered(arms[row['against']])}"


# Is the edit still made?


def kept(found: Mitigation, context: Context, clean: Clean) -> list[str]:
    """One sentence a comparison that says something and has a declared margin: no worse, worse, or not shown."""
    if found.no_worse is None:
        return []
    rows = found.no_worse.filter(pl.col("editor").is_null()).to_dicts()
    return [_verdict(row, context) for row in rows if clean(Contrast(row["arm"], row["against"]))]


def _verdict(row: Row, context: Context) -> str:
    axis, margin = lowered(_axes(context)[row["axis"]]), decimal(row["margin"], 2)
    name = f"{_named(row, context)}: {axis}"
    if not known(row["p"]):
        return f"{name} could not be held against its margin ({row['why']})."
    figures = f"{signed(row['difference'])}, one-sided bounds {span(row['low'], row['high'])}"
    if row["verdict"] == NO_WORSE:
        return f"{name} was shown to be no worse: a loss is below the declared {margin} points ({figures})."
    if row["verdict"] == WORSE:
        return f"{name} was shown to be worse, by more than the declared {margin} points ({figures})."
    return (
        f"{_named(row, context)}: a loss of the declared {margin} points on {axis} can be neither shown nor ruled "
        f"out ({figures})."
    )


def _success(found: Mitigation, context: Context, clean: Clean) -> Iterator[Block]:
    if found.no_worse is None or not found.no_worse.height:
        return
    yield Heading("mitigation-success", "Is the edit still made?")
    yield prose(
        "A person is kept easily by not making the edit. So a mitigation also has to show that edits are no "
        "worse: that their mean is not lower by a margin that was declared before (protocol, analysis.yaml). "
        "Persons are the unit; bounds are one-sided at 95\N{NO-BREAK SPACE}% each, on persons’ mean differences. "
        "Not shown is no evidence either way."
    )
    yield bullets(kept(found, context, clean) or ["No comparison of this experiment says something about it."])
    whole = found.no_worse.filter(pl.col("editor").is_null())
    yield _margins("mitigation-no-worse", "Edit success against its margin", whole, context)
    each = found.no_worse.drop_nulls("editor")
    made = _margins("mitigation-no-worse-by-editor", "Edit success against its margin, by editor", each, context)
    yield Fold("By editor", plural(each["editor"].n_unique(), "editors"), (made,))


def _margins(id: str, caption: str, frame: pl.DataFrame, context: Context) -> Table:
    arms = _arms(context)
    editors = [words("Editor", "editor", editor_names(context))] if frame["editor"].null_count() == 0 else []
    columns = [
        words("Arm", "arm", arms),
        words("Against", "against", arms),
        *editors,
        words("Axis", "axis", _axes(context)),
        tally("Persons", "persons"),
        Column("Difference", _bounded, note="points, one-sided bounds"),
        Column("Margin", lambda row: Cell(signed(-row["margin"]), -row["margin"])),
        probability("p", "p", FEW_PERSONS),
        Column("Result", _result, numeric=False),
    ]
    return table(id, caption, _in_order(frame, context), columns, frame)


def _bounded(row: Row) -> Cell:
    if not known(row["difference"]):
        return absent(_NONE)
    bounds = span(row["low"], row["high"]) if known(row["low"]) else row["why"]
    return Cell(signed(row["difference"]), row["difference"], (bounds,))


def _result(row: Row) -> Cell:
    return Cell(row["verdict"], row["verdict"]) if known(row["p"]) else absent(row["why"])


# Preservation against success


def _tradeoff(found: Mitigation, context: Context, clean: Clean) -> Iterator[Block]:
    if found.tradeoff is None or not found.tradeoff.points.height:
        return
    yield Heading("mitigation-tradeoff", "Drift against edit success")
    yield prose(_read_tradeoff(found))
    yield bullets(dominance(found, context, clean))
    points = found.tradeoff.points
    yield _points("mitigation-tradeoff-any", "Any drift against edit success", points.filter(measure=ANY), context)
    axes = points.filter(pl.col("measure") != ANY)
    made = _points("mitigation-tradeoff-axes", "Drift on every axis against edit success", axes, context)
    yield Fold("By axis", "in points of the scale", (made,))


def _read_tradeoff(found: Mitigation) -> str:
    warned = " Edits that cases were chosen by are left out of the sentences." if found.is_selected else ""
    return (
        "Less drift and more success are better. An arm dominates another where no more drifts and the edit is "
        "made no worse; by the means alone one of two arms that are alike often does. It surely does where both "
        f"paired differences, over the cases of both arms, have a {INTERVAL} beyond zero.{warned}"
    )


def dominance(found: Mitigation, context: Context, clean: Clean) -> list[str]:
    """Which arms surely dominate which, by any drift; a sentence where none does."""
    if found.tradeoff is None:
        return []
    arms, names = _arms(context), editor_names(context)
    told = []
    for row in found.tradeoff.differences.filter(measure=ANY).drop_nulls("surely").to_dicts():
        if not clean(Contrast(row["arm"], row["against"])):
            continue
        lost = row["against"] if row["surely"] == row["arm"] else row["arm"]
        who = ALL_EDITORS if row["editor"] is None else names.get(row["editor"], row["editor"])
        told.append(f"{who}: “{arms[row['surely']]}” surely dominates “{arms[lost]}”.")
    return told or ["No arm surely dominates another: what is won on one side is not shown to be won on both."]


def _points(id: str, caption: str, frame: pl.DataFrame, context: Context) -> Table:
    arms, names = _arms(context), {"": ALL_EDITORS, **editor_names(context)}
    rows = [{**row, "editor": row["editor"] or ""} for row in _in_order(frame, context)]
    measures = [] if set(frame["measure"]) == {ANY} else [words("Axis", "measure", _axes(context))]
    columns = [
        words("Editor", "editor", names),
        *measures,
        words("Arm", "arm", arms),
        tally("Edits", "cases"),
        tally("Persons", "persons"),
        Column("Drift", lambda row: _mean(row, "drift", row["measure"] == ANY), note=INTERVAL),
        Column("Edit success", lambda row: _mean(row, "success", False), note=f"mean score, {INTERVAL}"),
        Column("Dominated by", lambda row: _listed(row["dominated_by"], arms), numeric=False, note="by the means"),
        Column("Surely by", lambda row: _listed(row["surely_dominated_by"], arms), numeric=False),
    ]
    return table(id, caption, rows, columns, frame)


def _mean(row: Row, side: str, is_share: bool) -> Cell:
    middle, low, high = row[side], row[f"{side}_low"], row[f"{side}_high"]
    if not known(middle):
        return absent(_NONE)
    ends = [percent(end) if is_share else decimal(end, 2) for end in (low, high)]
    spread = f"[{ends[0]}, {ends[1]}]" if known(low) else FEW_PERSONS
    return Cell(percent(middle) if is_share else decimal(middle, 2), middle, (spread,))


def _listed(names: str | None, arms: Mapping[str, str]) -> Cell:
    text = ", ".join(arms.get(name, name) for name in names.split(", ")) if names else "none"
    return Cell(text, text)


# All groups, the published test, the published tables


def _folded(found: Mitigation, context: Context) -> Iterator[Block]:
    if found.omnibus is not None and found.omnibus.height:
        yield Fold(
            "Is the effect the same for all groups?",
            "one test over all of them",
            (_omnibus(found.omnibus, context),),
        )
    if found.ranks is not None and found.ranks.height:
        yield Fold(
            "As published: Wilcoxon’s signed ranks", "per edit, and per person", (_ranks(found.ranks, context),)
        )
    if found.published is not None and found.published.height:
        yield Fold("As published: tables 14 and 19", "means over edits", (_published(found.published, context),))


def uneven(found: Mitigation, context: Context, clean: Clean) -> Iterator[str]:
    """Axes on which groups were shown to be affected differently."""
    if found.omnibus is None:
        return
    axes = _axes(context)
    for row in found.omnibus.to_dicts():
        if clean(Contrast(row["arm"], row["against"])) and known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW:
            yield (
                f"{_named(row, context)}: the effect on {lowered(axes[row['axis']])} differs over all groups of "
                f"perceived {row['dimension']}: from {signed(row['smallest'])} to {signed(row['largest'])} points "
                f"({plural(row['groups'], 'groups')}, {plural(row['persons'], 'persons')})."
            )


def _omnibus(frame: pl.DataFrame, context: Context) -> Table:
    arms = _arms(context)
    columns = [
        words("Arm", "arm", arms),
        words("Against", "against", arms),
        words("Axis", "axis", _axes(context)),
        words("Groups of perceived", "dimension"),
        tally("Groups", "groups"),
        tally("Persons", "persons"),
        change("Lowest difference", "smallest", _TOO_FEW),
        change("Highest difference", "largest", _TOO_FEW),
        probability("p", "p", "nothing can change places"),
        probability("p, corrected", "p_holm", "nothing can change places"),
        probability("p by ranks", "p_rank", "nothing can change places"),
    ]
    notes = (
        "Persons’ mean differences change places across groups among persons alike in everything else. p: of the "
        "variance of groups’ means, each weighted by how steady its persons are, because persons of a group that "
        "hardly drifts hardly vary. Corrected over all rows (Holm). By ranks: Kruskal and Wallis’ statistic.",
    )
    return table(
        "mitigation-omnibus", "Treatment × group over all groups", frame.to_dicts(), columns, frame, notes=notes
    )


def _ranks(frame: pl.DataFrame, context: Context) -> Table:
    arms = _arms(context)
    columns = [
        words("Arm", "arm", arms),
        words("Against", "against", arms),
        words("Axis", "axis", _axes(context)),
        tally("Pairs", "pairs"),
        change("Mean difference", "difference", "no pair", note="over edits"),
        percentage("Unchanged pairs", "zeros", "no pair"),
        probability("p per edit", "p", "no pair differs"),
        tally("Persons", "persons"),
        percentage("Unchanged persons", "person_zeros", "no pair"),
        probability("p per person", "person_p", "no person differs"),
        probability("corrected", "person_p_holm", "no person differs"),
    ]
    notes = (
        "Per edit: as in the publication, which takes edits of one person for independent; it finds differences "
        "too often. Per person: of persons’ sums, corrected over all rows (Holm). Pairs without a difference are "
        "ranked and then left out (Pratt).",
    )
    return table("mitigation-ranks", "Wilcoxon’s signed-rank test", frame.to_dicts(), columns, frame, notes=notes)


def _published(frame: pl.DataFrame, context: Context) -> Table:
    """Rows in the order of the publication; one column an axis and quantity."""
    by = context.main.by
    labels = {"": "Everybody", **context.protocol.groups.labels(by)}
    cells = by_key(frame.with_columns(pl.col("group").fill_null("")), "group", "axis", "quantity")
    there = {(axis, quantity) for _, axis, quantity in cells}
    columns = [words(f"Perceived {by}", "group", labels)]
    for axis in context.protocol.rubrics.axes:
        for quantity, said in _QUANTITIES.items():
            if (axis.id, quantity) in there:
                note = "" if quantity == SCORE else said.lower()
                columns.append(Column(axis.label, _delta(cells, axis.id, quantity), note=note))
    groups = [*published_order(context.protocol, _PUBLISHED_ROWS, by), ""]
    notes = (
        "The feature prompt’s mean minus that of the prompt alone, with both means and the edits beneath: every "
        "edit counts alike, as in the publication, so there is no interval. Signed axes twice: the amount of "
        "change, and apart from it the share above “nothing changed” minus the share below.",
    )
    rows = [{"group": group} for group in groups]
    return table("mitigation-published", f"Means over edits, by perceived {by}", rows, columns, frame, notes=notes)


def _delta(cells: Mapping[tuple[str, ...], Row], axis: str, quantity: str) -> Callable[[Row], Cell]:
    def read(row: Row) -> Cell:
        found = cells.get((row["group"], axis, quantity))
        if found is None:
            return absent("no case has a score in both arms")
        write = signed if quantity == NET else decimal
        means = f"{write(found['baseline'], 2)} to {write(found['feature'], 2)}"
        return Cell(signed(found["delta"]), found["delta"], (means, plural(found["cases"], "edits")))

    return read
