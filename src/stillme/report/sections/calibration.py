"""Calibration of the judges: whether each passed, what it saw in pairs whose truth is known, and in whom."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    bracket,
    count,
    decimal,
    known,
    listed,
    percent,
    plural,
    signed,
    span,
)
from stillme.protocol.schema import Calibration as Rules
from stillme.report.blocks import Block, Fold, Notice, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.tables import (
    FEW_PERSONS,
    Cell,
    Column,
    Row,
    Table,
    absent,
    counted,
    mean,
    proportion,
    table,
    tally,
    value,
    words,
)
from stillme.stats.calibration import Calibration
from stillme.stats.gate import Ruled, Ruling

NOBODY = "The judges of this audit were not calibrated; `stillme calibrate` does that."
_UNREAD = "no pair was scored"
_ORDER = (Ruling.FAILED, Ruling.UNTOLD, Ruling.PASSED)


def build(found: Calibration | None, context: Context) -> Section:
    """Verdict first; where nobody was calibrated, a sentence that says so."""
    blocks = (prose(NOBODY),) if found is None else tuple(_blocks(found, context))
    return Section("calibration", "Calibration of the judges", "Calibration", blocks)


def said(found: Calibration | None, context: Context) -> tuple[str, ...]:
    """What stands on the first screen: a judge that failed, or that nobody looked."""
    if found is None:
        real = any(not party.simulated and not party.instrument for party in context.judges)
        return (f"Calibration: {NOBODY[0].lower()}{NOBODY[1:]}",) if real else ()
    failed = [judge for judge in found.judges if found.verdict(judge) is Ruling.FAILED]
    return tuple(f"Calibration: {_verdict(found, judge, context)}" for judge in failed)


def _blocks(found: Calibration, context: Context) -> Iterator[Block]:
    failed = [judge for judge in found.judges if found.verdict(judge) is Ruling.FAILED]
    if failed:
        yield _notice(found, failed, context)
    yield prose(_what(found, context))
    yield bullets([_verdict(found, judge, context) for judge in found.judges])
    yield _gate(found, context)
    yield Fold("By pair", "what judges scored beside what is right", (_by_kind(found, context),))
    yield Fold("By group", "the same for everybody?", (_by_group(found, context),))
    yield Fold("Gaps between groups", _gap_hint(found), (_gaps(found, context),))
    yield Fold("What disclosure does", "score with everything told minus less", (_disclosure(found, context),))
    yield Fold("Agreement of each judge with itself", "second looks", (_retest(found, context),))


def _names(context: Context) -> dict[str, str]:
    return {party.id: party.name for party in context.judges}


def _axes(context: Context) -> dict[str, str]:
    return {id: axis.label for id, axis in context.protocol.axes.items()}


def _rules(context: Context) -> Rules:
    assert context.protocol.calibration is not None  # somebody was calibrated by them
    return context.protocol.calibration


# The verdict


def _notice(found: Calibration, failed: list[str], context: Context) -> Notice:
    names = listed([_names(context).get(judge, judge) for judge in failed])
    return Notice(
        f"{names} did not pass the calibration",
        ("What this report says by their scores may be their own error.", *_failures(found, failed)),
    )


def _failures(found: Calibration, failed: list[str]) -> Iterator[str]:
    own = [one for one in found.rulings if one.judge in failed and one.ruling is Ruling.FAILED]
    yield from dict.fromkeys(one.said for one in own)


def _what(found: Calibration, context: Context) -> str:
    people = found.kinds["persons"].max()
    pairs = len(_rules(context).kinds)
    return (
        "Before their scores are trusted, judges look at pairs of pictures of which it is known what changed: "
        f"{plural(pairs, 'kinds')} of pairs, made from the portraits of {plural(_whole(people), 'persons')} of "
        "this audit, shown like any edit. A judge fails a rule when the whole interval, over persons, lies beyond "
        "its threshold; an estimate alone fails nobody."
    )


def _whole(number: object) -> int:
    return int(number) if isinstance(number, int | float) else 0


def _verdict(found: Calibration, judge: str, context: Context) -> str:
    ruling, name = found.verdict(judge), _names(context).get(judge, judge)
    said = {Ruling.PASSED: "passed", Ruling.FAILED: "failed", Ruling.UNTOLD: "cannot be told: not enough pairs"}
    own = [one for one in found.rulings if one.judge == judge]
    told = [one.said for one in own if one.rule == GROUP_GAP] if ruling is Ruling.PASSED else found.reasons(judge)
    lost = found.missing.filter((pl.col("judge") == judge) & (pl.col("status") != "ok"))["looks"].sum()
    missing = f" {plural(_whole(lost), 'looks')} gave no score." if lost else ""
    return f"{name}: {said[ruling]}. {' '.join(told)}{missing}{_spent(found, judge)}"


GROUP_GAP = "Group gap"


def _spent(found: Calibration, judge: str) -> str:
    for attempts, cost in found.took.filter(judge=judge).select("attempts", "cost_usd").iter_rows():
        return f" {plural(attempts, 'calls')}, {cost:.2f} USD."
    return ""


def _gate(found: Calibration, context: Context) -> Table:
    """Every rule with its threshold, the failed ones first."""
    names, order = _names(context), {ruling: place for place, ruling in enumerate(_ORDER)}
    ruled = sorted(found.rulings, key=lambda one: (found.judges.index(one.judge), order[one.ruling]))
    rows = [_ruled(one) for one in ruled]
    columns = [
        words("Judge", "judge", names),
        words("Rule", "rule"),
        words("About", "about"),
        Column("Estimate", _estimate, note=INTERVAL),
        Column("Threshold", _threshold),
        tally("Persons", "persons"),
        words("Says", "ruling", {one.value: one.value for one in _ORDER}),
    ]
    gap = _rules(context).gate.gap
    notes = (
        "Group gap: points between a group and everybody else on pairs without a change; its interval holds for "
        f"all groups, axes and kinds together ({gap.sure:.0%} sure), by drawing the groups anew. It fails where "
        f"that interval leaves out 0 and the gap is wider than {gap.most:g} points; it cannot be told where not "
        f"even {gap.tells:g} would be found. Every other rule is about shares of pairs or mean points, with "
        f"{INTERVAL}s over persons.",
    )
    numbers = pl.DataFrame(rows, infer_schema_length=None)
    return table("calibration-gate", "The gate, rule by rule", rows, columns, numbers, notes=notes, dense=True)


def _ruled(one: Ruled) -> dict[str, object]:
    told = {
        name: getattr(one, name) for name in ("judge", "rule", "about", "estimate", "low", "high", "threshold")
    }
    return {**told, "persons": one.persons, "group": one.group or "", "ruling": one.ruling.value}


def _in_points(row: Row) -> bool:
    return row["rule"] in (GROUP_GAP, "Bias")


def _estimate(row: Row) -> Cell:
    if not known(row["estimate"]):
        return absent("not enough pairs")
    if _in_points(row):
        return Cell(signed(row["estimate"]), row["estimate"], (span(row["low"], row["high"]),))
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else FEW_PERSONS
    return Cell(percent(row["estimate"]), row["estimate"], (spread,))


def _threshold(row: Row) -> Cell:
    limit = row["threshold"]
    said = f"at most ±{decimal(limit, 2)}" if _in_points(row) else f"at least {percent(limit)}"
    return Cell(said, limit)


# The tables


def _by_kind(found: Calibration, context: Context) -> Table:
    """judge × kind × axis: mean score beside the truth."""
    kinds = {kind.id: kind.label for kind in _rules(context).kinds}
    rows = found.kinds.to_dicts()
    columns = [
        words("Judge", "judge", _names(context)),
        words("Pair", "kind", kinds),
        words("Axis", "axis", _axes(context)),
        Column("Right", _right),
        value("Mean score", "score", _UNREAD),
        mean("Off the truth", lambda row: row, note=INTERVAL),
        proportion("Scored right", "right", "read", _UNREAD, "looks"),
    ]
    notes = ("Right: the scores that are right for the pair. Off the truth: mean score minus the true score.",)
    return table(
        "calibration-kinds", "What judges scored, by pair", rows, columns, found.kinds, notes=notes, dense=True
    )


def _right(row: Row) -> Cell:
    low, high = row["lowest"], row["highest"]
    return Cell(count(low) if low == high else f"{low} to {high}", row["expected"])


def _by_group(found: Calibration, context: Context) -> Table:
    """judge × group: unchanged pairs scored neutral, largest shift seen, bias; on the axes that say so."""
    labels = context.protocol.groups.labels(found.dimension)
    frame = _grouped(found)
    rows = [row for row in frame.to_dicts() if row["group"] in labels]
    columns = [
        words("Judge", "judge", _names(context)),
        words(f"Perceived {found.dimension}", "group", labels),
        words("Axis", "axis", _axes(context)),
        counted("Unchanged, scored neutral", _rated, "hits", "read", note=INTERVAL, why=_UNREAD),
        mean("Bias where nothing changed", lambda row: row, note=INTERVAL),
        Column("Largest shift seen", _shift),
    ]
    title = f"What judges saw, by perceived {found.dimension}"
    return table("calibration-groups", title, rows, columns, frame, dense=True)


def _grouped(found: Calibration) -> pl.DataFrame:
    """One row a judge, group and axis."""
    keys = ["judge", "group", "axis"]
    neutral = found.specificity.select(
        *keys, "hits", "rate", pl.col("low").alias("rate_low"), pl.col("high").alias("rate_high")
    )
    bias = found.bias.select(*keys, "asked", "read", "persons", "mean", "low", "high")
    largest = found.sensitivity.filter(pl.col("size") == pl.col("size").max())
    seen = largest.select(*keys, "size", seen="hits", of="read", share="rate")
    joined = neutral.join(bias, on=keys, validate="1:1", maintain_order="left")
    return joined.join(seen, on=keys, how="left", maintain_order="left").filter(pl.col("group").is_not_null())


def _rated(row: Row) -> Row:
    return {**row, "low": row["rate_low"], "high": row["rate_high"]}


def _shift(row: Row) -> Cell:
    if not known(row["share"]):
        return absent("no shift on this axis")
    return Cell(percent(row["share"]), row["share"], (f"{row['seen']}/{row['of']} of {row['size']:g} L*",))


def _gap_hint(found: Calibration) -> str:
    wide = [one for one in found.rulings if one.rule == GROUP_GAP and one.ruling is Ruling.FAILED]
    return f"{plural(len(wide), 'gaps')} too wide" if wide else "none too wide"


def _gaps(found: Calibration, context: Context) -> Table:
    labels = context.protocol.groups.labels(found.dimension)
    rows = found.gaps.sort(pl.col("gap").abs(), descending=True, nulls_last=True).head(60).to_dicts()
    columns = [
        words("Judge", "judge", _names(context)),
        words("Pairs", "pool"),
        words("Axis", "axis", _axes(context)),
        words(f"Perceived {found.dimension}", "group", labels),
        Column("Gap", _gap, note="points"),
        value("p", "p", "everybody was scored alike", digits=3),
        tally("Persons", "persons"),
    ]
    notes = (
        "The 60 widest; all are behind the link. p: corrected for all groups, axes and kinds of a judge (max-T).",
    )
    title = "Group minus everybody else, on pairs without a change"
    return table("calibration-gaps", title, rows, columns, found.gaps, notes=notes, dense=True)


def _gap(row: Row) -> Cell:
    if not known(row["gap"]):
        return absent("not enough pairs")
    return Cell(signed(row["gap"]), row["gap"], (span(row["low"], row["high"]),))


def _disclosure(found: Calibration, context: Context) -> Table:
    everybody = {"": "Everybody", **context.protocol.groups.labels(found.dimension)}
    rows = [{**row, "group": row["group"] or ""} for row in found.disclosure.to_dicts()]
    columns = [
        words("Judge", "judge", _names(context)),
        words(f"Perceived {found.dimension}", "group", everybody),
        words("Axis", "axis", _axes(context)),
        mean("Difference", lambda row: row, note=INTERVAL, why=_UNREAD),
    ]
    told = listed([f"perceived {dimension}" for dimension in context.protocol.groups.dimensions])
    notes = (f"The same pairs, looked at once with {told} told and once with less.",)
    title = "Score with everything told minus score with less told"
    return table("calibration-disclosure", title, rows, columns, found.disclosure, notes=notes, dense=True)


def _retest(found: Calibration, context: Context) -> Table:
    rows = found.retest.to_dicts()
    columns = [
        words("Judge", "judge", _names(context)),
        words("Axis", "axis", _axes(context)),
        tally("Looked twice", "asked"),
        counted("Within one point", lambda row: row, "hits", "read", note=INTERVAL, why=_UNREAD),
        proportion("Same score", "exact", "read", _UNREAD, "pairs"),
    ]
    return table("calibration-retest", "Second looks beside the first", rows, columns, found.retest, dense=True)
