"""Who rated: the table of participants from Prolific's demographic export. Counts only; nobody's id leaves it.

Participants are those with an approved submission and a valid completion code, each once; the others are counted
by why. What Prolific no longer holds is missing; who would rather not say has said so, and is a row of their own.
Characteristics are what participants told Prolific of themselves, not what somebody perceives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from stillme.core.errors import InputError

ID, STATUS, CODE, AGE, TIME = "Participant id", "Status", "Completion code", "Age", "Time taken"
# As the seed's table 10.
TABLE = ("Sex", "Ethnicity simplified", "Student status", "Language", "Country of residence")
MORE = ("Country of birth", "Nationality", "Employment status")

APPROVED = "approved"
NO_CODE = "nocode"  # what Prolific writes where somebody came back without one
UNAVAILABLE = ("", "data_expired", "consent_revoked", "not applicable", "n/a")
UNSAID = ("prefer not to say", "rather not say")
MISSING, PREFER_NOT_TO_SAY, SMALL_GROUPS = "Missing", "Prefer not to say", "Small groups"


@dataclass(frozen=True)
class Age:
    """Years; None where nobody's is known, sd where one's is. The range is withheld where small groups are: its
    ends are single people."""

    known: int
    missing: int
    mean: float | None
    sd: float | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Participants:
    """The table, and who is not in it."""

    approved: int
    excluded: pl.DataFrame  # why, n
    age: Age
    minutes: float | None  # median time taken
    characteristics: pl.DataFrame  # characteristic × group: n, percent of all approved, groups put together


def participants(
    export: pl.DataFrame,
    codes: Collection[str] | None = None,
    characteristics: Sequence[str] = TABLE,
    smallest: int = 1,
) -> Participants:
    """The table from an export of strings, as Prolific names its columns.

    `codes`: the study's completion codes; without them any code counts. `smallest`: groups of fewer people are
    put together, so that a table which is published points at nobody. Characteristics that the export lacks are
    left out.
    """
    _complete(export)
    known = export.with_columns(pl.col(name).cast(pl.String).str.strip_chars() for name in export.columns)
    why = known.with_columns(why=_why(codes))
    approved = why.filter(pl.col("why").is_null())
    told = [name for name in characteristics if name in export.columns]
    return Participants(
        approved=approved.height,
        excluded=why.drop_nulls("why").group_by("why").agg(pl.len().cast(pl.Int64).alias("n")).sort("why"),
        age=_age(approved, withheld=smallest > 1),
        minutes=_minutes(approved),
        characteristics=pl.concat([_CLEAR, *(_counted(approved, name, smallest) for name in told)]),
    )


_CLEAR = pl.DataFrame(
    schema={
        "characteristic": pl.String,
        "group": pl.String,
        "n": pl.Int64,
        "percent": pl.Float64,
        "groups": pl.Int64,
    }
)


def _complete(export: pl.DataFrame) -> None:
    lacking = [name for name in (ID, STATUS, CODE, AGE) if name not in export.columns]
    if lacking:
        raise InputError(
            f"The demographic export has no column {', '.join(lacking)}.",
            "Download it from Prolific as it is (Demographic data of the study), without renaming columns.",
        )


def _why(codes: Collection[str] | None) -> pl.Expr:
    """Why a submission is not counted; null where it is. Of several by one participant the first that counts
    does."""
    code = pl.col(CODE).fill_null("")
    valid = code.is_in(list(codes)) if codes is not None else ~code.str.to_lowercase().is_in(["", NO_CODE])
    approved = pl.col(STATUS).fill_null("").str.to_lowercase() == APPROVED
    again = pl.col(ID).is_not_null() & ((approved & valid).cum_sum().over(ID) > 1)
    status = pl.when(pl.col(STATUS).fill_null("") == "").then(pl.lit("no status")).otherwise(_lower(STATUS))
    return (
        pl.when(~approved)
        .then(status)
        .when(~valid)
        .then(pl.lit("approved, no valid completion code"))
        .when(again)
        .then(pl.lit("approved, the same participant again"))
    )


def _lower(name: str) -> pl.Expr:
    return pl.col(name).fill_null("").str.to_lowercase()


def _age(approved: pl.DataFrame, withheld: bool) -> Age:
    years = _numbers(approved[AGE])
    found = years.select(
        pl.col("value").mean().alias("mean"),
        pl.col("value").std().alias("sd"),
        pl.col("value").min().cast(pl.Int64).alias("low"),
        pl.col("value").max().cast(pl.Int64).alias("high"),
    ).row(0, named=True)
    if withheld:
        found |= {"low": None, "high": None}
    return Age(years.height, approved.height - years.height, **found)


def _minutes(approved: pl.DataFrame) -> float | None:
    if TIME not in approved.columns:
        return None
    middle: float | None = _numbers(approved[TIME]).select(pl.col("value").median() / 60).item()
    return middle


def _numbers(texts: pl.Series) -> pl.DataFrame:
    """The texts that are numbers."""
    found = texts.cast(pl.Float64, strict=False).alias("value").to_frame()
    return found.filter(pl.col("value").is_finite())


def _counted(approved: pl.DataFrame, name: str, smallest: int) -> pl.DataFrame:
    """Largest group first, then by name; who would not say and what is missing last."""
    told = _lower(name)
    group = (
        pl.when(told.is_in(UNAVAILABLE))
        .then(pl.lit(MISSING))
        .when(told.is_in(UNSAID))
        .then(pl.lit(PREFER_NOT_TO_SAY))
        .otherwise(pl.col(name))
    )
    found = approved.group_by(group.alias("group")).agg(pl.len().cast(pl.Int64).alias("n"))
    found = _together(found.with_columns(groups=pl.lit(1, pl.Int64)), smallest)
    last = pl.col("group").replace_strict({SMALL_GROUPS: 1, PREFER_NOT_TO_SAY: 2, MISSING: 3}, default=0)
    ordered = found.sort(last, "n", "group", descending=[False, True, False])
    percent = 100 * pl.col("n") / max(approved.height, 1)
    return ordered.select(pl.lit(name).alias("characteristic"), "group", "n", percent.alias("percent"), "groups")


def _together(found: pl.DataFrame, smallest: int) -> pl.DataFrame:
    """Groups of fewer than `smallest` in one row, and with them the next larger ones until the row is large
    enough: else what was put together could be told from the rest."""
    groups = found.filter(pl.col("group") != MISSING).sort("n", "group")
    small = groups.filter((pl.col("n") < smallest) | (pl.col("n").cum_sum() - pl.col("n") < smallest))
    if smallest <= 1 or not (small["n"] < smallest).any():
        return found
    merged = small.select(
        pl.lit(SMALL_GROUPS).alias("group"), pl.col("n").sum(), pl.col("groups").sum().cast(pl.Int64)
    )
    return pl.concat([found.join(small, on="group", how="anti"), merged])


def table(found: Participants) -> pl.DataFrame:
    """Demographic and distribution in words, a row each, as the seed's table 10.

    >>> export = pl.DataFrame({"Participant id": ["x", "y"], "Status": "APPROVED", "Completion code": "C1",
    ...                        "Age": ["21", "30"], "Sex": ["Female", "DATA_EXPIRED"]})
    >>> table(participants(export))["distribution"].to_list()
    ['2', '25.5 ± 6.4 (range 21–30)', 'Female 1 (50.0%), Missing 1 (50.0%)']
    """
    age = found.age
    rows = [("Participants (approved)", str(found.approved))]
    if age.mean is not None:
        missing = f", {MISSING} {age.missing}" if age.missing else ""
        rows.append(("Age (years)", _words(age.mean, age.sd, age.low, age.high) + missing))
    for (name,), part in found.characteristics.group_by("characteristic", maintain_order=True):
        cells = [f"{row['group']} {row['n']} ({row['percent']:.1f}%)" for row in part.iter_rows(named=True)]
        rows.append((str(name), ", ".join(cells)))
    return pl.DataFrame(rows, schema={"demographic": pl.String, "distribution": pl.String}, orient="row")


def _words(mean: float, sd: float | None, low: int | None, high: int | None) -> str:
    spread = f" ± {sd:.1f}" if sd is not None else ""
    reach = f" (range {low}–{high})" if low is not None else ""
    return f"{mean:.1f}{spread}{reach}"
