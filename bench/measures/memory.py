"""Memory over many pairs, in one process of its own that measures the same pairs in rotation."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from itertools import cycle, islice

import psutil

from bench import figures
from bench.measures.page import Section, number
from bench.measures.pictures import Photo
from bench.measures.taking import recipes
from bench.measures.throughput import LOOKS, SOURCES, dressed
from stillme.core.records import MeasureRequest
from stillme.measures import set_up

FLAT = 16.0  # MB that an allocator may still gain between a tenth of the way and its end


def section(heads: Sequence[Photo], pairs: int) -> Section:
    page = Section(f"Memory of one process over {pairs:,} pairs, all three measures")
    requests = [case.request for case in dressed(heads)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        early, late, seconds = pool.apply(watch, (requests, pairs))
    page.say(f"{SOURCES} heads in {LOOKS} looks at 384 px in rotation, {pairs / seconds:.1f} pairs/s")
    page.say(f"{early:.1f} MB after a tenth, {late:.1f} MB at the end: {number(late - early, 1, sign=True)} MB")
    page.figures.update(pairs=pairs, mb_after_a_tenth=early, mb_at_the_end=late, growth_mb=late - early)
    page.rows.append(figures.cost(f"memory gained over {pairs:,} pairs", late - early, "MB").at_most(FLAT))
    page.want(late - early <= FLAT, f"memory that grows by {FLAT:g} MB at most")
    return page


def watch(requests: Sequence[MeasureRequest], pairs: int) -> tuple[float, float, float]:
    """MB after a tenth of the pairs and after all of them, and the seconds."""
    bench, process = set_up(recipes()), psutil.Process()
    early, clock = 0.0, time.perf_counter()
    for number_, request in enumerate(islice(cycle(requests), pairs)):
        bench.measure(request)
        if number_ == pairs // 10:
            early = process.memory_info().rss / 1e6
    return early, process.memory_info().rss / 1e6, time.perf_counter() - clock
