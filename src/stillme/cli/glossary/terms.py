"""Every term that can be explained, taken from where it is defined; nothing is described here a second time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stillme.analysis.numbers import DASH
from stillme.cli.glossary.names import shelves
from stillme.ledger.frames import COLUMNS, measured, perceived
from stillme.measures import FIGURES
from stillme.measures.portrait import FIGURES as OF_PORTRAITS
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Outcome, Preset
from stillme.report.sections import definitions

AUDIT, STATISTICS = "docs/how-an-audit-works.md", "docs/statistics.md"


@dataclass(frozen=True)
class Term:
    """One meaning of one word. `says`: paragraphs. `also`: other spellings. `page`: where it is told at length."""

    name: str
    kind: str
    says: tuple[str, ...]
    also: tuple[str, ...] = ()
    page: str = ""


def vocabulary(protocol: Protocol) -> list[Term]:
    """In the order in which a newcomer meets them."""
    written = {kind: list(_written(kind)) for kind in shelves()}
    first = ("words", "experiments", "statuses", "standings")
    return [
        *_outcomes(protocol),
        *_axes(protocol),
        *_groups(protocol),
        *(term for kind in first for term in written.pop(kind)),
        *_arms(protocol),
        *_presets(protocol),
        *_controls(protocol),
        *_prompts(protocol),
        *written.pop("methods"),
        *_reported(),
        *_columns(),
        *_figures(),
        *_criteria(protocol),
        *(term for terms in written.values() for term in terms),
    ]


def _written(kind: str) -> Iterator[Term]:
    shelf = shelves()[kind]
    for name, one in shelf.terms.items():
        yield Term(name, shelf.title, (one.means,), one.also, one.page or shelf.page)


def _outcomes(protocol: Protocol) -> Iterator[Term]:
    for name, outcome in protocol.rubrics.outcomes.items():
        yield Term(name, "Outcomes", tuple(_outcome(outcome, protocol)), (outcome.label,), AUDIT)


def _outcome(outcome: Outcome, protocol: Protocol) -> Iterator[str]:
    axis = protocol.axes[outcome.axis]
    bound = f"at least {outcome.at_least}" if outcome.at_least is not None else f"at most {outcome.at_most}"
    yield f"{outcome.label}: an edit counts where its score on the axis {outcome.axis} ({axis.label}) is {bound}."
    yield f"Scores that count: {definitions.scores_that_count(outcome, protocol)}."
    if axis.failure_mode:
        yield f"It belongs to the failure {_spoken(axis.failure_mode)}."
    without = definitions.prompts_left_out(outcome, protocol)
    if without != DASH:
        yield f"Left out, because they ask for the change themselves or are not judged on the axis: {without}."


def _spoken(word: str) -> str:
    return word.replace("_", " ")


def _axes(protocol: Protocol) -> Iterator[Term]:
    for name, axis in protocol.axes.items():
        yield Term(name, "Axes that judges score", tuple(_axis(axis)), (axis.label,), AUDIT)


def _axis(axis: Axis) -> Iterator[str]:
    yield f"{axis.label}, scored on a scale:"
    yield from (f"  {score}  {said}" for score, said in axis.scale.items())
    if axis.neutral is not None:
        yield f"{axis.neutral} means that nothing changed."
    if axis.only_prompts:
        yield f"Judged for these prompts alone: {', '.join(axis.only_prompts)}."


def _groups(protocol: Protocol) -> Iterator[Term]:
    """Dimensions are columns as well; their groups are values there."""
    page = "docs/wording.md"
    for dimension, groups in protocol.groups.dimensions.items():
        told = ", ".join(f"{group.id} ({group.label})" for group in groups)
        yield Term(
            dimension, "Perceived groups", (f"{_sentence(perceived(dimension))} Groups: {told}.",), page=page
        )
        for group in groups:
            said = (
                f"{group.label}: a group of perceived {dimension}, as annotators saw the person in the portrait."
            )
            yield Term(group.id, "Perceived groups", (said,), (group.label, *group.aliases), page)


def _arms(protocol: Protocol) -> Iterator[Term]:
    for arm in protocol.manifest.arms:
        said = f"{arm.label}: how the prompt is asked."
        yield Term(arm.id, "Arms: how a prompt is asked", (said,), (arm.label,), "docs/mitigation.md")


def _presets(protocol: Protocol) -> Iterator[Term]:
    for name, preset in protocol.presets.items():
        yield Term(
            name, "Presets: choices that change numbers", tuple(_preset(preset)), (preset.label,), STATISTICS
        )


def _preset(preset: Preset) -> Iterator[str]:
    yield f"{preset.label}: choices that change numbers."
    yield f"Means of judges are rounded {definitions.ROUNDING[preset.rounding]}."
    yield f"Rates are of {'edits with a score' if preset.denominators == 'judged' else 'all edits asked for'}."
    told = ", ".join(f"perceived {d}" for d in preset.disclose) or "nothing"
    yield f"Judges are told of the source person: {told}."


def _controls(protocol: Protocol) -> Iterator[Term]:
    for control in protocol.measures.controls if protocol.measures else ():
        said = [f"{control.label}: an edit that asks for nothing."]
        said += [f"Every editor is given: “{control.text}”"] if control.text else []
        yield Term(control.id, "Negative controls", tuple(said), (control.label,), "docs/measures.md")


def _prompts(protocol: Protocol) -> Iterator[Term]:
    for prompt in protocol.prompts.prompts:
        about = f"{prompt.label}, {_spoken(prompt.category)} ({_spoken(prompt.subcategory)}): “{prompt.text}”"
        may = f"It asks for, or implies, a change of {', '.join(prompt.may_change)}." if prompt.may_change else ""
        yield Term(prompt.id, "Prompts", tuple(filter(None, (about, may))), (prompt.label,), AUDIT)


def _reported() -> Iterator[Term]:
    """The report's own definitions."""
    for group in definitions.statistics():
        for name, said in group.items():
            beside = [f"{other}: {told}" for other, told in group.items() if other != name]
            further = (f"Beside it: {' '.join(beside)}",) if beside else ()
            yield Term(name, "Statistics of the report", (_sentence(said), *further), page=STATISTICS)


