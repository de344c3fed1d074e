"""The colours and shapes of figures. Light values stand in files; a page turns those of `THEME` with its mode.

Editors have Okabe and Ito's colours in their fixed order, each with a shape of its own. Directions and amounts
have scales that are no editor's, so that a colour never means two things; none is red against green.
"""

from __future__ import annotations

INK, MUTED, LINE, PAGE, BAND = "#1b1f24", "#565e67", "#d3d8dd", "#ffffff", "#e3e7eb"
NAIVE = "#9aa3ad"  # the interval that nothing is claimed by
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")

# What a page's own colours stand for; report.css spells them for light and dark.
THEME = {INK: "ink", MUTED: "muted", LINE: "line", PAGE: "page", BAND: "band", NAIVE: "naive", SERIES[7]: "c7"}

BELOW, LITTLE_BELOW, SAME, LITTLE_ABOVE, ABOVE = DIRECTIONS = (
    "#5e3c99",
    "#b2abd2",
    "#e0e0e0",
    "#fdb863",
    "#e66101",
)
AMOUNTS = ("#e8edf2", "#c2d3e4", "#8fb0d0", "#4d83b4", "#1f4e79")  # from nothing to much

# Corners relative to the centre, of a mark of radius 1; None: a circle.
SHAPES: tuple[tuple[tuple[float, float], ...] | None, ...] = (
    None,
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    ((0, 1.1), (1.1, -0.9), (-1.1, -0.9)),
    (
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ),
    ((-1.2, -0.5), (0, -1.2), (1.2, -0.5), (0.8, 1), (-0.8, 1)),
    ((-1.2, 0), (-0.6, -1), (0.6, -1), (1.2, 0), (0.6, 1), (-0.6, 1)),
)


def series(place: int) -> str:
    """The colour of the place-th editor, as `figures.colour` counts them."""
    return SERIES[place % len(SERIES)]


def amount(share: float) -> str:
    """A colour of the scale from nothing to much; `share`: 0 to 1.

    >>> amount(0), amount(1)
    ('#e8edf2', '#1f4e79')
    """
    place = min(max(share, 0.0), 1.0) * (len(AMOUNTS) - 1)
    first = min(int(place), len(AMOUNTS) - 2)
    parts = [_mixed(i, AMOUNTS[first], AMOUNTS[first + 1], place - first) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _mixed(at: int, one: str, other: str, share: float) -> int:
    low, high = int(one[at : at + 2], 16), int(other[at : at + 2], 16)
    return round(low + (high - low) * share)


def over(fill: str) -> str:
    """The colour of words on a fill that stays as it is in both modes: black or white, whichever stands out.

    >>> over("#e0e0e0"), over("#1f4e79")
    ('#000001', '#fffffe')
    """
    parts = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # a shade beside pure black and white, because those turn with the page's mode
    return "#000001" if light > 0.179 else "#fffffe"
