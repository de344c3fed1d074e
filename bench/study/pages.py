"""What the rating page weighs: its HTML, and with the scripts and styles that it loads from the same server.

Pictures and fonts are left out; what a page loads from other hosts is counted but cannot be weighed here.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp

from bench.study.load import Order, Seen, asking
from bench.study.walks import WALKS

TAGS = re.compile(r"<(?:script|link)\b[^>]*>", re.IGNORECASE)
ADDRESS = re.compile(r"""\b(?:src|href)\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
LOADED = re.compile(r"""\brel\s*=\s*["']?(?:stylesheet|modulepreload)""", re.IGNORECASE)
IMPORTED = re.compile(
    r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.{0,2}/[^"']+)["']|@import\s+(?:url\()?["']([^"']+)["']"""
)


@dataclass(frozen=True)
class Weight:
    """Bytes: of the HTML, of everything, plain and as gzip would make them; and `sent`, to a browser that takes
    gzip. `elsewhere`: files of other hosts."""

    html: int
    html_gz: int
    whole: int
    whole_gz: int
    sent: int
    files: int
    elsewhere: int


def weigh(walk: str, base: str) -> Weight:
    return asyncio.run(_weigh(walk, base))


async def _weigh(walk: str, base: str) -> Weight:
    async with asking(Order(walk, base, 1, 1, 0, 0, 0), Seen()) as ask:
        one = WALKS[walk](ask)
        await one.enter("page")
        path = await one.load(0)
        found = {path: await _get(ask.http, base + path)}
        waiting, elsewhere = list(_linked(found[path].content.decode(), path)), set()
        while waiting:
            link = waiting.pop()
            if urlsplit(link).netloc:
                elsewhere.add(link)
            elif link not in found:
                found[link] = await _get(ask.http, base + link)
                waiting += _imported(found[link].content.decode(errors="replace"), link)
    files = list(found.values())
    whole, packed, sent = (sum(sizes) for sizes in zip(*(file.sizes for file in files), strict=True))
    return Weight(*found[path].sizes[:2], whole, packed, sent, len(files), len(elsewhere))


@dataclass(frozen=True)
class File:
    content: bytes
    sent: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        return len(self.content), len(gzip.compress(self.content, 6)), self.sent


async def _get(http: aiohttp.ClientSession, address: str) -> File:
    async with http.get(address, headers={"Accept-Encoding": "gzip"}) as answer:
        answer.raise_for_status()
        content = await answer.read()
        return File(content, answer.content_length or len(content))


def _linked(page: str, path: str) -> Iterator[str]:
    for tag in TAGS.findall(page):
        address = ADDRESS.search(tag)
        if address and (tag[1:7].lower() == "script" or LOADED.search(tag)):
            yield urljoin(path, address.group(1))


def _imported(text: str, path: str) -> Iterator[str]:
    """What a module or a style sheet asks for in its turn."""
    for module, sheet in IMPORTED.findall(text):
        yield urljoin(path, module or sheet)
