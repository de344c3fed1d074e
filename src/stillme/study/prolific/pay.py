"""The outbox of bonuses: planned, created, paying, paid. Every step is on the disk before the next call goes out.

Paying cannot be taken back and Prolific pays again when asked again. So one bonus a person (the primary key says
so), and a payment that was being paid when the process ended is never paid by itself: a person looks on Prolific
and says what became of it. Preparing moves no money: one that was prepared and forgotten is prepared anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, select, update

from stillme.core.errors import IncompleteError, InputError
from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.attention import attention
from stillme.study.db.keys import new_id
from stillme.study.db.store import Store, added
from stillme.study.db.tables import audit, bonus, identity, participant, payment, sitting, submission
from stillme.study.prolific import marks
from stillme.study.prolific.client import APPROVED, Prepared, Prolific, ProlificError, major, minor
from stillme.study.prolific.sync import sync

Say = Callable[[str], None]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Due:
    """A bonus that somebody has earned and not got; minor units."""

    participant: str
    submission: str
    amount: int
    reason: str


@dataclass(frozen=True)
class Payment:
    id: str
    state: str
    bulk: str
    people: int
    amount: int  # without fees


def due(connection: Connection, bundle: Bundle) -> list[Due]:
    """Who has earned a bonus: finished, approved, attentive enough, not excluded, not planned before."""
    pay = bundle.settings.pay
    amount = minor(pay.bonus)
    rows = connection.execute(
        select(sitting.c.id, sitting.c.participant, submission.c.id.label("submission"))
        .select_from(
            sitting.join(participant, participant.c.id == sitting.c.participant)
            .join(identity, identity.c.participant == participant.c.id)
            .join(submission, submission.c.id == identity.c.submission)
            .outerjoin(bonus, bonus.c.participant == participant.c.id)
        )
        .where(
            sitting.c.state == "complete",
            submission.c.status == APPROVED,
            participant.c.excluded.is_(None),
            bonus.c.participant.is_(None),
        )
        .order_by(submission.c.id)
    ).all()
    if not amount:
        return []
    seen = [(row, attention(connection, bundle, seats.sit(connection, row.id))) for row in rows]
    return [
        Due(row.participant, row.submission, amount, f"passed {found}")
        for row, found in seen
        if found.share > pay.bonus_above
    ]


def plan(connection: Connection, bundle: Bundle, now: float) -> str:
    """Writes down who gets a bonus; the payment's id, empty where there is nobody."""
    found = due(connection, bundle)
    if not found:
        return ""
    made = new_id()
    connection.execute(payment.insert().values(id=made, state="planned", at=now))
    kept = [
        added(
            connection,
            bonus,
            {"participant": o.participant, "payment": made, "amount": o.amount, "reason": o.reason},
        )
        for o in found
    ]
    if not any(kept):  # another process planned them all meanwhile
        connection.execute(payment.delete().where(payment.c.id == made))
    return made if any(kept) else ""


def open_payments(connection: Connection) -> list[Payment]:
    """Payments that are not paid, the oldest first."""
    rows = connection.execute(
        select(payment.c.id, payment.c.state, payment.c.bulk)
        .where(payment.c.state != "paid")
        .order_by(payment.c.at, payment.c.id)
    ).all()
    return [_payment(connection, row.id, row.state, row.bulk or "") for row in rows]


def _payment(connection: Connection, made: str, state: str, bulk: str) -> Payment:
    amounts = connection.scalars(select(bonus.c.amount).where(bonus.c.payment == made)).all()
    return Payment(made, state, bulk, len(amounts), sum(amounts))


async def pay(
    store: Store, client: Prolific, bundle: Bundle, clock: Clock, say: Say, go: bool = False
) -> list[Payment]:
    """Plans whoever is due and takes every open payment as far as it goes; without `go` it only says so.

    Returns what it paid. Payments whose end is not known are left, and an IncompleteError says what to do.
    """
    await sync(store, client, clock())
    if not go:
        await _preview(store, bundle, say)
        return []
    await store.write(lambda connection: plan(connection, bundle, clock()))
    paid, stuck = [], []
    for one in await store.read(open_payments):
        if one.state == "paying":
            stuck.append(one)
        elif await _advance(store, client, one, clock, say):
            paid.append(one)
    if not paid and not stuck:
        say("No bonus is due.")
    if stuck:
        raise await _unknown(store, client, stuck)
    return paid


async def _preview(store: Store, bundle: Bundle, say: Say) -> None:
    found, left = await store.read(lambda c: (due(c, bundle), open_payments(c)))
    for one in left:
        say(f"  {one.state:8} payment {one.id}: {one.people} people, {major(one.amount)}")
    for each in found:
        say(f"  due      {each.submission}  {major(each.amount)}  {each.reason}")
    total, currency = sum(each.amount for each in found), bundle.settings.pay.currency
    say(f"{len(found)} bonuses are due, {major(total)} {currency} without fees. Nothing was paid; --go pays.")


