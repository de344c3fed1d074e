"""What the rules say of a portrait's figures, and who comes first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stillme.measures.portrait import FIGURES
from stillme.protocol import Protocol
from stillme.protocol.schema import Rule
from stillme.sources.selection.screen import Criteria, bounds, judge, rank

TURNED = Rule(figure="yaw", label="turned to a side", unit="°", at_least=-20, at_most=20)
SHARP = Rule(figure="focus", label="sharpness", digits=2, at_least=0.3)
ROOM = Rule(figure="margin", label="room", unit="% of the face", at_least=5)
SEEN = Rule(figure="certainty", label="certainty", digits=1, at_least=0)
CRITERIA: Criteria = {"frontal": (SEEN, TURNED), "focus": (SHARP,)}

figures = st.dictionaries(st.sampled_from(["yaw", "focus", "certainty"]), st.floats(-100, 100))


def words(rule: Rule, value: float | None) -> str:
    read = {} if value is None else {rule.figure: value}
    return judge(read, {"it": (rule,)})["it"].checks[0].words


@pytest.mark.parametrize(
    ("rule", "value", "said"),
    [
        (TURNED, 31.2, "turned to a side: 31°, at most 20° either way"),
        (TURNED, -31.2, "turned to a side: 31°, at most 20° either way"),
        (TURNED, -3.0, "turned to a side: 3°, at most 20° either way"),
        (TURNED, 20.3, "turned to a side: 20.3°, at most 20° either way"),
        (TURNED, None, "turned to a side: not measured, at most 20° either way"),
        (SHARP, 0.456, "sharpness: 0.46, at least 0.3"),
        (SHARP, 0.299, "sharpness: 0.299, at least 0.3"),
        (ROOM, -3.2, "room: −3 % of the face, at least 5 % of the face"),
        (Rule(figure="x", label="x", at_least=1, at_most=3), 2, "x: 2, 1 to 3"),
        (
            Rule(figure="x", label="x", unit="stops", digits=1, at_most=0.9),
            1.25,
            "x: 1.2 stops, at most 0.9 stops",
        ),
    ],
)
def test_numbers_are_shown_in_words_with_their_bounds(rule: Rule, value: float | None, said: str) -> None:
    assert words(rule, value) == said


def test_a_criterion_is_met_when_every_rule_holds() -> None:
    met = judge({"certainty": 9, "yaw": -20, "focus": 0.3}, CRITERIA)
    assert [outcome.passed for outcome in met.values()] == [True, True]
    assert list(met) == ["frontal", "focus"]


def test_what_was_not_measured_is_neither_met_nor_failed() -> None:
    assert judge({}, CRITERIA)["frontal"].passed is None
    assert judge({"certainty": 9}, CRITERIA)["frontal"].passed is None
    assert judge({"certainty": 9}, CRITERIA)["frontal"].excess == 0


def test_one_rule_that_fails_is_enough_whatever_is_missing() -> None:
    """A profile has no angle, because the mesh does not hold; it is not frontal all the same."""
    outcome = judge({"certainty": -8}, CRITERIA)["frontal"]
    assert outcome.passed is False
    assert [check.holds for check in outcome.checks] == [False, None]


def test_more_criteria_met_come_first_then_fewer_unmeasured_then_the_nearer_miss() -> None:
    found = {
        "all met": {"certainty": 9, "yaw": 0, "focus": 0.5},
        "just missed": {"certainty": 9, "yaw": 21, "focus": 0.5},
        "far missed": {"certainty": 9, "yaw": 60, "focus": 0.5},
        "unmeasured": {"certainty": 9, "focus": 0.5},
        "both missed": {"certainty": 9, "yaw": 21, "focus": 0.1},
        "nothing read": {},
    }
    judged = [(key, judge(read, CRITERIA)) for key, read in found.items()]
    assert rank(judged) == ["all met", "just missed", "far missed", "unmeasured", "both missed", "nothing read"]


@given(st.dictionaries(st.text(max_size=4), figures, max_size=12), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_the_candidates(
    found: dict[str, dict[str, float]], chance: random.Random
) -> None:
    judged = [(key, judge(read, CRITERIA)) for key, read in found.items()]
    order = rank(judged)
    chance.shuffle(judged)
    assert rank(judged) == order and sorted(order) == sorted(found)


@given(st.lists(figures, min_size=2, max_size=8))
def test_nobody_who_meets_fewer_criteria_comes_first(found: list[dict[str, float]]) -> None:
    judged = {str(number): judge(read, CRITERIA) for number, read in enumerate(found)}
    met = [sum(o.passed is True for o in judged[key].values()) for key in rank(judged.items())]
    assert met == sorted(met, reverse=True)


@given(figures)
def test_a_rule_fails_exactly_where_something_is_beyond_its_bound(read: dict[str, float]) -> None:
    for outcome in judge(read, CRITERIA).values():
        assert (outcome.passed is False) == (outcome.excess > 0)


def test_every_rule_of_the_protocol_asks_for_a_figure_that_is_measured(protocol: Protocol) -> None:
    assert protocol.portraits is not None
    criteria = protocol.portraits.criteria
    assert set(criteria) == {criterion.id for criterion in protocol.groups.selection_criteria}
    assert {rule.figure for rules in criteria.values() for rule in rules} <= set(FIGURES)


def test_the_page_says_what_the_protocol_says(protocol: Protocol) -> None:
    """Every rule with its bounds and every figure with its words stands in docs/screening.md."""
    page = (Path(__file__).parents[3] / "docs/screening.md").read_text(encoding="utf-8")
    assert protocol.portraits is not None
    labels = {criterion.id: criterion.label for criterion in protocol.groups.selection_criteria}
    rules = [
        f"| {labels[name]} | `{rule.figure}` | {rule.label} | {bounds(rule)} |"
        for name, rules in protocol.portraits.criteria.items()
        for rule in rules
    ]
    figures = [f"| `{name}` | {words} |" for name, words in FIGURES.items()]
    assert [line for line in (*rules, *figures) if line not in page] == []


def test_bounds_the_wrong_way_round_are_a_fault() -> None:
    with pytest.raises(ValidationError, match="at_least 3 is above at_most 1"):
        Rule(figure="x", label="x", at_least=3, at_most=1)
