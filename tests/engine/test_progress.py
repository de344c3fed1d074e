from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest

from stillme.core.records import Status
from stillme.engine import progress
from stillme.engine.progress import Progress, Stage

NOW = 1e6  # seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still."""
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: NOW))


def started(stage: Stage, seconds: float) -> None:
    """That it did so long ago."""
    stage.started = NOW - seconds


def test_a_line_says_done_refused_rate_time_left_and_cost() -> None:
    stage = Stage("Edits", total=100, already=20)
    started(stage, 10)
    for status in [Status.OK] * 48 + [Status.REFUSED] * 2:
        stage.count(status, 0.01)
    assert stage.line() == "Edits: 70 of 120, 2 refused, 5/s, 10 s left, 0.50 USD, about 1.00 ± 0.00 USD in all"


def test_plain_lines_and_events() -> None:
    for mode in ("plain", "json"):
        out = io.StringIO()
        with Progress(mode, out).stage("Edits", 2) as stage:
            stage.count(Status.OK)
            stage.count(Status.CORRUPT)
        last = out.getvalue().splitlines()[-1]
        if mode == "plain":
            assert last.startswith("Edits: 2 of 2, 1 failed (corrupt)")
        else:
            event = json.loads(last)
            assert (event["done"], event["counts"]) == (2, {"ok": 1, "corrupt": 1})


def test_refusals_are_told_apart_from_failures() -> None:
    stage = Stage("Edits", total=40, part="hosted")
    started(stage, 3600)
    ended = {Status.INPUT_BLOCKED: 8, Status.OUTPUT_BLOCKED: 4, Status.TIMEOUT: 2, Status.NETWORK: 1, Status.OK: 5}
    for status, number in ended.items():
        for _ in range(number):
            stage.count(status)
    assert stage.line() == (
        "Edits, hosted: 20 of 40, 12 refused (8 on the way in, 4 on the way out), "
        "3 failed (2 timeout, 1 network), 20/h, 60 min left"
    )
    event = stage.event()
    assert (event["name"], event["editor"], event["refused"], event["failed"]) == ("Edits", "hosted", 12, 3)
    assert event["per_second"] == 0.006 and event["seconds_left"] == 3600


def test_what_instruments_cannot_read_is_no_failure() -> None:
    stage = Stage("Measurements", total=4)
    for status in (Status.NO_FACE, Status.NO_FACE, Status.OK):
        stage.count(status)
    assert "3 of 4, 2 no face," in stage.line() and "failed" not in stage.line()


def test_every_editor_has_its_line_and_its_events() -> None:
    out = io.StringIO()
    with Progress("json", out).stages("Edits", {"one": (1, 2), "two": (1, 0), "done": (0, 5)}) as stages:
        stages["one"].count(Status.OK)
        stages["two"].count(Status.REFUSED)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {event["editor"]: (event["done"], event["total"]) for event in events} == {"one": (3, 3), "two": (1, 1)}


@pytest.mark.parametrize("columns", [100, 80])
def test_live_lines_fit_the_terminal(columns: int) -> None:
    from rich.console import Console

    stages = [Stage("Edits", 12_000, 840, f"an-editor-with-a-long-name-{n}") for n in range(3)]
    for stage in stages:
        started(stage, 100_000)
        stage.counts.update({"ok": 1200, "input_blocked": 100, "refused": 20, "output_blocked": 3, "timeout": 11})
        stage.cost_usd = 1234.5
    out = io.StringIO()
    Console(file=out, width=columns, force_terminal=False).print(progress._render_live(stages))
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= columns for line in lines)
    if columns == 100:
        assert len(lines) == 6, "a line an editor, then what it will cost, what was refused and what failed"
        assert "2,174 of 12,840" in lines[0] and "123 refused, 11 failed" in lines[0] and "h left" in lines[0]
        assert "1,234.50 USD" in lines[0]
    assert "369 refused (300 on the way in, 9 on the way out, 60 in the model's own words)" in " ".join(
        " ".join(lines[3:]).split()
    )


def test_a_live_block_ends_with_its_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("live").stage("Verdicts", 3) as stage:
        for _ in range(3):
            stage.count(Status.OK)
    out = capsys.readouterr().out
    assert "Verdicts" in out and "3 of 3" in out


def test_nothing_to_do_is_said() -> None:
    out = io.StringIO()
    with Progress("plain", out).stage("Edits", 0, already=7):
        pass
    assert out.getvalue() == "Edits: 7 done, nothing to do\n"
