"""Skin tone alone beside skin-tone-classifier: images a second, and how well two groups are told apart.

The peer is GPL-3: it is installed into a venv of its own under bench/out and runs there, in processes of its own.
No line of it is imported here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np

from bench import figures
from bench.figures import Row
from bench.measures.page import Section, number, share, table
from bench.measures.pictures import Photo, resized
from bench.measures.separation import Read, difference, separation
from stillme.core.colour import srgb_to_lab

PEER = "skin-tone-classifier 1.2.6"
# Without its own dependency on opencv-python: version 5 of that has no Haar cascades, which the peer needs. OpenCV
# and NumPy as on our side, so that the same code decodes and computes for both.
PINS = (
    "skin-tone-classifier==1.2.6",
    "opencv-python-headless==4.14.0.94",
    "numpy==2.4.6",
    "colormath==3.0.0",
    "networkx==3.6.1",
    "colorama==0.4.6",
    "tqdm==4.70.1",
    "packaging==26.3",
    "requests==2.34.2",
    "urllib3==2.8.0",
    "idna==3.20",
    "certifi==2026.10.18",
    "charset-normalizer==3.5.2",
)
OUT = Path(__file__).resolve().parents[1] / "out"
DRIVER = Path(__file__).with_name("driver.py")
SIDE = 512
ROUNDS = 5
TURN = 24  # images before it is the next side's turn: what else the machine does then falls on all alike
CORES = 2
TARGET_RATIO = 2.0
LIGHTER, DARKER = "White", "Black"  # as FairFace spells them
OURS = "stillme"
WAYS = {OURS: ("ours",), f"{PEER}, told color": ("peer", "color"), f"{PEER}, auto": ("peer", "auto")}


def interpreter() -> Path | None:
    """The peer's own Python, made with the peer when it is first needed; None where that fails."""
    place = OUT / "peer-venv"
    python, ready = place / "bin" / "python", place / "pins.txt"
    if ready.is_file() and ready.read_text() == "\n".join(PINS):
        return python
    venv.create(place, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *PINS]
    if subprocess.run(command).returncode:
        return None
    ready.write_text("\n".join(PINS))
    return python


