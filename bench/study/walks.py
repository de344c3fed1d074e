"""One participant at each server: entering, loading a page, saving its answers, leaving; as its own pages do it.

What is sent is what a browser would send. An answer that is not the expected one stops the participant.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import aiohttp

from bench.study.forms import Form, forms
from bench.study.peers import FIELDS, ROOM
from bench.study.pictures import POINTS, name

ENTER, LOAD, SAVE, LEAVE = "enter", "load", "save", "leave"
FOLLOWED = (301, 302, 303, 307, 308)
MOST_STEPS = 60  # before the first item, and after the last
ITEM, TOKEN = re.compile(r'data-item="([^"]+)"'), re.compile(r'data-token="([^"]+)"')
FIELD = re.compile(r'<input[^>]*type="radio"[^>]*name="([^"]+)"')
Record = Callable[[str, float, int], None]


class StoppedError(Exception):
    """The server answered something that a participant cannot go on from."""


class Asking:
    """One participant's browser: cookies, and a clock on every request."""

    def __init__(self, http: aiohttp.ClientSession, base: str, record: Record) -> None:
        self.http, self.base, self._record = http, base, record

    async def __aenter__(self) -> Asking:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.http.close()

    def note(self, what: str, since: float) -> None:
        """The time of something that took several requests, which were counted already."""
        self._record(what, time.perf_counter() - since, 0)

    async def ask(self, what: str, method: str, path: str, **sent: Any) -> tuple[int, str, str]:
        """Status, where it sends us, and the text. Redirects are not followed."""
        began = time.perf_counter()
        try:
            async with self.http.request(method, self.base + path, allow_redirects=False, **sent) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StoppedError(f"{method} {_plain(path)}: {type(error).__name__}") from None
        self._record(what, time.perf_counter() - began, 1)
        if answer.status >= 400:
            raise StoppedError(f"{method} {_plain(path)}: status {answer.status}: {text[:200]}")
        return answer.status, _local(answer.headers.get("location", ""), path), text

    async def go(self, what: str, method: str, path: str, **sent: Any) -> tuple[str, str]:
        """Follows redirects: where we are in the end, and the page."""
        status, to, text = await self.ask(what, method, path, **sent)
        while status in FOLLOWED:
            path = to
            status, to, text = await self.ask(what, "GET", path)
        return path, text


def _plain(path: str) -> str:
    return path.partition("?")[0]


def _local(location: str, path: str) -> str:
    if not location:
        return ""
    parts = urlsplit(urljoin(path, location))
    return parts.path + (f"?{parts.query}" if parts.query else "")


class Walk(Protocol):
    """What one participant does. `load` says where the page is; `save` also waits while the participant thinks."""

    async def enter(self, name: str) -> None: ...
    async def load(self, item: int) -> str: ...
    async def save(self, item: int, think: float) -> None: ...
    async def leave(self) -> None: ...


class OTree:
    """A page is loaded and its form is posted; the answer says where the next page is."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask
        self._path = ""

    async def enter(self, name: str) -> None:
        path = f"/room/{ROOM}?participant_label={name}&welcome_page_ok=1"
        while "/p/" not in path or "/rate/" not in path:
            _, path, _ = await self._ask.ask(ENTER, "GET", path)
            if not path:
                raise StoppedError("oTree: the room leads nowhere")
        self._path = path

    async def load(self, item: int) -> str:
        _, _, text = await self._ask.ask(LOAD, "GET", self._path)
        _expect(f"Item {item + 1}<" in text or f"Item {item + 1}\n" in text, "oTree: another page")
        return self._path

    async def save(self, item: int, think: float) -> None:
        await asyncio.sleep(think)
        status, to, _ = await self._ask.ask(SAVE, "POST", self._path, data=dict(_points()))
        _expect(status in FOLLOWED, "oTree: the form was not taken")
        self._path = to

    async def leave(self) -> None:
        return


class Potato:
    """Answers are saved by one request, another goes on, and the page is loaded again, as its own script does."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask

    async def enter(self, name: str) -> None:
        await self._ask.go(ENTER, "GET", f"/?PROLIFIC_PID={name}&STUDY_ID=bench&SESSION_ID=s{name}")

    async def load(self, item: int) -> str:
        path, text = await self._ask.go(LOAD, "GET", "/annotate")
        _expect(f"/media/{name(item, 'a')}" in text, "Potato: another page")
        return path

    async def save(self, item: int, think: float) -> None:
        await asyncio.sleep(think)
        began, instance = time.perf_counter(), f"item{item:03}"
        answers = {f"{field}:{point}": point for field, point in _points()}
        saved = {
            "instance_id": instance,
            "annotations": answers,
            "cleared_schemas": [],
            "span_annotations": [],
            "client_timestamp": "2026-01-01T00:00:00Z",
            "response_time_seconds": 1.0,
        }
        _, _, text = await self._ask.ask("", "POST", "/updateinstance", json=saved)
        _expect('"error"' not in text, "Potato: answers were not taken")
        onward = {"action": "next_instance", "instance_id": instance}
        await self._ask.ask("", "POST", "/annotate", json=onward, headers={"X-Potato-Navigation": "1"})
        self._ask.note(SAVE, began)

    async def leave(self) -> None:
        return


