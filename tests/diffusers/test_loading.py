"""Loading: from a folder, from the hub's cache, and everything that stands in the way; memory that runs out."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

import diffusers
from stillme.core.errors import SetupError
from stillme.core.records import Status
from stillme.editors import flux2
from stillme.editors.diffusers_base import DiffusersEditor
from stillme.engine.backends import BackendContext
from stillme.plan import config
from stillme.protocol import builtin
from tests.conftest import Write
from tests.diffusers.editing import prepare, request, sum_of

COMMIT = "c" * 40
REPOSITORY = "someone/tiny"


@pytest.fixture
def hub(flux2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub that holds the tiny pipeline at a commit."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / f"models--{REPOSITORY.replace('/', '--')}/snapshots/{COMMIT}"
    shutil.copytree(flux2_folder, snapshot)
    return snapshot


def from_hub(**settings: Any) -> Any:
    given = {"source": REPOSITORY, "revision": COMMIT, "device": "cpu", "num_inference_steps": 2, **settings}
    return flux2.prepare(flux2.Settings(local_files_only=True, **given), BackendContext(Path(), builtin()))


def test_a_repository_is_loaded_at_its_commit(hub: Path, flux2_folder: Path) -> None:
    prepared = from_hub()
    assert prepared.effective["weights"] == {"repository": REPOSITORY, "revision": COMMIT}
    editor = prepared.make()
    reply = editor.edit(request())
    assert reply.environment["weights"] == {"commit": COMMIT}
    assert sum_of(reply) == sum_of(prepare("flux2", flux2_folder).make().edit(request()))


def test_another_commit_is_not_taken_for_it(hub: Path) -> None:
    with pytest.raises(SetupError, match=r"^FLUX.2 cannot be loaded from someone/tiny: .*Check repository"):
        from_hub(revision="d" * 40).make()


def test_weights_that_are_pickles_are_not_loaded(flux2_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(flux2_folder, folder)
    weights = next((folder / "transformer").glob("*.safetensors"))
    weights.unlink()
    torch.save({}, folder / "transformer/diffusion_pytorch_model.bin")
    with pytest.raises(SetupError, match=r"cannot be loaded .*safetensors"):
        prepare("flux2", folder).make()


def test_a_folder_that_changed_since_it_was_checked_is_refused(flux2_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(flux2_folder, folder)
    prepared = prepare("flux2", folder)
    (folder / "scheduler/scheduler_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SetupError, match="not those that were prepared"):
        prepared.make()


def test_another_process_refuses_a_folder_that_changed_as_well(
    flux2_folder: Path, tmp_path: Path, write_audit: Write
) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(flux2_folder, folder)
    settings = {"source": str(folder), "device": "cpu", "num_inference_steps": 2}
    made = config.load(write_audit(editors=[{"id": "flux", "kind": "flux2", "settings": settings}])).editors[
        "flux"
    ]
    (folder / "scheduler/scheduler_config.json").write_text("{}", encoding="utf-8")
    assert made.factory is not None
    with pytest.raises(SetupError, match="not those that were prepared"):
        made.factory()


@pytest.mark.parametrize("part", ["transformer", "text_encoder", "vae"])
def test_weights_that_are_cut_off_are_a_sentence(flux2_folder: Path, tmp_path: Path, part: str) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(flux2_folder, folder)
    weights = next((folder / part).glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(SetupError, match=r"FLUX.2 cannot be loaded from .*Check that the folder"):
        prepare("flux2", folder).make()


def test_whatever_stands_in_the_way_of_loading_is_a_sentence(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(self: Any, pipe: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(DiffusersEditor, "place", place)
    with pytest.raises(SetupError, match=r"cannot be loaded from .*: CUDA error: an illegal"):
        prepare("flux2", flux2_folder).make()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_said(flux2_folder: Path) -> None:
    with pytest.raises(SetupError, match=r"torch finds none\. Run it on a machine with one"):
        prepare("flux2", flux2_folder, device="cuda").make()


def test_a_diffusers_that_would_compute_something_else_is_refused(
    qwen_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older:
        def __init__(self, patch_size: int = 2) -> None: ...

    monkeypatch.setattr(diffusers, "QwenImageTransformer2DModel", Older)
    with pytest.raises(SetupError, match="compute something else"):
        prepare("qwen", qwen_folder).make()


# Memory that runs out. There is no GPU here, so where the weights are put is replaced; the rest is real.


@pytest.fixture
def roomless(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes memory run out while an editor has one of these options."""
    monkeypatch.setattr(DiffusersEditor, "_require_device", lambda self, torch: None)
    monkeypatch.setattr(DiffusersEditor, "place", lambda self, pipe: pipe.to("cpu"))
    monkeypatch.setattr("stillme.editors.diffusers_base._device_name", lambda torch, device: device)
    real = DiffusersEditor.call

    def install(*options: str) -> None:
        def call(self: Any, pictures: Any, asked: Any) -> Any:
            if self._offload in options:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nMore words")
            return real(self, pictures, asked)

        monkeypatch.setattr(DiffusersEditor, "call", call)

    return install


