"""Experiment 2: what a feature prompt changes, beside a neutral sentence, the same prompt asked again, and the
published figures. Sentences come from numbers; where cases were chosen by their outcome, nothing is claimed from a
comparison with the very edits that they were chosen by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    capital,
    count,
    decimal,
    known,
    listed,
    lowered,
    of,
    plural,
    signed,
    span,
)
from stillme.core.records import MITIGATE
from stillme.report.blocks import Block, Fold, Heading, Notice, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.sections import tradeoff
from stillme.report.sentences import SHOWN_BELOW
from stillme.report.tables import (
    FEW_PERSONS,
    Cell,
    Column,
    Row,
    Table,
    absent,
    change,
    leads,
    percentage,
    probability,
    samples,
    table,
    tally,
    value,
    words,
)
from stillme.stats.contrast import FEWEST_PERSONS
from stillme.stats.mitigation import Contrast, Mitigation

TITLE = "Does a feature prompt keep the person?"
BY_GROUP = "table14_feature_prompt_delta_by_race"  # the published differences, one column an attribute
BEFORE_AND_AFTER = "table19_race_drift_before_after"
NOT_SHOWN = "no difference was shown (that is not evidence of none)"
_TOO_FEW = f"fewer than {FEWEST_PERSONS} persons"
_NO_PAIR = "no case has a score in both arms"
_UNPUBLISHED = "not published"
_SAME = "no interval: every person has the same difference"


def build(found: Mitigation, context: Context) -> Section:
    return Section("mitigation", TITLE, "Mitigation", tuple(_blocks(found, context)))


def said(found: Mitigation, context: Context) -> tuple[str, ...]:
    """What stands on the first screen: the feature prompt's effect, as far as it can be told from this run."""
    warning = (f"Mitigation: {_chosen(found, context)} {_EXPECTED}",) if found.is_selected else ()
    first = [one for one in found.contrasts if _leads_with_features(one, context)]
    first = [one for one in first if _is_clean(one, found, context)][:1]
    still = tradeoff.kept(found, context, lambda one: one in first)
    return (
        *warning,
        *(f"Mitigation: {told}" for one in first for told in (*_told(one, found, context), *still)),
    )


def _blocks(found: Mitigation, context: Context) -> Iterator[Block]:
    yield prose(_compared(found, context), _reading())
    if found.is_selected:
        yield _warning(found, context)
    yield bullets(claims(found, context) or [f"{capital(NOT_SHOWN)}."])
    yield _effects("mitigation-arms", "Every arm against another, by axis", found.effects, found, context)
    yield from tradeoff.blocks(found, context, lambda one: _is_clean(one, found, context))
    yield from _by_group(found, context)
    yield from _rest(found, context)


# What was compared


def _compared(found: Mitigation, context: Context) -> str:
    arms = listed([f"“{label}”" for label in _arms(found, context).values()])
    return (
        f"{plural(found.cases, 'cases')} (portrait × prompt × editor) of {plural(found.persons, 'persons')} were "
        f"edited in {plural(found.arms.height, 'arms')}: {arms}. {_drawn(found, context)}"
    )


def _drawn(found: Mitigation, context: Context) -> str:
    if found.is_selected:
        return _chosen(found, context)
    seen = f" {found.selection.because}" if found.selection is not None else ""
    return f"The cases were drawn evenly over groups, prompts and editors, without looking at any outcome.{seen}"


def _chosen(found: Mitigation, context: Context) -> str:
    if not found.selected_on_outcome and found.selection is not None:
        return found.selection.because
    rules = context.protocol.mitigation
    seen = listed([lowered(context.outcomes[name].label) for name in rules.drifted]) if rules else "drift"
    return f"The cases were chosen because of what was seen in their first edit ({seen})."


