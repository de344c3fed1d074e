"""Judges behind HTTP that know what was planted: a loopback service in OpenAI's and Gemini's wire formats.

    with serving(run) as server:
        …  # base_url: server.openai_url, server.gemini_url

It recognises the edited picture by its SHA-256, reads the true scores of that edit from the run's ledger, and says
them with noise, rounded to the scale. What it does not recognise it says nothing about: no score is made up.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from bench.judges.saying import Dialect, Saying, made_up
from bench.judges.server import ROOT, Server, Service, listen, named
from bench.judges.switches import Fate, Switches

from stillme.core.records import Status
from stillme.judges import PLANTED_SCORE
from stillme.judges.form import SCORES
from stillme.ledger import Run

NOISE = 0.2  # points
JPEG = re.compile(rb"/9j/[A-Za-z0-9+/=]+")


@contextmanager
def serving(run: Path, switches: Switches | None = None) -> Iterator[Server]:
    """A service that knows what was planted in `run`, for as long as the block lasts."""
    journal = run.with_name(f"{run.name}-journal.jsonl")
    journal.touch()
    told = ["--options", json.dumps(asdict(switches or Switches())), "--journal", str(journal), "--run", str(run)]
    command, pipe = [sys.executable, "-m", "tests.plan.mitigation.loopback", *told], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            yield Server(child, int(child.stdout.readline()), journal)
        finally:
            child.terminate()


class Knowing(Service):
    """Says what is true of the edit that it is shown."""

    def __init__(self, switches: Switches, journal: Path, run: Path) -> None:
        super().__init__(switches, journal)
        self.run, self.truth = run, dict[str, Mapping[str, float]]()

    def decide(self, dialect: Dialect, body: bytes) -> tuple[str, Fate, Saying]:
        asked = orjson.loads(body)
        name, schema = named(asked), dialect.schema(asked)
        fate = self.switches.fate(name)
        true = self.about(hashlib.sha256(base64.b64decode(JPEG.findall(body)[-1])).hexdigest())
        if true is None:
            return name, Fate.REJECTED, dialect.says(Fate.REJECTED, "", None)
        said = {**made_up(schema, name), SCORES: read(true, schema["properties"][SCORES], name)}
        return name, fate, dialect.says(fate, orjson.dumps(said).decode(), None)

    def about(self, image: str) -> Mapping[str, float] | None:
        """True scores of a picture; what is not known yet may stand in the ledger by now."""
        if image not in self.truth:
            self.truth = planted(self.run)
        return self.truth.get(image)


def planted(run: Path) -> dict[str, Mapping[str, float]]:
    """Picture -> true scores. Pictures with equal pixels had the same done to them."""
    found: dict[str, dict[str, float]] = {}
    with Run.open_readonly(run) as seen:
        rows = seen.query(
            "SELECT e.image, t.quantity, t.value FROM edit e JOIN truth t ON t.edit = e.key WHERE e.status = ?",
            (Status.OK.value,),
        )
    for image, quantity, value in rows:
        if quantity.startswith(PLANTED_SCORE):
            found.setdefault(image, {})[quantity.removeprefix(PLANTED_SCORE)] = value
    return dict(found)


def read(true: Mapping[str, float], schema: Mapping[str, Any], name: str) -> dict[str, int]:
    """The points of the scales that are nearest to what is true, give or take the noise."""
    chance = random.Random(name)
    said = {axis: true[axis] + chance.gauss(0, NOISE) for axis in schema["properties"]}
    points = {axis: scale(one) for axis, one in schema["properties"].items()}
    return {axis: min(points[axis], key=lambda point: abs(point - said[axis])) for axis in said}


def scale(schema: Mapping[str, Any]) -> list[int]:
    """The points that may be said: one by one, or from the least to the most."""
    return list(schema.get("enum") or range(schema["minimum"], schema["maximum"] + 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--options")
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--run", type=Path)
    chosen = parser.parse_args()
    asyncio.run(listen(Knowing(Switches(**json.loads(chosen.options)), chosen.journal, chosen.run)))
