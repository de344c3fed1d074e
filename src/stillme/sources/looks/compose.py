"""Puts a look together: posture, garment, place, props, marks; and the rule that skin keeps its values."""

from __future__ import annotations

import dataclasses
import functools
import zlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

from stillme.sources.heads import SIZE, Head, photograph
from stillme.sources.looks.figure import FLAT, Figure, figure_of
from stillme.sources.looks.fit import at_sides, on_face, on_torso, warp
from stillme.sources.looks.layers import Layer, backdrop, index, read_layer
from stillme.sources.looks.marks import MARKS, POSTURES, WHOLE_SKIN
from stillme.sources.looks.table import Colour, Look, table

VARIANTS = 4  # of every place, picked by the seed; of every garment, picked by the person
TRACE = 0.4  # below this strength only tints are left, no new thing in the picture


def names() -> tuple[str, ...]:
    """Prompt ids that have a look."""
    return tuple(table())


def find(look: str) -> Look:
    if look not in table():
        raise KeyError(f"There is no look named {look!r}; the looks are {', '.join(names())}.")
    return table()[look]


def dress(head: Head, look: str, *, strength: float = 1.0, seed: int = 0) -> NDArray[np.uint8]:
    """The head as the look's prompt asks; strength 1 is the full edit, about 0.2 a trace, 0 the photograph.

    Skin that no garment, prop or mark covers keeps its exact values at every strength. A person wears the
    same colours at every seed; the place varies.
    """
    chosen = find(look)
    if not 0 <= strength <= 1:
        raise ValueError(f"The strength of a look lies between 0 and 1, not {strength}.")
    if strength == 0:
        return photograph(head)
    stands = posed(head, look, strength=strength)
    before = photograph(stands)
    if strength < TRACE:
        return _trace(stands, before, chosen, seed % VARIANTS, strength)
    after = _FullLook(stands, chosen).picture(before, backdrop(chosen.scene, seed % VARIANTS))
    if strength == 1:
        return after
    return np.array(Image.blend(Image.fromarray(before), Image.fromarray(after), strength))


def covered(head: Head, look: str) -> NDArray[np.bool_]:
    """Where the full look lays anything over the figure as it then stands (see `posed`)."""
    return _FullLook(posed(head, look), find(look)).touched()


def posed(head: Head, look: str, *, strength: float = 1.0) -> Head:
    """The head as the look places it: the same head, unless the look has a posture."""
    posture = find(look).posture
    return POSTURES[posture](head, strength) if posture and strength else head


def colourway(head: Head, look: Look) -> int:
    """Which of the look's colours this person wears.

    A plain sum of letters spreads the four evenly over names that share words: no group is seen in one colour.
    """
    return zlib.adler32(f"{head.key} {look.id}".encode()) % VARIANTS


class _FullLook:
    """All layers of one full look on one figure."""

    def __init__(self, head: Head, look: Look) -> None:
        way = colourway(head, look)
        self.head, self.figure = head, figure_of(head)
        self.rgb, self.marks = _mark(head, look, 1.0)
        self.garment = fit_garment(self.figure, look.id, way)
        layers: dict[str, list[Layer]] = {"behind": [], "worn": [], "before": []}
        for name in look.props:
            order = index()["props"][name]["order"]
            if order in layers:  # otherwise it is pinned to the garment, and drawn with it
                layers[order].append(fit_prop(self.figure, name, way))
        self.behind, self.front = layers["behind"], layers["worn"] + layers["before"]

    def touched(self) -> NDArray[np.bool_]:
        where = self.garment.mask()
        for layer in self.front:
            where |= layer.mask()
        return where if self.marks is None else where | self.marks

    def picture(self, before: NDArray[np.uint8], place: Image.Image) -> NDArray[np.uint8]:
        person, behind = Image.fromarray(self.rgb), place.copy()
        self.garment.lay(person)
        for layer in self.behind:
            layer.lay(behind)
        picture = self.figure.place(person, behind)
        for layer in self.front:
            layer.lay(picture)
        return _keep_skin(self.head, before, picture, self.touched())


