"""FLUX.2-dev over diffusers: optionally in 4 bit, optionally with the text encoder of a service.

A remote text encoder is off by default: it sends every instruction to a third party. Pictures stay here.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from PIL import Image
from pydantic import Field, field_validator

from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.core.yaml import StrictModel
from stillme.editors import diffusers_base
from stillme.editors.diffusers_base import DiffusersEditor, Open
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedEditor, require_key
from stillme.engine.http import PACKAGES, Client, ClientConfig, HttpRequest, RemoteError, Url, is_loopback

VERSION = 1  # raise when the same settings give other pixels
CALL = ("num_inference_steps", "guidance_scale")
MIN_SIDE, MAX_RATIO = 64, 8  # the pipeline's bounds of a picture: pixels; longer by shorter side
QUANTIZED = ("transformer", "text_encoder")


class TextEncoder(StrictModel):
    """A service that turns an instruction into numbers. key_env names the variable with its key."""

    url: Url
    key_env: str | None = None
    limits: ClientConfig = ClientConfig(most_bytes=64_000_000)  # 512 × 15360 numbers of two bytes are 16 million

    @field_validator("url")
    @classmethod
    def _is_safe(cls, url: str) -> str:
        if urlsplit(url).scheme != "https" and not is_loopback(url):
            raise ValueError("give an https:// address; plain http:// is taken on this machine only")
        return url


class Settings(Open):
    """quantization: 4bit needs CUDA and bitsandbytes."""

    published: str = "flux2-dev"
    guidance_scale: float | None = Field(default=None, ge=0, le=100)
    quantization: Literal["4bit"] | None = None
    remote_text_encoder: TextEncoder | None = None


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[DiffusersEditor]:
    settled = _offloaded(diffusers_base.settle(settings, context), settings)
    if settled.guidance_scale is None:
        raise ValueError("guidance_scale stands neither here nor in the protocol's row; give it")
    if settled.quantization and settled.device_kind != "cuda":
        raise ValueError(
            f"quantization: {settled.quantization} needs a CUDA device, and device is {settled.device}"
        )
    found = diffusers_base.effective(settled, "flux2", VERSION, Flux2.pipeline, CALL)
    more: dict[str, Any] = {"dropped": diffusers_base.slicing_dropped(settled)}
    if settled.remote_text_encoder:
        found["remote_text_encoder"] = settled.remote_text_encoder.url  # how it is asked changes nothing
        more["caveats"] = (_told(settled.remote_text_encoder),)
    prepared = diffusers_base.prepared(settled, context, Flux2, found, **more)
    return replace(prepared, requires=(*prepared.requires, *_further(settled)))


def _offloaded(settled: Settings, given: Settings) -> Settings:
    """Whole, it fits no single device that is sold: model offload, unless something else was asked for."""
    roomy = given.offload is not None or settled.device_kind == "cpu" or settled.quantization
    return settled if roomy else settled.model_copy(update={"offload": diffusers_base.MODEL})


def _further(settled: Settings) -> Iterator[str]:
    """Packages that only some settings need."""
    if settled.quantization:
        yield "bitsandbytes"
    if settled.remote_text_encoder:
        yield from PACKAGES


def _told(encoder: TextEncoder) -> str:
    return f"Instructions, not pictures, were sent to {urlsplit(encoder.url).hostname}, which encoded them."


class Flux2(DiffusersEditor):
    """The pipeline takes a list of references for one edit."""

    label = "FLUX.2"
    pipeline = "Flux2Pipeline"
    most_images = 10  # the model's own limit

    def __init__(self, settings: Settings, key_env: str | None = None) -> None:
        super().__init__(settings, key_env)
        self._embedding = lru_cache(maxsize=256)(self._request_embedding)  # few instructions, many portraits

    def edit(self, request: EditRequest) -> EditReply:
        try:
            return super().edit(request)
        except RemoteError as error:
            return self._encoder_failed(error)

    def _encoder_failed(self, error: RemoteError) -> EditReply:
        """The encoder sees no portrait, so its rejection is not the portrait's fault."""
        if error.status_code in hosted.UNDECIDED:
            key = self.settings.remote_text_encoder.key_env
            raise SetupError(
                f"The text encoder of FLUX.2 answered {str(error).rstrip('.')}.",
                f"Check the url of remote_text_encoder{f' and the key in {key}' if key else ''}, then run again.",
            ) from error
        status = Status.SERVER_ERROR if error.kind is Status.REJECTED else error.kind
        detail = f"the text encoder did not answer: {error}"
        return EditReply(status, detail=detail, request_id=error.request_id)

    def components(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"text_encoder": None} if self.settings.remote_text_encoder else {}
        if self.settings.quantization:
            parts["quantization_config"] = self._quantization()
        return parts

    def _quantization(self) -> Any:
        import torch

        import diffusers

        numbers = getattr(torch, self.settings.dtype)
        quantized = [part for part in QUANTIZED if part != "text_encoder" or not self.settings.remote_text_encoder]
        return diffusers.PipelineQuantizationConfig(
            quant_backend="bitsandbytes_4bit",
            quant_kwargs={"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": numbers},
            components_to_quantize=quantized,
        )

    def unfit(self, pictures: Sequence[images.Pixels]) -> str:
        for picture in pictures:
            short, long = sorted(picture.shape[:2])
            if short < MIN_SIDE or long > MAX_RATIO * short:
                size = f"{picture.shape[1]} × {picture.shape[0]}"
                return (
                    f"the portrait has {size} pixels; {self.label} takes sides of {MIN_SIDE} and more, none above"
                    f" {MAX_RATIO} times the other"
                )
        return ""

    def arguments(self, pictures: Sequence[Image.Image], request: EditRequest) -> dict[str, Any]:
        parameters = {name: getattr(self.settings, name) for name in CALL}
        prompt: dict[str, Any] = {"prompt": request.instruction}
        if self.settings.remote_text_encoder is not None:
            embedding = self._embedding(request.instruction)
            prompt = {"prompt_embeds": embedding.to(self._pipe._execution_device)}
        return {"image": list(pictures), **prompt, **parameters}

    def _request_embedding(self, instruction: str) -> Any:
        """The instruction as numbers, from the service. Its reply is a pickle: only tensors are read from it."""
        import torch

        content = asyncio.run(_post(self.settings.remote_text_encoder, instruction))
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")


async def _post(encoder: TextEncoder, instruction: str) -> bytes:
    require_key(encoder.key_env, "The text encoder of FLUX.2")
    secrets = {"Authorization": f"Bearer {os.environ[encoder.key_env]}"} if encoder.key_env else {}
    client = Client(encoder.url, encoder.limits, secrets)
    try:
        answer = await client.call(
            HttpRequest("POST", encoder.url, json={"prompt": instruction}, accepts=("application/", "binary/"))
        )
        return answer.body
    finally:
        await client.close()
