"""Pairs a second with all measures, in two processes as the measuring step runs them, and their costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from bench import figures
from bench.measures import edits
from bench.measures.page import Section, number, table
from bench.measures.pictures import Photo, resized
from bench.measures.taking import KINDS, Case, recipes, take
from stillme.core.records import MeasureRequest
from stillme.measures import set_up
from stillme.measures.view import View, VisionModels

SOURCES, LOOKS = 12, 20  # heads that are measured, and looks of each
LARGE = 512  # px
DEMO = 5040  # edits of the demo
COSTED = 60  # pairs that each measure is timed on alone


def section(heads: Sequence[Photo], sample: Sequence[Photo]) -> Section:
    page = Section("Pairs a second, all three measures, two processes, start-up not counted")
    sets = {
        f"384 px, heads in {LOOKS} looks": list(dressed(heads)),
        f"{LARGE} px, {'sample' if sample else 'heads'}, {len(edits.SHIFTS)} shifts": list(shifted(heads, sample)),
    }
    rows = [_row(page, name, cases) for name, cases in sets.items()]
    head = ("", "pairs", "sources", "pairs/s", *(f"{kind} alone" for kind in KINDS), "all together")
    page.say("CPU ms a pair in one process; alone, a measure finds the faces by itself, together they share them")
    page.say(*table(head, rows))
    rate = next(iter(page.figures.values()))["pairs_per_second"]
    page.say(f"at the first rate the demo's {DEMO:,} edits take {DEMO / rate / 60:.1f} minutes")
    return page


def dressed(heads: Sequence[Photo]) -> Iterator[Case]:
    """What the demo measures: heads, spread over the groups, in the looks of its prompts."""
    for photo in heads[:: max(1, len(heads) // SOURCES)][:SOURCES]:
        for number_, edited in enumerate(edits.dressed(photo.name, LOOKS)):
            yield Case.of(photo.name, photo.content, str(number_), edited)


def shifted(heads: Sequence[Photo], sample: Sequence[Photo]) -> Iterator[Case]:
    """Photographs, or heads where there are none, with their skin shifted."""
    photos, optics = sample or heads, VisionModels()
    for small in photos[:: max(1, len(photos) // (2 * SOURCES))][: 2 * SOURCES]:
        photo = resized(small, LARGE)
        for face in View(photo.content, "source", optics).faces[:1]:
            for name, edited in edits.of_photo(photo, face.box):
                yield Case.of(photo.name, photo.content, name, edited)


def _row(page: Section, name: str, cases: Sequence[Case]) -> tuple[str, ...]:
    taken, seconds = take(cases)
    alone = {kind: cpu(cases, (kind,)) for kind in KINDS}
    together = cpu(cases, KINDS)
    sources = len({case.source for case in cases})
    page.figures[name] = {
        "pairs": len(taken),
        "sources": sources,
        "pairs_per_second": len(taken) / seconds,
        "cpu_ms": {**alone, "all": together},
    }
    page.rows.append(figures.rate(f"all measures: {name}", len(taken) / seconds, "pairs/s"))
    costs = (number(value, 1) for value in (*alone.values(), together))
    return (name, str(len(taken)), str(sources), number(len(taken) / seconds, 1), *costs)


def cpu(cases: Sequence[Case], kinds: tuple[str, ...]) -> float:
    """CPU milliseconds a pair in this process, models loaded and the source new."""
    bench = set_up(recipes(kinds))
    few = [case.request for case in cases[:COSTED]]
    bench.measure(MeasureRequest("warm", few[-1].source, few[-1].edited, kinds))
    clock = time.process_time()
    for one in few:
        bench.measure(MeasureRequest(one.source_key, one.source, one.edited, kinds))
    return 1000 * (time.process_time() - clock) / len(few)
