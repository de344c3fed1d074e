"""Editors in processes of their own, each driven by one thread here.

For work that computes rather than waits: threads of one process would take turns. A child serves all editors of
its thread, so that they share its caches. It has one end of a pipe and nothing else of ours; when this one dies,
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

from stillme.records import EditReply, EditRequest, Status

Makes = Mapping[str, Callable[[], Any]]  # must survive pickling: functions of modules, with their arguments


class Apart:
    """A child process for each thread that asks, made when it first does."""

    def __init__(self, makes: Makes) -> None:
        self._makes = makes
        self._own = threading.local()
        self._children: list[_Child] = []

    def editor(self, name: str) -> Distant:
        return Distant(self, name)

    def ask(self, name: str, request: EditRequest) -> EditReply:
        child: _Child | None = getattr(self._own, "child", None)
        if child is None:
            child = self._own.child = _Child(self._makes)
            self._children.append(child)
        try:
            return child.ask(name, request)
        except (EOFError, OSError) as error:
            del self._own.child
            return EditReply(Status.CRASHED, detail=f"the editor's process ended: {error or type(error).__name__}")

    def close(self) -> None:
        for child in self._children:
            child.close()


@dataclass(frozen=True)
class Distant:
    """An editor that lives in the children."""

    apart: Apart
    name: str

    def edit(self, request: EditRequest) -> EditReply:
        return self.apart.ask(self.name, request)


class _Child:
    def __init__(self, makes: Makes) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, dict(makes)), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, name: str, request: EditRequest) -> EditReply:
        self._line.send((name, request))
        reply: EditReply | Exception = self._line.recv()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self._line.close()
        self._process.join(timeout=10)


def serve(line: Connection, makes: Makes) -> None:
    """What a child does: answers until the line closes. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    editors = {name: make() for name, make in makes.items()}
    while True:
        try:
            name, request = line.recv()
        except EOFError:
            return
        line.send(_answer(editors[name], request))


def _answer(editor: Any, request: EditRequest) -> EditReply | Exception:
    try:
        reply: EditReply = editor.edit(request)
        return reply
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")
