"""The paper's own tables, rows and columns as they are printed there, filled with this run's numbers.

Tables 12 and 13 are of the diagnosis, 14 and 19 of the mitigation experiment, 10 and 11 of the human study. A
table whose numbers the run does not have is left out. Each says what the paper's leaves open: what rates are
shares of, how many persons there are, what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import polars as pl

from stillme.analysis.numbers import SPACE, capital, count, known, of, percent, plural, points
from stillme.protocol.schema import Axis
from stillme.report.context import Context
from stillme.report.lookup import by_key, counts, per_editor, rows
from stillme.report.tables import Cell, Column, Row, Table, absent, change, table, tally, value, words
from stillme.stats.findings import Findings
from stillme.stats.mitigation import AMOUNT, SCORE, published_order

PREFIX = "paper-table"
PUBLISHED, PARTICIPANTS, SAMPLE = "mitigation_published", "participants", "human_sample"
SAMPLE_SCHEMA = {"characteristic": pl.String, "group": pl.String, "n": pl.Int64, "percent": pl.Float64}
HEADINGS = ("Edit Succ.", "Soft Eras.", "Race Change")  # of the first outcomes of the protocol's main table
DELTAS = {"race": "Δ Race", "gender": "Δ Gender", "skin": "Δ Skin"}  # what an axis is about -> its heading
TABLE_13, TABLE_14, TABLE_19 = (
    "table13_race_change_by_race_and_model",
    "table14_feature_prompt_delta_by_race",
    "table19_race_drift_before_after",
)
NO_CASE = "no case has a score in both arms"

Frames = Mapping[str, pl.DataFrame]
Make = Callable[[Frames, Context], Table | None]


def paper_tables(findings: Findings | None, context: Context, frames: Frames) -> list[Table]:
    """Those that the run has numbers for, in the paper's order. `frames`: the analysis tables by their ids."""
    main = [] if findings is None else [outcomes(findings, context), change_by_group(findings, context)]
    others: tuple[Make, ...] = (participants, sample)
    later: tuple[Make, ...] = (reduction, before_and_after)
    made = [*(make(frames, context) for make in others), *main, *(make(frames, context) for make in later)]
    return [one for one in made if one is not None]


# Table 12


def outcomes(findings: Findings, context: Context) -> Table:
    """Model, N, edit success, soft erasure, race change."""
    shown = dict(zip(context.tables.outcomes_by_editor, HEADINGS, strict=False))
    asked = {row["editor"]: row["asked"] for row in rows(findings.by_editor, outcome=next(iter(shown)))}
    columns = [
        words("Model", "editor", {party.id: party.label for party in context.editors}),
        tally("N", "asked"),
        *(_rate(heading, findings, name, context) for name, heading in shown.items()),
    ]
    body = [{"editor": party.id, "asked": asked[party.id]} for party in context.editors if party.id in asked]
    return table(
        f"{PREFIX}-12",
        "Edit success, soft erasure and race change by model.",
        body,
        columns,
        findings.by_editor.filter(pl.col("outcome").is_in(list(shown))),
        notes=[_divided(context), *_missing(findings, shown, context)],
    )


def _rate(label: str, findings: Findings, outcome: str, context: Context) -> Column:
    found = per_editor(findings, outcome)
    return Column(label, lambda row: _share(found.get(row["editor"]), context))


def _share(row: Row | None, context: Context) -> Cell:
    found = None if row is None else row["nominal_rate" if context.nominal else "rate"]
    return Cell(percent(found), found) if known(found) else absent("no judged edit")


def _divided(context: Context) -> str:
    whole = "the N edits asked for" if context.nominal else "judged edits; N is the edits asked for"
    return f"Rates are shares of {whole} (preset {context.preset})."


def _missing(findings: Findings, shown: Iterable[str], context: Context) -> Iterator[str]:
    for name in shown:
        found = per_editor(findings, name)
        told = [
            f"{context.editor(editor).label} {of(row['judged'], row['asked'])}" for editor, row in found.items()
        ]
        persons = max((row["persons"] for row in found.values()), default=0)
        yield f"{capital(context.outcomes[name].label)}: judged {', '.join(told)}; {plural(persons, 'persons')}."


# Table 13


def change_by_group(findings: Findings, context: Context) -> Table:
    """A row a group, a column a model; at the foot max − min."""
    by, outcome = context.main.by, context.main.outcome
    found = by_key(findings.by_group[by], "editor", by, outcome=outcome)
    labels = context.protocol.groups.labels(by)
    printed = published_order(context.protocol, TABLE_13, by)
    order = [group for group in printed if any(key[1] == group for key in found)]
    columns = [
        words(capital(by), by, labels),
        *(Column(party.label, partial(_of_group, found, party.id, by, context)) for party in context.editors),
    ]
    numbers = findings.by_group[by].filter(outcome=outcome)
    persons = {group: max(row["persons"] for key, row in found.items() if key[1] == group) for group in order}
    told = ", ".join(f"{labels[group]} {count(persons[group])}" for group in order)
    return table(
        f"{PREFIX}-13",
        f"{context.outcomes[outcome].label} by perceived {by} and model. Disparity = max − min.",
        [{by: group} for group in order],
        columns,
        numbers,
        foot=[_disparity(findings, context)],
        notes=[
            _divided(context).replace("the N edits", "the edits").replace("; N is the edits asked for", ""),
            "Max − min is above zero even where groups are alike; the report says how much chance alone gives.",
            f"Persons: {told}.",
            counts(numbers.drop_nulls(by), context),
        ],
    )


def _of_group(found: Mapping[tuple[str, ...], Row], editor: str, by: str, context: Context, row: Row) -> Cell:
    return _share(found.get((editor, row[by])), context)


