"""The manifest of an export: its table, one row per chosen portrait, and everything else that the export says.

Everything is gathered here from the selection; what writes the files asks the selection nothing more.
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
from stillme.sources.selection.action_log import Action, State, blind, fold
from stillme.sources.selection.cell_view import is_decided, needed
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import Cell
from stillme.sources.selection.screen import judge, load_readings
from stillme.sources.selection.store import Candidate, Store, by_cell

IMAGES = "images"


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Review:
    """What reviewers decided: the first one's choices are exported, the second's are compared with them.

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
        while_blind = blind(actions)
        return cls(
            reviewer=first,
            state=fold(actions, first),
            second=second,
            blind=(fold(while_blind, first), fold(while_blind, second) if second else State()),
        )

    def agreed(self, candidate: Candidate, needed: int) -> bool | None:
        """Whether the second reviewer chose the same; None without one, and where that one has not decided."""
        chosen = self.blind[1].chosen.get(candidate.cell, ())
        return candidate.key in chosen if len(chosen) == needed else None


@dataclass(frozen=True, kw_only=True)
class SelectedPortrait:
    """A candidate that was chosen, with its number in the cell and the pre-screen's reading of it."""

    candidate: Candidate
    place: int  # in the cell, from 1
    reading: Reading | None
    ticks: Mapping[str, bool | None]  # criterion -> whether it is met


@dataclass(frozen=True, kw_only=True)
class ManifestRow:
    """A row of the table."""

    chosen: SelectedPortrait
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
    description: str
    read: Callable[[ManifestRow], Any] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that an export says."""

    plan: Plan
    review: Review
    rows: tuple[ManifestRow, ...]
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
        values = [[column.read(row) for column in self.columns] for row in self.rows]
        return pl.DataFrame(values, schema={column.name: column.kind for column in self.columns}, orient="row")


def select_chosen(plan: Plan, store: Store, review: Review) -> list[SelectedPortrait]:
    """The chosen candidates, cell by cell. Ticks are as the reviewer left them, else the pre-screen's."""
    candidates = {candidate.key: candidate for candidate in store.candidates()}
    readings = load_readings(store)
    criteria = [criterion.id for criterion in plan.protocol.groups.selection_criteria]
    chosen: list[SelectedPortrait] = []
    for cell in plan.grid.cells:
        for place, key in enumerate(review.state.chosen.get(cell.id, ()), start=1):
            reading = readings.get(candidates[key].portrait.image)
            outcomes = judge(reading.figures if reading else {}, plan.rules.criteria)
            measured = {name: outcome.passed for name, outcome in outcomes.items()}
            ticks = {name: review.state.ticks.get((key, name), measured.get(name)) for name in criteria}
            chosen.append(SelectedPortrait(candidate=candidates[key], place=place, reading=reading, ticks=ticks))
    return chosen


def undecided_cells(plan: Plan, store: Store, state: State) -> tuple[Cell, ...]:
    grid, candidates = plan.grid, by_cell(plan.grid, store.candidates())
    return tuple(cell for cell in grid.cells if not is_decided(state, cell.id, candidates[cell.id], grid.per_cell))


def gather(
    plan: Plan, store: Store, review: Review, pictures: Sequence[tuple[SelectedPortrait, Picture]]
) -> Manifest:
    candidates = tuple(store.candidates())
    candidates_by_cell = by_cell(plan.grid, candidates)
    rows = []
    for chosen, picture in pictures:
        source = chosen.candidate.portrait
        labels = {name: source.labels[name] for name in plan.protocol.groups.dimensions if name in source.labels}
        rows.append(
            ManifestRow(
                chosen=chosen,
                picture=picture,
                portrait=Portrait.of(
                    source.source, source.source_id, picture.sha256, labels, source.licence, source.split
                ),
                method=plan.selection.upscaling.method if picture.sha256 != source.image else None,
                review=review,
                needed=needed(candidates_by_cell[chosen.candidate.cell], plan.grid.per_cell),
            )
        )
    columns = tuple(_columns(plan, rows))
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            raise InputError(f"An axis is called '{name}', as another column of the table.", "Rename the axis.")
    first, last = store.query("SELECT min(at), max(at) FROM pool")[0]
    return Manifest(
        plan=plan,
        review=review,
        rows=tuple(rows),
        columns=columns,
        undecided=undecided_cells(plan, store, review.state),
        candidates=candidates,
        pools=store.pools(),
        drawn=(first, last),
        census=store.census(),
        actions=store.actions(),
    )


# The columns


def _columns(plan: Plan, rows: Sequence[ManifestRow]) -> Iterator[Column]:
    """Labels: of the axes of the grid first, then of whatever else the protocol or the data set labels."""
    yield from _KEY_COLUMNS
    labelled = [dimension for row in rows for dimension in row.candidate.annotated]
    for dimension in dict.fromkeys([*plan.grid.axes, *plan.protocol.groups.dimensions, *labelled]):
        yield from _label_columns(dimension)
    yield from _PROVENANCE_COLUMNS
    yield from _REVIEW_COLUMNS
    for criterion in plan.protocol.groups.selection_criteria:
        yield _criterion_column(criterion.id, criterion.label)
    yield Column(
        "screening",
        pl.String,
        "how the pre-screen ended; null where it did not run",
        lambda row: row.chosen.reading.status.value if row.chosen.reading else None,
    )
    for figure, description in FIGURES.items():
        yield _figure_column(figure, description)


