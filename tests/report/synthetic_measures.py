"""Measurements made of numbers, for the synthetic audit: known shifts, a noise floor, controls, and who is missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import polars as pl

from stillme.protocol import Protocol
from stillme.protocol.reader import builtin
from stillme.stats.measured import NO_CHANGE, SCORES, THRESHOLDS, Measured, instruments, measure_findings
from tests.report.synthetic_audit import Measure

SKIN, CHANGE, IDENTITY = "skin_tone_shift", "change", "identity"
AGE, GENDER = "apparent_age", "gender_presentation"
KINDS = (SKIN, CHANGE, IDENTITY)
FIGURES: Mapping[str, Sequence[str]] = {
    SKIN: [
        "lightness_before",
        "lightness_after",
        "lightness_shift",
        "background_shift",
        "background_spread",
        "background_share",
        "hue_before",
        "hue_after",
        "hue_shift",
        "delta_e",
        "ita_before",
        "ita_after",
        "monk_before",
        "monk_after",
        "skin_pixels_before",
        "skin_pixels_after",
        "noise_floor",
        "faces_before",
        "faces_after",
        "lightness_change",
    ],
    CHANGE: ["lpips", "ssim", "changed_share", "phash_distance"],
    IDENTITY: ["similarity", "similarity_reencoded"],
    AGE: ["age_before", "age_after", "age_shift"],
    GENDER: ["feminine_before", "feminine_after", "feminine_shift"],
}
BY = builtin().manifest.tables.change_by_group.by
REFERENCE = builtin().groups.reference_group[BY]
LIGHTENS = 6.0


def measurements(
    kinds: Sequence[str] = KINDS,
    share: float = 1.0,
    controls: bool = True,
    missed: Mapping[str, float] | None = None,
    plant: bool = True,
    seed: int = 3,
) -> Measure:
    """`missed`: group of the main dimension -> the chance that the instruments find no face in an edit of it."""

    def measure(trials: pl.DataFrame, scores: pl.DataFrame) -> Measured:
        frame = measured_frame(trials, kinds, share, controls, missed, seed)
        return tables(frame, scores, plant)

    return measure


def tables(frame: pl.DataFrame, scores: pl.DataFrame, plant: bool = True) -> Measured:
    protocol = builtin()
    rules = instruments(protocol)
    real = frame.filter(pl.col("experiment") == "diagnose")
    planted = frame.select("trial", delta_l="planted") if plant else None
    no_change, thresholds = pl.DataFrame(schema=NO_CHANGE), pl.DataFrame(schema=THRESHOLDS)
    if "lpips" in frame.columns:
        below = (pl.col("lpips") < rules.no_change.lpips) & (
            pl.col("changed_share") < rules.no_change.changed_share
        )
        thresholds = _thresholds(real["editor"].unique(maintain_order=True).to_list(), protocol)
        usable = pl.col("editor").is_in(thresholds.filter("usable")["editor"].to_list())
        no_change = real.select("trial", no_change=pl.when(usable).then(below))
    judged = scores.select("trial", "axis", "score")
    has_skin = "lightness_change" in frame.columns
    instrument = _scored(real, no_change, protocol) if has_skin else pl.DataFrame(schema=SCORES)
    errors = _errors(protocol) if "age_shift" in frame.columns else None
    return measure_findings(
        frame.drop("planted"), no_change, thresholds, instrument, judged, protocol, planted, errors
    )


def _thresholds(editors: Sequence[str], protocol: Protocol) -> pl.DataFrame:
    """The first by the protocol, the others by their own trials; the last changes too much of its own."""
    rule = instruments(protocol).no_change
    rows = [
        (editor, 84 if n else 12, rule.lpips + 0.01 * n, rule.changed_share, n > 0, n < 2)
        for n, editor in enumerate(editors)
    ]
    return pl.DataFrame(rows, schema=THRESHOLDS, orient="row")


def _scored(real: pl.DataFrame, no_change: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """The instrument judge's scores: skin by cut points, success only where nothing changed."""
    rules = instruments(protocol)
    cuts = rules.skin_tone.cut_points
    score = pl.sum_horizontal([(pl.col("lightness_change") > cut).cast(pl.Int64) for cut in cuts]) + 1
    skin = real.drop_nulls("lightness_change").select(
        "trial", pl.lit(rules.skin_tone.axis).alias("axis"), score.cast(pl.Int64).alias("score")
    )
    unchanged = no_change.filter(pl.col("no_change")).select(
        "trial", pl.lit(rules.no_change.axis).alias("axis"), pl.lit(rules.no_change.score, pl.Int64).alias("score")
    )
    return pl.concat([skin, unchanged])


def _errors(protocol: Protocol) -> pl.DataFrame:
    rows = [
        (dimension, group, 84, 10.0 + n, -2.0 + n, 0.1 + n / 50)
        for dimension in protocol.groups.dimensions
        for n, group in enumerate(protocol.groups.ids(dimension))
    ]
    names = ("dimension", "group", "faces", "age_mae", "age_bias", "gender_error")
    return pl.DataFrame(rows, schema=list(names), orient="row")


