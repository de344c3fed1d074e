"""The tutorial: examples with feedback. Each is over once it was answered as expected, or after two tries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from stillme.study.bundle import CANNOT_DETERMINE, Bundle, Example, Question
from stillme.study.db import people
from stillme.study.db.tables import lesson

MOST_TRIES = 2  # then the explanation is shown, and people go on


@dataclass(frozen=True)
class Lesson:
    """How somebody did at one example."""

    tries: int
    right: bool


@dataclass(frozen=True)
class Choice:
    """An answer as the tutorial shows it; `number` is 0 where it has none."""

    value: str
    number: int
    label: str
    detail: str = ""


Known = Mapping[int, Lesson]


def read(connection: Connection, person: str) -> Known:
    """Example, counted from 1 -> how the person did."""
    rows = connection.execute(
        select(lesson.c.example, lesson.c.tries, lesson.c.right).where(lesson.c.participant == person)
    )
    return {row.example: Lesson(row.tries, bool(row.right)) for row in rows}


def is_over(one: Lesson | None) -> bool:
    return one is not None and (one.right or one.tries >= MOST_TRIES)


def is_all_over(bundle: Bundle, known: Known) -> bool:
    return all(is_over(known.get(number)) for number in range(1, len(bundle.tutorial) + 1))


def first_open(bundle: Bundle, known: Known) -> int:
    """The first example that is not over, else the last."""
    last = len(bundle.tutorial)
    return next((number for number in range(1, last) if not is_over(known.get(number))), last)


def answer(
    connection: Connection, bundle: Bundle, person: str, number: int, value: str, tries: str, now: float
) -> Known:
    """Notes an answer, if the example is open and this answer is the next one: `tries` is what the page had
    counted, so that a form sent twice counts once. What is known afterwards."""
    known = read(connection, person)
    one = known.get(number, Lesson(0, False))
    is_next = 0 < number <= first_open(bundle, known) and tries == str(one.tries)
    if not is_next or is_over(one):
        return known
    example = bundle.tutorial[number - 1]
    if value not in bundle.question[example.question].values:
        return known
    people.learn(connection, person, number, value, value in example.expected, now)
    return read(connection, person)


def page(bundle: Bundle, number: int, one: Lesson | None) -> dict[str, Any]:
    """What the page of an example shows."""
    example = bundle.tutorial[number - 1]
    question = bundle.question[example.question]
    choices = list(_choices(question))
    feedback = "" if one is None else example.if_expected if one.right else example.if_other
    return {
        "number": number,
        "example": example,
        "question": question,
        "options": choices,
        "tries": one.tries if one else 0,
        "is_right": one is not None and one.right,
        "is_over": is_over(one),
        "feedback": feedback,
        "expected": _told(example, choices) if is_over(one) and one and not one.right else "",
    }


def _choices(question: Question) -> Iterator[Choice]:
    for number, option in enumerate(question.options, start=1):
        yield Choice(option.value, number, option.label, option.detail)
    if question.cannot_determine:
        yield Choice(CANNOT_DETERMINE, 0, "Cannot determine")


def _told(example: Example, choices: list[Choice]) -> str:
    """The expected answers in words."""
    meant = [one for one in choices if one.value in example.expected]
    return " or ".join(f"{one.number} ({one.label})" if one.number else one.label for one in meant)
