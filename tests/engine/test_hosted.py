from __future__ import annotations

from pathlib import Path

import pytest

from stillme.core.errors import ConfigIssuesError
from stillme.core.yaml import StrictModel
from stillme.engine import hosted


class Table(StrictModel):
    date: str


def test_a_table_with_a_fault_names_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("date: 2026-11-16\n", encoding="utf-8")
    assert hosted.table(path, Table).date == "2026-11-16"
    path.write_text("data: 2026-11-16\n", encoding="utf-8")
    with pytest.raises(ConfigIssuesError, match=r"prices\.yaml:1: data: is not a known key; did you mean 'date'"):
        hosted.table(path, Table)


def test_a_key_travels_encrypted_or_not_at_all() -> None:
    hosted.check_key("KEY", "It", "https://example.org/v1")
    hosted.check_key("KEY", "It", "http://127.0.0.1:8000/v1")
    with pytest.raises(ValueError, match="must start with https://"):
        hosted.check_key("KEY", "It", "http://example.org/v1")
    with pytest.raises(ValueError, match="It wants a key"):
        hosted.check_key(None, "It", "https://example.org/v1")
