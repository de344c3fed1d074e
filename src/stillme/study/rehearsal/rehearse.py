"""A whole study, rehearsed on this machine: a fake Prolific, the server and bots, each as they really run.

Nothing here is a mock-up of the study: the commands are the ones that a coordinator types, in processes of their
own that can be killed and started again.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillme.core.errors import InputError, SetupError
from stillme.study.rehearsal.bots import FULL, GONE, MANNERS, Bot, Manner, Told
from stillme.study.rehearsal.browsing import Browser

Say = Callable[[str], None]
API = "/api/v1"
STATE = "prolific.json"  # of the fake Prolific
TOKEN = "rehearsal"  # of the fake Prolific; it opens nothing  # noqa: S105 (a name, not a password)
NAME, PASSWORD = "rehearsal", "only-for-a-rehearsal"
SLOW = 4.0  # seconds an item
PATIENCE = 60.0  # seconds until a process has to be ready, or gone
BEAT = 0.02
_PLACE = re.compile(r"http://(?:127\.0\.0\.1|localhost):(\d+)")


@dataclass
class Process:
    """`python -m WORDS`, which says `ready` with its address once it listens. What it says is kept in `log`."""

    words: Sequence[str]
    ready: str
    log: Path
    port: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)
    _running: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Process:
        """The first time on a free port, then always on the same."""
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(  # noqa: S603 (no shell, and the words are ours)
                [sys.executable, "-m", *self.words, "--port", str(self.port)],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environ},
                start_new_session=True,  # its workers are killed with it, and Ctrl-C is ours to tell
            )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._running.poll() is None:
            with self.log.open("rb") as log:
                log.seek(began)
                said = log.read().decode("utf-8", "replace")
            if found := next((_PLACE.search(line) for line in said.splitlines() if self.ready in line), None):
                self.port = int(found[1])
                return self
            time.sleep(BEAT)
        self.kill()
        raise SetupError(f"{' '.join(self.words[:3])} did not start.", f"What it said is in {self.log}.")

    def kill(self) -> None:
        """SIGKILL, to it and its workers; back when nobody listens there any more."""
        if self._running is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        self._running = None
        until = time.monotonic() + PATIENCE
        while _listens(self.port) and time.monotonic() < until:
            time.sleep(BEAT)

    def stop(self) -> None:
        """As its user would, with Ctrl-C; whoever does not listen is killed."""
        if self._running is None:
            return
        self._running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._running.wait(10)
        self.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return port != 0 and probe.connect_ex(("127.0.0.1", port)) == 0


def server(bundle: Path, data: Path, log: Path, *more: str, environ: Mapping[str, str] | None = None) -> Process:
    """`stillme study serve`, not started yet."""
    words = ("stillme", "study", "serve", str(bundle), "--data", str(data), *more)
    return Process(words, "Listening on", log, environ=environ or {})


@dataclass
class Stage:
    """A study that is rehearsed: the fake Prolific and the server, and the commands that a coordinator types.
    All that it leaves is in `folder`."""

    bundle: Path
    folder: Path
    fake: Process
    study: Process

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def environ(self) -> dict[str, str]:
        """What points a command at the fake Prolific."""
        return {"PROLIFIC_API": f"{self.fake.base}{API}", "PROLIFIC_TOKEN": TOKEN}

    def words(self, command: str, *more: str) -> list[str]:
        """A command about this study, as it is typed after `stillme`."""
        return ["study", *command.split(), str(self.bundle), "--data", str(self.data), *more]

    def command(self, command: str, *more: str, **environ: str) -> str:
        """What a command says; one that fails is an error with its words."""
        done = subprocess.run(  # noqa: S603 (no shell, and the words are ours)
            [sys.executable, "-m", "stillme", *self.words(command, *more)],
            env={**os.environ, **self.environ, **environ},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SetupError(f"stillme study {command} failed: {done.stderr.strip()}", "See above.")
        return done.stdout

    def open(self) -> None:
        """Up to the point at which people may come."""
        self.fake.start()
        self.study.environ = self.environ
        self.study.start()

    def publish(self) -> Iterator[str]:
        yield self.command("prolific publish", "--public", self.study.base, "--go")
        yield self.command("prolific webhook", "--public", self.study.base)

    def close(self) -> None:
        self.study.stop()
        self.fake.stop()


def stage(bundle: Path, folder: Path) -> Stage:
    """The stage in a folder, with ports of its own; nothing runs yet."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()  # publishing has to know it before anybody listens there
    words = ("stillme.study.rehearsal.fake", "--state", str(folder / STATE), "--token", TOKEN)
    fake = Process(words, "A fake Prolific is at", folder / "prolific.log")
    more = ("--entry", "signed", "--public", f"http://127.0.0.1:{port}")
    study = server(bundle, folder / "data", folder / "server.log", *more)
    study.port = port
    return Stage(bundle, folder, fake, study)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Crowd:
    """People from the fake Prolific: they arrive, take part, hand in the code that they got, or return."""

    def __init__(self, stage: Stage, seed: str = "") -> None:
        self._stage, self._seed = stage, seed
        self._came = self._inside = 0
        self.told: list[Told] = []

    async def visit(self, manner: Manner) -> Told | None:
        """One person, from the list of studies to the end; None: Prolific had no place."""
        self._inside += 1
        try:
            return await self._visit(manner)
        finally:
            self._inside -= 1

    async def _visit(self, manner: Manner) -> Told | None:
        self._came += 1
        chance = random.Random(f"{self._seed}\0{self._came}")  # noqa: S311 (a draw, not a secret)
        async with Browser(self._stage.fake.base, chance) as prolific:
            person = secrets.token_hex(12)  # who asks again after an answer that got lost takes no second place
            status, came = await prolific.post("/fake/arrive", {"pid": person}, "")
            if status != 201:
                return None
            told = await Bot(
                self._stage.study.base, came["url"], came["submission"], manner, str(self._came)
            ).run()
            if told.code:
                await prolific.open(f"/submissions/complete?cc={told.code}&submission={told.name}")
            elif told.end in (GONE, FULL):
                await prolific.post(f"/fake/submissions/{told.name}/return", {}, "")
        self.told.append(told)
        return told

    async def fill(self, manners: Iterable[Manner]) -> None:
        """Everybody at once. Who finds no place comes again if somebody was inside who may have returned since."""

        async def come(manner: Manner) -> None:
            others = self._inside
            while await self.visit(manner) is None and others:
                await asyncio.sleep(0.2)
                others = self._inside

        await asyncio.gather(*(come(manner) for manner in manners))


