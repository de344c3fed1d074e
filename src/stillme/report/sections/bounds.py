"""What missing scores could change: is anything missing more often for some groups, and how far could it move
rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import bracket, count, known, listed, lowered, of, percent, plural, points
from stillme.report.blocks import Block, Fold, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, editor_names, ordered, outcome_labels
from stillme.report.sentences import SHOWN_BELOW
from stillme.report.tables import (
    NO_SCORE,
    NOTHING_JUDGED,
    Cell,
    Column,
    Table,
    absent,
    leads,
    probability,
    samples,
    table,
    tally,
    words,
)

_UNCOMPARED = "too few persons, or nothing missing"


def build(tables: Tables, context: Context) -> Section:
    return Section("bounds", "What missing scores could change", "Bounds", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    yield prose(
        "A missing score is in no rate. What it could have been is bounded here: the lowest rate counts every "
        "missing score as no hit, the highest counts every one as a hit. A contrast that keeps its sign between "
        "its bounds cannot have come from what is missing."
    )
    yield bullets([*_uneven(tables["missing_by_group"], context), *_signs(tables, context)])
    yield _contrasts(tables, context)
    yield _rates(tables["bounds"], context)
    frame = tables["missing_by_group"]
    hint = f"{plural(int(frame['uneven'].fill_null(value=False).sum()), 'rows')} uneven"
    yield Fold("Is anything missing more often for some groups?", hint, (_tests(frame, context),))


def _uneven(frame: pl.DataFrame, context: Context) -> Iterator[str]:
    """Reasons that are more often there for a group, where that was shown."""
    shown = frame.filter(pl.col("p_holm") < SHOWN_BELOW).to_dicts()
    tested = frame["p_holm"].drop_nulls().len()
    if not tested:
        yield f"Whether anything is missing more often for some groups could not be compared: {_UNCOMPARED}."
    elif not shown:
        yield (
            f"Nothing was shown to be missing more often for some groups ({plural(tested, 'comparisons')}, "
            "corrected together); that is not evidence of none."
        )
    for row in shown:
        label = context.protocol.groups.labels(row["dimension"]).get(row["group"], row["group"])
        yield (
            f"{context.editor(row['editor']).name}, {row['reason']}: {percent(row['share'])} for people "
            f"perceived as {label} against {percent(row['others_share'])} for everyone else "
            f"({plural(row['persons'], 'persons')})."
        )


def _signs(tables: Tables, context: Context) -> Iterator[str]:
    own = tables["bounds_of_contrasts"].filter(pl.col("outcome").is_in(list(context.tables.contrasts)))
    own = own.drop_nulls("keeps_sign")
    could = own.filter(~pl.col("keeps_sign") & (pl.col("least") < pl.col("most")))
    lost = [
        f"{context.editor(row['editor']).name}, {lowered(context.outcomes[row['outcome']].label)}"
        for row in could.to_dicts()
    ]
    if lost:
        yield f"Missing scores could turn the sign of {plural(len(lost), 'contrasts')}: {listed(lost)}."
    elif own.height:
        yield f"No missing score could turn the sign of any of the {plural(own.height, 'contrasts')}."


def _contrasts(tables: Tables, context: Context) -> Table:
    frame = tables["bounds_of_contrasts"].filter(pl.col("outcome").is_in(list(context.tables.contrasts)))
    counts = tables["outcomes_by_editor"].select("editor", "outcome", "asked", "judged", "missing", "persons")
    own = frame.join(counts, on=["editor", "outcome"], how="left", maintain_order="left")
    rows = ordered(own, outcome=context.tables.contrasts, editor=[party.id for party in context.editors])
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        _points("Everyone else − reference", "difference"),
        _ends("Between its bounds", "least", "most"),
        Column("Keeps its sign", _keeps, numeric=False),
        *_counted(),
    ]
    return table("bounds-contrasts", "Contrasts between their bounds, in points", rows, columns, own)


def _counted() -> list[Column]:
    behind = lambda row: samples(editor=row["editor"], outcome=row["outcome"], happened=NO_SCORE)  # noqa: E731
    return [tally("Judged", "judged"), leads(tally("Missing", "missing"), behind), tally("Persons", "persons")]


def _keeps(row: Mapping[str, Any]) -> Cell:
    if row["keeps_sign"] is None:
        return absent(NOTHING_JUDGED)
    if row["least"] == row["most"] == 0:
        return absent("there is no difference, and nothing is missing that could make one")
    return Cell("yes" if row["keeps_sign"] else "no", int(row["keeps_sign"]))


def _points(label: str, key: str) -> Column:
    return Column(
        label, lambda row: Cell(points(row[key]), row[key]) if known(row[key]) else absent(NOTHING_JUDGED)
    )


def _ends(label: str, low: str, high: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        return Cell(bracket(row[low], row[high]), row[low]) if known(row[low]) else absent(NOTHING_JUDGED)

    return Column(label, read)


def _rates(frame: pl.DataFrame, context: Context) -> Table:
    by, outcome = context.main.by, context.main.outcome
    own = frame.filter(dimension=by, outcome=outcome)
    labels = context.protocol.groups.labels(by)
    rows = ordered(own, editor=[party.id for party in context.editors], group=list(labels))

    def behind(row: Mapping[str, Any]) -> str:
        return samples(editor=row["editor"], outcome=outcome, happened=NO_SCORE, **{by: row["group"]})

    columns = [
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {by}", "group", labels),
        Column("Rate", _rate),
        _ends("Between its bounds", "lowest", "highest"),
        tally("Judged", "judged"),
        leads(tally("Missing", "missing"), behind),
        tally("Persons", "persons"),
    ]
    caption = f"{context.outcomes[outcome].label} by perceived {by}: no missing score a hit, or every one"
    return table("bounds-rates", caption, rows, columns, own, dense=True)


def _rate(row: Mapping[str, Any]) -> Cell:
    if not known(row["rate"]):
        return absent(f"{NOTHING_JUDGED} of {count(row['asked'])} asked")
    return Cell(percent(row["rate"]), row["rate"], (of(row["hits"], row["judged"]),))


def _tests(frame: pl.DataFrame, context: Context) -> Table:
    groups = {
        id: label
        for name in context.protocol.groups.dimensions
        for id, label in context.protocol.groups.labels(name).items()
    }
    columns = [
        words("What", "reason"),
        words("Editor", "editor", editor_names(context)),
        words("Of perceived", "dimension"),
        words("Group", "group", groups),
        Column("Share", _share),
        Column("Everyone else", lambda row: _plain(row["others_share"])),
        probability("p, corrected", "p_holm", _UNCOMPARED),
        tally("Persons", "persons"),
    ]
    caption = "What is missing, group by group"
    some = frame.filter(pl.col("part") > 0)
    notes = (f"{count(frame.height - some.height)} rows of which nothing is missing are in the data alone.",)
    return table("missing-tests", caption, some.to_dicts(), columns, frame, notes=notes, dense=True)


def _share(row: Mapping[str, Any]) -> Cell:
    if not known(row["share"]):
        return absent("nothing was asked")
    return Cell(percent(row["share"]), row["share"], (of(row["part"], row["whole"]),))


def _plain(found: float | None) -> Cell:
    return Cell(percent(found), found) if known(found) else absent("nobody else")
