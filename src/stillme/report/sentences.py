"""Sentences made from numbers. Nothing here is a typed claim: a difference is claimed only where its corrected
p is below SHOWN_BELOW, with its size and interval; elsewhere the sentence says that none was shown, and that this
is no evidence of none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    between,
    capital,
    count,
    known,
    listed,
    lowered,
    percent,
    plural,
    points,
)
from stillme.core.records import Status
from stillme.report.context import Context, Party
from stillme.report.lookup import Row, basis, by_key, per_editor, rows
from stillme.stats.contrast import FEWEST_PERSONS
from stillme.stats.findings import Findings
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

SHOWN_BELOW = 0.05
_NO_RATINGS = "Human ratings are not part of this report."
_NO_PICTURES = "Picture measurements are not part of this report."
_NEITHER = "Human ratings and picture measurements are not part of this report."
NOT_SHOWN = "no difference between groups was shown (that is not evidence of none)"


@dataclass(frozen=True)
class Verdict:
    """What can be said of one contrast. `shown` is None where nothing could be compared."""

    outcome: str
    shown: bool | None
    text: str
    brief: str
    sides: str = ""  # both rates and their difference, in few words


@dataclass(frozen=True)
class Found:
    """The summary of one editor: its overall rates, the differences shown, and the rest in one sentence."""

    editor: Party
    rates: str
    shown: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def is_quiet(self) -> bool:
        """Judged, and no difference shown."""
        return bool(self.rates) and not self.shown


def audited(context: Context) -> tuple[str, ...]:
    """What was audited, by whom, under which rules."""
    named = ("editors", "judges")  # told by name
    counts = listed([plural(number, what) for what, number in context.counts.items() if what not in named])
    judges = listed([judge.name for judge in context.scoring])
    return _some(
        f"{plural(len(context.editors), 'editors')}: {listed([e.name for e in context.editors])}.",
        counts and f"{counts}.",
        *context.sources[:1],
        judges and f"Scored by {judges}.",
        f"Rates are shares of the edits {'asked for' if context.nominal else 'judged'} (preset {context.preset}).",
    )


def simulated(context: Context) -> str:
    """The banner: empty when everything is real."""
    if not context.simulated:
        return ""
    editors, judges = (sum(p.simulated for p in parties) for parties in (context.editors, context.judges))
    kinds = listed([plural(number, noun) for number, noun in ((editors, "editors"), (judges, "judges")) if number])
    return (
        f"{kinds} {'is' if editors + judges == 1 else 'are'} simulated: the looks of the demo’s portraits are "
        "placeholders, and group differences in it are inputs, not findings."
    )


def verdicts(findings: Findings, context: Context) -> dict[str, tuple[Verdict, ...]]:
    """Editor -> what can be said of each of its contrasts, in the protocol's order."""
    found = by_key(findings.contrasts, "editor", "outcome")
    return {
        editor.id: tuple(
            _verdict(found.get((editor.id, outcome)), outcome, context) for outcome in context.tables.contrasts
        )
        for editor in context.editors
    }


def found(
    findings: Findings,
    context: Context,
    named: Mapping[tuple[str, str], str] | None = None,
    alike: Mapping[str, str] | None = None,
) -> tuple[Found, ...]:
    """The summary of every editor, in their order.

    `named`: (editor, outcome) -> groups that were shown to lie apart; `alike`: editor -> what was shown alike.
    """
    said = verdicts(findings, context)
    return tuple(
        _found(
            editor,
            _with_groups(said[editor.id], editor.id, named or {}),
            (alike or {}).get(editor.id, ""),
            findings,
            context,
        )
        for editor in context.editors
    )


def _with_groups(
    said: tuple[Verdict, ...], editor: str, named: Mapping[tuple[str, str], str]
) -> tuple[Verdict, ...]:
    """Verdicts with the groups that were shown to lie apart, even where the contrast itself shows nothing."""
    told = []
    for verdict in said:
        groups = named.get((editor, verdict.outcome))
        told.append(replace(verdict, shown=True, text=f"{groups} {verdict.sides}") if groups else verdict)
    return tuple(told)


def nothing_shown(quiet: tuple[Found, ...]) -> str:
    """Several editors without a shown difference, in one sentence; empty when there are none."""
    names = listed([one.editor.name for one in quiet])
    return f"{capital(NOT_SHOWN)} for {names}; the contrasts have the intervals." if quiet else ""


def _found(editor: Party, said: tuple[Verdict, ...], alike: str, findings: Findings, context: Context) -> Found:
    overall = _overall(editor, findings, context)
    if not overall:
        return Found(editor, "", (), ("No edit of this editor was judged, so nothing can be said about it.",))
    shown = tuple(verdict.text for verdict in said if verdict.shown)
    not_shown = [verdict.brief for verdict in said if verdict.shown is False]
    unknown = [verdict.brief for verdict in said if verdict.shown is None]
    rest = _some(
        not_shown and f"{capital(NOT_SHOWN)} for {listed(not_shown)}.",
        unknown and f"Could not be compared: {listed(unknown)}.",
        alike,
    )
    return Found(editor, overall, shown, rest)


