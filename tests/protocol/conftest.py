from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stillme.protocol import BUILTIN


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The built-in protocol in a folder of one's own."""
    return Path(shutil.copytree(BUILTIN, tmp_path / "my-protocol"))
