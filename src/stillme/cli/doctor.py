"""What this machine has and lacks for an audit: packages, keys, graphics cards, room. Looks; changes nothing.

No service is asked and no model is loaded. Of a key only that it is set is known here, never what is in it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pydantic import Field

from stillme import __version__
from stillme.core import gpus
from stillme.core.errors import SetupError
from stillme.core.gpus import Gpu
from stillme.core.yaml import Document, StrictModel, read_text
from stillme.engine import backends
from stillme.plan.config import AuditRequirement, Config, inner_keys, keys_of, load, needs, read

FILE = Path(__file__).with_name("doctor.yaml")
UNMET = 3  # the exit code where an audit lacks something on this machine
PACKAGE = "stillme"
FOR_DEVELOPERS = ("bench", "dev")
GB = 1000**3

# Programs, the names under which they may be found, and what they are for
PROGRAMS = (
    ("NVIDIA's driver", ("nvidia-smi",), "tells which graphics cards there are"),
    (
        "PostgreSQL",
        ("postgres", "psql", "pg_ctl"),
        "only for a study on several server processes; it may run elsewhere",
    ),
    (
        "Chromium",
        ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
        "only for the tests; any browser opens reports and tools",
    ),
)


class Check(StrictModel):
    """Something that people come to do, and what it takes of a machine; doctor.yaml says what each field is."""

    id: str
    title: str
    start: str
    page: str
    extras: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    gpu: bool = False
    better: dict[str, str] = Field(default_factory=dict)
    hint: str = ""


class Checks(StrictModel):
    keys: dict[str, str]
    journeys: tuple[Check, ...]
    parts: tuple[Check, ...]


@cache
def checks() -> Checks:
    """The table of checks: doctor.yaml."""
    table = Document(str(FILE), read_text(FILE)).read_as(Checks)
    assert table is not None, "doctor.yaml comes with the package and is tested"
    return table


# What is found: its fields are the JSON


@dataclass(frozen=True)
class MissingRequirement:
    """Something that is not there, and the command or the step that gets it."""

    what: str
    how: str


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    id: str
    title: str
    ready: bool
    start: str
    page: str
    lacks: tuple[MissingRequirement, ...]
    better: tuple[MissingRequirement, ...]


@dataclass(frozen=True)
class Package:
    """A package that an extra asks for. `found`: its version here, empty where there is none."""

    name: str
    wanted: str
    found: str
    fits: bool


@dataclass(frozen=True)
class Extra:
    ready: bool
    packages: tuple[Package, ...]

    @property
    def missing(self) -> tuple[Package, ...]:
        """Not here, or in a version that does not fit."""
        return tuple(package for package in self.packages if not package.fits)


@dataclass(frozen=True, kw_only=True)
class AuditNeeds:
    """What an audit lacks here, what is there, and what is worth knowing before it is run."""

    file: str
    ready: bool
    name: str
    lacks: tuple[MissingRequirement, ...]
    met: tuple[str, ...] = ()
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DoctorReport:
    """`machine`: None for what cannot be read. `keys`: variable -> whether set. `audit`: if one was given."""

    stillme: str
    machine: Mapping[str, Any]
    extras: Mapping[str, Extra]
    keys: Mapping[str, bool]
    journeys: tuple[CheckResult, ...]
    parts: tuple[CheckResult, ...]
    audit: AuditNeeds | None

    def to_dict(self) -> dict[str, Any]:
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names if name != "audit" or self.audit is not None}


def look(file: Path | None = None) -> DoctorReport:
    """`file`: an audit, whose own needs are then looked at too."""
    machine, extras, table = find_machine(), find_extras(), checks()
    cards: tuple[Gpu, ...] | None = machine["gpus"]
    return DoctorReport(
        stillme=__version__,
        machine=machine,
        extras=extras,
        keys={variable: _is_set(variable) for variable in table.keys},
        journeys=tuple(_run(check, extras, cards) for check in table.journeys),
        parts=tuple(_run(check, extras, cards) for check in table.parts),
        audit=check_audit(file, cards) if file else None,
    )


def _run(check: Check, extras: Mapping[str, Extra], cards: tuple[Gpu, ...] | None) -> CheckResult:
    missing = {name for name in (*check.extras, *check.better) if name not in extras or not extras[name].ready}
    lacks, better = [], []
    for name in (name for name in check.extras if name in missing):
        which = ""
        if name in extras:
            packages = extras[name].missing
            texts = [p.name if not p.found else f"{p.name} {p.wanted} (here {p.found})" for p in packages]
            which = f": {', '.join(texts)}"
        lacks.append(MissingRequirement(f"the extra {name}{which}", install(name)))
    if check.keys and not any(map(_is_set, check.keys)):
        names = ", ".join(check.keys)
        lacks.append(MissingRequirement(f"a key: none of {names} is set", _export(check.keys[0])))
    if check.gpu and not cards:
        unknown = "which graphics cards there are nobody tells"
        how = "`device: cpu` in its settings, slowly; or `stillme editors serve` where there is one"
        lacks.append(MissingRequirement(unknown if cards is None else "no graphics card is to be seen", how))
    for name, reason in check.better.items():
        if name in checks().keys:
            better += [] if _is_set(name) else [MissingRequirement(f"{name}: {reason}", _export(name))]
        elif name in missing:
            better.append(MissingRequirement(f"the extra {name}: {reason}", install(name)))
    return CheckResult(
        id=check.id,
        title=check.title,
        ready=not lacks,
        start=check.start,
        page=check.page,
        lacks=tuple(lacks),
        better=tuple(better),
    )


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _export(variable: str) -> str:
    return f"export {variable}=…"


# The machine


def find_machine() -> dict[str, Any]:
    here = Path.cwd()
    memory_gb = disk_free_gb = None
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        memory_gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB, 1)
    with suppress(OSError):
        disk_free_gb = round(shutil.disk_usage(here).free / GB, 1)
    cards = gpus.detect_gpus()
    if not cards and _version("torch"):  # torch sees cards of other makers, too
        cards = gpus.by_torch()
    programs = {name: next(filter(None, map(shutil.which, commands)), None) for name, commands, _ in PROGRAMS}
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "prefix": sys.prefix,
        # A container may give this process fewer cores than the machine has.
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gb": memory_gb,
        "disk": str(here),
        "disk_free_gb": disk_free_gb,
        "sqlite": sqlite3.sqlite_version,
        "programs": programs,
        "gpus": cards,
    }


# Extras, as stillme's own metadata lists them


def find_extras() -> dict[str, Extra]:
    """Every extra by its name, developers' last; none where stillme runs without having been installed."""
    if not _version(PACKAGE):
        return {}
    names = metadata.metadata(PACKAGE).get_all("Provides-Extra") or ()
    extras = {}
    for extra in sorted(names, key=lambda name: (name in FOR_DEVELOPERS, name)):
        wanted: dict[str, SpecifierSet] = {}
        for requirement in _requirements_of(extra):  # everything that is asked of a package has to hold
            wanted[requirement.name] = wanted.get(requirement.name, SpecifierSet()) & requirement.specifier
        packages = []
        for name, versions in wanted.items():
            found = _version(name)
            fits = bool(found) and versions.contains(found, prereleases=True)
            packages.append(Package(name, str(versions), found, fits))
        extras[extra] = Extra(all(package.fits for package in packages), tuple(packages))
    return extras


