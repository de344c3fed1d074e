from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from stillme.engine import threads
from stillme.engine.threads import INTERRUPTED, StopEvent, run_in_threads, run_side_by_side


@pytest.mark.parametrize("lanes", [1, 2])
def test_ctrl_c_waits_for_what_is_in_flight(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, begun, waits, ended = StopEvent(), threading.Semaphore(0), threading.Event(), []
    join = threads._join

    def noted(workers: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            waits.set()
        join(workers)

    def do(item: int) -> Future[None]:
        begun.release()
        assert stop._event.wait(60)
        ended.append(item)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def press() -> None:
        for _ in range(lanes):
            begun.acquire()
        waits.wait()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(threads, "_join", noted)
    threading.Thread(target=press, daemon=True).start()
    run_side_by_side([lambda: run_in_threads(range(5), do, 1, stop)] * lanes, stop)
    assert stop.reason == INTERRUPTED
    assert ended == [0] * lanes
