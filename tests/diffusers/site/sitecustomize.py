"""Lets the CUDA build of torchvision import beside a CPU-only torch, in every process of these tests.

PyPI has CUDA builds only. Beside a CPU torch their library cannot load, so two operators are never declared and
`import torchvision` fails. Declaring them is enough for what processors use of it. It does nothing where torch has
an accelerator, and nothing before torchvision is imported.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_KEPT: list[Any] = []  # a library's operators go when it does


def declare() -> None:
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in SCHEMAS:
            library.define(schema)
        _KEPT.append(library)


class Before(MetaPathFinder):
    """Finds nothing; is asked before torchvision is found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torchvision._meta_registrations":
            sys.meta_path.remove(self)
            declare()


sys.meta_path.insert(0, Before())
