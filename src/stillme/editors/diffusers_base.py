"""Base of the open-weight editors: settings, the identity of weights, loading, memory, one edit at a time.

It knows diffusers' conventions and no particular model. torch and diffusers are imported where a model is loaded,
so that an audit is checked and reported on machines that have neither.
"""

from __future__ import annotations

import gc
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from stillme.core import images
from stillme.core.errors import SetupError, StillmeError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.core.yaml import StrictModel, unknown
from stillme.editors import VAE_ROUND_TRIP
from stillme.editors.weights import fingerprint
from stillme.engine.backends import BackendContext, ExecutionMode, PreparedEditor
from stillme.protocol.schema import EditorRow

GENERATOR = "cpu"  # its noise is the same on every device
PACKAGES = ("stillme", "torch", "diffusers", "transformers", "accelerate", "safetensors")

NONE, MODEL, SEQUENTIAL = "none", "model_cpu_offload", "sequential_cpu_offload"
Offload = Literal["none", "model_cpu_offload", "sequential_cpu_offload"]
Dtype = Literal["bfloat16", "float16", "float32"]

_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Open(StrictModel):
    """Settings of every open-weight editor. What is left out is taken from the protocol's row.

    source: a repository of the Hugging Face hub or a folder in diffusers' layout. revision: the hub's commit.
    weights: fingerprint of a folder; when given, another folder is refused. device: cuda, cpu or mps.
    """

    published: str
    source: str = ""
    revision: str | None = None
    allow_unpinned: bool = False
    weights: str | None = None
    num_inference_steps: int | None = Field(default=None, ge=1, le=1000)
    dtype: Dtype | None = None
    device: str = Field(default="cuda", pattern=r"^(cuda|cpu|mps)(:\d+)?$")
    threads: int = Field(default=1, ge=1, le=1024)
    offload: Offload | None = None
    vae_slicing: bool | None = None
    attention_slicing: bool | None = None
    local_files_only: bool = False
    deadline_s: float = Field(default=1800, gt=0)

    @property
    def device_kind(self) -> str:
        return self.device.partition(":")[0]


# The weights are part of the hash by their identity. Where they are stored, and where they are moved to between
# computations, changes no pixel; neither does slicing, as one picture is decoded at a time.
_NOT_PIXELS = frozenset(
    {
        "published",
        "source",
        "revision",
        "allow_unpinned",
        "weights",
        "device",
        "offload",
        "vae_slicing",
        "attention_slicing",
        "local_files_only",
        "deadline_s",
    }
)

Settled = TypeVar("Settled", bound=Open)


def settle(settings: Settled, context: BackendContext) -> Settled:
    """Spell out every setting: the audit's value, or the published one; weights named by their identity."""
    row = _row(settings.published, context)
    values = settings.model_dump()
    published = {name: value for name, value in row.settings.items() if values.get(name, "") is None}
    settled = settings.model_copy(update={**published, "source": settings.source or row.repository})
    for name in ("num_inference_steps", "dtype"):
        if getattr(settled, name) is None:
            raise ValueError(
                f"{name} stands neither here nor in the protocol's row '{settled.published}'; give it"
            )
    return _with_identity(_with_memory_options(settled, row), context)


def _row(name: str, context: BackendContext) -> EditorRow:
    rows = {row.id: row for row in context.protocol.editors.editors}
    if name not in rows:
        raise ValueError(unknown(name, "editor of the protocol", rows))
    return rows[name]


def _with_memory_options(settled: Settled, row: EditorRow) -> Settled:
    """The published memory options, where none are given. Offloading needs a device to move weights to."""
    listed = row.memory.get("options", ())
    options = listed if isinstance(listed, tuple) else ()
    if settled.device_kind == "cpu" and settled.offload not in (None, NONE):
        raise ValueError(
            f"offload moves weights to and from a GPU, and device is cpu; leave {settled.offload} out"
        )
    default = SEQUENTIAL if SEQUENTIAL in options and settled.device_kind != "cpu" else NONE
    memory: dict[str, Any] = {"offload": settled.offload or default}
    for name in ("vae_slicing", "attention_slicing"):
        value = getattr(settled, name)
        memory[name] = name in options if value is None else value
    return settled.model_copy(update=memory)


