from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from stillme.errors import SurroundingsError
from stillme.ledger.objects import Objects


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    made = Objects(tmp_path / "objects")
    made.make()
    return made


def test_content_is_named_by_its_hash_and_stored_once(objects: Objects) -> None:
    name = objects.put(b"one", "jpg")
    assert name == hashlib.sha256(b"one").hexdigest() == objects.put(b"one", "jpg")
    assert objects.get(name, "jpg") == b"one"
    assert len(list(objects.folder.rglob("*.jpg"))) == 1


def test_a_changed_file_is_noticed(objects: Objects) -> None:
    name = objects.put(b"one", "jpg")
    objects.path(name, "jpg").write_bytes(b"two")
    with pytest.raises(SurroundingsError, match="was changed on disk"):
        objects.get(name, "jpg")


def test_a_missing_file_is_named(objects: Objects) -> None:
    with pytest.raises(SurroundingsError, match="No such file"):
        objects.get("0" * 64, "jpg")


def test_what_a_killed_process_left_aside_is_cleared(objects: Objects) -> None:
    (objects.folder / "aside" / "123-1-1").write_bytes(b"half")
    objects.make()
    assert list((objects.folder / "aside").iterdir()) == []


def test_many_threads_may_store_the_same_content(objects: Objects) -> None:
    threads = [
        threading.Thread(target=lambda: [objects.put(bytes([n]) * 50_000, "jpg") for n in range(20)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(objects.folder.rglob("*.jpg"))) == 20
    assert list((objects.folder / "aside").iterdir()) == []
