"""The web tools, swept over every route and method with whatever a client may send.

An input is a request: its line, its headers, an empty line, its body. It is put before the app as a server would put
it, past any client that would refuse to send it. No answer is a 5xx, shows a traceback, or lacks the security headers.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes, urlencode

from starlette.routing import Mount, Route

from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import server as editor_server
from stillme.ledger import Run
from stillme.report.review.app import make_app as review_app
from stillme.report.review.desk import Desk as ReviewDesk
from stillme.sources.selection.app import make_app as select_app
from stillme.sources.selection.store import Store
from stillme.web.middleware import HEADERS, Hosts, Sessions
from tests.editors.test_server import CALL, prepared
from tests.fuzz.damage import ODD, WORDS, Input, as_json, bytes_of, tree
from tests.fuzz.target import Feed, Target
from tests.report.review import wall
from tests.sources.selection import shelf
from tests.study.office import Office

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
HOST = "localhost"
MORE: tuple[str, ...] = (
    "origin",
    "sec-fetch-site",
    "range",
    "if-none-match",
    "if-modified-since",
    "accept",
    "accept-encoding",
    "cookie",
)
MORE += (
    "x-forwarded-for",
    "x-forwarded-host",
    "content-length",
    "content-type",
    "host",
    "referer",
    "x-stillme-token",
)
SAID: tuple[str, ...] = (
    "http://[",
    "http://localhost:99999",
    "//",
    "bytes=5-1",
    "bytes=-99999999999999999999",
    '"',
    "*/*;q=x",
    "gzip;q=1e9",
)
SAID += (
    "evil.example",
    "localhost",
    "same-origin",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=x",
)
KEY = b"s" * 64


class Site:
    """An app, whoever asks it, and words that mean something to it."""

    def __init__(
        self, app: Any, cookie: str, fields: dict[str, Any], holes: dict[str, str], token: str = ""
    ) -> None:
        self.app, self.cookie, self.fields, self.holes, self.token = app, cookie, fields, holes, token
        self.targets = sorted({one for route in app.routes for one in targets(route)})
        self.loop = asyncio.new_event_loop()

    def request(self, chance: random.Random) -> bytes:
        path, method = chance.choice(self.targets)
        method = method if chance.random() < 0.85 else chance.choice(METHODS)
        path = re.sub(r"\{(\w+)[^}]*\}", lambda hole: self._filled(hole[1], chance), path)
        query = f"?{self._form(chance)}" if chance.random() < 0.4 else ""
        is_json = "/api/" in path
        body = as_json(tree(self.fields, chance)) if is_json else self._form(chance).encode()
        if chance.random() < 0.1:
            body = bytes_of(body or b"x")(chance)
        headers = {"host": HOST, "origin": f"http://{HOST}", "content-type": JSON if is_json else FORM}
        headers |= {"cookie": self.cookie} if chance.random() < 0.9 else {}
        while chance.random() < 0.25:
            headers[chance.choice(MORE)] = chance.choice((*SAID, str(chance.choice(ODD))))
        head = "".join(f"{name}: {_line(value)}\n" for name, value in headers.items())
        return f"{method} {path}{query}\n{head}\n".encode("utf-8", "replace") + body

    def _filled(self, name: str, chance: random.Random) -> str:
        right = self.holes.get(name, "1")
        return (
            right if chance.random() < 0.6 else quote(chance.choice((*WORDS, "..", "%2e%2e", "0" * 64)), safe="%")
        )

    def _form(self, chance: random.Random) -> str:
        pairs = {name: str(value) for name, value in self.fields.items() if chance.random() < 0.8}
        if self.token and chance.random() < 0.9:
            pairs["token"] = self.token
        if pairs and chance.random() < 0.7:
            pairs[chance.choice((*pairs, chance.choice(WORDS)))] = str(chance.choice(ODD))
        return urlencode(
            {name.encode("utf-8", "replace"): value.encode("utf-8", "replace") for name, value in pairs.items()}
        )

    def feed(self, content: bytes) -> None:
        status, headers, body = self.loop.run_until_complete(asked(self.app, content))
        assert status < 500, (status, body[:300])
        assert b"Traceback" not in body
        lacking = [name for name in HEADERS if name.lower().encode() not in headers]
        assert not lacking, (status, lacking)


def _line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


def targets(route: Any) -> Iterator[tuple[str, str]]:
    """(path, method) of whatever a route answers."""
    if isinstance(route, Mount):
        yield f"{route.path}/{{path}}", "GET"
    elif isinstance(route, Route):
        yield from ((route.path, method) for method in route.methods or ("GET",))


async def asked(app: Any, content: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """What the app answers to a request as a server hands it over."""
    head, _, body = content.partition(b"\n\n")
    line, *lines = head.split(b"\n")
    method, _, address = line.partition(b" ")
    path, _, query = address.partition(b"?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": method.decode("latin-1"), "path": unquote_to_bytes(path).decode("utf-8", "replace"), "raw_path": path,
        "query_string": query, "headers": [(n.strip().lower(), v.strip()) for n, _, v in (one.partition(b":") for one in lines)],
        "client": ("127.0.0.1", 5), "server": (HOST, 80), "state": {},
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(given, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    (start,) = (one for one in sent if one["type"] == "http.response.start")
    whole = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
    return start["status"], dict(start["headers"]), whole


def _site(site: Site, stack: ExitStack) -> tuple[Input, Feed]:
    stack.callback(site.loop.close)
    return site.request, site.feed


def _select(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    folder.mkdir(parents=True, exist_ok=True)
    plan = shelf.make_plan(folder, shelf.FEW)
    store = stack.enter_context(Store.open_for_writing(plan.folder))
    shelf.fill(plan, store)
    one, sessions = store.candidates()[0], Sessions(KEY, ("anna", "ben"))
    fields = {
        "op": "0b5c7f0e-0000-4000-8000-000000000001", "verb": "choose", "cell": one.cell, "candidate": one.key,
        "value": True, "milliseconds": 5, "show": "undecided", "s": 192, "key": "x", "to": "next", "from": one.cell,
        "first": "anna", "second": "ben",
    }  # fmt: skip
    cookie = f"{sessions.cookie_name}={sessions.cookie('anna')}"
    app = select_app(plan, store, ("anna", "ben"), KEY)
    holes = {"cell": one.cell, "sha256": one.portrait.image, "path": "select.css"}
    return _site(Site(app, cookie, fields, holes, sessions.token("anna")), stack)


def _review(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    folder.mkdir(parents=True, exist_ok=True)
    run = wall.build(folder, prompts=2, races=1, editors=("even",))
    desk, sessions = ReviewDesk(stack.enter_context(Run.join(run))), Sessions(KEY, ["anna"])
    trial = desk.state().trials.row(0, named=True)
    fields = {
        "trial": trial["trial"], "axis": "race_drift", "score": 3, "why": "w", "editor": "even", "page": 1, "flag": "open",
        "race": "white", "to": "next", "from": trial["trial"], "s": 192, "withdrawn": False, "rounding": "up", "sort": "x",
    }  # fmt: skip
    cookie = f"{sessions.cookie_name}={sessions.cookie('anna')}"
    holes = {"trial": trial["trial"], "sha256": trial["image"] or "0" * 64, "path": "review.css"}
    site = Site(review_app(desk, "anna", KEY), cookie, fields, holes, sessions.token("anna"))
    site.targets = [
        one for one in site.targets if one[0] != "/report"
    ]  # a report is built for it, which takes seconds
    return _site(site, stack)


def _study(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    folder.mkdir(parents=True, exist_ok=True)
    office = Office(folder, items=2, tasks=1, seats=9, side=8)
    stack.callback(office.close)
    browser = office.coordinator()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    fields = {
        "go": "next",
        "task": "t00",
        "reason": "r",
        "sure": "yes",
        "name": "x",
        "password": "y",
        "operations": [],
    }
    holes = {"sha256": next(iter(office.bundle.pictures)), "path": "base.css", "action": "exclude"}
    site = Site(office.app, cookie, fields, holes)
    return _site(site, stack)


def _serving(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """The editors' server, before an editor that gives back what it gets."""
    site = Site(
        editor_server.app(cast(editor_server.EditorWorker, Returning()), Hosts.of("127.0.0.1")), "", {"n": 1}, {}
    )
    part = 'content-disposition: form-data; name="'
    fields = {"prompt": "go", "seed": "7", "n": "1", "size": "auto", "model": "scripted", "settings": "a" * 64}
    body = "".join(f'--x\r\n{part}{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    body += f'--x\r\n{part}image"; filename="a.jpg"\r\ncontent-type: image/jpeg\r\n\r\npicture\r\n--x--\r\n'
    head = "POST /v1/images/edits\nhost: 127.0.0.1\ncontent-type: multipart/form-data; boundary=x\n\n"
    damaged = bytes_of(body.encode())

    def made(chance: random.Random) -> bytes:
        return site.request(chance) if chance.random() < 0.3 else head.encode() + damaged(chance)

    stack.callback(site.loop.close)
    return made, site.feed


class Returning:
    """A desk of the editors' server without a process behind it."""

    row, settings, failure, loaded, waiting = "scripted", "a" * 64, "", True, 0
    prepared, call = prepared(), CALL

    async def edit(self, request: EditRequest) -> EditReply:
        return EditReply(Status.OK, request.image)


TARGETS = (
    Target("requests to the selection tool", _select, 4_000),
    Target("requests to the review tool", _review, 4_000),
    Target("requests to the study", _study, 4_000),
    Target("requests to the editors' server", _serving, 4_000),
)
