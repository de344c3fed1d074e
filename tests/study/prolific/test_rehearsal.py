"""A rehearsal as people run it: the fake Prolific and the study, each a process of its own, and the commands."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from stillme.core.errors import InputError
from stillme.study.bundle import read
from stillme.study.db import people, seats
from stillme.study.db.people import Launch
from stillme.study.db.store import connect, write_now
from stillme.study.db.tables import identity, seat, sitting
from stillme.study.prolific import commands, hooks
from stillme.study.prolific.commands import Where
from stillme.study.prolific.publish import Options
from tests.study import bundles
from tests.study.prolific.stage import KEYS, TOKEN

ROOT = Path(__file__).parents[3]
SERVE = (
    "import sys; from stillme.study.server.serve import Options, serve; bundle, data, port, public = sys.argv[1:];"
    " serve(Options(bundle, data, port=int(port), entry='signed', public=public), lambda line: print(line, flush=True))"
)


@dataclass
class Process:
    """One that says where it listens, and is started again on the same port."""

    command: list[str]
    pattern: str
    base: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> Process:
        self.process = subprocess.Popen(self.command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.search(self.pattern, line):
                self.base = found[1]
                return self
        raise AssertionError("it did not start")

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate(timeout=60)


@dataclass
class Rehearsal:
    where: Where
    fake: Process
    study: Process | None = None
    said: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.said.append(line)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        sent, kind = json.dumps(body or {}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.fake.base + path, sent, kind, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def do(self, work: Callable[..., Any]) -> Any:
        engine = connect(f"sqlite:///{self.where.data / 'study.db'}")
        found = write_now(engine, work)
        engine.dispose()
        return found


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        return None


def opened(url: str) -> tuple[int, str, str]:
    """(status, where it leads, what it says) of a page that a browser opens."""
    try:
        with urllib.request.build_opener(Stay).open(url, timeout=60) as answer:
            return answer.status, "", answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.headers.get("Location", ""), answer.read().decode()


@pytest.fixture
def rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsal]:
    bundles.write(tmp_path / "bundle", layout="pair", items=2, tutorial=0, side=16)
    (tmp_path / "data").mkdir(mode=0o700)
    state = tmp_path / "fake.json"
    command = [
        sys.executable,
        "-m",
        "stillme.study.rehearsal.fake",
        "--port",
        "0",
        "--state",
        str(state),
        "--twice",
    ]
    with ExitStack() as ends:
        fake = Process([*command, "--token", TOKEN], r"PROLIFIC_API=(http://[^/]+)").start()
        ends.callback(fake.kill)
        monkeypatch.setenv("PROLIFIC_API", f"{fake.base}/api/v1")
        monkeypatch.setenv("PROLIFIC_TOKEN", TOKEN)
        made = Rehearsal(Where(tmp_path / "bundle", tmp_path / "data"), fake)
        yield made
        if made.study:
            made.study.kill()


def serve(rehearsal: Rehearsal, port: int) -> Process:
    public = f"http://127.0.0.1:{port}"
    given = [str(rehearsal.where.bundle), str(rehearsal.where.data), str(port), public]
    rehearsal.study = Process([sys.executable, "-c", SERVE, *given], r"Listening on (\S+)")
    return rehearsal.study.start()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 60
    while not holds() and time.monotonic() < ends:
        time.sleep(0.05)
    return holds()


def test_publish_enter_return_and_hear_of_it(rehearsal: Rehearsal) -> None:
    """From the commands to a signed link that opens, and a return that frees the seat by webhook, though the fake
    was killed and started again in between."""
    port = free_port()
    public = f"http://127.0.0.1:{port}"
    commands.publish_study(rehearsal.where, Options(public=public, go=True), rehearsal.say)
    study = serve(rehearsal, port)
    commands.webhook(rehearsal.where, "", "", rehearsal.say)
    came = rehearsal.ask("/fake/arrive")
    status, leads, _ = opened(came["url"])
    assert status == 303
    assert not any(came[name] in leads for name in ("pid", "study", "submission")), "ids are in no address again"
    assert opened(came["url"].replace(came["pid"], "0" * 24))[0] == 409, "nobody comes in under another name"
    assert opened(came["url"].partition("&prolific_token")[0])[0] == 409, "nor without the signature"

    person = rehearsal.do(lambda c: c.scalar(select(identity.c.participant)))
    bundle = read(rehearsal.where.bundle)
    rehearsal.do(lambda c: seats.take(c, bundle, person, "t00", time.time()))
    port_of_fake = rehearsal.fake.base.rpartition(":")[2]
    rehearsal.fake.kill()
    rehearsal.fake.command[rehearsal.fake.command.index("--port") + 1] = port_of_fake
    rehearsal.fake.start()
    rehearsal.ask(f"/fake/submissions/{came['submission']}/return")
    assert eventually(lambda: rehearsal.do(lambda c: c.scalar(select(sitting.c.state))) == "returned")
    assert rehearsal.do(lambda c: c.scalars(select(seat.c.sitting).where(seat.c.sitting.is_not(None))).all()) == []
    assert study.process
    assert study.process.poll() is None


def test_the_commands_say_what_they_do_and_name_nobody(rehearsal: Rehearsal) -> None:
    with pytest.raises(InputError, match="has not been published"):
        commands.sync_study(rehearsal.where, rehearsal.say)
    with pytest.raises(InputError, match="address with https"):
        commands.webhook(rehearsal.where, "", "", rehearsal.say)
    commands.publish_study(rehearsal.where, Options(public="https://s.example.org", go=True), rehearsal.say)
    came = rehearsal.ask("/fake/arrive")
    launch = Launch(came["pid"], came["study"], came["submission"])
    rehearsal.do(lambda c: people.enter(c, KEYS, launch, "127.0.0.1", time.time()))
    commands.move(rehearsal.where, "pause", rehearsal.say)
    commands.sync_study(rehearsal.where, rehearsal.say)
    commands.approve(rehearsal.where, rehearsal.say, dry=True)
    commands.bonus(rehearsal.where, rehearsal.say)
    commands.status(rehearsal.where, rehearsal.say)
    commands.ask_return(rehearsal.where, came["submission"], ["There was no data."], rehearsal.say)
    said = "\n".join(rehearsal.said)
    assert "is paused on Prolific" in said
    assert "1 active" in said
    assert "0 bonuses are due" in said
    assert came["pid"] not in said
    assert TOKEN not in said
    assert not (rehearsal.where.data / hooks.SECRET).exists()


def test_the_fakes_page_is_for_people(rehearsal: Rehearsal) -> None:
    commands.publish_study(rehearsal.where, Options(public="https://s.example.org", go=True), rehearsal.say)
    came = rehearsal.ask("/fake/arrive", {"reserve": True})
    status, _, page = opened(f"{rehearsal.fake.base}/")
    assert status == 200
    assert came["submission"] in page
    assert "RESERVED" in page
    status, leads, _ = opened(f"{rehearsal.fake.base}/fake/launch/{came['submission']}")
    assert (status, leads.partition("?")[0]) == (303, "https://s.example.org/p/start")
    done = f"{rehearsal.fake.base}/submissions/complete?cc=WRONG&submission={came['submission']}"
    assert json.loads(opened(done)[2])["status"] == "AWAITING REVIEW"
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        rehearsal.ask(f"/fake/submissions/{came['submission']}/timeout")
    refused.value.close()
