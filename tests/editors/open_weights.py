"""Folders that look like pipelines, for what is decided before any weight is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.ledger.run import settings_hash
from stillme.protocol import builtin


def pipeline_folder(folder: Path, weights: bytes = b"w" * 3_000_000) -> Path:
    """A pipeline of one component, whose weights are large enough not to count whole."""
    (folder / "vae").mkdir(parents=True)
    index = {"_class_name": "X", "_diffusers_version": "0", "vae": ["diffusers", "Y"], "feature": [None, None]}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / "vae/config.json").write_text("{}", encoding="utf-8")
    (folder / "vae/weights.safetensors").write_bytes(weights)
    return folder


def prepare(module: Any, folder: Path, **settings: Any) -> PreparedEditor[Any]:
    prepared: PreparedEditor[Any] = module.prepare(module.Settings(**settings), BackendContext(folder, builtin()))
    return prepared


def key(prepared: PreparedEditor[Any]) -> str:
    return settings_hash("editor", prepared.effective)
