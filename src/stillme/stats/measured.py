"""All tables of the measurements of one audit. Instruments read light and pixels; no table here knows who is who
beyond the perceived groups, and none holds a verdict.

A table is None where the audit has no measure for it. What could not be read is missing, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from stillme.core.records import CONTROLS, Status
from stillme.protocol import Protocol
from stillme.protocol.schema import Instruments
from stillme.stats.beside import beside, crossed
from stillme.stats.coverage import coverage, kinds, statuses
from stillme.stats.means import by_groups, means, shares
from stillme.stats.shifts import noise, readback, shifts
from stillme.stats.tones import AFTER, BEFORE, tone_flow

BY_STILLME = "stillme"  # controls that no editor makes

# What the caller gives besides the measurements; empty where nothing is known.
NO_CHANGE = {"trial": pl.String, "no_change": pl.Boolean}
SCORES = {"trial": pl.String, "axis": pl.String, "score": pl.Int64}
THRESHOLDS = {
    "editor": pl.String,
    "trials": pl.Int64,
    "lpips": pl.Float64,
    "changed_share": pl.Float64,
    "calibrated": pl.Boolean,
    "usable": pl.Boolean,
}

_SKIN = "skin_tone_shift"  # the measure that swatches come from
_ATTRIBUTES = ("age_shift", "feminine_shift")
_DESCRIBED = (
    "ita_before",
    "ita_after",
    "monk_before",
    "monk_after",
    "hue_shift",
    "delta_e",
    "lpips",
    "ssim",
    "changed_share",
    "phash_distance",
)


@dataclass(frozen=True)
class Counts:
    """How many edits and controls were chosen, and how many of them have a picture and were measured."""

    edits: int
    measured: int
    controls: int
    controls_measured: int


@dataclass(frozen=True)
class Measured:
    """The tables of the measurements. Columns `dimension` and `group` are null in rows about everybody."""

    kinds: tuple[str, ...]
    counts: Counts
    coverage: pl.DataFrame  # measure × dimension × group, over edits of real prompts
    statuses: pl.DataFrame  # measure × group of the main dimension × status
    shifts: pl.DataFrame | None  # editor × dimension × group: change of L*
    controls: pl.DataFrame | None  # control × editor × dimension × group: the same where nothing was asked
    noise: pl.DataFrame | None  # control (null: the sources' noise floor) × group
    described: pl.DataFrame  # figure × control (null: real prompts) × editor: medians, never thresholded
    identity: pl.DataFrame | None  # editor × dimension × group
    no_change: pl.DataFrame | None  # editor × dimension × group: share of edits where nothing changed
    thresholds: pl.DataFrame | None  # editor
    attributes: pl.DataFrame | None  # figure × editor × dimension × group
    errors: pl.DataFrame | None  # dimension × group: the attribute model's own error
    beside: pl.DataFrame  # axis: instrument and judges
    crossed: pl.DataFrame | None  # editor: unchanged for the instrument, erased for the judges
    planted: pl.DataFrame | None  # editor: planted and read change of L*
    tones: pl.DataFrame | None = None  # editor × Monk swatch before × after: how many edits


def measure_findings(
    measured: pl.DataFrame,
    no_change: pl.DataFrame,
    thresholds: pl.DataFrame,
    instrument_scores: pl.DataFrame,
    ensemble_scores: pl.DataFrame,
    protocol: Protocol,
    planted: pl.DataFrame | None = None,
    errors: pl.DataFrame | None = None,
) -> Measured:
    """`measured`: one row a trial with its figures; `no_change`: trial and whether nothing changed;
    `thresholds`: each editor's no-change rule; `planted`: trial and planted delta_l; `errors`: dimension × group
    with the attribute model's error."""
    rules, dimensions = instruments(protocol), list(protocol.groups.dimensions)
    main = protocol.manifest.tables.change_by_group.by
    real, made = _part(measured, controls=False), _pictures(measured)
    edits, controls = _part(made, controls=False), _part(made, controls=True)
    has_skin, has_change = "lightness_change" in made.columns, "lpips" in made.columns
    skin = _unrequested(edits, protocol, rules.skin_tone.axis)
    known = edits.join(no_change, on="trial", how="left", validate="1:1", maintain_order="left")
    by_stillme = [control.id for control in rules.controls if control.by == BY_STILLME]
    has_attributes = any(figure in made.columns for figure in _ATTRIBUTES)
    return Measured(
        kinds=tuple(kinds(measured)),
        counts=_counts(measured),
        coverage=coverage(real, dimensions, rules.coverage.warn_points),
        statuses=statuses(real, main),
        shifts=shifts(skin, ["editor"], dimensions) if has_skin else None,
        controls=shifts(_named(controls), ["control", "editor"], [main]) if has_skin else None,
        noise=noise(made, by_stillme, main) if has_skin else None,
        described=described(made),
        identity=identity(edits, made, dimensions) if "similarity" in made.columns else None,
        no_change=by_groups(known, ["editor"], dimensions, _unchanged) if has_change else None,
        thresholds=thresholds if has_change else None,
        attributes=attributes(edits, protocol, rules, dimensions) if has_attributes else None,
        errors=errors if has_attributes else None,
        beside=beside(instrument_scores, ensemble_scores),
        crossed=crossed(known, ensemble_scores, protocol, rules.no_change.axis) if has_change else None,
        planted=readback(edits, planted) if has_skin and planted is not None else None,
        tones=tone_flow(_tried(skin, _SKIN)) if {BEFORE, AFTER} <= set(made.columns) else None,
    )


