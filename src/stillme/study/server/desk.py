"""What the web side of a study holds: the bundle, the store, the keys, and how it is reached."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection

from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.keys import Keys
from stillme.study.db.seats import Sitting
from stillme.study.db.store import Store
from stillme.study.prolific.launch import Door

Entry = Literal["plain", "prolific", "signed"]
MOST_KEPT = 512


class Steady:
    """Seconds since 1970 by a clock that is read once and then goes evenly: setting the machine's clock takes no
    seat from anybody and makes nobody wait. `after`: it never starts before what has happened already."""

    def __init__(self, after: float = 0.0) -> None:
        self._start = max(time.time(), after) - time.monotonic()

    def __call__(self) -> float:
        return self._start + time.monotonic()


@dataclass(frozen=True)
class Serving:
    """How people get in: `plain` takes anybody who names themselves (pilots); `prolific` asks Prolific about the
    submission; `signed` wants Prolific's signed launch. `public`: the address under which browsers reach us."""

    entry: Entry = "plain"
    public: str = ""
    lease: float = seats.LEASE  # seconds without a sign of life after which a seat is free
    clock: Callable[[], float] = time.time

    @property
    def is_encrypted(self) -> bool:
        return self.public.startswith("https://")


@dataclass
class Study:
    """One study, being served. `folder`: of the bundle; `data`: of the database and secrets; `launches`: who
    checks people from Prolific, where they come from there."""

    bundle: Bundle
    folder: Path
    data: Path
    store: Store
    keys: Keys
    serving: Serving
    launches: Door | None = None
    _sittings: OrderedDict[str, Sitting] = field(default_factory=OrderedDict)

    def now(self) -> float:
        return self.serving.clock()

    def dealt(self, connection: Connection, sitting: str) -> Sitting:
        """The sitting; what was dealt never changes, so it is read once. Its `state` here may be old."""
        if sitting not in self._sittings:
            self._sittings[sitting] = seats.sit(connection, sitting)
            if len(self._sittings) > MOST_KEPT:
                self._sittings.popitem(last=False)
        return self._sittings[sitting]