def measured_frame(
    trials: pl.DataFrame,
    kinds: Sequence[str] = KINDS,
    share: float = 1.0,
    controls: bool = True,
    missed: Mapping[str, float] | None = None,
    seed: int = 3,
) -> pl.DataFrame:
    """The frame of the contract, and `planted`: the change of L* that was put in."""
    protocol, chance = builtin(), np.random.default_rng(seed)
    real = [{**trial, "experiment": "diagnose"} for trial in trials.to_dicts()]
    people = trials.unique("person", maintain_order=True).to_dicts()
    editors = trials["editor"].unique(maintain_order=True).to_list()
    rows = real + ([*_controls(protocol, people, editors)] if controls else [])
    lights = {person["person"]: chance.normal(50, 12) for person in people}
    read = [_measured(row, kinds, lights[row["person"]], missed or {}, chance) for row in rows]
    floats = [name for kind in kinds for name in FIGURES[kind]]
    schema = dict.fromkeys([*floats, "planted"], pl.Float64) | (
        {"controlled": pl.Boolean} if SKIN in kinds else {}
    )
    kept = [row["experiment"] != "diagnose" or bool(chance.random() < share) for row in rows]
    return pl.DataFrame(read, schema_overrides=schema, infer_schema_length=None).filter(pl.Series(kept))


def _controls(
    protocol: Protocol, people: Sequence[dict[str, str]], editors: Sequence[str]
) -> list[dict[str, str]]:
    """Every control but those that an editor makes of itself."""
    made = [c for c in instruments(protocol).controls if c.by != "editor"]
    pairs = [(c.id, e) for c in made for e in (editors if c.by == "prompt" else [c.id])]
    return [
        {
            **p,
            "trial": f"{c}-{e}-{p['person']}",
            "editor": e,
            "prompt": c,
            "status": "ok",
            "experiment": "controls",
        }
        for (c, e), p in product(pairs, people)
    ]


def _measured(
    row: dict[str, str],
    kinds: Sequence[str],
    light: float,
    missed: Mapping[str, float],
    chance: np.random.Generator,
) -> dict[str, object]:
    planted = _planted(row, chance)
    found = "no_face" if chance.random() < missed.get(row[BY], 0.01) else "ok"
    status = found if row["status"] == "ok" else row["status"]
    out: dict[str, object] = {**row, "source_image": row["person"], "planted": planted}
    figures = _figures(planted, light, row["experiment"] == "controls", chance)
    for kind in kinds:
        ends = status if kind != CHANGE or row["status"] != "ok" else "ok"
        out |= {f"{kind}_status": ends, f"{kind}_detail": ""}
        out |= {name: figures[name] if ends == "ok" else None for name in FIGURES[kind]}
        if kind == SKIN:
            out["controlled"] = bool(figures["background_spread"] < 2.5) if ends == "ok" else None
    return out


def _planted(row: dict[str, str], chance: np.random.Generator) -> float:
    """The lightening editor lightens everybody but the reference group, and a little when asked for nothing."""
    if row["editor"] != "lighten":
        return 0.0
    if row["experiment"] == "controls":
        return 1.5
    return LIGHTENS + float(chance.normal(0, 2)) if row[BY] != REFERENCE else 0.5


def _figures(planted: float, light: float, calm: bool, chance: np.random.Generator) -> dict[str, float]:
    lit = 0.0 if calm else float(chance.normal(0, 2))
    shift = planted + lit + float(chance.normal(0, 0.1))
    spread = 0.3 if calm or chance.random() < 0.7 else 12.0
    lpips = 0.005 if calm or chance.random() < 0.06 else float(chance.uniform(0.05, 0.4))
    same = 0.97 if calm else float(chance.normal(0.85, 0.05))
    aged = float(chance.normal(1, 3))
    return {
        "lightness_before": light,
        "lightness_after": light + shift,
        "lightness_shift": shift,
        "background_shift": lit,
        "background_spread": spread,
        "background_share": 0.4,
        "lightness_change": shift - lit if spread < 2.5 else shift,
        "hue_before": 60.0,
        "hue_after": 61.0,
        "hue_shift": 1.0,
        "delta_e": abs(shift),
        "ita_before": light - 30,
        "ita_after": light - 30 + shift,
        "monk_before": 5.0,
        "monk_after": 5.0,
        "skin_pixels_before": 9000.0,
        "skin_pixels_after": 9000.0,
        "noise_floor": 0.05 + (light % 1) / 4,
        "faces_before": 1.0,
        "faces_after": 1.0,
        "lpips": lpips,
        "ssim": 1 - lpips,
        "changed_share": lpips / 2,
        "phash_distance": round(lpips * 100),
        "similarity": same,
        "similarity_reencoded": 0.98,
        "age_before": 40.0,
        "age_after": 40 + aged,
        "age_shift": aged,
        "feminine_before": 0.5,
        "feminine_after": 0.52,
        "feminine_shift": 0.02,
    }
