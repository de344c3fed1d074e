"""Were cases chosen by what was seen in them? Read off the data, whatever was told about the choice.

Scores are noisy. Cases that were chosen because their first edit drifted show drift in that edit by construction,
and less of it in any other edit of the same request: regression to the mean, which looks like mitigation. An arm
that asks the same prompt again with another seed was made after the choice. Had nobody chosen, that edit and the
first one could have changed places, person by person; that is what is tested.

Knows neither who chose nor why. Change is never set against its own baseline here or elsewhere: a change
correlates with its baseline without any effect, because the baseline is a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from stillme.protocol import Protocol
from stillme.protocol.schema import Arm
from stillme.stats.drift import CASE, drifted
from stillme.stats.flips import FLIPS, flipped_p

NEARLY_ALL = 0.95  # of the cases: later verdicts and decisions may take a few of those that were chosen away
FAR = 0.1  # by so much the first edit has to show drift more often for a choice to be suspected
FULL, PARTIAL = 0.01, 0.001  # largest p: where nearly every case drifted, and where only more of them did
ENOUGH = 10  # persons, for a suspicion without an arm to compare with


@dataclass(frozen=True)
class Selection:
    """Whether cases look as if they were chosen by their outcome, and why.

    `share_baseline`: of the cases, those with drift in the prompt-alone arm; `share_reseed`: those with drift
    where the same prompt was asked again; both over the cases known in both arms where there are such. `p`:
    two-sided, that the two arms could have changed places. None where it cannot be told.
    """

    suspected: bool
    because: str
    share_baseline: float | None
    share_reseed: float | None
    cases: int
    persons: int
    p: float | None


def is_plain(arm: Arm) -> bool:
    """Whether an arm is the prompt alone."""
    return not arm.lead and not arm.prefix and not arm.seed_offset


def asks_again(arm: Arm) -> bool:
    """Whether an arm is the prompt alone with another seed."""
    return bool(arm.seed_offset) and not arm.lead and not arm.prefix


def selection(scores: pl.DataFrame, protocol: Protocol, seed: int = 0, flips: int = FLIPS) -> Selection:
    """Compares how often cases drift in the prompt-alone arm and in the one that asks the same again.

    Drift is any outcome that the protocol lists for choosing cases (`mitigation.drifted`). Suspected where nearly
    all first edits drifted and re-asked ones less often, or where first edits drifted far more often; without an
    arm that asks again, where every first edit of at least ten persons did.
    """
    plain = next((arm.id for arm in protocol.manifest.arms if is_plain(arm)), "")
    again = next((arm.id for arm in protocol.manifest.arms if asks_again(arm)), "")
    cases = drifted(scores, protocol)
    first = cases.filter(arm=plain).drop_nulls("drifted").select(*CASE, first="drifted")
    second = cases.filter(arm=again).drop_nulls("drifted").select(*CASE, second="drifted")
    both = first.join(second, on=list(CASE), how="inner", maintain_order="left")
    if first.is_empty():
        return Selection(False, "No case has a score where the prompt stands alone.", None, None, 0, 0, None)
    return _compared(both, seed, flips) if both.height else _alone(first)


def _compared(both: pl.DataFrame, seed: int, flips: int) -> Selection:
    difference = pl.col("first").cast(pl.Int64) - pl.col("second").cast(pl.Int64)
    people = both.group_by("person", maintain_order=True).agg(difference.sum().alias("difference"))
    share, other = float(both["first"].sum() / both.height), float(both["second"].sum() / both.height)
    p = flipped_p(people["difference"], flips, seed)
    allowed = FULL if share >= NEARLY_ALL else PARTIAL
    far = share - other >= FAR or share >= NEARLY_ALL > other
    suspected = p is not None and p <= allowed and far
    seen, seen_again = int(both["first"].sum()), int(both["second"].sum())
    told = f"{seen:,} of {both.height:,} first edits show drift, and {seen_again:,} of the same cases asked again"
    because = f"{told}: {_SO if suspected else _NOT if p is not None else _FEW}."
    return Selection(suspected, because, share, other, both.height, people.height, p)


_SO = "the first edits look as if they had been chosen for it"
_NOT = "nothing speaks for a choice by the outcome"
_FEW = "the persons are too few to tell whether cases were chosen by the outcome"


def _alone(first: pl.DataFrame) -> Selection:
    share, people = float(first["first"].sum() / first.height), first["person"].n_unique()
    suspected = share == 1.0 and people >= ENOUGH
    told = f"{first['first'].sum():,} of {first.height:,} first edits show drift, and no case was asked again"
    so = "cases that nobody chose would hardly be so, unless an editor always drifts"
    because = f"{told}: {so if suspected else 'whether cases were chosen by it cannot be told'}."
    return Selection(suspected, because, share, None, first.height, people, None)
