"""Things on, before and behind the figure: stethoscope, podium, wheelchair, signs, glasses.

A prop may cover a little skin; it never tints any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brush import (
    Canvas,
    Colour,
    Point,
    box,
    curve,
    darker,
    ellipse,
    lighter,
    mirrored,
    star,
)
from model import Torso
from tailoring import GOLD, SIDES, SILVER

from stillme.sources.heads import SIZE

PAPER: Colour = (248, 249, 250)
BLUE: Colour = (24, 84, 160)
LOW = SIZE + 70  # below the sheet of things at the sides


@dataclass(frozen=True)
class Stage:
    """What a prop painter may use."""

    canvas: Canvas
    torso: Torso
    points: Mapping[str, Point]
    colours: tuple[Colour, Colour, Colour]
    variant: int

    def at(self, u: float, v: float) -> Point:
        return self.torso.at(u, v)

    def span(self, share: float) -> float:
        return share * self.torso.half


Painter = Callable[[Stage], None]


def pocket_square(s: Stage) -> None:
    folded = [s.at(0.47, 0.43), s.at(0.5, 0.35), s.at(0.55, 0.41), s.at(0.6, 0.36), s.at(0.63, 0.44)]
    s.canvas.fill(folded, s.colours[1])
    s.canvas.line([s.at(0.44, 0.44), s.at(0.66, 0.45)], 2.0, darker(s.colours[0], 0.45))


def lapel_pin(s: Stage) -> None:
    x, y = s.at(0.38, 0.2)
    s.canvas.fill(ellipse((x, y), s.span(0.034), s.span(0.034)), GOLD)
    s.canvas.fill(ellipse((x, y), s.span(0.022), s.span(0.022)), s.colours[2])


def stethoscope(s: Stage) -> None:
    t = s.torso
    tube: Colour = (34, 38, 46)
    for k in SIDES:
        throat = t.throat(k)
        hang = curve(
            (throat[0] + k * s.span(0.01), throat[1] + s.span(0.02)),
            (t.x + k * s.span(0.42), t.y + s.span(0.0)),
            s.at(k * 0.36, 0.3),
            s.at(k * 0.26, 0.62),
        )
        _tube(s, hang, tube)
    x, y = s.at(0.32, 0.36)
    s.canvas.fill(ellipse((x + 1, y + 2), s.span(0.085), s.span(0.085)), (20, 24, 28), 0.4, 2.0)
    s.canvas.fill(ellipse((x, y), s.span(0.08), s.span(0.08)), SILVER)
    s.canvas.fill(ellipse((x, y), s.span(0.06), s.span(0.06)), (120, 126, 134))
    s.canvas.fill(ellipse((x - 2, y - 2), s.span(0.03), s.span(0.03)), PAPER, 0.8)


def _tube(s: Stage, line: list[Point], colour: Colour) -> None:
    s.canvas.line([(x + 2, y + 2) for x, y in line], s.span(0.05), (0, 0, 0), 0.25, 1.5)
    s.canvas.line(line, s.span(0.048), colour)
    s.canvas.line([(x - 1, y - 0.6) for x, y in line], s.span(0.012), lighter(colour, 0.45), 0.8)


def paper_star(s: Stage) -> None:
    x, y = s.at(0.46, 0.24)
    s.canvas.fill(star((x + 1, y + 2), s.span(0.105)), (0, 0, 0), 0.3, 1.5)
    s.canvas.fill(star((x, y), s.span(0.1)), (250, 206, 66))
    s.canvas.fill(ellipse((x, y), s.span(0.035), s.span(0.035)), (240, 120, 90))


def radio(s: Stage) -> None:
    """A shoulder microphone with its cord."""
    x, y = s.at(-0.66, 0.06)
    w, h = s.span(0.062), s.span(0.09)
    cord = curve((x, y + h), (x - s.span(0.1), y + s.span(0.3)), (x - s.span(0.06), y + s.span(0.8)))
    s.canvas.line([(a + 1.5, b + 1.5) for a, b in cord], 3.4, (0, 0, 0), 0.3, 1.0)
    s.canvas.line(cord, 3.2, (22, 24, 28))
    s.canvas.fill(box(x - w + 1, y - h + 2, x + w + 2, y + h + 3, 4), (0, 0, 0), 0.35, 2.0)
    s.canvas.fill(box(x - w, y - h, x + w, y + h, 4), (30, 32, 36))
    s.canvas.line([(x - w, y - h + 3), (x - w, y + h - 3)], 1.2, (96, 100, 106))
    for k in range(4):
        row = y - h * 0.4 + 3.2 * k
        s.canvas.line([(x - w * 0.6, row), (x + w * 0.6, row)], 1.2, (92, 96, 102))
    s.canvas.fill(ellipse((x + w * 0.5, y - h * 0.72), 1.6, 1.6), (230, 70, 60))


def earrings(s: Stage) -> None:
    for side in ("ear_left", "ear_right"):
        x, y = s.points[side]
        y += 0.32 * s.torso.eyes
        s.canvas.line([(x, y), (x, y + 0.16 * s.torso.eyes)], 1.2, s.colours[1])
        s.canvas.fill(ellipse((x, y + 0.26 * s.torso.eyes), 2.8, 0.12 * s.torso.eyes), s.colours[1])
        s.canvas.fill(ellipse((x + 0.6, y + 0.22 * s.torso.eyes), 0.9, 1.6), PAPER, 0.9)


def glasses(s: Stage) -> None:
    """Thin frames; the lenses stay clear so that eyes and skin are seen as they are."""
    frame: Colour = ((52, 44, 40), (60, 64, 72), (96, 70, 44), (40, 40, 44))[s.variant]
    d = s.torso.eyes
    left, right = s.points["eye_left"], s.points["eye_right"]
    for x, y in (left, right):
        rim = box(x - 0.37 * d, y - 0.2 * d, x + 0.37 * d, y + 0.28 * d, 0.16 * d)
        s.canvas.line([*rim, rim[0]], 2.2, frame)
        s.canvas.line([(x - 0.2 * d, y - 0.2 * d), (x + 0.2 * d, y - 0.2 * d)], 0.8, lighter(frame, 0.5), 0.6)
    bridge = curve(
        (left[0] + 0.37 * d, left[1]),
        ((left[0] + right[0]) / 2, left[1] - 0.07 * d),
        (right[0] - 0.37 * d, right[1]),
    )
    s.canvas.line(bridge, 2.0, frame)
    for eye, ear, k in ((left, "ear_left", -1), (right, "ear_right", 1)):
        start = (eye[0] + k * 0.37 * d, eye[1] - 0.05 * d)
        s.canvas.line([start, (s.points[ear][0], start[1])], 1.8, frame)


def podium(s: Stage) -> None:
    wood: Colour = (92, 58, 36)
    top = SIZE * 0.9
    s.canvas.fill([(26, top), (SIZE - 26, top), (SIZE + 4, SIZE + 4), (-4, SIZE + 4)], wood)
    s.canvas.fill([(26, top), (SIZE - 26, top), (SIZE - 22, top + 6), (22, top + 6)], lighter(wood, 0.35))
    for k in range(7):
        y = top + 10 + 5 * k
        s.canvas.line([(20 - k, y), (SIZE - 20 + k, y)], 0.8, darker(wood, 0.25), 0.6)
    for x, lean in ((118, 22), (172, 6), (214, -8), (268, -24)):
        _microphone(s, x, top, lean)


def _microphone(s: Stage, x: float, base: float, lean: float) -> None:
    tip = (x + lean, base - 36)
    stem = curve((x, base + 6), (x + lean * 0.3, base - 16), tip)
    s.canvas.line(stem, 3.4, (36, 38, 42))
    s.canvas.line([(a - 0.8, b) for a, b in stem], 1.0, (120, 124, 130))
    head = ellipse((tip[0] + lean * 0.1, tip[1] - 8), 7.5, 10.5, lean * 0.012)
    s.canvas.fill(head, (28, 29, 32))
    s.canvas.fill(ellipse((tip[0] + lean * 0.1 + 2, tip[1] - 11), 2.6, 4.0), (84, 88, 94), 0.7, 1.0)
    s.canvas.fill(
        box(tip[0] - 5, tip[1] + 1, tip[0] + 5, tip[1] + 7, 2),
        ((196, 44, 50), (30, 90, 170), (240, 240, 240), (230, 170, 40))[int(x) % 4],
    )


def crutches(s: Stage) -> None:
    """Two forearm crutches, cuffs upward, at the figure's sides."""
    for k in SIDES:
        x = s.torso.x + k * s.span(1.0)
        x = min(max(x, 26.0), SIZE - 26.0)
        y = s.torso.y + s.span(0.02)
        s.canvas.line([(x + 2, y + 10), (x + 2 - k * 6, LOW)], 11, (0, 0, 0), 0.25, 3.0)
        s.canvas.line([(x, y + 8), (x - k * 6, LOW)], 9, (150, 158, 166))
        s.canvas.line([(x - 2, y + 8), (x - 2 - k * 6, LOW)], 2.4, (232, 236, 240))
        cuff = curve((x - 17, y - 26), (x - 19, y - 2), (x, y + 13), (x + 19, y - 2), (x + 17, y - 26))
        s.canvas.line(cuff, 8.5, (44, 50, 58))
        s.canvas.line([(a - 1, b - 1.5) for a, b in cuff], 2.0, (118, 126, 134), 0.8)
        s.canvas.line([(x - k * 2, y + 44), (x - k * 30, y + 48)], 12, (40, 44, 50))


