"""Tables as files: the same texts as the page, the same numbers as its data link."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.report.build import _environment
from stillme.report.files import latex, markdown, write
from stillme.report.files.escaping import escaped
from stillme.report.files.markdown import escaped as marked_down
from stillme.report.tables import Table
from tests.report.files.made import NASTY, nasty, tall, wide


def cells(table: Table) -> list[str]:
    return [text for row in (*table.rows, *table.foot) for cell in row for text in (cell.text, *cell.small)]


def test_every_format_is_written_under_the_tables_name(tmp_path: Path) -> None:
    paths = write(nasty(), tmp_path)
    assert [path.name for path in paths] == [f"nasty-table.{ending}" for ending in ("csv", "parquet", "md", "tex")]
    assert all(path.stat().st_size for path in paths)


def test_the_csv_is_the_pages_data_link_and_the_parquet_file_keeps_every_digit(tmp_path: Path) -> None:
    table = nasty()
    write(table, tmp_path)
    text = (tmp_path / "nasty-table.csv").read_text(encoding="utf-8")
    assert table.data.href == f"data:text/csv;charset=utf-8,{table.data.href.split(',', 1)[1]}"
    assert unquote(table.data.href.split(",", 1)[1]) == text
    assert pl.read_parquet(tmp_path / "nasty-table.parquet").equals(table.numbers)
    assert "0.123457" in text


def test_markdown_latex_and_the_page_have_the_same_cells() -> None:
    table = nasty()
    template = _environment().get_template("blocks/table.html")
    page = html.unescape(template.render(block=table))
    md, tex = markdown(table), latex(table)
    for text in (*cells(table), table.caption, *table.notes):
        assert text in page
        assert marked_down(text) in md
        assert escaped(text) in tex


def test_what_a_missing_value_lacks_stands_beneath_the_table() -> None:
    assert "–: no judged edit." in markdown(nasty())
    assert "--: no judged edit." in latex(nasty())


def test_latex_has_a_caption_a_label_rules_and_the_foot_apart() -> None:
    text = latex(nasty())
    assert r"\label{tab:nasty-table}" in text
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index("plain")
    assert text.rindex(r"\midrule") < text.index("All &") < text.index(r"\bottomrule")
    assert r"{\footnotesize {[}$-$1.0, 2.5{]}}" in text  # beneath its number, in smaller letters


def test_numbers_stand_right_and_words_left() -> None:
    assert r"\begin{tabular}{lr}" in latex(tall(3))


def test_a_tall_table_goes_on_under_the_same_number() -> None:
    text = latex(tall())
    parts = text.count(r"\begin{table}")
    assert parts == text.count(r"\end{table}") > 1
    assert text.count(r"\addtocounter{table}{-1}") == text.count("(continued)") == parts - 1
    assert text.count(r"\label") == text.count("In all") == 1
    assert all(f"row {n} " in text for n in range(150))


def test_a_table_wider_than_a_page_says_so() -> None:
    assert "wider than a page" in latex(wide())
    assert "wider than a page" not in latex(nasty())


@pytest.mark.parametrize("character", sorted(set(NASTY)))
def test_a_character_prints_or_is_named_and_is_never_a_command(character: str) -> None:
    text = escaped(f"a{character}b")
    assert text[0] == "a" and text[-1] == "b"
    assert character.isspace() or len(text) > 2
    assert text.isascii() or character == "é"


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_no_text_can_break_out_of_its_cell(text: str) -> None:
    made = escaped(text)
    bare = made.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    unescaped = made
    for mark in "&%#_$":
        unescaped = unescaped.replace(f"\\{mark}", "")
    assert not set("&%#_") & set(unescaped)
    assert unescaped.count("$") % 2 == 0


def test_what_would_run_together_is_kept_apart() -> None:
    assert escaped("a--b") == "a-{}-b"
    assert escaped("''") == "'{}'"
