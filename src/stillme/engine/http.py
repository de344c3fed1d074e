"""The only HTTP client: deadlines, counted retries, rate limits, adaptive concurrency; no secret in any text.

It knows hosts, statuses and bytes, and nothing of what is asked or answered: what the other side says besides a
success is handed up as it came, in a `RemoteError`, and whoever asked decides what it means.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from stillme import __version__
from stillme.core.errors import disk
from stillme.core.records import Status
from stillme.core.yaml import StrictModel
from stillme.engine.rate_limit import ConcurrencyLimiter, RateLimiter

if TYPE_CHECKING:
    import aiohttp

PACKAGES = ("aiohttp", "orjson")  # loaded when the first call is made
JSON = "application/json"
MAX_BACKOFF_S = 60.0  # of our own; a service may ask for a longer pause
MAX_MESSAGE_CHARS = 500  # of an error, in a sentence and in the ledger
MIN_KEY_CHARS = 8  # a shorter key is not hidden: it would be a word that answers contain anyway
MAX_ERROR_BODY_CHARS = 1 << 16  # kept of an error's body
BLOCK_BYTES = 1 << 20  # larger bodies are sent in pieces, and files are read and written in blocks of this size
_REQUEST_IDS = ("x-request-id", "x-goog-request-id", "request-id", "apim-request-id")
_TOO_MANY_REQUESTS = 429


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no address; write it like https://host/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("carries more than host and path; a key belongs into the environment")
    return url.rstrip("/")


Url = Annotated[str, AfterValidator(_checked_url)]


class ClientConfig(StrictModel):
    """How a service is asked. Nothing here changes what it answers.

    starts_at: calls at a time to begin with; it grows from there. None: all of `concurrency` at once.
    """

    timeout_s: float = Field(default=180, gt=0)  # one attempt
    connect_s: float = Field(default=10, gt=0)
    deadline_s: float = Field(default=900, gt=0)  # a call with all its attempts
    attempts: int = Field(default=4, ge=1, le=20)
    backoff_s: float = Field(default=1.0, ge=0)
    concurrency: int = Field(default=8, ge=1, le=1024)
    starts_at: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    most_bytes: int = Field(default=50_000_000, ge=1)
    trust_env: bool = False  # proxies that the environment names


@dataclass(frozen=True)
class MultipartField:
    """One field of a form: words, a file's bytes, or a file on disk, which is sent piece by piece."""

    name: str
    value: str | bytes | Path = field(repr=False)
    filename: str = ""
    media_type: str = ""


@dataclass(frozen=True)
class HttpRequest:
    """What is asked. `url`: a path under the base, or a whole address.

    `body`: sent as it is, as JSON unless `media_type` says otherwise; a path is sent piece by piece. `headers`:
    further ones. `keyless`: without the secret headers. `paced`: whether it counts for the rate limit; `tokens`:
    how much of it. `repeatable`: asked again though an answer that came too late may have been paid for. `once`:
    asked again only after it was turned away, because the first time may have made what a second would make
    twice. `timeout_s`: for one attempt that takes longer than others.
    """

    method: str
    url: str
    json: Any = field(default=None, repr=False)
    form: Sequence[MultipartField] = field(default=(), repr=False)
    body: bytes | Path | None = field(default=None, repr=False)
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    accepts: tuple[str, ...] = (JSON,)  # media types, or their beginnings
    keyless: bool = False
    paced: bool = True
    tokens: int = 0
    repeatable: bool = False
    once: bool = False
    timeout_s: float | None = None


@dataclass(frozen=True)
class _Sent:
    """A call as it goes out, the same in every attempt."""

    address: str
    body: bytes | Path | Sequence[bytes | Path] | None = field(repr=False)
    media_type: str


@dataclass(frozen=True)
class HttpAttempt:
    """One attempt of a call, as it ended. `at`: when it started, in seconds since 1970. `body`: what came."""

    kind: Status
    status_code: int
    seconds: float
    at: float = 0.0
    message: str = ""
    request_id: str = ""
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class HttpResponse:
    """A success. `json` is set where that is what came; `attempts` are all of the call, this one the last."""

    status_code: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    json: Any = field(repr=False)
    seconds: float
    request_id: str = ""
    attempts: tuple[HttpAttempt, ...] = ()


