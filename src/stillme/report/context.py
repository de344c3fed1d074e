"""What a report says besides its numbers: who was audited, by whom, with what, and examples to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stillme.analysis.numbers import SPACE
from stillme.protocol import Protocol
from stillme.protocol.schema import ChangeByGroup, Outcome, Preset, Tables


@dataclass(frozen=True)
class Party:
    """An editor or a judge. Simulated ones and instruments are marked wherever their name stands.

    `mixed`: an instrument whose scores enter the ensemble; any other instrument stands beside it. `dropped`:
    parameter -> why it had no effect. `attempts`, `cost_usd`: what a judge's calls took; None where nobody counts.
    """

    id: str
    label: str
    description: str
    simulated: bool
    settings: Mapping[str, object]
    instrument: bool = False
    mixed: bool = False
    dropped: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    attempts: int | None = None
    cost_usd: float | None = None

    @property
    def name(self) -> str:
        """The name in running text, with its mark."""
        marks = [word for word, holds in (("simulated", self.simulated), ("instrument", self.instrument)) if holds]
        return f"{self.label} ({', '.join(marks)})" if marks else self.label


@dataclass(frozen=True)
class Example:
    """One edit for the gallery: both pictures as encoded files, and what was said of them."""

    outcome: str
    editor: str
    prompt_label: str
    instruction: str
    labels: Mapping[str, str]
    source: bytes
    edited: bytes
    scores: Mapping[str, int | None]
    note: str = ""
    trial: str = ""  # the key of what it shows


@dataclass(frozen=True)
class Asked:
    """What one experiment asks of the editors in one of its arms."""

    experiment: str
    arm: str
    portraits: int
    prompts: int
    editors: int
    seeds: int
    edits: int


@dataclass(frozen=True)
class Context:
    """Everything that the findings don't hold. The order of `editors` is their order and colour everywhere.

    `caveats`: what the sources say of their portraits; `measured_share`: which share of the edits was chosen to be
    measured; `disclose`: what judges were told of the person, where the audit and not the preset says so;
    `people`: each portrait's groups, dimension -> group; `asked`: what the design asks for, by experiment and arm;
    `made_with`: versions of what computed the report, which need not be what computed the run.
    """

    name: str
    preset: str
    protocol: Protocol
    editors: tuple[Party, ...]
    judges: tuple[Party, ...]
    sources: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    provenance: tuple[tuple[str, str], ...] = ()
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    measured_share: float = 1.0
    disclose: tuple[str, ...] | None = None
    people: tuple[Mapping[str, str], ...] = ()
    asked: tuple[Asked, ...] = ()
    made_with: tuple[tuple[str, str], ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """What judges were told of the source person."""
        return self.choices.disclose if self.disclose is None else self.disclose

    @property
    def choices(self) -> Preset:
        """The choices that change numbers, as this report's preset makes them."""
        return self.protocol.presets[self.preset]

    @property
    def nominal(self) -> bool:
        """True where rates are divided by the edits asked for, not by those judged."""
        return self.choices.denominators == "nominal"

    @property
    def tables(self) -> Tables:
        return self.protocol.manifest.tables

    @property
    def main(self) -> ChangeByGroup:
        """The outcome and the dimension of the main table by group."""
        return self.tables.change_by_group

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        return self.protocol.rubrics.outcomes

    @property
    def simulated(self) -> tuple[Party, ...]:
        return tuple(party for party in (*self.editors, *self.judges) if party.simulated)

    @property
    def scoring(self) -> tuple[Party, ...]:
        """Whose scores make the ensemble: the judges, and an instrument only where it is mixed in."""
        return tuple(party for party in self.judges if party.mixed or not party.instrument)

    @property
    def instruments(self) -> tuple[Party, ...]:
        """Instruments that stand beside the ensemble."""
        return tuple(party for party in self.judges if party.instrument and not party.mixed)

    @property
    def contrasted(self) -> tuple[str, str]:
        """The dimension that contrasts are about, and the label of its reference group."""
        dimension, group = next(iter(self.protocol.groups.reference_group.items()))
        return dimension, self.protocol.groups.labels(dimension)[group]

    def editor(self, id: str) -> Party:
        return next(party for party in self.editors if party.id == id)

    def rule(self, outcome: str) -> str:
        """An outcome's threshold in words, e.g. 'Edit success ≥ 4'."""
        chosen = self.outcomes[outcome]
        axis = self.protocol.axes[chosen.axis].label
        bound = f"≥{SPACE}{chosen.at_least}" if chosen.at_least is not None else f"≤{SPACE}{chosen.at_most}"
        return f"{axis}{SPACE}{bound}"
