"""The study's database: what is kept, and the constraints that hold whatever process writes.

Times are seconds since 1970. Prolific ids are in `identity` and nowhere else. Answers hang on a sitting (one
person at one task), a seat is a place of a task that one sitting holds at a time: UNIQUE keys, not memory, see to
it that no task has more raters than seats and nobody has two tasks.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = "1"  # of this schema; a database of another is refused
metadata = MetaData()


def _id(name: str, *more: object, **options: object) -> Column[str]:
    return Column(name, String(64), *more, **options)  # type: ignore[arg-type]


def _time(name: str, nullable: bool = True) -> Column[float]:
    return Column(name, Float(53), nullable=nullable)


meta = Table("meta", metadata, _id("key", primary_key=True), Column("value", Text, nullable=False))

participant = Table(
    "participant",
    metadata,
    _id("id", primary_key=True),
    _id("pid_hash", unique=True, nullable=False),
    _id("address_hash"),  # keyed; emptied by the retention job
    _id("wanted"),  # the task that Prolific chose for them, where it spreads people over the tasks
    _time("created", nullable=False),
    _time("guided"),
    _time("consented"),
    _id("consent_version"),
    _time("declined"),
    _time("tutored"),
    _time("debriefed"),
    Column("excluded", Text),  # why, in words; empty: not excluded
    _id("excluded_by"),
)

identity = Table(
    "identity",
    metadata,
    Column("participant", String(64), ForeignKey("participant.id"), primary_key=True),
    Column("pid", String(128), unique=True, nullable=False),
    Column("study", String(128), nullable=False),
    Column("submission", String(128), unique=True, nullable=False),  # Prolific's SESSION_ID
)

session = Table(
    "session",
    metadata,
    _id("token_hash", primary_key=True),
    Column("participant", String(64), ForeignKey("participant.id"), nullable=False, index=True),
    _time("created", nullable=False),
    _time("expires", nullable=False),
)

# active: at work · complete · returned: to Prolific · timed_out · released: by a coordinator · withdrew
SITTING_STATES = ("active", "complete", "returned", "timed_out", "released", "withdrew")
sitting = Table(
    "sitting",
    metadata,
    _id("id", primary_key=True),
    Column("participant", String(64), ForeignKey("participant.id"), unique=True, nullable=False),
    _id("task", nullable=False),
    Column("slot", Integer, nullable=False),
    _id("state", nullable=False),
    _id("seed", nullable=False),
    Column("dealt", Text, nullable=False),  # JSON of a Deal
    _time("began", nullable=False),
    _time("ended"),
    _time("clock", nullable=False),  # when the last item was done; nothing later can have been done before it
    Column("away", Integer, nullable=False, default=0),  # how often the page lost the focus
    Column("away_seconds", Float(53), nullable=False, default=0.0),
    CheckConstraint("state IN " + str(SITTING_STATES), name="known_state"),
)

seat = Table(
    "seat",
    metadata,
    _id("task", primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("sitting", String(64), ForeignKey("sitting.id"), unique=True),
    _time("lease"),  # until when the seat is held without a sign of life; empty: for good, or free
)

opening = Table(
    "opening",
    metadata,
    Column("sitting", String(64), ForeignKey("sitting.id"), primary_key=True),
    _id("item", primary_key=True),
    _time("opened", nullable=False),
    _time("done"),
)

answer = Table(
    "answer",
    metadata,
    Column("sitting", String(64), primary_key=True),
    _id("item", primary_key=True),
    Column("field", String(140), primary_key=True),
    Column("value", Text, nullable=False),
    Column("rev", BigInteger, nullable=False),
    Column("ms", Integer),  # how long the question took, as the page measured it
    _time("at", nullable=False),
    ForeignKeyConstraint(["sitting"], ["sitting.id"]),
)

# Every operation that a page sent, once; nothing is ever changed here.
operation = Table(
    "operation",
    metadata,
    _id("id", primary_key=True),
    Column("sitting", String(64), ForeignKey("sitting.id"), nullable=False, index=True),
    _id("kind", nullable=False),
    _id("item", nullable=False),
    Column("field", String(140), nullable=False),
    Column("value", Text, nullable=False),
    Column("rev", BigInteger, nullable=False),
    Column("ms", Integer),
    Column("refused", Text, nullable=False),  # why it changed nothing; empty: it did
    _time("at", nullable=False),  # when it happened, as far as that can be known
    _time("received", nullable=False),
)

lesson = Table(
    "lesson",
    metadata,
    Column("participant", String(64), ForeignKey("participant.id"), primary_key=True),
    Column("example", Integer, primary_key=True),
    _id("first", nullable=False),  # the first answer; the last one lets people go on
    Column("tries", Integer, nullable=False),
    Column("right", Integer, nullable=False),
    _time("at", nullable=False),
)

# Prolific's side
submission = Table(
    "submission",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("participant", String(64), ForeignKey("participant.id"), index=True),  # empty: never came here
    _id("status", nullable=False),
    _id("code"),
    _time("started"),
    _time("completed"),
    Column("seconds", Float(53)),
    Column("return_requested", Integer, nullable=False, default=0),
    _time("seen", nullable=False),
)

hook = Table("hook", metadata, Column("event", String(128), primary_key=True), _time("at", nullable=False))

PAYMENT_STATES = ("planned", "created", "paying", "paid")
payment = Table(
    "payment",
    metadata,
    _id("id", primary_key=True),
    _id("state", nullable=False),
    Column("bulk", String(128)),  # Prolific's id of the prepared payment
    Column("total", Integer),  # minor units, with fees, as Prolific says
    _time("at", nullable=False),
    CheckConstraint("state IN " + str(PAYMENT_STATES), name="known_payment"),
)

bonus = Table(
    "bonus",
    metadata,
    Column("participant", String(64), ForeignKey("participant.id"), primary_key=True),  # never two
    Column("payment", String(64), ForeignKey("payment.id"), nullable=False, index=True),
    Column("amount", Integer, nullable=False),  # minor units
    Column("reason", Text, nullable=False),
)

# The coordinator's side
admin = Table(
    "admin",
    metadata,
    _id("name", primary_key=True),
    Column("password", Text, nullable=False),  # argon2id
    _time("created", nullable=False),
)

admin_session = Table(
    "admin_session",
    metadata,
    _id("token_hash", primary_key=True),
    Column("name", String(64), ForeignKey("admin.name"), nullable=False),
    _time("created", nullable=False),
    _time("expires", nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _time("at", nullable=False),
    _id("who", nullable=False),
    _id("what", nullable=False),
    _id("about", nullable=False),
    Column("detail", Text, nullable=False),
)

tombstone = Table(
    "tombstone",
    metadata,
    _id("pid_hash", primary_key=True),
    _id("how", nullable=False),  # deleted, or detached
    _time("at", nullable=False),
)

Index("seat_lease", seat.c.lease)
