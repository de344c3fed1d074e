from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from stillme.core.errors import SetupError
from stillme.core.records import Status
from stillme.engine import http
from stillme.engine.http import (
    Client,
    ClientConfig,
    HttpAttempt,
    HttpRequest,
    HttpResponse,
    MultipartField,
    RemoteError,
    classify_http_status,
    parse_retry_after,
)
from tests.editors.providers import REQUEST_ID, Server, broken_json, cut, endless, late, packed, page, says

SECRET = "sk-very-secret-0123456789"
QUICK: Mapping[str, Any] = {"backoff_s": 0.01, "timeout_s": 60, "connect_s": 60}


def ask(server: Server, call: HttpRequest | None = None, **limits: Any) -> HttpResponse:
    return asyncio.run(asked(server, call or HttpRequest("POST", "things", json={"a": 1}), **limits))


async def asked(server: Server, call: HttpRequest, waits: Any = lambda error: None, **limits: Any) -> HttpResponse:
    secrets = {"Authorization": f"Bearer {SECRET}"}
    client = Client(server.url, ClientConfig(**{**QUICK, **limits}), secrets, waits=waits)
    try:
        return await client.call(call)
    finally:
        await client.close()


def fails(server: Server, call: HttpRequest | None = None, **limits: Any) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        ask(server, call, **limits)
    return caught.value


def test_an_answer_comes_with_what_it_took() -> None:
    with Server(says(200, {"ok": True})) as server:
        answer = ask(server)
    assert (answer.status_code, answer.json, answer.request_id) == (200, {"ok": True}, REQUEST_ID)
    assert [one.kind for one in answer.attempts] == [Status.OK]
    (seen,) = server.seen
    assert seen.json == {"a": 1} and seen.path == "/v1/things"
    assert seen.headers["Authorization"] == f"Bearer {SECRET}"
    assert seen.headers["User-Agent"].startswith("stillme/")


def test_a_form_is_sent_whole_in_every_attempt() -> None:
    content = bytes(range(256)) * 8192  # above the size at which a body is sent in pieces
    form = (
        MultipartField("word", " "),
        MultipartField("file", content, "a.bin", "image/png"),
        MultipartField("file", b"b", "b.bin", "image/png"),
    )
    with Server(says(503, {}), says(200, {})) as server:
        answer = ask(server, HttpRequest("POST", "x", form=form))
    assert len(answer.attempts) == 2
    for seen in server.seen:
        assert seen.form == {"word": [" "], "file": [content, b"b"]}


def test_any_word_and_any_file_arrive_as_they_are() -> None:
    words = ["", " ", "--", "a\r\nb", "--boundary--\r\n", 'say "hi"', "né 🙂", "\u2028"]
    files = [b"", b"\r\n--", bytes(range(256)), b"\r\n\r\n" * 9]
    form = [MultipartField(f"w{n}", word) for n, word in enumerate(words)]
    form += [MultipartField("file", content, f'"{n}".bin', "image/png") for n, content in enumerate(files)]
    with Server(says(200, {})) as server:
        ask(server, HttpRequest("POST", "x", form=form))
    assert [server.seen[0].word(f"w{n}") for n in range(len(words))] == words
    assert server.seen[0].form["file"] == files


def test_questions_that_do_not_count_are_not_held_back() -> None:
    async def many(server: Server) -> None:
        client = Client(server.url, ClientConfig(**QUICK, requests_per_minute=0.001))
        for _ in range(5):
            await client.call(HttpRequest("GET", "x", paced=False))
        await client.close()

    with Server(says(200, {})) as server:
        asyncio.run(asyncio.wait_for(many(server), 30))
    assert len(server.seen) == 5


def test_a_service_that_asks_for_no_wait_is_not_hammered() -> None:
    client = Client("https://service.example/v1", ClientConfig(backoff_s=2))
    error = RemoteError(Status.RATE_LIMITED, "busy", 429, True, after=0.0)
    pauses = []
    for _ in range(7):
        error.attempts += (HttpAttempt(Status.RATE_LIMITED, 429, 0.1),)
        pauses.append(client._pause(error))
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


