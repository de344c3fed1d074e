"""`stillme doctor` on machines that are made up: bare ones, broken ones, ones with cards and keys."""

from __future__ import annotations

import doctest
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

from stillme.cli import doctor, glossary, init
from stillme.cli.doctor import checks
from stillme.cli.render.help import render_doctor
from tests.cli.test_main import call
from tests.conftest import Write

ROOT = Path(__file__).parents[2]
SECRET = "sk-never-to-be-seen-4f1d"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in checks().keys:
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def looked(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(capsys, "doctor", *words, "--json")[1])
    return found


def of(found: dict[str, Any], journey: str) -> dict[str, Any]:
    return next(one for one in (*found["journeys"], *found["parts"]) if one["id"] == journey)


def lacking(found: dict[str, Any], journey: str) -> str:
    return " ".join(f"{lack['what']} {lack['how']}" for lack in of(found, journey)["lacks"])


# This machine


def test_it_says_what_is_here_in_100_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = call(capsys, "doctor")
    assert code == 0 and err == ""
    assert max(map(len, out.splitlines())) <= 100
    assert out.startswith("stillme 0.1.0, Python ") and "SQLite 3." in out and "GB free" in out
    for journey in (*checks().journeys, *checks().parts):
        assert f"{journey.title} " in out and journey.start in out and (ROOT / journey.page).is_file()
    assert "\x1b" not in out, "plain where nobody looks"


