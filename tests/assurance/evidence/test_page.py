"""The page as a reader sees it, and the sentences that say where two pages differ."""

from __future__ import annotations

import polars as pl

from stillme.assurance.evidence import differences, page
from stillme.assurance.evidence.differences import DiffSummary

PAGE = """<!doctype html><title>T</title><style>p{content:"9"}</style><section id="outcomes"><h2>Outcomes</h2>
<p>Rates of <b>12.5&nbsp;%</b>
 in all.</p><div class="table" id="by-editor"><table><caption>Rates <a download="by-editor.csv"
href="data:text/csv;charset=utf-8,editor,rate%0Aa,0.062%0Ab,0.1%0A">data</a></caption>
<thead><tr><th scope="col">Editor</th><th scope="col" class="n"><button>Soft erasure</button> <small>≤ 2</small></th></tr></thead>
<tbody><tr><th scope="row">a</th><td class="n">6.2&nbsp;%<small>[1, 9]</small></td></tr>
<tr><th scope="row">b</th><td class="n">10.0&nbsp;%</td></tr></tbody></table></div>
<figure id="plot"><svg viewBox="0 0 1 1"><path d="M0 1"/><text>6.2</text></svg><figcaption>A plot of 2.</figcaption></figure>
</section><script>let x = 5</script>"""


def compared(printed: str, figures: bool = True) -> DiffSummary:
    into = DiffSummary()
    differences.note_page(page.read_page(printed), page.read_page(PAGE), figures, into)
    return into


def test_a_page_is_read_cell_by_cell_and_sentence_by_sentence() -> None:
    found = page.read_page(PAGE)
    assert list(page.cells(found.tables["by-editor"])) == [
        ("a", "Editor", "a"),
        ("a", "Soft erasure ≤ 2", "6.2 %[1, 9]"),
        ("b", "Editor", "b"),
        ("b", "Soft erasure ≤ 2", "10.0 %"),
    ]
    assert found.sentences["outcomes"] == ["Outcomes", "Rates of 12.5 % in all.", "Rates data", "A plot of 2."]
    assert found.data["by-editor.csv"][1] == ("a", "0.062") and "M0 1" in found.drawn["plot"]


def test_equal_pages_have_no_difference_and_every_number_is_counted() -> None:
    found = compared(PAGE)
    assert found.differences == []
    assert found.counts == {
        "tables of report.html": 4,
        "sentences of report.html": 2,
        "data links of report.html": 2,
    }


def test_a_changed_digit_is_named_wherever_it_stands() -> None:
    def said(old: str, new: str) -> list[str]:
        return [str(one) for one in compared(PAGE.replace(old, new)).differences]

    row = "table by-editor, row a, column Soft erasure ≤ 2: printed 6.3 %[1, 9], the ledger gives 6.2 %[1, 9]"
    assert said("6.2&nbsp;%", "6.3&nbsp;%") == [row]
    (sentence,) = said("12.5&nbsp;%", "11.5&nbsp;%")
    assert sentence.startswith("section outcomes: printed “Rates of 11.5 % in all.”")
    assert said("a,0.062", "a,0.063") == [
        "data link by-editor.csv, row 1 (a 0.062), column rate: printed 0.063, the ledger gives 0.062"
    ]
    assert said("M0 1", "M0 2") == ["figure plot: printed another drawing, the ledger gives its own"]
    assert said('<tr><th scope="row">b</th><td class="n">10.0&nbsp;%</td></tr>', "") == [
        "table by-editor, row b, column Editor: printed nothing, the ledger gives b",
        "table by-editor, row b, column Soft erasure ≤ 2: printed nothing, the ledger gives 10.0 %",
    ]


def test_columns_of_one_name_do_not_hide_each_other() -> None:
    twice = PAGE.replace(
        '<tr><th scope="col">Editor</th>', '<tr><th scope="col">Rate</th><th scope="col">Rate</th>'
    )
    twice = twice.replace('<th scope="row">a</th>', '<th scope="row">a</th><td>1.5</td>')
    into = DiffSummary()
    differences.note_page(page.read_page(twice.replace("1.5", "1.4")), page.read_page(twice), True, into)
    assert any(one.printed == "1.4" and "column Rate (2)" in one.where for one in into.differences)


def test_the_last_digits_of_numbers_that_nobody_rounds_may_differ() -> None:
    assert compared(PAGE.replace("a,0.062", "a,0.06200001")).differences == []
    one, other = pl.DataFrame({"x": [0.1 + 0.2, None]}), pl.DataFrame({"x": [0.3, None]})
    assert list(differences.frame_differences("t", one, other)) == []


def test_a_value_of_a_table_is_named_by_its_row() -> None:
    frame = pl.DataFrame({"trial": ["a" * 64, "b" * 64], "axis": ["race", "race"], "score": [3, None]})
    forged = frame.with_columns(score=pl.Series([3, 4]))
    assert [str(one) for one in differences.frame_differences("tables/scores.parquet", forged, frame)] == [
        "tables/scores.parquet, trial bbbbbbbbbbbb…, axis race, column score: printed 4, the ledger gives nothing"
    ]
    assert "1 rows" in str(next(differences.frame_differences("t", frame.head(1), frame)))
    assert "columns" in str(next(differences.frame_differences("t", frame.drop("axis"), frame)))