def _with_identity(settled: Settled, context: BackendContext) -> Settled:
    """A folder is identified by its fingerprint, a repository by its commit."""
    path = context.folder / Path(settled.source).expanduser()
    folder = path.resolve() if path.is_dir() else None
    if settled.weights is not None:  # a run is recalled where its folder may be gone; loading checks it
        return settled.model_copy(update={"source": str(folder or settled.source)})
    if folder is not None:
        return settled.model_copy(update={"source": str(folder), "weights": fingerprint(folder)})
    if not _HUB.fullmatch(settled.source):
        raise ValueError(f"source: there is no folder '{settled.source}', and it is no repository's name either")
    if settled.allow_unpinned or _COMMIT.fullmatch(settled.revision or ""):
        return settled
    raise ValueError(
        f"revision: give the commit of the hub's {settled.source} (40 hexadecimal digits; its page lists them"
        " under 'Files and versions'), so that every edit comes from the same weights; or set allow_unpinned:"
        " true. A folder of that name is not here"
    )


def effective(settled: Open, backend: str, version: int, pipeline: str, call: Sequence[str]) -> dict[str, Any]:
    """Everything that changes pixels. A setting counts unless it is known not to."""
    values = settled.model_dump(mode="json", exclude=set(_NOT_PIXELS))
    arguments = {name: values.pop(name) for name in call}
    return {
        "backend": backend,
        "version": version,
        "pipeline": pipeline,
        "weights": _identity(settled),
        "device": settled.device_kind,
        "generator_device": GENERATOR,
        "call": {name: value for name, value in arguments.items() if value is not None},
        **{name: value for name, value in values.items() if value is not None},
    }


def _identity(settled: Open) -> dict[str, str]:
    if settled.weights is not None:
        return {"folder": settled.weights}
    return {"repository": settled.source, "revision": settled.revision or "unpinned"}


def prepared(
    settled: Open, context: BackendContext, made: type[DiffusersEditor], effective: Mapping[str, Any], **more: Any
) -> PreparedEditor[DiffusersEditor]:
    """What every open-weight editor says of itself; `more` is said by the one at hand."""
    row = _row(settled.published, context)
    on_gpu = settled.device_kind != "cpu"
    said: dict[str, Any] = {
        "description": f"{row.label} with open weights, over diffusers.",
        "seconds": 30.0,  # a guess until a run has measured it
        "requires": ("torch", "diffusers", "transformers", "accelerate"),
        "needs": {"vram_gb": _vram(row)} if on_gpu and _vram(row) else {},
        "most_images": made.most_images,
        "seed": int(row.settings.get("seed", 0)),
        **more,
    }
    said["caveats"] = (*_unpinned(settled), *said.get("caveats", ()))
    return PreparedEditor(
        effective=effective,
        inputs=settled.model_dump(mode="json"),
        make=lambda: made.loaded(settled, context.key_env),
        mode=ExecutionMode.MODEL,
        deadline=settled.deadline_s,
        controls=(VAE_ROUND_TRIP,),
        computes=True,
        **said,
    )


def _vram(row: EditorRow) -> float:
    vram_gb = row.memory.get("vram_gb", 0)
    return float(vram_gb) if isinstance(vram_gb, int | float) else 0.0


def _unpinned(settled: Open) -> Iterator[str]:
    if settled.weights is None and not _COMMIT.fullmatch(settled.revision or ""):
        yield (
            f"The revision of {settled.source} was not pinned: its edits may come from different weights."
            " The commit that was loaded is recorded with each edit."
        )


def slicing_dropped(settled: Open) -> dict[str, str]:
    """Requested memory options that have no effect."""
    return {"attention_slicing": "no component of the pipeline has it"} if settled.attention_slicing else {}


@dataclass(frozen=True)
class Outcome:
    """A pipeline's result: a picture as floats from 0 to 1 or as levels, and notes and further pictures."""

    picture: NDArray[Any]
    notes: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, bytes] = field(default_factory=dict)


