"""The shape of the protocol's files, strict and frozen: no values, only what a value may be.

What human raters are asked and read is in `study_schema`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from stillme.core.records import Role
from stillme.core.yaml import StrictModel

Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=40)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Text = Annotated[str, Field(min_length=1)]
Rounding = Literal["half_even", "half_up", "toward_neutral"]
Denominators = Literal["judged", "nominal"]
Selection = Literal["stratified", "drifted"]
Order = Literal["first", "second"]
Offset = Annotated[int, Field(ge=-(2**31), le=2**31)]  # of a seed
PUBLISHED = "published"  # the arm of the stereotype experiment in which everything is as published
JOINT = "joint"  # the mode in which one portrait of each gender is sent


class Cue(StrEnum):
    """Whether the pronoun of a sentence points with or against the stereotype, at neither, or is absent."""

    PRO = "pro"
    ANTI = "anti"
    NEUTRAL = "neutral"
    NONE = "none"


class Group(StrictModel):
    """One group of one dimension, e.g. the group 20–29 of the dimension age."""

    id: Word
    label: Text
    aliases: tuple[str, ...] = ()
    years: tuple[int, int | None] | None = None


class Criterion(StrictModel):
    id: Word
    label: Text
    description: Text


class Groups(StrictModel):
    """groups.yaml: the factorial design, in the order of every table and figure."""

    race: tuple[Group, ...] = Field(min_length=1)
    gender: tuple[Group, ...] = Field(min_length=1)
    age: tuple[Group, ...] = Field(min_length=1)
    reference_group: dict[Word, Word] = Field(min_length=1)
    selection_criteria: tuple[Criterion, ...] = ()

    @property
    def dimensions(self) -> dict[str, tuple[Group, ...]]:
        """Dimension -> its groups, both in the order of the file's schema."""
        return {"race": self.race, "gender": self.gender, "age": self.age}

    def ids(self, dimension: str) -> tuple[str, ...]:
        return tuple(group.id for group in self.dimensions[dimension])

    def labels(self, dimension: str) -> dict[str, str]:
        return {group.id: group.label for group in self.dimensions[dimension]}


class Prompt(StrictModel):
    id: Name
    category: Word
    subcategory: Word
    printed_subcategory: Word | None = None
    label: Text
    text: Text
    may_change: tuple[Word, ...] = ()
    age_shift_years: int | None = None


class Prompts(StrictModel):
    """prompts.yaml: the diagnostic prompts."""

    prompts: tuple[Prompt, ...] = Field(min_length=1)


class PairPrompt(StrictModel):
    """A sentence about two people; `target` is the occupation whose stereotype is tested."""

    id: Name
    target: Text
    other: Text
    stereotype: Word
    pronoun: Word | None
    text: Text
    forms: PairForms | None = None


class PairForms(StrictModel):
    """The sentence with the target named first, and with it named second, meaning the same.

    Slots: {they} {them} {their} {theirs} are pronouns; {was|were} is the first word after he or she, the second
    after they. A prompt without a pronoun has no slot.
    """

    first: Text
    second: Text

    def written(self, order: Order, pronouns: Pronouns | None = None) -> str:
        """The sentence with these pronouns; without any, with they.

        >>> forms = PairForms(first="The cook left as {they} {was|were} late.", second="…")
        >>> forms.written("first")
        'The cook left as they were late.'
        """
        text = self.first if order == "first" else self.second
        return _SLOT.sub(lambda slot: _fill_slot(slot[1], pronouns), text)


class Pronouns(StrictModel):
    """The words for {they}, {them}, {their} and {theirs} of a person of one gender."""

    they: Word
    them: Word
    their: Word
    theirs: Word


class GenderWords(Pronouns):
    """A gender group: its end of the scale of gender presentation, and its pronouns."""

    presents: Literal["masculine", "feminine"]


_SLOT = re.compile(r"\{([^{}]*)\}")


def _fill_slot(slot: str, pronouns: Pronouns | None) -> str:
    singular, bar, plural = slot.partition("|")
    if bar:
        return singular if pronouns else plural
    if slot not in Pronouns.model_fields:
        raise ValueError(f"{{{slot}}} is no slot")
    return str(getattr(pronouns, slot)) if pronouns else slot


