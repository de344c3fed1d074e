"""What judges behind a network share: the question, asking it, and reading what comes back.

Knows no provider's words. Pictures are spliced into a body that was encoded once for each question, so that no
encoder ever sees one. The only retries here are re-asks of answers that cannot be read; the rest is the client's.
"""

from __future__ import annotations

import base64
import re
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, NoReturn

from stillme.core.errors import SurroundingsError
from stillme.core.records import FEATURES, PEOPLE, Exchange, JudgeReply, JudgeRequest, Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import MIN_KEY_CHARS, Answer, Call, Client, RemoteError, Try, meaning
from stillme.judges import PICTURES, Batches, Fault, Form, Question, Reading
from stillme.judges.features import FeatureForm
from stillme.judges.form import VERSION, DriftForm
from stillme.judges.models import MODELS, Settings, Terms
from stillme.judges.people import PeopleForm
from stillme.protocol import Protocol

HELD = 32 << 20  # bytes of sources that are kept encoded
QUESTIONS = 512  # kept ready
LONGEST_DETAIL = 500  # characters
ASKED_AGAIN = (Status.MALFORMED, Status.TRUNCATED)
_MARKS = {name: f"{uuid.uuid4().hex}-{name}" for name in PICTURES}  # in nobody's sentence
_MEDIA = {
    b"iVBORw0KGgo": b"image/png",
    b"/9j/": b"image/jpeg",
    b"UklGR": b"image/webp",
    b"R0lGOD": b"image/gif",
}

Pictures = Iterable[Mapping[str, Any]]  # the parts of a body that they are


def prepared(
    settings: Settings,
    context: BackendContext,
    said: Mapping[str, Any],
    terms: Terms,
    make: Callable[[Form], Any],
    who: str,
) -> PreparedJudge[Any]:
    """What every judge behind a network says of itself; `said`: what the one at hand adds for its key."""
    form = DriftForm(context.protocol)
    others: dict[str, Callable[[Protocol], Form]] = {PEOPLE: PeopleForm, FEATURES: FeatureForm}
    is_batch = settings.mode == "batch"
    return PreparedJudge(
        effective={**said, "model": settings.model, "parameters": dict(terms.sent), "form": [VERSION, form.hash]},
        **hosted.remote_fields(settings, terms.price(terms.batch_share if is_batch else 1.0)),
        make=lambda: make(form),
        description=f"{settings.model}, asked of {who} by HTTP{', in batches' if is_batch else ''}.",
        seconds=8,
        dropped=terms.dropped,
        caveats=terms.caveats,
        batch_wait_s=settings.batch_wait_s if is_batch else None,
        make_by_form={name: partial(_made, make, kind, context.protocol) for name, kind in others.items()},
    )


def _made(make: Callable[[Form], Any], form: Callable[[Protocol], Form], protocol: Protocol) -> Any:
    return make(form(protocol))


@dataclass(frozen=True, eq=False)
class Illustrated(Question):
    """A question whose pictures bring their media type with them. `joint` stands between that and the picture.

    So a question depends on what is asked alone, and is the same whatever files the pictures are.
    """

    joint: bytes = b""

    def body(self, *pictures: bytes) -> bytes:
        pieces = [self.pieces[0]]
        for picture, piece in zip(pictures, self.pieces[1:], strict=True):
            pieces += [media_type(picture), self.joint, picture, piece]
        return b"".join(pieces)


def media_type(encoded: bytes) -> bytes:
    """What kind of file this base64 holds, by its beginning."""
    return next((kind for start, kind in _MEDIA.items() if encoded.startswith(start)), b"application/octet-stream")


class Encoded:
    """Pictures as base64; those of late are kept, up to `most` bytes. A source is asked about many times."""

    def __init__(self, most: int = HELD) -> None:
        self.most, self.size = most, 0
        self._held: OrderedDict[bytes, bytes] = OrderedDict()

    def __call__(self, picture: bytes) -> bytes:
        found = self._held.get(picture)
        if found is not None:
            self._held.move_to_end(picture)
            return found
        encoded = self._held[picture] = base64.b64encode(picture)
        self.size += len(picture) + len(encoded)
        while self.size > self.most:
            self.size -= sum(map(len, self._held.popitem(last=False)))
        return encoded


@dataclass(frozen=True, slots=True)
class Heard:
    """What a service said, in our words."""

    status: Status
    detail: str = ""
    code: str = ""
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """An error as a service words it. `parameter`: the one that it does not take, by our name."""

    status: Status
    message: str = ""
    code: str = ""
    parameter: str = ""
    hopeless: bool = False  # every call would end like this one


@dataclass(frozen=True)
class Wire:
    """How a provider is asked. `names`: our name of a parameter -> its own. `joint`: see Illustrated."""

    service: str  # its name in sentences
    base_url: str
    path: str
    header: str  # that the key goes into
    names: Mapping[str, str]
    joint: bytes


