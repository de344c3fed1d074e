"""SIGKILL at random points while services judge: no verdict twice, none missing, hardly a call paid for twice."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from bench.judges.server import Server, serving
from bench.judges.switches import Switches

from stillme import pipeline
from stillme.core import images
from stillme.core.records import Attempt, Edit, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.ledger.run import LEDGER, now
from stillme.plan import config
from tests import preloaded
from tests.conftest import dump_audit
from tests.faults import faulty

KILLS = 50
EARLY = KILLS // 10  # of them before anything is asked
AT_A_TIME = 8  # calls of each judge
UNWRITTEN = AT_A_TIME // 4  # answers of each judge that may wait for their commit
REASKS = 2  # of answers that cannot be read; a refusal in plain words is one, where there is no field for it
TIMEOUT = 1.0  # seconds
TO_DISK = 0.5  # seconds within which an answer is in the ledger, on a busy machine
LATENCY = 0.05  # seconds
FATES = Switches(
    latency_s=LATENCY,
    retry_after_s=0.01,
    rate_limited=0.02,
    malformed=0.02,
    refused=0.01,
    input_blocked=0.005,
    output_blocked=0.005,
    timeout=0.01,
)
KEY = "STILLME_TEST_KEY"
ASKED = ("object", "settings", "trial", "edit", "question", "call", "verdict", "score")
PEOPLE = {"race": ["white", "black", "indian"], "gender": ["female", "male"], "age": ["20s", "40s", "60s"]}
EDITORS = ["even", "erases", "lightens"]


def judges(server: Server) -> list[dict[str, Any]]:
    asked = {
        "concurrency": AT_A_TIME,
        "starts_at": None,
        "timeout_s": TIMEOUT,
        "backoff_s": 0.01,
        "reasks": REASKS,
    }
    openai = {"service": "other", "model": "vlm", "base_url": server.openai_url, **asked}
    gemini = {"model": "gemini-3-flash-preview", "base_url": server.gemini_url, **asked}
    return [
        {"id": "gemini", "kind": "gemini", "role": "primary", "key_env": KEY, "settings": gemini},
        {"id": "openai", "kind": "openai", "role": "secondary", "settings": openai},
    ]


def describe(folder: Path, server: Server) -> None:
    folder.mkdir(exist_ok=True)
    dump_audit(
        folder / "audit.yaml",
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": PEOPLE}}],
        experiments={"diagnose": {}},
        editors=[{"id": name, "kind": "planted", "settings": {"truth": name}} for name in EDITORS],
        judges=judges(server),
        judging={"repeats": 0},
    )


def make_edits(folder: Path) -> int:
    """Every edit that the audit wants, small and with pixels of its own; only judging is left."""
    audit = config.load(folder / "audit.yaml")
    with Run.open_for_writing(audit.run, audit.protocol) as held:
        trials = pipeline.plan(held, audit, pipeline.gather(held, audit, Progress())).distinct_edits()
        for number, trial in enumerate(trials):
            picture = images.black(8)
            picture[:] = number % 250, number // 250, 99
            stored = held.store(images.lossless(picture))
            made = held.add_edit(
                Edit(trial.edit, Status.OK, stored.sha256), Attempt(trial.edit, Status.OK, now(), 0.0), stored
            )
        made.result()
    return len(trials)


def start(folder: Path) -> preloaded.Running:
    words = ["run", str(folder / "audit.yaml")]
    return preloaded.start(words, folder / "said", {KEY: "sk-test-0123456789"})


def finish(folder: Path) -> None:
    """Until it is complete: calls that no attempt answered are asked again on the next run."""
    for _ in range(3):
        code, said = start(folder).finish(120)
        if code == 0:
            return
    raise AssertionError(said)


def kill(folder: Path, server: Server, answers: int, delay: float) -> tuple[float, float]:
    """Lets it get so many answers, then kills it. Returns between when and when that was."""
    time.sleep(2 * LATENCY)  # answers to the one that was killed before are none of this one's
    process = start(folder)
    enough = len(server.journal("call")) + answers
    deadline = time.monotonic() + 60
    while answers and not process.is_over and lines(server) < enough and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    sent = time.time()
    process.kill()
    return sent, time.time()


def lines(server: Server) -> int:
    return server.path.read_bytes().count(b"\n")


Lives = list[dict[str, list[dict[str, Any]]]]


def lives(rows: list[dict[str, Any]], kills: list[tuple[float, float]]) -> Lives:
    """What was paid for between one kill and the next, call by call; last what was after all of them."""
    ends = [dead for _, dead in kills]
    found: Lives = [{} for _ in range(len(kills) + 1)]
    for row in rows:
        if row["paid"]:
            found[bisect_left(ends, row["arrived"])].setdefault(row["body"], []).append(row)
    return found


def in_flight(found: Lives, kills: list[tuple[float, float]]) -> Iterator[str]:
    """Calls that had been begun, and whose end could not be on disk, when a kill came: all that was paid for them."""
    for life, (sent, _) in zip(found, kills, strict=False):
        for body, some in life.items():
            yield from [body] * len(some) if is_open(some, sent) else ()


def lost(found: Lives, kills: list[tuple[float, float]]) -> list[int]:
    """How many calls each kill cost: those that had to be made again after it."""
    return [len(found[n].keys() & set(chain.from_iterable(found[n + 1 :]))) for n in range(len(kills))]


def is_open(attempts: list[dict[str, Any]], at: float) -> bool:
    """A call that is asked again because its answer cannot be read is one call, with all that it takes."""
    last = max(attempts, key=lambda row: row["answered"])
    unread = last["outcome"] == "malformed" or (last["provider"], last["outcome"]) == ("gemini", "refused")
    return last["answered"] + TO_DISK >= at or (unread and len(attempts) <= REASKS)


def is_asked(row: dict[str, Any], at: float) -> bool:
    """Whether a call was under way; one whose asker died may never have been answered."""
    return row["arrived"] <= at < row["arrived"] + TIMEOUT and (not row["answered"] or row["answered"] >= at)


def paid(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["body"] for row in rows if row["paid"])


@pytest.mark.slow
def test_killed_often_and_every_pair_has_one_verdict_of_each_judge(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    with serving(FATES) as first, serving(replace(FATES)) as second:
        describe(calm, first)
        pairs = make_edits(calm)
        assert pairs > 950
        shutil.copytree(calm, rough)
        describe(rough, second)
        finish(calm)
        chance = random.Random(6)
        kills = [kill(rough, second, 0, chance.uniform(0, 1.5)) for _ in range(EARLY)]
        most = round(2 * pairs / (KILLS - EARLY))
        kills += [
            kill(rough, second, chance.randrange(1, most), chance.uniform(0, 0.03)) for _ in range(KILLS - EARLY)
        ]
        finish(rough)
        once, again = first.journal("call"), second.journal("call")
    outcomes = Counter(row["outcome"] for row in once)
    assert min(outcomes[fate] for fate in ("rate_limited", "malformed", "refused", "timeout")) > 5
    assert faulty.rows(rough / "run", ASKED) == faulty.rows(calm / "run", ASKED)
    with closing(sqlite3.connect(rough / "run" / LEDGER)) as connection:
        verdicts = connection.execute("SELECT judge, count(*), count(DISTINCT edit) FROM verdict GROUP BY judge")
        assert verdicts.fetchall() == [("gemini", pairs, pairs), ("openai", pairs, pairs)]
    repeats = paid(again) - paid(once)
    found = lives(again, kills)
    assert not repeats - Counter(in_flight(found, kills)), "only what was in flight at a kill is paid for again"
    hit = sum(any(is_asked(row, sent) for row in again) for sent, _ in kills)
    assert hit > KILLS / 2, "most kills came while services were being asked"
    assert max(lost(found, kills)) <= 2 * (AT_A_TIME + UNWRITTEN), "no kill costs more than may be in flight"
    figures = f"{KILLS} kills, {hit} while services were asked; {2 * pairs} verdicts, 0 lost, 0 twice"
    record_property("judges killed", f"{figures}; paid again: {repeats.total()} of {paid(again).total()}")
