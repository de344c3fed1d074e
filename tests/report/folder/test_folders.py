"""A folder is replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillme.report.folder.folders import kept, swapped


def filled(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "page.txt").write_text(text)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_new_folder_takes_the_old_ones_place_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    filled(tmp_path / "report", "old")
    with swapped(tmp_path / "report") as aside:
        filled(aside, "new")
        assert (tmp_path / "report/page.txt").read_text() == "old"
    assert (tmp_path / "report/page.txt").read_text() == "new"
    assert names(tmp_path) == {"report"}


def test_a_crash_leaves_the_old_folder_whole(tmp_path: Path) -> None:
    filled(tmp_path / "report", "old")
    with pytest.raises(RuntimeError), swapped(tmp_path / "report") as aside:
        filled(aside, "half")
        raise RuntimeError("out of memory")
    assert (tmp_path / "report/page.txt").read_text() == "old"
    assert names(tmp_path) == {"report"}


def test_what_a_crash_between_the_renames_left_is_put_back(tmp_path: Path) -> None:
    filled(tmp_path / ".report.old", "old")
    with pytest.raises(RuntimeError), swapped(tmp_path / "report"):
        raise RuntimeError("again")
    assert (tmp_path / "report/page.txt").read_text() == "old"


def test_a_part_that_is_not_made_anew_is_taken_over(tmp_path: Path) -> None:
    filled(tmp_path / "report/tables", "kept")
    with swapped(tmp_path / "report") as aside:
        kept(tmp_path / "report", aside, "tables")
        kept(tmp_path / "report", aside, "figures")  # there is none
    assert (tmp_path / "report/tables/page.txt").read_text() == "kept"