def _reading() -> str:
    return (
        "The figures are differences of the same case between two arms, in points of the scale. On axes of drift "
        "it is how far a score is from “nothing changed”, so that less is better, without prompts that ask for "
        "such a change; on edit success it is the score, so that more is better. A case counts where both arms "
        f"have a score. The person is the unit: each {INTERVAL} is Student’s over persons’ mean differences, and "
        "p comes from flipping the sign of whole persons, corrected over every comparison and axis of the table "
        f"(Holm). A difference counts as shown when the corrected p is below {SHOWN_BELOW}."
    )


def _arms(found: Mitigation, context: Context) -> dict[str, str]:
    """Arm -> its label, in the protocol's order, of the arms that were asked."""
    asked = set(found.arms["arm"])
    return {arm.id: arm.label for arm in context.protocol.manifest.arms if arm.id in asked}


def _axes(context: Context) -> dict[str, str]:
    return {id: axis.label for id, axis in context.protocol.axes.items()}


# Cases that were chosen by their outcome

_EXPECTED = "An “improvement” over that edit is expected without any effect (regression to the mean)."


def _warning(found: Mitigation, context: Context) -> Notice:
    told = "Cases were chosen by their outcome"
    seen = (found.selection.because,) if found.selected_on_outcome and found.selection is not None else ()
    return Notice(
        told if found.selected_on_outcome else "Cases look as if they were chosen by their outcome",
        (f"{_chosen(found, context)} {_EXPECTED}", *seen, _again(found, context)),
    )


def _again(found: Mitigation, context: Context) -> str:
    """How much of it asking the same prompt again gives, which says nothing about any sentence."""
    rows = [row for row in found.regression(context.protocol).to_dicts() if known(row["difference"])]
    if not rows:
        return (
            "No arm of this audit asks the same prompt again, so how much of a difference was to be expected is "
            "not known."
        )
    axes = _axes(context)
    told = listed([f"{lowered(axes[row['axis']])} {_size(row)}" for row in rows])
    return (
        f"Asking the very same prompt again with another seed gave these differences: {told}. They are no "
        "effect of a sentence. What a sentence does is what it changes beyond that: see the comparisons with arms "
        "that were edited after the choice."
    )


def _is_clean(contrast: Contrast, found: Mitigation, context: Context) -> bool:
    """Whether a comparison says something about the sentence: none of its arms was chosen by."""
    plain = [arm.id for arm in context.protocol.manifest.arms if not (arm.lead or arm.prefix or arm.seed_offset)]
    return not (found.is_selected and {contrast.arm, contrast.against} & set(plain))


# What can be said


def claims(found: Mitigation, context: Context) -> list[str]:
    """What was shown and what was not, of every comparison that says something about a sentence."""
    return [
        text
        for contrast in found.contrasts
        if _is_clean(contrast, found, context)
        for text in _told(contrast, found, context)
    ] + [*_uneven(found, context), *tradeoff.uneven(found, context, lambda one: _is_clean(one, found, context))]


def _told(contrast: Contrast, found: Mitigation, context: Context) -> Iterator[str]:
    rows = found.effects.filter(arm=contrast.arm, against=contrast.against).to_dicts()
    axes, name = _axes(context), _comparison(contrast, found, context)
    shown = [row for row in rows if known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW]
    if shown:
        what = listed([f"{lowered(axes[row['axis']])} ({_size(row)})" for row in shown])
        yield f"{name}: a difference was shown, in points, for {what}."
    rest = [row for row in rows if row not in shown and known(row["p_holm"])]
    if rest:
        what = listed([f"{lowered(axes[row['axis']])} ({_size(row)})" for row in rest])
        yield f"{name}: {NOT_SHOWN} for {what}."
    unknown = [lowered(axes[row["axis"]]) for row in rows if not known(row["p_holm"])]
    if unknown:
        yield f"{name}: could not be compared: {listed(unknown)} ({_TOO_FEW})."


def _size(row: Row) -> str:
    if row["low"] is None or row["low"] == row["high"]:
        return signed(row["difference"])
    return f"{signed(row['difference'])} {span(row['low'], row['high'])}"


