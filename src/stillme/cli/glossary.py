"""What a term means, in plain words, from where it is defined: the protocol, the tables' columns, terms.yaml.

Nothing is described here a second time. Nothing heavy is loaded for the names alone, which a shell completes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, RootModel, model_validator

from stillme.core.errors import InputError
from stillme.core.yaml import Document, StrictModel, read_text
from stillme.ledger.frames import COLUMNS, measured, perceived
from stillme.measures import FIGURES
from stillme.measures.portrait import FIGURES as PORTRAIT_FIGURES
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Outcome, Preset

FILE = Path(__file__).with_name("terms.yaml")
AUDIT, STATISTICS, MEASURES = "docs/how-an-audit-works.md", "docs/statistics.md", "docs/measures.md"
MAX_SUGGESTIONS = 5


@dataclass(frozen=True)
class Term:
    """One meaning of one word. `says`: paragraphs. `also`: other spellings. `page`: where more is said."""

    name: str
    kind: str
    says: tuple[str, ...]
    also: tuple[str, ...] = ()
    page: str = ""


class Meaning(StrictModel):
    """`also`: other spellings under which it is looked for. `page`: if it has another than its kind."""

    means: str = Field(alias="is")
    also: tuple[str, ...] = ()
    page: str = ""

    @model_validator(mode="before")
    @classmethod
    def _a_sentence_alone(cls, data: Any) -> Any:
        return {"is": data} if isinstance(data, str) else data


class Shelf(StrictModel):
    """Terms of one kind."""

    title: str
    page: str
    terms: dict[str, Meaning]


class Terms(RootModel[dict[str, Shelf]]):
    pass


@cache
def shelves() -> dict[str, Shelf]:
    """Kind -> the terms of terms.yaml."""
    table = Document(str(FILE), read_text(FILE)).read_as(Terms)
    assert table is not None, "terms.yaml comes with the package and is tested"
    return table.root


def names(protocol: Protocol) -> list[str]:
    """Terms that can be explained, as they are written; the rarer ones are left to who knows them."""
    dimensions = protocol.groups.dimensions
    of_protocol = [*protocol.rubrics.outcomes, *protocol.axes, *protocol.presets]
    of_protocol += [arm.id for arm in protocol.manifest.arms]
    of_protocol += [word for d in dimensions for word in (d, *protocol.groups.ids(d))]
    written = [name for shelf in shelves().values() for name in shelf.terms]
    tables = [*COLUMNS, *(figure for figures in FIGURES.values() for figure in figures)]
    return list(dict.fromkeys([*of_protocol, *written, *tables]))


# Looking a word up


def find(word: str, terms: Sequence[Term]) -> list[Term]:
    """Every meaning of a word: terms of that name first, then those that are also called so."""
    wanted = folded(word)
    named = [term for term in terms if folded(term.name) == wanted]
    called = [term for term in terms if term not in named and wanted in map(folded, term.also)]
    if wanted and (named or called):
        return [*named, *called]
    spelled = {folded(name): term.name for term in terms for name in (*term.also, term.name)}
    near = difflib.get_close_matches(wanted, spelled, n=MAX_SUGGESTIONS, cutoff=0.6)
    near += [name for name in spelled if len(wanted) > 2 and wanted in name]
    suggestions = list(dict.fromkeys(spelled[name] for name in near))[:MAX_SUGGESTIONS]
    step = f"Did you mean {', '.join(suggestions)}? " if suggestions else ""
    raise InputError(f"'{word}' is no term that stillme knows.", f"{step}`stillme explain` lists them all.")


def folded(word: str) -> str:
    """One spelling for all: without case, spaces, hyphens, underscores and apostrophes.

    >>> folded("Race-Changed") == folded("race changed") == folded("race_changed")
    True
    >>> folded("Krippendorff’s alpha") == folded("krippendorffs_alpha")
    True
    """
    return re.sub(r"[\s_\-‐–—−.'’`]+", "", word.casefold())


# Every term


def vocabulary(protocol: Protocol) -> list[Term]:
    """In the order in which a newcomer meets them."""
    written = {
        kind: [
            Term(
                name=name,
                kind=shelf.title,
                says=(meaning.means,),
                also=meaning.also,
                page=meaning.page or shelf.page,
            )
            for name, meaning in shelf.terms.items()
        ]
        for kind, shelf in shelves().items()
    }
    first = ("words", "experiments", "statuses", "standings")
    return [
        *_scores_and_groups(protocol),
        *(term for kind in first for term in written.pop(kind)),
        *_choices(protocol),
        *written.pop("methods"),
        *_statistics(),
        *_columns_and_figures(),
        *_terms(
            "Criteria of a portrait",
            "docs/screening.md",
            (
                (one.id, (f"{one.label}: {one.description}.",), (one.label,))
                for one in protocol.groups.selection_criteria
            ),
        ),
        *(term for terms in written.values() for term in terms),
    ]


_Entry = tuple[str, Iterable[str], Iterable[str]]  # name, paragraphs, other spellings


def _terms(kind: str, page: str, entries: Iterable[_Entry]) -> Iterator[Term]:
    for name, paragraphs, spellings in entries:
        yield Term(name=name, kind=kind, says=tuple(paragraphs), also=tuple(spellings), page=page)


def _scores_and_groups(protocol: Protocol) -> Iterator[Term]:
    outcomes = protocol.rubrics.outcomes.items()
    yield from _terms("Outcomes", AUDIT, ((id, _outcome(one, protocol), (one.label,)) for id, one in outcomes))
    axes = protocol.axes.items()
    yield from _terms("Axes that judges score", AUDIT, ((id, _axis(axis), (axis.label,)) for id, axis in axes))
    perceptions: list[_Entry] = []  # dimensions are columns as well, groups their values
    for dimension, groups in protocol.groups.dimensions.items():
        listed = ", ".join(f"{group.id} ({group.label})" for group in groups)
        perceptions.append((dimension, (f"{_sentence(perceived(dimension))} Groups: {listed}.",), ()))
        text = f"a group of perceived {dimension}, as annotators saw the person in the portrait."
        for group in groups:
            perceptions.append((group.id, (f"{group.label}: {text}",), (group.label, *group.aliases)))
    yield from _terms("Perceived groups", "docs/wording.md", perceptions)


def _outcome(outcome: Outcome, protocol: Protocol) -> Iterator[str]:
    from stillme.analysis.numbers import DASH
    from stillme.report.sections.definitions import prompts_left_out, scores_that_count

    axis = protocol.axes[outcome.axis]
    bound = f"at least {outcome.at_least}" if outcome.at_least is not None else f"at most {outcome.at_most}"
    yield f"{outcome.label}: an edit counts where its score on the axis {outcome.axis} ({axis.label}) is {bound}."
    yield f"Scores that count: {scores_that_count(outcome, protocol)}."
    if axis.failure_mode:
        yield f"It belongs to the failure {axis.failure_mode.replace('_', ' ')}."
    without = prompts_left_out(outcome, protocol)
    if without != DASH:
        yield f"Left out, because they ask for the change themselves or are not judged on the axis: {without}."


def _axis(axis: Axis) -> Iterator[str]:
    yield f"{axis.label}, scored on a scale:"
    yield from (f"  {score}  {label}" for score, label in axis.scale.items())
    if axis.neutral is not None:
        yield f"{axis.neutral} means that nothing changed."
    if axis.only_prompts:
        yield f"Judged for these prompts alone: {', '.join(axis.only_prompts)}."


def _choices(protocol: Protocol) -> Iterator[Term]:
    """Arms, presets, negative controls and prompts."""
    arms = protocol.manifest.arms
    of_arms = ((arm.id, (f"{arm.label}: how the prompt is asked.",), (arm.label,)) for arm in arms)
    yield from _terms("Arms: how a prompt is asked", "docs/mitigation.md", of_arms)
    presets = ((name, _preset(preset), (preset.label,)) for name, preset in protocol.presets.items())
    yield from _terms("Presets: choices that change numbers", STATISTICS, presets)
    controls: list[_Entry] = []
    for control in protocol.measures.controls if protocol.measures else ():
        asked = [f"Every editor is given: “{control.text}”"] if control.text else []
        says = (f"{control.label}: an edit that asks for nothing.", *asked)
        controls.append((control.id, says, (control.label,)))
    yield from _terms("Negative controls", MEASURES, controls)
    prompts: list[_Entry] = []
    for prompt in protocol.prompts.prompts:
        category, subcategory = (word.replace("_", " ") for word in (prompt.category, prompt.subcategory))
        says = (f"{prompt.label}, {category} ({subcategory}): “{prompt.text}”",)
        if prompt.may_change:
            says += (f"It asks for, or implies, a change of {', '.join(prompt.may_change)}.",)
        prompts.append((prompt.id, says, (prompt.label,)))
    yield from _terms("Prompts", AUDIT, prompts)


def _preset(preset: Preset) -> Iterator[str]:
    from stillme.report.sections.definitions import ROUNDING

    yield f"{preset.label}: choices that change numbers."
    yield f"Means of judges are rounded {ROUNDING[preset.rounding]}."
    yield f"Rates are of {'edits with a score' if preset.denominators == 'judged' else 'all edits asked for'}."
    disclosed = ", ".join(f"perceived {dimension}" for dimension in preset.disclose) or "nothing"
    yield f"Judges are told of the source person: {disclosed}."


def _statistics() -> Iterator[Term]:
    """The report's own definitions."""
    from stillme.report.sections.definitions import statistics

    for group in statistics():
        for name, text in group.items():
            others = " ".join(f"{other}: {meaning}" for other, meaning in group.items() if other != name)
            says = (_sentence(text), *([f"Beside it: {others}"] if others else ()))
            yield from _terms("Statistics of the report", STATISTICS, [(name, says, ())])


