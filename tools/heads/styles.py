"""Hair styles, beards, brows and lashes: where strands start, how long they are, which way they lie.

Everything is said in canonical coordinates (see `shape`): x to the picture's right, y up, z to the camera.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import hair
import numpy as np
from hair import Plan, Roots, Strands, Volume
from numpy.typing import NDArray

from shape import Body

Floats = NDArray[np.floating[Any]]
Rng = np.random.Generator

# Height of the hairline by angle around the head: 0 is the forehead's middle, 180 the nape.
ANGLES = (0, 20, 38, 50, 58, 64, 70, 80, 87, 104, 116, 135, 180)
FRONT = (7.99, 8.0, 7.95, 7.80, 7.56, 7.34, 7.22, 7.28, 7.42, 7.34, 6.98, 6.78, 6.62)
RECEDED = (0.27, 0.36, 0.46, 0.36, 0.16, 0.02, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Cut:
    """A haircut as numbers; `kind` names the function below that lays it out."""

    kind: str
    length: float = 0.3
    sides: float = 0.12
    part: float = 0.0
    end: float = -9.0
    fringe: bool = False
    wave: float = 0.0
    wave_length: float = 1.0
    curl: float = 0.0
    tufts: int = 450
    clump: float = 0.35
    recede: float = 0.0
    crown: float = 0.0
    count: int = 15000
    lift: float = 0.1
    bun: tuple[float, float, float, float] | None = None
    stubble: float = 0.9


def hairline(canon: Floats, recede: float = 0.0) -> Floats:
    angle = np.degrees(np.arctan2(np.abs(canon[..., 0]), canon[..., 2] - 0.45))
    height = np.interp(angle, ANGLES, FRONT) + recede * np.interp(angle, ANGLES, RECEDED)
    return np.asarray(height, np.float32)


def on_ear(canon: Floats) -> NDArray[np.bool_]:
    x, y, z = np.abs(canon[..., 0]), canon[..., 1], canon[..., 2]
    return np.asarray((y < 7.37) & (y > 6.7) & (z > 0.2) & (z < 0.72) & (x > 0.70))


def scalp(canon: Floats, cut: Cut, soft: float = 0.07) -> Floats:
    """How densely hair grows at canonical places (0 to 1)."""
    above = (canon[..., 1] - hairline(canon, cut.recede)) / soft
    dense = np.clip(above * 0.5 + 0.5, 0, 1)
    if cut.crown > 0:
        top = np.clip((canon[..., 1] - 8.05 - 0.25 * (1 - cut.crown)) / 0.15, 0, 1)
        dense = dense * (1 - cut.crown * top)
    return np.asarray(np.where(on_ear(canon), 0, dense), np.float32)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + 1e-9), np.float32)


def _along(normal: Floats, wish: Floats | tuple[float, float, float]) -> Floats:
    """A wished direction laid flat on the scalp."""
    want = np.broadcast_to(np.asarray(wish, np.float32), normal.shape)
    return _unit(want - normal * (want * normal).sum(1, keepdims=True))


def _topness(canon: Floats) -> Floats:
    return np.asarray(np.clip((canon[:, 1] - 7.65) / 0.35, 0, 1), np.float32)


def _fill(value: float, roots: Roots) -> Floats:
    return np.full(len(roots), value, np.float32)


def _short(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    top = _topness(roots.canon)
    length = (cut.sides + (cut.length - cut.sides) * top) * rng.uniform(0.75, 1.1, len(roots))
    ahead = _along(roots.normal, (0.15 if cut.part >= 0 else -0.15, 0.1, 0.9))
    down = _along(roots.normal, (0, -1, -0.3))
    lie = ahead * top[:, None] + down * (1 - top[:, None])
    start = _unit(roots.normal * (0.35 + cut.lift) + lie * 0.8)
    return Plan(
        start, lie, length, _fill(3, roots), _fill(0.8, roots), 0.01 + 0.1 * length * rng.random(len(roots)), 9
    )


def _parted(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    top = _topness(roots.canon)
    away = np.sign(roots.canon[:, 0] - cut.part + rng.normal(0, 0.02, len(roots)))
    length = (cut.sides + (cut.length - cut.sides) * top) * rng.uniform(0.5, 1.1, len(roots))
    zeros = np.zeros(len(roots))
    ahead = np.clip((roots.canon[:, 2] - 0.6) / 0.8, 0, 1)
    across = _along(roots.normal, np.stack([away, zeros + 0.1, 0.35 * ahead - 0.35], 1).astype(np.float32))
    down = _along(roots.normal, (0, -1, -0.35))
    lie = _unit(across * top[:, None] + down * (1 - top[:, None]))
    start = _unit(roots.normal * (0.2 + cut.lift * 1.6) * (0.3 + top[:, None]) + lie)
    shell = 0.015 + (0.3 * cut.lift + 0.05) * top * rng.random(len(roots))
    return Plan(start, lie, length, _fill(3.0, roots), _fill(5.0, roots), shell, 14, fade=0.3, rise=0.35)


def _swept(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    top = _topness(roots.canon)
    length = (cut.sides + (cut.length - cut.sides) * top) * rng.uniform(0.8, 1.08, len(roots))
    back = _along(roots.normal, (0, 0.1, -1))
    down = _along(roots.normal, (0, -0.6, -1))
    lie = _unit(back * top[:, None] + down * (1 - top[:, None]))
    start = _unit(roots.normal * (0.25 + cut.lift * 2) * (0.3 + top[:, None]) + lie)
    shell = 0.015 + (0.2 * cut.lift + 0.05) * top * rng.random(len(roots))
    return Plan(start, lie, length, _fill(4.5, roots), _fill(1.5, roots), shell, 12)


def _hanging(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    away = np.sign(roots.canon[:, 0] - cut.part + rng.normal(0, 0.012, len(roots)))
    zeros = np.zeros(len(roots))
    behind = np.clip((0.6 - roots.canon[:, 2]) / 0.8, 0, 1)
    wish = np.stack([away * (1 - 0.7 * behind), zeros - 0.25, -0.35 - 0.6 * behind], 1)
    lie = _along(roots.normal, wish.astype(np.float32))
    if cut.fringe:
        front = (roots.canon[:, 2] > 0.95) & (np.abs(roots.canon[:, 0]) < 0.5) & (roots.canon[:, 1] > 7.9)
        lie[front] = _along(roots.normal, (0.12, -0.3, 1))[front]
    start = _unit(roots.normal * (0.25 + cut.lift) + lie)
    shell = 0.02 + (0.05 + cut.lift * 0.9) * rng.random(len(roots)) ** 0.7
    pull = _fill(1.5, roots)
    return Plan(start, lie, _fill(cut.length, roots), pull, _fill(4.5, roots), shell, 34, fade=0.35, rise=0.75)


def _round(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    top = np.clip((roots.canon[:, 1] - 7.0) / 0.6, 0, 1)
    length = (cut.sides + (cut.length - cut.sides) * top) * rng.uniform(0.55, 1.0, len(roots))
    out = _unit(roots.canon - np.array([0, 7.5, 0.45], np.float32))
    start = _unit(roots.normal * 0.4 + out + rng.normal(0, 0.22, (len(roots), 3)))
    return Plan(start, start, length, _fill(0.5, roots), _fill(0.15, roots), _fill(0.01, roots), 14)


def _gathered(roots: Roots, cut: Cut, rng: Rng) -> Plan:
    bun = cut.bun or (0, 7.6, -0.75, 0.3)
    target = np.array(bun[:3], np.float32)
    wish = target - roots.canon
    far = np.linalg.norm(wish, axis=1)
    lie = _along(roots.normal, (wish / far[:, None]).astype(np.float32))
    start = _unit(roots.normal * (0.12 + cut.lift) + lie)
    shell = 0.015 + (0.03 + cut.lift * 0.3) * rng.random(len(roots))
    return Plan(start, lie, (far * 1.5).astype(np.float32), _fill(9, roots), _fill(0, roots), shell, 26)


LAYOUTS: Mapping[str, Callable[[Roots, Cut, Rng], Plan]] = {
    "short": _short,
    "parted": _parted,
    "swept": _swept,
    "hanging": _hanging,
    "round": _round,
    "gathered": _gathered,
}


def head_hair(body: Body, space: Volume, cut: Cut, rng: Rng) -> list[Strands]:
    if cut.kind == "bald":
        return []
    roots = hair.scatter(body, cut.count * 4, rng, above=6.4)
    roots = roots.take(rng.random(len(roots)) < scalp(roots.canon, cut))
    plan = LAYOUTS[cut.kind](roots, cut, rng)
    plan.wave, plan.wave_length, plan.curl = cut.wave, cut.wave_length, cut.curl
    plan.tufts, plan.clump = cut.tufts, cut.clump
    plan.part = cut.part if cut.kind in ("hanging", "parted") else 9.0
    _face_the_way_of_the_head(plan, body)
    if cut.kind == "gathered":
        plan.goal = _knot(body, cut)
    if cut.kind == "hanging":
        plan.face = _keep_out(body, cut)
    joints, tuft = hair.grow(roots, plan, space, rng)
    if cut.end > -9:
        joints = _trim(joints, roots, cut, rng)
    if cut.kind == "hanging":
        clear = _off_the_face(joints, plan)
        joints, tuft = joints[clear], tuft[clear]
    found = [_strands(joints, tuft, 2.0, 0, rng)]
    if cut.bun:
        found.append(_bun(body, cut, rng))
    return found


def _face_the_way_of_the_head(plan: Plan, body: Body) -> None:
    """Normals already turned with the head; only the wished directions did not."""
    turn = body.head_turn.T.astype(np.float32)
    plan.comb = plan.comb @ turn


def _trim(joints: Floats, roots: Roots, cut: Cut, rng: Rng) -> Floats:
    """Cut hair at a height: joints below collapse onto the end of the strand."""
    drop = joints[:, :, 1] - joints[:, :1, 1]
    limit = (cut.end + rng.normal(0, 0.06, len(joints)) - 0.05 * rng.random(len(joints)) ** 3) - roots.canon[:, 1]
    if cut.fringe:
        front = (roots.canon[:, 2] > 0.95) & (np.abs(roots.canon[:, 0]) < 0.5) & (roots.canon[:, 1] > 7.9)
        limit[front] = 7.56 + rng.normal(0, 0.025, int(front.sum())) - roots.canon[front, 1]
    over = drop < limit[:, None]
    first = np.where(over.any(1), over.argmax(1), joints.shape[1] - 1)
    index = np.minimum(np.arange(joints.shape[1])[None, :], first[:, None])
    return np.take_along_axis(joints, index[:, :, None], 1)


def _strands(joints: Floats, tuft: Floats, width: float, tone: int, rng: Rng) -> Strands:
    number = len(joints)
    return Strands(joints, np.full(number, width, np.float32), rng.random(number, np.float32), tuft, tone)


def _bun(body: Body, cut: Cut, rng: Rng, count: int = 2600) -> Strands:
    """A ball of strands wound round a knot."""
    assert cut.bun is not None
    place = np.array(_knot(body, cut)[:3])
    axis = _unit(np.array([[0.25, 1.0, 0.3]], np.float32) + rng.normal(0, 0.45, (count, 3)).astype(np.float32))
    first = _unit(np.cross(axis, rng.normal(0, 1, (count, 3))).astype(np.float32))
    second = np.cross(axis, first)
    turn = np.linspace(0, 2.4, 16)[None, :, None]
    radius = cut.bun[3] * rng.uniform(0.86, 1.0, count)[:, None, None]
    ring = np.cos(turn) * first[:, None] + np.sin(turn) * second[:, None]
    joints = (place + radius * ring * np.array([1.1, 0.92, 1.0])).astype(np.float32)
    tuft = rng.integers(0, 60, count).astype(np.float32)
    return _strands(joints, tuft, 2.0, 0, rng)


def _keep_out(body: Body, cut: Cut) -> tuple[float, float, float, float, float, float]:
    """The corridor in front of the face that hanging hair leaves free, and the height of the shoulders."""
    temple = [body.spot((side * 0.6, 7.5, 1.0)) for side in (-1, 1)]
    wide = float(temple[1][0] - temple[0][0]) / 2
    top = float(body.spot((0, 7.56 if cut.fringe else 7.95, 1.4))[1])
    middle = float(temple[0][0] + temple[1][0]) / 2
    front = float(body.spot((0.7, 7.2, 0.75))[2])
    shoulder = float(body.spot((0.75, 5.95, 0.2))[1])
    return middle, top, front, wide * 1.08, shoulder, front - 0.05


def _off_the_face(joints: Floats, plan: Plan) -> NDArray[np.bool_]:
    middle, top, front, wide, _, _ = plan.face
    away = np.abs(joints[:, :, 0] - middle) / wide
    room = np.clip(0.2 + (top - joints[:, :, 1]) / 0.45, 0, 0.93)
    return np.asarray(~((joints[:, :, 2] > front - 0.1) & (away < room) & (joints[:, :, 1] < top - 0.05)).any(1))


def _knot(body: Body, cut: Cut) -> tuple[float, float, float, float]:
    """Where gathered hair meets, in the posed body's space, and how near counts as there."""
    bun = cut.bun or (0, 7.55, -0.6, 0.25)
    place = body.head_turn @ (np.array(bun[:3]) - np.array([0, 8.49, 0.3])) + _crown(body)
    return float(place[0]), float(place[1]), float(place[2]), bun[3] * 0.8


