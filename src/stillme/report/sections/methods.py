"""Methods, for a paper's appendix: paragraphs made from settings and numbers.

Nothing is said that was not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import stillme
from stillme.analysis.numbers import INTERVAL, count, listed, lowered, percent, plural
from stillme.report.blocks import Block, Heading, Section, prose
from stillme.report.context import Asked, Context, Party
from stillme.report.lookup import Tables, basis, rows
from stillme.report.sentences import SHOWN_BELOW
from stillme.stats.contrast import DRAWS, FEWEST_PERSONS
from stillme.stats.findings import Findings
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

_ROUNDING = {
    "half_even": "halves to the even neighbour",
    "half_up": "halves to the higher score",
    "toward_neutral": "halves to the score that means no change",
}
SHORT = 12


def build(findings: Findings, tables: Tables, context: Context) -> Section:
    return Section("methods", "Methods, for an appendix", "Methods", tuple(_blocks(findings, tables, context)))


def _blocks(findings: Findings, tables: Tables, context: Context) -> Iterator[Block]:
    yield prose("Generated from this run’s settings and numbers, to be quoted with the run it comes from.")
    parts = {
        "Sample": _sample(findings, context),
        "Editors": _editors(context),
        "Judges": _judges(context),
        "Scores and outcomes": _scores(context),
        "Statistics": _statistics(tables, context),
        "What was left out": _left_out(findings, context),
        "Software": _software(context),
        "Limits": _limits(findings, tables, context),
    }
    for title, told in parts.items():
        paragraphs = tuple(told)
        if paragraphs:
            yield Heading(f"methods-{title.split()[0].lower()}", title, opens=False)
            yield prose(" ".join(paragraphs))


def _sample(findings: Findings, context: Context) -> Iterator[str]:
    per = rows(findings.by_editor, outcome=basis(context))
    people = len(context.people) or max((row["persons"] for row in per), default=0)
    dimensions = context.protocol.groups.dimensions
    crossed = " × ".join(
        f"{plural(len(_seen(context, name)), 'groups')} of perceived {name}" for name in dimensions
    )
    used = "was" if people == 1 else "were"
    yield f"{plural(people, 'portraits')} {used} used, one of each person ({crossed})."
    yield from (text if text.endswith(".") else f"{text}." for text in context.sources)
    yield (
        "Groups are labels of how annotators perceived the person in the portrait; they are not how the person "
        "identifies."
    )
    yield from _asked(context)


def _asked(context: Context) -> Iterator[str]:
    """One sentence for all arms of an experiment that ask for as much."""
    alike: dict[Asked, list[str]] = {}
    for one in context.asked:
        alike.setdefault(replace(one, arm=""), []).append(one.arm)
    for one, names in alike.items():
        arms = [name for name in names if name not in ("", "baseline")]
        told = f" ({'arm' if len(names) == 1 else 'arms'} {listed(names)})" if arms else ""
        each = " each" if len(names) > 1 else ""
        yield (
            f"The experiment “{one.experiment}”{told} asked for {plural(one.edits, 'edits')}{each}: "
            f"{plural(one.portraits, 'portraits')}, {plural(one.prompts, 'prompts')}, "
            f"{plural(one.editors, 'editors')}, {plural(one.seeds, 'seeds')}."
        )


def _seen(context: Context, dimension: str) -> list[str]:
    """Groups of which there are portraits; all of them where that is not known."""
    groups = context.protocol.groups.ids(dimension)
    return [g for g in groups if not context.people or any(p.get(dimension) == g for p in context.people)]


def _editors(context: Context) -> Iterator[str]:
    for party in context.editors:
        yield f"{party.name}{_with(party)}."


def _with(party: Party) -> str:
    """The settings in effect that are one value each, and what had no effect."""
    plain = [f"{key} {value}" for key, value in party.settings.items() if isinstance(value, str | int | float)]
    told = f": {', '.join(plain)}" if plain else ""
    dropped = f"; without effect: {listed(list(party.dropped))}" if party.dropped else ""
    return f"{told}{dropped}"


def _judges(context: Context) -> Iterator[str]:
    scoring = context.scoring
    if not scoring:
        yield "No judge scored any edit."
        return
    first = "; the first is the primary judge" if len(scoring) > 1 else ""
    yield f"Edits were scored by {listed([party.name for party in scoring])}{first}."
    yield from (f"{party.name}{_with(party)}." for party in scoring)
    told = listed([f"perceived {name}" for name in context.told])
    yield f"Judges were told {told or 'nothing'} of the source person."
    if context.instruments:
        yield f"{listed([party.name for party in context.instruments])} measured beside them and is in no score."


def _scores(context: Context) -> Iterator[str]:
    if len(context.scoring) > 1:
        yield (
            "Where two judges are at most one point apart their mean is rounded "
            f"({_ROUNDING[context.choices.rounding]}); where they are further apart the primary judge’s score "
            "stands and the edit is flagged for review. With one judge left its score stands and is marked."
        )
    rules = [
        f"{lowered(outcome.label)} where {lowered(context.rule(name))}"
        for name, outcome in context.outcomes.items()
    ]
    yield f"Outcomes: {'; '.join(rules)}. An edit whose prompt asks for a change is in no outcome of that change."
    divided = "asked for (nominal)" if context.nominal else "judged"
    yield f"Rates are shares of the edits {divided}; what has no score is counted beside them and given none."


def _statistics(tables: Tables, context: Context) -> Iterator[str]:
    dimension, reference = context.contrasted
    yield (
        f"The person is the unit. Each rate has Wilson’s {INTERVAL} on the number of edits divided by the "
        f"design effect, with Student’s quantile; groups of fewer than {FEWEST_FOR_INTERVAL} persons have none."
    )
    outcomes = listed([lowered(context.outcomes[name].label) for name in context.tables.contrasts])
    yield (
        f"Contrasts ({outcomes}): people perceived as other than {reference} minus {reference} over persons’ "
        f"own rates, Welch’s interval, p from {count(DRAWS)} permutations of persons within strata of the other "
        f"dimensions, at least {FEWEST_PERSONS} persons a side, corrected by Holm’s method; shown where p < "
        f"{SHOWN_BELOW}."
    )
    if f"disparity_by_{context.main.by}" in tables:
        yield (
            f"Max − min over groups of perceived {context.main.by} is corrected for the selection of extremes "
            "by resampling persons; its interval starts at zero unless a permutation rank test over persons has "
            "p ≤ 0.05."
        )
    if f"signed_by_{context.main.by}" in tables:
        yield "On signed scales direction and amount are reported apart, from judges’ unrounded means."
    if "equivalence" in tables:
        yield f"Equivalence: two one-sided tests within ± {context.protocol.analysis.equivalence_points:g} points."
    if "components" in tables and tables["components"].height:
        yield "Variance components: an ordinal mixed model of each axis with persons, prompts and edits as random."
    if f"shrunken_by_{dimension}" in tables:
        yield (
            "Cells of prompt × group are shrunken by an empirical-Bayes beta-binomial and marked after "
            "Benjamini and Hochberg’s correction."
        )
    if "mitigation_effects" in tables:
        yield (
            "Arms of the mitigation are compared by paired differences of the same case: Student’s interval over "
            "persons’ mean differences, p from flipping the signs of whole persons, corrected by Holm’s method."
        )
    if "stereotype_adherence" in tables:
        yield "Adherence to stereotypes has an exact binomial interval and test against one half."
    gaps = tables.get("stereotype_gaps")
    if gaps is not None and gaps["gap"].null_count() < gaps.height:
        yield "The gap between genders, with every cue balanced, has Student’s interval over prompts."
    if "corrected_rates" in tables:
        yield "Where people rated edits, judges’ rates are corrected by group (prediction-powered inference)."


def _left_out(findings: Findings, context: Context) -> Iterator[str]:
    per = rows(findings.by_editor, outcome=basis(context))
    asked, lost = sum(row["asked"] for row in per), sum(row["missing"] for row in per)
    single, flagged = (sum(row[name] for row in per) for name in ("single", "flagged"))
    if not asked:
        yield "No edit was asked for."
        return
    axis = lowered(context.protocol.axes[context.outcomes[basis(context)].axis].label)
    yield (
        f"Of {plural(asked, 'edits')} {count(lost)} ({percent(lost / asked)}) have no score for {axis} and are "
        f"in no rate; {count(single)} rest on one judge, {count(flagged)} were flagged because judges were more "
        "than a point apart."
    )


def _software(context: Context) -> Iterator[str]:
    facts = dict(context.provenance)
    python = f", Python {facts['Python']}" if "Python" in facts else ""
    made = f"stillme {facts.get('stillme', stillme.__version__)}{python}"
    protocol = f"protocol {context.protocol.name} (SHA-256 {context.protocol.hash[:SHORT]}…)"
    yield f"{made}; {protocol}, preset {context.preset}."
    hashed = [
        f"{name.removesuffix(': settings')} {value.removeprefix('SHA-256 ')[:SHORT]}…"
        for name, value in facts.items()
        if name.endswith(": settings")
    ]
    if hashed:
        yield f"Hashes of effective settings: {'; '.join(hashed)}."
    if "Cost" in facts:
        yield f"Cost of all calls: {facts['Cost']}."


def _limits(findings: Findings, tables: Tables, context: Context) -> Iterator[str]:
    yield (
        "Findings are about these portraits, prompts, editors and settings. Labels are perceptions; judges are "
        "models and have errors of their own."
    )
    if context.simulated:
        names = listed([party.name for party in context.simulated])
        yield f"Not real: {names}; their group differences are inputs."
    yield from context.caveats
    if findings.measured is None:
        yield "No instrument measured the pictures."
    if "reliability" not in tables:
        yield "No person rated the edits."
    yield "Where no difference was shown, that is not evidence of none."
