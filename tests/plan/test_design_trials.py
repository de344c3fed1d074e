from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from stillme.core.errors import InputError
from stillme.core.records import DIAGNOSE, STEREOTYPE, Feature, Portrait, Status, Trial
from stillme.plan.config import Config
from stillme.plan.design import (
    PlanInputs,
    check_arms,
    mitigation_cases,
    plan_trials,
    trials_to_measure,
    with_placeholders,
)
from stillme.plan.mitigation import sentences
from stillme.plan.mitigation.sampling import Cell
from stillme.protocol import Protocol
from stillme.protocol.schema import PUBLISHED

Load = Callable[..., Config]
EDITORS = [
    {"id": name, "kind": "planted", "settings": {"truth": "even", "draw": n}} for n, name in enumerate("xyz")
]


def people(protocol: Protocol) -> list[Portrait]:
    grid = protocol.groups
    return [
        Portrait.of("s", f"{r}-{g}-{a}", f"image {r} {g} {a}", {"race": r, "gender": g, "age": a})
        for r in grid.ids("race")
        for g in grid.ids("gender")
        for a in grid.ids("age")
    ]


def test_the_papers_design_has_5040_trials(load_audit: Load, protocol: Protocol) -> None:
    config = load_audit(editors=EDITORS, experiments={"diagnose": {"prompts": "all"}})
    trials = plan_trials(config, people(protocol), {name: name for name in "xyz"})
    assert len(trials) == 84 * 20 * 3 == 5040
    assert len({trial.key for trial in trials}) == len({trial.edit for trial in trials}) == 5040


def test_the_order_is_the_same_every_time_and_follows_the_protocol(load_audit: Load, protocol: Protocol) -> None:
    config = load_audit(editors=EDITORS, experiments={"diagnose": {"prompts": ["V-02", "O-01"], "seeds": 2}})
    first = plan_trials(config, people(protocol), {name: name for name in "xyz"})
    again = plan_trials(config, people(protocol), {name: name for name in "xyz"})
    assert first == again
    assert [(t.prompt, t.editor, t.seed) for t in first[:7]] == [
        ("O-01", "x", 0),
        ("O-01", "x", 1),
        ("O-01", "y", 0),
        ("O-01", "y", 1),
        ("O-01", "z", 0),
        ("O-01", "z", 1),
        ("V-02", "x", 0),
    ]


def test_arms_move_the_seed(load_audit: Load, protocol: Protocol) -> None:
    config = load_audit(experiments={"diagnose": {"prompts": ["O-01"], "arms": ["reseed", "baseline"]}})
    trials = plan_trials(config, people(protocol)[:1], {"even": "h", "erases": "i"})
    assert [(t.arm, t.seed) for t in trials if t.editor == "even"] == [("baseline", 0), ("reseed", 1000)]


def test_two_editors_with_the_same_settings_share_their_edits(load_audit: Load, protocol: Protocol) -> None:
    trials = plan_trials(load_audit(), people(protocol)[:1], {"even": "h", "erases": "h"})
    edits = {name: [t.edit for t in trials if t.editor == name] for name in ("even", "erases")}
    assert edits["even"] == edits["erases"] and len(edits["even"]) == 3
    assert len({t.key for t in trials}) == 6


CONTROLLED = {"diagnose": {"prompts": ["O-01", "V-02"], "seeds": 2}, "controls": {}}
HASHES = {name: f"hash of {name}" for name in ("x", "y", "z", "re_encode", "upscale")}


def controlled(load: Callable[..., Config], protocol: Protocol, **changes: object) -> list[Trial]:
    rows = [{**row, "seed": n} for n, row in enumerate(EDITORS)]
    config = load(**{"editors": rows, "experiments": CONTROLLED, **changes})
    able = {n: replace(one, controls=one.controls if n == "y" else ()) for n, one in config.editors.items()}
    config = replace(config, editors=able)
    return plan_trials(config, people(protocol), HASHES)


def test_controls_come_after_the_prompts_portrait_by_portrait(load_audit: Load, protocol: Protocol) -> None:
    trials = controlled(load_audit, protocol)
    first = trials.index(next(t for t in trials if t.is_control))
    assert {t.experiment for t in trials[:first]} == {DIAGNOSE} and first == 84 * 2 * 3 * 2
    assert all(t.is_control for t in trials[first:]) and len(trials) - first == 84 * (3 + 2 + 1)
    assert [(t.prompt, t.editor, t.seed, t.arm, t.instruction) for t in trials[first : first + 6]] == [
        ("no_op", "x", 0, "baseline", "Return the image unchanged."),
        ("no_op", "y", 1, "baseline", "Return the image unchanged."),
        ("no_op", "z", 2, "baseline", "Return the image unchanged."),
        ("re_encode", "re_encode", 0, "baseline", "[control] re_encode"),
        ("upscale", "upscale", 0, "baseline", "[control] upscale"),
        ("vae_round_trip", "y", 1, "baseline", "[control] vae_round_trip"),
    ]
    assert len({t.portrait for t in trials[first : first + 6]}) == 1
    assert len({t.edit for t in trials}) == len(trials), "no control shares its edit with anything else"


