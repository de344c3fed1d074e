"""The findings of a comparison, in sentences made from its numbers: only about endpoints, only behind a gate.

That no difference is shown never means that there is none: equivalent is only what two one-sided tests put within
a margin. A comparison on disk is a page that people read, and every table as CSV and Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

import stillme
from stillme.analysis.numbers import bracket, count, listed, lowered, p_value, plural, signed
from stillme.analysis.tables.tables import MOST_ROWS, Row, Tabled, markdown
from stillme.analysis.tables.writing import ENDINGS, FILES, clear
from stillme.assurance.compare.comparison import ComparisonResult, SequentialRun
from stillme.assurance.compare.tables import labels, points, tables
from stillme.core.atomic import replace_file
from stillme.core.errors import disk
from stillme.core.table_files import write_frame
from stillme.stats.equivalence import SIZE
from stillme.stats.versions import BETTER, DOWN, FARTHEST, NO_WORSE, RATE, UNDECIDED, UP, WITHIN, WORSE, Watched

MAX_GROUPS = 5  # in a sentence
PAGE, ABOUT = "compare.md", "compare.json"


def sentences(compared: ComparisonResult) -> list[str]:
    notes = [f"{side.name}: {note}" for side in (compared.a, compared.b) for note in side.notes]
    described = [*scope(compared), *_omissions(compared), *compared.notes, *notes]
    if compared.driven is None:
        return [*described, *_sequences(compared), *_claims(compared)]
    return [*described, *_sequences(compared), *_stop_reason(compared, compared.driven)]


def to_dict(compared: ComparisonResult) -> dict[str, Any]:
    """For scripts: what was compared, its findings, every table row by row."""
    result, driven, budget = compared.versions, compared.driven, None
    if driven is not None:
        budget = {"calls": driven.calls, "of": driven.budget, "next": driven.next_calls}
    sides = {
        side.name.lower(): {"path": str(side.path), "editor": side.editor} for side in (compared.a, compared.b)
    }
    return {
        **sides,
        "difference": "B - A",
        "protocol_hash": compared.protocol.hash,
        "preset": compared.a.terms.preset,
        "anyway": list(compared.incompatibilities),
        "experiment": compared.arm[0],
        "arm": compared.arm[1],
        "margin": result.margin,
        "endpoints": list(result.endpoints),
        "shared": asdict(compared.shared),
        "budget": budget,
        "sentences": sentences(compared),
        "tables": {table.id: table.frame.to_dicts() for table in tables(compared)},
    }


# On disk


def write(compared: ComparisonResult, folder: Path) -> Path:
    """Write the folder with everything in it; return the page's path."""
    all_tables = tables(compared)
    with disk(folder):
        (folder / FILES).mkdir(parents=True, exist_ok=True)
        clear(folder, ABOUT)
        for table in all_tables:
            for ending in ENDINGS:
                write_frame(table.frame, folder / FILES / f"{table.id}.{ending}")
        about = {"stillme": stillme.__version__, **to_dict(compared)}
        about["tables"] = {table.id: table.title for table in all_tables}
        replace_file(folder / ABOUT, (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode())
        replace_file(folder / PAGE, "\n".join(_page(compared, all_tables)).encode())
    return folder / PAGE


def _page(compared: ComparisonResult, all_tables: list[Tabled]) -> Iterator[str]:
    """Everything in one Markdown page."""
    yield f"# {compared.b.editor} (B) against {compared.a.editor} (A)"
    yield ""
    yield from (f"- {sentence}" for sentence in sentences(compared))
    part = ""
    for table in all_tables:
        if table.part != part:
            part = table.part
            yield from ("", f"## {part}")
        yield from ("", f"### {table.title}", "")
        if table.shown and table.frame.height:
            yield from markdown(table)
            yield ""
        file, rows = f"{FILES}/{table.id}", f"{table.frame.height:,}"
        more = f"The first {MOST_ROWS} of {rows} rows; all" if table.shown and table.cut else "Numbers"
        yield f"{more} in [{table.id}.csv]({file}.csv) and [{table.id}.parquet]({file}.parquet)."
    yield ""


# What was compared


def scope(compared: ComparisonResult) -> Iterator[str]:
    a, b, shared = compared.a, compared.b, compared.shared
    if compared.incompatibilities:
        reasons = " ".join(compared.incompatibilities)
        yield f"Compared anyway (--anyway), by A's thresholds, although the two are not comparable. {reasons}"
    yield f"A: {a.editor} ({a.path}). B: {b.editor} ({b.path}). Differences are B − A."
    whom = f"{plural(shared.persons, 'persons')} and {plural(shared.prompts, 'prompts')}"
    pairs = f"{plural(shared.pairs, 'pairs')} of edits with scores in both"
    yield f"Both have {whom}, the same by {compared.matched_by}: {pairs}."


def _omissions(compared: ComparisonResult) -> Iterator[str]:
    shared = compared.shared
    numbers = {
        "persons only in A": shared.persons_a,
        "persons only in B": shared.persons_b,
        "prompts only in A": shared.prompts_a,
        "prompts only in B": shared.prompts_b,
        "pairs without a score in A or in B": shared.unjudged,
        "persons without any such pair": shared.persons_unjudged,
    }
    counts = []
    for what, number in numbers.items():
        noun, _, rest = what.partition(" ")
        counts += [f"{plural(number, noun)} {rest}"] if number else []
    if counts:
        yield f"Left out: {listed(counts)}."
    if shared.p_unjudged is not None and shared.p_unjudged < SIZE:
        pairs = f"{plural(shared.pairs_a, 'pairs')} have one in A alone, {count(shared.pairs_b)} in B alone"
        p = p_value(shared.p_unjudged)
        yield f"Scores are not missing alike ({pairs}, p {p}): what was refused or failed is in no difference."
    if shared.relabelled:
        yield f"{plural(shared.relabelled, 'persons')} perceived otherwise in A than in B: in no group."


# The endpoints, and for whom they changed


def _claims(compared: ComparisonResult) -> Iterator[str]:
    """Only of a fixed number of persons: where work stops by what is seen, these intervals do not hold."""
    versions, names = compared.versions, labels(compared)
    if not versions.endpoints:
        yield "The protocol declares no endpoints (analysis.yaml), so nothing is claimed: name one with --outcome."
    for row in versions.outcomes.filter("endpoint").iter_rows(named=True):
        yield f"{names[row['outcome']]}: {_finding(row, compared)}."
    if versions.endpoints:  # Did it get worse for somebody?
        by_verdict = versions.groups.drop_nulls("verdict").group_by("outcome", "verdict", maintain_order=True)
        for (outcome, verdict), rows in by_verdict:
            yield f"{names[str(outcome)]}: {verdict} for {_list_groups(rows, compared, '({})')}."
        rates = versions.groups.filter(pl.col("endpoint") & (pl.col("kind") == RATE))
        if rates.height and WORSE not in set(rates["verdict"]):
            yield "For no group is it shown to be worse, which is no evidence that it is so for none."
    # Did it change more for a group than for the reference group?
    shown = versions.uneven.filter(pl.col("p_holm") < SIZE)
    by_reference = shown.group_by("outcome", "dimension", "reference", maintain_order=True)
    for (outcome, dimension, reference), rows in by_reference:
        whom = f"that of perceived {compared.protocol.groups.labels(str(dimension))[str(reference)]}"
        groups = _list_groups(rows, compared, "(by {})")
        yield f"{names[str(outcome)]}: B − A differs from {whom} for {groups}."


def _finding(row: Row, compared: ComparisonResult) -> str:
    verdict, difference = row["verdict"], _difference(row)
    if verdict == UNDECIDED:
        why = f" ({row['why']})" if row["why"] else ""
        return f"not decided, {difference}{why}; neither a difference nor its absence is shown"
    if verdict in (BETTER, WORSE, UP, DOWN):
        towards = ""
        if verdict in (UP, DOWN):  # to which end of its scale a direction moved, in the rubric's words
            scale = compared.protocol.axes[row["outcome"]].scale
            towards = f", towards “{scale[(max if verdict == UP else min)(scale)].split(' (')[0]}”"
        return f"{_direction(verdict)}{towards}, {difference}, corrected p {p_value(row['p_holm'])}"
    is_shown = row["p_holm"] is not None and row["p_holm"] < SIZE  # a difference may be small, and be shown
    change = f"; it did change, corrected p {p_value(row['p_holm'])}" if is_shown else ""
    margin = points(compared.versions.margin)
    if verdict == WITHIN:
        return f"shown to be within ± {margin} of A, {difference}{change}"
    is_alike = row["p_alike_holm"] is not None and row["p_alike_holm"] < SIZE
    also = f", and within ± {margin} of A" if is_alike else ""
    return f"B is shown to be not worse by more than {margin}{also}, {difference}{change}"


def _direction(verdict: str) -> str:
    return f"B is {verdict}" if verdict in (BETTER, WORSE) else f"it {verdict}"


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return "no difference is known"
    interval = "" if row["low"] is None else f" {bracket(row['low'], row['high'])}"
    return f"{signed(row['difference'] * 100, 1)} points{interval}"


def _list_groups(rows: pl.DataFrame, compared: ComparisonResult, form: str) -> str:
    """Groups with their differences, the largest first. `form`: how a difference stands behind its group."""
    groups = []
    for row in rows.sort(pl.col("difference").abs(), descending=True).iter_rows(named=True):
        label = compared.protocol.groups.labels(row["dimension"]).get(row["group"], row["group"])
        groups.append(f"perceived {label} {form.format(_difference(row))}")
    more = [f"{len(groups) - MAX_GROUPS} more"] if len(groups) > MAX_GROUPS else []
    return listed([*groups[:MAX_GROUPS], *more])


# Person after person


def _sequences(compared: ComparisonResult) -> Iterator[str]:
    for sequence in compared.watched:
        yield _sequence(sequence, compared)
    if len(compared.watched) > 1:
        yield f"The {len(compared.watched)} confidence sequences hold together; each alone would be narrower."


def _sequence(sequence: Watched, compared: ComparisonResult) -> str:
    row = sequence.last()
    what = f"Person after person, {lowered(labels(compared)[sequence.outcome])}"
    result = f"after {plural(row['persons'], 'persons')} {_difference(row)}, bounds that hold at every look"
    if sequence.after is None:
        return f"{what}: not decided; {result}.{_expected_people(sequence, compared)}"
    margin = points(sequence.margin)
    texts = {NO_WORSE: f"B is not worse by more than {margin}", WITHIN: f"within ± {margin}"}
    first, last = (texts.get(verdict) or _direction(verdict) for verdict in (sequence.first, sequence.verdict))
    decided = "decided" if compared.driven is not None else "would have been decided"
    change = f", by which {last}" if last != first else ""
    return f"{what}: {decided} after {plural(sequence.after, 'persons')}: {first}; {result}{change}."


def _expected_people(sequence: Watched, compared: ComparisonResult) -> str:
    if not sequence.bounds.persons:
        return ""
    if sequence.expected is None:
        return f" Were further persons like these, {count(FARTHEST)} would not be enough."
    driven, calls = compared.driven, ""
    if driven is not None and driven.steps and driven.steps[-1].persons:
        calls_per_person = driven.calls / driven.steps[-1].persons
        calls = f" and {count(round(calls_per_person * sequence.expected))} calls"
    people = f"about {count(sequence.expected)} persons{calls}"
    return f" Were further persons like these, {people} would be needed in all."


def _stop_reason(compared: ComparisonResult, driven: SequentialRun) -> Iterator[str]:
    n_people = driven.steps[-1].persons if driven.steps else 0
    progress = f"{count(driven.calls)} of {plural(driven.budget, 'calls')}, "
    progress += f"{count(n_people)} of {plural(driven.persons, 'persons')}"
    if driven.next_calls:
        yield f"Stopped by the budget: {progress}; the next step would take {plural(driven.next_calls, 'calls')}."
    elif compared.watched and all(sequence.after is not None for sequence in compared.watched):
        yield f"Stopped because it is decided: {progress}."
    else:
        yield f"Every person was looked at: {progress}."
    yield "Claims rest on the confidence sequence: where work stops by what is seen, other intervals do not hold."
