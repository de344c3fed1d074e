"""The instrument beside the judges: how often they agree, and whether both see that nothing was changed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.agreement import agreement
from stillme.stats.outcomes import happened

_CROSSED = {"editor": pl.String, **dict.fromkeys(("pairs", "unchanged", "erased", "both"), pl.Int64)}


def beside(instrument: pl.DataFrame, ensemble: pl.DataFrame) -> pl.DataFrame:
    """Axis: over the edits that both scored, exact, within one point, and the mean of instrument − judges."""
    keep = ("trial", "axis", pl.col("score").cast(pl.Int64))
    sides = {"judges": ensemble, "instrument": instrument}
    ranked = [
        frame.select(*keep, rank=pl.lit(rank), judge=pl.lit(side))
        for rank, (side, frame) in enumerate(sides.items())
    ]
    return agreement(pl.concat(ranked)).drop("first_judge", "second_judge", "flagged", "kappa", "missing")


def crossed(known: pl.DataFrame, ensemble: pl.DataFrame, protocol: Protocol, axis: str) -> pl.DataFrame:
    """Editor (null: all): edits that the instrument calls unchanged, that judges call erased, and both at once.

    `known` has trial, editor and no_change. Counted are the edits about which both said something.
    """
    outcome = erased(protocol, axis)
    if outcome is None:
        return pl.DataFrame(schema=_CROSSED)
    judged = ensemble.filter(pl.col("axis") == axis).select("trial", happened(outcome).alias("erased"))
    both = known.join(judged, on="trial", how="inner", validate="1:1").drop_nulls(["no_change", "erased"])
    return pl.DataFrame(list(_tallies(both)), schema=_CROSSED)


def erased(protocol: Protocol, axis: str) -> Outcome | None:
    """The outcome at the low end of the axis: the edit was not made."""
    ends = (o for o in protocol.rubrics.outcomes.values() if o.axis == axis and o.at_most is not None)
    return next(ends, None)


def _tallies(both: pl.DataFrame) -> Iterator[dict[str, object]]:
    if both.height:
        yield {"editor": None, **_tally(both)}
    for (editor,), part in both.group_by("editor", maintain_order=True):
        yield {"editor": editor, **_tally(part)}


def _tally(both: pl.DataFrame) -> dict[str, int]:
    return {
        "pairs": both.height,
        "unchanged": int(both["no_change"].sum()),
        "erased": int(both["erased"].sum()),
        "both": int((both["no_change"] & both["erased"]).sum()),
    }
