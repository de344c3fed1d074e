"""Skin as paint and relief: colour by place on the face, lips, blush, stubble, wrinkles, pores."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import colour
import cv2
import noise
import numpy as np
import styles
from assets import Assets
from filters import blurred
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

RELIEF = 512
LEFT, BOTTOM, SPAN = -1.0, 5.6, 2.8  # the square of canonical x, y that the relief map covers


@dataclass(frozen=True)
class Skin:
    lab: tuple[float, float, float]
    texture: tuple[str, str]
    age: float  # 0 young .. 1 very old
    male: bool
    blush: float
    freckles: float
    lips: float
    shadow: float  # beard shadow of shaved men; above 1 it is stubble
    brow: tuple[tuple[str, float], ...]
    brow_colour: tuple[float, float, float]
    bare: bool  # the scalp shows
    seed: int


def sample(picture: Floats, uv: Floats) -> Floats:
    """Bilinear lookup at texture places (v up)."""
    height, width = picture.shape[:2]
    x = (uv[:, 0] * width - 0.5).astype(np.float32)
    y = ((1 - uv[:, 1]) * height - 0.5).astype(np.float32)
    out = []
    for start in range(0, len(x), 30000):
        part = slice(start, start + 30000)
        found = cv2.remap(picture, x[part, None], y[part, None], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        out.append(found.reshape(len(x[part]), *picture.shape[2:]))
    return np.concatenate(out) if out else np.zeros((0, *picture.shape[2:]), np.float32)


@functools.cache
def _unevenness(assets: Assets, texture: tuple[str, str]) -> Floats:
    """A skin texture divided by its own face colour, so that only its pattern is left."""
    picture = colour.linear(assets.skin(*texture))
    face = cv2.resize(assets.region("face"), picture.shape[1::-1]) > 0.5
    middle = np.median(picture[face], 0)
    return np.asarray(np.clip(picture / middle, 0.15, 3.0), np.float32)


def _blob(canon: Floats, x: float, y: float, rx: float, ry: float) -> Floats:
    reach = ((np.abs(canon[:, 0]) - x) / rx) ** 2 + ((canon[:, 1] - y) / ry) ** 2
    return np.asarray(np.exp(-reach) * (canon[:, 2] > 0.5), np.float32)


def paint(assets: Assets, skin: Skin, canon: Floats, uv: Floats) -> tuple[Floats, Floats]:
    """Linear albedo and how much each place is lip."""
    pattern = sample(_unevenness(assets, skin.texture), uv) ** np.float32(0.45)
    if skin.bare:
        pattern = _without_painted_hair(pattern, canon)
    lips = np.clip(sample(assets.region("lips"), uv) * 1.15, 0, 1)
    base = colour.lab_to_linear(np.array(skin.lab))
    albedo = base * pattern
    albedo *= _mottle(skin, canon)[:, None]
    albedo = _flush(skin, canon, albedo)
    albedo = _spots(skin, canon, albedo)
    albedo = _beard_shadow(skin, canon, albedo)
    albedo = _eye_rims(skin, canon, albedo)
    albedo = _brow_ground(skin, canon, albedo)
    return _lip_colour(skin, albedo, lips), np.asarray(lips, np.float32)


def _without_painted_hair(pattern: Floats, canon: Floats) -> Floats:
    """The textures darken the scalp where hair would be; a bald head must not show that."""
    kept = np.clip((8.0 - canon[:, 1:2]) / 0.3, 0.05, 1) * np.clip((canon[:, 2:3] - 0.3) / 0.6, 0.05, 1)
    return np.asarray(1 + (pattern - 1) * kept, np.float32)


def _mottle(skin: Skin, canon: Floats) -> Floats:
    u, v = canon[:, 0] + 0.6 * canon[:, 2], canon[:, 1] + 0.2 * canon[:, 2]
    broad = noise.at(u * 0.35 + skin.seed * 0.17, v * 0.35, 21)
    fine = noise.at(u * 2.2, v * 2.2 + skin.seed * 0.3, 22)
    return np.asarray(1 + 0.022 * broad + (0.014 + 0.014 * skin.age) * fine, np.float32)


def _flush(skin: Skin, canon: Floats, albedo: Floats) -> Floats:
    """Blood under thin skin: cheeks, nose, ears, chin; cooler forehead."""
    cheeks = _blob(canon, 0.45, 6.95, 0.22, 0.2)
    nose = _blob(canon, 0.0, 6.92, 0.14, 0.13)
    ears = np.clip((np.abs(canon[:, 0]) - 0.74) / 0.08, 0, 1) * (canon[:, 1] < 7.4) * (canon[:, 1] > 6.75)
    chin = _blob(canon, 0.0, 6.3, 0.2, 0.12)
    much = skin.blush * (0.9 * cheeks + 0.7 * nose + 0.8 * ears + 0.35 * chin)
    return np.asarray(albedo * (1 + much[:, None] * np.array([0.07, -0.13, -0.12], np.float32)), np.float32)


def _spots(skin: Skin, canon: Floats, albedo: Floats) -> Floats:
    u, v = canon[:, 0] + 0.5 * canon[:, 2], canon[:, 1]
    freckle = np.clip(noise.at(u * 3.2 + skin.seed, v * 3.2, 31) - 1.5, 0, 1) * skin.freckles
    old = np.clip(noise.at(u * 0.9 + skin.seed * 0.7, v * 0.9, 32) - 1.75, 0, 1) * np.clip(
        skin.age * 1.6 - 0.7, 0, 1
    )
    dark = (0.35 * freckle + 0.3 * old)[:, None] * np.array([0.5, 0.8, 0.9], np.float32)
    return np.asarray(albedo * (1 - np.clip(dark, 0, 0.5)), np.float32)


def _beard_shadow(skin: Skin, canon: Floats, albedo: Floats) -> Floats:
    if skin.shadow <= 0:
        return albedo
    speck = noise.at(canon[:, 0] * 14 + canon[:, 2] * 11, canon[:, 1] * 14 + canon[:, 2] * 5, 33)
    dense = (
        styles.beard_density(canon, "stubble")
        * np.float32(skin.shadow)
        * (1 + 0.2 * min(skin.shadow, 1.6) * speck)
    )
    dense = np.clip(dense, 0, 2.6)
    return np.asarray(albedo * (1 - dense[:, None] * np.array([0.26, 0.22, 0.17], np.float32)), np.float32)


def _brow_ground(skin: Skin, canon: Floats, albedo: Floats) -> Floats:
    """Fine hairs below what strands can show."""
    much = (0.55 * styles.brow_density(canon, dict(skin.brow)))[:, None]
    tone = 0.6 * colour.linear(np.array(skin.brow_colour, np.float32)) + 0.25 * albedo
    return np.asarray(albedo * (1 - much) + tone * much, np.float32)


def _eye_rims(skin: Skin, canon: Floats, albedo: Floats) -> Floats:
    under = _blob(canon, 0.29, 7.165, 0.14, 0.05) * (0.35 + 0.65 * skin.age)
    lid = _blob(canon, 0.32, 7.36, 0.15, 0.035)
    shade = (0.20 * under + 0.12 * lid)[:, None] * np.array([0.8, 1.1, 0.95], np.float32)
    return np.asarray(albedo * (1 - shade), np.float32)


def _lip_colour(skin: Skin, albedo: Floats, lips: Floats) -> Floats:
    light = skin.lab[0]
    tone = np.array([light * 0.80 - 2, 13 + skin.lips * 11 + 0.06 * light, 6 + 0.09 * light])
    lip = colour.lab_to_linear(tone)
    grain = albedo / (colour.lab_to_linear(np.array(skin.lab)) + 1e-6)
    much = (lips * (0.55 + 0.25 * skin.lips))[:, None]
    return np.asarray(albedo * (1 - much) + lip * np.clip(grain, 0.7, 1.25) ** 0.6 * much, np.float32)


# ------------------------------------------------------------------------------------------- relief


def _to_map(points: NDArray[np.float64]) -> NDArray[np.int32]:
    x = (points[:, 0] - LEFT) / SPAN * RELIEF
    y = RELIEF - (points[:, 1] - BOTTOM) / SPAN * RELIEF
    return np.round(np.stack([x, y], 1) * 16).astype(np.int32)


def _crease(picture: Floats, path: list[tuple[float, float]], depth: float, soft: float, width: int = 1) -> None:
    curve = np.array(path, np.float64)
    turn = np.linspace(0, 1, 24)
    knots = np.linspace(0, 1, len(curve))
    smooth = np.stack([np.interp(turn, knots, curve[:, k]) for k in (0, 1)], 1)
    layer = np.zeros_like(picture)
    cv2.polylines(layer, [_to_map(smooth)], False, 1.0, width, cv2.LINE_AA, 4)
    layer = blurred(layer, soft * RELIEF / 1024)
    picture -= depth * layer / (layer.max() + 1e-6)


def _both(path: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    return [path, [(-x, y) for x, y in path]]


@functools.lru_cache(maxsize=64)
def relief(age: float, seed: int) -> Floats:
    """Height map of the face's creases (decimetres, downward negative)."""
    rng = np.random.default_rng(seed + 77)
    picture = np.zeros((RELIEF, RELIEF), np.float32)
    wiggle = lambda s: float(rng.normal(0, s))  # noqa: E731
    smile = 0.14 + 1.0 * age
    for path in _both([(0.195, 6.95), (0.25, 6.84), (0.315, 6.70), (0.335, 6.60 - 0.06 * age)]):
        _crease(picture, path, 0.020 * smile, 9)
    if age > 0.12:
        _old_creases(picture, age, wiggle)
    for path in _both([(0.17, 7.215), (0.26, 7.185), (0.36, 7.185), (0.45, 7.215)]):
        _crease(picture, path, 0.009 * (0.35 + age), 6)
    return blurred(picture, 1.6 * RELIEF / 1024)


