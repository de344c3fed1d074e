"""Everything that is derived from the study's secret: names that cannot be turned back into people."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Keys:
    """One secret, a purpose each: nothing made for one purpose tells anything about another."""

    secret: bytes = field(repr=False)

    def _digest(self, purpose: str, of: str) -> str:
        return hmac.new(self.secret, f"{purpose}\0{of}".encode(), hashlib.sha256).hexdigest()

    @property
    def mark(self) -> str:
        """What tells this secret from another, and nothing else."""
        return self._digest("mark", "")[:16]

    def person(self, pid: str) -> str:
        """What stands for a Prolific id in constraints and tombstones."""
        return self._digest("person", pid)

    def address(self, address: str) -> str:
        """What stands for an IP address: enough to see that two are the same."""
        return self._digest("address", address)

    def pseudonym(self, participant: str) -> str:
        """The name of a rater outside of the database."""
        return "r" + self._digest("pseudonym", participant)[:12]

    def queue(self, sitting: str) -> str:
        """The name under which a browser keeps what this sitting has not sent yet."""
        return self._digest("queue", sitting)[:16]

    def token_hash(self, token: str) -> str:
        """What is kept of a session: who reads the database cannot be anybody."""
        return self._digest("session", token)

    def form_token(self, token: str) -> str:
        """What a form of a session has to carry."""
        raw = hmac.new(self.secret, f"form\0{token}".encode(), hashlib.sha256).digest()
        return urlsafe_b64encode(raw[:18]).decode()

    def is_form_token(self, token: str, given: str) -> bool:
        return hmac.compare_digest(self.form_token(token).encode(), given.encode())


def new_token() -> str:
    return secrets.token_urlsafe(24)


def new_id() -> str:
    return secrets.token_hex(12)


__all__ = ["Keys", "new_id", "new_token"]