def wheelchair(s: Stage) -> None:
    """Backrest and push handles, behind the shoulders."""
    u = 0.8
    back = [s.at(-u, -0.4), s.at(u, -0.4), s.at(u, 1.0), s.at(-u, 1.0)]
    s.canvas.fill(back, (40, 45, 54))
    s.canvas.line([s.at(-u, -0.38), s.at(u, -0.38)], 5.0, (70, 77, 88))
    s.canvas.line([s.at(-u, -0.31), s.at(u, -0.31)], 1.2, (104, 111, 122))
    for k in SIDES:
        x, y = s.at(k * u, -0.56)
        bar = curve((x, LOW), (x, y + 40), (x, y + 14), (x + k * 7, y + 2), (x + k * 24, y))
        s.canvas.line(bar, 9, (112, 118, 126))
        s.canvas.line([(a - 1.5, b - 1.5) for a, b in bar], 2.4, (214, 220, 226))
        s.canvas.line([(x + k * 14, y), (x + k * 46, y + 1)], 16, (30, 32, 36))
        for j in range(6):
            s.canvas.line([(x + k * (15 + 6 * j), y - 6), (x + k * (15 + 6 * j), y + 7)], 1.4, (76, 80, 86))


def cane(s: Stage) -> None:
    """A walking stick held before the body; its crook shows at the lower edge."""
    wood: Colour = (112, 70, 40)
    x, y = s.at(0.62, 0.3)
    x, y = min(x, SIZE - 54.0), min(y, SIZE - 58.0)
    crook = curve((x + 4, LOW), (x, y + 26), (x + 2, y + 4), (x + 18, y - 10), (x + 36, y + 2), (x + 38, y + 22))
    s.canvas.line([(a + 3, b + 3) for a, b in crook], 12, (0, 0, 0), 0.3, 3.0)
    s.canvas.line(crook, 11, wood)
    s.canvas.line([(a - 2, b - 2) for a, b in crook], 3.0, lighter(wood, 0.4), 0.8)


