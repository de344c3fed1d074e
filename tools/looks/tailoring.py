"""Parts that several garments share: collars, ties, lapels, epaulettes, pockets, knit and stripes.

Parts only cover; none reveals skin that the photograph does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brush import (
    Canvas,
    Cloth,
    Colour,
    Fill,
    Point,
    box,
    curve,
    darker,
    ellipse,
    lighter,
    line_stamp,
    sheet,
    stamp,
    star,
    trimmed,
)
from model import Figure, Torso
from PIL import Image

SIDES = (-1, 1)
FAR = 999.0  # beyond every edge of the picture
GOLD: Colour = (201, 164, 74)
SILVER: Colour = (196, 200, 206)


@dataclass(frozen=True)
class Outfit:
    """One garment in the making."""

    canvas: Canvas
    figure: Figure
    main: Colour
    second: Colour
    accent: Colour
    variant: int

    @property
    def torso(self) -> Torso:
        return self.figure.torso

    def at(self, u: float, v: float) -> Point:
        return self.torso.at(u, v)

    def span(self, share: float) -> float:
        return share * self.torso.half


def yoke(o: Outfit, fill: Fill, rise: float = 0.08, wide: float = 0.0) -> None:
    """The garment up to the neck: a round neckline whose front is `rise` above the photograph's."""
    t = o.torso
    left, right = t.throat(-1), t.throat(1)
    grow = o.span(wide)
    front = curve(
        (left[0] - grow, left[1] + grow),
        (t.x - 0.62 * t.neck, t.y - o.span(rise + 0.10)),
        (t.x, t.y - o.span(rise)),
        (t.x + 0.62 * t.neck, t.y - o.span(rise + 0.10)),
        (right[0] + grow, right[1] + grow),
    )
    o.canvas.fill(
        [*front, (FAR, right[1] + grow), (FAR, FAR), (-FAR, FAR), (-FAR, left[1] + grow)],
        fill,
    )


def high_neck(o: Outfit, fill: Fill) -> None:
    """What the photographed shirt covers above the new neckline: a stand collar, a roll neck."""
    t, kept = o.torso, o.canvas.clip
    o.canvas.clip = o.canvas.cover.copy()
    wide = 1.12 * t.neck
    above = [(t.x - wide, 0.0), (t.x + wide, 0.0), (t.x + wide, t.base + o.span(0.02))]
    o.canvas.fill([*above, *reversed(neckline(o, 0.0)), (t.x - wide, t.base + o.span(0.02))], fill)
    o.canvas.clip = kept


def cover_all(o: Outfit, fill: Fill) -> None:
    """The same cloth wherever the garment is."""
    o.canvas.press(trimmed(o.canvas.cover), fill)


def front_panel(o: Outfit, s: int, inner: Sequence[Point], fill: Fill) -> None:
    """One side of an open front, from its inner edge outward, with the shadow that it throws inward."""
    out, above = s * FAR, o.torso.base - o.span(0.08)
    panel = [*inner, (out, FAR), (out, above), (inner[0][0] + s * o.span(0.04), above)]
    o.canvas.shadow(inner_strip(inner, -s * o.span(0.05)), 0.5, 4.0, (0, 2))
    o.canvas.fill(panel, fill)


def inner_strip(edge: Sequence[Point], width: float) -> list[Point]:
    return [*edge, *((x + width, y) for x, y in reversed(edge))]


def neckline(o: Outfit, rise: float = 0.08) -> list[Point]:
    """The line of a round neckline, for bands and ribs."""
    t = o.torso
    left, right = t.throat(-1), t.throat(1)
    return curve(
        left,
        (t.x - 0.62 * t.neck, t.y - o.span(rise + 0.10)),
        (t.x, t.y - o.span(rise)),
        (t.x + 0.62 * t.neck, t.y - o.span(rise + 0.10)),
        right,
    )


def band(o: Outfit, fill: Colour, width: float = 0.07, rise: float = 0.05) -> None:
    """A ribbed neckband."""
    line = neckline(o, rise)
    o.canvas.crease(line, o.span(width) + 4, 0.35, 2.0)
    o.canvas.line(line, o.span(width), fill)
    o.canvas.crease([(x, y - o.span(width) * 0.3) for x, y in line], 1.0, 0.25, 0.8)


def chin_shade(o: Outfit, dark: float = 0.28) -> None:
    """The head keeps light off the collar."""
    o.canvas.tone(o.figure.chin_shade, (0, 0, 0), dark)


def drape(o: Outfit, depth: float = 0.16) -> None:
    """Folds from armpits and shoulders."""
    o.canvas.tone(o.figure.drape, (0, 0, 0), depth * 1.2)


def seams(o: Outfit, dark: float = 0.35) -> None:
    """Where the sleeves are set in."""
    o.canvas.tone(o.figure.seams, (0, 0, 0), dark)


