"""What makes one face: facial weights from a seed, a mild expression, ageing, presentation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tables import HEAD_FORMS, SIDED, SPREAD

import shape

Rng = np.random.Generator


def identity(seed: int) -> dict[str, float]:
    """Facial weights of one invented person; the same for every version of that person."""
    rng = np.random.default_rng(seed)
    found: dict[str, float] = {}
    for less, more, spread in SPREAD:
        _lean(found, (less,), (more,), rng, spread)
    for part, less, more, spread in SIDED:
        _lean(
            found,
            tuple(f"{part}/{s}-{less}" for s in "lr"),
            tuple(f"{part}/{s}-{more}" for s in "lr"),
            rng,
            spread,
        )
    for form in rng.choice(HEAD_FORMS, 2, replace=False):
        found[f"head/head-{form}"] = float(rng.uniform(0.1, 0.42))
    for part in (
        "asym/asym-nose-1",
        "asym/asym-mouth-1",
        "asym/asym-eye-2",
        "asym/asym-jaw-1",
        "asym/asym-brown-1",
    ):
        found[f"{part}-{rng.choice(['l', 'r'])}"] = float(rng.uniform(0, 0.25))
    return found


def _lean(found: dict[str, float], less: tuple[str, ...], more: tuple[str, ...], rng: Rng, spread: float) -> None:
    weight = float(np.clip(rng.normal(0, spread), -0.68, 0.68))
    for name in more if weight > 0 else less:
        found[name] = abs(weight)


def expression(mix: Mapping[str, float], rng: Rng) -> dict[str, float]:
    """A mild, friendly, closed mouth and relaxed brows, in each shape's own units."""
    smile, brow, inner = rng.uniform(0.16, 0.40), rng.uniform(0.18, 0.42), rng.uniform(0.1, 0.3)
    opened = 0.15 + 0.3 * mix.get("asian", 0.0)  # that shape's lids lie lower: eyes are to be seen in everybody
    units = {
        "mouth-corner-puller": smile,
        "eyebrows-left-up": brow,
        "eyebrows-right-up": brow,
        "eyebrows-left-inner-up": inner,
        "eyebrows-right-inner-up": inner,
        "eye-left-slit": smile * 0.1,
        "eye-right-slit": smile * 0.1,
        "eye-left-opened-up": opened,
        "eye-right-opened-up": opened,
    }
    return {
        f"expression/units/{race}/{unit}": share * weight
        for race, share in mix.items()
        for unit, weight in units.items()
    }


def ageing(years: float) -> dict[str, float]:
    late = float(np.clip((years - 40) / 40, 0, 1))
    found = {
        "head/head-age-incr": 0.65 * late,
        "mouth/mouth-laugh-lines-in": 0.35 * late,
        "mouth/mouth-angles-up": 0.1 + 0.3 * late,
        "neck/neck-double-incr": 0.25 * late,
    }
    for side in "lr":
        found[f"eyes/{side}-eye-bag-incr"] = 0.5 * late
        found[f"eyes/{side}-eye-eyefold-down"] = 0.1 * late
        found[f"eyes/{side}-eye-height2-incr"] = 0.25 * late
        found[f"cheek/{side}-cheek-trans-down"] = 0.3 * late
        found[f"ears/{side}-ear-scale-vert-incr"] = 0.3 * late
    return found


def weights_of(seed: int, mix: Mapping[str, float], gender: str, years: float) -> dict[str, float]:
    total: dict[str, float] = dict(shape.macro_weights(mix, gender, years))
    layers = (
        _softened(identity(seed), gender),
        expression(mix, np.random.default_rng(seed + 1)),
        ageing(years),
        _presentation(gender),
    )
    for layer in layers:
        for name, weight in layer.items():
            total[name] = total.get(name, 0.0) + weight
    return total


HARD = (
    "chin-width-incr",
    "chin-bones-incr",
    "jaw-drop-incr",
    "head-square",
    "head-rectangular",
    "hump-incr",
    "prominent-incr",
)


def _softened(weights: dict[str, float], gender: str) -> dict[str, float]:
    """Half of what would make a woman's face read as a man's; men keep theirs."""
    share = 0.4 if gender == "female" else 1.0
    return {name: weight * (share if name.endswith(HARD) else 1) for name, weight in weights.items()}


def _presentation(gender: str) -> dict[str, float]:
    """A little more of what the macro shapes already do, so that gender reads at thumbnail size."""
    if gender == "female":
        soft = {f"eyes/{side}-eye-scale-incr": 0.3 for side in "lr"}
        return soft | {
            "chin/chin-width-decr": 0.3,
            "chin/chin-bones-decr": 0.3,
            "neck/neck-scale-horiz-decr": 0.3,
            "mouth/mouth-lowerlip-volume-incr": 0.25,
            "mouth/mouth-upperlip-volume-incr": 0.15,
            "head/head-oval": 0.15,
        }
    return {"chin/chin-width-incr": 0.15, "chin/chin-bones-incr": 0.15, "neck/neck-scale-horiz-incr": 0.1}
