"""Qwen-Image-Edit-2511 over diffusers.

Guidance works only with a negative prompt; the official one is a single space. A diffusers before 0.37 loads the
weights and computes something else, so it is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Annotated, Any

from PIL import Image
from pydantic import Field, StringConstraints

from stillme.core.errors import SetupError
from stillme.core.records import EditRequest
from stillme.editors import diffusers_base
from stillme.editors.diffusers_base import DiffusersEditor, Open
from stillme.engine.backends import BackendContext, PreparedEditor

VERSION = 1  # raise when the same settings give other pixels
CALL = ("num_inference_steps", "true_cfg_scale", "negative_prompt", "height", "width")
NO_EFFECT = "the model is not guidance-distilled and ignores it; true_cfg_scale is its guidance"

Side = Annotated[int, Field(ge=64, le=4096, multiple_of=32)]


class Settings(Open):
    """height, width: of the result. Without them it has about a million pixels, whatever the portrait has."""

    published: str = "qwen-image-edit-2511"
    true_cfg_scale: float | None = Field(default=None, ge=0, le=100)
    negative_prompt: Annotated[str, StringConstraints(strip_whitespace=False, min_length=1)] = " "
    guidance_scale: float | None = Field(default=None, ge=0, le=100)
    height: Side | None = None
    width: Side | None = None


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[DiffusersEditor]:
    settled = diffusers_base.settle(settings, context)
    if settled.true_cfg_scale is None:
        raise ValueError("true_cfg_scale stands neither here nor in the protocol's row; give it")
    if (settled.height is None) != (settled.width is None):
        raise ValueError("give both height and width, or neither")
    counted = settled.model_copy(update={"guidance_scale": None})
    found = diffusers_base.effective(counted, "qwen", VERSION, Qwen.pipeline, CALL)
    dropped = diffusers_base.slicing_dropped(settled)
    if settled.guidance_scale is not None:
        dropped["guidance_scale"] = NO_EFFECT
    return diffusers_base.prepared(settled, context, Qwen, found, dropped=dropped)


class Qwen(DiffusersEditor):
    """The pipeline of the 2509 and 2511 models, which takes several pictures."""

    label = "Qwen-Image-Edit"
    pipeline = "QwenImageEditPlusPipeline"
    most_images = 3  # what the model was trained on

    def check(self, diffusers: Any) -> None:
        """2511 needs `zero_cond_t`; an older one drops it with a warning, and other pixels come out."""
        constructor = diffusers.QwenImageTransformer2DModel.__init__
        if "zero_cond_t" not in inspect.signature(constructor).parameters:
            raise SetupError(
                f"diffusers {diffusers.__version__} would load Qwen-Image-Edit-2511 and compute something else.",
                "Install 0.37 or newer: pip install 'stillme[diffusers]'",
            )

    def arguments(self, pictures: Sequence[Image.Image], request: EditRequest) -> dict[str, Any]:
        parameters = {name: getattr(self.settings, name) for name in CALL}
        return {"image": list(pictures), "prompt": request.instruction, "num_images_per_prompt": 1, **parameters}

    def encoded(self, tensor: Any) -> Any:
        """Its autoencoder is for videos: a picture is a video of one frame."""
        return super().encoded(tensor[:, :, None])[:, :, 0]
