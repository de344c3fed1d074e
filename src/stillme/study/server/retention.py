"""What is kept no longer than needed: addresses for a month, identities for as long as the consent form says.

May run at any time and as often as one likes; it does what is due. Ratings stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine, delete, func, select, update

from stillme.study.bundle import Bundle
from stillme.study.db.store import write_now
from stillme.study.db.tables import (
    admin_session,
    audit,
    hook,
    identity,
    participant,
    payment,
    session,
    sitting,
    submission,
)
from stillme.study.server.scrub import LATER, is_due, overwrite, scrub

DAY = 86_400
ADDRESS_DAYS = 30
ACTIVITY = (
    *(participant.c[name] for name in ("created", "consented", "declined", "debriefed")),
    *(sitting.c[name] for name in ("began", "clock", "ended")),
    submission.c.completed,
    payment.c.at,
)


@dataclass(frozen=True)
class Retained:
    """How many of each were removed. `unpaid`: identities are due and stay until bonuses are paid."""

    sessions: int = 0
    addresses: int = 0
    identities: int = 0
    submissions: int = 0
    hooks: int = 0
    unpaid: bool = False
    scrubbed: bool = True

    @property
    def is_anything(self) -> bool:
        return bool(self.sessions or self.addresses or self.identities or self.submissions or self.hooks)

    @property
    def text(self) -> str:
        lines = [f"Removed: {self.counts}." if self.is_anything else "Nothing is due."]
        if self.unpaid:
            lines.append("Identities are due, and stay until planned bonuses are paid.")
        if not self.scrubbed:
            lines.append(LATER)
        return "\n".join(lines)

    @property
    def counts(self) -> str:
        named = {
            "identities": self.identities,
            "submissions": self.submissions,
            "addresses": self.addresses,
            "sessions": self.sessions,
            "hook events": self.hooks,
        }
        return ", ".join(f"{count} {name}" for name, count in named.items() if count)


def retain(engine: Engine, bundle: Bundle, now: float) -> Retained:
    """Removes what is due. Afterwards nothing of it can be read in the database's files."""
    done = write_now(engine, lambda connection: _retain(connection, bundle, now))
    if done.addresses or done.identities or done.submissions or is_due(engine):
        return replace(done, scrubbed=scrub(engine))
    return done


def _retain(connection: Connection, bundle: Bundle, now: float) -> Retained:
    overwrite(connection)
    last = last_activity(connection)
    is_over = 0 < last < now - bundle.settings.retention_days * DAY  # 0: nobody has come, or they come just now
    unpaid = is_over and connection.scalar(select(payment.c.id).where(payment.c.state != "paid")) is not None
    old = is_over and not unpaid
    if old:  # the log says what was done about submissions
        about = audit.c.about.in_(select(submission.c.id))
        connection.execute(update(audit).where(about).values(about=""))
    done = Retained(
        sessions=sum(
            connection.execute(delete(table).where(table.c.expires < now)).rowcount
            for table in (session, admin_session)
        ),
        addresses=_addresses(connection, now),
        identities=connection.execute(delete(identity)).rowcount if old else 0,
        submissions=connection.execute(delete(submission)).rowcount if old else 0,
        hooks=connection.execute(
            delete(hook).where(hook.c.at < now - bundle.settings.retention_days * DAY)
        ).rowcount,
        unpaid=unpaid,
    )
    if done.is_anything:
        row = {"at": now, "who": "retention", "what": "retain", "about": "", "detail": done.counts}
        connection.execute(audit.insert().values(row))
    return done


def _addresses(connection: Connection, now: float) -> int:
    due = (participant.c.address_hash.is_not(None), participant.c.created < now - ADDRESS_DAYS * DAY)
    return connection.execute(update(participant).where(*due).values(address_hash=None)).rowcount


def last_activity(connection: Connection) -> float:
    """When anybody last did anything here, or was paid."""
    times = [connection.scalar(select(func.max(column))) for column in ACTIVITY]
    return max((float(time) for time in times if time is not None), default=0.0)
