"""Tests on real pipelines with tiny random weights. They run where torch is: `make test-editors`.

Elsewhere nothing is collected here, so that asking for this folder alone fails with "no tests".
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

SITE = str(Path(__file__).parent / "site")

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("diffusers") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join([SITE, *filter(None, [os.environ.get("PYTHONPATH")])])
    if "sitecustomize" not in sys.modules or not hasattr(sys.modules["sitecustomize"], "Before"):
        sys.path.insert(0, SITE)
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401


@pytest.fixture(scope="session")
def flux2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.diffusers import tiny

    return tiny.save(tiny.flux2(), tmp_path_factory.mktemp("tiny") / "flux2")


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.diffusers import tiny

    folder = tmp_path_factory.mktemp("tiny")
    return tiny.save(tiny.qwen(folder / "words"), folder / "qwen")
