"""One small Ray cluster for all tests here: two cores, no GPU. They run where Ray is: `make test-editors`.

Elsewhere nothing is collected here, so that asking for this folder alone fails with "no tests".
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """Connected, so that audits of this process use it; two cores whatever the machine has."""
    ray = importlib.import_module("ray")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own making
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=200 * 2**20,
        )
    yield ray
    ray.shutdown()
