"""How tests ask an editor behind a network: one edit, on a loop of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from stillme.core import images
from stillme.core.records import EditReply, EditRequest
from stillme.engine.backends import Prepared
from stillme.sources import heads


def request(*references: bytes) -> EditRequest:
    picture = heads.photograph(heads.load(heads.keys()[0]))
    return EditRequest("key", images.encode(picture), "Add glasses.", 7, references=references)


def ask(prepared: Prepared[Any], asked: EditRequest | None = None) -> EditReply:
    async def call() -> EditReply:
        editor = prepared.make()
        try:
            reply: EditReply = await editor.edit(asked or request())
            return reply
        finally:
            await editor.close()

    return asyncio.run(call())
