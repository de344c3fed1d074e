"""Which settings of the open-weight editors change a key, and which are refused before anything is loaded."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillme.core.errors import ConfigIssuesError, SetupError
from stillme.editors import VAE_ROUND_TRIP, flux2, qwen, step1x
from stillme.editors.weights import fingerprint
from stillme.engine import backends
from stillme.engine.backends import ExecutionMode
from stillme.plan import config
from tests.conftest import Write
from tests.editors.open_weights import key, pipeline_folder, prepare

COMMIT, OTHER = "a" * 40, "b" * 40
URL = "https://encoder.example/predict"

# Module -> setting -> two values that give different pixels.
PIXELS: dict[Any, dict[str, tuple[Any, Any]]] = {
    flux2: {
        "guidance_scale": (3.5, 4.0),
        "quantization": (None, "4bit"),
        "remote_text_encoder": (None, {"url": URL}),
    },
    qwen: {"true_cfg_scale": (3.0, 4.0), "negative_prompt": (" ", "blurred"), "height": (None, 512)},
    step1x: {
        "true_cfg_scale": (5.0, 6.0),
        "negative_prompt": (None, "blurred"),
        "size_level": (512, 1024),
        "timesteps_truncate": (0.9, 0.93),
        "process_norm_power": (0.3, 0.4),
        "thinking": (False, True),
        "reflection": (False, True),
        "max_try_cnt": (2, 3),
        "regione": (None, {}),
    },
}
COMMON: dict[str, tuple[Any, Any]] = {
    "num_inference_steps": (28, 50),
    "dtype": ("bfloat16", "float32"),
    "device": ("cuda", "cpu"),
    "threads": (1, 2),
    "revision": (COMMIT, OTHER),
    "source": ("someone/one", "someone/other"),
}
# Settings that change no pixel: two values each.
SAME: dict[str, tuple[Any, Any]] = {
    "device": ("cuda", "cuda:1"),
    "offload": ("none", "sequential_cpu_offload"),
    "vae_slicing": (False, True),
    "attention_slicing": (False, True),
    "local_files_only": (False, True),
    "deadline_s": (60, 3600),
    "allow_unpinned": (False, True),
}
MODULES = (flux2, qwen, step1x)
BASE = {"source": "someone/one", "revision": COMMIT, "num_inference_steps": 28, "device": "cuda"}


def full(module: Any, **changes: Any) -> dict[str, Any]:
    """Settings that fit together, whatever single one is changed."""
    found = {**BASE, **changes}
    if "height" in changes:
        found["width"] = changes["height"]
    return found


def values(module: Any) -> dict[str, tuple[Any, Any]]:
    every = {**COMMON, **PIXELS[module]}
    return {name: pair for name, pair in every.items() if module is not step1x or name != "dtype"}


@pytest.mark.parametrize("module", MODULES)
def test_a_change_of_anything_that_changes_pixels_gives_a_new_key(module: Any, tmp_path: Path) -> None:
    for name, pair in values(module).items():
        one, other = (prepare(module, tmp_path, **full(module, **{name: value})) for value in pair)
        assert key(one) != key(other), name


@pytest.mark.parametrize("module", MODULES)
def test_a_change_of_where_and_how_it_lies_in_memory_gives_none(module: Any, tmp_path: Path) -> None:
    for name, pair in SAME.items():
        one, other = (prepare(module, tmp_path, **full(module, **{name: value})) for value in pair)
        assert key(one) == key(other), name


@pytest.mark.parametrize("module", MODULES)
def test_every_setting_is_known_to_change_pixels_or_not(module: Any) -> None:
    """A setting that is added later has to be entered in one of the tables above."""
    named = {*values(module), *SAME, "weights", "published", "dtype", "width"}
    dropped = {"guidance_scale"} if module is qwen else set()
    assert set(module.Settings.model_fields) <= named | dropped


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_keys_are_equal_exactly_when_the_pixels_can_only_be_equal(tmp_path: Path, data: st.DataObject) -> None:
    module = data.draw(st.sampled_from((flux2, qwen)))
    shaping = {name: pair for name, pair in values(module).items() if name != "device"}
    idle = {name: pair for name, pair in SAME.items() if name not in ("device", "allow_unpinned")}
    both = [
        {name: data.draw(st.sampled_from(pair)) for name, pair in {**shaping, **idle}.items()} for _ in range(2)
    ]
    one, other = (prepare(module, tmp_path, **full(module, **chosen)) for chosen in both)
    equal = all(both[0][name] == both[1][name] for name in shaping)
    assert (key(one) == key(other)) is equal


def test_the_published_settings_are_those_of_the_protocol(tmp_path: Path) -> None:
    calls = {m: prepare(m, tmp_path, revision=COMMIT).effective["call"] for m in MODULES}
    assert calls[flux2] == {"num_inference_steps": 50, "guidance_scale": 4.0}
    assert calls[qwen] == {"num_inference_steps": 40, "true_cfg_scale": 4.0, "negative_prompt": " "}
    assert calls[step1x]["num_inference_steps"] == 28 and calls[step1x]["true_cfg_scale"] == 6.0
    assert calls[step1x]["thinking"] is False and calls[step1x]["reflection"] is False


def test_what_is_prepared_says_what_it_needs(tmp_path: Path) -> None:
    made = {module: prepare(module, tmp_path, revision=COMMIT) for module in MODULES}
    for one in made.values():
        assert one.mode is ExecutionMode.MODEL and one.deadline and one.controls == (VAE_ROUND_TRIP,)
        assert {"torch", "diffusers"} <= set(one.requires) and one.needs["vram_gb"] > 0
    assert made[qwen].dropped["attention_slicing"] == "no component of the pipeline has it"
    assert "true_cfg_scale" in made[qwen].dropped["guidance_scale"]
    assert made[qwen].inputs["offload"] == made[step1x].inputs["offload"] == "sequential_cpu_offload"
    assert made[flux2].inputs["offload"] == "model_cpu_offload"
    assert [made[m].most_images > 1 for m in MODULES] == [True, True, False]
    assert not prepare(flux2, tmp_path, revision=COMMIT, device="cpu").needs


@pytest.mark.parametrize("module", MODULES)
def test_what_a_run_keeps_prepares_the_same_elsewhere(module: Any, tmp_path: Path) -> None:
    folder = pipeline_folder(tmp_path / "weights")
    first = prepare(module, tmp_path, source="weights", device="cpu")
    shutil.rmtree(folder)
    again = prepare(module, tmp_path / "elsewhere", **first.inputs)
    assert key(again) == key(first) and again.inputs == first.inputs
    assert "torch" not in sys.modules


def test_a_folder_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    one = pipeline_folder(tmp_path / "a")
    (one / "README.md").write_text("not read by the pipeline", encoding="utf-8")
    assert fingerprint(one) == fingerprint(pipeline_folder(tmp_path / "b/c"))
    keys = [key(prepare(flux2, tmp_path, source=where, device="cpu")) for where in ("a", str(tmp_path / "b/c"))]
    assert keys[0] == keys[1]
    other = pipeline_folder(tmp_path / "d", b"v" * 3_000_000)
    longer = pipeline_folder(tmp_path / "e", b"w" * 3_000_001)
    assert len({fingerprint(folder) for folder in (one, other, longer)}) == 3
    (one / "vae/config.json").write_text("{ }", encoding="utf-8")
    assert fingerprint(one) != fingerprint(tmp_path / "b/c")


def refused(module: Any, folder: Path, **settings: Any) -> str:
    with pytest.raises(ValueError) as raised:
        prepare(module, folder, **{"revision": COMMIT, **settings})
    return str(raised.value)


def test_weights_must_be_pinned(tmp_path: Path) -> None:
    assert "40 hexadecimal digits" in refused(flux2, tmp_path, revision=None)
    assert "40 hexadecimal digits" in refused(flux2, tmp_path, revision="main")
    unpinned = prepare(flux2, tmp_path, allow_unpinned=True)
    assert unpinned.effective["weights"]["revision"] == "unpinned"
    assert "not pinned" in unpinned.caveats[0]
    assert not prepare(flux2, tmp_path, revision=COMMIT).caveats


def test_a_source_that_is_no_pipeline_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "model_index.json is missing" in refused(flux2, tmp_path, source="empty")
    assert "no folder './none'" in refused(flux2, tmp_path, source="./none")
    (tmp_path / "empty/model_index.json").write_text("[", encoding="utf-8")
    assert "cannot be read" in refused(flux2, tmp_path, source="empty")


def test_settings_that_cannot_work_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    assert "needs a CUDA device" in refused(flux2, tmp_path, quantization="4bit", device="cpu")
    assert "device is cpu" in refused(qwen, tmp_path, offload="model_cpu_offload", device="cpu")
    assert "both height and width" in refused(qwen, tmp_path, height=64)
    assert "bfloat16 only" in refused(step1x, tmp_path, dtype="float32")
    assert "by hand" in refused(step1x, tmp_path, offload="model_cpu_offload")
    assert "sequential_cpu_offload" in refused(step1x, tmp_path, regione={}, offload="sequential_cpu_offload")
    assert "exactly 28 steps" in refused(step1x, tmp_path, regione={}, num_inference_steps=50)
    assert "is not an editor of the protocol" in refused(flux2, tmp_path, published="flux9")
    assert "https://" in refused(flux2, tmp_path, remote_text_encoder={"url": "http://example.org/x"})


def test_regione_is_a_configuration_of_its_own(tmp_path: Path) -> None:
    plain, quick, other = (
        prepare(step1x, tmp_path, revision=COMMIT, regione=value) for value in (None, {}, {"threshold": 0.9})
    )
    assert len({key(one) for one in (plain, quick, other)}) == 3
    assert quick.inputs["offload"] == "none" and "RegionE" in quick.requires


def test_a_remote_text_encoder_is_off_and_says_what_leaves_the_machine(tmp_path: Path) -> None:
    assert prepare(flux2, tmp_path, revision=COMMIT).inputs["remote_text_encoder"] is None
    told = prepare(flux2, tmp_path, revision=COMMIT, remote_text_encoder={"url": URL, "key_env": "A_KEY"})
    assert told.caveats == ("Instructions, not pictures, were sent to encoder.example, which encoded them.",)
    other_key = prepare(flux2, tmp_path, revision=COMMIT, remote_text_encoder={"url": URL, "key_env": "B_KEY"})
    assert key(told) == key(other_key) and "A_KEY" not in str(told.effective)


def test_the_key_of_a_remote_text_encoder_is_looked_for_before_anything_is_loaded(
    write_audit: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = {"url": URL, "key_env": "AN_ENCODER_KEY"}
    row = {"id": "flux", "kind": "flux2", "settings": {"revision": COMMIT, "remote_text_encoder": encoder}}
    loaded = config.load(write_audit(editors=[row]))
    monkeypatch.setattr(backends, "require_packages", lambda requires, who: None)
    monkeypatch.delenv("AN_ENCODER_KEY", raising=False)
    with pytest.raises(SetupError, match=r"The editor 'flux' needs a key .* AN_ENCODER_KEY"):
        config.check_keys(loaded, ["editors"])
    config.check_keys(loaded, ["judges"])
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    config.check_keys(loaded)


@pytest.mark.parametrize(
    ("cards", "device", "said"),
    [(1, "cuda:1", "finds cuda:0."), (2, "cuda:2", "finds cuda:0, cuda:1."), (0, "cuda", "finds none.")],
)
def test_a_card_that_is_not_there_is_said(tmp_path: Path, cards: int, device: str, said: str) -> None:
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: cards > 0, device_count=lambda: cards),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
    )
    with pytest.raises(SetupError, match=rf"set to the device {device}, and torch {said}"):
        flux2.Flux2(flux2.Settings(device=device))._require_device(torch)
    for there in ("cpu", *[f"cuda:{n}" for n in range(cards)], *(["cuda"] if cards else [])):
        flux2.Flux2(flux2.Settings(device=there))._require_device(torch)


def test_an_audit_names_what_is_wrong_with_an_open_editor(write_audit: Write) -> None:
    row = {"id": "flux", "kind": "flux2", "settings": {"quantisation": "4bit"}}
    with pytest.raises(ConfigIssuesError, match=r"quantisation: is not a known key; did you mean 'quantization'"):
        config.load(write_audit(editors=[row]))
    with pytest.raises(ConfigIssuesError, match=r"editors\[0\]\.settings: revision: give the commit"):
        config.load(write_audit(editors=[{"id": "flux", "kind": "flux2"}]))


def test_without_a_seed_the_published_one_is_taken(write_audit: Write) -> None:
    pinned = {"settings": {"revision": COMMIT}}
    rows: list[dict[str, Any]] = [{"id": n, "kind": n, **pinned} for n in ("flux2", "qwen", "step1x")]
    rows += [{"id": "own", "kind": "flux2", "seed": 7, **pinned}]
    audit = config.load(write_audit(editors=rows)).audit
    assert [row.seed for row in audit.editors] == [42, 0, 42, 7]


def test_an_audit_with_open_editors_is_read_without_torch(write_audit: Write) -> None:
    rows = [
        {"id": name, "kind": name, "label": "x", "settings": {"revision": COMMIT}}
        for name in ("flux2", "qwen", "step1x")
    ]
    loaded = config.load(write_audit(editors=rows))
    renamed = config.load(write_audit(editors=[{**row, "label": "y"} for row in rows]))
    assert [key(one) for one in loaded.editors.values()] == [key(one) for one in renamed.editors.values()]
    assert "torch" not in sys.modules