@cache
def _requirements() -> Sequence[Requirement]:
    return [Requirement(text) for text in metadata.requires(PACKAGE) or ()]


def _requirements_of(extra: str) -> Iterator[Requirement]:
    """What an extra asks for on this system, with what the extras that it names ask for."""
    for requirement in _requirements():
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}) or not marker.evaluate({"extra": extra}):
            continue
        if requirement.name == PACKAGE:
            for other in sorted(requirement.extras):
                yield from _requirements_of(other)
        else:
            yield requirement


def _version(package: str) -> str:
    """Empty where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def install(extra: str) -> str:
    """The command that installs an extra into this very Python, from where stillme came."""
    clone = _clone()
    what = f"-e '{_typed(clone)}[{extra}]'" if clone else f"'{PACKAGE}[{extra}]'"
    on_path = shutil.which("pip")
    is_ours = on_path is not None and Path(on_path).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{_typed(Path(sys.executable))} -m pip"
    return f"{pip} install {what}"


def _clone() -> Path | None:
    """The folder that an editable stillme lives in."""
    if not _version(PACKAGE):
        return None
    text = metadata.distribution(PACKAGE).read_text("direct_url.json")
    origin: Mapping[str, object] = json.loads(text) if text else {}
    folder = origin.get("dir_info")
    if not isinstance(folder, dict) or not folder.get("editable"):
        return None
    return Path(unquote(urlsplit(str(origin.get("url", ""))).path))


def _typed(path: Path) -> str:
    """As one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


# One audit: keys, packages, graphics cards, weights


