"""Cases chosen by drift: which ones, when, how many, and once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stillme import editors, judges, pipeline
from stillme.analysis import draw
from stillme.core import images
from stillme.core.errors import IncompleteError
from stillme.core.records import DIAGNOSE, MITIGATE, EditReply, EditRequest, JudgeReply, JudgeRequest, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import draw_key, load_design
from stillme.plan.mitigation.sampling import Cell
from tests.scripted import ACTORS, Judge

Load = Callable[..., Config]
NEUTRAL = {
    "edit_success": 1,
    "skin_tone": 3,
    "race_drift": 1,
    "gender_drift": 1,
    "age_drift": 5,
    "age_accuracy": 5,
}


class Same:
    """The same instruction and seed give the same pixels."""

    def edit(self, request: EditRequest) -> EditReply:
        picture = images.black(16)
        picture[::2] = 40 + (sum(request.instruction.encode()) + request.seed) % 200
        return EditReply(Status.OK, images.encode(picture))


def seen(request: JudgeRequest, **scores: int) -> JudgeReply:
    return JudgeReply(Status.OK, {axis: scores.get(axis, NEUTRAL[axis]) for axis in request.axes})


def changed(request: JudgeRequest) -> JudgeReply:
    """The race of some changes with one prompt; edits fail and ages change everywhere, which is no drift here."""
    drifts = request.prompt == "O-01" and request.disclosed["race"] == "black"
    return seen(request, race_drift=4 if drifts else 1)


@pytest.fixture(autouse=True)
def actors(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (editors, judges):
        monkeypatch.setitem(part.BACKENDS, "scripted", "tests.scripted")
    monkeypatch.setattr(pipeline, "report", lambda held, design, progress: held.path)  # nobody reads it here
    ACTORS.update(editor=Same(), judge=Judge(changed))


def audit(load: Load, mitigate: dict[str, Any] | None = None, diagnose: dict[str, Any] | None = None) -> Config:
    """Four portraits, three prompts, two editors; two of the portraits show what drifts."""
    prompts = ["O-01", "V-02", "V-03"]
    extractor = {"kind": "planted"}
    wanted = {"sample": 100, "prompts": prompts, "extractor": extractor, **(mitigate or {})}
    made = [{"id": f"e{n}", "kind": "scripted", "settings": {"actor": "editor", "version": n}} for n in range(2)]
    return load(
        preset="paper",
        experiments={"diagnose": {"prompts": prompts, **(diagnose or {})}, "mitigate": wanted},
        editors=made,
        judges=[{"id": "j", "kind": "scripted", "settings": {"actor": "judge"}}],
    )


def drawn(config: Config) -> list[tuple[str, str, str]] | None:
    """The cases as (race, prompt, editor); None where none were drawn yet."""
    with Run.open_readonly(config.run) as held:
        design = load_design(held)
        kept = held.drawn(draw_key(design.config, design.portraits))
        race = {portrait.key: portrait.labels["race"] for portrait in design.portraits}
    return None if kept is None else [(race[portrait], prompt, editor) for portrait, prompt, editor in kept]


def trials(config: Config, experiment: str = MITIGATE) -> int:
    with Run.open_readonly(config.run) as held:
        (count,) = held.query("SELECT count(*) FROM trial WHERE experiment = ?", (experiment,))[0]
    return int(count)


def waits(config: Config) -> str:
    with Run.open_readonly(config.run) as held:
        return draw.waits(held, load_design(held))


def test_the_cases_are_those_in_which_drift_was_seen(load_audit: Load, capsys: pytest.CaptureFixture[str]) -> None:
    config = audit(load_audit)
    pipeline.run(config, Progress("plain"))
    assert drawn(config) == [("black", "O-01", "e0"), ("black", "O-01", "e1")] * 2
    assert "Drifted cases: 4 of 24, drawn 4" in capsys.readouterr().out
    assert trials(config) == 4 * 4 and waits(config) == ""


def test_no_more_are_drawn_than_asked_for_and_the_sample_stays(load_audit: Load) -> None:
    config = audit(load_audit, {"sample": 2})
    pipeline.run(config, Progress())
    first = drawn(config)
    ACTORS["judge"] = Judge(lambda request: seen(request, race_drift=5))
    pipeline.run(config, Progress())
    assert drawn(config) == first and first is not None and len(first) == 2


def test_a_sample_depends_on_its_seed_and_on_no_order() -> None:
    cells = [Cell(f"p{number}", "prompt", "editor") for number in range(40)]
    sample = draw.sample(cells, 10, seed=1)
    assert len(sample) == 10 and sample == sorted(sample, key=cells.index)
    assert set(draw.sample(cells[::-1], 10, seed=1)) == set(sample) != set(draw.sample(cells, 10, seed=2))
    assert set(sample) < set(draw.sample(cells, 20, seed=1))


def test_a_change_that_the_prompt_asks_for_is_no_drift(load_audit: Load) -> None:
    ACTORS["judge"] = Judge(seen)  # everybody seems older, which some prompts ask for
    config = audit(load_audit)
    pipeline.run(config, Progress(), [DIAGNOSE])
    with Run.open_readonly(config.run) as held:
        design = load_design(held)
        rules = config.protocol.mitigation
        assert rules is not None
        older = replace(config.protocol, mitigation=rules.model_copy(update={"drifted": ("seems_older",)}))
        found = draw.drifted(held, replace(design, config=replace(design.config, protocol=older)))
    assert {cell.prompt for cell in found} == {"O-01", "V-02"}


def test_nothing_drifted_is_kept_and_said(load_audit: Load, capsys: pytest.CaptureFixture[str]) -> None:
    ACTORS["judge"] = Judge(seen)
    config = audit(load_audit)
    pipeline.run(config, Progress("plain"))
    assert drawn(config) == [] and trials(config) == 0
    assert "Drifted cases: none of 24" in capsys.readouterr().out


def test_prompts_that_are_not_asked_again_are_not_looked_at(load_audit: Load) -> None:
    config = audit(load_audit, {"prompts": ["V-02", "V-03"]})
    pipeline.run(config, Progress())
    assert drawn(config) == []


def test_only_the_first_seed_of_a_case_is_looked_at(load_audit: Load) -> None:
    config = audit(load_audit, diagnose={"seeds": 2})
    pipeline.run(config, Progress())
    assert len(drawn(config) or ()) == 4 and trials(config, DIAGNOSE) == 48


def test_a_sample_waits_until_everything_is_judged(load_audit: Load) -> None:
    config = audit(load_audit)
    late = JudgeReply(Status.SERVER_ERROR, detail="later")
    ACTORS["judge"] = Judge(lambda request: late if request.prompt == "V-02" else changed(request))
    with pytest.raises(IncompleteError):
        pipeline.run(config, Progress())
    assert drawn(config) is None
    assert waits(config) == "drifted cases are drawn once 'diagnose' is complete, of which 8 verdicts are missing"
    ACTORS["judge"] = Judge(changed)
    pipeline.run(config, Progress())
    assert len(drawn(config) or ()) == 4


def test_it_waits_for_an_experiment_that_was_not_run(load_audit: Load) -> None:
    config = audit(load_audit)
    with pytest.raises(IncompleteError, match="24 edits are missing"):
        pipeline.run(config, Progress(), [MITIGATE])
    assert drawn(config) is None


def test_a_refused_verdict_is_no_drift_and_nothing_to_wait_for(load_audit: Load) -> None:
    refused = JudgeReply(Status.REFUSED, detail="no")
    ACTORS["judge"] = Judge(lambda request: refused if request.prompt == "V-02" else changed(request))
    config = audit(load_audit)
    pipeline.run(config, Progress())
    assert len(drawn(config) or ()) == 4


def test_a_stratified_sample_waits_for_nothing(load_audit: Load) -> None:
    config = audit(load_audit, {"select": "stratified", "sample": 3})
    pipeline.run(config, Progress())
    assert drawn(config) is None and waits(config) == "" and trials(config) == 12
