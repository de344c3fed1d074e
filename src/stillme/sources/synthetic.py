"""The 84 synthetic portraits that ship with stillme: rendered heads with known truth, one per cell of the design.

Their looks are placeholders, not representations of groups. Differences between groups in an audit of them are
planted inputs, never findings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from stillme.core import images
from stillme.core.records import Portrait
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedSource
from stillme.protocol import Protocol
from stillme.sources import heads

LICENCE = "CC0-1.0, rendered by stillme from CC0 MakeHuman assets"


class Settings(StrictModel):
    """Which groups: by default all; `groups: {race: [white, black]}` keeps these only."""

    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def prepare(settings: Settings, context: BackendContext) -> PreparedSource[Synthetic]:
    known = context.protocol.groups
    for dimension, groups in settings.groups.items():
        if dimension not in known.dimensions:
            raise ValueError(f"groups.{dimension} is not a dimension; known: {', '.join(known.dimensions)}")
        for word in groups:
            if word not in known.ids(dimension):
                raise ValueError(
                    f"groups.{dimension}: '{word}' is not known; known: {', '.join(known.ids(dimension))}"
                )
    return PreparedSource(
        effective={"backend": "synthetic", "groups": settings.groups},
        inputs=settings.model_dump(mode="json"),
        make=lambda: Synthetic(settings, context.protocol),
        description="Synthetic portraits, rendered; their looks are placeholders, not representations of groups.",
        simulated=True,
    )


@dataclass(frozen=True)
class Synthetic:
    settings: Settings
    protocol: Protocol

    def portraits(self) -> Iterator[tuple[Portrait, bytes]]:
        """The heads in the groups asked for, and in a cell of the protocol's design."""
        known = self.protocol.groups
        groups = {
            dimension: set(known.ids(dimension)) & set(self.settings.groups.get(dimension, known.ids(dimension)))
            for dimension in known.dimensions
        }
        for key in heads.keys():  # noqa: SIM118
            labels = heads.labels(key)
            if all(labels[dimension] in groups[dimension] for dimension in groups):
                head = heads.load(key)
                content = images.encode(heads.photograph(head), quality=95, comment=heads.signature(key))
                image = hashlib.sha256(content).hexdigest()
                yield Portrait.of("synthetic", key, image, head.labels, LICENCE), content