def test_only_the_controls_asked_for(load_audit: Load, protocol: Protocol) -> None:
    for kinds, number in ((["upscale"], 1), (["no_op", "vae_round_trip"], 4), ([], 0)):
        wanted = {"diagnose": {"prompts": []}, "controls": {"kinds": kinds}}
        assert len(controlled(load_audit, protocol, experiments=wanted)) == 84 * number


def chosen(trials: list[Trial]) -> set[tuple[str, str]]:
    return {(t.prompt, t.portrait) for t in trials if not t.is_control}


def test_a_share_is_balanced_and_the_same_for_every_editor_and_seed(load_audit: Load, protocol: Protocol) -> None:
    trials, persons = controlled(load_audit, protocol), people(protocol)
    kept = trials_to_measure(trials, persons, protocol, 0.25)
    race = {p.key: p.labels["race"] for p in persons}
    counts = Counter((prompt, race[person]) for prompt, person in chosen(kept))
    assert len(counts) == 2 * 7 and set(counts.values()) == {3}
    real = [t for t in kept if t.experiment == DIAGNOSE]
    assert len(real) == len(chosen(kept)) * 3 * 2, "all editors and seeds of a pair"
    assert sum(t.is_control for t in kept) == 84 * 6, "every control"
    places = {t.key: n for n, t in enumerate(trials)}
    assert [places[t.key] for t in kept] == sorted(places[t.key] for t in kept)
    assert chosen(kept) != {("O-01", p) for _, p in chosen(kept)} | {("V-02", p) for _, p in chosen(kept)}, (
        "each prompt has persons of its own"
    )


