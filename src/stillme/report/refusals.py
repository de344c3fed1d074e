"""Sentences about refusals, of editors and of judges. A difference is claimed where its corrected p is small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stillme.analysis.numbers import INTERVAL, between, capital, count, known, listed, percent, plural, points
from stillme.report.context import Context
from stillme.report.lookup import Row, rows
from stillme.report.sentences import NOT_SHOWN, SHOWN_BELOW
from stillme.stats.findings import Findings
from stillme.stats.refusals import STAGES

WAYS = dict(zip(STAGES, ("on the way in", "on the way out", "in the model’s own words"), strict=True))
FIRST = 2  # editors whose largest difference stands on the first screen; the others are counted


@dataclass(frozen=True)
class Claim:
    """A shown difference: whose, its size, and what is said of it."""

    id: str
    size: float
    text: str


def overall(findings: Findings) -> str:
    """How many were refused, and where; in one line, with the denominator."""
    found = findings.refusals
    failed = int(found.by_editor["failed"].sum())
    beside = f" {plural(failed, 'edits')} failed, which is no refusal." if failed else ""
    if not found.decided:
        return f"No editor has answered or refused yet, so nothing is known about refusals.{beside}"
    if not found.refused:
        return f"No edit was refused: all {count(found.decided)} that were decided gave a picture.{beside}"
    share = percent(found.refused / found.decided)
    return (
        f"{count(found.refused)} of {count(found.decided)} edits ({share}) were refused{_ways(findings)}.{beside}"
    )


def _ways(findings: Findings) -> str:
    counts = {stage: int(findings.refusals.by_editor[stage].sum()) for stage in STAGES}
    return f": {listed([f'{count(number)} {WAYS[stage]}' for stage, number in counts.items() if number])}"


def claims(findings: Findings, context: Context) -> list[Claim]:
    """Every difference of an editor that was shown, the largest first."""
    told = [*_between_groups(findings, context), *_within_categories(findings, context)]
    return sorted(told, key=lambda claim: -claim.size)


def judges_claims(findings: Findings, context: Context) -> list[Claim]:
    """Every difference of a judge that was shown, the largest first."""
    if findings.judging is None:
        return []
    names = {party.id: party.name for party in context.judges}
    told = [
        _claim(row, row["judge"], f"{names[row['judge']]} refused to judge edits of", who, others)
        for row, who, others in _shown_groups(findings.judging.refusals, context)
    ]
    return sorted(told, key=lambda claim: -claim.size)


def _between_groups(findings: Findings, context: Context) -> Iterator[Claim]:
    for row, who, others in _shown_groups(findings.refusals.by_group, context):
        yield _claim(row, row["editor"], _editor_refused(row, context), who, others)


def _editor_refused(row: Row, context: Context) -> str:
    return f"{context.editor(row['editor']).name} refused"


def _shown_groups(frame: pl.DataFrame, context: Context) -> Iterator[tuple[Row, str, str]]:
    """Shown differences with both sides in words."""
    for row in rows(frame):
        if not _is_shown(row) or _is_mirror(row, context):
            continue
        if _is_reference(row, context):
            yield _from_others(row), *_sides(context)
        else:
            yield row, f"people perceived as {_label(row, context)}", "everyone else"


def _from_others(row: Row) -> Row:
    """Told from the side of everyone else, as the contrasts are."""
    return {
        **row,
        "mean": row["others_mean"],
        "others_mean": row["mean"],
        "persons": row["others_persons"],
        "others_persons": row["persons"],
        "difference": -row["difference"],
        "difference_low": -row["difference_high"],
        "difference_high": -row["difference_low"],
    }


def _is_reference(row: Row, context: Context) -> bool:
    return bool(context.protocol.groups.reference_group.get(row["dimension"]) == row["group"])


def _sides(context: Context) -> tuple[str, str]:
    _, reference = context.contrasted
    return f"people perceived as other than {reference}", f"people perceived as {reference}"


def _is_shown(row: Row) -> bool:
    return known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW


def _is_mirror(row: Row, context: Context) -> bool:
    """Of two groups, the one that is refused less: the other one's sentence says it all."""
    return len(context.protocol.groups.dimensions[row["dimension"]]) == 2 and row["difference"] < 0


def _label(row: Row, context: Context) -> str:
    return context.protocol.groups.labels(row["dimension"])[row["group"]]


def _claim(row: Row, id: str, refused: str, who: str, others: str, where: str = "") -> Claim:
    """`refused`: who refused what, in words."""
    way = "more" if row["difference"] > 0 else "less"
    rates = f"{percent(row['mean'])} against {percent(row['others_mean'])}"
    size = f"{points(abs(row['difference']))} percentage points{_interval(row)}"
    text = f"{refused} {who} {way} often than {others}{where}: {rates}, a difference of {size}."
    return Claim(id, abs(row["difference"]), text)


def _interval(row: Row) -> str:
    persons = f"{count(row['persons'])} and {plural(row['others_persons'], 'persons')}"
    low, high = row["difference_low"], row["difference_high"]
    if low == high:
        return f" ({persons})"
    ends = (low, high) if row["difference"] > 0 else (-high, -low)
    return f" ({INTERVAL} {between(*ends)}; {persons})"


def _within_categories(findings: Findings, context: Context) -> Iterator[Claim]:
    for row in rows(findings.refusals.by_category):
        if _is_shown(row):
            sides = {"mean": row["others_rate"], "others_mean": row["reference_rate"]}
            persons = {"persons": row["others_persons"], "others_persons": row["reference_persons"]}
            where = f" in {named(row['category'])} prompts"
            refused = _editor_refused(row, context)
            yield _claim({**row, **sides, **persons}, row["editor"], refused, *_sides(context), where)


def named(category: str) -> str:
    return category.replace("_", " ")


def on_the_first_screen(findings: Findings, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The largest shown difference of an editor or two and of a judge, and the rest: to know without scrolling."""
    told = claims(findings, context)
    largest = list({claim.id: claim.text for claim in reversed(told)}.values())[::-1][:FIRST]
    more = f" {count(len(told) - len(largest))} more under Refusals." if len(told) > len(largest) else ""
    none = f" {capital(NOT_SHOWN)}." if findings.refusals.refused and not told else ""
    of_judges = [claim.text for claim in judges_claims(findings, context)[:1]]
    return (*largest, *of_judges), (f"{overall(findings)}{none}{more}",)
