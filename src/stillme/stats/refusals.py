"""Who is refused an edit, how often, at which stage: by editor and group, and by kind of prompt.

A rate is refused ÷ decided, where an edit is decided when the editor answered with a picture or refused. What
failed (a timeout, a broken picture) or was not made yet is neither: it is counted beside, never inside. Every
group is set against everyone else with the contrasts' permutation test, and all of that is one family.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, FEWEST_PERSONS, TIE, contrasts, exchanges, welch
from stillme.stats.families import holm
from stillme.stats.intervals import LEVEL, clustered_share

STAGES = ("input", "output", "model")  # on the way in, on the way out, in the model's own words
REFUSED = "refused"


@dataclass(frozen=True)
class Refusals:
    """The tables. In every row asked = answered + refused + failed + pending; refusals stand there by stage."""

    by_editor: pl.DataFrame  # editor
    by_group: pl.DataFrame  # dimension × editor × group, each against everyone else
    by_category: pl.DataFrame  # editor × category of prompts: everyone else against the reference group
    codes: pl.DataFrame  # editor × status × stage × code: the other side's own words

    @property
    def refused(self) -> int:
        return int(self.by_editor["refused"].sum())

    @property
    def decided(self) -> int:
        return int(self.by_editor["decided"].sum())

    @property
    def tested(self) -> int:
        """How many comparisons were corrected together."""
        return len(_family(self.by_group, self.by_category))


def refusals(edits: pl.DataFrame, protocol: Protocol, level: float = LEVEL, seed: int = 0) -> Refusals:
    """`edits`: one row a trial with editor, person, prompt, status, last_status, code and the person's groups.

    Controls are not among them. Groups are compared over all prompts; within a category of prompts it is everyone
    else against the reference group.
    """
    sorted_out = _sorted_out(edits, protocol)
    by_group = _by_group(sorted_out, protocol, level, seed)
    by_category = _by_category(sorted_out, protocol, level, seed)
    corrected = iter(holm(_family(by_group, by_category)))
    return Refusals(
        by_editor=_counted(sorted_out, ["editor"], level),
        by_group=_with_corrected(by_group, corrected),
        by_category=_with_corrected(by_category, corrected),
        codes=_codes(sorted_out),
    )


def judges_refusals(looks: pl.DataFrame, protocol: Protocol, level: float = LEVEL, seed: int = 0) -> pl.DataFrame:
    """Dimension × judge × group, each against everyone else: who is refused a verdict. A family of its own.

    `looks`: one row per judge and edit with judge, person, prompt, status and the person's groups. A look is
    decided when the judge scored or refused; an answer that could not be read has failed.
    """
    as_editors = looks.rename({"judge": "editor"}).with_columns(last_status=pl.lit(""))
    by_group = _by_group(_sorted_out(as_editors, protocol), protocol, level, seed)
    return _with_corrected(by_group, iter(holm(_family(by_group)))).rename({"editor": "judge"})


def _sorted_out(edits: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """What each edit counts as. One that will be tried again has failed so far; one never asked for is pending."""
    categories = {prompt.id: prompt.category for prompt in protocol.prompts.prompts}
    stages = {status.value: status.stage for status in Status}
    is_tried = (pl.col("status") == Status.PENDING.value) & (pl.col("last_status") != "")
    found = edits.with_columns(
        category=pl.col("prompt").replace_strict(categories, return_dtype=pl.String),
        stage=pl.col("status").replace_strict(stages, return_dtype=pl.String),
        status=pl.when(is_tried).then("last_status").otherwise("status"),
    )
    found = found.with_columns(
        answered=pl.col("status") == Status.OK.value,
        pending=pl.col("status") == Status.PENDING.value,
        refused=pl.col("stage") != "",
        **{stage: pl.col("stage") == stage for stage in STAGES},
    )
    decided = pl.col("answered") | pl.col("refused")
    return found.with_columns(decided=decided, failed=~(decided | pl.col("pending")))


_COUNTS = ("answered", "refused", *STAGES, "decided", "failed", "pending")
_RATE = ("rate", "low", "high")


def _per_person(sorted_out: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    sums = [pl.col(name).sum().cast(pl.Int64) for name in _COUNTS]
    return sorted_out.group_by(*by, "person", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"), *sums
    )


def _counted(sorted_out: pl.DataFrame, by: Sequence[str], level: float) -> pl.DataFrame:
    """Counts and rate of each group in `by`, persons as the unit."""
    people = _per_person(sorted_out, by)
    rows = [
        {**dict(zip(by, key, strict=True)), **_row(group, level)}
        for key, group in people.group_by(by, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema={**dict.fromkeys(by, pl.String), **_schema()})


def _schema() -> dict[str, Any]:
    return dict.fromkeys(("asked", *_COUNTS, "persons"), pl.Int64) | dict.fromkeys(_RATE, pl.Float64)


def _row(people: pl.DataFrame, level: float) -> dict[str, float | int | None]:
    share = clustered_share(people["refused"], people["decided"], level)
    counts = {name: int(people[name].sum()) for name in ("asked", *_COUNTS)}
    return {**counts, "persons": share.clusters, "rate": share.rate, "low": share.low, "high": share.high}


# Every group against everyone else

_CONTRAST = ("mean", "others_mean", "difference", "difference_low", "difference_high", "p")


def _by_group(sorted_out: pl.DataFrame, protocol: Protocol, level: float, seed: int) -> pl.DataFrame:
    dimensions = list(protocol.groups.dimensions)
    rows = [
        {"dimension": dimension, "editor": editor, **row}
        for dimension in dimensions
        for (editor,), edits in sorted_out.group_by("editor", maintain_order=True)
        for row in _compared(edits, dimension, [name for name in dimensions if name != dimension], level, seed)
    ]
    words = dict.fromkeys(("dimension", "editor", "group"), pl.String)
    contrast = {"others_persons": pl.Int64, **dict.fromkeys(_CONTRAST, pl.Float64)}
    return pl.DataFrame(rows, schema={**words, **_schema(), **contrast})


def _compared(
    edits: pl.DataFrame, dimension: str, strata: Sequence[str], level: float, seed: int
) -> Iterator[dict[str, Any]]:
    counted = _per_person(edits, [dimension, *strata]).filter(pl.col(dimension).is_not_null())
    people = counted.filter(pl.col("decided") > 0).with_columns(
        share=pl.col("refused") / pl.col("decided"),
        stratum=pl.concat_str(*strata, separator="\t", ignore_nulls=True) if strata else pl.lit(""),
    )
    found = against_everyone_else(people["share"], people[dimension], people["stratum"], seed=seed)
    for (group,), some in counted.group_by(dimension, maintain_order=True):
        difference = _difference(people, pl.col(dimension) == group, level)
        yield {"group": group, **_row(some, level), **difference, "p": found.get(str(group))}


def _difference(people: pl.DataFrame, inside: pl.Expr, level: float) -> dict[str, float | int | None]:
    """Means of persons' own shares, as the contrasts take them."""
    own, others = people.filter(inside)["share"], people.filter(~inside)["share"]
    found = welch(own, others, level)
    return {
        "others_persons": len(others),
        "mean": _mean(own),
        "others_mean": _mean(others),
        "difference": found.difference,
        "difference_low": found.low,
        "difference_high": found.high,
    }


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None


