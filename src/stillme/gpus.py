"""The graphics cards of this machine, as nvidia-smi tells of them. Loads nothing; other makers' are not seen."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

_ASK = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
PATIENCE = 10  # seconds; a driver that hangs must not hang a plan


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_gb: float


def here() -> tuple[Gpu, ...] | None:
    """The cards; none where there is no card; None where nobody can tell."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        done = subprocess.run([program, *_ASK], capture_output=True, text=True, timeout=PATIENCE, check=True)
        return read(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def read(text: str) -> tuple[Gpu, ...]:
    """
    >>> read("NVIDIA A100-SXM4-80GB, 81920\\n")
    (Gpu(name='NVIDIA A100-SXM4-80GB', memory_gb=80.0),)
    """
    rows = [line.rsplit(",", 1) for line in text.strip().splitlines()]
    return tuple(Gpu(name.strip(), round(float(mebibytes) / 1024, 1)) for name, mebibytes in rows)
