"""A finished audit that tests copy: making it takes longer than breaking it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prepared
from tests.conftest import dump_audit
from tests.faults.faulty import stillme


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """audit.yaml and its run: 24 edits, 48 verdicts, with its page; tests only copy it."""

    def make(folder: Path) -> None:
        dump_audit(folder / "audit.yaml")
        stillme(folder, "run", folder / "audit.yaml").check()

    return prepared.once(tmp_path_factory, "audited", make)
