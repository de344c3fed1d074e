"""The design of a run: which portraits, which trials, and the hash of each backend's settings.

Made anew from a configuration (`make`), or read back from the run itself (`recall`), so a report needs nothing
but the run directory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stillme.core.records import Portrait, Trial, digest
from stillme.core.yaml import Document
from stillme.engine.backends import Prepared
from stillme.judges.feature_form import FeatureForm
from stillme.ledger import Run
from stillme.ledger.database import as_written
from stillme.ledger.run import settings_hash
from stillme.plan import trials as plan
from stillme.plan.config import Audit, Config, settle
from stillme.plan.mitigation.sampling import Cell
from stillme.plan.trials import Known


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
    known: Known = field(default_factory=Known)

    def only(self, experiments: Collection[str]) -> Design:
        """The part of it that belongs to these experiments; all of it where none is named."""
        if not experiments:
            return self
        return replace(self, trials=[trial for trial in self.trials if trial.experiment in experiments])

    def distinct_edits(self) -> list[Trial]:
        """One trial for each edit, the first that needs it, in order: trials that need the same edit share it."""
        first: dict[str, Trial] = {}
        for trial in self.trials:
            first.setdefault(trial.edit, trial)
        return list(first.values())


def hashes(kind: str, prepared: Mapping[str, Prepared[Any]]) -> dict[str, str]:
    return {name: settings_hash(kind, one.effective) for name, one in prepared.items()}


def make(config: Config, portraits: Sequence[Portrait], known: Known | None = None) -> Design:
    editors, controls = hashes("editor", config.editors), hashes("editor", config.controls)
    asked = {row.id: config.judges[row.id] for row in config.ranked_judges() if not config.judges[row.id].derived}
    trials = plan.trials(config, portraits, {**controls, **editors}, known)
    plan.check_pairs(trials)
    measures = hashes("measure", config.measures)
    known = known or Known()
    return Design(config, portraits, trials, editors, hashes("judge", asked), measures, controls, known)


def known(run: Run, config: Config, portraits: Sequence[Portrait]) -> Known:
    """What the run has found out that a plan hangs on."""
    keys = feature_keys(config, portraits)
    features = {one.image: one for one in run.features(keys.values()).values()}
    drawn = run.drawn(draw_key(config, portraits)) if config.select == "drifted" else None
    return Known(features, None if drawn is None else [Cell(*cell) for cell in drawn])


def feature_keys(config: Config, portraits: Iterable[Portrait]) -> dict[str, str]:
    """A portrait's image -> the key of what is read off it; empty where no arm needs it."""
    if config.extractor is None:
        return {}
    settings = settings_hash("judge", config.extractor.effective)
    form = FeatureForm(config.protocol).hash
    images = {portrait.image for portrait in portraits}
    return {image: digest("feature", image=image, settings=settings, form=form) for image in images}


def draw_key(config: Config, portraits: Sequence[Portrait]) -> str:
    """What a draw of drifted cases depends on, besides what was observed when it was drawn."""
    wanted = config.audit.experiments.mitigate
    asked = wanted.model_dump(mode="json", include={"sample", "prompts", "seed"}) if wanted else {}
    editors = hashes("editor", config.editors)
    return digest("draw", asked=asked, editors=editors, portraits=[portrait.key for portrait in portraits])


def note(run: Run, design: Design) -> None:
    """Writes the design into the run: settings, trials, and the configuration that asked for them."""
    config = design.config
    extractor = {} if config.extractor is None else {"extractor": config.extractor}
    asked = {**config.judges, **extractor}
    noted = {"editor": {**config.controls, **config.editors}, "judge": asked, "measure": config.measures}
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
    mitigate = audit["experiments"]["mitigate"]
    if config.extractor is not None and mitigate and mitigate["extractor"]:
        mitigate["extractor"]["settings"] = dict(config.extractor.inputs)
    return {"audit": audit, "sources": sources(config), "portraits": [p.key for p in design.portraits]}


def sources(config: Config) -> dict[str, Any]:
    return {name: dict(prepared.effective) for name, prepared in config.sources.items()}


def recall(run: Run) -> Design:
    """The design of the newest configuration that the run has seen."""
    kept = run.last_audit()
    document = Document(f"{run.path}: audit", "")
    with as_written(run.path, "a configuration"):
        audit, named = Audit.model_validate(kept["audit"]), list(kept["portraits"])
        if len(set(named)) < len(named):
            raise ValueError("a portrait is listed twice")
    config = settle(audit, run.path, document, run.protocol())
    portraits = run.portraits(named)
    return make(config, portraits, known(run, config, portraits))
