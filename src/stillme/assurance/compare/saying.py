"""What a comparison says, in sentences made from its numbers: only about endpoints, only where a gate is passed.

That no difference was found is never said to be none: alike is only what two one-sided tests put within a margin.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import polars as pl

from stillme.analysis.numbers import bracket, count, listed, lowered, p_value, plural, signed
from stillme.analysis.tables.tables import Row, text
from stillme.assurance.compare.compared import Compared
from stillme.assurance.compare.tables import labels, points, tables
from stillme.stats.equivalence import SIZE
from stillme.stats.versions import BETTER, DOWN, FARTHEST, NO_WORSE, RATE, UNDECIDED, UP, WITHIN, WORSE, Watched

WIDTH = 100
MOST = 5  # groups in a sentence


def words(compared: Compared) -> str:
    """For a terminal: what was compared, the tables that are needed first, what may be said."""
    lines = list[str]()
    for sentence in _scope(compared):
        lines += textwrap.wrap(sentence, WIDTH)
    for table in (table.briefly() for table in tables(compared) if table.first):
        lines += ["", table.title, text(table)]
    lines += [""]
    for sentence in sentences(compared)[len(list(_scope(compared))) :]:
        lines += textwrap.wrap(f"- {sentence}", WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def sentences(compared: Compared) -> list[str]:
    made = (_scope, _left_out, _noted, _watching, _stopped, _endpoints, _groups, _uneven)
    return [said for make in made for said in make(compared)]


def plain(compared: Compared) -> dict[str, Any]:
    """For scripts: what was compared, what may be said, every table row by row."""
    found, driven = compared.found, compared.driven
    return {
        **{
            side.name.lower(): {"path": str(side.path), "editor": side.editor} for side in (compared.a, compared.b)
        },
        "difference": "B - A",
        "protocol_hash": compared.protocol.hash,
        "preset": compared.a.terms.preset,
        "anyway": list(compared.apart),
        "experiment": compared.about[0],
        "arm": compared.about[1],
        "margin": found.margin,
        "endpoints": list(found.endpoints),
        "shared": asdict(compared.shared),
        "budget": None if driven is None else {"calls": driven.calls, "of": driven.budget, "next": driven.more},
        "sentences": sentences(compared),
        "tables": {table.id: table.frame.to_dicts() for table in tables(compared)},
    }


# What was compared


def _scope(compared: Compared) -> Iterator[str]:
    a, b, shared = compared.a, compared.b, compared.shared
    if compared.apart:
        told = " ".join(compared.apart)
        yield f"Compared anyway (--anyway), by A's thresholds, although the two are not comparable. {told}"
    yield f"A: {a.editor} ({a.path}). B: {b.editor} ({b.path}). Differences are B − A."
    whom = f"{plural(shared.persons, 'persons')} and {plural(shared.prompts, 'prompts')}"
    matched = f"the same by {compared.by}"
    yield f"Both have {whom}, {matched}: {plural(shared.pairs, 'pairs')} of edits with scores in both."


def _left_out(compared: Compared) -> Iterator[str]:
    shared = compared.shared
    only = {
        "persons only in A": shared.persons_a,
        "persons only in B": shared.persons_b,
        "prompts only in A": shared.prompts_a,
        "prompts only in B": shared.prompts_b,
        "pairs without a score in A or in B": shared.unjudged,
        "persons without any such pair": shared.persons_unjudged,
    }
    told = [_counted(number, what) for what, number in only.items() if number]
    if told:
        yield f"Left out: {listed(told)}."
    if shared.p_unjudged is not None and shared.p_unjudged < SIZE:
        counts = f"{plural(shared.pairs_a, 'pairs')} have one in A alone, {count(shared.pairs_b)} in B alone"
        p = p_value(shared.p_unjudged)
        yield f"Scores are not missing alike ({counts}, p {p}): what was refused or failed is in no difference."
    if shared.relabelled:
        yield f"{_counted(shared.relabelled, 'persons')} perceived otherwise in A than in B: in no group."


def _counted(number: int, what: str) -> str:
    noun, _, rest = what.partition(" ")
    return f"{plural(number, noun)} {rest}".strip()


def _noted(compared: Compared) -> Iterator[str]:
    yield from compared.notes
    yield from (f"{side.name}: {note}" for side in (compared.a, compared.b) for note in side.notes)


# The endpoints


def _endpoints(compared: Compared) -> Iterator[str]:
    if compared.driven is not None:
        return
    if not compared.found.endpoints:
        yield "The protocol declares no endpoints (analysis.yaml), so nothing is claimed: name one with --outcome."
    for row in compared.found.outcomes.filter("endpoint").iter_rows(named=True):
        yield _endpoint(row, compared)


def _endpoint(row: Row, compared: Compared) -> str:
    what, margin = labels(compared)[row["outcome"]], points(compared.found.margin)
    seen, shown = _difference(row), row["p_holm"] is not None and row["p_holm"] < SIZE
    if row["verdict"] == UNDECIDED:
        why = f" ({row['why']})" if row["why"] else ""
        return f"{what}: not decided, {seen}{why}; neither a difference nor its absence is shown."
    if row["verdict"] in (BETTER, WORSE, UP, DOWN):
        moved = f"{_which(row['verdict'])}{_towards(row, compared)}"
        return f"{what}: {moved}, {seen}, corrected p {p_value(row['p_holm'])}."
    if row["verdict"] == WITHIN:
        return f"{what}: shown to be within ± {margin} of A, {seen}{_though(row, shown)}."
    also = f", and within ± {margin} of A" if _is_alike(row) else ""
    return f"{what}: B is shown to be not worse by more than {margin}{also}, {seen}{_though(row, shown)}."


def _is_alike(row: Row) -> bool:
    return row["p_alike_holm"] is not None and row["p_alike_holm"] < SIZE


def _though(row: Row, shown: bool) -> str:
    """Small is not none."""
    return f"; it did change, corrected p {p_value(row['p_holm'])}" if shown else ""


def _which(verdict: str) -> str:
    return f"B is {verdict}" if verdict in (BETTER, WORSE) else f"it {verdict}"


def _towards(row: Row, compared: Compared) -> str:
    """Which end of its scale a direction moved to, in the rubric's words."""
    if row["verdict"] not in (UP, DOWN):
        return ""
    scale = compared.protocol.axes[row["outcome"]].scale
    return f", towards “{scale[(max if row['verdict'] == UP else min)(scale)].split(' (')[0]}”"


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return "no difference is known"
    ends = "" if row["low"] is None else f" {bracket(row['low'], row['high'])}"
    return f"{signed(row['difference'] * 100, 1)} points{ends}"


