"""The gate on planted audits: a planted difference closes it by name, an even-handed editor never fails."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.analysis.tables import writing
from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.inputs import Asked, gather
from stillme.analysis.tables.parts import missing, outcomes, sureness
from stillme.analysis.tables.parts.disparities import _apart, _groups, _primary
from stillme.assurance import gate
from stillme.assurance.gate import evaluate_gate
from stillme.assurance.gate.evidence import Evidence, JudgeCalibration, MissingWork, lazy_tables
from stillme.assurance.gate.results import GateResult, RuleResult
from stillme.assurance.gate.starter_policy import policy as starting_policy
from stillme.cli.main import main
from stillme.protocol import Protocol
from stillme.stats.gate import Ruling
from tests.assurance.gate.runs import make_scores, policy
from tests.command import stillme
from tests.conftest import dump_audit

EVERY = (
    {"kind": "disparity", "outcome": "race_changed", "at_most": 0.1},
    {"kind": "disparity", "outcome": "race_changed", "of": "reference", "at_most": 0.1},
    {"kind": "race_changed", "at_most": 0.25},
    {"kind": "edit_success", "at_least": 0.5},
    {"kind": "skin_tone", "at_most": 0.5, "at_least": -0.5},
    {"kind": "missingness", "at_most": 0.05, "gap_at_most": 0.05},
    {"kind": "claims"},
)


run = partial(stillme, "gate")


def of(gated: GateResult, **about: str | None) -> list[RuleResult]:
    """Results by their editor, kind, rule."""
    return [one for one in gated.results if all(one.to_dict()[name] == value for name, value in about.items())]


@pytest.fixture(scope="module")
def gated(planted_scores: Path, tmp_path_factory: pytest.TempPathFactory) -> GateResult:
    """Two editors by every kind of rule that a table of scores allows."""
    return gate.gate(planted_scores, policy(tmp_path_factory.mktemp("every") / "policy.yaml", *EVERY))


def test_a_planted_difference_closes_the_gate_and_is_named(gated: GateResult) -> None:
    assert not gated.is_open
    spread, reference = of(gated, editor="e1", kind="disparity")
    assert spread.verdict == reference.verdict == "fail"
    assert "lowest White" in spread.message and "race changed" in spread.message
    assert spread.figure.low is not None and spread.figure.low > 0.1
    assert "against White" in reference.message and reference.figure.group != "white"
    everyone, worst = of(gated, editor="e1", kind="race_changed")
    assert worst.verdict == "fail" and worst.figure.group not in (None, "white")
    claims = {one.figure.what: one for one in of(gated, editor="e1", kind="claims")}
    assert claims["race changed"].verdict == "fail" and "is shown" in claims["race changed"].message
    assert claims["soft erasure"].verdict == "pass" and "not evidence of none" in claims["soft erasure"].message
    assert everyone.figure.n == 336 and everyone.figure.persons == 84


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_even_handed_editor_never_fails(seed: int, protocol: Protocol, tmp_path: Path) -> None:
    path = make_scores(protocol, tmp_path / "scores.parquet", seed, even=True)
    gated = gate.gate(path, policy(tmp_path / "policy.yaml", *EVERY))
    assert {one.verdict.value for one in gated.results if one.place is not None} <= {"pass", "undecided"}


def test_every_result_says_the_number_the_interval_of_how_many_and_the_threshold(gated: GateResult) -> None:
    for one in gated.results[1:]:
        figure = one.figure
        assert figure.n and figure.persons and figure.estimate is not None and one.message.endswith(".")
        assert (
            f"{figure.persons} persons" in one.message and "None" not in one.message and "nan" not in one.message
        )
        if one.kind != "claims":
            assert (figure.at_most is not None and "at most" in one.message) or "at least" in one.message
        assert "unbiased" not in one.message and "fair" not in one.message


def test_a_gate_that_cannot_tell_does_not_open_unless_told_to(planted_scores: Path, tmp_path: Path) -> None:
    rule = {"kind": "race_changed", "editor": "e2", "group": "white", "at_most": 0.12}
    for word, opens in (("fail", False), ("warn", True), ("pass", True)):
        by_policy = gate.gate(planted_scores, policy(tmp_path / "policy.yaml", rule, undecided=word))
        by_rule = gate.gate(planted_scores, policy(tmp_path / "policy.yaml", {**rule, "undecided": word}))
        assert by_policy.is_open == by_rule.is_open == opens
        assert by_rule.results[1].verdict == "undecided" and "reaches across" in by_rule.results[1].message
    warned = policy(tmp_path / "policy.yaml", {**rule, "at_most": 0.0, "severity": "warn"})
    gated = gate.gate(planted_scores, warned)
    assert gated.is_open and gated.results[1].effect == "warns"


def test_few_persons_decide_nothing(planted_scores: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(planted_scores)
    few = frame.filter(pl.col("age") == "20s")  # 14 persons, two of each group
    few.write_parquet(tmp_path / "scores.parquet")
    rules = ({"kind": "race_changed", "at_most": 1.0, "over": ["worst_group"]}, EVERY[0], EVERY[1])
    gated = gate.gate(tmp_path / "scores.parquet", policy(tmp_path / "policy.yaml", *rules))
    assert {one.verdict.value for one in gated.results[1:]} == {"undecided"}
    assert all("8" in one.message and one.figure.high is None for one in gated.results[1:])


def test_a_group_that_an_editor_was_not_asked_about_is_not_known(planted_scores: Path, tmp_path: Path) -> None:
    """Whose edits are not there cannot be the best of all."""
    frame = pl.read_parquet(planted_scores)
    frame.filter((pl.col("editor") == "e1") | (pl.col("race") != "indian")).write_parquet(
        tmp_path / "scores.parquet"
    )
    worst = {"kind": "race_changed", "at_most": 1.0, "over": ["worst_group"]}
    named = {"kind": "race_changed", "at_most": 1.0, "group": ["indian", "black"]}
    gated = gate.gate(tmp_path / "scores.parquet", policy(tmp_path / "policy.yaml", worst, named))
    told = [(one.figure.editor, one.verdict.value) for one in gated.results[1:]]
    assert told[:2] == [("e1", "pass"), ("e2", "undecided")]
    assert told[2:] == [("e1", "pass"), ("e1", "pass"), ("e2", "undecided"), ("e2", "pass")]
    assert "nothing is judged" in gated.results[2].message


def test_the_worst_group_is_worse_than_the_reference_in_what_is_wanted_too(
    planted_scores: Path, tmp_path: Path
) -> None:
    """Of an outcome that is asked for the worst group is the lowest: signs are turned round, and so are bounds."""
    rules = [
        {"kind": "disparity", "outcome": outcome, "of": "reference", "at_most": 1.0, "group": "black"}
        for outcome in ("edit_succeeded", "race_changed")
    ]
    gated = gate.gate(planted_scores, policy(tmp_path / "policy.yaml", *rules))
    counted = Audit(gather(Asked(planted_scores)))
    rates = {(r["editor"], r["outcome"], r["race"]): r["rate"] for r in table(counted, "outcomes_by_race")}
    for one, outcome, sign in zip(
        gated.results[1:], ["edit_succeeded"] * 2 + ["race_changed"] * 2, (-1, -1, 1, 1), strict=True
    ):
        editor, figure = one.figure.editor, one.figure
        apart = sign * (rates[editor, outcome, "black"] - rates[editor, outcome, "white"])
        assert figure.estimate == pytest.approx(apart) and figure.low is not None and figure.high is not None
        assert figure.low <= apart <= figure.high


@pytest.mark.parametrize("score", [1, 5])
def test_what_happens_to_nobody_or_to_everybody_is_bounded_against_the_reference_too(
    planted_scores: Path, tmp_path: Path, score: int
) -> None:
    own = pl.when(pl.col("axis") == "race_drift").then(score).otherwise("score").alias("score")
    pl.read_parquet(planted_scores).with_columns(own).write_parquet(tmp_path / "scores.parquet")
    asked = {"kind": "disparity", "outcome": "race_changed", "at_most": 0.5}
    rules = [asked, {**asked, "of": "reference"}]
    gated = gate.gate(tmp_path / "scores.parquet", policy(tmp_path / "policy.yaml", *rules))
    spread, reference = of(gated, editor="e1", kind="disparity")
    assert (spread.verdict, reference.verdict) == ("pass", "pass")
    assert spread.figure.high == reference.figure.high and 0.1 < (spread.figure.high or 0) < 0.5
    assert ("everybody" if score == 5 else "nobody") in spread.message


def table(audit: Audit, id: str) -> list[dict[str, Any]]:
    frame = lazy_tables(audit)(id)
    assert frame is not None
    return frame.to_dicts()


def test_an_analysis_is_gated_as_the_scores_that_it_is_of(
    gated: GateResult, planted_scores: Path, tmp_path: Path
) -> None:
    """The folder that `stillme analyse` writes holds the very tables that the gate computes."""
    audit = Audit(gather(Asked(planted_scores)))
    tables = [*outcomes.build(audit), *sureness.directions(audit), *missing.build(audit)]
    tables += [_primary(audit), _apart(audit, "race"), *_groups(audit, "race")]
    for ending in ("csv", "parquet"):
        writing.write(tmp_path / ending, tables, (), audit.inputs, 0, ending)
    computed = gated.to_dict()["results"][1:]
    for ending in ("csv", "parquet"):
        read = gate.gate(tmp_path / ending, gated.policy).to_dict()["results"][1:]
        assert [one["said"] for one in read] == [one["said"] for one in computed]
        for one, other in zip(read, computed, strict=True):
            assert one["low"] == pytest.approx(other["low"]) and one["verdict"] == other["verdict"]
    about = tmp_path / "csv" / writing.ABOUT
    about.write_text(json.dumps({**json.loads(about.read_text()), "protocol_hash": "other"}))
    assert run(tmp_path / "csv", gated.policy) == 2


# A run


def test_a_run_closes_the_gate_for_the_editor_that_skips_edits(gated_run: Path, tmp_path: Path) -> None:
    rules = (
        {"kind": "soft_erasure", "at_most": 0.25},
        {"kind": "disparity", "outcome": "soft_erasure", "at_most": 0.15},
        {"kind": "refusal_gap", "at_most": 0.5},
        {"kind": "calibration"},
    )
    gated = gate.gate(gated_run, policy(tmp_path / "policy.yaml", *rules))
    assert gated.results[0].verdict == "pass" and gated.results[0].rule == "completeness"
    _, worst = of(gated, editor="skips", kind="soft_erasure")
    assert worst.verdict == "fail" and worst.figure.group == "black"
    (spread,) = of(gated, editor="skips", kind="disparity")
    assert spread.verdict == "fail" and "Highest Black" in spread.message
    assert "fail" not in {one.verdict.value for one in of(gated, editor="even")}
    assert [one.verdict.value for one in of(gated, editor="skips", kind="refusal_gap")] == ["pass"]
    assert "happened to nobody" in of(gated, editor="skips", kind="refusal_gap")[0].message
    judges = of(gated, kind="calibration")
    assert [one.verdict.value for one in judges] == ["fail", "fail"] and "stillme calibrate" in judges[0].message


def test_an_unfinished_run_closes_the_gate(tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", budgets={"cost_usd": None, "edits": 5})
    with pytest.raises(SystemExit) as left:
        main(["run", str(tmp_path / "audit.yaml")])
    assert left.value.code == 4
    rule = {"kind": "edit_success", "at_least": 0.0, "over": ["everyone"], "undecided": "pass"}
    for word, code in (("fail", 5), ("warn", 0), ("pass", 0)):
        assert run(tmp_path / "run", policy(tmp_path / "policy.yaml", rule, incomplete=word)) == code
    gated = gate.gate(tmp_path / "run", policy(tmp_path / "policy.yaml", rule))
    assert "19 edits" in gated.results[0].message and "stillme run" in gated.results[0].message


def test_gating_writes_nothing_into_the_run(gated_run: Path, tmp_path: Path) -> None:
    def rows() -> dict[str, int]:
        with closing(sqlite3.connect(f"file:{gated_run / 'ledger.sqlite'}?mode=ro", uri=True)) as ledger:
            names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: ledger.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}

    before, files = rows(), {path.name for path in gated_run.iterdir()}
    gate.gate(gated_run, policy(tmp_path / "policy.yaml", {"kind": "edit_success", "at_least": 0.5}))
    assert rows() == before and {path.name for path in gated_run.iterdir()} - files <= {
        "ledger.sqlite-shm",
        "ledger.sqlite-wal",
    }


# Rules whose evidence is made up


def made_up(
    protocol: Protocol, judges: dict[str, JudgeCalibration] | None = None, left: MissingWork | None = None
) -> Evidence:
    frame = pl.DataFrame({"editor": ["e"], "outcome": ["edit_succeeded"]})
    table = {"outcomes_by_editor": frame}.get
    return Evidence(name="x", protocol=protocol, table=table, judges=lambda: judges, left=left)


def test_judges_have_to_be_calibrated_and_pass(protocol: Protocol, tmp_path: Path) -> None:
    judges = {
        "good": JudgeCalibration(Ruling.PASSED, (), 100, 12),
        "bad": JudgeCalibration(Ruling.FAILED, ("It sees what is not there.",), 100, 12),
        "open": JudgeCalibration(Ruling.UNTOLD, ("Too few pairs.",), 10, 2),
        "never": JudgeCalibration(None),
    }
    path = policy(tmp_path / "policy.yaml", {"kind": "calibration"})
    found = {one.about: one for one in evaluate_gate(made_up(protocol, judges), path).results[1:]}
    told = {name.removeprefix("judge "): one.verdict.value for name, one in found.items()}
    assert told == {"good": "pass", "bad": "fail", "open": "undecided", "never": "fail"}
    assert "sees what is not there" in found["judge bad"].message
    path = policy(tmp_path / "policy.yaml", {"kind": "calibration", "judge": "good"})
    assert evaluate_gate(made_up(protocol, judges, MissingWork()), path).is_open


def test_an_editor_without_a_number_does_not_pass(protocol: Protocol, tmp_path: Path) -> None:
    path = policy(tmp_path / "policy.yaml", {"kind": "missingness", "at_most": 1.0})
    empty = pl.DataFrame(
        {"editor": ["e"], "outcome": ["soft_erasure"], "asked": [0], "missing": [0], "persons": [0]}
    )
    gated = evaluate_gate(Evidence(name="x", protocol=protocol, table=lambda id: empty, left=MissingWork()), path)
    assert [one.verdict.value for one in gated.results] == ["pass", "undecided"] and not gated.is_open


# A policy to start from


def test_the_starting_policy_fits_a_run_and_is_never_overwritten(
    gated_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deep/policy.yaml"
    assert run("--init", file) == 0 and f"Wrote {file}" in capsys.readouterr().out
    text = file.read_text(encoding="utf-8")
    assert "at_most: 0.03" in text and "kind: claims" in text, "the protocol's own margin"
    assert run("--init", file) == 2 and file.read_text(encoding="utf-8") == text
    assert run(gated_run, "--init", tmp_path / "other.yaml") == 0
    gated = gate.gate(gated_run, file)
    assert not gated.is_open
    kinds = {one.kind for one in gated.results}
    assert {"soft_erasure", "claims", "disparity", "net", "refusal_gap", "missingness", "calibration"} <= kinds
    assert not [one for one in of(gated, editor="even") if one.verdict == "fail"]
    assert [one for one in of(gated, editor="skips", kind="claims") if one.verdict == "fail"]


def test_the_starting_policy_is_made_of_the_protocol(protocol: Protocol) -> None:
    text = starting_policy("p.yaml", protocol)
    declared = protocol.analysis.primary
    assert all(f"outcome: {name}" in text for name in declared.outcomes)
    assert all(f"axis: {name}" in text for name in declared.net)


def test_nothing_to_gate_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2 and "What is to be gated?" in capsys.readouterr().err
    rule = policy(tmp_path / "policy.yaml", {"kind": "claims"})
    assert run(tmp_path / "nowhere", rule) == 2 and "nowhere" in capsys.readouterr().err
    assert run(tmp_path, tmp_path / "no.yaml") == 2 and "stillme gate --init" in capsys.readouterr().err
    assert run(tmp_path, rule) == 2 and "has neither" in capsys.readouterr().err
