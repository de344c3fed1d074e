"""Images on a real server that speaks S3 (moto, over loopback)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.ledger.objects import Store
from stillme.ledger.run import LEDGER
from tests.conftest import dump_audit
from tests.ledger.test_stores import SMALL, run_audit, stored

KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "do-not-keep-me",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server on this machine."""
    code = (
        "from moto.server import ThreadedMotoServer; import sys\n"
        "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0); server.start()\n"
        "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = next(line for line in process.stdout if line.strip().isdigit())
        yield f"http://127.0.0.1:{port.strip()}"
        process.kill()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    name = f"audit-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT"), timeout=30).close()
    return Store(url=f"s3://{name}/images", endpoint=server)


def test_an_audit_and_its_report_from_the_run_alone(bucket: Store, tmp_path: Path) -> None:
    report = run_audit(tmp_path, bucket.model_dump())
    before = len(stored(bucket))
    assert before > 4 and not (tmp_path / "run/objects").exists()
    (tmp_path / "audit.yaml").unlink()
    shown = report.read_text(encoding="utf-8").count("data:image")
    report.unlink()
    again = subprocess.run(
        [sys.executable, "-m", "stillme", "report", str(tmp_path / "run")], capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    assert report.read_text(encoding="utf-8").count("data:image") == shown >= 2
    for command in (["status"], ["export", "--to", str(tmp_path / "tables")]):
        words = [sys.executable, "-m", "stillme", command[0], str(tmp_path / "run"), *command[1:]]
        assert subprocess.run(words, capture_output=True).returncode == 0


def test_a_second_run_stores_nothing_more(bucket: Store, tmp_path: Path) -> None:
    run_audit(tmp_path, bucket.model_dump())
    before = stored(bucket)
    run_audit(tmp_path, bucket.model_dump())
    assert stored(bucket) == before


def test_no_key_is_kept(bucket: Store, tmp_path: Path) -> None:
    run_audit(tmp_path, bucket.model_dump())
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or KEYS["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes(), path
    with closing(sqlite3.connect(tmp_path / "run" / LEDGER)) as connection:
        noted = connection.execute("SELECT value FROM meta WHERE key = 'objects'").fetchone()[0]
    assert json.loads(noted) == bucket.model_dump()


def test_a_missing_bucket_is_said_before_anything_is_made(bucket: Store, tmp_path: Path) -> None:
    missing = {"url": "s3://nobody-made-me/x", "endpoint": bucket.endpoint}
    with pytest.raises(SetupError, match=r"s3://nobody-made-me/x does not exist: .*Make the bucket"):
        run_audit(tmp_path, missing)
    with closing(sqlite3.connect(tmp_path / "run" / LEDGER)) as connection:
        assert connection.execute("SELECT count(*) FROM portrait").fetchone()[0] == 0


def test_missing_keys_are_a_sentence(server: str, tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    clean |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    dump_audit(tmp_path / "audit.yaml", **SMALL, objects={"url": "s3://b/x", "endpoint": server})
    words = [sys.executable, "-m", "stillme", "run", str(tmp_path / "audit.yaml")]
    told = subprocess.run(words, env=clean, capture_output=True, text=True)
    assert told.returncode == 3
    assert "may not be used with the keys that are there" in told.stderr
    assert "AWS_ACCESS_KEY_ID" in told.stderr and "Traceback" not in told.stderr


def test_a_server_that_is_gone_is_a_sentence(bucket: Store, tmp_path: Path) -> None:
    gone = {"url": bucket.url, "endpoint": "http://127.0.0.1:9"}
    with pytest.raises(SetupError, match=r"could not be used: .*check the address and the network"):
        run_audit(tmp_path, gone)
