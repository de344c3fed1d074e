"""A study as coordinators start it, a process that can be killed, and raters who are seated at its first task."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, select

from stillme.study import bundle as bundles
from stillme.study.bundle import Bundle
from stillme.study.db import people, seats
from stillme.study.db.keys import Keys
from stillme.study.db.people import Launch
from stillme.study.db.store import connect, write_now
from stillme.study.db.tables import answer, opening, operation, participant, sitting
from stillme.study.server.serve import data_folder
from stillme.web.sessions import secret
from tests.web.tool import ROOT

COOKIE = "stillme-study"  # on a plain loopback address


class Desk:
    """`port` stays the same over restarts, so that browsers find it again."""

    def __init__(self, folder: Path, bundle: Bundle, images: dict[str, bytes]) -> None:
        self.folder, self.bundle = folder, bundle
        self.port = 0
        bundles.write(bundle, images, folder)
        self.data = data_folder(folder)
        self.process: subprocess.Popen[str] | None = None
        self._engine: Engine | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        command = ["stillme", "study", "serve", str(self.folder), "--port", str(self.port), "--below-floor"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, text=True, stdout=subprocess.PIPE
        )
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("Listening on "):
                self.port = int(line.rsplit(":", 1)[1].strip("/\n"))
                return self
        raise AssertionError("the study did not start")

    def kill(self) -> None:
        """As a crash would."""
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate(timeout=30)
            self.process = None

    def close(self) -> None:
        self.kill()
        if self._engine:
            self._engine.dispose()

    def do(self, work: Callable[[Connection], Any]) -> Any:
        if self._engine is None:
            self._engine = connect(f"sqlite:///{self.data / 'study.db'}")
        return write_now(self._engine, work)

    def seat(self, name: str, task: str = "t00") -> str:
        """Somebody who has read, agreed and learned, and sits at a task: their session's token."""
        keys, now = Keys(secret(self.data)), time.time()

        def work(connection: Connection) -> str:
            token = people.enter(connection, keys, Launch(name, "study", f"s-{name}"), "127.0.0.1", now)
            person = people.who(connection, keys, token, now)
            assert person is not None
            people.note(connection, person.id, "guided", now)
            people.consent(connection, person.id, "c1", now)
            people.note(connection, person.id, "tutored", now)
            seats.take(connection, self.bundle, person.id, task, now)
            return token

        return str(self.do(work))

    def cookie(self, name: str, task: str = "t00") -> dict[str, Any]:
        """What a browser has to have to be this person."""
        return {"name": COOKIE, "value": self.seat(name, task), "url": self.base}

    def sitting(self, name: str = "anna") -> Any:
        """The row of somebody's sitting."""
        known = Keys(secret(self.data)).person(name)
        return self.do(
            lambda c: c.execute(select(sitting).join(participant).where(participant.c.pid_hash == known)).one()
        )

    def _rows(self, table: Table, name: str) -> list[Any]:
        sat = self.sitting(name).id
        return list(self.do(lambda c: c.execute(select(table).where(table.c.sitting == sat)).all()))

    def operations(self, name: str = "anna") -> list[Any]:
        """All that was ever taken from somebody."""
        return self._rows(operation, name)

    def answers(self, name: str = "anna") -> dict[tuple[str, str], str]:
        """(item, field) -> value."""
        return {(row.item, row.field): row.value for row in self._rows(answer, name)}

    def done(self, name: str = "anna") -> set[str]:
        return {row.item for row in self._rows(opening, name) if row.done is not None}
