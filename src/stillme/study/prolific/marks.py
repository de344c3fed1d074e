"""What the study's database remembers of Prolific: which study, under which name. No person is in it."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from stillme.core.errors import InputError
from stillme.study.db.store import upsert
from stillme.study.db.tables import meta

PREFIX = "prolific:"
STUDY, NAME, WORKSPACE, PUBLIC = "study", "name", "workspace", "public"


def get(connection: Connection, name: str) -> str:
    """Empty where nothing is known."""
    return str(connection.scalar(select(meta.c.value).where(meta.c.key == PREFIX + name)) or "")


def put(connection: Connection, name: str, value: str, keep: bool = False) -> None:
    upsert(connection, meta, {"key": PREFIX + name, "value": value}, keep)


def drop(connection: Connection, name: str) -> None:
    connection.execute(delete(meta).where(meta.c.key == PREFIX + name))


def study(connection: Connection) -> str:
    """The study at Prolific, or a sentence."""
    found = get(connection, STUDY)
    if not found:
        said = "This study has not been published on Prolific from here."
        raise InputError(said, "Run stillme study prolific publish first.")
    return found


def codes(connection: Connection) -> dict[str, str]:
    """Outcome -> its completion code."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.like("code:%")))
    return {row.key.removeprefix("code:"): row.value for row in rows}
