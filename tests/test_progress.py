from __future__ import annotations

import io
import json

import pytest

from stillme.progress import Progress, Stage
from stillme.records import Status


def test_a_line_says_done_refused_rate_time_left_and_cost() -> None:
    stage = Stage("Edits", total=100, already=20)
    stage.started -= 10
    for status in [Status.OK] * 48 + [Status.REFUSED] * 2:
        stage.count(status, 0.01)
    assert stage.line() == "Edits: 70 of 120, 2 refused, 5/s, 10 s left, 0.50 USD"


def test_plain_lines_and_events() -> None:
    for mode in ("plain", "json"):
        out = io.StringIO()
        with Progress(mode, out).stage("Edits", 2) as stage:
            stage.count(Status.OK)
            stage.count(Status.CORRUPT)
        last = out.getvalue().splitlines()[-1]
        if mode == "plain":
            assert last.startswith("Edits: 2 of 2, 1 corrupt")
        else:
            event = json.loads(last)
            assert (event["done"], event["counts"]) == (2, {"ok": 1, "corrupt": 1})


def test_a_live_block_ends_with_its_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("live").stage("Verdicts", 3) as stage:
        for _ in range(3):
            stage.count(Status.OK)
    assert "Verdicts: 3 of 3" in capsys.readouterr().out


def test_nothing_to_do_is_said() -> None:
    out = io.StringIO()
    with Progress("plain", out).stage("Edits", 0, already=7):
        pass
    assert out.getvalue() == "Edits: 7 done, nothing to do\n"