def instruments(protocol: Protocol) -> Instruments:
    """The protocol's rules for measures, or a sentence when it has none."""
    if protocol.measures is None:
        raise ValueError(f"the protocol {protocol.name} has no measures.yaml, so nothing measured can be analysed")
    return protocol.measures


def _part(measured: pl.DataFrame, controls: bool) -> pl.DataFrame:
    return measured.filter((pl.col("experiment") == CONTROLS) == controls)


def _pictures(measured: pl.DataFrame) -> pl.DataFrame:
    return measured.filter(pl.col("status") == Status.OK.value)


def _tried(made: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Without the pictures that this measure has not looked at yet."""
    if f"{kind}_status" not in made.columns:
        return made
    return made.filter(pl.col(f"{kind}_status") != Status.PENDING.value)


def _named(controls: pl.DataFrame) -> pl.DataFrame:
    return controls.with_columns(control=pl.col("prompt"))


def _counts(measured: pl.DataFrame) -> Counts:
    """Measured: the edit has a picture, and at least one measure of it is not pending."""
    done = [pl.col(f"{kind}_status") != Status.PENDING.value for kind in kinds(measured)]
    tried = _pictures(measured).filter(pl.any_horizontal(done)) if done else measured.clear()
    return Counts(*(_part(frame, controls).height for controls in (False, True) for frame in (measured, tried)))


def _unrequested(edits: pl.DataFrame, protocol: Protocol, axis: str) -> pl.DataFrame:
    """Without the prompts that themselves ask for a change on the axis: such a change is not drift."""
    asking = [prompt.id for prompt in protocol.prompts.prompts if not protocol.unrequested(prompt.id, axis)]
    return edits.filter(~pl.col("prompt").is_in(asking))


def _unchanged(known: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return shares(known, "no_change", by)


def identity(edits: pl.DataFrame, made: pl.DataFrame, dimensions: Sequence[str]) -> pl.DataFrame:
    """Editor × group: the mean similarity of source and edit, centred on what re-encoding alone leaves of it.

    `reencoded` is the group's mean over all its persons, whoever edited them; `centred` = mean − reencoded, and so
    its interval. Never thresholded: what a similarity means differs between groups and models.
    """
    found = by_groups(edits, ["editor"], dimensions, lambda frame, by: means(frame, "similarity", by))
    base = by_groups(
        made.with_columns(everybody=pl.lit("")),
        ["everybody"],
        dimensions,
        lambda frame, by: means(frame, "similarity_reencoded", by),
    ).select("dimension", "group", reencoded="mean")
    keys = ["dimension", "group"]
    joined = found.join(base, on=keys, how="left", validate="m:1", nulls_equal=True, maintain_order="left")
    centred = {
        name: pl.col(column) - pl.col("reencoded")
        for name, column in (("centred", "mean"), ("centred_low", "low"), ("centred_high", "high"))
    }
    return joined.with_columns(**centred)


def attributes(
    edits: pl.DataFrame, protocol: Protocol, rules: Instruments, dimensions: Sequence[str]
) -> pl.DataFrame:
    """Figure × editor × group: the mean shift of apparent age (years) and of the share read as feminine.

    Prompts that ask for another age are left out of the shift of age.
    """
    parts = []
    for figure in _ATTRIBUTES:
        if figure in edits.columns:
            asks = rules.age.axis if figure == _ATTRIBUTES[0] else None
            kept = _unrequested(edits, protocol, asks) if asks else edits
            rows = kept.with_columns(figure=pl.lit(figure), value=pl.col(figure))
            parts.append(by_groups(rows, ["figure", "editor"], dimensions, _means_of_value))
    return pl.concat(parts)


def _means_of_value(frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return means(frame, "value", by)


def described(made: pl.DataFrame) -> pl.DataFrame:
    """Figure × control (null: real prompts) × editor: medians of figures that describe and decide nothing."""
    schema = {
        "figure": pl.String,
        "control": pl.String,
        "editor": pl.String,
        "read": pl.UInt32,
        "median": pl.Float64,
    }
    named = made.with_columns(control=pl.when(pl.col("experiment") == CONTROLS).then(pl.col("prompt")))
    parts = [
        named.group_by(pl.lit(figure).alias("figure"), "control", "editor", maintain_order=True).agg(
            pl.col(figure).count().alias("read"), pl.col(figure).cast(pl.Float64).median().alias("median")
        )
        for figure in _DESCRIBED
        if figure in made.columns
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)
