"""SIGKILL while judges are asked in batches: every pair has one verdict of each judge, and no line is paid for twice."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.judges.server import Server, serving
from bench.judges.switches import Switches

from tests.conftest import dump_audit
from tests.faults.faulty import Death, killed, rows, stillme

KEY = "STILLME_TEST_KEY"
KILLS, SEED = 20, 14
CONTENT = ("object", "settings", "trial", "edit", "question", "call", "verdict", "score")


def describe(folder: Path, server: Server) -> Path:
    """The audit, judged by a service in batches."""
    ask: dict[str, Any] = {"mode": "batch", "batch_wait_s": 30, "base_url": server.openai_url, "backoff_s": 0.01}
    asked = {"model": "gpt-5-mini-2025-08-07", **ask}
    judge = {"id": "a", "kind": "openai", "role": "primary", "key_env": KEY, "settings": asked}
    dump_audit(folder / "audit.yaml", judges=[judge], judging={"repeats": 0})
    return folder / "audit.yaml"


@pytest.mark.slow
def test_killed_while_batches_travel(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    secret = {KEY: "sk-test-0123456789"}
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    with serving(Switches(seed=4)) as first, serving(Switches(seed=4)) as second:
        dump_audit(calm / "audit.yaml", judges=[])
        stillme(calm, "run", calm / "audit.yaml").check()
        shutil.copytree(calm, rough)
        audit = describe(calm, first)
        count = calm / "count"
        stillme(calm, "run", audit, first=Death(calm / "run", 0, count), surroundings=secret).check()
        every = range(1, int(count.read_text()) + 1)
        points = sorted(random.Random(SEED).sample(every, KILLS))
        audit = describe(rough, second)
        deaths = sum(
            killed(rough, rough / "run", moment, "run", audit, surroundings=secret).code != 0 for moment in points
        )
        stillme(rough, "run", audit, surroundings=secret).check()
        lines = Counter(row["body"] for row in second.journal("line") if row["paid"])
        assert rows(rough / "run", CONTENT) == rows(calm / "run", CONTENT)
        assert len(rows(rough / "run")["verdict"]) == 24
        assert set(lines.values()) == {1}, "no line was paid for twice"
        assert len(second.journal("batch")) == len(first.journal("batch"))
    assert deaths
    record_property("batches killed", f"{deaths} times (seed {SEED}): 24 verdicts, 0 lost, 0 paid twice")
