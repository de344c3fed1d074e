"""The table of the chosen portraits: one row a portrait, and what each column means.

Everything that an export says is gathered here from the selection; what writes files does not ask it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from stillme.core.errors import InputError
from stillme.core.records import Portrait, Reading
from stillme.measures.portrait import FIGURES
from stillme.sources.selection import screen
from stillme.sources.selection.choices import Action, State, blind, fold
from stillme.sources.selection.config import Plan
from stillme.sources.selection.criteria import judge
from stillme.sources.selection.grid import Cell
from stillme.sources.selection.sheets import is_decided, needed
from stillme.sources.selection.store import Candidate, Store, by_cell

IMAGES = "images"


@dataclass(frozen=True)
class Picture:
    """An image file of the export."""

    sha256: str
    extension: str
    width: int
    height: int
    is_rendered: bool = False  # one of stillme's own synthetic heads, not a photograph

    @property
    def path(self) -> str:
        return f"{IMAGES}/{self.sha256}.{self.extension}"


@dataclass(frozen=True)
class Review:
    """What reviewers decided: the first one's choices are exported, the second's stand beside them.

    `blind`: both as they were before their choices were laid side by side.
    """

    reviewer: str
    state: State
    second: str | None
    blind: tuple[State, State]

    @classmethod
    def of(cls, store: Store) -> Review:
        names, actions = store.reviewers(), store.actions()
        if not names:
            raise InputError("Nobody has chosen portraits yet.", "Run `stillme sources select` first.")
        first, second = names[0], names[1] if len(names) > 1 else None
        before = blind(actions)
        states = fold(before, first), fold(before, second) if second else State()
        return cls(first, fold(actions, first), second, states)

    def agreed(self, candidate: Candidate, needed: int) -> bool | None:
        """Whether the second reviewer chose the same; None without one, and where that one has not decided."""
        chosen = self.blind[1].chosen.get(candidate.cell, ())
        return candidate.key in chosen if len(chosen) == needed else None


@dataclass(frozen=True)
class Chosen:
    """A candidate that was chosen, in its place of the cell, with what the pre-screen read off it."""

    candidate: Candidate
    place: int
    reading: Reading | None
    ticks: Mapping[str, bool | None]  # criterion -> whether it is met


@dataclass(frozen=True)
class One:
    """A row of the table."""

    chosen: Chosen
    picture: Picture
    portrait: Portrait  # as a run knows it: with the exported image
    method: str | None  # by which it was enlarged
    review: Review
    needed: int  # how many portraits its cell can get

    @property
    def candidate(self) -> Candidate:
        return self.chosen.candidate

    @property
    def upscaled_from(self) -> int | None:
        return min(self.candidate.width, self.candidate.height) if self.method else None

    @property
    def upscaled_to(self) -> int | None:
        return min(self.picture.width, self.picture.height) if self.method else None


@dataclass(frozen=True)
class Column:
    name: str
    kind: type[pl.DataType]
    said: str
    read: Callable[[One], Any] = field(repr=False)


@dataclass(frozen=True)
class Manifest:
    """All that an export says."""

    plan: Plan
    review: Review
    ones: tuple[One, ...]
    columns: tuple[Column, ...]
    undecided: tuple[Cell, ...]
    candidates: tuple[Candidate, ...]
    pools: Mapping[int, int]  # pool -> seed
    drawn: tuple[str, str]  # when the first and the last pool were
    census: Mapping[str, Mapping[str, int]]
    actions: Sequence[Action]

    @property
    def name(self) -> str:
        return self.plan.selection.name

    def frame(self) -> pl.DataFrame:
        rows = [[column.read(one) for column in self.columns] for one in self.ones]
        return pl.DataFrame(rows, schema={column.name: column.kind for column in self.columns}, orient="row")


def choose(plan: Plan, store: Store, review: Review) -> list[Chosen]:
    """The chosen candidates, cell by cell."""
    known = {one.key: one for one in store.candidates()}
    readings = screen.readings(store)
    found: list[Chosen] = []
    for cell in plan.grid.cells:
        for place, key in enumerate(review.state.chosen.get(cell.id, ()), start=1):
            reading = readings.get(known[key].portrait.image)
            found.append(Chosen(known[key], place, reading, _ticks(plan, review.state, key, reading)))
    return found


def _ticks(plan: Plan, state: State, key: str, reading: Reading | None) -> dict[str, bool | None]:
    """As the reviewer left them; untouched ones are the pre-screen's."""
    outcomes = judge(reading.figures if reading else {}, plan.rules.criteria)
    measured = {name: outcome.passed for name, outcome in outcomes.items()}
    ids = [criterion.id for criterion in plan.protocol.groups.selection_criteria]
    return {name: state.ticks.get((key, name), measured.get(name)) for name in ids}


