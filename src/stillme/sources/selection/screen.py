"""The pre-screen: measures every candidate that was not measured yet. It ranks and pre-ticks; a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from stillme.core.errors import StillmeError
from stillme.core.records import Reading, Status, digest
from stillme.engine.backends import require_packages
from stillme.engine.processes import Apart
from stillme.engine.progress import Progress
from stillme.engine.threads import Stop, run_in_threads
from stillme.sources.selection.store import Store

WORTH_A_PROCESS = 20  # portraits; loading the models takes as long as some ten
EYE = "eye"


@dataclass(frozen=True)
class Eye:
    """What a child process looks with."""

    optics: Any

    def look(self, content: bytes) -> Reading:
        from stillme.measures import portrait

        return portrait.read(content, self.optics)


def open_eye() -> Eye:
    from stillme.measures.view import Optics

    return Eye(Optics())


def settings() -> str:
    """Names everything that changes a reading."""
    from stillme.measures import portrait

    return digest("screening", **portrait.effective())


def readings(store: Store) -> dict[str, Reading]:
    """Image -> what the pre-screen read as it measures today; where it has not, as it last did."""
    newest = store.query(
        "SELECT settings FROM screening ORDER BY settings = ? DESC, rowid DESC LIMIT 1", [settings()]
    )
    return store.readings(newest[0][0]) if newest else {}


def screen(store: Store, progress: Progress, threads: int) -> None:
    """Measures what is missing and records each reading, whatever came of it."""
    require_packages(["cv2"], "The pre-screen")
    named = settings()
    images = list(dict.fromkeys(one.portrait.image for one in store.candidates()))
    done = store.readings(named)
    todo = [image for image in images if image not in done]
    threads = threads if len(todo) >= WORTH_A_PROCESS else 1
    stop = Stop()
    with progress.stage("Pre-screen", len(todo), len(images) - len(todo)) as stage, _eyes(threads) as look:

        def do(image: str) -> Future[None]:
            reading = _read(look, store.image(image))
            stage.count(reading.status)
            return store.add_reading(image, named, reading) if reading.status.is_final else _nothing()

        run_in_threads(todo, do, threads, stop)
    if stop:
        raise KeyboardInterrupt


@contextmanager
def _eyes(threads: int) -> Iterator[Any]:
    """One here for one thread, else one in a process a thread: a model serves one caller."""
    if threads == 1:
        made: list[Eye] = []

        def look(content: bytes) -> Reading:
            made[:] = made or [open_eye()]
            return made[0].look(content)

        yield look
        return
    apart = Apart({EYE: open_eye})
    try:
        yield partial(apart.ask, EYE, "look")
    finally:
        apart.close()


def _nothing() -> Future[None]:
    """A reading that failed is not kept: the next run tries it again."""
    answer: Future[None] = Future()
    answer.set_result(None)
    return answer


def _read(look: Any, content: bytes) -> Reading:
    """A bug in an instrument costs one reading, not the step."""
    try:
        found: Reading = look(content)
    except StillmeError:
        raise
    except Exception as error:
        return Reading(Status.CRASHED, detail=f"{type(error).__name__}: {error}")
    return found
