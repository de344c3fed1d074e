"""Step1X-Edit-v1p2, whose pipeline exists only in a branch of diffusers: it needs a separate environment.

There it is served (`stillme editors serve`), and an audit calls it over HTTP. Thinking rewrites the instruction
and reflection edits up to `max_try_cnt` times, both with draws from torch's global generator: they are off by
default, although the pipeline itself reflects by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field

from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.records import EditRequest
from stillme.core.yaml import StrictModel
from stillme.editors import diffusers_base
from stillme.editors.diffusers_base import NONE, SEQUENTIAL, DiffusersEditor, Open, Outcome, generator
from stillme.engine.backends import BackendContext, PreparedEditor

VERSION = 1  # raise when the same settings give other pixels
REGIONE_STEPS = 28  # its own assertion
MODES = {"enable_thinking_mode": "thinking", "enable_reflection_mode": "reflection"}
CALL = (
    "num_inference_steps",
    "true_cfg_scale",
    "negative_prompt",
    "size_level",
    "timesteps_truncate",
    "process_norm_power",
    "thinking",
    "reflection",
    "max_try_cnt",
)
_TEXTS = ("reformat_prompt", "think_info", "best_info")  # texts of the pipeline's result
_PICTURES = ("images", "final_images")  # its two lists of pictures


class RegionE(StrictModel):
    """A speed-up that changes pixels. The values are those of RegionE 0.1.0 for this pipeline."""

    warmup_step: int = Field(default=6, ge=0)
    post_step: int = Field(default=2, ge=0)
    refresh_step: str = "16"
    threshold: float = 0.88
    cache_threshold: float = 0.02
    erosion_dilation: bool = True


class Settings(Open):
    """thinking, reflection: the model's own reasoning. size_level: about the side of the picture it works on."""

    published: str = "step1x-edit-v1p2"
    true_cfg_scale: float | None = Field(default=None, ge=0, le=100)
    negative_prompt: str | None = None
    size_level: int = Field(default=1024, ge=64, le=4096)
    timesteps_truncate: float = 0.93
    process_norm_power: float = 0.4
    thinking: bool = False
    reflection: bool = False
    max_try_cnt: int = Field(default=3, ge=1, le=10)
    regione: RegionE | None = None

    @property
    def draws_globally(self) -> bool:
        return self.thinking or self.reflection


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[DiffusersEditor]:
    settled = _with_regione(diffusers_base.settle(settings, context), settings)
    if settled.true_cfg_scale is None:
        raise ValueError("true_cfg_scale stands neither here nor in the protocol's row; give it")
    if settled.dtype != "bfloat16":
        raise ValueError("dtype: the pipeline computes in bfloat16 only")
    if settled.offload == diffusers_base.MODEL:
        raise ValueError(f"offload: this pipeline calls parts of its encoder by hand; take {NONE} or {SEQUENTIAL}")
    found = diffusers_base.effective(settled, "step1x", VERSION, Step1X.pipeline, CALL)
    prepared = diffusers_base.prepared(
        settled, context, Step1X, found, seconds=22.0, dropped=diffusers_base.slicing_dropped(settled)
    )  # seconds: the model's page, for an H800 at 1024
    return replace(prepared, requires=(*prepared.requires, *(["RegionE"] if settled.regione else [])))


def _with_regione(settled: Settings, given: Settings) -> Settings:
    """RegionE hands weights straight to a kernel; after sequential offload they are not there."""
    if settled.regione is None:
        return settled
    if given.offload == SEQUENTIAL:
        raise ValueError(f"regione cannot work with offload: {SEQUENTIAL}; set offload: {NONE}")
    if settled.num_inference_steps != REGIONE_STEPS:
        raise ValueError(f"regione takes exactly {REGIONE_STEPS} steps, not {settled.num_inference_steps}")
    if settled.device_kind != "cuda":
        raise ValueError(f"regione needs a CUDA device, and device is {settled.device}")
    return settled.model_copy(update={"offload": NONE})


class Step1X(DiffusersEditor):
    """The pipeline takes one picture and gives the result in its size."""

    label = "Step1X-Edit"
    pipeline = "Step1XEditPipelineV1P2"
    ladder = (NONE, SEQUENTIAL)

    def _missing_class(self, installed: str) -> SetupError:
        return SetupError(
            f"diffusers {installed} has no {self.pipeline}: Step1X-Edit-v1p2 needs an environment of its own, with"
            " the branch of diffusers that its model page names and transformers 4.",
            "Install stillme[serve] there, run `stillme editors serve` there, and give the audit an editor of the"
            " kind openai with that server's base_url (docs/open-editors.md).",
        )

    def _remaining_offloads(self) -> tuple[str, ...]:
        return () if self.settings.regione else super()._remaining_offloads()

    def placed(self, pipe: Any) -> None:
        if self.settings.regione is None:
            return
        from RegionE import RegionEHelper

        helper = RegionEHelper(pipe)
        helper.set_params(**self.settings.regione.model_dump())
        helper.enable()

    def arguments(self, pictures: Sequence[Image.Image], request: EditRequest) -> dict[str, Any]:
        parameter_names = {setting: parameter for parameter, setting in MODES.items()}
        parameters = {parameter_names.get(name, name): getattr(self.settings, name) for name in CALL}
        return {"image": pictures[0], "prompt": request.instruction, "num_images_per_prompt": 1, **parameters}

    def call(self, pictures: Sequence[Image.Image], request: EditRequest) -> Outcome:
        if self.settings.draws_globally:
            import torch

            # These modes draw from the global generator: without this the same seed gives other pictures.
            torch.manual_seed(request.seed)
        result = self._pipe(**self.arguments(pictures, request), generator=generator(request.seed))
        final = (getattr(result, "final_images", None) or result.images)[0]
        picture = np.asarray(final.convert("RGB"))
        if not self.settings.draws_globally:
            return Outcome(picture)
        return Outcome(picture, notes(result, request.seed), dict(extras(result)))


def notes(result: Any, seed: int) -> dict[str, str]:
    """The model's texts: the instruction as it rewrote it, and its reasons."""
    texts = {name: _text(getattr(result, name, None)) for name in _TEXTS}
    return {"global_seed": str(seed), **{name: text for name, text in texts.items() if text}}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def extras(result: Any) -> Iterator[tuple[str, bytes]]:
    """Every picture of both lists: all attempts, and the ones that it chose."""
    for name in _PICTURES:
        for number, picture in enumerate(getattr(result, name, None) or (), 1):
            yield f"{name}-{number}", images.lossless(np.asarray(picture.convert("RGB")))
