"""A contact sheet of the looks: a row per head, a column per look. For looking, not shipped."""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from stillme.sources import heads, looks

PEOPLE = (
    "black-female-20s,white-male-70plus,east_asian-female-40s,latino-male-30s"  # short and long hair, beard, age
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="PNG to write")
    parser.add_argument("--heads", default=PEOPLE, help="keys with commas; a version follows a dot")
    parser.add_argument("--looks", default=",".join(looks.names()))
    parser.add_argument("--side", type=int, default=240, help="pixels of one picture")
    options = parser.parse_args()
    people, names, side = options.heads.split(","), options.looks.split(","), options.side
    page = Image.new("RGB", (side * len(names), side * len(people)))
    for row, person in enumerate(people):
        key, _, version = person.partition(".")
        head = heads.load(key, version or "base")
        for column, name in enumerate(names):
            picture = Image.fromarray(looks.dress(head, name, seed=row))
            page.paste(picture.resize((side, side), Image.Resampling.LANCZOS), (column * side, row * side))
    page.save(options.out)


if __name__ == "__main__":
    main()