def check_audit(file: Path, cards: tuple[Gpu, ...] | None) -> AuditNeeds:
    """Faults of the file itself are raised as `stillme check` does; a missing extra is what is looked for."""
    audit, _ = read(file)
    try:
        config = load(file)
    except SetupError as error:
        lacks = (MissingRequirement(error.sentence, error.next_step), *_lacks(keys_of(audit)))
        stopped = "The audit could be read no further than this; ask again once it is mended."
        return AuditNeeds(file=str(file), ready=False, name=audit.name, lacks=lacks, notes=(stopped,))
    needed = [*needs(config), *inner_keys(config)]
    met = [need for need in needed if need.key_env and _is_set(need.key_env)]
    gpu_lacks, gpu_notes = _check_gpus(config, cards)
    weight_lacks, weight_notes = _check_weights(config)
    lacks = (*_lacks(needed), *gpu_lacks, *weight_lacks)
    return AuditNeeds(
        file=str(file),
        ready=not lacks,
        name=config.audit.name,
        lacks=lacks,
        met=tuple(f"{need.key_env} is set ({_lower(need.needed_by)})." for need in met),
        notes=(*gpu_notes, *weight_notes),
    )


def _lacks(needed: Iterable[AuditRequirement]) -> tuple[MissingRequirement, ...]:
    """Each package's extra and each variable once, with everybody who needs it."""
    backends_by_lack: dict[tuple[str, str], list[str]] = {}
    for need in needed:
        for lack in _missing(need):
            backends_by_lack.setdefault(lack, []).append(need.needed_by)
    lacks = []
    for (what, how), names in backends_by_lack.items():
        first, *others = dict.fromkeys(names)
        both = ", ".join([first, *map(_lower, others[:-1])])
        subject = f"{both} and {_lower(others[-1])} need" if others else f"{first} needs"
        lacks.append(MissingRequirement(f"{subject} {what}", how))
    return tuple(lacks)


def _missing(need: AuditRequirement) -> Iterator[tuple[str, str]]:
    if need.key_env and not _is_set(need.key_env):
        yield f"a key in {need.key_env}, which is not set", _export(need.key_env)
    absent = [package for package in need.packages if importlib.util.find_spec(package) is None]
    for extra in dict.fromkeys(map(backends.extra_of, absent)):
        packages = ", ".join(package for package in absent if backends.extra_of(package) == extra)
        yield f"the extra {extra} ({packages})", install(extra)


def _lower(name: str) -> str:
    return f"{name[0].lower()}{name[1:]}"


def _check_gpus(config: Config, cards: tuple[Gpu, ...] | None) -> tuple[list[MissingRequirement], list[str]]:
    """Editors that need a card where none is to be seen, and whether the largest is large enough."""
    lacks, notes = [], []
    for name, editor in config.editors.items():
        if "vram_gb" not in editor.needs:
            continue
        need = editor.needs["vram_gb"]
        if cards:
            largest = max(cards, key=lambda card: card.memory_gb)
            fits = "enough" if largest.memory_gb >= need else "too little unless weights are offloaded"
            has = f"{largest.name} has {largest.memory_gb:g}"
            notes.append(f"The editor '{name}' needs about {need:g} GB of GPU memory; {has}: {fits}.")
        elif config.audit.engine.kind != "ray":  # on a cluster the cards are elsewhere
            seen = "nobody tells which there are" if cards is None else "none is to be seen"
            what = f"The editor '{name}' needs a graphics card with about {need:g} GB, and {seen}"
            how = "Set `device: cpu`, which is slow, or use `stillme editors serve` on a machine that has one."
            lacks.append(MissingRequirement(what, how))
    return lacks, notes


def _check_weights(config: Config) -> tuple[list[MissingRequirement], list[str]]:
    """Editors whose weights are a repository of the hub, and whether these lie in its cache."""
    lacks, notes = [], []
    for name, editor in config.editors.items():
        weights = editor.effective.get("weights")
        if not isinstance(weights, Mapping) or "repository" not in weights:
            continue
        repository = weights["repository"]
        folder = _cached(repository, weights.get("revision", ""))
        state = f"are here, in {folder}" if folder else "are not here yet; the first run fetches them from the hub"
        notes.append(f"The weights of the editor '{name}' ({repository}) {state}.")
        if editor.inputs.get("local_files_only") and not folder:
            what = f"The editor '{name}' needs the weights of {repository} in the hub's cache"
            how = "Fetch them where there is a network, or leave `local_files_only` out."
            lacks.append(MissingRequirement(what, how))
    return lacks, notes


def _cached(repository: str, revision: str) -> Path | None:
    """As the hub's own library lays its cache out; any commit will do where none is pinned."""
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    cache_folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = cache_folder / f"models--{repository.replace('/', '--')}" / "snapshots"
    wanted = snapshots / revision if len(revision) == 40 else snapshots
    return wanted if wanted.is_dir() and any(wanted.iterdir()) else None