def _points() -> list[tuple[str, str]]:
    return [(field, random.choice(POINTS)) for field in FIELDS]


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise StoppedError(otherwise)


class Ours:
    """The forms on the way to a task, then a page and its answers: those of a page together, as a page sends what
    waited while it was offline."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask
        self._headers = {"Origin": ask.base, "Sec-Fetch-Site": "same-origin"}
        self._item, self._fields, self._token = "", [""], ""

    async def enter(self, name: str) -> None:
        """Fills in whatever form a page has, until the first item is there."""
        path, text = await self._ask.go(
            ENTER, "GET", f"/p/start?PROLIFIC_PID={name}&STUDY_ID=bench&SESSION_ID=s{name}"
        )
        for step in range(MOST_STEPS):
            if path.startswith("/items/"):
                return
            form = _onward(path, forms(text))
            path, text = await self._ask.go(
                ENTER, "POST", form.action or path, data=form.filled(step), headers=self._headers
            )
        raise StoppedError(f"still at {path}")

    async def load(self, item: int) -> str:
        path = f"/items/{item + 1}"
        _, _, text = await self._ask.ask(LOAD, "GET", path)
        self._read(text)
        return path

    async def save(self, item: int, think: float) -> None:
        await asyncio.sleep(think)
        await self._send(SAVE, [_operation("open", self._item), *self._answers(), _operation("done", self._item)])

    async def leave(self) -> None:
        """Finishes the task and reads on, up to the code."""
        sent: Any = {"token": self._token}
        path = "/finish"
        for step in range(MOST_STEPS):
            path, text = await self._ask.go(LEAVE, "POST", path, data=sent, headers=self._headers)
            if path == "/complete":
                return
            form = _onward(path, forms(text))
            path, sent = form.action or path, form.filled(step)
        raise StoppedError(f"stillme: never done, at {path}")

    def _read(self, text: str) -> None:
        item, token = ITEM.search(text), TOKEN.search(text)
        self._fields = list(dict.fromkeys(FIELD.findall(text)))
        if item is None or token is None or len(self._fields) != len(FIELDS):
            raise StoppedError("stillme: a page without an item, a token or ten questions")
        self._item, self._token = item.group(1), token.group(1)

    def _answers(self) -> list[dict[str, Any]]:
        return [_operation("answer", self._item, field, random.choice(POINTS)) for field in self._fields]

    async def _send(self, what: str, operations: list[dict[str, Any]]) -> None:
        headers = {**self._headers, "X-Stillme-Token": self._token}
        _, _, text = await self._ask.ask(
            what, "POST", "/api/operations", json={"operations": operations}, headers=headers
        )
        results = json.loads(text)["results"]
        _expect(all(one.get("saved") for one in results), f"stillme: {results}")


class Singly(Ours):
    """The same, every operation by itself, as a page that is online sends them."""

    async def save(self, item: int, think: float) -> None:
        operations = [_operation("open", self._item), *self._answers(), _operation("done", self._item)]
        for operation in operations:
            await self._send(SAVE, [operation])
            await asyncio.sleep(think / len(operations))


def _operation(kind: str, item: str, field: str = "", value: str = "") -> dict[str, Any]:
    made = {"id": str(uuid.uuid4()), "kind": kind, "item": item, "field": field, "value": value}
    return {**made, "rev": 1, "ms": 1000 if kind == "answer" else None, "age": 0}


def _onward(path: str, found: list[Form]) -> Form:
    """The form that leads on: not the one for those who do not take part."""
    for form in found:
        if not any(word in form.action for word in ("no-consent", "decline", "leave")):
            return form
    raise StoppedError(f"{path} has no form")


WALKS: Mapping[str, Callable[[Asking], Walk]] = {"otree": OTree, "potato": Potato, "ours": Ours, "singly": Singly}