async def _advance(store: Store, client: Prolific, one: Payment, clock: Clock, say: Say) -> bool:
    """Takes a payment from where it stands to paid; whether there was anybody to pay."""
    if not one.bulk:
        bulk = await _create(store, client, one, clock, say)
        if not bulk:
            return False
        one = replace(one, bulk=bulk)
    if not await store.write(lambda c: _step(c, one.id, "created", "paying", clock())):
        raise IncompleteError(f"Another process is paying {one.id}.", "Let it end, then run this again.")
    try:
        await client.pay_bonus(one.bulk)
    except ProlificError as error:
        if error.is_open:
            raise (await _unknown(store, client, [one])) from None
        await store.write(lambda c: _step(c, one.id, "paying", "created", clock()))
        raise
    await store.write(lambda c: _step(c, one.id, "paying", "paid", clock()))
    say(f"Payment {one.id}: {one.people} bonuses, {major(one.amount)} without fees, are paid.")
    return True


async def _create(store: Store, client: Prolific, one: Payment, clock: Clock, say: Say) -> str:
    study, rows = await store.read(lambda c: (marks.study(c), _rows(c, one.id)))
    if len(rows) < one.people:
        say(f"Payment {one.id}: {one.people - len(rows)} of its people were erased and cannot be paid.")
    if not rows:
        return ""
    prepared = await client.prepare_bonus(study, rows)
    planned = sum(amount for _, amount in rows)
    if prepared.amount != planned:
        said = f"Prolific prepared {major(prepared.amount)} where {major(planned)} were planned; nothing was paid."
        raise IncompleteError(said, "Look at the bonuses on Prolific, then run this again.")
    if not await store.write(lambda c: _created(c, one.id, prepared, clock())):
        raise IncompleteError(f"Another process is preparing {one.id}.", "Let it end, then run this again.")
    say(f"Payment {one.id}: {len(rows)} bonuses, {major(prepared.total)} with fees, are prepared.")
    return prepared.id


def _rows(connection: Connection, made: str) -> list[tuple[str, int]]:
    rows = connection.execute(
        select(identity.c.submission, bonus.c.amount)
        .join(identity, identity.c.participant == bonus.c.participant)
        .where(bonus.c.payment == made)
        .order_by(identity.c.submission)
    )
    return [(row.submission, row.amount) for row in rows]


def _created(connection: Connection, made: str, prepared: Prepared, now: float) -> bool:
    return _step(connection, made, "planned", "created", now, bulk=prepared.id, total=prepared.total)


def _step(connection: Connection, made: str, before: str, after: str, now: float, **more: object) -> bool:
    """From one state to the next, unless another process was quicker; with a line for whoever looks back."""
    moved = connection.execute(
        update(payment).where(payment.c.id == made, payment.c.state == before).values(state=after, at=now, **more)
    )
    if moved.rowcount:
        row = {"at": now, "who": "command", "what": "bonus", "about": made, "detail": f"{before} -> {after}"}
        connection.execute(audit.insert().values(row))
    return bool(moved.rowcount)


async def _unknown(store: Store, client: Prolific, stuck: list[Payment]) -> IncompleteError:
    """What a person has to look at, with what Prolific shows as far as it can be asked."""
    people = await store.read(lambda connection: [_rows(connection, one.id) for one in stuck])
    shown = await _shown(store, client)
    lines = [_open_line(one, [row[0] for row in rows], shown) for one, rows in zip(stuck, people, strict=True)]
    return IncompleteError(
        "It is not known whether this was paid, so it is not tried again:\n  " + "\n  ".join(lines),
        "\nLook at these people's bonuses on Prolific, then say what you found with"
        " --settled PAYMENT paid or --settled PAYMENT unpaid.",
    )


def _open_line(one: Payment, people: list[str], shown: set[str] | None) -> str:
    said = f"payment {one.id}: {one.people} people, {major(one.amount)}, {one.bulk} at Prolific"
    if shown is None:
        return said
    return f"{said}, where {sum(person in shown for person in people)} of them have a bonus now"


async def _shown(store: Store, client: Prolific) -> set[str] | None:
    """Submissions that have a bonus at Prolific; None where it does not answer."""
    try:
        study = await store.read(marks.study)
        return {one.id async for one in client.submissions(study) if one.bonuses}
    except ProlificError:
        return None


async def settle(store: Store, made: str, outcome: str, clock: Clock, say: Say) -> None:
    """What a person found on Prolific about a payment whose end was not known."""
    if outcome not in ("paid", "unpaid"):
        raise InputError(f"'{outcome}' is no outcome.", "Say paid or unpaid.")
    after = "paid" if outcome == "paid" else "created"
    if not await store.write(lambda c: _step(c, made, "paying", after, clock())):
        raise InputError(f"There is no payment {made} whose end is unknown.", "Run bonus to see the open ones.")
    say(f"Payment {made} is noted as {outcome}." + ("" if after == "paid" else " The next bonus --go pays it."))