def shirt_front(o: Outfit, fill: Fill, depth: float = 0.85, wide: float = 0.06) -> list[Point]:
    """The shirt between the lapels; returns its outline."""
    t = o.torso
    ends = [(t.throat(s)[0] + s * o.span(wide), t.throat(s)[1] + o.span(0.05)) for s in SIDES]
    shape = [ends[0], (t.x, t.y - o.span(0.085)), ends[1], o.at(0.34, 0.2), o.at(0, depth), o.at(-0.34, 0.2)]
    o.canvas.fill(shape, fill)
    return shape


def shirt_collar(o: Outfit, fill: Colour, drop: float = 0.2, spread: float = 0.24) -> None:
    """Two collar leaves around the neck."""
    t = o.torso
    for s in SIDES:
        throat = t.throat(s)
        leaf = [
            throat,
            (throat[0] + s * o.span(0.075), throat[1] + o.span(0.05)),
            (throat[0] + s * o.span(0.03), t.y + o.span(drop * 0.1)),
            o.at(s * spread, drop),
            o.at(s * 0.025, -0.085),
            (t.x + s * 0.55 * t.neck, t.y - o.span(0.2)),
        ]
        o.canvas.piece(leaf, weave(fill, "smooth"), 0.45, 3.0)
        o.canvas.crease(leaf[2:5], 0.8, 0.22, 0.5)
        o.canvas.crease([leaf[0], leaf[5], leaf[4]], 1.6, 0.25, 1.0)


def placket(o: Outfit, colour: Colour, start: float = 0.02) -> None:
    """The buttoned front edge."""
    o.canvas.crease([o.at(-0.055, start), o.at(-0.055, 0.9)], 1.0, 0.3, 0.6)
    o.canvas.crease([o.at(0.055, start), o.at(0.055, 0.9)], 1.4, 0.35, 0.9)
    for k in range(4):
        button(o, o.at(0, start + 0.12 + 0.2 * k), colour)


def button(o: Outfit, centre: Point, colour: Colour, size: float = 0.022) -> None:
    o.canvas.piece(ellipse(centre, o.span(size), o.span(size)), colour, 0.5, 1.2)
    o.canvas.fill(
        ellipse((centre[0] - 0.6, centre[1] - 0.7), o.span(size) * 0.4, o.span(size) * 0.4),
        lighter(colour, 0.5),
    )


def tie(o: Outfit, colour: Colour, striped: bool = False, wide: float = 1.0) -> None:
    """A knotted tie, with a dimple, light from the right."""
    w = 0.085 * wide
    blade = [
        o.at(-w * 0.55, 0.08),
        o.at(w * 0.55, 0.08),
        o.at(w * 1.35, 0.8),
        o.at(0, 0.95),
        o.at(-w * 1.35, 0.8),
    ]
    knot = [o.at(-w * 0.9, -0.125), o.at(w * 0.9, -0.125), o.at(w * 0.6, 0.1), o.at(-w * 0.6, 0.1)]
    o.canvas.piece(blade, colour, 0.5, 3.0)
    if striped:
        _diagonals(o, blade, lighter(colour, 0.55))
    o.canvas.shine([o.at(w * 0.3, 0.14), o.at(w * 0.6, 0.7)], o.span(w * 0.5), 0.18, 2.5)
    o.canvas.crease([o.at(-w * 0.7, 0.1), o.at(-w * 1.1, 0.7)], o.span(w * 0.4), 0.25, 2.0)
    o.canvas.piece(knot, lighter(colour, 0.06), 0.55, 2.0)
    o.canvas.crease([o.at(-w * 0.1, 0.0), o.at(0, 0.2)], 1.6, 0.35, 1.2)
    o.canvas.shine([o.at(w * 0.35, -0.07), o.at(w * 0.2, 0.05)], 3.0, 0.22, 1.5)


def _diagonals(o: Outfit, shape: Sequence[Point], colour: Colour) -> None:
    made = stamp(shape)
    if made is None:
        return
    pattern = Image.new("L", sheet().size)
    for k in range(9):
        y = 0.04 + 0.13 * k
        stripe = line_stamp([o.at(-0.2, y + 0.16), o.at(0.2, y - 0.08)], o.span(0.028))
        if stripe is not None:
            pattern.paste(255, (stripe[1][0], stripe[1][1]), stripe[0])
    inside = Image.composite(pattern.crop(_area(made)), Image.new("L", made[0].size), made[0])
    o.canvas.press((inside, made[1]), colour, 0.85)


def _area(made: tuple[Image.Image, tuple[int, int]]) -> tuple[int, int, int, int]:
    mask, (x, y) = made
    return x, y, x + mask.width, y + mask.height


