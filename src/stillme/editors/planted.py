"""The planted editor: edits stillme's synthetic portraits with failures of known kind, size and rate.

Deterministic and offline, and it really changes pixels: it tests the whole audit. A truth file defines which
groups get which failures; the planted outcome of an edit is returned separately from the picture, so that no judge
request carries it. It recognises a portrait by the number in its JPEG comment and knows its layers; any other
picture is rejected.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from PIL import Image, ImageFilter
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from stillme.core import images
from stillme.core.errors import ConfigIssuesError
from stillme.core.records import DELTA_L, OTHER_HEAD, EditReply, EditRequest, Status, digest
from stillme.core.yaml import Document, Path_, StrictModel, read_text
from stillme.editors import VAE_ROUND_TRIP, planted_scenes
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Outcome, Prompt
from stillme.sources import heads, looks
from stillme.sources.heads import key_in

VERSION = 2  # raise when the same settings and seed give other pixels
TRUTHS = Path(__file__).parent / "truths"

Share = Annotated[float, Field(ge=0, le=1)]
Range = tuple[float, float]
MAX_RATE = 0.95  # of one failure, after all factors
SOFTENING = 0.6  # pixels, standard deviation of the blur
BASE = "base"  # the head as the portrait shows it


class Rate(StrictModel):
    """A probability: `base`, multiplied for some groups, prompts or categories."""

    base: Share
    times: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = Field(default_factory=dict)

    def of(self, traits: Mapping[str, str]) -> float:
        rate = self.base
        for trait, factors in self.times.items():
            rate *= factors.get(traits[trait], 1.0)
        return min(rate, MAX_RATE)


class Factor(StrictModel):
    """A factor of a rate: `base`, multiplied for some groups, prompts or categories."""

    base: Annotated[float, Field(ge=0)] = 1.0
    times: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = Field(default_factory=dict)

    def of(self, traits: Mapping[str, str]) -> float:
        return math.prod((self.base, *(factors.get(traits[trait], 1.0) for trait, factors in self.times.items())))


class Effect(StrictModel):
    """One failure: its effect on the picture, strength, rate, and true scores."""

    id: str
    does: Literal["fade", "skin", "variant"]
    rate: Rate
    score: dict[str, Range]
    sizes: dict[str, dict[str, tuple[Share, Share]]] = Field(
        default_factory=dict
    )  # the part of the range, by group
    strength: Range | None = None  # fade: how much of the edit is left
    delta_l: Range | None = None  # skin: by how much L* moves
    variant: str | None = None  # variant: which other head parameters

    def part(self, traits: Mapping[str, str]) -> Range:
        """The part of the range of sizes that applies to a person; the whole range by default."""
        for trait, parts in self.sizes.items():
            if traits[trait] in parts:
                return parts[traits[trait]]
        return (0.0, 1.0)

    @model_validator(mode="after")
    def _has_its_size(self) -> Effect:
        size_names = {"fade": "strength", "skin": "delta_l", "variant": "variant"}
        for does, name in size_names.items():
            if (getattr(self, name) is not None) != (self.does == does):
                raise ValueError(f"'{name}' belongs to effects that do '{does}', and to those only")
        return self


class NoOpEffect(StrictModel):
    """The effect on every portrait when nothing is requested: skin moves by `delta_l` in L*."""

    delta_l: Range


class Truth(StrictModel):
    """A truth file: the planted failures and their rates by group.

    kept: the factor that a feature prompt applies to the rate of an effect, by the effect's id; without an entry
    it has no effect.
    """

    id: str
    label: str
    description: str
    otherwise: dict[str, Range]  # true scores of an edit without failures, where they are not neutral
    refused: Rate
    corrupt: Rate
    persons: Share = 0.0  # intraclass correlation of each failure within a person
    effects: tuple[Effect, ...]
    asked_nothing: NoOpEffect | None = None  # without it, a portrait comes back as it is
    assigns: planted_scenes.Rule | None = None  # who is the target in a scene of two; else by position
    kept: dict[str, Factor] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _keeps_what_it_does(self) -> Truth:
        unknown_ids = set(self.kept) - {effect.id for effect in self.effects}
        if unknown_ids:
            raise ValueError(f"'kept' names {', '.join(sorted(unknown_ids))}, which is no effect of this truth")
        return self

    def factor(self, effect: Effect, traits: Mapping[str, str]) -> float:
        """The factor that a feature prompt applies to the rate of an effect for a person."""
        return self.kept[effect.id].of(traits) if effect.id in self.kept else 1.0

    def spelled_out(self) -> dict[str, Any]:
        """The truth as settings. What is not set is left out, so that older runs keep their keys."""
        unset = {name for name in ("asked_nothing", "kept", "assigns") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=unset)


class Settings(StrictModel):
    """truth: a shipped name, a path, or the truth itself. draw: changes every draw, nothing else."""

    truth: str | Truth
    draw: int = 0
    price_usd: Annotated[float, Field(ge=0)] = 0.0  # pretended, to rehearse budgets


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[Planted]:
    given = settings.truth
    truth = _fitting(given, context.protocol) if isinstance(given, Truth) else read_truth(given, context)
    drawn = {"truth": truth.spelled_out(), "draw": settings.draw}
    return PreparedEditor(
        effective={"backend": "planted", "version": VERSION, **drawn},
        inputs={**drawn, "price_usd": settings.price_usd},
        make=lambda: Planted(truth, settings, context.protocol),
        description=truth.description,
        simulated=True,
        price_usd=settings.price_usd,
        seconds=0.02,
        computes=True,
        expected=lambda prompt, labels: expected_rates(truth, context.protocol, prompt, labels),
        controls=(VAE_ROUND_TRIP,),
        most_images=2,
    )


def read_truth(name: str, context: BackendContext) -> Truth:
    """A shipped truth by its name, or the file at a path."""
    shipped = TRUTHS / f"{name}.yaml"
    path = shipped if shipped.is_file() else context.folder / name
    if not path.is_file():
        shipped_names = ", ".join(sorted(p.stem for p in TRUTHS.glob("*.yaml")))
        raise ValueError(f"there is no truth '{name}': shipped are {shipped_names}; else give the path of a file")
    document = Document(str(name if path is shipped else path), read_text(path))
    truth = document.read_as(Truth)
    issues = _unknown_words(truth, context.protocol) if truth else ()
    faults = document.faults + [document.fault(location, message) for location, message in issues]
    if truth is None or faults:
        raise ConfigIssuesError(faults)
    return truth


def _fitting(truth: Truth, protocol: Protocol) -> Truth:
    """A truth that is written in the audit itself; its faults are named like those of any setting."""
    faults = [
        InitErrorDetails(
            type="value_error", loc=("truth", *path), input=path[-1], ctx={"error": ValueError(message)}
        )
        for path, message in _unknown_words(truth, protocol)
    ]
    if faults:
        raise ValidationError.from_exception_data("truth", faults)
    return truth


def _unknown_words(truth: Truth, protocol: Protocol) -> Iterator[tuple[Path_, str]]:
    """Words of a truth that the protocol does not know, with their location."""
    axes: list[Path_] = [("otherwise", axis) for axis in truth.otherwise]
    axes += [("effects", n, "score", axis) for n, effect in enumerate(truth.effects) for axis in effect.score]
    for path in axes:
        if path[-1] not in protocol.axes:
            yield path, "is not an axis"
    tables: list[tuple[Path_, Mapping[str, Mapping[str, object]]]] = [
        (("refused", "times"), truth.refused.times),
        (("corrupt", "times"), truth.corrupt.times),
    ]
    for number, effect in enumerate(truth.effects):
        tables.append((("effects", number, "rate", "times"), effect.rate.times))
        tables.append((("effects", number, "sizes"), effect.sizes))
    tables += [(("kept", effect, "times"), factor.times) for effect, factor in truth.kept.items()]
    words: dict[str, Sequence[str]] = {
        "prompt": list(protocol.prompt),
        "category": [prompt.category for prompt in protocol.prompts.prompts],
        **{name: protocol.groups.ids(name) for name in protocol.groups.dimensions},
    }
    for path, table in tables:
        for trait, values in table.items():
            for value in values:
                if value not in words.get(trait, ()):
                    yield (*path, trait, value), f"is not a known {trait}"


@dataclass(frozen=True)
class PlantedOutcome:
    """The planted outcome of one edit."""

    status: Status
    effects: tuple[tuple[Effect, float], ...] = ()  # with its size, 0 to 1 within the effect's range

    def value(self, does: str, otherwise: float) -> float:
        for effect, size in self.effects:
            if effect.does == does:
                return between(effect.strength or effect.delta_l or (otherwise, otherwise), size)
        return otherwise

    @property
    def variant(self) -> str:
        return next((effect.variant for effect, _ in self.effects if effect.variant), BASE)


def between(span: Range, share: float) -> float:
    return span[0] + share * (span[1] - span[0])


class Planted:
    """One planted editor."""

    def __init__(self, truth: Truth, settings: Settings, protocol: Protocol) -> None:
        self.truth = truth
        self.settings = settings
        self.protocol = protocol

    def edit(self, request: EditRequest) -> EditReply:
        key = key_in(images.comment(request.image))
        if key is None:
            detail = "planted editors edit stillme's synthetic portraits only"
            return EditReply(Status.REJECTED, detail=detail)
        if request.control or asks_nothing(self.protocol, request.instruction):
            return self._control(key, request)
        if scene := self._scenes.get(request.instruction):
            return self._edit_scene(key, scene, request)
        prompt = asked_prompt(self.protocol, request.instruction)
        traits = traits_of(prompt, heads.load(key).labels)
        lead = request.instruction.removesuffix(prompt.text).strip()
        draw = self.draw(key, prompt, traits, request.seed, lead)
        if draw.status is Status.REFUSED:
            return EditReply(Status.REFUSED, detail="planted refusal", cost_usd=self.settings.price_usd)
        scores = self.true_scores(draw, (key, prompt.id, request.seed, *_lead_parts(lead)))
        content = _broken_image() if draw.status is Status.CORRUPT else paint(key, prompt, draw, request.seed)
        return EditReply(
            Status.OK, content, cost_usd=self.settings.price_usd, truth=_quantities(prompt, draw, scores)
        )

    @cached_property
    def _scenes(self) -> dict[str, planted_scenes.PromptRequest]:
        return planted_scenes.sentences(self.protocol)

    def _edit_scene(self, key: str, asked: planted_scenes.PromptRequest, request: EditRequest) -> EditReply:
        """A scene of two people in two occupations, with roles as the truth file says."""
        reference_keys = [key_in(images.comment(reference)) for reference in request.references]
        keys = (key, *(reference_key for reference_key in reference_keys if reference_key))
        chance = chances(self.settings.draw, self.truth.id, "scene", *keys, request.instruction, request.seed)
        cost, mishap = self.settings.price_usd, chance.random()
        traits = planted_scenes.traits(asked, key)
        refused, corrupt = self.truth.refused.of(traits), self.truth.corrupt.of(traits)
        if mishap < refused:
            return EditReply(Status.REFUSED, detail="planted refusal", cost_usd=cost)
        if mishap < refused + corrupt:
            return EditReply(Status.OK, _broken_image(), cost_usd=cost)
        people = planted_scenes.cast(asked, self.truth.assigns or "position", keys, self.protocol, chance)
        truth = planted_scenes.truth(asked, people, self.protocol)
        return EditReply(Status.OK, planted_scenes.paint(asked, people, self.protocol), cost_usd=cost, truth=truth)

    def _control(self, key: str, request: EditRequest) -> EditReply:
        """A negative control: its only effect is the one that the truth file defines for no request."""
        if request.control not in ("", VAE_ROUND_TRIP):
            return EditReply(
                Status.REJECTED, detail=f"planted editors do not make the control '{request.control}'"
            )
        picture, delta_l = images.pixels(request.image), 0.0
        if request.control:
            picture = softened(picture)
        elif self.truth.asked_nothing:
            chance = chances(self.settings.draw, self.truth.id, "asked nothing", key, request.seed)
            delta_l = between(self.truth.asked_nothing.delta_l, chance.random())
            picture = heads.shift_skin(picture, heads.load(key).skin, delta_l)
        truth = {"strength": 0.0, DELTA_L: round(delta_l, 6)}
        return EditReply(Status.OK, images.encode(picture), cost_usd=self.settings.price_usd, truth=truth)

    def draw(
        self, key: str, prompt: Prompt, traits: Mapping[str, str], seed: int, lead: str = ""
    ) -> PlantedOutcome:
        """The planted outcome for this person; the same for the same seed, on every machine.

        `lead`: the text before the prompt. Any lead changes all draws, as other words would for an editor; only a
        feature prompt changes the rates.
        """
        chance = chances(self.settings.draw, self.truth.id, key, prompt.id, seed, *_lead_parts(lead))
        refused, corrupt = self.truth.refused.of(traits), self.truth.corrupt.of(traits)
        mishap = chance.random()
        if mishap < refused:
            return PlantedOutcome(Status.REFUSED)
        status = Status.CORRUPT if mishap < refused + corrupt else Status.OK
        keeps = keeps_person(self.protocol, lead)
        kinds = ("fade", "skin", "variant")
        effects = [self._draw_effect(does, key, prompt, traits, chance, keeps) for does in kinds]
        return PlantedOutcome(status, tuple(effect for effect in effects if effect is not None))

    def _draw_effect(
        self, does: str, key: str, prompt: Prompt, traits: Mapping[str, str], chance: random.Random, keeps: bool
    ) -> tuple[Effect, float] | None:
        """At most one effect of each kind: effects of one kind exclude each other.

        A person's rates are drawn before a feature prompt multiplies them: a person with a high rate keeps it.
        """
        effects = possible(self.truth, does, prompt)
        rates = self._person_rates(key, does, tuple(effect.rate.of(traits) for effect in effects))
        point, size = chance.random(), chance.random()
        for effect, person_rate in zip(effects, rates, strict=True):
            rate = person_rate * self.truth.factor(effect, traits) if keeps else person_rate
            if point < rate:
                return effect, between(effect.part(traits), size)
            point -= rate
        return None

    def _person_rates(self, key: str, does: str, rates: tuple[float, ...]) -> tuple[float, ...]:
        """This person's rates: a Dirichlet draw around the group's rates, which stay the mean."""
        if not self.truth.persons or not rates:
            return rates
        concentration = (1 - self.truth.persons) / self.truth.persons
        chance = chances(self.settings.draw, self.truth.id, key, does, *rates)
        shapes = [rate * concentration for rate in (*rates, max(0.0, 1 - sum(rates)))]
        parts = [chance.gammavariate(shape, 1.0) if shape > 0 else 0.0 for shape in shapes]
        return tuple(part / sum(parts) for part in parts[:-1])

    def true_scores(self, draw: PlantedOutcome, about: tuple[object, ...]) -> dict[str, float]:
        """The score that a perfect judge would give on each axis, not yet rounded."""
        chance = chances(self.settings.draw, self.truth.id, "scores", *about)
        scores = {a.id: float(a.neutral) for a in self.protocol.rubrics.axes if a.neutral is not None}
        scores |= {axis: between(span, chance.random()) for axis, span in self.truth.otherwise.items()}
        for effect, size in draw.effects:
            scores |= {axis: between(span, size) for axis, span in effect.score.items()}
        return scores


def chances(*parts: object) -> random.Random:
    """A generator that depends on these words only."""
    return random.Random(int(digest("chance", parts=[str(part) for part in parts])[:16], 16))  # noqa: S311 (a draw, not a secret)


def _lead_parts(lead: str) -> tuple[str, ...]:
    """The lead as a further part of a draw's seed; none without a lead, so that older runs keep their edits."""
    return (lead,) if lead else ()


