"""Who runs the study: accounts with passwords, sessions of eight hours, and a log of everything that they did.

Functions over one connection, but for the two that take long and touch no database: making and checking a hash.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, delete, func, select, update

from stillme.core.errors import InputError
from stillme.study.db.keys import Keys, new_token
from stillme.study.db.store import added, upsert, write_now
from stillme.study.db.tables import admin, admin_session, audit, meta, participant

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SESSION_SECONDS = 8 * 3600
SHORTEST, LONGEST = 12, 1024  # characters of a password
LONGEST_REASON = 500
NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
TURNED_AWAY = "turned away"
PAUSED = "paused"
COMMAND_LINE = "command line"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Coordinator:
    """Who is logged in, and the session's token."""

    name: str
    token: str


@lru_cache(maxsize=1)
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()  # argon2id, with the parameters that the library recommends


@lru_cache(maxsize=1)
def _nobody() -> str:
    """The hash of a password that nobody has: checked for unknown names, so that they take as long."""
    return _hasher().hash(secrets.token_hex(16))


def hashed(password: str) -> str:
    return _hasher().hash(password)


def check(known: str | None, password: str) -> tuple[bool, str]:
    """Whether the password is right, and a new hash where the old one was made with other parameters. Slow, the
    same whether the name is known or not; not for the event loop."""
    from argon2.exceptions import InvalidHashError, VerificationError

    nobody = _nobody()
    if len(password) > LONGEST:
        password = ""
    try:
        _hasher().verify(known or nobody, password)
    except (VerificationError, InvalidHashError):
        return False, ""
    if known is None:
        return False, ""
    return True, _hasher().hash(password) if _hasher().check_needs_rehash(known) else ""


def known_hash(connection: Connection, name: str) -> str | None:
    if not NAME.fullmatch(name):
        return None
    return connection.scalar(select(admin.c.password).where(admin.c.name == name))


def log_in(connection: Connection, keys: Keys, name: str, fresh: str, about: str, now: float) -> str:
    """Opens a session after the password was found right: its token. `fresh`: the hash to keep from now on."""
    if fresh:
        connection.execute(update(admin).where(admin.c.name == name).values(password=fresh))
    connection.execute(delete(admin_session).where(admin_session.c.expires <= now))
    token = new_token()
    row = {"token_hash": keys.token_hash(token), "name": name, "created": now, "expires": now + SESSION_SECONDS}
    connection.execute(admin_session.insert().values(row))
    note(connection, name, "login", "", about, now)
    return token


def failed(connection: Connection, name: str, about: str, now: float) -> None:
    """A login that was refused. A name that is not one of ours is not kept: it may be a password."""
    known = known_hash(connection, name) is not None
    note(connection, name if known else "unknown name", "failed login", "", about, now)


def who(connection: Connection, keys: Keys, token: str, now: float) -> Coordinator | None:
    if not token:
        return None
    found = connection.scalar(
        select(admin_session.c.name).where(
            admin_session.c.token_hash == keys.token_hash(token), admin_session.c.expires > now
        )
    )
    return None if found is None else Coordinator(str(found), token)


def log_out(connection: Connection, keys: Keys, one: Coordinator, now: float) -> None:
    connection.execute(delete(admin_session).where(admin_session.c.token_hash == keys.token_hash(one.token)))
    note(connection, one.name, "logout", "", "", now)


def note(connection: Connection, who: str, what: str, about: str, detail: str, now: float) -> None:
    """A line of the log. `about`: a pseudonym or a task, never a Prolific id."""
    connection.execute(audit.insert().values(at=now, who=who, what=what, about=about, detail=detail))


def logged(connection: Connection, most: int = 500) -> Sequence[Any]:
    """The log, the latest first."""
    return connection.execute(select(audit).order_by(audit.c.id.desc()).limit(most)).all()


def turned_away(connection: Connection, keys: Keys, person: str, now: float) -> None:
    """Notes that somebody found no free place; the same person counts once, however often they look."""
    rater = keys.pseudonym(person)
    known = select(audit.c.id).where(audit.c.what == TURNED_AWAY, audit.c.about == rater).limit(1)
    if connection.scalar(known) is None:
        note(connection, "", TURNED_AWAY, rater, "", now)


def surplus(connection: Connection) -> int:
    """How many people found no free place."""
    people = select(func.count(func.distinct(audit.c.about))).where(audit.c.what == TURNED_AWAY)
    return connection.scalar(people) or 0


def pause(connection: Connection, is_paused: bool, who: str, now: float) -> None:
    """Whether new people are let in. Who is in the study already goes on."""
    upsert(connection, meta, {"key": PAUSED, "value": "yes" if is_paused else "no"})
    note(connection, who, "pause entry" if is_paused else "resume entry", "", "", now)


def exclude(connection: Connection, keys: Keys, person: str, reason: str, who: str, now: float) -> None:
    """Marks a rater; answers stay where they are."""
    own = update(participant).where(participant.c.id == person)
    connection.execute(own.values(excluded=reason, excluded_by=who))
    note(connection, who, "exclude", keys.pseudonym(person), reason, now)


def include(connection: Connection, keys: Keys, person: str, reason: str, who: str, now: float) -> None:
    own = update(participant).where(participant.c.id == person)
    connection.execute(own.values(excluded=None, excluded_by=None))
    note(connection, who, "include", keys.pseudonym(person), reason, now)


def add(engine: Engine, name: str, password: str, now: float) -> None:
    """An account; one that exists gets the new password, and its sessions end."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a coordinator's name.",
            "Use 1 to 64 letters, digits, dots, dashes, underscores or @.",
        )
    if not SHORTEST <= len(password) <= LONGEST:
        raise InputError(
            f"The password has {len(password)} characters.",
            f"Use at least {SHORTEST}; a few random words are good.",
        )
    made = hashed(password)

    def work(connection: Connection) -> None:
        is_new = added(connection, admin, {"name": name, "password": made, "created": now})
        if not is_new:
            connection.execute(update(admin).where(admin.c.name == name).values(password=made))
            connection.execute(delete(admin_session).where(admin_session.c.name == name))
        note(connection, COMMAND_LINE, "add coordinator" if is_new else "new password", name, "", now)

    write_now(engine, work)


def remove(engine: Engine, name: str, now: float) -> None:
    """Ends an account with all its sessions; what it did stays in the log."""

    def work(connection: Connection) -> bool:
        connection.execute(delete(admin_session).where(admin_session.c.name == name))
        is_gone = bool(connection.execute(delete(admin).where(admin.c.name == name)).rowcount)
        if is_gone:
            note(connection, COMMAND_LINE, "remove coordinator", name, "", now)
        return is_gone

    if not write_now(engine, work):
        raise InputError(f"There is no coordinator {name[:64]!r}.", "stillme study admin list says who there is.")


def names(connection: Connection) -> list[str]:
    return list(connection.scalars(select(admin.c.name).order_by(admin.c.name)))
