"""The design of a run: which portraits, which trials, and the hash of each backend's settings.

Made anew from a configuration (`make`), or read back from the run itself (`recall`), so a report needs nothing
but the run directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stillme import plan
from stillme.backends import Prepared
from stillme.config import Audit, Config, settle
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.records import Portrait, Trial
from stillme.strict import Document


@dataclass(frozen=True)
class Design:
    """What the audit asks for. The mappings: id -> hash of the effective settings.

    `judges` are those that are asked, the primary first; `controls` are the editors that stillme itself brings.
    """

    config: Config
    portraits: Sequence[Portrait]
    trials: Sequence[Trial]
    editors: Mapping[str, str]
    judges: Mapping[str, str]
    measures: Mapping[str, str]
    controls: Mapping[str, str]

    def distinct_edits(self) -> list[Trial]:
        """One trial for each edit, in order: trials that need the same edit share it."""
        return list({trial.edit: trial for trial in reversed(self.trials)}.values())[::-1]


def hashes(kind: str, prepared: Mapping[str, Prepared[Any]]) -> dict[str, str]:
    return {name: settings_hash(kind, one.effective) for name, one in prepared.items()}


def make(config: Config, portraits: Sequence[Portrait]) -> Design:
    editors, controls = hashes("editor", config.editors), hashes("editor", config.controls)
    asked = {row.id: config.judges[row.id] for row in config.ranked_judges() if not config.judges[row.id].derived}
    makes = {name: one.controls for name, one in config.editors.items()}
    trials = plan.trials(config.audit, config.protocol, portraits, {**controls, **editors}, makes)
    measures = hashes("measure", config.measures)
    return Design(config, portraits, trials, editors, hashes("judge", asked), measures, controls)


def note(run: Run, design: Design) -> None:
    """Writes the design into the run: settings, trials, and the configuration that asked for them."""
    config = design.config
    noted = {"editor": {**config.controls, **config.editors}, "judge": config.judges, "measure": config.measures}
    for kind, prepared in noted.items():
        for one in prepared.values():
            run.add_settings(kind, one.effective)
    run.add_trials(design.trials)
    run.add_audit(content(design))


def content(design: Design) -> dict[str, Any]:
    """The configuration with every setting spelled out, as the run keeps it."""
    config = design.config
    audit = config.audit.model_dump(mode="json")
    for part in ("sources", "editors", "judges", "measures"):
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