def test_a_large_body_of_json_arrives() -> None:
    with Server(says(200, {})) as server:
        ask(server, HttpRequest("POST", "x", json={"text": "a" * 3_000_000}))
    assert len(server.seen[0].json["text"]) == 3_000_000


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again_and_counted(code: int) -> None:
    with Server(says(code, {"error": {"message": "busy"}}), says(code, {}), says(200, {"ok": 1})) as server:
        answer = ask(server)
    assert [one.status_code for one in answer.attempts] == [code, code, 200]
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "rejected"),
        (401, "rejected"),
        (402, "quota"),
        (404, "rejected"),
        (413, "rejected"),
        (501, "server_error"),
    ],
)
def test_what_will_not_pass_is_asked_once(code: int, kind: str) -> None:
    with Server(says(code, {"error": {"message": "no", "code": "word"}})) as server:
        error = fails(server)
    assert (error.kind, error.status_code, error.message, error.retryable) == (kind, code, "no", False)
    assert error.said == {"error": {"message": "no", "code": "word"}}
    assert error.request_id == REQUEST_ID
    assert len(server.seen) == 1 == len(error.attempts)


def test_attempts_end() -> None:
    with Server(says(500, {"error": {"message": "still broken"}})) as server:
        error = fails(server, attempts=3)
    assert len(server.seen) == 3
    assert [one.kind for one in error.attempts] == [Status.SERVER_ERROR] * 3
    assert str(error) == "500: still broken"


def test_what_the_asker_calls_hopeless_is_asked_once() -> None:
    async def call(server: Server) -> None:
        client = Client(server.url, ClientConfig(**QUICK), hopeless=lambda error: "quota" in str(error.said))
        with pytest.raises(RemoteError):
            await client.call(HttpRequest("GET", "x"))
        await client.close()

    with Server(says(429, {"code": "quota"})) as server:
        asyncio.run(call(server))
    assert len(server.seen) == 1


class Pauses(list[float]):
    """The seconds that a client meant to pause. None is waited for: its clock is put forward instead, once a test
    lets it."""

    def __init__(self) -> None:
        self.skipped, self.may_end = 0.0, asyncio.Event()
        self.may_end.set()

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)
        await self.may_end.wait()
        self.skipped += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    made = Pauses()
    monkeypatch.setattr(http, "asyncio", SimpleNamespace(sleep=made.sleep))
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=made.monotonic, time=time.time))
    return made


@pytest.mark.parametrize("form", ["seconds", "a date", "in the body"])
def test_a_wait_that_is_asked_for_is_honoured(pauses: Pauses, form: str) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    headers = {"seconds": {"Retry_After": "100"}, "a date": {"Retry_After": soon}}.get(form, {})
    busy = says(503, {"wait": 100 if form == "in the body" else 0}, **headers)
    with Server(busy, says(200, {})) as server:
        answer = ask(server, waits=lambda error: error.said["wait"])
    assert [one.status_code for one in answer.attempts] == [503, 200]
    least = 60 if form == "a date" else 100  # a date comes nearer while the machine is busy
    assert least <= pauses[0] <= 1.25 * 101, "it comes back neither before it may nor much later"


def test_who_is_asked_to_wait_too_long_gives_up_at_once(pauses: Pauses) -> None:
    with Server(says(429, {"detail": "come back tomorrow"}, Retry_After="86400")) as server:
        error = fails(server, deadline_s=30)
    assert (error.kind, error.after, error.message) == (Status.RATE_LIMITED, 86400, "come back tomorrow")
    assert len(server.seen) == 1


