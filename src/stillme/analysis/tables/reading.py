"""A tidy table of scores, as the analysis takes it; or everything that is wrong with it, at once.

One row a score: person, editor, prompt, axis, score, and the person's perceived groups. With a column `judge` the
scores are those of judges, and the ensemble is made of them. A table that has a column per axis is read as well.
Nothing is guessed: a score that is no whole number of its scale, a group that the protocol does not know, two rows
about the same edit are faults, and a missing score stays missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

import polars as pl

from stillme.analysis.tables.columns import ROW, Reader, missing_dimensions
from stillme.analysis.tables.files import Given
from stillme.core.errors import ConfigIssuesError
from stillme.core.records import DIAGNOSE, Status
from stillme.judges import form
from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.protocol.schema import Rounding

NEEDED = ("person", "editor", "prompt", "axis", "score")
TRIAL = ("experiment", "arm", "editor", "prompt", "person", "seed")
AS_GIVEN = "as given"  # the scores of a table that does not say what judges gave


@dataclass(frozen=True)
class Scores:
    """What a table says. `scores`: how halves are rounded -> one row a trial and axis; `main`: the one that tables
    print. `judged`: the rows of judges, None where the table has none. `notes`: what a reader should know."""

    scores: Mapping[str, pl.DataFrame]
    main: str
    judged: pl.DataFrame | None = None
    notes: tuple[str, ...] = field(default=())


def read_scores(given: Given, protocol: Protocol, preset: str) -> Scores:
    """The table's scores, or a ConfigIssuesError that names every fault with its row."""
    reader = Reader(given, protocol)
    _check(reader)
    if reader.faults:
        raise ConfigIssuesError(reader.faults, "Mend the table and run the same command again.")
    frame = _completed(reader)
    if not reader.has("judge"):
        return Scores({AS_GIVEN: _ensemble_columns(frame)}, AS_GIVEN, None, tuple(reader.notes))
    judged = _ranked(frame)
    combined: dict[str, pl.DataFrame] = {mode: _combined(judged, mode) for mode in get_args(Rounding)}
    return Scores(combined, protocol.presets[preset].rounding, judged, tuple(reader.notes))


def _check(reader: Reader) -> None:
    """Brings the columns into our words; the faults stay with the reader."""
    _long(reader)
    if not reader.frame.height:
        reader.fault("", "the table has no rows")
    if not reader.need(NEEDED):
        return
    reader.words(*NEEDED[:-1], *reader.protocol.groups.dimensions, *TRIAL[:2], "judge", "trial", "status")
    reader.required(*NEEDED[:-1], "judge")
    reader.number("score", whole=True)
    reader.number("mean")
    for column in ("seed", "rank"):
        reader.number(column, whole=True)
    for column in ("requested", "single", "flagged", "adjudicated"):
        reader.truth(column)
    read_axes(reader)
    reader.groups()
    if not reader.faults:
        _check_values(reader)


def _long(reader: Reader) -> None:
    """A column per axis becomes a row per axis."""
    spellings = _axis_spellings(reader.protocol)
    reader.plain(*spellings)
    wide = [column for column in reader.frame.columns if column in spellings]
    if wide and not reader.has("axis") and not reader.has("score"):
        keep = [column for column in reader.frame.columns if column not in wide]
        same = reader.frame.with_columns(pl.col(column).cast(pl.String) for column in wide)
        reader.frame = same.unpivot(wide, index=keep, variable_name="axis", value_name="score")


def _axis_spellings(protocol: Protocol) -> dict[str, str]:
    return {axis: axis for axis in protocol.axes} | {
        alias: axis for alias, axis in form.aliases().items() if axis in protocol.axes
    }


def read_axes(reader: Reader) -> None:
    """Axes in the protocol's words."""
    reader.spelled("axis", _axis_spellings(reader.protocol), "axis of the protocol", list(reader.protocol.axes))


def _check_values(reader: Reader) -> None:
    """Scores on their scales, one row a thing, one label a person."""
    for axis in reader.protocol.rubrics.axes:
        low, high = min(axis.scale), max(axis.scale)
        outside = reader.frame.filter((pl.col("axis") == axis.id) & ~pl.col("score").is_between(low, high))
        if outside.height:
            reader.faulty(
                "score", outside, f"{outside['score'][0]} is not on the scale of {axis.id}, {low} to {high}"
            )
    dimensions = list(reader.protocol.groups.dimensions)
    if len(list(missing_dimensions(reader.frame, dimensions))) == len(dimensions):
        reader.fault("", f"no row says who the person is; give one of the columns {', '.join(dimensions)}")
    _with_trials(reader)
    reader.once([*TRIAL, "axis", *(["judge"] if reader.has("judge") else [])], "edit, axis and judge")
    reader.one_label()


