"""Step1X's adapter, on a stand-in of the same signature: here, and served from a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import diffusers
from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import VAE_ROUND_TRIP, openai
from stillme.engine.backends import BackendContext
from stillme.protocol import builtin
from tests.conftest import Write
from tests.diffusers import standin
from tests.diffusers.editing import portrait, prepare, request, sum_of
from tests.diffusers.served import served


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standin.save(tmp_path_factory.mktemp("tiny") / "step1x")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffusers, standin.NAME, standin.Step1XEditPipelineV1P2, raising=False)


@pytest.mark.skipif(hasattr(diffusers, standin.NAME), reason="this diffusers has the pipeline")
def test_without_its_branch_of_diffusers_it_says_how_to_serve_it(folder: Path) -> None:
    with pytest.raises(SetupError, match=r"an environment of its own.*stillme editors serve.*kind openai"):
        prepare("step1x", folder).make()


@pytest.mark.usefixtures("installed")
def test_it_neither_thinks_nor_reflects_unless_asked(folder: Path) -> None:
    """The pipeline reflects by default; ours says every mode, so its default does not matter."""
    editor = prepare("step1x", folder).make()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    reply = editor.edit(request())
    assert reply.status is Status.OK and not reply.notes and not reply.extras
    assert torch.equal(torch.get_rng_state(), before)
    assert images.inspect(reply.image or b"").width == 64
    assert sum_of(editor.edit(request())) == sum_of(reply) != sum_of(editor.edit(request(7)))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "modes", [{"thinking": True}, {"reflection": True}, {"thinking": True, "reflection": True}]
)
def test_its_modes_are_kept_and_come_out_the_same_again(folder: Path, modes: dict[str, bool]) -> None:
    editor = prepare("step1x", folder, **modes).make()
    reply = editor.edit(request())
    torch.manual_seed(99)
    assert editor.edit(request()) == reply
    assert reply.notes["global_seed"] == "42"
    assert ("reformat_prompt" in reply.notes) is ("thinking" in modes)
    tries = 3 if "reflection" in modes else 1
    assert [name for name in reply.extras if name.startswith("images-")] == [
        f"images-{n + 1}" for n in range(tries)
    ]
    if "reflection" in modes:
        assert reply.image == reply.extras["final_images-1"] and '"best"' in reply.notes["best_info"]
        shown = {content for name, content in reply.extras.items() if name.startswith("images-")}
        assert reply.image in shown and len(shown) == tries


@pytest.mark.usefixtures("installed")
def test_it_takes_one_picture_and_makes_the_round_trip(folder: Path) -> None:
    editor = prepare("step1x", folder).make()
    two = EditRequest("k", portrait(), "words", 1, references=(portrait(),))
    assert editor.edit(two).status is Status.REJECTED
    trip = editor.edit(request(control=VAE_ROUND_TRIP, width=90, height=70))
    assert images.pixels(trip.image or b"").shape == (70, 90, 3)
    assert np.ptp(images.pixels(trip.image or b"")) > 0


@pytest.fixture
def server(write_audit: Write, folder: Path) -> Iterator[dict[str, Any]]:
    row = {
        "id": "step1x",
        "kind": "step1x",
        "settings": {"source": str(folder), "device": "cpu", "reflection": True},
    }
    with served(write_audit(editors=[row]), "step1x") as settings:
        yield settings


@pytest.mark.usefixtures("installed")
def test_served_it_gives_the_same_picture_notes_and_extras(server: dict[str, Any], folder: Path) -> None:
    there = asyncio.run(_edited(server, request()))
    here = prepare("step1x", folder, reflection=True).make().edit(request())
    assert there.status is Status.OK, there.detail
    assert (there.image, there.extras) == (here.image, here.extras)
    assert here.notes.items() <= there.notes.items()
    assert here.environment.items() <= there.environment.items()
    with pytest.raises(SetupError, match="started with 28"):
        asyncio.run(_edited({**server, "extra": {"num_inference_steps": 50}}, request()))
    broken = EditRequest("k", b"no picture", "words", 1)
    assert asyncio.run(_edited(server, broken)).status is Status.REJECTED


async def _edited(settings: dict[str, Any], asked: EditRequest) -> EditReply:
    editor = openai.prepare(openai.Settings(**settings), BackendContext(Path(), builtin())).make()
    try:
        return await editor.edit(asked)
    finally:
        await editor.close()
