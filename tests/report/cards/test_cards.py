"""Cards say what the report says: the same numbers in the same words, for people and for machines."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from stillme.analysis.frames import tidy
from stillme.ledger import Run
from stillme.plan.design import Design, load_design
from stillme.protocol import Protocol
from stillme.report import cards, publish
from stillme.report.cards import audit
from stillme.report.cards.facts import _gate
from stillme.report.context import Context
from stillme.report.lookup import per_editor
from stillme.report.tables import rate_cell
from stillme.stats.disparity import disparities
from stillme.stats.outcomes import mark


@pytest.fixture(scope="module")
def looked(finished: Path) -> Iterator[tuple[Run, Design]]:
    with Run.open_readonly(finished / "run") as run:
        yield run, load_design(run)


@pytest.fixture(scope="module")
def told(looked: tuple[Run, Design], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of the cards, beside the exported tables, and what the report prints."""
    run, design = looked
    folder, found = tmp_path_factory.mktemp("cards"), publish.findings_and_context(run, design)
    protocol = design.config.protocol
    scores = tidy(run, design).scores[protocol.presets["default"].rounding]
    marked = mark(scores, protocol.rubrics.outcomes)
    tables = {"disparity_by_race": disparities(marked, protocol, "race")}
    made = cards.write(run, design, folder / "report/cards", found, tables)
    assert sorted(path.name for path in made) == [
        "CITATION.cff",
        "audit-card.json",
        "audit-card.md",
        "croissant.json",
        "dataset-card.md",
    ]
    publish.export(run, design, folder / "tables", "parquet")
    return folder / "report/cards", found


def test_every_rate_is_the_reports(told: tuple[Path, Any]) -> None:
    folder, (findings, context, _) = told
    card = json.loads((folder / "audit-card.json").read_text(encoding="utf-8"))
    page = (folder / "audit-card.md").read_text(encoding="utf-8")
    assert (card["schema"], card["version"]) == ("stillme-audit-card", 1)
    assert len(card["rates"]) == len(context.editors) * len(context.tables.outcomes_by_editor)
    for rate in card["rates"]:
        row = per_editor(findings, rate["outcome"])[rate["editor"]]
        cell = rate_cell(row, context.nominal)
        assert rate["printed"] == cell.text and (rate["hits"], rate["judged"]) == (row["hits"], row["judged"])
        assert rate["judged"] + rate["missing"] == rate["asked"]
        assert cell.text in page and all(small in page for small in cell.small)


def test_an_audit_card_says_what_a_reader_asks(told: tuple[Path, Any]) -> None:
    folder, (_, context, _) = told
    card = json.loads((folder / "audit-card.json").read_text(encoding="utf-8"))
    page = (folder / "audit-card.md").read_text(encoding="utf-8")
    assert card["simulated"] in page and card["protocol"]["hash"] == context.protocol.hash
    assert card["protocol"]["hash"] in page and card["contacts"] == []
    assert {one["id"] for one in card["editors"]} == {"even", "erases"}
    for party in (*card["editors"], *card["judges"]):
        assert re.fullmatch("[0-9a-f]{64}", party["settings_sha256"]) and party["settings_sha256"][:16] in page
    assert card["portraits"]["perceived"]["race"] == {"White": 2, "Black": 2}
    assert card["portraits"]["origins"][0]["licence"].startswith("CC0")
    claims = card["claims"]
    said = [*claims["shown"], *claims["not_shown"]]
    assert {one.split(" (")[0] for one in said} == {"even", "erases"}, "something is said of every editor"
    for sentence in (*said, *card["how_sure"], *card["missing"]):
        assert f"- {sentence}" in page
    assert card["calibration"] == [] and "The judges were not calibrated." in page
    assert card["human_study"] == [] and "No human study" in page
    assert [row["gated"] for row in card["disparity"]] and "expected by chance" in card["disparity"][0]["printed"]
    for sentence in (*audit.INTENDED, *audit.LIMITS, *audit.MISUSE):
        assert sentence in page and sentence in [*card["intended_use"], *card["limits"], *card["misuse"]]
    assert not re.search(r"unbiased|debiased|fair model|\{\{|None|nan\b", page)