def test_one_is_asked_to_wait_and_all_do(pauses: Pauses) -> None:
    """The second call starts after the first was turned away; it must not reach the server before the time is over."""

    async def both(server: Server) -> None:
        client = Client(server.url, ClientConfig(**QUICK))
        pauses.may_end.clear()
        calls = []
        for number in (1, 2):
            calls.append(asyncio.create_task(client.call(HttpRequest("GET", f"{number}"))))
            while len(pauses) < number and not calls[-1].done():
                await asyncio.sleep(0.01)
        assert len(server.seen) == 1
        pauses.may_end.set()
        await asyncio.gather(*calls)
        await client.close()

    with Server(says(429, {}, Retry_After="100"), says(200, {})) as server:
        asyncio.run(both(server))
    assert len(server.seen) == 3 and min(pauses) > 60


def test_a_stray_that_says_how_long_to_wait_changes_nothing_more() -> None:
    async def limit(server: Server) -> int:
        client = Client(server.url, ClientConfig(**QUICK))
        await client.call(HttpRequest("GET", "x"))
        await client.close()
        return client.gate.limit

    with Server(says(429, {}, **{"retry-after-ms": "5"}), says(200, {})) as server:
        assert asyncio.run(limit(server)) == ClientConfig().concurrency
    with Server(says(429, {}), says(200, {})) as server:
        assert asyncio.run(limit(server)) < ClientConfig().concurrency, "without a word it is asked less at a time"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Mon, 16 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"Retry-After": "Mon, 16 Nov 2026 11:00:00 GMT"}, 0.0),
    ],
)
def test_how_long_one_is_asked_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, datetime(2026, 11, 16, 12, tzinfo=UTC)) == seconds


def test_a_slow_answer_is_not_asked_for_twice_where_that_may_cost_twice() -> None:
    with Server(late(60, says(200, {}))) as server:
        error = fails(server, timeout_s=0.2)
    assert (error.kind, error.message) == (Status.TIMEOUT, "no answer within 0.2 s")
    assert len(server.seen) == 1


@pytest.mark.parametrize("call", [HttpRequest("GET", "x"), HttpRequest("POST", "x", json={}, repeatable=True)])
def test_a_late_answer_is_asked_for_again_where_that_costs_nothing_or_the_asker_says_so(call: HttpRequest) -> None:
    with Server(late(60, says(200, {})), says(200, {"ok": 1})) as server:
        answer = ask(server, call, timeout_s=0.5, attempts=20)
    *before, last = [one.kind for one in answer.attempts]
    assert set(before) == {Status.TIMEOUT} and last is Status.OK and answer.json == {"ok": 1}
    assert answer.attempts[0].message == "no answer within 0.5 s"


def test_a_call_ends_by_its_deadline_whatever_attempts_are_left(pauses: Pauses) -> None:
    with Server(says(500, {})) as server:
        error = fails(server, attempts=20, backoff_s=10, deadline_s=60)
    assert error.kind is Status.SERVER_ERROR
    assert len(error.attempts) == 3 and sum(pauses) < 60, "a third pause would have been one too many"


@pytest.mark.parametrize("after", [b"", b'{"data": ['])
def test_a_cut_connection_is_tried_again(after: bytes) -> None:
    with Server(cut(after), says(200, {"ok": 1})) as server:
        answer = ask(server)
    assert [one.kind for one in answer.attempts] == [Status.NETWORK, Status.OK]


def test_nobody_listens() -> None:
    with Server(says(200, {})) as server:
        pass
    error = fails(server, attempts=2)
    assert error.kind is Status.NETWORK and len(error.attempts) == 2
    assert "the connection failed" in error.message


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_not_read(announced: bool) -> None:
    with Server(endless(50_000_000, announced)) as server:
        error = fails(server, most_bytes=1_000_000)
    assert error.kind is Status.SERVER_ERROR
    assert "larger than 1,000,000 bytes" in error.message


def test_a_small_body_that_unpacks_to_a_large_one_is_not_read() -> None:
    with Server(packed(50_000_000)) as server:
        assert "larger than 1,000,000 bytes" in fails(server, most_bytes=1_000_000).message


