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
    """Bytes, as sent and as gzip would make them; `elsewhere`: files of other hosts."""

    html: int
    html_gz: int
    whole: int
    whole_gz: int
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
        waiting = list(_linked(found[path].decode(), path))
        elsewhere: set[str] = set()
        while waiting:
            link = waiting.pop()
            if urlsplit(link).netloc:
                elsewhere.add(link)
            elif link not in found:
                found[link] = await _get(ask.http, base + link)
                waiting += _imported(found[link].decode(errors="replace"), link)
    sizes = {link: (len(content), len(gzip.compress(content, 6))) for link, content in found.items()}
    whole, packed = (sum(column) for column in zip(*sizes.values(), strict=True))
    return Weight(*sizes[path], whole, packed, len(found), len(elsewhere))


async def _get(http: aiohttp.ClientSession, address: str) -> bytes:
    async with http.get(address) as answer:
        answer.raise_for_status()
        return await answer.read()


def _linked(page: str, path: str) -> Iterator[str]:
    for tag in TAGS.findall(page):
        address = ADDRESS.search(tag)
        if address and (tag[1:7].lower() == "script" or LOADED.search(tag)):
            yield urljoin(path, address.group(1))


def _imported(text: str, path: str) -> Iterator[str]:
    """What a module or a style sheet asks for in its turn."""
    for module, sheet in IMPORTED.findall(text):
        yield urljoin(path, module or sheet)
