"""A study that runs in a process that can be killed, and raters who are seated at its first task."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, Table, select

from stillme.study.db import people, seats
from stillme.study.db.people import Launch
from stillme.study.db.tables import answer, opening, operation, participant, sitting
from tests.study.running import Running

COOKIE = "stillme-study"  # on a plain loopback address


class Desk(Running):
    """`port` stays the same over restarts, so that browsers find it again."""

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.stop()

    def seat(self, name: str, task: str = "t00") -> str:
        """Somebody who has read, agreed and learned, and sits at a task: their session's token."""
        keys, now = self.keys, time.time()

        def work(connection: Connection) -> str:
            token = people.enter(connection, keys, Launch(name, "study", f"s-{name}"), "127.0.0.1", now)
            person = people.who(connection, keys, token, now)
            assert person is not None
            people.note(connection, person.id, "guided", now)
            people.consent(connection, person.id, "c1", now)
            people.note(connection, person.id, "tutored", now)
            seats.take(connection, self.bundle, person.id, task, now)
            return token

        return self.do(work)

    def cookie(self, name: str, task: str = "t00") -> dict[str, Any]:
        """What a browser has to have to be this person."""
        return {"name": COOKIE, "value": self.seat(name, task), "url": self.origin}

    def sitting(self, name: str = "anna") -> Any:
        """The row of somebody's sitting."""
        known = self.keys.person(name)
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