def _old_creases(picture: Floats, age: float, wiggle) -> None:  # type: ignore[no-untyped-def]
    for height in (7.62, 7.71, 7.80, 7.88):
        ends = 0.42 + wiggle(0.05)
        path = [
            (-ends, height + wiggle(0.01)),
            (-0.2, height + 0.025 + wiggle(0.01)),
            (0, height + wiggle(0.008)),
            (0.2, height + 0.025 + wiggle(0.01)),
            (ends, height + wiggle(0.01)),
        ]
        _crease(picture, path, 0.011 * age, 5)
    for side in _both([(0.07, 7.40), (0.085 + wiggle(0.01), 7.55)]):
        _crease(picture, side, 0.009 * age, 4)
    for rise in (0.09, 0.02, -0.06):
        for path in _both([(0.515, 7.28 + rise * 0.35), (0.575, 7.285 + rise * 0.8), (0.63, 7.28 + rise * 1.4)]):
            _crease(picture, path, 0.010 * age, 3.5)
    for path in _both([(0.15, 7.20), (0.24, 7.13), (0.36, 7.11), (0.47, 7.17)]):
        _crease(picture, path, 0.012 * age, 6)
    for path in _both([(0.285, 6.56), (0.315, 6.45), (0.30, 6.33)]):
        _crease(picture, path, 0.014 * age, 6)
    for path in _both([(0.40, 6.92), (0.47, 6.78), (0.49, 6.62)]):
        _crease(picture, path, 0.008 * age, 7)
    for height in (5.98, 5.84):
        _crease(
            picture,
            [(-0.4, height + 0.08), (-0.15, height), (0.15, height + wiggle(0.01)), (0.4, height + 0.08)],
            0.012 * age,
            5,
        )


@functools.lru_cache(maxsize=64)
def _slopes(age: float, seed: int) -> Floats:
    height = relief(age, seed)
    step = SPAN / RELIEF
    return np.stack([np.gradient(height, axis=1) / step, -np.gradient(height, axis=0) / step], -1).astype(
        np.float32
    )


def tilt(skin: Skin, canon: Floats) -> Floats:
    """Slope of creases and pores along canonical x and y."""
    uv = np.stack([(canon[:, 0] - LEFT) / SPAN, (canon[:, 1] - BOTTOM) / SPAN], 1)
    slope = sample(_slopes(round(skin.age, 2), skin.seed), uv) * (canon[:, 2:3] > 0.45)
    u, v = canon[:, 0] + 0.4 * canon[:, 2], canon[:, 1]
    pores = np.stack([noise.at(u * 3, v * 3, 41), noise.at(u * 3 + 5, v * 3, 42)], 1)
    return np.asarray(slope + (0.035 + 0.03 * skin.age) * pores, np.float32)
