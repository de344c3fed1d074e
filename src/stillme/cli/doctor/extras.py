"""The extras of stillme, as its own metadata lists them: what is there, what is missing, how to get it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

NAME = "stillme"
FOR_DEVELOPERS = ("bench", "dev")


@dataclass(frozen=True)
class Package:
    """A package that an extra asks for. `found`: its version here, empty where there is none."""

    name: str
    wanted: str
    found: str
    fits: bool


@dataclass(frozen=True)
class Extra:
    name: str
    packages: tuple[Package, ...]

    @property
    def is_there(self) -> bool:
        return not self.missing

    @property
    def missing(self) -> tuple[Package, ...]:
        """Not here, or in a version that does not fit."""
        return tuple(package for package in self.packages if not package.fits)


def extras() -> dict[str, Extra]:
    """Every extra by its name, developers' last; none where stillme runs without having been installed."""
    try:
        about = metadata.metadata(NAME)
    except metadata.PackageNotFoundError:
        return {}
    names = sorted(about.get_all("Provides-Extra") or (), key=lambda name: (name in FOR_DEVELOPERS, name))
    return {name: Extra(name, _packages(name)) for name in names}


def _packages(extra: str) -> tuple[Package, ...]:
    """Each once, in the order in which they are asked for; everything that is asked of it has to hold."""
    wanted: dict[str, SpecifierSet] = {}
    for wish in _wishes(extra):
        wanted[wish.name] = wanted.get(wish.name, SpecifierSet()) & wish.specifier
    return tuple(_package(name, versions) for name, versions in wanted.items())


def _wishes(extra: str) -> Iterator[Requirement]:
    """What an extra asks for on this system, with what the extras that it names ask for."""
    for wish in _requirements():
        if (
            wish.marker is None
            or wish.marker.evaluate({"extra": ""})
            or not wish.marker.evaluate({"extra": extra})
        ):
            continue
        if wish.name == NAME:
            for other in sorted(wish.extras):
                yield from _wishes(other)
        else:
            yield wish


@cache
def _requirements() -> Sequence[Requirement]:
    return [Requirement(text) for text in metadata.requires(NAME) or ()]


def _package(name: str, versions: SpecifierSet) -> Package:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name, str(versions), "", False)
    return Package(name, str(versions), found, versions.contains(found, prereleases=True))


def install(*names: str) -> str:
    """The command that installs extras into this very Python, from where stillme came."""
    folder = _clone()
    what = f"-e '{_near(folder)}[{','.join(names)}]'" if folder else f"'{NAME}[{','.join(names)}]'"
    return f"{pip()} install {what}"


def pip() -> str:
    """How pip is called for this Python: by its name where that is the one on the path."""
    seen = shutil.which("pip")
    is_ours = seen is not None and Path(seen).parent == Path(sys.executable).parent
    return "pip" if is_ours else f"{_near(Path(sys.executable))} -m pip"


def _clone() -> Path | None:
    """The folder that an editable stillme lives in."""
    try:
        told = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    said: Mapping[str, object] = json.loads(told) if told else {}
    about = said.get("dir_info")
    if not isinstance(about, dict) or not about.get("editable"):
        return None
    return Path(unquote(urlsplit(str(said.get("url", ""))).path))


def _near(path: Path) -> str:
    """As one would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
