"""The machine itself: Python, cores, memory, room on the disk, SQLite, programs, graphics cards."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from stillme.core import gpus
from stillme.core.gpus import Gpu

GB = 1000**3
# What programs are for -> the names under which they may be found.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "NVIDIA's driver": ("nvidia-smi",),
    "PostgreSQL": ("postgres", "psql", "pg_ctl"),
    "Chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
}
USED_FOR = {
    "NVIDIA's driver": "tells which graphics cards there are",
    "PostgreSQL": "only for a study on several server processes; it may run elsewhere",
    "Chromium": "only for the tests; any browser opens reports and tools",
}


@dataclass(frozen=True)
class Machine:
    """`memory_gb`, `disk_free_gb`, `gpus`: None where nobody can tell. `programs`: name -> its path, or None."""

    system: str
    python: str
    prefix: str
    cores: int
    memory_gb: float | None
    disk: str
    disk_free_gb: float | None
    sqlite: str
    programs: Mapping[str, str | None]
    gpus: tuple[Gpu, ...] | None


def look() -> Machine:
    here = Path.cwd()
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        prefix=sys.prefix,
        cores=_cores(),
        memory_gb=_memory(),
        disk=str(here),
        disk_free_gb=_free(here),
        sqlite=sqlite3.sqlite_version,
        programs={name: _first(names) for name, names in PROGRAMS.items()},
        gpus=_cards(),
    )


def _cores() -> int:
    """Those that this process may use, which a container may hold fewer of than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _free(folder: Path) -> float | None:
    try:
        return round(shutil.disk_usage(folder).free / GB, 1)
    except OSError:
        return None


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def _cards() -> tuple[Gpu, ...] | None:
    """As the driver tells; where it is silent and torch is installed, as torch does."""
    seen = gpus.here()
    return seen if seen or not _has_torch() else gpus.by_torch()


def _has_torch() -> bool:
    try:
        return bool(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return False
