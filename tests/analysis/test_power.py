"""`stillme power`: what a newcomer reads, JSON for scripts, the size of an audit."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from stillme.cli import init
from tests.command import stillme

FEW = ("--sets", 40, "--icc", 0.06)


run = partial(stillme, "power")


def test_what_84_portraits_can_and_cannot_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FEW) == 0
    out = capsys.readouterr().out
    plain = " ".join(out.split())
    assert "With 84 portraits (12 a group), 20 prompts and an ICC of 0.06, a difference of less than" in plain
    assert "points is expected with no difference at all" in plain
    assert "White portraits" in plain and "correction for 9 contrasts" in plain
    assert "Most is gained from twice the portraits." in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_compares_designs(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--persons-per-cell", 1, "--persons-per-cell", 4, "--prompts", 5, "--family", 1)
    assert run(*FEW, *sizes, "--rate", 0.2, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    small, large = found["resolved"]
    assert (small["portraits"], large["portraits"], found["family"]) == (84, 336, 1)
    assert large["detectable"] < small["detectable"] and large["reach"] < small["reach"]
    assert found["larger"] == [] and {row["rate"] for row in found["curve"]} == {0.2}


def test_the_size_of_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init.init(file := tmp_path / "audit.yaml", None)
    text = (
        file.read_text(encoding="utf-8")
        .replace("prompts: all", "prompts: [O-01, O-03]")
        .replace("seeds: 1", "seeds: 2")
    )
    few = "settings: {groups: {race: [white, black, indian], gender: [female]}}"
    file.write_text(text.replace("settings: {}", few, 1), encoding="utf-8")
    assert run(file, *FEW, "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    row = found["resolved"][0]
    assert (row["groups"], row["persons"], row["prompts"], row["seeds"]) == (3, 6, 2, 2)
    assert found["family"] == 9, "three endpoints of three editors"
    assert row["half"] is None, "six persons a group carry no interval"
    file.write_text(text.replace("settings: {}", "settings: {groups: {race: [black]}}", 1), encoding="utf-8")
    assert run(file, *FEW) == 2
    assert "not of 'white' and at least one other" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--rate", 0), ("--icc", 0.9), ("none.yaml",)], ids=["rate", "icc", "file"])
def test_what_cannot_be_simulated_is_a_sentence(words: tuple[object, ...]) -> None:
    assert run(*words, "--sets", 20) == 2
