"""The GPUs of this machine, as nvidia-smi or torch list them. Loads nothing itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass

_QUERY = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
TIMEOUT_S = 10  # a driver that hangs must not hang a plan
TORCH_TIMEOUT_S = 120  # torch is large, and a disk may be slow
# Run by another process, so that nothing of torch, nor of what it does when a driver is broken, stays here.
_BY_TORCH = """
import torch
for number in range(torch.cuda.device_count()):
    card = torch.cuda.get_device_properties(number)
    print(f"{card.name}, {card.total_memory / 2**20}")
if torch.backends.mps.is_available():
    print(f"Apple GPU (mps), {torch.mps.recommended_max_memory() / 2**20}")
"""


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_gb: float


def detect_gpus() -> tuple[Gpu, ...] | None:
    """The GPUs; empty without nvidia-smi; None if it failed, so that nothing is known."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        result = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)  # noqa: S603 (no shell, and fixed arguments)
        return read(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def by_torch() -> tuple[Gpu, ...] | None:
    """The GPUs that torch can use, of any maker; slow, as another process loads torch. None if that fails."""
    try:
        result = subprocess.run(  # noqa: S603 - no shell, and fixed arguments
            [sys.executable, "-c", _BY_TORCH], capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, check=True
        )
        return read(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def read(text: str) -> tuple[Gpu, ...]:
    """
    >>> read("NVIDIA A100-SXM4-80GB, 81920\\n")
    (Gpu(name='NVIDIA A100-SXM4-80GB', memory_gb=80.0),)
    """
    rows = [line.rsplit(",", 1) for line in text.strip().splitlines()]
    return tuple(Gpu(name.strip(), round(float(mebibytes) / 1024, 1)) for name, mebibytes in rows)
