"""Who is drawn: 84 invented people and four other versions of each, every number drawn from fixed seeds.

A version keeps the identity seed, camera, light, clothes and background of its base and changes one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import cuts
import garment
import numpy as np
from face import Skin
from identity import weights_of
from shade import Fabric, Iris, Light, Mane
from styles import Cut
from tables import AGES, BACKDROPS, CLOTHES, EYES, GENDERS, HAIR, LOOKS, RACES, Rgb

Rng = np.random.Generator
Background = tuple[tuple[int, int, int], tuple[int, int, int]]


@dataclass(frozen=True)
class Sketch:
    """The choices that make a person; all other numbers follow from them and the seed."""

    key: str
    variant: str
    labels: Mapping[str, str]
    years: int
    seed: int
    lab: tuple[float, float, float]
    hair_name: str
    eye_name: str
    cut_name: str
    beard: str
    yaw: float
    pitch: float
    roll: float
    headroom: float
    garment_name: str
    cloth_name: str
    fabric: Fabric
    light: Light
    background: Background


@dataclass(frozen=True)
class Person:
    sketch: Sketch
    mix: Mapping[str, float]
    weights: Mapping[str, float]
    skin: Skin
    iris: Iris
    cut: Cut
    brow_shape: Mapping[str, float]
    lashes: float
    mane: Mane
    loose: float
    spread: float

    def __getattr__(self, name: str) -> Any:
        """What was chosen reads as if it were the person's own."""
        if name.startswith("_") or name == "sketch":
            raise AttributeError(name)
        return getattr(self.sketch, name)

    def truth(self) -> dict[str, Any]:
        """All that is known about the picture, for the index."""
        sketch = self.sketch
        hair = {"style": sketch.cut_name, "colour": sketch.hair_name, "grey": round(self.mane.grey, 2)}
        clothing = {
            "garment": sketch.garment_name,
            "colour": sketch.cloth_name,
            "rgb": _bytes(sketch.fabric.colour),
        }
        return {
            "race_mix": dict(self.mix),
            "skin_lab": [round(float(value), 2) for value in self.skin.lab],
            "hair": hair,
            "beard": sketch.beard,
            "eyes": sketch.eye_name,
            "clothing": clothing,
            "light": _light_truth(sketch.light),
            "yaw": round(sketch.yaw, 2),
            "pitch": round(sketch.pitch, 2),
            "roll": round(sketch.roll, 2),
            "seed": sketch.seed,
        }


def _bytes(rgb: Rgb) -> list[int]:
    return [round(value * 255) for value in rgb]


def _light_truth(light: Light) -> dict[str, Any]:
    return {"side": round(light.side, 1), "rise": round(light.rise, 1), "key": [round(v, 3) for v in light.key]}


# ------------------------------------------------------------------------------------------- sketches


def base_sketch(race: str, gender: str, age: str) -> Sketch:
    number = RACES.index(race) * 12 + GENDERS.index(gender) * 6 + list(AGES).index(age)
    seed = 41000 + number * 101
    rng = np.random.default_rng(seed + 2)
    look = LOOKS[race]
    years = int(rng.integers(*AGES[age], endpoint=True))
    garment_name, cloth_name, fabric = _clothes(gender, number, rng)
    lab = _tone(race, rng)
    hair_name, eye_name = _pick(look.hair, rng), _pick(look.eyes, rng)
    cut_name = cuts.choose_cut(gender, look.curl, years, number + RACES.index(race) * 2)
    yaw, pitch, roll = _pose(rng)
    return Sketch(
        key=f"{race}-{gender}-{age}",
        variant="base",
        labels={"race": race, "gender": gender, "age": age},
        years=years,
        seed=seed,
        lab=lab,
        hair_name=hair_name,
        eye_name=eye_name,
        cut_name=cut_name,
        beard=cuts.choose_beard(race, age) if gender == "male" else "none",
        yaw=yaw,
        pitch=pitch,
        roll=roll,
        headroom=cuts.headroom(cut_name),
        garment_name=garment_name,
        cloth_name=cloth_name,
        fabric=fabric,
        light=_light(rng),
        background=BACKDROPS[int(rng.integers(len(BACKDROPS)))],
    )


def _pick(options: tuple[str, ...], rng: Rng) -> str:
    return options[int(rng.integers(len(options)))]