@functools.lru_cache(maxsize=24)  # more than the looks of one person
def fit_garment(figure: Figure, look: str, way: int) -> Layer:
    """The look's garment on this figure, in the light and with the folds of its photographed shirt."""
    *colours, opacity = warp(read_layer(f"garments/{look}.{way}", "CMYK"), on_torso(figure.torso)).split()
    cover = ImageChops.screen(figure.shirt, ImageChops.multiply(opacity, figure.front))
    top, area = _below_first(cover)
    light = figure.light[top:] * np.asarray(cover.crop(area))
    paint = np.asarray(Image.merge("RGB", colours).crop(area)) * light[..., None]
    return Layer(top, Image.fromarray(np.minimum(paint, 255, out=paint).astype(np.uint8)), cover.crop(area))


@functools.lru_cache(maxsize=24)
def fit_prop(figure: Figure, name: str, way: int) -> Layer:
    row = index()["props"][name]
    image = read_layer(f"props/{name}.{way}" if row["coloured"] else f"props/{name}", "RGBa")
    if row["fit"] == "face":
        image = warp(image, on_face(figure.points))
    elif row["fit"] == "sides":
        image = warp(image, at_sides(figure.torso, row))
    *colours, cover = image.split()
    if row["order"] == "worn":
        *colours, cover = (ImageChops.multiply(band, figure.front) for band in (*colours, cover))
    top, area = _below_first(cover)
    return Layer(top, Image.merge("RGB", colours).crop(area), cover.crop(area))


def _below_first(cover: Image.Image) -> tuple[int, tuple[int, int, int, int]]:
    """The first row that is covered at all, and the area from there down."""
    frame = cover.getbbox()
    top = frame[1] if frame else SIZE - 1
    return top, (0, top, SIZE, SIZE)


def _mark(head: Head, look: Look, strength: float) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    rgb, touched = head.rgb, None
    for name in look.marks:
        rgb, more = MARKS[name](dataclasses.replace(head, rgb=rgb), strength)
        touched = more if touched is None else touched | more
    return rgb, touched


def _keep_skin(
    head: Head, before: NDArray[np.uint8], picture: Image.Image, touched: NDArray[np.bool_] | None
) -> NDArray[np.uint8]:
    """Soft outlines let a new background shine through; whole skin must not take part in that."""
    keep = head.skin > WHOLE_SKIN
    if touched is not None:
        keep &= ~touched
    picture.paste(Image.fromarray(before), (0, 0), Image.fromarray(keep))
    return np.array(picture)


def _trace(head: Head, before: NDArray[np.uint8], look: Look, variant: int, strength: float) -> NDArray[np.uint8]:
    """A tint of the garment's colour on the shirt, a breath of the place on the wall: no new thing."""
    marked, touched = _mark(head, look, strength)
    picture = Image.fromarray(before if not look.marks else photograph(dataclasses.replace(head, rgb=marked)))
    beyond, shirt = ImageChops.invert(Image.fromarray(head.figure)), Image.fromarray(head.cloth)
    picture.paste(_haze(look.scene, variant), (0, 0), beyond.point(lambda level: level * strength))
    main = look.colours[colourway(head, look) % len(look.colours)][0]
    picture.paste(_tint(figure_of(head), main), (0, 0), shirt.point(lambda level: level * strength))
    return _keep_skin(head, before, picture, touched)


def _tint(figure: Figure, colour: Colour) -> Image.Image:
    """The colour in the light of the photograph's shirt, picture-sized."""
    shade = Image.fromarray(figure.folds)
    bands = [shade.point([min(255, channel * light // FLAT) for light in range(256)]) for channel in colour]
    return Image.merge("RGB", bands)


def _haze(scene: str, variant: int) -> Image.Image:
    """The place so far out of focus that only its colours are left."""
    return _small_haze(scene, variant).resize((SIZE, SIZE), Image.Resampling.BICUBIC)


@functools.lru_cache(maxsize=80)
def _small_haze(scene: str, variant: int) -> Image.Image:
    return backdrop(scene, variant).reduce(8).filter(ImageFilter.GaussianBlur(3))
