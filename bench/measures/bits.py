"""Whether two processes read the very same figures off the same pairs."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence

from bench.figures import cost
from bench.measures.page import Section
from bench.measures.pictures import Photo
from bench.measures.taking import Case, recipes
from bench.measures.throughput import dressed, shifted
from stillme.measures.runner import MeasureRunner
from stillme.measures.view import UnreadableError

PAIRS = 20


def section(heads: Sequence[Photo], sample: Sequence[Photo]) -> Section:
    page = Section(f"Two processes, the same {PAIRS} pairs")
    half = PAIRS // 2
    cases = spread(list(dressed(heads)), half) + spread(list(shifted(heads, sample)), half)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as one, context.Pool(1) as other:
        here = one.apply_async(read, (cases,))
        there = other.apply_async(read, (cases[::-1],))
        first, second = here.get(), there.get()[::-1]
    figures = sum(map(len, first))
    differ = sum(a != b for a, b in zip(first, second, strict=True))
    page.say(f"{figures} figures before any rounding, one process in the other's order: {differ} pairs differ")
    page.figures.update(pairs=len(cases), figures=figures, differing_pairs=differ)
    page.rows.append(cost("pairs that two processes read differently", differ, f"of {PAIRS}").at_most(0))
    page.want(differ == 0, "the same bits in both processes")
    return page


def spread(cases: Sequence[Case], most: int) -> list[Case]:
    """So many, from all over the list."""
    return list(cases[:: max(1, len(cases) // most)][:most])


def read(cases: Sequence[Case]) -> list[list[tuple[str, str]]]:
    """For each pair its figures bit by bit, as hexadecimal floats; a status stands for a measure without any."""
    readers = {kind: make() for kind, make in recipes().items()}
    bench = MeasureRunner(readers)
    found = []
    for case in cases:
        pair = bench.pair(case.request)
        figures: list[tuple[str, str]] = []
        for kind, reader in readers.items():
            try:
                figures += [(name, float(value).hex()) for name, value in reader(pair).items()]
            except UnreadableError as error:
                figures.append((kind, error.status.value))
        found.append(figures)
    return found
