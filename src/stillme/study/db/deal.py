"""What one rater sees: the items of a task in an order of their own, outputs left and right, attention checks.

Drawn from a seed, once; what was drawn is stored with the rater's seat, so it stays the same whatever becomes of
this module.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cached_property

from pydantic import Field

from stillme.core.yaml import StrictModel
from stillme.study.bundle import CANNOT_DETERMINE, CHECK, COMMENT, LEFT, RIGHT, Bundle, Question


class Check(StrictModel):
    """An attention check: which option has to be chosen, and before which of the screen's questions it stands."""

    option: int = Field(gt=0)  # the number that people see
    of: str  # the question whose options it borrows
    before: int = Field(ge=0)

    @property
    def field(self) -> str:
        return CHECK


class Screen(StrictModel):
    """One item as one rater sees it. `order`: its outputs from left to right."""

    item: str
    order: tuple[str, ...]
    check: Check | None = None

    @property
    def place(self) -> Mapping[str, str]:
        """Output -> where it is shown."""
        return dict(zip(self.order, (LEFT, RIGHT), strict=False))


class Deal(StrictModel):
    """All screens of one rater, in their order."""

    screens: tuple[Screen, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Item -> its number, from 1."""
        return {screen.item: number for number, screen in enumerate(self.screens, start=1)}


def deal(bundle: Bundle, task: str, seed: str) -> Deal:
    """The same seed gives the same; checks are spread over distinct screens at random."""
    chance = random.Random(f"{bundle.hash}\0{task}\0{seed}")  # noqa: S311 (a draw, not a secret)
    items = list(bundle.task[task].items)
    chance.shuffle(items)
    low, high = bundle.settings.checks.count
    checked = set(chance.sample(range(len(items)), min(chance.randint(low, high), len(items))))
    return Deal(
        screens=tuple(
            Screen(
                item=item,
                order=_order(bundle, item, chance),
                check=_check(bundle, chance) if place in checked else None,
            )
            for place, item in enumerate(items)
        )
    )


def _order(bundle: Bundle, item: str, chance: random.Random) -> tuple[str, ...]:
    ids = [output.id for output in bundle.item[item].outputs]
    chance.shuffle(ids)
    return tuple(ids)


def _check(bundle: Bundle, chance: random.Random) -> Check:
    of = chance.choice(bundle.questions)
    asked = len(bundle.questions) * (2 if bundle.is_each else 1)
    option = chance.randint(1, len(of.options))
    return Check(option=option, of=of.id, before=chance.randrange(1, asked) if asked > 1 else 0)


def questions(bundle: Bundle, screen: Screen) -> Iterator[tuple[str, str, Question]]:
    """(field, output, question) of all that a screen asks, in its order; the output is empty where a question is
    about the whole screen. The check's question is the one whose options it borrows."""
    outputs = screen.order if bundle.is_each else ("",)
    asked = [
        (f"{output}.{question.id}" if output else question.id, output, question)
        for output in outputs
        for question in bundle.questions
    ]
    for place, (field, output, question) in enumerate(asked):
        if screen.check is not None and screen.check.before == place:
            yield CHECK, output, bundle.question[screen.check.of]
        yield field, output, question


def allowed(bundle: Bundle, screen: Screen) -> Mapping[str, frozenset[str]]:
    """Field -> the values that it may have. Comments are free text and not here."""
    return {
        field: question.values - {CANNOT_DETERMINE} if field == CHECK else question.values
        for field, _, question in questions(bundle, screen)
    }


def is_passed(bundle: Bundle, screen: Screen, value: str) -> bool:
    """Whether an attention check was answered as it asks."""
    assert screen.check is not None
    return bundle.question[screen.check.of].options[screen.check.option - 1].value == value


__all__ = ["COMMENT", "Check", "Deal", "Screen", "allowed", "deal", "is_passed", "questions"]
