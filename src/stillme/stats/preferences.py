"""Which of two edits raters chose, the treated one or the plain one: counts, and a share with its interval.

The unit of replication is the person shown: many answers about one person are not independent. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.stats.intervals import LEVEL, clustered_share

CHOSEN, AGAINST = "chosen", "chosen_against"


def preferences(choices: pl.DataFrame, by: Sequence[str] = (), level: float = LEVEL) -> pl.DataFrame:
    """One row a question (and group): how often the treated output was chosen, how often the plain one, and every
    other answer, in a column each.

    `share` is the treated output's part of the answers that chose one of the two, ½ where neither is better;
    `low`, `high` its person-clustered interval. `choices`: rater, person, question, arm, against, chosen (an
    arm, or a word).
    """
    rows = []
    words = _words(choices)
    keys = ["question", "arm", "against", *by]
    for key, group in choices.group_by(keys, maintain_order=True):
        rows.append({**dict(zip(keys, key, strict=True)), **_counts(group, words), **_share(group, level)})
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(keys, pl.String)
    kinds |= dict.fromkeys((CHOSEN, AGAINST, *words, "answers", "raters", "persons"), pl.Int64)
    kinds |= dict.fromkeys(("share", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _words(choices: pl.DataFrame) -> list[str]:
    """Answers that are no arm, in order of their names."""
    arms = set(choices["arm"]) | set(choices["against"])
    return sorted(set(choices["chosen"]) - arms)


def _counts(group: pl.DataFrame, words: Sequence[str]) -> dict[str, int]:
    counts = dict(group["chosen"].value_counts().iter_rows())
    arms = {CHOSEN: group["arm"][0], AGAINST: group["against"][0]}
    found = {name: counts.get(arm, 0) for name, arm in arms.items()} | {w: counts.get(w, 0) for w in words}
    return {**found, "answers": group.height, "raters": group["rater"].n_unique()}


def _share(group: pl.DataFrame, level: float) -> dict[str, float | int | None]:
    is_arm, is_plain = pl.col("chosen") == pl.col("arm"), pl.col("chosen") == pl.col("against")
    people = group.group_by("person", maintain_order=True).agg(
        is_arm.sum().alias("hits"), (is_arm | is_plain).sum().alias("trials")
    )
    found = clustered_share(people["hits"], people["trials"], level)
    return {"persons": found.clusters, "share": found.rate, "low": found.low, "high": found.high}
