"""Remote edits through the whole edit step, beside a bare aiohttp loop over the same server.

    python -m bench.editors_remote [--edits 1000] [--latency 0.2] [--concurrency 64]

A loopback server in a process of its own answers each edit after a fixed time with a picture of 64 px that no
other edit gets, so that each is stored. Ours asks, checks, stores durably and records; the peer asks and decodes.
The ideal is concurrency ÷ latency. Start-up and the first connection of each caller are part of both.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import itertools
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from bench import figures
from stillme.core.records import Portrait
from stillme.core.yaml import Document
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.plan.audit import Audit
from stillme.plan.config import Config, settle
from stillme.plan.design import make_design, record_design
from stillme.steps import edit as editing
from stillme.steps.budget import Budget

TARGET = 0.90  # of concurrency ÷ latency
SHOWS = "Edits of a service that answers after a fixed time, through the whole step and a ledger on disk."
DOES_NOT_SHOW = (
    "a real service: it is on loopback, always answers, and always after the same time.",
    "an equal effort: the bare loop checks and keeps nothing.",
    "the long run: the first wave opens every connection, which counts for more in few edits.",
)
SIDE = 64
VARIANTS = 4096


def measure(edits: int = 1000, latency: float = 0.2, concurrency: int = 64, rounds: int = 3) -> bool:
    """Prints both rates; whether ours reached the target in its median round."""
    ideal = concurrency / latency
    print(f"{edits:,} edits, {latency * 1000:g} ms each, {concurrency} at a time: ideal {ideal:g} edits/s")
    shares, peers = [], []
    with served(latency) as url, tempfile.TemporaryDirectory() as folder:  # deleting would disturb the next round
        for number in range(1, rounds + 1):
            peer = bare(url, edits, concurrency) / ideal
            mine = ours(Path(folder) / str(number), url, edits, concurrency) / ideal
            shares.append(mine)
            peers.append(peer)
            print(f"round {number}: ours {mine:.3f} of the ideal, bare aiohttp {peer:.3f}")
    middle, bar = statistics.median(shares), statistics.median(peers)
    print(f"ours, median: {middle:.3f} of the ideal (target {TARGET:.2f}), {middle / bar:.3f} of the bare loop")
    asked = f"{edits:,} edits of {latency * 1000:g} ms, {concurrency} at a time: share of the ideal"
    row = figures.rate(asked, middle, "", "a bare aiohttp loop", bar).at_least(TARGET)
    figures.write(
        "editors_remote",
        [row],
        SHOWS,
        DOES_NOT_SHOW,
        figures.versions("aiohttp"),
        [_spread(shares, edits, concurrency)],
    )
    return middle >= TARGET


def _spread(shares: list[float], edits: int, concurrency: int) -> str:
    waves = math.ceil(edits / concurrency)
    rounds = ", ".join(f"{share:.3f}" for share in shares)
    return f"Rounds: {rounds}. {waves} waves, so {edits / concurrency / waves:.3f} is the most that is possible."


def ours(folder: Path, url: str, edits: int, concurrency: int) -> float:
    """Edits a second through the edit step and a ledger on disk."""
    config = audit(folder, url, edits, concurrency)
    with Run.open_for_writing(config.run, config.protocol) as held:
        prompts = len(config.protocol.prompts.prompts)
        design = make_design(config, list(portraits(held, math.ceil(edits / prompts), config)))
        record_design(held, design)
        started = time.perf_counter()
        editing.edit(held, design, Progress(), StopEvent(), Budget(config, 0.0))
        seconds = time.perf_counter() - started
        made = held.query("SELECT count(DISTINCT image) FROM edit WHERE status = 'ok'")[0][0]
    assert made == edits, f"{made} edits were made"
    return edits / seconds


def audit(folder: Path, url: str, edits: int, concurrency: int) -> Config:
    settings = {"service": "other", "model": "loopback", "base_url": url, "concurrency": concurrency}
    content = {
        "stillme": 1,
        "name": "bench",
        "run": "run",
        "sources": [{"id": "pictures", "kind": "synthetic"}],
        "experiments": {"diagnose": {}},
        "editors": [{"id": "remote", "kind": "openai", "settings": settings}],
        "budgets": {"edits": edits},
    }
    return settle(Audit.model_validate(content), folder, Document("bench", ""))


def portraits(held: Run, count: int, config: Config) -> Iterator[Portrait]:
    """Small pictures; their labels are of no account here."""
    groups = config.protocol.groups
    labels = {dimension: groups.ids(dimension)[0] for dimension in groups.dimensions}
    for number in range(count):
        image = picture(number)
        one = Portrait.of("bench", str(number), held.store(image).sha256, labels)
        held.add_portrait(one, image).result()
        yield one


def bare(url: str, edits: int, concurrency: int) -> float:
    """Edits a second of a loop that keeps nothing."""
    image = picture(0)
    numbers = iter(range(edits))

    async def caller(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            form = aiohttp.FormData({"prompt": "Add glasses.", "model": "loopback"})
            form.add_field("image", image, filename="1.png", content_type="image/png")
            async with session.post(f"{url}/images/edits", data=form) as response:
                base64.b64decode((await response.json())["data"][0]["b64_json"])

    async def every() -> None:
        connector = aiohttp.TCPConnector(limit=concurrency)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(caller(session) for _ in range(concurrency)))

    import aiohttp

    started = time.perf_counter()
    asyncio.run(every())
    return edits / (time.perf_counter() - started)


def picture(number: int) -> bytes:
    """A PNG that only this number gives."""
    pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@contextmanager
def served(latency: float) -> Iterator[str]:
    """The server's address, for as long as it runs."""
    command = [sys.executable, "-m", "bench.editors_remote", "--serve", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.terminate()


class Slow(asyncio.Protocol):
    """Just enough HTTP: a service is another machine, so this one must not take our cores."""

    latency = 0.0
    answers: Iterator[bytes] = iter(())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.arrived = transport, b""

    def data_received(self, data: bytes) -> None:
        self.arrived += data
        head, end, body = self.arrived.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            self.arrived = b""
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, next(self.answers))


def serve(latency: float) -> None:
    """Answers each edit after the same time with the next picture."""
    Slow.latency, Slow.answers = latency, itertools.cycle([answer(n) for n in range(1, VARIANTS + 1)])

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Slow, "127.0.0.1", 0, backlog=1024)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
        await server.serve_forever()

    asyncio.run(forever())


def answer(number: int) -> bytes:
    text = base64.b64encode(picture(-number % (1 << 31))).decode()
    body = f'{{"created": 1, "data": [{{"b64_json": "{text}"}}]}}'
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        serve(chosen.serve)
        return 0
    return int(not measure(chosen.edits, chosen.latency, chosen.concurrency, chosen.rounds))


if __name__ == "__main__":
    sys.exit(main())
