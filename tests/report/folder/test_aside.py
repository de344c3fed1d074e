"""Figures that a process of their own draws: the same files as without it, and no fewer where it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stillme.report.folder import aside
from stillme.report.folder.aside import Drawing
from stillme.report.plots import files
from stillme.report.plots.drawn import Drawn
from tests.report.plots.frames import draw


@pytest.fixture(scope="module")
def figures() -> list[Drawn]:
    return [draw("arms")]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "cores", lambda: 2)
    monkeypatch.setattr(aside, "FEWEST", 1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
def test_another_process_draws_the_same_bytes(figures: list[Drawn], tmp_path: Path) -> None:
    for figure in figures:
        files.write(figure, tmp_path / "here")
    drawing = Drawing(figures, tmp_path / "there")
    assert drawing._process is not None and drawing._process.wait() == 0, "drawn before anybody waits for it"
    drawing.end()
    assert contents(tmp_path / "there") == contents(tmp_path / "here") and len(contents(tmp_path / "here")) == 3


def test_what_a_process_leaves_undone_is_drawn_here(
    figures: list[Drawn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for interpreter in ("/bin/false", "/nowhere/python"):
        monkeypatch.setattr(sys, "executable", interpreter)
        folder = tmp_path / Path(interpreter).name
        drawing = Drawing(figures, folder)
        assert not folder.exists()
        drawing.end()
        assert len(contents(folder)) == 3


def test_nobody_draws_on_where_the_report_fails(figures: list[Drawn], tmp_path: Path) -> None:
    drawing = Drawing(figures, tmp_path / "there")
    drawing.stop()
    assert drawing._process is not None and drawing._process.poll() is not None
    drawing.stop()  # twice does no harm


def test_few_figures_are_not_worth_a_process(
    figures: list[Drawn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "FEWEST", 2)
    drawing = Drawing(figures, tmp_path / "here")
    assert drawing._process is None
    drawing.stop()
    drawing.end()
    assert len(contents(tmp_path / "here")) == 3