def _with_trials(reader: Reader) -> None:
    plain = next(arm.id for arm in reader.protocol.manifest.arms if not arm.lead and not arm.seed_offset)
    unsaid = {"experiment": DIAGNOSE, "arm": plain, "seed": "0"}
    reader.frame = reader.frame.with_columns(
        (pl.col(name).cast(pl.String).fill_null(word) if reader.has(name) else pl.lit(word)).alias(name)
        for name, word in unsaid.items()
    )


def _completed(reader: Reader) -> pl.DataFrame:
    """With everything that the protocol knows of a prompt and an axis."""
    protocol = reader.protocol
    reader.same_label()
    reader.notes.extend(_notes(reader))
    frame = (
        reader.frame
        if reader.has("trial")
        else reader.frame.with_columns(pl.concat_str(*TRIAL, separator="|").alias("trial"))
    )
    neutral = {axis.id: axis.neutral for axis in protocol.rubrics.axes}
    asked = [
        (prompt, axis)
        for prompt in protocol.prompt
        for axis in protocol.axes
        if not protocol.unrequested(prompt, axis)
    ]
    changes = pl.DataFrame(asked, schema={"prompt": pl.String, "axis": pl.String}, orient="row")
    frame = frame.drop("category", "subcategory", strict=False)
    frame = frame.join(_kinds(protocol), on="prompt", how="left", maintain_order="left")
    if not reader.has("requested"):
        marked = changes.with_columns(requested=pl.lit(True))
        frame = frame.join(marked, on=["prompt", "axis"], how="left", maintain_order="left")
    known = pl.col("axis").replace_strict(neutral, return_dtype=pl.Int64)
    return frame.with_columns(known.alias("neutral"), pl.col("requested").fill_null(False)).drop(ROW)


def _kinds(protocol: Protocol) -> pl.DataFrame:
    rows = [(prompt.id, prompt.category, prompt.subcategory) for prompt in protocol.prompts.prompts]
    return pl.DataFrame(rows, schema=dict.fromkeys(("prompt", "category", "subcategory"), pl.String), orient="row")


def _notes(reader: Reader) -> Iterator[str]:
    frame, protocol = reader.frame, reader.protocol
    for dimension in missing_dimensions(frame, protocol.groups.dimensions):
        yield f"Nobody's {dimension} is told, so there is no table by {dimension}."
    for dimension in protocol.groups.dimensions:
        groups = frame[dimension].drop_nulls().unique()
        if len(groups) == 1:
            yield f"Everybody is {groups[0]}: with one group of {dimension} there is nothing to compare."
    unlabelled = frame.filter(pl.any_horizontal(pl.col(list(protocol.groups.dimensions)).is_null()))
    if unlabelled.height and unlabelled["person"].n_unique() < frame["person"].n_unique():
        yield f"{unlabelled['person'].n_unique():,} persons lack a label; they are in no group of that dimension."
    if others := sorted(set(frame["prompt"]) - set(protocol.prompt)):
        told = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        yield f"The protocol does not know {len(others)} prompts ({told}): no change counts as asked for by them."
    for (axis,), rows in frame.group_by("axis", maintain_order=True):
        values = rows["score"].drop_nulls().unique()
        if not len(values):
            yield f"No edit has a score on {axis}."
        elif len(values) == 1 and rows.height > 1:
            yield f"Every score on {axis} is {values[0]}: nothing can differ there."


def _ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """The judges in order: as the table ranks them, else as they appear."""
    if "rank" not in frame.columns:
        names = frame["judge"].unique(maintain_order=True)
        ranks = {name: place for place, name in enumerate(names)}
        frame = frame.with_columns(pl.col("judge").replace_strict(ranks, return_dtype=pl.Int64).alias("rank"))
    if "status" not in frame.columns:
        said = (
            pl.when(pl.col("score").is_null())
            .then(pl.lit(Status.MALFORMED.value))
            .otherwise(pl.lit(Status.OK.value))
        )
        frame = frame.with_columns(said.alias("status"))
    return frame


def _combined(judged: pl.DataFrame, rounding: Rounding) -> pl.DataFrame:
    combined = combine(judged, rounding).drop("neutral")
    about = judged.drop("judge", "rank", "score", "status", "mean", "single", "flagged", strict=False)
    one = about.unique(["trial", "axis"], keep="first", maintain_order=True)
    return one.join(combined, on=["trial", "axis"], how="left", validate="1:1", maintain_order="left")


def _ensemble_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """What a table of finished scores may leave out."""
    unsaid = {"mean": pl.col("score").cast(pl.Float64), "single": pl.lit(False), "flagged": pl.lit(False)}
    return frame.with_columns(value.alias(name) for name, value in unsaid.items() if name not in frame.columns)
