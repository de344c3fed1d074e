"""What judges did besides scoring: how their looks ended, whom they refused, how far they agree with themselves.

A look is a judge's, at an edit that is there. Second looks stand in `itself` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.agreement import self_agreement
from stillme.stats.refusals import judges_refusals


@dataclass(frozen=True)
class Judging:
    """The tables."""

    statuses: pl.DataFrame  # judge × status: how many looks ended how
    refusals: pl.DataFrame  # dimension × judge × group, each against everyone else
    itself: pl.DataFrame  # judge × axis: first beside second look; empty where nobody looked twice

    @property
    def refused(self) -> int:
        return self._ended([status for status in Status if status.stage])

    @property
    def decided(self) -> int:
        return self.refused + self._ended([Status.OK])

    def _ended(self, statuses: Iterable[Status]) -> int:
        return int(self.statuses.filter(pl.col("status").is_in(list(statuses)))["looks"].sum())


def judge_findings(
    judged: pl.DataFrame, edits: pl.DataFrame, repeats: pl.DataFrame, protocol: Protocol
) -> Judging:
    """`judged`: trial × axis × judge with status, of judges that were asked; `edits`: one row a trial, without
    controls; `repeats`: as `self_agreement` takes them."""
    found = looks(judged, edits, list(protocol.groups.dimensions))
    return Judging(
        statuses=found.group_by("judge", "status", maintain_order=True).len("looks"),
        refusals=judges_refusals(found, protocol),
        itself=self_agreement(repeats),
    )


def looks(judged: pl.DataFrame, edits: pl.DataFrame, dimensions: list[str]) -> pl.DataFrame:
    """One row per judge and edit. Where there is no picture there is nothing to look at, so nothing to refuse."""
    there = edits.filter(pl.col("status") == Status.OK.value)
    about = there.select("trial", "edit", "person", "prompt", *dimensions).unique(
        "edit", keep="first", maintain_order=True
    )
    each = judged.select("trial", "judge", "status", "rank").unique(
        ["trial", "judge"], keep="first", maintain_order=True
    )
    found = about.join(each, on="trial", how="inner", maintain_order="left")
    return found.sort("rank", maintain_order=True).drop("rank", "trial", "edit")
