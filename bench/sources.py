"""Sampling 7 pools from a large FairFace in Parquet shards, beside pandas and datasets on the same files.

    python -m bench.sources [--rows 100000] [--only readers,sample,pandas,projected,datasets] [--keep FOLDER]

The data set is made for the purpose, seeded: rendered heads under a random pattern, so that they are told apart,
448 px wide, in shards as Hugging Face writes them (row groups of 1,000 rows). 100,000 rows take about 2.8 GB below
the temporary directory, and `datasets` writes as much again into a cache of its own. Every way runs in a process
of its own and takes 7 portraits a cell; files are in the page cache for all of them alike. Ratios of time are of
CPU seconds, which a busy machine moves least. Peak memory counts pages of mapped files too.

pandas and datasets come with the extra `bench`; ways that are not installed are left out and said.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import figures
from bench.figures import Row

ROWS = 100_000
SHARDS = 5  # four of train, one of validation
GROUP = 1000  # rows of a row group
PICTURES = 5000  # that look different; every row's bytes are its own
SIDE = 448
POOLS = 7
SEED = 20240501
TARGET_MEGABYTES = 500
CLASSES = {"age": 9, "gender": 2, "race": 7}
AGE_WEIGHTS = (2, 14, 10, 30, 22, 12, 6, 3, 1)  # percent; the last is the one that makes cells small
FIRST_AGE = 3  # classes below are children's

WAYS = {
    "readers": "stillme, labels and images of the same rows",
    "sample": "stillme sources sample, the whole step",
    "pandas": "pandas, read_parquet",
    "projected": "pandas, labels first, then the images of each shard",
    "datasets": "datasets, load_dataset with a cold cache",
}
SHOWS = (
    "7 portraits for each of 84 cells out of 100,000 rows of Parquet: CPU seconds and peak memory, each "
    "way in a process."
)
DOES_NOT_SHOW = (
    "an equal effort: the peers only read; the whole step also decodes, fingerprints, rejects near-duplicates and "
    "stores durably.",
    "a cold disk: every file is in the page cache.",
    "time won over pandas told to read labels first: there the gain is memory.",
)
NEEDS = {"pandas": "pandas", "projected": "pandas", "datasets": "datasets"}


@dataclass(frozen=True)
class Taken:
    """What one way took."""

    seconds: float
    cpu: float
    megabytes: float
    portraits: int


# The data set


def make(folder: Path, rows: int) -> None:
    """Shards of `rows` rows in all, the same for the same number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    pictures = list(_pictures(min(PICTURES, rows)))
    kind = pa.schema(
        [("image", pa.struct({"bytes": pa.binary(), "path": pa.string()})), *((c, pa.int64()) for c in CLASSES)],
        metadata={"huggingface": json.dumps({"info": {"features": {}}})},
    )
    folder.mkdir(parents=True)
    for number, name in enumerate(_shard_names()):
        first, last = rows * number // SHARDS, rows * (number + 1) // SHARDS
        with pq.ParquetWriter(folder / name, kind) as writer:
            for start in range(first, last, GROUP):
                writer.write_table(_table(rng, pictures, start, min(GROUP, last - start), kind))


def _shard_names() -> list[str]:
    train = [f"train-{n:05}-of-{SHARDS - 1:05}.parquet" for n in range(SHARDS - 1)]
    return [*train, "validation-00000-of-00001.parquet"]


def _table(rng: Any, pictures: Sequence[bytes], start: int, count: int, kind: Any) -> Any:
    import pyarrow as pa

    chosen = rng.integers(0, len(pictures), count)
    image = [
        {"bytes": _own(pictures[picture], rng.bytes(16)), "path": f"{start + n}.jpg"}
        for n, picture in enumerate(chosen)
    ]
    weights = {"age": [weight / 100 for weight in AGE_WEIGHTS]}
    labels = {word: rng.choice(size, count, p=weights.get(word)) for word, size in CLASSES.items()}
    return pa.table({"image": image, **labels}, schema=kind)