def _comparison(contrast: Contrast, found: Mitigation, context: Context) -> str:
    labels = _arms(found, context)
    return f"{labels[contrast.arm]}, against {lowered(labels[contrast.against])}"


def _uneven(found: Mitigation, context: Context) -> Iterator[str]:
    """Groups for whom the feature prompt does more or less than for the reference group, where that was shown."""
    dimension, reference = context.contrasted
    axes = _axes(context)
    for row in found.uneven.to_dicts():
        contrast = Contrast(row["arm"], row["against"])
        if _is_clean(contrast, found, context) and known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW:
            yield (
                f"{_comparison(contrast, found, context)}: the effect on {lowered(axes[row['axis']])} is not "
                f"the same for everybody: {signed(row['others_mean'])} for people perceived as other than "
                f"{reference}, {signed(row['reference_mean'])} for people perceived as {reference} "
                f"(perceived {dimension}); a difference of {_size(row)} points "
                f"({count(row['others_persons'])} and {plural(row['reference_persons'], 'persons')})."
            )


# Tables


def _effects(
    id: str, caption: str, frame: pl.DataFrame, found: Mitigation, context: Context, notes: Sequence[str] = ()
) -> Table:
    labels = {arm.id: arm.label for arm in context.protocol.manifest.arms}
    columns = [
        words("Arm", "arm", labels),
        words("Against", "against", labels),
        words("Axis", "axis", _axes(context)),
        *_sides(context),
        _difference("Difference"),
        percentage("Unchanged pairs", "zeros", _NO_PAIR),
        probability("p", "p", _TOO_FEW),
        probability("p, corrected", "p_holm", _TOO_FEW),
        Column("Result", lambda row: _result(row, found, context), numeric=False),
    ]
    return table(id, caption, frame.to_dicts(), columns, frame, notes=notes)


def _result(row: Row, found: Mitigation, context: Context) -> Cell:
    if not known(row["p_holm"]):
        return absent(_TOO_FEW)
    if not _is_clean(Contrast(row["arm"], row["against"]), found, context):
        return Cell("says nothing: chosen by outcome", 1.0)
    return Cell("shown" if row["p_holm"] < SHOWN_BELOW else "not shown", row["p_holm"])


def _sides(context: Context, **groups: str) -> tuple[Column, Column]:
    """Both means, over the pairs; behind each are the edits of its arm."""
    first = leads(value("Mean against", "first_mean", _NO_PAIR), lambda row: _behind(row, row["against"], groups))
    second = leads(value("Mean of the arm", "second_mean", _NO_PAIR), lambda row: _behind(row, row["arm"], groups))
    return first, second


def _behind(row: Row, arm: str, groups: Mapping[str, str]) -> str:
    """`groups`: a dimension -> the column that holds its group."""
    own = {dimension: row[column] for dimension, column in groups.items()}
    return samples(experiment=MITIGATE, arm=arm, axis=row["axis"], **own)


def _difference(label: str, pick: Callable[[Row], Row | None] = lambda row: row) -> Column:
    """A mean difference with its interval, pairs and persons; those without a pair are counted beside."""

    def read(row: Row) -> Cell:
        found = pick(row)
        if found is None or not known(found["difference"]):
            return absent(_NO_PAIR)
        spread = span(found["low"], found["high"]) if known(found["low"]) else FEW_PERSONS
        spread = _SAME if found["low"] is not None and found["low"] == found["high"] else spread
        pairs = f"{of(found['pairs'], found['cases'])} pairs, {plural(found['persons'], 'persons')}"
        return Cell(signed(found["difference"]), found["difference"], (spread, pairs))

    return Column(label, read, note=f"points, {INTERVAL}")


# By group: the seed's tables 14 and 19


