"""CSV that a spreadsheet opens: words that would be formulas are words, and numbers stay numbers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from stillme.core.table_files import escape_formulas, write_frame
from stillme.report.blocks import csv, data
from stillme.report.browse.gallery import _csv

FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")')
PLAIN = ("a=b", "O-01", "-3.5", "+1", "-1e-05", "12%", "-4.5%", "−3", "-", "", "é")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_no_formula_any_more(text: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"detail": [text, None], "n": [-1, 2], "share": [-0.25, 1.5]})
    assert escape_formulas(frame)["detail"].to_list() == [f"'{text}", None]
    written = pl.read_csv(write_frame(frame, tmp_path / "t.csv"))
    assert written["detail"][0] == f"'{text}" and written["n"].to_list() == [-1, 2]
    assert written["share"].to_list() == [-0.25, 1.5]
    assert f"'{text.strip()[:2]}" in csv(frame).replace('""', '"') or "\t" in text or "\r" in text
    assert data("t", frame).href.startswith("data:text/csv")
    assert _csv([{"row": 1, "person": text}]).splitlines()[1].lstrip('1,"').startswith("'")


@pytest.mark.parametrize("text", PLAIN)
def test_words_and_numbers_stay_as_they_are(text: str) -> None:
    assert escape_formulas(pl.DataFrame({"a": [text]}))["a"][0] == text


def test_parquet_is_not_changed(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": ["=1+1"]})
    assert pl.read_parquet(write_frame(frame, tmp_path / "t.parquet")).equals(frame)
