"""The evaluation page as HTML. What is the same for everybody is drawn once a bundle; then only holes are filled.

Raters load it once an item, all of them at once, and a template run each time would cost more than the rest.
Whatever goes into a hole is escaped before; names of fields and values are plain by the bundle's own rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from markupsafe import Markup, escape

from stillme.study.bundle import CHECK, Bundle, Picture
from stillme.study.db.deal import Screen, questions
from stillme.web.pages import environment

FIELD = "\ue000"  # of the private use area: in no question
HOLE = re.compile("\ue001(\\w+)\ue001")
SIDES = ("Left image", "Right image")
LETTERS = ("Image A", "Image B")


def hole(name: str) -> Markup:
    return Markup(f"\ue001{name}\ue001")  # noqa: S704 (a marker; what fills it is escaped)


class Sheet:
    """The page of a bundle, ready to be filled in."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._templates = environment("stillme.study.server")
        self._cards = {
            question.id: self._card(question.id, question.text, question.cannot_determine)
            for question in bundle.questions
        }
        self._figures: dict[tuple[str, str], str] = {}
        page = self._templates.get_template("item.html")
        titles = LETTERS if bundle.is_each else ()
        self._pieces = HOLE.split(page.render(bundle=bundle, hole=hole, titles=titles))

    def page(self, values: Mapping[str, str]) -> str:
        """The page with its holes filled; a value is HTML."""
        pieces = self._pieces.copy()
        pieces[1::2] = [values[name] for name in pieces[1::2]]
        return "".join(pieces)

    def item(self, screen: Screen, given: Mapping[str, str], asking: bool) -> dict[str, str]:
        """What is shown and asked about an item. `asking`: what has no answer yet is pointed at."""
        item = self._bundle.item[screen.item]
        figures = [self._figure("Source", item.source), *self._outputs(screen)]
        cards = self._panels(screen, given, asking)
        shown = {"figures": figures[0] if self._bundle.is_each else "".join(figures)}
        for place, html in enumerate(cards):
            shown |= {f"cards{place}": html, f"figure{place}": figures[place + 1]}
        wanted = item.occupation if self._bundle.layout == "occupation_pair" else item.prompt
        return {**shown, "item": item.id, "wanted": escape(wanted or item.prompt)}

    def _outputs(self, screen: Screen) -> list[str]:
        """The outputs from left to right, by the names that this layout gives them."""
        images = {output.id: output.image for output in self._bundle.item[screen.item].outputs}
        titles = LETTERS if self._bundle.is_each else SIDES if len(screen.order) > 1 else ("Edited image",)
        return [self._figure(title, images[id]) for title, id in zip(titles, screen.order, strict=True)]

    def _figure(self, title: str, picture: Picture) -> str:
        key = (title, picture.sha256)
        if key not in self._figures:
            drawn = self._templates.get_template("item_figure.html").render(title=title, picture=picture)
            self._figures[key] = drawn
        return self._figures[key]

    def _panels(self, screen: Screen, given: Mapping[str, str], asking: bool) -> list[str]:
        """The questions, together that are about one output."""
        found: dict[str, list[str]] = {}
        for field, output, question in questions(self._bundle, screen):
            card = self._check(screen) if field == CHECK else self._cards[question.id]
            found.setdefault(output, []).append(_filled(card, field, given.get(field), asking))
        return ["".join(cards) for cards in found.values()]

    def _card(self, question: str, text: str, cannot: bool) -> str:
        asked = self._bundle.question[question]
        card = self._templates.get_template("item_card.html")
        return card.render(field=FIELD, text=text, options=asked.options, kind=asked.kind, cannot=cannot)

    def _check(self, screen: Screen) -> str:
        assert screen.check is not None
        key = f"{CHECK} {screen.check.of} {screen.check.option}"
        if key not in self._cards:
            text = self._bundle.texts.check.replace("{n}", str(screen.check.option))
            self._cards[key] = self._card(screen.check.of, text, cannot=False)
        return self._cards[key]


def _filled(card: str, field: str, value: str | None, asking: bool) -> str:
    card = card.replace(FIELD, field)
    if value is not None:
        return card.replace(f' value="{value}"', f' value="{value}" checked', 1)
    return card.replace('class="card', 'class="card missing', 1) if asking else card


def strip(of: int, current: int, done: Collection[int]) -> str:
    """The numbered boxes; their state is also said."""
    boxes = _boxes(of)
    return "".join([boxes[n - 1][(n == current) + 2 * (n in done)] for n in range(1, of + 1)])


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
