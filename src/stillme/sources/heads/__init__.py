"""The synthetic portraits: 84 invented people as layers that recolour in milliseconds.

They are placeholders rendered from CC0 geometry, not representations of groups; what differs between groups
in them was put there. This package reads the shipped layers and knows nothing about edits, prompts or audits.
"""

from stillme.sources.heads.colour import lab_to_srgb, shift_skin, srgb_to_lab
from stillme.sources.heads.layers import (
    SIZE,
    Head,
    backdrop,
    key_in,
    keys,
    labels,
    load,
    over,
    photograph,
    signature,
    variants,
)

__all__ = [
    "SIZE",
    "Head",
    "backdrop",
    "key_in",
    "keys",
    "lab_to_srgb",
    "labels",
    "load",
    "over",
    "photograph",
    "shift_skin",
    "signature",
    "srgb_to_lab",
    "variants",
]