def _by_group(found: Mitigation, context: Context) -> Iterator[Block]:
    chosen = next((one for one in found.contrasts if _leads_with_features(one, context)), None)
    if chosen is None:
        return
    frame = found.by_group.filter(arm=chosen.arm, against=chosen.against)
    main = context.main.by
    yield Heading("mitigation-groups", f"{_comparison(chosen, found, context)}: by group")
    yield prose(_read_groups(found))
    yield _before_and_after(frame, chosen, context)
    for dimension in context.protocol.groups.dimensions:
        made = _differences(frame, dimension, context)
        title = f"Difference by perceived {dimension}, every axis"
        yield made if dimension == main else Fold(title, "every axis", (made,))


def _leads_with_features(contrast: Contrast, context: Context) -> bool:
    return context.protocol.arms[contrast.arm].lead == "features"


def _read_groups(found: Mitigation) -> str:
    warned = f" {_EXPECTED}" if found.is_selected else ""
    return (
        "Groups are perceptions. Comparing many groups by eye finds differences by chance: whether groups differ "
        "is said above, where it was shown. Published figures stand beside, as printed; the publication says both "
        f"that its cases were drawn by strata and that they had drifted.{warned}"
    )


def _before_and_after(frame: pl.DataFrame, contrast: Contrast, context: Context) -> Table:
    """Scores before and after on the axis of the main table, as in table 19."""
    by, axis = context.main.by, context.protocol.axes[context.outcomes[context.main.outcome].axis]
    labels = context.protocol.groups.labels(by)
    published = _published(BEFORE_AND_AFTER, by, context)
    neutral = 0 if axis.is_signed or axis.neutral is None else axis.neutral
    rows = [
        {**row, "group": group, "published": published.get(group, {})}
        for group in labels
        for row in frame.filter(dimension=by, group=group, axis=axis.id).to_dicts()
    ]
    columns = [
        words(f"Perceived {by}", "group", labels),
        *(_score(c, neutral) for c in _sides(context, **{by: "group"})),
    ]
    columns += [_difference("Difference")]
    columns += [_printed(label, name) for name, label in _PRINTED.items()] if published else []
    arms = {arm.id: arm.label for arm in context.protocol.manifest.arms}
    caption = f"{axis.label}: “{arms[contrast.against]}” and “{arms[contrast.arm]}”, by perceived {by}"
    return table("mitigation-before-after", caption, rows, columns, frame.filter(axis=axis.id))


_PRINTED = {"baseline": "Published before", "feature_prompt": "Published after", "delta": "Published difference"}


def _score(column: Column, neutral: int) -> Column:
    """A distance from “nothing changed” as the mean score that it is, on a scale that starts there."""

    def read(row: Row) -> Cell:
        cell = column.read(row)
        if cell.why or not isinstance(cell.sort, float):
            return cell
        return Cell(decimal(cell.sort + neutral, 2), cell.sort + neutral, samples=cell.samples)

    return Column(column.label, read, note="mean score" if neutral else "")


def _printed(label: str, name: str) -> Column:
    def read(row: Row) -> Cell:
        text = row["published"].get(name)
        return absent(_UNPUBLISHED) if text is None else Cell(decimal(float(text), 2), float(text))

    return Column(label, read)


def _published(name: str, dimension: str, context: Context) -> dict[str, dict[str, str]]:
    """Group -> its row of a published table; empty where it is not about this dimension."""
    rows = {row[dimension]: row for row in context.protocol.published.get(name, ()) if dimension in row}
    named = {one.id: (one.label, *one.aliases) for one in context.protocol.groups.dimensions[dimension]}
    return {group: rows[word] for group, words in named.items() for word in words if word in rows}