def _crown(body: Body) -> NDArray[np.float64]:
    return np.asarray(body.spot((0, 8.49, 0.3)), np.float64)


# ---------------------------------------------------------------------------------------------- beards


def beard_density(canon: Floats, style: str) -> Floats:
    """Where a beard of a style grows (0 to 1)."""
    x, y, z = np.abs(canon[..., 0]), canon[..., 1], canon[..., 2]
    lips = ((x / 0.27) ** 2 + ((y - 6.6) / 0.125) ** 2) < 1
    cheek_line = np.interp(x, (0, 0.12, 0.3, 0.5, 0.66, 0.72), (6.80, 6.82, 6.74, 6.78, 7.05, 7.3))
    full = _ramp(cheek_line - y, 0.05) * _ramp(y - 6.02 - 0.25 * _ramp(z - 1.0, 0.2), 0.05) * _ramp(z - 0.62, 0.06)
    lip_hair = _ramp(0.285 - x, 0.03) * _ramp(y - 6.66, 0.03) * _ramp(6.83 - y, 0.025) * _ramp(x - 0.02, 0.02)
    goatee = _ramp(0.235 - x, 0.05) * _ramp(6.47 - y, 0.03) * _ramp(y - 6.0, 0.05)
    ring = _ramp(0.335 - x, 0.03) * _ramp(x - 0.245, 0.02) * _ramp(6.7 - y, 0.05) * _ramp(y - 6.3, 0.05)
    parts = {
        "none": 0 * full,
        "stubble": full,
        "short": full,
        "full": full,
        "moustache": lip_hair,
        "goatee": np.maximum(np.maximum(goatee, lip_hair), ring),
    }
    dense = parts[style] * np.where(lips, 0, 1) * np.where(z > 0.4, 1, 0)
    return np.asarray(dense * np.where(on_ear(canon), 0, 1), np.float32)


