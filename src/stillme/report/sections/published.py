"""This run beside the published one: its tables as printed, with what their own arithmetic says of them.

Everything here is computed as in the seed, every edit counted as if it were a person, so that figures can be held
against each other; beside it stands the value with persons as the unit and the design effect that lies between. No
claim of the report rests on this section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from stillme.analysis.numbers import bracket, capital, decimal, known, of, p_value, percent, plural, points
from stillme.protocol import Protocol
from stillme.report.blocks import Block, Fold, Heading, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, Tables, axis_labels, by_key, counts, editor_names, ordered, per_editor, rows
from stillme.report.tables import (
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
    value,
    words,
)
from stillme.stats import printed
from stillme.stats.comparability import MARK
from stillme.stats.findings import Findings
from stillme.stats.lint import Finding, Severity
from stillme.stats.together import lint_together

BY_EDITOR, BY_GROUP, HEADLINES = (
    "table12_outcomes_by_model",
    "table13_race_change_by_race_and_model",
    "headline_results",
)
_PERCENT = "_pct"
_WRONG, _CARE = "†", "‡"


def build(findings: Findings, tables: Tables, context: Context) -> Section:
    return Section(
        "published", "This run beside the published one", "Published", tuple(_blocks(findings, tables, context))
    )


def _blocks(findings: Findings, tables: Tables, context: Context) -> Iterator[Block]:
    yield prose(_reading())
    published, faults = context.protocol.published, lint(context.protocol)
    if BY_EDITOR in published:
        yield _by_editor(findings, context)
    if BY_GROUP in published:
        yield _by_group(findings, faults, context)
    if faults:
        yield Heading(
            "published-lint", f"What the published tables’ own arithmetic says ({_WRONG}, {_CARE})", opens=False
        )
        yield bullets([_told(one) for one in faults])
    if HEADLINES in published:
        yield Fold(
            "Headline figures",
            plural(len(published[HEADLINES]), "figures"),
            (_headlines(findings, tables, context),),
        )
    if "seed_tests" in tables:
        yield Heading("published-tests", "Tests as in the seed, beside what holds up")
        yield prose(_tests_reading())
        yield _tests(tables["seed_tests"], context)


def _reading() -> str:
    return (
        f"Published figures stand as they were printed. This run’s stand beside them twice: {MARK}, and with "
        "persons as the unit, with the design effect between both (how many edits count as one). The published "
        "study audited other editors on other portraits: a difference between its rows and this run’s is no "
        "finding. Means before and after the feature prompt (tables 14 and 19) stand in the section on "
        "mitigation, where the run has one."
    )


# Lint


def lint(protocol: Protocol) -> tuple[Finding, ...]:
    """Where a published table contradicts itself or another one; errors first."""
    given = [printed.read(name, pl.DataFrame(list(some))) for name, some in protocol.published.items() if some]
    found = [one for linted in lint_together(given, None, None, _splits(protocol)) for one in linted.findings]
    return tuple(sorted(found, key=lambda one: one.severity is not Severity.ERROR))


def _splits(protocol: Protocol) -> list[str]:
    return list(protocol.groups.dimensions)


def _told(one: Finding) -> str:
    kind = "cannot be right" if one.severity is Severity.ERROR else "to be read with care"
    return f"{capital(_short(one.table))}, {one.rule} ({kind}): {_readable(one.said)}"


def _short(name: str) -> str:
    """A published table as people call it."""
    return name.split("_")[0].replace("table", "table ")


def _readable(said: str) -> str:
    """Names of files and columns in words."""
    told = re.sub(r"table\d+_\w+", lambda found: _short(found.group()), said)
    return re.sub(r"\b[a-z]+(?:_[a-z0-9]+)+\b", lambda found: found.group().replace("_", " "), told)


# Table 12


def _by_editor(findings: Findings, context: Context) -> Table:
    printed_rows = context.protocol.published[BY_EDITOR]
    names = [name.removesuffix(_PERCENT) for name in printed_rows[0] if name.endswith(_PERCENT)]
    outcomes = [name for name in names if name in context.outcomes]
    cells = {outcome: per_editor(findings, outcome) for outcome in outcomes}
    made: list[Row] = [{"who": row["model"], "published": row} for row in printed_rows]
    made += [{"who": party.id, "published": None} for party in context.editors]
    columns = [
        Column("Editor", lambda row: _who(row, context), numeric=False),
        Column("N", lambda row: _asked(row, cells[outcomes[0]])),
        *(column for outcome in outcomes for column in _outcome(outcome, cells[outcome], context)),
        Column("Missing", lambda row: _lost(row, cells[outcomes[0]])),
        Column("Persons", lambda row: _persons(row, cells[outcomes[0]])),
    ]
    notes = (
        f"Percentages of N: {MARK}. Adjusted: of judged edits, interval with persons as the unit, design effect.",
    )
    numbers = findings.by_editor.filter(pl.col("outcome").is_in(outcomes))
    return table("published-by-editor", "Outcomes by editor, as table 12", made, columns, numbers, notes=notes)


def _who(row: Mapping[str, Any], context: Context) -> Cell:
    return (
        Cell(f"{row['who']} (published)")
        if row["published"]
        else Cell(f"{context.editor(row['who']).name} (this run)")
    )


def _asked(row: Mapping[str, Any], cells: Mapping[str, Row]) -> Cell:
    if row["published"]:
        return Cell(f"{int(row['published']['n']):,}", int(row["published"]["n"]))
    found = cells.get(row["who"])
    return Cell(f"{found['asked']:,}", found["asked"]) if found else absent(NOTHING_JUDGED)


def _lost(row: Mapping[str, Any], cells: Mapping[str, Row]) -> Cell:
    if row["published"]:
        return absent("not published")
    found = cells.get(row["who"])
    return Cell(f"{found['missing']:,}", found["missing"]) if found else absent(NOTHING_JUDGED)


def _persons(row: Mapping[str, Any], cells: Mapping[str, Row]) -> Cell:
    if row["published"]:
        return absent("not published")
    found = cells.get(row["who"])
    return Cell(f"{found['persons']:,}", found["persons"]) if found else absent(NOTHING_JUDGED)


def _outcome(outcome: str, cells: Mapping[str, Row], context: Context) -> tuple[Column, Column]:
    def plain(row: Mapping[str, Any]) -> Cell:
        if row["published"]:
            return _printed(row["published"][f"{outcome}{_PERCENT}"])
        found = cells.get(row["who"])
        if found is None or not known(found["nominal_rate"]):
            return absent(NOTHING_JUDGED)
        behind = samples(editor=row["who"], outcome=outcome)
        return Cell(
            percent(found["nominal_rate"]),
            found["nominal_rate"],
            (of(found["hits"], found["asked"]),),
            samples=behind,
        )

    def adjusted(row: Mapping[str, Any]) -> Cell:
        found = None if row["published"] else cells.get(row["who"])
        return absent("not published") if row["published"] else _adjusted(found)

    label = context.outcomes[outcome].label
    return Column(label, plain, note="as in the seed"), Column("Adjusted", adjusted)


def _printed(text: str, mark: str = "") -> Cell:
    """As it stands in print, with its mark where it contradicts something."""
    return Cell(f"{text}{mark}", float(text) / 100)


def _adjusted(found: Row | None) -> Cell:
    if found is None or not known(found["rate"]):
        return absent(NOTHING_JUDGED)
    spread = bracket(found["low"], found["high"]) if known(found["low"]) else "no interval"
    deff = f"design effect {decimal(found['deff'], 1)}" if known(found["deff"]) else "no design effect"
    return Cell(percent(found["rate"]), found["rate"], (spread, deff))


# Table 13


def _by_group(findings: Findings, faults: Sequence[Finding], context: Context) -> Table:
    by, outcome = context.main.by, context.main.outcome
    labels = context.protocol.groups.labels(by)
    found, printed_rows = (
        by_key(findings.by_group[by], by, "editor", outcome=outcome),
        _published(BY_GROUP, by, context),
    )
    models = [name for name in context.protocol.published[BY_GROUP][0] if name != by]
    numbers = findings.by_group[by].filter(outcome=outcome)
    columns = [words(f"Perceived {by}", "group", labels)]
    marks = {one.column: _mark(one) for one in reversed(faults) if one.table == BY_GROUP}
    columns += [_model(model, printed_rows, marks.get(model, "")) for model in models]
    columns += [column for party in context.editors for column in _own(party.id, found, context)]
    foot = [_range(models, printed_rows, found, labels, context)]
    notes = (
        f"{_WRONG}: this column contradicts table 12. {_CARE}: it cannot come from whole counts. See below.",
        f"This run: {counts(numbers.drop_nulls(by), context)}",
    )
    caption = f"{context.outcomes[outcome].label} by perceived {by}, as table 13"
    return table(
        "published-by-group", caption, [{"group": g} for g in labels], columns, numbers, foot=foot, notes=notes
    )


def _published(name: str, dimension: str, context: Context) -> dict[str, Mapping[str, str]]:
    """Group -> its row of a published table."""
    printed_rows = {row[dimension]: row for row in context.protocol.published.get(name, ()) if dimension in row}
    named = {one.id: (one.label, *one.aliases) for one in context.protocol.groups.dimensions[dimension]}
    return {group: printed_rows[word] for group, some in named.items() for word in some if word in printed_rows}


def _mark(one: Finding) -> str:
    return _WRONG if one.severity is Severity.ERROR else _CARE


def _model(model: str, printed_rows: Mapping[str, Mapping[str, str]], mark: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        found = printed_rows.get(row["group"])
        return _printed(found[model], mark) if found else absent("not published")

    return Column(model, read, note="published, %")


def _own(editor: str, found: Mapping[tuple[str, ...], Row], context: Context) -> tuple[Column, Column]:
    def plain(row: Mapping[str, Any]) -> Cell:
        own = found.get((row["group"], editor))
        if own is None or not known(own["nominal_rate"]):
            return absent(NOTHING_JUDGED)
        return Cell(percent(own["nominal_rate"]), own["nominal_rate"], (of(own["hits"], own["asked"]),))

    def behind(row: Mapping[str, Any]) -> str:
        return samples(editor=editor, outcome=context.main.outcome, **{context.main.by: row["group"]})

    name = context.editor(editor).name
    adjusted = Column("Adjusted", lambda row: _adjusted(found.get((row["group"], editor))))
    return leads(Column(name, plain, note="as in the seed"), behind), adjusted


def _range(
    models: Sequence[str],
    printed_rows: Mapping[str, Mapping[str, str]],
    found: Mapping[tuple[str, ...], Row],
    labels: Mapping[str, str],
    context: Context,
) -> list[Cell]:
    """Max − min, as published: above zero even where all groups are alike."""
    cells = [Cell("Max − min (raw)")]
    for model in models:
        values = [float(row[model]) for row in printed_rows.values()]
        cells.append(Cell(f"{max(values) - min(values):.1f} points") if values else absent("not published"))
    for party in context.editors:
        known_ = [r for g in labels if (row := found.get((g, party.id))) and known(r := row["nominal_rate"])]
        cells.append(Cell(f"{points(max(known_) - min(known_))} points") if known_ else absent(NOTHING_JUDGED))
        cells.append(absent("see how far groups lie apart"))
    return cells


# Headlines


def _headlines(findings: Findings, tables: Tables, context: Context) -> Table:
    own = _ours(findings, tables, context)
    made = [{**row, "own": own.get(row["quantity"])} for row in context.protocol.published[HEADLINES]]
    columns = [
        Column("Figure", lambda row: Cell(row["quantity"].replace("_", " ")), numeric=False),
        Column("Published", _headline),
        words("Unit", "unit"),
        words("Where", "where"),
        Column(
            "This run",
            lambda row: Cell(row["own"]) if row["own"] else absent("not part of this run, or in the tests below"),
        ),
    ]
    notes = ("Ranges over editors or axes, as published. Ours are of all judged edits of this run.",)
    numbers = pl.DataFrame([dict(row) for row in context.protocol.published[HEADLINES]])
    return table("published-headlines", "Headline figures", made, columns, numbers, notes=notes)


def _headline(row: Mapping[str, Any]) -> Cell:
    low, high = row["low"], row["high"]
    return Cell(low if low == high else f"{low} to {high}", float(low))


def _ours(findings: Findings, tables: Tables, context: Context) -> dict[str, str]:
    """The same quantities of this run, those that it has."""
    found: dict[str, str] = {}
    for outcome in context.outcomes:
        rates = [row["rate"] for row in rows(findings.by_editor, outcome=outcome) if known(row["rate"])]
        found[outcome] = _span([100 * rate for rate in rates], 1)
    if "reliability" in tables:
        raters = tables["reliability"].filter(sample="all")
        found["fleiss_kappa"] = _span(raters["fleiss"].drop_nulls().to_list(), 2)
        found["krippendorff_alpha_interval"] = _span(raters["alpha_interval"].drop_nulls().to_list(), 2)
    if "judges_raters_alignment" in tables:
        both = tables["judges_raters_alignment"].filter(sample="all")
        for axis in context.protocol.axes:
            gaps = both.filter(pl.col("axis") == axis)["difference"].drop_nulls().to_list()
            found[f"vlm_minus_human_{axis}"] = _span(gaps, 2)
    return {name: text for name, text in found.items() if text}


def _span(values: Sequence[float], digits: int) -> str:
    if not values:
        return ""
    low, high = decimal(min(values), digits), decimal(max(values), digits)
    return low if low == high else f"{low} to {high}"


# Tests


def _tests_reading() -> str:
    return (
        "Kruskal–Wallis and Mann–Whitney take every edit for an independent one in the seed; where persons "
        "differ, such tests name a difference in 45 to 86 of 100 audits without any. The same tests on persons’ "
        "means, and with groups dealt out anew among persons, stand beside them. A score is taken as it is, "
        "also on signed axes."
    )


def _tests(frame: pl.DataFrame, context: Context) -> Table:
    own = frame.with_columns(pl.col("editor").fill_null(""))
    made = ordered(own, axis=list(context.protocol.axes), editor=["", *(party.id for party in context.editors)])
    names = {"": "All together", **editor_names(context)}
    few = "too few persons or groups, or every score the same"
    columns = [
        words("Axis", "axis", axis_labels(context)),
        words("Editor", "editor", names),
        _both("Kruskal–Wallis", "edits_h", "edits_p", "as in the seed: H, p per edit", few),
        value("Design effect", "deff", few, digits=1),
        probability("p of H ÷ design effect", "p_over_deff", few),
        _both("Of persons’ means", "persons_h", "persons_p", "H, p", few),
        probability("p permuted", "permuted_p", few),
        probability("Mann–Whitney p", "edits_u_p", few),
        probability("Of persons", "persons_u_p", few),
        value("Cliff’s δ", "delta", few),
        tally("Edits", "edits"),
        tally("Persons", "persons"),
    ]
    notes = (
        f"Kruskal–Wallis and Mann–Whitney p: {MARK}. Mann–Whitney: the reference group against everyone else.",
    )
    return table(
        "published-tests-table", "Do scores differ between groups?", made, columns, frame, notes=notes, dense=True
    )


def _both(label: str, statistic: str, p: str, note: str, why: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        if not known(row[statistic]):
            return absent(why)
        return Cell(decimal(row[statistic], 1), row[statistic], (f"p {p_value(row[p])}",))

    return Column(label, read, note=note)
