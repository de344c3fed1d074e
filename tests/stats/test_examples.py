"""Examples in the texts of the statistics are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from stillme import stats

MODULES = [importlib.import_module(f"stillme.stats.{one.name}") for one in pkgutil.iter_modules(stats.__path__)]
WITH_EXAMPLES = [module for module in MODULES if any(one.examples for one in doctest.DocTestFinder().find(module))]


@pytest.mark.parametrize("module", WITH_EXAMPLES, ids=lambda module: module.__name__)
def test_examples_in_the_text_are_true(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