def settle(stage: Stage, folder: Path) -> Iterator[str]:
    """What a coordinator does when everybody is through: look, approve, pay, export."""
    for command in ("prolific sync", "prolific approve"):
        yield stage.command(command)
    yield stage.command("prolific sync")  # bonuses are for those whom Prolific calls approved
    yield stage.command("prolific bonus", "--go")
    yield stage.command("export", "--to", str(folder), "--format", "csv")


def rehearse(bundle: Path, folder: Path, bots: int = 6, once: bool = False, say: Say = print) -> None:
    """Opens a rehearsal and keeps it open until Ctrl-C; `once`: lets the bots through, settles and leaves."""
    if (folder / STATE).exists():
        raise InputError(f"{folder} has an earlier rehearsal.", "Give another --to, or delete that one.")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended, however we end
    made = stage(bundle, folder)
    try:
        made.open()
        for said in made.publish():
            say(said.rstrip())
        made.command("admin add", NAME, STILLME_PASSWORD=PASSWORD)
        for line in _invitation(made):
            say(line)
        asyncio.run(_played(made, bots, once, say))
        if once:
            for said in settle(made, folder / "export"):
                say(said.rstrip())
    except KeyboardInterrupt:
        say("The rehearsal is over.")
    finally:
        made.close()
        signal.signal(signal.SIGTERM, before)


def _invitation(made: Stage) -> Iterator[str]:
    yield ""
    yield "The rehearsal is open. Nobody is paid, and nothing leaves this machine."
    yield f"  take part yourself   {made.fake.base}/  (press the button)"
    yield f"  the dashboard        {made.study.base}/admin  (name {NAME}, password {PASSWORD})"
    yield f"  the fake Prolific    {made.fake.base}/"
    yield ""


async def _played(made: Stage, bots: int, once: bool, say: Say) -> None:
    """The bots come; those of an open rehearsal work at a pace that can be watched."""
    crowd = Crowd(made, "rehearsal")
    kinds = ("honest", "plain", "inattentive", "flaky", "straight", "tabs")
    pace = 0.0 if once else SLOW
    manners = [replace(MANNERS[kinds[n % len(kinds)]], pace=pace) for n in range(bots)]
    await crowd.fill(manners)
    for told in crowd.told:
        said = {"complete": f"has finished and handed in {told.code}", FULL: "found no place and returned"}
        say(f"  submission {told.name} {said.get(told.end, told.end)}, {len(told.saved)} operations were saved")
    if not once:
        say("The bots are through; the rehearsal stays open until Ctrl-C.")
        await asyncio.Event().wait()
