"""How well the leak check finds race, ethnicity, gender and age words: precision and recall on 200 labelled prompts.

The prompts and their labels were made without looking at the check; see the head of prompts.yaml for the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from stillme.plan.mitigation.linter import leaks

KINDS = ("race", "ethnicity", "gender", "age")


class Labelled(NamedTuple):
    text: str
    kinds: frozenset[str]
    found: frozenset[str]


class Figures(NamedTuple):
    precision: float
    recall: float
    positives: int


@pytest.fixture(scope="module")
def prompts() -> list[Labelled]:
    rows = yaml.safe_load((Path(__file__).parent / "prompts.yaml").read_text(encoding="utf-8"))
    return [
        Labelled(row["text"], frozenset(row["leaks"]), frozenset(leak.kind for leak in leaks(row["text"])))
        for row in rows
    ]


def figures(prompts: list[Labelled], kinds: frozenset[str]) -> Figures:
    both = sum(bool(one.kinds & kinds) and bool(one.found & kinds) for one in prompts)
    found = sum(bool(one.found & kinds) for one in prompts)
    labelled = sum(bool(one.kinds & kinds) for one in prompts)
    return Figures(both / found if found else 0.0, both / labelled, labelled)


def test_the_set_is_two_hundred_prompts_half_of_them_clean(prompts: list[Labelled]) -> None:
    assert len({one.text for one in prompts}) == len(prompts) == 200
    assert sum(not one.kinds for one in prompts) == 100
    assert {kind for one in prompts for kind in one.kinds} == set(KINDS)


def test_leaks_are_found_and_clean_prompts_let_pass(
    prompts: list[Labelled], record_property: Callable[[str, object], None]
) -> None:
    overall = figures(prompts, frozenset(KINDS))
    table = {"any leak": overall, "race or ethnicity": figures(prompts, frozenset({"race", "ethnicity"}))}
    table |= {kind: figures(prompts, frozenset({kind})) for kind in KINDS}
    for name, one in table.items():
        figure = (
            f"precision {one.precision:.3f}, recall {one.recall:.3f}, {one.positives} of {len(prompts)} prompts"
        )
        record_property(f"leak check, {name}", figure)  # printed at the end, see tests/conftest.py
    wrong = [
        f"{sorted(one.kinds)} ≠ {sorted(one.found)}: {one.text}"
        for one in prompts
        if bool(one.kinds) != bool(one.found)
    ]
    assert min(overall.precision, overall.recall) >= 0.95, "\n".join(wrong)
