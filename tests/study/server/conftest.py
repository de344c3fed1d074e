"""What the tests of the server share."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from stillme.study.server import coordinators

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed a thousand times faster; `monkeypatch.undo()` brings the real parameters back."""
    monkeypatch.setattr(coordinators, "_hasher", lambda: CHEAP)
    monkeypatch.setattr(coordinators, "_nobody", lambda: CHEAP.hash("nobody"))
