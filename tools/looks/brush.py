"""The painter's tools: anti-aliased shapes, strokes, glows and letters on a premultiplied canvas.

Knows shapes and colours, nothing of people, clothes or prompts. All coordinates are pixels of a portrait of SIZE
by SIZE; the sheet in use (see `on`) says which part of it is drawn, and how much larger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from stillme.sources.heads import SIZE

Point = tuple[float, float]
Colour = tuple[int, int, int]
Stamp = tuple[Image.Image, tuple[int, int]]

FLAT = 128  # the relief of a cloth without texture
FINE = 4  # drawing happens this much larger and is averaged down: that is the anti-aliasing


@dataclass(frozen=True)
class Sheet:
    """What a layer covers: `width` by `height` pixels, `zoom` of them to a pixel of the portrait."""

    width: int = SIZE
    height: int = SIZE
    zoom: float = 1.0
    left: float = 0.0
    top: float = 0.0

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def pixel(self, x: float, y: float) -> Point:
        return (x - self.left) * self.zoom, (y - self.top) * self.zoom


_sheets = [Sheet()]


def sheet() -> Sheet:
    """The sheet in use."""
    return _sheets[-1]


@contextmanager
def on(new: Sheet) -> Iterator[None]:
    _sheets.append(new)
    try:
        yield
    finally:
        _sheets.pop()


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """`a` with `share` of `b` in it."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def darker(colour: Colour, share: float) -> Colour:
    return mix(colour, (0, 0, 0), share)


def lighter(colour: Colour, share: float) -> Colour:
    return mix(colour, (255, 255, 255), share)


def curve(*through: Point, steps: int = 7) -> list[Point]:
    """A smooth line through the given points (Catmull-Rom)."""
    ends = np.array([through[0], *through, through[-1]])
    fours = np.stack([ends[k : len(through) - 1 + k] for k in range(4)], 1)
    line = np.einsum("tk,skd->std", _blend(steps), fours).reshape(-1, 2)
    return [(x, y) for x, y in line.tolist()] + [through[-1]]


@functools.cache
def _blend(steps: int) -> NDArray[np.float64]:
    t = np.arange(steps) / steps
    parts = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2)
    return np.stack(parts, 1) / 2


def ellipse(centre: Point, rx: float, ry: float, tilt: float = 0.0, sides: int = 36) -> list[Point]:
    cos, sin = math.cos(tilt), math.sin(tilt)
    turns = (2 * math.pi * k / sides for k in range(sides))
    flat = ((rx * math.cos(a), ry * math.sin(a)) for a in turns)
    return [(centre[0] + x * cos - y * sin, centre[1] + x * sin + y * cos) for x, y in flat]


def box(left: float, top: float, right: float, bottom: float, round_: float = 0.0) -> list[Point]:
    """A rectangle, its corners rounded by `round_` pixels."""
    if round_ <= 0:
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    r = min(round_, (right - left) / 2, (bottom - top) / 2)
    corners = ((right - r, top + r, -90), (right - r, bottom - r, 0), (left + r, bottom - r, 90))
    return [p for x, y, a in (*corners, (left + r, top + r, 180)) for p in _quarter(x, y, r, a)]


def _quarter(x: float, y: float, r: float, start: float) -> list[Point]:
    angles = (math.radians(start + k * 22.5) for k in range(5))
    return [(x + r * math.cos(a), y + r * math.sin(a)) for a in angles]


def star(centre: Point, radius: float, rays: int = 5) -> list[Point]:
    turns = [(math.pi * k / rays - math.pi / 2, radius if k % 2 == 0 else radius * 0.42) for k in range(2 * rays)]
    return [(centre[0] + r * math.cos(a), centre[1] + r * math.sin(a)) for a, r in turns]


def moved(shape: Iterable[Point], dx: float, dy: float) -> list[Point]:
    return [(x + dx, y + dy) for x, y in shape]


