from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from stillme.engine.threads import IN_FLIGHT, StopEvent, run_in_threads


def done() -> Future[None]:
    answer: Future[None] = Future()
    answer.set_result(None)
    return answer


def test_every_item_is_done_once() -> None:
    seen: list[int] = []
    lock = threading.Lock()

    def do(item: int) -> Future[None]:
        with lock:
            seen.append(item)
        return done()

    run_in_threads(range(1000), do, threads=8, stop=StopEvent())
    assert sorted(seen) == list(range(1000))


def test_a_stop_leaves_the_rest() -> None:
    stop, seen = StopEvent(), []

    def do(item: int) -> Future[None]:
        seen.append(item)
        if item == 10:
            stop.set("enough")
        return done()

    run_in_threads(range(1000), do, threads=1, stop=stop)
    assert seen == list(range(11)) and stop.reason == "enough"


def test_what_fails_is_raised_and_stops_the_others() -> None:
    def do(item: int) -> Future[None]:
        if item == 5:
            raise RuntimeError("five")
        return done()

    with pytest.raises(RuntimeError, match="five"):
        run_in_threads(range(1000), do, threads=4, stop=StopEvent())


def test_a_result_that_could_not_be_recorded_is_raised() -> None:
    def do(item: int) -> Future[None]:
        answer: Future[None] = Future()
        answer.set_exception(OSError("disk"))
        return answer

    with pytest.raises(OSError, match="disk"):
        run_in_threads(range(10), do, threads=2, stop=StopEvent())


def test_no_more_than_a_few_results_wait_for_their_commit() -> None:
    """With a ledger that does not answer, a worker stops taking calls after IN_FLIGHT."""
    taken: list[int] = []
    waited: list[int] = []

    def do(item: int) -> Future[None]:
        taken.append(item)
        return Unanswered()

    class Unanswered(Future[None]):
        """Waited for: answered then, and how many were taken by then is noted."""

        def result(self, timeout: float | None = None) -> None:
            waited.append(len(taken))
            self.set_result(None)

    run_in_threads(range(1000), do, 1, StopEvent())
    assert len(taken) == len(waited) == 1000
    assert waited[0] == IN_FLIGHT and max(n - done for done, n in enumerate(waited)) == IN_FLIGHT


def test_no_items_is_fine() -> None:
    run_in_threads([], lambda item: done(), threads=2, stop=StopEvent())
