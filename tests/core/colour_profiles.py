"""Small ICC profiles made from primaries and a gamma, for pictures that are not sRGB."""

from __future__ import annotations

import struct
from collections.abc import Sequence

# Red, green, blue as XYZ columns, adapted to D50 as profiles want them.
ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
DISPLAY_P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
D50 = (0.9642, 1.0, 0.8249)


def rgb_profile(primaries: Sequence[Sequence[float]], gamma: float | None) -> bytes:
    """A display profile; without a gamma, with sRGB's own curve."""
    curve = _gamma(gamma) if gamma is not None else _srgb_curve()
    named = zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=True)
    tags = {b"wtpt": _xyz(D50)} | {name: _xyz(primary) for name, primary in named}
    return _file(b"RGB ", tags | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve))


def grey_profile(gamma: float) -> bytes:
    return _file(b"GRAY", {b"wtpt": _xyz(D50), b"kTRC": _gamma(gamma)})


def _file(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    tags = {b"desc": b"desc" + bytes(4) + struct.pack(">I", 5) + b"test\0" + bytes(83)} | tags
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for name, content in tags.items():
        table += struct.pack(">4sII", name, start + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    size = 128 + len(table) + len(body)
    head = struct.pack(">I4sI4s4s4s", size, bytes(4), 0x02400000, b"mntr", space, b"XYZ ")
    head += bytes(12) + b"acsp" + bytes(28) + b"".join(_fixed(value) for value in D50)
    return head + bytes(128 - len(head)) + table + body


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + b"".join(_fixed(value) for value in values)


def _gamma(gamma: float) -> bytes:
    return b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256))


def _srgb_curve() -> bytes:
    numbers = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    return b"para" + bytes(4) + struct.pack(">HH", 3, 0) + b"".join(_fixed(value) for value in numbers)


def _fixed(value: float) -> bytes:
    return struct.pack(">i", round(value * 65536))
