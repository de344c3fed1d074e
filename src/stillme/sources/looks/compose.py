"""Puts a look together: posture, garment, place, props, marks; and the rule that skin keeps its values."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

from stillme.sources.heads import SIZE, Head, photograph
from stillme.sources.looks.bounded import Bounded
from stillme.sources.looks.brush import faded
from stillme.sources.looks.garments import CUTS, shirt_tint, wear
from stillme.sources.looks.marks import MARKS, POSTURES, WHOLE_SKIN
from stillme.sources.looks.props import BEFORE, BEHIND, WORN, set_out
from stillme.sources.looks.scenes import SCENES, backdrop
from stillme.sources.looks.table import Look, table
from stillme.sources.looks.torso import Figure, figure_of

VARIANTS = 4  # of every place, picked by the seed; of every garment, picked by the person
TRACE = 0.4  # below this strength only tints are left, no new thing in the picture

_hazes: Bounded[Image.Image] = Bounded(80)


def names() -> tuple[str, ...]:
    """Prompt ids that have a look."""
    return tuple(table())


def find(look: str) -> Look:
    found = table().get(look)
    if found is None:
        raise KeyError(f"There is no look named {look!r}; the looks are {', '.join(names())}.")
    return found


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
    after = _whole(_Layers(stands, chosen), before, backdrop(chosen.scene, seed % VARIANTS))
    return after if strength == 1 else _between(before, after, strength)


def covered(head: Head, look: str) -> NDArray[np.bool_]:
    """Where the full look lays anything over the figure as it then stands (see `posed`)."""
    return _Layers(posed(head, look), find(look)).touched()


def posed(head: Head, look: str, *, strength: float = 1.0) -> Head:
    """The head as the look places it: the same head, unless the look has a posture."""
    posture = find(look).posture
    return POSTURES[posture](head, strength) if posture and strength else head


def colourway(head: Head, look: Look) -> int:
    """Which of the look's colours this person wears.

    A plain sum of letters spreads the four evenly over names that share words: no group is seen in one colour.
    """
    return zlib.adler32(f"{head.key} {look.id}".encode()) % VARIANTS


class _Layers:
    """All layers of one full look on one figure."""

    def __init__(self, head: Head, look: Look) -> None:
        figure, way = figure_of(head), colourway(head, look)
        self.head, self.figure = head, figure
        self.rgb, self.marks = _marked(head, look, 1.0)
        self.garment = wear(head, look, way, figure)
        self.behind = set_out(figure, look, way, BEHIND)
        worn, before = (set_out(figure, look, way, where) for where in (WORN, BEFORE))
        self.front = [layer for layer in (worn, before) if layer is not None]

    def touched(self) -> NDArray[np.bool_]:
        where = self.garment.mask()
        for layer in self.front:
            where |= layer.mask()
        return where if self.marks is None else where | self.marks


def _whole(layers: _Layers, before: NDArray[np.uint8], place: Image.Image) -> NDArray[np.uint8]:
    person, behind = Image.fromarray(layers.rgb), place.copy()
    layers.garment.lay(person)
    if layers.behind is not None:
        layers.behind.lay(behind)
    picture = _placed(person, layers.figure, behind)
    for layer in layers.front:
        layer.lay(picture)
    return _keep_skin(layers.head, before, picture, layers.touched())


def _placed(person: Image.Image, figure: Figure, behind: Image.Image) -> Image.Image:
    """The figure in front of the place. Dividing its few soft pixels lets Pillow do the rest in one pass."""
    colours = np.array(person)
    whole = colours[figure.soft].astype(np.uint16) * 255 // figure.share
    colours[figure.soft] = np.minimum(whole, 255)
    return Image.composite(Image.fromarray(colours), behind, figure.outline)


def _marked(head: Head, look: Look, strength: float) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
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
    marked, touched = _marked(head, look, strength)
    picture = Image.fromarray(before if not look.marks else photograph(dataclasses.replace(head, rgb=marked)))
    beyond = ImageChops.invert(Image.fromarray(head.figure))
    picture.paste(_haze(look.scene, variant), (0, 0), faded(beyond, strength))
    main = look.colours[colourway(head, look) % len(look.colours)][0]
    picture.paste(shirt_tint(figure_of(head), main), (0, 0), faded(Image.fromarray(head.cloth), strength))
    return _keep_skin(head, before, picture, touched)


def _haze(scene: str, variant: int) -> Image.Image:
    """The place so far out of focus that only its colours are left; kept small."""

    def make() -> Image.Image:
        small = backdrop(scene, variant).reduce(8)
        return small.filter(ImageFilter.GaussianBlur(3))

    return _hazes.get((scene, variant), make).resize((SIZE, SIZE), Image.Resampling.BICUBIC)


def _between(before: NDArray[np.uint8], after: NDArray[np.uint8], strength: float) -> NDArray[np.uint8]:
    return np.array(Image.blend(Image.fromarray(before), Image.fromarray(after), strength))


def check_table() -> None:
    """Every word of looks.yaml names a painter; called by the tests, so that a typing slip is found early."""
    for look in table().values():
        places = {look.garment: CUTS, look.scene: SCENES}
        places |= {name: {**WORN, **BEFORE, **BEHIND} for name in look.props}
        places |= dict.fromkeys(look.marks, MARKS) | ({look.posture: POSTURES} if look.posture else {})
        lost = sorted(name for name, known in places.items() if name not in known)
        if lost:
            raise ValueError(f"looks.yaml, {look.id}: nothing is called {', '.join(lost)}.")
