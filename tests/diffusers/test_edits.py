"""The open-weight editors on real pipelines with tiny weights: what comes out, and what it depends on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from stillme.core import images
from stillme.core.records import EditRequest, Status
from stillme.editors import VAE_ROUND_TRIP
from stillme.engine.processes import ProcessPool
from tests.diffusers.editing import WORDS, portrait, prepare, recipe, request, sum_of

ROOT = Path(__file__).parent.parent.parent
KINDS = ("flux2", "qwen")


@pytest.fixture(scope="session")
def folders(flux2_folder: Path, qwen_folder: Path) -> dict[str, Path]:
    return {"flux2": flux2_folder, "qwen": qwen_folder}


@pytest.fixture(scope="session")
def editors(folders: dict[str, Path]) -> dict[str, Any]:
    return {kind: prepare(kind, folder).make() for kind, folder in folders.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_is_a_picture_and_says_how_it_was_made(kind: str, editors: dict[str, Any]) -> None:
    reply = editors[kind].edit(request())
    assert reply.status is Status.OK and reply.image is not None
    facts = images.inspect(reply.image)
    assert (facts.extension, facts.width, facts.height, facts.is_blank) == ("png", 64, 64, False)
    made = reply.environment
    assert made["dtype"] == "bfloat16" and made["device"] == made["generator_device"] == "cpu"
    assert made["threads"] == torch.get_num_threads() == 1 and made["offload"] == "none"
    assert (
        made["torch"] == torch.__version__ and made["diffusers"] and made["transformers"] and made["device_name"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_is_that_of_the_bare_pipeline(kind: str, editors: dict[str, Any]) -> None:
    """Nothing is added: same call, same pixels."""
    editor = editors[kind]
    source = Image.fromarray(images.pixels(portrait()))
    published = {
        "flux2": {"image": source, "guidance_scale": 4.0},
        "qwen": {
            "image": [source],
            "true_cfg_scale": 4.0,
            "negative_prompt": " ",
            "guidance_scale": 1.0,
            "height": 64,
            "width": 64,
        },
    }
    drawn = torch.Generator("cpu").manual_seed(42)
    bare = editor._pipe(prompt=WORDS, num_inference_steps=2, generator=drawn, **published[kind]).images[0]
    assert np.array_equal(np.asarray(bare), images.pixels(editor.edit(request()).image))


@pytest.mark.parametrize("kind", KINDS)
def test_only_picture_words_and_seed_matter(kind: str, editors: dict[str, Any]) -> None:
    """Not what was edited before, and not the global generator, which is left alone."""
    edit = editors[kind].edit
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = sum_of(edit(request()))
    assert torch.equal(torch.get_rng_state(), before)
    others = [request(7), request(words="Make the person older."), request(key="white-male-20s")]
    sums = {sum_of(edit(other)) for other in others}
    torch.manual_seed(2)
    assert sum_of(edit(request())) == first and first not in sums and len(sums) == 3


def test_the_same_bytes_here_in_a_child_and_in_fresh_processes(
    editors: dict[str, Any], folders: dict[str, Path]
) -> None:
    here = {kind: sum_of(editors[kind].edit(request())) for kind in KINDS}
    apart = ProcessPool({kind: recipe(kind, folders[kind]) for kind in KINDS})
    child = {kind: sum_of(apart.editor(kind).edit(request())) for kind in KINDS}
    apart.close()
    assert here == child == fresh(folders) == fresh(folders)


def fresh(folders: dict[str, Path]) -> dict[str, str]:
    """Kind -> sum of an edit that a new process has made."""
    asked = [word for kind in KINDS for word in (kind, str(folders[kind]))]
    command = [sys.executable, "-m", "tests.diffusers.editing", *asked]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: line.split()[1] for line in out.splitlines()}


def test_flux2_with_its_published_steps(flux2_folder: Path) -> None:
    prepared = prepare("flux2", flux2_folder, num_inference_steps=None)
    assert prepared.effective["call"] == {"num_inference_steps": 50, "guidance_scale": 4.0}
    editor = prepared.make()
    assert editor.edit(request()).status is Status.OK
    assert editor._pipe.num_timesteps == 50


def test_flux2_gives_sides_in_sixteenths_and_refuses_tiny_portraits(editors: dict[str, Any]) -> None:
    reply = editors["flux2"].edit(request(width=100, height=72))
    facts = images.inspect(reply.image)
    assert (facts.width, facts.height) == (96, 64)
    small = editors["flux2"].edit(request(width=64, height=60))
    assert small.status is Status.REJECTED and "64 × 60 pixels" in small.detail


def test_qwens_guidance_needs_the_negative_prompt_and_has_it(qwen_folder: Path, editors: dict[str, Any]) -> None:
    """The trap: without a negative prompt the pipeline warns, and true_cfg_scale does nothing."""
    guided = sum_of(editors["qwen"].edit(request()))
    unguided = sum_of(prepare("qwen", qwen_folder, true_cfg_scale=1.0).make().edit(request()))
    assert guided != unguided


def test_qwens_slicing_changes_nothing(qwen_folder: Path, editors: dict[str, Any]) -> None:
    prepared = prepare("qwen", qwen_folder, vae_slicing=False, attention_slicing=False)
    plain = prepared.make()
    assert plain._pipe.vae.use_slicing is False and editors["qwen"]._pipe.vae.use_slicing is True
    assert sum_of(plain.edit(request())) == sum_of(editors["qwen"].edit(request()))
    assert not [part for part in plain._pipe.components.values() if hasattr(part, "set_attention_slice")]
    assert (
        "attention_slicing" in prepare("qwen", qwen_folder).dropped and "attention_slicing" not in prepared.dropped
    )


@pytest.mark.parametrize("kind", KINDS)
def test_further_pictures_change_the_edit_up_to_a_limit(kind: str, editors: dict[str, Any]) -> None:
    editor = editors[kind]
    alone = request()
    both = EditRequest("k", alone.image, WORDS, 42, references=(portrait("white-male-20s"),))
    assert sum_of(editor.edit(both)) != sum_of(editor.edit(alone))
    many = EditRequest("k", alone.image, WORDS, 42, references=(alone.image,) * editor.most_images)
    refused = editor.edit(many)
    assert refused.status is Status.REJECTED and str(editor.most_images) in refused.detail


@pytest.mark.parametrize("kind", KINDS)
def test_the_round_trip_goes_through_the_autoencoder_alone(
    kind: str, editors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = editors[kind]

    def diffuse(*args: Any, **options: Any) -> None:
        raise AssertionError("nothing is diffused")

    monkeypatch.setattr(editor._pipe.transformer, "forward", diffuse)
    asked = request(1, "", VAE_ROUND_TRIP, width=100, height=72)
    reply = editor.edit(asked)
    found = images.pixels(reply.image)
    assert found.shape == (72, 100, 3) and not np.array_equal(found, images.pixels(asked.image))
    again = editor.edit(request(2, "", VAE_ROUND_TRIP, width=100, height=72))
    assert again.image == reply.image
    other = editor.edit(request(1, "", VAE_ROUND_TRIP, key="white-male-20s", width=100, height=72))
    assert other.image != reply.image
    assert editor.edit(request(control="crop")).status is Status.REJECTED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("control", ["", VAE_ROUND_TRIP])
def test_a_picture_that_is_not_numbers_is_corrupt(kind: str, control: str, folders: dict[str, Path]) -> None:
    editor = prepare(kind, folders[kind]).make()
    for parameter in editor._pipe.vae.decoder.parameters():
        parameter.data.fill_(float("nan"))
    reply = editor.edit(request(control=control))
    assert reply.status is Status.CORRUPT and "not numbers" in reply.detail and reply.environment


def test_a_file_that_is_no_picture_is_rejected(editors: dict[str, Any]) -> None:
    reply = editors["flux2"].edit(EditRequest("k", b"words", WORDS, 1))
    assert reply.status is Status.REJECTED and "not an image" in reply.detail