def mirrored(shape: Iterable[Point], axis: float) -> list[Point]:
    """The shape on the other side of the upright line x = axis."""
    return [(2 * axis - x, y) for x, y in shape]


def stamp(shape: Sequence[Point], soft: float = 0.0) -> Stamp | None:
    """Coverage of a filled shape inside its own small rectangle, or None outside the picture."""
    return _stamp(shape, soft, 1.0, lambda draw, points, _: draw.polygon(points, fill=255))


def line_stamp(line: Sequence[Point], width: float, soft: float = 0.0) -> Stamp | None:
    """Coverage of a stroke with round ends."""
    return _stamp(
        line, soft, 1 + width, lambda draw, points, zoom: _draw_line(draw, points, width * zoom * sheet().zoom)
    )


def _stamp(
    shape: Sequence[Point],
    soft: float,
    margin: float,
    draw: Callable[[ImageDraw.ImageDraw, list[Point], float], None],
) -> Stamp | None:
    """Sharp shapes are drawn large and averaged; soft ones are drawn and blurred small, then enlarged.

    Below one pixel the averaging is softness enough.
    """
    size = sheet().zoom
    shape, soft, margin = [sheet().pixel(x, y) for x, y in shape], soft * size, margin * size
    frame = _frame(shape, margin + 2.5 * soft)
    if frame is None:
        return None
    left, top, right, bottom = frame
    large = (right - left) * (bottom - top) > 12000
    zoom = (FINE - large) if soft < 1 else 1 if soft < 2 else 0.5 if soft < 4 else 0.25
    big = Image.new("L", (math.ceil((right - left) * zoom), math.ceil((bottom - top) * zoom)))
    draw(ImageDraw.Draw(big), [((x - left) * zoom, (y - top) * zoom) for x, y in shape], zoom)
    return _brought_to_size(big, zoom, soft, (right - left, bottom - top)), (left, top)


def trimmed(mask: Image.Image) -> Stamp | None:
    """A mask of the whole sheet as a stamp without its empty rim."""
    frame = mask.getbbox()
    return (mask.crop(frame), frame[:2]) if frame else None


def _brought_to_size(big: Image.Image, zoom: float, soft: float, size: tuple[int, int]) -> Image.Image:
    if zoom > 1:
        big = big.reduce(int(zoom))
    if soft >= 1:
        big = big.filter(ImageFilter.GaussianBlur(soft * min(1.0, zoom)))
    return big if zoom >= 1 else big.resize(size, Image.Resampling.BILINEAR)


def _draw_line(draw: ImageDraw.ImageDraw, points: list[Point], width: float) -> None:
    """Long lines are smooth curves and become one ribbon; short ones may have corners."""
    if len(points) > 7:
        draw.polygon(_ribbon(points, width / 2), fill=255)
    else:
        draw.line(points, fill=255, width=max(1, round(width)), joint="curve")
    for x, y in (points[0], points[-1]):
        r = width / 2
        draw.ellipse([x - r, y - r, x + r, y + r], fill=255)


def _ribbon(points: list[Point], half: float) -> list[Point]:
    line = np.array(points)
    along = np.gradient(line, axis=0)
    along /= np.maximum(np.hypot(along[:, :1], along[:, 1:]), 1e-6)
    across = np.stack([-along[:, 1], along[:, 0]], 1) * max(half, 0.5)
    return [(x, y) for x, y in np.concatenate([line + across, (line - across)[::-1]]).tolist()]


def _frame(shape: Sequence[Point], margin: float) -> tuple[int, int, int, int] | None:
    xs, ys = [p[0] for p in shape], [p[1] for p in shape]
    left, top = max(0, math.floor(min(xs) - margin)), max(0, math.floor(min(ys) - margin))
    right = min(sheet().width, math.ceil(max(xs) + margin))
    bottom = min(sheet().height, math.ceil(max(ys) + margin))
    return (left, top, right, bottom) if left < right and top < bottom else None


def faded(mask: Image.Image, share: float) -> Image.Image:
    return mask if share >= 1 else ImageChops.multiply(mask, Image.new("L", mask.size, round(255 * share)))


