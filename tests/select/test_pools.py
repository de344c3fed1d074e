"""Pools: any multiset of labels gives a full grid or the exact list of short cells; the same seeds, the same pools."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.select.grid import Grid
from stillme.select.pools import Drawn, Entry, Heads, TooFewKeptError, draw, position, shortages
from stillme.sources import Row

GRID = Grid({"colour": {"red": "Red", "blue": "Blue"}, "size": {"s": "Small", "l": "Large"}})
LABELS = st.lists(
    st.tuples(st.sampled_from(["red", "blue", "green"]), st.sampled_from(["s", "l", "xl"])), max_size=60
)
SEEDS = st.lists(st.integers(0, 2**40), min_size=1, max_size=7, unique=True)


def entries(labels: list[tuple[str, str]]) -> list[Entry]:
    return [
        Entry("data", Row(f"{n}.jpg", "", {"colour": colour, "size": size}, {}, "labels.csv", n + 2))
        for n, (colour, size) in enumerate(labels)
    ]


def heads_of(rows: list[Entry], seeds: list[int], per_cell: int = 1, spare: int = 32) -> Heads:
    heads = Heads(Grid(GRID.axes, per_cell), seeds, spare)
    for row in rows:
        heads.add(row)
    return heads


def in_full(rows: list[Entry], seeds: list[int], per_cell: int, rejected: set[str]) -> set[tuple[int, str, str]]:
    """The rule itself, with nothing left out to save memory."""
    found, taken = set(), set(rejected)
    for pool, seed in enumerate(seeds, start=1):
        for cell in GRID.cells:
            mine = [row for row in rows if GRID.cell_of(row.row.labels) == cell.id and row.key not in taken]
            first = sorted(mine, key=lambda row: position(seed, row.key))[:per_cell]
            taken |= {row.key for row in first}
            found |= {(pool, cell.id, row.row.id) for row in first}
    return found


def plain(drawn: list[Drawn]) -> set[tuple[int, str, str]]:
    return {(one.pool, one.cell, one.entry.row.id) for one in drawn}


@given(LABELS, SEEDS, st.integers(1, 3))
def test_a_full_grid_or_the_exact_list_of_short_cells(
    labels: list[tuple[str, str]], seeds: list[int], per_cell: int
) -> None:
    heads = heads_of(entries(labels), seeds, per_cell)
    drawn = draw(heads, ())
    there = Counter(GRID.cell_of({"colour": colour, "size": size}) for colour, size in labels)
    wanted = per_cell * len(seeds)
    expected = {cell.id: min(wanted, there[cell.id]) for cell in GRID.cells}
    assert Counter(one.cell for one in drawn) == Counter(expected)
    shorts = {short.cell: (short.drawn, short.listed) for short in shortages(heads, drawn, {})}
    assert shorts == {cell: (have, there[cell]) for cell, have in expected.items() if have < wanted}
    assert len({one.entry.key for one in drawn}) == len(drawn), "no portrait twice across pools"


@given(LABELS, SEEDS, st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_same_seeds_give_the_same_pools_in_whatever_order_rows_come(
    labels: list[tuple[str, str]], seeds: list[int], per_cell: int, chance: random.Random
) -> None:
    rows = entries(labels)
    first = draw(heads_of(rows, seeds, per_cell), ())
    chance.shuffle(rows)
    assert draw(heads_of(rows, seeds, per_cell), ()) == first


@given(LABELS, SEEDS, st.integers(1, 2), st.sets(st.integers(0, 59), max_size=8))
@settings(max_examples=200)
def test_keeping_only_the_heads_changes_nothing(
    labels: list[tuple[str, str]], seeds: list[int], per_cell: int, bad: set[int]
) -> None:
    rows = entries(labels)
    rejected = {f"data\0{n}.jpg" for n in bad}
    assert plain(draw(heads_of(rows, seeds, per_cell, spare=8), rejected)) == in_full(
        rows, seeds, per_cell, rejected
    )


@given(LABELS, SEEDS)
def test_a_pool_does_not_change_when_pools_are_added(labels: list[tuple[str, str]], seeds: list[int]) -> None:
    rows = entries(labels)
    whole = plain(draw(heads_of(rows, seeds), ()))
    fewer = plain(draw(heads_of(rows, seeds[:-1] or seeds), ()))
    assert {one for one in whole if one[0] <= len(seeds[:-1] or seeds)} == fewer


def test_more_rejections_than_were_kept_in_spare_are_noticed() -> None:
    rows = entries([("red", "s")] * 40)
    heads = heads_of(rows, [1], spare=2)
    first = heads.ordered(1, "red-s")
    with pytest.raises(TooFewKeptError):
        draw(heads, {entry.key for entry in first})


def test_pools_of_these_seeds_are_the_same_on_every_machine() -> None:
    rows = entries([(colour, size) for colour in ("red", "blue") for size in ("s", "l")] * 5)
    drawn = sorted((one.pool, one.cell, one.entry.row.id) for one in draw(heads_of(rows, [1, 2]), ()))
    assert drawn == EXPECTED


def test_another_seed_gives_another_pool() -> None:
    rows = entries([("red", "s")] * 200)
    assert len({draw(heads_of(rows, [seed]), ())[0].entry.key for seed in range(20)}) > 15


EXPECTED = [
    (1, "blue-l", "15.jpg"),
    (1, "blue-s", "18.jpg"),
    (1, "red-l", "9.jpg"),
    (1, "red-s", "0.jpg"),
    (2, "blue-l", "19.jpg"),
    (2, "blue-s", "10.jpg"),
    (2, "red-l", "5.jpg"),
    (2, "red-s", "12.jpg"),
]
