"""Judges whose truth is known: their looks drawn without pictures, and a service on loopback that sees by hash."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from aiohttp import web

from stillme.core.records import CALIBRATE
from stillme.ledger import Run
from stillme.protocol import Protocol
from stillme.protocol.schema import CalibrationPairKind
from tests.editors.providers import Server, arrived
from tests.judges.asking import answered, completion

LAPSE = 0.01
TOOK = {"judge": pl.String, "attempts": pl.Int64, "cost_usd": pl.Float64}


def nothing_spent() -> pl.DataFrame:
    return pl.DataFrame(schema=TOOK)


@dataclass(frozen=True)
class Habit:
    """How a judge errs: noise in points, and what it adds for whom."""

    noise: float
    adds: Callable[[CalibrationPairKind, str, str], float] = lambda kind, axis, group: 0.0


def relit(group: str, axis: str, points: float = 1.0) -> Callable[[CalibrationPairKind, str, str], float]:
    """Reports a change in relit portraits of one group, and in nobody else's."""
    return lambda kind, on, of: points if (kind.by, on, of) == ("relight", axis, group) else 0.0


def drawn(protocol: Protocol, habits: Mapping[str, Habit], portraits: int = 6, seed: int = 0) -> pl.DataFrame:
    """The looks of some judges at pairs of so many people of each group: without pictures, as the step has them."""
    chance = np.random.default_rng(seed)
    dimension = next(iter(protocol.groups.reference_group))
    frame = pl.DataFrame(_asked(protocol, portraits), orient="row", schema=_schema(dimension))
    judges = [_scored(frame, name, habit, protocol, dimension, chance) for name, habit in habits.items()]
    return pl.concat(judges)


def _schema(dimension: str) -> list[str]:
    return ["kind", "axis", "expected", "person", dimension, "as_audited", "told", "repeat"]


def _asked(protocol: Protocol, portraits: int) -> list[tuple[Any, ...]]:
    assert protocol.calibration is not None
    views = ((True, False, 0), (True, False, 1), (False, True, 0))
    groups = protocol.groups.ids(next(iter(protocol.groups.reference_group)))
    return [
        (kind.id, axis, float(one.score), f"{group} {number}", group, *view)
        for kind in protocol.calibration.kinds
        for axis, one in protocol.expected(kind).items()
        for group in groups
        for number in range(portraits)
        for view in views
    ]


def _scored(
    frame: pl.DataFrame, judge: str, habit: Habit, protocol: Protocol, dimension: str, chance: np.random.Generator
) -> pl.DataFrame:
    assert protocol.calibration is not None
    kinds = {kind.id: kind for kind in protocol.calibration.kinds}
    cells = frame.select("kind", "axis", dimension).unique(maintain_order=True)
    added = [habit.adds(kinds[kind], axis, group) for kind, axis, group in cells.iter_rows()]
    known = cells.with_columns(added=pl.Series(added, dtype=pl.Float64))
    beside = frame.join(known, on=["kind", "axis", dimension], maintain_order="left")
    read = (beside["expected"] + beside["added"]).to_numpy()
    noisy = np.clip(np.round(read + chance.normal(0, habit.noise, len(read))), 1, 5)
    lapsed = chance.random(len(read)) < LAPSE
    scores = np.where(lapsed, chance.integers(1, 6, len(read)), noisy).astype(int)
    return frame.select(
        pl.lit(judge).alias("judge"),
        "kind",
        "person",
        dimension,
        "as_audited",
        "told",
        "repeat",
        pl.lit("ok").alias("status"),
        "axis",
        pl.Series("score", scores, dtype=pl.Int64),
    )


class Seeing(Server):
    """A service that speaks OpenAI's wire and sees pictures by their SHA-256: what it knows is in the run.

    Each model it is asked for has a habit. Pictures are not remembered.
    """

    def __init__(self, protocol: Protocol, run: Path, habits: Mapping[str, Habit]) -> None:
        super().__init__()
        self.protocol, self.path, self.habits = protocol, run, habits
        self.asked: Counter[str] = Counter()
        self._pairs: dict[tuple[str, ...], tuple[CalibrationPairKind, str]] = {}
        self._looks: Counter[tuple[str, ...]] = Counter()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = (await arrived(request)).json
        shown = _pictures(body)
        self.asked[body["model"]] += 1
        return web.json_response(completion(json.dumps(answered(self.scores(body["model"], shown)))))

    def scores(self, model: str, shown: tuple[str, ...]) -> dict[str, int]:
        kind, group = self.pairs[shown]
        self._looks[model, *shown] += 1
        chance = random.Random(f"{model} {shown} {self._looks[model, *shown]}")
        habit = self.habits[model]
        found = {}
        for axis, one in self.protocol.expected(kind).items():
            read = one.score + habit.adds(kind, axis, group) + chance.gauss(0, habit.noise)
            found[axis] = int(min(5, max(1, round(read))))
        return found

    @property
    def pairs(self) -> dict[tuple[str, ...], tuple[CalibrationPairKind, str]]:
        """Source and edit, by content -> what was done, and to whom."""
        if not self._pairs:
            self._pairs = dict(self._known())
        return self._pairs

    def _known(self) -> Iterable[tuple[tuple[str, ...], tuple[CalibrationPairKind, str]]]:
        dimension = next(iter(self.protocol.groups.reference_group))
        sql = (
            "SELECT t.prompt, p.image, e.image, l.value FROM trial t JOIN edit e ON e.key = t.edit "
            "JOIN portrait p ON p.key = t.portrait JOIN label l ON l.portrait = p.key "
            "WHERE t.experiment = ? AND l.dimension = ? AND e.status = 'ok'"
        )
        assert self.protocol.calibration is not None
        with Run.open_readonly(self.path) as seen:
            for prompt, source, edited, group in seen.query(sql, (CALIBRATE, dimension)):
                kind = self.protocol.calibration.kind(prompt)
                yield ((edited, source) if kind.swaps else (source, edited)), (kind, group)


def _pictures(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The pictures of a request, by their SHA-256, in the order in which they are shown."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return tuple(hashlib.sha256(base64.b64decode(url.split(",", 1)[1])).hexdigest() for url in urls)