def test_when_memory_runs_out_the_next_option_is_tried_once_and_kept(
    flux2_folder: Path, roomless: Callable[..., None]
) -> None:
    editor = prepare("flux2", flux2_folder, device="cuda", offload="none").make()
    roomless("none")
    first, second = editor.edit(request()), editor.edit(request())
    assert first.status is second.status is Status.OK and first.image == second.image
    assert first.notes == {"memory": "ran out of memory with none; made with model_cpu_offload"}
    assert (
        first.environment["offload"] == second.environment["offload"] == "model_cpu_offload" and not second.notes
    )


def test_a_second_failure_is_a_failure_with_a_sentence(flux2_folder: Path, roomless: Callable[..., None]) -> None:
    editor = prepare("flux2", flux2_folder, device="cuda", offload="none").make()
    roomless("none", "model_cpu_offload")
    failed = editor.edit(request())
    assert failed.status is Status.CRASHED and not failed.status.is_final
    assert "model_cpu_offload (CUDA out of memory. Tried to allocate 9 GiB.)" in failed.detail
    assert editor.edit(request()).environment["offload"] == "sequential_cpu_offload"


def test_where_nothing_ever_fits_the_run_ends_with_the_sentence(
    flux2_folder: Path, roomless: Callable[..., None]
) -> None:
    editor = prepare("flux2", flux2_folder, device="cuda", offload="sequential_cpu_offload").make()
    roomless("sequential_cpu_offload")
    with pytest.raises(SetupError, match="take a larger device"):
        editor.edit(request())


def test_weights_that_do_not_fit_are_loaded_with_the_next_option(
    flux2_folder: Path, roomless: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(self: Any, pipe: Any) -> None:
        if self._offload == "none":
            raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(DiffusersEditor, "place", place)
    editor = prepare("flux2", flux2_folder, device="cuda", offload="none").make()
    assert editor.edit(request()).environment["offload"] == "model_cpu_offload"
    monkeypatch.setattr(DiffusersEditor, "place", lambda self, pipe: _full())
    with pytest.raises(SetupError, match="does not fit into memory"):
        prepare("flux2", flux2_folder, device="cuda").make()


def _full() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def test_other_errors_are_not_taken_for_it(flux2_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = prepare("flux2", flux2_folder).make()
    monkeypatch.setattr(DiffusersEditor, "call", lambda self, pictures, asked: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        editor.edit(request())


# The text encoder of a service, on loopback.


@contextmanager
def encoder(answer: Callable[[str], bytes], seen: list[Any], status: int = 200) -> Iterator[dict[str, Any]]:
    import json

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((said, self.headers.get("Authorization")))
            body = answer(said["prompt"])
            self.send_response(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/predict"
        yield {"url": url, "key_env": "AN_ENCODER_KEY", "limits": {"attempts": 1}}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def dumped(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_a_remote_text_encoder_gives_the_same_picture_and_is_asked_once(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    local = prepare("flux2", flux2_folder).make()
    seen: list[Any] = []
    with encoder(lambda words: dumped(local._pipe.encode_prompt(words)[0]), seen) as settings:
        remote = prepare("flux2", flux2_folder, remote_text_encoder=settings).make()
        assert remote._pipe.text_encoder is None
        first, second = remote.edit(request()), remote.edit(request(7))
    assert sum_of(first) == sum_of(local.edit(request())) != sum_of(second)
    assert seen == [({"prompt": request().instruction}, "Bearer secret")]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("pwned",))


def test_a_text_encoders_reply_runs_no_code(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    monkeypatch.chdir(tmp_path)
    with encoder(lambda words: dumped(Evil()), []) as settings:
        remote = prepare("flux2", flux2_folder, remote_text_encoder=settings).make()
        with pytest.raises(pickle.UnpicklingError):
            remote.edit(request())
    assert not (tmp_path / "pwned").exists()


def test_a_text_encoder_that_does_not_answer_is_a_failure_of_the_network(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    with encoder(lambda words: b"", []) as settings:
        pass
    remote = prepare("flux2", flux2_folder, remote_text_encoder=settings).make()
    reply = remote.edit(request())
    assert reply.status is Status.NETWORK and "text encoder" in reply.detail and "secret" not in reply.detail


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_address_of_a_text_encoder_ends_the_run_with_a_sentence(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    with encoder(lambda words: b"no", [], status) as settings:
        remote = prepare("flux2", flux2_folder, remote_text_encoder=settings).make()
        with pytest.raises(SetupError, match=rf"answered {status}: no\. Check the url .* AN_ENCODER_KEY"):
            remote.edit(request())


def test_what_a_text_encoder_refuses_is_no_portraits_fault(
    flux2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AN_ENCODER_KEY", "secret")
    with encoder(lambda words: b"no", [], 400) as settings:
        reply = prepare("flux2", flux2_folder, remote_text_encoder=settings).make().edit(request())
    assert reply.status is Status.SERVER_ERROR and not reply.status.is_final
    assert reply.detail == "the text encoder did not answer: 400: no"
