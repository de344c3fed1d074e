"""A selection with candidates on the shelf: rendered heads, put into pools without any reader."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from stillme.core import images
from stillme.core.records import Portrait, Reading, Status
from stillme.protocol import builtin
from stillme.protocol.schema import Rule
from stillme.sources import heads
from stillme.sources.selection.config import Plan, Selection
from stillme.sources.selection.pools import Grid
from stillme.sources.selection.screen import screening_settings
from stillme.sources.selection.store import Candidate, Store

LICENCE = "CC0-1.0"
FEW = {"race": ("white", "black"), "gender": ("female",), "age": ("20s", "40s", "60s")}


def make_plan(
    folder: Path, groups: Mapping[str, Sequence[str]] | None = None, pools: int = 3, per_cell: int = 1
) -> Plan:
    """A plan for some groups (all by default) that never asks its data set anything."""
    protocol = builtin()
    assert protocol.portraits is not None
    axes = {
        axis: {
            word: label
            for word, label in protocol.groups.labels(axis).items()
            if not groups or word in groups[axis]
        }
        for axis in protocol.groups.dimensions
    }
    data = {
        "stillme": 1,
        "name": "heads",
        "folder": "work",
        "readers": [{"id": "heads", "kind": "folder", "settings": {}}],
        "grid": {"per_cell": per_cell},
        "pools": {"count": pools},
    }
    selection = Selection.model_validate(data)
    path = folder / "selection.yaml"
    return Plan(
        selection=selection,
        protocol=protocol,
        rules=protocol.portraits,
        path=path,
        grid=Grid(axes, per_cell),
        readers={},
    )


def picture(key: str, pool: int) -> bytes:
    """A head as one pool has it: on another background, nearer or further, mirrored every other time."""
    shade = 70 + 40 * (pool % 5)
    sheet = heads.backdrop(((shade, shade + 8, shade + 4), (shade // 2, shade // 2, shade // 2)))
    whole = heads.over(heads.load(key), np.clip(sheet, 0, 255).astype(np.uint8))
    cut = 6 * pool
    seen = whole[cut : heads.SIZE - cut, cut : heads.SIZE - cut]
    return images.encode(np.ascontiguousarray(seen[:, :: -1 if pool % 2 == 0 else 1]), comment=f"{key} {pool}")


def fill(plan: Plan, store: Store, per_pool: int = 1, without: Collection[tuple[int, str]] = ()) -> None:
    """Draws every pool: `per_pool` candidates for each cell, except for the (pool, cell) pairs left out."""
    seeds = dict(enumerate(plan.selection.pools.seeds(), start=1))
    rows = []
    for pool, seed in seeds.items():
        for cell in plan.grid.cells:
            for nth in range(per_pool if (pool, cell.id) not in without else 0):
                content = picture(cell.id, pool + nth * len(seeds))
                rows.append((_candidate(pool, seed, cell.id, cell.groups, nth, content), store.add_image(content)))
    store.sign({"draw": plan.draw_hash})
    store.add_draw(seeds, rows, {}, [])


def _candidate(pool: int, seed: int, cell: str, labels: Mapping[str, str], nth: int, content: bytes) -> Candidate:
    image = hashlib.sha256(content).hexdigest()
    source_id = f"{cell}/{pool}-{nth + 1}.jpg"
    portrait = Portrait.of("rendered heads", source_id, image, labels, LICENCE, "train")
    return Candidate(
        pool=pool,
        seed=seed,
        cell=cell,
        reader="heads",
        portrait=portrait,
        annotated=dict(labels),
        file="heads.csv",
        row=pool,
        original=image,
        mended="",
        fingerprint="0" * 16,
    )


def screen_all(
    plan: Plan, store: Store, failing: Mapping[str, Collection[str]], unread: Collection[str] = ()
) -> None:
    """Readings as the pre-screen writes them. `failing`: source id -> criteria that it misses; `unread`: source ids."""
    named = screening_settings()
    for one in store.candidates():
        name = one.portrait.source_id
        found = Reading(Status.OK, _figures(plan, failing.get(name, ())))
        if name in unread:
            found = Reading(Status.NO_FACE, {}, "no face was found")
        store.add_reading(one.portrait.image, named, found).result()


def _figures(plan: Plan, failing: Collection[str]) -> dict[str, float]:
    return {
        rule.figure: _beyond(rule) if criterion in failing else _within(rule)
        for criterion, rules in plan.rules.criteria.items()
        for rule in rules
    }


def _within(rule: Rule) -> float:
    bounds = [bound for bound in (rule.at_least, rule.at_most) if bound is not None]
    return sum(bounds) / len(bounds)


def _beyond(rule: Rule) -> float:
    return rule.at_most * 2 + 1 if rule.at_most is not None else (rule.at_least or 0) - abs(rule.at_least or 1)
