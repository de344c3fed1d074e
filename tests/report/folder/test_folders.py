"""Parts of a folder that are taken over."""

from __future__ import annotations

from pathlib import Path

from stillme.core.atomic import replace_folder
from stillme.report.folder.folders import kept


def filled(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "page.txt").write_text(text)


def test_a_part_that_is_not_made_anew_is_taken_over(tmp_path: Path) -> None:
    filled(tmp_path / "report/tables", "kept")
    with replace_folder(tmp_path / "report") as aside:
        kept(tmp_path / "report", aside, "tables")
        kept(tmp_path / "report", aside, "figures")  # there is none
    assert (tmp_path / "report/tables/page.txt").read_text() == "kept"
