"""Clothes: a shell over the torso cut at a neckline, and a collar where the garment has one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import noise
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse

from shape import Body, Topology, vertex_normals

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Neckline:
    """Height of the edge: `deep` at the front's middle, rising to `high` at `wide` from the middle."""

    deep: float
    high: float
    wide: float
    bend: float
    band: float
    collar: bool = False
    buttons: bool = False
    ribbed: bool = True


NECKLINES = {
    "crew": Neckline(5.36, 5.97, 0.66, 2.4, 0.085),
    "tee": Neckline(5.30, 5.95, 0.70, 2.3, 0.06),
    "v": Neckline(4.93, 5.97, 0.64, 1.05, 0.07),
    "scoop": Neckline(5.02, 5.86, 0.84, 2.2, 0.05, ribbed=False),
    "blouse": Neckline(4.98, 5.98, 0.62, 1.15, 0.03, buttons=True, ribbed=False),
    "shirt": Neckline(5.22, 6.02, 0.52, 1.05, 0.03, collar=True, buttons=True, ribbed=False),
    "polo": Neckline(5.25, 6.0, 0.52, 1.05, 0.05, collar=True, buttons=True, ribbed=False),
    "turtle": Neckline(6.02, 6.16, 0.62, 2.0, 0.02),
}


def edge(canon: Floats, line: Neckline) -> Floats:
    """Distance below the neckline (negative above it, where skin shows)."""
    x, y, z = np.abs(canon[..., 0]), canon[..., 1], canon[..., 2]
    reach = np.clip(x / line.wide, 0, 3)
    front = line.deep + (line.high - line.deep) * np.minimum(reach, 1) ** line.bend
    front = np.where(reach > 1, line.high + (reach - 1) * 1.5, front)
    back = line.high + 0.06
    behind = np.clip((0.15 - z) / 0.3, 0, 1)
    height = front * (1 - behind) + np.maximum(front, back) * behind
    slope = 1 + np.where(line.bend < 1.5, 0.55, 0.25)
    return np.asarray((height - y) / slope, np.float32)


@functools.cache
def _averaging(top: Topology) -> sparse.csr_matrix:
    faces = top.faces
    rows = np.concatenate([faces[:, k] for k in (0, 1, 2, 1, 2, 0)])
    columns = np.concatenate([faces[:, k] for k in (1, 2, 0, 0, 1, 2)])
    number = len(top.canon)
    links = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (number, number))
    links.data[:] = 1
    total = np.asarray(links.sum(1)).ravel()
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(total, 1)) @ links)


@dataclass(frozen=True, eq=False)
class Cloth:
    points: Floats
    normals: Floats
    faces: NDArray[np.int64]
    canon: Floats
    edge: Floats


def shell(body: Body, line: Neckline, loose: float) -> Cloth:
    """The torso, smoothed so that cloth hangs over the body instead of painting it."""
    top = body.topology
    average = _averaging(top)
    points = body.points
    weight = np.clip((5.75 - top.canon[:, 1]) / 0.5, 0, 1)[:, None]
    for _ in range(14):
        points = points * (1 - weight) + np.asarray(average @ points) * weight
    points = np.asarray(points, np.float32)
    normals = vertex_normals(points, top.faces)
    points = points + normals * (0.05 + loose * weight)
    keep = top.canon[top.faces][:, :, 1].max(1) < 6.45
    return Cloth(points, vertex_normals(points, top.faces), top.faces[keep], top.canon, edge(top.canon, line))


def collar(body: Body, line: Neckline, spread: float) -> Cloth:
    """A folded collar: a stand that hugs the neck and a leaf that falls outward to two points."""
    turn = np.radians(np.linspace(13, 347, 120))
    base = np.array([body.spot(_ring(angle, line)) for angle in turn])
    base = ndimage.gaussian_filter1d(base, 3, axis=0, mode="nearest")
    out = np.stack([np.sin(turn), 0 * turn, np.cos(turn)], 1)
    front = np.clip((np.cos(turn) - 0.15) / 0.75, 0, 1)[:, None]
    up = np.array([[0, 1.0, 0]])
    leaf_out = 0.13 + (0.10 + 0.08 * spread) * front
    side = np.sign(np.sin(turn))[:, None] * np.array([[1.0, 0, 0]]) * front * (0.12 + 0.12 * spread)
    rows = [
        base + out * 0.02 - up * 0.12,
        base + out * 0.02 + up * 0.08,
        base + out * 0.035 + up * (0.17 - 0.04 * front),
        base + out * 0.07 + up * (0.165 - 0.04 * front),
        base + out * (leaf_out * 0.8) + up * (0.05 - 0.13 * front) + side * 0.5,
        base + out * leaf_out + up * (-0.06 - 0.27 * front) + side,
    ]
    points = np.concatenate(rows).astype(np.float32)
    faces = _grid(len(rows), len(turn))
    normals = vertex_normals(points, faces)
    outward = np.tile(out, (len(rows), 1))
    normals[(normals * outward).sum(1) < 0] *= -1
    canon = points - points.mean(0) + np.array([0.37, 5.6, 0.21], np.float32)
    depth = np.repeat(np.array([0.5, 0.5, 0.5, 0.4, 0.06, 0.0], np.float32), len(turn))
    return Cloth(points, normals, faces, canon.astype(np.float32), depth + 0.001)


def _ring(angle: float, line: Neckline) -> tuple[float, float, float]:
    front = max(0.0, float(np.cos(angle)))
    height = 6.02 - 0.42 * front**1.5
    return float(0.53 * np.sin(angle)), height, float(0.2 + 0.5 * np.cos(angle))


def _grid(rows: int, columns: int) -> NDArray[np.int64]:
    row, column = np.mgrid[0 : rows - 1, 0 : columns - 1]
    a = (row * columns + column).ravel()
    b, c, d = a + 1, a + columns, a + columns + 1
    return np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])


def folds(canon: Floats, seed: int) -> Floats:
    """Height of soft folds that run from the shoulders down and inward."""
    x, y = canon[..., 0], canon[..., 1]
    lean = np.tanh(x / 0.9)
    across = x * 0.9 + lean * (y - 5.0) * 0.5 + 0.25 * noise.at(x * 0.1, y * 0.1 + seed, 13)
    along = y * 0.35 - lean * x * 0.1
    wide = noise.at(across * 0.22, along * 0.16 + seed * 0.37, 11)
    fine = noise.at(across * 0.5 + 3.1, along * 0.25 + seed * 0.11, 12)
    return np.asarray(0.055 * wide + 0.014 * fine, np.float32)


def tilt(canon: Floats, seed: int) -> tuple[Floats, Floats]:
    """Slope of the folds along x and y."""
    step = np.float32(0.02)
    here = folds(canon, seed)
    right = folds(canon + np.array([step, 0, 0], np.float32), seed)
    above = folds(canon + np.array([0, step, 0], np.float32), seed)
    return (right - here) / step, (above - here) / step
