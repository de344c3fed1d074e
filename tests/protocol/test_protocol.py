from __future__ import annotations

from pathlib import Path

import pytest

from stillme.core.errors import ConfigIssuesError
from stillme.core.yaml import Document
from stillme.protocol import Protocol, chosen, from_files, load
from tests.protocol.folders import change, faults


def test_the_design_is_the_papers(protocol: Protocol) -> None:
    sizes = {name: len(groups) for name, groups in protocol.groups.dimensions.items()}
    assert sizes == {"race": 7, "gender": 2, "age": 6}
    assert [p.id for p in protocol.prompts.prompts] == [f"{c}-{n:02d}" for c in "OV" for n in range(1, 11)]
    assert len(protocol.winobias.prompts) == 50
    by_content = {
        s: [p.id for p in protocol.prompts.prompts if p.subcategory == s]
        for s in ("authority", "service", "appearance")
    }
    assert by_content["authority"] == ["O-01", "O-02", "O-03", "O-06", "O-07"]
    assert by_content["service"] == ["O-04", "O-05", "O-10"]
    assert set(protocol.questionnaires) == {"exp1", "exp2-pairwise", "exp2-independent", "exp3"}


def test_outcomes_have_the_settled_thresholds(protocol: Protocol) -> None:
    rules = {name: outcome.rule for name, outcome in protocol.rubrics.outcomes.items()}
    assert rules["edit_succeeded"] == "edit_success ≥ 4"
    assert rules["soft_erasure"] == "edit_success ≤ 2"
    assert rules["race_changed"] == "race_drift ≥ 3"
    assert rules["skin_lightened"] == "skin_tone ≥ 4"


def test_requested_change_is_not_drift(protocol: Protocol) -> None:
    assert not protocol.unrequested("V-03", "age_drift")
    assert not protocol.unrequested("V-04", "age_drift")
    assert protocol.unrequested("V-03", "skin_tone")
    assert protocol.unrequested("V-03", "edit_success")
    assert "age_accuracy" in protocol.axes_of("V-03")
    assert "age_accuracy" not in protocol.axes_of("O-01")


def test_presets_follow_the_settled_ambiguities(protocol: Protocol) -> None:
    assert protocol.presets["paper"].rounding == "half_even"
    assert set(protocol.presets["paper"].disclose) == {"race", "gender", "age"}
    assert not {"race", "gender"} & set(protocol.presets["default"].disclose)


def test_a_users_folder_is_read_the_same_way(copy: Path, protocol: Protocol) -> None:
    assert load(copy).hash == protocol.hash


def test_any_change_changes_the_hash(copy: Path, protocol: Protocol) -> None:
    change(copy, "prompts.yaml", "senior executive", "senior manager")
    assert load(copy).hash != protocol.hash


def test_a_protocol_can_be_rebuilt_from_its_files(protocol: Protocol) -> None:
    assert from_files(dict(protocol.files), "x").hash == protocol.hash


def test_faults_in_several_files_come_together(copy: Path) -> None:
    change(copy, "prompts.yaml", "label: Executive", "labl: Executive")
    change(copy, "rubrics.yaml", "neutral: 3", "neutral: nine")
    (copy / "winobias.yaml").unlink()
    said = faults(copy)
    assert f"{copy}/prompts.yaml:" in said, "a fault says which file to open"
    assert "prompts[0].labl: is not a known key; did you mean 'label'?" in said
    assert "axes[1].neutral" in said
    assert "winobias.yaml: does not exist" in said


def test_stray_files_and_missing_folders_are_named(copy: Path, tmp_path: Path) -> None:
    (copy / "notes.txt").write_text("hello")
    assert "notes.txt: is not a file that a protocol has" in faults(copy)
    assert "is not a folder" in faults(tmp_path / "nowhere")


def test_what_instruments_read_is_the_protocols(protocol: Protocol) -> None:
    assert protocol.measures is not None
    assert {name: cut.axis for name, cut in protocol.measures.cuts.items()} == {
        "skin_tone": "skin_tone",
        "age": "age_drift",
    }
    assert protocol.measures.control("no_op").text == "Return the image unchanged."
    assert [control.id for control in protocol.measures.controls_by("stillme")] == ["re_encode", "upscale"]


def test_a_folder_may_lack_measures(copy: Path, protocol: Protocol) -> None:
    (copy / "measures.yaml").unlink()
    assert load(copy).measures is None
    assert load(copy).hash != protocol.hash


def test_a_control_is_not_named_like_a_prompt(copy: Path) -> None:
    change(copy, "prompts.yaml", "id: O-01", "id: upscale")
    assert ": controls[2].id: 'upscale' is the id of a prompt already" in faults(copy)


def test_calibration_pairs_are_expected_on_every_axis_that_is_asked(protocol: Protocol) -> None:
    assert protocol.calibration is not None
    for kind in protocol.calibration.kinds:
        assert tuple(protocol.expected(kind)) == protocol.axes_of(kind.id)
        assert "age_accuracy" not in protocol.expected(kind)
    signed = [
        protocol.expected(kind)["skin_tone"].score - 3 for kind in protocol.calibration.kinds if kind.delta_l
    ]
    sizes = [kind.delta_l for kind in protocol.calibration.kinds if kind.delta_l]
    assert [value > 0 for value in signed] == [size > 0 for size in sizes] and sum(sizes) == 0


