"""Grows hair: thousands of thin strands from the scalp, brows, lids and beard, kept outside the body.

A style says where strands start, how long they are and which way they want to go; growing adds gravity,
stiffness and collision. Nothing here comes from a hair asset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import raster
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from shape import Body

Floats = NDArray[np.floating[Any]]

CELL = 0.06
LOW = np.array([-2.7, 0.0, -1.9])  # relative to the head joint's height, see Volume.origin
SHAPE = (90, 100, 72)


@dataclass(frozen=True, eq=False)
class Volume:
    """Signed distance to the body on a grid (negative inside), and how to look it up."""

    origin: Floats
    distance: Floats


@dataclass(frozen=True, eq=False)
class Roots:
    place: Floats
    normal: Floats
    canon: Floats

    def take(self, keep: NDArray[np.bool_]) -> Roots:
        return Roots(self.place[keep], self.normal[keep], self.canon[keep])

    def __len__(self) -> int:
        return len(self.place)


@dataclass(frozen=True, eq=False)
class Strands:
    places: Floats  # strand, joint, xyz
    width: Floats
    luck: Floats
    tuft: Floats
    tone: int  # 0 head hair, 1 brow, 2 lash, 3 beard


def volume(body: Body) -> Volume:
    """Fill the body between its front and back depth, then measure distance from the boundary."""
    top = body.points[:, 1].max()
    origin = np.array([-SHAPE[0] * CELL / 2, top + 0.6 - SHAPE[1] * CELL, -1.9], np.float32)
    grid = (body.points - origin) / CELL
    corners = grid[body.topology.faces].astype(np.float32)
    front = raster.nearest(np.ascontiguousarray(corners), 100)
    back = -raster.nearest(np.ascontiguousarray(corners * np.array([1, 1, -1], np.float32)), 100)
    layer = np.arange(SHAPE[2])[None, None, :] + 0.5
    inside = (layer < front[: SHAPE[1], : SHAPE[0], None]) & (layer > back[: SHAPE[1], : SHAPE[0], None])
    inside = inside.transpose(1, 0, 2)
    outer = ndimage.distance_transform_edt(~inside)
    inner = ndimage.distance_transform_edt(inside)
    distance = ((outer - inner) * CELL).astype(np.float32)
    return Volume(origin, ndimage.gaussian_filter(distance, 0.7))


def scatter(body: Body, count: int, rng: np.random.Generator, above: float = 5.9) -> Roots:
    """Points spread evenly over the head's skin."""
    faces = body.topology.faces
    faces = faces[body.topology.canon[faces][:, :, 1].min(1) > above]
    a, b, c = (body.points[faces[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    picked = faces[rng.choice(len(faces), count, p=area / area.sum())]
    mix = rng.dirichlet((1, 1, 1), count).astype(np.float32)[:, :, None]
    normal = (body.normals[picked] * mix).sum(1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
    return Roots((body.points[picked] * mix).sum(1), normal, (body.topology.canon[picked] * mix).sum(1))


@nb.njit(fastmath=True, cache=True)
def _look(distance, x, y, z):  # type: ignore[no-untyped-def]
    nx, ny, nz = distance.shape
    x = min(max(x - 0.5, 0.0), nx - 1.001)
    y = min(max(y - 0.5, 0.0), ny - 1.001)
    z = min(max(z - 0.5, 0.0), nz - 1.001)
    i, j, k = int(x), int(y), int(z)
    u, v, w = x - i, y - j, z - k
    a = (distance[i, j, k] * (1 - u) + distance[i + 1, j, k] * u) * (1 - v)
    a += (distance[i, j + 1, k] * (1 - u) + distance[i + 1, j + 1, k] * u) * v
    b = (distance[i, j, k + 1] * (1 - u) + distance[i + 1, j, k + 1] * u) * (1 - v)
    b += (distance[i, j + 1, k + 1] * (1 - u) + distance[i + 1, j + 1, k + 1] * u) * v
    return a * (1 - w) + b * w


@nb.njit(fastmath=True, cache=True)
def _grow(  # type: ignore[no-untyped-def]
    root, start, comb, length, pull, fall, shell, fade, goal, face, rise, distance, origin, cell, joints, out
):
    for s in range(root.shape[0]):
        px, py, pz = root[s]
        dx, dy, dz = start[s]
        step = length[s] / (joints - 1)
        out[s, 0] = root[s]
        for j in range(1, joints):
            ease = step * pull[s] * math.exp(-j * step / fade)
            cx, cy, cz = comb[s]
            if goal[3] > 0:
                cx, cy, cz = goal[0] - px, goal[1] - py, goal[2] - pz
                size = math.sqrt(cx * cx + cy * cy + cz * cz) + 1e-9
                if size < goal[3]:
                    for k in range(j, joints):
                        out[s, k] = out[s, j - 1]
                    break
                cx, cy, cz = cx / size, cy / size, cz / size
                ease = step * pull[s]
            dx += cx * ease
            dy += cy * ease - fall[s] * step
            dz += cz * ease
            size = math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-9
            dx, dy, dz = dx / size, dy / size, dz / size
            qx, qy, qz = px + dx * step, py + dy * step, pz + dz * step
            gx, gy, gz = (qx - origin[0]) / cell, (qy - origin[1]) / cell, (qz - origin[2]) / cell
            if face[4] > 0 and qy < face[1] and qz > face[2]:
                wide = face[3] * min(1.0, 0.25 + (face[1] - qy) / 0.4)
                off = px - face[0]
                if abs(qx - face[0]) < wide:
                    qx = face[0] + math.copysign(min(wide, abs(qx - face[0]) + 1.2 * step), off)
                    dx, dy, dz = qx - px, qy - py, qz - pz
                    size = math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-9
                    dx, dy, dz = dx / size, dy / size, dz / size
                    gx = (qx - origin[0]) / cell
            gap = _look(distance, gx, gy, gz)
            if face[4] > 0 and qy < face[4]:
                if qz > face[5] and gap < shell[s]:
                    qz += min(shell[s] - gap, step)
                gap = 9.0
            keep = shell[s] * min(1.0, 0.15 + j * step / rise)
            if gap < keep:
                h = 0.7
                ax = _look(distance, gx + h, gy, gz) - _look(distance, gx - h, gy, gz)
                ay = _look(distance, gx, gy + h, gz) - _look(distance, gx, gy - h, gz)
                az = _look(distance, gx, gy, gz + h) - _look(distance, gx, gy, gz - h)
                size = math.sqrt(ax * ax + ay * ay + az * az) + 1e-9
                push = min(keep - gap, step * 1.5)
                qx += ax / size * push
                qy += ay / size * push
                qz += az / size * push
                dx, dy, dz = qx - px, qy - py, qz - pz
                size = math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-9
                dx, dy, dz = dx / size, dy / size, dz / size
            px, py, pz = qx, qy, qz
            out[s, j, 0] = px
            out[s, j, 1] = py
            out[s, j, 2] = pz


@dataclass
class Plan:
    """What a style wants of each root; arrays are one entry per strand."""

    start: Floats
    comb: Floats
    length: Floats
    pull: Floats
    fall: Floats
    shell: Floats
    joints: int = 20
    fade: float = 9.0
    rise: float = 0.12
    goal: tuple[float, float, float, float] = (0, 0, 0, 0)
    # keep-out of hanging hair: middle x, top y, front z, half width; below the fifth height torsos yield
    face: tuple[float, float, float, float, float, float] = (0, 0, 0, 0, -99, 0)
    wave: float = 0.0
    wave_length: float = 1.0
    curl: float = 0.0
    tufts: int = 400
    part: float = 9.0
    clump: float = 0.3


def grow(roots: Roots, plan: Plan, space: Volume, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Strand joints and tuft numbers."""
    out = np.zeros((len(roots), plan.joints, 3), np.float32)
    arrays = (plan.start, plan.comb, plan.length, plan.pull, plan.fall, plan.shell)
    start, comb, length, pull, fall, shell = (np.ascontiguousarray(a, np.float32) for a in arrays)
    goal = np.array(plan.goal, np.float32)
    _grow(
        roots.place,
        start,
        comb,
        length,
        pull,
        fall,
        shell,
        plan.fade,
        goal,
        np.array(plan.face, np.float32),
        plan.rise,
        space.distance,
        space.origin,
        CELL,
        plan.joints,
        out,
    )
    tuft, centre = _tufts(roots.place, plan.part, plan.tufts, rng)
    along = np.linspace(0, 1, plan.joints, dtype=np.float32)[None, :, None]
    pulled = plan.clump * along**1.2
    out = (
        out * (1 - pulled)
        + (out[centre[tuft]] - roots.place[centre[tuft]][:, None] * 0.3 + roots.place[:, None] * 0.3) * pulled
    )
    return _bend(out, plan, tuft, rng), tuft.astype(np.float32)


def _tufts(
    places: Floats, part: float, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = min(count, len(places))
    centre = rng.choice(len(places), count, replace=False)
    apart = np.concatenate([places, 3.0 * np.sign(places[:, :1] - part)], 1)
    return np.asarray(cKDTree(apart[centre]).query(apart)[1]), centre


def _bend(joints: Floats, plan: Plan, tuft: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Waves and curls: a helix around each strand, in step within a tuft."""
    if plan.wave == 0 and plan.curl == 0:
        return joints
    ahead = np.gradient(joints, axis=1)
    size = np.linalg.norm(ahead, axis=2, keepdims=True) + 1e-9
    run = np.cumsum(size[:, :, 0], 1)
    ahead = ahead / size
    side = np.cross(ahead, np.array([0.2, 0.1, 1.0]))
    side /= np.linalg.norm(side, axis=2, keepdims=True) + 1e-6
    up = np.cross(side, ahead)
    number = int(tuft.max()) + 1
    phase = rng.uniform(0, 6.28, number)[tuft] + rng.normal(0, 0.5, len(joints))
    angle = run * (6.283 / plan.wave_length) + phase[:, None]
    grown = np.clip(run / 0.25, 0, 1)
    swing = (plan.wave * np.sin(angle) * grown)[:, :, None] * side
    coil = (plan.curl * grown)[:, :, None] * (np.cos(angle)[:, :, None] * side + np.sin(angle)[:, :, None] * up)
    return np.asarray(joints + swing + coil, np.float32)
