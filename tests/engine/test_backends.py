from __future__ import annotations

import sys

import pytest

from stillme.core.errors import SetupError
from stillme.engine import backends


def test_a_missing_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "tests.needs_torch", raising=False)
    with pytest.raises(SetupError) as raised:
        backends.load({"big": "tests.needs_torch"}, "big")
    assert str(raised.value) == (
        "'big' needs the package torch, which is not installed. Install it with: pip install 'stillme[diffusers]'"
    )


def test_a_module_that_is_no_extra_is_a_bug_and_not_hidden() -> None:
    with pytest.raises(ModuleNotFoundError):
        backends.load({"gone": "stillme.editors.gone"}, "gone")


def test_a_package_that_is_missing_is_named_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backends.require_packages(("numpy",), "The measure 'skin'")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SetupError) as raised:
        backends.require_packages(("numpy", "cv2"), "The measure 'skin'")
    assert str(raised.value) == (
        "The measure 'skin' needs the package cv2, which is not installed. "
        "Install it with: pip install 'stillme[vision]'"
    )
    with pytest.raises(SetupError, match="pip install no_such_package"):
        backends.require_packages(("no_such_package",), "x")
