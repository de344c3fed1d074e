"""The same pictures give the same bits: in another bench, in another order, in another process. Memory stays flat."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from stillme.measures.runner import MAX_CACHED_SOURCES, MeasureRunner
from stillme.sources import heads
from tests.measures import pairs

KEYS = ("white-female-30s", "black-male-60s", "east_asian-male-20s")

SCRIPT = """
import json, sys
from pathlib import Path
from tests.measures import pairs
source = Path(sys.argv[1])
edited = source.with_name(source.name.replace("source", "edited"))
print(json.dumps(pairs.figures(pairs.new_bench(), source.read_bytes(), edited.read_bytes())))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three portraits and an edit of each."""
    made = tmp_path_factory.mktemp("pairs")
    for n, key in enumerate(KEYS):
        head = heads.load(key)
        picture = heads.photograph(head)
        (made / f"{n}.source.jpg").write_bytes(pairs.jpeg(picture))
        (made / f"{n}.edited.jpg").write_bytes(pairs.jpeg(heads.shift_skin(picture, head.skin, 2 * n - 3)))
    return made


def contents(folder: Path) -> list[tuple[str, bytes, bytes]]:
    sources = sorted(folder.glob("*.source.jpg"))
    return [
        (path.name, path.read_bytes(), path.with_name(path.name.replace("source", "edited")).read_bytes())
        for path in sources
    ]


def read(bench: MeasureRunner, folder: Path) -> dict[str, dict[str, float]]:
    return {name: pairs.figures(bench, source, edited) for name, source, edited in contents(folder)}


def test_two_processes_agree_bit_for_bit(bench: MeasureRunner, folder: Path) -> None:
    name, source, edited = contents(folder)[0]
    run = [sys.executable, "-c", SCRIPT, str(folder / name)]
    root = Path(__file__).parents[2]
    out = subprocess.run(run, capture_output=True, text=True, check=True, cwd=root)
    assert out.stderr == ""
    assert json.loads(out.stdout) == pairs.figures(bench, source, edited)


@pytest.mark.slow
def test_what_was_read_before_makes_no_difference(bench: MeasureRunner, folder: Path) -> None:
    """Fresh, after other pairs, in the reverse order, and one measure at a time."""
    used = pairs.new_bench()
    first = read(bench, folder)
    assert read(used, folder) == first
    for name, source, edited in reversed(contents(folder)):
        alone: dict[str, float] = {}
        for kind in reversed(pairs.KINDS):
            alone |= pairs.figures(used, source, edited, kind)
        assert alone == first[name]


def test_readings_come_in_the_order_asked_for(bench: MeasureRunner, folder: Path) -> None:
    _, source, edited = contents(folder)[0]
    forward = bench.measure(pairs.request(source, edited))
    backward = bench.measure(pairs.request(source, edited, *reversed(pairs.KINDS)))
    assert forward == backward[::-1]


def test_only_the_last_few_sources_are_kept() -> None:
    bench = pairs.new_bench()
    content = [pairs.jpeg(pairs.portrait(key)) for key in heads.keys()[:6]]
    for source in content:
        bench.measure(pairs.request(source, content[0], "change"))
    assert len(bench._sources) == MAX_CACHED_SOURCES
    last = pairs.request(content[-1], content[0])
    assert list(bench._sources)[-1] == last.source_key


@pytest.mark.slow
def test_edits_and_sources_past_are_let_go(folder: Path) -> None:
    bench = pairs.new_bench()
    requests = [pairs.request(source, edited) for _, source, edited in contents(folder)]
    pair = bench.pair(requests[0])
    source, edit = weakref.ref(pair.source), weakref.ref(pair.edit)
    bench.measure(requests[0])
    del pair
    gc.collect()
    assert edit() is None and source() is not None
    for _, past, edited in contents(folder)[1:]:
        bench.measure(pairs.request(past, edited, "change"))
    gc.collect()
    assert source() is None
    assert len(requests) > MAX_CACHED_SOURCES