class Runner:
    """One side's driver, ready for turns over the same files; on the first two cores that we may use."""

    def __init__(self, python: Path, way: Sequence[str], paths: Sequence[Path]) -> None:
        # the peer's variable keeps it from asking PyPI for a newer version of itself at every start
        surroundings = {**os.environ, "STONE_UPGRADE_FLAG": "1"}
        command = [str(python), "-P", str(DRIVER), *way]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._process.pid, sorted(os.sched_getaffinity(0))[:CORES])
        self._ask(json.dumps([str(path) for path in paths]))

    def turn(self, first: int, last: int) -> Round:
        answer = json.loads(self._ask(json.dumps([first, last])))
        return Round(answer["seconds"], [(skin, bool(face), cpu) for skin, face, cpu in answer["found"]])

    def _ask(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the driver has no pipes")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("A driver ended early; what it said stands above. --only leaves this section out.")
        return answer

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(30)


@dataclass(frozen=True)
class Round:
    """What one side found: for each file its skin (L*, or hex), whether off a face, and CPU seconds."""

    seconds: float
    found: list[tuple[float | str | None, bool, float]]

    @classmethod
    def joined(cls, parts: Sequence[Round]) -> Round:
        return cls(sum(part.seconds for part in parts), [one for part in parts for one in part.found])

    @property
    def rate(self) -> float:
        return len(self.found) / self.seconds

    @property
    def cpu(self) -> float:
        """Milliseconds an image."""
        return 1000 * sum(cpu for *_, cpu in self.found) / len(self.found)

    def read(self, names: Sequence[str], *, fallback: bool = False) -> dict[str, float]:
        """Picture -> L*, where a face was found; with `fallback` wherever there is a figure."""
        both = zip(names, self.found, strict=True)
        return {name: lightness(skin) for name, (skin, face, _) in both if skin is not None and (face or fallback)}


def lightness(skin: float | str) -> float:
    """L* of a colour given as hex; a number is L* already."""
    if not isinstance(skin, str):
        return skin
    return float(srgb_to_lab(np.array([list(bytes.fromhex(skin.removeprefix("#")))], np.uint8))[0, 0])


def section(photos: Sequence[Photo], labelled: bool) -> Section:
    """`labelled`: whether the groups of the photographs are people's perceptions rather than renderings."""
    page = Section(f"Skin tone alone beside {PEER}, {len(photos)} images at {SIDE} px")
    theirs = interpreter()
    if theirs is None:
        page.want(False, f"{PEER} could not be installed into bench/out; run again with a network")
        page.rows.append(Row("skin tone of one image", None, "images/s", PEER).times(TARGET_RATIO))
        page.rows.append(Row("AUC of L*", None, "", PEER).times(1))
        return page
    taken = alternate(photos, theirs)
    _rates(page, taken)
    if labelled:
        _groups(page, photos, {way: rounds[0] for way, rounds in taken.items()})
    else:
        page.say("No labelled photographs were given, so nothing is said about separating groups.")
    return page


def alternate(photos: Sequence[Photo], theirs: Path) -> dict[str, list[Round]]:
    """Way -> its rounds; the ways take turns over the same files."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        paths = [_saved(resized(photo, SIDE), Path(name) / f"{n}.jpg") for n, photo in enumerate(photos)]
        pythons = {way: Path(sys.executable) if way == OURS else theirs for way in WAYS}
        runners = {way: stack.enter_context(Runner(pythons[way], WAYS[way], paths)) for way in WAYS}
        rounds = [_round(runners, len(paths)) for _ in range(ROUNDS)]
    return {way: [one[way] for one in rounds] for way in WAYS}


def _round(runners: Mapping[str, Runner], count: int) -> dict[str, Round]:
    """Once over all files, a few at a time, the ways in turns."""
    turns: dict[str, list[Round]] = {way: [] for way in runners}
    for first in range(0, count, TURN):
        for way, runner in runners.items():
            turns[way].append(runner.turn(first, first + TURN))
    return {way: Round.joined(parts) for way, parts in turns.items()}


def _saved(photo: Photo, path: Path) -> Path:
    path.write_bytes(photo.content)
    return path


def _rates(page: Section, taken: Mapping[str, list[Round]]) -> None:
    found = {way: Rate.of(taken[OURS], rounds) for way, rounds in taken.items()}
    page.say(f"two processes on two cores, in turns of {TURN} images, {ROUNDS} rounds; start-up is not counted")
    head = ("", "images/s", "ours is", "by round", "CPU ms/image", "to ours")
    page.say(*table(head, [(way, *one.row()) for way, one in found.items()]))
    page.figures["rate"] = {way: asdict(one) for way, one in found.items()}
    for way, one in list(found.items())[1:]:
        mine = found[OURS].images_per_second
        row = figures.rate("skin tone of one image", mine, "images/s", way, one.images_per_second)
        page.rows.append(row.times(TARGET_RATIO))
    for way, one in found.items():
        met = way == OURS or one.ours_is >= TARGET_RATIO
        page.want(met, f"{one.ours_is:.2f}× the rate of {way}, not {TARGET_RATIO:g}×")


@dataclass(frozen=True)
class Rate:
    """How quick a way is over all rounds, and ours beside it."""

    images_per_second: float
    ours_is: float
    lowest: float
    highest: float
    cpu_ms: float
    cpu_to_ours: float

    @classmethod
    def of(cls, ours: Sequence[Round], rounds: Sequence[Round]) -> Rate:
        mine, whole = Round.joined(ours), Round.joined(rounds)
        ratios = [one.rate / other.rate for one, other in zip(ours, rounds, strict=True)]
        cpu = whole.cpu / mine.cpu
        return cls(whole.rate, mine.rate / whole.rate, min(ratios), max(ratios), whole.cpu, cpu)

    def row(self) -> tuple[str, ...]:
        between = f"{self.lowest:.2f} to {self.highest:.2f}"
        rates = (number(self.images_per_second, 1), f"{self.ours_is:.2f}×", between)
        return (*rates, number(self.cpu_ms, 1), f"{self.cpu_to_ours:.2f}×")


@dataclass(frozen=True)
class Separated:
    """One line about telling the groups apart; the last three only where it stands beside ours."""

    way: str
    read: int
    of: int
    lighter: int
    darker: int
    auc: float | None
    ours_above: float | None = None
    low: float | None = None
    high: float | None = None

    def row(self) -> tuple[str, ...]:
        interval = "" if self.low is None or self.high is None else f"{self.low:+.3f} to {self.high:+.3f}"
        above = "" if self.ours_above is None else number(self.ours_above, 3, sign=True)
        counts = (share(self.read, self.of), str(self.lighter), str(self.darker))
        return (self.way, *counts, number(self.auc, 3), above, interval)


@dataclass(frozen=True)
class Groups:
    """The pictures of the two groups, among all."""

    names: list[str]
    lighter: list[str]
    darker: list[str]

    @classmethod
    def of(cls, photos: Sequence[Photo]) -> Groups:
        parts = ([photo.name for photo in photos if photo.race == race] for race in (LIGHTER, DARKER))
        return cls([photo.name for photo in photos], *parts)

    def separated(self, way: str, read: Read, ours: Read | None = None) -> Separated:
        lighter, darker = (sum(name in read for name in group) for group in (self.lighter, self.darker))
        found = separation(read, self.lighter, self.darker)
        line = Separated(way, len(read), len(self.names), lighter, darker, found)
        return line if ours is None else self._beside(line, read, ours)

    def _beside(self, line: Separated, read: Read, ours: Read) -> Separated:
        mine = separation(ours, self.lighter, self.darker)
        interval = difference(ours, read, self.lighter, self.darker)
        if mine is None or line.auc is None or interval is None:
            return line
        return replace(line, ours_above=mine - line.auc, low=interval[0], high=interval[1])


def _groups(page: Section, photos: Sequence[Photo], taken: Mapping[str, Round]) -> None:
    """AUC of L*: each way on what it read off faces, on what both did, and with the peer's fallback."""
    groups = Groups.of(photos)
    ours = taken[OURS].read(groups.names)
    lines = [groups.separated(OURS, ours)]
    for way, one in list(taken.items())[1:]:
        found = list(_beside(way, one, ours, groups))
        page.rows += _separated(lines[0], way, found[0])
        page.want((found[0].ours_above or 0) >= 0, f"an AUC as good as that of {way}, each on what it reads")
        lines += found
    page.say("", f"AUC of L*, perceived as {LIGHTER} above perceived as {DARKER}; without a face nothing is read.")
    page.say("The peer takes the whole image where it finds no face: its fallback, which is no reading of skin.")
    head = ("", "read", LIGHTER, DARKER, "AUC", "ours above it", "95 % interval")
    page.say(*table(head, [line.row() for line in lines]))
    page.figures["separation"] = [asdict(line) for line in lines]


def _separated(ours: Separated, way: str, theirs: Separated) -> Iterator[Row]:
    yield figures.rate("faces read", ours.read, f"of {ours.of}", way, theirs.read)
    if ours.auc is not None:
        name = f"AUC of L*, perceived as {LIGHTER} above {DARKER}"
        yield figures.rate(name, ours.auc, "", way, theirs.auc).times(1)


def _beside(way: str, one: Round, ours: Read, groups: Groups) -> Iterator[Separated]:
    """Each on what it read, then both on the pictures that both read, then with the fallback."""
    faces = one.read(groups.names)
    common = [name for name in groups.names if name in ours and name in faces]
    mine, other = ({name: side[name] for name in common} for side in (ours, faces))
    yield groups.separated(way, faces, ours)
    yield groups.separated("  where both read: it", other, mine)
    yield groups.separated("  where both read: ours", mine)
    yield groups.separated("  with its fallback", one.read(groups.names, fallback=True), ours)