def test_a_body_is_sent_as_it_is() -> None:
    with Server(says(200, {})) as server:
        ask(server, HttpRequest("POST", "x", body=b'{"a":  1}', headers={"X-Kind": "mine"}))
    assert server.seen[0].body == b'{"a":  1}'
    assert server.seen[0].headers["Content-Type"] == "application/json"
    assert server.seen[0].headers["X-Kind"] == "mine"


def test_a_form_with_a_file_on_disk_arrives_whole_in_every_attempt(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"0123456789" * 300_000)
    form = (MultipartField("purpose", "batch"), MultipartField("file", file, "calls.jsonl", "application/jsonl"))
    with Server(says(503, {}), says(200, {})) as server:
        ask(server, HttpRequest("POST", "files", form=form))
    first, second = server.seen
    assert first.form == second.form == {"purpose": ["batch"], "file": [file.read_bytes()]}


def test_a_download_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    async def fetch(server: Server, name: str) -> None:
        client = Client(server.url, ClientConfig())
        try:
            await client.download(HttpRequest("GET", "file"), tmp_path / name)
        finally:
            await client.close()

    with Server(says(200, {"line": 1})) as server:
        asyncio.run(fetch(server, "whole"))
    assert json.loads((tmp_path / "whole").read_bytes()) == {"line": 1}
    with Server(cut(b'{"line"')) as server, pytest.raises(RemoteError) as caught:
        asyncio.run(fetch(server, "cut"))
    assert caught.value.retryable and not (tmp_path / "cut").exists()
    with Server(says(404, {"error": {"message": "no such file"}})) as server, pytest.raises(RemoteError) as caught:
        asyncio.run(fetch(server, "none"))
    assert str(caught.value) == "404: no such file"


def test_attempts_keep_when_they_were_and_what_came() -> None:
    began = time.time()
    busy = says(429, {"error": {"message": "busy"}}, **{"x-request-id": "r1", "retry-after-ms": "5"})
    with Server(busy, says(200, {"ok": 1})) as server:
        first, second = ask(server).attempts
    assert (first.message, first.request_id) == ("busy", "r1")
    assert b"busy" in first.body and json.loads(second.body) == {"ok": 1}
    assert began <= first.at <= second.at <= time.time()


def test_a_page_instead_of_data_is_a_failure_of_the_service() -> None:
    with Server(page()) as server:
        error = fails(server)
    assert (error.kind, error.retryable) == (Status.SERVER_ERROR, False)
    assert error.message == "the answer is text/html, not application/json"
    assert "hotel" in error.said


def test_half_a_json_is_a_failure_of_the_service() -> None:
    with Server(broken_json()) as server:
        assert "is not" in fails(server).message


def test_redirects_are_not_followed() -> None:
    with Server(says(307, {}, Location="http://127.0.0.1:1/x")) as server:
        error = fails(server)
    assert (error.kind, len(server.seen)) == (Status.SERVER_ERROR, 1)
    assert "redirect" in error.message


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://example.com/x",
        "https://evilservice.example/x",
        "https://service.example.evil.org/x",
        "http://api.service.example/x",
        "https://user@evil.org/@service.example",
    ],
)
def test_addresses_that_lead_elsewhere_are_not_followed(url: str) -> None:
    async def call(server: Server) -> RemoteError:
        client = Client(server.url, ClientConfig(**QUICK), hosts=("service.example",))
        with pytest.raises(RemoteError) as caught:
            await client.call(HttpRequest("GET", url))
        await client.close()
        return caught.value

    with Server(says(200, {})) as server:
        assert "not followed" in asyncio.run(call(server)).message
    assert not server.seen


def test_the_same_host_on_another_port_is_elsewhere() -> None:
    with Server(says(200, {})) as server, Server(says(200, {})) as other:
        assert "not followed" in fails(server, HttpRequest("GET", f"{other.url}/x")).message
        assert ask(server, HttpRequest("GET", f"{server.url}/x")).status_code == 200
    assert not other.seen


