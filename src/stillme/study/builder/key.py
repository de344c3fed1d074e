"""The key file: what every output of a bundle is. It stays with the auditor; whoever has it is no longer blind."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from stillme.core.atomic import replace_file
from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError, disk
from stillme.core.yaml import StrictModel, dotted

SUFFIX = ".key.json"
LENGTH = 20  # of an opaque id, in hexadecimal digits


class KeyItem(StrictModel):
    portrait: str
    prompt: str
    editor: str
    category: str
    groups: dict[str, str]
    about: dict[str, Any] = Field(default_factory=dict)


class KeyOutput(StrictModel):
    item: str
    trial: str
    edit: str
    experiment: str
    arm: str
    editor: str
    prompt: str
    portrait: str


class KeyQuestion(StrictModel):
    """`axis`: that of the rubric which the question asks about; empty where it asks about none."""

    id: str
    kind: Literal["scale", "choice"]
    axis: str = ""
    values: tuple[str, ...]


class KeyTask(StrictModel):
    seats: int
    items: tuple[str, ...]


class Key(StrictModel):
    """Everything that raters are not told. `arms`: of an item's outputs, the plain one first."""

    format: Literal[1] = 1
    bundle: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: str
    preset: str
    questionnaire: str
    layout: str
    run: str
    protocol: str
    experiment: str
    arms: tuple[str, ...]
    seed: int
    secret: str
    questions: tuple[KeyQuestion, ...]
    tasks: dict[str, KeyTask]
    items: dict[str, KeyItem]
    outputs: dict[str, KeyOutput]
    margins: dict[str, dict[str, int]]
    left_out: dict[str, int]
    stillme: str

    @cached_property
    def outputs_of(self) -> Mapping[str, set[str]]:
        """Item -> its outputs."""
        found: dict[str, set[str]] = {}
        for name, output in self.outputs.items():
            found.setdefault(output.item, set()).add(name)
        return found


def opaque(secret: str, kind: str, name: str) -> str:
    """An id that says nothing to whoever lacks the secret."""
    return hmac.new(secret.encode(), f"{kind}\0{name}".encode(), hashlib.sha256).hexdigest()[:LENGTH]


def path_of(folder: Path) -> Path:
    """Beside the bundle, never in it."""
    return folder.with_name(f"{folder.name}{SUFFIX}")


def write(key: Key, path: Path) -> None:
    """For its owner alone, whole or not at all; an earlier one is never overwritten."""
    with disk(path):
        if path.exists():
            step = "Give another folder: without its key a study says nothing."
            raise InputError(f"{path} exists already.", step)
        text = json.dumps(key.model_dump(mode="json"), ensure_ascii=False, indent=1)
        replace_file(path, text.encode(), private=True)


def read(path: Path) -> Key:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        step = f"Give the file that stillme study build wrote beside the bundle; its name ends in {SUFFIX}."
        raise InputError(f"{path} is not a key file that can be read.", step) from None
    try:
        return Key.model_validate(found)
    except ValidationError as error:
        faults = [ConfigIssue(str(path), 0, dotted(item["loc"]), item["msg"]) for item in error.errors()]
        raise ConfigIssuesError(faults, "Use the key file as it was written.") from None
