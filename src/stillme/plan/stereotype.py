"""Experiment 3: which portraits meet which sentence about two occupations, in which orders. Pure.

The two portraits of a prompt differ in gender only: they come from one cell of the other dimensions. Every editor
and every arm gets the same ones.

In the published arm everything points one way: the target is named first, the pronoun agrees with the stereotype,
and so does the first portrait where both are sent. The counterbalanced arms are every other combination. The
published one is a cell of that full set and is asked once, under its own name: an analysis of the whole set goes
by what `about` says of a scene, not by the names of arms.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from stillme.core.errors import InputError
from stillme.core.records import Portrait
from stillme.protocol import Protocol
from stillme.protocol.schema import JOINT, PUBLISHED, Cue, GenderWords, Order, PairPrompt

GENDER = "gender"  # the dimension in which the two portraits of a prompt differ
NEUTRAL = "they"  # the pronoun that names no gender
SWAPPED = "swapped"  # the first of two portraits is not of the stereotyped gender


@dataclass(frozen=True)
class Scene:
    """One request: a sentence, and the portrait or the two that it starts from.

    about: `mode`; `target`, `other`, `stereotype`; `pronoun` (none, they, or a gender's own) and what it points
    at, `cue` (none, neutral, pro or anti the stereotype); `order`: whether the target is named first or second;
    `source`: the gender of the first portrait; `congruent`: whether that is the stereotyped one.
    """

    prompt: str
    arm: str
    text: str
    portrait: Portrait
    partner: Portrait | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


Pair = Mapping[str, Portrait]  # gender -> portrait


@dataclass(frozen=True)
class _Sentence:
    """A prompt in one order with one pronoun."""

    prompt: PairPrompt
    order: Order
    pronoun: str
    cue: Cue
    text: str

    @property
    def is_published(self) -> bool:
        return self.text == self.prompt.text

    @property
    def words(self) -> tuple[str, ...]:
        return (self.order,) if self.cue is Cue.NONE else (self.pronoun, self.order)


def scenes(
    protocol: Protocol,
    portraits: Sequence[Portrait],
    prompts: Sequence[str],
    mode: str,
    counterbalanced: bool,
    seed: int,
) -> Iterator[Scene]:
    """Prompt by prompt, the published arm first."""
    drawn = pairs(protocol, portraits, len(prompts), seed)
    for name, pair in zip(prompts, drawn, strict=True):
        prompt = protocol.pair[name]
        for sentence in sentences(protocol, prompt, counterbalanced):
            for first, second in _starts(prompt, pair, mode, counterbalanced):
                swapped = mode == JOINT and first != prompt.stereotype
                partner = pair[second] if second else None
                about = _about(sentence, mode, first)
                yield Scene(name, _arm(sentence, swapped), sentence.text, pair[first], partner, about)


def _starts(prompt: PairPrompt, pair: Pair, mode: str, counterbalanced: bool) -> list[tuple[str, str | None]]:
    """The genders of the first portrait and of the second, if any.

    Of two, the stereotyped gender stands first, as the paper's figure shows it; and where wanted the other.
    """
    if mode != JOINT:
        return [(gender, None) for gender in pair]
    both = sorted(pair, key=lambda gender: gender != prompt.stereotype)
    return [(both[0], both[1]), (both[1], both[0])] if counterbalanced else [(both[0], both[1])]


def _arm(sentence: _Sentence, swapped: bool) -> str:
    if sentence.is_published and not swapped:
        return PUBLISHED
    return "_".join((*sentence.words, SWAPPED) if swapped else sentence.words)


def _about(sentence: _Sentence, mode: str, source: str) -> dict[str, Any]:
    prompt = sentence.prompt
    return {
        "mode": mode,
        "target": prompt.target,
        "other": prompt.other,
        "stereotype": prompt.stereotype,
        "pronoun": sentence.pronoun,
        "cue": sentence.cue.value,
        "order": sentence.order,
        "source": source,
        "congruent": source == prompt.stereotype,
    }


def sentences(protocol: Protocol, prompt: PairPrompt, counterbalanced: bool) -> Iterator[_Sentence]:
    """The sentence as published, and where wanted every other one of pronoun × named order."""
    every = protocol.winobias.sentences(prompt)
    for order, words, text in every if counterbalanced else islice(every, 1):
        yield _sentence(protocol, prompt, order, words, text)


def _sentence(
    protocol: Protocol, prompt: PairPrompt, order: Order, words: GenderWords | None, text: str
) -> _Sentence:
    if prompt.pronoun is None:
        return _Sentence(prompt, order, Cue.NONE.value, Cue.NONE, text)
    if words is None:
        return _Sentence(prompt, order, NEUTRAL, Cue.NEUTRAL, text)
    agrees = words == protocol.winobias.genders[prompt.stereotype]
    return _Sentence(prompt, order, words.they, Cue.PRO if agrees else Cue.ANTI, text)


# Which portraits


def pairs(protocol: Protocol, portraits: Sequence[Portrait], number: int, seed: int) -> Iterator[Pair]:
    """So many pairs, each from one cell of the other dimensions: races as even as can be, then ages."""
    cells = _cells(protocol, portraits)
    _require(cells, protocol)
    chance = random.Random(seed)  # noqa: S311 (a draw, not a secret)
    turns = {race: cycle(_shuffled(some, chance)) for race, some in _by_first(cells).items()}
    people = {cell: {g: cycle(_shuffled(some, chance)) for g, some in c.items()} for cell, c in cells.items()}
    for race, _ in zip(cycle(_shuffled(list(turns), chance)), range(number), strict=False):
        chosen = people[next(turns[race])]
        yield {gender: next(turn) for gender, turn in chosen.items()}


_Cell = tuple[str, ...]


def _cells(protocol: Protocol, portraits: Sequence[Portrait]) -> dict[_Cell, dict[str, list[Portrait]]]:
    """Cell of the other dimensions -> gender -> portraits; only cells that have somebody of each gender."""
    others = [name for name in protocol.groups.dimensions if name != GENDER]
    genders = list(protocol.winobias.genders)
    cells: dict[_Cell, dict[str, list[Portrait]]] = {}
    for portrait in sorted(portraits, key=lambda one: one.key):
        labels = portrait.labels
        if labels.get(GENDER) in genders and all(name in labels for name in others):
            cell = cells.setdefault(tuple(labels[name] for name in others), {word: [] for word in genders})
            cell[labels[GENDER]].append(portrait)
    return {cell: found for cell, found in sorted(cells.items()) if all(found.values())}


def _by_first(cells: Mapping[_Cell, object]) -> dict[str, list[_Cell]]:
    """Race -> its cells."""
    found: dict[str, list[_Cell]] = {}
    for cell in cells:
        found.setdefault(cell[0], []).append(cell)
    return found


def _shuffled(things: Sequence[Any], chance: random.Random) -> list[Any]:
    return chance.sample(things, len(things))


def _require(cells: Mapping[_Cell, object], protocol: Protocol) -> None:
    if not cells:
        both = " and one of ".join(f"'{word}'" for word in protocol.winobias.genders)
        others = " and ".join(name for name in protocol.groups.dimensions if name != GENDER)
        raise InputError(
            f"The stereotype experiment needs portraits that differ in {GENDER} only: one of {both} of the same "
            f"{others}. The sources have no such two.",
            "Add portraits, or leave the experiment 'stereotype' out.",
        )