class DiffusersEditor:
    """A pipeline, loaded once, that makes one edit at a time."""

    label: ClassVar[str]  # as sentences call it
    pipeline: ClassVar[str]  # diffusers' class
    ladder: ClassVar[tuple[str, ...]] = (NONE, MODEL, SEQUENTIAL)  # each needs less memory than the one before
    most_images: ClassVar[int] = 1
    grid: ClassVar[int] = 16  # sides that the autoencoder takes are multiples of this

    def __init__(self, settings: Any, key_env: str | None = None) -> None:
        self.settings = settings
        self._key_env = key_env
        self._offload: str = settings.offload
        self._pipe: Any = None
        self._made: dict[str, Any] = {}
        self._edited = False

    @classmethod
    def loaded(cls, settings: Any, key_env: str | None = None) -> DiffusersEditor:
        editor = cls(settings, key_env)
        editor.load()
        return editor

    def edit(self, request: EditRequest) -> EditReply:
        try:
            pictures = [images.pixels(content) for content in (request.image, *request.references)]
        except images.BadImageError as error:
            return EditReply(Status.REJECTED, detail=f"the portrait {error}")
        unfit = self._unsupported(request) or self.unfit(pictures)
        if unfit:
            return EditReply(Status.REJECTED, detail=unfit)
        return self._retry_with_less_memory(lambda: self._reply(request, pictures))

    # Defined by a model's file.

    def arguments(self, pictures: Sequence[Image.Image], request: EditRequest) -> dict[str, Any]:
        """The pipeline's arguments, without generator and output type."""
        raise NotImplementedError

    def unfit(self, pictures: Sequence[images.Pixels]) -> str:
        """Why the model does not accept these pictures; empty where it does."""
        return ""

    def components(self) -> dict[str, Any]:
        """Parts that are not loaded with the rest, or loaded differently."""
        return {}

    def check(self, diffusers: Any) -> None:
        """Raise if this diffusers would compute something else."""

    def placed(self, pipe: Any) -> None:
        """Called when the pipeline is where it computes."""

    def call(self, pictures: Sequence[Image.Image], request: EditRequest) -> Outcome:
        result = self._pipe(
            **self.arguments(pictures, request), generator=generator(request.seed), output_type="np"
        )
        return Outcome(result.images[0])

    def encoded(self, tensor: Any) -> Any:
        """A picture through the pipeline's own autoencoder and back, as tensors of batch × colours × sides."""
        latent = self._pipe.vae.encode(tensor).latent_dist.mode()
        return self._pipe.vae.decode(latent, return_dict=False)[0]

    # Loading, and making room.

    def load(self) -> None:
        """Load with the first memory option that fits."""
        while True:
            try:
                self._pipe = self._load()
                self._made = self._environment()
                return
            except StillmeError:
                raise
            except Exception as error:
                reason = _first_line(error)
                if not is_out_of_memory(error):  # it would prevent every edit
                    message = f"{self.label} cannot be loaded from {self.settings.source}: {reason}"
                    raise SetupError(f"{message.rstrip('.')}.", self._how_to_get()) from error
            if not self._use_next_offload():
                raise SetupError(f"{self.label} does not fit into memory: {reason}.", self._remedy())

    def _load(self) -> Any:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # read when CUDA starts; else sums vary
        import torch
        import transformers

        import diffusers

        _make_deterministic(torch, self.settings.threads)
        diffusers.utils.logging.disable_progress_bar()  # the run shows its own progress; warnings stay
        transformers.utils.logging.disable_progress_bar()
        self._require_device(torch)
        self.check(diffusers)
        pipe = self._from_pretrained(diffusers, torch)
        pipe.set_progress_bar_config(disable=True)
        if self.settings.vae_slicing:
            pipe.vae.enable_slicing()
        self.place(pipe)
        self.placed(pipe)
        return pipe

    def _from_pretrained(self, diffusers: Any, torch: Any) -> Any:
        pipeline = getattr(diffusers, self.pipeline, None)
        if pipeline is None:
            raise self._missing_class(diffusers.__version__)
        components = self.components()
        return pipeline.from_pretrained(
            str(self._weights_folder(pipeline, components)),
            use_safetensors=True,
            local_files_only=True,
            **{dtype_word(): getattr(torch, self.settings.dtype)},
            **components,
        )

    def _missing_class(self, installed: str) -> SetupError:
        return SetupError(
            f"diffusers {installed} has no {self.pipeline}.",
            "Install a newer one: pip install 'stillme[diffusers]'",
        )

    def _weights_folder(self, pipeline: Any, components: Mapping[str, Any]) -> Path:
        """The folder with the weights; those of the hub are downloaded, safetensors only, and never code."""
        settings = self.settings
        if settings.weights is None:
            token = os.environ.get(self._key_env or "HF_TOKEN") or False
            path = pipeline.download(
                settings.source,
                use_safetensors=True,
                revision=settings.revision,
                local_files_only=settings.local_files_only,
                token=token,
                **components,
            )
            return Path(path)
        folder = Path(settings.source)
        if fingerprint(folder) != settings.weights:
            raise ValueError(f"the weights are not those that were prepared ({settings.weights[:12]}…)")
        return folder

    def _how_to_get(self) -> str:
        if self.settings.weights is not None:
            return "Check that the folder is complete and has not changed since the audit was checked."
        key = self._key_env or "HF_TOKEN"
        return (
            f"Check repository and revision; a gated model needs a token in {key} and its licence accepted on the"
            " hub; with local_files_only: true it must have been downloaded before."
        )

    def _require_device(self, torch: Any) -> None:
        kind, _, number = self.settings.device.partition(":")
        devices = _available_devices(torch, kind)
        if kind != "cpu" and f"{kind}:{number or 0}" not in devices:
            raise SetupError(
                f"{self.label} is set to the device {self.settings.device}, and torch finds"
                f" {', '.join(devices) or 'none'}.",
                "Run it on a machine with one, serve it from there (stillme editors serve), or set device: cpu.",
            )

    def place(self, pipe: Any) -> None:
        """Move the weights to the device, or have them moved there piece by piece."""
        if self._offload == SEQUENTIAL:
            pipe.enable_sequential_cpu_offload(device=self.settings.device)
        elif self._offload == MODEL:
            pipe.enable_model_cpu_offload(device=self.settings.device)
        else:
            pipe.to(self.settings.device)

    def _use_next_offload(self) -> bool:
        """Unload, and switch to the next memory option; False where there is none."""
        remaining = self._remaining_offloads()
        if remaining:
            self._offload, self._pipe = remaining[0], None
            _free_memory()
        return bool(remaining)

    def _remaining_offloads(self) -> tuple[str, ...]:
        if self.settings.device_kind == "cpu" or self._offload not in self.ladder:
            return ()
        return self.ladder[self.ladder.index(self._offload) + 1 :]

    def _retry_with_less_memory(self, edit: Callable[[], EditReply]) -> EditReply:
        """Retry once, with the next memory option, when memory runs out.

        Where no edit has ever fitted, none will: the run ends with the sentence. Otherwise this edit has failed.
        """
        before = self._offload
        reason = ""
        for _ in range(2):
            try:
                reply = edit()
                self._edited = True
                if not reason:
                    return reply
                note = f"ran out of memory with {before}; made with {self._offload}"
                return replace(reply, notes={**reply.notes, "memory": note})
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                reason = _first_line(error)
            _free_memory()  # outside of the handler: its traceback refers to the tensors
            if self._offload != before or not self._use_next_offload():
                break
            self.load()
        sentence = f"{self.label} ran out of memory with offload: {self._offload} ({reason})."
        if not self._edited and not self._remaining_offloads():
            raise SetupError(sentence, self._remedy())
        return EditReply(Status.CRASHED, detail=f"{sentence} {self._remedy()}", environment=self._made)

    def _remedy(self) -> str:
        return (
            "End what else uses the device's memory, take a larger device, or serve this editor from a machine"
            " that has one (stillme editors serve)."
        )

    # One edit.

    def _unsupported(self, request: EditRequest) -> str:
        if request.control not in ("", VAE_ROUND_TRIP):
            return f"{self.label} does not make the control '{request.control}'"
        if 1 + len(request.references) > self.most_images:
            return f"{self.label} takes {self.most_images} picture(s) an edit, not {1 + len(request.references)}"
        return ""

    def _reply(self, request: EditRequest, pictures: Sequence[images.Pixels]) -> EditReply:
        if request.control:
            outcome = Outcome(self._round_trip(pictures[0]))
        else:
            outcome = self.call([Image.fromarray(picture) for picture in pictures], request)
        reply = EditReply(Status.OK, environment=self._made, notes=outcome.notes, extras=outcome.extras)
        n_nan = int(np.count_nonzero(~np.isfinite(outcome.picture)))
        if n_nan:
            detail = f"{n_nan:,} of {outcome.picture.size:,} values of the picture are not numbers (NaN)"
            return replace(reply, status=Status.CORRUPT, detail=detail)
        return replace(reply, image=images.lossless(levels(outcome.picture)))

    def _round_trip(self, picture: images.Pixels) -> NDArray[Any]:
        """The picture through the autoencoder and back, without diffusion. Padded to its grid, then cropped."""
        import torch

        height, width = picture.shape[:2]
        padded = np.pad(picture, ((0, -height % self.grid), (0, -width % self.grid), (0, 0)), mode="edge")
        with torch.no_grad():
            tensor = torch.from_numpy(padded.copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
            device = self._pipe._execution_device
            decoded = self.encoded(tensor.to(device, self._pipe.vae.dtype))
            self._pipe.maybe_free_model_hooks()
        pixels: NDArray[Any] = (decoded[0].float().cpu() / 2 + 0.5).permute(1, 2, 0).numpy()
        return pixels.clip(0, 1)[:height, :width]  # clip lets NaN through

    def _environment(self) -> dict[str, Any]:
        """The environment of this process's edits: what decides whether another machine gives the same bits."""
        import torch

        settings = self.settings
        return {
            **{name: _package_version(name) for name in PACKAGES},
            "python": platform.python_version(),
            "pipeline": self.pipeline,
            "weights": _identity(settings) if settings.weights else {"commit": self._commit()},
            "dtype": settings.dtype,
            "device": settings.device_kind,
            "device_name": _device_name(torch, settings.device),
            "threads": torch.get_num_threads(),
            "generator_device": GENERATOR,
            "offload": self._offload,
            "vae_slicing": settings.vae_slicing,
        }

    def _commit(self) -> str:
        """The hub's cache keeps each commit in a folder of its name."""
        name = Path(str(getattr(self._pipe, "name_or_path", "") or "")).name
        return name if _COMMIT.fullmatch(name) else self.settings.revision or "unknown"


def levels(picture: NDArray[Any]) -> images.Pixels:
    """8-bit levels, rounded as diffusers does."""
    return picture if picture.dtype == np.uint8 else (picture * 255).round().astype(np.uint8)


def generator(seed: int) -> Any:
    """A new one for every call: one that is used twice gives other noise."""
    import torch

    return torch.Generator(GENERATOR).manual_seed(seed)


def dtype_word() -> str:
    """The name of from_pretrained's dtype argument: diffusers renamed it at 0.40."""
    from diffusers.pipelines import pipeline_utils

    return "dtype" if hasattr(pipeline_utils, "_resolve_dtype") else "torch_dtype"


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has its own error class; the CPU's allocator only a message."""
    import torch

    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def _make_deterministic(torch: Any, threads: int) -> None:
    """The same sums in the same order each time, as far as torch can promise it."""
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def _free_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _available_devices(torch: Any, kind: str) -> list[str]:
    """The devices of one kind that torch finds, without the CPU."""
    if kind == "mps":
        return ["mps:0"] if torch.backends.mps.is_available() else []
    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch.cuda.is_available() else []


def _device_name(torch: Any, device: str) -> str:
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}" if device == "cpu" else device


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
