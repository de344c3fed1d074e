from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future

import pytest

from stillme.engine.local import INTERRUPTED, Stop, side_by_side, work


@pytest.mark.parametrize("lanes", [1, 2])
def test_ctrl_c_waits_for_what_is_in_flight(lanes: int) -> None:
    begun, ended = threading.Event(), []

    def do(item: int) -> Future[None]:
        begun.set()
        time.sleep(1.0)
        ended.append(item)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def press() -> None:
        begun.wait(10)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    stop = Stop()
    threading.Thread(target=press, daemon=True).start()
    side_by_side([lambda: work(range(5), do, 1, stop)] * lanes, stop)
    assert stop.reason == INTERRUPTED
    assert ended == [0] * lanes
