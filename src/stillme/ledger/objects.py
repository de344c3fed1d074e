"""Images by content: in a folder, or in an object store that is named by a URL.

In a folder they are written atomically: a file that is there is whole. A store is written with one call per image;
content is checked against its name when it is read, so half an object is never accepted as a whole one.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import field_validator, model_validator

from stillme.core.atomic import flush_folder, replace_file
from stillme.core.errors import SetupError, disk
from stillme.core.yaml import StrictModel

MAX_CACHED_BYTES = 64 * 2**20  # of images in memory: an edit is measured and judged soon after it was made
MARKER = "stillme-objects.txt"
NEXT_STEP = (
    "Put it back from a copy of your own; `stillme status RUN --check` names every image that is not whole."
)


class Store(StrictModel):
    """Where images are kept: a URL that fsspec knows. Credentials come from the environment, never from here."""

    url: str
    endpoint: str | None = None  # of a server with the S3 protocol that is not Amazon's

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, data: Any) -> Any:
        return {"url": data} if isinstance(data, str) else data

    @field_validator("url", "endpoint")
    @classmethod
    def _without_keys(cls, given: str | None) -> str | None:
        if given is None:
            return None
        scheme, _, rest = given.partition("://")
        if not scheme or not rest:
            raise ValueError("needs a URL such as s3://bucket/folder; leave it out to keep images in the run")
        parts = urlsplit(given)
        if parts.username or parts.password or parts.query:
            raise ValueError("may hold no user, key or query; keys come from the environment")
        return given.rstrip("/")

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that are needed to reach it, as far as stillme knows."""
        return {"file": (), "s3": ("fsspec", "s3fs")}.get(self.scheme, ("fsspec",))

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint_url": self.endpoint} if self.endpoint else {}


class Objects:
    """The folder objects/ of a run. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder = str(folder)
        self._aside = folder / "aside"

    def make(self) -> None:
        """Make the folder; remove the parts that a killed process left (no row refers to them)."""
        with disk(self.folder):
            self._aside.mkdir(parents=True, exist_ok=True)
            for leftover in self._aside.iterdir():
                leftover.unlink()

    def path(self, sha256: str, extension: str) -> Path:
        return self.folder / sha256[:2] / f"{sha256}.{extension}"

    def has(self, sha256: str, extension: str, size: int) -> bool:
        """Whether a file of that size is there, without reading it."""
        return _size(self.path(sha256, extension)) == size

    def put(self, content: bytes, extension: str) -> str:
        """Store content durably and return its hash. The same content is stored once."""
        sha256 = hashlib.sha256(content).hexdigest()
        final = self.path(sha256, extension)
        with disk(final):
            if _size(final) != len(content):  # also one that was cut short since
                if not final.parent.exists():
                    final.parent.mkdir(exist_ok=True)
                    flush_folder(self.folder)
                replace_file(final, content, aside=self._aside)
        return sha256

    def get(self, sha256: str, extension: str) -> bytes:
        """The content, checked against its name."""
        path = f"{self._folder}/{sha256[:2]}/{sha256}.{extension}"
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (a third of the time that a Path takes)
                content = file.read()
        except FileNotFoundError:
            raise SetupError(f"{path} is not there any more.", NEXT_STEP) from None
        except OSError:
            with disk(Path(path)):
                raise
        if hashlib.sha256(content).hexdigest() != sha256:
            message = f"{path} was changed on disk: its content is not what its name says."
            raise SetupError(message, NEXT_STEP)
        return content


class RemoteObjectStore:
    """Images in an object store. Safe to use from several threads; the last ones used stay in memory."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._memory = _Memory()
        self._connecting = threading.Lock()
        self._connection: tuple[Any, str] | None = None

    def make(self) -> None:
        """Write a marker: missing permissions are an error before any money is spent."""
        with self._connected() as (files, folder):
            files.pipe_file(f"{folder}/{MARKER}", b"Images of stillme runs, named by their SHA-256.\n")

    def has(self, sha256: str, extension: str, size: int) -> bool:
        """Always true: asking a store for each image takes as long as reading it."""
        return True

    def url(self, sha256: str, extension: str) -> str:
        return f"{self.store.url}/{_name(sha256, extension)}"

    def put(self, content: bytes, extension: str) -> str:
        """Store content and return its hash once the store has it. The same content may come twice."""
        sha256 = hashlib.sha256(content).hexdigest()
        if self._memory.get(sha256) is None:
            with self._connected() as (files, folder):
                files.pipe_file(f"{folder}/{_name(sha256, extension)}", content)
            self._memory.keep(sha256, content)
        return sha256

    def get(self, sha256: str, extension: str) -> bytes:
        """The content, checked against its name."""
        cached = self._memory.get(sha256)
        if cached is not None:
            return cached
        with self._connected(self.url(sha256, extension)) as (files, folder):
            content: bytes = files.cat_file(f"{folder}/{_name(sha256, extension)}")
        if hashlib.sha256(content).hexdigest() != sha256:
            message = (
                f"{self.url(sha256, extension)} was changed in the store: its content is not what its name says."
            )
            raise SetupError(message, NEXT_STEP)
        self._memory.keep(sha256, content)
        return content

    @contextmanager
    def _connected(self, url: str = "") -> Iterator[tuple[Any, str]]:
        """The file system of the store and the folder in it; its errors become sentences about `url`."""
        try:
            with self._connecting:
                if self._connection is None:
                    core = importlib.import_module("fsspec.core")
                    self._connection = core.url_to_fs(self.store.url, **self.store.options)
            yield self._connection
        except SetupError:
            raise
        except Exception as error:  # every kind of store has its own errors
            raise explain_store_error(error, url or self.store.url) from error


class _Memory:
    """The images that were used last, up to a limit."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        with self._lock:
            if sha256 not in self._kept:
                return None
            self._kept.move_to_end(sha256)
            return self._kept[sha256]

    def keep(self, sha256: str, content: bytes) -> None:
        with self._lock:
            self._size += len(content) - len(self._kept.pop(sha256, b""))
            self._kept[sha256] = content
            while self._size > MAX_CACHED_BYTES:
                self._size -= len(self._kept.popitem(last=False)[1])


def _size(path: Path) -> int:
    """In bytes; -1 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _name(sha256: str, extension: str) -> str:
    return f"{sha256[:2]}/{sha256}.{extension}"


def objects_at(store: Store | None, folder: Path) -> Objects | RemoteObjectStore:
    """The objects of a run: in the store, or in `folder` without one."""
    if store is None:
        return Objects(folder)
    if store.scheme == "file":
        return Objects(Path(unquote(urlsplit(store.url).path)))
    return RemoteObjectStore(store)


def explain_store_error(error: Exception, url: str) -> SetupError:
    """A sentence for an error of a store, with the first line of its own message."""
    if isinstance(error, ImportError):
        return SetupError(
            f"{url} cannot be reached: {error}.", "Install what it names, e.g. pip install 'stillme[stores]'"
        )
    if "Credentials" in type(error).__name__ or isinstance(error, PermissionError):
        return SetupError(
            f"{url} may not be used with the keys that are there: {_first_line(error)}.",
            "Set the store's keys in the environment (for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE), or ask for the right to read and write there.",
        )
    if isinstance(error, FileNotFoundError):
        return SetupError(
            f"{url} does not exist: {_first_line(error)}.", "Make the bucket, or correct 'objects' in the audit."
        )
    return SetupError(
        f"{url} could not be used: {type(error).__name__}: {_first_line(error)}.",
        "Everything recorded so far is kept: check the address and the network, then run the same command again.",
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else "it does not say why"
