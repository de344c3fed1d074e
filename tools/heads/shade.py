"""Light on surface facts: soft key, fill, sky and rim; skin that scatters, eyes that shine, hair that glints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import colour
import face
import garment
import noise
import numpy as np
import raster
import styles
from assets import Assets
from face import Skin
from filters import blurred
from numpy.typing import NDArray
from raster import Frame

Floats = NDArray[np.floating[Any]]

DISTANCE = 17.0  # camera to face, decimetres


@dataclass(frozen=True)
class Camera:
    centre: tuple[float, float, float]
    scale: float
    size: int
    middle: float  # where the centre sits in the picture's height

    def project(self, points: Floats) -> Floats:
        relative = points - np.array(self.centre, np.float32)
        near = DISTANCE / (DISTANCE - relative[..., 2])
        x = self.size / 2 + relative[..., 0] * self.scale * near
        y = self.size * self.middle - relative[..., 1] * self.scale * near
        return np.stack([x, y, points[..., 2]], -1).astype(np.float32)

    def unproject(self, x: Floats, y: Floats, z: Floats) -> Floats:
        near = DISTANCE / (DISTANCE - (z - self.centre[2]))
        wx = (x - self.size / 2) / (self.scale * near) + self.centre[0]
        wy = (self.size * self.middle - y) / (self.scale * near) + self.centre[1]
        return np.stack([wx, wy, z], -1).astype(np.float32)


@dataclass(frozen=True)
class Light:
    side: float  # degrees of the key from the camera, negative from the picture's left
    rise: float
    key: tuple[float, float, float]
    fill: tuple[float, float, float]
    sky: tuple[float, float, float]
    rim: float

    @property
    def key_way(self) -> Floats:
        return _way(self.side, self.rise)

    @property
    def fill_way(self) -> Floats:
        return _way(-self.side * 1.3, 8)


@dataclass(frozen=True)
class Fabric:
    colour: tuple[float, float, float]  # sRGB
    line: garment.Neckline
    seed: int
    knit: float


@dataclass(frozen=True)
class Mane:
    colour: tuple[float, float, float]  # sRGB
    grey: float  # share of strands that lost their colour
    brow: tuple[float, float, float]
    shine: float
    beard_grey: float


@dataclass(frozen=True)
class Iris:
    colour: tuple[float, float, float]
    seed: int


@dataclass(frozen=True, eq=False)
class Eyes:
    centres: Floats
    radius: float
    gaze: Floats


def _way(side: float, rise: float) -> Floats:
    a, b = np.radians(side), np.radians(rise)
    return np.array([np.sin(a) * np.cos(b), np.sin(b), np.cos(a) * np.cos(b)], np.float32)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + 1e-9), np.float32)


@dataclass(frozen=True, eq=False)
class Stage:
    """All that shading one picture needs."""

    assets: Assets
    frame: Frame
    camera: Camera
    light: Light
    occlusion: Floats
    lit: Floats  # key light that reaches each sample
    skin: Skin
    cut: styles.Cut
    beard: str
    mane: Mane
    fabric: Fabric
    iris: Iris
    eyes: Eyes


@dataclass(frozen=True, eq=False)
class Painted:
    light: Floats  # linear rgb
    skin: Floats  # share of each sample that is plain skin; lips count half, so that they follow a shift softly
    hair: Floats  # share that is strands or densely rooted scalp


def light_frame(way: Floats) -> Floats:
    """Axes of a view from the light: across, up, toward."""
    across = _unit(np.cross(np.array([0, 1, 0], np.float32), way))
    return np.stack([across, np.cross(way, across), way]).astype(np.float32)


def light_map(way: Floats, triangles: Floats, strands: list[Floats], centre: Floats, size: int = 320) -> Floats:
    axes = light_frame(way)
    scale = size / 6.0
    corners = _to_light(triangles, axes, centre, scale, size)
    depth = raster.nearest(np.ascontiguousarray(corners), size)
    for joints in strands:
        raster.splat(depth, np.ascontiguousarray(_to_light(joints.reshape(-1, 3), axes, centre, scale, size)))
    return depth


def _to_light(points: Floats, axes: Floats, centre: Floats, scale: float, size: int) -> Floats:
    found = (points - centre) @ axes.T
    found[..., 0] = found[..., 0] * scale + size / 2
    found[..., 1] = found[..., 1] * scale + size / 2
    return found.astype(np.float32)


def key_reach(frame: Frame, camera: Camera, way: Floats, depth: Floats, centre: Floats) -> Floats:
    """Soft shadow of the key light on every sample."""
    seen = frame.kind > 0
    y, x = np.nonzero(seen)
    points = camera.unproject(x + 0.5, y + 0.5, frame.depth[seen])
    size = depth.shape[0]
    places = _to_light(points, light_frame(way), centre, size / 6.0, size)
    turns = np.arange(28) * 2.399963
    far = np.sqrt((np.arange(28) + 0.5) / 28)
    offsets = np.stack([np.cos(turns) * far, np.sin(turns) * far], 1).astype(np.float32)
    out = np.ones(frame.depth.shape, np.float32)
    out[seen] = raster.shadow(places, depth, 0.07, size / 6.0 * 0.3, offsets)
    return blurred(out, camera.size / 384)


def shade(stage: Stage) -> Painted:
    size = stage.frame.size
    picture = np.zeros((size, size, 3), np.float32)
    share = np.zeros((size, size), np.float32)
    rooted = (stage.frame.kind == raster.HAIR).astype(np.float32)
    _skin(stage, picture, share, rooted)
    _eyes(stage, picture)
    _hair(stage, picture)
    _cloth(stage, picture)
    return Painted(picture, share, rooted)


def _diffuse(stage: Stage, normals: Floats, where: NDArray[np.bool_], wrap: Floats) -> Floats:
    """Light that falls on a surface, per channel; `wrap` lets it reach round edges."""
    light = stage.light
    hidden = np.clip(1 - 1.05 * stage.occlusion[where], 0, 1)[:, None]
    reach = stage.lit[where][:, None]
    sky = np.array(light.sky, np.float32) * (0.72 + 0.28 * normals[:, 1:2]) * hidden
    key = _wrapped(normals @ light.key_way, wrap) * np.array(light.key, np.float32) * (0.18 + 0.82 * reach)
    fill = _wrapped(normals @ light.fill_way, wrap) * np.array(light.fill, np.float32) * (0.35 + 0.65 * hidden)
    return np.asarray(sky + key + fill, np.float32)


def _wrapped(cosine: Floats, wrap: Floats) -> Floats:
    return np.asarray(np.clip((cosine[:, None] + wrap) / (1 + wrap), 0, None), np.float32)


def _gloss(normals: Floats, way: Floats, power: float) -> Floats:
    half = _unit(way + np.array([0, 0, 1], np.float32))
    return np.asarray(np.clip(normals @ half, 0, 1) ** power, np.float32)


def _bumped(normals: Floats, slope: Floats) -> Floats:
    moved = normals.copy()
    moved[:, 0] -= slope[:, 0]
    moved[:, 1] -= slope[:, 1]
    return _unit(moved)


# --------------------------------------------------------------------------------------------- skin

SCATTER = ((0.030, 0.012, 0.008), np.array([0.42, 0.24, 0.2], np.float32))


def _skin(stage: Stage, picture: Floats, share: Floats, rooted: Floats) -> None:
    frame, where = stage.frame, stage.frame.kind == raster.SKIN
    facts = frame.facts[where]
    canon, uv = facts[:, raster.CANON], facts[:, raster.UV]
    normals = _unit(facts[:, raster.NORMAL])
    bumped = _bumped(normals, face.tilt(stage.skin, canon) * np.clip(normals[:, 2:3] * 1.5, 0, 1))
    albedo, lips = face.paint(stage.assets, stage.skin, canon, uv)
    fuzz = _rooted(stage, canon)
    albedo = _under_hair(stage, albedo, canon, fuzz)
    glow = _scatter(stage, _diffuse(stage, bumped, where, SCATTER[1]), where)
    hem = np.exp(-np.clip(-garment.edge(canon, stage.fabric.line), 0, 1) / 0.045) * (canon[:, 1] < 6.2)
    glow *= (1 - 0.38 * hem * (garment.edge(canon, stage.fabric.line) < 0.02))[:, None]
    albedo = _calibrated(
        stage, albedo, glow, (lips < 0.1) & (fuzz < 0.1) & (canon[:, 1] > 6.2) & (canon[:, 2] > 0.6)
    )
    wet = 1 + 1.6 * lips
    shine = _oil(canon) * wet * (1 - 0.8 * fuzz)
    picture[where] = albedo * glow + _sheen(stage, bumped, normals, where) * shine[:, None]
    rooted[where] = np.clip(fuzz * 1.4, 0, 1)
    share[where] = (1 - 0.5 * np.clip(lips * 1.3, 0, 1)) * (1 - rooted[where])


def _rooted(stage: Stage, canon: Floats) -> Floats:
    """Places where hair roots darken the skin."""
    head = styles.scalp(canon, stage.cut, 0.1) * stage.cut.stubble if stage.cut.kind != "bald" else 0 * canon[:, 0]
    if stage.beard in ("short", "full", "goatee", "moustache"):
        head = np.maximum(head, 0.75 * styles.beard_density(canon, stage.beard))
    head = np.maximum(head, 0.7 * styles.brow_density(canon, dict(stage.skin.brow)))
    return np.asarray(head * (canon[:, 1] > 6.0), np.float32)


def _under_hair(stage: Stage, albedo: Floats, canon: Floats, fuzz: Floats) -> Floats:
    grey = stage.mane.grey
    tone = np.array(stage.mane.colour) * (1 - grey) + np.array([0.62, 0.61, 0.6]) * grey
    root = colour.linear(tone.astype(np.float32)) * 0.8 + albedo * 0.05
    fuzz = np.where(canon[:, 2] > 0.9, fuzz * (np.abs(canon[:, 1] - 7.47) > 0.12), fuzz)
    speck = 1 + 0.25 * noise.at(canon[:, 0] * 4 + canon[:, 2] * 3, canon[:, 1] * 4, 51)
    much = np.clip(fuzz * speck, 0, 1)[:, None] * 0.9
    return np.asarray(albedo * (1 - much) + root * much, np.float32)


def _scatter(stage: Stage, glow: Floats, where: NDArray[np.bool_]) -> Floats:
    """Blur light within the skin, red furthest, so that shadows turn warm and soft."""
    mask = where.astype(np.float32)
    field = np.zeros((*where.shape, 3), np.float32)
    field[where] = glow
    for channel, reach in enumerate(SCATTER[0]):
        sigma = reach * stage.camera.scale
        weight = blurred(mask, sigma)
        field[..., channel] = blurred(field[..., channel], sigma) / np.maximum(weight, 1e-3)
    return np.asarray(0.3 * glow + 0.7 * field[where], np.float32)


def _calibrated(stage: Stage, albedo: Floats, glow: Floats, plain: NDArray[np.bool_]) -> Floats:
    """Scale the albedo so that the lit face's median is the tone that was asked for."""
    if plain.sum() < 100:
        return albedo
    want = colour.lab_to_linear(np.array(stage.skin.lab))
    have = np.median((albedo * glow)[plain], 0)
    return np.asarray(albedo * (want * 0.97 / np.maximum(have, 1e-4)), np.float32)


