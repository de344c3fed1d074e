"""Everything that was found, in one look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stillme import __version__
from stillme.cli.doctor import audits, extras, journeys, keys, machine
from stillme.cli.doctor.audits import Needed
from stillme.cli.doctor.extras import Extra
from stillme.cli.doctor.journeys import Journey, Readiness
from stillme.cli.doctor.machine import Machine

UNMET = 3  # the exit code where an audit lacks something on this machine


@dataclass(frozen=True)
class Found:
    version: str
    machine: Machine
    extras: Mapping[str, Extra]
    keys: Mapping[str, bool]
    journeys: tuple[Readiness, ...]
    parts: tuple[Readiness, ...]
    file: Path | None = None
    audit: Needed | None = None

    @property
    def is_met(self) -> bool:
        return self.audit is None or self.audit.is_ready


def look(file: Path | None = None) -> Found:
    """`file`: an audit, whose own needs are then looked at too."""
    here, packages, is_set = machine.look(), extras.extras(), keys.look()

    def ready(some: tuple[Journey, ...]) -> tuple[Readiness, ...]:
        return tuple(journeys.ready(one, packages, is_set, here.gpus) for one in some)

    needed = audits.look(file, here.gpus) if file else None
    every = ready(journeys.JOURNEYS), ready(journeys.PARTS)
    return Found(__version__, here, packages, is_set, *every, file, needed)
