"""The stereotype experiment from portraits to tables: planted editors whose rule is known, simulated judges, HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from bench.judges.server import serving

from stillme import pipeline
from stillme.analysis.tables import analyse
from stillme.analysis.tables.inputs import Asked
from stillme.engine.progress import Progress
from stillme.ledger import Run, frames
from stillme.ledger.frames import COLUMNS
from stillme.plan import config
from stillme.plan.config import Config
from stillme.plan.design import load_design
from stillme.protocol import builtin
from stillme.stats.stereotype import ALL, CATEGORIES, POSITION, PRONOUN, Stereotypes, stereotype_findings
from stillme.steps import judge as judging
from tests.conftest import dump_audit

PROMPTS = ["W-01", "W-02", "W-10", "W-13", "W-23", "W-26", "W-29", "W-30", "W-31", "W-41", "W-46", "W-50"]
PEOPLE = {"race": ["white", "black", "indian"], "gender": ["female", "male"], "age": ["30s"]}
RULES: dict[str, Any] = {"position": "position", "pronoun": "pronoun", "biased": {"stereotype": 0.8}}
KEY = "STILLME_TEST_KEY"


def editor(name: str, rule: Any) -> dict[str, Any]:
    even = {"otherwise": {}, "refused": {"base": 0.0}, "corrupt": {"base": 0.0}, "effects": []}
    truth = {"id": name, "label": name, "description": f"Assigns by {name}.", "assigns": rule, **even}
    return {"id": name, "kind": "planted", "settings": {"truth": truth}}


def audit(**changes: Any) -> dict[str, Any]:
    asked = {"mode": "joint", "prompts": PROMPTS, "counterbalanced": True}
    return {
        "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": PEOPLE}}],
        "experiments": {"stereotype": asked},
        "editors": [editor(name, rule) for name, rule in RULES.items()],
        **changes,
    }


def depicted(settled: Config) -> pl.DataFrame:
    with Run.open_readonly(settled.run) as run:
        design = load_design(run)
        edits = frames.edits(run, design.config.protocol, design.trials, design.portraits)
        looks = [(look.key, look.trial.edit, look.judge) for look in judging.judge_tasks(run, design)]
        return frames.depicted(run, design.trials, edits, list(design.judges), looks)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    path = tmp_path_factory.mktemp("joint") / "audit.yaml"
    dump_audit(path, **audit())
    settled = config.load(path)
    pipeline.run(settled, Progress())
    yield settled


@pytest.fixture(scope="module")
def tables(joint: Config) -> Stereotypes:
    return stereotype_findings(depicted(joint), builtin())


def of(frame: pl.DataFrame, editor: str, **equal: str) -> dict[str, Any]:
    (row,) = frame.filter(editor=editor, **equal).to_dicts()
    return row


@pytest.mark.parametrize(("name", "followed"), [("position", POSITION), ("pronoun", PRONOUN)])
def test_following_position_or_pronoun_is_one_raw_and_no_gap(
    tables: Stereotypes, name: str, followed: str
) -> None:
    raw, gap = of(tables.adherence, name, sentences=ALL), of(tables.gaps, name, sentences=ALL)
    assert raw["rate"] == 1.0 and raw["clear"] >= 10 and raw["p"] < 0.01
    assert abs(gap["gap"]) < 0.05 and gap["low"] < 0 < gap["high"]
    assert gap["high"] - gap["low"] < (0.6 if gap["gap"] == 0 else 0.2), "wide only where no sentence differs"
    assert of(tables.effects, name, effect=followed)["difference"] > 0.9


def test_a_planted_stereotype_is_recovered(tables: Stereotypes) -> None:
    gap = of(tables.gaps, "biased", sentences=ALL)
    assert gap["low"] <= 0.6 <= gap["high"] and gap["low"] > 0.3 and gap["p_holm"] < 0.001
    assert all(abs(of(tables.effects, "biased", effect=name)["difference"]) < 0.2 for name in (POSITION, PRONOUN))


def test_every_cell_is_asked_of_every_editor_once(joint: Config, tables: Stereotypes) -> None:
    spoken = sum(builtin().pair[name].pronoun is not None for name in PROMPTS)
    each = spoken * 12 + (len(PROMPTS) - spoken) * 4
    assert (
        tables.balanced
        and tables.cells.group_by("editor").agg(pl.col("asked").sum())["asked"].to_list() == [each] * 3
    )
    assert pipeline.status(joint.run)["edits"] == {"ok": 3 * each}, "the published cell is one of them"


def test_what_cannot_be_told_stays_unclear(joint: Config, tables: Stereotypes) -> None:
    seen = depicted(joint)
    assert set(seen.columns) <= set(COLUMNS), "every column is described"
    unsure = seen.filter(pl.col("unclear") > 0)
    assert 0 < unsure.height < 0.06 * seen.filter(status="ok").height
    assert unsure["lowest"].null_count() == unsure.height, "and is no 3"
    assert tables.gaps.filter(sentences=ALL)["unclear"].sum() > 0
    assert 0.05 < seen.filter(judge="b", status="refused").height / seen.filter(judge="b").height < 0.2


def test_a_second_run_does_nothing(joint: Config) -> None:
    before = pipeline.status(joint.run)
    pipeline.run(joint, Progress())
    assert pipeline.status(joint.run) == before


def test_occupations_alone_are_analysed(joint: Config, tmp_path: Path) -> None:
    found = analyse(Asked(joint.run), to=tmp_path / "analysis")
    by_id = {table.id: table.frame for table in found.tables}
    assert by_id["stereotype_adherence"].height and "disparity_by_race" not in by_id
    assert "How often the stereotype is followed" in found.words() and found.page.is_file()


def test_services_are_asked_about_people_in_both_wire_formats(
    load_audit: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "k")
    asked = {"mode": "separate", "prompts": PROMPTS[:6], "counterbalanced": False}
    with serving() as server:
        openai = {"service": "other", "model": "vlm", "base_url": server.openai_url}
        gemini = {"model": "gemini-3-flash-preview", "base_url": server.gemini_url}
        rows = [
            {"id": "g", "kind": "gemini", "role": "primary", "key_env": KEY, "settings": gemini},
            {"id": "o", "kind": "openai", "role": "secondary", "settings": openai},
        ]
        one = {"editors": [editor("position", "position")], "judges": rows, "judging": {"repeats": 0}}
        settled = load_audit(**audit(experiments={"stereotype": asked}, **one))
        pipeline.run(settled, Progress())
        calls = server.journal("call")
    seen = depicted(settled)
    assert seen.height == len(calls) == 2 * 12 and set(seen["status"]) == {"ok"}
    assert {call["provider"] for call in calls} == {"openai", "gemini"}
    assert set(seen["people"]) == {1, 2, 3} and 0 in set(seen["in_role"])
    found = stereotype_findings(seen, builtin())
    counts = found.adherence.filter(sentences=ALL)
    assert counts["judged"].sum() == 12 == sum(counts[name].sum() for name in CATEGORIES)
    assert not found.balanced and counts["absent"].sum() > 0 and counts["flagged"].sum() > 0


def test_in_separate_mode_a_kept_person_is_no_stereotype(load_audit: Callable[..., Config]) -> None:
    asked = {"mode": "separate", "prompts": PROMPTS[:4], "counterbalanced": True}
    settled = load_audit(
        **audit(
            experiments={"stereotype": asked},
            editors=[editor("keeps", "preserve"), editor("bends", {"stereotype": 1.0})],
        )
    )
    pipeline.run(settled, Progress())
    found = stereotype_findings(depicted(settled), builtin())
    kept, bent = (of(found.adherence, name, sentences=ALL) for name in ("keeps", "bends"))
    assert 0.4 <= kept["rate"] <= 0.6 and bent["rate"] == 1.0
    flipped = {(row["editor"], row["congruent"]): row["rate"] for row in found.flips.to_dicts()}
    assert flipped == {("keeps", True): 0, ("keeps", False): 0, ("bends", True): 0, ("bends", False): 1}


def test_an_audit_of_occupations_alone_has_its_figures(joint: Config) -> None:
    page = pipeline.rebuild_report(joint.run, Progress(), only=["html"]).read_text(encoding="utf-8")
    for name in ("drawn-stereotypes", "drawn-cues", "drawn-occupations"):
        assert f'<figure id="{name}" class="drawn">' in page
    assert "Adherence as published, position (simulated): 100.0" in page
