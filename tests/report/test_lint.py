"""Every table that the report prints stands up to the lint that published ones are held to."""

from __future__ import annotations

import html
import io
import re
from urllib.parse import unquote

import polars as pl

from stillme.stats import printed
from stillme.stats.lint import lint_table
from tests.report.test_build import demo

LINK = re.compile(r'href="data:text/csv;charset=utf-8,([^"]*)"[^>]*download="([^"]+)"|download="([^"]+)"[^>]*href="data:text/csv;charset=utf-8,([^"]*)"')  # fmt: skip


def test_the_reports_tables_do_not_contradict_themselves() -> None:
    found = [(a or d, b or c) for a, b, c, d in LINK.findall(demo())]
    assert len(found) > 20
    for text, name in found:
        frame = pl.read_csv(io.StringIO(unquote(html.unescape(text))), infer_schema=False)
        errors = lint_table(printed.read(name, frame)).errors
        assert not errors, "\n".join(one.said for one in errors)