def test_a_larger_share_contains_a_smaller_one(load_audit: Load, protocol: Protocol) -> None:
    trials, persons = controlled(load_audit, protocol), people(protocol)
    shares = [trials_to_measure(trials, persons, protocol, share) for share in (1e-6, 0.1, 0.25, 0.5, 0.9, 1.0)]
    sizes = [len(chosen(kept)) // (2 * 7) for kept in shares]
    assert sizes == [1, 2, 3, 6, 11, 12]
    assert all(chosen(one) <= chosen(more) for one, more in pairwise(shares))
    assert shares[-1] == trials
    shuffled = trials_to_measure(trials[::-1], persons[::-1], protocol, 0.25)
    assert chosen(shuffled) == chosen(shares[2]), "the order of things does not matter"


def test_arms_with_different_settings_are_refused(load_audit: Load, protocol: Protocol) -> None:
    """A difference between them would say nothing about the arm."""
    wanted = {"mitigate": {"sample": 8, "arms": ["baseline", "reseed"]}}
    trials = plan_trials(load_audit(experiments=wanted), people(protocol), {"even": "h" * 64, "erases": "i" * 64})
    check_arms(trials)
    assert {trial.seed for trial in trials} == {2000, 3000}, "edited anew, each arm with its own seed"
    other = [replace(t, settings="j" * 64) if t.arm == "reseed" else t for t in trials]
    with pytest.raises(InputError, match=r"different settings \((h|i){12} and j{12}\)"):
        check_arms(other)


# The mitigation experiment: what is not known yet is not planned yet

SENTENCE = "Maintain the person's brown eyes and round face."
WHOLE = {"mitigate": {"sample": 8, "prompts": ["O-01", "V-02"], "seed": 3}}
DRIFTED = {"mitigate": {**WHOLE["mitigate"], "select": "drifted"}, "diagnose": {"prompts": []}}
TWO = {"even": "h" * 64, "erases": "i" * 64}


def read(portrait: Portrait, status: Status = Status.OK) -> Feature:
    said = {sentences.SENTENCE: SENTENCE} if status is Status.OK else {}
    return Feature(f"read off {portrait.image}", portrait.image, "", status, said)


def test_an_arm_that_needs_features_waits_for_them_case_by_case(load_audit: Load, protocol: Protocol) -> None:
    config, persons = load_audit(experiments=WHOLE), people(protocol)
    cases = mitigation_cases(config, persons, PlanInputs())
    assert cases is not None and len(cases) == 8
    first, second = (next(p for p in persons if p.key == cell.portrait) for cell in cases[:2])
    known = PlanInputs({first.image: read(first), second.image: read(second, Status.REFUSED)})
    trials = plan_trials(config, persons, TWO, known)
    arms = {cell: [t for t in trials if (t.portrait, t.prompt, t.editor) == cell] for cell in cases}
    assert [t.arm for t in arms[cases[0]]] == ["baseline", "reseed", "feature", "placebo"]
    assert all([t.arm for t in arms[cell]] == ["baseline", "reseed"] for cell in cases[1:]), (
        "a refused reading is no reading, and the arms that need none do not wait"
    )
    alone, _, kept, neutral = (t.instruction for t in arms[cases[0]])
    assert kept == f"{SENTENCE} {alone}"
    assert neutral.endswith(f" {alone}") and SENTENCE not in neutral
    assert len(neutral.split()) == len(kept.split())


def test_cases_chosen_by_their_outcome_wait_for_it(load_audit: Load, protocol: Protocol) -> None:
    config, persons = load_audit(experiments=DRIFTED), people(protocol)
    assert mitigation_cases(config, persons, PlanInputs()) is None
    assert plan_trials(config, persons, TWO) == []
    drawn = [Cell(persons[5].key, "V-02", "erases")]
    trials = plan_trials(config, persons, TWO, PlanInputs(drifted=drawn))
    assert {(t.portrait, t.prompt, t.editor) for t in trials} == set(drawn)
    assert {t.arm: t.seed for t in trials} == {"baseline": 0, "reseed": 1000}, "the seed that drift was seen with"


def test_what_is_to_come_is_counted_before_it_is_known(load_audit: Load, protocol: Protocol) -> None:
    persons = people(protocol)
    for wanted in (WHOLE, DRIFTED):
        config = load_audit(experiments=wanted)
        trials = plan_trials(config, persons, TWO, with_placeholders(config, persons, PlanInputs()))
        assert Counter(t.arm for t in trials) == dict.fromkeys(("baseline", "reseed", "feature", "placebo"), 8)


def test_nothing_known_is_supposed_anew(load_audit: Load, protocol: Protocol) -> None:
    persons = people(protocol)
    known = PlanInputs({persons[0].image: read(persons[0])}, [Cell(persons[0].key, "O-01", "even")])
    supposed = with_placeholders(load_audit(experiments=DRIFTED), persons, known)
    assert supposed.features[persons[0].image] is known.features[persons[0].image]
    assert supposed.drifted is known.drifted and len(supposed.features) == len(persons)


def test_without_the_experiment_nothing_is_drawn_or_supposed(load_audit: Load, protocol: Protocol) -> None:
    config, persons, known = load_audit(), people(protocol), PlanInputs()
    assert mitigation_cases(config, persons, known) == []
    assert with_placeholders(config, persons, known) is known
    check_arms(plan_trials(config, persons[:1], {"even": "h", "erases": "i"}))


# The stereotype experiment


def test_a_scene_is_asked_of_every_editor_alike(load_audit: Load, protocol: Protocol) -> None:
    rows = [{**row, "seed": n} for n, row in enumerate(EDITORS)]
    wanted = {"stereotype": {"prompts": ["W-10", "W-01"], "mode": "joint", "counterbalanced": False}}
    config = load_audit(editors=rows, experiments=wanted)
    trials = plan_trials(config, people(protocol), {name: f"hash of {name}" for name in "xyz"})
    assert [(t.prompt, t.editor, t.seed, t.settings) for t in trials] == [
        (prompt, name, n, f"hash of {name}") for prompt in ("W-01", "W-10") for n, name in enumerate("xyz")
    ]
    for prompt in ("W-01", "W-10"):
        own = [t for t in trials if t.prompt == prompt]
        assert len({(t.portrait, t.partner, t.instruction, t.arm) for t in own}) == 1
        assert own[0].instruction == protocol.pair[prompt].text and own[0].arm == PUBLISHED
        assert own[0].about["target"] == protocol.pair[prompt].target and own[0].partner
    assert {t.experiment for t in trials} == {STEREOTYPE}


def test_scenes_of_two_are_not_measured(load_audit: Load, protocol: Protocol) -> None:
    wanted = {"stereotype": {"prompts": "all", "counterbalanced": False}, "diagnose": {"prompts": ["O-01"]}}
    persons = people(protocol)
    trials = plan_trials(load_audit(experiments=wanted), persons, TWO)
    assert sum(t.experiment == STEREOTYPE for t in trials) == 50 * 2 * 2
    assert {t.experiment for t in trials_to_measure(trials, persons, protocol, 1.0)} == {DIAGNOSE}