class NetworkJudge(ABC):
    """One model of one service. A provider's file says how it is asked and what its answers mean."""

    def __init__(self, settings: Settings, wire: Wire, key_env: str | None, form: Form, terms: Terms) -> None:
        self.limits, self.wire, self.key_env, self.form, self.terms = settings, wire, key_env, form, terms
        key = hosted.key(key_env)
        self._secret = key.encode()
        secrets = {wire.header: f"Bearer {key}" if wire.header == "Authorization" else key} if key else {}
        self.client = Client(wire.base_url, settings, secrets, hopeless=self._is_quota, waits=self.asks_to_wait)
        self._encoded = Encoded()
        self._question = lru_cache(maxsize=QUESTIONS)(self._built)

    # What a provider's file says

    @property
    @abstractmethod
    def batches(self) -> Batches | None: ...

    @abstractmethod
    def request(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """The body, as data."""

    @abstractmethod
    def named(self, picture: str) -> Mapping[str, Any]:
        """A picture's place in the body, where it is stored: by its name."""

    @abstractmethod
    def marked(self, mark: str) -> Mapping[str, Any]:
        """A picture's place in the body, where it is sent: media type, joint and picture replace the mark."""

    @abstractmethod
    def heard(self, said: Mapping[str, Any], axes: tuple[str, ...]) -> Heard:
        """What a success says."""

    @abstractmethod
    def failed(self, http: int, said: Any) -> Said:
        """What an error says."""

    @abstractmethod
    def counted(self, said: Mapping[str, Any]) -> dict[str, int]:
        """Tokens: input, of it cached; output, of it thoughts."""

    def asks_to_wait(self, error: RemoteError) -> float | None:
        """Seconds that an error's body asks to wait."""
        return None

    def told_cost(self, said: Mapping[str, Any]) -> float | None:
        """USD, where a service says so itself."""
        return None

    # What all share

    @property
    def titles(self) -> tuple[str, ...]:
        """What stands above each picture."""
        return tuple(f"{name.upper()}:" for name in self.form.pictures)

    def question(self, request: JudgeRequest) -> Question:
        disclosed = tuple(sorted(request.disclosed.items()))
        return self._question(request.prompt, request.instruction, request.axes, disclosed)

    def _built(
        self, prompt: str, instruction: str, axes: tuple[str, ...], disclosed: tuple[tuple[str, str], ...]
    ) -> Question:
        import orjson

        text, schema = self.form.text(prompt, instruction, axes, dict(disclosed)), self.form.schema(axes)
        shown = self.form.pictures
        asked = self.request(text, schema, [self.named(name) for name in shown])
        pieces = [orjson.dumps(self.request(text, schema, [self.marked(_MARKS[name]) for name in shown]))]
        for name in shown:
            pieces += pieces.pop().split(_MARKS[name].encode())
        return Illustrated(self.content(asked), tuple(pieces), shown, self.wire.joint)

    def content(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What is stored and hashed: where the question goes, and its body."""
        return {"service": self.wire.service, "path": self.wire.path, "body": asked}

    async def judge(self, request: JudgeRequest) -> JudgeReply:
        """Asks, and asks again what cannot be read; every attempt is kept, the last one counts."""
        call = Call(
            "POST", self.wire.path, body=self._body(request), tokens=self.terms.tokens.all, repeatable=True
        )
        axes = request.axes
        del request  # its pictures are in the body now, and are not held twice while an answer is waited for
        exchanges: list[Exchange] = []
        for _ in range(1 + self.limits.reasks):
            exchanges += await self._asked(call, axes)
            if exchanges[-1].status not in ASKED_AGAIN:
                break
        return JudgeReply.of(tuple(exchanges))

    def _body(self, request: JudgeRequest) -> bytes:
        shown = {"source": self._encoded(request.source), "edited": base64.b64encode(request.edited)}
        question = self.question(request)
        return question.body(*(shown[name] for name in question.pictures))

    async def close(self) -> None:
        await self.client.close()

    async def _asked(self, call: Call, axes: tuple[str, ...]) -> list[Exchange]:
        try:
            answer = await self.client.call(call)
        except RemoteError as error:
            self._stop_if_hopeless(error)
            return [self._tried(one, axes) for one in error.attempts]
        return [*(self._tried(one, axes) for one in answer.attempts[:-1]), self._answered(answer, axes)]

    def _answered(self, answer: Answer, axes: tuple[str, ...]) -> Exchange:
        exchange = self.read(answer.status_code, answer.json, answer.body, axes)
        return _timed(exchange, answer.attempts[-1])

    def _tried(self, one: Try, axes: tuple[str, ...]) -> Exchange:
        """An attempt that came to nothing: as its status says, unless its body says more."""
        if one.status_code >= 400:
            return _timed(self.read(one.status_code, _decoded(one.body), one.body, axes), one)
        paid = "; it may have been paid for" if one.kind is Status.TIMEOUT else ""
        http = one.status_code
        exchange = Exchange(one.kind, detail=one.message + paid, code=str(http or ""), http=http, raw=one.body)
        return _timed(exchange, one)

    def read(self, http: int, said: Any, raw: bytes, axes: tuple[str, ...], share: float = 1.0) -> Exchange:
        """Any answer, as an attempt that ended with it. Whatever a service says, nothing is raised.

        `share`: the part of the price that it costs, in a batch.
        """
        if len(self._secret) >= MIN_KEY_CHARS and self._secret in raw:
            raw = raw.replace(self._secret, "…".encode())
            said = _decoded(raw)
        if not 200 <= http < 300 or not isinstance(said, dict) or said.get("error"):
            return self._refused(http, said, raw)
        heard = self.heard(said, axes)
        usage = self.counted(said)
        reading = heard.reading or Reading()
        return Exchange(
            heard.status,
            cost_usd=self._cost(heard.status, said, usage, share),
            detail=heard.detail[:LONGEST_DETAIL],
            code=heard.code,
            http=http,
            usage=usage,
            raw=raw,
            scores=reading.scores,
            observations=reading.observations,
            evidence=reading.evidence,
            people=reading.people,
            features=reading.features,
        )

    def _refused(self, http: int, said: Any, raw: bytes) -> Exchange:
        told = self.failed(http, said)
        code = told.code or (str(http) if http else "")
        return Exchange(told.status, detail=told.message[:LONGEST_DETAIL], code=code, http=http, raw=raw)

    def _cost(self, status: Status, said: Mapping[str, Any], usage: Mapping[str, int], share: float) -> float:
        """An answer that is blocked on the way in, and counted by nobody, costs nothing."""
        told = self.told_cost(said)
        if told is not None:
            return told
        is_free = not usage and status in (Status.INPUT_BLOCKED, Status.SERVER_ERROR)
        return 0.0 if is_free else self.terms.cost(usage, share)

    def _is_quota(self, error: RemoteError) -> bool:
        return self.failed(error.status_code, error.said).status is Status.QUOTA

    def _stop_if_hopeless(self, error: RemoteError) -> None:
        """What every further call would end like ends the run, with a sentence; nothing is taken for data."""
        if not error.status_code:
            return
        told = self.failed(error.status_code, error.said)
        if told.parameter:
            self._stop_for(told)
        if told.hopeless:
            code = error.status_code if error.status_code in hosted.UNDECIDED else 403
            error.status_code, error.message = code, told.message or error.message
            hosted.raise_if_hopeless(error, self.wire.service, self.limits.model, self.key_env)

    def _stop_for(self, told: Said) -> NoReturn:
        """Never asked again without it: the key would say what was not sent."""
        value = self.terms.sent[told.parameter]
        raise SurroundingsError(
            f"{self.wire.service} does not take {told.parameter} = {value} for the model '{self.limits.model}': "
            f"{told.message.rstrip('.')}.",
            f"Set {told.parameter} to null or to another value in the judge's settings, and run again. "
            f"The table that says what models take is of {self.terms.date}: {MODELS.name}.",
        )

    def unsupported(self, http: int, words: str) -> str:
        """The parameter that an error's words name, by our name; empty where they name none that was sent."""
        if http not in (400, 422):
            return ""
        low = words.lower()
        return next((name for name in self.terms.sent if re.search(self._spelled(name), low)), "")

    def _spelled(self, name: str) -> str:
        """A service's word for a parameter, as services write it in sentences: a pattern."""
        word = self.wire.names[name]
        parted = re.sub("(?=[A-Z])", "_", word).lower()
        return rf"\b(?:{word.lower()}|{parted}|{parted.replace('_', ' ')})\b"


def understood(reading: Reading | Fault, code: str) -> Heard:
    if isinstance(reading, Fault):
        return Heard(Status.MALFORMED, reading.said, code)
    return Heard(Status.OK, code=code, reading=reading)


def status_of(http: int) -> Status:
    """What an HTTP status alone says; the rejections that a mended key or address would end are no data."""
    if http < 400:
        return Status.SERVER_ERROR
    return Status.SERVER_ERROR if http in hosted.UNDECIDED else meaning(http)[0]


def first(values: Any) -> Mapping[str, Any]:
    one = values[0] if isinstance(values, list) and values else None
    return one if isinstance(one, dict) else {}


def message(said: Any) -> str:
    """The sentence in an error's body."""
    told = hosted.inner(said).get("message") or (said.get("detail") if isinstance(said, dict) else said)
    return told.strip() if isinstance(told, str) else ""


def whole(**counts: Any) -> dict[str, int]:
    """Counts that are counts."""
    return {name: count for name, count in counts.items() if type(count) is int and count >= 0}


def _timed(exchange: Exchange, one: Try) -> Exchange:
    started = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
    number = one.request_id or exchange.request_id
    return replace(exchange, started=started, seconds=round(one.seconds, 6), request_id=number)


def _decoded(raw: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