def _ramp(value: Floats, soft: float) -> Floats:
    return np.asarray(np.clip(value / soft * 0.5 + 0.5, 0, 1), np.float32)


BEARD_LENGTH = {"none": 0.0, "short": 0.065, "full": 0.24, "moustache": 0.075, "goatee": 0.1}
BEARD_COUNT = {"none": 0, "short": 30000, "full": 34000, "moustache": 60000, "goatee": 50000}


def beard(body: Body, space: Volume, style: str, rng: Rng) -> list[Strands]:
    if style in ("none", "stubble"):  # stubble is painted, see `face`
        return []
    roots = hair.scatter(body, BEARD_COUNT[style], rng, above=5.95)
    roots = roots.take(rng.random(len(roots)) < beard_density(roots.canon, style))
    down = _along(roots.normal, (0, -1, 0.1))
    side = np.sign(roots.canon[:, :1]) * np.array([[1.0, 0, 0]], np.float32)
    lip = (roots.canon[:, 1:2] > 6.62) & (np.abs(roots.canon[:, :1]) < 0.34)
    lie = _unit(down + np.where(lip, 1.0, 0.15) * side)
    start = _unit(roots.normal * 0.45 + lie + rng.normal(0, 0.12, lie.shape).astype(np.float32))
    length = BEARD_LENGTH[style] * rng.uniform(0.7, 1.15, len(roots))
    length *= np.where(lip[:, 0], 0.7, 1) if style == "full" else 1
    plan = Plan(
        start, lie, length, _fill(2, roots), _fill(2, roots), 0.01 + length * 0.15, 7, tufts=900, clump=0.3
    )
    joints, tuft = hair.grow(roots, plan, space, rng)
    return [_strands(joints, tuft, 1.3, 3, rng)]


