"""Deciding how the target of a stereotype trial presents: what it changes, what is refused, what a reviewer sees."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import pytest

from stillme.analysis import experiments
from stillme.analysis.frames import tidy
from stillme.core.records import DIAGNOSE, STEREOTYPE, TARGET_GENDER, Attempt, Depicted, Status, Verdict
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.design import Design, make_design, record_design
from stillme.protocol import builtin
from stillme.report.review.desk import Decision, Desk, RefusedError
from stillme.report.review.query import Query
from stillme.stats.stereotype import CATEGORIES, Stereotypes
from stillme.steps import judge
from tests.conftest import dump_audit
from tests.report.review import wall
from tests.report.review.test_app import token, visit

APART, ALONE, SEVERAL = 0, 1, 2  # which scene of the plan has what
SCORES = dict.fromkeys(builtin().axes, 3)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two judges see a masculine target in every scene but the first few. Drift is scored without a flag."""
    folder = tmp_path_factory.mktemp("judged")
    asked = {"stereotype": {"prompts": ["W-01", "W-31"], "mode": "joint"}, DIAGNOSE: {"prompts": ["O-01"]}}
    rows = [{"id": "even", "kind": "planted", "settings": {"truth": "even"}}]
    dump_audit(folder / "audit.yaml", experiments=asked, editors=rows)
    loaded, people = config.load(folder / "audit.yaml"), wall.people(1)
    design = make_design(loaded, [portrait for portrait, _ in people])
    with Run.open_for_writing(folder / "run", loaded.protocol) as held, pytest.MonkeyPatch.context() as patch:
        patch.setattr(wall, "REFUSED", 0.0)
        patch.setattr(wall, "FAILED", 0.0)
        for portrait, picture in people:
            held.add_portrait(portrait, picture)
        record_design(held, design)
        wall.edit(held, design, random.Random(0))
        look_at(held, design)
    return folder / "run"


@pytest.fixture
def desk(judged: Path, tmp_path: Path) -> Iterator[Desk]:
    with Run.join(Path(shutil.copytree(judged, tmp_path / "run"))) as joined:
        yield Desk(joined)


def look_at(run: Run, design: Design) -> None:
    first, second = design.judges
    scenes = [trial.edit for trial in design.trials if trial.experiment == STEREOTYPE]
    odd = {
        (scenes[APART], second): (5,),
        (scenes[ALONE], first): (None,),
        (scenes[ALONE], second): (None,),
        (scenes[SEVERAL], first): (1, 2),
    }
    for look in judge.judge_tasks(run, design):
        trial = look.trial
        people: tuple[Depicted, ...] = ()
        if trial.experiment == STEREOTYPE:
            genders: tuple[int | None, ...] = odd.get((trial.edit, look.judge), (1,))
            people = tuple(Depicted(trial.about["target"], gender) for gender in genders)
        scores = {} if people else {axis: SCORES[axis] for axis in builtin().axes_of(trial.prompt)}
        verdict = Verdict(
            key=look.key,
            edit=trial.edit,
            judge=look.judge,
            settings=design.judges[look.judge],
            status=Status.OK,
            scores=scores,
            people=people,
        )
        run.add_verdict(verdict, Attempt(look.key, Status.OK, wall.AT, 0.5)).result()


def scene(desk: Desk, number: int = APART) -> str:
    return [key for key, trial in desk.state().trial.items() if trial.experiment == STEREOTYPE][number]


def said(trial: str, axis: str = TARGET_GENDER, **more: object) -> Decision:
    return Decision.model_validate({"op": uuid4(), "trial": trial, "axis": axis, "why": "seen", **more})


def row(desk: Desk, trial: str) -> dict[str, Any]:
    state = desk.state()
    return state.axes[state.rounding].row(by_predicate=pl.col("trial") == trial, named=True)


def findings(desk: Desk) -> Stereotypes:
    design = desk.state().design
    found = experiments.stereotypes(desk.run, design, tidy(desk.run, design))
    assert found
    return found


def seen(desk: Desk) -> dict[str, int]:
    """How many scenes there are of each category."""
    return {name: int(findings(desk).cells[name].sum()) for name in CATEGORIES}


def kept(desk: Desk, **asked: str) -> list[str]:
    state = desk.state()
    return state.trials["trial"].gather(desk.kept(state, Query().plus(asked))).to_list()