def _tone(race: str, rng: Rng) -> tuple[float, float, float]:
    look = LOOKS[race]
    spread = zip(look.lab, look.spread, strict=True)
    light, a, b = (float(middle + wide * np.clip(rng.normal(), -1.6, 1.6)) for middle, wide in spread)
    return light, a, b


def _pose(rng: Rng) -> tuple[float, float, float]:
    drawn = zip(rng.normal(0, (3.0, 1.6, 0.8)), (7, 4, 1.5), strict=True)
    yaw, pitch, roll = (float(np.clip(value, -most, most)) for value, most in drawn)
    return yaw, pitch, roll


def _clothes(gender: str, number: int, rng: Rng) -> tuple[str, str, Fabric]:
    men = ("crew", "shirt", "tee", "v", "polo", "shirt", "crew")
    women = ("scoop", "blouse", "crew", "v", "shirt", "turtle", "tee")
    name = (men if gender == "male" else women)[(number * 3 + number // 6) % 7]
    colours = list(CLOTHES)
    cloth = colours[(number * 5 + number // 12) % len(colours)]
    if name in ("shirt", "blouse") and rng.random() < 0.55:
        cloth = str(rng.choice(["white", "dusty_blue", "cream", "navy", "sage", "rose"]))
    knit = {"crew": 1.0, "turtle": 1.0, "v": 0.8}.get(name, 0.2)
    return name, cloth, Fabric(CLOTHES[cloth], garment.NECKLINES[name], int(rng.integers(1000)), knit)


def _light(rng: Rng) -> Light:
    side = float(rng.uniform(18, 42) * rng.choice([-1, 1]))
    warm = float(rng.normal(0, 0.035))
    key = tuple(float(0.62 * v) for v in (1 + warm, 1.0, 1 - warm))
    fill_power = float(rng.uniform(0.24, 0.34))
    fill = tuple(fill_power * v for v in (1 - warm * 0.7, 1.0, 1 + warm * 0.7))
    return Light(side, float(rng.uniform(22, 40)), key, fill, (0.40, 0.40, 0.405), float(rng.uniform(0.6, 1.4)))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- a person


def complete(sketch: Sketch) -> Person:
    """Draw all that follows from the choices; the order of the draws is part of the identity."""
    rng = np.random.default_rng(sketch.seed + 3)
    look, male = LOOKS[sketch.labels["race"]], sketch.labels["gender"] == "male"
    cut = cuts.CUTS[sketch.cut_name]
    cut = replace(cut, part=cut.part * (1 if rng.random() < 0.5 else -1))
    mane = _mane(sketch.hair_name, sketch.years, sketch.labels["gender"], np.random.default_rng(sketch.seed + 4))
    brow = _brow(sketch.years, male, rng)
    skin = _skin(sketch, brow, mane, rng)
    return Person(
        sketch=sketch,
        mix=look.mix,
        weights=weights_of(sketch.seed, look.mix, sketch.labels["gender"], sketch.years),
        skin=skin,
        iris=Iris(EYES[sketch.eye_name], sketch.seed % 97),
        cut=cut,
        brow_shape=brow,
        lashes=0.4 if male else 1.0,
        mane=mane,
        loose=float(rng.uniform(0.03, 0.07)),
        spread=float(rng.uniform(0, 1)),
    )


def _age(years: float) -> float:
    return float(np.clip((years - 28) / 48, 0, 1))


def _brow(years: float, male: bool, rng: Rng) -> dict[str, float]:
    return {
        "thick": float(rng.uniform(0.9, 1.35) * (1.15 if male else 0.7)),
        "arch": float(rng.normal(0.2 if male else 0.9, 0.4)),
        "length": float(rng.uniform(-0.5, 1)),
        "density": float(rng.uniform(0.75, 1.0)) * (1 - 0.25 * _age(years)),
    }


def _skin(sketch: Sketch, brow: Mapping[str, float], mane: Mane, rng: Rng) -> Skin:
    gender, look = sketch.labels["gender"], LOOKS[sketch.labels["race"]]
    male = gender == "male"
    pale = sketch.labels["race"] == "white" and sketch.hair_name in ("auburn", "blond")
    return Skin(
        lab=sketch.lab,
        texture=_texture(look.texture, gender, sketch.years),
        age=_age(sketch.years),
        male=male,
        blush=float(rng.uniform(0.5, 1.1)) * (0.6 if look.lab[0] < 58 else 1),
        freckles=float(rng.uniform(0, 1)) * pale,
        lips=float(rng.uniform(0.1, 0.35) if male else rng.uniform(0.5, 1.0)),
        shadow=_shadow(male, sketch.beard, rng),
        brow=tuple(brow.items()),
        brow_colour=_mixed(mane.brow, (0.6, 0.59, 0.58), 0.6 * mane.grey),
        bare=_bare(cuts.CUTS[sketch.cut_name]),
        seed=sketch.seed,
    )


def _bare(cut: Cut) -> bool:
    return cut.kind == "bald" or cut.recede > 0 or cut.crown > 0


def _shadow(male: bool, beard: str, rng: Rng) -> float:
    shaved = float(rng.uniform(0.25, 0.75))
    if not male or beard in ("short", "full"):
        return 0.0
    return 1.3 if beard == "stubble" else shaved


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (a * (1 - share) + b * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def _texture(name: str, gender: str, years: float) -> tuple[str, str]:
    stage = "young" if years < 40 else "middleage" if years < 60 else "old"
    tone = "dark" if name == "african" else "light"
    number = "" if name != "asian" else "3" if stage == "young" else "2"
    return f"{stage}_{name}_{gender}", f"{stage}_{tone}skinned_{gender}_diffuse{number}"


def _mane(hair_name: str, years: float, gender: str, rng: Rng) -> Mane:
    grey = cuts.grey_share(years, rng, gender)
    base = HAIR[hair_name]
    brow = tuple(0.75 * value + 0.01 for value in base)
    return Mane(
        base, grey, (brow[0], brow[1], brow[2]), float(rng.uniform(0.7, 1.2)), float(min(1, grey * 1.2 + 0.05))
    )


# ------------------------------------------------------------------------------------------- versions


def _other_race(base: Sketch) -> Sketch:
    race, years = LOOKS[base.labels["race"]].other, base.years
    was, look = LOOKS[base.labels["race"]], LOOKS[race]
    rng = np.random.default_rng(base.seed + 9)
    hair_name, eye_name = _pick(look.hair, rng), _pick(look.eyes, rng)
    cut_name = base.cut_name
    if (look.curl == "coily") != (was.curl == "coily"):
        cut_name = cuts.other_cut(base.labels["gender"], look.curl, years, base.seed // 101, base.headroom)
    labels = {**base.labels, "race": race}
    return replace(base, labels=labels, lab=look.lab, hair_name=hair_name, eye_name=eye_name, cut_name=cut_name)


def _other_gender(base: Sketch) -> Sketch:
    gender = "female" if base.labels["gender"] == "male" else "male"
    curl = LOOKS[base.labels["race"]].curl
    cut_name = cuts.other_cut(gender, curl, base.years, base.seed // 101, base.headroom)
    beard = "stubble" if gender == "male" and base.seed % 3 == 0 else "none"
    return replace(base, labels={**base.labels, "gender": gender}, cut_name=cut_name, beard=beard)


def _older(base: Sketch) -> Sketch:
    lasting = ("bald", "horseshoe", "buzz", "coils")
    recedes = base.labels["gender"] == "male" and base.seed % 2 == 0 and base.cut_name not in lasting
    return replace(base, years=min(base.years + 30, 95), cut_name="receding" if recedes else base.cut_name)


def _younger(base: Sketch) -> Sketch:
    years = base.years - (20 if base.years >= 42 else 12 if base.years >= 31 else 6)
    regrows = base.cut_name in ("receding", "thinning", "horseshoe")
    return replace(base, years=max(18, years), cut_name="short" if regrows else base.cut_name)


CHANGES: Mapping[str, Callable[[Sketch], Sketch]] = {
    "race": _other_race,
    "gender": _other_gender,
    "older": _older,
    "younger": _younger,
}
VARIANTS = ("base", *CHANGES)


def age_label(years: int) -> str:
    return next((name for name, (_, last) in AGES.items() if years <= last + 1), "70plus")


def version(base: Person, variant: str) -> Person:
    """The same identity with one thing about it changed."""
    if variant == "base":
        return base
    sketch = CHANGES[variant](base.sketch)
    labels = {**sketch.labels, "age": age_label(sketch.years)}
    return complete(replace(sketch, variant=variant, labels=labels))


def base_person(race: str, gender: str, age: str) -> Person:
    return complete(base_sketch(race, gender, age))


def everyone() -> list[Person]:
    bases = [base_person(race, gender, age) for race in RACES for gender in GENDERS for age in AGES]
    return [version(base, variant) for base in bases for variant in VARIANTS]
