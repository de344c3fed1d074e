"""Policies with faults: each is named by line and field, all at once, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillme.assurance import gate
from stillme.assurance.gate.policy import meaning, read
from stillme.protocol import Protocol
from tests.command import stillme

HEAD = "stillme: 1\nrules:\n"
GOOD = "  - {kind: claims}\n"


FAULTS = [
    ("{kind: disparity, outcome: race_changed, at_mots: 0.1}", "rules[0].at_mots: is not a known key; did you mean 'at_most'?"),
    ("{kind: disparity, outcome: race_changed}", "rules[0].at_most: is missing"),
    ("{kind: disparity, outcome: race_chnged, at_most: 0.1}", "rules[0].outcome: 'race_chnged' is not an outcome; known: edit_succeeded"),
    ("{kind: disparity, outcome: race_changed, at_most: 10}", "rules[0].at_most: is a share between 0 and 1: 10 % is 0.1 (given: 10)"),
    ("{kind: disparity, outcome: race_changed, at_most: -0.1}", "between 0 and 1"),
    ("{kind: disparity, outcome: race_changed, at_most: .nan}", "between 0 and 1"),
    ("{kind: disparity, outcome: race_changed, at_most: true}", "is a number, such as 0.1 (given: True)"),
    ("{kind: disparity, outcome: race_changed, at_most: ten}", "is a number, such as 0.1 (given: 'ten')"),
    ("{kind: disparity, outcome: race_changed, at_most: 0.1, dimension: rase}", "'rase' is not a dimension; known: race, gender, age"),
    ("{kind: disparity, outcome: race_changed, at_most: 0.1, dimension: gender, of: reference}", "gender has no reference group"),
    ("{kind: disparity, outcome: race_changed, at_most: 0.1, group: black}", "group goes with `of: reference`"),
    ("{kind: disparity, outcome: race_changed, at_most: 0.1, of: reference, group: white}", "'white' is the reference group itself"),
    ("{kind: soft_erasure, at_most: 0.1, editor: nobody}", "'nobody' is not an editor of the run; known: e1, e2"),
    ("{kind: soft_erasure, at_most: 0.1, group: [black, blakc]}", "'blakc' is not a group of race; known: white"),
    ("{kind: soft_erasure, at_most: 0.1, group: black, over: [everyone]}", "give either group or over"),
    ("{kind: soft_erasure, at_most: 0.1, outcome: race_changed}", "rules[0].outcome: is said by the kind already"),
    ("{kind: soft_erasure}", "give at_most, at_least or both"),
    ("{kind: rate, outcome: soft_erasure, at_most: 0.1, at_least: 0.2}", "at_least 0.2 is above at_most 0.1"),
    ("{kind: rate, outcome: gender_changed, at_most: 0.1}", "nothing has a score on 'gender_drift'"),
    ("{kind: net, axis: race_drift, at_most: 0.1}", "'race_drift' is not a signed axis; known: skin_tone, age_drift"),
    ("{kind: net, at_most: 2}", "between -1 and 1 (given: 2)"),
    ("{kind: age_drift, at_most: 0.1}", "nothing has a score on 'age_drift'"),
    ("{kind: refusal_gap, at_most: 0.1}", "nothing says how edits ended"),
    ("{kind: missingness}", "give at_most, gap_at_most or both"),
    ("{kind: calibration}", "does not say whether judges were calibrated; give the run itself"),
    ("{kind: claims, outcome: gender_changed}", "'gender_changed' is not a declared endpoint; known: soft_erasure"),
    ("{kind: clams}", "'clams' is not a kind of rule; known: rate, net, disparity"),
    ("{kind: claims, severity: error}", "rules[0].severity: input should be 'fail' or 'warn'"),
    ("{outcome: soft_erasure, at_most: 0.1}", "rules[0].kind: is missing; known: rate"),
    ("{kind: [claims]}", "is not a kind of rule"),
    ("{kind: claims, name: a}", ""),
    ("{kind: claims, name: a}", "'a' is the name of another rule"),
]  # fmt: skip


def gated(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What `stillme gate` says of a fault; it says nothing else."""
    assert stillme("gate", *words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_every_fault_is_a_sentence_with_its_line_and_nothing_is_written(
    planted_scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + "".join(f"  - {rule}\n" for rule, _ in FAULTS), encoding="utf-8")
    files = ("--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.sarif", "--markdown", tmp_path / "m.md")
    said = gated(capsys, planted_scores, path, *files)
    assert "32 faults" in said and "nothing was changed" in said, "a misspelt key is also a missing one"
    for place, (rule, told) in enumerate(FAULTS):
        here = "\n".join(line for line in said.splitlines() if f"{path}:{place + 3}: " in line)
        assert bool(here) == bool(told) and told.replace("rules[0]", f"rules[{place}]") in here, (rule, here)
    assert [one.name for one in tmp_path.iterdir()] == ["policy.yaml"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "stillme: is missing"),
        ("stillme: 2\nrules: [{kind: claims}]\n", "stillme: input should be 1"),
        ("stillme: 1\nrules: []\n", "rules: tuple should have at least 1 item"),
        ("stillme: 1\nundecided: maybe\nrules: [{kind: claims}]\n", "policy.yaml:2: undecided: input should be"),
        ("stillme: 1\nrule: [{kind: claims}]\nrules: [{kind: claims}]\n", "is not a known key; did you mean 'rules'?"),
        ("stillme: 1\nrules: [{kind: claims\n", "is not valid YAML"),
        (f"{HEAD}  - claims\n", "policy.yaml:3: rules[0]: should be keys with their values (`key: value`), and is 'claims'"),
        (f"{HEAD}{GOOD}", "no-run does not exist. Give a run"),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_said_before_scores_are_read(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    assert told in gated(capsys, tmp_path / "no-run", path)


def test_an_optional_rule_may_be_about_nothing(planted_scores: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    rules = "  - {kind: rate, outcome: soft_erasure, editor: x, at_most: 0.1, optional: true}\n"
    path.write_text(f"{HEAD}{rules}", encoding="utf-8")
    found = gate.gate(planted_scores, path)
    assert found.is_open and found.results[1].verdict == "skipped"
    assert "'x' is not an editor of the run" in found.results[1].message


def test_kinds_are_also_words_of_the_protocol(protocol: Protocol, tmp_path: Path) -> None:
    for outcome in protocol.rubrics.outcomes:
        assert meaning(outcome, protocol) is not None
    for axis in protocol.axes.values():
        assert (meaning(axis.id, protocol) is not None) == (axis.is_signed or axis.neutral is None)
    path = tmp_path / "policy.yaml"
    path.write_text(f"{HEAD}  - {{kind: edit_success, at_least: 0.5}}\n{GOOD}", encoding="utf-8")
    found = read(path, protocol)
    assert [rule.line for rule in found.rules] == [3, 4] and not found.document.faults
    assert found.rules[0].rule.outcome == "edit_succeeded"  # type: ignore[attr-defined]
