"""A small data set of rendered heads in FairFace's own layout, with room for what goes wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import yaml

from stillme.core import images
from stillme.protocol import builtin
from stillme.sources import heads

AGES = {"20s": "20-29", "30s": "30-39", "40s": "40-49", "50s": "50-59", "60s": "60-69", "70plus": "more than 70"}
Spoil = Callable[[bytes], bytes]


def annotated(head: heads.Head) -> dict[str, str]:
    """A head's labels as FairFace spells them."""
    groups = builtin().groups
    race = next(g for g in groups.race if g.id == head.labels["race"])
    return {
        "age": AGES[head.labels["age"]],
        "gender": groups.labels("gender")[head.labels["gender"]],
        "race": race.aliases[0],
    }


def variant(head: heads.Head, number: int) -> bytes:
    """The same head elsewhere before a chequered wall of its own: another photograph to a fingerprint."""
    chance = np.random.default_rng([number, *head.key.encode()])
    picture = np.roll(heads.photograph(head), chance.integers(-60, 60, 2), axis=(0, 1))
    height, width = picture.shape[:2]
    colours = chance.integers(0, 256, (8, 8, 3), np.uint8)
    wall = colours.repeat(-(-height // 8), axis=0).repeat(-(-width // 8), axis=1)[:height, :width]
    free = np.ones((height, width), bool)
    free[height // 5 :, width // 4 : -width // 4] = False
    picture[free] = wall[free]
    return images.encode(picture, quality=92)


def fairface(
    folder: Path,
    keys: Iterable[str],
    copies: int = 1,
    spoil: dict[str, Spoil] | None = None,
    extra: Iterable[dict[str, str]] = (),
) -> Path:
    """fairface_label_train.csv and train/N.jpg; `spoil`: file -> what is done to its bytes."""
    (folder / "train").mkdir(parents=True)
    rows: list[dict[str, str]] = []
    for number, (key, copy) in enumerate(((k, c) for c in range(copies) for k in keys), start=1):
        name, head = f"train/{number}.jpg", heads.load(key)
        (folder / name).write_bytes((spoil or {}).get(name, bytes)(variant(head, copy)))
        rows.append({"file": name, **annotated(head), "service_test": "True"})
    with (folder / "fairface_label_train.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["file", "age", "gender", "race", "service_test"])
        writer.writeheader()
        writer.writerows([*rows, *extra])
    return folder


def selection(path: Path, folder: Path, **changes: object) -> Path:
    """selection.yaml for a data set in FairFace's layout."""
    data: dict[str, object] = {
        "stillme": 1,
        "name": "heads",
        "folder": "work",
        "readers": [{"id": "fairface", "kind": "fairface", "settings": {"folder": str(folder)}}],
        "grid": {"axes": {"race": ["white", "black"], "gender": ["female"], "age": ["20s", "60s"]}},
        "pools": {"count": 2, "seed": 1},
        **changes,
    }
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return path


KEYS = ("white-female-20s", "white-female-60s", "black-female-20s", "black-female-60s")
