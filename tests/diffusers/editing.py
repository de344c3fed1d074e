"""Editors on tiny pipelines, as an audit prepares them, and portraits for them.

python -m tests.diffusers.editing KIND FOLDER… prints the sums of an edit each.
"""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stillme.core import images
from stillme.core.records import EditReply, EditRequest
from stillme.editors import BACKENDS
from stillme.engine.backends import BackendContext, PreparedEditor, rebuild_backend
from stillme.protocol import builtin
from stillme.sources import heads

WORDS = "Change the clothes to a doctor's white coat."
QUICK: dict[str, dict[str, Any]] = {
    "flux2": {"num_inference_steps": 2},
    "qwen": {"num_inference_steps": 2, "height": 64, "width": 64},
    "step1x": {},
}


def prepare(kind: str, folder: Path, **settings: Any) -> PreparedEditor[Any]:
    """A real backend on a tiny pipeline, on the CPU, with few steps."""
    module = __import__(BACKENDS[kind], fromlist=["prepare"])
    chosen = {"source": str(folder), "device": "cpu", **QUICK[kind], **settings}
    prepared: PreparedEditor[Any] = module.prepare(module.Settings(**chosen), BackendContext(Path(), builtin()))
    return prepared


def recipe(kind: str, folder: Path, **settings: Any) -> Any:
    """The same in a form that another process can be given."""
    module = __import__(BACKENDS[kind], fromlist=["prepare"])
    chosen = module.Settings(**{"source": str(folder), "device": "cpu", **QUICK[kind], **settings})
    return partial(rebuild_backend, BACKENDS[kind], chosen, BackendContext(Path(), builtin()))


@lru_cache(maxsize=16)
def portrait(key: str = "black-female-40s", width: int = 64, height: int = 64) -> bytes:
    picture = Image.fromarray(heads.photograph(heads.load(key)))
    return images.lossless(np.asarray(picture.resize((width, height), Image.Resampling.LANCZOS)))


def request(seed: int = 42, words: str = WORDS, control: str = "", **portraits: Any) -> EditRequest:
    return EditRequest("k", portrait(**portraits), words, seed, control)


def sum_of(reply: EditReply) -> str:
    assert reply.image is not None, reply.detail
    return hashlib.sha256(reply.image).hexdigest()


if __name__ == "__main__":
    for kind, folder in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(kind, sum_of(prepare(kind, Path(folder)).make().edit(request())))
