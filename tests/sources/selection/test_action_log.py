"""The log of actions: what it says about the state, and that undoing leads back to where one was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stillme.sources.selection.action_log import (
    Action,
    Verb,
    blind,
    counts_by_pool,
    fold,
    last_undoable,
    seconds_at_work,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
CELLS, CANDIDATES, CRITERIA = ("x", "y"), ("1", "2", "3"), ("sharp", "lit")


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def choose(op: int, cell: str, before: list[str], after: list[str], reviewer: str = "anna") -> Action:
    return Action(
        op=str(op), at=at(op), reviewer=reviewer, verb=Verb.CHOOSE, cell=cell, before=before, after=after
    )


WISHES = st.lists(
    st.one_of(
        st.tuples(st.just(Verb.CHOOSE), st.sampled_from(CELLS), st.sampled_from(CANDIDATES)),
        st.tuples(st.just(Verb.TICK), st.sampled_from(CANDIDATES), st.sampled_from(CRITERIA)),
        st.tuples(st.just(Verb.FLAG), st.sampled_from(CELLS), st.booleans()),
        st.tuples(st.just(Verb.NOTE), st.sampled_from(CELLS), st.text(max_size=5)),
    ),
    max_size=25,
)


def perform(log: list[Action], verb: Verb, one: str, other: object) -> None:
    """Appends an action as the tool does: what was, what is."""
    state, op = fold(log, "anna"), str(len(log))
    changes: dict[str, object]
    if verb is Verb.CHOOSE:
        changes = {"cell": one, "before": list(state.chosen.get(one, ())), "after": [other]}
    elif verb is Verb.TICK:
        before, criteria = state.ticks.get((one, str(other))), {"criterion": other}
        changes = {"cell": "x", "candidate": one, "before": before, "after": not before, "criteria": criteria}
    elif verb is Verb.FLAG:
        changes = {"cell": one, "before": state.flagged.get(one, False), "after": other}
    else:
        changes = {"cell": one, "before": state.notes.get(one, ""), "after": other}
    log.append(Action(op=op, at=at(len(log)), reviewer="anna", verb=verb, **changes))  # type: ignore[arg-type]


def undo(log: list[Action]) -> bool:
    last = last_undoable(log, "anna")
    if last is None:
        return False
    log.append(
        Action(
            op=f"u{len(log)}",
            at=at(0),
            reviewer="anna",
            verb=Verb.UNDO,
            cell=last.cell,
            candidate=last.candidate,
            before=last.after,
            after=last.before,
            criteria={"undoes": last.op},
        )
    )
    return True


def settled(log: list[Action]) -> object:
    state = fold(log, "anna")
    chosen = {cell: keys for cell, keys in state.chosen.items() if keys}
    flagged = {cell for cell, on in state.flagged.items() if on}
    return chosen, state.ticks, flagged, {cell: note for cell, note in state.notes.items() if note}


@given(WISHES, st.integers(0, 30))
def test_undoing_leads_back_step_by_step(wishes: list[tuple[Verb, str, object]], times: int) -> None:
    log: list[Action] = []
    history = [settled(log)]
    for wish in wishes:
        perform(log, *wish)
        history.append(settled(log))
    for _ in range(times):
        if undo(log):
            history.pop()
        assert settled(log) == history[-1]
    assert len(log) == len(wishes) + min(times, len(wishes)), "nothing is ever taken out of the log"


@given(WISHES, WISHES)
def test_a_reviewers_state_does_not_depend_on_the_others_actions(
    mine: list[tuple[Verb, str, object]], theirs: list[tuple[Verb, str, object]]
) -> None:
    alone: list[Action] = []
    for wish in mine:
        perform(alone, *wish)
    other = [choose(n + 1000, "x", [], ["3"], reviewer="ben") for n, _ in enumerate(theirs)]
    mixed = sorted([*alone, *other], key=lambda action: action.op)
    kept = [action for action in mixed if action.reviewer == "anna"]
    assert settled(mixed) == settled(kept)


def test_choices_by_pool_and_time_at_work() -> None:
    log = [choose(0, "x", [], ["1"]), choose(60, "y", [], ["2"]), choose(90, "y", ["2"], ["3"])]
    state = fold(log, "anna")
    assert counts_by_pool(state, {"1": 1, "2": 2, "3": 3}, [1, 2, 3]) == {1: 1, 2: 0, 3: 1}
    late = choose(90 + 3600, "x", ["1"], ["2"])
    assert seconds_at_work([*log, late]) == 90, "a break of an hour is not work"


def test_what_follows_a_comparison_is_not_blind() -> None:
    comparison = Action(op="c", at=at(1), reviewer="anna", verb=Verb.COMPARE, cell="")
    log = [choose(0, "x", [], ["1"]), comparison, choose(2, "x", ["1"], ["2"])]
    assert blind(log) == log[:1]
    assert last_undoable(log[:2], "anna") == log[0], "a comparison cannot be undone"
