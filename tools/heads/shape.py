"""From numbers about a person to a posed upper body: targets, age, expression, arms down, head turned.

Lengths are decimetres, as in the base mesh. "Canonical" means the undeformed base mesh: every point of a
body keeps its canonical place, so features (hairline, lips, neckline) are described once for everybody.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from assets import Assets, Floats, Ints
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree

TORSO_BONES = ("spine", "clavicle", "shoulder", "breast", "root", "pelvis")
NECK_SHARE = {"neck01": 0.25, "neck02": 0.5, "neck03": 0.75}
ARM_BONES = ("upperarm", "lowerarm", "wrist", "metacarpal", "finger")

LANDMARKS: dict[str, tuple[float, float, float]] = {
    "forehead": (0.0, 7.75, 1.55),
    "brow_left": (-0.33, 7.45, 1.45),
    "brow_right": (0.33, 7.45, 1.45),
    "nose": (0.0, 6.92, 1.68),
    "mouth": (0.0, 6.6, 1.5),
    "mouth_left": (-0.25, 6.6, 1.4),
    "mouth_right": (0.25, 6.6, 1.4),
    "chin": (0.0, 6.19, 1.38),
    "jaw_left": (-0.58, 6.6, 0.75),
    "jaw_right": (0.58, 6.6, 0.75),
    "ear_left": (-0.85, 7.15, 0.45),
    "ear_right": (0.85, 7.15, 0.45),
    "shoulder_left": (-1.75, 5.62, 0.1),
    "shoulder_right": (1.75, 5.62, 0.1),
}


@dataclass(frozen=True, eq=False)
class Topology:
    """Triangles of the upper body, once subdivided, and the matrix that places their vertices."""

    smooth: sparse.csr_matrix
    faces: Ints
    uv: Floats
    canon: Floats


@dataclass(frozen=True, eq=False)
class Body:
    topology: Topology
    points: Floats
    normals: Floats
    coarse: Floats
    head_turn: NDArray[np.float64]
    head_pivot: NDArray[np.float64]

    def spot(self, place: tuple[float, float, float]) -> Floats:
        """Where a canonical place has gone."""
        near = _finder(self.topology).query(place, 4)[1]
        return np.asarray(self.points[near].mean(0), np.float32)


@functools.cache
def _finder(top: Topology) -> Any:
    return cKDTree(top.canon)


@functools.cache
def topology(assets: Assets) -> Topology:
    base = assets.base
    chosen = base.of("body")
    low = base.points[base.faces[chosen]][:, :, 1].min(1)
    chosen = chosen[low > 3.0]
    faces, uv = base.faces[chosen], base.uv[base.uv_faces[chosen]]
    smooth, fine, fine_uv = _loop(faces, uv, len(base.points))
    return Topology(smooth, fine, fine_uv, np.asarray(smooth @ base.points, np.float32))


def _loop(faces: Ints, uv: Floats, count: int) -> tuple[sparse.csr_matrix, Ints, Floats]:
    """One step of Loop subdivision as a matrix; corners carry their own texture places."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    opposite = np.concatenate([faces[:, 2], faces[:, 0], faces[:, 1]])
    edges, which, shared = np.unique(np.sort(sides, 1), axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    matrix = sparse.vstack([_old_points(edges, shared, count), _new_points(edges, shared, which, opposite, count)])
    middle = count + which.reshape(3, -1).T
    a, b, c = faces.T
    ab, bc, ca = middle.T
    fine = np.concatenate([np.stack(rows, 1) for rows in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    ua, ub, uc = uv[:, 0], uv[:, 1], uv[:, 2]
    uab, ubc, uca = (ua + ub) / 2, (ub + uc) / 2, (uc + ua) / 2
    corners = ((ua, uab, uca), (uab, ub, ubc), (uca, ubc, uc), (uab, ubc, uca))
    return sparse.csr_matrix(matrix), fine, np.concatenate([np.stack(rows, 1) for rows in corners])


def _old_points(edges: Ints, shared: Ints, count: int) -> sparse.spmatrix:
    links = sparse.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (count, count))
    links = (links + links.T).tocsr()
    valence = np.asarray(links.sum(1)).ravel()
    beta = np.where(valence > 0, 3.0 / (8.0 * np.maximum(valence, 3)), 0)
    rim = edges[shared == 1]
    rim_links = sparse.coo_matrix((np.ones(len(rim)), (rim[:, 0], rim[:, 1])), (count, count))
    rim_links = (rim_links + rim_links.T).tocsr()
    on_rim = np.asarray(rim_links.sum(1)).ravel() > 0
    inner = sparse.diags(np.where(on_rim, 0, 1 - valence * beta)) + sparse.diags(np.where(on_rim, 0, beta)) @ links
    share = np.asarray(rim_links.sum(1)).ravel()
    kept = sparse.diags(np.where(on_rim, 0.75, 0))
    return inner + kept + sparse.diags(np.where(on_rim, 0.25 / np.maximum(share, 1), 0)) @ rim_links


def _new_points(edges: Ints, shared: Ints, which: Ints, opposite: Ints, count: int) -> sparse.spmatrix:
    number = len(edges)
    own = np.where(shared == 2, 3 / 8, 1 / 2)
    rows = np.concatenate([np.arange(number), np.arange(number), which])
    columns = np.concatenate([edges[:, 0], edges[:, 1], opposite])
    values = np.concatenate([own, own, np.where(shared[which] == 2, 1 / 8, 0)])
    return sparse.coo_matrix((values, (rows, columns)), (number, count))


def morph(assets: Assets, weights: Mapping[str, float]) -> Floats:
    points = assets.base.points.copy()
    for name, weight in weights.items():
        if abs(weight) > 1e-4:
            rows, moves = assets.target(name)
            points[rows] += np.float32(weight) * moves
    return points


def macro_weights(race: Mapping[str, float], gender: str, years: float) -> dict[str, float]:
    """The three MakeHuman races, mixed, between their young (25) and old (90) shapes."""
    old = float(np.clip((years - 25) / 65, 0, 1))
    found = {}
    for name, share in race.items():
        found[f"macrodetails/{name}-{gender}-young"] = share * (1 - old)
        found[f"macrodetails/{name}-{gender}-old"] = share * old
    return found


def build(assets: Assets, weights: Mapping[str, float], yaw: float, pitch: float, roll: float) -> Body:
    coarse = morph(assets, weights)
    coarse = _lower_arms(assets, coarse, 38)
    coarse = _slim_torso(assets, coarse, 0.94)
    coarse, turn, pivot = _turn_head(assets, coarse, yaw, pitch, roll)
    top = topology(assets)
    points = np.asarray(top.smooth @ coarse, np.float32)
    return Body(top, points, vertex_normals(points, top.faces), coarse, turn, pivot)


def vertex_normals(points: Floats, faces: Ints) -> Floats:
    a, b, c = (points[faces[:, k]] for k in range(3))
    flat = np.cross(b - a, c - a)
    total = np.zeros((len(points), 3), np.float64)
    for k in range(3):
        for axis in range(3):
            total[:, axis] += np.bincount(faces[:, k], flat[:, axis], len(points))
    return np.asarray(total / (np.linalg.norm(total, axis=1, keepdims=True) + 1e-12), np.float32)


def joint(assets: Assets, points: Floats, name: str) -> NDArray[np.float64]:
    corners = np.unique(assets.base.faces[assets.base.of(f"joint-{name}")])
    return np.asarray(points[corners].mean(0), np.float64)


@functools.cache
def _share(assets: Assets, prefixes: tuple[str, ...], side: str) -> Floats:
    total = np.zeros(len(assets.base.points), np.float32)
    for bone, (rows, values) in assets.bone_weights.items():
        if bone.startswith(prefixes) and bone.endswith(side):
            total[rows] += values
    return total


def _lower_arms(assets: Assets, points: Floats, degrees: float) -> Floats:
    for side, sign in (("l", -1), ("r", 1)):
        pivot = joint(assets, points, f"{side}-shoulder")
        turn = rotation(0, 0, sign * degrees)
        share = _share(assets, ARM_BONES, f".{side.upper()}")[:, None]
        points = (points * (1 - share) + ((points - pivot) @ turn.T + pivot) * share).astype(np.float32)
    return points


def _slim_torso(assets: Assets, points: Floats, factor: float) -> Floats:
    """Bodies of the macro shapes are broad for a portrait; narrow them below the neck only."""
    share = np.clip((6.0 - assets.base.points[:, 1]) / 0.7, 0, 1)
    points = points.copy()
    points[:, 0] *= 1 - share * (1 - factor)
    return points


def _turn_head(
    assets: Assets, points: Floats, yaw: float, pitch: float, roll: float
) -> tuple[Floats, NDArray[np.float64], NDArray[np.float64]]:
    still = _share(assets, TORSO_BONES + ARM_BONES + ("upperleg", "lowerleg", "foot", "toe"), "").copy()
    for bone, moved in NECK_SHARE.items():
        rows, values = assets.bone_weights[bone]
        still[rows] += (1 - moved) * values
    share = np.clip(1 - still, 0, 1)[:, None]
    pivot = joint(assets, points, "neck")
    turn = rotation(pitch, yaw, roll)
    turned = (points - pivot) @ turn.T + pivot
    return (points * (1 - share) + turned * share).astype(np.float32), turn, pivot


def rotation(pitch: float, yaw: float, roll: float) -> NDArray[np.float64]:
    """Degrees: pitch nods (positive looks down), yaw turns to the picture's right, roll tilts."""
    x, y, z = np.radians([pitch, yaw, roll])
    about_x = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
    about_y = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
    about_z = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)