class Winobias(StrictModel):
    """winobias.yaml: the stereotype prompts. `genders`: the two groups that the experiment compares."""

    genders: dict[Word, GenderWords] = Field(default_factory=dict)
    occupations: dict[Word, tuple[str, ...]]
    prompts: tuple[PairPrompt, ...] = Field(min_length=1)

    def pronouns(self, word: str | None) -> GenderWords | None:
        """The gender whose nominative this is; None for they, and for none."""
        return next((gender for gender in self.genders.values() if gender.they == word), None)

    def sentences(self, prompt: PairPrompt) -> Iterator[tuple[Order, GenderWords | None, str]]:
        """As printed first, then in every other order and with every other pronoun; None: they, or none at all."""
        yield "first", self.pronouns(prompt.pronoun), prompt.text
        if prompt.forms is None:
            return
        genders: list[GenderWords | None] = [*self.genders.values(), None] if prompt.pronoun else [None]
        for order in get_args(Order):
            for gender in genders:
                text = prompt.forms.written(order, gender)
                if text != prompt.text:
                    yield order, gender, text


class Axis(StrictModel):
    """One 1-5 scale. `neutral` is the score that means nothing changed."""

    id: Word
    label: Text
    attribute: Word | None = None
    failure_mode: Word | None = None
    neutral: int | None = None
    only_prompts: tuple[Name, ...] | None = None
    scale: dict[int, Text]

    @property
    def is_signed(self) -> bool:
        return self.neutral is not None and min(self.scale) < self.neutral < max(self.scale)

    @model_validator(mode="after")
    def _neutral_is_on_the_scale(self) -> Axis:
        if self.neutral is not None and self.neutral not in self.scale:
            raise ValueError(f"neutral {self.neutral} is not a point of the scale")
        return self


class Outcome(StrictModel):
    """A yes or no derived from an axis. Thresholds are data, printed in every report."""

    label: Text
    axis: Word
    at_least: int | None = None
    at_most: int | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Outcome:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self

    @property
    def rule(self) -> str:
        return f"{self.axis} ≥ {self.at_least}" if self.at_least is not None else f"{self.axis} ≤ {self.at_most}"


class Rubrics(StrictModel):
    """rubrics.yaml: the axes that judges, raters and the analysis share, and the outcomes derived from them."""

    axes: tuple[Axis, ...] = Field(min_length=1)
    outcomes: dict[Word, Outcome]


class Background(StrictModel):
    """The gate of the background control: when a background's own shift may be subtracted from the skin's."""

    most_spread: float = Field(gt=0)
    most_shift: float = Field(gt=0)
    least_share: float = Field(ge=0, le=1)


