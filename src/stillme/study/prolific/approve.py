"""Who is approved, and why; who has to be looked at. People are only ever rejected one by one, by a person.

Approving races the participant: somebody may have finished here and not yet handed in there. They come next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, select

from stillme.core.errors import InputError
from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.attention import attention
from stillme.study.db.store import Store
from stillme.study.db.tables import audit, identity, participant, sitting, submission
from stillme.study.prolific import marks
from stillme.study.prolific.client import AWAITING, LIVE, PAID_FOR, TIMED_OUT, Prolific, ProlificError, Submission
from stillme.study.prolific.sync import note, sync

CHUNK = 50  # submissions of one call
SHORTEST_MESSAGE = 100  # characters: Prolific takes no shorter one with a rejection
CATEGORIES = (
    "TOO_QUICKLY",
    "TOO_SLOWLY",
    "FAILED_INSTRUCTIONS",
    "INCOMP_LONGITUDINAL",
    "FAILED_CHECK",
    "LOW_EFFORT",
    "MALINGERING",
    "NO_CODE",
    "BAD_CODE",
    "NO_DATA",
    "UNSUPP_DEVICE",
    "OTHER",
)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A submission and what is proposed: to approve it, to wait, or that a person looks at it."""

    submission: str
    verdict: Literal["approve", "wait", "look"]
    why: str


@dataclass(frozen=True)
class Approved:
    """Submissions that were approved now, and those that have to be tried again."""

    done: tuple[str, ...]
    later: tuple[str, ...]


def cases(connection: Connection, bundle: Bundle) -> list[Case]:
    """Everybody about whom something is open, by what the database knows."""
    rows = connection.execute(
        select(
            submission.c.id,
            submission.c.status,
            submission.c.code,
            participant.c.excluded,
            sitting.c.id.label("sitting"),
            sitting.c.state,
        )
        .select_from(
            submission.outerjoin(identity, identity.c.submission == submission.c.id)
            .outerjoin(participant, participant.c.id == identity.c.participant)
            .outerjoin(sitting, sitting.c.participant == participant.c.id)
        )
        .where(submission.c.status.in_([AWAITING, *LIVE]))
        .order_by(submission.c.id)
    ).all()
    outcomes = {code: outcome for outcome, code in marks.codes(connection).items()}
    judged = (_case(connection, bundle, row, outcomes.get(row.code or "", "")) for row in rows)
    return [case for case in judged if case is not None]


def _case(connection: Connection, bundle: Bundle, row: object, outcome: str) -> Case | None:
    found: str = row.id  # type: ignore[attr-defined]
    state, status = row.state, row.status  # type: ignore[attr-defined]
    if status in LIVE:
        return Case(found, "wait", "finished here, not handed in at Prolific yet") if state == "complete" else None
    if outcome == "NO_CONSENT":
        return Case(found, "look", "did not consent: Prolific has asked them to return")
    if state != "complete":
        has = "entered the finishers' code" if outcome == "COMPLETED" else "handed in"
        return Case(found, "look", f"{has} and has not finished here")
    seen = attention(connection, bundle, seats.sit(connection, row.sitting))  # type: ignore[attr-defined]
    if row.excluded:  # type: ignore[attr-defined]
        return Case(found, "look", f"excluded: {row.excluded}")  # type: ignore[attr-defined]
    if not seen.is_enough(bundle.settings.checks.pass_share):
        return Case(found, "look", f"finished, but passed only {seen}")
    if outcome != "COMPLETED":
        return Case(found, "look", f"finished and passed {seen}, but entered no code or another")
    return Case(found, "approve", f"finished, passed {seen}")


async def approve(
    store: Store, client: Prolific, bundle: Bundle, clock: Callable[[], float], say: Say, dry: bool = False
) -> Approved:
    """Approves who finished with the right code and enough attention; the others are shown, and left alone."""
    await sync(store, client, clock())
    found = await store.read(lambda connection: cases(connection, bundle))
    for case in found:
        say(f"  {case.verdict:7}  {case.submission}  {case.why}")
    ready = [case.submission for case in found if case.verdict == "approve"]
    if dry or not ready:
        say(f"{len(ready)} would be approved." if dry else "Nobody is to be approved now.")
        return Approved((), ())
    later: list[str] = []
    for start in range(0, len(ready), CHUNK):
        later += await _approve_all(client, ready[start : start + CHUNK])
    done = tuple(one for one in ready if one not in later)
    await store.write(lambda connection: _audit_all(connection, "approve", done, clock()))
    await sync(store, client, clock())
    say(f"{len(done)} approved." + (f" {len(later)} could not be yet; run this again later." if later else ""))
    return Approved(done, tuple(later))


