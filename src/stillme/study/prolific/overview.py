"""How the study stands at Prolific, in a few lines."""

from __future__ import annotations

from collections.abc import Callable

from stillme.study.bundle import Bundle
from stillme.study.db.store import Store
from stillme.study.prolific import marks, pay, wage
from stillme.study.prolific.client import Prolific, major
from stillme.study.prolific.sync import lines, sync

Say = Callable[[str], None]


async def overview(store: Store, client: Prolific, bundle: Bundle, clock: Callable[[], float], say: Say) -> None:
    """Looks at Prolific, and says what it has and what is open here."""
    study = await client.study(await store.read(marks.study))
    say(f"The study {study.id} is {study.status.lower()}: {study.taken} of {study.places} places are taken.")
    for line in lines(await sync(store, client, clock())):
        say(line)
    earned, payments = await store.read(
        lambda c: (wage.measured(c, bundle, study.reward / 100), pay.open_payments(c))
    )
    say(f"{earned}.")
    for one in payments:
        say(f"Bonus payment {one.id} is {one.state}: {one.people} people, {major(one.amount)} without fees.")
