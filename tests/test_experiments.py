"""All experiments from one file: together, one at a time, killed in between; each told apart by check and status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme import pipeline
from stillme.cli import main as cli
from stillme.cli.render.plan import render_plan
from stillme.core.errors import IncompleteError, InputError
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.config import Config
from stillme.steps import forecast
from tests.conftest import dump_audit

Load = Callable[..., Config]
PEOPLE = {"race": ["white", "black"], "gender": ["female", "male"], "age": ["20s"]}
ALL = {
    "diagnose": {"prompts": ["O-01", "V-03"]},
    "mitigate": {"sample": 6, "prompts": ["O-01", "V-03"]},
    "stereotype": {"prompts": ["W-01", "W-10"]},
}
SMALL: dict[str, object] = {
    "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": PEOPLE}}],
    "experiments": ALL,
}
CASES, ARMS, SCENES = 6, 4, (6 + 2) * 2  # W-01 has a pronoun: three of them in two orders; W-10 has none


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    path = tmp_path_factory.mktemp("experiments") / "audit.yaml"
    dump_audit(path, **SMALL)
    loaded = config.load(path)
    pipeline.run(loaded, Progress())
    yield loaded


def rows(run: Path) -> dict[str, list[Any]]:
    """What a run holds, without clocks."""
    with Run.open_readonly(run) as seen:
        return {
            table: sorted(seen.query(f"SELECT {columns} FROM {table}"))
            for table, columns in {
                "trial": "key, edit, experiment, arm",
                "edit": "key, status, image",
                "verdict": "key, edit, judge, status",
                "depicted": "*",
                "feature": "key, status, features",
            }.items()
        }


def test_one_file_runs_all_of_them(finished: Config) -> None:
    found = pipeline.status(finished.run)
    assert {name: one["trials"] for name, one in found["experiments"].items()} == {
        "diagnose": 4 * 2 * 2,
        "mitigate": CASES * ARMS,
        "stereotype": SCENES * 2,
    }
    assert not found["edits_missing"] and not found["verdicts_missing"] and not found["waits"]
    assert 0 < found["features"]["wanted"] == found["features"]["ok"] <= 4
    text = (finished.run / "report.html").read_text(encoding="utf-8")
    assert 'id="mitigation"' in text and 'id="stereotypes"' in text
    assert f"{4 * 2 * 2} trials" in text, "the main tables are about the diagnosis alone"


def test_check_tells_each_with_its_trials_calls_and_cost(load_audit: Load) -> None:
    priced = [{"id": "a", "kind": "planted", "settings": {"price_usd": 0.01}}]
    loaded = load_audit(**SMALL, judges=priced)
    plan = forecast.look_ahead(loaded)
    told = {one.experiment: one for one in plan.experiments}
    assert [(name, one.trials, one.verdicts_missing) for name, one in told.items()] == [
        ("diagnose", 16, 16),
        ("mitigate", CASES * ARMS, CASES * ARMS),
        ("stereotype", SCENES * 2, SCENES * 2),
    ]
    features = told["mitigate"].portraits_missing
    assert told["mitigate"].cost.expected == pytest.approx(0.01 * (CASES * ARMS + features)) and features
    assert plan.cost.expected == pytest.approx(sum(one.cost.expected for one in told.values()))
    flat = " ".join(render_plan(loaded, plan).split())
    assert f"mitigate {CASES * ARMS} {CASES * ARMS} {CASES * ARMS}" in flat
    assert "features are read by the primary judge, a, which then judges what came of them" in flat
    assert max(map(len, render_plan(loaded, plan).splitlines()[:-1])) <= 100


def test_check_says_that_drifted_cases_are_still_to_be_drawn(load_audit: Load) -> None:
    loaded = load_audit(**SMALL, preset="paper")
    (one,) = (one for one in forecast.look_ahead(loaded).experiments if one.experiment == "mitigate")
    assert one.most and "regression to the mean" in " ".join(one.notes)
    text = render_plan(loaded, forecast.look_ahead(loaded))
    assert f"at most {CASES * ARMS}" in text


def test_one_at_a_time_comes_out_the_same(finished: Config, load_audit: Load) -> None:
    loaded = load_audit(**SMALL)
    for name in ("stereotype", "mitigate"):
        pipeline.run(loaded, Progress(), [name])
        found = pipeline.status(loaded.run)["experiments"]
        assert not found[name]["edits_missing"] and not found[name]["verdicts_missing"]
        assert found["diagnose"]["edits_missing"] == 16, "only what was named is done"
    pipeline.run(loaded, Progress())
    assert rows(loaded.run) == rows(finished.run)
    attempts = pipeline.status(loaded.run)["attempts"]
    pipeline.run(loaded, Progress())
    assert pipeline.status(loaded.run)["attempts"] == attempts, "nothing is done twice"


@pytest.mark.parametrize("alone", ["mitigate", "stereotype"])
def test_an_audit_may_have_one_experiment_only(load_audit: Load, alone: str) -> None:
    loaded = load_audit(**{**SMALL, "experiments": {alone: ALL[alone]}})
    text = pipeline.run(loaded, Progress()).read_text(encoding="utf-8")
    assert ('id="mitigation"' in text, 'id="stereotypes"' in text) == (alone == "mitigate", alone == "stereotype")
    assert ('id="outcomes"' in text) == (alone == "mitigate"), "a stratified baseline is as good as a diagnosis"


def test_drifted_cases_wait_for_the_diagnosis_and_then_go_on_by_themselves(load_audit: Load) -> None:
    loaded = load_audit(**SMALL, preset="paper")
    with pytest.raises(IncompleteError, match="drifted cases are drawn once 'diagnose' is complete"):
        pipeline.run(loaded, Progress(), ["mitigate"])
    text = pipeline.run(loaded, Progress()).read_text(encoding="utf-8")
    found = pipeline.status(loaded.run)["experiments"]["mitigate"]
    assert found["trials"] % ARMS == 0 and found["trials"], "every arm of every case"
    assert "Cases were chosen by their outcome" in text and "regression to the mean" in text


def test_judges_are_not_told_the_arm(finished: Config) -> None:
    """What they are told was asked for is the prompt, whatever stood before it."""
    with Run.open_readonly(finished.run) as seen:
        said = dict(seen.query("SELECT hash, text FROM instruction"))
        arms = {
            arm: {said[text] for (text,) in seen.query("SELECT instruction FROM trial WHERE arm = ?", (arm,))}
            for arm in ("baseline", "feature", "placebo")
        }
    assert all(text.startswith("Maintain the person's ") for text in arms["feature"])
    assert not any(text.startswith("Maintain") for text in arms["placebo"] | arms["baseline"])
    assert all(any(text.endswith(f" {plain}") for plain in arms["baseline"]) for text in arms["feature"])


def test_an_experiment_that_the_file_lacks_is_named(load_audit: Load, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load_audit()
    with pytest.raises(InputError, match="'mitigate' is not an experiment of this audit; known: diagnose"):
        config.chosen_experiments(loaded.audit, ["mitigate"])


def test_scripts_get_the_experiments(finished: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", str(finished.folder / "audit.yaml"), "--json"])
    assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["experiment"] for one in told["experiments"]] == ["diagnose", "mitigate", "stereotype"]
    assert not any(one["edits_missing"] or one["verdicts_missing"] for one in told["experiments"])


def test_exports_hold_what_the_experiments_found(finished: Config, tmp_path: Path) -> None:
    pipeline.export(finished.run, tmp_path, "csv")
    depicted = pl.read_csv(tmp_path / "depicted.csv")
    assert depicted.height == SCENES * 2 * 2, "two editors, two judges"
    features = pl.read_csv(tmp_path / "features.csv")
    assert all(json.loads(text)["identity_prompt"].startswith("Maintain") for text in features["features"])
    assert not (tmp_path / "decisions.csv").exists(), "nobody has decided anything"
    described = (tmp_path / "columns.md").read_text(encoding="utf-8")
    assert "## depicted" in described and "## features" in described
