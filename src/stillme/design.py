"""The design of a run: which portraits, which trials, and the hash of each backend's settings.

Made anew from a configuration (`make`), or read back from the run itself (`recall`), so a report needs nothing
but the run directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stillme import plan
from stillme.config import Audit, Config, settle
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.records import Portrait, Trial
from stillme.strict import Document


@dataclass(frozen=True)
class Design:
    """What the audit asks for. `editors` and `judges`: id -> hash of the effective settings."""

    config: Config
    portraits: Sequence[Portrait]
    trials: Sequence[Trial]
    editors: Mapping[str, str]
    judges: Mapping[str, str]

    def distinct_edits(self) -> list[Trial]:
        """One trial for each edit, in order: trials that need the same edit share it."""
        return list({trial.edit: trial for trial in reversed(self.trials)}.values())[::-1]


def hashes(config: Config) -> tuple[dict[str, str], dict[str, str]]:
    editors = {row.id: settings_hash("editor", config.editors[row.id].effective) for row in config.audit.editors}
    judges = {row.id: settings_hash("judge", config.judges[row.id].effective) for row in config.ranked_judges()}
    return editors, judges


def make(config: Config, portraits: Sequence[Portrait]) -> Design:
    editors, judges = hashes(config)
    trials = plan.trials(config.audit, config.protocol, portraits, editors)
    return Design(config, portraits, trials, editors, judges)


def note(run: Run, design: Design) -> None:
    """Writes the design into the run: settings, trials, and the configuration that asked for them."""
    config = design.config
    for kind, prepared in (("editor", config.editors), ("judge", config.judges)):
        for one in prepared.values():
            run.add_settings(kind, one.effective)
    run.add_trials(design.trials)
    run.add_audit(content(design))


def content(design: Design) -> dict[str, Any]:
    """The configuration with every setting spelled out, as the run keeps it."""
    config = design.config
    audit = config.audit.model_dump(mode="json")
    for part in ("sources", "editors", "judges"):
        for row in audit[part]:
            row["settings"] = dict(getattr(config, part)[row["id"]].inputs)
    return {"audit": audit, "sources": sources(config), "portraits": [p.key for p in design.portraits]}


def sources(config: Config) -> dict[str, Any]:
    return {name: dict(prepared.effective) for name, prepared in config.sources.items()}


def recall(run: Run) -> Design:
    """The design of the newest configuration that the run has seen."""
    kept = run.last_audit()
    document = Document(f"{run.path}: audit", "")
    audit = Audit.model_validate(kept["audit"])
    config = settle(audit, run.path, document, run.protocol())
    return make(config, run.portraits(kept["portraits"]))
