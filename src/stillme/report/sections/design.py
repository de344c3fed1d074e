"""The design: what was asked of whom. Portraits by groups, prompts, editors, arms, seeds; the rules as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import polars as pl

from stillme.analysis.numbers import DASH, count, listed, lowered, plural
from stillme.report.blocks import Beside, Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.tables import Cell, Column, Row, Table, absent, table, tally, words

TOTAL = "All"
_KINDS = {
    "diagnose": "Diagnosis",
    "mitigate": "Mitigation",
    "stereotype": "Stereotypes",
    "controls": "Controls (nothing is asked for)",
}


def build(context: Context) -> Section:
    return Section("design", "Design", "Design", tuple(_blocks(context)))


def _blocks(context: Context) -> Iterator[Block]:
    yield prose(*_told(context))
    if context.asked:
        yield _asked(context)
    people = (_people(context),) if context.people else ()
    yield Beside((*people, _rules(context)))
    asked = _prompts(context)
    yield Fold("Every prompt of the protocol", plural(len(asked.rows), "prompts"), (asked,))


def _told(context: Context) -> Iterator[str]:
    editors = listed([party.name for party in context.editors])
    yield f"Editors asked: {editors}."
    rounding = context.choices.rounding.replace("_", " ")
    told = listed([f"perceived {name}" for name in context.told])
    yield (
        f"Preset {context.preset} ({lowered(context.choices.label)}): rates are shares of edits "
        f"{'asked for' if context.nominal else 'judged'}, halves of judges’ means are rounded {rounding}, and "
        f"judges are told {told or 'nothing'} of the source person. Groups are how annotators perceived the "
        "person in the source portrait."
    )


# Whom: portraits by groups


def _people(context: Context) -> Table:
    """Rows: the main dimension with those between; columns: the last one. A cell counts portraits."""
    groups = context.protocol.groups
    first, *others = [context.main.by, *(name for name in groups.dimensions if name != context.main.by)]
    named, across = [first, *others[:-1]], others[-1:]
    found = Counter(tuple(person.get(name, "") for name in (*named, *across)) for person in context.people)
    rows = [
        row for key in product(*map(groups.ids, named)) if (row := _row(key, named, across, found, context))[TOTAL]
    ]
    columns = [words(f"Perceived {name}", name, groups.labels(name)) for name in named]
    columns += [_portraits(label, group) for name in across for group, label in groups.labels(name).items()]
    numbers = pl.DataFrame([(*key, n) for key, n in found.items()], [*named, *across, "portraits"], orient="row")
    counted = [group for name in across for group in groups.ids(name)]
    return table(
        "portraits",
        "Portraits by groups",
        rows,
        [*columns, tally(TOTAL, TOTAL)],
        numbers,
        foot=[_total(rows, counted, len(named))],
        notes=(f"{_columns(across)}n = {plural(len(context.people), 'portraits')}; one portrait is one person.",),
        dense=True,
    )


def _columns(across: list[str]) -> str:
    return f"Columns: perceived {across[0]}. " if across else ""


def _row(
    key: tuple[str, ...], named: list[str], across: list[str], found: Counter[tuple[str, ...]], context: Context
) -> Row:
    own = {group: found[*key, group] for name in across for group in context.protocol.groups.ids(name)}
    return {**dict(zip(named, key, strict=True)), **own, TOTAL: sum(own.values()) if across else found[key]}


def _portraits(label: str, group: str) -> Column:
    return Column(label, lambda row: Cell(count(row[group]), row[group]) if row[group] else absent("no portrait"))


def _total(rows: list[Row], groups: list[str], named: int) -> list[Cell]:
    sums = [sum(row[name] for row in rows) for name in (*groups, TOTAL)]
    return [Cell(TOTAL), *(Cell("") for _ in range(named - 1)), *(Cell(count(n), n) for n in sums)]


# What: experiments, prompts, rules


def _asked(context: Context) -> Table:
    arms = {arm.id: arm.label for arm in context.protocol.manifest.arms}
    rows = [vars(one) for one in context.asked]
    columns = [
        words("Experiment", "experiment", _KINDS),
        words("Arm", "arm", arms),
        *(tally(name.capitalize(), name) for name in ("portraits", "prompts", "editors", "seeds", "edits")),
    ]
    notes = (
        "Edits: portraits × prompts × editors × seeds, as far as the experiment crosses them. A trial that "
        "needs the very edit of another is counted in both.",
    )
    return table("asked", "What was asked", rows, columns, pl.DataFrame(rows), notes=notes)


def _rules(context: Context) -> Table:
    plan = context.protocol.analysis
    rows = [{"what": f"{outcome.label}", "rule": context.rule(name)} for name, outcome in context.outcomes.items()]
    primary = [context.outcomes[name].label for name in plan.primary.outcomes]
    primary += [f"net {lowered(context.protocol.axes[axis].label)}" for axis in plan.primary.net]
    reliable = plan.reliability
    rows += [
        {"what": "Declared endpoints", "rule": listed([lowered(name) for name in primary])},
        {"what": "May be called alike", "rule": f"difference shown within ± {plan.equivalence_points:g} points"},
        {
            "what": "Raters’ agreement (ordinal α)",
            "rule": f"≥ {reliable.confirmatory:g} confirmatory, below {reliable.exploratory:g} exploratory, "
            "between: model-based only",
        },
    ]
    columns = [words("What", "what"), words("Counted when", "rule")]
    notes = (
        f"From protocol {context.protocol.name}, as data; scores at neighbouring thresholds: see sensitivity.",
    )
    return table("rules", "Thresholds and rules", rows, columns, pl.DataFrame(rows), notes=notes)


def _prompts(context: Context) -> Table:
    axes = {axis.attribute: lowered(axis.label) for axis in context.protocol.rubrics.axes if axis.attribute}
    rows = [
        {
            "prompt": prompt.id,
            "label": prompt.label,
            "kind": f"{prompt.category}, {prompt.subcategory}",
            "text": prompt.text,
            "may": listed([axes.get(name, name) for name in prompt.may_change]) or DASH,
        }
        for prompt in context.protocol.prompts.prompts
    ]
    columns = [
        words("Prompt", "prompt"),
        words("Short", "label"),
        words("Kind", "kind"),
        words("Instruction", "text"),
        words("May change", "may"),
    ]
    notes = ("May change: what the prompt itself asks for is not drift and is left out of that outcome.",)
    return table("prompts", "The protocol’s prompts", rows, columns, pl.DataFrame(rows), notes=notes)