def _oil(canon: Floats) -> Floats:
    zone = np.exp(-((canon[:, 0] / 0.16) ** 2)) * 0.5 * (canon[:, 2] > 1.0)
    cheek = np.exp(-(((np.abs(canon[:, 0]) - 0.42) / 0.15) ** 2) - ((canon[:, 1] - 7.05) / 0.14) ** 2) * 0.5
    return np.asarray(0.6 + zone + cheek, np.float32)


def _sheen(stage: Stage, bumped: Floats, normals: Floats, where: NDArray[np.bool_]) -> Floats:
    light = stage.light
    hidden = np.clip(1 - 1.6 * stage.occlusion[where], 0, 1)
    broad = 0.030 * _gloss(normals, light.key_way, 9) + 0.016 * _gloss(normals, light.fill_way, 9)
    tight = 0.040 * _gloss(bumped, light.key_way, 38) + 0.015 * _gloss(bumped, light.fill_way, 30)
    edge = 0.020 * (1 - np.clip(normals[:, 2], 0, 1)) ** 3 * light.rim
    reach = (0.3 + 0.7 * stage.lit[where]) * hidden
    return np.asarray(
        ((broad + tight) * reach + edge * hidden)[:, None] * np.array(light.key, np.float32), np.float32
    )


# --------------------------------------------------------------------------------------------- eyes


