"""Judges: how they were asked, how far they agree with each other and with themselves, whom they refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from stillme.analysis.numbers import INTERVAL, capital, count, decimal, known, listed, plural
from stillme.core.records import Status
from stillme.report import refusals, sentences
from stillme.report.blocks import Block, Fold, Heading, Section, bullets, prose
from stillme.report.context import Context, Party
from stillme.report.lookup import editor_names, first_of_each_axis, per_editor
from stillme.report.sections.outcomes import tallies
from stillme.report.sections.refusals import by_group
from stillme.report.tables import (
    ANY,
    JUDGED,
    Cell,
    Column,
    Row,
    Table,
    absent,
    change,
    counted,
    leads,
    proportion,
    samples,
    share,
    table,
    tally,
    value,
    words,
)
from stillme.stats.findings import Findings
from stillme.stats.judging import Judging

_NO_PAIR = "no edit was scored by two judges"
_NOT_TWICE = "no edit was scored twice"
_ONE_SCORE = "every score is the same"
_KAPPA = "κ: Cohen’s kappa with quadratic weights, 1 for full agreement, 0 for what chance would give."
SHORT = 12  # characters of a hash that tell it from others


def build(findings: Findings, context: Context) -> Section:
    return Section("judges", "Judges", "Judges", tuple(_blocks(findings, context)))


def _blocks(findings: Findings, context: Context) -> Iterator[Block]:
    judging = findings.judging
    yield prose(_who(context), sentences.agreed(findings), sentences.agreed_with_themselves(findings))
    if judging is not None:
        yield _asked(judging, context)
    yield _agreement(findings, context)
    if judging is not None and judging.itself.height:
        yield _itself(judging, context)
    yield _counts(findings, context)
    if judging is not None:
        yield from _refused(judging, findings, context)


def _who(context: Context) -> str:
    names = listed([judge.name for judge in context.scoring])
    told = listed([f"perceived {dimension}" for dimension in context.told])
    disclosed = (
        f"They were told the source person’s {told}." if told else "They were told nothing about the person."
    )
    first = " The first is the primary judge." if len(context.scoring) > 1 else ""
    return f"{names or 'No judge'} scored the edits. {disclosed}{first}{_measuring(context)}"


def _measuring(context: Context) -> str:
    """Who measured beside the judges, or that a measurement is one of the scores."""
    if context.instruments:
        names = listed([party.name for party in context.instruments])
        return f" {names} measured beside them and is in no score, rate or agreement of the judges."
    mixed = [party.name for party in context.scoring if party.instrument]
    return f" {listed(mixed)} measures instead of judging; the audit mixes its scores in." if mixed else ""


# How they were asked


def _asked(judging: Judging, context: Context) -> Table:
    """Model, parameters in effect, what had none, the form, how looks ended, what it took."""
    rows = [_asking(party, judging) for party in context.judges if not party.instrument]
    told = [label for label in _TOLD if any(row[label] for row in rows)]
    columns = [words("Judge", "name"), *(_said(label) for label in told), *_endings(judging)]
    columns += [tally("Attempts", "attempts"), Column("Cost", _cost, note="USD")]
    notes = [
        "Attempts: every call that was made, those that failed and those of second looks included. Looks at the "
        "same pixels with the same question share a call.",
        *(f"{party.name}: {said}" for party in context.judges for said in party.caveats),
    ]
    numbers = pl.DataFrame(rows, infer_schema_length=None)
    return table("judges-asked", "How judges were asked", rows, columns, numbers, notes=notes)


_TOLD = ("Model", "Parameters in effect", "Without effect", "Form")


def _asking(party: Party, judging: Judging) -> Row:
    ended = judging.statuses.filter(judge=party.id)
    counts: dict[str, int] = dict(ended.select("status", "looks").iter_rows())
    return {
        "name": party.name,
        **_settings(party.settings),
        "Without effect": "; ".join(f"{name}: {why.rstrip('.')}" for name, why in party.dropped.items()),
        **{status: counts.get(status, 0) for status in judging.statuses["status"].unique(maintain_order=True)},
        "attempts": party.attempts,
        "cost_usd": party.cost_usd,
    }


def _settings(settings: Mapping[str, object]) -> dict[str, str]:
    """What a judge behind a network says of itself; others say nothing of it."""
    parameters, form = settings.get("parameters"), settings.get("form")
    sent = parameters.items() if isinstance(parameters, Mapping) else ()
    version, hash = form if isinstance(form, list | tuple) and len(form) == 2 else ("", "")
    return {
        "Model": str(settings.get("model") or ""),
        "Parameters in effect": ", ".join(f"{name} {setting}" for name, setting in sent),
        "Form": f"version {version}, {str(hash)[:SHORT]}" if hash else "",
    }


def _said(label: str) -> Column:
    return Column(label, lambda row: Cell(row[label], row[label]) if row[label] else absent("none"), numeric=False)


def _endings(judging: Judging) -> Iterator[Column]:
    """One column for each way in which a look ended, in the order of the closed list."""
    seen = set(judging.statuses["status"])
    names = {Status.OK: "Scored", Status.PENDING: "Not judged"}
    for status in Status:
        if status.value in seen:
            yield tally(names.get(status, status.label.capitalize()), status.value)


def _cost(row: Row) -> Cell:
    cost = row["cost_usd"]
    return Cell(decimal(cost, 2), cost) if known(cost) else absent("not counted")


# How far they agree


def _agreement(findings: Findings, context: Context) -> Table:
    frame, names = findings.agreement, {party.id: party.name for party in context.judges}
    axes = {id: axis.label for id, axis in context.protocol.axes.items()}
    rows = sorted(frame.to_dicts(), key=lambda row: list(axes).index(row["axis"]))
    several = frame.select("first_judge", "second_judge").n_unique() > 1
    apart = "Apart" if several else "Flagged"  # three judges are flagged once, whoever of them is apart
    pair = Column("Judges", lambda row: _pair(row, names), numeric=False)
    columns = [
        words("Axis", "axis", axes),
        *([pair] if several else []),
        tally("Pairs", "pairs"),
        proportion("Same score", "exact", "pairs", _NO_PAIR, "pairs"),
        proportion("Within one point", "within_one", "pairs", _NO_PAIR, "pairs"),
        share(apart, "flagged", "pairs") if several else leads(share(apart, "flagged", "pairs"), _apart),
        value("κ", "kappa", _ONE_SCORE, note="quadratic"),
        value("Mean difference", "difference", _NO_PAIR),
        tally("Missing", "missing"),
        tally("Persons", "persons"),
    ]
    notes = (
        f"Difference: second minus first judge, in points of the scale. {apart}: more than one point apart. "
        "Missing: asked of both, and not scored by both.",
        _KAPPA,
    )
    title = "Agreement of every two judges by axis" if several else "Agreement of two judges by axis"
    return table("agreement", title, rows, columns, frame, notes=notes)


def _apart(row: Row) -> str:
    return samples(axis=row["axis"], flag="flagged")


def _pair(row: Row, names: Mapping[str, str]) -> Cell:
    first, second = (names.get(row[side], row[side]) for side in ("first_judge", "second_judge"))
    return Cell(f"{first} and {second}", f"{first} {second}")


def _exact(row: Row) -> Row:
    return {**row, "rate": row["exact"]}


def _itself(judging: Judging, context: Context) -> Table:
    """First beside second looks, judge by judge."""
    axes = {id: axis.label for id, axis in context.protocol.axes.items()}
    names = {party.id: party.name for party in context.judges}
    found = {(row["judge"], row["axis"]): row for row in judging.itself.to_dicts()}
    rows = [found[judge, axis] for judge in names for axis in axes if (judge, axis) in found]
    columns = [
        words("Judge", "judge", names),
        words("Axis", "axis", axes),
        tally("Looked twice", "asked"),
        counted("Same score", _exact, "same", "pairs", note=INTERVAL, why=_NOT_TWICE),
        proportion("Within one point", "within_one", "pairs", _NOT_TWICE, "pairs"),
        value("κ", "kappa", _ONE_SCORE, note="quadratic"),
        change("Mean difference", "difference", _NOT_TWICE),
    ]
    notes = (
        "A random share of the edits was judged twice with the very same question; second looks are in no score. "
        "Pairs are edits that both looks scored. Difference: second minus first look.",
    )
    title = "Agreement of each judge with itself by axis"
    return table("agreement-itself", title, rows, columns, judging.itself, notes=notes, dense=True)


def _counts(findings: Findings, context: Context) -> Table:
    chosen = first_of_each_axis(context)
    rows = [
        {**row, "axis": axis}
        for editor in context.editors
        for axis, outcome in chosen.items()
        if (row := per_editor(findings, outcome).get(editor.id)) is not None
    ]
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Axis", "axis", {id: axis.label for id, axis in context.protocol.axes.items()}),
        *tallies(""),
        leads(share("One judge only", "single", "judged"), lambda row: _behind(row, JUDGED, single="yes")),
        leads(share("Flagged", "flagged", "judged"), lambda row: _behind(row, ANY, flag="flagged")),
        leads(tally("Adjudicated", "adjudicated"), lambda row: _behind(row, ANY, flag="adjudicated")),
        tally("Persons", "persons"),
    ]
    numbers = findings.by_editor.filter(pl.col("outcome").is_in(list(chosen.values())))
    return table("judged", "Scores by editor and axis", rows, columns, numbers, dense=True)


def _behind(row: Row, happened: str, **about: str) -> str:
    return samples(editor=row["editor"], outcome=row["outcome"], happened=happened, **about)


# Whom they refused


def _refused(judging: Judging, findings: Findings, context: Context) -> Iterator[Block]:
    main = context.main.by
    if not judging.refused:
        return
    yield Heading("judges-refused", "Verdicts refused, by group")
    yield prose(_reading(judging))
    told = [claim.text for claim in refusals.judges_claims(findings, context)]
    yield bullets(told) if told else prose(f"{capital(sentences.NOT_SHOWN)}.")
    yield _by_group(judging, context, main)
    for dimension in context.protocol.groups.dimensions:
        if dimension != main:
            yield Fold(_title(dimension), _hint(judging, dimension), (_by_group(judging, context, dimension),))


def _reading(judging: Judging) -> str:
    return (
        f"Judges refused {count(judging.refused)} of {plural(judging.decided, 'looks')} that they scored or "
        "refused. An answer that could not be read stands beside and is in no rate. Each group is set against "
        "everyone else as under Refusals; the comparisons of all judges were corrected together (Holm)."
    )


def _title(dimension: str) -> str:
    return f"Verdicts refused by perceived {dimension}"


def _hint(judging: Judging, dimension: str) -> str:
    shown = judging.refusals.filter(dimension=dimension)["p_holm"] < sentences.SHOWN_BELOW
    return f"shown for {plural(int(shown.sum()), 'groups')}" if shown.any() else "no difference shown"


def _by_group(judging: Judging, context: Context, dimension: str) -> Table:
    frame = judging.refusals.filter(dimension=dimension)
    names = {party.id: party.name for party in context.judges}
    id = f"judges-refusals-by-{dimension}"
    return by_group(id, _title(dimension), frame, dimension, ("judge", names), context)
