"""Turns triangles and strands into a picture of surface facts (depth, direction, material), one per sample.

Knows nothing about colour: `shade` gives the facts their light later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

FAR = np.float32(-1e9)
NOTHING, SKIN, EYE, HAIR, CLOTH, LINING = 0, 1, 2, 3, 4, 5

# What `facts` holds, channel by channel.
NORMAL = slice(0, 3)  # of strands: the tangent
UV = slice(3, 5)  # of strands: how far along, a random number of the strand
CANON = slice(5, 8)  # place on the undeformed base mesh
EDGE = 8  # distance from the garment's edge; of strands: which tuft
CHANNELS = 9


@dataclass(frozen=True, eq=False)
class Frame:
    depth: Floats
    kind: NDArray[np.uint8]
    facts: Floats

    @property
    def size(self) -> int:
        return int(self.depth.shape[0])


def blank(size: int) -> Frame:
    return Frame(
        np.full((size, size), FAR, np.float32),
        np.zeros((size, size), np.uint8),
        np.zeros((size, size, CHANNELS), np.float32),
    )


@nb.njit(fastmath=True, cache=True)
def _fill(corners, attributes, depth, kinds, facts, kind, cut):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    channels = attributes.shape[2]
    for t in range(corners.shape[0]):
        x0, y0, z0 = corners[t, 0]
        x1, y1, z1 = corners[t, 1]
        x2, y2, z2 = corners[t, 2]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if abs(area) < 1e-7:
            continue
        left = max(0, math.floor(min(x0, x1, x2) - 0.5))
        right = min(width - 1, math.ceil(max(x0, x1, x2) - 0.5))
        top = max(0, math.floor(min(y0, y1, y2) - 0.5))
        bottom = min(height - 1, math.ceil(max(y0, y1, y2) - 0.5))
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                px = x + 0.5
                py = y + 0.5
                a = ((x1 - px) * (y2 - py) - (x2 - px) * (y1 - py)) / area
                b = ((x2 - px) * (y0 - py) - (x0 - px) * (y2 - py)) / area
                c = 1 - a - b
                if a < -1e-5 or b < -1e-5 or c < -1e-5:
                    continue
                z = a * z0 + b * z1 + c * z2
                if z <= depth[y, x]:
                    continue
                if cut and a * attributes[t, 0, 8] + b * attributes[t, 1, 8] + c * attributes[t, 2, 8] < 0:
                    continue
                depth[y, x] = z
                kinds[y, x] = kind
                for k in range(channels):
                    facts[y, x, k] = a * attributes[t, 0, k] + b * attributes[t, 1, k] + c * attributes[t, 2, k]


def fill(frame: Frame, corners: Floats, attributes: Floats, kind: int, *, cut: bool = False) -> None:
    """Draw triangles; with `cut`, only where the interpolated edge distance is positive."""
    _fill(corners, attributes, frame.depth, frame.kind, frame.facts, kind, cut)


@nb.njit(fastmath=True, cache=True)
def _draw(places, tangents, widths, luck, tuft, depth, kinds, facts, kind):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    strands, joints, _ = places.shape
    for s in range(strands):
        for j in range(joints - 1):
            x0, y0, z0 = places[s, j]
            x1, y1, z1 = places[s, j + 1]
            longest = max(abs(x1 - x0), abs(y1 - y0))
            steps = int(longest) + 1
            steep = abs(y1 - y0) > abs(x1 - x0)
            for i in range(steps):
                t = (i + 0.5) / steps
                along = (j + t) / (joints - 1)
                x = x0 + (x1 - x0) * t
                y = y0 + (y1 - y0) * t
                z = z0 + (z1 - z0) * t
                wide = widths[s] * (1.0 - 0.6 * along * along)
                span = math.ceil(wide - luck[s] * 0.999)
                for k in range(max(1, span)):
                    shift = k - (span - 1) * 0.5
                    ix = int(x + (shift if steep else 0.0))
                    iy = int(y + (0.0 if steep else shift))
                    if ix < 0 or iy < 0 or ix >= width or iy >= height or z <= depth[iy, ix]:
                        continue
                    depth[iy, ix] = z
                    kinds[iy, ix] = kind
                    for c in range(3):
                        facts[iy, ix, c] = tangents[s, j, c] * (1 - t) + tangents[s, j + 1, c] * t
                    facts[iy, ix, 3] = along
                    facts[iy, ix, 4] = luck[s]
                    facts[iy, ix, 8] = tuft[s]


def draw(frame: Frame, places: Floats, tangents: Floats, widths: Floats, luck: Floats, tuft: Floats) -> None:
    """Draw strands (strand, joint, xyz) as lines `widths` samples wide at the root."""
    _draw(places, tangents, widths, luck, tuft, frame.depth, frame.kind, frame.facts, HAIR)


@nb.njit(fastmath=True, cache=True)
def _nearest(corners, depth):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    for t in range(corners.shape[0]):
        x0, y0, z0 = corners[t, 0]
        x1, y1, z1 = corners[t, 1]
        x2, y2, z2 = corners[t, 2]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if abs(area) < 1e-7:
            continue
        left = max(0, math.floor(min(x0, x1, x2) - 0.5))
        right = min(width - 1, math.ceil(max(x0, x1, x2) - 0.5))
        top = max(0, math.floor(min(y0, y1, y2) - 0.5))
        bottom = min(height - 1, math.ceil(max(y0, y1, y2) - 0.5))
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                px = x + 0.5
                py = y + 0.5
                a = ((x1 - px) * (y2 - py) - (x2 - px) * (y1 - py)) / area
                b = ((x2 - px) * (y0 - py) - (x0 - px) * (y2 - py)) / area
                c = 1 - a - b
                if a < -1e-4 or b < -1e-4 or c < -1e-4:
                    continue
                z = a * z0 + b * z1 + c * z2
                if z > depth[y, x]:
                    depth[y, x] = z


def nearest(corners: Floats, size: int) -> Floats:
    """Only the depth of triangles, for light maps and for filling volumes."""
    depth = np.full((size, size), FAR, np.float32)
    _nearest(corners, depth)
    return depth


@nb.njit(fastmath=True, cache=True)
def _splat(places, depth):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    for i in range(places.shape[0]):
        x = int(places[i, 0])
        y = int(places[i, 1])
        if 0 <= x < width and 0 <= y < height and places[i, 2] > depth[y, x]:
            depth[y, x] = places[i, 2]


def splat(depth: Floats, places: Floats) -> None:
    """Add single points (of strands) to a depth map."""
    _splat(places, depth)


@nb.njit(fastmath=True, cache=True)
def _shadow(points, depth, bias, radius, offsets, out):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    count = offsets.shape[0]
    for i in range(points.shape[0]):
        lit = 0.0
        for k in range(count):
            x = int(points[i, 0] + offsets[k, 0] * radius)
            y = int(points[i, 1] + offsets[k, 1] * radius)
            if x < 0 or y < 0 or x >= width or y >= height:
                lit += 1.0
                continue
            over = depth[y, x] - points[i, 2] - bias
            lit += 1.0 - min(1.0, max(0.0, over / (bias * 2.0)))
        out[i] = lit / count


def shadow(points: Floats, depth: Floats, bias: float, radius: float, offsets: Floats) -> Floats:
    """How much of a broad light each point sees (0 to 1)."""
    out = np.zeros(len(points), np.float32)
    _shadow(points, depth, np.float32(bias), np.float32(radius), offsets, out)
    return out


@nb.njit(fastmath=True, cache=True)
def _occlusion(depth, offsets, per_pixel, out):  # type: ignore[no-untyped-def]
    height, width = depth.shape
    count = offsets.shape[0]
    for y in range(height):
        for x in range(width):
            z = depth[y, x]
            if z < -1e8:
                continue
            hidden = 0.0
            for k in range(count):
                sx = x + int(offsets[k, 0])
                sy = y + int(offsets[k, 1])
                if sx < 0 or sy < 0 or sx >= width or sy >= height:
                    continue
                rise = depth[sy, sx] - z
                reach = offsets[k, 2] * per_pixel
                if rise <= 0.0:
                    continue
                slope = rise / reach
                fade = 1.0 / (1.0 + (rise / 0.35) ** 2)
                hidden += min(1.0, slope * 0.6) * fade
            out[y, x] = hidden / count


def occlusion(depth: Floats, reach: int, per_pixel: float, count: int = 24) -> Floats:
    """How much of the sky the neighbourhood hides, from depth alone (0 to about 0.6)."""
    turns = np.arange(count) * 2.399963
    far = reach * np.sqrt((np.arange(count) + 0.5) / count)
    offsets = np.stack([np.cos(turns) * far, np.sin(turns) * far, far], 1).astype(np.float32)
    out = np.zeros_like(depth)
    _occlusion(depth, offsets, np.float32(per_pixel), out)
    return out
