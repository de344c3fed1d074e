from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stillme import config, measures, starting


@pytest.fixture(autouse=True)
def scripted_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures that need no extra, under the names of the real ones."""
    for kind in measures.BACKENDS:
        monkeypatch.setitem(measures.BACKENDS, kind, "tests.scripted")


def able(monkeypatch: pytest.MonkeyPatch, is_able: bool) -> None:
    monkeypatch.setattr(starting, "_can_measure", lambda: is_able)


@pytest.mark.parametrize(("small", "share"), [(True, 1.0), (False, 0.15)])
def test_the_demo_measures_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool, share: float
) -> None:
    able(monkeypatch, True)
    loaded = config.load(starting.demo(tmp_path, small))
    assert loaded.audit.measuring.share == share
    assert [row.kind for row in loaded.audit.measures] == ["skin_tone_shift", "change", "identity"]
    assert [row.id for row in loaded.ranked_judges()] == ["planted-a", "planted-b", "instrument"]
    assert len(config.wanted_controls(loaded.audit, loaded.protocol)) == 4


def test_without_the_extra_the_demo_runs_all_the_same_and_says_how_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    able(monkeypatch, False)
    file = starting.demo(tmp_path / "bare", small=True)
    loaded = config.load(file)
    assert not loaded.audit.measures and loaded.audit.experiments.controls is None
    assert [row.kind for row in loaded.audit.judges] == ["planted", "planted"]
    text = file.read_text(encoding="utf-8")
    assert "pip install 'stillme[vision]'" in text
    mended = "\n".join(line.removeprefix("# ") for line in text.splitlines()[2:] if "pip install" not in line)
    able(monkeypatch, True)
    whole = starting.demo(tmp_path / "measured", small=True)
    assert mended.split() == " ".join(whole.read_text(encoding="utf-8").splitlines()[2:]).split()


def test_whether_it_can_is_asked_without_loading_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert not starting._can_measure()


def test_a_configuration_to_start_from_measures_everything(tmp_path: Path) -> None:
    starting.init(tmp_path / "audit.yaml", None)
    loaded = config.load(tmp_path / "audit.yaml")
    assert loaded.audit.measuring.share == 1.0 and len(loaded.measures) == 3
    assert loaded.audit.experiments.controls is not None