# For whom?


def _groups(compared: Compared) -> Iterator[str]:
    """Did it get worse for somebody? The largest difference first."""
    if compared.driven is not None or not compared.found.endpoints:
        return
    frame = compared.found.groups
    for (outcome, verdict), some in frame.drop_nulls("verdict").group_by(
        "outcome", "verdict", maintain_order=True
    ):
        rows = some.sort(pl.col("difference").abs(), descending=True).iter_rows(named=True)
        told = [f"{_group(row, compared)} ({_difference(row)})" for row in rows]
        yield f"{labels(compared)[str(outcome)]}: {verdict} for {_few(told)}."
    rates = frame.filter(pl.col("endpoint") & (pl.col("kind") == RATE))
    if rates.height and WORSE not in set(rates["verdict"]):
        yield "For no group is it shown to be worse, which is no evidence that it is so for none."


def _few(told: list[str]) -> str:
    kept = told[:MOST] + ([f"{len(told) - MOST} more"] if len(told) > MOST else [])
    return listed(kept)


def _group(row: Row, compared: Compared) -> str:
    names = compared.protocol.groups.labels(row["dimension"])
    return f"perceived {names.get(row['group'], row['group'])}"


def _uneven(compared: Compared) -> Iterator[str]:
    """Did it change more for a group than for the reference group?"""
    if compared.driven is not None:
        return
    shown = compared.found.uneven.filter(pl.col("p_holm") < SIZE)
    for (outcome, dimension, reference), some in shown.group_by(
        "outcome", "dimension", "reference", maintain_order=True
    ):
        names = compared.protocol.groups.labels(str(dimension))
        rows = some.sort(pl.col("difference").abs(), descending=True).iter_rows(named=True)
        told = [f"{_group(row, compared)} (by {_difference(row)})" for row in rows]
        whom = f"that of perceived {names[str(reference)]}"
        yield f"{labels(compared)[str(outcome)]}: B − A differs from {whom} for {_few(told)}."


# Person after person


def _watching(compared: Compared) -> Iterator[str]:
    for one in compared.watched:
        yield _watched(one, compared)
    if len(compared.watched) > 1:
        yield f"The {len(compared.watched)} confidence sequences hold together; each alone would be narrower."


def _watched(one: Watched, compared: Compared) -> str:
    row = one.last()
    what = f"Person after person, {lowered(labels(compared)[one.outcome])}"
    looked = f"after {plural(row['persons'], 'persons')} {_difference(row)}, bounds that hold at every look"
    if one.after is None:
        return f"{what}: not decided; {looked}.{_expected(one, compared)}"
    told = {
        NO_WORSE: f"B is not worse by more than {points(one.margin)}",
        WITHIN: f"within ± {points(one.margin)}",
    }
    first, last = (told.get(verdict) or _which(verdict) for verdict in (one.first, one.verdict))
    would = "decided" if compared.driven is not None else "would have been decided"
    now = f", by which {last}" if last != first else ""
    return f"{what}: {would} after {plural(one.after, 'persons')}: {first}; {looked}{now}."


def _expected(one: Watched, compared: Compared) -> str:
    driven = compared.driven
    if not one.bounds.persons:
        return ""
    if one.expected is None:
        return f" Were further persons like these, {count(FARTHEST)} would not be enough."
    calls = ""
    if driven is not None and driven.steps and driven.steps[-1].persons:
        each = driven.calls / driven.steps[-1].persons
        calls = f" and {count(round(each * one.expected))} calls"
    return f" Were further persons like these, about {count(one.expected)} persons{calls} would be needed in all."


def _stopped(compared: Compared) -> Iterator[str]:
    driven = compared.driven
    if driven is None:
        return
    seen = driven.steps[-1].persons if driven.steps else 0
    made = f"{count(driven.calls)} of {plural(driven.budget, 'calls')}, "
    made += f"{count(seen)} of {plural(driven.persons, 'persons')}"
    if driven.more:
        yield f"Stopped by the budget: {made}; the next step would take {plural(driven.more, 'calls')}."
    elif compared.watched and all(one.after is not None for one in compared.watched):
        yield f"Stopped because it is decided: {made}."
    else:
        yield f"Every person was looked at: {made}."
    yield "Claims rest on the confidence sequence: where work stops by what is seen, other intervals do not hold."
