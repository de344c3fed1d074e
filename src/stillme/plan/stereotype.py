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
from stillme.protocol.schema import JOINT, PUBLISHED, Cue, Order, PairPrompt

GENDER = "gender"  # the dimension in which the two portraits of a prompt differ
NEUTRAL = "they"  # the pronoun that names no gender
SWAPPED = "swapped"  # the first of two portraits is not of the stereotyped gender


@dataclass(frozen=True)
class StereotypePrompt:
    """One request: a sentence, and the portrait or the two that it starts from.

    metadata: `mode`; `target`, `other`, `stereotype`; `pronoun` (none, they, or a gender's own) and what it points
    at, `cue` (none, neutral, pro or anti the stereotype); `order`: whether the target is named first or second;
    `source`: the gender of the first portrait; `congruent`: whether that is the stereotyped one.
    """

    prompt: str
    arm: str
    text: str
    portrait: Portrait
    partner: Portrait | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
) -> Iterator[StereotypePrompt]:
    """Prompt by prompt, the published arm first."""
    for name, pair in zip(prompts, pairs(protocol, portraits, len(prompts), seed), strict=True):
        prompt = protocol.pair[name]
        # Of two portraits the stereotyped gender is the first, as the paper's figure shows it.
        ordered = sorted(pair, key=lambda gender: gender != prompt.stereotype)
        starts: Sequence[tuple[str, str | None]] = [(gender, None) for gender in pair]
        if mode == JOINT:
            starts = [(ordered[0], ordered[1]), (ordered[1], ordered[0])][: 2 if counterbalanced else 1]
        for sentence in sentences(protocol, prompt, counterbalanced):
            for first, second in starts:
                is_swapped = mode == JOINT and first != prompt.stereotype
                words = (*sentence.words, SWAPPED) if is_swapped else sentence.words
                yield StereotypePrompt(
                    prompt=name,
                    arm=PUBLISHED if sentence.is_published and not is_swapped else "_".join(words),
                    text=sentence.text,
                    portrait=pair[first],
                    partner=pair[second] if second else None,
                    metadata={
                        "mode": mode,
                        "target": prompt.target,
                        "other": prompt.other,
                        "stereotype": prompt.stereotype,
                        "pronoun": sentence.pronoun,
                        "cue": sentence.cue.value,
                        "order": sentence.order,
                        "source": first,
                        "congruent": first == prompt.stereotype,
                    },
                )


def sentences(protocol: Protocol, prompt: PairPrompt, counterbalanced: bool) -> Iterator[_Sentence]:
    """The sentence as published, and where wanted every other one of pronoun × named order."""
    all_sentences = protocol.winobias.sentences(prompt)
    for order, words, text in all_sentences if counterbalanced else islice(all_sentences, 1):
        if prompt.pronoun is None:
            pronoun, cue = Cue.NONE.value, Cue.NONE
        elif words is None:
            pronoun, cue = NEUTRAL, Cue.NEUTRAL
        else:
            agrees = words == protocol.winobias.genders[prompt.stereotype]
            pronoun, cue = words.they, Cue.PRO if agrees else Cue.ANTI
        yield _Sentence(prompt=prompt, order=order, pronoun=pronoun, cue=cue, text=text)


# Which portraits


def pairs(protocol: Protocol, portraits: Sequence[Portrait], number: int, seed: int) -> Iterator[Pair]:
    """This many pairs, each from one cell of the other dimensions: races as even as can be, then ages."""
    others = [name for name in protocol.groups.dimensions if name != GENDER]
    genders = list(protocol.winobias.genders)
    cells = _cells(portraits, others, genders)
    if not cells:
        both = " and one of ".join(f"'{word}'" for word in genders)
        raise InputError(
            f"The stereotype experiment needs portraits that differ in {GENDER} only: one of {both} of the same "
            f"{' and '.join(others)}. The sources have no such two.",
            "Add portraits, or leave the experiment 'stereotype' out.",
        )
    cells_by_race: dict[str, list[_Cell]] = {}
    for cell in cells:
        cells_by_race.setdefault(cell[0], []).append(cell)
    random_ = random.Random(seed)  # noqa: S311 (a draw, not a secret)
    turns = {race: cycle(_shuffled(some, random_)) for race, some in cells_by_race.items()}
    people = {cell: {g: cycle(_shuffled(some, random_)) for g, some in c.items()} for cell, c in cells.items()}
    for race, _ in zip(cycle(_shuffled(list(turns), random_)), range(number), strict=False):
        turn_by_gender = people[next(turns[race])]
        yield {gender: next(turn) for gender, turn in turn_by_gender.items()}


_Cell = tuple[str, ...]


def _cells(
    portraits: Sequence[Portrait], others: Sequence[str], genders: Sequence[str]
) -> dict[_Cell, dict[str, list[Portrait]]]:
    """Cell of the other dimensions -> gender -> portraits; only cells that have somebody of each gender."""
    cells: dict[_Cell, dict[str, list[Portrait]]] = {}
    for portrait in sorted(portraits, key=lambda portrait: portrait.key):
        labels = portrait.labels
        if labels.get(GENDER) in genders and all(name in labels for name in others):
            cell = cells.setdefault(tuple(labels[name] for name in others), {word: [] for word in genders})
            cell[labels[GENDER]].append(portrait)
    return {cell: people for cell, people in sorted(cells.items()) if all(people.values())}


def _shuffled(items: Sequence[Any], random_: random.Random) -> list[Any]:
    return random_.sample(items, len(items))
