"""Judges: who scores an edit. One backend per file; `ensemble` combines their scores and is pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from stillme.core.records import Depicted, Exchange, JudgeReply, JudgeRequest, digest

INSTRUMENT = "instrument"  # the kind of judge that measurements are read by; it is never asked
READ_BY_INSTRUMENT = ("skin_tone_shift", "change")  # measures of which it needs at least one
PLANTED_SCORE = "score."  # prefix of planted quantities that are true scores on an axis
PICTURES = ("source", "edited")  # what a form may show, by the names of a request's fields
BACKENDS = {
    "planted": "stillme.judges.planted",
    INSTRUMENT: "stillme.judges.instrument",
    "gemini": "stillme.judges.gemini",
    "openai": "stillme.judges.openai",
}


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer with everything that was requested and nothing else."""

    scores: Mapping[str, int] = field(default_factory=dict)
    observations: Mapping[str, str] = field(default_factory=dict)
    evidence: str = ""
    people: tuple[Depicted, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParseError:
    """Why an answer cannot be read: `message` is a sentence."""

    message: str


class Form(Protocol):
    """A form that judges fill in. Pure; knows no service. `asked`: the axes of a request, as its form takes them.

    `pictures`: which ones are looked at, of PICTURES, in the order in which they are sent.
    """

    @property
    def hash(self) -> str:
        """Everything of the protocol that is in it, and how it is read."""
        ...

    @property
    def system(self) -> str: ...

    @property
    def pictures(self) -> tuple[str, ...]: ...

    def text(self, prompt: str, instruction: str, asked: tuple[str, ...], disclosed: Mapping[str, str]) -> str: ...

    def schema(self, asked: tuple[str, ...]) -> dict[str, Any]: ...

    def read(self, text: str, asked: tuple[str, ...]) -> ParsedAnswer | ParseError: ...


class Judge(Protocol):
    """Looks at source and edit, scores every axis asked, or says why not. Called from several threads."""

    def judge(self, request: JudgeRequest) -> JudgeReply: ...


@dataclass(frozen=True, eq=False)
class Question:
    """The exact request as plain data, but for the pictures, which are in it by name.

    `content` is what is hashed and stored. `pieces` is the body that is sent, cut where the pictures go in, as
    base64, in the form's order. So no encoder ever sees a picture. `pictures`: which ones, by their names.
    """

    content: Mapping[str, Any]
    pieces: tuple[bytes, ...] = field(repr=False)
    pictures: tuple[str, ...] = PICTURES
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", digest("question", **self.content))

    def body(self, *pictures: bytes) -> bytes:
        """What is sent; the pictures as base64."""
        joined = [self.pieces[0]]
        for picture, piece in zip(pictures, self.pieces[1:], strict=True):
            joined += [picture, piece]
        return b"".join(joined)


def call_key(question: Question, source: str, edited: str, repeat: int) -> str:
    """What a call depends on: the effective request, with pictures by content. Never paid for twice."""
    return digest("call", question=question.hash, source=source, edited=edited, repeat=repeat)


class RemoteJudge(Protocol):
    """A judge behind a network, used on one event loop. `question` is pure and quick when asked again."""

    def question(self, request: JudgeRequest) -> Question: ...

    async def judge(self, request: JudgeRequest) -> JudgeReply: ...

    async def close(self) -> None: ...

    @property
    def batches(self) -> Batches | None:
        """How the service takes many calls at once for less; None where it does not."""
        ...


class State(StrEnum):
    """The progress of a batch."""

    RUNNING = "running"
    ENDED = "ended"  # with answers, perhaps not to everything: an expired one may have none
    FAILED = "failed"  # with none: rejected or cancelled
    FULL = "full"  # with none: too much of the account's is under way, later it may be accepted


@dataclass(frozen=True)
class Batch:
    """A batch as the service describes it. `outputs`: names of what can be downloaded."""

    id: str
    tags: Mapping[str, str]
    state: State
    outputs: tuple[str, ...] = ()
    detail: str = ""


class Batches(Protocol):
    """A service's batch interface. Whatever fails is a RemoteError; `tags` come back from `every`."""

    @property
    def most_bytes(self) -> int: ...

    @property
    def most_requests(self) -> int: ...

    def line(self, key: str, body: bytes) -> bytes:
        """One call as a line of a batch's file, without the line's end."""
        ...

    async def upload(self, path: Path, name: str) -> str:
        """Send a batch's file; return the service's name for it."""
        ...

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch: ...

    def every(self) -> AsyncIterator[Batch]:
        """The account's batches, newest first."""
        ...

    async def look(self, batch: str) -> Batch: ...

    async def download(self, output: str, path: Path) -> None: ...

    def answers(self, path: Path, axes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Exchange]]:
        """Call key -> how it ended, from a downloaded file; `axes`: call key -> the axes asked."""
        ...