@dataclass(frozen=True)
class Cloth:
    """A colour with a texture and, if it has an ink, a print."""

    colour: Colour
    texture: str = "flat"
    ink: Colour | None = None
    motif: tuple[str, int, float] = ("dots", 12, 1.5)  # dots or stripes, pitch, radius or share

    def print_(self) -> Image.Image:
        kind, pitch, size = self.motif
        return dots(pitch, size) if kind == "dots" else stripes(pitch, size)


Fill = Colour | Cloth


def _grid() -> NDArray[np.float32]:
    """The rows and columns of the sheet, in pixels of the portrait."""
    return np.mgrid[0 : sheet().height, 0 : sheet().width].astype(np.float32) / np.float32(sheet().zoom)


def relief(texture: str) -> Image.Image:
    """Light and dark of a texture around FLAT, as large as the sheet."""
    return _relief(texture, sheet())


@functools.cache
def _relief(texture: str, _: Sheet) -> Image.Image:
    y, x = _grid()
    if texture.startswith("knit"):
        gauge = int(texture[4:])
        zigzag = np.abs((x % gauge) / gauge - 0.5) * gauge
        height = 0.085 * np.sin((y + zigzag) * 2 * np.pi / gauge) + 0.045 * np.cos(x * 2 * np.pi / gauge)
    else:
        rough = {"flat": 0.0, "smooth": 0.008, "plain": 0.02, "rough": 0.04}[texture]
        height = rough * (0.6 * noise(5) + 0.8 * noise(6, 9))
    return Image.fromarray(np.clip(FLAT * (1 + height) + 0.5, 0, 255).astype(np.uint8))


