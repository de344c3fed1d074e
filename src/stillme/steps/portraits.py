"""The first step: the portraits of all sources, stored in the run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stillme.core.errors import InputError
from stillme.core.images import BadImageError
from stillme.core.records import Portrait, canonical
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import source_settings


def gather(run: Run, config: Config, progress: Progress) -> Sequence[Portrait]:
    """The portraits of all sources, stored in the run; those of an unchanged source are already there."""
    last = run.last_audit() if run.query("SELECT 1 FROM audit LIMIT 1") else None
    if last is not None and last["sources"] == json.loads(canonical(source_settings(config))):
        stored = run.portraits(last["portraits"])
        if run.has_images(portrait.image for portrait in stored):
            return stored
        progress.say("Portraits: some files are gone or cut short; they are read from their source again")
    if len(config.sources) > 1:
        list_portraits(config)
    portraits: list[Portrait] = []
    for prepared in config.sources.values():
        for portrait, image in prepared.make().portraits():
            try:
                run.add_portrait(portrait, image).result()
            except BadImageError as error:
                raise InputError(
                    f"The portrait {portrait.source_id} of the source {portrait.source} {error}.",
                    "Mend it or take it out of the source, then run the same command again.",
                ) from None
            portraits.append(portrait)
    progress.say(f"Portraits: {len(portraits):,}")
    return portraits


def list_portraits(config: Config) -> list[Portrait]:
    """The portraits of all sources without their images. One that two sources give is refused."""
    first: dict[str, str] = {}
    portraits: list[Portrait] = []
    for name, prepared in config.sources.items():
        for portrait, _ in prepared.make().portraits():
            if (other := first.setdefault(portrait.key, name)) != name:
                raise InputError(
                    f"The portrait {portrait.source_id} of {portrait.source} comes from two sources, '{other}' and"
                    f" '{name}'.",
                    "Let them keep different `groups`, or take one of them out of the audit.",
                )
            portraits.append(portrait)
    return portraits
