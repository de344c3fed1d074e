"""What a loopback service does with what it is asked: chosen by switches, drawn from the request itself.

The same body always has the same fate, in every run and in every order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """How a request ends. Each has a switch of its name: the share of bodies that it falls on."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"  # it is never answered
    CUT = "cut"  # the connection breaks instead
    MALFORMED = "malformed"
    MALFORMED_ALWAYS = "malformed_always"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    INPUT_BLOCKED = "input_blocked"
    OUTPUT_BLOCKED = "output_blocked"
    QUOTA = "quota"
    REJECTED = "rejected"
    OK = "ok"


FIRST_TIME = frozenset({Fate.RATE_LIMITED, Fate.SERVER_ERROR, Fate.TIMEOUT, Fate.CUT, Fate.MALFORMED})


@dataclass(frozen=True)
class Switches:
    """Shares are of all bodies. Those in FIRST_TIME fall on a body once; after that it is answered well.

    retry_after_s: how long a call that is turned away is asked to wait; None: it is not told. per_second: a limit
    that is enforced, with a second's worth in hand. headers: whether answers tell of it. batch_after_s: when a
    batch has ended. batch_expires, batch_malformed: shares of a batch's lines. batches_fail, creations_unheard:
    how many of the first batches fail, and are made without their maker hearing of it. page: batches on a page.
    plain: bodies are thrown away and the first answer is everybody's, so that only the client is measured.
    """

    seed: int = 0
    latency_s: float = 0.0
    rate_limited: float = 0.0
    server_error: float = 0.0
    timeout: float = 0.0
    cut: float = 0.0
    malformed: float = 0.0
    malformed_always: float = 0.0
    truncated: float = 0.0
    refused: float = 0.0
    input_blocked: float = 0.0
    output_blocked: float = 0.0
    quota: float = 0.0
    rejected: float = 0.0
    retry_after_s: float | None = None
    per_second: float | None = None
    headers: bool = False
    batch_after_s: float = 0.0
    batch_expires: float = 0.0
    batch_malformed: float = 0.0
    batches_fail: int = 0
    creations_unheard: int = 0
    page: int = 20
    plain: bool = False

    def fate(self, name: str) -> Fate:
        """What becomes of a body, by its hash."""
        left = drawn(name, f"fate {self.seed}")
        for fate in Fate:
            left -= getattr(self, fate.value, 1.0)
            if left < 0:
                return fate
        return Fate.OK

    def expires(self, name: str) -> bool:
        return drawn(name, f"expires {self.seed}") < self.batch_expires

    def spoils(self, name: str) -> bool:
        return drawn(name, f"spoils {self.seed}") < self.batch_malformed


def drawn(name: str, purpose: str) -> float:
    """A number from 0 to below 1 that only these two words decide."""
    return int.from_bytes(hashlib.sha256(f"{purpose}:{name}".encode()).digest()[:6]) / (1 << 48)