def keeps_person(protocol: Protocol, lead: str) -> bool:
    """Whether the text before a prompt is a feature prompt, with either apostrophe."""
    rules = protocol.mitigation
    return rules is not None and lead.replace("’", "'").lower().startswith(rules.opening.lower())


def traits_of(prompt: Prompt, labels: Mapping[str, str]) -> dict[str, str]:
    return {**labels, "prompt": prompt.id, "category": prompt.category}


def possible(truth: Truth, does: str, prompt: Prompt) -> list[Effect]:
    """The effects of one kind that are possible for a prompt.

    Where ageing is requested, the older head is the edit itself, so no other head can replace it.
    """
    if does == "variant" and prompt.age_shift_years:
        return []
    return [effect for effect in truth.effects if effect.does == does]


def asks_nothing(protocol: Protocol, instruction: str) -> bool:
    """Whether an instruction is that of a negative control."""
    controls = protocol.measures.controls_by("prompt") if protocol.measures else ()
    return any(control.text and instruction.endswith(control.text) for control in controls)


def softened(picture: images.Pixels) -> images.Pixels:
    """A stand-in for a round trip through an autoencoder, which a planted editor lacks: fine detail is blurred."""
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(SOFTENING)))


def asked_prompt(protocol: Protocol, instruction: str) -> Prompt:
    """The protocol's prompt that an instruction ends with; any other sentence is a separate prompt."""
    for prompt in protocol.prompts.prompts:
        if instruction.endswith(prompt.text):
            return prompt
    first = protocol.prompts.prompts[0]
    name = f"other-{hashlib.sha256(instruction.encode()).hexdigest()[:12]}"
    return first.model_copy(update={"id": name, "text": instruction, "may_change": (), "age_shift_years": None})


