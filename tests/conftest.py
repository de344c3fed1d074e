"""What the tests share: small audits on the synthetic heads, run through the real pipeline."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.config import Config
from stillme.plan.design import Design
from stillme.protocol import Protocol, builtin
from tests import prepared

hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of the code
hypothesis.settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it puts into the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what tests start has to hear Ctrl-C


@pytest.fixture(scope="session")
def protocol() -> Protocol:
    return builtin()


def audit_data(**changes: object) -> dict[str, object]:
    """A small audit: 4 portraits × 3 prompts × 2 planted editors, 2 simulated judges."""
    return {
        "stillme": 1,
        "name": "small",
        "run": "run",
        "sources": [
            {
                "id": "heads",
                "kind": "synthetic",
                "settings": {"groups": {"race": ["white", "black"], "gender": ["female"], "age": ["20s", "60s"]}},
            }
        ],
        "experiments": {"diagnose": {"prompts": ["O-01", "V-02", "V-03"]}},
        "editors": [
            {"id": "even", "kind": "planted", "settings": {"truth": "even"}},
            {"id": "erases", "kind": "planted", "settings": {"truth": "erases"}},
        ],
        "judges": [
            {"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.2, "draw": 1}},
            {
                "id": "b",
                "kind": "planted",
                "role": "secondary",
                "settings": {"noise": 0.3, "refused": 0.1, "draw": 2},
            },
        ],
        "engine": {"kind": "local", "workers": 2},
        **changes,
    }


def dump_audit(path: Path, **changes: object) -> None:
    plain = json.loads(json.dumps(audit_data(**changes)))  # no shared objects, so no YAML aliases
    path.write_text(yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")


Write = Callable[..., Path]


@pytest.fixture
def write_audit(tmp_path: Path) -> Write:
    """Writes audit.yaml with some keys changed and returns its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "audit.yaml"
        dump_audit(path, **changes)
        return path

    return write


@pytest.fixture
def load_audit(write_audit: Write) -> Callable[..., Config]:
    return lambda **changes: config.load(write_audit(**changes))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small audit, run to its end once; tests only read it."""

    def make(folder: Path) -> None:
        dump_audit(folder / "audit.yaml")
        pipeline.run(config.load(folder / "audit.yaml"), Progress())

    return prepared.once(tmp_path_factory, "finished", make)


@pytest.fixture
def without_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without their page, which takes longest: for tests of what is in a run. `page` makes it."""

    def report(run: Run, design: Design, progress: Progress) -> Path:
        progress.say("Report: the page is written")
        return run.path / pipeline.REPORT

    monkeypatch.setattr(pipeline, "report", report)


def page(run: Path) -> str:
    """The page of a run, made now."""
    return pipeline.rebuild_report(run, Progress(), whole=False).read_text(encoding="utf-8")


def load_tool(name: str) -> Any:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"tools/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_ci() -> bool:
    return os.environ.get("CI") == "true"


@pytest.hookimpl(trylast=True)  # after the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests first, so that none is left to run alone at the end."""
    long = {
        item.path
        for item in items
        if item.get_closest_marker("slow")
        or item.get_closest_marker("browser")
        or item.path.parent.name == "faults"
    }
    items.sort(key=lambda item: item.path not in long)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that a test recorded are printed, whichever worker measured them."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, figure in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{name}: {figure}")
