"""Before and after, side by side, grouped by outcome. Examples are chosen by the caller, never here."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

from stillme.analysis.numbers import DASH
from stillme.report.blocks import Block, Section, prose
from stillme.report.context import Context, Example, Party
from stillme.stats.findings import Findings

_SIGNATURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}


@dataclass(frozen=True)
class Score:
    label: str
    text: str
    decides: bool


@dataclass(frozen=True)
class Card:
    """One example, ready to show. A picture is a data URI, or empty when it is no known picture."""

    id: str
    example: Example
    editor: Party
    source: str
    edited: str
    people: str
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Shelf:
    title: str
    rule: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Gallery(Block):
    kind = "gallery"
    shelves: tuple[Shelf, ...]


def build(findings: Findings, context: Context) -> Section:
    shelves = tuple(_shelves(context))
    said = "Single edits, grouped by the outcome that they count for. They illustrate; the tables count."
    empty = "" if shelves else "No example is part of this report."
    return Section("gallery", "Before and after", "Pictures", (prose(empty or said), Gallery(shelves)))


def _shelves(context: Context) -> Iterator[Shelf]:
    for outcome, rule in context.outcomes.items():
        chosen = [example for example in context.examples if example.outcome == outcome]
        if chosen:
            cards = tuple(_card(example, f"{outcome}-{n}", context) for n, example in enumerate(chosen, 1))
            yield Shelf(rule.label, context.rule(outcome), cards)


def _card(example: Example, id: str, context: Context) -> Card:
    return Card(
        f"example-{id}".replace("_", "-"),
        example,
        context.editor(example.editor),
        picture(example.source),
        picture(example.edited),
        _people(example, context),
        tuple(_scores(example, context)),
    )


def _people(example: Example, context: Context) -> str:
    groups = context.protocol.groups
    names = [groups.labels(d).get(label, label) for d, label in example.labels.items() if d in groups.dimensions]
    return f"Perceived as {', '.join(names)}" if names else ""


def _scores(example: Example, context: Context) -> Iterator[Score]:
    """Scores in the rubric's order; the one that decides the outcome is told in the rubric's words."""
    deciding = context.outcomes[example.outcome].axis
    for id, axis in context.protocol.axes.items():
        if id in example.scores:
            score = example.scores[id]
            text = DASH if score is None else str(score)
            told = id == deciding and score in axis.scale
            yield Score(axis.label, f"{score} ({axis.scale[score]})" if told and score else text, id == deciding)


def picture(data: bytes) -> str:
    """An encoded picture as a data URI; empty when it is not a PNG, JPEG or WebP."""
    kind = next((kind for signature, kind in _SIGNATURES.items() if data.startswith(signature)), "")
    return f"data:{kind};base64,{b64encode(data).decode()}" if kind else ""