def _eyes(stage: Stage, picture: Floats) -> None:
    where = stage.frame.kind == raster.EYE
    y, x = np.nonzero(where)
    if not len(x):
        return
    points = stage.camera.unproject(x + 0.5, y + 0.5, stage.frame.depth[where])
    which = (points[:, 0] > stage.eyes.centres.mean(0)[0]).astype(int)
    normals = _unit(points - stage.eyes.centres[which])
    away = np.arccos(np.clip(normals @ stage.eyes.gaze, -1, 1))
    albedo = _eyeball(stage.iris, normals, stage.eyes.gaze, away)
    glow = _diffuse(stage, normals, where, np.array([0.35, 0.3, 0.3], np.float32))
    lid = np.clip(1 - 1.1 * stage.occlusion[where], 0.35, 1)[:, None]
    upper = np.clip(0.5 - normals[:, 1:2] * 1.4, 0, 1) * 0.42 + 0.58
    picture[where] = albedo * glow * lid * upper
    picture[where] += _catch_light(stage, normals, away)[:, None]


def _step(value: Floats, soft: float) -> Floats:
    return np.asarray(1 / (1 + np.exp(np.clip(-value / soft, -30, 30))), np.float32)


def _eyeball(iris: Iris, normals: Floats, gaze: Floats, away: Floats) -> Floats:
    turn = np.arctan2(normals[:, 1] - gaze[1], normals[:, 0] - gaze[0])
    white = np.array([0.74, 0.70, 0.67], np.float32)
    veins = np.clip((away - 0.65) / 0.5, 0, 1)[:, None] * np.array([0.02, 0.1, 0.11], np.float32)
    fibre = 0.18 * noise.at(turn * 1.3 + iris.seed, away * 1.5, 61) + 0.1 * noise.at(turn * 3, away * 0.5, 62)
    base = colour.linear(np.array(iris.colour, np.float32))
    ring = np.clip((away - 0.34) / 0.13, 0, 1)[:, None]
    inner = np.exp(-(((away - 0.24) / 0.07) ** 2))[:, None]
    coloured = base * (1 + fibre[:, None]) * (1 - 0.72 * ring) * (1 + 0.35 * inner)
    pupil = _step(0.185 - away, 0.012)[:, None]
    coloured = coloured * (1 - pupil) + 0.004 * pupil
    edge = _step(0.475 - away, 0.018)[:, None]
    return np.asarray((white - veins) * (1 - edge) + coloured * edge, np.float32)