def _columns() -> Iterator[Term]:
    for name, said in _whole(COLUMNS).items():
        yield Term(name, "Columns of exported tables", (said,), page="docs/analyse.md")


def _figures() -> Iterator[Term]:
    page = "docs/measures.md"
    for kind, figures in FIGURES.items():
        told = f"A measure, read off the pixels of source and edit. Its figures: {', '.join(figures)}."
        yield Term(kind, "Measures and their figures", (told,), page=page)
        for name, said in (_whole(figures) | _whole(measured(kind))).items():
            yield Term(name, "Measures and their figures", (f"{said} A figure of {kind}.",), page=page)
    for name, said in _whole(OF_PORTRAITS).items():
        yield Term(name, "Figures of a portrait", (said,), page="docs/screening.md")


def _criteria(protocol: Protocol) -> Iterator[Term]:
    for one in protocol.groups.selection_criteria:
        said = f"{one.label}: {one.description}."
        yield Term(one.id, "Criteria of a portrait", (said,), (one.label,), "docs/screening.md")


def _whole(described: Mapping[str, str]) -> dict[str, str]:
    """Descriptions as sentences; one that leans on the line before it names that line."""
    leaning = ("the same", "after minus before", "its planted", "how many of those", "share of the same")
    told: dict[str, str] = {}
    before = ""
    for name, said in described.items():
        leans = before if said.startswith(leaning) else ""
        told[name] = f"{_sentence(said)} See {leans}." if leans else _sentence(said)
        before = leans or name
    return told


def _sentence(said: str) -> str:
    """
    >>> _sentence("median L* of the facial skin")
    'Median L* of the facial skin.'
    """
    return f"{said[0].upper()}{said[1:].rstrip('.')}."
