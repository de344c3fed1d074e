"""Files that people write: audits, protocols, selections, policies. They load, or every fault names file and field."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from pathlib import Path

import yaml

from stillme.assurance.gate import policy, starter_policy
from stillme.core.errors import ConfigIssuesError, InputError
from stillme.plan import config
from stillme.protocol import builtin
from stillme.protocol.reader import from_files
from stillme.sources.selection import config as selecting
from tests.conftest import audit_data
from tests.fuzz.damage import Input, yaml_of
from tests.fuzz.target import Feed, Target, sentence

REMOTE = {
    "editors": [
        {"id": "a", "kind": "openai", "key_env": "K", "settings": {"model": "gpt-image-1", "size": "1024x1024"}},
        {
            "id": "b",
            "kind": "gemini",
            "key_env": "K",
            "settings": {"model": "m", "temperature": 0.5, "safety": {"A": "B"}},
        },
        {
            "id": "c",
            "kind": "bfl",
            "key_env": "K",
            "settings": {"model": "flux-2-pro", "base_url": "https://api.bfl.ai/v1"},
        },
        {"id": "d", "kind": "flux2", "settings": {"steps": 4, "weights": "x"}},
    ],
    "judges": [
        {
            "id": "a",
            "kind": "gemini",
            "role": "primary",
            "key_env": "K",
            "settings": {"model": "gemini-3-flash-preview"},
        },
        {"id": "b", "kind": "openai", "role": "secondary", "key_env": "K", "settings": {"model": "gpt-5-mini"}},
        {"id": "c", "kind": "instrument", "role": "instrument", "settings": {}},
    ],
    "measures": [{"id": "skin_tone_shift", "kind": "skin_tone_shift"}, {"id": "change", "kind": "change"}],
    "experiments": {
        "diagnose": {"prompts": ["O-01"], "seeds": [1, 2]},
        "mitigate": {"sample": 8, "prompts": ["O-01"]},
        "stereotype": {"prompts": ["W-01"], "counterbalanced": True},
    },
    "budgets": {"usd": 5, "calls": 10},
    "engine": {"kind": "ray", "workers": 2},
    "controls": {"kinds": ["no_change"]},
}


def _file(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _audit(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    path = _file(folder, "audit.yaml")
    dumped = [yaml.safe_dump(json.loads(json.dumps(audit_data(**more))), sort_keys=False) for more in ({}, REMOTE)]

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(InputError, naming="audit.yaml"):
            config.load(path)

    return yaml_of(*dumped), feed


def _selection(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    path = _file(folder, "selection.yaml")
    row = {"id": "ff", "kind": "fairface", "settings": {"folder": "ff", "margin": "0.25", "splits": ["train"]}}
    other = {"id": "own", "kind": "folder", "settings": {"folder": ".", "naming": "utkface", "licence": "CC0"}}
    shard = {
        "id": "p",
        "kind": "fairface_parquet",
        "settings": {"folder": ".", "config": 0.25, "aliases": {"age": {"x": "20s"}}},
    }
    whole = {
        "stillme": 1, "name": "s", "folder": "work", "readers": [row, other, shard],
        "grid": {"axes": {"race": "all", "gender": ["female"], "own": {"a": ["A", "B"]}}, "per_cell": 2},
        "pools": {"count": 3, "seed": 1}, "upscaling": {"method": "lanczos", "to": 512},
    }  # fmt: skip

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(InputError, naming="selection.yaml"):
            selecting.load(path)

    return yaml_of(yaml.safe_dump(whole, sort_keys=False), yaml.safe_dump({**whole, "readers": [other]})), feed


def _policy(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    path = _file(folder, "policy.yaml")
    protocol = builtin()

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(InputError, naming="policy.yaml"):
            read = policy.read(path, protocol)
            if read.document.faults:
                raise ConfigIssuesError(read.document.faults)

    return yaml_of(starter_policy.policy("policy.yaml", protocol)), feed


def _protocol(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """One file of the protocol at a time; its name is the first line of the input."""
    files = dict(builtin().files)
    small = [name for name, text in files.items() if len(text) < 20_000]
    makers = {name: yaml_of(files[name]) if name.endswith(".yaml") else None for name in small}

    def made(chance: random.Random) -> bytes:
        name = chance.choice(small)
        maker = makers[name]
        content = maker(chance) if maker else files[name].encode()[: chance.randrange(400)]
        return name.encode() + b"\n" + content

    def feed(content: bytes) -> None:
        name, _, text = content.partition(b"\n")
        with sentence(InputError, naming="protocol/"):
            from_files({**files, name.decode(): text.decode("utf-8", "replace")}, "protocol")

    return made, feed


TARGETS = (
    Target("audit.yaml", _audit, 2_000),
    Target("selection.yaml", _selection, 2_000),
    Target("policy.yaml", _policy, 2_000),
    Target("protocol files", _protocol, 120),
)
