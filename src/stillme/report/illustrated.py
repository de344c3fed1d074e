"""Which drawn figure stands in which section. Only in pages that have analysis tables: drawing takes time, and the
page that a run writes as it goes does without.

A section that has no table behind its figure stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from stillme.analysis.numbers import capital, listed, lowered
from stillme.report import plots
from stillme.report.blocks import Beside, Block, Fold, Heading, Section
from stillme.report.context import Context
from stillme.report.figures import Figure
from stillme.report.lookup import Tables, change_axes
from stillme.report.plots.stereotypes import beside, followed
from stillme.report.sections.stereotypes import SENTENCES
from stillme.stats.findings import Findings


def illustrate(
    sections: Sequence[Section], findings: Findings | None, tables: Tables, context: Context
) -> list[Section]:
    """The sections with their figures, each before the first thing that is folded."""
    if findings is None or not tables:
        return [_with(section, tuple(_apart(section.id, tables, context))) for section in sections]
    return [_with(section, tuple(_figures(section.id, findings, tables, context))) for section in sections]


def _with(section: Section, figures: tuple[Block, ...]) -> Section:
    """A figure that says more of the same takes the place of the section's first plain one."""
    if section.id in ("groups", "refusals") and figures:
        return replace(section, blocks=tuple(_in_place(section.blocks, figures[0])))
    places = [n for n, block in enumerate(section.blocks) if isinstance(block, Heading | Fold)]
    place = places[0] if places else len(section.blocks)
    return replace(section, blocks=(*section.blocks[:place], *figures, *section.blocks[place:]))


def _in_place(blocks: Sequence[Block], drawn: Block) -> Iterator[Block]:
    done = False
    for block in blocks:
        if isinstance(block, Beside) and not done:
            done = True
            yield Beside(tuple(drawn if isinstance(one, Figure) else one for one in block.blocks))
        elif isinstance(block, Figure) and not done:
            done = True
            yield drawn
        else:
            yield block


def _figures(id: str, findings: Findings, tables: Tables, context: Context) -> Iterator[Block]:
    by, outcome = context.main.by, context.main.outcome
    if id == "refusals" and findings.refusals.refused:
        title = f"Refusals by perceived {by}, by where they came from"
        yield plots.refusal_bars("drawn-refusals", title, findings.refusals.by_group, context, by)
    elif id == "disparity":
        frame = tables[f"disparity_by_{by}"]
        yield plots.ladder("drawn-disparity", f"Disparity by perceived {by}", frame, context)
        yield from _forests(tables, context)
    elif id == "skin-tone":
        yield from _skin(findings, tables, context)
    elif id == "components" and tables["components"].height:
        yield plots.components(
            "drawn-components", "Shares of the variance, by axis", tables["components"], context
        )
    elif id == "mitigation":
        yield from _arms(tables, context)
    elif id == "people" and "corrected_rates" in tables:
        yield from _corrected(tables, context)
    elif id == "groups" and f"outcomes_by_{by}" in tables:
        title = f"{context.outcomes[outcome].label} by perceived {by}, naive and adjusted"
        yield plots.forest("drawn-groups", title, tables[f"outcomes_by_{by}"], context, outcome, by)
    yield from _apart(id, tables, context)
    yield from _cells(id, tables, context)


def _apart(id: str, tables: Tables, context: Context) -> Iterator[Block]:
    """What needs no main tables."""
    if id == "stereotypes" and "stereotype_adherence" in tables:
        yield from _stereotypes(tables, context)


def _forests(tables: Tables, context: Context) -> Iterator[Block]:
    """The other contrasted outcomes; that of the main table stands with it."""
    by = context.main.by
    for name in context.tables.contrasts:
        if name != context.main.outcome and f"outcomes_by_{by}" in tables:
            label = context.outcomes[name].label
            title = f"{label} by perceived {by}, naive and adjusted"
            drawn = plots.forest(
                f"drawn-{name}".replace("_", "-"), title, tables[f"outcomes_by_{by}"], context, name, by
            )
            yield Fold(f"{label}: the interval over persons beside the naive one", "figure", (drawn,))


