"""What the numbers say, in sentences: only of what was declared, only where a gate is passed.

"Not shown" is never "there is none": that is said only where two one-sided tests rule the declared margin out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stillme.analysis.numbers import bracket, count, listed, lowered, p_value, plural, points, signed
from stillme.analysis.tables.inputs import Inputs
from stillme.analysis.tables.tables import Tabled, text

NET = "net"
SURE = 0.05
WIDTH = 110
MOST = 4  # examples in a sentence
Row = Mapping[str, Any]


def words(tables: Sequence[Tabled], inputs: Inputs, page: Path | None = None) -> str:
    """For a terminal: what was analysed, what may be said, the tables that carry it, and where the rest is."""
    lines = [f"{inputs.protocol.name}, preset {inputs.preset}", ""]
    leading = [table for table in tables if table.first] or tables[:1]
    for table in (table.briefly() for table in leading):
        if table.frame.height:
            lines += [table.title, text(table), *(textwrap.fill(note, WIDTH) for note in table.notes), ""]
    for sentence in sentences(tables, inputs):
        lines += textwrap.wrap(f"- {sentence}", WIDTH, subsequent_indent="  ")
    return "\n".join([*lines, "", f"{len(tables)} tables" + (f": {page}" if page else "")])


def sentences(tables: Sequence[Tabled], inputs: Inputs) -> list[str]:
    found = {table.id: table for table in tables}
    return [
        said
        for make in (_scope, _claims, _disparity, _judges, _missing, _gates, _selection, _lint)
        for said in make(found, inputs)
    ]


def _rows(found: Mapping[str, Tabled], id: str, **about: object) -> list[Row]:
    if id not in found:
        return []
    rows = found[id].frame.iter_rows(named=True)
    return [row for row in rows if all(row[name] == value for name, value in about.items())]


def _labels(inputs: Inputs) -> dict[str, str]:
    outcomes = {name: lowered(outcome.label) for name, outcome in inputs.protocol.rubrics.outcomes.items()}
    return {axis.id: lowered(axis.label) for axis in inputs.protocol.rubrics.axes} | outcomes


def _reference(inputs: Inputs) -> str:
    dimension, group = next(iter(inputs.protocol.groups.reference_group.items()))
    return f"perceived {inputs.protocol.groups.labels(dimension)[group]}"


def _scope(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    if "design" not in found:  # experiments alone: their tables say what they count
        yield from inputs.scores.notes
        return
    counts = {row["what"]: row["number"] for row in _rows(found, "design")}
    asked, scored = counts["edits asked for"], counts["edits with a score"]
    told = f"{plural(counts['editors'], 'editors')}, {plural(counts['persons'], 'persons')}, "
    told += (
        f"{plural(counts['prompts'], 'prompts')}: {count(asked)} edits, {count(asked - scored)} without a score."
    )
    yield told
    yield from inputs.scores.notes


def _claims(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    """The declared endpoints, each with its verdict."""
    if not inputs.protocol.analysis.primary.outcomes and not inputs.protocol.analysis.primary.net:
        yield "The protocol declares no endpoints (analysis.yaml), so no difference is claimed."
    quiet: dict[str, list[str]] = {}
    same = [row for row in _rows(found, "equivalence", alike=True) if row["p_holm"] < SURE]
    alike = {(row["editor"], row["outcome"]) for row in same}
    for row in _rows(found, "primary"):
        what = _labels(inputs)[row["outcome"]]
        if row["p_holm"] is not None and row["p_holm"] < SURE:
            yield _difference(row, what, inputs)
        elif (row["editor"], row["outcome"]) in alike:
            margin = inputs.protocol.analysis.equivalence_points
            told = f"everyone else and {_reference(inputs)} are shown to be within ± {margin:g} points"
            yield f"{row['editor']}, {what}: {told}."
        else:
            quiet.setdefault(what, []).append(row["editor"])
    for what, editors in quiet.items():
        yield f"{what.capitalize()}: no difference is shown for {listed(editors)}, which is not evidence of none."


def _difference(row: Row, what: str, inputs: Inputs) -> str:
    ends = "" if row["low"] is None else f" {bracket(row['low'], row['high'])}"
    told = f"{points(abs(row['difference']))} points {'more' if row['difference'] > 0 else 'less'} often"
    if row["kind"] == NET:
        told = f"net direction {signed(row['difference'] * 100, 1)} points further up"
    whom = f"for everyone else than for {_reference(inputs)}"
    return f"{row['editor']}, {what}: {told} {whom}{ends}, corrected p {p_value(row['p_holm'])}."


def _disparity(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    table = inputs.protocol.manifest.tables.change_by_group
    names = inputs.protocol.groups.labels(table.by)
    for row in _rows(found, f"disparity_by_{table.by}", outcome=table.outcome):
        if row["low"] is None:
            continue
        ends = f"{names[row['highest_group']]} to {names[row['lowest_group']]}"
        raw = f"max − min {points(row['disparity'])} points ({ends}), {points(row['expected'])} expected by chance"
        left = f"corrected {points(row['corrected'])} {bracket(row['low'], row['high'])}"
        doubt = "" if row["gated"] else ", not told from none"
        yield f"{row['editor']}, {_labels(inputs)[table.outcome]}: {raw}; {left}{doubt}."


def _judges(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    """Judges that score groups differently make every difference between groups theirs as well."""
    apart = [row for row in _rows(found, "judge_functioning") if (row["p_holm"] or 1) < SURE]
    if apart:
        named = list(dict.fromkeys(_labels(inputs)[row["axis"]] for row in apart))
        told = f"Judges differ from each other otherwise for some groups on {listed(named)}"
        yield f"{told}: differences between groups there are not the editors' alone."
    functioning = [row for row in _rows(found, "judges_raters_functioning") if (row["p_holm"] or 1) < SURE]
    if functioning:
        told = listed([_labels(inputs)[row["axis"]] for row in functioning])
        yield f"Judges differ from raters otherwise for some groups on {told}: read the corrected rates."


def _missing(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    rows = _rows(found, "missing_by_group", uneven=True)
    told = [f"{row['reason']} of {row['editor']} ({_group(row, inputs)})" for row in rows]
    if told:
        more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
        told_of = ", ".join(told[:MOST])
        yield f"Not missing alike for all groups: {told_of}{more}. Read the bounds beside the rates."


def _group(row: Row, inputs: Inputs) -> str:
    labels = inputs.protocol.groups.labels(row["dimension"])
    return f"perceived {labels.get(row['group'], row['group'])}"


def _gates(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    """What may rest on raters."""
    gates: dict[str, list[str]] = {}
    for row in _rows(found, "reliability", sample="kept"):
        gates.setdefault(str(row["gate"]), []).append(_labels(inputs)[row["axis"]])
    for gate, axes in gates.items():
        yield f"Raters' agreement, {gate}: {listed(axes)}."


def _selection(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    if "mitigation_effects" in found:
        yield from found["mitigation_effects"].notes


def _lint(found: Mapping[str, Tabled], inputs: Inputs) -> Iterator[str]:
    if errors := _rows(found, "lint", severity="error"):
        places = plural(len(errors), "places")
        yield f"The tables contradict themselves in {places} (see the last one): do not publish them."