def _catch_light(stage: Stage, normals: Floats, away: Floats) -> Floats:
    side = np.sign(stage.light.side) or 1.0
    spot = _unit(stage.eyes.gaze + np.array([0.17 * side, 0.19, 0], np.float32))
    off = np.arccos(np.clip(normals @ spot, -1, 1))
    bright = 0.85 * _step(0.085 - off, 0.018)
    low = _unit(stage.eyes.gaze + np.array([-0.2 * side, -0.2, 0], np.float32))
    soft = 0.05 * np.exp(-((np.arccos(np.clip(normals @ low, -1, 1)) / 0.16) ** 2))
    return np.asarray(bright + soft * (away < 0.5), np.float32)


# --------------------------------------------------------------------------------------------- hair


def _hair(stage: Stage, picture: Floats) -> None:
    where = stage.frame.kind == raster.HAIR
    facts = stage.frame.facts[where]
    if not len(facts):
        return
    tangent = _unit(facts[:, raster.NORMAL])
    along, luck, tuft = facts[:, 3], facts[:, 4], facts[:, 8]
    tone = np.floor(tuft / 10000).astype(int)
    albedo = _strand_colour(stage.mane, along, luck, tuft, tone)
    hidden = np.clip(1 - 1.35 * stage.occlusion[where], 0.12, 1)
    reach = 0.25 + 0.75 * stage.lit[where]
    light = stage.light
    glow = 0.9 * np.array(light.sky, np.float32) * hidden[:, None] * (0.8 + 0.2 * np.abs(tangent[:, 2:3]))
    shine = np.zeros((len(facts), 3), np.float32)
    for way, power, seen in ((light.key_way, light.key, reach), (light.fill_way, light.fill, 0.4 + 0.6 * hidden)):
        glow += _across(tangent, way)[:, None] * np.array(power, np.float32) * (seen * hidden)[:, None] * 0.85
        shine += _glint(tangent, way, luck)[:, None] * np.array(power, np.float32) * (seen * hidden)[:, None]
    tint = 0.45 + 0.55 * albedo / (albedo.max(1, keepdims=True) + 1e-4)
    gleam = stage.mane.shine * np.where(tone == 0, 1.0, 0.25)[:, None]
    picture[where] = albedo * glow + shine * tint * gleam


