"""Network judges: build the question, send it, and read what comes back. Knows no provider's field names.

Pictures are spliced into a body that was encoded once for each question, so that no encoder ever sees one. The
only retries here repeat calls whose answers cannot be read; all others are the client's.
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
from typing import Any

from stillme.core.errors import SetupError
from stillme.core.records import FEATURES, PEOPLE, Exchange, JudgeReply, JudgeRequest, Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import MIN_KEY_CHARS, Client, HttpAttempt, HttpRequest, RemoteError, classify_http_status
from stillme.judges import PICTURES, Batches, Form, ParsedAnswer, ParseError, Question
from stillme.judges.depiction_form import PeopleForm
from stillme.judges.feature_form import FeatureForm
from stillme.judges.form import VERSION, DriftForm
from stillme.judges.models import MODELS, ModelCapabilities, Settings
from stillme.protocol import Protocol

MAX_CACHED_BYTES = 32 << 20  # of sources with their base64
MAX_CACHED_QUESTIONS = 512
MAX_DETAIL_CHARS = 500
REASKED = (Status.MALFORMED, Status.TRUNCATED)
_MARKS = {name: f"{uuid.uuid4().hex}-{name}" for name in PICTURES}  # in no prompt
_MEDIA_TYPES = {
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
    terms: ModelCapabilities,
    make: Callable[[Form], Any],
    who: str,
) -> PreparedJudge[Any]:
    """Describe a network judge to the registry; `said`: what the backend at hand adds to its key."""
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
class ImageQuestion(Question):
    """A question whose pictures bring their media type with them. `joint` comes between that and the picture.

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
    return next(
        (kind for start, kind in _MEDIA_TYPES.items() if encoded.startswith(start)), b"application/octet-stream"
    )


