"""The edits behind a question: which, in which order, and how many there would be under every other filter.

Pure: frames in, row numbers and counts out. A trial is kept where one score of it fulfils everything that is asked
of scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.protocol import Protocol
from stillme.report.review.query import OF_SCORE, OF_TRIAL, Query
from stillme.report.tables import ANY, JUDGED, NO_SCORE, YES
from stillme.stats.outcomes import happened

NO = "no"
HAPPENED = (YES, NO, JUDGED, NO_SCORE, ANY)
FLAGS = ("flagged", "open", "adjudicated", "contested")
LOWEST, HIGHEST, APART = "lowest", "highest", "apart"
SORTS = ("", LOWEST, HIGHEST, APART)

Mask = NDArray[np.bool_]
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Samples:
    """`trials` has `row`; `axes` has the `row` of its trial; `texts`: what judges wrote, a row a trial."""

    protocol: Protocol
    trials: pl.DataFrame
    axes: pl.DataFrame
    texts: pl.Series | None = None

    # Which

    def kept(self, query: Query) -> NDArray[np.int64]:
        """The rows that fulfil everything, in the order that is asked for."""
        mask = self._of_trials(query) & self._of_scores(query, self.axes)
        rows = np.flatnonzero(mask)
        return rows if query.one("sort") not in SORTS[1:] else self._ordered(query, rows)

    def _of_trials(self, query: Query, but: str = "") -> Mask:
        masks = (self._mask(query, name) for name in query.names() if name != but)
        return reduce(np.logical_and, masks, np.ones(self.trials.height, dtype=bool))

    def _mask(self, query: Query, name: str) -> Mask:
        if name == "text" and self.texts is not None:
            return self.texts.str.contains(query.one(name).lower(), literal=True).to_numpy()
        if name in OF_TRIAL or name in self.protocol.groups.dimensions:
            return self.trials[name].is_in(list(query.all(name))).fill_null(False).to_numpy()
        return np.ones(self.trials.height, dtype=bool)

    def _of_scores(self, query: Query, axes: pl.DataFrame, but: str = "") -> Mask:
        """Trials with a score that fulfils all that is asked of scores; all trials where nothing is."""
        asked = [name for name in query.names() if name in OF_SCORE and name != but]
        if not asked:
            return np.ones(self.trials.height, dtype=bool)
        mask = np.zeros(self.trials.height, dtype=bool)
        mask[self._matching(query, axes, but)["row"].to_numpy()] = True
        return mask

    def _matching(self, query: Query, axes: pl.DataFrame, but: str = "") -> pl.DataFrame:
        conditions = list(self._conditions(query, but))
        return axes.filter(*conditions) if conditions else axes

    def _conditions(self, query: Query, but: str) -> Iterator[pl.Expr]:
        if but != "outcome" and (outcome := query.one("outcome")):
            yield self._outcome(outcome, query.one("happened", YES) if but != "happened" else ANY)
        if but != "axis" and (axis := query.one("axis")):
            yield pl.col("axis") == axis
        if (low := query.number("low")) is not None:
            yield pl.col("score") >= low
        if (high := query.number("high")) is not None:
            yield pl.col("score") <= high
        for name in ("why", "standing"):
            if but != name and query.all(name):
                yield pl.col(name).is_in(list(query.all(name)))
        if but != "flag" and (flag := query.one("flag")):
            yield pl.col(flag) if flag in FLAGS else pl.lit(False)
        if query.one("single"):
            yield pl.col("single") & pl.col("score").is_not_null()

    def _outcome(self, name: str, word: str) -> pl.Expr:
        """The scores that an outcome is read off; a change that was asked for is none."""
        outcome = self.protocol.rubrics.outcomes.get(name)
        if outcome is None or word not in HAPPENED:
            return pl.lit(False)
        hit, score = happened(outcome), pl.col("score")
        read = {YES: hit, NO: ~hit, JUDGED: score.is_not_null(), NO_SCORE: score.is_null(), ANY: pl.lit(True)}
        return (pl.col("axis") == outcome.axis) & ~pl.col("requested") & read[word].fill_null(False)

    def _ordered(self, query: Query, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """By the score or the distance of judges on the axis in question; what has none comes last."""
        sort = query.one("sort")
        by = pl.col("spread").max() if sort == APART else pl.col("score").first()
        keys = self._matching(query, self.axes).group_by("row", maintain_order=True).agg(key=by)
        listed = pl.DataFrame({"row": rows}, schema={"row": pl.UInt32})
        found = listed.join(keys, on="row", how="left", maintain_order="left")
        descending = sort != LOWEST
        ordered = found.sort("key", descending=descending, nulls_last=True, maintain_order=True)
        return ordered["row"].to_numpy().astype(np.int64)

    def persons(self, rows: NDArray[np.int64]) -> int:
        return int(self.trials["person"].gather(rows).n_unique())

    # How many

    def counts(self, query: Query) -> Counts:
        """Filter -> value -> how many trials there would be, with every other filter as it is."""
        return {**self._trial_counts(query), **self._score_counts(query)}

    def _trial_counts(self, query: Query) -> Counts:
        scores = self._of_scores(query, self.axes)
        every = self._of_trials(query) & scores
        found: Counts = {}
        for name in (*OF_TRIAL[:-2], *self.protocol.groups.dimensions):
            mask = self._of_trials(query, name) & scores if query.all(name) else every
            found[name] = _tally(self.trials[name].filter(pl.Series(mask)))
        return found

    def _score_counts(self, query: Query) -> Counts:
        mask = self._of_trials(query)
        axes = self.axes.filter(pl.Series(mask[self.axes["row"].to_numpy()]))
        flags = self._matching(query, axes, "flag")
        found: Counts = {
            "flag": {name: _trials(flags.filter(pl.col(name))) for name in FLAGS},
            "axis": _by_value(self._matching(query, axes, "axis"), "axis"),
            "outcome": self._outcomes(query, axes),
            "happened": self._happened(query, axes),
        }
        for name in ("why", "standing"):
            found[name] = _by_value(self._matching(query, axes, name), name)
        return found

    def _outcomes(self, query: Query, axes: pl.DataFrame) -> dict[str, int]:
        rest, word = self._matching(query, axes, "outcome"), query.one("happened", YES)
        names = self.protocol.rubrics.outcomes
        return {name: _trials(rest.filter(self._outcome(name, word))) for name in names}

    def _happened(self, query: Query, axes: pl.DataFrame) -> dict[str, int]:
        if not (outcome := query.one("outcome")):
            return {}
        rest = self._matching(query, axes, "happened")
        return {word: _trials(rest.filter(self._outcome(outcome, word))) for word in HAPPENED}


def _tally(values: pl.Series) -> dict[str, int]:
    counted: Mapping[Any, int] = dict(values.drop_nulls().value_counts().iter_rows())
    return {str(value): count for value, count in counted.items() if value != ""}


def _trials(axes: pl.DataFrame) -> int:
    return int(axes["row"].n_unique())


def _by_value(axes: pl.DataFrame, name: str) -> dict[str, int]:
    counted = axes.drop_nulls(name).group_by(name).agg(pl.col("row").n_unique())
    return {str(value): int(count) for value, count in counted.iter_rows()}