def _differences(frame: pl.DataFrame, dimension: str, context: Context) -> Table:
    """Differences by group on every axis, with the published ones, as in table 14."""
    labels = context.protocol.groups.labels(dimension)
    cells = by_key(frame, "group", "axis", dimension=dimension)
    published = _published(BY_GROUP, dimension, context)
    axes = [axis for id, axis in context.protocol.axes.items() if id in set(frame["axis"])]
    columns = [words(f"Perceived {dimension}", "group", labels)]
    for axis in axes:
        columns.append(_difference(axis.label, _picker(cells, axis.id)))
        name = f"delta_{axis.attribute}"
        if any(name in row for row in published.values()):
            columns.append(_printed(f"{axis.label}: published", name))
    rows = [{"group": group, "published": published.get(group, {})} for group in labels]
    caption = f"Difference by perceived {dimension} and axis"
    return table(f"mitigation-by-{dimension}", caption, rows, columns, frame.filter(dimension=dimension))


def _picker(cells: Mapping[tuple[str, ...], Row], axis: str) -> Callable[[Row], Row | None]:
    return lambda row: cells.get((row["group"], axis))


# The rest


def _rest(found: Mitigation, context: Context) -> Iterator[Block]:
    yield Heading("mitigation-more", "Directions, editors, missing scores")
    if found.directions.height:
        yield Fold("Directions on signed axes", "before and after", (_directions(found, context),))
    yield Fold("By editor", plural(found.by_editor["editor"].n_unique(), "editors"), (_editors(found, context),))
    lost = sum(found.arms["missing"]) + sum(found.arms["unasked"])
    yield Fold("What came of every arm", f"{count(lost)} without a score", (_asked(found, context),))
    if found.unmarked is not None:
        yield _marked(found.unmarked, found, context)


def _directions(found: Mitigation, context: Context) -> Table:
    labels = {arm.id: arm.label for arm in context.protocol.manifest.arms}
    columns = [
        words("Arm", "arm", labels),
        words("Against", "against", labels),
        words("Axis", "axis", _axes(context)),
        change("Net against", "first_mean", _NO_PAIR),
        change("Net of the arm", "second_mean", _NO_PAIR),
        _difference("Difference of nets"),
    ]
    notes = (
        "Net: the share of edits above “nothing changed” minus the share below it, over persons. A scale with two "
        "directions is never averaged as an amount.",
    )
    title = "Directions on signed axes"
    return table(
        "mitigation-directions", title, found.directions.to_dicts(), columns, found.directions, notes=notes
    )


def _editors(found: Mitigation, context: Context) -> Table:
    cells = by_key(found.by_editor, "arm", "against", "editor", "axis")
    leading = [one for one in found.contrasts if _leads_with_features(one, context)]
    keys = [(*one, party.id, axis) for one in leading for party in context.editors for axis in _axes(context)]
    rows = [cells[key] for key in keys if key in cells]
    labels = {arm.id: arm.label for arm in context.protocol.manifest.arms}
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Against", "against", labels),
        words("Axis", "axis", _axes(context)),
        *_sides(context, editor="editor"),
        _difference("Difference"),
    ]
    return table(
        "mitigation-by-editor", "The feature prompt’s difference by editor", rows, columns, found.by_editor
    )


def _asked(found: Mitigation, context: Context) -> Table:
    columns = [
        words("Arm", "arm", _arms(found, context)),
        leads(tally("Asked", "asked"), lambda row: samples(experiment=MITIGATE, arm=row["arm"])),
        tally("Scored", "scored"),
        tally("Without a score", "missing"),
        tally("Not asked", "unasked"),
    ]
    notes = (
        "Scored: on at least one axis. Not asked: cases of which the arm could not be made, such as those of a "
        "portrait off which no features could be read. A pair needs a score on both sides.",
    )
    return table("mitigation-asked", "Cases by arm", found.arms.to_dicts(), columns, found.arms, notes=notes)


def _marked(unmarked: pl.DataFrame, found: Mitigation, context: Context) -> Fold:
    note = (
        f"{plural(found.marked, 'persons')} had a feature prompt that still held words for race, ethnicity, "
        "gender or age after it was asked for a second time. Here they are left out."
    )
    made = _effects(
        "mitigation-unmarked", "Every arm against another, without them", unmarked, found, context, (note,)
    )
    return Fold("Without marked feature prompts", plural(found.marked, "persons"), (made,))
