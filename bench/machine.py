"""The machine that a bench ran on, as far as figures hang on it: no name, no address, no path."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from bench.figures import versions

OURS = ("numpy", "scipy", "polars", "aiohttp", "starlette", "opencv-python-headless")


def described() -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "processor": _line("/proc/cpuinfo", "model name") or platform.machine(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **versions(*OURS),
    }


def load() -> float | None:
    """How many processes wanted a core in the last minute; None where nobody says."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _memory() -> str:
    told = _line("/proc/meminfo", "MemTotal")
    return f"{int(told.split()[0]) / (1 << 20):.0f} GB" if told else "not known"


def _line(file: str, name: str) -> str:
    path = Path(file)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
