from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from stillme import plan
from stillme.config import Config
from stillme.errors import InputError
from stillme.protocol import Protocol
from stillme.records import DIAGNOSE, Portrait, Trial

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


def test_the_papers_design_has_5040_trials(load_audit: Callable[..., Config], protocol: Protocol) -> None:
    config = load_audit(editors=EDITORS, experiments={"diagnose": {"prompts": "all"}})
    trials = plan.trials(config, people(protocol), {name: name for name in "xyz"})
    assert len(trials) == 84 * 20 * 3 == 5040
    assert len({trial.key for trial in trials}) == len({trial.edit for trial in trials}) == 5040


def test_the_order_is_the_same_every_time_and_follows_the_protocol(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
    config = load_audit(editors=EDITORS, experiments={"diagnose": {"prompts": ["V-02", "O-01"], "seeds": 2}})
    first = plan.trials(config, people(protocol), {name: name for name in "xyz"})
    again = plan.trials(config, people(protocol), {name: name for name in "xyz"})
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


def test_arms_move_the_seed(load_audit: Callable[..., Config], protocol: Protocol) -> None:
    config = load_audit(experiments={"diagnose": {"prompts": ["O-01"], "arms": ["reseed", "baseline"]}})
    trials = plan.trials(config, people(protocol)[:1], {"even": "h", "erases": "i"})
    assert [(t.arm, t.seed) for t in trials if t.editor == "even"] == [("baseline", 0), ("reseed", 1000)]


def test_two_editors_with_the_same_settings_share_their_edits(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
    trials = plan.trials(load_audit(), people(protocol)[:1], {"even": "h", "erases": "h"})
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
    return plan.trials(config, people(protocol), HASHES)


def test_controls_come_after_the_prompts_portrait_by_portrait(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
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


def test_only_the_controls_asked_for(load_audit: Callable[..., Config], protocol: Protocol) -> None:
    for kinds, number in ((["upscale"], 1), (["no_op", "vae_round_trip"], 4), ([], 0)):
        wanted = {"diagnose": {"prompts": []}, "controls": {"kinds": kinds}}
        assert len(controlled(load_audit, protocol, experiments=wanted)) == 84 * number


def chosen(trials: list[Trial]) -> set[tuple[str, str]]:
    return {(t.prompt, t.portrait) for t in trials if not t.is_control}


def test_a_share_is_balanced_and_the_same_for_every_editor_and_seed(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
    trials, persons = controlled(load_audit, protocol), people(protocol)
    kept = plan.measured(trials, persons, protocol, 0.25)
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


def test_a_larger_share_contains_a_smaller_one(load_audit: Callable[..., Config], protocol: Protocol) -> None:
    trials, persons = controlled(load_audit, protocol), people(protocol)
    shares = [plan.measured(trials, persons, protocol, share) for share in (1e-6, 0.1, 0.25, 0.5, 0.9, 1.0)]
    sizes = [len(chosen(kept)) // (2 * 7) for kept in shares]
    assert sizes == [1, 2, 3, 6, 11, 12]
    assert all(chosen(one) <= chosen(more) for one, more in pairwise(shares))
    assert shares[-1] == trials
    shuffled = plan.measured(trials[::-1], persons[::-1], protocol, 0.25)
    assert chosen(shuffled) == chosen(shares[2]), "the order of things does not matter"


def test_arms_with_different_settings_are_refused(load_audit: Callable[..., Config], protocol: Protocol) -> None:
    """A difference between them would say nothing about the arm."""
    wanted = {"mitigate": {"sample": 8, "arms": ["baseline", "reseed"]}}
    trials = plan.trials(load_audit(experiments=wanted), people(protocol), {"even": "h" * 64, "erases": "i" * 64})
    plan.check_pairs(trials)
    assert {trial.seed for trial in trials} == {2000, 3000}, "edited anew, each arm with its own seed"
    other = [replace(t, settings="j" * 64) if t.arm == "reseed" else t for t in trials]
    with pytest.raises(InputError, match=r"different settings \((h|i){12} and j{12}\)"):
        plan.check_pairs(other)