def against_everyone_else(
    shares: ArrayLike, groups: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> dict[str, float]:
    """Group -> two-sided p of its mean against everyone else's, persons exchanged within each stratum.

    The test of `contrast.permutation_p`, for all groups from the same draws. A group that is too small to say
    anything, or that shares no stratum with others, is not there.
    """
    values, labels, layers = np.asarray(shares, float), np.asarray(groups), np.asarray(strata)
    names = [name for name in dict.fromkeys(labels.tolist()) if _is_large_enough(labels == name)]
    movable = {name: _is_movable(labels == name, layers) for name in names}
    names = [name for name in names if movable[name]]
    if not names:
        return {}
    if np.ptp(values) == 0:  # everybody alike: every draw is as extreme as what was seen
        return dict.fromkeys(names, 1.0)
    members = np.stack([labels == name for name in names], axis=1).astype(float)
    centre = _expected_sums(values, members, layers)
    sums = _drawn_sums(values, members, layers, draws, seed)
    extreme = np.abs(sums - centre) >= np.abs(values @ members - centre) - TIE
    return dict(zip(names, ((1 + extreme.sum(axis=0)) / (draws + 1)).tolist(), strict=True))


def _is_large_enough(inside: np.ndarray) -> bool:
    return min(int(inside.sum()), int((~inside).sum())) >= FEWEST_PERSONS


def _is_movable(inside: np.ndarray, layers: np.ndarray) -> bool:
    return any(0 < inside[layers == layer].sum() < (layers == layer).sum() for layer in np.unique(layers))


def _drawn_sums(values: np.ndarray, members: np.ndarray, layers: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """The sum of each group's shares (draws × groups) when the persons of a stratum change places."""
    sums = np.zeros((draws, members.shape[1]))
    for here, order in exchanges(layers, draws, seed):
        sums += values[here][order] @ members[here]
    return sums


def _expected_sums(values: np.ndarray, members: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """What each group's sum is on average over all exchanges."""
    parts = [values[layers == one].mean() * members[layers == one].sum(axis=0) for one in np.unique(layers)]
    return np.asarray(sum(parts))


# Within each category of prompts


def _by_category(sorted_out: pl.DataFrame, protocol: Protocol, level: float, seed: int) -> pl.DataFrame:
    """Everyone else minus the reference group. With one category only, that is what the groups tell already."""
    counted = _counted(sorted_out, ["editor", "category"], level)
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    kinds = sorted_out.partition_by("category", maintain_order=True)
    parts = [_against_reference(some, dimension, reference, strata, level, seed) for some in kinds]
    found = pl.concat(parts).with_columns(p=pl.col("p") if len(kinds) > 1 else pl.lit(None, pl.Float64))
    return counted.join(found, on=["editor", "category"], how="left", validate="1:1", maintain_order="left")


def _against_reference(
    some: pl.DataFrame, dimension: str, reference: str, strata: Sequence[str], level: float, seed: int
) -> pl.DataFrame:
    """The report's contrast, with being refused as its outcome."""
    hit = pl.when("decided").then("refused")
    marked = some.with_columns(outcome=pl.lit(REFUSED), hit=hit, single=pl.lit(False), flagged=pl.lit(False))
    found = contrasts(marked, [REFUSED], dimension, reference, strata, level, seed)
    renamed = found.rename({"low": "difference_low", "high": "difference_high"}).drop("outcome", "p_holm")
    return renamed.with_columns(category=pl.lit(some["category"][0]))


# One family


def _family(*frames: pl.DataFrame) -> list[float | None]:
    """Every p that was computed, once."""
    return [p for frame in frames for p in frame.filter(_is_tested(frame))["p"]]


def _is_tested(frame: pl.DataFrame) -> pl.Expr:
    """Two groups of one dimension are one comparison, seen from both sides: the first one stands for it."""
    if "dimension" not in frame.columns:
        return pl.col("p").is_not_null()
    keys = ["dimension", "editor"]
    is_mirror = (pl.int_range(pl.len()).over(keys) == 1) & (pl.len().over(keys) == 2)
    return pl.col("p").is_not_null() & ~is_mirror


def _with_corrected(frame: pl.DataFrame, corrected: Iterator[float | None]) -> pl.DataFrame:
    tested = frame.select(_is_tested(frame).alias("tested"))["tested"]
    values = [next(corrected) if is_tested else None for is_tested in tested]
    found = frame.with_columns(p_holm=pl.Series(values, dtype=pl.Float64))
    if "dimension" not in frame.columns:
        return found
    mirror = pl.col("p_holm").fill_null(pl.col("p_holm").shift(1).over("dimension", "editor"))
    return found.with_columns(p_holm=pl.when(pl.col("p").is_not_null()).then(mirror))


def _codes(sorted_out: pl.DataFrame) -> pl.DataFrame:
    """What editors said of edits that they did not make, verbatim, most frequent first."""
    said = sorted_out.filter(~pl.col("answered") & ~pl.col("pending"))
    counted = said.group_by("editor", "status", "stage", "code", maintain_order=True).len("edits")
    return counted.sort("editor", "edits", descending=[False, True], maintain_order=True)
