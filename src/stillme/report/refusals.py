"""Sentences about refusals. As elsewhere, a difference is claimed only where its corrected p is small enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stillme.analysis.findings import Findings
from stillme.analysis.refusals import STAGES
from stillme.report.context import Context
from stillme.report.lookup import Row, rows
from stillme.report.numbers import INTERVAL, between, capital, count, known, listed, percent, plural, points
from stillme.report.sentences import NOT_SHOWN, SHOWN_BELOW

WAYS = dict(zip(STAGES, ("on the way in", "on the way out", "in the model’s own words"), strict=True))
FIRST = 2  # editors whose largest difference stands on the first screen; the others are counted


@dataclass(frozen=True)
class Claim:
    """A shown difference: the editor, its size, and what is said of it."""

    editor: str
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
    """Every difference that was shown, the largest first."""
    told = [*_between_groups(findings, context), *_within_categories(findings, context)]
    return sorted(told, key=lambda claim: -claim.size)


def _between_groups(findings: Findings, context: Context) -> Iterator[Claim]:
    for row in rows(findings.refusals.by_group):
        if _is_shown(row) and not _is_mirror(row, context):
            yield _of_reference(row, context) if _is_reference(row, context) else _of_group(row, context)


def _of_group(row: Row, context: Context) -> Claim:
    return _claim(row, context, f"people perceived as {_label(row, context)}", "everyone else")


def _of_reference(row: Row, context: Context) -> Claim:
    """Told from the side of everyone else, as the contrasts are."""
    turned = {
        **row,
        "mean": row["others_mean"],
        "others_mean": row["mean"],
        "persons": row["others_persons"],
        "others_persons": row["persons"],
        "difference": -row["difference"],
        "difference_low": -row["difference_high"],
        "difference_high": -row["difference_low"],
    }
    return _claim(turned, context, *_sides(context))


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


def _claim(row: Row, context: Context, who: str, others: str, where: str = "") -> Claim:
    name = context.editor(row["editor"]).name
    way = "more" if row["difference"] > 0 else "less"
    rates = f"{percent(row['mean'])} against {percent(row['others_mean'])}"
    size = f"{points(abs(row['difference']))} percentage points{_interval(row)}"
    text = f"{name} refused {who} {way} often than {others}{where}: {rates}, a difference of {size}."
    return Claim(row["editor"], abs(row["difference"]), text)


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
            yield _claim({**row, **sides, **persons}, context, *_sides(context), where)


def named(category: str) -> str:
    return category.replace("_", " ")


def on_the_first_screen(findings: Findings, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The largest shown difference of an editor or two, and the rest: what to know without scrolling."""
    told = claims(findings, context)
    largest = list({claim.editor: claim.text for claim in reversed(told)}.values())[::-1][:FIRST]
    more = f" {count(len(told) - len(largest))} more under Refusals." if len(told) > len(largest) else ""
    none = f" {capital(NOT_SHOWN)}." if findings.refusals.refused and not told else ""
    return tuple(largest), (f"{overall(findings)}{none}{more}",)
