from __future__ import annotations

import pytest

from tests.judges.asking import KEY, SECRET


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