def test_no_network_is_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("somebody asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert call(capsys, "doctor")[0] == 0


def test_every_extra_of_the_project_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = looked(capsys)["extras"]
    assert set(found) == set(metadata.metadata("stillme").get_all("Provides-Extra") or ())
    study = {package["name"]: package for package in found["study"]["packages"]}
    assert {"sqlalchemy", "starlette", "aiohttp"} <= set(study), "with those of the extras that it names"
    assert study["uvicorn"]["wanted"] == ">=0.35,>=0.54", "whatever is asked of a package has to hold"


def test_keys_are_set_or_not_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "OPENAI_API_KEY" in lacking(looked(capsys), "hosted")
    for variable in checks().keys:
        monkeypatch.setenv(variable, SECRET)
    plain, found = call(capsys, "doctor")[1], looked(capsys)
    assert SECRET not in plain and SECRET not in json.dumps(found)
    assert found["keys"] == dict.fromkeys(checks().keys, True) and "not set" not in plain
    assert of(found, "hosted")["ready"] and of(found, "judges")["ready"] and of(found, "raters")["ready"]
    monkeypatch.setenv("PROLIFIC_TOKEN", "  ")
    assert looked(capsys)["keys"]["PROLIFIC_TOKEN"] is False, "blanks are no key"


def test_every_variable_that_a_configuration_names_is_known() -> None:
    parts = (ROOT / "src/stillme/cli/templates/parts").glob("*.yaml")
    named = {line.split("key_env: ")[1].split()[0].strip(",") for path in parts for line in _naming(path)}
    assert named and named <= set(checks().keys)


def _naming(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if "key_env: " in line]


def test_cards_are_those_that_the_driver_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "bin", "nvidia-smi", "echo 'NVIDIA L4, 23034'; echo 'NVIDIA L4, 23034'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert "Graphics cards: NVIDIA L4 (22.5 GB), NVIDIA L4 (22.5 GB)" in call(capsys, "doctor")[1]
    assert "graphics card" not in lacking(looked(capsys), "diffusers")


def test_a_driver_that_fails_is_no_failure_of_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "bin", "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    code, out, _ = call(capsys, "doctor")
    assert code == 0 and "the driver does not answer" in out and "nobody tells" in out


# Other machines: a Python that sees the core's packages, and what is put beside them


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that has what `pip install stillme` brings, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    for name in core("stillme", set()):
        for file in metadata.files(name) or ():
            top, target = file.parts[0], Path(str(file.locate())).parents[len(file.parts) - 2]
            if top != ".." and not top.endswith(".pth") and len(file.parts) > 1 and not (folder / top).exists():
                (folder / top).symlink_to(target)
    for single in ("typing_extensions.py", "six.py", "pylab.py"):
        for path in map(Path, sys.path):
            if (path / single).is_file() and not (folder / single).exists():
                (folder / single).symlink_to(path / single)
    return folder


def core(name: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    yield name
    for wish in map(Requirement, metadata.requires(name) or ()):
        if wish.marker is None or wish.marker.evaluate({"extra": ""}):
            yield from core(wish.name, seen)


def on(
    packages: Path, *words: str, beside: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    paths = [str(path) for path in (beside, ROOT / "src", packages) if path]
    around = {"PATH": "/nowhere", "HOME": "/nowhere", "PYTHONPATH": os.pathsep.join(paths), "LANG": "C.UTF-8"}
    command = [sys.executable, "-S", "-P", "-W", "error", "-m", "stillme", *words]
    return subprocess.run(command, env=around | variables, capture_output=True, text=True, check=False)


def pretend(folder: Path, name: str, version: str, code: str = "") -> None:
    """A package of that name and version, as pip would leave it."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (folder / f"{name}.py").write_text(code, encoding="utf-8")


def test_a_bare_machine_is_told_what_is_missing_for_what_and_how_to_get_it(bare: Path, tmp_path: Path) -> None:
    pretend(tmp_path, "aiohttp", "3.0.0")
    done = on(bare, "doctor", "--json", beside=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert of(found, "demo")["ready"] and of(found, "release")["ready"]
    assert "measures skin tone" in of(found, "demo")["better"][0]["what"]
    for journey, extra in (
        ("diffusers", "diffusers"),
        ("hosted", "hosted"),
        ("raters", "study"),
        ("measures", "vision"),
    ):
        assert f"the extra {extra}" in lacking(found, journey) and f"[{extra}]'" in lacking(found, journey)
    assert "-m pip install" in lacking(found, "measures"), "there is no pip on the path"
    assert "aiohttp <4,>=3.11 (here 3.0.0)" in lacking(found, "hosted"), "an old one does not do"
    assert found["machine"]["gpus"] == [] and set(found["machine"]["programs"].values()) == {None}


def test_torch_is_asked_where_the_driver_is_silent(bare: Path, tmp_path: Path) -> None:
    code = (
        "class cuda:\n device_count=staticmethod(lambda: 1)\n @staticmethod\n def get_device_properties(n):\n"
        "  return type('Card', (), {'name': 'Radeon PRO', 'total_memory': 48 * 2**30})\n"
        "class backends:\n class mps:\n  is_available=staticmethod(lambda: False)\n"
    )
    pretend(tmp_path, "torch", "2.9.0", code)
    assert "Graphics cards: Radeon PRO (48 GB)" in on(bare, "doctor", beside=tmp_path).stdout


def test_a_torch_that_cannot_be_loaded_breaks_nothing(bare: Path, tmp_path: Path) -> None:
    pretend(tmp_path, "torch", "2.9.0", "raise OSError('libcudart.so: cannot open shared object file')")
    done = on(bare, "doctor", beside=tmp_path)
    assert done.returncode == 0 and "the driver does not answer" in done.stdout and done.stderr == ""


def test_what_is_not_installed_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGE", "stillme-that-nobody-installed")
    assert doctor.find_extras() == {}
    assert "runs without having been installed" in render_doctor(doctor.look())


def test_an_audit_on_a_bare_machine_names_extras_with_commands(bare: Path, tmp_path: Path) -> None:
    init.init(tmp_path / "audit.yaml", None, "hosted")
    done = on(bare, "doctor", str(tmp_path / "audit.yaml"), GEMINI_API_KEY=SECRET)
    assert done.returncode == 3, done.stderr
    told = " ".join(done.stdout.split(f"{tmp_path / 'audit.yaml'}: audit")[1].split())
    assert "The editor 'gpt', the judge 'gemini' and the judge 'gpt-judge' need the extra hosted" in told
    assert "the extra hosted (aiohttp, orjson)" in told and "the extra vision (cv2)" in told
    assert "export OPENAI_API_KEY=…" in told and "GEMINI_API_KEY is set (the judge 'gemini')." in told
    assert SECRET not in done.stdout


# An audit


def test_an_audit_lacks_its_keys_and_then_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "audit.yaml"
    init.init(file, None, "hosted")
    code, out, _ = call(capsys, "doctor", file)
    assert code == 3
    assert "The editor 'gpt' and the judge 'gpt-judge' need a key in OPENAI_API_KEY, which is not set" in out
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    code, out, _ = call(capsys, "doctor", file)
    assert code == 0 and SECRET not in out
    assert out.endswith(f"Next: stillme check {file}\n")


def test_an_audit_that_needs_nothing(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "doctor", write_audit())
    assert code == 0 and "everything that it needs on this machine is here" in out


def test_faults_of_the_file_are_told_as_check_tells_them(
    write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_audit(preset="papr")
    code, out, err = call(capsys, "doctor", path)
    assert (code, out) == (2, "") and err == call(capsys, "check", path)[2]


def test_a_model_needs_packages_a_card_and_its_weights(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "audit.yaml"
    init.init(file, None, "diffusers")
    monkeypatch.setenv("PATH", "/nowhere")
    told = looked(capsys, file)["audit"]
    lacks = " ".join(lack["what"] for lack in told["lacks"])
    assert "needs a graphics card with about 16 GB, and none is to be seen" in lacks
    assert "(Qwen/Qwen-Image-Edit-2511) are not here yet" in " ".join(told["notes"])
    cached = tmp_path / "HF_HUB_CACHE/models--Qwen--Qwen-Image-Edit-2511/snapshots/abc"
    cached.mkdir(parents=True)
    program(tmp_path / "bin", "nvidia-smi", "echo 'NVIDIA T4, 15360'")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = looked(capsys, file)["audit"]
    assert "graphics card" not in " ".join(lack["what"] for lack in told["lacks"])
    assert "NVIDIA T4 has 15: too little unless weights are offloaded" in " ".join(told["notes"])
    assert f"are here, in {cached.parent}" in " ".join(told["notes"])


def test_weights_that_must_be_here_and_are_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    init.init(file, None, "diffusers")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("device: cuda ", "local_files_only: true\n      device: cpu "), encoding="utf-8")
    told = looked(capsys, file)["audit"]
    lacks = " ".join(lack["what"] for lack in told["lacks"])
    assert "needs the weights of Qwen/Qwen-Image-Edit-2511 in the hub's cache" in lacks
    assert "graphics card" not in lacks, "the processor does"


def test_keys_within_settings_are_seen_too(
    capsys: pytest.CaptureFixture[str], write_audit: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = {"url": "https://encoder.example/encode", "key_env": "ENCODER_KEY"}
    settings = {"allow_unpinned": True, "device": "cpu", "remote_text_encoder": encoder}
    path = write_audit(editors=[{"id": "flux", "kind": "flux2", "settings": settings}])
    monkeypatch.delenv("ENCODER_KEY", raising=False)
    lacks = looked(capsys, path)["audit"]["lacks"]
    assert {
        "what": "The editor 'flux' needs a key in ENCODER_KEY, which is not set",
        "how": "export ENCODER_KEY=…",
    } in lacks


# The page


def test_the_pages_commands_run_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    lines = [line.split("#")[0].split()[2:] for line in page.splitlines() if line.startswith("$ stillme ")]
    assert {words[0] for words in lines} == {"init", "doctor", "explain"}
    for words in lines:
        code, _, err = call(capsys, *words)
        assert code == 0, f"{words}: {err}"


@pytest.mark.parametrize("module", [glossary], ids=lambda module: module.__name__)
def test_examples_in_code_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried and failed == 0
