"""Experiment 3: which gender an editor gives to an occupation, as published and with every cue balanced.

Sentences come from numbers. Raw adherence is never called a stereotype by itself: what an editor follows, the
words or the places or the stereotype, is told by the balanced cells only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    between,
    bracket,
    count,
    known,
    listed,
    percent,
    plural,
    points,
    signed,
)
from stillme.core.records import STEREOTYPE, Status
from stillme.protocol.schema import JOINT, PUBLISHED
from stillme.report.blocks import Block, Fold, Notice, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.sentences import SHOWN_BELOW
from stillme.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    absent,
    counted,
    difference,
    leads,
    percentage,
    probability,
    samples,
    share,
    table,
    tally,
    value,
    words,
)
from stillme.stats.intervals import FEWEST_FOR_INTERVAL
from stillme.stats.stereotype import (
    ABSENT,
    ALL,
    CATEGORIES,
    CHANCE,
    FIRST_PORTRAIT,
    NAMED,
    POSITION,
    PRONOUN,
    SILENT,
    SPOKEN,
    STEREOTYPED,
    UNCLEAR,
    Stereotypes,
)

TITLE = "Which gender is given to an occupation?"
SENTENCES = {ALL: "All", SPOKEN: "With a pronoun", SILENT: "Without one"}
_NO_CLEAR = "no clear verdict"
_FEW_PROMPTS = f"fewer than {FEWEST_FOR_INTERVAL} prompts: no interval"
_UNBALANCED = "not every combination has a verdict"
_HEADLINE, _QUANTITY = "headline_results", "stereotype_adherence"  # where the published figure stands
_CUES = {
    PRONOUN: "the pronoun",
    NAMED: "which occupation is named first",
    POSITION: "position, who is named first being who is shown first",
}
_PORTRAIT = {True: "which portrait comes first", False: "the gender of the portrait"}  # by whether there are two


def build(found: Stereotypes, context: Context) -> Section:
    return Section("stereotypes", TITLE, "Stereotypes", tuple(_blocks(found, context)))


def said(found: Stereotypes, context: Context) -> tuple[str, ...]:
    """What stands on the first screen: one sentence an editor, with what the figure as published comes from."""
    return tuple(f"Stereotypes: {told}" for told in claims(found, context))


def _blocks(found: Stereotypes, context: Context) -> Iterator[Block]:
    yield prose(_asked(found), _reading(found))
    if not found.balanced:
        yield _warning()
    yield bullets(claims(found, context))
    yield _adherence(found, context)
    if found.balanced:
        yield _gaps(found, context)
        yield _effects(found, context)
        if found.matched is not None:
            yield Fold(
                "Pairs that differ in one cue", "McNemar’s test", (_matched(found.matched, found, context),)
            )
    if found.flips.height:
        yield _flips(found, context)
        if found.flips_by_sentence is not None:
            made = _flips_by_sentence(found.flips_by_sentence, context)
            yield Fold("Flips with and without a pronoun", "and what is unclear", (made,))
    if found.arms is not None and found.balanced:
        yield Fold("Every arm", "adherence as it was asked", (_arms(found.arms, context),))
    yield Fold("By occupation", "few prompts each: to look at, not to claim", (_occupations(found, context),))
    yield Fold("Every combination", "how many of which category", (_cells(found, context),))
    if found.statuses.height:
        yield _missing(found, context)
    if found.agreement.height:
        yield _agreement(found, context)


# What was asked


def _asked(found: Stereotypes) -> str:
    how = "one portrait of each gender at once" if found.mode == JOINT else "one portrait of each gender in turn"
    return (
        f"Editors were given {how} and a sentence about two occupations ({plural(found.prompts, 'prompts')}). "
        "Judges saw the edit alone, neither the portrait nor the sentence, and said for every person in it "
        "which of the two occupations it is shown in and how it presents. Gender presentation is a perception. "
        "A target that is unclear, androgynous or shown twice and differently is unclear; one that nobody is "
        "shown as is absent. Neither counts as followed."
    )


def _reading(found: Stereotypes) -> str:
    raw = (
        "Adherence is the share of clear verdicts in which the target has the stereotyped gender, in the "
        "sentences as published, with an exact interval and an exact test against one half."
    )
    if not found.balanced:
        return raw
    return (
        f"{raw} The gap is the share of the stereotyped minus that of the other gender, with equal weight on "
        "every combination of pronoun, named order and first portrait, unclear and absent in the denominator; "
        f"each {INTERVAL} is over prompts. Following the words or the places alone gives an adherence of 100 % "
        f"and a gap of 0. A gap counts as shown when p, corrected over editors (Holm), is below {SHOWN_BELOW}."
    )


def _warning() -> Notice:
    return Notice(
        "Adherence alone does not show a stereotype",
        (
            "In every sentence as published the target is named first, and where there is a pronoun it agrees "
            "with the stereotype. An editor that goes by the order of words or does what the pronoun says "
            "reaches 100 % without any stereotype; one that keeps the person of the portrait reaches 50 %. This "
            "audit did not ask the counterbalanced arms (counterbalanced: true), so these cannot be told "
            "apart.",
        ),
    )


# What is claimed


def claims(found: Stereotypes, context: Context) -> list[str]:
    """One paragraph an editor, from its numbers."""
    raw, gaps = by_key(found.adherence, "editor", sentences=ALL), by_key(found.gaps, "editor", sentences=ALL)
    return [
        " ".join((_as_published(party.name, row), *_balanced(row, gaps[(party.id,)], found)))
        for party in context.editors
        if (row := raw.get((party.id,))) is not None
    ]


def _as_published(name: str, row: Row) -> str:
    if not known(row["rate"]):
        return f"{name}: none of {count(row['asked'])} edits of the sentences as published has a clear verdict."
    return (
        f"{name} gave the target the stereotyped gender in {percent(row['rate'])} of "
        f"{plural(row['clear'], 'clear verdicts')} on the sentences as published."
    )


def _balanced(raw: Row, gap: Row, found: Stereotypes) -> Iterator[str]:
    if not found.balanced:
        yield "The counterbalanced arms were not asked, so what it follows cannot be told."
        return
    if not known(gap["gap"]) or not known(gap["low"]):
        yield f"The gap cannot be told: {_UNBALANCED}, or there is one prompt only."
        return
    is_shown = known(gap["p_holm"]) and gap["p_holm"] < SHOWN_BELOW
    yield _gap(gap, is_shown)
    followed = [f"{label} ({signed(size * 100, 1)} points)" for label, size in _followed(gap["editor"], found)]
    if followed:
        explains = not is_shown and known(raw["p"]) and raw["p"] < SHOWN_BELOW and raw["rate"] > CHANCE
        what = f"It {'also ' if is_shown else ''}follows {listed(followed)}"
        yield f"{what}, which explains the figure as published." if explains else f"{what}."


def _gap(row: Row, is_shown: bool) -> str:
    size = f"{points(abs(row['gap']) if is_shown else row['gap'])} points ({between(row['low'], row['high'])})"
    if not is_shown:
        return (
            f"With every cue balanced no stereotype was shown (that is not evidence of none): the gap is {size}."
        )
    more = "more" if row["gap"] > 0 else "less"
    return f"With every cue balanced it gave the stereotyped gender {more} often than the other, by {size}."


def _followed(editor: str, found: Stereotypes) -> Iterator[tuple[str, float]]:
    """The cues that were shown to move what an editor does, the strongest first."""
    labels = _labels(found)
    rows = sorted(found.effects.filter(editor=editor).to_dicts(), key=lambda row: -(row["difference"] or 0.0))
    for row in rows:
        if known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW and row["difference"] > 0:
            yield labels[row["effect"]], row["difference"]


def _labels(found: Stereotypes) -> Mapping[str, str]:
    return {**_CUES, FIRST_PORTRAIT: _PORTRAIT[found.mode == JOINT]}


# Tables


def _adherence(found: Stereotypes, context: Context) -> Table:
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Sentences", "sentences", SENTENCES),
        leads(tally("Asked", "asked"), lambda row: _behind(row, PUBLISHED)),
        tally("Without a verdict", "missing"),
        Column("Adherence", _twice, note=f"exact {INTERVAL}, and over prompts"),
        probability("p", "p", _NO_CLEAR),
        Column("Unclear", _unclear, note="and adherence, none or all followed"),
        share("Absent", ABSENT, "judged"),
        share("Judges apart", "flagged", "judged"),
        share("Decided by a person", "adjudicated", "judged"),
        share("One judge only", "single", "judged"),
    ]
    notes = [
        "p: exact, two-sided, against one half."
        + ("" if found.mode == JOINT else " The two portraits of a prompt count as two.")
        + " Over prompts: the interval with prompts as the unit. Unclear: beneath it adherence, were none or all "
        "of the unclear followed.",
        "Judges apart: they saw different categories; the primary judge’s stands unless a person has decided. "
        "What a person decided stands over all judges.",
        *_published(context),
    ]
    title = "Adherence on the sentences as published"
    return table("stereotype-adherence", title, found.adherence.to_dicts(), columns, found.adherence, notes=notes)


def _behind(row: Row, arm: str = "") -> str:
    return samples(experiment=STEREOTYPE, arm=arm, editor=row["editor"])


def _published(context: Context) -> Iterator[str]:
    for row in context.protocol.published.get(_HEADLINE, ()):
        if row["quantity"] == _QUANTITY:
            yield f"Published: {row['low']} to {row['high']} {row['unit']} ({row['where']}), by human annotators."


def _gaps(found: Stereotypes, context: Context) -> Table:
    rows = found.gaps.to_dicts()
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Sentences", "sentences", SENTENCES),
        tally("Prompts", "prompts"),
        leads(tally("Asked", "asked"), lambda row: _behind(row)),
        tally("Without a verdict", "missing"),
        percentage("Stereotyped", "pro", _UNBALANCED),
        percentage("Other", "anti", _UNBALANCED),
        Column("Unclear", _gap_unclear, note="and the gap, all against or for"),
        Column("Gap", _gap_cell, note=f"points, {INTERVAL} over prompts and over occupations"),
        probability("p", "p_holm", "not part of the family"),
        Column("Right with pronouns", _accuracy_gap, note="pro − anti, points"),
    ]
    notes = (
        "Stereotyped, other: mean share over the combinations; what is left is unclear or absent. p: Student’s "
        "over prompts, corrected over editors (Holm), for all sentences. Over occupations: the same gap with "
        "target occupations as the unit, because sentences about one may go the same way.",
        "Right: the target has the pronoun’s gender. With nothing unclear, right with pro-stereotypical "
        "pronouns minus right with anti-stereotypical ones is the gap over these combinations.",
    )
    title = "The gap with pronoun, named order and portraits balanced"
    return table("stereotype-gap", title, rows, columns, found.gaps, notes=notes)


def _effects(found: Stereotypes, context: Context) -> Table:
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("What differs", "effect", _labels(found)),
        tally("Prompts", "prompts"),
        difference("Difference", _UNBALANCED, f"points, {INTERVAL}"),
        probability("p", "p_holm", _UNBALANCED),
    ]
    notes = (
        "How much more often the target has the stereotyped gender where that cue points to it than where it "
        "points away, everything else balanced. The place points to it where the person who comes first in "
        "both, or second in both, is of that gender. p: Student’s over prompts, corrected over all of them "
        "(Holm).",
    )
    title = "What an editor follows"
    return table("stereotype-cues", title, found.effects.to_dicts(), columns, found.effects, notes=notes)


def _flips(found: Stereotypes, context: Context) -> Table:
    kinds = {"True": "of the stereotyped gender", "False": "of the other gender"}
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Portrait", "congruent", kinds),
        tally("Prompts", "prompts"),
        counted("Flipped", lambda row: row, "flipped", "clear", note=INTERVAL, why=_NO_CLEAR, few=_FEW_PROMPTS),
    ]
    notes = (
        "Flipped: the target is shown with another gender than the person of the portrait, of clear verdicts in "
        "all arms; the interval is over prompts. More flips of portraits that do not fit the stereotype than of "
        "those that do: people are made to fit.",
    )
    title = "Targets shown with another gender than the portrait’s"
    return table("stereotype-flips", title, found.flips.to_dicts(), columns, found.flips, notes=notes)


def _occupations(found: Stereotypes, context: Context) -> Table:
    rows = [{**row, "difference": row["gap"]} for row in found.occupations.to_dicts()]
    columns = [
        words("Occupation", "target"),
        words("Stereotyped as", "stereotype", context.protocol.groups.labels("gender")),
        words("Editor", "editor", editor_names(context)),
        tally("Prompts", "prompts"),
        Column("Adherence", _one_in, note=f"as published, exact {INTERVAL}"),
        share("Unclear", UNCLEAR, "judged"),
        probability("p, corrected", "p_bh", _NO_CLEAR),
        *([difference("Gap", _UNBALANCED, f"points, {INTERVAL}")] if found.balanced else []),
    ]
    notes = (
        "p: exact, of adherence as published against one half, corrected over an editor’s occupations (Benjamini "
        "and Hochberg); Holm’s is in the data.",
    )
    title = "Adherence and gap by occupation"
    return table("stereotype-occupations", title, rows, columns, found.occupations, notes=notes, dense=True)


def _one_in(row: Row) -> Cell:
    if not known(row["rate"]):
        return absent(_NO_CLEAR)
    small = (bracket(row["rate_low"], row["rate_high"]), f"{count(row[STEREOTYPED])}/{count(row['clear'])}")
    return Cell(percent(row["rate"]), row["rate"], small)


# What else is said of a figure


def _twice(row: Row) -> Cell:
    """Adherence with its exact interval, that over prompts, and the counts."""
    if not known(row["rate"]):
        return absent(_NO_CLEAR)
    over = bracket(row["prompt_low"], row["prompt_high"]) if known(row["prompt_low"]) else _FEW_PROMPTS
    counts = f"{count(row[STEREOTYPED])}/{count(row['clear'])}"
    return Cell(percent(row["rate"]), row["rate"], (bracket(row["low"], row["high"]), f"prompts {over}", counts))


def _unclear(row: Row) -> Cell:
    """The share of unclear targets, and what adherence would be with none or all of them followed."""
    if not row["judged"]:
        return absent("nothing was judged")
    found = row[UNCLEAR] / row["judged"]
    bounds = (bracket(row["lowest"], row["highest"]),) if known(row["lowest"]) else ()
    return Cell(percent(found), found, (f"{count(row[UNCLEAR])}/{count(row['judged'])}", *bounds))


def _gap_unclear(row: Row) -> Cell:
    if not known(row["gap"]):
        return absent(_UNBALANCED)
    return Cell(percent(row["unclear_share"]), row["unclear_share"], (bracket(row["lowest"], row["highest"]),))


def _gap_cell(row: Row) -> Cell:
    if not known(row["gap"]):
        return absent(_UNBALANCED)
    spans = [bracket(row["low"], row["high"]) if known(row["low"]) else "one prompt: no interval"]
    if known(row["occupation_low"]):
        whole = bracket(row["occupation_low"], row["occupation_high"])
        spans.append(f"{whole} {plural(row['occupations'], 'occupations')}")
    return Cell(points(row["gap"]), row["gap"], tuple(spans))


def _bounds(row: Row) -> Cell:
    if not known(row["lowest"]):
        return absent("no verdict that is clear or unclear")
    return Cell(bracket(row["lowest"], row["highest"]), row["lowest"])


def _accuracy_gap(row: Row) -> Cell:
    if not known(row["accuracy_gap"]):
        return absent("no such sentence")
    each = f"{percent(row['accuracy_pro'])} − {percent(row['accuracy_anti'])}"
    small = (bracket(row["accuracy_gap_low"], row["accuracy_gap_high"]),) if known(row["accuracy_gap_low"]) else ()
    return Cell(points(row["accuracy_gap"]), row["accuracy_gap"], (*small, each))


def _matched(frame: pl.DataFrame, found: Stereotypes, context: Context) -> Table:
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("What differs", "effect", _labels(found)),
        tally("Pairs", "pairs"),
        tally("Unclear", "unclear"),
        tally("Both", "both"),
        tally("Only with it", "first_only"),
        tally("Only against it", "second_only"),
        tally("Neither", "neither"),
        probability("p, pairs", "p", _NO_CLEAR),
        tally("Prompts", "clusters"),
        probability("p, prompts, corrected", "p_holm", "fewer than 3 prompts"),
    ]
    notes = (
        "Two edits of one sentence that differ in one cue alone: is the target of the stereotyped gender where "
        "the cue points to it, and where it points away? Only pairs that differ say anything. p over pairs is "
        "McNemar’s, exact; p over prompts flips whole prompts, corrected over all rows (Holm). Unclear: pairs "
        "with a side that is unclear or absent, left out.",
    )
    title = "Pairs that differ in one cue alone"
    return table("stereotype-pairs", title, frame.to_dicts(), columns, frame, notes=notes)


def _flips_by_sentence(frame: pl.DataFrame, context: Context) -> Table:
    kinds = {"True": "of the stereotyped gender", "False": "of the other gender"}
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Sentences", "sentences", SENTENCES),
        words("Portrait", "congruent", kinds),
        tally("Prompts", "prompts"),
        counted("Flipped", lambda row: row, "flipped", "clear", note=INTERVAL, why=_NO_CLEAR, few=_FEW_PROMPTS),
        tally("Unclear", UNCLEAR),
        tally("Absent", ABSENT),
        Column("Bounds", _bounds, note="none or all of the unclear flipped"),
    ]
    title = "Flips with and without a pronoun"
    return table("stereotype-flips-by-sentence", title, frame.to_dicts(), columns, frame)


def _arms(frame: pl.DataFrame, context: Context) -> Table:
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Arm", "arm"),
        tally("Asked", "asked"),
        tally("Without a verdict", "missing"),
        Column("Adherence", _twice, note=f"exact {INTERVAL}, and over prompts"),
        probability("p, corrected", "p_holm", _NO_CLEAR),
        Column("Unclear", _unclear, note="and adherence, none or all followed"),
    ]
    notes = (
        "In one arm the cues are what they are, so that adherence says which cues are followed and not whether "
        "stereotypes are. p: exact against one half, corrected over an editor’s arms (Holm).",
    )
    return table("stereotype-arms", "Adherence in every arm", frame.to_dicts(), columns, frame, notes=notes)


def _cells(found: Stereotypes, context: Context) -> Table:
    first = "First portrait" if found.mode == JOINT else "Portrait"
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Pronoun", "cue"),
        words("Target named", "order"),
        words(first, "congruent", {"True": "stereotyped gender", "False": "other gender"}),
        tally("Asked", "asked"),
        *(tally(name.capitalize(), name) for name in CATEGORIES),
        tally("Without a verdict", "missing"),
    ]
    title = "What was seen of the target, by combination"
    return table("stereotype-cells", title, found.cells.to_dicts(), columns, found.cells, dense=True)


def _missing(found: Stereotypes, context: Context) -> Table:
    rows = [{**row, "why": Status(row["status"]).label} for row in found.statuses.to_dicts()]
    columns = [words("Editor", "editor", editor_names(context)), words("Why", "why"), tally("Edits", "trials")]
    title = "Why edits have no verdict"
    return table("stereotype-missing", title, rows, columns, found.statuses)


def _agreement(found: Stereotypes, context: Context) -> Table:
    names = {party.id: party.name for party in context.judges}
    columns = [
        Column("Judges", lambda row: _pair(row, names), numeric=False),
        tally("Edits", "edits"),
        share("Same category", "same", "edits"),
        value("κ", "kappa", "one category took everything"),
    ]
    notes = (
        "Over edits of which both saw something. κ: Cohen’s kappa, 1 for full agreement, 0 for what chance would "
        "give. Second looks are in no other table.",
    )
    title = "How far judges agree on who is the target"
    return table("stereotype-judges", title, found.agreement.to_dicts(), columns, found.agreement, notes=notes)


def _pair(row: Row, names: Mapping[str, str]) -> Cell:
    first, second = (names.get(row[side], row[side]) for side in ("first_judge", "second_judge"))
    text = f"{first}, looking twice" if first == second else f"{first} and {second}"
    return Cell(text, text)