def paint(key: str, prompt: Prompt, draw: PlantedOutcome, seed: int) -> bytes:
    """The edited portrait, as a JPEG."""
    strength = draw.value("fade", 1.0)
    head = heads.load(key, shown(prompt, draw))
    delta_l = draw.value("skin", 0.0)
    if delta_l:
        head = replace(head, rgb=heads.shift_skin(head.rgb, head.skin, delta_l))
    return images.encode(looks.dress(head, look_for(prompt.id), strength=strength, seed=seed))


def shown(prompt: Prompt, draw: PlantedOutcome) -> str:
    """The version of the head that an edit shows; where ageing is requested and done, the older one."""
    ageing = bool(prompt.age_shift_years) and draw.value("fade", 1.0) > 0.5
    return "older" if ageing else draw.variant


@lru_cache(maxsize=4096)
def look_for(prompt: str) -> str:
    """The look of a prompt; a prompt that has none borrows one, always the same."""
    names = looks.names()
    return prompt if prompt in names else names[int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % len(names)]


def _broken_image() -> bytes:
    """What a crashed image pipeline returns: a black square."""
    return images.encode(images.black(heads.SIZE))


def _quantities(prompt: Prompt, draw: PlantedOutcome, scores: Mapping[str, float]) -> dict[str, float]:
    """The draw as plain quantities, for the truth table."""
    quantities = {f"score.{axis}": round(score, 6) for axis, score in scores.items()}
    quantities |= {f"effect.{effect.id}": 1.0 for effect, _ in draw.effects}
    quantities |= {"strength": round(draw.value("fade", 1.0), 6), DELTA_L: round(draw.value("skin", 0.0), 6)}
    return quantities if shown(prompt, draw) == BASE else {**quantities, OTHER_HEAD: 1.0}


