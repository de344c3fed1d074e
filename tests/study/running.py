"""A study as coordinators run it: a process whose every word is kept; and people who send what they like.

python -m tests.study.running OPTIONS-AS-JSON
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from sqlalchemy import Connection

from stillme.study import bundle as reading
from stillme.study.bundle import Bundle
from stillme.study.db import people, seats
from stillme.study.db.keys import Keys
from stillme.study.db.store import connect, write_now
from stillme.study.server.serve import Options, data_folder, database, serve
from stillme.web.middleware import secret
from tests.web.tool import ROOT

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """Its value, or nothing."""
        return next((value for known, value in self.headers if known.casefold() == name.casefold()), "")

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def token(self) -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.text)
        assert found, f"the page has no form of its session:\n{self.text}"
        return found[1]

    @property
    def cookies(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.headers:
            if name.casefold() == "set-cookie":
                found.update(SimpleCookie(value).items())
        return found


@dataclass
class Running:
    """`folder` has the bundle; the data are beside it."""

    folder: Path
    public: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    port: int = 0
    said: list[str] = field(default_factory=list)

    def start(self) -> Self:
        options = {**asdict(self.options), "port": self.port}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.study.running", json.dumps(options)],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started = threading.Event()
        self._reader = threading.Thread(target=self._listen, args=(started,), daemon=True)
        self._reader.start()
        assert started.wait(60) and self.port, "".join(self.said)
        self.engine = connect(database(self.options))
        return self

    @property
    def options(self) -> Options:
        data = data_folder(self.folder)
        return Options(bundle=str(self.folder), data=str(data), public=self.public, **self.more)

    def _listen(self, started: threading.Event) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.match(r"Listening on http://\S+:(\d+)", line):
                self.port = int(found[1])
                started.set()
        started.set()

    def stop(self) -> str:
        """Ends it; everything that it ever said."""
        self.process.terminate()
        self.process.wait(30)
        self._reader.join()
        assert self.process.stdout
        self.process.stdout.close()
        self.engine.dispose()
        return "".join(self.said)

    def do(self, work: Callable[[Connection], T]) -> T:
        return write_now(self.engine, work)

    @property
    def bundle(self) -> Bundle:
        return reading.read(self.folder)

    @property
    def keys(self) -> Keys:
        return Keys(secret(data_folder(self.folder)))

    @property
    def host(self) -> str:
        return self.public.removeprefix("https://") or f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return self.public or f"http://{self.host}"


@dataclass
class Visitor:
    """Sends requests and keeps cookies; what a browser would add by itself can be left out or forged."""

    server: Running
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> Reply:
        """Whatever path as it stands. A header that is None is not sent."""
        usual: dict[str, str | None] = {"Host": self.server.host, "Cookie": self._cookie()}
        if method not in ("GET", "HEAD"):
            usual |= {"Origin": self.server.origin, "Sec-Fetch-Site": "same-origin"}
        line = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**usual, "Content-Length": str(len(body)), **(headers or {})}.items():
            if value is not None:
                line.putheader(name, value)
        line.endheaders(body)
        got = line.getresponse()
        reply = Reply(got.status, got.getheaders(), got.read())
        line.close()
        self.cookies |= {name: morsel.value for name, morsel in reply.cookies.items()}
        return reply

    def _cookie(self) -> str | None:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items()) or None

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, headers: Mapping[str, str | None] | None = None, **fields: str) -> Reply:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(fields).encode(), {**kind, **(headers or {})})

    def send(self, path: str, content: Any, headers: Mapping[str, str | None] | None = None) -> Reply:
        kind = {"Content-Type": "application/json"}
        return self.ask("POST", path, json.dumps(content).encode(), {**kind, **(headers or {})})

    def enter(self, pid: str, submission: str) -> Reply:
        return self.get(f"/p/start?PROLIFIC_PID={pid}&STUDY_ID=study&SESSION_ID={submission}")

    @property
    def session(self) -> str:
        return next((value for name, value in self.cookies.items() if name.endswith("stillme-study")), "")

    def sit(self, task: str = "t00") -> str:
        """Puts who has entered at a task: the sitting's id."""
        server, bundle = self.server, self.server.bundle

        def work(connection: Connection) -> str:
            person = people.who(connection, server.keys, self.session, 0.0)
            assert person is not None
            for step in ("guided", "tutored"):
                people.note(connection, person.id, step, 1.0)
            people.consent(connection, person.id, bundle.texts.consent.version, 1.0)
            return seats.take(connection, bundle, person.id, task, time.time())

        return server.do(work)

    @property
    def form_token(self) -> str:
        return self.server.keys.form_token(self.session)


def main(given: str) -> None:
    serve(Options(**json.loads(given)), lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