async def _approve_all(client: Prolific, chunk: Sequence[str]) -> list[str]:
    """Together; where Prolific refuses the lot because of one, one by one. Those that have to wait."""
    try:
        await client.bulk_approve(chunk)
        return []
    except ProlificError as error:
        if error.status_code not in (400, 404, 409, 422):
            raise
    return [one for one in chunk if not await _approve_one(client, one)]


async def _approve_one(client: Prolific, one: str) -> bool:
    try:
        found = await client.submission(one)
        if found.status == AWAITING:
            await client.transition(one, "APPROVE")
    except ProlificError as error:
        if error.status_code not in (400, 404, 409, 422):
            raise
        return False
    return found.status == AWAITING or found.status in PAID_FOR


async def approve_one(store: Store, client: Prolific, one: str, clock: Callable[[], float], say: Say) -> None:
    """Approves one submission because a person says so: a finisher without the code, or one whose time ran out."""
    found = await _ours(store, client, one)
    if found.status in PAID_FOR:
        say(f"{one} is {found.status.lower()} already.")
        return
    if found.status not in (AWAITING, TIMED_OUT):
        raise InputError(f"{one} is {found.status.lower()}; that cannot be approved.", "Nothing was changed.")
    await client.transition(one, "APPROVE")
    await _again(store, client, one, "approve", "by name", clock())
    say(f"{one} is approved.")


async def reject(
    store: Store, client: Prolific, one: str, category: str, message: str, clock: Callable[[], float], say: Say
) -> None:
    """Rejects one submission, with a reason that its person reads. Their seat becomes free."""
    if category not in CATEGORIES:
        raise InputError(
            f"'{category}' is not a category of Prolific's.", f"Choose one of {', '.join(CATEGORIES)}."
        )
    if len(message.strip()) < SHORTEST_MESSAGE:
        said = f"A rejection says why, in at least {SHORTEST_MESSAGE} characters; this has {len(message.strip())}."
        raise InputError(said, "Say what was wrong and what it was checked against: the person will read it.")
    found = await _ours(store, client, one)
    if found.status != AWAITING:
        raise InputError(f"{one} is {found.status.lower()}, not awaiting review.", "Nothing was changed.")
    await client.transition(one, "REJECT", message=message.strip(), rejection_category=category)
    await _again(store, client, one, "reject", f"{category}: {message.strip()}", clock())
    say(f"{one} is rejected.")


async def ask_return(
    store: Store, client: Prolific, one: str, reasons: Sequence[str], clock: Callable[[], float], say: Say
) -> None:
    """Asks somebody to return a submission, which costs them nothing; with reasons that they read."""
    if not reasons or not all(reason.strip() for reason in reasons):
        raise InputError("Asking for a return needs a reason.", "Give --reason, once or more.")
    await _ours(store, client, one)
    await client.request_return(one, [reason.strip() for reason in reasons])
    await _again(store, client, one, "request-return", "; ".join(reasons), clock())
    say(f"The person of {one} was asked to return it.")


async def _ours(store: Store, client: Prolific, one: str) -> Submission:
    study = await store.read(marks.study)
    found = await client.submission(one)
    if found.study != study:
        raise InputError(f"{one} belongs to another study.", "Nothing was changed.")
    return found


async def _again(store: Store, client: Prolific, one: str, what: str, detail: str, now: float) -> None:
    """Reads the submission again and notes it with what was done."""
    found = await client.submission(one)

    def kept(connection: Connection) -> None:
        note(connection, found, now)
        _audit(connection, what, one, detail, now)

    await store.write(kept)


def _audit_all(connection: Connection, what: str, about: Sequence[str], now: float) -> None:
    for one in about:
        _audit(connection, what, one, "", now)


def _audit(connection: Connection, what: str, about: str, detail: str, now: float) -> None:
    row = {"at": now, "who": "command", "what": what, "about": about[:64], "detail": detail}
    connection.execute(audit.insert().values(row))