def test_a_card_without_analysis_tables_says_no_gate(
    looked: tuple[Run, Design], tmp_path: Path, told: Any
) -> None:
    cards.write(*looked, tmp_path, told[1])
    card = json.loads((tmp_path / "audit-card.json").read_text(encoding="utf-8"))
    assert all(row["gated"] is None and "gate" not in row["printed"] for row in card["disparity"])


def test_an_axis_without_a_gate_is_told_in_words(told: tuple[Path, Any]) -> None:
    context: Context = told[1][1]
    card = json.loads((told[0] / "audit-card.json").read_text(encoding="utf-8"))
    gates = [_gate({"axis": "race_drift", "gate": gate}, context) for gate in ("confirmatory", None)]
    assert [row["gate"] for row in gates] == ["confirmatory", None]
    study = {"name": "s", "preset": "exp1", "raters": 3, "answers": 48, "left_out": 0, "reliability": gates}
    page = audit.page({**card, "human_study": [study]}, context)
    assert "race change confirmatory, race change cannot be told." in page and "None" not in page


def test_the_dataset_card_describes_every_column(told: tuple[Path, Any]) -> None:
    folder, _ = told
    text = (folder / "dataset-card.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    data = yaml.safe_load(front)
    assert data["license"] == "other" and data["size_categories"] == ["n<1K"]
    for config in data["configs"]:
        frame = pl.read_parquet(folder.parent.parent / config["data_files"])
        for column, kind in frame.schema.items():
            assert f"| {column} | {kind} | " in body
        assert f"| `{config['data_files']}` | {frame.height:,} | " in body


def test_croissant_is_valid_and_its_records_can_be_read(told: tuple[Path, Any]) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    folder, _ = told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that mlcroissant uses
        dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
        issues = dataset.metadata.ctx.issues
        records = list(dataset.records("scores"))
    assert issues.errors == set()
    assert all("datePublished" in said or "license" in said for said in issues.warnings), "the publisher's to say"
    frame = pl.read_parquet(folder.parent.parent / "tables/scores.parquet")
    assert [record["scores/trial"].decode() for record in records] == frame["trial"].to_list()
    assert any("perceptions" in said for said in dataset.metadata.data_biases)


CFF = {"cff-version", "message", "title", "authors", "type", "version", "abstract", "keywords", "references"}
REFERENCES = {"type", "title", "authors", "version", "license", "notes"}


def test_the_citation_is_in_the_citation_file_format(told: tuple[Path, Any], protocol: Protocol) -> None:
    """Fields and words of CFF 1.2.0, of which more would be refused (its schema allows no others)."""
    data = yaml.safe_load((told[0] / "CITATION.cff").read_text(encoding="utf-8"))
    assert data["cff-version"] == "1.2.0" and data["type"] == "dataset" and set(data) <= CFF
    software, study = data["references"]
    assert all(set(one) <= REFERENCES and {"type", "title", "authors"} <= set(one) for one in (software, study))
    assert software["type"] == "software" and protocol.hash in software["notes"]
    assert study["type"] == "unpublished" and "Demographic Misrepresentation" in study["title"]
    for authors in (data["authors"], software["authors"], study["authors"]):
        assert authors and all(set(author) == {"name"} for author in authors)


def test_nothing_tells_where_or_when_a_card_was_written(told: tuple[Path, Any], finished: Path) -> None:
    for path in told[0].iterdir():
        assert str(finished) not in path.read_text(encoding="utf-8"), path.name


def test_names_stay_in_their_cells(told: tuple[Path, Any]) -> None:
    context: Context = told[1][1]
    card = json.loads((told[0] / "audit-card.json").read_text(encoding="utf-8"))
    card["editors"][0]["name"] = "a | b\nc"
    page = audit.page(card, context)
    assert "| a \\| b c |" in page and not re.search(r"^\| a \| b", page, re.M)
