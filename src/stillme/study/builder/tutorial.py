"""The tutorial: examples on invented heads, with a change of known size. Nobody's photograph is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stillme.core import images
from stillme.core.images import Pixels
from stillme.protocol import Protocol
from stillme.protocol.study_schema import Lesson, LessonPicture, StudyPreset
from stillme.sources import heads, looks
from stillme.study.builder.cases import OCCUPATION
from stillme.study.builder.pictures import Shelf
from stillme.study.bundle import Example


def examples(
    protocol: Protocol, lessons: tuple[Lesson, ...], preset: StudyPreset, side: int, shelf: Shelf
) -> Iterator[Example]:
    """Those of a questionnaire, in their order."""
    for lesson in lessons:
        if preset.questionnaire in lesson.questionnaires:
            source = images.lossless(heads.photograph(heads.load(lesson.head)))
            beside = None if lesson.beside is None else shelf.put(_drawn(lesson, lesson.beside, side))
            yield Example(
                prompt=_prompt(protocol, lesson, preset),
                occupation=lesson.occupation,
                source=shelf.put(images.fit_longer_side(source, side)),
                output=shelf.put(_drawn(lesson, lesson.shows, side)),
                second=beside,
                understanding=lesson.understanding,
                question=lesson.question,
                expected=lesson.expected,
                if_expected=lesson.if_expected,
                if_other=lesson.if_other,
            )


def _prompt(protocol: Protocol, lesson: Lesson, preset: StudyPreset) -> str:
    own = protocol.prompt[lesson.prompt].text
    return preset.prompt.replace(OCCUPATION, lesson.occupation) if preset.prompt else own


def _drawn(lesson: Lesson, shown: LessonPicture, side: int) -> Pixels:
    if shown.blank:
        return images.black(side)
    head = heads.load(lesson.head, shown.variant)
    if shown.delta_l:
        head = replace(head, rgb=heads.shift_skin(head.rgb, head.skin, shown.delta_l))
    picture = looks.dress(head, lesson.prompt, strength=shown.strength)
    return images.fit_longer_side(images.lossless(picture), side)
