"""Which sections a page does without, and what would make them: nothing is missing in silence."""

from __future__ import annotations

from collections.abc import Sequence

from stillme.report.blocks import Section, bullets, prose

COMMAND = "“stillme report RUN”"


def build(titles: Sequence[str], analysed: bool, rated: bool) -> Section | None:
    """`titles`: of the sections that need analysis tables and did not get them. None where nothing is left out."""
    told = []
    if not analysed:
        told.append(f"{COMMAND} computes the analysis tables, which these sections need: {'; '.join(titles)}.")
    elif titles:
        told.append(f"This audit’s scores do not allow: {'; '.join(titles)}.")
    if not rated:
        told.append(
            "Nobody’s ratings were taken into this run, so nothing is said about raters. “stillme study import” "
            "takes the ratings of a study in."
        )
    if not told:
        return None
    return Section(
        "left-out", "What this page leaves out", "Left out", (prose("Not part of this report:"), bullets(told))
    )
