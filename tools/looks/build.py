"""Draws the layers that `stillme.sources.looks` ships and writes them with their index. See README.md.

PYTHONPATH=src python tools/looks/build.py [--out src/stillme/sources/looks/layers] [--only scenes/bus]
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import props
from brush import Canvas, Sheet, on
from garments import cut
from model import FIGURE, POINTS, SHEETS, measures
from PIL import Image
from props import Stage
from scars import healed_scars
from scenes import SCENES

from stillme.sources.looks.table import Look, table

VARIANTS = 4  # of every place, and of every garment: as many as a row of looks.yaml has colourways
OUT = Path("src/stillme/sources/looks/layers")
LOSSLESS = {"lossless": True}
CLOTH = {"quality": 72, "alpha_quality": 90}  # weave and knit are still whole; at 90 the files are twice as large
SCENE = {"quality": 78}  # out of focus, and the grain that is added in use hides the rest
COLOURED = ("earrings", "glasses")  # whose colour goes with the garment's

# Which layer of the picture a prop belongs to, what it is fitted to, and where its anchor lies (sides only):
# u and v in half shoulder widths from the neckline, u at least so many pixels, its reach kept inside the picture.
PROPS: dict[str, dict[str, object]] = {
    "wheelchair": {
        "order": "behind",
        "fit": "sides",
        "u": 0.78,
        "v": -0.56,
        "drawn": 0.8,
        "least": 116,
        "reach": 0,
    },
    "priority_seat_sign": {"order": "behind", "fit": "picture"},
    "pregnancy_sign": {"order": "behind", "fit": "picture"},
    "meal_sign": {"order": "behind", "fit": "picture"},
    "earrings": {"order": "worn", "fit": "face"},
    "glasses": {"order": "before", "fit": "face"},
    "podium": {"order": "before", "fit": "picture"},
    "forms": {"order": "before", "fit": "picture"},
    "crutches": {"order": "before", "fit": "sides", "u": 1.0, "v": 0.02, "drawn": 1.0, "least": 0, "reach": 26},
    "cane": {"order": "before", "fit": "sides", "u": 0.62, "v": 0.3, "drawn": 0.62, "least": 0, "reach": 54},
}
PROPS |= {name: {"order": "pinned", "fit": "torso"} for name in props.PINNED}
PAINTERS = {**props.FACE, **props.SIDE, **props.FIXED}

Draw = Callable[[], Image.Image]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write")
    parser.add_argument("--only", default="", help="draw the layers whose names begin so, and keep the others")
    options = parser.parse_args()
    fresh = options.out.with_name(options.out.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    if options.only:
        shutil.copytree(options.out, fresh)
    for name, sheet, quality, draw in _layers():
        if name.startswith(options.only):
            path = fresh / f"{name}.webp"
            path.parent.mkdir(parents=True, exist_ok=True)
            with on(sheet):
                draw().save(path, "WEBP", method=6, exact=True, **quality)
    index = {"props": {name: {**row, "coloured": name in COLOURED} for name, row in PROPS.items()}, **measures()}
    (fresh / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    shutil.rmtree(options.out, ignore_errors=True)
    fresh.rename(options.out)
    files = [path for path in options.out.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.2f} MB in {options.out}")


def _layers() -> Iterator[tuple[str, Sheet, dict[str, object], Draw]]:
    """Every layer with its sheet, how it is written, and what draws it."""
    for look in table().values():
        for way in range(VARIANTS):
            yield f"scenes/{look.scene}.{way}", SHEETS["picture"], SCENE, lambda s=look.scene, w=way: SCENES[s](w)
            yield f"garments/{look.id}.{way}", SHEETS["torso"], CLOTH, lambda look=look, w=way: cut(look, w)
        for name in look.props:
            if name in PAINTERS:
                for way in range(VARIANTS if name in COLOURED else 1):
                    file = f"props/{name}.{way}" if name in COLOURED else f"props/{name}"
                    fit = SHEETS[str(PROPS[name]["fit"])]
                    yield file, fit, LOSSLESS, lambda name=name, look=look, w=way: _prop(name, look, w)
    yield "marks/healed_scars", SHEETS["face"], LOSSLESS, healed_scars


def _prop(name: str, look: Look, variant: int) -> Image.Image:
    canvas = Canvas()
    PAINTERS[name](Stage(canvas, FIGURE.torso, POINTS, look.colours[variant], variant))
    picture = Image.merge("RGBa", [*canvas.paint.split(), canvas.cover])
    return picture.convert("RGBA")


if __name__ == "__main__":
    main()
