from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from stillme import measures
from stillme.core.errors import ConfigIssuesError, SetupError
from stillme.core.records import Role
from stillme.plan import config
from stillme.plan.config import Config
from stillme.protocol import BUILTIN, load

Load = Callable[..., Config]
TRUTHS = Path(config.__file__).parents[1] / "editors/truths"
PLANTED = {"id": "p", "kind": "planted", "settings": {"truth": "even"}}
JUDGE = {"id": "j", "kind": "planted", "role": "primary"}
INSTRUMENT = {"id": "i", "kind": "instrument"}
CHANGE = {"id": "c", "kind": "change"}


@pytest.fixture(autouse=True)
def scripted_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures that need no extra, under the names of the real ones."""
    for kind in measures.BACKENDS:
        monkeypatch.setitem(measures.BACKENDS, kind, "tests.scripted")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edtors": []}, "edtors: is not a known key; did you mean 'editors'?"),
        ({"name": 7}, "name: input should be a valid string"),
        ({"stillme": 2}, "stillme: input should be 1"),
        ({"preset": "papr"}, "preset: 'papr' is not a preset; known: default, paper"),
        ({"editors": []}, "editors: tuple should have at least 1 item"),
        (
            {"editors": [{**PLANTED, "kind": "flux"}]},
            "editors[0].kind: 'flux' is not a kind of editor; known: planted",
        ),
        ({"editors": [PLANTED, PLANTED]}, "editors: the id 'p' stands there 2 times"),
        (
            {"editors": [{**PLANTED, "settings": {"truth": "evne"}}]},
            "editors[0].settings: there is no truth 'evne': shipped are",
        ),
        (
            {"editors": [{**PLANTED, "settings": {"truth": "even", "speed": 1}}]},
            "editors[0].settings.speed: is not a known key",
        ),
        ({"editors": [{**PLANTED, "settings": {}}]}, "editors[0].settings.truth: is missing"),
        (
            {"judges": [{**JUDGE, "role": "secondary"}]},
            "judges: exactly one judge has the role primary; here: none",
        ),
        ({"judges": [{**JUDGE, "settings": {"noise": -1}}]}, "judges[0].settings.noise: input should be greater"),
        (
            {"judges": [{**JUDGE, "settings": {"shifts": [{"axis": "skin", "points": 1}]}}]},
            "'skin' is not an axis",
        ),
        (
            {"experiments": {"diagnose": {"prompts": ["O-99"]}}},
            "experiments.diagnose.prompts: 'O-99' is not a prompt",
        ),
        (
            {"experiments": {"diagnose": {"arms": ["basline"]}}},
            "'basline' is not an arm of 'diagnose'; known: baseline, reseed",
        ),
        ({"experiments": {}}, "experiments: needs at least one of diagnose, mitigate and stereotype"),
        ({"experiments": ["diagnose", "mitigat"]}, "experiments.mitigat: is not a known key"),
        ({"experiments": {"diagnose": {"arms": ["feature"]}}}, "'feature' is not an arm of 'diagnose'"),
        ({"experiments": {"mitigate": {"arms": ["feature"]}}}, "compares 'baseline' with at least one other arm"),
        ({"experiments": {"mitigate": {"select": "drifted"}}}, "chooses by what 'diagnose' finds"),
        ({"experiments": {"mitigate": {"prompts": ["O-99"]}}}, "'O-99' is not a prompt"),
        ({"experiments": {"mitigate": {}}, "judges": []}, "needs somebody who reads features off the portraits"),
        (
            {"experiments": {"mitigate": {"extractor": {"kind": "instrument"}}}},
            "experiments.mitigate.extractor.kind: 'instrument' is not a kind",
        ),
        (
            {"experiments": {"mitigate": {"extractor": {"kind": "planted", "settings": {"noise": -1}}}}},
            "experiments.mitigate.extractor.settings.noise",
        ),
        ({"experiments": {"stereotype": {"prompts": ["W-99"]}}}, "'W-99' is not a stereotype prompt"),
        (
            {"sources": [{"id": "s", "kind": "synthetic", "settings": {"groups": {"race": ["green"]}}}]},
            "'green' is not known",
        ),
        (
            {"sources": [{"id": "s", "kind": "synthetic", "settings": {"groups": {"height": ["tall"]}}}]},
            "not a dimension",
        ),
        ({"measures": [{"id": "m", "kind": "skin"}]}, "measures[0].kind: 'skin' is not a kind of measure"),
        (
            {"measures": [CHANGE, {**CHANGE, "id": "again"}]},
            "measures: the kind 'change' stands there 2 times; once is enough",
        ),
        ({"measuring": {"share": 0}}, "measuring.share: input should be greater than 0"),
        ({"measuring": {"share": 1.5}}, "measuring.share: input should be less than or equal to 1"),
        (
            {"experiments": {"diagnose": {}, "controls": {"kinds": ["no_op", "blur"]}}},
            "experiments.controls.kinds: 'blur' is not a control; known: no_op, re_encode, upscale, vae_round_trip",
        ),
        (
            {"editors": [{**PLANTED, "id": "upscale"}]},
            "editors[0].id: 'upscale' is the name of a control that stillme makes",
        ),
        (
            {"judges": [{**INSTRUMENT, "role": "primary"}], "measures": [CHANGE]},
            "judges[0].role: an instrument is never primary: it sees that nothing changed, not whether an edit is good",
        ),
        (
            {"judges": [JUDGE, INSTRUMENT, {**INSTRUMENT, "id": "k"}], "measures": [CHANGE]},
            "judges: one judge of the kind 'instrument' is enough",
        ),
        (
            {"judges": [JUDGE, INSTRUMENT], "measures": [{"id": "x", "kind": "identity"}]},
            "judges[1]: needs a measure of the kind skin_tone_shift or change; add one to 'measures'",
        ),
        (
            {"judges": [JUDGE, {**JUDGE, "id": "k", "role": "instrument"}]},
            "judges[1].role: 'instrument' is the role of judges of the kind 'instrument' only",
        ),
        (
            {"judges": [{**JUDGE, "role": "secondary"}, INSTRUMENT], "measures": [CHANGE]},
            "judges: exactly one judge has the role primary; here: none",
        ),
        (
            {"judges": [JUDGE, {**INSTRUMENT, "settings": {"noise": 1}}], "measures": [CHANGE]},
            "judges[1].settings.noise: is not a known key",
        ),
        ({"protocol": "./nowhere"}, "protocol: "),
        ({"budgets": {"cost_usd": -1}}, "budgets.cost_usd: input should be greater than or equal to 0"),
        ({"engine": {"workers": 9999}}, "engine.workers"),
    ],
)
def test_bad_input_is_named_by_file_and_field(load_audit: Load, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigIssuesError) as raised:
        load_audit(**changes)
    assert said in str(raised.value)
    assert "audit.yaml:" in str(raised.value)


def test_all_faults_come_at_once(load_audit: Load) -> None:
    with pytest.raises(ConfigIssuesError) as raised:
        load_audit(
            preset="x", editors=[{**PLANTED, "kind": "flux"}], judges=[{**JUDGE, "settings": {"noise": -1}}]
        )
    assert len(raised.value.faults) == 3


def test_a_truth_file_of_ones_own_is_read_beside_the_audit(load_audit: Load, tmp_path: Path) -> None:
    shipped = TRUTHS / "even.yaml"
    (tmp_path / "mine.yaml").write_text(
        shipped.read_text().replace("base: 0.06", "base: 0.5, times: {race: {purple: 2}}")
    )
    with pytest.raises(
        ConfigIssuesError, match=r"mine.yaml:\d+: effects\[0\].rate.times.race.purple: is not a known race"
    ):
        load_audit(editors=[{**PLANTED, "settings": {"truth": "mine.yaml"}}])
    (tmp_path / "mine.yaml").write_text(shipped.read_text().replace("does: fade", "does: fly", 1))
    with pytest.raises(ConfigIssuesError, match=r"effects\[0\].does"):
        load_audit(editors=[{**PLANTED, "settings": {"truth": "mine.yaml"}}])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "refused: {base: 0.01}",
            "refused: {base: 0.01, times: {gender: {x: 2}}}",
            "refused.times.gender.x: is not a known gender",
        ),
        (
            "corrupt: {base: 0.003}",
            "corrupt: {base: 0.003, times: {mood: {x: 2}}}",
            "corrupt.times.mood.x: is not a known mood",
        ),
        ("otherwise: {edit_success", "otherwise: {edit", "otherwise.edit: is not an axis"),
        ("score: {race_drift", "score: {race", "score.race: is not an axis"),
        (
            "does: fade, strength",
            "does: fade, sizes: {age: {90s: [0, 1]}}, strength",
            "sizes.age.90s: is not a known age",
        ),
        ("does: fade, strength", "does: skin, strength", "belongs to effects that do"),
    ],
)
@pytest.mark.parametrize("where", ["mine.yaml", "audit.yaml"])
def test_words_in_a_truth_that_the_protocol_does_not_know(
    load_audit: Load, tmp_path: Path, old: str, new: str, said: str, where: str
) -> None:
    """The same in a file of its own and in the audit itself."""
    text = (TRUTHS / "even.yaml").read_text()
    assert old in text
    changed = text.replace(old, new, 1)
    (tmp_path / "mine.yaml").write_text(changed)
    truth = where if where == "mine.yaml" else yaml.safe_load(changed)
    with pytest.raises(ConfigIssuesError) as raised:
        load_audit(editors=[{**PLANTED, "settings": {"truth": truth}}])
    assert any(said in str(fault) and f"{where}:" in str(fault) for fault in raised.value.faults)


def test_a_truth_file_that_changes_after_it_was_read_changes_nothing(load_audit: Load, tmp_path: Path) -> None:
    """Another process that makes the editor reads no file again."""
    shutil.copy(TRUTHS / "even.yaml", tmp_path / "mine.yaml")
    prepared = load_audit(editors=[{**PLANTED, "settings": {"truth": "mine.yaml"}}]).editors["p"]
    shutil.copy(TRUTHS / "lightens.yaml", tmp_path / "mine.yaml")
    assert prepared.factory is not None and prepared.factory().truth == prepared.make().truth
    assert prepared.factory().truth.id == "even"


def test_a_pretended_price_does_not_change_what_is_done(load_audit: Load) -> None:
    dear = load_audit(editors=[{**PLANTED, "settings": {"truth": "even", "price_usd": 3.0}}]).editors["p"]
    assert dear.effective == load_audit(editors=[PLANTED]).editors["p"].effective
    assert dear.price_usd == 3.0


def test_a_truth_files_content_and_not_its_path_is_in_the_settings(load_audit: Load, tmp_path: Path) -> None:
    shipped = TRUTHS / "even.yaml"
    shutil.copy(shipped, tmp_path / "mine.yaml")
    named = load_audit(editors=[PLANTED]).editors["p"].effective
    by_path = (
        load_audit(editors=[{**PLANTED, "settings": {"truth": "mine.yaml"}, "label": "other"}])
        .editors["p"]
        .effective
    )
    assert named == by_path


def test_a_protocol_folder_of_ones_own(load_audit: Load, tmp_path: Path) -> None:
    shutil.copytree(BUILTIN, tmp_path / "my-protocol")
    assert load_audit(protocol="./my-protocol").protocol.name == "stillme 1.0.0"
    (tmp_path / "my-protocol/groups.yaml").write_text("race: []")
    load.cache_clear()
    with pytest.raises(ConfigIssuesError, match=r"my-protocol/groups.yaml"):
        load_audit(protocol="./my-protocol")


def test_a_key_that_is_not_set_is_named_before_anything_is_spent(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    loaded = load_audit(editors=[{**PLANTED, "key_env": "SOME_API_KEY"}])
    with pytest.raises(SetupError, match="The editor 'p' needs a key in the environment variable SOME_API_KEY"):
        config.check_keys(loaded)
    monkeypatch.setenv("SOME_API_KEY", "secret")
    config.check_keys(loaded)


def test_a_judge_without_a_role_is_primary_and_an_instrument_stands_beside(load_audit: Load) -> None:
    rows = [INSTRUMENT, {"id": "b", "kind": "planted", "role": "secondary"}, {"id": "a", "kind": "planted"}]
    loaded = load_audit(judges=rows, measures=[CHANGE])
    ranked = [(row.id, row.role) for row in loaded.ranked_judges()]
    assert ranked == [("a", Role.PRIMARY), ("b", Role.SECONDARY), ("i", Role.INSTRUMENT)]
    assert loaded.judges["i"].derived and not loaded.judges["a"].derived
    mixed = load_audit(judges=[{**INSTRUMENT, "role": "secondary"}, JUDGE], measures=[CHANGE])
    assert [(row.id, row.role) for row in mixed.ranked_judges()] == [("j", Role.PRIMARY), ("i", Role.SECONDARY)]


def test_an_instrument_may_be_the_only_judge(load_audit: Load) -> None:
    loaded = load_audit(judges=[INSTRUMENT], measures=[CHANGE])
    assert [row.role for row in loaded.ranked_judges()] == [Role.INSTRUMENT]
    with pytest.raises(RuntimeError, match="not asked"):
        loaded.judges["i"].make()


def test_measures_are_prepared_under_their_ids(load_audit: Load) -> None:
    loaded = load_audit(measures=[CHANGE, {"id": "skin", "kind": "skin_tone_shift", "settings": {"actor": "m"}}])
    assert {name: one.inputs["actor"] for name, one in loaded.measures.items()} == {"c": "", "skin": "m"}
    assert loaded.audit.measuring.share == 1.0


def test_controls_come_with_the_editors_that_make_them(load_audit: Load) -> None:
    assert not load_audit().controls
    loaded = load_audit(experiments={"diagnose": {}, "controls": {}})
    assert {name: (one.effective["quality"], one.effective["scale"]) for name, one in loaded.controls.items()} == {
        "re_encode": (60, 1.0),
        "upscale": (95, 2.0),
    }
    assert loaded.editor("upscale") is loaded.controls["upscale"]
    assert loaded.editor("even") is loaded.editors["even"]
    some = load_audit(experiments={"diagnose": {}, "controls": {"kinds": ["upscale", "no_op"]}})
    assert [c.id for c in config.wanted_controls(some.audit, some.protocol)] == ["no_op", "upscale"]
    assert list(some.controls) == ["upscale"]


def test_a_protocol_without_measures_says_what_needs_them(load_audit: Load, tmp_path: Path) -> None:
    shutil.copytree(BUILTIN, tmp_path / "old")
    (tmp_path / "old/measures.yaml").unlink()
    assert load_audit(protocol="./old").protocol.measures is None
    with pytest.raises(ConfigIssuesError) as raised:
        load_audit(
            protocol="./old",
            experiments={"diagnose": {}, "controls": {}},
            judges=[JUDGE, INSTRUMENT],
            measures=[CHANGE],
        )
    fields = [fault.field for fault in raised.value.faults]
    assert sorted(fields) == ["experiments.controls", "judges[1]", "measures"]
    assert all("needs measures.yaml in the protocol folder" in fault.problem for fault in raised.value.faults)


def test_a_package_that_is_missing_is_named_before_anything_is_spent(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_audit(measures=[{**CHANGE, "settings": {"requires": ["numpy", "cv2"]}}])
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SetupError, match=r"The measure 'c' needs the package cv2, .*stillme\[vision\]"):
        config.check_keys(loaded)


def test_experiments_may_be_named_alone(load_audit: Load) -> None:
    config = load_audit(experiments=["diagnose", "mitigate", "stereotype"])
    assert config.audit.experiments.wanted == ("diagnose", "mitigate", "stereotype")
    assert config.select == "stratified" and config.counterbalanced, "a careful auditor's choices"
    paper = load_audit(experiments=["diagnose", "mitigate", "stereotype"], preset="paper")
    assert paper.select == "drifted" and not paper.counterbalanced
    assert config.extractor_row is not None and config.extractor_row.id == "a", "the primary judge, as in S0"