def undecided(plan: Plan, store: Store, state: State) -> tuple[Cell, ...]:
    grid, listed = plan.grid, by_cell(plan.grid, store.candidates())
    return tuple(cell for cell in grid.cells if not is_decided(state, cell.id, listed[cell.id], grid.per_cell))


def gather(plan: Plan, store: Store, review: Review, pictures: Sequence[tuple[Chosen, Picture]]) -> Manifest:
    candidates = tuple(store.candidates())
    listed = by_cell(plan.grid, candidates)
    ones = tuple(
        _one(plan, review, chosen, picture, needed(listed[chosen.candidate.cell], plan.grid.per_cell))
        for chosen, picture in pictures
    )
    made = tuple(columns(plan, ones))
    _refuse_twice(made)
    first, last = store.query("SELECT min(at), max(at) FROM pool")[0]
    return Manifest(
        plan=plan,
        review=review,
        ones=ones,
        columns=made,
        undecided=undecided(plan, store, review.state),
        candidates=candidates,
        pools=store.pools(),
        drawn=(first, last),
        census=store.census(),
        actions=store.actions(),
    )


def _one(plan: Plan, review: Review, chosen: Chosen, picture: Picture, needed: int) -> One:
    was = chosen.candidate.portrait
    labels = {d: was.labels[d] for d in plan.protocol.groups.dimensions if d in was.labels}
    portrait = Portrait.of(was.source, was.source_id, picture.sha256, labels, was.licence, was.split)
    method = plan.selection.upscaling.method if picture.sha256 != was.image else None
    return One(chosen, picture, portrait, method, review, needed)


# The columns


def columns(plan: Plan, ones: Sequence[One]) -> Iterator[Column]:
    yield from _NAMED
    for dimension in _dimensions(plan, ones):
        yield from _labels(dimension)
    yield from _PROVENANCE
    yield from _REVIEWED
    for criterion in plan.protocol.groups.selection_criteria:
        yield _criterion(criterion.id, criterion.label)
    yield Column("screening", pl.String, "how the pre-screen ended; null where it did not run", _screening)
    for figure, said in FIGURES.items():
        yield _figure(figure, said)


def _refuse_twice(made: Sequence[Column]) -> None:
    for name, count in Counter(column.name for column in made).items():
        if count > 1:
            raise InputError(f"An axis is called '{name}', as another column of the table.", "Rename the axis.")


def _dimensions(plan: Plan, ones: Sequence[One]) -> list[str]:
    """The axes of the grid, then whatever else the protocol or the data set labels."""
    labelled = [dimension for one in ones for dimension in one.candidate.annotated]
    return list(dict.fromkeys([*plan.grid.axes, *plan.protocol.groups.dimensions, *labelled]))


def _labels(dimension: str) -> Iterator[Column]:
    said = f"the person's {dimension} as annotators perceived it"
    yield Column(dimension, pl.String, f"{said}, in the protocol's words", lambda one: _spoken(one, dimension))
    yield Column(
        f"{dimension}_annotated",
        pl.String,
        f"{said}, as the data set spells it",
        lambda one: one.candidate.annotated.get(dimension) or None,
    )


def _spoken(one: One, dimension: str) -> str | None:
    return one.candidate.portrait.labels.get(dimension) or None