def lapels(o: Outfit, colour: Colour, depth: float = 0.85, wide: float = 0.34, notch: bool = True) -> None:
    """The turned fronts of a jacket or coat, with the collar behind them."""
    t = o.torso
    for s in SIDES:
        throat = t.throat(s)
        start = (throat[0] + s * o.span(0.05), throat[1] + o.span(0.0))
        inner = curve(
            start, (t.x + s * (t.neck * 0.78), t.y + o.span(0.02)), o.at(s * 0.16, 0.45), o.at(0.0, depth)
        )
        outer = [o.at(s * 0.12, depth), o.at(s * (wide + 0.02), 0.32), o.at(s * (wide + 0.14), 0.12)]
        back = [(throat[0] + s * o.span(0.17), throat[1] + o.span(0.08))]
        o.canvas.piece([*inner, *outer, *back], colour, 0.5, 3.5)
        o.canvas.shine([outer[2], outer[1]], 1.2, 0.12, 0.8)
        o.canvas.crease(inner[4:], 2.2, 0.3, 1.6)
        if notch:
            _notch(o, s, wide, colour)


def _notch(o: Outfit, s: int, wide: float, colour: Colour) -> None:
    tip, corner = o.at(s * (wide + 0.15), 0.1), o.at(s * (wide - 0.03), 0.07)
    o.canvas.fill([corner, tip, o.at(s * (wide + 0.12), 0.035)], darker(colour, 0.35))
    o.canvas.crease([corner, o.at(s * (wide - 0.13), 0.0)], 1.1, 0.4, 0.7)


def epaulettes(o: Outfit, colour: Colour, trim: Colour, stars: int = 0, bars: int = 0) -> None:
    """Shoulder boards that follow the shoulder line."""
    t = o.torso
    for s in SIDES:
        us = [0.56 + 0.075 * k for k in range(6)]
        ridge = [(t.x + s * o.span(u), t.top(t.x + s * o.span(u)) + o.span(0.015)) for u in us]
        lower = [(x, y + o.span(0.13)) for x, y in ridge]
        board = [*ridge, *reversed(lower)]
        o.canvas.piece(board, colour, 0.5, 2.5)
        o.canvas.line([*board, board[0]], 1.3, trim)
        middle = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in zip(ridge, lower, strict=True)]
        button(o, middle[0], trim, 0.025)
        _rank(o, middle[1:], trim, stars, bars)


def _rank(o: Outfit, middle: Sequence[Point], trim: Colour, stars: int, bars: int) -> None:
    for x, y in middle[1 : 1 + stars]:
        o.canvas.fill(star((x, y), o.span(0.045)), trim)
    for x, y in middle[1 : 1 + bars]:
        o.canvas.line([(x, y - o.span(0.045)), (x, y + o.span(0.045))], o.span(0.03), trim)


def chest_pocket(o: Outfit, s: int, colour: Colour, v: float = 0.36, flap: bool = True) -> None:
    left, right = sorted((s * 0.30, s * 0.62))
    o.canvas.crease([o.at(left, v), o.at(left, v + 0.4)], 1.0, 0.3, 0.7)
    o.canvas.crease([o.at(right, v), o.at(right, v + 0.4)], 1.0, 0.3, 0.7)
    if flap:
        lid = [
            o.at(left, v),
            o.at(right, v),
            o.at(right, v + 0.09),
            o.at((left + right) / 2, v + 0.13),
            o.at(left, v + 0.09),
        ]
        o.canvas.piece(lid, lighter(colour, 0.04), 0.45, 2.0)
        o.canvas.crease([*lid, lid[0]], 0.8, 0.3, 0.5)
        button(o, o.at((left + right) / 2, v + 0.085), darker(colour, 0.3), 0.018)
    else:
        o.canvas.crease([o.at(left, v), o.at(right, v)], 1.6, 0.4, 0.7)


def name_tag(o: Outfit, s: int, v: float, colour: Colour, ink: Colour) -> None:
    x, y = o.at(s * 0.46, v)
    w, h = o.span(0.15), o.span(0.035)
    o.canvas.piece(box(x - w, y - h, x + w, y + h, 1.5), colour, 0.45, 1.5)
    o.canvas.line([(x - w * 0.7, y), (x + w * 0.6, y)], 1.4, ink, 0.8)


def zipper(o: Outfit, colour: Colour, start: float = -0.04) -> None:
    o.canvas.crease([o.at(0, start), o.at(0, 0.95)], 5.0, 0.35, 1.5)
    o.canvas.line([o.at(0, start), o.at(0, 0.95)], 2.2, colour)
    o.canvas.fill(
        box(o.at(0, 0)[0] - 2, o.at(0, 0.1)[1], o.at(0, 0)[0] + 2, o.at(0, 0.17)[1], 2), lighter(colour, 0.3)
    )


def knit(colour: Colour, gauge: int = 4) -> Cloth:
    return Cloth(colour, f"knit{gauge}")


def weave(colour: Colour, texture: str = "plain") -> Cloth:
    """Woven cloth; a little irregularity keeps it from looking like plastic."""
    return Cloth(colour, texture)
