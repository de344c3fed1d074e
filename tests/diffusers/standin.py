"""A stand-in for Step1XEditPipelineV1P2, which exists in a branch of diffusers only: same signature, same habits.

It has a real autoencoder; instead of diffusing it mixes drawn noise into the picture. Like the original it reflects
unless told not to, gives two lists of pictures, and draws from torch's global generator in both modes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from diffusers import AutoencoderKL

NAME = "Step1XEditPipelineV1P2"


@dataclass
class Output:
    images: list[Image.Image]
    reformat_prompt: str | None
    think_info: list[str] | None
    best_info: list[dict[str, Any]] | None
    final_images: list[Image.Image] | None


class Step1XEditPipelineV1P2:
    """What the adapter touches of the original."""

    def __init__(self, vae: Any) -> None:
        self.vae = vae
        self._execution_device = torch.device("cpu")

    @classmethod
    def from_pretrained(
        cls,
        folder: str,
        *,
        dtype: Any = None,
        torch_dtype: Any = None,
        use_safetensors: bool | None = None,
        local_files_only: bool = False,
    ) -> Step1XEditPipelineV1P2:
        assert use_safetensors and local_files_only
        vae = AutoencoderKL.from_pretrained(
            folder, subfolder="vae", dtype=dtype or torch_dtype, use_safetensors=True
        )
        return cls(vae)

    def set_progress_bar_config(self, **options: Any) -> None:
        pass

    def maybe_free_model_hooks(self) -> None:
        pass

    def to(self, device: str) -> Step1XEditPipelineV1P2:
        self.vae.to(device)
        return self

    def __call__(
        self,
        image: Any = None,
        prompt: str | None = None,
        negative_prompt: str | None = None,
        true_cfg_scale: float = 6.0,
        height: int | None = None,
        width: int | None = None,
        size_level: int = 1024,
        num_inference_steps: int = 28,
        sigmas: Any = None,
        guidance_scale: float = 6.0,
        num_images_per_prompt: int = 1,
        generator: Any = None,
        latents: Any = None,
        output_type: str = "pil",
        return_dict: bool = True,
        joint_attention_kwargs: Any = None,
        timesteps_truncate: float = 0.93,
        process_norm_power: float = 0.4,
        enable_thinking_mode: bool = False,
        enable_reflection_mode: bool = True,
        max_try_cnt: int = 3,
    ) -> Output:
        assert output_type == "pil" and isinstance(prompt, str) and isinstance(image, Image.Image)
        if enable_thinking_mode:
            prompt = f"{prompt} ({int(torch.randint(1_000_000, ()))})"
        tries = [
            self._drawn(image, prompt, generator, num_inference_steps, true_cfg_scale)
            for _ in range(max_try_cnt if enable_reflection_mode else 1)
        ]
        best = int(torch.randint(len(tries), ())) if enable_reflection_mode else 0
        return Output(
            tries,
            prompt if enable_thinking_mode else None,
            ["thought"] if enable_thinking_mode else None,
            [{"best": best}] if enable_reflection_mode else None,
            [tries[best]] if enable_reflection_mode else None,
        )

    def _drawn(self, image: Image.Image, prompt: str, generator: Any, steps: int, scale: float) -> Image.Image:
        picture = torch.from_numpy(np.array(image)).float()
        for _ in range(steps):
            picture += torch.randn(picture.shape, generator=generator) * scale / steps
        tint = sum(prompt.encode()) % 64
        return Image.fromarray((picture + tint).clamp(0, 255).round().to(torch.uint8).numpy())


def save(folder: Path) -> Path:
    """A folder in diffusers' layout that the stand-in is loaded from."""
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    vae = AutoencoderKL(**blocks, block_out_channels=(4, 8), latent_channels=4, norm_num_groups=2)
    vae.to(torch.bfloat16).save_pretrained(folder / "vae", safe_serialization=True)
    index = {"_class_name": NAME, "_diffusers_version": "0.36.0.dev0", "vae": ["diffusers", "AutoencoderKL"]}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def install() -> None:
    """Puts the stand-in where the branch of diffusers has the original."""
    import diffusers

    setattr(diffusers, NAME, Step1XEditPipelineV1P2)
