"""One person in one picture: shape, hair, clothes and light become layers and landmark points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import colour
import cv2
import garment
import hair
import numpy as np
import raster
import shade
import styles
from assets import Assets
from filters import blurred, resized
from hair import Strands
from numpy.typing import NDArray
from people import Person
from raster import Frame
from shade import Camera, Eyes, Stage

import shape
from shape import Body
from stillme.sources.heads import SIZE, backdrop

Floats = NDArray[np.floating[Any]]
Bytes = NDArray[np.uint8]

HEAD_SHARE = 0.515  # chin to crown, of the picture's height


@dataclass(frozen=True, eq=False)
class Layers:
    rgb: Bytes  # the photograph on its own background
    figure: Bytes
    skin: Bytes
    hair: Bytes
    cloth: Bytes
    points: dict[str, tuple[float, float]]
    measured_lab: tuple[float, float, float]


def render(assets: Assets, person: Person, ss: int = 2) -> Layers:
    body = shape.build(assets, person.weights, person.yaw, person.pitch, person.roll)
    camera = _camera(body, person, SIZE * ss)
    strands = _strands(assets, body, person)
    cloths = _cloths(body, person)
    frame = _draw(assets, body, camera, strands, cloths)
    stage = _stage(assets, body, person, camera, frame, strands, cloths)
    painted = shade.shade(stage)
    return _layers(person, body, camera, frame, painted, ss)


def _camera(body: Body, person: Person, size: int) -> Camera:
    crown = body.points[body.topology.canon[:, 1] > 8.3][:, 1].max()
    chin = body.spot((0, 6.17, 1.35))[1]
    scale = HEAD_SHARE * size / (crown - chin)
    eyes = body.spot((0, 7.28, 1.5))
    across = float(body.spot((0, 7.28, 0.5))[0]) * 0.6
    return Camera((across, float(crown), float(eyes[2])), float(scale), size, person.headroom)


def _strands(assets: Assets, body: Body, person: Person) -> list[Strands]:
    space = hair.volume(body)
    rng = np.random.default_rng(person.seed + 5)
    found = styles.head_hair(body, space, person.cut, rng)
    found += styles.beard(body, space, person.beard, np.random.default_rng(person.seed + 6))
    found += styles.brows(body, person.brow_shape, np.random.default_rng(person.seed + 7))
    base = assets.base
    eyes = dict(zip("rl", _eye_facts(assets, body).centres, strict=True))
    for side in "lr":
        for row, upper in ((2, True), (1, False)):
            faces = base.faces[base.of(f"helper-{side}-eyelashes-{row}")]
            lash_rng = np.random.default_rng(person.seed + 8)
            found.append(styles.lashes(body.coarse, faces, eyes[side], upper, person.lashes, lash_rng))
    return found


def _cloths(body: Body, person: Person) -> list[garment.Cloth]:
    line = person.fabric.line
    found = [garment.shell(body, line, person.loose)]
    if line.collar:
        found.append(garment.collar(body, line, person.spread))
    return found


def _draw(
    assets: Assets, body: Body, camera: Camera, strands: list[Strands], cloths: list[garment.Cloth]
) -> Frame:
    frame = raster.blank(camera.size)
    top = body.topology
    flat = camera.project(body.points)
    bare = (cloths[0].edge[top.faces] < 0.06).any(1)
    facts = _facts(top.faces[bare], body.normals, top.uv[bare], top.canon)
    raster.fill(frame, flat[top.faces[bare]], facts, raster.SKIN)
    _draw_eyes(assets, body, camera, frame)
    for cloth in cloths:
        facts = _facts(cloth.faces, cloth.normals, None, cloth.canon)
        facts[:, :, raster.EDGE] = cloth.edge[cloth.faces]
        raster.fill(frame, camera.project(cloth.points)[cloth.faces], facts, raster.CLOTH, cut=True)
    for group in strands:
        _draw_strands(camera, frame, group)
    return frame


def _facts(faces: NDArray[np.int64], normals: Floats, uv: Floats | None, canon: Floats) -> Floats:
    facts = np.zeros((len(faces), 3, raster.CHANNELS), np.float32)
    facts[:, :, raster.NORMAL] = normals[faces]
    facts[:, :, raster.CANON] = canon[faces]
    if uv is not None:
        facts[:, :, raster.UV] = uv
    return facts


def _draw_eyes(assets: Assets, body: Body, camera: Camera, frame: Frame) -> None:
    base = assets.base
    faces = base.faces[base.of("helper-l-eye", "helper-r-eye")]
    normals = shape.vertex_normals(body.coarse, faces)
    raster.fill(frame, camera.project(body.coarse)[faces], _facts(faces, normals, None, body.coarse), raster.EYE)


def _draw_strands(camera: Camera, frame: Frame, group: Strands) -> None:
    tangents = np.gradient(group.places, axis=1).astype(np.float32)
    tangents /= np.linalg.norm(tangents, axis=2, keepdims=True) + 1e-9
    width = group.width * (camera.size / SIZE) / 3
    marks = group.tuft + 10000 * group.tone
    raster.draw(frame, camera.project(group.places), tangents, width.astype(np.float32), group.luck, marks)


def _eye_facts(assets: Assets, body: Body) -> Eyes:
    base = assets.base
    balls = [body.coarse[np.unique(base.faces[base.of(f"helper-{side}-eye")])] for side in "rl"]
    centres = np.array([(ball.max(0) + ball.min(0)) / 2 for ball in balls], np.float32)
    radius = float(np.ptp(balls[0][:, 0]) / 2)
    gaze = np.array([0.0, 0.0, 1.0], np.float32)
    return Eyes(centres, radius, gaze)


def _stage(
    assets: Assets,
    body: Body,
    person: Person,
    camera: Camera,
    frame: Frame,
    strands: list[Strands],
    cloths: list[garment.Cloth],
) -> Stage:
    centre = np.asarray(body.spot((0, 7.0, 0.5)), np.float32)
    way = person.light.key_way
    triangles = body.points[body.topology.faces]
    long_hair = [group.places for group in strands if group.tone == 0]
    depth = shade.light_map(way, triangles, long_hair, centre)
    lit = shade.key_reach(frame, camera, way, depth, centre)
    hidden = _occlusion(frame, camera)
    return Stage(
        assets,
        frame,
        camera,
        person.light,
        hidden,
        lit,
        person.skin,
        person.cut,
        person.beard,
        person.mane,
        person.fabric,
        person.iris,
        _eye_facts(assets, body),
    )


def _occlusion(frame: Frame, camera: Camera) -> Floats:
    """Crevices near (lids, lips, strands) and hollows far (sockets, neck), from two reaches."""
    small = resized(frame.depth, SIZE, cv2.INTER_NEAREST)
    unit = SIZE / camera.size * camera.scale
    far = raster.occlusion(small, int(0.55 * unit), 1 / unit, 32)
    far = resized(blurred(far, 1.5), frame.size, cv2.INTER_LINEAR)
    near = raster.occlusion(frame.depth, int(0.11 * camera.scale), 1 / camera.scale, 16)
    return np.asarray(far + 0.5 * blurred(near, 0.8), np.float32)


# ------------------------------------------------------------------------------------------- layers


def _layers(person: Person, body: Body, camera: Camera, frame: Frame, painted: shade.Painted, ss: int) -> Layers:
    cover = [_shrink(painted.hair), _shrink((frame.kind == raster.CLOTH).astype(np.float32))]
    figure = _shrink((frame.kind > 0).astype(np.float32))
    skin = _shrink(painted.skin)
    light = _shrink(_tone(painted.light)) / np.maximum(figure, 1e-3)[..., None]
    flesh = colour.encoded(light) * 255
    picture = flesh * figure[..., None] + backdrop(person.background) * (1 - figure[..., None])
    picture = np.clip(picture, 0, 254.4)
    sure = skin > 0.9
    lab = np.median(colour.linear_to_lab(light[sure]), 0) if sure.any() else np.zeros(3)
    points = _points(body, camera, figure, cover[1], ss)
    measured = (float(lab[0]), float(lab[1]), float(lab[2]))
    rounded = (picture + 0.5).astype(np.uint8)
    return Layers(rounded, _bytes(figure), _bytes(skin), _bytes(cover[0]), _bytes(cover[1]), points, measured)


def _tone(light: Floats) -> Floats:
    """A gentle shoulder so that highlights roll off instead of clipping."""
    knee = 0.75
    over = np.maximum(light - knee, 0)
    return np.asarray(np.where(light > knee, knee + (1 - knee) * over / (over + (1 - knee)), light), np.float32)


def _shrink(picture: Floats) -> Floats:
    """Down to the shipped size, through a lens that is not perfectly sharp."""
    return resized(blurred(picture, 0.3 * picture.shape[0] / SIZE), SIZE, cv2.INTER_AREA)


def _bytes(mask: Floats) -> Bytes:
    return np.asarray(np.clip(mask * 255 + 0.5, 0, 255), np.uint8)


def _points(body: Body, camera: Camera, figure: Floats, cloth: Floats, ss: int) -> dict[str, tuple[float, float]]:
    places = {name: body.spot(place) for name, place in shape.LANDMARKS.items()}
    flat = {name: camera.project(place) / ss for name, place in places.items()}
    points = {name: (float(spot[0]), float(spot[1])) for name, spot in flat.items()}
    points |= _eye_points(body, camera, ss)
    middle = round(points["chin"][0])
    points["crown"] = (points["forehead"][0], float(np.argmax(figure[:, int(points["forehead"][0])] > 0.5)))
    points |= _collar_points(cloth, points, middle)
    return {name: _inside(spot) for name, spot in points.items()}


def _eye_points(body: Body, camera: Camera, ss: int) -> dict[str, tuple[float, float]]:
    found = {}
    for name, side in (("eye_left", -1), ("eye_right", 1)):
        spot = camera.project(body.spot((side * 0.31, 7.285, 1.4))) / ss
        found[name] = (float(spot[0]), float(spot[1]))
    return found


def _collar_points(
    cloth: Floats, points: dict[str, tuple[float, float]], middle: int
) -> dict[str, tuple[float, float]]:
    """Where the garment starts below the chin, and where it meets the neck's two sides."""
    start = int(points["chin"][1])
    below = np.flatnonzero(cloth[start:, middle] > 0.5)
    collar = (float(middle), float(start + (below[0] if len(below) else SIZE - 1 - start)))
    found = {"collar": collar}
    tops = np.where((cloth[start - 30 :] > 0.5).any(0), (cloth[start - 30 :] > 0.5).argmax(0) + start - 30, SIZE)
    for name, side in (("neck_left", range(middle, middle - 75, -1)), ("neck_right", range(middle, middle + 75))):
        best = min(side, key=lambda column: tops[column])
        found[name] = (float(best), float(tops[best]))
    return found


def _inside(spot: tuple[float, float]) -> tuple[float, float]:
    return tuple(round(float(np.clip(value, 1, SIZE - 2)), 1) for value in spot)  # type: ignore[return-value]
