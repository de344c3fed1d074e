from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors.planted import Settings
from stillme.engine.backends import BackendContext, rebuild_backend
from stillme.engine.processes import ProcessPool
from stillme.protocol import Protocol
from stillme.sources.heads import signature


class Odd:
    """An editor that lives in a child and does as its instruction says."""

    def edit(self, request: EditRequest) -> EditReply:
        if request.instruction == "die":
            os._exit(3)
        if request.instruction == "hang":
            time.sleep(60)
        if request.instruction == "fail":
            raise ValueError("no")
        return EditReply(Status.OK, detail=str(os.getpid()))


def ask(apart: ProcessPool, words: str = "go", name: str = "odd") -> EditReply:
    return apart.editor(name).edit(EditRequest("k", b"", words, 0))


@pytest.fixture
def apart() -> ProcessPool:
    return ProcessPool({"odd": Odd, "other": Odd})


def test_a_thread_has_one_child_for_all_its_editors(apart: ProcessPool) -> None:
    assert ask(apart).detail == ask(apart, name="other").detail != str(os.getpid())
    theirs: list[str] = []
    thread = threading.Thread(target=lambda: theirs.append(ask(apart).detail))
    thread.start()
    thread.join()
    assert theirs[0] not in (ask(apart).detail, str(os.getpid()))
    apart.close()


def test_a_child_that_dies_costs_one_attempt(apart: ProcessPool) -> None:
    first = ask(apart).detail
    lost = ask(apart, "die")
    assert lost.status is Status.CRASHED and "process ended" in lost.detail
    assert ask(apart).detail not in (first, "")
    apart.close()


def test_an_error_in_the_child_is_raised_here(apart: ProcessPool) -> None:
    with pytest.raises(RuntimeError, match="ValueError: no"):
        ask(apart, "fail")
    assert ask(apart).status is Status.OK
    apart.close()


def test_closing_ends_the_children(apart: ProcessPool) -> None:
    child = psutil.Process(int(ask(apart).detail))
    apart.close()
    assert not child.is_running()


def test_the_bytes_are_those_of_the_same_editor_here(protocol: Protocol) -> None:
    from stillme.core import images
    from stillme.sources import heads

    recipe = partial(
        rebuild_backend, "stillme.editors.planted", Settings(truth="lightens"), BackendContext(Path(), protocol)
    )
    apart = ProcessPool({"planted": recipe})
    key = "indian-male-30s"
    source = images.encode(heads.photograph(heads.load(key)), comment=signature(key))
    for prompt in ("O-02", "V-03"):
        request = EditRequest("k", source, protocol.prompt[prompt].text, 5)
        assert apart.editor("planted").edit(request) == recipe().edit(request)
    apart.close()


def test_a_deadline_is_for_the_answer_and_not_for_loading(
    apart: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    poll = Connection.poll

    def noted(line: Connection, timeout: float | None = 0.0) -> bool:
        waited.append(timeout)
        return poll(line, timeout)

    monkeypatch.setattr(Connection, "poll", noted)
    request = EditRequest("k", b"", "go", 0)
    child = psutil.Process(int(apart.editor("odd", deadline=90).edit(request).detail))
    assert waited == [None, 90], "made first, without a deadline, and then asked"
    hung = apart.editor("odd", deadline=0.2).edit(EditRequest("k", b"", "hang", 0))
    assert (hung.status, hung.detail) == (Status.TIMEOUT, "no answer after 0.2 s; its process was ended")
    assert not child.is_running()
    assert ask(apart).status is Status.OK
    apart.close()


def test_children_end_when_their_parent_is_killed() -> None:
    code = (
        "from tests.engine.test_processes import Odd, ask; from stillme.engine.processes import ProcessPool\n"
        "import sys\n"
        "if __name__ == '__main__': print(ask(ProcessPool({'odd': Odd})).detail, flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    give_up = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up
        time.sleep(0.05)


def cannot_be_made() -> Odd:
    raise SetupError("The weights are damaged.", "Install again.")


def test_what_the_machine_lacks_reaches_the_user_as_a_sentence() -> None:
    apart = ProcessPool({"odd": cannot_be_made})
    for _ in range(2):
        with pytest.raises(SetupError, match=r"^The weights are damaged\. Install again\.$"):
            ask(apart)
    apart.close()


@pytest.mark.parametrize("size", [1, 1_000_000], ids=["small", "more than a pipe holds"])
def test_a_script_without_its_guard_is_told_so_at_once(tmp_path: Path, size: int) -> None:
    """Each child would read the script again and end; nothing is tried a second time."""
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.engine.test_processes import Odd, ask; from stillme.engine.processes import ProcessPool\n"
        f"print(ask(ProcessPool({{'odd': Odd, 'x' * {size}: Odd}})))\n"
    )
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 1 and "under `if __name__ == '__main__':`" in told.stderr