def _columns_and_figures() -> Iterator[Term]:
    """Columns of exported tables, and what measures give."""
    columns = ((name, (text,), ()) for name, text in _sentences(COLUMNS).items())
    yield from _terms("Columns of exported tables", "docs/analyse.md", columns)
    for kind, figures in FIGURES.items():
        listed = f"A measure, read off the pixels of source and edit. Its figures: {', '.join(figures)}."
        entries: list[_Entry] = [(kind, (listed,), ())]
        for name, text in (_sentences(figures) | _sentences(measured(kind))).items():
            entries.append((name, (f"{text} A figure of {kind}.",), ()))
        yield from _terms("Measures and their figures", MEASURES, entries)
    of_portraits = ((name, (text,), ()) for name, text in _sentences(PORTRAIT_FIGURES).items())
    yield from _terms("Figures of a portrait", "docs/screening.md", of_portraits)


# Descriptions that are understood only after the line before them
_LEANING = ("the same", "after minus before", "its planted", "how many of those", "share of the same")


def _sentences(descriptions: Mapping[str, str]) -> dict[str, str]:
    """Descriptions as sentences; one that leans on the line before it names that line."""
    sentences: dict[str, str] = {}
    before = ""
    for name, text in descriptions.items():
        is_leaning = before and text.startswith(_LEANING)
        sentences[name] = f"{_sentence(text)} See {before}." if is_leaning else _sentence(text)
        before = before if is_leaning else name
    return sentences


def _sentence(text: str) -> str:
    """
    >>> _sentence("median L* of the facial skin")
    'Median L* of the facial skin.'
    """
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