@dataclass(eq=False)
class RemoteError(Exception):
    """No success. `kind` is never a refusal: what the body means is for the caller to decide."""

    kind: Status
    message: str
    status_code: int = 0
    retryable: bool = False
    request_id: str = ""
    said: Any = field(default=None, repr=False)  # the body: decoded JSON, or text
    after: float | None = None  # seconds that the other side asks to wait
    body: bytes = field(default=b"", repr=False)  # as it came, without secrets
    seconds: float = 0.0
    attempts: tuple[HttpAttempt, ...] = ()

    def __str__(self) -> str:
        return f"{self.status_code}: {self.message}" if self.status_code else self.message


class Client:
    """One service: its address, its secret headers, and how much it is asked at a time.

    `hosts`: further hosts, with those under them, that whole addresses may name; the base's own origin always may.
    `hopeless`: errors that a second attempt would not change though their status suggests it. `waits`: seconds
    that an error's body asks to wait, where a service says so there and not in a header.
    """

    def __init__(
        self,
        base: str,
        limits: ClientConfig,
        secrets: Mapping[str, str] | None = None,
        hosts: tuple[str, ...] = (),
        hopeless: Callable[[RemoteError], bool] = lambda error: False,
        waits: Callable[[RemoteError], float | None] = lambda error: None,
    ) -> None:
        self.base = base
        self.limits = limits
        self.gate = ConcurrencyLimiter(limits.concurrency, limits.starts_at)
        self.pace = RateLimiter(limits.requests_per_minute, limits.tokens_per_minute)
        self._waits = waits
        self._secrets = dict(secrets or {})
        self._hosts = hosts
        self._hopeless = hopeless
        self._rest_until = 0.0  # no call starts before
        self._random = random.Random()  # noqa: S311 (a draw, not a secret)
        self._boundary = uuid.uuid4().hex  # in no picture, and in no sentence of anybody who does not know it
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"Client({self.base})"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, call: HttpRequest) -> HttpResponse:
        """The answer to a call; whatever is no success is raised, after as many attempts as make sense."""
        attempts: list[HttpAttempt] = []
        deadline: float | None = None
        body, media_type = _content(call, self._boundary)
        request = _Sent(address=self._address(call), body=body, media_type=media_type)
        while True:
            cuts = await self.gate.enter()
            status: int | None = None
            try:
                await self._turn(call)
                started, at = time.monotonic(), time.time()  # the clock starts when the call has its turn
                deadline = deadline or started + self.limits.deadline_s
                left = max(0.001, deadline - started)
                result = await self._attempt(call, request, min(call.timeout_s or self.limits.timeout_s, left))
                status = result.status_code
                if isinstance(result, RemoteError):
                    result.seconds = time.monotonic() - started
                    status = self._learned(result, started)
            finally:
                self.gate.leave(cuts, status)
            error = result if isinstance(result, RemoteError) else None
            attempts.append(
                HttpAttempt(
                    kind=error.kind if error else Status.OK,
                    status_code=result.status_code,
                    seconds=result.seconds,
                    at=at,
                    message=error.message if error else "",
                    request_id=result.request_id,
                    body=result.body,
                )
            )
            if isinstance(result, HttpResponse):
                return replace(result, attempts=tuple(attempts))
            result.attempts = tuple(attempts)
            may_retry = result.status_code == _TOO_MANY_REQUESTS if call.once else result.retryable
            may_retry = may_retry and len(attempts) < self.limits.attempts and not self._hopeless(result)
            if not may_retry or time.monotonic() + self._pause(result) > deadline:
                raise result
            await asyncio.sleep(self._jittered(self._pause(result)))

    async def download(self, call: HttpRequest, path: Path) -> None:
        """Writes an answer of any size to `path`, aside first, so that a file that is there is whole."""
        import aiohttp

        sent = _Sent(address=self._address(call), body=None, media_type="")
        timeout = aiohttp.ClientTimeout(total=None, sock_read=self.limits.timeout_s)
        try:
            async with self._opened().request(
                call.method, sent.address, headers=self._headers(call, ""), timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise self._failed(response, await self._read(response))
                await _written(response, path)
        except TimeoutError:
            raise RemoteError(Status.TIMEOUT, "the download stopped", retryable=True) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"the download failed: {type(error).__name__}: {error}"
            raise RemoteError(Status.NETWORK, self._hidden(message), retryable=True) from None

    def _pause(self, error: RemoteError) -> float:
        """Twice as long after every attempt, and at least as long as the other side asks for."""
        grown = self.limits.backoff_s * 2.0 ** (len(error.attempts) - 1)
        return max(min(MAX_BACKOFF_S, grown), error.after or 0.0)

    def _jittered(self, seconds: float) -> float:
        """Callers that failed together do not come back together, and none before it may."""
        return seconds * (1 + 0.25 * self._random.random())

    async def _turn(self, call: HttpRequest) -> None:
        """Rested first, and only then in line: callers that were asked to wait do not come back together."""
        while True:
            while (left := self._rest_until - time.monotonic()) > 0:
                await asyncio.sleep(self._jittered(left))
            away = self.pace.reserve(call.tokens) if call.paced else 0.0
            if not away:
                return
            await asyncio.sleep(away)
            if self._rest_until <= time.monotonic():
                return

    def _learned(self, error: RemoteError, started: float) -> int | None:
        """Its status, where that says something of how much may be asked; a stray 429 that is explained does not.

        A service that asks one caller to wait is left alone by all, unless it asks for too long.
        """
        if error.after is not None and error.after <= self.limits.deadline_s:
            self._rest_until = max(self._rest_until, time.monotonic() + error.after)
        if error.status_code != _TOO_MANY_REQUESTS:
            return error.status_code
        is_much = not self._hopeless(error) and self.pace.turned_away(started, error.after is not None)
        return error.status_code if is_much or error.after is None else None

    async def _attempt(self, call: HttpRequest, sent: _Sent, seconds: float) -> HttpResponse | RemoteError:
        import aiohttp

        started = time.monotonic()
        try:
            timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=self.limits.connect_s)
            async with self._opened().request(
                call.method,
                sent.address,
                data=_sendable(sent.body),
                headers=self._headers(call, sent.media_type) | _length(sent.body),
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await self._read(response)
                return self._understood(call, response, body, time.monotonic() - started)
        except RemoteError as error:
            return error
        except aiohttp.ConnectionTimeoutError:
            return RemoteError(Status.NETWORK, f"no connection within {self.limits.connect_s:g} s", retryable=True)
        except TimeoutError:
            # an answer that comes late may have been paid for
            again = call.repeatable or call.method == "GET"
            return RemoteError(Status.TIMEOUT, f"no answer within {seconds:g} s", retryable=again)
        except aiohttp.ClientSSLError as error:
            return RemoteError(Status.NETWORK, self._hidden(f"no trusted connection: {error}"))
        except (aiohttp.ClientError, OSError) as error:
            message = f"the connection failed: {type(error).__name__}: {error}"
            return RemoteError(Status.NETWORK, self._hidden(message), retryable=True)

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.limits.concurrency),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"stillme/{__version__}"},
                trust_env=self.limits.trust_env,
            )
        return self._session

    def _address(self, call: HttpRequest) -> str:
        if not call.url.startswith(("http://", "https://")):
            return f"{self.base}/{call.url.lstrip('/')}"
        try:
            host, may_ask = urlsplit(call.url).hostname, self._may_ask(call.url)
        except ValueError:
            raise RemoteError(Status.SERVER_ERROR, "it names an address that is none") from None
        if not may_ask:
            raise RemoteError(Status.SERVER_ERROR, f"it names an address at {host}, which is not followed")
        return call.url

    def _may_ask(self, url: str) -> bool:
        """Addresses that an answer names must not lead elsewhere: not into this network, not to a stranger."""
        if origin(url) == origin(self.base):
            return True
        parts = urlsplit(url)
        name = parts.hostname or ""
        is_known_host = any(name == host or name.endswith(f".{host}") for host in self._hosts)
        return parts.scheme == "https" and is_known_host

    def _headers(self, call: HttpRequest, media_type: str) -> dict[str, str]:
        headers = {"Accept": ", ".join(f"{kind}*" if kind.endswith("/") else kind for kind in call.accepts)}
        headers |= {"Content-Type": media_type} if media_type else {}
        headers |= call.headers
        return headers if call.keyless else {**headers, **self._secrets}

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The body, unless it is larger than any sensible one: then reading stops."""
        most, length = self.limits.most_bytes, response.content_length
        if length is not None and length <= most and "Content-Encoding" not in response.headers:
            return await response.read()
        body = bytearray()
        if (length or 0) <= most:  # packed, or of unknown length: it may turn out larger than it says
            async for piece in response.content.iter_chunked(1 << 16):
                body += piece
                if len(body) > most:
                    break
            else:
                return bytes(body)
        response.close()
        message = f"the answer is larger than {most:,} bytes; it was not read"
        raise RemoteError(Status.SERVER_ERROR, message, response.status, request_id=self._request_id(response))

    def _understood(
        self, call: HttpRequest, response: aiohttp.ClientResponse, body: bytes, seconds: float
    ) -> HttpResponse | RemoteError:
        status, request_id, kind = response.status, self._request_id(response), response.content_type
        if not 200 <= status < 300:
            return self._failed(response, body)
        if call.paced:
            self.pace.answered(response.headers)
        decoded = None
        if not kind.startswith(call.accepts):
            problem = self._hidden(f"the answer is {kind}, not {' or '.join(call.accepts)}")
        else:
            problem = ""
            try:
                if kind == JSON:
                    for key in self._keys():  # an answer that repeats a key is not kept with it
                        body = body.replace(key.encode(), "…".encode()) if key.encode() in body else body
                    decoded = _decoded(body)
            except ValueError:
                problem = "the answer is said to be JSON and is not"
        if not problem:
            return HttpResponse(
                status_code=status,
                headers=response.headers,
                body=body,
                json=decoded,
                seconds=seconds,
                request_id=request_id,
            )
        text = self._text(body)
        return RemoteError(
            kind=Status.SERVER_ERROR,
            message=problem,
            status_code=status,
            request_id=request_id,
            said=text,
            body=text[:MAX_ERROR_BODY_CHARS].encode(),
        )

    def _failed(self, response: aiohttp.ClientResponse, body: bytes) -> RemoteError:
        status, text = response.status, self._text(body)
        kind, retryable = classify_http_status(status)
        content: Any
        try:
            content = _decoded(text.encode())  # strict: half a character could be kept nowhere
            message = _message(content)
        except (ValueError, RecursionError):
            content, message = text, text.strip()
        if 300 <= status < 400:
            message = "it answers with a redirect, which is not followed"
        error = RemoteError(
            kind=kind,
            message=self._hidden(message or response.reason or "no reason given"),
            status_code=status,
            retryable=retryable,
            request_id=self._request_id(response),
            said=content,
            body=text[:MAX_ERROR_BODY_CHARS].encode(),
        )
        if retryable:
            pauses = (parse_retry_after(response.headers), self._waits(error))
            error.after = max((seconds for seconds in pauses if seconds is not None), default=None)
        return error

    def _request_id(self, response: aiohttp.ClientResponse) -> str:
        headers = response.headers
        return self._hidden(next((headers[name] for name in _REQUEST_IDS if name in headers), ""))

    def _text(self, body: bytes) -> str:
        return self._hidden(body.decode("utf-8", "replace"), most=len(body))

    def _keys(self) -> Iterator[str]:
        keys = (value.rpartition(" ")[2] for value in self._secrets.values())
        return (key for key in keys if len(key) >= MIN_KEY_CHARS)

    def _hidden(self, text: str, most: int = MAX_MESSAGE_CHARS) -> str:
        """Without secrets, whoever repeats them."""
        for key in self._keys():
            text = text.replace(key, "…")
        return text[:most]


def classify_http_status(status_code: int) -> tuple[Status, bool]:
    """What an HTTP status says of a call, and whether a second attempt may change it."""
    if status_code == 429:
        return Status.RATE_LIMITED, True
    if status_code == 408:
        return Status.TIMEOUT, True
    if status_code == 402:
        return Status.QUOTA, False
    if status_code >= 500:
        return Status.SERVER_ERROR, status_code not in (501, 505)
    return (Status.REJECTED if status_code >= 400 else Status.SERVER_ERROR), False


def parse_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds, from `Retry-After` as a number or a date, or from `retry-after-ms`; None where nobody asks."""
    milliseconds, after = headers.get("retry-after-ms", ""), headers.get("Retry-After", "").strip()
    try:
        if milliseconds:
            return max(0.0, float(milliseconds) / 1000)
        return max(0.0, float(after)) if after else None
    except ValueError:
        pass  # not a number: it may be a date
    try:
        moment = parsedate_to_datetime(after)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds())


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def _content(call: HttpRequest, boundary: str) -> tuple[bytes | Path | Sequence[bytes | Path] | None, str]:
    """What is sent and its type. One piece: a form that is written part by part costs a system call for each."""
    if call.body is not None:
        return call.body, call.media_type
    if call.json is not None:
        import orjson

        return orjson.dumps(call.json), JSON
    if call.form:
        return _encoded(call.form, boundary), f"multipart/form-data; boundary={boundary}"
    return None, ""