class Base64Cache:
    """Pictures as base64, the latest cached up to `max_bytes`: a source is asked about many times."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._cache: OrderedDict[bytes, bytes] = OrderedDict()

    def __call__(self, picture: bytes) -> bytes:
        cached = self._cache.get(picture)
        if cached is not None:
            self._cache.move_to_end(picture)
            return cached
        encoded = self._cache[picture] = base64.b64encode(picture)
        self.size += len(picture) + len(encoded)
        while self.size > self.max_bytes:
            self.size -= sum(map(len, self._cache.popitem(last=False)))
        return encoded


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A success, parsed: its status in stillme's terms, and the reading if there is one."""

    status: Status
    detail: str = ""
    code: str = ""
    reading: ParsedAnswer | None = None


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A service's error, parsed. `parameter`: the one that is not supported, by stillme's name."""

    status: Status
    message: str = ""
    code: str = ""
    parameter: str = ""
    hopeless: bool = False  # every call would end like this one


@dataclass(frozen=True)
class ProviderFormat:
    """A provider's HTTP format. `names`: our name of a parameter -> the provider's. `joint`: see ImageQuestion."""

    service: str  # its name in sentences
    base_url: str
    path: str
    header: str  # that the key goes into
    names: Mapping[str, str]
    joint: bytes


class NetworkJudge(ABC):
    """One model of one service. A provider's file says how to build its request and what its replies mean."""

    def __init__(
        self, settings: Settings, wire: ProviderFormat, key_env: str | None, form: Form, terms: ModelCapabilities
    ) -> None:
        self.limits = settings
        self.wire = wire
        self.key_env = key_env
        self.form = form
        self.terms = terms
        key = hosted.key(key_env)
        self._secret = key.encode()
        secrets = {wire.header: f"Bearer {key}" if wire.header == "Authorization" else key} if key else {}
        self.client = Client(wire.base_url, settings, secrets, hopeless=self._is_quota, waits=self.retry_after_s)
        self._encoded = Base64Cache()
        self._question = lru_cache(maxsize=MAX_CACHED_QUESTIONS)(self._build_question)

    # Defined by a provider's file

    @property
    @abstractmethod
    def batches(self) -> Batches | None: ...

    @abstractmethod
    def build_body(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """The request's body, as data."""

    @abstractmethod
    def stored_picture(self, name: str) -> Mapping[str, Any]:
        """The part of a stored body that is a picture: by its name."""

    @abstractmethod
    def sent_picture(self, mark: str) -> Mapping[str, Any]:
        """The part of a sent body that is a picture: media type, joint and picture replace the mark."""

    @abstractmethod
    def parse_reply(self, body: Mapping[str, Any], axes: tuple[str, ...]) -> ParsedReply:
        """What a success means."""

    @abstractmethod
    def parse_error(self, http: int, body: Any) -> ServiceError:
        """What an error means."""

    @abstractmethod
    def count_tokens(self, body: Mapping[str, Any]) -> dict[str, int]:
        """Tokens: input, of it cached; output, of it thoughts."""

    def retry_after_s(self, error: RemoteError) -> float | None:
        """Seconds that an error's body asks to wait."""
        return None

    def reported_cost(self, body: Mapping[str, Any]) -> float | None:
        """USD, where a service reports it."""
        return None

    # The same for all providers

    @property
    def picture_titles(self) -> tuple[str, ...]:
        """The heading of each picture."""
        return tuple(f"{name.upper()}:" for name in self.form.pictures)

    def question(self, request: JudgeRequest) -> Question:
        disclosed = tuple(sorted(request.disclosed.items()))
        return self._question(request.prompt, request.instruction, request.axes, disclosed)

    def _build_question(
        self, prompt: str, instruction: str, axes: tuple[str, ...], disclosed: tuple[tuple[str, str], ...]
    ) -> Question:
        import orjson

        text, schema = self.form.text(prompt, instruction, axes, dict(disclosed)), self.form.schema(axes)
        names = self.form.pictures
        stored = self.build_body(text, schema, [self.stored_picture(name) for name in names])
        sent = self.build_body(text, schema, [self.sent_picture(_MARKS[name]) for name in names])
        pieces = [orjson.dumps(sent)]
        for name in names:
            pieces += pieces.pop().split(_MARKS[name].encode())
        return ImageQuestion(
            content=self.content(stored), pieces=tuple(pieces), pictures=names, joint=self.wire.joint
        )

    def content(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What is stored and hashed: where the question goes, and its body."""
        return {"service": self.wire.service, "path": self.wire.path, "body": body}

    async def judge(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and ask again where the answer cannot be read; every attempt is kept, the last one counts."""
        pictures = {"source": self._encoded(request.source), "edited": base64.b64encode(request.edited)}
        question = self.question(request)
        body = question.body(*(pictures[name] for name in question.pictures))
        call = HttpRequest("POST", self.wire.path, body=body, tokens=self.terms.tokens.all, repeatable=True)
        axes = request.axes
        del request, pictures  # the pictures are in the body now: one copy while an answer is waited for
        exchanges: list[Exchange] = []
        for _ in range(1 + self.limits.reasks):
            exchanges += await self.send(call, axes)
            if exchanges[-1].status not in REASKED:
                break
        return JudgeReply.of(tuple(exchanges))

    async def close(self) -> None:
        await self.client.close()

    async def send(self, call: HttpRequest, axes: tuple[str, ...]) -> list[Exchange]:
        """One call with all attempts that the client made."""
        try:
            answer = await self.client.call(call)
        except RemoteError as error:
            self._raise_if_hopeless(error)
            return [self._failed_attempt(attempt, axes) for attempt in error.attempts]
        exchange = self.read(answer.status_code, answer.json, answer.body, axes)
        failed = (self._failed_attempt(attempt, axes) for attempt in answer.attempts[:-1])
        return [*failed, _timed(exchange, answer.attempts[-1])]

    def _failed_attempt(self, attempt: HttpAttempt, axes: tuple[str, ...]) -> Exchange:
        """An attempt without an answer: as its status says, unless its body says more."""
        http = attempt.status_code
        if http >= 400:
            return _timed(self.read(http, _decode(attempt.body), attempt.body, axes), attempt)
        detail = attempt.message + ("; it may have been paid for" if attempt.kind is Status.TIMEOUT else "")
        exchange = Exchange(attempt.kind, detail=detail, code=str(http or ""), http=http, raw=attempt.body)
        return _timed(exchange, attempt)

    def read(self, http: int, body: Any, raw: bytes, axes: tuple[str, ...], share: float = 1.0) -> Exchange:
        """Any answer, as an attempt that ended with it. Whatever a service answers, nothing is raised.

        Args:
            http: The status.
            body: The decoded body: data or text.
            raw: The body as it came, for the ledger; the key is removed from it.
            axes: The requested axes.
            share: The part of the list price that the call costs: below 1 in a batch.
        """
        if len(self._secret) >= MIN_KEY_CHARS and self._secret in raw:
            raw = raw.replace(self._secret, "…".encode())
            body = _decode(raw)
        if not 200 <= http < 300 or not isinstance(body, dict) or body.get("error"):
            error = self.parse_error(http, body)
            code = error.code or (str(http) if http else "")
            return Exchange(error.status, detail=error.message[:MAX_DETAIL_CHARS], code=code, http=http, raw=raw)
        reply = self.parse_reply(body, axes)
        usage = self.count_tokens(body)
        cost = self.reported_cost(body)
        if cost is None:
            # blocked on the way in, and not counted by the service: it costs nothing
            is_free = not usage and reply.status in (Status.INPUT_BLOCKED, Status.SERVER_ERROR)
            cost = 0.0 if is_free else self.terms.cost(usage, share)
        reading = reply.reading or ParsedAnswer()
        return Exchange(
            reply.status,
            cost_usd=cost,
            detail=reply.detail[:MAX_DETAIL_CHARS],
            code=reply.code,
            http=http,
            usage=usage,
            raw=raw,
            scores=reading.scores,
            observations=reading.observations,
            evidence=reading.evidence,
            people=reading.people,
            features=reading.features,
        )

    def _is_quota(self, error: RemoteError) -> bool:
        return self.parse_error(error.status_code, error.said).status is Status.QUOTA

    def _raise_if_hopeless(self, error: RemoteError) -> None:
        """End the run with a sentence where every further call would fail alike; nothing becomes data."""
        if not error.status_code:
            return
        parsed = self.parse_error(error.status_code, error.said)
        if parsed.parameter:  # never asked again without it: the key would state what was not sent
            value = self.terms.sent[parsed.parameter]
            raise SetupError(
                f"{self.wire.service} does not take {parsed.parameter} = {value} for the model "
                f"'{self.limits.model}': {parsed.message.rstrip('.')}.",
                f"Set {parsed.parameter} to null or to another value in the judge's settings, and run again. "
                f"The table that says what models take is of {self.terms.date}: {MODELS.name}.",
            )
        if parsed.hopeless:
            code = error.status_code if error.status_code in hosted.UNDECIDED else 403
            error.status_code, error.message = code, parsed.message or error.message
            hosted.raise_if_hopeless(error, self.wire.service, self.limits.model, self.key_env)

    def unsupported_parameter(self, http: int, message: str) -> str:
        """The parameter that an error's message names, by our name; empty where it names none that was sent."""
        if http not in (400, 422):
            return ""
        for name in self.terms.sent:
            word = self.wire.names[name]
            snake = re.sub("(?=[A-Z])", "_", word).lower()
            # the spellings that services use in sentences
            if re.search(rf"\b(?:{word.lower()}|{snake}|{snake.replace('_', ' ')})\b", message.lower()):
                return name
        return ""


def form_reply(reading: ParsedAnswer | ParseError, code: str) -> ParsedReply:
    """A reply whose text was read by a form."""
    if isinstance(reading, ParseError):
        return ParsedReply(Status.MALFORMED, reading.message, code)
    return ParsedReply(Status.OK, code=code, reading=reading)


def status_of(http: int) -> Status:
    """What an HTTP status alone says; rejections that a corrected key or address would end are not data."""
    if http < 400:
        return Status.SERVER_ERROR
    return Status.SERVER_ERROR if http in hosted.UNDECIDED else classify_http_status(http)[0]


def first_object(values: Any) -> Mapping[str, Any]:
    """The first item of a list, if it is an object."""
    value = values[0] if isinstance(values, list) and values else None
    return value if isinstance(value, dict) else {}


def error_message(body: Any) -> str:
    """The sentence in an error's body."""
    message = hosted.inner(body).get("message") or (body.get("detail") if isinstance(body, dict) else body)
    return message.strip() if isinstance(message, str) else ""


def count_fields(**counts: Any) -> dict[str, int]:
    """Only the counts that are whole numbers from 0."""
    return {name: count for name, count in counts.items() if type(count) is int and count >= 0}


def _timed(exchange: Exchange, attempt: HttpAttempt) -> Exchange:
    started = datetime.fromtimestamp(attempt.at, UTC).isoformat(timespec="milliseconds")
    request_id = attempt.request_id or exchange.request_id
    return replace(exchange, started=started, seconds=round(attempt.seconds, 6), request_id=request_id)


def _decode(raw: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