def _disparity(findings: Findings, context: Context) -> list[Cell]:
    found = {row["editor"]: row for row in rows(findings.disparity, outcome=context.main.outcome)}
    return [Cell("Disparity"), *(_apart(found.get(party.id)) for party in context.editors)]


def _apart(row: Row | None) -> Cell:
    found = None if row is None else row["disparity"]
    return Cell(f"{points(found)}{SPACE}pp", found) if known(found) else absent("no two groups were judged")


# Tables 14 and 19


def reduction(frames: Frames, context: Context) -> Table | None:
    """Race, and by how much the feature prompt moves the means of race, gender and skin tone."""
    found = _published(frames, context)
    if found is None:
        return None
    by = context.main.by
    labels = context.protocol.groups.labels(by)
    axes = {about: axis for about in DELTAS for axis in context.protocol.rubrics.axes if axis.attribute == about}
    shown = {about: found.filter(axis=axis.id, quantity=_quantity(axis)) for about, axis in axes.items()}
    return table(
        f"{PREFIX}-14",
        "Change reduction from the feature prompt (negative = improvement).",
        [{"group": group} for group in _order(found, TABLE_14, context)],
        [words(capital(by), "group", labels), *(_delta(DELTAS[about], frame) for about, frame in shown.items())],
        pl.concat(shown.values()),
        notes=[
            *_compared(found),
            *(_amount(DELTAS[about], axis) for about, axis in axes.items() if axis.is_signed),
        ],
    )


def _delta(label: str, frame: pl.DataFrame) -> Column:
    found, read = by_key(frame, "group"), change(label, "delta", NO_CASE).read
    return Column(label, lambda row: read(found.get((row["group"],), {})))


def before_and_after(frames: Frames, context: Context) -> Table | None:
    """Group, mean race drift without and with the feature prompt, and their difference."""
    found = _published(frames, context)
    if found is None:
        return None
    labels = context.protocol.groups.labels(context.main.by)
    drift = found.filter(axis=context.outcomes[context.main.outcome].axis, quantity=SCORE)
    by_group = by_key(drift, "group")
    order = _order(found, TABLE_19, context)
    return table(
        f"{PREFIX}-19",
        "Race drift scores (1–5 scale) before and after the feature prompt.",
        [{"group": group, **by_group.get((group,), {})} for group in order],
        [
            words("Group", "group", labels),
            value("Baseline Drift", "baseline", NO_CASE),
            value("w/ Feature", "feature", NO_CASE),
            change("Δ", "delta", NO_CASE),
        ],
        drift,
        notes=list(_compared(found)),
    )


def _published(frames: Frames, context: Context) -> pl.DataFrame | None:
    frame = frames.get(PUBLISHED)
    own = None if frame is None else frame.filter(pl.col("dimension") == context.main.by)
    return own if own is not None and own.height else None


def _quantity(axis: Axis) -> str:
    """Of an axis with two directions the amount of change, of any other its score."""
    return AMOUNT if axis.is_signed else SCORE


def _order(found: pl.DataFrame, printed: str, context: Context) -> list[str]:
    """The groups that there are, as the paper's table has them."""
    present = set(found["group"])
    return [group for group in published_order(context.protocol, printed, context.main.by) if group in present]


def _compared(found: pl.DataFrame) -> Iterator[str]:
    cases, persons = (max(found[name].drop_nulls().to_list(), default=0) for name in ("cases", "persons"))
    yield (
        f"Means over edits with a score in both arms, every edit counting alike, as published: up to "
        f"{plural(cases, 'cases')} and {plural(persons, 'persons')} a group. For comparison, not for claims."
    )


def _amount(label: str, axis: Axis) -> str:
    return f"{label} is of the amount |score − {axis.neutral}|: the mean of a signed score is no amount of change."


# Tables 10 and 11


def participants(frames: Frames, context: Context) -> Table | None:
    """Demographic and distribution, of the raters themselves."""
    frame = frames.get(PARTICIPANTS)
    if frame is None or not frame.height:
        return None
    columns = [words("Demographic", "demographic"), words("Distribution", "distribution")]
    caption = "Participant demographics for approved submissions with valid completion codes."
    return table(f"{PREFIX}-10", caption, frame.to_dicts(), columns, frame)


def sample(frames: Frames, context: Context) -> Table | None:
    """How many rated outputs there are by perceived race, age, gender, and by model."""
    frame = frames.get(SAMPLE)
    if frame is None or not frame.height:
        return None
    columns = [
        words("Characteristic", "characteristic"),
        words("Group", "group"),
        tally("N", "n"),
        value("%", "percent", "nothing was rated", 1),
    ]
    whole = int(frame.filter(characteristic=frame["characteristic"][0])["n"].sum())
    caption = f"Demographic and model distribution of {plural(whole, 'human evaluation samples')}."
    return table(f"{PREFIX}-11", caption, frame.to_dicts(), columns, frame)


def sampled(rated: pl.DataFrame, context: Context) -> pl.DataFrame:
    """The frame behind table 11, from ratings that name their trial: every rated output counts once."""
    outputs = rated.unique("trial", maintain_order=True)
    groups = context.protocol.groups
    present = [name for name in groups.dimensions if name in outputs.columns]
    named = [(capital(name), str(name), groups.labels(name)) for name in present]
    named.append(("Model", "editor", {party.id: party.label for party in context.editors}))
    found = [
        (heading, label, number, 100 * number / outputs.height)
        for heading, column, labels in named
        for id, label in labels.items()
        if (number := outputs.filter(pl.col(column) == id).height)
    ]
    return pl.DataFrame(found, schema=SAMPLE_SCHEMA, orient="row")