def _skin(findings: Findings, tables: Tables, context: Context) -> Iterator[Block]:
    by = context.main.by
    shown = context.tables.panels
    if f"outcomes_by_{by}" in tables and shown:
        title = f"{listed([lowered(context.outcomes[name].label) for name in shown])} by perceived {by}"
        yield plots.bars("drawn-bars", capital(title), tables[f"outcomes_by_{by}"], context, by, shown)
    tones = None if findings.measured is None else findings.measured.tones
    if tones is not None and tones.height:
        title = "Measured skin on the Monk scale, source to edit (describes pictures; light moves it too)"
        yield plots.flow("drawn-tones", title, tones, context)


def _arms(tables: Tables, context: Context) -> Iterator[Block]:
    if "mitigation_effects" in tables:
        yield plots.arms("drawn-arms", "What each arm changes", tables["mitigation_effects"], context)
    leading = [arm.id for arm in context.protocol.manifest.arms if arm.lead == "features"]
    frame = tables.get("mitigation_by_group")
    if frame is None:
        return
    own = frame.filter(pl.col("arm").is_in(leading))
    arms = {one.id: lowered(one.label) for one in context.protocol.manifest.arms}
    for arm, against in own.select("arm", "against").unique(maintain_order=True).iter_rows():
        title = f"Before and after by perceived {context.main.by}: {arms[against]}, {arms[arm]}"
        pair = f"{arm}-{against}" if own["arm"].n_unique() > 1 else against
        yield plots.slopes(f"drawn-slopes-{pair}", title, frame, context, context.main.by, arm, against)


def _stereotypes(tables: Tables, context: Context) -> Iterator[Block]:
    """Adherence beside the gap, what is followed, and the same by occupation."""
    raw, gaps, effects = (tables.get(f"stereotype_{name}") for name in ("adherence", "gaps", "effects"))
    assert raw is not None
    balanced = gaps is not None and gaps["gap"].null_count() < gaps.height
    both = beside(raw, gaps, "sentences")
    sentences = {name: label for name, label in SENTENCES.items() if name in set(both["group"])}
    title = "How often an occupation gets its stereotyped gender"
    yield plots.stereotypes("drawn-stereotypes", title, both, context, sentences, balanced)
    if balanced and gaps is not None and effects is not None:
        joint = "stereotype_flips" not in tables or not tables["stereotype_flips"].height
        what = followed(effects, gaps)
        yield plots.cues("drawn-cues", "What an editor follows, everything else balanced", what, context, joint)
    if (each := tables.get("stereotype_occupations")) is not None and each.height:
        own = each.rename({"target": "group"})
        targets = {name: name for name in own["group"].unique(maintain_order=True)}
        title = "Adherence and gap by occupation"
        drawn = plots.stereotypes("drawn-occupations", title, own, context, targets, balanced)
        yield Fold(f"{title}: figure", "few prompts each: to look at, not to claim", (drawn,))


def _corrected(tables: Tables, context: Context) -> Iterator[Block]:
    dimension, _ = context.contrasted
    name = context.main.outcome
    for party in context.editors:
        title = f"{context.outcomes[name].label}, {party.name}: judges, raters, corrected"
        drawn = plots.corrected(
            f"drawn-corrected-{party.id}", title, tables["corrected_rates"], context, name, dimension, party.id
        )
        yield Fold(title, "figure", (drawn,))


def _cells(id: str, tables: Tables, context: Context) -> Iterator[Block]:
    """Heat maps, and scores over their scales."""
    dimension, _ = context.contrasted
    if id == "prompts-by-group":
        frame = tables[f"shrunken_by_{dimension}"]
        for name in dict.fromkeys([context.main.outcome, *context.tables.contrasts]):
            title = f"{context.outcomes[name].label} by prompt and perceived {dimension}"
            drawn = plots.heatmap(f"drawn-cells-{name}".replace("_", "-"), title, frame, context, name, dimension)
            yield drawn if name == context.main.outcome else Fold(f"{title}: heat map", "figure", (drawn,))
    if id == "distributions":
        frame = tables[f"distributions_by_{context.main.by}"]
        main = context.protocol.axes[context.outcomes[context.main.outcome].axis]
        for axis in [main, *change_axes(context)]:
            title = f"{axis.label} by perceived {context.main.by}"
            drawn = plots.distributions(
                f"drawn-{axis.id}".replace("_", "-"), title, frame, context, axis.id, context.main.by
            )
            yield drawn if axis is main else Fold(f"{title}: figure", "the whole scale", (drawn,))
