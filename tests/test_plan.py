from __future__ import annotations

from collections.abc import Callable

from stillme import plan
from stillme.config import Config
from stillme.protocol import Protocol
from stillme.records import Portrait

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
    trials = plan.trials(config.audit, protocol, people(protocol), {name: name for name in "xyz"})
    assert len(trials) == 84 * 20 * 3 == 5040
    assert len({trial.key for trial in trials}) == len({trial.edit for trial in trials}) == 5040


def test_the_order_is_the_same_every_time_and_follows_the_protocol(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
    config = load_audit(editors=EDITORS, experiments={"diagnose": {"prompts": ["V-02", "O-01"], "seeds": 2}})
    first = plan.trials(config.audit, protocol, people(protocol), {name: name for name in "xyz"})
    again = plan.trials(config.audit, protocol, people(protocol), {name: name for name in "xyz"})
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
    trials = plan.trials(config.audit, protocol, people(protocol)[:1], {"even": "h", "erases": "i"})
    assert [(t.arm, t.seed) for t in trials if t.editor == "even"] == [("baseline", 0), ("reseed", 1000)]


def test_two_editors_with_the_same_settings_share_their_edits(
    load_audit: Callable[..., Config], protocol: Protocol
) -> None:
    trials = plan.trials(load_audit().audit, protocol, people(protocol)[:1], {"even": "h", "erases": "h"})
    edits = {name: [t.edit for t in trials if t.editor == name] for name in ("even", "erases")}
    assert edits["even"] == edits["erases"] and len(edits["even"]) == 3
    assert len({t.key for t in trials}) == 6
