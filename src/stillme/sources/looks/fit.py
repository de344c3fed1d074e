"""Fits a layer to a head: where each pixel of the portrait lies on the sheet that the layer was drawn on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stillme.sources.heads import SIZE
from stillme.sources.looks.figure import Torso
from stillme.sources.looks.layers import index

Array = NDArray[np.float64]
Places = Callable[[Array, Array], tuple[Array, Array]]  # x and y in a portrait to x and y on a sheet, in pixels
Mesh = list[tuple[tuple[int, int, int, int], tuple[float, ...]]]

ROW = 16  # pixels between computed rows where a fit bends; in between it is interpolated
BOARD = 0.16  # below the shoulder line, in half shoulder widths: so far cloth moves with it, unstretched
CHEST = 0.3  # below the neckline, likewise: what lies lower is scaled and no more
RIM, CHEEK = (
    0.95,
    0.75,
)  # beside and below the middle of the eyes, in distances of the eyes: glasses keep their shape
ROOM = 60  # pixels inward from the anchor of a thing at the side that are moved, not stretched


@dataclass(frozen=True)
class Fit:
    """Places, and the columns and rows at which they bend; `rows` also bound what is drawn."""

    places: Places
    columns: tuple[float, ...]
    rows: tuple[float, ...]


def mesh(places: Places, columns: Iterable[float], rows: Iterable[float]) -> Mesh:
    """A portrait as tiles, each with the corners that it is taken from."""
    xs, ys = ({min(max(round(v), 0), SIZE) for v in lines} for lines in (columns, rows))
    grid = np.stack(places(*np.meshgrid(np.array(sorted(xs), float), np.array(sorted(ys), float))), -1)
    corners = np.concatenate([grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]], -1).reshape(-1, 8)
    boxes = [(x, y, right, below) for y, below in pairwise(sorted(ys)) for x, right in pairwise(sorted(xs))]
    return [(box, tuple(corner)) for box, corner in zip(boxes, corners.tolist(), strict=True)]


def warp(image: Image.Image, fit: Fit) -> Image.Image:
    """The image as a portrait-sized layer."""
    tiles = mesh(fit.places, (0, *fit.columns, SIZE), fit.rows)
    return image.transform((SIZE, SIZE), Image.Transform.MESH, tiles, Image.Resampling.BILINEAR)


def on_torso(torso: Torso) -> Fit:
    """Clothes: the model's neck, shoulders and chest come to lie on those of the figure."""
    model, (left, top, zoom) = index()["torso"], index()["sheets"]["torso"]
    joints, heights = zip(*model["shoulder"], strict=True)
    neck = torso.neck / torso.half

    def places(x: Array, y: Array) -> tuple[Array, Array]:
        u, v = (x - torso.x) / torso.half, (y - torso.y) / torso.half
        wide = np.interp(np.abs(u), [0, neck, joints[0], 9], [0, model["neck"], joints[0], 9])
        here = np.interp(np.abs(u), [neck, *joints], [model["base"], *torso.shoulder])
        there = np.interp(wide, [model["neck"], *joints], [model["base"], *heights])
        u = u + (np.sign(u) * wide - u) * np.clip((CHEST - v) / CHEST, 0, 1)
        v = v + (there - here) * np.clip((CHEST - v) / (CHEST - here - BOARD), 0, 1)
        return (model["x"] + u * model["half"] - left) * zoom, (model["y"] + v * model["half"] - top) * zoom

    columns = tuple(torso.x + side * u * torso.half for side in (-1, 1) for u in (neck, *joints))
    chest = torso.y + CHEST * torso.half
    return Fit(places, columns, (*np.arange(torso.y - torso.half, chest, ROW), chest, SIZE))


def on_face(points: Mapping[str, tuple[float, float]]) -> Fit:
    """Glasses, earrings, scars: fitted between eyes and ears, and down to the chin."""
    model, (left, top, zoom) = index()["face"], index()["sheets"]["face"]
    (ax, ay), (bx, by) = points["eye_left"], points["eye_right"]
    x0, y0, eyes, tilt = (ax + bx) / 2, (ay + by) / 2, bx - ax, by - ay
    out, drop = model["ear"]
    ears = [(points[side][0] - x0) / eyes for side in ("ear_left", "ear_right")]
    ears = [min(ears[0], -RIM - 0.02), max(ears[1], RIM + 0.02)]
    sink = [points[side][1] - drop * eyes - y0 for side in ("ear_left", "ear_right")]
    bend = [sink[0] - tilt * ears[0], 0, 0, sink[1] - tilt * ears[1]]  # from the line of the eyes to the ears
    chin, low = (points["chin"][1] - y0) / eyes, model["chin"]

    def places(x: Array, y: Array) -> tuple[Array, Array]:
        u = (x - x0) / eyes
        line = y0 + tilt * u + np.interp(u, [ears[0], -RIM, RIM, ears[1]], bend)
        v = np.interp((y - line) / eyes, [-9, CHEEK, chin, chin + 9], [-9, CHEEK, low, low + 9])
        u = np.interp(
            u, [ears[0] - 9, ears[0], -RIM, RIM, ears[1], ears[1] + 9], [-out - 9, -out, -RIM, RIM, out, out + 9]
        )
        return (model["x"] + u * model["eyes"] - left) * zoom, (model["y"] + v * model["eyes"] - top) * zoom

    columns = tuple(x0 + u * eyes for u in (*ears, -RIM, RIM))
    return Fit(places, columns, tuple(np.arange(y0 - eyes, y0 + (chin + 0.5) * eyes, ROW)))


def at_sides(torso: Torso, row: Mapping[str, Any]) -> Fit:
    """Things at the sides: moved as they are, by whole pixels; what is between them is stretched."""
    model, (left, top, zoom) = index()["torso"], index()["sheets"]["sides"]
    x0, edge = round(torso.x), row["reach"]
    out = round(min(max(row["u"] * torso.half, row["least"]), min(torso.x, SIZE - torso.x) - edge))
    down = round(min(torso.y + row["v"] * torso.half, SIZE - edge))
    far, height = row["drawn"] * model["half"], round(model["y"] + row["v"] * model["half"])

    def places(x: Array, y: Array) -> tuple[Array, Array]:
        across = np.interp(np.abs(x - x0), [0, out - ROOM, out + SIZE], [0, far - ROOM, far + SIZE])
        return (model["x"] + np.sign(x - x0) * across - left) * zoom, (y - down + height - top) * zoom

    return Fit(places, (x0 - out + ROOM, x0, x0 + out - ROOM), (0, SIZE))
