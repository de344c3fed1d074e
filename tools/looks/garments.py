"""What the figure wears: one function per cut. The light and the folds of a head's own shirt come at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from brush import (
    FLAT,
    Canvas,
    Cloth,
    Colour,
    box,
    curve,
    darker,
    ellipse,
    lighter,
    mix,
    moved,
    sheet,
    star,
)
from model import FIGURE, POINTS
from numpy.typing import NDArray
from PIL import Image
from props import PINNED, Stage
from tailoring import (
    FAR,
    GOLD,
    SIDES,
    SILVER,
    Outfit,
    band,
    button,
    chest_pocket,
    chin_shade,
    cover_all,
    drape,
    epaulettes,
    front_panel,
    high_neck,
    knit,
    lapels,
    name_tag,
    neckline,
    placket,
    seams,
    shirt_collar,
    shirt_front,
    tie,
    weave,
    yoke,
    zipper,
)

from stillme.sources.looks.table import Look

EDGE = 24  # of 255: fainter rims show the colour beneath, which their own few levels could not tell


def cut(look: Look, variant: int) -> Image.Image:
    """The look's garment with what is pinned to it, lying flat; opacity is how much it covers where no shirt is.

    Where the photograph shows a shirt, the garment covers it whatever the opacity: so there is colour everywhere.
    """
    over_shirt, bare = (_sewn(look, variant, shirt) for shirt in (255, 0))
    colours, cover = _relieved(over_shirt), np.asarray(bare.cover)
    edge = cover >= EDGE
    colours[edge] = np.minimum(_relieved(bare)[edge] * 255 / cover[edge][:, None], 255)
    return Image.merge("RGBA", [*Image.fromarray(colours.astype(np.uint8)).split(), bare.cover])


def _sewn(look: Look, variant: int, shirt: int) -> Canvas:
    canvas = Canvas(textured=True)
    colours = look.colours[variant % len(look.colours)]
    canvas.press((Image.new("L", sheet().size, shirt), (0, 0)), weave(colours[0]))
    outfit = Outfit(canvas, FIGURE, *colours, variant)
    high_neck(outfit, weave(outfit.second))
    CUTS[look.garment](outfit)
    for name in look.props:
        if name in PINNED:
            PINNED[name](Stage(canvas, FIGURE.torso, POINTS, colours, variant))
    return canvas


def _relieved(canvas: Canvas) -> NDArray[np.float32]:
    assert canvas.relief is not None
    relief = np.asarray(canvas.relief, np.float32) / FLAT
    return np.minimum(np.asarray(canvas.paint) * relief[..., None], 255)


def suit(o: Outfit) -> None:
    yoke(o, weave(o.main), 0.02, 0.05)
    drape(o)
    seams(o)
    shirt_front(o, weave(o.second, "smooth"))
    chin_shade(o, 0.3)
    if o.variant == 2:
        placket(o, darker(o.second, 0.2))
        shirt_collar(o, o.second)
    else:
        tie(o, o.accent, striped=o.variant == 1)
        shirt_collar(o, o.second)
    lapels(o, lighter(o.main, 0.035))


def uniform(o: Outfit) -> None:
    yoke(o, weave(o.main), 0.02, 0.05)
    drape(o)
    seams(o)
    shirt_front(o, weave(o.second, "smooth"))
    chin_shade(o)
    tie(o, o.accent)
    shirt_collar(o, o.second, 0.16, 0.2)
    lapels(o, lighter(o.main, 0.05))
    epaulettes(o, darker(o.main, 0.3), GOLD, stars=3)
    _collar_tabs(o)
    _ribbons(o)
    name_tag(o, -1, 0.28, (28, 28, 30), SILVER)
    chest_pocket(o, -1, o.main, 0.36)
    for v in (0.34, 0.54):
        button(o, o.at(0.14, v), GOLD, 0.034)


def _collar_tabs(o: Outfit) -> None:
    for s in SIDES:
        x, y = o.at(s * 0.36, 0.15)
        o.canvas.fill(star((x, y), o.span(0.04), 4), GOLD)


def _ribbons(o: Outfit) -> None:
    """Rows of medal ribbons in colours that belong to no real decoration."""
    sets = ((178, 44, 52), (36, 78, 140), (222, 178, 60), (58, 122, 84), (226, 226, 220), (110, 62, 120))
    w, h = o.span(0.088), o.span(0.046)
    for row in range(4):
        for column in range(3):
            x, y = o.at(0.47, 0.2)
            x, y = x + column * (w + 0.8), y + row * (h + 0.9)
            colour = sets[(row * 3 + column * 2 + o.variant) % 6]
            o.canvas.fill(box(x, y, x + w, y + h), colour)
            o.canvas.fill(box(x + w * 0.38, y, x + w * 0.62, y + h), sets[(row + column + 3) % 6])
    x, y = o.at(0.47, 0.2)
    o.canvas.crease([(x, y + 4 * (h + 0.9)), (x + 3 * w, y + 4 * (h + 0.9))], 2, 0.4, 1.2)


def doctor_coat(o: Outfit) -> None:
    yoke(o, weave(o.second), 0.03)
    shirt_front(o, weave(o.second))
    t = o.torso
    for s in SIDES:
        vee = curve(t.throat(s), (t.x + s * 0.6 * t.neck, t.y - o.span(0.08)), o.at(0, 0.14))
        o.canvas.line(vee, o.span(0.045), darker(o.second, 0.18))
        o.canvas.crease(vee, 1.2, 0.3, 0.8)
    chin_shade(o, 0.2)
    _coat_sides(o)
    lapels(o, o.main, 1.1, 0.36)
    chest_pocket(o, 1, o.main, 0.4, flap=False)
    x, y = o.at(0.4, 0.36)
    o.canvas.line([(x, y), (x + 0.5, y + o.span(0.12))], 2.2, (40, 60, 120))
    o.canvas.line([(x + 5, y + 1), (x + 5, y + o.span(0.12))], 2.0, (180, 40, 40))
    _id_card(o)


def _coat_sides(o: Outfit) -> None:
    """The coat itself, open in front."""
    for s in SIDES:
        x, y = o.torso.throat(s)
        inner = curve((x + s * o.span(0.04), y), o.at(s * 0.36, 0.0), o.at(s * 0.22, 0.5), o.at(s * 0.2, 1))
        front_panel(o, s, inner, weave(o.main, "smooth"))
    drape(o, 0.13)
    seams(o, 0.2)


def _id_card(o: Outfit) -> None:
    x, y = o.at(-0.5, 0.3)
    w, h = o.span(0.09), o.span(0.13)
    o.canvas.piece(box(x - w, y, x + w, y + h, 1.5), (250, 250, 250), 0.4, 2.0)
    o.canvas.fill(box(x - w, y, x + w, y + h * 0.28), (38, 110, 160))
    o.canvas.fill(box(x - w * 0.7, y + h * 0.4, x - w * 0.05, y + h * 0.88), (150, 160, 170))
    o.canvas.line([(x + w * 0.2, y + h * 0.55), (x + w * 0.75, y + h * 0.55)], 1.0, (110, 110, 120))
    o.canvas.line([(x + w * 0.2, y + h * 0.75), (x + w * 0.65, y + h * 0.75)], 1.0, (110, 110, 120))


def cardigan(o: Outfit) -> None:
    """Bright, over a striped top."""
    yoke(o, Cloth(o.second, "plain", mix(o.second, o.accent, 0.75), ("stripes", 12, 0.38)), 0.06)
    band(o, o.second, 0.05, 0.04)
    chin_shade(o, 0.2)
    _cardigan_sides(o)


def house_cardigan(o: Outfit) -> None:
    """Quiet, over a buttoned shirt."""
    yoke(o, weave(o.second, "smooth"), 0.06)
    chin_shade(o, 0.24)
    placket(o, darker(o.second, 0.25))
    _cardigan_sides(o)
    shirt_collar(o, o.second, 0.17, 0.24)


def _cardigan_sides(o: Outfit) -> None:
    for s in SIDES:
        x, y = o.torso.throat(s)
        inner = curve((x + s * o.span(0.06), y), o.at(s * 0.34, 0.04), o.at(s * 0.17, 0.4), o.at(s * 0.1, 1))
        front_panel(o, s, inner, knit(o.main))
        o.canvas.line(moved(inner, s * o.span(0.035), 0), o.span(0.07), knit(darker(o.main, 0.1), 3))
        o.canvas.crease(moved(inner, s * o.span(0.075), 0), 1.0, 0.3, 0.7)
    drape(o, 0.16)
    for v in (0.3, 0.5):
        button(o, o.at(0.22, v), darker(o.accent, 0.1), 0.03)


def tunic(o: Outfit) -> None:
    yoke(o, weave(o.main), 0.05)
    drape(o)
    seams(o)
    chin_shade(o, 0.2)
    placket(o, lighter(o.main, 0.6))
    shirt_collar(o, o.second, 0.2, 0.34)
    _apron(o)


def _apron(o: Outfit) -> None:
    bib = [*curve(o.at(-0.4, 0.2), o.at(0, 0.25), o.at(0.4, 0.2)), o.at(0.47, 1), o.at(-0.47, 1)]
    t = o.torso
    for s in SIDES:
        top = (t.side(s)[0] + s * o.span(0.02), t.top(t.side(s)[0]) - 2)
        strap = [top, (top[0] + s * o.span(0.14), top[1]), o.at(s * 0.4, 0.22), o.at(s * 0.27, 0.24)]
        o.canvas.piece(strap, weave(o.second, "smooth"), 0.4, 2.5)
    o.canvas.piece(bib, weave(o.second, "smooth"), 0.45, 3.5)
    hem = [(x, y + o.span(0.045)) for x, y in curve(o.at(-0.4, 0.2), o.at(0, 0.25), o.at(0.4, 0.2))]
    o.canvas.crease(hem, 1.0, 0.25, 0.6)
    o.canvas.crease(curve(o.at(-0.2, 0.3), o.at(-0.17, 0.5), o.at(-0.22, 0.8)), 5.0, 0.1, 4.0)
    o.canvas.crease(curve(o.at(0.22, 0.32), o.at(0.2, 0.5), o.at(0.26, 0.8)), 5.0, 0.1, 4.0)


def guard_shirt(o: Outfit) -> None:
    high_neck(o, weave(o.main))
    yoke(o, weave(o.main), 0.05)
    drape(o)
    seams(o)
    chin_shade(o)
    placket(o, lighter(o.main, 0.3))
    tie(o, o.second, wide=0.9)
    shirt_collar(o, lighter(o.main, 0.05))
    o.canvas.line([o.at(-0.1, 0.34), o.at(0.1, 0.34)], 2.4, o.accent)
    epaulettes(o, darker(o.main, 0.35) if sum(o.main) < 400 else o.second, o.accent, bars=3)
    chest_pocket(o, 1, o.main, 0.4)
    chest_pocket(o, -1, o.main, 0.4)
    _badge(o)
    name_tag(o, -1, 0.33, o.accent, (40, 34, 20))


def _badge(o: Outfit) -> None:
    x, y = o.at(0.46, 0.27)
    w, h = o.span(0.09), o.span(0.115)
    top = [(x - w, y - h * 0.75), (x - w * 0.5, y - h * 0.95), (x, y - h * 0.78), (x + w * 0.5, y - h * 0.95)]
    shield = [*top, (x + w, y - h * 0.75), (x + w * 0.9, y + h * 0.2), (x, y + h), (x - w * 0.9, y + h * 0.2)]
    o.canvas.piece(shield, o.accent, 0.6, 2.0)
    o.canvas.fill([(x + (a - x) * 0.72, y + (b - y) * 0.72) for a, b in shield], lighter(o.accent, 0.3))
    o.canvas.fill(ellipse((x, y), w * 0.45, w * 0.45), (38, 58, 110))
    o.canvas.fill(star((x, y), w * 0.36), lighter(o.accent, 0.5))


def jersey(o: Outfit) -> None:
    yoke(o, weave(o.main), 0.02)
    t = o.torso
    for s in SIDES:
        panel = curve(o.at(s * 0.5, -0.32), o.at(s * 0.78, 0.1), o.at(s * 0.66, 0.5), o.at(s * 0.62, 1))
        o.canvas.fill([*panel, (s * FAR, FAR), (s * FAR, t.side(s)[1] - 9)], weave(o.accent))
        o.canvas.line(panel, o.span(0.035), o.second)
        o.canvas.line([(x + s * o.span(0.09), y) for x, y in panel], o.span(0.02), o.second)
    drape(o, 0.2)
    band(o, o.second, 0.06, 0.0)
    band(o, o.accent, 0.025, 0.0)
    chin_shade(o, 0.2)
    o.canvas.write(o.at(0, 0.3), ("10", "23", "7", "18")[o.variant], o.span(0.4), o.second)


def couture(o: Outfit) -> None:
    """Satin with a sculpted wrap collar and a gold necklace."""
    high_neck(o, weave(o.main, "smooth"))
    yoke(o, weave(o.main, "smooth"), 0.0)
    for k, u in enumerate((-0.5, -0.2, 0.15, 0.5, 0.8, -0.8)):
        fold = curve(o.at(u + 0.25, -0.1), o.at(u + 0.05, 0.25), o.at(u - 0.2, 0.7))
        o.canvas.shine(fold, 7.0, 0.2 if k % 2 else 0.12, 5.0)
        o.canvas.crease([(x + 9, y) for x, y in fold], 6.0, 0.3, 4.0)
    chin_shade(o, 0.3)
    _wrap_collar(o)
    _necklace(o)


def _wrap_collar(o: Outfit) -> None:
    t = o.torso
    for s in SIDES:
        throat = t.throat(s)
        wing = [
            *curve(
                (throat[0] + s * o.span(0.02), throat[1] + o.span(0.02)),
                o.at(s * 0.3, 0.0),
                o.at(-s * 0.02, 0.5),
                steps=10,
            ),
            *curve(
                o.at(s * 0.16, 0.62),
                o.at(s * 0.55, 0.2),
                (t.side(s)[0] + s * o.span(0.3), t.side(s)[1] - o.span(0.02)),
            ),
        ]
        o.canvas.piece(wing, weave(o.accent, "smooth"), 0.6, 5.0)
        o.canvas.shine(curve(o.at(s * 0.5, -0.05), o.at(s * 0.38, 0.2), o.at(s * 0.16, 0.46)), 7.0, 0.28, 5.0)
        o.canvas.crease(curve(o.at(s * 0.36, 0.0), o.at(s * 0.25, 0.2), o.at(s * 0.05, 0.42)), 5.0, 0.3, 4.0)


def _necklace(o: Outfit) -> None:
    line = [(x, y + o.span(0.03)) for x, y in neckline(o, 0.0)]
    for k, (x, y) in enumerate(line[3:-3]):
        size = o.span(0.028 + 0.026 * (1 - abs(2 * k / max(1, len(line) - 7) - 1)))
        o.canvas.piece(ellipse((x, y + size), size, size * 1.15), o.second, 0.5, 1.5)
        o.canvas.fill(
            ellipse((x + size * 0.25, y + size * 0.6), size * 0.35, size * 0.35), lighter(o.second, 0.65)
        )


def work_vest(o: Outfit) -> None:
    yoke(o, weave(o.second), 0.05)
    seams(o)
    chin_shade(o, 0.22)
    shirt_collar(o, lighter(o.second, 0.07), 0.16, 0.26)
    t = o.torso
    for s in SIDES:
        x = t.side(s)[0]
        inner = curve(
            (x + s * o.span(0.04), t.top(x) - 4),
            o.at(s * 0.34, 0.06),
            o.at(s * 0.07, 0.36),
            o.at(s * 0.04, 1),
        )
        outer = curve(o.at(s * 0.66, 1), o.at(s * 0.7, 0.35), o.at(s * 0.86, -0.05), o.at(s * 0.86, -0.4))
        o.canvas.piece([*inner, *outer], weave(o.main), 0.5, 3.0)
        o.canvas.line(inner, o.span(0.03), darker(o.main, 0.25))
        _reflective(o, [o.at(s * 0.44, -0.45), o.at(s * 0.46, 0.05), o.at(s * 0.44, 1)])
    drape(o, 0.2)
    zipper(o, darker(o.main, 0.4), 0.4)


def _reflective(o: Outfit, line: list[tuple[float, float]]) -> None:
    """A silver tape with its darker borders, kept inside the vest."""
    o.canvas.line(line, o.span(0.17), mix(o.main, (255, 120, 0), 0.35))
    o.canvas.line(line, o.span(0.105), o.accent)
    o.canvas.shine([(x + 1.5, y) for x, y in line], o.span(0.04), 0.5, 2.0)


def sweater(o: Outfit) -> None:
    yoke(o, knit(o.main), 0.06)
    cover_all(o, knit(o.main))
    drape(o, 0.2)
    seams(o, 0.25)
    band(o, o.accent, 0.075, 0.0)
    chin_shade(o, 0.25)
    shirt_collar(o, o.second, 0.06, 0.19)


def field_jacket(o: Outfit) -> None:
    yoke(o, weave(o.second), 0.07)
    band(o, darker(o.second, 0.08), 0.05, 0.05)
    chin_shade(o, 0.22)
    for s in SIDES:
        x, y = o.torso.throat(s)
        inner = curve((x + s * o.span(0.05), y), o.at(s * 0.32, 0.06), o.at(s * 0.14, 0.42), o.at(s * 0.1, 1))
        front_panel(o, s, inner, weave(o.main, "rough"))
        o.canvas.line(moved(inner[6:], s * 2.0, 0), 2.0, darker(o.main, 0.3))
    drape(o, 0.22)
    seams(o, 0.4)
    _turned_collar(o, lighter(o.main, 0.06))
    for s in SIDES:
        chest_pocket(o, s, o.main, 0.38)


def _turned_collar(o: Outfit, colour: Colour, drop: float = 0.22) -> None:
    t = o.torso
    for s in SIDES:
        throat = t.throat(s)
        leaf = [
            (throat[0] - s * 1.0, throat[1] - o.span(0.01)),
            *curve(
                (throat[0] + s * o.span(0.06), throat[1]),
                (throat[0] + s * o.span(0.2), throat[1] + o.span(0.1)),
                o.at(s * 0.56, 0.1),
            ),
            o.at(s * 0.42, drop),
            *curve(o.at(s * 0.3, 0.06), (throat[0] + s * o.span(0.01), t.y - o.span(0.12)), throat),
        ]
        o.canvas.piece(leaf, weave(colour, "rough"), 0.5, 3.5)
        o.canvas.crease(leaf[1:10], 1.0, 0.25, 0.7)


def shawl(o: Outfit) -> None:
    """A knitted shawl laid around the shoulders, its borders crossing on the chest."""
    yoke(o, weave(o.second), 0.06)
    band(o, darker(o.second, 0.1), 0.05, 0.04)
    for s in SIDES:
        x, y = o.torso.throat(s)
        start = (x + s * o.span(0.05), y)
        inner = curve(start, o.at(s * 0.32, 0.06), o.at(-s * 0.02, 0.44), o.at(-s * 0.3, 0.8))
        front_panel(o, s, inner, knit(o.main, 5))
        o.canvas.line(moved(inner, s * o.span(0.07), 0), o.span(0.09), knit(o.accent, 5))
        o.canvas.line(moved(inner, s * o.span(0.16), 0), o.span(0.03), knit(lighter(o.second, 0.1), 3))
        for k in range(2, 6):
            o.canvas.crease(moved(inner, s * o.span(0.13 * k), k * 2), 4.0, 0.2, 3.0)
    drape(o, 0.14)
    chin_shade(o, 0.25)


def parka(o: Outfit) -> None:
    """A quilted winter jacket, zipped up to its stand collar."""
    high_neck(o, weave(o.main, "rough"))
    yoke(o, weave(o.main, "rough"), 0.04)
    chin_shade(o, 0.2)
    drape(o, 0.24)
    seams(o, 0.4)
    for v in (0.16, 0.34, 0.52, 0.7):
        quilt = curve(
            o.at(-1.1, v - 0.1), o.at(-0.5, v - 0.02), o.at(0, v), o.at(0.5, v - 0.02), o.at(1.1, v - 0.1)
        )
        o.canvas.crease(quilt, 2.4, 0.4, 1.5)
        o.canvas.shine([(x, y + o.span(0.06)) for x, y in quilt], 6.0, 0.1, 4.0)
    _stand_collar(o)
    zipper(o, darker(o.main, 0.45), -0.1)


def _stand_collar(o: Outfit) -> None:
    t = o.torso
    upper = [(x, y - o.span(0.02)) for x, y in neckline(o, 0.1)]
    lower = [(x * 1.1 - t.x * 0.1, y + o.span(0.15)) for x, y in neckline(o, 0.06)]
    collar = [*upper, *reversed(lower)]
    o.canvas.piece(collar, weave(lighter(o.main, 0.07), "rough"), 0.5, 4.0)
    o.canvas.line(upper, o.span(0.045), knit(o.second, 3))
    middle = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in zip(upper, lower, strict=True)]
    o.canvas.crease(middle, 2.0, 0.35, 1.5)


def wrap_top(o: Outfit) -> None:
    """A soft top that crosses in front and gathers below."""
    yoke(o, weave(o.second, "smooth"), 0.06)
    chin_shade(o, 0.2)
    for s in (1, -1):
        x, y = o.torso.throat(s)
        start = (x + s * o.span(0.06), y)
        inner = curve(start, o.at(s * 0.3, 0.06), o.at(0, 0.34), o.at(-s * 0.4, 0.6))
        front_panel(o, s, [*inner, o.at(-s * 0.4, 1.2)], Cloth(o.main, "plain", lighter(o.main, 0.45)))
        o.canvas.line(moved(inner, s * 1.5, 1.5), o.span(0.03), o.accent)
        for k in range(3):
            u = 0.1 + 0.1 * k
            gather = curve(o.at(s * (u + 0.2), 0.12), o.at(s * (u + 0.1), 0.4), o.at(s * u, 0.8))
            o.canvas.crease(gather, 4.0, 0.14, 3.0)
    drape(o, 0.14)


def gown(o: Outfit) -> None:
    printed = Cloth(o.main, "plain", o.second, ("dots", 11, 1.25))
    yoke(o, printed, 0.03)
    cover_all(o, printed)
    drape(o, 0.18)
    seams(o, 0.22)
    band(o, o.second, 0.05, 0.0)
    chin_shade(o, 0.18)


def winter_coat(o: Outfit) -> None:
    yoke(o, weave(o.main, "rough"), 0.02)
    drape(o, 0.24)
    seams(o, 0.4)
    lapels(o, lighter(o.main, 0.05), 0.95, 0.42)
    button(o, o.at(0.1, 0.5), darker(o.main, 0.5), 0.045)
    _scarf(o)
    chin_shade(o, 0.3)


def _scarf(o: Outfit) -> None:
    """Wound once around the neck, one end hanging."""
    t = o.torso
    end = [o.at(0.02, 0.0), o.at(0.24, 0.02), o.at(0.3, 1), o.at(0.04, 1)]
    o.canvas.piece(end, knit(darker(o.second, 0.12), 4), 0.5, 4.0)
    loop = curve(
        (t.throat(-1)[0] - 2, t.throat(-1)[1] + 6),
        (t.x - 0.7 * t.neck, t.y - o.span(0.03)),
        o.at(0, 0.06),
        (t.x + 0.7 * t.neck, t.y - o.span(0.03)),
        (t.throat(1)[0] + 2, t.throat(1)[1] + 6),
    )
    o.canvas.crease(loop, o.span(0.3), 0.5, 4.0)
    o.canvas.line(loop, o.span(0.27), knit(o.second, 4))
    for k in (-0.08, 0.0, 0.07):
        o.canvas.crease([(x, y + o.span(k)) for x, y in loop], 2.5, 0.3, 2.0)
    o.canvas.shine([(x, y - o.span(0.05)) for x, y in loop], 4.0, 0.12, 3.0)


CUTS: Mapping[str, Callable[[Outfit], None]] = {
    cut.__name__: cut
    for cut in (
        suit,
        uniform,
        doctor_coat,
        cardigan,
        house_cardigan,
        tunic,
        guard_shirt,
        jersey,
        couture,
        work_vest,
        sweater,
        field_jacket,
        shawl,
        parka,
        wrap_top,
        gown,
        winter_coat,
    )
}
