"""The journey "audit your diffusers model" is followed as it is written, on a tiny pipeline and a judge on loopback."""

from __future__ import annotations

from pathlib import Path

import yaml
from bench.judges.server import serving

from tests import pages
from tests.pages import ROOT, Walk, start_and_stop

PAGE = ROOT / "docs/journeys/diffusers.md"
FEW = "{id: heads, kind: synthetic, settings: {groups: {race: [white, black], gender: [female], age: [20s]}}}"


def test_a_model_of_diffusers_is_audited(tmp_path: Path, qwen_folder: Path) -> None:
    with serving() as judge:
        changes = {
            "{id: heads, kind: synthetic}": FEW,
            "source: models/mine, device: cuda, num_inference_steps: 40": (
                f"source: {qwen_folder}, device: cpu, num_inference_steps: 1, height: 64, width: 64"
            ),
            "http://127.0.0.1:8000/v1": judge.openai_url,
            "calibrating: {portraits: 6}": "calibrating: {portraits: 1, repeats: false, disclosure: false}",
        }
        walk = Walk(PAGE, tmp_path, changes, instead={"review": start_and_stop()}).go()
    assert "4 ok" in walk.said["status runs/mine"], walk.said["status runs/mine"]
    assert (tmp_path / "runs/mine/report.html").is_file()


def test_what_is_added_later_fits_into_the_file() -> None:
    first, added = [one for one in pages.steps(PAGE) if isinstance(one, pages.File)]
    whole = {**yaml.safe_load(first.text), **yaml.safe_load(added.text)}
    assert whole["experiments"]["diagnose"] == yaml.safe_load(first.text)["experiments"]["diagnose"]