def priority_seat_sign(s: Stage) -> None:
    """A seated person with a stick, and a line of text, in focus beside the head."""
    left, top, right, bottom = 6.0, 58.0, 102.0, 186.0
    _board(s, left, top, right, bottom, BLUE)
    x, y = 44.0, 84.0
    s.canvas.fill(ellipse((x, y), 8, 8), PAPER)
    s.canvas.line([(x - 1, y + 15), (x + 1, y + 36)], 13, PAPER)
    s.canvas.line([(x + 1, y + 37), (x + 23, y + 39), (x + 26, y + 62)], 9, PAPER)
    s.canvas.line([(x, y + 18), (x + 20, y + 28)], 6, PAPER)
    s.canvas.line([(x + 20, y + 26), (x + 34, y + 64)], 3.4, PAPER)
    s.canvas.line([(x - 15, y + 14), (x - 13, y + 46), (x + 12, y + 48)], 5, (250, 206, 60))
    s.canvas.write(((left + right) / 2, bottom - 21), "Priority", 14, PAPER)
    s.canvas.write(((left + right) / 2, bottom - 9), "seat", 11, PAPER)


def pregnancy_sign(s: Stage) -> None:
    """A standing figure with a rounded belly and a heart."""
    left, top, right, bottom = 282.0, 40.0, 378.0, 178.0
    rose: Colour = (196, 70, 116)
    _board(s, left, top, right, bottom, rose)
    x, y = 326.0, 64.0
    s.canvas.fill(ellipse((x, y), 8.5, 8.5), PAPER)
    body = curve(
        (x - 8, y + 12),
        (x + 6, y + 12),
        (x + 9, y + 22),
        (x + 21, y + 38),
        (x + 12, y + 52),
        (x + 9, y + 80),
        steps=6,
    )
    s.canvas.fill([*body, (x - 7, y + 80), (x - 10, y + 44)], PAPER)
    heart = [*ellipse((x + 7, y + 36), 3.6, 3.6)]
    s.canvas.fill(heart, rose)
    s.canvas.fill(mirrored(heart, x + 10), rose)
    s.canvas.fill([(x + 3.8, y + 37.5), (x + 16.2, y + 37.5), (x + 10, y + 45)], rose)
    s.canvas.write(((left + right) / 2, bottom - 21), "Priority for", 12, PAPER)
    s.canvas.write(((left + right) / 2, bottom - 9), "pregnancy", 12, PAPER)


