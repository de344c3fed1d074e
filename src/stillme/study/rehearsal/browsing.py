"""A browser without windows: cookies, redirects, forms. It knows HTML and HTTP, and nothing of the study.

A request that got no answer is sent again, as a person would reload: a server that was killed and comes back is
waited for. `lost` makes the network drop replies on purpose.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from stillme.core.errors import SetupError

if TYPE_CHECKING:
    import aiohttp

PATIENCE = 180.0  # seconds that a server may be away
TIMEOUT = 60.0  # seconds that one answer may take
AGAIN = frozenset({429, 502, 503, 504})
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
CHOOSING = ("radio", "checkbox")


@dataclass
class Field:
    """A control of a form. `label`: the words of its group, where it has one."""

    name: str
    value: str
    kind: str
    is_set: bool = False
    label: str = ""


@dataclass
class Form:
    action: str
    method: str
    fields: list[Field] = field(default_factory=list)
    buttons: list[Field] = field(default_factory=list)

    def filled(self) -> list[tuple[str, str]]:
        """What a browser sends if nobody touches anything."""
        return [(one.name, one.value) for one in self.fields if one.kind not in CHOOSING or one.is_set]

    def choices(self) -> dict[str, list[Field]]:
        """Name -> its radio buttons, in their order."""
        found: dict[str, list[Field]] = {}
        for one in self.fields:
            if one.kind == "radio":
                found.setdefault(one.name, []).append(one)
        return found

    def press(self, value: str) -> tuple[str, str]:
        """The button with a value."""
        return next((one.name, one.value) for one in self.buttons if one.value == value)


@dataclass
class Page:
    """What came back: the address that it has in the end, its forms, links and data attributes."""

    status: int
    url: str
    text: str
    forms: list[Form] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def posts(self, to: str = "") -> list[Form]:
        """The forms that change something, at an address that begins so."""
        return [one for one in self.forms if one.method == "post" and one.action.startswith(to)]


class _Reader(HTMLParser):
    """Collects forms, links and data attributes; the last value of an attribute holds."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = urlsplit(base).path
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.data: dict[str, str] = {}
        self._form: Form | None = None
        self._group: list[Field] = []
        self._legend: list[str] | None = None
        self._label = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.data.update({name[5:]: value for name, value in given.items() if name.startswith("data-")})
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "form":
            target = urlsplit(urljoin(self.base, given.get("action") or self.base)).path
            self._form = Form(target, given.get("method", "get").lower())
            self.forms.append(self._form)
        elif tag == "legend":
            self._legend = []
        elif tag in ("input", "button", "textarea") and "name" in given and "disabled" not in given:
            self._control(tag, given)

    def _control(self, tag: str, given: Mapping[str, str]) -> None:
        if self._form is None:
            return
        kind = given.get("type", "submit" if tag == "button" else "text") if tag != "textarea" else tag
        value = given.get("value", "on" if kind == "checkbox" else "")
        made = Field(given["name"], value, kind, "checked" in given, self._label)
        (self._form.buttons if kind == "submit" else self._form.fields).append(made)

    def handle_data(self, data: str) -> None:
        if self._legend is not None:
            self._legend.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "legend" and self._legend is not None:
            self._label, self._legend = " ".join(" ".join(self._legend).split()), None
        elif tag == "fieldset":
            self._label = ""
        elif tag == "form":
            self._form = None


def read(status: int, url: str, text: str) -> Page:
    reader = _Reader(url)
    reader.feed(text)
    reader.close()
    return Page(status, url, text, reader.forms, reader.links, reader.data)


class Browser:
    """One person's browser: any number of tabs may use it at once. `lost`: the share of replies that get lost."""

    def __init__(self, base: str, chance: random.Random, lost: float = 0.0, patience: float = PATIENCE) -> None:
        self.base = base.rstrip("/")
        self._chance, self._lost, self._patience = chance, lost, patience
        self._session: aiohttp.ClientSession | None = None
        self.requests = 0
        self.repeated = 0

    async def __aenter__(self) -> Browser:
        import aiohttp

        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # servers of rehearsals have no names
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            headers={"User-Agent": "stillme-bot", "Accept-Language": "en"},
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def open(self, address: str) -> Page:
        """The page at an address, after its redirects."""
        status, url, text = await self._send("GET", address, {"Sec-Fetch-Site": "none"})
        return read(status, url, text)

    async def submit(self, form: Form, values: Iterable[tuple[str, str]]) -> Page:
        """The page that a form leads to."""
        status, url, text = await self._send("POST", form.action, self._own(), data=list(values))
        return read(status, url, text)

    async def post(self, path: str, content: object, token: str) -> tuple[int, Any]:
        """What a script of the page sends and gets, as JSON."""
        headers = {**self._own(), "Content-Type": "application/json", "X-Stillme-Token": token}
        status, _, text = await self._send("POST", path, headers, data=json.dumps(content).encode())
        try:
            return status, json.loads(text)
        except ValueError:
            return status, None

    def _own(self) -> dict[str, str]:
        return {"Origin": self.base, "Sec-Fetch-Site": "same-origin"}

    async def _send(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> tuple[int, str, str]:
        import aiohttp

        until, wait = time.monotonic() + self._patience, FIRST_WAIT
        while True:
            try:
                return await self._try(method, path, headers, **more)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                if time.monotonic() > until:
                    raise SetupError(
                        f"{self.base} gave no answer for {self._patience:.0f} seconds ({error or type(error)}).",
                        "Look whether the server still runs.",
                    ) from None
            self.repeated += 1
            await asyncio.sleep(wait * self._chance.uniform(0.5, 1))
            wait = min(wait * 2, LONGEST_WAIT)

    async def _try(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> tuple[int, str, str]:
        """One attempt; a reply that gets lost, and a server that is not well, are the same to a browser."""
        import aiohttp

        assert self._session is not None
        self.requests += 1
        is_lost = self._chance.random() < self._lost
        async with self._session.request(
            method, urljoin(self.base + "/", path), headers=headers, **more
        ) as answer:
            if is_lost:
                raise aiohttp.ClientConnectionError("the reply got lost")
            text = await answer.text()
            if answer.status in AGAIN:
                await asyncio.sleep(min(float(answer.headers.get("Retry-After", 0)), 5.0))
                raise aiohttp.ClientConnectionError(f"{answer.status}")
            return answer.status, str(answer.url), text
