from __future__ import annotations

from pathlib import Path

import pytest

from stillme.core.errors import FaultsError
from stillme.core.yaml import Frozen
from stillme.engine import hosted as hosting


class Table(Frozen):
    date: str


def test_a_table_with_a_fault_names_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("date: 2026-11-16\n", encoding="utf-8")
    assert hosting.table(path, Table).date == "2026-11-16"
    path.write_text("data: 2026-11-16\n", encoding="utf-8")
    with pytest.raises(FaultsError, match=r"prices\.yaml:1: data: is not a known key; did you mean 'date'"):
        hosting.table(path, Table)


def test_a_key_travels_encrypted_or_not_at_all() -> None:
    hosting.check_key("KEY", "It", "https://example.org/v1")
    hosting.check_key("KEY", "It", "http://127.0.0.1:8000/v1")
    with pytest.raises(ValueError, match="must start with https://"):
        hosting.check_key("KEY", "It", "http://example.org/v1")
    with pytest.raises(ValueError, match="It wants a key"):
        hosting.check_key(None, "It", "https://example.org/v1")
