from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillme.core.errors import SetupError
from stillme.plan import config
from tests.conftest import dump_audit
from tests.ray import audits

TRUTHS = ["erases", "even", "lightens"]
RACES, AGES, PROMPTS = ["white", "black", "indian"], ["20s", "60s"], ["O-01", "O-02", "V-02", "V-03"]


@st.composite
def small_audits(draw: st.DrawFn) -> dict[str, Any]:
    some = draw(st.lists(st.sampled_from(TRUTHS), min_size=1, max_size=3, unique=True))
    groups = {"race": draw(st.lists(st.sampled_from(RACES), min_size=1, unique=True)), "age": AGES}
    source = {"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}
    seed = draw(st.integers(0, 1000))
    return {
        "sources": [source],
        "experiments": {
            "diagnose": {"prompts": draw(st.lists(st.sampled_from(PROMPTS), min_size=1, unique=True))},
            "controls": {"kinds": ["re_encode"]},
        },
        "editors": [
            {"id": f"e-{name}", "kind": "planted", "seed": seed, "settings": {"truth": name}} for name in some
        ],
        "judges": [],
    }


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(changes=small_audits(), cpus=st.sampled_from([0.5, 1.0, 2.0]))
def test_local_and_ray_give_the_same_rows_and_files(ray: Any, changes: dict[str, Any], cpus: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump_audit(folder / "here.yaml", run="here", **changes)
        dump_audit(folder / "away.yaml", run="away", engine={"kind": "ray", "actors": {"cpus": cpus}}, **changes)
        audits.edit(folder / "here.yaml")
        audits.edit(folder / "away.yaml")
        assert audits.rows(folder / "away") == audits.rows(folder / "here")
        assert audits.files(folder / "away") == audits.files(folder / "here")
        assert len(audits.pictures(folder / "away")) > 1


def test_an_audit_may_be_begun_here_and_finished_on_a_cluster(ray: Any, tmp_path: Path) -> None:
    dump_audit(tmp_path / "all.yaml", run="all")
    dump_audit(tmp_path / "some.yaml", run="both", budgets={"edits": 9})
    dump_audit(tmp_path / "rest.yaml", run="both", engine={"kind": "ray"})
    for name in ("all", "some", "rest"):
        audits.edit(tmp_path / f"{name}.yaml")
    assert audits.rows(tmp_path / "both") == audits.rows(tmp_path / "all")


def test_an_address_where_no_cluster_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stillme.engine import ray as engine
    from stillme.engine.threads import StopEvent

    class Ray:
        """Ray as it answers when nobody listens; the real one is connected to the tests' cluster."""

        def is_initialized(self) -> bool:
            return False

        def init(self, **_: object) -> None:
            raise ConnectionError("Could not find any running Ray instance.\nMore lines")

    monkeypatch.setattr(engine, "_ray", Ray)
    with pytest.raises(SetupError, match=r"cluster auto could not be reached: .* instance\. Start one with"):
        with engine.connected("auto", StopEvent()):
            pass


def test_the_engine_may_be_named_when_the_audit_is_loaded(tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", engine={"workers": 3, "address": "there:1"})
    engine = config.load(tmp_path / "audit.yaml", engine={"kind": "ray", "address": "auto"}).audit.engine
    assert (engine.kind, engine.address, engine.workers) == ("ray", "auto", 3)
