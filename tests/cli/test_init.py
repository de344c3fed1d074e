from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from stillme import measures
from stillme.assurance import gate
from stillme.cli import init
from stillme.cli.doctor import check_audit, checks
from stillme.core.errors import InputError
from stillme.plan import config
from stillme.steps import forecast


@pytest.fixture(autouse=True)
def scripted_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures that need no extra, under the names of the real ones."""
    for kind in measures.BACKENDS:
        monkeypatch.setitem(measures.BACKENDS, kind, "tests.scripted")


def able(monkeypatch: pytest.MonkeyPatch, is_able: bool) -> None:
    monkeypatch.setattr(init, "_can_measure", lambda: is_able)


@pytest.mark.parametrize(("small", "share"), [(True, 1.0), (False, 0.15)])
def test_the_demo_measures_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool, share: float
) -> None:
    able(monkeypatch, True)
    loaded = config.load(init.demo(tmp_path, small))
    assert loaded.audit.measuring.share == share
    assert [row.kind for row in loaded.audit.measures] == ["skin_tone_shift", "change", "identity"]
    assert [row.id for row in loaded.ranked_judges()] == ["planted-a", "planted-b", "instrument"]
    assert len(config.wanted_controls(loaded.audit, loaded.protocol)) == 4


def test_without_the_extra_the_demo_runs_all_the_same_and_says_how_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    able(monkeypatch, False)
    file = init.demo(tmp_path / "bare", small=True)
    loaded = config.load(file)
    assert not loaded.audit.measures and loaded.audit.experiments.controls is None
    assert [row.kind for row in loaded.audit.judges] == ["planted", "planted"]
    text = file.read_text(encoding="utf-8")
    assert "pip install 'stillme[vision]'" in text
    mended = "\n".join(line.removeprefix("# ") for line in text.splitlines()[2:] if "pip install" not in line)
    able(monkeypatch, True)
    whole = init.demo(tmp_path / "measured", small=True)
    assert mended.split() == " ".join(whole.read_text(encoding="utf-8").splitlines()[2:]).split()


def test_whether_it_can_is_asked_without_loading_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert not init._can_measure()


def test_a_configuration_to_start_from_measures_everything(tmp_path: Path) -> None:
    init.init(tmp_path / "audit.yaml", None)
    loaded = config.load(tmp_path / "audit.yaml")
    assert loaded.audit.measuring.share == 1.0 and len(loaded.measures) == 3
    assert loaded.audit.experiments.controls is not None


@pytest.mark.parametrize("name", ["my audit", "prüfung", "2024", "null", "1.5", ".hidden", "v1: x", "a #b", "é"])
def test_whatever_the_file_is_called_the_audit_in_it_is_valid(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.yaml"
    init.init(file, tmp_path / f"protocol {name}")
    loaded = config.load(file)
    assert loaded.audit.protocol == f"./protocol {name}" and loaded.run.parent == tmp_path / "runs"


# For what people come to do


@pytest.mark.parametrize("journey", init.STARTS)
def test_every_journey_starts_with_a_valid_audit_that_lacks_keys_extras_or_a_card_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journey: str
) -> None:
    for variable in checks().keys:
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "audit.yaml"
    written = init.init(file, None, journey)
    config.load(file)
    lacks = check_audit(file, ()).lacks
    assert all(re.search("extra|which is not set|graphics card", lack.what) for lack in lacks)
    assert bool(lacks) == (journey in ("diffusers", "hosted", "release"))
    text = file.read_text(encoding="utf-8")
    assert all(f"docs/{page}" in text for page in PAGES[journey])
    assert all((Path(__file__).parents[2] / "docs" / page).is_file() for page in PAGES[journey])
    assert written == [file, *([tmp_path / "policy.yaml"] if journey == "release" else [])]


PAGES = {
    "demo": (),
    "diffusers": ("open-editors.md", "judges.md"),
    "hosted": ("hosted-editors.md",),
    "raters": ("study.md",),
    "release": ("gate.md", "compare.md"),
}


def test_the_hosted_start_is_small_and_stops_at_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    init.init(tmp_path / "audit.yaml", None, "hosted")
    plan = forecast.look_ahead(config.load(tmp_path / "audit.yaml"))
    assert plan.trials == 18 and plan.budget_usd == 25 and 0 < plan.cost.high < plan.budget_usd


def test_the_policy_of_a_release_is_one(tmp_path: Path, finished: Path) -> None:
    init.init(tmp_path / "audit.yaml", None, "release")
    assert gate.gate(finished / "run", tmp_path / "policy.yaml").results


def test_the_commands_in_the_comments_name_the_files_that_were_written(tmp_path: Path) -> None:
    init.init(tmp_path / "mine.yaml", None, "release")
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert f"stillme gate {tmp_path / 'runs/mine'} {tmp_path / 'policy.yaml'}" in text and "run: runs/mine" in text


@pytest.mark.parametrize("there", ["audit.yaml", "policy.yaml"])
def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists already"):
        init.init(tmp_path / "audit.yaml", None, "release")
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text(encoding="utf-8") == "mine"


def test_another_word_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="'prolific' is not a way to start; known: demo, diffusers, hosted, raters"
    ):
        init.init(tmp_path / "audit.yaml", None, "prolific")
    assert not list(tmp_path.iterdir())