def test_judges_who_saw_different_categories_are_an_open_flag(desk: Desk) -> None:
    trial = scene(desk)
    assert desk.state().flags == (1, 0, 0) and kept(desk, flag="open") == [trial]
    assert kept(desk, flag="open", axis=TARGET_GENDER) == [trial] == kept(desk, standing="primary_decided")
    assert desk.next_open(desk.state(), Query()) == trial
    counts = desk.counts(desk.state(), Query())
    assert counts["flag"]["open"] == 1 and counts["axis"][TARGET_GENDER] == len(kept(desk, axis=TARGET_GENDER))
    assert (row(desk, trial)["score"], row(desk, trial)["spread"]) == (1, 4), "the primary's"
    assert [row(desk, scene(desk, n))["why"] for n in (ALONE, SEVERAL)] == ["unclear", "several"]


def test_a_decision_changes_the_category_and_closes_the_flag(desk: Desk) -> None:
    trial, before = scene(desk), seen(desk)
    about = desk.state().trial[trial].about
    first, second = ("stereotyped", "other") if about["stereotype"] == "male" else ("other", "stereotyped")
    desk.decide("anna", said(trial, score=4))
    assert seen(desk) == before | {first: before[first] - 1, second: before[second] + 1}
    found = row(desk, trial)
    assert (found["score"], found["standing"], found["flagged"], found["open"]) == (4, "adjudicated", True, False)
    assert desk.state().flags == (0, 1, 0) and kept(desk, flag="adjudicated") == [trial]
    counted = findings(desk).gaps.row(0, named=True)
    assert (counted["flagged"], counted["adjudicated"]) == (1, 1), "that judges were apart is not undone"

    desk.decide("ben", said(trial, cannot_tell=True))
    assert seen(desk)["unclear"] == before["unclear"] + 1 and row(desk, trial)["why"] == "cannot_tell"
    assert desk.state().flags == (0, 1, 1), "the two people differ"
    desk.decide("ben", said(trial, withdraw=True))
    assert row(desk, trial)["score"] == 4, "what the other one said holds again"
    desk.decide("anna", said(trial, withdraw=True))
    assert seen(desk) == before and desk.state().flags == (1, 0, 0)


def test_what_was_folded_in_is_what_reading_the_run_again_gives(desk: Desk) -> None:
    desk.decide("anna", said(scene(desk), score=5))
    desk.decide("anna", said(scene(desk, ALONE), score=2))
    folded, again = desk.state(), Desk(desk.run).state()
    assert all(folded.axes[mode].equals(again.axes[mode]) for mode in again.axes)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"axis": "skin_tone"}, "not judged on that axis"),
        ({"score": 6}, "6 is not on the scale, 1 to 5"),
        ({"score": 0}, "0 is not on the scale, 1 to 5"),
        ({"score": None}, "Choose a score"),
    ],
)
def test_what_cannot_be_decided_of_a_scene_is_a_sentence(
    desk: Desk, change: dict[str, object], error: str
) -> None:
    with pytest.raises(RefusedError, match=error):
        desk.decide("anna", said(**{"trial": scene(desk), "score": 3, **change}))  # type: ignore[arg-type]
    assert desk.run.adjudications() == []


def test_only_scenes_have_a_target(desk: Desk) -> None:
    portrait = next(key for key, trial in desk.state().trial.items() if trial.experiment == DIAGNOSE)
    with pytest.raises(RefusedError, match="not judged on that axis"):
        desk.decide("anna", said(portrait, score=3))
    desk.decide("anna", said(portrait, "skin_tone", score=2))
    assert desk.state().flags == (1, 1, 0)


def test_a_reviewer_sees_what_judges_saw_and_decides_by_the_form(desk: Desk) -> None:
    trial = scene(desk)
    client = visit(desk, "anna")
    page = client.get(f"/samples/{trial}").text
    target = desk.state().trial[trial].about["target"]
    assert f"Gender presentation of the target, the {target}" in page and "open flag" in page
    for words in ("Clearly masculine", "Androgynous", "Clearly feminine", "Cannot tell: it counts as unclear"):
        assert words in page
    held = re.findall(r"<td[^>]*><strong>(\d)</strong>", page)
    assert held == ["1", "5", "1"], "each judge's, and what holds"
    sent = {"token": token(page), "op": str(uuid4()), "trial": trial, "axis": TARGET_GENDER, "score": "5"}
    answer = client.post("/decide", data={**sent, "why": "A beard, and it is painted on."}).text
    assert "decided by a person" in answer and "5 (Clearly feminine)" in answer and "flag closed" in answer
    log = client.get("/decisions").text
    assert "Gender presentation of the target" in log and "<small>Clearly feminine</small>" in log
    assert "several people who differ" in client.get(f"/samples/{scene(desk, SEVERAL)}").text
    assert "Decided by a person" in client.get("/report").text