def _own(jpeg: bytes, comment: bytes) -> bytes:
    """The same picture in a file of its own: a comment after the first marker."""
    return jpeg[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + jpeg[2:]


def _pictures(count: int) -> Iterator[bytes]:
    import numpy as np
    from PIL import Image

    from stillme.core import images
    from stillme.sources import heads

    rng = np.random.default_rng(SEED)
    size = (SIDE, SIDE)
    faces = [Image.fromarray(heads.photograph(heads.load(key))).resize(size) for key in heads.keys()]  # noqa: SIM118
    for number in range(count):
        pattern = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)).resize(size)
        yield images.encode(np.asarray(Image.blend(faces[number % len(faces)], pattern, 0.5)), quality=70)


# The ways. Each takes POOLS portraits a cell where a cell has so many, and says how many it took.


def readers(folder: Path) -> int:
    import random

    from stillme.protocol import builtin
    from stillme.sources import Row
    from stillme.sources.fairface_parquet import Settings, read
    from stillme.sources.labels import Vocabulary

    reader = read(Settings(folder="."), folder, Vocabulary.of(builtin()))
    draw = random.Random(SEED)
    cells: dict[tuple[str, ...], list[tuple[float, Row]]] = {}
    for row in reader.rows():
        if isinstance(row, Row) and len(row.labels) == len(CLASSES):
            cell = cells.setdefault(tuple(row.labels[word] for word in CLASSES), [])
            cell.append((draw.random(), row))
            cell.sort(key=lambda one: one[0])
            del cell[POOLS:]
    wanted = [row for cell in cells.values() for _, row in cell]
    return _take(content for _, content in reader.images(wanted) if isinstance(content, bytes))


def sample(folder: Path) -> int:
    from stillme.cli.main import main as stillme

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "selection.yaml"
        file.write_text(
            f"stillme: 1\nname: bench\nfolder: selection\npools: {{count: {POOLS}}}\n"
            f"readers:\n  - id: fairface\n    kind: fairface_parquet\n    settings: {{folder: {folder}}}\n"
        )
        try:
            stillme(["sources", "sample", str(file)])
        except SystemExit as end:
            if end.code:
                raise
        found = [path for path in (Path(name) / "selection").rglob("*.jpg") if path.is_file()]
        return len(found)


def pandas(folder: Path) -> int:
    import pandas as pd

    whole = pd.concat([pd.read_parquet(path) for path in _paths(folder)], ignore_index=True)
    chosen = _choose(whole[list(CLASSES)])
    return _take(image["bytes"] for image in whole.loc[chosen, "image"])


def projected(folder: Path) -> int:
    import pandas as pd

    labels = [pd.read_parquet(path, columns=list(CLASSES)) for path in _paths(folder)]
    chosen = _choose(pd.concat(labels, keys=range(len(labels))))
    return _take(
        image["bytes"]
        for number, path in enumerate(_paths(folder))
        for image in pd.read_parquet(path, columns=["image"])["image"].iloc[[n for s, n in chosen if s == number]]
    )


def datasets(folder: Path) -> int:
    import datasets as hf

    hf.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
        files = [str(path) for path in _paths(folder)]
        whole: Any = hf.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
        chosen = _choose(whole.select_columns(list(CLASSES)).to_pandas())
        return _take(row["image"]["bytes"] for row in whole.select(chosen))


def _choose(labels: Any) -> list[Any]:
    grown = labels[labels["age"] >= FIRST_AGE].sample(frac=1, random_state=SEED)
    return sorted(grown.groupby(list(CLASSES)).head(POOLS).index)


def _take(contents: Iterator[bytes]) -> int:
    """Touches every byte, as a program that keeps the portraits would."""
    return len([hashlib.sha256(content).digest() for content in contents])


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


# The page


