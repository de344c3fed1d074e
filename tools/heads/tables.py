"""Tables of the cast: looks, colours, backgrounds, and how far faces spread along each facial target.

The looks are mixes of three MakeHuman shapes with chosen skin tones: placeholders, not representations of groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Rgb = tuple[float, float, float]

RACES = ("white", "black", "east_asian", "southeast_asian", "indian", "middle_eastern", "latino")
GENDERS = ("male", "female")
AGES = {"20s": (22, 29), "30s": (31, 38), "40s": (41, 48), "50s": (51, 58), "60s": (61, 68), "70plus": (71, 80)}


@dataclass(frozen=True)
class Look:
    mix: Mapping[str, float]
    texture: str
    lab: tuple[float, float, float]
    spread: tuple[float, float, float]
    hair: tuple[str, ...]
    eyes: tuple[str, ...]
    other: str  # whom the "race" version turns into
    curl: str


LOOKS = {
    "white": Look(
        {"caucasian": 1.0},
        "caucasian",
        (71, 12, 15),
        (2.5, 1.2, 1.5),
        ("blond", "brown", "dark_brown", "auburn", "light_brown"),
        ("blue", "green", "hazel", "grey", "brown"),
        "black",
        "straight",
    ),
    "black": Look(
        {"african": 1.0},
        "african",
        (40, 12.5, 17),
        (5.5, 1.0, 1.5),
        ("black", "black", "soft_black"),
        ("brown", "dark"),
        "white",
        "coily",
    ),
    "east_asian": Look(
        {"asian": 1.0},
        "asian",
        (70, 9.5, 17.5),
        (2.5, 1.0, 1.3),
        ("black", "soft_black", "dark_brown"),
        ("dark", "brown"),
        "indian",
        "straight",
    ),
    "southeast_asian": Look(
        {"asian": 0.72, "african": 0.2, "caucasian": 0.08},
        "asian",
        (60, 11.5, 20),
        (3.5, 1.0, 1.3),
        ("black", "soft_black"),
        ("dark", "brown"),
        "white",
        "straight",
    ),
    "indian": Look(
        {"caucasian": 0.66, "african": 0.22, "asian": 0.12},
        "caucasian",
        (53, 13, 21),
        (4.0, 1.0, 1.3),
        ("black", "soft_black"),
        ("dark", "brown"),
        "white",
        "straight",
    ),
    "middle_eastern": Look(
        {"caucasian": 0.9, "african": 0.1},
        "caucasian",
        (64, 12, 19),
        (3.0, 1.0, 1.4),
        ("black", "dark_brown", "soft_black"),
        ("brown", "hazel", "dark"),
        "east_asian",
        "wavy",
    ),
    "latino": Look(
        {"caucasian": 0.58, "asian": 0.32, "african": 0.1},
        "caucasian",
        (62, 12.5, 20),
        (3.5, 1.0, 1.4),
        ("soft_black", "dark_brown", "brown"),
        ("brown", "dark", "hazel"),
        "black",
        "wavy",
    ),
}

HAIR: dict[str, Rgb] = {
    "black": (0.075, 0.065, 0.06),
    "soft_black": (0.115, 0.09, 0.078),
    "dark_brown": (0.19, 0.125, 0.09),
    "brown": (0.30, 0.20, 0.135),
    "light_brown": (0.45, 0.325, 0.215),
    "auburn": (0.37, 0.215, 0.14),
    "blond": (0.64, 0.51, 0.345),
}
EYES: dict[str, Rgb] = {
    "blue": (0.33, 0.47, 0.60),
    "green": (0.38, 0.45, 0.31),
    "hazel": (0.43, 0.32, 0.18),
    "grey": (0.44, 0.49, 0.52),
    "brown": (0.32, 0.185, 0.10),
    "dark": (0.19, 0.115, 0.075),
}
CLOTHES: dict[str, Rgb] = {
    "navy": (0.16, 0.20, 0.32),
    "slate": (0.36, 0.41, 0.46),
    "burgundy": (0.43, 0.15, 0.19),
    "forest": (0.17, 0.31, 0.25),
    "cream": (0.86, 0.82, 0.74),
    "charcoal": (0.20, 0.21, 0.23),
    "dusty_blue": (0.45, 0.56, 0.67),
    "rust": (0.62, 0.33, 0.22),
    "white": (0.90, 0.90, 0.89),
    "teal": (0.13, 0.39, 0.41),
    "mustard": (0.73, 0.56, 0.25),
    "plum": (0.36, 0.21, 0.35),
    "sage": (0.55, 0.61, 0.50),
    "rose": (0.73, 0.50, 0.50),
}
BACKDROPS = (
    ((196, 201, 206), (158, 165, 172)),
    ((206, 201, 193), (170, 163, 154)),
    ((178, 186, 196), (138, 148, 160)),
    ((190, 194, 188), (150, 156, 150)),
    ((212, 212, 212), (176, 177, 179)),
    ((168, 171, 177), (126, 130, 137)),
    ((202, 196, 200), (164, 158, 164)),
    ((182, 194, 196), (142, 156, 160)),
)

# Facial targets in pairs (less, more) and how far identities spread along each.
SPREAD: tuple[tuple[str, str, float], ...] = (
    ("nose/nose-scale-horiz-decr", "nose/nose-scale-horiz-incr", 0.45),
    ("nose/nose-scale-vert-decr", "nose/nose-scale-vert-incr", 0.45),
    ("nose/nose-scale-depth-decr", "nose/nose-scale-depth-incr", 0.4),
    ("nose/nose-hump-decr", "nose/nose-hump-incr", 0.5),
    ("nose/nose-point-down", "nose/nose-point-up", 0.4),
    ("nose/nose-point-width-decr", "nose/nose-point-width-incr", 0.45),
    ("nose/nose-width1-decr", "nose/nose-width1-incr", 0.4),
    ("nose/nose-width2-decr", "nose/nose-width2-incr", 0.4),
    ("nose/nose-width3-decr", "nose/nose-width3-incr", 0.4),
    ("nose/nose-nostrils-width-decr", "nose/nose-nostrils-width-incr", 0.35),
    ("nose/nose-curve-concave", "nose/nose-curve-convex", 0.4),
    ("nose/nose-trans-down", "nose/nose-trans-up", 0.35),
    ("nose/nose-flaring-decr", "nose/nose-flaring-incr", 0.3),
    ("nose/nose-greek-decr", "nose/nose-greek-incr", 0.3),
    ("head/head-scale-horiz-decr", "head/head-scale-horiz-incr", 0.28),
    ("head/head-scale-vert-decr", "head/head-scale-vert-incr", 0.3),
    ("head/head-fat-decr", "head/head-fat-incr", 0.3),
    ("head/head-angle-in", "head/head-angle-out", 0.25),
    ("chin/chin-width-decr", "chin/chin-width-incr", 0.35),
    ("chin/chin-height-decr", "chin/chin-height-incr", 0.4),
    ("chin/chin-prominent-decr", "chin/chin-prominent-incr", 0.4),
    ("chin/chin-bones-decr", "chin/chin-bones-incr", 0.35),
    ("chin/chin-cleft-decr", "chin/chin-cleft-incr", 0.3),
    ("chin/chin-jaw-drop-decr", "chin/chin-jaw-drop-incr", 0.35),
    ("forehead/forehead-scale-vert-decr", "forehead/forehead-scale-vert-incr", 0.35),
    ("forehead/forehead-temple-decr", "forehead/forehead-temple-incr", 0.4),
    ("forehead/forehead-trans-backward", "forehead/forehead-trans-forward", 0.3),
    ("forehead/forehead-nubian-decr", "forehead/forehead-nubian-incr", 0.3),
    ("mouth/mouth-scale-horiz-decr", "mouth/mouth-scale-horiz-incr", 0.45),
    ("mouth/mouth-scale-vert-decr", "mouth/mouth-scale-vert-incr", 0.35),
    ("mouth/mouth-trans-down", "mouth/mouth-trans-up", 0.35),
    ("mouth/mouth-upperlip-height-decr", "mouth/mouth-upperlip-height-incr", 0.4),
    ("mouth/mouth-lowerlip-height-decr", "mouth/mouth-lowerlip-height-incr", 0.4),
    ("mouth/mouth-upperlip-volume-decr", "mouth/mouth-upperlip-volume-incr", 0.35),
    ("mouth/mouth-lowerlip-volume-decr", "mouth/mouth-lowerlip-volume-incr", 0.35),
    ("mouth/mouth-cupidsbow-decr", "mouth/mouth-cupidsbow-incr", 0.4),
    ("mouth/mouth-philtrum-volume-decr", "mouth/mouth-philtrum-volume-incr", 0.35),
    ("neck/neck-scale-horiz-decr", "neck/neck-scale-horiz-incr", 0.25),
)
SIDED: tuple[tuple[str, str, str, float], ...] = (
    ("eyes", "eye-scale-decr", "eye-scale-incr", 0.4),
    ("eyes", "eye-height1-decr", "eye-height1-incr", 0.35),
    ("eyes", "eye-height2-decr", "eye-height2-incr", 0.4),
    ("eyes", "eye-height3-decr", "eye-height3-incr", 0.35),
    ("eyes", "eye-corner1-down", "eye-corner1-up", 0.4),
    ("eyes", "eye-corner2-down", "eye-corner2-up", 0.35),
    ("eyes", "eye-trans-in", "eye-trans-out", 0.4),
    ("eyes", "eye-trans-down", "eye-trans-up", 0.25),
    ("eyes", "eye-eyefold-down", "eye-eyefold-up", 0.4),
    ("eyes", "eye-eyefold-angle-down", "eye-eyefold-angle-up", 0.3),
    ("eyes", "eye-push1-in", "eye-push1-out", 0.25),
    ("cheek", "cheek-bones-decr", "cheek-bones-incr", 0.5),
    ("cheek", "cheek-volume-decr", "cheek-volume-incr", 0.45),
    ("cheek", "cheek-inner-decr", "cheek-inner-incr", 0.35),
    ("cheek", "cheek-trans-down", "cheek-trans-up", 0.3),
    ("ears", "ear-scale-decr", "ear-scale-incr", 0.35),
    ("ears", "ear-wing-decr", "ear-wing-incr", 0.35),
    ("ears", "ear-lobe-decr", "ear-lobe-incr", 0.4),
    ("ears", "ear-scale-vert-decr", "ear-scale-vert-incr", 0.3),
)
HEAD_FORMS = ("oval", "round", "square", "rectangular", "triangular", "invertedtriangular", "diamond")