def _strand_colour(mane: Mane, along: Floats, luck: Floats, tuft: Floats, tone: NDArray[np.int64]) -> Floats:
    base = colour.linear(np.array(mane.colour, np.float32))
    brow = colour.linear(np.array(mane.brow, np.float32))
    silver = colour.linear(np.array([0.74, 0.73, 0.71], np.float32))
    lot = np.modf(luck * 7.31 + np.modf(tuft * 0.137)[0] * 0.8)[0]
    share = np.where(tone == 3, mane.beard_grey, mane.grey)
    own_lot = np.clip((share * 1.15 - lot) / 0.15, 0, 1)
    grey = (0.55 * own_lot + 0.45 * share)[:, None] * np.where(tone == 1, 0.55, 1.0)[:, None]
    grey = np.where((tone == 2)[:, None], 0, grey)
    own = np.where((tone == 1)[:, None], brow, base)
    own = np.where((tone == 2)[:, None], np.array([0.03, 0.024, 0.02]), own)
    vary = (0.72 + 0.5 * np.modf(luck * 3.7)[0])[:, None] * (0.78 + 0.3 * along)[:, None]
    mixed = own * (1 - grey) + (silver * (0.5 + 0.3 * share + 0.2 * lot)[:, None]) * grey
    return np.asarray(mixed * vary, np.float32)


def _across(tangent: Floats, way: Floats) -> Floats:
    dot = tangent @ way
    return np.asarray(np.sqrt(np.clip(1 - dot * dot, 0, 1)), np.float32)


def _glint(tangent: Floats, way: Floats, luck: Floats) -> Floats:
    half = _unit(way + np.array([0, 0, 1], np.float32))
    dot = tangent @ half + (luck - 0.5) * 0.16
    sine = np.sqrt(np.clip(1 - dot * dot, 0, 1))
    return np.asarray(0.055 * sine**60 + 0.03 * sine**14, np.float32)


# -------------------------------------------------------------------------------------------- cloth


def _cloth(stage: Stage, picture: Floats) -> None:
    where = stage.frame.kind == raster.CLOTH
    facts = stage.frame.facts[where]
    if not len(facts):
        return
    canon, edge = facts[:, raster.CANON], facts[:, raster.EDGE]
    fabric, normals = stage.fabric, _unit(facts[:, raster.NORMAL])
    slope = np.stack(garment.tilt(canon, fabric.seed), 1)
    slope += _weave(fabric, canon)
    bevel = np.exp(-edge / 0.012) * 0.45
    normals = _bumped(normals, slope)
    normals[:, 1] += bevel
    normals = _unit(normals)
    albedo = colour.linear(np.array(fabric.colour, np.float32)) * _thread(fabric, canon, edge)[:, None]
    glow = _diffuse(stage, normals, where, np.array([0.12, 0.12, 0.12], np.float32))
    fuzz = 0.05 * fabric.knit * (1 - np.clip(normals[:, 2:3], 0, 1)) ** 2
    picture[where] = albedo * glow * 0.92 + fuzz * np.array(stage.light.sky, np.float32) * albedo


def _weave(fabric: Fabric, canon: Floats) -> Floats:
    grain = np.stack(
        [noise.at(canon[:, 0] * 7, canon[:, 1] * 7, 71), noise.at(canon[:, 0] * 7, canon[:, 1] * 7, 72)], 1
    )
    return np.asarray((0.03 + 0.05 * fabric.knit) * grain, np.float32)


def _thread(fabric: Fabric, canon: Floats, edge: Floats) -> Floats:
    """Brightness of seams, ribs, buttons and knit."""
    line = fabric.line
    tone = 1 + 0.018 * noise.at(canon[:, 0] * 8, canon[:, 1] * 8, 73)
    seam = np.exp(-(((edge - line.band) / 0.007) ** 2)) * (0.35 if line.band > 0.04 else 0.12)
    tone = tone * (1 - seam)
    if line.ribbed:
        turn = np.arctan2(canon[:, 0], canon[:, 2] + 0.2)
        tone = tone * (1 + 0.05 * np.sin(turn * 150) * (edge < line.band))
    if line.buttons:
        tone = _placket(tone, canon, line)
    return np.asarray(tone, np.float32)


def _placket(tone: Floats, canon: Floats, line: garment.Neckline) -> Floats:
    x, y = canon[:, 0], canon[:, 1]
    front = (canon[:, 2] > 0.3) & (y < line.deep + 0.1)
    seam = np.exp(-(((x - 0.07) / 0.006) ** 2)) * 0.3 + np.exp(-(((x + 0.05) / 0.005) ** 2)) * 0.12
    tone = np.where(front, tone * (1 - seam), tone)
    for height in (line.deep - 0.16, line.deep - 0.62):
        gap = np.hypot(x - 0.01, y - height)
        rim = np.exp(-(((gap - 0.036) / 0.008) ** 2)) * 0.4
        tone = np.where(front, np.where(gap < 0.034, tone * 1.12 + 0.05, tone * (1 - rim)), tone)
    return np.asarray(tone, np.float32)
