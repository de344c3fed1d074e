"""Bots that take part in a study as people do: from the link to the code, over HTTP, each in its own manner.

They know the pages and nothing of the database. Whatever the server acknowledged they remember, so that whoever
rehearses or tests a study can compare it with what was kept. The same seed chooses the same.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from stillme.study.bundle import CANNOT_DETERMINE, CHECK
from stillme.study.rehearsal.browsing import Browser, Field, Form, Page

MOST_PAGES = 2_000  # of one tab; more is a bot that goes in circles
API = "/api/operations"
FULL, GONE = "full", "gone"  # ends beside the names of the pages that end a visit
ENDS = ("complete", "declined", "closed")


@dataclass(frozen=True)
class Manner:
    """How somebody takes part. `leaves_after`: items after which the browser is closed, once. `lost`: the share of
    replies that the network drops. `is_scripted`: by the page's script, else by plain forms. `looks`: how often
    somebody who finds the study full looks again, `every` so many seconds."""

    consents: bool = True
    is_attentive: bool = True
    is_varied: bool = True
    pace: float = 0.0  # seconds an item
    leaves_after: int | None = None
    tabs: int = 1
    lost: float = 0.0
    is_scripted: bool = True
    looks: int = 0
    every: float = 0.5


MANNERS: Mapping[str, Manner] = {
    "honest": Manner(pace=0.05),
    "quick": Manner(),
    "plain": Manner(is_scripted=False),
    "straight": Manner(is_varied=False),
    "inattentive": Manner(is_attentive=False),
    "returns": Manner(leaves_after=1),
    "vanishes": Manner(leaves_after=1),
    "tabs": Manner(tabs=2),
    "flaky": Manner(lost=0.2),
    "declines": Manner(consents=False),
}


@dataclass(frozen=True)
class Saved:
    """An operation that the server called saved; `id` and `rev` are empty where a plain form was sent."""

    id: str
    kind: str
    item: str
    field: str
    value: str
    rev: int


@dataclass
class Told:
    """What a bot can tell of its visit. `end`: the page that it ended at, or full, or gone in the middle."""

    name: str
    end: str = ""
    code: str = ""
    task: str = ""
    saved: list[Saved] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    items: set[str] = field(default_factory=set)
    requests: int = 0
    repeated: int = 0


class LeftError(Exception):
    """The bot has closed its browser, as its manner says."""


class Bot:
    """One participant with one link. `run` again is the same person coming back, with a new browser. `is_over`:
    whether looking for a place again is in vain."""

    def __init__(
        self,
        base: str,
        link: str,
        name: str,
        manner: Manner,
        seed: str = "",
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.base, self.link, self.manner, self.is_over = base, link, manner, is_over
        self.told = Told(name)
        self._chance = random.Random(f"{seed}\0{name}")  # noqa: S311 (a draw, not a secret)
        self._rev = 0
        self._is_back = False

    async def run(self) -> Told:
        """Takes part until there is nothing more to do."""
        async with Browser(self.base, self._chance, self.manner.lost) as browser:
            tabs = [asyncio.create_task(_Tab(self, browser).walk()) for _ in range(self.manner.tabs)]
            try:
                ends = await asyncio.gather(*tabs)
            finally:
                for tab in tabs:
                    tab.cancel()
                await asyncio.gather(*tabs, return_exceptions=True)
                self.told.requests += browser.requests
                self.told.repeated += browser.repeated
        self.told.end = next((end for end in ENDS if end in ends), ends[0])
        self._is_back = True
        return self.told

    def leaves(self) -> bool:
        after = self.manner.leaves_after
        return after is not None and not self._is_back and len(self.told.items) >= after

    def operation(self, kind: str, item: str, name: str = "", value: str = "") -> dict[str, Any]:
        """With an id of its own, and newer than all before."""
        self._rev = max(int(time.time() * 1000), self._rev + 1)
        return {"id": str(uuid4()), "kind": kind, "item": item, "field": name, "value": value, "rev": self._rev}

    def answer(self, name: str, options: Sequence[Field]) -> str:
        """What this person says to a question."""
        if name == CHECK:
            return self._checked(options)
        values = [one.value for one in options if one.value != CANNOT_DETERMINE]
        if not self.manner.is_varied:
            return values[0]
        return self._chance.choice(values)

    def _checked(self, options: Sequence[Field]) -> str:
        """The question says which option is meant; whoever does not read it takes the one beside."""
        asked = re.search(r"\d+", options[0].label)
        meant = int(asked.group()) - 1 if asked else 0
        return options[meant if self.manner.is_attentive else (meant + 1) % len(options)].value

    def pick(self, choices: Sequence[Any]) -> Any:
        return self._chance.choice(choices)


class _Tab:
    """One tab of a bot's browser: from page to page."""

    def __init__(self, bot: Bot, browser: Browser) -> None:
        self._bot, self._browser = bot, browser
        self._tried: dict[str, int] = {}
        self._looks = bot.manner.looks
        self._steps: Mapping[str, Callable[[Page], Any]] = {
            "guide": self._pass,
            "consent": self._consent,
            "tutorial": self._learn,
            "tasks": self._choose,
            "items": self._rate,
            "debrief": self._pass,
        }

    async def walk(self) -> str:
        """Where the visit ended."""
        page = await self._browser.open(self._bot.link)
        for _ in range(MOST_PAGES):
            name = page.path.strip("/").split("/")[0]
            if name in ENDS and page.status == 200:
                return self._end(name, page)
            try:
                after = await self._step(name, page)
            except LeftError:
                return GONE
            if after is None:
                return FULL
            page = after
        raise AssertionError(f"{self._bot.told.name} goes in circles at {page.path}")

    async def _step(self, name: str, page: Page) -> Page | None:
        if page.status in (401, 403) or name == "welcome":  # the session is another tab's, or over
            return await self._browser.open(self._bot.link)
        if page.status == 409:
            return await self._kindly(name, page)
        if page.status >= 400 or name not in self._steps:
            raise AssertionError(f"{self._bot.told.name} got {page.status} at {page.path}: {page.text[:2000]}")
        found: Page | None = await self._steps[name](page)
        return found

    async def _kindly(self, name: str, page: Page) -> Page | None:
        """A refusal in kind words: it is noted, and whoever may go on is sent on by the study itself."""
        self._bot.told.refused.append(page.path)
        if name == "p":  # the link itself is refused
            return None
        await asyncio.sleep(float(page.data.get("left", 0)))
        return await self._browser.open("/")

    def _end(self, name: str, page: Page) -> str:
        if name in ("complete", "declined"):
            self._bot.told.code = page.data.get("code", "")
        return name

    async def _submit(self, form: Form) -> Page:
        return await self._browser.submit(form, form.filled())

    async def _pass(self, page: Page) -> Page:
        return await self._submit(page.posts(page.path)[0])

    async def _consent(self, page: Page) -> Page:
        if not self._bot.manner.consents:
            return await self._submit(page.posts("/decline")[0])
        form = page.posts(page.path)[0]
        ticks = [(one.name, one.value) for one in form.fields if one.kind == "checkbox"]
        return await self._browser.submit(form, [*form.filled(), *ticks])

    async def _learn(self, page: Page) -> Page:
        """Another option at every try, until the tutorial lets one go on."""
        form = page.posts("/tutorial")[0]
        tries = self._tried[page.path] = self._tried.get(page.path, -1) + 1
        chosen = [(name, options[tries % len(options)].value) for name, options in form.choices().items()]
        return await self._browser.submit(form, [*form.filled(), *chosen])

    async def _choose(self, page: Page) -> Page | None:
        """A task that is free; None where there is none, however often one looks."""
        if forms := page.posts("/tasks"):
            form = self._bot.pick(forms)
            self._bot.told.task = dict(form.filled()).get("task", "")
            return await self._submit(form)
        if self._looks <= 0 or self._bot.is_over():
            return None
        self._looks -= 1
        await asyncio.sleep(self._bot.manner.every)
        return await self._browser.open("/tasks")

    async def _rate(self, page: Page) -> Page:
        """One item; the page that comes after it. Whoever has done all hands in."""
        if self._bot.leaves():
            raise LeftError
        if len(page.data["done"].split()) == int(page.data["of"]):
            return await self._submit(page.posts("/finish")[0])
        await asyncio.sleep(self._bot.manner.pace)
        form = page.posts("/items")[0]
        given = {name: self._bot.answer(name, options) for name, options in form.choices().items()}
        if self._bot.manner.is_scripted:
            return await self._by_script(page, given)
        return await self._by_form(page, form, given)

    async def _by_form(self, page: Page, form: Form, given: Mapping[str, str]) -> Page:
        """A plain form is acknowledged by the page that comes after it."""
        item = page.data["item"]
        sent = [pair for pair in form.filled() if pair[0] not in given]
        after = await self._browser.submit(form, [*sent, *given.items(), ("go", "next")])
        if after.status == 200 and after.path.startswith("/items"):  # anywhere else: the place is gone
            self._bot.told.saved += [Saved("", "answer", item, name, value, 0) for name, value in given.items()]
            self._bot.told.items.add(item)
        return after

    async def _by_script(self, page: Page, given: Mapping[str, str]) -> Page:
        """As the page's own script: everything is an operation, sent until it is saved or refused for good."""
        bot, item = self._bot, page.data["item"]
        answers = [bot.operation("answer", item, name, value) for name, value in given.items()]
        if bot.pick((True, False, False, False)):
            answers.append(bot.operation("comment", item, "comment", f"a remark about item {page.data['number']}"))
        cut = bot.pick(range(len(answers)))
        for batch in (
            [bot.operation("open", item), *answers[:cut]],
            [*answers[cut:], bot.operation("done", item)],
        ):
            if not await self._sent(page, batch):
                return await self._browser.open("/")  # which knows where this person belongs
        bot.told.items.add(item)
        number = int(page.data["number"])
        return await self._browser.open(f"/items/{number + 1}" if number < int(page.data["of"]) else "/items")

    async def _sent(self, page: Page, batch: list[dict[str, Any]]) -> bool:
        """Whether the study took a batch; what has to wait is sent again after waiting."""
        while batch:
            status, found = await self._browser.post(API, {"operations": batch}, page.data["token"])
            if status != 200:
                self._bot.told.refused.append(f"{status} {(found or {}).get('refused', '')}")
                return False
            waiting = self._noted(batch, found["results"])
            if waiting:
                await asyncio.sleep(max(wait for _, wait in waiting))
            batch = [one for one, _ in waiting]
        return True

    def _noted(
        self, batch: list[dict[str, Any]], results: list[dict[str, Any]]
    ) -> list[tuple[dict[str, Any], float]]:
        """Remembers what was acknowledged; the operations that may be tried again, with the seconds to wait."""
        sent = {one["id"]: one for one in batch}
        waiting = []
        for result in results:
            one = sent[result["id"]]
            if result.get("saved"):
                kept = {name: one[name] for name in ("id", "kind", "item", "field", "value", "rev")}
                self._bot.told.saved.append(Saved(**kept))
            elif result.get("wait") is not None:
                waiting.append((one, float(result["wait"])))
            else:
                self._bot.told.refused.append(result["refused"])
        return waiting