def meal_sign(s: Stage) -> None:
    left, top, right, bottom = 270.0, 30.0, 380.0, 120.0
    _board(s, left, top, right, bottom, (46, 110, 84))
    x, y = 325.0, 70.0
    bowl = curve((x - 26, y), (x - 18, y + 17), (x, y + 22), (x + 18, y + 17), (x + 26, y))
    s.canvas.fill(bowl, PAPER)
    s.canvas.line([(x - 29, y), (x + 29, y)], 3.2, PAPER)
    for dx in (-12, 0, 12):
        steam = curve((x + dx, y - 8), (x + dx + 4, y - 15), (x + dx - 3, y - 21), (x + dx + 2, y - 29))
        s.canvas.line(steam, 2.8, PAPER)
    s.canvas.write((x, bottom - 12), "Free meals", 16, PAPER)


def _board(s: Stage, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
    s.canvas.fill(box(left + 3, top + 4, right + 3, bottom + 4, 9), (0, 0, 0), 0.3, 4.0)
    s.canvas.fill(box(left, top, right, bottom, 9), PAPER)
    s.canvas.fill(box(left + 3, top + 3, right - 3, bottom - 3, 7), colour)


def forms(s: Stage) -> None:
    """Paper forms on the desk in front."""
    desk: Colour = (150, 112, 76)
    edge = SIZE * 0.93
    s.canvas.fill([(-5, edge), (SIZE + 5, edge), (SIZE + 5, SIZE + 5), (-5, SIZE + 5)], desk)
    s.canvas.line([(-5, edge), (SIZE + 5, edge)], 2.0, lighter(desk, 0.35))
    for x, lean in ((34, -16), (128, 8), (238, 22)):
        _form(s, float(x), edge, lean)
    s.canvas.line([(214, edge + 2), (252, edge - 16)], 4.0, (30, 60, 130))
    s.canvas.line([(252, edge - 16), (256, edge - 18)], 3.0, (210, 214, 220))


def _form(s: Stage, x: float, edge: float, lean: float) -> None:
    sheet = [(x + lean, edge - 18), (x + 92 + lean, edge - 18), (x + 100, edge + 26), (x - 8, edge + 26)]
    s.canvas.fill([(a + 2, b + 3) for a, b in sheet], (0, 0, 0), 0.25, 2.5)
    s.canvas.fill(sheet, (250, 249, 244))
    for k in range(5):
        y = edge - 12 + 8 * k
        s.canvas.line([(x + 22 + lean * (1 - k / 5), y), (x + 82 + lean * (1 - k / 5), y)], 1.6, (150, 156, 168))
        s.canvas.fill(
            box(x + 7 + lean * (1 - k / 5), y - 2.5, x + 13 + lean * (1 - k / 5), y + 2.5), (90, 110, 150)
        )


def _named(*painters: Painter) -> Mapping[str, Painter]:
    return {painter.__name__: painter for painter in painters}


PINNED = _named(pocket_square, lapel_pin, stethoscope, paper_star, radio)  # part of the garment's layer
FACE = _named(earrings, glasses)
SIDE = _named(crutches, cane, wheelchair)
FIXED = _named(podium, forms, priority_seat_sign, pregnancy_sign, meal_sign)
