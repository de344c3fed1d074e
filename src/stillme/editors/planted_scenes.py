"""The planted editor's scenes of two people: heads side by side, in occupations dealt out by a known rule.

    position      the person named first is the one in the first picture
    pronoun       the target has the pronoun's gender; without a pronoun that says one, by position
    stereotype    the target has the stereotyped gender with a given probability
    preserve      the target is the person in the first picture

Where one picture is given, the second person is invented: the same head with the other gender presentation. So
there is one person of each gender, and a rule decides which of them the target is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from stillme.core import images
from stillme.core.records import SHOWN_GENDER, SHOWN_ROLE
from stillme.core.yaml import StrictModel
from stillme.protocol import Protocol
from stillme.protocol.schema import GenderWords, Order, PairPrompt
from stillme.sources import heads, looks

CATEGORY = "stereotype"  # of all these prompts, where a truth file names a category
INVENTED = "gender"  # the version of a head that stands for a second person
CLEARLY = {"masculine": 1.0, "feminine": 5.0}  # on the scale that judges use
MARGIN = 56  # pixels of each side of a head's picture that a scene leaves out


class Stereotyped(StrictModel):
    """stereotype: how often the target has the stereotyped gender; else it has the other."""

    stereotype: Annotated[float, Field(ge=0, le=1)]


Rule = Literal["position", "pronoun", "preserve"] | Stereotyped


@dataclass(frozen=True)
class PromptRequest:
    """A sentence of the protocol as it was asked."""

    prompt: PairPrompt
    order: Order
    pronoun: GenderWords | None

    @property
    def roles(self) -> tuple[str, ...]:
        """Both occupations in one order, whatever the sentence was."""
        return tuple(sorted((self.prompt.target, self.prompt.other)))


@dataclass(frozen=True)
class Person:
    """A head in a role."""

    key: str
    variant: str
    role: str = ""

    @property
    def gender(self) -> str:
        return heads.load(self.key, self.variant).labels["gender"]


def sentences(protocol: Protocol) -> dict[str, PromptRequest]:
    """Every sentence about two people that the protocol knows, in every order and with every pronoun."""
    return {
        text: PromptRequest(prompt, order, words)
        for prompt in protocol.winobias.prompts
        for order, words, text in protocol.winobias.sentences(prompt)
    }


def cast(
    asked: PromptRequest, rule: Rule, keys: Sequence[str], protocol: Protocol, chance: random.Random
) -> tuple[Person, Person]:
    """Who is shown in which role, from left to right. `keys`: the heads of the pictures, one or two."""
    first, second = Person(keys[0], "base"), Person(keys[1], "base") if keys[1:] else Person(keys[0], INVENTED)
    place = _target(asked, rule, (first, second), protocol, chance)
    roles = (asked.prompt.target, asked.prompt.other)
    left, right = roles if place == 0 else roles[::-1]
    return Person(first.key, first.variant, left), Person(second.key, second.variant, right)


def _target(
    asked: PromptRequest, rule: Rule, people: Sequence[Person], protocol: Protocol, chance: random.Random
) -> int:
    """The place of the person who is the target."""
    by_position = 0 if asked.order == "first" else 1
    if rule == "preserve":
        return 0
    wanted = _wanted(asked, rule, protocol, chance)
    return next((place for place, one in enumerate(people) if one.gender == wanted), by_position)


def _wanted(asked: PromptRequest, rule: Rule, protocol: Protocol, chance: random.Random) -> str | None:
    """The gender that the target is to have; None where the place decides."""
    genders = protocol.winobias.genders
    if isinstance(rule, Stereotyped):
        follows = chance.random() < rule.stereotype
        return next(word for word in genders if (word == asked.prompt.stereotype) == follows)
    if rule == "pronoun" and asked.pronoun:
        return next(word for word, words in genders.items() if words == asked.pronoun)
    return None


def truth(asked: PromptRequest, people: Sequence[Person], protocol: Protocol) -> dict[str, float]:
    """What is shown, as plain quantities."""
    noted: dict[str, float] = {}
    for place, one in enumerate(people):
        noted[SHOWN_ROLE.format(place=place)] = float(asked.roles.index(one.role))
        noted[SHOWN_GENDER.format(place=place)] = CLEARLY[protocol.winobias.genders[one.gender].presents]
    return noted


def traits(asked: PromptRequest, key: str) -> dict[str, str]:
    """What a rate of the truth file may hang on."""
    return {**heads.load(key).labels, "prompt": asked.prompt.id, "category": CATEGORY}


def paint(asked: PromptRequest, people: Sequence[Person], protocol: Protocol) -> bytes:
    """All of them side by side, as a JPEG."""
    return images.encode(np.hstack([_panel(one.key, one.variant, _look(asked, one, protocol)) for one in people]))


@lru_cache(maxsize=64)  # the arms of a prompt show the same people in the same roles
def _panel(key: str, variant: str, look: str) -> images.Pixels:
    return looks.dress(heads.load(key, variant), look)[:, MARGIN:-MARGIN]


def _look(asked: PromptRequest, one: Person, protocol: Protocol) -> str:
    """The look of an occupation: a borrowed one of the first kind of prompts, another for each of the two."""
    every = protocol.prompts.prompts
    known = [p.id for p in every if p.category == every[0].category and p.id in looks.names()] or looks.names()
    start = sum(" ".join(asked.roles).encode())
    return known[(start + asked.roles.index(one.role)) % len(known)]
