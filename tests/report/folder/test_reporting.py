"""The whole report of a small run, written once, which takes long: what is in the folder, and what stays when parts
are written anew."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from stillme import pipeline
from stillme.analysis.tables import whole
from stillme.cli.main import main
from stillme.core.errors import InputError
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.design import load_design
from stillme.report import folder

PARTS = {"tables", "figures", "browse", "pictures", "cards"}


@pytest.fixture(scope="module")
def run(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(finished / "run", tmp_path_factory.mktemp("reported") / "run"))


@pytest.fixture(scope="module")
def told(run: Path) -> str:
    """What a person who waits is told; the report is there afterwards."""
    out = io.StringIO()
    assert pipeline.rebuild_report(run, Progress("plain", out)) == run / "report.html"
    return out.getvalue()


@pytest.fixture(scope="module")
def report(run: Path, told: str) -> Path:
    return run / "report"


def test_every_part_is_there_and_told_of(report: Path, told: str) -> None:
    about = json.loads((report / "about.json").read_text())
    assert set(about["files"]) == PARTS == {path.name for path in report.iterdir() if path.is_dir()}
    for part, number in about["files"].items():
        assert number == sum(path.is_file() for path in (report / part).rglob("*")) > 0
        assert f"Report: {part}, {number:,} files" in told
    assert (report / "browse/index.html").is_file()
    assert (report / "cards/audit-card.md").is_file()


def test_every_table_and_figure_of_the_page_is_a_file(run: Path, report: Path) -> None:
    page = (run / "report.html").read_text()
    shown = set(re.findall(r'<div class="table[^"]*" id="([^"]+)"', page))
    written = {path.stem for path in (report / "tables").glob("*.tex")}
    assert shown and shown == written - {"paper-table-12", "paper-table-13"}
    for ending in ("csv", "parquet", "md"):
        assert {path.stem for path in (report / "tables").glob(f"*.{ending}")} == written
    drawn = {path.stem for path in (report / "figures").glob("*.pdf")}
    assert drawn and all(f'id="{name}"' in page for name in drawn)


def test_the_parquet_files_hold_the_pages_numbers(run: Path, report: Path) -> None:
    frame = pl.read_parquet(report / "tables/outcomes-by-editor.parquet")
    rate = frame.filter(outcome="soft_erasure", editor="erases")["rate"][0]
    assert f"{rate * 100:.1f}\N{NO-BREAK SPACE}%" in (report / "tables/outcomes-by-editor.md").read_text()


def test_a_part_alone_leaves_the_others_and_computes_nothing_twice(
    run: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*_: object) -> None:
        raise AssertionError("the analysis is kept")

    monkeypatch.setattr(whole, "tables", again)
    (report / "tables/strange.txt").write_text("of an earlier report")
    before = (report / "figures").stat().st_size, (run / "report.html").read_bytes()
    pipeline.rebuild_report(run, Progress(), only=["tables"])
    assert not (report / "tables/strange.txt").exists()
    assert ((report / "figures").stat().st_size, (run / "report.html").read_bytes()) == before
    assert set(json.loads((report / "about.json").read_text())["files"]) == PARTS


def test_who_wants_few_edits_to_browse_gets_few_and_reads_it_there(
    run: Path, report: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    with pytest.raises(SystemExit) as ended:
        main(["report", str(copy), "--only", "browse", "--browse-most", "5"])
    assert ended.value.code in (0, None)
    index = (copy / "report/browse/data/index.js").read_text(encoding="utf-8")
    assert "Raw exchanges of 5 of the 24 edits are here" in index and "Pictures of 5 of the 24 edits" in index
    assert sum(1 for _ in (copy / "report/browse/thumbs").rglob("*.webp")) < sum(
        1 for _ in (report / "browse/thumbs").rglob("*.webp")
    )


def test_a_report_of_this_very_state_stays(run: Path, report: Path) -> None:
    with Run.open_readonly(run) as seen:
        assert folder.is_current(seen, run / "report.html")
        assert not folder.is_current(seen, run / "report.html", "blur")
    out = io.StringIO()
    pipeline.rebuild_report(run, Progress("plain", out), anew=False)
    assert out.getvalue() == "Report: up to date, nothing to do\n"


def test_who_leaves_faces_out_finds_them_in_no_part(run: Path, report: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    pipeline.rebuild_report(copy, Progress(), faces="none", only=["tables"])  # and whatever shows faces
    pictures = [path for path in (copy / "report/browse").rglob("*") if path.suffix in (".webp", ".jpg", ".png")]
    assert not pictures
    assert (copy / "report.html").read_bytes() != (run / "report.html").read_bytes()
    pipeline.rebuild_report(copy, Progress(), only=["browse"])  # stays so until somebody says otherwise
    assert json.loads((copy / "report/about.json").read_text())["faces"] == "none"


def test_a_failure_leaves_the_old_report_whole(run: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in report.rglob("*") if path.is_file()}

    def fail(*_: object) -> int:
        raise RuntimeError("no room")

    monkeypatch.setitem(folder.MAKERS, "cards", fail)
    with Run.open_readonly(run) as seen, pytest.raises(RuntimeError):
        folder.write(seen, load_design(seen), run / "report.html", only=["tables", "cards"])
    assert {path: path.stat().st_mtime_ns for path in report.rglob("*") if path.is_file()} == before
    assert not [path for path in run.iterdir() if path.name.startswith(".report")]


def test_an_unknown_part_and_an_unknown_way_with_faces_are_said(run: Path) -> None:
    with pytest.raises(InputError, match="'figs' is not a part of the report; known: html, tables"):
        pipeline.rebuild_report(run, Progress(), only=["figs"])
    with pytest.raises(InputError, match="show, blur, none"):
        pipeline.rebuild_report(run, Progress(), faces="hide")
