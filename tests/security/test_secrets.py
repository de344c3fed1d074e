"""Keys are in the environment and nowhere else: an audit against services that repeat the key in whatever they say,
then a search for it through everything that the audit left behind."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import dump_audit
from tests.editors.providers import Seen, Server, Turn, b64, bfl, png
from tests.judges.asking import PROTOCOL, answered, completion

KEYS = {
    "STILLME_TEST_OPENAI": "sk-fake-openai-4f1d9b7c2a",
    "STILLME_TEST_GEMINI": "AIza-fake-gemini-83ce01d5",
    "STILLME_TEST_BFL": "bfl-fake-key-77aa10c3e9",
}
QUICK = {"attempts": 2, "backoff_s": 0.01, "timeout_s": 20}


def telltale(good: Turn) -> Turn:
    """Every other call ends as it should; the others repeat the key, in an error, a header or a page."""
    calls = iter(range(10_000))

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        key = next((key for key in KEYS.values() for value in request.headers.values() if key in value), "")
        number = next(calls)
        said = f"no luck with the key {key}, or with Bearer {key}"
        if number % 6 == 1:
            return web.json_response({"error": {"message": said, "code": key, "type": "x"}}, status=400)
        if number % 6 == 3:
            return web.json_response({"detail": said}, status=500, headers={"x-request-id": key}, reason=key)
        if number % 6 == 5:
            return web.Response(
                text=f"<html>{said}</html>", content_type="text/html", headers={"x-request-id": key}
            )
        return await good(request, seen)

    return turn


async def shown_openai(request: web.Request, seen: Seen) -> web.StreamResponse:
    key = KEYS["STILLME_TEST_OPENAI"]
    return web.json_response({"data": [{"b64_json": b64(png(5)), "revised_prompt": key}], "usage": {"note": key}})


async def shown_gemini(request: web.Request, seen: Seen) -> web.StreamResponse:
    key = KEYS["STILLME_TEST_GEMINI"]
    parts = [{"text": f"Made with {key}."}, {"inlineData": {"data": b64(png(9))}}]
    told = {
        "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
        "modelVersion": key,
        "responseId": key,
    }
    return web.json_response(told)


def _asked(seen: Seen) -> tuple[str, ...]:
    """The axes that a judge is asked about, as far as its question says."""
    text = json.dumps(seen.json)
    return tuple(axis for axis in PROTOCOL.axes if axis in text)


async def judged_openai(request: web.Request, seen: Seen) -> web.StreamResponse:
    said = answered(dict.fromkeys(_asked(seen), 3), evidence_summary=f"I saw {KEYS['STILLME_TEST_OPENAI']}.")
    return web.json_response(completion(json.dumps(said)))


async def judged_gemini(request: web.Request, seen: Seen) -> web.StreamResponse:
    said = answered(dict.fromkeys(_asked(seen), 4), evidence_summary=f"I saw {KEYS['STILLME_TEST_GEMINI']}.")
    parts = [{"text": json.dumps(said)}]
    return web.json_response({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})


def row(kind: str, model: str, server: Server, **more: Any) -> dict[str, Any]:
    settings = {"model": model, "base_url": server.url, **QUICK}
    return {"id": kind, "kind": kind, "key_env": f"STILLME_TEST_{kind.upper()}", "settings": settings, **more}


def command(folder: Path, *words: str) -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "stillme", *words], cwd=folder, env={**os.environ, **KEYS}, capture_output=True
    )
    return done.returncode, done.stdout + done.stderr


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, what is inside zips, and every cell of every database, unpacked where it is packed."""
    for path in (one for one in sorted(folder.rglob("*")) if one.is_file()):
        content = path.read_bytes()
        yield str(path), content
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield from ((f"{path}: {name}", archive.read(name)) for name in archive.namelist())
        if content.startswith(b"SQLite format 3"):
            yield from cells(path)


def cells(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for values in connection.execute(f"SELECT * FROM {table}"):
                for value in values:
                    if isinstance(value, bytes):
                        yield f"{path}: {table}", unpacked(value)


def unpacked(value: bytes) -> bytes:
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value


@pytest.mark.parametrize("prompts", [["V-02"], pytest.param(["O-01", "V-02", "V-03"], marks=pytest.mark.slow)])
def test_no_key_is_left_behind(tmp_path: Path, prompts: list[str]) -> None:
    """Over five seconds, and quick all the same: nothing else looks for keys in everything that an audit writes."""
    turns = [telltale(one) for one in (shown_openai, shown_gemini, bfl(), judged_openai, judged_gemini)]
    openai, gemini, black_forest, first, second = (Server(turn) for turn in turns)
    with openai, gemini, black_forest, first, second:
        dump_audit(
            tmp_path / "audit.yaml",
            experiments={"diagnose": {"prompts": prompts}},
            editors=[
                row("openai", "gpt-image-1", openai),
                row("gemini", "g", gemini),
                row("bfl", "flux-2-pro", black_forest),
            ],
            judges=[
                row("gemini", "gemini-3-flash-preview", second, role="primary"),
                row("openai", "gpt-5-mini", first, role="secondary"),
            ],
        )
        said = [command(tmp_path, "run", "audit.yaml") for _ in prompts]
        said.append(command(tmp_path, "status", "run"))
        said.append(command(tmp_path, "export", "run", "--format", "csv"))
        bundled = command(tmp_path, "bundle", "run", "--with-images")
        asked = [len(one.seen) for one in (openai, gemini, black_forest, first, second)]
    assert all(code in (0, 4) for code, _ in said), said[0]
    assert min(asked) >= 3, f"every service was asked, and repeated its key: {asked}"
    assert bundled[0] == 0 and (tmp_path / "run/evidence.zip").is_file(), bundled
    left = list(everything(tmp_path))
    assert any(b"no luck with the key" in content for _, content in left), "the errors are there, without the key"
    found = [(name, key) for name, content in left for key in KEYS.values() if key.encode() in content]
    assert found == []
    assert [said for _, said in (*said, bundled) for key in KEYS.values() if key.encode() in said] == []
