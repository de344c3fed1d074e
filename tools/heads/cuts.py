"""Haircuts and beards by name, and who wears which."""

from __future__ import annotations

import numpy as np
from styles import Cut
from tables import AGES, RACES

Rng = np.random.Generator

CUTS: dict[str, Cut] = {
    "buzz": Cut("short", 0.055, 0.04, count=26000, stubble=1.0),
    "crop": Cut("short", 0.24, 0.09, lift=0.25, tufts=700, clump=0.55, count=14000),
    "short": Cut("short", 0.34, 0.13, lift=0.15, tufts=500, clump=0.5),
    "side_part": Cut("parted", 0.62, 0.14, part=0.24, lift=0.16, tufts=350, clump=0.45),
    "swept": Cut("swept", 0.62, 0.16, lift=0.1, tufts=320, clump=0.45),
    "wavy_short": Cut("swept", 0.6, 0.2, lift=0.16, wave=0.035, wave_length=0.35, tufts=420, clump=0.5),
    "curly_short": Cut("round", 0.34, 0.16, curl=0.045, wave_length=0.2, tufts=900, clump=0.6, count=16000),
    "coils": Cut("round", 0.16, 0.09, curl=0.03, wave_length=0.1, tufts=2200, clump=0.55, count=20000),
    "afro_short": Cut("round", 0.36, 0.24, curl=0.035, wave_length=0.12, tufts=2600, clump=0.5, count=26000),
    "afro": Cut("round", 0.66, 0.5, curl=0.04, wave_length=0.13, tufts=3200, clump=0.5, count=34000),
    "thinning": Cut("short", 0.2, 0.13, recede=0.75, lift=0.1, count=11000),
    "receding": Cut("swept", 0.36, 0.14, recede=0.6, lift=0.08, count=13000),
    "horseshoe": Cut("short", 0.16, 0.12, recede=0.9, crown=1.0, count=12000),
    "bald": Cut("bald", stubble=0.0),
    "set_curls": Cut("round", 0.5, 0.36, curl=0.06, wave_length=0.3, tufts=620, clump=0.7, count=17000),
    "pixie": Cut("parted", 0.62, 0.3, part=-0.22, lift=0.2, tufts=380, clump=0.5),
    "bob": Cut("hanging", 2.2, part=0.16, end=6.28, lift=0.13, tufts=420, clump=0.3),
    "bob_fringe": Cut("hanging", 2.2, part=0.0, end=6.42, lift=0.14, fringe=True, tufts=420, clump=0.3),
    "bob_wavy": Cut(
        "hanging", 2.2, part=-0.2, end=6.15, lift=0.2, wave=0.05, wave_length=0.6, tufts=330, clump=0.5
    ),
    "shoulder": Cut("hanging", 3.0, part=0.0, end=5.55, lift=0.13, tufts=380, clump=0.35),
    "shoulder_wavy": Cut(
        "hanging", 3.2, part=0.2, end=5.45, lift=0.2, wave=0.06, wave_length=0.75, tufts=300, clump=0.55
    ),
    "long": Cut("hanging", 4.2, part=-0.12, end=4.6, lift=0.12, tufts=380, clump=0.35),
    "long_wavy": Cut(
        "hanging", 4.4, part=0.12, end=4.7, lift=0.2, wave=0.075, wave_length=0.85, tufts=260, clump=0.6
    ),
    "curls": Cut(
        "hanging", 2.9, part=0.14, end=5.75, lift=0.34, curl=0.06, wave_length=0.36, tufts=520, clump=0.65
    ),
    "bun": Cut("gathered", lift=0.06, bun=(0, 8.62, 0.05, 0.33), tufts=380, clump=0.25),
    "crown_bun": Cut("gathered", lift=0.1, bun=(0, 8.5, -0.25, 0.36), tufts=380, clump=0.3),
    "puff": Cut("gathered", lift=0.03, bun=(0, 8.7, 0.1, 0.5), tufts=500, clump=0.2),
    "braids": Cut(
        "hanging",
        3.6,
        part=0.0,
        end=5.2,
        lift=0.12,
        curl=0.022,
        wave_length=0.13,
        tufts=150,
        clump=0.97,
        count=17000,
    ),
}

STRAIGHT_MEN = ("short", "side_part", "swept", "crop", "wavy_short", "buzz")
WAVY_MEN = ("wavy_short", "side_part", "short", "swept", "curly_short", "crop")
COILY_MEN = ("coils", "afro_short", "buzz", "coils", "bald", "afro_short")
OLD_MEN = ("receding", "side_part", "thinning", "horseshoe", "short", "swept")
OLD_COILY_MEN = ("coils", "buzz", "bald", "coils", "horseshoe", "buzz")
STRAIGHT_WOMEN = ("long", "bob", "shoulder", "bun", "shoulder_wavy", "bob_fringe", "long_wavy", "pixie")
WAVY_WOMEN = ("long_wavy", "shoulder_wavy", "bob_wavy", "long", "bun", "curls", "pixie", "shoulder")
COILY_WOMEN = ("afro", "braids", "puff", "coils", "afro_short", "curls", "bun", "braids")
OLD_WOMEN = ("bob", "set_curls", "bob_wavy", "shoulder", "crown_bun", "pixie", "bob_fringe", "shoulder_wavy")
OLD_COILY_WOMEN = ("coils", "afro_short", "puff", "afro_short", "coils", "bun")


HEADROOM = {"afro": 0.19, "puff": 0.23, "bun": 0.20, "crown_bun": 0.16, "set_curls": 0.15, "afro_short": 0.15}
AMBIGUOUS = ("pixie", "coils", "afro_short", "buzz", "bald")


def headroom(cut_name: str) -> float:
    """Where the crown sits in the picture's height; tall hair needs more."""
    return HEADROOM.get(cut_name, 0.115)


def other_cut(gender: str, curl: str, years: float, turn: int, room: float) -> str:
    """A cut for a version: one that fits the base's framing and says the gender plainly."""
    options = [choose_cut(gender, curl, years, turn + step) for step in range(8)]
    fitting = [name for name in options if headroom(name) <= room]
    plain = [name for name in fitting if gender == "male" or name not in AMBIGUOUS]
    return (plain or fitting or ["short" if gender == "male" else "shoulder"])[0]


def choose_cut(gender: str, curl: str, years: float, turn: int) -> str:
    if gender == "male":
        pool: tuple[str, ...] = {"straight": STRAIGHT_MEN, "wavy": WAVY_MEN, "coily": COILY_MEN}[curl]
        if years >= 52:
            pool = OLD_COILY_MEN if curl == "coily" else OLD_MEN
    else:
        pool = {"straight": STRAIGHT_WOMEN, "wavy": WAVY_WOMEN, "coily": COILY_WOMEN}[curl]
        if years >= 57:
            pool = OLD_COILY_WOMEN if curl == "coily" else OLD_WOMEN
    return pool[turn % len(pool)]


def grey_share(years: float, rng: Rng, gender: str) -> float:
    """Share of grey strands; some women colour their hair until late."""
    start = rng.uniform(38, 48) + (4 if gender == "female" else 0)
    return float(np.clip((years - start) / 28, 0, 1) ** 0.85)


# Every race gets the same beards, in another order of ages; only the last differs.
BEARDS = ("none", "short", "none", "stubble", "none")
RARE_BEARDS = ("moustache", "goatee", "full", "moustache", "goatee", "stubble", "full")


def choose_beard(race: str, age: str) -> str:
    place = RACES.index(race)
    return (*BEARDS, RARE_BEARDS[place])[(list(AGES).index(age) + place) % 6]
