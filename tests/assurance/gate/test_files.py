"""What a gate prints and writes: a table that fits, JUnit, SARIF, Markdown, whatever the names are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from stillme.assurance import gate
from stillme.assurance.gate import Files
from stillme.assurance.gate.results import GateResult
from stillme.cli.main import main
from stillme.cli.render.release import render_gate
from stillme.core.errors import StillmeError
from stillme.protocol import Protocol
from tests.assurance.gate.runs import make_scores, policy

ODD = "a|b <b>&amp;\x07\x1b[31m\ud7ff\"'`x`\n## y ]]>"
RULES = (
    {"kind": "race_changed", "name": "race <changed> & \x0bmore", "at_most": 0.2},
    {"kind": "edit_success", "at_least": 0.0, "over": ["everyone"]},
    {"kind": "soft_erasure", "at_most": 0.0, "severity": "warn", "over": ["everyone"]},
    {"kind": "claims", "editor": "nobody", "optional": True},
)


@pytest.fixture(scope="module")
def gated(protocol: Protocol, tmp_path_factory: pytest.TempPathFactory) -> GateResult:
    """Of an editor with an odd name; closed, with a warning and a rule that is left out."""
    folder = tmp_path_factory.mktemp("odd")
    path = make_scores(protocol, folder / "scores.parquet", e1=ODD)
    (folder / "here").mkdir()
    return gate.gate(path, policy(folder / "here/policy #1.yaml", *RULES, name="gate ]]> & <co>"))


def longest(said: str) -> int:
    """The longest line but the first ones, which hold paths."""
    return max(map(len, said.split("\n\n", 1)[1].splitlines()))


def test_junit_is_xml_with_the_right_counts(gated: GateResult, tmp_path: Path) -> None:
    gate.write(gated, Files(junit=tmp_path / "deep/gate.xml"))
    suites = ElementTree.parse(tmp_path / "deep/gate.xml").getroot()
    (suite,) = suites
    cases = suite.findall("testcase")
    failures, skipped = suite.findall("testcase/failure"), suite.findall("testcase/skipped")
    closing = [one for one in gated.results if one.effect == "closes"]
    assert suites.tag == "testsuites" and suite.get("name") == "gate ]]> & <co>"
    for element in (suites, suite):
        counts = {name: int(element.get(name, "-1")) for name in ("tests", "failures", "errors", "skipped")}
        assert counts == {"tests": len(gated.results), "failures": len(closing), "errors": 0, "skipped": 2}
    assert len(cases) == len(gated.results) and len(failures) == len(closing) >= 1 and len(skipped) == 2
    assert failures[0].text == failures[0].get("message") and "Allowed: at most" in (failures[0].text or "")
    names = [case.get("name", "") for case in cases]
    assert any("race <changed> & more" in name for name in names), "markup is text, control characters are gone"
    assert any('a|b <b>&amp;[31m\ud7ff"' in name for name in names)


def test_sarif_has_what_the_standard_requires(
    gated: GateResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(gated.policy.parent.parent)
    gate.write(gated, Files(sarif=tmp_path / "gate.sarif"))
    log: dict[str, Any] = json.loads((tmp_path / "gate.sarif").read_text(encoding="utf-8"))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert driver["name"] and driver["informationUri"].startswith("https://") and len(ids) == len(set(ids))
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert len(run["results"]) == sum(one.effect != "none" for one in gated.results)
    assert {result["level"] for result in run["results"]} == {"error", "warning"}
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"] and result["kind"] == "fail"
        assert result["message"]["text"] and result["partialFingerprints"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "here/policy%20%231.yaml"
        assert place["region"]["startLine"] >= 3
    assert run["invocations"][0] == {"executionSuccessful": True, "exitCode": 5}
    assert run["properties"]["gate"] == "closed"


def test_markdown_is_a_table_whatever_the_names_are(gated: GateResult, tmp_path: Path) -> None:
    gate.write(gated, Files(markdown=tmp_path / "gate.md"))
    text = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert text.startswith("## gate \\]\\]&gt; & &lt;co&gt;: closed\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(gated.results) + 2
    assert {line.replace("\\|", "").count("|") for line in rows} == {10}
    assert "<b>" not in text and "\x1b" not in text and "\n## y" not in text


def test_the_terminals_table_fits_and_steers_nothing(gated: GateResult) -> None:
    said = render_gate(gated)
    assert longest(said) <= 100
    assert "\x1b" not in said and "\x07" not in said
    assert said.splitlines()[-1].startswith("Gate closed: ")


def test_longest_names_and_numbers_fit(protocol: Protocol, tmp_path: Path) -> None:
    path = make_scores(protocol, tmp_path / "scores.parquet", e1="an-editor-with-a-very-long-name" * 3)
    rules = [{"kind": "net", "name": "n" * 120, "at_most": 0.99, "at_least": -0.99}, *RULES[:3]]
    said = render_gate(gate.gate(path, policy(tmp_path / "policy.yaml", *rules)))
    assert longest(said) <= 100


def test_exit_codes_and_json(planted_scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = policy(tmp_path / "closed.yaml", {"kind": "race_changed", "at_most": 0.0})
    with pytest.raises(SystemExit) as left:
        main(["gate", str(planted_scores), str(closed), "--json", "--junit", str(tmp_path / "j.xml")])
    found = json.loads(capsys.readouterr().out)
    assert left.value.code == 5 and found["gate"] == "closed" and found["counts"]["fail"] >= 1
    one = found["results"][1]
    wanted = {"rule", "kind", "line", "verdict", "effect", "editor", "estimate", "low", "high", "n", "persons"}
    assert wanted | {"at_most", "at_least", "said"} <= set(one)
    assert (tmp_path / "j.xml").is_file()
    opened = policy(tmp_path / "open.yaml", {"kind": "race_changed", "at_most": 1.0})
    with pytest.raises(SystemExit) as left:
        main(["gate", str(planted_scores), str(opened)])
    assert left.value.code == 0 and "Gate open" in capsys.readouterr().out


def test_a_file_is_written_whole_or_not_at_all(
    gated: GateResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gate.xml"
    path.write_text("as it was", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StillmeError, match="full"):
        gate.write(gated, Files(junit=path))
    assert path.read_text(encoding="utf-8") == "as it was" and [one.name for one in tmp_path.iterdir()] == [
        "gate.xml"
    ]