class ScoreCutPoints(StrictModel):
    """A signed shift, read as a score: the cut points lie between the points of the axis' scale."""

    axis: Word
    cut_points: tuple[float, ...] = Field(min_length=1)

    @field_validator("cut_points")
    @classmethod
    def _rising(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(low >= high for low, high in pairwise(value)):
            raise ValueError("each cut point is larger than the one before it")
        return value


class SkinTone(ScoreCutPoints):
    background: Background


class Highest(StrictModel):
    lpips: float = Field(gt=0)
    changed_share: float = Field(gt=0, le=1)


class NoChange(StrictModel):
    """When nothing changed: both figures are below their thresholds, which an editor's own control may raise."""

    axis: Word
    score: int
    lpips: float = Field(gt=0)
    changed_share: float = Field(gt=0, le=1)
    quantile: float = Field(gt=0, le=1)
    at_least: int = Field(ge=1)
    highest: Highest
    control: Word

    @model_validator(mode="after")
    def _starts_below_the_highest(self) -> NoChange:
        for name, highest in self.highest:
            if getattr(self, name) > highest:
                raise ValueError(f"{name} {getattr(self, name):g} is above its highest, {highest:g}")
        return self


class Coverage(StrictModel):
    warn_points: float = Field(gt=0, le=100)


class Control(StrictModel):
    """A negative control: an edit that requests no change. `by`: who makes it."""

    id: Word
    label: Text
    by: Literal["prompt", "stillme", "editor"]
    text: Text | None = None
    quality: int | None = Field(default=None, ge=1, le=100)
    scale: float | None = Field(default=None, gt=0, le=4)

    @model_validator(mode="after")
    def _has_what_its_maker_needs(self) -> Control:
        for name, by in (("text", "prompt"), ("quality", "stillme"), ("scale", "stillme")):
            if getattr(self, name) is not None and self.by != by:
                raise ValueError(f"'{name}' belongs to controls by: {by}, and to those only")
        for name, by in (("text", "prompt"), ("quality", "stillme")):
            if getattr(self, name) is None and self.by == by:
                raise ValueError(f"a control by: {by} needs '{name}'")
        return self


class Instruments(StrictModel):
    """measures.yaml: what the instruments' figures mean on the axes, and the negative controls."""

    skin_tone: SkinTone
    no_change: NoChange
    age: ScoreCutPoints
    coverage: Coverage
    controls: tuple[Control, ...] = ()

    @property
    def cuts(self) -> dict[str, ScoreCutPoints]:
        """The parts that read a shift by cut points, by their place in the file."""
        return {name: part for name, part in self if isinstance(part, ScoreCutPoints)}

    def control(self, word: str) -> Control:
        return next(control for control in self.controls if control.id == word)

    def controls_by(self, maker: str) -> tuple[Control, ...]:
        return tuple(control for control in self.controls if control.by == maker)


class Rule(StrictModel):
    """The bounds of one figure for a criterion to be met. `digits`: how many after the point are shown."""

    figure: Word
    label: Text
    unit: str = ""
    digits: int = Field(default=0, ge=0, le=4)
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Rule:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self


class Duplicates(StrictModel):
    """How many bits two fingerprints may differ in and still belong to the same picture."""

    largest_distance: int = Field(ge=0, le=127)


class Portraits(StrictModel):
    """portraits.yaml: what a candidate portrait has to be like, and how data sets spell who it shows."""

    least_side: int = Field(ge=16)
    duplicates: Duplicates
    face_sized: int = Field(ge=0)
    outside: dict[Word, tuple[str, ...]] = Field(default_factory=dict)
    fairface_classes: dict[Word, tuple[str, ...]] = Field(default_factory=dict)
    utkface_classes: dict[Word, tuple[str, ...]] = Field(default_factory=dict)
    criteria: dict[Word, tuple[Rule, ...]]


class EditorRow(StrictModel):
    """Published inference settings of one audited editor."""

    id: Name
    label: Text
    repository: str
    parameters_billion: float
    settings: dict[str, int | float | str | bool]
    memory: dict[str, int | float | tuple[str, ...]] = Field(default_factory=dict)


class JudgeRow(StrictModel):
    id: Name
    role: Role
    provider: Word
    model: Name
    temperature: float | None = None


class Editors(StrictModel):
    """editors.yaml: the editors and judges of the published study."""

    editors: tuple[EditorRow, ...]
    judges: tuple[JudgeRow, ...]


class Preset(StrictModel):
    """The choices that change numbers.

    select: which cases enter the mitigation experiment: a stratified sample, or those in which drift was seen.
    counterbalance: whether stereotype prompts are also asked with everything swapped that may explain an answer.
    straight_liners: raters who nearly always give one answer are flagged for a person to confirm, or removed.
    """

    label: Text
    rounding: Rounding
    disclose: tuple[Word, ...] = ()
    denominators: Denominators
    select: Selection = "stratified"
    counterbalance: bool = True
    straight_liners: Literal["flag", "remove"] = "flag"


class Arm(StrictModel):
    """How a prompt is asked: what precedes it, and how far the seed moves.

    lead: a sentence that differs from person to person precedes it: the feature prompt, or a neutral one of the
    same length.
    """

    id: Word
    label: Text
    prefix: str = ""
    seed_offset: Offset = 0
    lead: Literal["features", "placebo"] | None = None

    def instruction(self, text: str) -> str:
        return f"{self.prefix} {text}" if self.prefix else text


class Mitigation(StrictModel):
    """mitigation.yaml: what a feature prompt is made of, what is left out for which prompt, and the neutral words.

    seed_offset: added to the seed of a stratified sample, so that all its arms are edited again. drifted: the
    outcomes by which a sample of drifted cases is chosen.
    """

    opening: Text
    dimensions: dict[Word, Text]
    conflicts: dict[Name, tuple[Word, ...]] = Field(default_factory=dict)
    placebo: Text
    seed_offset: Offset
    drifted: tuple[Word, ...]


class Expected(StrictModel):
    """The true score on an axis, and the lowest and the highest score that is right."""

    score: float
    within: tuple[int, int]

    @model_validator(mode="after")
    def _is_within(self) -> Expected:
        if not self.within[0] <= self.score <= self.within[1]:
            raise ValueError(f"the score {self.score:g} lies outside {self.within[0]} to {self.within[1]}")
        return self

    def holds(self, score: int) -> bool:
        return self.within[0] <= score <= self.within[1]


Making = Literal["copy", "encode", "relight", "skin", "person", "frame"]
_SIZES = {"quality": "encode", "gain": "relight", "delta_l": "skin", "width": "frame", "colour": "frame"}
_Level = Annotated[int, Field(ge=0, le=255)]


class CalibrationPairKind(StrictModel):
    """A kind of calibration pair: how it is made from a portrait, and what is true of it.

    swaps: the kind whose pair it is, shown in the other order. asks: the request as judges read it.
    """

    id: Word
    label: Text
    by: Making | None = None
    swaps: Word | None = None
    quality: int | None = Field(default=None, ge=1, le=100)
    gain: float | None = Field(default=None, gt=0, le=4)
    delta_l: float | None = Field(default=None, ge=-50, le=50)
    width: float | None = Field(default=None, gt=0, le=0.5)
    colour: tuple[_Level, _Level, _Level] | None = None
    asks: Text | None = None
    expects: dict[Word, Expected] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_made_in_one_way(self) -> CalibrationPairKind:
        if (self.by is None) == (self.swaps is None):
            raise ValueError("give exactly one of by and swaps")
        for name, by in _SIZES.items():
            if (getattr(self, name) is not None) != (self.by == by):
                raise ValueError(f"'{name}' belongs to kinds by: {by}, and to those only")
        return self

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing of the person changed: what is seen anyway is the judge's own doing."""
        return self.by in ("copy", "encode", "relight")


class GroupGapRule(StrictModel):
    """How far a group may differ from all others. sure: over all groups, axes and kinds together."""

    most: float = Field(ge=0)
    sure: float = Field(gt=0.5, lt=1)
    tells: float = Field(gt=0)


_Part = Annotated[float, Field(ge=0, le=1)]


class Gate(StrictModel):
    """What a judge has to reach, in shares and points."""

    fewest_persons: int = Field(ge=2)
    specificity_at_least: _Part
    sensitivity_at_least: _Part
    swapped_at_least: _Part
    person_at_least: _Part
    made_at_least: _Part
    retest_at_least: _Part
    most_bias: float = Field(ge=0)
    gap: GroupGapRule


class Calibration(StrictModel):
    """calibration.yaml: pairs whose truth is known, and what a judge has to see in them.

    asks: the request as judges read it. otherwise: what is expected where a kind does not say.
    """

    asks: Text
    otherwise: dict[Word, Expected] = Field(default_factory=dict)
    kinds: tuple[CalibrationPairKind, ...] = Field(min_length=1)
    gate: Gate

    def kind(self, word: str) -> CalibrationPairKind:
        return next(kind for kind in self.kinds if kind.id == word)

    def asked(self, kind: CalibrationPairKind) -> str:
        return kind.asks or self.asks

    def made(self) -> tuple[CalibrationPairKind, ...]:
        """Those that an image is made for."""
        return tuple(kind for kind in self.kinds if kind.by)


class Primary(StrictModel):
    """The endpoints of claims: rates of outcomes, and the net direction of signed axes."""

    outcomes: tuple[Word, ...] = ()
    net: tuple[Word, ...] = ()


class Reliability(StrictModel):
    """Which claims an axis may support, by how far its raters agree (ordinal alpha)."""

    confirmatory: float = Field(default=0.667, gt=0, le=1)
    exploratory: float = Field(default=0.4, gt=0, le=1)


class AnalysisPlan(StrictModel):
    """analysis.yaml: what the analysis declares before it looks at a score.

    noninferiority: axis -> by how much its mean may be lower under a mitigation that is still non-inferior.
    """

    primary: Primary = Primary()
    equivalence_points: float = Field(default=3.0, gt=0, le=100)
    alike_delta: float = Field(default=0.147, gt=0, lt=1)
    noninferiority: dict[Word, float] = Field(default_factory=dict)
    reliability: Reliability = Reliability()


class ChangeByGroup(StrictModel):
    outcome: Word
    by: Word


class Tables(StrictModel):
    """Which outcomes the report's tables show."""

    outcomes_by_editor: tuple[Word, ...]
    change_by_group: ChangeByGroup
    contrasts: tuple[Word, ...]
    gallery: dict[Word, int] = Field(default_factory=dict)
    panels: tuple[Word, ...] = Field(default=(), max_length=2)
    grid: tuple[str, ...] = ()


class Manifest(StrictModel):
    """protocol.yaml: the protocol's name and version, its presets, arms and tables."""

    id: Name
    version: str
    title: Text
    presets: dict[Word, Preset]
    arms: tuple[Arm, ...] = Field(min_length=1)
    tables: Tables

    @field_validator("version")
    @classmethod
    def _version_has_three_parts(cls, value: str) -> str:
        if not all(part.isdigit() for part in value.split(".")) or value.count(".") != 2:
            raise ValueError("a version has three numbers, e.g. 1.0.0")
        return value