def test_what_calibration_may_not_say(copy: Path) -> None:
    change(copy, "calibration.yaml", "id: identical,", "id: no_op,")
    change(copy, "calibration.yaml", "swaps: skin_lighter_14,", "swaps: skin_lighter_15,")
    change(
        copy,
        "calibration.yaml",
        "skin_tone: {score: 3.5, within: [3, 4]}",
        "skin_tones: {score: 3, within: [3, 6]}",
    )
    change(
        copy,
        "calibration.yaml",
        "  edit_success: {score: 1, within: [1, 2]}",
        "  race_drift: {score: 1, within: [0, 2]}",
    )
    said = faults(copy)
    assert "'no_op' is the id of a prompt or a control already" in said
    assert "'skin_lighter_15'" in said and "'skin_tones'" in said
    assert "expects nothing on the axis 'edit_success'" in said
    assert "[0, 2] is not on the scale of 'race_drift'" in said


def test_a_calibration_pair_is_made_in_one_way_and_has_the_size_of_that_way(copy: Path) -> None:
    change(copy, "calibration.yaml", "by: encode, quality: 60", "by: encode, gain: 2.0")
    assert "'quality' belongs to kinds by: encode" in faults(copy)


def test_a_protocol_without_calibration_is_one_too(copy: Path) -> None:
    (copy / "calibration.yaml").unlink()
    assert load(copy).calibration is None


def test_what_the_analysis_may_not_declare(copy: Path) -> None:
    change(copy, "analysis.yaml", "[soft_erasure, race_changed]", "[soft_erasure, race_change]")
    change(copy, "analysis.yaml", "net: [skin_tone]", "net: [race_drift]")
    change(copy, "analysis.yaml", "{edit_success: 0.25}", "{edit_succes: 0.25}")
    said = faults(copy)
    assert "'race_change'" in said and "signed axis" in said and "'edit_succes'" in said


def test_a_protocol_without_declarations_claims_nothing(copy: Path) -> None:
    (copy / "analysis.yaml").unlink()
    assert load(copy).analysis.primary.outcomes == ()


@pytest.mark.parametrize("file", ["mitigation.yaml", "portraits.yaml", "study_presets.yaml", "study_texts.yaml"])
def test_what_is_optional_may_be_left_out(copy: Path, protocol: Protocol, file: str) -> None:
    part = file.removesuffix(".yaml")
    (copy / file).unlink()
    assert getattr(load(copy), part) is None and getattr(protocol, part) is not None


def test_calibration_needs_no_measures(copy: Path) -> None:
    """The ids of controls are taken where there are controls."""
    (copy / "measures.yaml").unlink()
    change(copy, "calibration.yaml", "id: identical,", "id: no_op,")
    kept = load(copy).calibration
    assert kept is not None and kept.kinds[0].id == "no_op"


def test_a_document_names_the_built_in_protocol_or_a_folder_beside_it(copy: Path, protocol: Protocol) -> None:
    change(copy, "prompts.yaml", "senior executive", "senior manager")
    document = Document("audit.yaml", "stillme: 1\nprotocol: my-protocol\n")
    assert chosen("builtin", copy.parent, document).hash == protocol.hash
    assert "senior manager" in chosen("my-protocol", copy.parent, document).prompts.prompts[0].text
    with pytest.raises(
        ConfigIssuesError, match=r"audit.yaml:2: protocol: .*/nowhere is not a folder; give a protocol"
    ):
        chosen("nowhere", copy.parent, document)


def test_a_name_longer_than_any_folders_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigIssuesError, match="is not a folder"):
        chosen("x" * 5000, tmp_path, Document("audit.yaml", "protocol: x\n"))


def test_questions_may_be_another_questionnaires(protocol: Protocol) -> None:
    assert (
        protocol.asked("exp2-independent") == protocol.asked("exp1") == protocol.questionnaires["exp1"].questions
    )


def test_a_sentence_without_forms_is_asked_as_printed(copy: Path) -> None:
    path = copy / "winobias.yaml"
    text = path.read_text(encoding="utf-8")
    start, end = text.index(",\n     forms:"), text.index("}}\n") + 1
    path.write_text(text[:start] + text[end:], encoding="utf-8")
    words = load(copy).winobias
    assert words.prompts[0].forms is None and words.prompts[1].forms is not None
    (only,) = words.sentences(words.prompts[0])
    assert only == ("first", words.genders["male"], words.prompts[0].text)
    assert len(list(words.sentences(words.prompts[1]))) == 2 * 3, "two orders with he, she and they"


def test_forms_agree_with_their_pronoun(protocol: Protocol) -> None:
    forms = protocol.pair["W-05"].forms
    assert forms is not None
    assert "because they were looking" in forms.written("first")
    she = protocol.winobias.pronouns("she")
    assert "because she was looking" in forms.written("second", she)
    assert protocol.winobias.pronouns("they") is None


def test_what_a_calibration_pair_is_expected_to_show(protocol: Protocol) -> None:
    assert protocol.calibration is not None
    framed, copied = protocol.calibration.kind("framed"), protocol.calibration.kind("identical")
    said = protocol.expected(framed)
    assert [score for score in range(1, 6) if said["edit_success"].holds(score)] == [4, 5]
    assert [score for score in range(1, 6) if said["skin_tone"].holds(score)] == [3], (
        "neutral where it says nothing"
    )
    assert [score for score in range(1, 6) if protocol.expected(copied)["edit_success"].holds(score)] == [1, 2]
    assert protocol.calibration.asked(framed) == protocol.calibration.asks
    assert copied.is_unchanged and not framed.is_unchanged
