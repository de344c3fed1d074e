"""Backends for tests: an editor, a judge, a measure that do as they are told, found by name like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from stillme.core.records import EditReply, EditRequest, JudgeReply, JudgeRequest, Portrait
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedEditor, PreparedJudge

ACTORS: dict[str, object] = {}


class Settings(StrictModel):
    actor: str = ""
    requires: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    version: int = 1  # another one is another configuration


@dataclass(frozen=True, kw_only=True)
class PreparedActor(PreparedEditor[object], PreparedJudge[object]):
    """Whatever a test needs: an editor, a judge, or any other part."""


def prepare(settings: Settings, context: BackendContext) -> PreparedActor:
    named = settings.model_dump(mode="json")
    return PreparedActor(
        effective={"backend": "scripted", **named},
        inputs=named,
        make=lambda: ACTORS[settings.actor],
        requires=settings.requires,
        controls=settings.controls,
    )


class Source:
    """Yields what it is told to."""

    def __init__(self, content: list[tuple[Portrait, bytes]]) -> None:
        self.content = content

    def portraits(self) -> Iterator[tuple[Portrait, bytes]]:
        return iter(self.content)


class Editor:
    """Answers in turn with what it is told to; an exception is raised."""

    def __init__(self, replies: Iterable[EditReply | Exception]) -> None:
        self.replies: Iterator[EditReply | Exception] = iter(replies)
        self.requests: list[EditRequest] = []

    def edit(self, request: EditRequest) -> EditReply:
        self.requests.append(request)
        reply = next(self.replies)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Judge:
    """Remembers what it was sent, and answers as told."""

    def __init__(self, answer: Callable[[JudgeRequest], JudgeReply]) -> None:
        self.answer = answer
        self.requests: list[JudgeRequest] = []

    def judge(self, request: JudgeRequest) -> JudgeReply:
        self.requests.append(request)
        return self.answer(request)