# --------------------------------------------------------------------------------------- brows, lashes


def brow_density(canon: Floats, shape: Mapping[str, float]) -> Floats:
    """Where a brow grows (0 to 1); `shape` holds thickness, arch, length and density."""
    x = np.abs(canon[..., 0])
    end = 0.5 + 0.06 * shape["length"]
    arch = shape["arch"]
    middle = np.interp(
        x, (0.12, 0.3, 0.41, end + 0.04), (7.468, 7.478 + 0.006 * arch, 7.474 + 0.018 * arch, 7.435)
    )
    half = shape["thick"] * np.interp(x, (0.10, 0.16, 0.32, end), (0.012, 0.022, 0.02, 0.005))
    off = np.abs(canon[..., 1] - middle) / half
    dense = np.clip(1.6 - off, 0, 1) * _ramp(x - 0.13, 0.02) * _ramp(end - x, 0.02) * (canon[..., 2] > 0.9)
    return np.asarray(dense * shape["density"], np.float32)


def brows(body: Body, shape: Mapping[str, float], rng: Rng) -> list[Strands]:
    roots = hair.scatter(body, 90000, rng, above=7.0)
    near = (np.abs(roots.canon[:, 1] - 7.46) < 0.15) & (roots.canon[:, 2] > 0.9)
    roots = roots.take(near)
    inside = rng.random(len(roots)) < 0.6 * brow_density(roots.canon, shape)
    roots = roots.take(inside)
    x = np.abs(roots.canon[:, 0])
    lean = np.interp(x, (0.12, 0.2, 0.4, 0.55), (0.8, 0.25, 0.0, -0.3))
    wish = np.stack([np.sign(roots.canon[:, 0]), lean, np.zeros(len(x))], 1).astype(np.float32)
    ahead = _along(roots.normal, wish)
    step = np.linspace(0, 1, 5)[None, :, None] * rng.uniform(0.035, 0.075, len(x))[:, None, None]
    joints = (
        roots.place[:, None] + roots.normal[:, None] * (0.012 + 0.1 * step * (1 - step)) + ahead[:, None] * step
    )
    return [_strands(joints.astype(np.float32), np.zeros(len(x), np.float32), 1.0, 1, rng)]