def test_a_keyless_call_carries_no_key() -> None:
    with Server(says(200, {})) as server:
        ask(server, HttpRequest("GET", "x", keyless=True))
    assert SECRET not in str(server.seen[0].headers)


def test_cookies_are_not_kept() -> None:
    async def twice(server: Server) -> None:
        # numbers get no cookies
        client = Client(server.url.replace("127.0.0.1", "localhost"), ClientConfig(**QUICK))
        for _ in range(2):
            await client.call(HttpRequest("GET", "x"))
        await client.close()

    with Server(says(200, {}, Set_Cookie="who=me")) as server:
        asyncio.run(twice(server))
    assert "Cookie" not in server.seen[1].headers


def test_no_text_holds_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the service repeats it: in an error, its traceback, a repr, or a log."""
    caplog.set_level(logging.DEBUG)
    texts = []
    for turn in (
        says(400, {"error": {"message": f"the key {SECRET} may not do this"}}),
        says(500, {"detail": SECRET}),
        page(),
        cut(),
        broken_json(),
    ):
        with Server(turn) as server:
            error = fails(server, attempts=1)
            texts += [str(error), repr(error), str(error.said), "".join(traceback.format_exception(error))]
    client = Client("https://service.example/v1", ClientConfig(), {"x-key": SECRET})
    texts += [repr(client), caplog.text, repr(HttpRequest("POST", "x", json={"key": SECRET}))]
    assert [text for text in texts if SECRET in text] == []
    assert "the key … may not do this" in texts[0]


def test_a_key_that_is_a_mere_word_spoils_no_answer() -> None:
    async def call(server: Server) -> RemoteError:
        client = Client(server.url, ClientConfig(), {"Authorization": "Bearer x"})
        with pytest.raises(RemoteError) as caught:
            await client.call(HttpRequest("GET", "x"))
        await client.close()
        return caught.value

    with Server(says(400, {"error": {"message": "the box is too large"}})) as server:
        assert asyncio.run(call(server)).message == "the box is too large"


def test_proxies_of_the_environment_are_used_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Server(says(200, {"who": "service"})) as server, Server(says(200, {"who": "proxy"})) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        assert ask(server).json == {"who": "service"}
        assert not proxy.seen
        assert ask(server, trust_env=True).json == {"who": "proxy"}


def test_no_more_calls_than_the_limit_are_under_way() -> None:
    async def many(server: Server) -> None:
        client = Client(server.url, ClientConfig(**QUICK, concurrency=3))
        await asyncio.gather(*(client.call(HttpRequest("GET", str(n))) for n in range(20)))
        await client.close()

    with Server(late(0.02, says(200, {}))) as server:
        asyncio.run(many(server))
    assert server.most_under_way == 3


def test_every_status_has_a_meaning() -> None:
    for code in range(300, 600):
        kind, retryable = classify_http_status(code)
        assert not kind.stage, "an HTTP status alone is never a refusal"
        assert not (retryable and kind.is_final)


@pytest.mark.parametrize(
    "url", ["api.openai.com", "ftp://x/y", "https://me:secret@x/v1", "https://x/v1?key=secret"]
)
def test_addresses_that_are_none_or_carry_more(url: str) -> None:
    from stillme.editors.openai import Settings

    with pytest.raises(ValidationError):
        Settings(model="m", service="other", base_url=url)


def test_a_disk_that_takes_no_download_is_told_as_the_disk(tmp_path: Path) -> None:
    async def fetched(server: Server, path: Path) -> None:
        client = Client(server.url, ClientConfig(**QUICK))
        try:
            await client.download(HttpRequest("GET", "file"), path)
        finally:
            await client.close()

    with Server(says(200, {"a": "b" * 1000})) as server:
        asyncio.run(fetched(server, tmp_path / "here"))
    assert json.loads((tmp_path / "here").read_text()) == {"a": "b" * 1000}
    with Server(says(200, {"a": 1})) as server, pytest.raises(SetupError, match="not/there"):
        asyncio.run(fetched(server, tmp_path / "not" / "there"))
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
