"""Portraits of several sources: each is of one source, or nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stillme import pipeline
from stillme.analysis import power
from stillme.assurance.compare.sequential import SequentialAudit
from stillme.core.errors import InputError
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.steps import forecast, portraits
from tests.command import stillme
from tests.conftest import Write

Load = Callable[..., Config]
SAID = r"The portrait \S+-female-20s of synthetic comes from two sources, 'young' and 'women'"


def heads(name: str, **groups: list[str]) -> dict[str, object]:
    return {"id": name, "kind": "synthetic", "settings": {"groups": groups}}


SHARED = [heads("young", race=["white", "black"], age=["20s"]), heads("women", race=["white"], gender=["female"])]


@pytest.mark.parametrize(
    "read",
    [
        forecast.look_ahead,
        power._own,
        lambda config: SequentialAudit("A", config).portraits,
        lambda config: pipeline.run(config, Progress()),
    ],
    ids=["check", "power", "compare", "run"],
)
def test_a_portrait_of_two_sources_is_refused(load_audit: Load, read: Callable[[Config], object]) -> None:
    with pytest.raises(InputError, match=SAID):
        read(load_audit(sources=SHARED))


def test_nothing_of_it_is_stored(load_audit: Load) -> None:
    config = load_audit(sources=SHARED)
    with pytest.raises(InputError, match="Let them keep different `groups`"):
        pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as run:
        assert run.query("SELECT count(*) FROM portrait") == [(0,)]


def test_the_command_line_says_so(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path: Path = write_audit(sources=SHARED)
    for command in ("check", "run"):
        assert stillme(command, path) == 2
        assert "comes from two sources, 'young' and 'women'" in " ".join(capsys.readouterr().err.split())


def test_sources_that_share_nobody_are_put_together(load_audit: Load) -> None:
    apart = [heads("young", race=["white"], age=["20s"]), heads("old", race=["white"], age=["60s"])]
    config = load_audit(sources=apart)
    with Run.open_for_writing(config.run, config.protocol) as held:
        stored = portraits.gather(held, config, Progress())
    assert [one.key for one in stored] == [one.key for one in portraits.list_portraits(config)] and len(
        stored
    ) == 4
