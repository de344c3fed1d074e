from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from stillme.engine import local
from stillme.engine.local import INTERRUPTED, Stop, side_by_side, work


@pytest.mark.parametrize("lanes", [1, 2])
def test_ctrl_c_waits_for_what_is_in_flight(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, begun, waits, ended = Stop(), threading.Semaphore(0), threading.Event(), []
    join = local._join

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

    monkeypatch.setattr(local, "_join", noted)
    threading.Thread(target=press, daemon=True).start()
    side_by_side([lambda: work(range(5), do, 1, stop)] * lanes, stop)
    assert stop.reason == INTERRUPTED
    assert ended == [0] * lanes
