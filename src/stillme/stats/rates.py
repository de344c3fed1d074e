"""Rates by any grouping, each with its denominators: asked, judged, missing, persons, and its interval.

Everything is added up by person first, and all groups are computed at once. Does not know how a score came to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import polars as pl

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.intervals import LEVEL, squares, with_shares

_COUNTS = ("single", "flagged", "adjudicated")
_ORDER = ("asked", "judged", "missing", "refused", *_COUNTS, "persons", "hits")
_FIGURES = ("rate", "nominal_rate", "low", "high", "deff")
_REQUESTS = ("prompt", "subcategory", "category")  # from fine to coarse: a prompt is in one of each


def rates(
    marked: pl.DataFrame, by: Sequence[str], level: float = LEVEL, statuses: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One row per outcome and group in `by`.

    `asked` counts the trials that the design asks for, `judged` those with a score, `missing` the rest. `rate` is
    hits ÷ judged with a person-clustered 95 % interval; `nominal_rate` is hits ÷ asked (as the seed's table 12).
    With `statuses` (trial, status; also of judges) there is `refused`: the missing ones that somebody refused.
    """
    told = marked if statuses is None else with_refused(marked, statuses)
    return rated(per_person(told, by), by, level)


def with_refused(marked: pl.DataFrame, statuses: pl.DataFrame) -> pl.DataFrame:
    """`refused`: there is no score, and the editor or a judge refused.

    `statuses` has trial and status, and any number of rows a trial; with an axis, a refusal is about that axis.
    """
    keys = ["trial", "axis"] if "axis" in statuses.columns else ["trial"]
    stages = [status.value for status in Status if status.stage]
    said = statuses.filter(pl.col("status").is_in(stages)).select(keys).unique().with_columns(refused=pl.lit(True))
    found = marked.join(said, on=keys, how="left", validate="m:1", maintain_order="left")
    return found.with_columns(refused=pl.col("refused").fill_null(False) & pl.col("hit").is_null())


def per_person(marked: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Hits and denominators per person: everything that an interval needs of the edits.

    Flagged and adjudicated ones are counted whether or not there is a score in the end: a person may have decided
    that it cannot be told. Scores that no person could have decided have no column `adjudicated`.
    """
    return marked.group_by("outcome", *by, "person", maintain_order=True).agg(_sums(marked))


def _sums(marked: pl.DataFrame) -> list[pl.Expr]:
    decided = pl.col("adjudicated") if "adjudicated" in marked.columns else pl.lit(False)
    sums = [
        pl.len().alias("asked"),
        pl.col("hit").count().alias("judged"),
        pl.col("hit").sum().alias("hits"),
        (pl.col("single") & pl.col("hit").is_not_null()).sum().alias("single"),
        pl.col("flagged").sum(),
        decided.sum().alias("adjudicated"),
        *([pl.col("refused").sum()] if "refused" in marked.columns else []),
    ]
    return [each.cast(pl.Int64) for each in sums]


def rated(people: pl.DataFrame, by: Sequence[str], level: float) -> pl.DataFrame:
    """The rows of `rates` from one row per outcome, group and person, with asked, judged and hits at least."""
    keys = ["outcome", *by]
    groups = people.group_by(keys, maintain_order=True).agg(
        pl.col(_counted(people)).sum(),
        (pl.col("judged") > 0).sum().cast(pl.Int64).alias("persons"),
        squares("hits", "judged").alias("squares"),
    )
    found = with_shares(groups, "hits", "judged", level).with_columns(
        missing=pl.col("asked") - pl.col("judged"), nominal_rate=pl.col("hits") / pl.col("asked")
    )
    return found.select(*keys, *(name for name in (*_ORDER, *_FIGURES) if name in found.columns))


def _counted(people: pl.DataFrame) -> list[str]:
    """Columns that add up over persons."""
    return [name for name in _ORDER if name in people.columns and name != "persons"]


# Every crossing


def crossings(
    marked: pl.DataFrame, protocol: Protocol, level: float = LEVEL, statuses: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Every outcome by editor and each crossing of groups and prompts, in one long frame.

    `by` names what the row is about, e.g. "race × prompt", or "" where it is about the editor as a whole; the
    columns of dimensions, prompt, category and subcategory are null where they are not crossed. A person without a
    label is in no group of it.
    """
    told = marked if statuses is None else with_refused(marked, statuses)
    dimensions = list(protocol.groups.dimensions)
    people, parts = _per_prompt(told, dimensions), []
    for request in (*_REQUESTS, ""):  # from fine to coarse: each step adds up what the last one has added up
        people = _coarser(people, request, dimensions)
        parts += [_crossing(people, names, level) for names in _crossed(dimensions, request)]
    order = ["by", "outcome", "editor", *dimensions, *_REQUESTS]
    frame = pl.concat(parts[::-1], how="diagonal").with_columns(pl.col(pl.Categorical).cast(pl.String))
    return frame.select(*order, *(name for name in frame.columns if name not in order))


def _per_prompt(marked: pl.DataFrame, dimensions: Sequence[str]) -> pl.DataFrame:
    """One row per outcome, editor, person, prompt. A person has one label a dimension, a prompt one category."""
    words = ["outcome", "editor", "person", *dimensions, *_REQUESTS]
    counts = [name for name in ("hit", "refused", *_COUNTS) if name in marked.columns]
    short = marked.select(pl.col(words).cast(pl.Categorical), *counts)  # numbers are grouped faster than words
    keys = ["outcome", "editor", "person", "prompt"]
    others = pl.col([name for name in words if name not in keys])
    return short.group_by(keys, maintain_order=True).agg(others.first(), *_sums(marked))


def _coarser(people: pl.DataFrame, request: str, dimensions: Sequence[str]) -> pl.DataFrame:
    """One row per outcome, editor, person and `request`; without one, over all prompts."""
    if request == _REQUESTS[0]:
        return people
    coarser = _REQUESTS[_REQUESTS.index(request) :] if request else ()
    keys = ["outcome", "editor", "person", *([request] if request else [])]
    others = pl.col([*dimensions, *coarser[1:]])
    return people.group_by(keys, maintain_order=True).agg(others.first(), pl.col(_counted(people)).sum())


def _crossed(dimensions: Sequence[str], request: str) -> Iterator[tuple[str, ...]]:
    """The crossings with a kind of request, or without any; the widest first."""
    also = (request,) if request else ()
    if not request:
        yield from list(combinations(dimensions, 2))[::-1]
    if request != "subcategory":
        yield from ((name, *also) for name in dimensions[::-1])
    yield also


def _crossing(people: pl.DataFrame, names: tuple[str, ...], level: float) -> pl.DataFrame:
    known = people.drop_nulls(names) if names else people
    return rated(known, ["editor", *names], level).with_columns(by=pl.lit(" × ".join(names)))
