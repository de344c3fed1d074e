from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.ledger.objects import Objects, explain_store_error


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
    with pytest.raises(SetupError, match="was changed on disk"):
        objects.get(name, "jpg")


def test_a_missing_file_is_named(objects: Objects) -> None:
    with pytest.raises(SetupError, match="is not there any more"):
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


def test_what_the_disk_refuses_leaves_nothing_behind(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SetupError, match="is full"):
            objects.put(b"one", "jpg")
    assert not [path for path in objects.folder.rglob("*") if path.is_file()]
    assert objects.get(objects.put(b"one", "jpg"), "jpg") == b"one", "and it may be tried again"


def test_where_folders_cannot_be_opened_content_is_stored_all_the_same(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where nothing is there to flush."""

    def refuse(*_: object) -> int:
        raise PermissionError("folders cannot be opened here")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        name = objects.put(b"one", "jpg")
    assert objects.get(name, "jpg") == b"one"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ImportError("No module named 's3fs'"),
            "cannot be reached: No module named 's3fs'. Install what it names",
        ),
        (PermissionError("Access Denied\nrequest 17"), "keys that are there: Access Denied. Set the store's keys"),
        (FileNotFoundError("The bucket is gone."), "does not exist: The bucket is gone. Make the bucket"),
        (
            TimeoutError(),
            "could not be used: TimeoutError: it does not say why. Everything recorded so far is kept",
        ),
    ],
)
def test_what_a_store_says_is_a_sentence_with_a_next_step(error: Exception, said: str) -> None:
    assert str(explain_store_error(error, "s3://b/x")).startswith("s3://b/x ")
    assert said in str(explain_store_error(error, "s3://b/x"))


def test_what_the_disk_says_of_a_file_is_a_sentence(objects: Objects) -> None:
    objects.path("0" * 64, "jpg").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"0{64}\.jpg"):
        objects.get("0" * 64, "jpg")