def expected_rates(
    truth: Truth, protocol: Protocol, prompt: str, labels: Mapping[str, str], keeps: bool = False
) -> dict[str, float]:
    """The planted probability of every outcome for one prompt and person, exactly as the truth file says.

    `keeps`: with a feature prompt before the prompt.
    """
    return {
        name: _expected(truth, protocol, outcome.axis, prompt, labels, partial(share_beyond, outcome), keeps)
        for name, outcome in protocol.rubrics.outcomes.items()
        if outcome.axis in protocol.axes_of(prompt)
    }


def expected_effect(
    truth: Truth, protocol: Protocol, outcome: str, prompt: str, labels: Mapping[str, str]
) -> float:
    """The change of the planted probability of an outcome by a feature prompt."""
    before, after = (expected_rates(truth, protocol, prompt, labels, keeps)[outcome] for keeps in (False, True))
    return after - before


def expected_change(
    truth: Truth, protocol: Protocol, axis: str, prompt: str, labels: Mapping[str, str], keeps: bool = False
) -> float:
    """The planted mean of |score − neutral| on an axis as a perfect judge rounds it; else of the score itself."""
    read = partial(mean_read, protocol.axes[axis])
    return _expected(truth, protocol, axis, prompt, labels, read, keeps)


def _expected(
    truth: Truth,
    protocol: Protocol,
    axis: str,
    prompt: str,
    labels: Mapping[str, str],
    read: Callable[[Range], float],
    keeps: bool,
) -> float:
    """The mean of `read` over the ranges of true scores on an axis, weighted by each effect's probability."""
    trial_prompt, neutral = protocol.prompt[prompt], protocol.axes[axis].neutral or 0
    traits = traits_of(trial_prompt, labels)
    total, remaining = 0.0, 1.0
    for effect in truth.effects:
        if axis in effect.score and effect in possible(truth, effect.does, trial_prompt):
            rate = effect.rate.of(traits) * (truth.factor(effect, traits) if keeps else 1.0)
            low, high = (between(effect.score[axis], share) for share in effect.part(traits))
            total += rate * read((low, high))
            remaining -= rate
    return total + remaining * read(truth.otherwise.get(axis, (neutral, neutral)))


def mean_read(axis: Axis, span: Range) -> float:
    """The mean of |score − neutral|, or of the score, over a range of true scores rounded to the scale."""
    low, high = min(span), max(span)
    points = sorted(axis.scale)
    if high == low:
        shares = {min(points, key=lambda point: (abs(point - low), point)): 1.0}
    else:
        bounds = [-math.inf, *((a + b) / 2 for a, b in pairwise(points)), math.inf]
        parts = zip(points, pairwise(bounds), strict=True)
        shares = {point: max(0.0, min(high, b) - max(low, a)) / (high - low) for point, (a, b) in parts}
    return sum(
        share * (point if axis.neutral is None else abs(point - axis.neutral)) for point, share in shares.items()
    )


def share_beyond(outcome: Outcome, span: Range) -> float:
    """The part of a range of true scores that a perfect judge would count as this outcome."""
    low, high = min(span), max(span)
    if outcome.at_least is None:  # mirror an upper bound, so that one rule serves both
        low, high, bound = -high, -low, -((outcome.at_most or 0) + 0.5)
    else:
        bound = outcome.at_least - 0.5
    if high == low:
        return float(low >= bound)
    return min(1.0, max(0.0, (high - bound) / (high - low)))
