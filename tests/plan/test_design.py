"""Controls and measures, from the configuration through the run and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stillme import editors, judges, measures
from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.records import EditReply, JudgeReply, Status
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.pipeline import gather
from stillme.plan import config
from stillme.plan.audit import Audit
from stillme.plan.config import Config
from stillme.plan.design import Design, audit_content, load_design, make_design, plan_trials, record_design
from stillme.sources import heads
from stillme.steps import edit as editing
from stillme.steps import judge as judging
from stillme.steps.budget import Budget
from tests.scripted import ACTORS, Editor, Judge

Load = Callable[..., Config]


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (editors, judges):
        monkeypatch.setitem(part.BACKENDS, "scripted", "tests.scripted")
    for kind in measures.BACKENDS:
        monkeypatch.setitem(measures.BACKENDS, kind, "tests.scripted")


def picture(shade: int) -> EditReply:
    pixels = images.black(16)
    pixels[::2] = 200 + shade
    return EditReply(Status.OK, images.encode(pixels))


@pytest.fixture
def controlled(load_audit: Load) -> Config:
    """One portrait and prompt; an editor that makes a control itself; a judge and the instrument."""
    ACTORS["editor"] = Editor([picture(n) for n in range(5)])
    ACTORS["judge"] = Judge(lambda request: JudgeReply(Status.OK, dict.fromkeys(request.axes, 3)))
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    acting = {"actor": "editor", "controls": ["vae_round_trip"]}
    return load_audit(
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        experiments={"diagnose": {"prompts": ["O-01"]}, "controls": {}},
        editors=[{"id": "e", "kind": "scripted", "seed": 7, "settings": acting}],
        judges=[
            {"id": "instrument", "kind": "instrument"},
            {"id": "j", "kind": "scripted", "settings": {"actor": "judge"}},
        ],
        measures=[
            {"id": "skin", "kind": "skin_tone_shift"},
            {"id": "ch", "kind": "change", "settings": {"actor": "x"}},
        ],
        measuring={"share": 0.5},
        engine={"workers": 1},
    )


def carried_out(held: Run, loaded: Config) -> Design:
    design = make_design(loaded, gather(held, loaded, Progress()))
    record_design(held, design)
    purse = Budget(loaded, 0.0)
    editing.edit(held, design, Progress(), StopEvent(), purse)
    judging.judge(held, design, Progress(), StopEvent(), purse)
    return design


def test_a_design_is_read_back_as_it_was_made(controlled: Config) -> None:
    with Run.open_for_writing(controlled.run, controlled.protocol) as held:
        design = carried_out(held, controlled)
        assert held.query("SELECT count(*) FROM settings WHERE kind = 'measure'") == [(2,)]
        hashes = {row[0] for row in held.query("SELECT hash FROM settings WHERE kind = 'editor'")}
    assert hashes == {*design.editors.values(), *design.controls.values()} and len(hashes) == 3
    assert list(design.judges) == ["j"], "an instrument is not asked"
    assert design.measures["ch"] == settings_hash("measure", controlled.measures["ch"].effective)
    with Run.open_readonly(controlled.run) as seen:
        recalled = load_design(seen)
    for part in ("trials", "editors", "judges", "measures", "controls"):
        assert getattr(recalled, part) == getattr(design, part), part
    assert recalled.config.audit.measuring.share == 0.5
    assert audit_content(recalled) == audit_content(design)


def test_a_configuration_that_was_changed_in_the_ledger_is_refused(
    controlled: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run.open_for_writing(controlled.run, controlled.protocol) as held:
        record_design(held, make_design(controlled, gather(held, controlled, Progress())))
        kept = held.last_audit()
        monkeypatch.setattr(held, "last_audit", lambda: {**kept, "portraits": kept["portraits"] * 2})
        with pytest.raises(SetupError, match="a portrait is listed twice"):
            load_design(held)


def test_controls_are_made_by_whom_the_protocol_says_and_never_judged(controlled: Config) -> None:
    with Run.open_for_writing(controlled.run, controlled.protocol) as held:
        design = carried_out(held, controlled)
        ended = dict(held.query("SELECT key, status FROM edit"))
        sizes = dict(held.query("SELECT e.key, o.width FROM edit e JOIN object o ON o.sha256 = e.image"))
        assert not judging.pending_judge_tasks(held, design)
    assert {ended[trial.edit] for trial in design.trials} == {"ok"}
    asked = [(r.instruction, r.control, r.seed) for r in ACTORS["editor"].requests]  # type: ignore[attr-defined]
    assert asked[1:] == [("Return the image unchanged.", "", 7), ("[control] vae_round_trip", "vae_round_trip", 7)]
    enlarged = next(trial for trial in design.trials if trial.prompt == "upscale")
    assert sizes[enlarged.edit] == 2 * heads.SIZE
    looked = ACTORS["judge"].requests  # type: ignore[attr-defined]
    assert [r.instruction for r in looked] == [controlled.protocol.prompt["O-01"].text]


def test_an_audit_of_an_older_version_is_read_back(controlled: Config) -> None:
    """Its rows lack what came later."""
    design = make_design(controlled, [])
    kept = audit_content(design)["audit"]
    del kept["measuring"], kept["experiments"]["controls"]
    read = Audit.model_validate({**kept, "measures": [], "judges": []})
    assert read.measuring.share == 1.0 and not config.wanted_controls(read, controlled.protocol)
    assert plan_trials(replace(controlled, audit=read), [], {}) == []
