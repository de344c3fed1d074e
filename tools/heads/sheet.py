"""Contact sheets of the shipped heads: everybody, or each head beside its versions. For looking, not shipped."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stillme.sources import heads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="PNG to write")
    parser.add_argument("--side", type=int, default=160, help="pixels of one portrait")
    parser.add_argument("--versions", default="", help="part of a key: show these heads with all their versions")
    options = parser.parse_args()
    wide = len(heads.variants(heads.keys()[0])) if options.versions else 12
    sheet(_chosen(options.versions), wide, options.side).save(options.out)


def _chosen(part: str) -> list[tuple[str, str]]:
    if not part:
        return [(key, "base") for key in heads.keys()]  # noqa: SIM118
    found = [key for key in heads.keys() if part in key]  # noqa: SIM118
    return [(key, variant) for key in found for variant in heads.variants(key)]


def sheet(chosen: list[tuple[str, str]], wide: int, side: int) -> Image.Image:
    tiles = [_tile(key, variant, side) for key, variant in chosen]
    rows = [np.hstack(tiles[start : start + wide]) for start in range(0, len(tiles), wide)]
    return Image.fromarray(np.vstack(rows))


def _tile(key: str, variant: str, side: int) -> NDArray[np.uint8]:
    picture = Image.fromarray(heads.photograph(heads.load(key, variant)))
    return np.asarray(picture.resize((side, side), Image.Resampling.LANCZOS))


if __name__ == "__main__":
    main()
