"""Where the figure is: one function per place, painted without any photograph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from brush import Colour, darker, lighter, mix
from PIL import Image
from plate import Plate


def _skyline(p: Plate, base: float, colour: Colour, tall: float) -> None:
    x = -0.02
    while x < 1.02:
        wide, high = p.chance.uniform(0.05, 0.11), p.chance.uniform(0.3, 1.0) * tall
        p.box(x, base - high, x + wide, base + 0.2, mix(colour, (255, 255, 255), p.chance.uniform(0, 0.18)))
        for k in range(int(high / 0.045)):
            p.line(
                [
                    (x + 0.01, base - high + 0.03 + 0.045 * k),
                    (x + wide - 0.01, base - high + 0.03 + 0.045 * k),
                ],
                0.008,
                lighter(colour, 0.35),
                0.7,
            )
        x += wide + 0.004


def boardroom(variant: int) -> Image.Image:
    p = Plate((206, 220, 234), (232, 226, 214), 100 + variant)
    _skyline(p, 0.66, (138, 156, 176), 0.46)
    p.blur(4.0)
    p.glow(0.85, 0.1, 0.3, (255, 236, 200), 0.45)
    for x in (0.02, 0.33, 0.66, 0.98):
        p.box(x - 0.014, 0, x + 0.014, 0.76, (64, 70, 80))
    p.box(0, 0.16, 1, 0.178, (74, 80, 90))
    p.box(0, 0.7, 1, 1, (92, 80, 70))
    p.box(0, 0.69, 1, 0.715, (58, 56, 58))
    p.box(-0.1, 0.86, 1.1, 1.2, (70, 50, 38), 12)
    for x in (0.05, 0.95):
        p.box(x - 0.09, 0.64, x + 0.09, 1, (44, 46, 54), 22)
    p.blur(3.2)
    p.glow(0.1 + 0.05 * variant, 0.2, 0.25, (255, 240, 214), 0.2)
    return p.finish()


def command_room(variant: int) -> Image.Image:
    p = Plate((40, 52, 62), (26, 32, 38), 200 + variant)
    p.box(0.03, 0.05, 0.97, 0.7, (58, 92, 104), 4)
    for _ in range(9):
        _landmass(p)
    for k in range(1, 8):
        p.line([(0.03 + k * 0.118, 0.05), (0.03 + k * 0.118, 0.7)], 0.003, (150, 196, 198), 0.6)
        p.line([(0.03, 0.05 + k * 0.082), (0.97, 0.05 + k * 0.082)], 0.003, (150, 196, 198), 0.6)
    for x0, y0, x1, y1 in ((0.08, 0.5, 0.3, 0.2), (0.7, 0.24, 0.93, 0.46)):
        p.line([(x0, y0), ((x0 + x1) / 2, min(y0, y1) - 0.05), (x1, y1)], 0.011, (236, 96, 70))
        p.disc(x1, y1, 0.02, (255, 206, 90))
    p.disc(0.13, 0.2, 0.045, (255, 206, 90), 0.55)
    p.disc(0.87, 0.58, 0.035, (255, 120, 90), 0.6)
    p.blur(2.6)
    for x in (0.08, 0.9):
        p.box(x - 0.13, 0.76, x + 0.13, 0.95, (20, 24, 28), 4)
        p.box(x - 0.115, 0.775, x + 0.115, 0.935, (92, 170, 176), 2, 0.75)
    p.blur(2.4)
    p.glow(0.5, 0.1, 0.4, (120, 190, 196), 0.3)
    return p.finish(0.3)


def _landmass(p: Plate) -> None:
    x, y = p.chance.uniform(0.05, 0.95), p.chance.uniform(0.12, 0.62)
    turns = np.linspace(0, 6.283, 14)[:-1]
    spread = p.chance.uniform(0.03, 0.11, 13)
    outline = [
        (x + 1.3 * s * float(np.cos(a)), y + s * float(np.sin(a))) for a, s in zip(turns, spread, strict=True)
    ]
    p.shape(outline, (122, 150, 112), 0.9)


def operating_theatre(variant: int) -> Image.Image:
    p = Plate((160, 196, 200), (88, 128, 136), 300 + variant)
    for k in range(9):
        p.line([(k / 8, 0), (k / 8, 1)], 0.004, (196, 222, 224), 0.6)
        p.line([(0, k / 8), (1, k / 8)], 0.004, (196, 222, 224), 0.6)
    p.box(0.76, 0.42, 0.99, 0.66, (30, 44, 52), 6)
    for row, colour in ((0.48, (90, 220, 130)), (0.54, (240, 210, 80)), (0.6, (90, 190, 240))):
        trace = [(0.78 + 0.02 * k, row + (-0.03 if k % 4 == 1 else 0.012 if k % 4 == 2 else 0)) for k in range(10)]
        p.line(trace, 0.008, colour)
    p.box(0, 0.8, 1, 1, (58, 118, 124))
    p.blur(3.4)
    for x, y, r in ((0.16, 0.17, 0.15), (0.86, 0.13, 0.13)):
        _theatre_lamp(p, x, y, r)
    p.blur(1.6)
    p.glow(0.16, 0.17, 0.16, (255, 252, 240), 0.5)
    p.glow(0.86, 0.13, 0.14, (255, 252, 240), 0.5)
    return p.finish(0.25)


def _theatre_lamp(p: Plate, x: float, y: float, r: float) -> None:
    p.line([(x, y), (x, -0.1)], 0.022, (196, 204, 208))
    p.disc(x, y, r, (206, 214, 218), ry=r * 0.72)
    p.disc(x, y + 0.008, r * 0.9, (120, 140, 146), ry=r * 0.6)
    for dx, dy in ((0, 0), (0.55, 0), (-0.55, 0), (0.28, 0.32), (-0.28, 0.32), (0.28, -0.32), (-0.28, -0.32)):
        p.disc(x + dx * r, y + 0.008 + dy * r, r * 0.19, (255, 253, 240), ry=r * 0.15)


def classroom(variant: int) -> Image.Image:
    p = Plate((250, 240, 214), (236, 214, 176), 400 + variant)
    paper = ((226, 74, 66), (250, 190, 52), (70, 158, 214), (96, 178, 96), (236, 126, 60), (156, 106, 190))
    p.box(0.0, 0.1, 0.3, 0.44, (112, 150, 108), 3)
    p.box(0.012, 0.112, 0.288, 0.428, (74, 118, 88), 2)
    p.write(0.15, 0.22, "A B C", 0.085, (244, 244, 236))
    p.write(0.15, 0.35, "1 2 3", 0.085, (250, 224, 130))
    for k in range(13):
        x, colour = k / 12, paper[(k + variant) % 6]
        drop = 0.035 + 0.03 * (1 - (2 * x - 1) ** 2)
        p.shape([(x - 0.04, drop), (x + 0.04, drop), (x, drop + 0.085)], colour)
    _paper_shapes(p, paper)
    p.box(0.68, 0.56, 1.0, 1.0, (196, 152, 104), 3)
    for k in range(3):
        p.box(0.71, 0.6 + 0.14 * k, 0.97, 0.7 + 0.14 * k, (150, 110, 72), 2)
        for j in range(5):
            p.box(
                0.72 + 0.05 * j,
                0.62 + 0.14 * k + p.jitter(0.01),
                0.757 + 0.05 * j,
                0.7 + 0.14 * k,
                paper[(j + k) % 6],
                1,
            )
    p.box(-0.02, 0.62, 0.25, 1, (232, 190, 120), 6)
    for k in range(3):
        p.box(0.03 + 0.07 * k, 0.53, 0.085 + 0.07 * k, 0.62, paper[(k + 2) % 6], 3)
    p.blur(2.6)
    p.glow(0.9, 0.2, 0.3, (255, 250, 230), 0.3)
    return p.finish(0.12)


def _paper_shapes(p: Plate, paper: tuple[Colour, ...]) -> None:
    p.disc(0.82, 0.24, 0.055, (250, 200, 60))
    for k in range(8):
        a = k * 0.785
        tip = (0.82 + 0.105 * float(np.cos(a)), 0.24 + 0.105 * float(np.sin(a)))
        p.line([(0.82 + 0.065 * float(np.cos(a)), 0.24 + 0.065 * float(np.sin(a))), tip], 0.014, (250, 200, 60))
    for x, y, colour in ((0.93, 0.42, paper[2]), (0.74, 0.44, paper[0])):
        for dx, dy in ((0.03, 0), (-0.03, 0), (0, 0.03), (0, -0.03)):
            p.disc(x + dx, y + dy, 0.025, colour)
        p.disc(x, y, 0.02, (255, 236, 140))


def laundry(variant: int) -> Image.Image:
    wall = ((226, 220, 208), (214, 222, 220), (228, 218, 214), (220, 222, 226))[variant]
    p = Plate(wall, darker(wall, 0.14), 500 + variant)
    p.box(0.7, 0.0, 1.0, 0.5, (236, 244, 248), 2)
    p.box(0.845, 0, 0.858, 0.5, (250, 250, 250))
    p.glow(0.86, 0.2, 0.2, (255, 250, 236), 0.5)
    for y in (0.24, 0.5):
        p.box(-0.02, y, 0.3, y + 0.02, (170, 138, 102))
        _towels(p, y)
    p.box(-0.02, 0.66, 0.27, 1.02, (240, 242, 244), 6)
    p.disc(0.125, 0.83, 0.1, (176, 184, 192))
    p.disc(0.125, 0.83, 0.078, (84, 100, 116))
    p.disc(0.1, 0.8, 0.03, (180, 200, 214), 0.7)
    p.box(0.76, 0.56, 1.02, 0.6, (186, 154, 116))
    p.box(0.8, 0.42, 0.86, 0.56, (92, 160, 190), 6)
    p.box(0.815, 0.375, 0.845, 0.43, (240, 240, 240), 2)
    p.shape([(0.88, 0.56), (0.99, 0.56), (1.01, 0.46), (0.87, 0.46)], (206, 170, 122))
    p.disc(0.94, 0.455, 0.065, (250, 250, 248), ry=0.03)
    p.blur(2.7)
    return p.finish(0.16)


def _towels(p: Plate, shelf: float) -> None:
    tones: tuple[Colour, ...] = ((246, 246, 242), (186, 206, 216), (240, 236, 226), (214, 196, 180))
    for stack in range(2):
        for k in range(4):
            x = 0.02 + 0.14 * stack
            p.box(x, shelf - 0.045 * (k + 1), x + 0.12, shelf - 0.045 * k - 0.004, tones[(k + stack) % 4], 6)


def airport(variant: int) -> Image.Image:
    p = Plate((214, 226, 236), (190, 194, 198), 600 + variant)
    p.box(0, 0.3, 1, 0.62, (198, 220, 238))
    p.glow(0.2, 0.4, 0.25, (255, 244, 224), 0.4)
    _airliner(p, 0.17, 0.53)
    for k in range(8):
        p.box(k / 7 - 0.008, 0.28, k / 7 + 0.008, 0.64, (112, 122, 132))
    p.box(0, 0.62, 1, 1, (166, 170, 174))
    p.glow(0.5, 0.9, 0.35, (255, 255, 255), 0.25)
    for x in (0.08, 0.9):
        p.box(x - 0.012, 0.66, x + 0.012, 0.98, (60, 64, 70))
    p.line([(-0.05, 0.71), (0.08, 0.69), (0.3, 0.73)], 0.02, (40, 84, 150))
    p.line([(0.7, 0.73), (0.9, 0.69), (1.05, 0.71)], 0.02, (40, 84, 150))
    p.blur(3.0)
    p.box(0.0, 0.05, 0.33, 0.22, (26, 34, 46), 3)
    p.write(0.11, 0.1, "Gates", 0.055, (250, 206, 60))
    p.write(0.1, 0.17, "A  B  C", 0.045, (244, 244, 244))
    p.line([(0.24, 0.135), (0.3, 0.135)], 0.016, (250, 206, 60))
    p.shape([(0.285, 0.1), (0.32, 0.135), (0.285, 0.17)], (250, 206, 60))
    p.box(0.67, 0.05, 1.0, 0.22, (250, 206, 60), 3)
    p.write(0.835, 0.1, "Security", 0.056, (26, 34, 46))
    p.write(0.835, 0.17, "Checkpoint", 0.046, (26, 34, 46))
    p.blur(1.15)
    return p.finish(0.15)


def _airliner(p: Plate, x: float, y: float) -> None:
    hull: Colour = (246, 248, 250)
    p.box(x - 0.17, y - 0.025, x + 0.15, y + 0.025, hull, 9)
    p.shape([(x - 0.17, y), (x - 0.2, y - 0.1), (x - 0.16, y - 0.1), (x - 0.12, y)], (52, 104, 170))
    p.shape(
        [(x - 0.02, y + 0.01), (x - 0.1, y + 0.07), (x - 0.06, y + 0.07), (x + 0.05, y + 0.01)],
        (196, 204, 212),
    )


def press_hall(variant: int) -> Image.Image:
    deep = ((36, 52, 92), (52, 40, 46), (30, 62, 74), (48, 44, 66))[variant]
    p = Plate(lighter(deep, 0.16), darker(deep, 0.25), 700 + variant)
    for k in range(26):
        x = k / 25
        p.line([(x, 0), (x + 0.01, 1)], 0.016, darker(deep, 0.35) if k % 2 else lighter(deep, 0.14), 0.6)
    p.blur(4.0)
    tones: tuple[Colour, ...] = ((146, 44, 60), (50, 82, 136), (64, 116, 104), (118, 98, 140))
    for k, x in enumerate((0.05, 0.19, 0.81, 0.95)):
        _drape(p, x, tones[(k + variant) % 4], (206, 172, 92))
    p.blur(3.0)
    p.glow(0.5, 0.3, 0.3, lighter(deep, 0.5), 0.35)
    return p.finish(0.3)


def _drape(p: Plate, x: float, colour: Colour, edge: Colour) -> None:
    """A hanging banner of plain colours; it stands for no country."""
    p.line([(x, 0.02), (x, 1)], 0.012, (190, 160, 90))
    p.disc(x, 0.02, 0.018, (214, 182, 100))
    p.shape([(x - 0.015, 0.06), (x + 0.055, 0.12), (x + 0.075, 0.8), (x - 0.045, 0.86), (x - 0.03, 0.3)], colour)
    p.line([(x + 0.055, 0.12), (x + 0.075, 0.8), (x - 0.045, 0.86)], 0.012, edge)
    p.line([(x + 0.045, 0.15), (x + 0.055, 0.8)], 0.012, darker(colour, 0.4), 0.6)


def stadium(variant: int) -> Image.Image:
    p = Plate((34, 54, 92), (70, 104, 140), 800 + variant)
    p.box(0, 0.28, 1, 0.66, (58, 62, 78))
    crowd: tuple[Colour, ...] = (
        (206, 70, 66),
        (228, 222, 214),
        (70, 110, 176),
        (236, 190, 90),
        (120, 84, 70),
    )
    for _ in range(520):
        x, y = p.chance.uniform(0, 1), p.chance.uniform(0.29, 0.65)
        p.disc(x, y, 0.009, crowd[int(p.chance.integers(5))], 0.75)
    p.line([(0, 0.29), (1, 0.29)], 0.02, (28, 32, 42))
    p.box(0, 0.65, 1, 0.72, (228, 230, 234))
    for k in range(5):
        p.box(0.02 + k * 0.2, 0.662, 0.18 + k * 0.2, 0.708, ((30, 80, 160), (190, 40, 46))[(k + variant) % 2])
    p.box(0, 0.72, 1, 1, (76, 146, 70))
    for k in range(5):
        p.shape(
            [(k * 0.24 - 0.1, 1), (k * 0.24 + 0.02, 1), (0.3 + k * 0.1, 0.72), (0.25 + k * 0.1, 0.72)],
            (96, 166, 84),
        )
    p.blur(3.4)
    for x in (0.1, 0.9):
        p.box(x - 0.09, 0.05, x + 0.09, 0.16, (210, 220, 236), 2)
        for k in range(8):
            p.disc(x - 0.07 + 0.0467 * (k % 4), 0.08 + 0.05 * (k // 4), 0.018, (255, 255, 250))
        p.line([(x, 0.16), (x, 0.34)], 0.012, (60, 66, 78))
    p.blur(1.8)
    for x in (0.1, 0.9):
        p.glow(x, 0.1, 0.13, (255, 252, 236), 0.85)
    return p.finish(0.28)


def runway(variant: int) -> Image.Image:
    tint = ((146, 96, 150), (196, 120, 86), (80, 130, 168), (170, 150, 110))[variant]
    p = Plate((22, 20, 28), (46, 40, 50), 900 + variant)
    p.shape([(0.38, 0.62), (0.62, 0.62), (1.15, 1.05), (-0.15, 1.05)], (214, 206, 210))
    p.shape([(0.43, 0.2), (0.57, 0.2), (0.62, 0.63), (0.38, 0.63)], lighter(tint, 0.55))
    p.blur(6.0)
    for s in (-1, 1):
        for k in range(5):
            x = 0.5 + s * (0.17 + 0.075 * k)
            p.box(x - 0.012, 0.03, x + 0.012, 0.62 + 0.05 * k, lighter(tint, 0.45 - 0.06 * k))
    p.blur(2.2)
    p.glow(0.5, 0.25, 0.3, tint, 0.7)
    for x in (0.06, 0.94):
        p.glow(x, 0.06, 0.1, (255, 244, 226), 0.9)
    lights: tuple[Colour, ...] = ((255, 240, 220), lighter(tint, 0.3), (255, 214, 150))
    p.bokeh(16, (0.0, 0.62, 0.26, 0.98), lights, (0.014, 0.032), 0.7)
    p.bokeh(16, (0.74, 0.62, 1.0, 0.98), lights, (0.014, 0.032), 0.7)
    p.bokeh(10, (0.0, 0.02, 1.0, 0.16), lights, (0.012, 0.025), 0.6)
    return p.finish(0.35)


def corridor(variant: int) -> Image.Image:
    wall = ((206, 214, 216), (214, 210, 200), (200, 212, 206), (210, 208, 216))[variant]
    p = Plate(lighter(wall, 0.3), darker(wall, 0.1), 1000 + variant)
    p.shape([(0, 0), (0.36, 0.26), (0.36, 0.62), (0, 0.86)], darker(wall, 0.06))
    p.shape([(1, 0), (0.64, 0.26), (0.64, 0.62), (1, 0.86)], darker(wall, 0.1))
    p.box(0.36, 0.26, 0.64, 0.62, lighter(wall, 0.35))
    p.shape([(0, 0.86), (0.36, 0.62), (0.64, 0.62), (1, 0.86), (1, 1), (0, 1)], (150, 160, 166))
    p.shape([(0.4, 0.64), (0.6, 0.64), (0.75, 1), (0.25, 1)], (190, 200, 206), 0.6)
    for k in range(3):
        w = 0.05 + 0.05 * k
        p.shape(
            [
                (0.5 - w, 0.2 - 0.08 * k),
                (0.5 + w, 0.2 - 0.08 * k),
                (0.5 + w * 1.2, 0.17 - 0.085 * k),
                (0.5 - w * 1.2, 0.17 - 0.085 * k),
            ],
            (255, 255, 250),
        )
    p.shape([(0.12, 0.22), (0.25, 0.28), (0.25, 0.69), (0.12, 0.78)], (120, 142, 158))
    p.shape([(0.76, 0.28), (0.87, 0.22), (0.87, 0.77), (0.76, 0.7)], (120, 142, 158))
    p.blur(3.2)
    _wet_floor_sign(p, 0.13, 0.8)
    _mop(p)
    p.blur(1.5)
    return p.finish(0.18)


def _wet_floor_sign(p: Plate, x: float, y: float) -> None:
    yellow: Colour = (248, 200, 36)
    p.shape([(x - 0.055, y - 0.2), (x + 0.055, y - 0.2), (x + 0.11, y + 0.16), (x - 0.11, y + 0.16)], yellow)
    p.shape([(x, y - 0.16), (x + 0.05, y - 0.06), (x - 0.05, y - 0.06)], (30, 30, 30))
    p.line([(x, y - 0.13), (x, y - 0.095)], 0.011, yellow)
    p.disc(x, y - 0.073, 0.006, yellow)
    p.line([(x - 0.05, y - 0.02), (x + 0.05, y - 0.02)], 0.014, (40, 40, 40))
    p.line([(x - 0.055, y + 0.03), (x + 0.055, y + 0.03)], 0.014, (40, 40, 40))


def _mop(p: Plate) -> None:
    p.line([(0.95, 0.1), (0.87, 0.8)], 0.02, (196, 150, 92))
    p.box(0.78, 0.72, 1.0, 1.02, (46, 110, 180), 8)
    p.box(0.77, 0.7, 1.01, 0.745, (64, 134, 204), 4)
    for k in range(7):
        p.line([(0.83 + 0.014 * k, 0.64), (0.82 + 0.018 * k, 0.73)], 0.014, (236, 232, 222))


def ramp(variant: int) -> Image.Image:
    p = Plate((196, 214, 226), (204, 200, 190), 1100 + variant)
    p.glow(0.75, 0.15, 0.3, (255, 246, 220), 0.5)
    for _ in range(26):
        x, y = p.chance.uniform(0, 1), p.chance.uniform(0.2, 0.52)
        p.disc(
            x,
            y,
            p.chance.uniform(0.04, 0.09),
            mix((96, 136, 88), (160, 180, 110), p.chance.uniform(0, 1)),
            0.7,
        )
    p.blur(7.0)
    p.box(0, 0.56, 1, 1, (184, 180, 172))
    p.shape([(-0.1, 0.9), (1.1, 0.62), (1.1, 1.1), (-0.1, 1.1)], (206, 202, 192))
    p.blur(3.0)
    for y0, y1 in ((0.68, 0.42), (0.8, 0.54)):
        p.line([(-0.05, y0), (1.05, y1)], 0.024, (92, 102, 112))
        p.line([(-0.05, y0 - 0.006), (1.05, y1 - 0.006)], 0.008, (206, 214, 220))
    for x in (0.06, 0.34, 0.66, 0.95):
        p.line([(x, 0.67 - 0.24 * x), (x, 1)], 0.018, (92, 102, 112))
    p.blur(1.5)
    return p.finish(0.16)


def courtyard(variant: int) -> Image.Image:
    p = Plate((206, 214, 214), (190, 182, 166), 1200 + variant)
    p.box(0, 0.0, 1, 0.62, (204, 190, 168))
    for x in (0.02, 0.3, 0.58, 0.86):
        p.box(x, 0.08, x + 0.13, 0.36, (126, 144, 156), 20)
        p.box(x + 0.06, 0.08, x + 0.07, 0.36, (220, 214, 204))
        p.box(x - 0.015, 0.36, x + 0.145, 0.38, (178, 164, 142))
    for _ in range(24):
        x = p.chance.choice([p.chance.uniform(0, 0.28), p.chance.uniform(0.72, 1)])
        p.disc(
            float(x),
            p.chance.uniform(0.42, 0.66),
            p.chance.uniform(0.03, 0.07),
            mix((74, 108, 66), (140, 160, 90), p.chance.uniform(0, 1)),
            0.8,
        )
    p.box(0, 0.66, 1, 1, (178, 170, 156))
    p.blur(6.0)
    p.glow(0.2 + 0.2 * variant, 0.1, 0.3, (255, 240, 206), 0.35)
    return p.finish(0.2)


def study(variant: int) -> Image.Image:
    p = Plate((206, 190, 166), (150, 126, 100), 1300 + variant)
    _bookshelf(p, 0.0, 0.32)
    _bookshelf(p, 0.72, 1.0)
    p.box(0.36, 0.06, 0.64, 0.36, (120, 92, 62), 2)
    p.box(0.38, 0.08, 0.62, 0.34, (176, 196, 190))
    p.shape([(0.38, 0.34), (0.46, 0.2), (0.52, 0.28), (0.57, 0.18), (0.62, 0.34)], (110, 140, 118))
    p.blur(4.0)
    p.glow(0.12, 0.42, 0.14, (255, 214, 140), 0.65)
    p.shape([(0.07, 0.4), (0.19, 0.4), (0.23, 0.54), (0.03, 0.54)], (252, 232, 190), 0.95)
    p.line([(0.13, 0.54), (0.13, 0.78)], 0.014, (110, 84, 56))
    p.blur(2.4)
    return p.finish(0.24)


def _bookshelf(p: Plate, left: float, right: float) -> None:
    spines: tuple[Colour, ...] = (
        (134, 62, 50),
        (60, 84, 104),
        (178, 146, 92),
        (84, 104, 78),
        (196, 186, 168),
        (92, 66, 84),
    )
    p.box(left - 0.02, 0.0, right + 0.02, 1, (116, 84, 56))
    for row in range(5):
        y, x = 0.03 + 0.2 * row, left
        p.box(left, y, right, y + 0.17, (74, 54, 38))
        while x < right - 0.02:
            wide = p.chance.uniform(0.018, 0.036)
            p.box(
                x,
                y + p.chance.uniform(0.01, 0.05),
                x + wide - 0.003,
                y + 0.17,
                spines[int(p.chance.integers(6))],
            )
            x += wide


def stairs(variant: int) -> Image.Image:
    p = Plate((226, 216, 200), (190, 174, 152), 1400 + variant)
    p.box(0.7, 0.06, 0.94, 0.4, (232, 240, 242), 2)
    p.box(0.815, 0.06, 0.825, 0.4, (246, 246, 242))
    p.glow(0.82, 0.22, 0.16, (255, 248, 226), 0.6)
    for k in range(7):
        p.box(-0.1, 0.96 - 0.085 * k, 0.42 - 0.06 * k, 1.1, mix((170, 132, 96), (208, 176, 140), k / 6))
        p.box(-0.1, 0.96 - 0.085 * k, 0.42 - 0.06 * k, 0.972 - 0.085 * k, (130, 96, 66))
    p.blur(3.4)
    for k in range(6):
        x = 0.02 + 0.068 * k
        p.line([(x, 0.28 + 0.085 * k), (x, 0.56 + 0.085 * k)], 0.012, (240, 236, 226))
    p.line([(-0.05, 0.2), (0.06, 0.32), (0.44, 0.8)], 0.032, (118, 78, 48))
    p.line([(-0.05, 0.19), (0.06, 0.31), (0.44, 0.79)], 0.01, (186, 138, 96))
    p.blur(1.7)
    return p.finish(0.2)


def dusk_street(variant: int) -> Image.Image:
    sky = ((96, 108, 136), (120, 108, 124), (86, 110, 130), (112, 116, 134))[variant]
    p = Plate(sky, (64, 62, 72), 1500 + variant)
    p.shape([(-0.05, 0.05), (0.24, 0.2), (0.32, 0.9), (-0.05, 1)], (70, 66, 76))
    p.shape([(1.05, 0.0), (0.8, 0.2), (0.7, 0.9), (1.05, 1)], (60, 60, 72))
    p.glow(0.5, 0.55, 0.2, (255, 190, 130), 0.5)
    p.blur(8.0)
    warm: tuple[Colour, ...] = ((255, 196, 120), (255, 226, 176), (240, 130, 90), (170, 206, 240))
    p.bokeh(18, (0.0, 0.2, 0.3, 0.75), warm, (0.018, 0.045), 0.55)
    p.bokeh(18, (0.7, 0.2, 1.0, 0.75), warm, (0.018, 0.045), 0.55)
    p.bokeh(10, (0.2, 0.4, 0.8, 0.7), warm, (0.012, 0.028), 0.5)
    return p.finish(0.3)


def bus(variant: int) -> Image.Image:
    p = Plate((214, 218, 220), (120, 126, 134), 1600 + variant)
    p.box(0.0, 0.16, 1.0, 0.58, (186, 208, 220))
    for _ in range(14):
        x = p.chance.uniform(0, 1)
        p.box(
            x,
            p.chance.uniform(0.22, 0.4),
            x + p.chance.uniform(0.05, 0.14),
            0.58,
            mix((146, 158, 160), (110, 140, 110), p.chance.uniform(0, 1)),
            2,
        )
    p.blur(5.0)
    for x in (0.0, 0.345, 0.655, 1.0):
        p.box(x - 0.02, 0.14, x + 0.02, 0.62, (66, 72, 80))
    p.box(0, 0.1, 1, 0.16, (232, 234, 234))
    p.box(0, 0.58, 1, 1, (150, 156, 164))
    seat = ((46, 84, 150), (150, 54, 60), (44, 116, 110), (84, 74, 140))[variant]
    for x in (0.08, 0.92):
        p.box(x - 0.15, 0.62, x + 0.15, 1.1, seat, 26)
        p.box(x - 0.115, 0.66, x + 0.115, 1.1, lighter(seat, 0.16), 20)
        p.line([(x - 0.12, 0.625), (x + 0.12, 0.625)], 0.02, (250, 206, 60))
    p.blur(2.6)
    for x in (0.305, 0.7):
        p.line([(x, -0.05), (x, 1.05)], 0.02, (246, 196, 40))
        p.line([(x - 0.005, -0.05), (x - 0.005, 1.05)], 0.005, (255, 240, 190))
    p.line([(-0.05, 0.06), (1.05, 0.06)], 0.018, (246, 196, 40))
    p.blur(1.3)
    return p.finish(0.18)


def waiting_area(variant: int) -> Image.Image:
    wall = ((240, 226, 222), (226, 234, 238), (238, 234, 218), (234, 226, 238))[variant]
    p = Plate(lighter(wall, 0.3), darker(wall, 0.08), 1700 + variant)
    p.box(0.0, 0.66, 1, 1, darker(wall, 0.2))
    for x in (0.03, 0.24, 0.76, 0.97):
        p.box(x - 0.09, 0.52, x + 0.09, 0.72, (214, 130, 146), 14)
        p.box(x - 0.1, 0.72, x + 0.1, 0.8, (190, 108, 126), 10)
        p.line([(x - 0.07, 0.8), (x - 0.07, 1)], 0.012, (160, 160, 166))
        p.line([(x + 0.07, 0.8), (x + 0.07, 1)], 0.012, (160, 160, 166))
    p.box(0.02, 0.44, 0.09, 0.53, (230, 230, 226), 3)
    for k in range(9):
        a = -1.57 + (k - 4) * 0.32
        p.line(
            [(0.055, 0.44), (0.055 + 0.12 * float(np.cos(a)), 0.44 + 0.16 * float(np.sin(a)))],
            0.022,
            (98, 146, 96),
        )
    p.blur(3.2)
    p.glow(0.5, 0.1, 0.4, (255, 250, 244), 0.35)
    return p.finish(0.12)


def ward(variant: int) -> Image.Image:
    cloth = ((150, 192, 206), (160, 202, 176), (178, 178, 214), (190, 196, 180))[variant]
    p = Plate((240, 242, 240), (222, 226, 226), 1800 + variant)
    p.box(0.68, 0.05, 0.98, 0.46, (226, 240, 248), 2)
    p.box(0.825, 0.05, 0.835, 0.46, (250, 250, 250))
    p.glow(0.83, 0.24, 0.18, (255, 252, 238), 0.5)
    p.box(0.66, 0.46, 1.0, 0.485, (206, 208, 206))
    _vase(p, 0.88, 0.46)
    p.line([(0, 0.05), (0.36, 0.05)], 0.014, (170, 176, 180))
    for k in range(11):
        x = 0.035 * k
        p.box(x - 0.02, 0.06, x + 0.022, 0.82, lighter(cloth, 0.25) if k % 2 else darker(cloth, 0.08), 5)
    p.blur(3.0)
    p.box(-0.06, 0.66, 1.06, 1.1, (246, 248, 250), 40)
    p.box(0.02, 0.62, 0.98, 0.98, (252, 252, 252), 46)
    p.line([(0.06, 0.72), (0.22, 0.78)], 0.014, (206, 214, 220), 0.8, 2)
    p.line([(0.94, 0.7), (0.8, 0.78)], 0.014, (206, 214, 220), 0.8, 2)
    p.line([(0.02, 0.6), (0.3, 0.57), (0.7, 0.57), (0.98, 0.6)], 0.016, (176, 186, 192))
    p.blur(2.4)
    return p.finish(0.12)


def _vase(p: Plate, x: float, shelf: float) -> None:
    p.shape(
        [(x - 0.025, shelf), (x + 0.025, shelf), (x + 0.03, shelf - 0.08), (x - 0.03, shelf - 0.08)],
        (120, 164, 186),
    )
    for dx, dy, colour in (
        (-0.035, -0.13, (236, 150, 150)),
        (0.0, -0.16, (246, 206, 110)),
        (0.038, -0.125, (200, 150, 206)),
    ):
        p.line([(x, shelf - 0.08), (x + dx, shelf + dy)], 0.008, (96, 140, 86))
        p.disc(x + dx, shelf + dy, 0.026, colour)


def canteen(variant: int) -> Image.Image:
    wall = ((228, 214, 190), (216, 220, 206), (226, 210, 202), (214, 216, 222))[variant]
    p = Plate(wall, darker(wall, 0.22), 1900 + variant)
    p.box(0, 0.0, 1, 0.05, (250, 246, 230))
    coats: tuple[Colour, ...] = ((96, 104, 122), (140, 96, 84), (92, 112, 92), (150, 134, 104))
    hoods: tuple[Colour, ...] = ((60, 52, 48), (120, 84, 70), (88, 92, 100), (150, 146, 140))
    for k, x in enumerate((0.06, 0.22, 0.79, 0.94)):
        p.box(x - 0.075, 0.5, x + 0.075, 0.9, coats[(k + variant) % 4], 22)
        p.disc(x, 0.42, 0.045, hoods[(k + variant) % 4], ry=0.062)
    p.blur(4.6)
    p.box(-0.05, 0.72, 0.36, 1.05, (206, 210, 212), 3)
    p.box(0.64, 0.72, 1.05, 1.05, (206, 210, 212), 3)
    for x in (0.04, 0.17, 0.83, 0.96):
        p.box(x - 0.055, 0.69, x + 0.055, 0.745, (150, 156, 160), 4)
        p.disc(x, 0.69, 0.05, mix((196, 110, 50), (120, 150, 70), x), ry=0.018)
        p.glow(x, 0.64, 0.035, (255, 255, 255), 0.25)
    p.blur(2.2)
    return p.finish(0.2)


def help_desk(variant: int) -> Image.Image:
    wall = ((214, 220, 226), (222, 218, 208), (210, 222, 216), (220, 214, 224))[variant]
    p = Plate(lighter(wall, 0.25), darker(wall, 0.1), 2000 + variant)
    p.box(0.68, 0.34, 1.0, 0.66, lighter(wall, 0.5), 3)
    for k in range(6):
        p.line(
            [(0.71, 0.39 + 0.045 * k), (0.71 + p.chance.uniform(0.15, 0.26), 0.39 + 0.045 * k)],
            0.01,
            (150, 156, 166),
        )
    p.box(0.0, 0.6, 1.0, 0.66, (170, 140, 108))
    p.box(0.0, 0.66, 1.0, 1.0, (196, 166, 130))
    for x in (0.05, 0.17):
        p.box(x, 0.5, x + 0.09, 0.6, (240, 238, 230), 2)
        p.box(x, 0.49, x + 0.09, 0.51, (90, 120, 160), 1)
    p.blur(3.4)
    p.box(0.02, 0.06, 0.29, 0.46, (36, 96, 160), 6)
    p.disc(0.155, 0.2, 0.095, (250, 250, 250))
    p.write(0.155, 0.2, "?", 0.16, (36, 96, 160))
    p.write(0.155, 0.36, "Online help", 0.042, (250, 250, 250))
    p.write(0.155, 0.415, "Desk 3", 0.042, (250, 220, 120))
    p.box(0.72, 0.08, 0.97, 0.26, (28, 32, 38), 4)
    p.write(0.845, 0.125, "Now serving", 0.034, (220, 224, 230))
    p.write(0.845, 0.2, ("A 047", "B 112", "C 086", "A 159")[variant], 0.075, (250, 120, 70))
    p.blur(1.0)
    return p.finish(0.14)


SCENES: Mapping[str, Callable[[int], Image.Image]] = {
    place.__name__: place
    for place in (
        boardroom,
        command_room,
        operating_theatre,
        classroom,
        laundry,
        airport,
        press_hall,
        stadium,
        runway,
        corridor,
        ramp,
        courtyard,
        study,
        stairs,
        dusk_street,
        bus,
        waiting_area,
        ward,
        canteen,
        help_desk,
    )
}
