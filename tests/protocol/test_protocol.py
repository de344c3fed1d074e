from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stillme.errors import FaultsError
from stillme.protocol import BUILTIN, Protocol, from_files, load


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUILTIN, tmp_path / "my-protocol"))


def change(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def faults(folder: Path) -> str:
    with pytest.raises(FaultsError) as raised:
        load(folder)
    return str(raised.value)


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
    assert "prompts[0].labl: is not a known key; did you mean 'label'?" in said
    assert "axes[1].neutral" in said
    assert "winobias.yaml: does not exist" in said


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("prompts.yaml", "id: O-02", "id: O-01", "the id 'O-01' stands there more than once"),
        ("prompts.yaml", "may_change: [age]", "may_change: [hair]", "'hair' is not a attribute"),
        ("rubrics.yaml", "axis: edit_success, at_least: 4", "axis: edit, at_least: 4", "'edit' is not a axis"),
        (
            "rubrics.yaml",
            "axis: edit_success, at_least: 4",
            "axis: edit_success, at_least: 9",
            "not a point of the axis",
        ),
        ("rubrics.yaml", "only_prompts: [V-03]", "only_prompts: [V-33]", "'V-33' is not a prompt"),
        (
            "groups.yaml",
            "reference_group: {race: white}",
            "reference_group: {race: whit}",
            "'whit' is not a group",
        ),
        ("groups.yaml", "aliases: [Black]", "aliases: [White]", "belongs to more than one group"),
        ("protocol.yaml", "version: 1.0.0", "version: one", "three numbers"),
        ("protocol.yaml", "disclose: [age]", "disclose: [ages]", "'ages' is not a dimension"),
        ("rubrics.yaml", "axis: skin_tone, at_least: 4", "axis: skin_tone", "exactly one of at_least and at_most"),
        ("rubrics.yaml", "neutral: 3", "neutral: 9", "neutral 9 is not a point of the scale"),
        ("protocol.yaml", "contrasts: [soft_erasure", "contrasts: [erasure", "'erasure' is not an outcome"),
        ("protocol.yaml", "by: race", "by: height", "is not a dimension of groups.yaml"),
        ("protocol.yaml", "  default: {label", "  careful: {label", "needs a preset named 'default'"),
        (
            "questionnaires/exp2_independent.yaml",
            "questions_from: exp1",
            "cannot_determine: true",
            "exactly one of questions",
        ),
        ("winobias.yaml", "target: janitor", "target: astronaut", "'astronaut' is not listed"),
        ("questionnaires/exp1_identity_drift.yaml", "axis: skin_tone", "axis: skin", "'skin' is not a axis"),
        (
            "questionnaires/exp2_independent.yaml",
            "questions_from: exp1",
            "questions_from: exp9",
            "no questionnaire 'exp9'",
        ),
        ("measures.yaml", "[-10.0, -3.0,", "[-3.0, -10.0,", "skin_tone.cut_points: each cut point is larger"),
        (
            "measures.yaml",
            "[-10.0, -3.0,",
            "[-10.0,",
            "has 3 cut points; the scale of 'skin_tone' needs 4",
        ),
        ("measures.yaml", "axis: skin_tone", "axis: skin", "skin_tone.axis: 'skin' is not an axis"),
        ("measures.yaml", "axis: age_drift", "axis: race_drift", "age.axis: 'race_drift' has no neutral point"),
        ("measures.yaml", "axis: edit_success", "axis: success", "no_change.axis: 'success' is not an axis"),
        ("measures.yaml", "score: 1 ", "score: 7 ", "no_change.score: is not a point of the axis 'edit_success'"),
        ("measures.yaml", "lpips: 0.02", "lpips: 0.2", "no_change: lpips 0.2 is above its highest, 0.15"),
        ("measures.yaml", "most_spread: 0.8", "most_spred: 0.8", "did you mean 'most_spread'?"),
        (
            "measures.yaml",
            "control: no_op",
            "control: upscale",
            "'upscale' is not a control by: prompt; known: no_op",
        ),
        ("measures.yaml", "id: upscale", "id: re_encode", "the id 're_encode' stands there more than once"),
        (
            "measures.yaml",
            "by: stillme, quality: 60",
            "by: editor, quality: 60",
            "'quality' belongs to controls by: stillme",
        ),
        (
            "measures.yaml",
            "by: stillme, quality: 60",
            "by: stillme",
            "controls[1]: a control by: stillme needs 'quality'",
        ),
        ("measures.yaml", "by: prompt, text", "by: editor, text", "'text' belongs to controls by: prompt"),
        (
            "measures.yaml",
            "trip, by: editor",
            "trip, by: magic",
            "controls[3].by: input should be 'prompt', 'stillme' or 'editor'",
        ),
    ],
)
def test_what_files_say_of_each_other_is_checked(copy: Path, file: str, old: str, new: str, said: str) -> None:
    change(copy, file, old, new)
    found = faults(copy)
    assert said.replace("a attribute", "an attribute").replace("a axis", "an axis") in found
    assert file in found


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
