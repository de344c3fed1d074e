"""The paper's own tables: its columns, its order of rows, this run's numbers."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from stillme.analysis.numbers import percent
from stillme.protocol import Protocol
from stillme.report.files.paper import PARTICIPANTS, PUBLISHED, SAMPLE, paper_tables, sampled
from stillme.report.tables import Table
from stillme.stats.findings import Findings
from tests.report.synthetic_audit import audit, context


@pytest.fixture(scope="module")
def findings() -> Findings:
    return audit(prompts=3)


def heads(table: Table) -> list[str]:
    return [column.label for column in table.columns]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def published(protocol: Protocol) -> pl.DataFrame:
    """Means of the mitigation experiment as the analysis has them, two groups and both quantities."""
    rows = [
        ("race", group, axis.id, quantity, 40, 12, 2.5, 2.0 - place / 10, -0.5 - place / 10)
        for place, group in enumerate(("white", "black"))
        for axis in protocol.rubrics.axes
        for quantity in ("score", "amount")
    ]
    schema = ["dimension", "group", "axis", "quantity", "cases", "persons", "baseline", "feature", "delta"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_without_the_numbers_there_is_no_table(findings: Findings) -> None:
    assert [one.id for one in paper_tables(findings, context(), {})] == ["paper-table-12", "paper-table-13"]
    assert paper_tables(None, context(), {}) == []


def test_table_12_has_the_papers_columns_and_the_reports_rates(findings: Findings) -> None:
    table = paper_tables(findings, context(), {})[0]
    assert heads(table) == ["Model", "N", "Edit Succ.", "Soft Eras.", "Race Change"]
    row = findings.by_editor.filter(editor="replace", outcome="soft_erasure").row(0, named=True)
    assert texts(table)[2][3] == percent(row["rate"])
    assert texts(table)[2][1] == str(row["asked"])
    assert "shares of judged edits" in table.notes[0]


def test_table_12_divides_as_the_preset_says(findings: Findings) -> None:
    table = paper_tables(findings, context("paper"), {})[0]
    row = findings.by_editor.filter(editor="even", outcome="edit_succeeded").row(0, named=True)
    assert texts(table)[0][2] == percent(row["nominal_rate"])
    assert "shares of the N edits asked for" in table.notes[0]


def test_table_13_has_the_papers_rows_and_the_disparity_at_its_foot(
    findings: Findings, protocol: Protocol
) -> None:
    table = paper_tables(findings, context(), {})[1]
    printed = [row["race"] for row in protocol.published["table13_race_change_by_race_and_model"]]
    assert [row[0].split("/")[0] for row in texts(table)] == printed
    assert heads(table) == ["Race", "Even-handed", "Lightener", "Replacer"]
    (foot,) = table.foot
    assert foot[0].text == "Disparity"
    assert all(cell.text.endswith("pp") for cell in foot[1:])
    rows = findings.by_group["race"].filter(editor="replace", outcome="race_changed")
    lost, persons = rows["missing"].sum(), rows["persons"].sum()
    assert f"{rows['judged'].sum():,} judged, {lost} missing, {persons} persons." in table.notes[-1]


def test_table_13_counts_the_persons_of_a_group_whoever_edited_them(findings: Findings) -> None:
    first = pl.col("editor") == findings.by_group["race"]["editor"][-1]
    fewer = findings.by_group["race"].with_columns(persons=pl.when(first).then(1).otherwise("persons"))
    uneven = replace(findings, by_group={**findings.by_group, "race": fewer})
    assert "White 12" in paper_tables(uneven, context(), {})[1].notes[2]


def test_tables_14_and_19_are_those_of_the_mitigation_experiment(findings: Findings, protocol: Protocol) -> None:
    made = {one.id: one for one in paper_tables(findings, context(), {PUBLISHED: published(protocol)})}
    fourteen, nineteen = made["paper-table-14"], made["paper-table-19"]
    assert heads(fourteen) == ["Race", "Δ Race", "Δ Gender", "Δ Skin"]
    assert heads(nineteen) == ["Group", "Baseline Drift", "w/ Feature", "Δ"]
    assert texts(nineteen) == [["Black", "2.50", "1.90", "−0.60"], ["White", "2.50", "2.00", "−0.50"]]
    assert [row[0] for row in texts(fourteen)] == ["Black", "White"]
    assert any("|score − 3|" in note for note in fourteen.notes)  # a signed mean is no amount of change


def test_tables_10_and_11_are_those_of_the_raters(findings: Findings) -> None:
    people = pl.DataFrame({"demographic": ["Participants (approved)"], "distribution": ["30"]})
    rated = pl.DataFrame(
        {
            "trial": ["a", "a", "b"],
            "editor": ["even", "even", "replace"],
            "race": ["white", "white", "black"],
            "gender": "female",
            "age": "20s",
        }
    )
    frames = {PARTICIPANTS: people, SAMPLE: sampled(rated, context())}
    ten, eleven, *_ = paper_tables(findings, context(), frames)
    assert heads(ten) == ["Demographic", "Distribution"]
    assert "2 human evaluation samples" in eleven.caption
    assert ["Model", "Replacer", "1", "50.0"] in texts(eleven)
