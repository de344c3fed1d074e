"""The measures beside a peer, on known changes, and over many pairs: one page.

    python -m bench.measures [--images FOLDER] [--pairs 5000] [--only peer,planted,throughput,memory,bits] [--json]

FOLDER holds labelled photographs in FairFace's layout (fairface_label_*.csv and the files that it names). Without
it, ../shared/data/fairface_sample beside the project is taken where it exists, and the shipped heads alone where
not. The peer is installed into bench/out/peer-venv at the first run, which needs a network.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import figures
from bench.measures import bits, memory, peer, planted, throughput
from bench.measures.page import Section
from bench.measures.pictures import Photo, rendered, sample

SHOWS = (
    "Skin tone beside a peer on the same pictures, planted changes read back, pairs a second, memory, "
    "and the same bits."
)
DOES_NOT_SHOW = (
    "that groups are told apart better than by the peer: with some twenty portraits a group the "
    "difference in AUC is "
    "not told from 0, and on the portraits that both read the peer's may be higher.",
    "people in other light and poses than the sample's; the heads are rendered, and easier.",
    "speed with more than two processes.",
)


def main() -> int:
    given = _arguments()
    sections = _sections(sample(given.images), rendered(), given.pairs)
    page = []
    for name in given.only.split(","):
        page.append(sections[name]())
        print(page[-1].text(), flush=True)
    peers = dict([peer.PEER.split()])
    figures.write(
        "measures", [row for one in page for row in one.rows], SHOWS, DOES_NOT_SHOW, peers, notes(given, page)
    )
    missed = sum(len(section.missed) for section in page)
    print(f"{missed} targets missed" if missed else "all targets met")
    if given.json:
        print(f"written: {_write(page)}")
    return int(bool(missed))


def notes(given: argparse.Namespace, page: list[Section]) -> list[str]:
    missed = [f"Missed: {one}." for section in page for one in section.missed if "could not be installed" in one]
    return [
        *missed,
        *([] if sample(given.images) else ["No labelled photographs were there: rendered heads alone."]),
    ]


def _sections(photos: list[Photo], heads: list[Photo], pairs: int) -> Mapping[str, Callable[[], Section]]:
    return {
        "peer": lambda: peer.section(photos or heads, labelled=bool(photos)),
        "planted": lambda: planted.section(heads, photos),
        "throughput": lambda: throughput.section(heads, photos),
        "memory": lambda: memory.section(heads, pairs),
        "bits": lambda: bits.section(heads, photos),
    }


def _arguments() -> argparse.Namespace:
    names = list(_sections([], [], 0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="labelled photographs in FairFace's layout")
    parser.add_argument("--pairs", type=int, default=5000, help="for the memory; 500 for a quick run")
    parser.add_argument("--only", default=",".join(names), help="sections, with commas between them")
    parser.add_argument(
        "--json", action="store_true", help="also write every figure to bench/out/measures-all.json"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.only.split(",")) - set(names))
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(names)}")
    return given


def _write(page: list[Section]) -> Path:
    path = peer.OUT / "measures-all.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [{"title": one.title, "figures": one.figures, "missed": one.missed} for one in page]
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
