"""How far an edit moved what nobody asked to move: the values that arms of an experiment are compared by.

On an axis with a point that means "nothing changed" it is the distance from it, in points; a signed axis has its
direction apart, because lighter and darker would cancel. Whether an edit drifted at all is a yes or no over the
outcomes that the protocol lists. Cells of which the prompt itself asks for a change are left out everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis
from stillme.stats.outcomes import direction, mark

CASE = ("editor", "prompt", "person")


def changes(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """`value`: how far a score is from "nothing changed", or the score where an axis has no such point."""
    change = (pl.col("score") - pl.col("neutral")).abs()
    value = pl.when(pl.col("neutral").is_null()).then(pl.col("score")).otherwise(change)
    return of_axes(scores, [axis for axis in protocol.rubrics.axes if is_compared(axis)]).with_columns(value=value)


def directions(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """`value`: +1 above "nothing changed", −1 below it, from the unrounded score; of signed axes alone."""
    return of_axes(scores, signed_axes(protocol)).with_columns(value=direction(scores))


def signed_axes(protocol: Protocol) -> list[Axis]:
    return [axis for axis in protocol.rubrics.axes if is_compared(axis) and axis.is_signed]


def is_compared(axis: Axis) -> bool:
    """Drift of an attribute of the person, or how well the edit was made; not how well an asked change fits."""
    return axis.attribute is not None or axis.neutral is None


def of_axes(scores: pl.DataFrame, axes: Sequence[Axis]) -> pl.DataFrame:
    """Scores on these axes, without those of a change that the prompt asks for."""
    return scores.filter(pl.col("axis").is_in([axis.id for axis in axes]) & ~pl.col("requested"))


def drifted(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """One row a case and arm; `drifted`: any of the listed outcomes.

    Null where none was seen and a score is missing. Scores on axes of which the
    prompt itself asks for a change do not count.
    """
    names = protocol.mitigation.drifted if protocol.mitigation else ()
    marked = mark(scores, {name: protocol.rubrics.outcomes[name] for name in names})
    return marked.group_by("arm", *CASE, maintain_order=True).agg(
        pl.col("hit").any(ignore_nulls=False).alias("drifted")
    )


def refuse_twice(scores: pl.DataFrame) -> None:
    """A case has one edit in an arm; two of them would be paired with each other's partners."""
    keys = [*CASE, "arm", "axis"]
    twice = scores.filter(scores.select(keys).is_duplicated())
    if twice.height:
        editor, prompt, person, arm, axis = twice.select(keys).row(0)
        raise InputError(
            f"{person} × {prompt} × {editor} has more than one score on {axis} in the arm {arm}.",
            "Give the trials of one experiment alone, with one seed a case and arm.",
        )
