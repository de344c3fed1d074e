"""Pools: any multiset of labels gives a full grid or the exact list of short cells; the same seeds, the same pools."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.core import images
from stillme.engine.progress import Progress
from stillme.sources import Reason, Row, RowIssue
from stillme.sources.selection.config import DataSet
from stillme.sources.selection.pools import (
    Entry,
    Grid,
    PoolHeads,
    SampledRow,
    TooFewKeptError,
    draw,
    position,
    shortages,
)
from stillme.sources.selection.sample import Sampler, Usable
from tests.sources.selection import shelf

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


def heads_of(rows: list[Entry], seeds: list[int], per_cell: int = 1, spare: int = 32) -> PoolHeads:
    heads = PoolHeads(Grid(GRID.axes, per_cell), seeds, spare)
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


def plain(drawn: list[SampledRow]) -> set[tuple[int, str, str]]:
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
    counts = {"cell": heads.listed, "drawn": Counter(one.cell for one in drawn)}
    shorts = {short.cell: (short.drawn, short.listed) for short in shortages(heads.grid, len(seeds), counts)}
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


# Pools with their pictures

PLAN = shelf.make_plan(Path("nowhere"))
LARGEST = PLAN.rules.duplicates.largest_distance
LOOKS = st.tuples(st.integers(0, 5), st.booleans())  # neighbours look alike; whether it is the very same file
ROWS = st.lists(
    st.tuples(st.sampled_from(["red", "blue"]), st.sampled_from(["s", "l"]), st.one_of(st.none(), LOOKS)),
    max_size=30,
)


@dataclass(frozen=True)
class Album:
    """A data set whose pictures are numbers: 50 bits more of the fingerprint each, and None where there is none."""

    looks: dict[str, tuple[int, bool] | None]
    listed: Sequence[Entry]
    silent: bool = False

    def rows(self) -> Iterator[Row | RowIssue]:
        return (entry.row for entry in self.listed)

    def images(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
        for row in rows:
            if self.looks[row.id] is not None:
                yield row, b"picture"
            elif not self.silent:
                yield row, RowIssue(row.file, row.row, Reason.CORRUPT, f"{row.id} is broken")

    def usable(self, row: Row) -> Usable:
        seen = self.looks[row.id]
        assert seen is not None
        look, is_copy = seen
        bits = f"{(1 << 50 * look) - 1:064x}"
        file = str(look) if is_copy else row.id
        return Usable(
            path=Path(),
            facts=images.ImageInfo("jpg", 1, 1),
            image=file,
            original=file,
            changes="",
            fingerprints=(bits, bits),
        )


class Drawer(Sampler):
    """Takes an album's pictures for what they are."""

    def __init__(self, album: Album, seeds: Sequence[int], per_cell: int) -> None:
        data = {"data": DataSet(reader=album, name="numbers", licence="")}
        super().__init__(
            replace(PLAN, grid=Grid(GRID.axes, per_cell), readers=data),
            seeds,
            Progress(),
            Path(tempfile.gettempdir()),
        )
        self._album = album

    def prepare_image(self, row: Row, content: bytes) -> Usable | RowIssue:
        return self._album.usable(row)


def album_of(rows: list[tuple[str, str, tuple[int, bool] | None]], silent: bool = False) -> Album:
    listed = entries([(colour, size) for colour, size, _ in rows])
    looks = {entry.row.id: look for entry, (_, _, look) in zip(listed, rows, strict=True)}
    return Album(looks, listed, silent)


def one_by_one(album: Album, seeds: list[int], per_cell: int) -> set[tuple[int, str, str]]:
    """The rule itself: each place in its order takes the first row that is new, whole, and no copy of one before it."""
    found, taken = set(), list[Usable]()
    used: set[str] = set()
    for pool, seed in enumerate(seeds, start=1):
        for cell in GRID.cells:
            mine = [entry for entry in album.listed if GRID.cell_of(entry.row.labels) == cell.id]
            free = per_cell
            for entry in sorted(mine, key=lambda one: position(seed, one.key)):
                if free and entry.key not in used and album.looks[entry.row.id] is not None:
                    used.add(entry.key)
                    image = album.usable(entry.row)
                    if not any(alike(image, other) for other in taken):
                        taken.append(image)
                        free -= 1
                        found.add((pool, cell.id, entry.row.id))
    return found


def alike(one: Usable, other: Usable) -> bool:
    apart = (int(one.fingerprints[0], 16) ^ int(other.fingerprints[0], 16)).bit_count()
    return one.original == other.original or apart <= LARGEST


@given(ROWS, SEEDS, st.integers(1, 3), st.booleans())
@settings(max_examples=300)
def test_each_pool_is_what_it_would_be_without_those_after_it(
    rows: list[tuple[str, str, tuple[int, bool] | None]], seeds: list[int], per_cell: int, silent: bool
) -> None:
    album = album_of(rows, silent)
    whole = plain(Drawer(album, seeds, per_cell).settle())
    assert whole == one_by_one(album, seeds, per_cell)
    for count in range(1, len(seeds)):
        fewer = plain(Drawer(album, seeds[:count], per_cell).settle())
        assert {one for one in whole if one[0] <= count} == fewer


def test_a_row_that_its_reader_never_answers_is_left_out_and_said() -> None:
    drawer = Drawer(album_of([("red", "s", None), ("red", "s", (0, False))], silent=True), [1, 2], 1)
    assert plain(drawer.settle()) == {(1, "red-s", "1.jpg")}
    assert [str(remark) for remark in drawer.remarks.quoted] == [
        "labels.csv, row 2: the image 0.jpg was not given by its reader"
    ]