def lashes(
    coarse: Floats, faces: NDArray[np.int64], eye: Floats, upper: bool, strength: float, rng: Rng
) -> Strands:
    """Short dark strands from the lid's edge, which is the inner rim of the base mesh's lash strip."""
    rim = coarse[np.unique(faces)]
    far = np.linalg.norm(rim - eye, axis=1)
    rim = rim[far < np.quantile(far, 0.4)]
    rim = rim[np.argsort(rim[:, 0])]
    count = int((240 if upper else 30) * strength)
    spot = 0.06 + 0.88 * np.sort(rng.random(count))
    run = np.concatenate([[0], np.cumsum(np.abs(np.diff(rim[:, 0])))])
    knots = run / run[-1]
    root = np.stack([np.interp(spot, knots, rim[:, axis]) for axis in range(3)], 1)
    root += (root - eye) * 0.06
    lift = 0.42 if upper else -0.35
    out = _unit((root - eye) * np.array([1.6, 0.4, 1.0]) + np.array([0, lift * 0.3, 0]))
    length = rng.uniform(0.012, 0.03, count) * (0.7 + 0.5 * strength) * (1.0 if upper else 0.6)
    step = np.linspace(0, 1, 5)[None, :, None]
    curl = np.array([0, lift, 0]) * step**2
    joints = root[:, None] + (out[:, None] * step + curl) * length[:, None, None]
    return _strands(joints.astype(np.float32), np.zeros(count, np.float32), 1.3 if upper else 0.8, 2, rng)