def dots(pitch: int, radius: float) -> Image.Image:
    """Small printed dots in staggered rows."""
    y, x = _grid()
    x = x + (y // pitch % 2) * pitch / 2
    far = np.hypot(x % pitch - pitch / 2, y % pitch - pitch / 2)
    return Image.fromarray((np.clip((radius - far) * sheet().zoom + 0.5, 0, 1) * 255).astype(np.uint8))


def stripes(pitch: int, share: float) -> Image.Image:
    y, _ = _grid()
    return Image.fromarray((y % pitch < pitch * share) * np.uint8(255))


class Canvas:
    """A premultiplied layer: `paint` holds colour times coverage, `cover` the coverage.

    `clip` limits every stroke (hair in front of a collar, for one). Painting order is stacking order.
    A textured canvas also keeps the relief of each cloth (FLAT means none), to be lit at the end.
    """

    def __init__(self, clip: Image.Image | None = None, *, textured: bool = False) -> None:
        self.paint = Image.new("RGB", sheet().size)
        self.cover = Image.new("L", sheet().size)
        self.clip = clip
        self.relief = Image.new("L", sheet().size, FLAT) if textured else None

    def press(self, made: Stamp | None, fill: Fill, opacity: float = 1.0) -> None:
        """Lays a colour or a cloth through a stamp."""
        if made is None:
            return
        mask, at = self._limited(made), made[1]
        mask = faded(mask, opacity)
        self.paint.paste(fill.colour if isinstance(fill, Cloth) else fill, self._area(mask, at), mask)
        self.cover.paste(255, self._area(mask, at), mask)
        if isinstance(fill, Cloth):
            self._give_texture(fill, mask, at)

    def _give_texture(self, cloth: Cloth, mask: Image.Image, at: tuple[int, int]) -> None:
        if cloth.ink is not None:
            printed = ImageChops.multiply(mask, _cut_image(cloth.print_(), mask, at))
            self.paint.paste(cloth.ink, self._area(mask, at), printed)
        if self.relief is not None:
            self.relief.paste(_cut_image(relief(cloth.texture), mask, at), self._area(mask, at), mask)

    def _limited(self, made: Stamp) -> Image.Image:
        mask, at = made
        return mask if self.clip is None else ImageChops.multiply(mask, _cut_image(self.clip, mask, at))

    @staticmethod
    def _area(mask: Image.Image, at: tuple[int, int]) -> tuple[int, int, int, int]:
        return at[0], at[1], at[0] + mask.width, at[1] + mask.height

    def fill(self, shape: Sequence[Point], fill: Fill, opacity: float = 1.0, soft: float = 0.0) -> None:
        self.press(stamp(shape, soft), fill, opacity)

    def line(
        self, points: Sequence[Point], width: float, fill: Fill, opacity: float = 1.0, soft: float = 0.0
    ) -> None:
        self.press(line_stamp(points, width, soft), fill, opacity)

    def shadow(self, shape: Sequence[Point], dark: float = 0.4, soft: float = 2.5, fall: Point = (0, 2)) -> None:
        """Darkens what is already painted under a shape; never adds coverage."""
        self.tone(stamp(moved(shape, *fall), soft), (0, 0, 0), dark)

    def tone(self, made: Stamp | None, colour: Colour, share: float) -> None:
        """Tints what is already painted, by `share`, without adding coverage."""
        if made is None:
            return
        mask, at = made
        mask = ImageChops.multiply(mask, _cut_image(self.cover, mask, at))
        mask = faded(mask, share)
        self.paint.paste(colour, self._area(mask, at), mask)

    def crease(self, points: Sequence[Point], width: float, dark: float, soft: float = 1.5) -> None:
        """A fold or a seam: a soft dark line on what is painted."""
        self.tone(line_stamp(points, width, soft), (0, 0, 0), dark)

    def shine(self, points: Sequence[Point], width: float, light: float, soft: float = 1.5) -> None:
        self.tone(line_stamp(points, width, soft), (255, 255, 255), light)

    def piece(self, shape: Sequence[Point], fill: Fill, dark: float = 0.4, soft: float = 2.5) -> None:
        """A shape that lies on the cloth and throws a small shadow."""
        self.shadow(shape, dark, soft)
        self.fill(shape, fill)

    def write(self, centre: Point, text: str, size: float, colour: Colour, squeeze: float = 1.0) -> None:
        """Letters, centred."""
        self.press(letters(centre, text, size, squeeze), colour)


def letters(centre: Point, text: str, size: float, squeeze: float = 1.0) -> Stamp:
    """Coverage of a word; `squeeze` narrows it."""
    word, (x, y) = _word(text, round(size * sheet().zoom * FINE)), sheet().pixel(*centre)
    width, height = max(1, round(word.width * squeeze / FINE)), max(1, round(word.height / FINE))
    small = word.resize((width, height), Image.Resampling.BOX)
    return small, (round(x - width / 2), round(y - height / 2))


@functools.lru_cache(maxsize=64)
def _word(text: str, size: int) -> Image.Image:
    font = ImageFont.load_default(size)
    left, top, right, bottom = (int(v) for v in font.getbbox(text))
    image = Image.new("L", (right - left + 2, bottom - top + 2))
    ImageDraw.Draw(image).text((1 - left, 1 - top), text, fill=255, font=font, stroke_width=size // 28)
    return image


def _cut_image(image: Image.Image, mask: Image.Image, at: tuple[int, int]) -> Image.Image:
    return image.crop((at[0], at[1], at[0] + mask.width, at[1] + mask.height))


def noise(seed: int, grain: int = 1) -> NDArray[np.float32]:
    """Noise of mean 0 and deviation 1 over the sheet, in patches of about `grain` pixels of the portrait."""
    grain = round(grain * sheet().zoom)
    width, height = sheet().size
    side = math.ceil(max(width, height) / grain)
    values = np.random.Generator(np.random.PCG64(seed)).standard_normal((side, side)).astype(np.float32)
    if grain > 1:
        large = Image.fromarray(values).resize((side * grain, side * grain), Image.Resampling.BICUBIC)
        values = np.asarray(large, np.float32)
    values = values[:height, :width]
    even: NDArray[np.float32] = (values - values.mean()) / values.std()
    return even
