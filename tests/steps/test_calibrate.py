"""Judges calibrated through the whole step: services on loopback that see by hash, a real run on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stillme import pipeline
from stillme.cli.render.run import render_calibration
from stillme.core.errors import IncompleteError, InputError
from stillme.core.records import CALIBRATE, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.config import Config
from stillme.plan.design import Design, load_design, make_design
from stillme.protocol import Protocol
from stillme.stats.calibration import Calibration
from stillme.stats.gate import Ruling
from stillme.steps import calibrate
from stillme.steps import judge as judging
from stillme.steps.portraits import gather
from tests.conftest import dump_audit
from tests.judges.calibration.judging import Habit, Seeing, relit

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"
RACES = ["white", "black", "indian"]
HABITS = {"honest": Habit(0.25), "sees-light": Habit(0.25, relit("black", "skin_tone"))}


def heads_of(**groups: list[str]) -> list[dict[str, Any]]:
    return [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}]


def hosted(url: str, *models: str) -> list[dict[str, Any]]:
    roles = ["primary", *["secondary"] * len(models)]
    price = {"input": 0.1, "output": 0.4}
    return [
        {
            "id": model,
            "kind": "openai",
            "role": role,
            "key_env": KEY,
            "settings": {"model": model, "base_url": url, "price": price},
        }
        for model, role in zip(models, roles, strict=False)
    ]


def planted(**settings: Any) -> list[dict[str, Any]]:
    return [{"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.3, **settings}}]


def small(**changes: Any) -> dict[str, Any]:
    """Two persons of two groups."""
    return {
        "sources": heads_of(race=["white", "black"], gender=["female"], age=["20s", "60s"]),
        "judges": planted(),
        **changes,
    }


def told(config: Config) -> Design:
    with Run.open_readonly(config.run) as seen:
        return load_design(seen)


def again(config: Config) -> Calibration | None:
    with Run.open_readonly(config.run) as seen:
        return calibrate.findings(seen, load_design(seen))


@pytest.fixture(scope="module")
def hosted_run(tmp_path_factory: pytest.TempPathFactory, protocol: Protocol) -> tuple[Config, Calibration, Seeing]:
    """An honest noisy judge and one that sees lightening in relit portraits of one group, both over HTTP."""
    folder = tmp_path_factory.mktemp("calibrated")
    server = Seeing(protocol, folder / "run", HABITS)
    with pytest.MonkeyPatch.context() as patch, server:
        patch.setenv(KEY, "sk-test-0123456789")
        wanted = {"portraits": 4, "repeats": False, "disclosure": False}
        dump_audit(
            folder / "audit.yaml",
            sources=heads_of(race=RACES),
            judges=hosted(server.url, *HABITS),
            calibrating=wanted,
        )
        loaded = config.load(folder / "audit.yaml")
        return loaded, calibrate.calibrate(loaded, Progress()), server


Hosted = tuple[Config, Calibration, Seeing]


def test_a_judge_that_sees_light_as_lightening_in_one_group_is_caught_and_named(hosted_run: Hosted) -> None:
    _, found, _ = hosted_run
    assert found.verdict("sees-light") is Ruling.FAILED
    (said,) = [one for one in found.reasons("sees-light") if "people are scored" in one]
    assert said.startswith("Skin tone change: Black people are scored +")
    assert "brighter light, dimmer light" in said
    (gap,) = [one for one in found.rulings if one.judge == "sees-light" and one.rule == "Group gap"]
    assert gap.estimate == pytest.approx(1.0, abs=0.3) and gap.group == "black"


def test_an_honest_noisy_judge_passes(hosted_run: Hosted) -> None:
    _, found, _ = hosted_run
    assert found.verdict("honest") is Ruling.PASSED, found.reasons("honest")


def test_every_pair_is_asked_about_and_paid_for_once(hosted_run: Hosted) -> None:
    loaded, found, server = hosted_run
    pairs = 12 * 14
    assert server.asked == {"honest": pairs, "sees-light": pairs}
    assert calibrate.count_calibration_calls(told(loaded)) == dict(server.asked)
    assert found.took["attempts"].to_list() == [pairs] * 2
    assert (found.took["cost_usd"] > 0).all()


def test_the_terminal_says_who_failed_and_why_in_a_hundred_columns(hosted_run: Hosted) -> None:
    said = render_calibration(hosted_run[1])
    assert max(len(line) for line in said.splitlines()) <= 100
    assert "sees-light: failed (168 calls, " in said and "honest: passed (168 calls, " in said
    assert "Black people are scored +" in " ".join(said.split())


def test_what_judges_are_asked_does_not_say_what_was_done(hosted_run: Hosted, protocol: Protocol) -> None:
    assert protocol.calibration is not None
    with Run.open_readonly(hosted_run[0].run) as seen:
        asked = [text for (text,) in seen.query("SELECT content FROM question")]
    assert len(asked) == 2 * len({"20s", "30s", "40s", "50s", "60s", "70plus"} & _ages(hosted_run[0]))
    for text in asked:
        assert protocol.calibration.asks in text
        assert not any(f"{word}_" in text for word in ("skin_lighter", "skin_darker", "relit", "swapped"))
        assert not any(kind.label in text for kind in protocol.calibration.kinds)


def _ages(loaded: Config) -> set[str]:
    """The age is told under the default preset: a question for each."""
    return {portrait.labels["age"] for portrait in calibrate.select_portraits(told(loaded))}


def test_swapped_pairs_show_the_very_same_pictures_the_other_way_round(hosted_run: Hosted) -> None:
    with Run.open_readonly(hosted_run[0].run) as seen:
        design = calibrate.calibration_design(load_design(seen))
        looks = [look for look in judging.calibration(seen, design) if look.judge == "honest" and not look.repeat]
    shown = {(look.trial.prompt, look.trial.portrait): (look.source, look.edited) for look in looks}
    for (kind, person), (source, edited) in shown.items():
        if kind == "swapped_darker_14":
            assert shown["skin_darker_14", person] == (edited, source)


# Simulated judges


def test_calibrating_again_asks_nobody_and_finds_the_same(load_audit: Load) -> None:
    loaded = load_audit(**small())
    first = calibrate.calibrate(loaded, Progress())
    with Run.open_readonly(loaded.run) as seen:
        before = seen.query("SELECT count(*) FROM attempt")
    second = calibrate.calibrate(loaded, Progress())
    with Run.open_readonly(loaded.run) as seen:
        assert seen.query("SELECT count(*) FROM attempt") == before
    assert first.rulings == second.rulings and first.kinds.equals(second.kinds)
    assert first.verdict("a") is Ruling.UNTOLD, "two people a group are not enough"
    kept = again(loaded)
    assert kept is not None and kept.rulings == first.rulings


def test_an_audit_is_the_same_whether_or_not_its_judges_were_calibrated(load_audit: Load) -> None:
    loaded = load_audit(**small(budgets={"edits": 24}))
    calibrate.calibrate(loaded, Progress())
    pipeline.run(loaded, Progress())  # 24 edits: pairs are nobody's
    now = pipeline.status(loaded.run)
    assert now["trials"] == 24 and now["edits"] == {"ok": 24} | {
        s: n for s, n in now["edits"].items() if s != "ok"
    }
    assert now["verdicts_missing"] == 0
    assert all(trial.experiment != CALIBRATE for trial in told(loaded).trials)


def test_a_spent_budget_leaves_the_rest_for_the_next_time(load_audit: Load) -> None:
    loaded = load_audit(**small(judges=planted(price_usd=0.01), budgets={"cost_usd": 0.5}))
    with pytest.raises(IncompleteError, match="verdicts missing: 1"):
        calibrate.calibrate(loaded, Progress())
    whole = load_audit(**small(judges=planted(price_usd=0.01)))
    assert calibrate.calibrate(whole, Progress()).took["cost_usd"].item() == pytest.approx(4 * 14 * 3 * 0.01)


def test_nobody_calibrated_is_no_finding(finished: Path) -> None:
    with Run.open_readonly(finished / "run") as seen:
        assert calibrate.findings(seen, load_design(seen)) is None


def test_without_a_judge_there_is_nothing_to_calibrate(load_audit: Load) -> None:
    with pytest.raises(InputError, match="no judge"):
        calibrate.calibrate(load_audit(**small(judges=[])), Progress())


def test_a_refused_look_is_counted(load_audit: Load) -> None:
    found = calibrate.calibrate(load_audit(**small(judges=planted(refused=0.3))), Progress())
    assert set(found.missing["status"]) == {Status.OK.value, Status.REFUSED.value}
    assert "refused" in render_calibration(found)


# Who is drawn


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Design]:
    folder = tmp_path_factory.mktemp("whole")

    def design(**calibrating: Any) -> Design:
        dump_audit(folder / "audit.yaml", sources=heads_of(), judges=planted(), calibrating=calibrating)
        loaded = config.load(folder / "audit.yaml")
        with Run.open_for_writing(loaded.run, loaded.protocol) as held:
            return make_design(loaded, gather(held, loaded, Progress()))

    return design


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_alike_in_gender_and_age(whole: Callable[..., Design], seed: int) -> None:
    chosen = calibrate.select_portraits(whole(portraits=4, seed=seed))
    cells = {
        race: sorted((p.labels["gender"], p.labels["age"]) for p in chosen if p.labels["race"] == race)
        for race in {p.labels["race"] for p in chosen}
    }
    assert len(chosen) == 28 and len(cells) == 7
    assert len({json.dumps(cell) for cell in cells.values()}) == 1
    (cell, *_) = cells.values()
    assert Counter(gender for gender, _ in cell) == {"male": 2, "female": 2}
    assert len({age for _, age in cell}) == 4


def test_another_seed_draws_others(whole: Callable[..., Design]) -> None:
    first, second = ({p.key for p in calibrate.select_portraits(whole(seed=seed))} for seed in (0, 1))
    assert first != second


def test_another_person_is_alike_but_for_the_group(whole: Callable[..., Design]) -> None:
    design = whole()
    people = {portrait.key: portrait for portrait in design.portraits}
    pairs = [trial for trial in calibrate.calibration_design(design).trials if trial.partner]
    assert len(pairs) == 42
    for trial in pairs:
        one, other = people[trial.portrait].labels, people[trial.partner].labels
        assert one["race"] != other["race"]
        assert (one["gender"], one["age"]) == (other["gender"], other["age"])


def test_pictures_are_made_once_for_both_ways_round(whole: Callable[..., Design]) -> None:
    pairs = calibrate.calibration_design(whole())
    assert len(pairs.trials) == 42 * 14 and len(pairs.distinct_edits()) == 42 * 12