def run(way: str, folder: Path, rows: int = 0) -> Taken:
    """One way in a process of its own, which says its peak memory at its end."""
    command = [sys.executable, "-m", "bench.sources", "--child", way, "--keep", str(folder), "--rows", str(rows)]
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    warm(folder)
    started = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, env=surroundings)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise RuntimeError(f"{way} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    portraits, cpu, megabytes = ended.stdout.split()[-3:]
    return Taken(seconds, float(cpu), float(megabytes), int(portraits))


def warm(folder: Path) -> None:
    """Reads every shard once, so that no way finds more of them in the page cache than another."""
    for path in _paths(folder):
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass


def peak() -> float:
    """MB. On Linux from the process itself: what `getrusage` says there begins with its parent's size."""
    status = Path("/proc/self/status")
    if status.exists():
        kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(kilobytes) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def child(way: str, folder: Path, rows: int) -> int:
    if way == "make":
        make(folder, rows)
        return rows
    ways: dict[str, Callable[[Path], int]] = {
        "readers": readers,
        "sample": sample,
        "pandas": pandas,
        "projected": projected,
        "datasets": datasets,
    }
    return ways[way](folder)


def page(taken: dict[str, Taken]) -> Iterator[str]:
    """Ratios are to the first way."""
    yield f"{'':<52}{'seconds':>8}{'CPU s':>7}{'ratio':>7}{'peak MB':>9}{'ratio':>7}{'portraits':>10}"
    first = next(iter(taken.values()))
    for way, found in taken.items():
        cpu, memory = found.cpu / first.cpu, found.megabytes / first.megabytes
        yield (
            f"{WAYS[way]:<52}{found.seconds:>8.1f}{found.cpu:>7.1f}{cpu:>6.1f}×"
            f"{found.megabytes:>9,.0f}{memory:>6.1f}×{found.portraits:>10}"
        )


def missed(taken: dict[str, Taken]) -> list[str]:
    ours = {way: found for way, found in taken.items() if way in ("readers", "sample")}
    return [
        f"{WAYS[way]}: {found.megabytes:.0f} MB, the target is below {TARGET_MEGABYTES}"
        for way, found in ours.items()
        if found.megabytes >= TARGET_MEGABYTES
    ]


def rows(taken: dict[str, Taken]) -> Iterator[Row]:
    """The whole step beside what only reads, and ours that only reads beside the same."""
    for own in (way for way in ("sample", "readers") if way in taken):
        mine = taken[own]
        yield figures.cost(f"peak memory: {WAYS[own]}", mine.megabytes, "MB").below(TARGET_MEGABYTES)
        for way in (way for way in NEEDS if way in taken):
            theirs = taken[way]
            yield figures.cost(f"CPU: {WAYS[own]}", mine.cpu, "s", WAYS[way], theirs.cpu)
            yield figures.cost(f"peak memory: {WAYS[own]}", mine.megabytes, "MB", WAYS[way], theirs.megabytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default=",".join(WAYS), help="ways, with commas between them")
    parser.add_argument("--keep", type=Path, help="make the data set here, or take the one that is here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(child(given.child, given.keep, given.rows), time.process_time(), peak())
        return 0
    with tempfile.TemporaryDirectory() as name:
        return compare(given.keep or Path(name) / "shards", given.rows, given.only.split(","))


def compare(folder: Path, rows_made: int, ways: Sequence[str]) -> int:
    if not folder.exists():
        run("make", folder, rows_made)
    size = sum(path.stat().st_size for path in _paths(folder))
    print(
        f"{rows_made:,} rows in {len(_paths(folder))} shards, {size / 1e9:.2f} GB; {POOLS} portraits a cell",
        flush=True,
    )
    there = [way for way in ways if way not in NEEDS or importlib.util.find_spec(NEEDS[way])]
    for way in sorted(set(ways) - set(there)):
        print(f"left out: {WAYS[way]} (pip install 'stillme[bench]')")
    taken = {way: run(way, folder) for way in there}
    print("\n".join(page(taken)))
    left_out = [f"Left out, not installed: {WAYS[way]}." for way in sorted(set(ways) - set(there))]
    notes = [f"{rows_made:,} rows.", *left_out]
    figures.write(
        "sources", rows(taken), SHOWS, DOES_NOT_SHOW, figures.versions("pandas", "datasets", "pyarrow"), notes
    )
    faults = missed(taken)
    print("\n".join(faults) or "targets met")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
