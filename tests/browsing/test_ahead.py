"""Small pictures that are made while others compute: the same files as without it, and no fewer where it fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stillme import design as designs
from stillme.browsing import Ahead, Limits, ahead, browse, read
from stillme.browsing.bundle import wanted
from stillme.browsing.faces import Veil
from stillme.browsing.thumbs import Thumbs
from stillme.ledger import Run


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def small(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "thumbs").rglob("*.webp"))}


def to_its_end(begun: Ahead) -> None:
    begun._thread.join(60)
    assert not begun._thread.is_alive()


@pytest.mark.parametrize("faces", ["show", "blur"])
def test_a_head_start_makes_the_very_pictures_of_the_bundle(wall_run: Path, tmp_path: Path, faces: str) -> None:
    with Run.look(wall_run) as run:
        browse(read(run), tmp_path / "without", faces)
        with ahead(run, designs.recall(run), tmp_path / "with", faces) as begun:
            to_its_end(begun)
        before = small(tmp_path / "with")
        browse(read(run), tmp_path / "with", faces)
    assert before == small(tmp_path / "with") == small(tmp_path / "without") and len(before) > 20


def test_pictures_that_are_left_out_are_not_begun(wall_run: Path, tmp_path: Path) -> None:
    with Run.look(wall_run) as run, ahead(run, designs.recall(run), tmp_path / "none", "none") as begun:
        to_its_end(begun)
    assert not (tmp_path / "none").exists()


def test_a_run_beyond_the_limit_has_no_head_start(wall_run: Path, tmp_path: Path) -> None:
    with Run.look(wall_run) as run:
        design, few = designs.recall(run), Limits.of(3)
        with ahead(run, design, tmp_path / "few", "show", few):
            pass
        assert not (tmp_path / "few").exists()
        browse(read(run), tmp_path / "few", "show", few)
        assert len(small(tmp_path / "few")) == len(wanted(run, design, few)) < len(wanted(run, design, Limits()))


def test_nothing_is_written_once_it_was_stopped(
    wall_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Thumbs._one

    def one_and_stop(self: Thumbs, run: Run, sha256: str, people: int) -> bool:
        begun._stopped.set()
        return made(self, run, sha256, people)

    monkeypatch.setattr(Thumbs, "_one", one_and_stop)
    with Run.look(wall_run) as run:
        monkeypatch.setattr("threading.Thread.start", lambda _: None)
        begun = Ahead(run, designs.recall(run), Thumbs(tmp_path / "thumbs", Veil("show")), Limits())
        begun._make()
    assert len(small(tmp_path)) == 1


def test_where_it_fails_the_bundle_is_whole_all_the_same(
    wall_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise OSError("no space left")

    with Run.look(wall_run) as run:
        with monkeypatch.context() as patched:
            patched.setattr(Thumbs, "_one", broken)
            with ahead(run, designs.recall(run), tmp_path / "with", "show") as begun:
                to_its_end(begun)
        browse(read(run), tmp_path / "with")
        browse(read(run), tmp_path / "without")
    assert small(tmp_path / "with") == small(tmp_path / "without") != {}


def test_a_report_that_fails_leaves_nobody_writing(wall_run: Path, tmp_path: Path) -> None:
    with Run.look(wall_run) as run:
        with pytest.raises(KeyboardInterrupt), ahead(run, designs.recall(run), tmp_path / "b", "show") as begun:
            raise KeyboardInterrupt
        assert not begun._thread.is_alive()
    shutil.rmtree(tmp_path / "b", ignore_errors=True)
    assert not (tmp_path / "b").exists()


def test_one_core_has_no_time_for_a_head_start(
    wall_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with Run.look(wall_run) as run, ahead(run, designs.recall(run), tmp_path / "b", "show"):
        pass
    assert not (tmp_path / "b").exists()