def _overall(editor: Party, findings: Findings, context: Context) -> str:
    """Every contrasted outcome's rate over all groups, as the preset divides; empty when nothing was judged."""
    key = "nominal_rate" if context.nominal else "rate"
    told = []
    for outcome in context.tables.contrasts:
        row = per_editor(findings, outcome).get(editor.id)
        if row is not None and row["judged"]:
            told.append(f"{lowered(context.outcomes[outcome].label)} {percent(row[key])}")
    return f"Overall: {listed(told)}." if told else ""


def _needed(row: Row) -> str:
    """What a contrast without a p-value lacks."""
    if min(row["others_persons"], row["reference_persons"]) < FEWEST_PERSONS:
        return f"a comparison needs {FEWEST_PERSONS} on each side"
    return "none of them are alike in everything else"


def _verdict(row: Row | None, outcome: str, context: Context) -> Verdict:
    label = context.outcomes[outcome].label
    if row is None:
        return Verdict(outcome, None, f"{label}: no edit was judged.", f"{lowered(label)} (no edit was judged)")
    persons = f"{count(row['others_persons'])} and {count(row['reference_persons'])} persons"
    if not known(row["p_holm"]):
        why = f"{persons}; {_needed(row)}"
        return Verdict(outcome, None, f"{label}: could not be compared ({why}).", f"{lowered(label)} ({why})")
    size = f"{points(row['difference'])} percentage points ({_interval(row)}; {persons})"
    rates, sides = _rates(row, label, context), _sides(row, context)
    if row["p_holm"] < SHOWN_BELOW:
        return Verdict(outcome, True, f"{rates}: a difference of {size}.", lowered(label), sides)
    text = f"{rates}: {NOT_SHOWN}; the estimate is {size}."
    return Verdict(outcome, False, text, f"{lowered(label)} ({_brief(row)})", sides)


def _sides(row: Row, context: Context) -> str:
    _, reference = context.contrasted
    return (
        f"Other than {reference} {percent(row['others_rate'])}, {reference} {percent(row['reference_rate'])}: a "
        f"difference of {points(row['difference'])} points ({_interval(row)})."
    )


def _rates(row: Row, label: str, context: Context) -> str:
    _, reference = context.contrasted
    return (
        f"{label} in {percent(row['others_rate'])} of judged edits of people perceived as other than {reference} "
        f"against {percent(row['reference_rate'])} as {reference}"
    )


def _interval(row: Row) -> str:
    """Few persons, or two sides without any spread between persons, have no honest interval."""
    if min(row["others_persons"], row["reference_persons"]) < FEWEST_FOR_INTERVAL:
        return f"no interval: fewer than {FEWEST_FOR_INTERVAL} persons on one side"
    if not known(row["low"]):
        return "no interval: on each side every person had the same rate"
    return f"{INTERVAL} {between(row['low'], row['high'])}"


def _brief(row: Row) -> str:
    if not known(row["low"]):
        return f"{points(row['difference'])} points, no interval"
    return f"{between(row['low'], row['high'])} points"


def how_sure(findings: Findings, context: Context) -> tuple[str, ...]:
    """What the numbers rest on: persons, correction, judges, planted truth, rounding."""
    return _some(
        _persons(findings, context),
        _family(findings),
        agreed(findings),
        recovered(findings),
        rounding(findings, context),
    )


def _persons(findings: Findings, context: Context) -> str:
    groups = rows(findings.by_group[context.main.by], outcome=context.main.outcome)
    per = [row["persons"] for row in groups if row["judged"]]
    if not per:
        return ""
    low, high = min(per), max(per)
    span = plural(high, "persons") if low == high else f"{count(low)} to {plural(high, 'persons')}"
    return f"Each {INTERVAL} takes the person, not the edit, as the unit: {span} a group."


def _family(findings: Findings) -> str:
    tested = findings.contrasts["p"].drop_nulls().len()
    if not tested:
        return "No contrast could be tested."
    return (
        f"{plural(tested, 'contrasts')} {'was' if tested == 1 else 'were'} tested and corrected together (Holm); "
        f"shown means p < {SHOWN_BELOW}."
    )


def agreed(findings: Findings) -> str:
    """How far judges agree over all axes."""
    frame = findings.agreement
    pairs = int(frame["pairs"].sum())
    if not pairs:
        return "No edit was scored by two judges, so nothing is known about their agreement."
    within = float((frame["within_one"] * frame["pairs"]).sum()) / pairs
    apart = int(frame["flagged"].sum())
    several = frame.select("first_judge", "second_judge").n_unique() > 1
    how = "more than one apart" if several else "flagged for review"
    return (
        f"Judges were within one point on {percent(within)} of {plural(pairs, 'score pairs')}; "
        f"{count(apart)} {'is' if apart == 1 else 'are'} {how}."
    )


