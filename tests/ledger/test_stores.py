"""Images at a URL, here one in memory; tests/ray/test_s3.py has a server that speaks S3."""

from __future__ import annotations

import hashlib
import importlib.util
import uuid
from pathlib import Path
from typing import Any

import pytest

from stillme import pipeline
from stillme.core.errors import ConfigIssuesError, InputError, SetupError
from stillme.engine.progress import Progress
from stillme.ledger import Run, objects
from stillme.ledger.objects import Objects, RemoteObjectStore, Store, objects_at
from stillme.plan import config
from stillme.protocol import Protocol
from tests.conftest import dump_audit

fsspec = pytest.importorskip("fsspec")

SMALL = {
    "experiments": {"diagnose": {"prompts": ["O-01"]}},
    "editors": [{"id": "even", "kind": "planted", "settings": {"truth": "even"}}],
}


@pytest.fixture
def memory() -> RemoteObjectStore:
    made = RemoteObjectStore(Store(url=f"memory://{uuid.uuid4().hex}/images"))
    made.make()
    return made


def stored(store: Store) -> dict[str, bytes]:
    """Every image in a store, by its name, without stillme's own code."""
    files, folder = fsspec.core.url_to_fs(store.url, **store.options)
    files.invalidate_cache()
    found = {path.removeprefix("/").removeprefix(folder.removeprefix("/")): path for path in files.find(folder)}
    return {name.lstrip("/"): files.cat_file(path) for name, path in found.items() if not name.endswith(".txt")}


def run_audit(folder: Path, store: object | None) -> Path:
    dump_audit(folder / "audit.yaml", **SMALL, **({"objects": store} if store else {}))
    return pipeline.run(config.load(folder / "audit.yaml"), Progress())


def test_content_is_named_by_its_hash_and_may_come_twice(memory: RemoteObjectStore) -> None:
    name = memory.put(b"one", "jpg")
    assert name == hashlib.sha256(b"one").hexdigest() == memory.put(b"one", "jpg")
    assert memory.get(name, "jpg") == b"one"
    assert stored(memory.store) == {f"{name[:2]}/{name}.jpg": b"one"}
    assert RemoteObjectStore(memory.store).get(name, "jpg") == b"one"


def test_a_changed_object_is_noticed(memory: RemoteObjectStore) -> None:
    name = memory.put(b"one", "jpg")
    files, folder = fsspec.core.url_to_fs(memory.store.url)
    files.pipe_file(f"{folder}/{name[:2]}/{name}.jpg", b"tw")
    with pytest.raises(SetupError, match=rf"^memory://.*{name}\.jpg was changed in the store"):
        RemoteObjectStore(memory.store).get(name, "jpg")


def test_a_missing_object_is_named(memory: RemoteObjectStore) -> None:
    with pytest.raises(SetupError, match=rf"^memory://.*/{'0' * 64}\.jpg does not exist"):
        memory.get("0" * 64, "jpg")


def test_memory_stays_small(memory: RemoteObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MAX_CACHED_BYTES", 1000)
    names = [memory.put(bytes([n]) * 300, "jpg") for n in range(10)]
    assert sum(memory._memory.get(name) is not None for name in names) == 3
    assert [memory.get(name, "jpg") for name in names] == [bytes([n]) * 300 for n in range(10)]
    assert memory._memory._size <= 1000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("images", r"objects.url: needs a URL such as s3://bucket/folder"),
        (
            "s3://me:secret@bucket/x",
            r"objects.url: may hold no user, key or query; keys come from the environment",
        ),
        ("s3://bucket/x?key=secret", "may hold no user, key or query"),
        ({"url": "s3://b/x", "endpoint": "http://u:secret@h"}, r"objects.endpoint: may hold no user"),
    ],
)
def test_keys_do_not_stand_in_the_file(tmp_path: Path, given: object, said: str) -> None:
    dump_audit(tmp_path / "audit.yaml", objects=given)
    with pytest.raises(ConfigIssuesError, match=said) as caught:
        config.load(tmp_path / "audit.yaml")
    assert "secret" not in str(caught.value)


def test_a_run_keeps_to_its_store(tmp_path: Path, protocol: Protocol) -> None:
    one, two = (Store(url=f"memory://{uuid.uuid4().hex}") for _ in range(2))
    with Run.open_for_writing(tmp_path / "run", protocol, one):
        pass
    for other in (two, None):
        with pytest.raises(InputError, match=f"keeps its images in {one.url}; this audit says"):
            with Run.open_for_writing(tmp_path / "run", protocol, other):
                pass
    with Run.open_for_writing(tmp_path / "plain", protocol):
        pass
    with pytest.raises(InputError, match="keeps its images in its own folder; this audit says memory://"):
        with Run.open_for_writing(tmp_path / "plain", protocol, one):
            pass


def test_a_folder_by_url_is_a_folder(tmp_path: Path) -> None:
    made = objects_at(Store(url=(tmp_path / "shared images").as_uri()), tmp_path / "run/objects")
    assert isinstance(made, Objects) and made.folder == tmp_path / "shared images"


@pytest.mark.parametrize("package", ["fsspec", "s3fs"])
def test_a_missing_package_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found)
    dump_audit(tmp_path / "audit.yaml", **SMALL, objects="s3://bucket/x")
    with pytest.raises(SetupError, match=rf"needs the package {package}.*pip install 'stillme\[stores\]'"):
        config.check_keys(config.load(tmp_path / "audit.yaml"))


def test_an_audit_with_its_images_elsewhere_is_the_same_audit(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    store = Store(url=f"memory://{uuid.uuid4().hex}/images")
    for folder, place in ((here, None), (there, store.url)):
        folder.mkdir()
        run_audit(folder, place)
    kept = {str(p.relative_to(here / "run/objects")): p.read_bytes() for p in (here / "run/objects").rglob("*.*")}
    assert stored(store) == kept and len(kept) > 4
    assert not list((there / "run").rglob("*.jpg"))


def test_storing_waits_for_the_store(memory: RemoteObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store refused is not remembered as stored."""
    with memory._connected() as (found, _):
        files: Any = found

    def refuse(*_: object, **__: object) -> None:
        raise OSError("the line is cut")

    with monkeypatch.context() as patched:
        patched.setattr(files, "pipe_file", refuse)
        with pytest.raises(SetupError, match="OSError: the line is cut"):
            memory.put(b"one", "jpg")
    name = memory.put(b"one", "jpg")
    assert RemoteObjectStore(memory.store).get(name, "jpg") == b"one"


def test_a_sentence_stays_as_it_is(memory: RemoteObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with memory._connected() as (found, _):
        files: Any = found

    def refuse(*_: object, **__: object) -> None:
        raise SetupError("The store is closed today.")

    monkeypatch.setattr(files, "pipe_file", refuse)
    with pytest.raises(SetupError, match=r"^The store is closed today\.$"):
        memory.put(b"one", "jpg")
