"""audit.yaml as it is written: a strict model of every key, before anything that it names is looked for.

Secrets are never in the file: `key_env` names an environment variable.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import Field, model_validator

from stillme import judges
from stillme.core.records import Role
from stillme.core.yaml import StrictModel
from stillme.engine.ray import ActorResources
from stillme.ledger.objects import Store
from stillme.protocol.schema import Name, Selection, Word

BASELINE = "baseline"  # the arm in which a prompt stands alone
MAX_SEED = 2**53  # with all that arms add to it, the ledger can hold it


class Row(StrictModel):
    """One backend in use: which kind, under which name, with which settings."""

    id: Name
    kind: str
    label: str = ""
    key_env: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.label or self.id


class SourceRow(Row):
    pass


class EditorRow(Row):
    """seed: of the first edit of a portrait and prompt; without one, the editor's published seed, else 0."""

    seed: int | None = Field(default=None, ge=-MAX_SEED, le=MAX_SEED)


class JudgeRow(Row):
    """Without a role a judge is primary, and an instrument stands beside the judges."""

    role: Role = Role.PRIMARY

    @model_validator(mode="before")
    @classmethod
    def _an_instrument_stands_apart(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("kind") == judges.INSTRUMENT and data.get("role") is None:
            return {**data, "role": Role.INSTRUMENT}
        return data


class Diagnose(StrictModel):
    """Experiment 1: every portrait × prompt × editor."""

    prompts: Literal["all"] | tuple[Name, ...] = "all"
    arms: tuple[Word, ...] = (BASELINE,)
    seeds: int = Field(default=1, ge=1, le=100)


class Controls(StrictModel):
    """Negative controls: edits that ask for nothing, one of each kind a portrait and maker."""

    kinds: Literal["all"] | tuple[Word, ...] = "all"


class Extractor(Row):
    """Who reads features off the portraits: any kind of judge that is asked."""

    id: Name = "extractor"


class Mitigate(StrictModel):
    """Experiment 2: does a feature prompt keep the person?

    sample: how many portraits × prompts × editors. select: how they are chosen; without it, as the preset says.
    seed: of the draw. extractor: who reads the features off the portraits; without it, the primary judge.
    """

    sample: int = Field(default=500, ge=1)
    select: Selection | None = None
    arms: tuple[Word, ...] = ("baseline", "feature", "placebo", "reseed")
    prompts: Literal["all"] | tuple[Name, ...] = "all"
    seed: int = Field(default=0, ge=0)
    extractor: Extractor | None = None


class Stereotype(StrictModel):
    """Experiment 3: which gender does an editor give to an occupation?

    mode: `separate` gives an editor one portrait, `joint` one of each gender. counterbalanced: asks every prompt
    in every order and with every pronoun as well; without it, as the preset says. seed: of the draw of portraits.
    """

    mode: Literal["separate", "joint"] = "separate"
    prompts: Literal["all"] | tuple[Name, ...] = "all"
    counterbalanced: bool | None = None
    seed: int = Field(default=0, ge=0)


class Experiments(StrictModel):
    """A mapping, or the names alone: [diagnose, mitigate, stereotype]."""

    diagnose: Diagnose | None = None
    controls: Controls | None = None
    mitigate: Mitigate | None = None
    stereotype: Stereotype | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_alone(cls, data: Any) -> Any:
        return {str(name): {} for name in data} if isinstance(data, list | tuple) else data

    @property
    def wanted(self) -> tuple[str, ...]:
        """The experiments that the audit asks for, by name, in their order."""
        return tuple(name for name, one in self if one is not None)


class Calibrating(StrictModel):
    """How judges are calibrated (`stillme calibrate`). portraits: of each group of the reference dimension.

    seed: of the draw. repeats: whether every pair is judged twice. disclosure: whether it is also judged with
    the source person's groups disclosed, or not disclosed, whichever the audit does not do.
    """

    portraits: int = Field(default=6, ge=1, le=1000)
    seed: int = Field(default=0, ge=0)
    repeats: bool = True
    disclosure: bool = True


class Measuring(StrictModel):
    """Which share of the edits is measured, of every group and prompt alike. Controls always are."""

    share: float = Field(default=1.0, gt=0, le=1)


class Judging(StrictModel):
    """repeats: which share of the edits judges behind a network judge a second time, to be compared with the
    first verdict; the second one is excluded from all scores. disclose: what judges are given of the source
    person; without it, what the preset says."""

    repeats: float = Field(default=0.05, ge=0, le=1)
    disclose: tuple[Word, ...] | None = None


class Engine(StrictModel):
    """Where the work runs. workers: 0 means one a core. Everything else is for Ray alone."""

    kind: Literal["local", "ray"] = "local"
    workers: int = Field(default=0, ge=0, le=256)
    address: str | None = None  # of a cluster: auto, host:port, ray://host:port; None: this machine's own
    actors: ActorResources = ActorResources()
    editors: dict[Name, ActorResources] = Field(default_factory=dict)  # models whose actors take another share
    patience_s: float = Field(default=600, gt=0)  # how long an actor may look for a place while none has one

    @property
    def threads(self) -> int:
        return self.workers or os.cpu_count() or 1

    def share(self, editor: str) -> ActorResources:
        return self.editors.get(editor, self.actors)


class Budgets(StrictModel):
    """Where to stop taking new work; what is done is kept, and running again with more goes on."""

    cost_usd: float | None = Field(default=None, ge=0)
    edits: int | None = Field(default=None, ge=0)


class Audit(StrictModel):
    """The whole of audit.yaml."""

    stillme: Literal[1]
    name: Name
    run: str
    objects: Store | None = None  # where the images are kept, if not in the run's own folder
    protocol: str = "builtin"
    preset: Word = "default"
    sources: tuple[SourceRow, ...] = Field(min_length=1)
    experiments: Experiments
    editors: tuple[EditorRow, ...] = Field(min_length=1)
    judges: tuple[JudgeRow, ...] = ()
    measures: tuple[Row, ...] = ()
    measuring: Measuring = Measuring()
    judging: Judging = Judging()
    calibrating: Calibrating = Calibrating()
    engine: Engine = Engine()
    budgets: Budgets = Budgets()
