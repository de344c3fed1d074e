"""The desk: choosing, taking back, filters, and reviewers who are blind to each other."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from stillme.core.errors import InputError
from stillme.sources.selection.action_log import Verb, fold
from stillme.sources.selection.config import Plan
from stillme.sources.selection.service import (
    Filter,
    RefusedError,
    SelectionRequest,
    SelectionService,
    UnknownError,
)
from stillme.sources.selection.store import Store
from tests.sources.selection import shelf

ANNA, BEN = "anna", "ben"


@pytest.fixture
def desk(plan: Plan, store: Store) -> SelectionService:
    return SelectionService(plan, store, [ANNA, BEN])


def ask(verb: str, cell: str = "", **fields: object) -> SelectionRequest:
    return SelectionRequest.model_validate({"op": str(uuid4()), "verb": verb, "cell": cell, **fields})


def choose(desk: SelectionService, who: str, cell: str, number: int, value: bool = True) -> str:
    key = desk.candidates[cell][number - 1].key
    return desk.act(who, ask("choose", cell, candidate=key, value=value, milliseconds=1234))


def chosen(desk: SelectionService, who: str, cell: str) -> list[int]:
    return [card.number for card in desk.sheet(who, cell).chosen]


def cells(desk: SelectionService) -> list[str]:
    return list(desk.candidates)


def test_choosing_replaces_and_choosing_again_gives_up(desk: SelectionService) -> None:
    cell = cells(desk)[0]
    choose(desk, ANNA, cell, 1)
    choose(desk, ANNA, cell, 2)
    assert chosen(desk, ANNA, cell) == [2]
    choose(desk, ANNA, cell, 2, value=False)
    assert chosen(desk, ANNA, cell) == []
    assert desk.progress(ANNA).words == "0 of 6 decided"


def test_everything_is_in_the_store_with_what_was_before(desk: SelectionService, store: Store) -> None:
    cell = cells(desk)[0]
    choose(desk, ANNA, cell, 1)
    choose(desk, ANNA, cell, 3)
    first, second = store.actions()
    keys = [one.key for one in desk.candidates[cell]]
    assert (second.before, second.after) == ([keys[0]], [keys[2]])
    assert second.milliseconds == 1234 and second.reviewer == ANNA and second.verb is Verb.CHOOSE
    assert list(second.criteria) == [keys[2]] and len(second.criteria[keys[2]]) == 6
    assert first.at <= second.at


def test_a_second_desk_over_the_same_store_shows_the_same(
    desk: SelectionService, plan: Plan, store: Store
) -> None:
    a, b = cells(desk)[:2]
    choose(desk, ANNA, a, 2)
    desk.act(ANNA, ask("note", b, value="  glasses \n"))
    desk.act(ANNA, ask("flag", b, value=True))
    again = SelectionService(plan, store, [ANNA])
    assert chosen(again, ANNA, a) == [2]
    assert again.sheet(ANNA, b).note == "glasses" and again.sheet(ANNA, b).flagged


def test_the_same_op_is_done_once(desk: SelectionService, store: Store) -> None:
    cell = cells(desk)[0]
    asked = ask("choose", cell, candidate=desk.candidates[cell][0].key, value=True)
    assert desk.act(ANNA, asked) == desk.act(ANNA, asked) == cell
    assert len(store.actions()) == 1
    with pytest.raises(RefusedError):
        desk.act(BEN, asked)


def test_what_changes_nothing_is_no_action(desk: SelectionService, store: Store) -> None:
    cell = cells(desk)[0]
    choose(desk, ANNA, cell, 1)
    choose(desk, ANNA, cell, 1)
    desk.act(ANNA, ask("flag", cell, value=False))
    assert len(store.actions()) == 1


def test_undo_goes_back_step_by_step_over_cells(desk: SelectionService) -> None:
    a, b = cells(desk)[:2]
    choose(desk, ANNA, a, 1)
    choose(desk, ANNA, a, 2)
    desk.act(ANNA, ask("note", b, value="hm"))
    choose(desk, BEN, b, 3)
    assert desk.act(ANNA, ask("undo", a)) == b
    assert desk.sheet(ANNA, b).note == ""
    assert desk.act(ANNA, ask("undo", b)) == a
    assert chosen(desk, ANNA, a) == [1]
    desk.act(ANNA, ask("undo", a))
    assert chosen(desk, ANNA, a) == [] and chosen(desk, BEN, b) == [3]
    with pytest.raises(RefusedError, match="nothing to take back"):
        desk.act(ANNA, ask("undo", a))
    assert desk.undoable(ANNA) == "" and "3 (pool 3)" in desk.undoable(BEN)


def test_several_a_cell_and_no_more(tmp_path: Path) -> None:
    plan = shelf.make_plan(tmp_path, shelf.FEW, pools=2, per_cell=2)
    with Store.open_for_writing(plan.folder) as store:
        shelf.fill(plan, store, per_pool=2, without=[(2, plan.grid.cells[1].id), (1, plan.grid.cells[2].id)])
        desk = SelectionService(plan, store, [ANNA])
        cell = cells(desk)[0]
        choose(desk, ANNA, cell, 1)
        assert desk.sheet(ANNA, cell).status == "1 of 2 chosen" and not desk.sheet(ANNA, cell).decided
        choose(desk, ANNA, cell, 4)
        with pytest.raises(RefusedError, match="2 portraits already"):
            choose(desk, ANNA, cell, 2)
        assert chosen(desk, ANNA, cell) == [1, 4] and desk.sheet(ANNA, cell).decided


def test_a_cell_without_candidates_is_said_and_not_counted(tmp_path: Path) -> None:
    plan = shelf.make_plan(tmp_path, shelf.FEW, pools=2, per_cell=2)
    empty, short = plan.grid.cells[0].id, plan.grid.cells[1].id
    with Store.open_for_writing(plan.folder) as store:
        shelf.fill(plan, store, without=[(1, empty), (2, empty), (2, short)])
        desk = SelectionService(plan, store, [ANNA])
        choose(desk, ANNA, short, 1)
        assert desk.sheet(ANNA, short).decided
        assert desk.progress(ANNA).words == "1 of 5 decided, 1 without a candidate"
        assert desk.sheet(ANNA, empty).status == "no candidate"
        assert empty not in [one.cell.id for one in desk.sheets(ANNA, Filter.UNDECIDED)]


def test_the_pre_screen_ticks_and_a_person_decides(plan: Plan, store: Store) -> None:
    cell, criterion = plan.grid.cells[0].id, plan.protocol.groups.selection_criteria[1]
    shelf.screen_all(plan, store, {f"{cell}/2-1.jpg": [criterion.id]}, unread=[f"{cell}/3-1.jpg"])
    desk = SelectionService(plan, store, [ANNA])
    good, bad, unread = desk.sheet(ANNA, cell).cards
    assert [good.rank, bad.rank, unread.rank] == [1, 2, 3]
    assert good.failed == () and bad.failed == (criterion.label,)
    assert {check.note for check in unread.checks} == {"not measured"} and unread.failed == ()
    assert "no face was found" in unread.checks[0].measured
    choose(desk, ANNA, cell, 2)
    assert [one.cell.id for one in desk.sheets(ANNA, Filter.FAILS)] == [cell]
    assert ("▲", f"fails: {criterion.label.lower()}") in desk.sheet(ANNA, cell).marks
    desk.act(ANNA, ask("tick", cell, candidate=bad.key, criterion=criterion.id, value=True))
    assert desk.sheets(ANNA, Filter.FAILS) == []
    desk.act(ANNA, ask("undo"))
    assert len(desk.sheets(ANNA, Filter.FAILS)) == 1
    assert not desk.sheet(ANNA, cell).cards[1].checks[1].by_reviewer, "the pre-screen's tick is back"


def test_filters_and_neighbours_go_round(desk: SelectionService) -> None:
    order = cells(desk)
    choose(desk, ANNA, order[1], 1)
    desk.act(ANNA, ask("flag", order[4], value=True))
    assert [s.cell.id for s in desk.sheets(ANNA, Filter.FLAGGED)] == [order[4]]
    assert desk.neighbour(ANNA, order[0], Filter.UNDECIDED, 1) == order[2]
    assert desk.neighbour(ANNA, order[0], Filter.ALL, -1) == order[-1]
    assert desk.neighbour(ANNA, order[2], Filter.FLAGGED, -1) == order[4]
    assert desk.neighbour(ANNA, order[4], Filter.FLAGGED, 1) is None
    assert Filter.DIFFERS not in desk.filters


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("choose", {"candidate": "nobody", "value": True}),
        ("tick", {"candidate": "nobody", "criterion": "x", "value": True}),
        ("flag", {"cell": "no-such-cell", "value": True}),
    ],
)
def test_what_is_not_there_is_unknown(desk: SelectionService, verb: str, change: dict[str, object]) -> None:
    with pytest.raises(UnknownError):
        desk.act(ANNA, ask(verb, **{"cell": cells(desk)[0], **change}))  # type: ignore[arg-type]


def test_a_candidate_belongs_to_its_own_cell(desk: SelectionService) -> None:
    a, b = cells(desk)[:2]
    with pytest.raises(UnknownError):
        desk.act(ANNA, ask("choose", a, candidate=desk.candidates[b][0].key, value=True))


def test_the_log_tells_in_words(desk: SelectionService) -> None:
    cell = cells(desk)[0]
    choose(desk, ANNA, cell, 1)
    choose(desk, ANNA, cell, 2)
    desk.act(ANNA, ask("undo"))
    desk.act(ANNA, ask("note", cell, value="beard"))
    lines = [(line.text, line.undone) for line in desk.log(ANNA)]
    assert lines == [
        ("noted “beard”", False),
        ("took back: chose 2 (pool 2) instead of 1 (pool 1)", False),
        ("chose 2 (pool 2) instead of 1 (pool 1)", True),
        ("chose 1 (pool 1)", False),
    ]
    assert desk.log(ANNA)[-1].time_on_page == "1.2 s" and desk.log(BEN) == []


def test_choices_by_pool_are_table_two(desk: SelectionService) -> None:
    for cell, number in zip(cells(desk), (1, 1, 2, 3, 3, 3), strict=True):
        choose(desk, ANNA, cell, number)
    assert desk.by_pool(ANNA) == [(1, 1, 2), (2, 2, 1), (3, 3, 3)]
    assert desk.effort(ANNA)[0] == 6


def test_reviewers_are_compared_only_when_both_are_done_and_only_on_what_was_blind(
    desk: SelectionService, store: Store
) -> None:
    for n, cell in enumerate(cells(desk)):
        choose(desk, ANNA, cell, n % 3 + 1)
    for cell in cells(desk)[:-1]:
        choose(desk, BEN, cell, 1)
    with pytest.raises(RefusedError):
        desk.compare(ANNA, str(uuid4()))
    with pytest.raises(UnknownError):
        desk.comparison()
    choose(desk, BEN, cells(desk)[-1], 3)
    desk.compare(ANNA, str(uuid4()))
    desk.compare(BEN, str(uuid4()))
    found = desk.comparison()
    assert (found.choices.n, found.choices.agreement) == (6, 0.5)
    assert found.choices.kappa == pytest.approx((1 / 2 - 1 / 3) / (1 - 1 / 3))
    assert len(found.differing) == 3 and Filter.DIFFERS in desk.filters
    choose(desk, ANNA, cells(desk)[1], 1)
    later = desk.comparison()
    assert later.choices == found.choices, "what was changed afterwards is not agreement"
    assert len(later.differing) == 2 == len(desk.sheets(ANNA, Filter.DIFFERS))
    assert [a.verb for a in store.actions()].count(Verb.COMPARE) == 1
    assert chosen(desk, BEN, cells(desk)[1]) == [1]
    assert fold(store.actions(), ANNA).chosen[cells(desk)[1]] == (desk.candidates[cells(desk)[1]][0].key,)


@pytest.mark.parametrize(
    ("names", "said"), [(["cleo"], "would have 3"), (["a b"], "cannot name"), ([], "one or two")]
)
def test_reviewers_are_one_or_two_and_named_plainly(plan: Plan, store: Store, names: list[str], said: str) -> None:
    SelectionService(plan, store, [ANNA, BEN])
    with pytest.raises(InputError, match=said):
        SelectionService(plan, store, names)
    assert store.reviewers() == [ANNA, BEN]