def _criterion(name: str, label: str) -> Column:
    said = (
        f"whether the criterion “{label}” is met: the reviewer's tick, else the pre-screen's; null: not measured"
    )
    return Column(f"criterion_{name}", pl.Boolean, said, lambda one: one.chosen.ticks[name])


def _screening(one: One) -> str | None:
    return one.chosen.reading.status.value if one.chosen.reading else None


def _figure(name: str, said: str) -> Column:
    return Column(f"figure_{name}", pl.Float64, f"{said}; null: not measured", lambda one: _figure_of(one, name))


def _figure_of(one: One, name: str) -> float | None:
    return one.chosen.reading.figures.get(name) if one.chosen.reading else None


_NAMED = (
    Column(
        "portrait", pl.String, "the portrait's key, as runs with this protocol have it", lambda o: o.portrait.key
    ),
    Column("cell", pl.String, "the cell of the grid", lambda o: o.candidate.cell),
    Column("place", pl.Int64, "the place in the cell, from 1", lambda o: o.chosen.place),
)
_PROVENANCE = (
    Column("dataset", pl.String, "the data set that it comes from", lambda o: o.portrait.source),
    Column("split", pl.String, "the data set's split", lambda o: o.portrait.split),
    Column("source_id", pl.String, "the data set's own name of the portrait", lambda o: o.portrait.source_id),
    Column("file", pl.String, "the data set's file that lists it", lambda o: o.candidate.file),
    Column("row", pl.Int64, "the row of that file", lambda o: o.candidate.row),
    Column("pool", pl.Int64, "the pool that it was drawn in", lambda o: o.candidate.pool),
    Column("seed", pl.Int64, "the seed of that pool", lambda o: o.candidate.seed),
    Column("candidate", pl.String, "its key in the selection, as in actions.csv", lambda o: o.candidate.key),
    Column("image", pl.String, "SHA-256 of the exported image file", lambda o: o.picture.sha256),
    Column("path", pl.String, "the exported image file", lambda o: o.picture.path),
    Column("width", pl.Int64, "of the exported image, in pixels", lambda o: o.picture.width),
    Column("height", pl.Int64, "of the exported image, in pixels", lambda o: o.picture.height),
    Column(
        "original_sha256", pl.String, "SHA-256 of the data set's own image file", lambda o: o.candidate.original
    ),
    Column("original_width", pl.Int64, "before enlarging, upright, in pixels", lambda o: o.candidate.width),
    Column("original_height", pl.Int64, "before enlarging, upright, in pixels", lambda o: o.candidate.height),
    Column(
        "mended",
        pl.String,
        "what was done to the file to show it upright in sRGB",
        lambda o: o.candidate.mended or None,
    ),
    Column(
        "upscaled_from",
        pl.Int64,
        "the shorter side before enlarging; null: not enlarged",
        lambda o: o.upscaled_from,
    ),
    Column(
        "upscaled_to", pl.Int64, "the shorter side after enlarging; null: not enlarged", lambda o: o.upscaled_to
    ),
    Column("upscaling", pl.String, "the method of enlarging; null: not enlarged", lambda o: o.method),
    Column("licence", pl.String, "the licence note of the data set", lambda o: o.portrait.licence),
)
_REVIEWED = (
    Column("reviewer", pl.String, "who chose it: a pseudonym", lambda o: o.review.reviewer),
    Column(
        "second_reviewer",
        pl.String,
        "who chose beside, blind: a pseudonym; null: nobody",
        lambda o: o.review.second,
    ),
    Column(
        "agreed",
        pl.Boolean,
        "whether the second reviewer, still blind, chose the same; null: none, or not decided",
        lambda o: o.review.agreed(o.candidate, o.needed),
    ),
    Column(
        "flagged",
        pl.Boolean,
        "whether the reviewer asked for a second look at the cell",
        lambda o: o.review.state.flagged.get(o.candidate.cell, False),
    ),
    Column(
        "note",
        pl.String,
        "the reviewer's note on the cell",
        lambda o: o.review.state.notes.get(o.candidate.cell) or None,
    ),
)
