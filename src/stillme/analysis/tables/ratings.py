"""Ratings of people, attention checks and participants, as the analysis takes them; or what is wrong with them.

A rating is about an output that the table of scores has: what was edited and whom it shows is taken from there, so
that no join can make more ratings than people gave.
"""

from __future__ import annotations

import polars as pl

from stillme.analysis.tables.columns import ROW, Reader
from stillme.analysis.tables.files import Given
from stillme.analysis.tables.reading import TRIAL, read_axes
from stillme.core.errors import ConfigIssuesError
from stillme.protocol import Protocol

ABOUT = ("editor", "prompt", "person")
ANSWERS = ("scored", "cannot_determine", "skipped")


def read_ratings(given: Given, scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """One row a rater, output and axis, with everything that the scores know of the output."""
    reader = Reader(given, protocol)
    _check(reader)
    outputs = _outputs(scores, protocol)
    key = ["trial"] if reader.has("trial") else [name for name in TRIAL if reader.has(name)]
    if not reader.faults:
        _check_key(reader, outputs, key)
    if reader.faults:
        raise ConfigIssuesError(reader.faults, "Mend the table and run the same command again.")
    known = [name for name in outputs.columns if name not in key]
    own = reader.frame.drop([name for name in known if name in reader.frame.columns])
    joined = own.join(outputs, on=key, how="left", validate="m:1", maintain_order="left")
    neutral = {axis.id: axis.neutral for axis in protocol.rubrics.axes}
    return joined.with_columns(
        pl.col("axis").replace_strict(neutral, return_dtype=pl.Int64).alias("neutral"), *_unsaid(reader)
    ).drop(ROW)


def _check(reader: Reader) -> None:
    if not reader.need(("rater", "axis", "score")):
        return
    if not reader.has("trial") and not reader.need(ABOUT):
        return
    reader.words("rater", "axis", "task", "trial", "answer", *ABOUT, "arm", "experiment")
    reader.required("rater", "axis")
    reader.number("score", whole=True)
    reader.number("seconds")
    reader.number("seed", whole=True)
    read_axes(reader)
    reader.spelled("answer", {word: word for word in ANSWERS}, "kind of answer", ANSWERS)
    if reader.has("seed"):
        reader.frame = reader.frame.with_columns(pl.col("seed").cast(pl.String))


def _check_key(reader: Reader, outputs: pl.DataFrame, key: list[str]) -> None:
    """Every rating is about one output of the scores, and a rater rates it once."""
    if outputs.select(pl.struct(key).is_duplicated().any()).item():
        reader.fault(
            key[0], f"several outputs share the same {', '.join(key)}; tell them apart by a column 'trial'"
        )
        return
    strange = reader.frame.join(outputs, on=key, how="anti", maintain_order="left")
    reader.faulty(key[0], strange, "the table of scores has no such output")
    reader.once(["rater", *key, "axis"], "rater, output and axis")
    for axis in reader.protocol.rubrics.axes:
        low, high = min(axis.scale), max(axis.scale)
        outside = reader.frame.filter((pl.col("axis") == axis.id) & ~pl.col("score").is_between(low, high))
        said = f"{outside['score'][0] if outside.height else ''} is not on the scale of {axis.id}, {low} to {high}"
        reader.faulty("score", outside, said)


def _outputs(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """One row an output."""
    about = ["trial", *TRIAL, "category", "subcategory", *protocol.groups.dimensions]
    return scores.select(about).unique("trial", keep="first", maintain_order=True)


def _unsaid(reader: Reader) -> list[pl.Expr]:
    """What a table of ratings may leave out."""
    scored = pl.when(pl.col("score").is_null()).then(pl.lit(ANSWERS[-1])).otherwise(pl.lit(ANSWERS[0]))
    unsaid = {"task": pl.lit("all"), "answer": scored, "seconds": pl.lit(None, pl.Float64)}
    return [value.alias(name) for name, value in unsaid.items() if not reader.has(name)]


def read_checks(given: Given, protocol: Protocol) -> pl.DataFrame:
    """Attention checks: rater, check, passed."""
    reader = Reader(given, protocol)
    if reader.need(("rater", "check", "passed")):
        reader.words("rater", "check")
        reader.truth("passed")
        reader.required("rater", "check", "passed")
        reader.once(["rater", "check"], "rater and check")
    if reader.faults:
        raise ConfigIssuesError(reader.faults, "Mend the table and run the same command again.")
    return reader.frame.select("rater", "check", "passed")
