"""Starts each server as its users do, on one core, with a folder and a database of its own; and ends it again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.study import peers
from bench.study.peers import REST_KEY, ROOM

SERVER_CORE, LOAD_CORE = 0, 1
UP_WITHIN, DOWN_WITHIN = 60.0, 10.0
THREADS = 8  # of Potato's gunicorn


class NotUpError(Exception):
    """A server did not start; what it said is in the message."""


@dataclass(frozen=True)
class Server:
    base: str
    pid: int
    log: Path


def pinned(core: int) -> list[str]:
    """Before a command: on this core alone, where that can be said and there is more than one."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def running(
    command: list[str], folder: Path, environment: Mapping[str, str], port: int, probe: str
) -> Iterator[Server]:
    """In a process group of its own, which is ended as a whole and nothing else."""
    log = folder / "server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*pinned(SERVER_CORE), *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(process, base + probe, log)
        yield Server(base, process.pid, log)
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + UP_WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except urllib.error.HTTPError as answered:
            answered.close()
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise NotUpError(log.read_text(errors="replace")[-2000:])


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(DOWN_WITHIN)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


@contextmanager
def otree(python: Path, folder: Path, people: int) -> Iterator[Server]:
    """Its production server without the worker for timeouts, and a session for so many people, made beforehand."""
    peers.write_otree(folder)
    port, program = free_port(), str(python.with_name("otree"))
    search = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # it starts itself once more by its name
    environment = {"OTREE_PRODUCTION": "1", "OTREE_REST_KEY": REST_KEY, "PATH": search}
    subprocess.run(
        [program, "resetdb", "--noinput"],
        cwd=folder,
        env={**os.environ, **environment},
        input=b"y\n",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    with running([program, "prodserver1of2", f"127.0.0.1:{port}"], folder, environment, port, "/") as server:
        wanted = {"session_config_name": "rate", "num_participants": people, "room_name": ROOM}
        _post(f"{server.base}/api/sessions", wanted, {"otree-rest-key": REST_KEY})
        yield server


def _post(address: str, body: object, headers: Mapping[str, str]) -> None:
    given = {**headers, "content-type": "application/json"}
    asked = urllib.request.Request(address, json.dumps(body).encode(), given)
    urllib.request.urlopen(asked, timeout=300).close()


@contextmanager
def potato(python: Path, folder: Path) -> Iterator[Server]:
    """Under gunicorn, one process with threads: its state is in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    peers.write_potato(folder)
    port = free_port()
    serve = [str(python.with_name("gunicorn")), "-w", "1", "--threads", str(THREADS), "-b", f"127.0.0.1:{port}"]
    command = [*serve, "potato.flask_server:create_app('config.yaml')"]
    with running(command, folder, {"POTATO_SECRET_KEY": "loopback"}, port, "/health") as server:
        yield server


@contextmanager
def stillme(bundle: Path, folder: Path, database: str = "") -> Iterator[Server]:
    """`stillme study serve` as it stands behind a proxy, on a new database."""
    folder.mkdir(parents=True)
    port = free_port()
    serve = [sys.executable, "-m", "stillme", "study", "serve", str(bundle), "--entry", "plain", "--proxied"]
    command = [*serve, "--port", str(port), "--data", str(folder / "data")]
    told = ["--database", database] if database else []
    with running([*command, *told], folder, {}, port, "/healthz") as server:
        yield server
