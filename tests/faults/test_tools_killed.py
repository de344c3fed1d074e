"""SIGKILL while people select portraits or decide on edits: what a page called saved is saved, once, and nothing else."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from stillme.ledger import Run
from stillme.sources.selection.store import Store
from tests.browser.serving import Tool as SelectionTool
from tests.faults.faulty import often
from tests.report.review.serving import Tool as ReviewTool
from tests.sources.selection import shelf
from tests.web.tool import Served

SEED = 13


class Visitor:
    """Somebody with the printed link who sends JSON, and remembers what was acknowledged."""

    def __init__(self, tool: Served) -> None:
        self._tool = tool
        link = urlsplit(next(iter(tool.links.values())))
        line = http.client.HTTPConnection("127.0.0.1", tool.port, timeout=30)
        line.request("GET", f"{link.path}?{link.query}")
        self._cookie = (line.getresponse().getheader("Set-Cookie") or "").split(";")[0]
        line.close()

    def send(self, path: str, content: dict[str, Any]) -> bool:
        """Whether it was acknowledged; a tool that dies meanwhile acknowledges nothing."""
        headers = {"Content-Type": "application/json", "Cookie": self._cookie, "Origin": self._tool.base}
        line = http.client.HTTPConnection("127.0.0.1", self._tool.port, timeout=30)
        try:
            line.request("POST", path, json.dumps(content), headers)
            answer = line.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            line.close()
        assert answer.status == 200, said
        return True


def storm(
    tool: Served, chance: random.Random, path: str, make: Callable[[], dict[str, Any]]
) -> tuple[set[str], set[str]]:
    """Sends until the tool is killed, a random while after it has saved something: what was sent, what was acknowledged."""
    visitor = Visitor(tool.start())
    sent: set[str] = set()
    saved: set[str] = set()
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            content = make()
            sent.add(content["op"])
            if visitor.send(path, content):
                saved.add(content["op"])

    thread = threading.Thread(target=work)
    thread.start()
    until = time.monotonic() + 60
    while not saved and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.3))
    tool.kill()
    is_over.set()
    thread.join()
    return sent, saved


@often(1, 15)
def test_killed_while_somebody_selects(
    tmp_path: Path, times: int, record_property: Callable[[str, object], None]
) -> None:
    tool = SelectionTool(tmp_path, pools=1)
    with Store.open_for_writing(tool.plan.folder) as store:
        shelf.fill(tool.plan, store)
        every = store.candidates()
    chance, sent, saved = random.Random(SEED), set[str](), set[str]()

    def act() -> dict[str, Any]:
        one = chance.choice(every)
        return {"op": str(uuid4()), "verb": "note", "cell": one.cell, "candidate": one.key, "value": str(uuid4())}

    for _ in range(times):
        more = storm(tool, chance, "/api/act", act)
        sent, saved = sent | more[0], saved | more[1]
        with Store.open_readonly(tool.plan.folder) as store:
            kept = [action.op for action in store.actions()]
        assert len(kept) == len(set(kept)) and saved <= set(kept) <= sent
    record_property("selection killed", f"{times} times (seed {SEED}): {len(saved)} saved, 0 lost, 0 invented")


@often(1, 15)
def test_killed_while_somebody_decides(
    audited: Path, tmp_path: Path, times: int, record_property: Callable[[str, object], None]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(audited / "run", run)
    with Run.open_readonly(run) as seen:
        trials = [
            key
            for (key,) in seen.query("SELECT t.key FROM trial t JOIN edit e ON e.key = t.edit AND e.status = 'ok'")
        ]
    chance, sent, saved = random.Random(SEED), set[str](), set[str]()

    def decide() -> dict[str, Any]:
        op = str(uuid4())
        return {"op": op, "trial": chance.choice(trials), "axis": "skin_tone", "score": 3, "why": op}

    for _ in range(times):
        more = storm(ReviewTool(run), chance, "/api/decide", decide)
        sent, saved = sent | more[0], saved | more[1]
        with Run.open_readonly(run) as seen:
            kept = [decision.reason for decision in seen.adjudications()]
        assert len(kept) == len(set(kept)) and saved <= set(kept) <= sent
    record_property("review killed", f"{times} times (seed {SEED}): {len(saved)} saved, 0 lost, 0 invented")


def test_two_reviewers_of_one_run_lose_nothing(audited: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(audited / "run", run)
    with Run.open_readonly(run) as seen:
        trials = [
            key
            for (key,) in seen.query("SELECT t.key FROM trial t JOIN edit e ON e.key = t.edit AND e.status = 'ok'")
        ]
    tools = [ReviewTool(run, name).start() for name in ("anna", "ben")]
    try:
        visitors = [Visitor(tool) for tool in tools]
        for trial in trials[:4]:
            for visitor in visitors:
                about = {"op": str(uuid4()), "trial": trial, "axis": "skin_tone", "score": 3, "why": "Seen."}
                assert visitor.send("/api/decide", about)
    finally:
        for tool in tools:
            with suppress(AssertionError):
                tool.kill()
    with Run.open_readonly(run) as seen:
        assert (
            sorted({d.reviewer for d in seen.adjudications()}) == ["anna", "ben"]
            and len(seen.adjudications()) == 8
        )
