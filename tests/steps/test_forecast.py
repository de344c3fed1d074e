"""What `stillme check` says before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from stillme import pipeline
from stillme.cli.render.plan import render_plan
from stillme.core import gpus
from stillme.core.gpus import Gpu
from stillme.engine.backends import ExecutionMode, Price
from stillme.engine.progress import Progress
from stillme.plan.config import Config
from stillme.steps import forecast
from stillme.steps.budget import with_max_cost
from stillme.steps.forecast import MIN_CALLS_FOR_ESTIMATE, Call, Cost, EditorForecast, JudgeForecast, look_ahead

Load = Callable[..., Config]
PRICE = Price(0.01, 0.04, 0.20, "2026-11-15")
DROPPED = {
    "seed": "OpenAI's image models take none, and whoever asks for one twice gets two different pictures of it.",
    "attention_slicing": "no component has it",
}


def with_editors(config: Config, **changes: dict[str, object]) -> Config:
    return replace(config, editors={n: replace(one, **changes.get(n, {})) for n, one in config.editors.items()})  # type: ignore[arg-type]


def of(plan: forecast.Forecast, editor: str) -> EditorForecast:
    return next(one for one in plan.ahead if one.editor == editor)


def hosted(load: Load) -> Config:
    """One service and one model in the place of the planted editors."""
    service = {"mode": ExecutionMode.REMOTE, "concurrency": 4, "seconds": 20.0, "price": PRICE, "dropped": DROPPED}
    model = {"mode": ExecutionMode.MODEL, "seconds": 60.0, "needs": {"vram_gb": 62.0}, "most_images": 4}
    return with_editors(load(), even=service, erases=model)


def test_every_editor_has_its_counts_its_time_and_its_cost(load_audit: Load) -> None:
    plan = look_ahead(hosted(load_audit))
    even, erases = of(plan, "even"), of(plan, "erases")
    assert (even.trials, even.done, even.missing) == (12, 0, 12)
    assert even.seconds == 12 * 20 / 4 and not even.measured, "four calls at a time"
    assert erases.seconds == 12 * 60, "a model makes one edit at a time"
    assert even.cost == Cost(0.12, 0.48, 2.40)
    assert erases.cost == Cost() and (even.images, erases.images) == (2, 4)
    assert plan.seconds == pytest.approx(720, abs=5), "side by side, so the slowest decides"
    assert plan.cost_usd == pytest.approx(0.48)


def test_a_plan_fits_100_columns_and_says_everything(load_audit: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "detect_gpus", lambda: (Gpu("NVIDIA A10", 24.0),))
    config = with_max_cost(hosted(load_audit), 1.0)
    text = render_plan(config, look_ahead(config))
    assert max(map(len, text.splitlines()[:-1])) <= 100
    flat = " ".join(text.split())
    for said in (
        "even 2 12 0 0 12 60 s 0.48 (0.12 to 2.40)",
        "erases 4 12 0 0 12 12 min free",
        "even: seed will have no effect: OpenAI's image models take none",
        "even: attention_slicing will have no effect: no component has it.",
        "even: prices as of 2026-11-15",
        "erases: needs about 62 GB of GPU memory; too much for this machine: NVIDIA A10 (24 GB).",
        "guesses until 5 calls of an editor or a judge are done",
        "Expected for what is missing: 0.48 USD (0.12 to 2.40), about 12 min.",
        "Budget: 1.00 USD, 0.00 spent, 1.00 left: enough for what is expected, not for the highest prices.",
    ):
        assert said in flat, said


@pytest.mark.parametrize(
    ("cards", "said"),
    [
        ((), "no NVIDIA card is to be seen on this machine"),
        (None, "which cards it will meet is not known here"),
        ((Gpu("NVIDIA H100", 80.0), Gpu("NVIDIA A10", 24.0)), "this machine has: NVIDIA H100 (80 GB), NVIDIA A10"),
    ],
)
def test_memory_is_set_beside_what_is_there(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch, cards: tuple[Gpu, ...] | None, said: str
) -> None:
    monkeypatch.setattr(gpus, "detect_gpus", lambda: cards)
    config = hosted(load_audit)
    assert said in " ".join(render_plan(config, look_ahead(config)).split())


def test_an_unknown_price_is_not_called_free(load_audit: Load) -> None:
    config = with_editors(load_audit(), even={"mode": ExecutionMode.REMOTE})
    plan = look_ahead(config)
    assert not of(plan, "even").cost.known and not plan.cost.known
    text = render_plan(config, plan)
    assert "no price known" in text and "0.00 USD and what has no known price" in text


def test_after_a_few_calls_the_runs_own_pace_counts_of_editors_and_judges(load_audit: Load) -> None:
    config = load_audit(budgets={"edits": 14})
    with pytest.raises(Exception, match="the edit budget is reached"):
        pipeline.run(config, Progress())
    plan = look_ahead(with_editors(config, even={"seconds": 1e6}, erases={"seconds": 1e6}))
    even = of(plan, "even")
    assert even.measured and even.done >= MIN_CALLS_FOR_ESTIMATE and even.seconds_a_call < 100
    assert "are those of this run's own calls" in render_plan(config, plan)
    for one in look_ahead(config).judges:
        assert 0 < one.done <= 14 and one.done + one.missing <= 24, "what is judged is not ahead any more"
        assert one.measured and one.seconds_a_call < 100


def test_calls_that_overlapped_count_as_such_and_pauses_do_not() -> None:
    busy = [Call(second / 4, 1.0) for second in range(400)]
    later = [Call(10_000 + call.start, call.seconds) for call in busy]
    assert forecast.overlap(busy) == pytest.approx(4, rel=0.02)
    assert forecast.overlap([*busy, *later]) == pytest.approx(4, rel=0.02)
    assert forecast.overlap([Call(0, 5), Call(100, 5)]) == 1


def test_scripts_get_everything(load_audit: Load) -> None:
    plan = json.loads(json.dumps(asdict(look_ahead(hosted(load_audit)))))
    one = plan["ahead"][0]
    assert one["editor"] == "even" and one["dropped"] == DROPPED and one["price_date"] == "2026-11-15"
    assert one["cost"] == {"low": 0.12, "expected": 0.48, "high": 2.4, "known": True}
    assert plan["ahead"][1]["vram_gb"] == 62.0 and plan["ahead"][1]["images"] == 4


def test_cards_are_read_from_what_nvidia_smi_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.detect_gpus() == ()
    program.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559'\necho 'NVIDIA A10, 23028'\n")
    program.chmod(0o755)
    assert gpus.detect_gpus() == (Gpu("NVIDIA H100 80GB HBM3", 79.6), Gpu("NVIDIA A10", 22.5))
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert gpus.detect_gpus() is None


# Judges


def judged(load: Load, **changes: object) -> Config:
    """Two services in the place of the simulated judges: one asked live, one in batches. Edits are made for nothing."""
    config = load(judging={"repeats": 0.25}, **changes)
    service = {"mode": ExecutionMode.REMOTE, "concurrency": 4, "seconds": 8.0, "price": PRICE}
    batch = {
        "batch_wait_s": 3600.0,
        "dropped": {"temperature": "the model takes none"},
        "caveats": ("Pins nothing.",),
    }
    more: dict[str, dict[str, object]] = {"a": service, "b": {**service, **batch}}
    changed = {name: replace(one, **more[name]) for name, one in config.judges.items()}  # type: ignore[arg-type]
    return replace(config, judges=changed)


def judge(plan: forecast.Forecast, name: str) -> JudgeForecast:
    return next(one for one in plan.judges if one.judge == name)


def test_every_judge_has_its_looks_its_time_and_its_cost(load_audit: Load) -> None:
    plan = look_ahead(judged(load_audit))
    live, batch = judge(plan, "a"), judge(plan, "b")
    assert (live.done, live.missing, live.repeats_missing, live.calls) == (0, 24, 6, 30)
    assert live.seconds == 30 * 8 / 4 and live.batch_wait_s is None
    assert batch.seconds == 0 and batch.batch_wait_s == 3600, "nobody knows how long a batch takes"
    assert live.cost == batch.cost == Cost(0.30, 1.20, 6.00)
    assert plan.cost == Cost(0.60, 2.40, 12.00) and plan.seconds == pytest.approx(60, abs=1)
    assert (plan.verdicts_missing, plan.repeats_missing) == (48, 12), "second looks are counted apart"


def test_a_plan_tells_of_judges_what_a_newcomer_needs(load_audit: Load) -> None:
    config = judged(load_audit)
    text = render_plan(config, look_ahead(config))
    assert max(map(len, text.splitlines()[:-1])) <= 100
    flat = " ".join(text.split())
    for said in (
        "second looks 0 12",
        "a live 0 24 6 60 s 1.20 (0.30 to 6.00)",
        "b batch 0 24 6 – 1.20 (0.30 to 6.00)",
        "a: prices as of 2026-11-15",
        "b: temperature will have no effect: the model takes none.",
        "b: Pins nothing.",
        "b: asked in batches; a run waits at most 60 min, and the next one fetches what is left.",
        "They are in no score; the share is set under judging: repeats.",
        "about 60 s and the time that batches take.",
    ):
        assert said in flat, said


def test_judges_on_this_machine_have_no_columns_of_services(load_audit: Load) -> None:
    config = load_audit()
    text = render_plan(config, look_ahead(config))
    assert "judge done missing time cost in USD a 0 24" in " ".join(text.split()) and "second look" not in text


def test_scripts_get_the_judges_too(load_audit: Load) -> None:
    plan = json.loads(json.dumps(asdict(look_ahead(judged(load_audit)))))
    assert [one["judge"] for one in plan["judges"]] == ["a", "b"]
    assert plan["judges"][1]["dropped"] == {"temperature": "the model takes none"}
    assert plan["judges"][1]["price_date"] == "2026-11-15" and plan["judges"][0]["calls"] == 30


def test_judges_with_equal_settings_are_paid_for_once(load_audit: Load) -> None:
    config = load_audit()
    twin = replace(config, judges=dict.fromkeys(config.judges, replace(config.judges["a"], price_usd=0.1)))
    plan = look_ahead(twin)
    assert plan.verdicts_missing == 24 and plan.cost.expected == pytest.approx(2.4)
