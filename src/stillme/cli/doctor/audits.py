"""What one audit needs of this machine: keys, packages, graphics cards, weights. Nothing is loaded."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stillme.cli.doctor import extras, keys
from stillme.cli.doctor.journeys import Lack, export
from stillme.core.errors import SurroundingsError
from stillme.core.gpus import Gpu
from stillme.engine import backends
from stillme.engine.backends import PreparedEditor
from stillme.plan import config
from stillme.plan.config import Config, Need


@dataclass(frozen=True)
class Needed:
    """What an audit lacks here, what is there, and what is worth knowing before it is run."""

    name: str
    lacks: tuple[Lack, ...]
    met: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_ready(self) -> bool:
        return not self.lacks


def look(file: Path, cards: tuple[Gpu, ...] | None) -> Needed:
    """Faults of the file itself are raised as `stillme check` does; a missing extra is what is looked for."""
    audit, _ = config.read(file)
    try:
        loaded = config.load(file)
    except SurroundingsError as error:
        named = [need for need in config.keys_of(audit) if need.key_env]
        unset = _lacks(named)
        return Needed(audit.name, (Lack(error.sentence, error.next_step), *unset), (), (_STOPPED,))
    every = (*config.needs(loaded), *config.inner_keys(loaded))
    needed = [need for need in every if need.key_env or need.packages]
    lacks = (*_lacks(needed), *_cards(loaded, cards), *_offline(loaded))
    return Needed(loaded.audit.name, lacks, tuple(_met(needed)), (*_memory(loaded, cards), *_weights(loaded)))


_STOPPED = "The audit could be read no further than this; ask again once it is mended."


def _lacks(needed: Iterable[Need]) -> tuple[Lack, ...]:
    """Each package's extra and each variable once, with everybody who needs it."""
    wanting: dict[tuple[str, str], list[str]] = {}
    for need in needed:
        for what in _missing(need):
            wanting.setdefault(what, []).append(need.who)
    return tuple(Lack(f"{_together(who)} {what}", how) for (what, how), who in wanting.items())


def _missing(need: Need) -> Iterator[tuple[str, str]]:
    if need.key_env and not keys.is_set(need.key_env):
        yield f"a key in {need.key_env}, which is not set", export(need.key_env)
    absent = [package for package in need.packages if importlib.util.find_spec(package) is None]
    for extra in dict.fromkeys(map(backends.extra_of, absent)):
        packages = ", ".join(package for package in absent if backends.extra_of(package) == extra)
        yield f"the extra {extra} ({packages})", extras.install(extra)


def _together(who: list[str]) -> str:
    """
    >>> _together(["The editor 'a'"]), _together(["The editor 'a'", "The judge 'b'", "The judge 'b'"])
    ("The editor 'a' needs", "The editor 'a' and the judge 'b' need")
    """
    every = list(dict.fromkeys(who))
    every[1:] = [f"{name[0].lower()}{name[1:]}" for name in every[1:]]
    if len(every) == 1:
        return f"{every[0]} needs"
    return f"{', '.join(every[:-1])} and {every[-1]} need"


def _met(needed: Iterable[Need]) -> Iterator[str]:
    for need in needed:
        if need.key_env and keys.is_set(need.key_env):
            yield f"{need.key_env} is set ({need.who[0].lower()}{need.who[1:]})."


def _cards(loaded: Config, cards: tuple[Gpu, ...] | None) -> tuple[Lack, ...]:
    """Editors that need a card, where none is to be seen; on a cluster the cards are elsewhere."""
    if loaded.audit.engine.kind == "ray" or cards:
        return ()
    told = "none is to be seen" if cards is not None else "nobody tells which there are"
    how = "Set `device: cpu`, which is slow, or use `stillme editors serve` on a machine that has one."
    return tuple(
        Lack(f"The editor '{name}' needs a graphics card with about {gb:g} GB, and {told}", how)
        for name, gb in _vram(loaded)
    )


def _vram(loaded: Config) -> Iterator[tuple[str, float]]:
    for name, made in loaded.editors.items():
        if "vram_gb" in made.needs:
            yield name, made.needs["vram_gb"]


def _memory(loaded: Config, cards: tuple[Gpu, ...] | None) -> Iterator[str]:
    """Whether the largest card is large enough; a smaller one may do with offloading, slowly."""
    for name, gb in _vram(loaded) if cards else ():
        most = max(cards or (), key=lambda card: card.memory_gb)
        fits = "enough" if most.memory_gb >= gb else "too little unless weights are offloaded"
        has = f"{most.name} has {most.memory_gb:g}"
        yield f"The editor '{name}' needs about {gb:g} GB of GPU memory; {has}: {fits}."


def _weights(loaded: Config) -> Iterator[str]:
    for name, repository, folder in _hub(loaded):
        told = f"are here, in {folder}" if folder else "are not here yet; the first run fetches them from the hub"
        yield f"The weights of the editor '{name}' ({repository}) {told}."


def _offline(loaded: Config) -> Iterator[Lack]:
    for name, repository, folder in _hub(loaded):
        if loaded.editors[name].inputs.get("local_files_only") and not folder:
            said = f"The editor '{name}' needs the weights of {repository} in the hub's cache"
            yield Lack(said, "Fetch them where there is a network, or leave `local_files_only` out.")


def _hub(loaded: Config) -> Iterator[tuple[str, str, Path | None]]:
    """Editors whose weights are a repository of the hub, and where these lie in its cache."""
    for name, made in loaded.editors.items():
        weights = _identity(made)
        if "repository" in weights:
            yield name, weights["repository"], _cached(weights["repository"], weights.get("revision", ""))


def _identity(made: PreparedEditor[Any]) -> Mapping[str, str]:
    weights = made.effective.get("weights")
    return weights if isinstance(weights, Mapping) else {}


def _cached(repository: str, revision: str) -> Path | None:
    """As the hub's own library lays its cache out; any commit will do where none is pinned."""
    folder = _cache() / f"models--{repository.replace('/', '--')}" / "snapshots"
    wanted = folder / revision if len(revision) == 40 else folder
    return wanted if wanted.is_dir() and any(wanted.iterdir()) else None


def _cache() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
