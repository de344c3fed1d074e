"""The evaluation page's parts as HTML. What is the same for everybody is drawn once a bundle, then only filled in.

Cards carry a mark where the field's name goes; ids of fields and values are plain by the bundle's own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from stillme.study.bundle import CHECK, Bundle, Item, Picture
from stillme.study.deal import Screen, questions
from stillme.web.pages import environment

FIELD = "\ue000"  # of the private use area: in no question
SIDES = ("Left image", "Right image")
LETTERS = ("Image A", "Image B")


@dataclass(frozen=True)
class Shown:
    """A picture and what people call it."""

    title: str
    picture: Picture


@dataclass(frozen=True)
class Panel:
    """Questions that belong together; where every output is rated by itself, with its picture."""

    cards: Markup
    shown: Shown | None = None


class Sheet:
    """The questions of a bundle, ready to be filled in."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._card = environment("stillme.study").get_template("item_card.html")
        self._cards = {
            question.id: self._draw(question.id, question.text, question.cannot_determine)
            for question in bundle.questions
        }
        guide = environment("stillme.study").get_template("item_guide.html")
        self.guide = Markup(guide.render(bundle=bundle))

    def _draw(self, question: str, text: str, cannot: bool) -> str:
        asked = self._bundle.question[question]
        return self._card.render(field=FIELD, text=text, options=asked.options, kind=asked.kind, cannot=cannot)

    def pictures(self, item: Item, screen: Screen) -> list[Shown]:
        """The outputs from left to right, by the names that this layout gives them."""
        images = {output.id: output.image for output in item.outputs}
        titles = LETTERS if self._bundle.is_each else SIDES if len(screen.order) > 1 else ("Edited image",)
        return [Shown(title, images[id]) for title, id in zip(titles, screen.order, strict=True)]

    def panels(self, screen: Screen, given: Mapping[str, str], shown: list[Shown], asking: bool) -> list[Panel]:
        """`asking`: what has no answer yet is pointed at."""
        found: dict[str, list[str]] = {}
        for field, output, question in questions(self._bundle, screen):
            card = self._check(screen) if field == CHECK else self._cards[question.id]
            found.setdefault(output, []).append(_filled(card, field, given.get(field), asking))
        pictures = shown if self._bundle.is_each else [None]
        return [
            Panel(Markup("".join(cards)), picture) for cards, picture in zip(found.values(), pictures, strict=True)
        ]

    def _check(self, screen: Screen) -> str:
        assert screen.check is not None
        key = f"{CHECK} {screen.check.of} {screen.check.option}"
        if key not in self._cards:
            text = self._bundle.texts.check.replace("{n}", str(screen.check.option))
            self._cards[key] = self._draw(screen.check.of, text, cannot=False)
        return self._cards[key]


def _filled(card: str, field: str, value: str | None, asking: bool) -> str:
    card = card.replace(FIELD, field)
    if value is not None:
        return card.replace(f' value="{value}"', f' value="{value}" checked', 1)
    return card.replace('class="card', 'class="card missing', 1) if asking else card


def strip(of: int, current: int, done: Collection[int]) -> Markup:
    """The numbered boxes; their state is also said."""
    boxes = _boxes(of)
    return Markup("".join(boxes[n - 1][(n == current) + 2 * (n in done)] for n in range(1, of + 1)))


@lru_cache(maxsize=16)
def _boxes(of: int) -> list[tuple[str, ...]]:
    """Number -> its box: to do, current, done, current and done."""
    return [tuple(_variants(number)) for number in range(1, of + 1)]


def _variants(number: int) -> Iterator[str]:
    for done in (False, True):
        for current in (False, True):
            about = (' aria-current="step"' if current else "") + (' class="done"' if done else "")
            said = '<span class="unseen">, done</span>' if done else ""
            yield f'<li><button form="rating" name="go" value="{number}"{about}>{number}{said}</button></li>\n'
