"""A PostgreSQL server of our own for one run, on the study server's core, as durable as it is by default."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from bench.study.servers import SERVER_CORE, free_port, pinned

SYSTEM = Path("/usr/lib/postgresql")
UP_WITHIN = 20.0


def binaries() -> Path | None:
    """Where initdb and postgres are; None where they are not."""
    newest = sorted(SYSTEM.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(newest[-1]) if newest else shutil.which("initdb")
    return Path(found).parent if found else None


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


@contextmanager
def postgres(folder: Path) -> Iterator[int]:
    """The port of a running server."""
    found, port, as_user = binaries(), free_port(), _as_user()
    assert found is not None
    folder.mkdir(parents=True)
    if as_user:
        shutil.chown(folder, "postgres")
    initdb = [str(found / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust"]
    subprocess.run([*as_user, *initdb], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    listen = ["-p", str(port), "-k", str(folder), "-c", "listen_addresses=127.0.0.1"]
    command = [str(found / "postgres"), "-D", str(folder / "data"), *listen]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*pinned(SERVER_CORE), *as_user, *command], cwd=folder, stdout=log, stderr=log)
    try:
        _wait(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _address(port: int, name: str) -> str:
    return f"postgresql+psycopg://postgres@127.0.0.1:{port}/{name}"


def _wait(port: int) -> None:
    engine, until = create_engine(_address(port, "postgres")), time.monotonic() + UP_WITHIN
    try:
        while True:
            try:
                engine.connect().close()
                return
            except OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
    finally:
        engine.dispose()


def database(port: int, name: str) -> str:
    """The address of a new, empty database."""
    engine = create_engine(_address(port, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return _address(port, name).replace("+psycopg", "")
