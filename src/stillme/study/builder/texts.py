"""What raters read: guide, consent, debrief and questions, all filled in. The words are the protocol's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from stillme.core.errors import InputError
from stillme.core.records import digest
from stillme.protocol import Protocol, study_schema
from stillme.protocol.study_schema import StudyPreset, StudySection, StudyTexts
from stillme.study.bundle import CANNOT_DETERMINE, Consent, Option, Question, Section, Texts

Places = Mapping[str, str]
_PLACE = re.compile(r"\{([^{}]*)\}")


def texts(
    protocol: Protocol, words: StudyTexts, preset: StudyPreset, places: Places, asked: Iterable[Question]
) -> Texts:
    rules = protocol.study_rules
    listed = Section(title=words.questions, points=tuple(question.text for question in asked))
    guide = [*sections(words.guide, preset.id, places), listed]
    first, *others = sections(words.debrief, preset.id, places)
    thanks = first.model_copy(update={"points": (*first.points, *rules.debrief)})
    return Texts(
        guide=tuple(guide),
        consent=consent(protocol, words, preset, places),
        debrief=(thanks, *others),
        comment=rules.comment_box,
        check=rules.attention_checks.wording,
        contact=places["contact"],
    )


def sections(wanted: Iterable[StudySection], preset: str, places: Places) -> list[Section]:
    """Those of a preset; one that has nothing left to say is left out."""
    found = []
    for one in wanted:
        paragraphs, points = (tuple(_filled(some, places)) for some in (one.paragraphs, one.points))
        if (not one.presets or preset in one.presets) and (paragraphs or points):
            found.append(Section(title=fill(one.title, places), paragraphs=paragraphs, points=points))
    return found


def _filled(lines: Iterable[str], places: Places) -> Iterator[str]:
    for line in lines:
        if all(places[word] for word in _PLACE.findall(line)):
            yield fill(line, places)


def fill(line: str, places: Places) -> str:
    return _PLACE.sub(lambda place: places[place[1]], line)


def consent(protocol: Protocol, words: StudyTexts, preset: StudyPreset, places: Places) -> Consent:
    """The form; its version is the hash of what it says, so that another wording is another version."""
    parts = sections(words.consent, preset.id, places)
    statements = tuple(_filled(words.statements, places))
    said = digest("consent", sections=[part.model_dump() for part in parts], statements=list(statements))
    minimum = protocol.study_rules.consent.minimum_age
    return Consent(version=said[:12], sections=tuple(parts), statements=statements, minimum_age=minimum)


# Questions


def questions(protocol: Protocol, preset: StudyPreset, version: str | None) -> tuple[Question, ...]:
    """As the questionnaire says; `version`: which wording, where a question has two."""
    sheet, every = protocol.questionnaires[preset.questionnaire], protocol.asked(preset.questionnaire)
    known = {word for one in every for word in (one.version, one.alternative and one.alternative.version) if word}
    if version is not None and version not in known:
        told = f"has the versions {', '.join(sorted(known))}" if known else "has one wording only"
        raise InputError(f"There is no version '{version}' of the questions: {preset.questionnaire} {told}.")
    return tuple(_question(one, sheet.choice_labels, version, preset.guidelines) for one in every)


def _question(
    one: study_schema.Question, labels: Mapping[str, str], version: str | None, more: tuple[str, ...]
) -> Question:
    text, options, guidelines = one.text, one.options, one.guidelines
    if version is not None and one.alternative is not None and one.alternative.version == version:
        text, options = one.alternative.text, one.alternative.options
        guidelines = one.alternative.guidelines
    return Question(
        id=one.id,
        text=text,
        kind="choice" if options is None else "scale",
        options=tuple(_options(options, one.choices or (), labels)),
        cannot_determine=one.cannot_determine is not False,
        guidelines=(*guidelines, *more),
        examples=one.examples,
    )


def _options(
    scale: Mapping[int, tuple[str, str]] | None, choices: Iterable[str], labels: Mapping[str, str]
) -> Iterator[Option]:
    for number, (label, detail) in sorted((scale or {}).items()):
        yield Option(value=str(number), label=label, detail=detail)
    for word in choices:
        if word != CANNOT_DETERMINE:
            yield Option(value=word, label=labels.get(word, word.replace("_", " ").capitalize()))