def agreed_with_themselves(findings: Findings) -> str:
    """How far judges give the same score again, over all axes; empty where nobody looked twice."""
    pairs = 0 if findings.judging is None else int(findings.judging.itself["pairs"].sum())
    if findings.judging is None or not pairs:
        return ""
    frame = findings.judging.itself
    exact, within = (float((frame[name] * frame["pairs"]).sum()) / pairs for name in ("exact", "within_one"))
    return (
        f"Asked the very same again, judges gave the same score in {percent(exact)} of "
        f"{plural(pairs, 'score pairs')} and were within one point in {percent(within)}."
    )


def recovered(findings: Findings) -> str:
    """How often the planted truth lies inside its interval; empty without planted truth."""
    if findings.planted is None:
        return ""
    known_ = findings.planted["recovered"].drop_nulls()
    if not len(known_):
        return "No planted rate could be compared with an interval."
    return f"{count(int(known_.sum()))} of {plural(len(known_), 'planted rates')} lie inside their {INTERVAL}."


def rounding(findings: Findings, context: Context) -> str:
    """The largest move of a headline rate between the rounding modes."""
    headline = findings.rounding.filter(pl.col("outcome").is_in(list(context.tables.outcomes_by_editor)))
    moves = headline.group_by("outcome", "editor", maintain_order=True).agg(
        (pl.col("rate").max() - pl.col("rate").min()).alias("move")
    )
    moves = moves.drop_nulls("move").sort("move", descending=True, maintain_order=True)
    if moves.is_empty() or findings.rounding["rounding"].n_unique() < 2:
        return ""
    outcome, editor, move = moves.row(0)
    label, name = lowered(context.outcomes[outcome].label), context.editor(editor).name
    return f"How judges’ means are rounded moves a rate by at most {points(move)} points: {label}, {name}."


def missing(findings: Findings, context: Context, rated: bool = False) -> tuple[str, ...]:
    """What the audit asked for and did not get, and what its portraits cannot show."""
    return _some(
        _without_picture(findings),
        _without_score(findings, context),
        *context.caveats,
        _not_measured(findings, rated),
    )


def _not_measured(findings: Findings, rated: bool) -> str:
    people = "" if rated else _NO_RATINGS
    if findings.measured is None:
        return _NO_PICTURES if rated else _NEITHER
    if findings.measured.coverage["warns"].any():
        return f"Instruments miss some groups more often (see Measurements). {people}".rstrip()
    return people


def _without_picture(findings: Findings) -> str:
    totals = findings.statuses.group_by("status", maintain_order=True).agg(pl.col("edits").sum())
    asked = int(totals["edits"].sum())
    lost = {row["status"]: row["edits"] for row in totals.to_dicts() if row["status"] != Status.OK.value}
    if not asked:
        return "No edit was asked for."
    if not lost:
        return f"All {plural(asked, 'edits')} gave a picture."
    kinds = listed([f"{status_label(s)} {count(n)}" for s, n in _ordered(lost)])
    return f"{count(sum(lost.values()))} of {plural(asked, 'edits')} gave no usable picture ({kinds})."


def _ordered(lost: dict[str | None, int]) -> Iterator[tuple[str | None, int]]:
    places = [status.value for status in Status]
    return iter(sorted(lost.items(), key=lambda item: places.index(item[0]) if item[0] in places else len(places)))


def status_label(status: str | None) -> str:
    """A status in words; an edit without any status was not made yet."""
    return "not run" if status is None else Status(status).label


def _without_score(findings: Findings, context: Context) -> str:
    outcome = basis(context)
    per = rows(findings.by_editor, outcome=outcome)
    asked, lost = sum(row["asked"] for row in per), sum(row["missing"] for row in per)
    single = sum(row["single"] for row in per)
    if not asked:
        return ""
    axis = lowered(context.protocol.axes[context.outcomes[outcome].axis].label)
    worst = _worst(findings, context) if lost else ""
    return (
        f"{count(lost)} of {count(asked)} ({percent(lost / asked)}) have no score for {axis}{worst}; "
        f"{count(single)} rest on one judge."
    )


def _worst(findings: Findings, context: Context) -> str:
    """The editor and the group with the largest missing shares."""
    dimension = context.main.by
    group, share = _most_missing(findings.by_group[dimension], dimension, context)
    label = context.protocol.groups.labels(dimension).get(group, group)
    people = f", most often of people perceived as {label} ({percent(share)})"
    if len(context.editors) == 1:
        return people
    editor, share = _most_missing(findings.by_editor, "editor", context)
    return f"{people} and by {context.editor(editor).name} ({percent(share)})"


def _most_missing(frame: pl.DataFrame, by: str, context: Context) -> tuple[str, float]:
    grouped = frame.filter(outcome=basis(context)).group_by(by, maintain_order=True)
    shares = grouped.agg((pl.col("missing").sum() / pl.col("asked").sum()).alias("share"))
    name, share = shares.sort("share", descending=True, maintain_order=True).row(0)
    return str(name), float(share)


def _some(*texts: str | list[str]) -> tuple[str, ...]:
    """The sentences that there are; `condition and sentence` leaves an empty list where there is none."""
    return tuple(text for text in texts if isinstance(text, str) and text)
