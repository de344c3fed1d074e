"""Editors and instruments in processes of their own, each driven by one thread here.

For work that computes rather than waits: threads of one process would take turns. A child serves everything of
its thread, so that it shares its caches. It has one end of a pipe and nothing else of ours; when this one dies,
however it dies, the pipe closes and the child ends.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from stillme.core.errors import SetupError, StillmeError
from stillme.core.records import EditReply, EditRequest, MeasureRequest, Reading, Status

LOAD = ""  # asked instead of a verb: the thing is only made
Makes = Mapping[str, Callable[[], Any]]  # must survive pickling: functions of modules, with their arguments


class ProcessPool:
    """A child process for each thread that asks, made when it first does."""

    def __init__(self, makes: Makes) -> None:
        self.makes = makes
        self._own = threading.local()
        self._children: list[_Child] = []

    def editor(self, name: str, deadline: float | None = None) -> EditorProxy:
        return EditorProxy(self, name, deadline)

    def instruments(self, name: str) -> MeasureProxy:
        return MeasureProxy(self, name)

    def ask(self, name: str, verb: str, request: object, deadline: float | None = None) -> Any:
        """What `verb` of the thing called `name` answers in this thread's child; WorkerDiedError if that has died.

        A child that has not answered after `deadline` seconds is killed: nothing else bounds code that swallows
        every exception. Making the thing, before the first question about it, does not count.
        """
        child: _Child | None = getattr(self._own, "child", None)
        if child is None:
            child = self._own.child = _Child(self.makes)
            self._children.append(child)
        try:
            return child.ask(name, verb, request, deadline)
        except TimeoutError:
            del self._own.child
            child.kill()
            raise
        except (EOFError, OSError) as error:
            del self._own.child
            raise WorkerDiedError(str(error) or type(error).__name__) from error

    def close(self) -> None:
        for child in self._children:
            child.close()


class WorkerDiedError(Exception):
    """A child process died while it was asked; the next question starts another."""


@dataclass(frozen=True)
class EditorProxy:
    """An editor that lives in the children."""

    pool: ProcessPool
    name: str
    deadline: float | None = None  # seconds

    def edit(self, request: EditRequest) -> EditReply:
        try:
            reply: EditReply = self.pool.ask(self.name, "edit", request, self.deadline)
        except TimeoutError:
            return EditReply(Status.TIMEOUT, detail=f"no answer after {self.deadline:g} s; its process was ended")
        except WorkerDiedError as error:
            return EditReply(Status.CRASHED, detail=f"the editor's process ended: {error}")
        return reply


@dataclass(frozen=True)
class MeasureProxy:
    """Instruments that live in the children."""

    pool: ProcessPool
    name: str

    def measure(self, request: MeasureRequest) -> list[Reading]:
        readings: list[Reading] = self.pool.ask(self.name, "measure", request)
        return readings


class _Child:
    def __init__(self, makes: Makes) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._makes = dict(makes)
        self._ready = False
        self._loaded: set[str] = set()

    def _wait_until_ready(self) -> None:
        """A child that cannot even start would not start for the next question either. What it makes goes to it by
        our own line: Python's hangs for ever where a child ends before it has read more than a pipe holds."""
        try:
            self._line.recv()
            self._line.send(self._makes)
            self._line.recv()
        except (EOFError, OSError):
            raise SetupError(
                "A process that was to make edits or measurements ended before it had begun.",
                "A script that calls stillme needs its calls under `if __name__ == '__main__':`, because such a "
                "process reads the script again. Otherwise see what it printed above.",
            ) from None
        self._ready = True

    def ask(self, name: str, verb: str, request: object, deadline: float | None = None) -> Any:
        if not self._ready:
            self._wait_until_ready()
        if name not in self._loaded:
            self._answer(name, LOAD, None)
            self._loaded.add(name)
        return self._answer(name, verb, request, deadline)

    def _answer(self, name: str, verb: str, request: object, deadline: float | None = None) -> Any:
        self._line.send((name, verb, request))
        if not self._line.poll(deadline):
            raise TimeoutError
        reply = self._line.recv()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self._line.close()
        self._process.join(timeout=10)

    def kill(self) -> None:
        self._process.kill()
        self.close()


class WorkerBackends:
    """What factories make, each when it is first asked; the inside of a child and of an actor on a cluster."""

    def __init__(self, makes: Makes) -> None:
        self._makes = makes
        self._made: dict[str, Any] = {}

    def load(self, *names: str) -> Exception | None:
        """Makes these now, or everything; what fails is returned."""

        def make() -> None:
            for name in names or self._makes:
                self._thing(name)

        failure: Exception | None = _result_or_error(make)
        return failure

    def answer(self, name: str, verb: str, request: object) -> Any:
        if verb == LOAD:
            return self.load(name)
        return _result_or_error(lambda: getattr(self._thing(name), verb)(request))

    def _thing(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makes[name]()
        return self._made[name]


def _result_or_error(do: Callable[[], Any]) -> Any:
    """The result, or the error as a value. A sentence for the user stays one on its way out of the process."""
    try:
        return do()
    except StillmeError as error:
        return error
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")


def serve(line: Connection) -> None:
    """What a child does: answers until the line closes. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line.send("started")
    try:
        made = WorkerBackends(line.recv())
    except EOFError:
        return
    line.send("ready")
    while True:
        try:
            name, verb, request = line.recv()
        except EOFError:
            return
        line.send(made.answer(name, verb, request))
