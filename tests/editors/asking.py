"""How tests ask an editor behind a network: one edit, on a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from stillme.core import images
from stillme.core.records import EditReply, EditRequest
from stillme.editors import bfl, gemini, openai
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.protocol import builtin
from stillme.sources import heads
from tests.editors.providers import Server

KEY, SECRET = "STILLME_TEST_KEY", "sk-test-0123456789"
PLACE = BackendContext(Path(), builtin(), KEY)


def request(*references: bytes) -> EditRequest:
    picture = heads.photograph(heads.load(heads.keys()[0]))
    return EditRequest("key", images.encode(picture), "Add glasses.", 7, references=references)


@dataclass(frozen=True)
class Hosted:
    """A backend of hosted editors, with settings under which nothing is waited for."""

    kind: str
    module: ModuleType
    quick: Mapping[str, Any]

    def settings(self, **settings: Any) -> Any:
        return self.module.Settings.model_validate({**self.quick, **settings})

    def prepared(self, **settings: Any) -> PreparedEditor[Any]:
        made: PreparedEditor[Any] = self.module.prepare(self.settings(**settings), PLACE)
        return made

    def edit(
        self, server: Server, asked: EditRequest | None = None, place: BackendContext = PLACE, **more: Any
    ) -> EditReply:
        async def call() -> EditReply:
            editor = self.module.prepare(self.settings(base_url=server.url, **more), place).make()
            try:
                reply: EditReply = await editor.edit(asked or request())
                return reply
            finally:
                await editor.close()

        return asyncio.run(call())

    def audit(self, load: Callable[..., Config], server: Server, prompts: int = 3, **settings: Any) -> Config:
        """One portrait, some prompts, this editor, one edit after the other."""
        groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
        told = {**self.quick, "base_url": server.url, "concurrency": 1, **settings}
        return load(
            sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
            experiments={"diagnose": {"prompts": ["O-01", "V-02", "V-03"][:prompts]}},
            editors=[{"id": "hosted", "kind": self.kind, "key_env": KEY, "settings": told}],
            judges=[],
        )


QUICK = {"backoff_s": 0.01, "timeout_s": 60, "attempts": 3}
OPENAI = Hosted("openai", openai, {**QUICK, "model": "gpt-image-2"})
GEMINI = Hosted("gemini", gemini, {**QUICK, "model": "gemini-3.1-flash-image"})
BFL = Hosted("bfl", bfl, {**QUICK, "model": "flux-2-pro", "poll_s": 0.01})


def rows(config: Config, sql: str) -> list[tuple[Any, ...]]:
    with Run.open_readonly(config.run) as seen:
        return [tuple(row) for row in seen.query(sql)]