def _decoded(body: bytes) -> Any:
    import orjson

    return orjson.loads(body)


def _encoded(form: Sequence[MultipartField], boundary: str) -> bytes | list[bytes | Path]:
    """multipart/form-data, as browsers write it; in several pieces only where a part is a file on disk."""
    pieces: list[bytes | Path] = []
    for part in form:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(part.name)}"'
        head += f'; filename="{_quoted(part.filename)}"' if part.filename else ""
        head += f"\r\nContent-Type: {part.media_type}" if part.media_type else ""
        value = part.value.encode() if isinstance(part.value, str) else part.value
        pieces += [f"{head}\r\n\r\n".encode(), value, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    if any(isinstance(piece, Path) for piece in pieces):
        return pieces
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _sendable(content: bytes | Path | Sequence[bytes | Path] | None) -> Any:
    if isinstance(content, bytes):
        return io.BytesIO(content) if len(content) > BLOCK_BYTES else content
    if isinstance(content, Path):
        return content.open("rb")  # closed by whoever sends it
    return None if content is None else _pieces(content)


def _length(content: bytes | Path | Sequence[bytes | Path] | None) -> dict[str, str]:
    """Given beforehand where it is sent piece by piece: services do not take bodies of unknown length."""
    if content is None or isinstance(content, bytes | Path):
        return {}
    sizes = (piece.stat().st_size if isinstance(piece, Path) else len(piece) for piece in content)
    return {"Content-Length": str(sum(sizes))}


async def _pieces(content: Sequence[bytes | Path]) -> AsyncIterator[bytes]:
    for piece in content:
        if isinstance(piece, bytes):
            yield piece
            continue
        with piece.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                yield block


async def _written(response: aiohttp.ClientResponse, path: Path) -> None:
    """An error of the disk is reported as the disk's: asking the service again would not help."""
    part = path.with_name(f"{path.name}.part")
    with ExitStack() as stack:
        with disk(path):
            file = stack.enter_context(part.open("wb", buffering=0))
        async for block in response.content.iter_chunked(BLOCK_BYTES):
            with disk(path):
                rest = memoryview(block)
                while rest:  # a write without a buffer may take a part
                    rest = rest[file.write(rest) :]
        with disk(path):
            os.fsync(file.fileno())
    with disk(path):
        part.replace(path)


def _message(content: Any) -> str:
    """The sentence in an error's body, wherever services put it."""
    if isinstance(content, Mapping):
        names = ("error", "detail", "message", "details")
        return _message(next((content[name] for name in names if content.get(name)), ""))
    if isinstance(content, str):
        return content.strip()
    return json.dumps(content, ensure_ascii=False) if content else ""