# Functions of their own, so that each column's reader is bound to the name of that column.


def _label_columns(dimension: str) -> Iterator[Column]:
    description = f"the person's {dimension} as annotators perceived it"
    yield Column(
        dimension,
        pl.String,
        f"{description}, in the protocol's words",
        lambda row: row.candidate.portrait.labels.get(dimension) or None,
    )
    yield Column(
        f"{dimension}_annotated",
        pl.String,
        f"{description}, as the data set spells it",
        lambda row: row.candidate.annotated.get(dimension) or None,
    )


def _criterion_column(name: str, label: str) -> Column:
    description = (
        f"whether the criterion “{label}” is met: the reviewer's tick, else the pre-screen's; null: not measured"
    )
    return Column(f"criterion_{name}", pl.Boolean, description, lambda row: row.chosen.ticks[name])


def _figure_column(name: str, description: str) -> Column:
    return Column(
        f"figure_{name}",
        pl.Float64,
        f"{description}; null: not measured",
        lambda row: row.chosen.reading.figures.get(name) if row.chosen.reading else None,
    )


_KEY_COLUMNS = (
    Column(
        "portrait",
        pl.String,
        "the portrait's key, as runs with this protocol have it",
        lambda row: row.portrait.key,
    ),
    Column("cell", pl.String, "the cell of the grid", lambda row: row.candidate.cell),
    Column("place", pl.Int64, "the place in the cell, from 1", lambda row: row.chosen.place),
)
_PROVENANCE_COLUMNS = (
    Column("dataset", pl.String, "the data set that it comes from", lambda row: row.portrait.source),
    Column("split", pl.String, "the data set's split", lambda row: row.portrait.split),
    Column("source_id", pl.String, "the data set's own name of the portrait", lambda row: row.portrait.source_id),
    Column("file", pl.String, "the data set's file that lists it", lambda row: row.candidate.file),
    Column("row", pl.Int64, "the row of that file", lambda row: row.candidate.row),
    Column("pool", pl.Int64, "the pool that it was drawn in", lambda row: row.candidate.pool),
    Column("seed", pl.Int64, "the seed of that pool", lambda row: row.candidate.seed),
    Column("candidate", pl.String, "its key in the selection, as in actions.csv", lambda row: row.candidate.key),
    Column("image", pl.String, "SHA-256 of the exported image file", lambda row: row.picture.sha256),
    Column("path", pl.String, "the exported image file", lambda row: row.picture.path),
    Column("width", pl.Int64, "of the exported image, in pixels", lambda row: row.picture.width),
    Column("height", pl.Int64, "of the exported image, in pixels", lambda row: row.picture.height),
    Column(
        "original_sha256",
        pl.String,
        "SHA-256 of the data set's own image file",
        lambda row: row.candidate.original,
    ),
    Column("original_width", pl.Int64, "before enlarging, upright, in pixels", lambda row: row.candidate.width),
    Column("original_height", pl.Int64, "before enlarging, upright, in pixels", lambda row: row.candidate.height),
    Column(
        "mended",
        pl.String,
        "what was done to the file to show it upright in sRGB",
        lambda row: row.candidate.mended or None,
    ),
    Column(
        "upscaled_from",
        pl.Int64,
        "the shorter side before enlarging; null: not enlarged",
        lambda row: row.upscaled_from,
    ),
    Column(
        "upscaled_to",
        pl.Int64,
        "the shorter side after enlarging; null: not enlarged",
        lambda row: row.upscaled_to,
    ),
    Column("upscaling", pl.String, "the method of enlarging; null: not enlarged", lambda row: row.method),
    Column("licence", pl.String, "the licence note of the data set", lambda row: row.portrait.licence),
)
_REVIEW_COLUMNS = (
    Column("reviewer", pl.String, "who chose it: a pseudonym", lambda row: row.review.reviewer),
    Column(
        "second_reviewer",
        pl.String,
        "who chose beside, blind: a pseudonym; null: nobody",
        lambda row: row.review.second,
    ),
    Column(
        "agreed",
        pl.Boolean,
        "whether the second reviewer, still blind, chose the same; null: none, or not decided",
        lambda row: row.review.agreed(row.candidate, row.needed),
    ),
    Column(
        "flagged",
        pl.Boolean,
        "whether the reviewer asked for a second look at the cell",
        lambda row: row.review.state.flagged.get(row.candidate.cell, False),
    ),
    Column(
        "note",
        pl.String,
        "the reviewer's note on the cell",
        lambda row: row.review.state.notes.get(row.candidate.cell) or None,
    ),
)
