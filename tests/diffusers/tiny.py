"""Tiny pipelines of random weights, built through the real classes: same code paths, nothing to download.

python -m tests.diffusers.tiny FOLDER writes FOLDER/flux2 and FOLDER/qwen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    PixtralImageProcessor,
    PixtralProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
)

from diffusers import (
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    Flux2Pipeline,
    Flux2Transformer2DModel,
    QwenImageEditPlusPipeline,
    QwenImageTransformer2DModel,
)

WIDTH = 16  # of every hidden layer
END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
QWEN_WORDS = [END, START, STOP, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
MISTRAL_MARKS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]
MISTRAL_WORDS = [*MISTRAL_MARKS, "<pad>", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MISTRAL_TEMPLATE = (
    "<s>{% for message in messages %}{% if message['role'] == 'system' %}[SYSTEM_PROMPT]"
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}[/SYSTEM_PROMPT]"
    "{% elif message['role'] == 'user' %}[INST]{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}[IMG]{% endif %}{% endfor %}[/INST]"
    "{% endif %}{% endfor %}"
)


def save(pipe: Any, folder: Path) -> Path:
    pipe.to(torch.bfloat16)
    pipe.save_pretrained(folder, safe_serialization=True)
    return folder


def flux2(seed: int = 0) -> Any:
    words = pixtral_processor()
    torch.manual_seed(seed)
    transformer = Flux2Transformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=3 * WIDTH,
        timestep_guidance_channels=256,
        axes_dims_rope=[4, 4, 4, 4],
    )
    vae = AutoencoderKLFlux2(
        sample_size=64,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(4, 4, 8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=2,
        use_quant_conv=True,
        use_post_quant_conv=True,
    )
    return Flux2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        text_encoder=mistral(words),
        tokenizer=words,
        transformer=transformer,
    )


def mistral(words: Any) -> Any:
    """Thirty layers, because the pipeline reads the tenth, twentieth and thirtieth."""
    text = {
        "model_type": "mistral",
        "vocab_size": len(words.tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 32,
        "max_position_embeddings": 4096,
        "num_attention_heads": 2,
        "num_hidden_layers": 30,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 7,
    }
    sight = {
        "model_type": "pixtral",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "image_size": 1540,
        "patch_size": 14,
        "num_channels": 3,
    }
    return Mistral3ForConditionalGeneration(
        Mistral3Config(
            text_config=text,
            vision_config=sight,
            spatial_merge_size=2,
            vision_feature_layer=-1,
            image_token_index=words.tokenizer.convert_tokens_to_ids("[IMG]"),
        )
    )


def qwen(folder: Path, seed: int = 0) -> Any:
    """The autoencoder has five levels, so that the pipeline's fixed million of pixels stays cheap."""
    words = qwen_processor(folder)
    encoder = qwen_encoder(words, seed)
    torch.manual_seed(seed)
    transformer = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(8, 4, 4),
        zero_cond_t=True,
    )
    vae = AutoencoderKLQwenImage(
        base_dim=2,
        z_dim=4,
        dim_mult=[1] * 5,
        num_res_blocks=0,
        temperal_downsample=[False] * 4,
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    return QwenImageEditPlusPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        text_encoder=encoder,
        tokenizer=words.tokenizer,
        processor=words,
        transformer=transformer,
    )


def qwen_encoder(words: Any, seed: int) -> Any:
    ids = words.tokenizer.convert_tokens_to_ids
    torch.manual_seed(seed)
    text = {
        "hidden_size": WIDTH,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": len(words.tokenizer),
        "max_position_embeddings": 8192,
        "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
        "rope_theta": 1000000.0,
        "bos_token_id": ids(END),
        "eos_token_id": ids(STOP),
    }
    sight = {"depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": WIDTH}
    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config=text,
            vision_config={**sight, "fullatt_block_indexes": [1]},
            image_token_id=ids("<|image_pad|>"),
            video_token_id=ids("<|video_pad|>"),
            vision_start_token_id=ids("<|vision_start|>"),
            vision_end_token_id=ids("<|vision_end|>"),
        )
    )


def byte_words(first: tuple[str, ...] = ()) -> dict[str, int]:
    """Every byte is a word, so that any sentence can be read and none has to be learned."""
    return {word: n for n, word in enumerate([*first, *sorted(pre_tokenizers.ByteLevel.alphabet())])}


def pixtral_processor() -> Any:
    """What FLUX.2 calls its tokenizer."""
    words = Tokenizer(models.BPE(vocab=byte_words(tuple(MISTRAL_WORDS)), merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in MISTRAL_WORDS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=131072,
        chat_template=MISTRAL_TEMPLATE,
    )
    return PixtralProcessor(
        image_processor=PixtralImageProcessor(),
        tokenizer=tokenizer,
        patch_size=14,
        spatial_merge_size=2,
        chat_template=MISTRAL_TEMPLATE,
    )


def qwen_processor(folder: Path) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(byte_words(), ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    words = Qwen2Tokenizer(vocab=byte_words(), merges=[], unk_token=END, eos_token=STOP, pad_token=END)
    words.add_special_tokens({"additional_special_tokens": QWEN_WORDS})
    words.chat_template = QWEN_TEMPLATE
    words.model_max_length = 131072
    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(),
        tokenizer=words,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    save(flux2(), target / "flux2")
    save(qwen(target / "words"), target / "qwen")
