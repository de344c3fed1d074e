"""The plan: portraits × prompts × editors × arms × seeds -> trials, experiment by experiment, and the negative
controls after them.

Pure, and in the same order every time. What a plan hangs on besides the configuration is in `Known`: a trial that
needs something that is not known yet is not planned yet.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stillme.core.errors import InputError
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Feature, Portrait, Status, Trial, digest
from stillme.plan.config import BASELINE, Audit, Config, Diagnose, Mitigate, Stereotype, wanted_controls
from stillme.plan.mitigation import sentences
from stillme.plan.mitigation.sampling import Cell, stratified
from stillme.plan.stereotype import scenes
from stillme.protocol import Protocol
from stillme.protocol.schema import Arm, Control, Mitigation, Prompt


@dataclass(frozen=True)
class Known:
    """What was found out so far: features by a portrait's image; the cases that were drawn by their outcome."""

    features: Mapping[str, Feature] = field(default_factory=dict)
    drifted: Sequence[Cell] | None = None


def trials(
    config: Config,
    portraits: Sequence[Portrait],
    settings: Mapping[str, str],
    known: Known | None = None,
) -> list[Trial]:
    """Every trial that the audit asks for, as far as it is known.

    `settings`: editor id -> hash of its effective settings, the makers of controls among them.
    """
    audit, protocol, experiments = config.audit, config.protocol, config.audit.experiments
    makes = {name: one.controls for name, one in config.editors.items()}
    planned: list[Trial] = []
    if experiments.diagnose is not None:
        planned += _diagnose(audit, protocol, experiments.diagnose, portraits, settings)
    if experiments.mitigate is not None:
        planned += _mitigate(config, experiments.mitigate, portraits, settings, known or Known())
    if experiments.stereotype is not None:
        planned += _stereotype(config, experiments.stereotype, portraits, settings)
    planned += _controls(audit, protocol, portraits, settings, makes)
    return planned


# Experiment 2


def cells(config: Config, portraits: Sequence[Portrait], known: Known) -> Sequence[Cell] | None:
    """The cases of the mitigation experiment; None where they cannot be drawn yet."""
    wanted = config.audit.experiments.mitigate
    if wanted is None:
        return []
    if config.select == "drifted":
        return known.drifted
    editors = [row.id for row in config.audit.editors]
    asked = prompts(config.protocol, wanted)
    return stratified(portraits, asked, editors, wanted.sample, wanted.seed, config.protocol.groups)


def _mitigate(
    config: Config, wanted: Mitigate, portraits: Sequence[Portrait], settings: Mapping[str, str], known: Known
) -> Iterator[Trial]:
    """Case by case, all arms of a case one after the other."""
    protocol, rules = config.protocol, config.protocol.mitigation
    assert rules is not None  # the configuration was checked
    people = {portrait.key: portrait for portrait in portraits}
    seeds = {row.id: row.seed or 0 for row in config.audit.editors}
    moved = 0 if config.select == "drifted" else rules.seed_offset
    arms = [arm for arm in protocol.manifest.arms if arm.id in wanted.arms]
    for cell in cells(config, portraits, known) or ():
        portrait, prompt = people[cell.portrait], protocol.prompt[cell.prompt]
        for arm in arms:
            text = _instruction(arm, prompt, known.features.get(portrait.image), rules)
            if text is not None:
                yield Trial.of(
                    portrait,
                    experiment=MITIGATE,
                    arm=arm.id,
                    prompt=prompt.id,
                    instruction=text,
                    editor=cell.editor,
                    settings=settings[cell.editor],
                    seed=seeds[cell.editor] + moved + arm.seed_offset,
                )


def _instruction(arm: Arm, prompt: Prompt, feature: Feature | None, rules: Mitigation) -> str | None:
    """The prompt as an arm asks it; None where it needs features that nobody has read."""
    if arm.lead is None:
        return arm.instruction(prompt.text)
    if feature is None or feature.status is not Status.OK:
        return None
    sentence = sentences.feature_prompt(feature, prompt, rules)
    return f"{sentence if arm.lead == 'features' else sentences.placebo(sentence, rules)} {prompt.text}"


def supposed(config: Config, portraits: Sequence[Portrait], known: Known) -> Known:
    """What is known, and stand-ins for the rest, so that what is to come can be counted before it is known.

    Cases that will be drawn by their outcome are supposed to be as many as may be drawn.
    """
    wanted = config.audit.experiments.mitigate
    if wanted is None:
        return known
    rules = config.protocol.mitigation
    said = dict.fromkeys((*(rules.dimensions if rules else ()), sentences.SENTENCE), "not known yet")
    features = {p.image: Feature("", p.image, "", Status.OK, said) for p in portraits}
    editors = [row.id for row in config.audit.editors]
    asked = (prompts(config.protocol, wanted), editors, wanted.sample, wanted.seed, config.protocol.groups)
    drifted = stratified(portraits, *asked) if known.drifted is None else known.drifted
    return Known({**features, **known.features}, drifted)


def check_pairs(trials: Iterable[Trial]) -> None:
    """Arms that are compared share everything but what is compared: else the run is refused."""
    first: dict[tuple[str, str, str], str] = {}
    for trial in trials:
        if trial.experiment == MITIGATE:
            case = (trial.portrait, trial.prompt, trial.editor)
            if first.setdefault(case, trial.settings) != trial.settings:
                raise InputError(
                    f"The arms of the prompt {trial.prompt} by the editor '{trial.editor}' were to be edited with "
                    f"different settings ({first[case][:12]} and {trial.settings[:12]}): a difference between "
                    "them would say nothing about the arm.",
                    "Give the editor one set of settings for the whole experiment.",
                )


# Experiment 3


def _stereotype(
    config: Config, wanted: Stereotype, portraits: Sequence[Portrait], settings: Mapping[str, str]
) -> Iterator[Trial]:
    """Scene by scene, every editor in turn."""
    protocol = config.protocol
    every = [prompt.id for prompt in protocol.winobias.prompts]
    asked = [name for name in every if wanted.prompts == "all" or name in wanted.prompts]
    for scene in scenes(protocol, portraits, asked, wanted.mode, config.counterbalanced, wanted.seed):
        for row in config.audit.editors:
            yield Trial.of(
                scene.portrait,
                experiment=STEREOTYPE,
                arm=scene.arm,
                prompt=scene.prompt,
                instruction=scene.text,
                editor=row.id,
                settings=settings[row.id],
                seed=row.seed or 0,
                partner=scene.partner,
                about=scene.about,
            )


# Experiment 1


def _diagnose(
    audit: Audit, protocol: Protocol, wanted: Diagnose, portraits: Iterable[Portrait], settings: Mapping[str, str]
) -> Iterator[Trial]:
    """Portrait by portrait, so that an editor meets one picture for all its prompts."""
    arms = [arm for arm in protocol.manifest.arms if arm.id in wanted.arms]
    for portrait in portraits:
        for prompt in prompts(protocol, wanted):
            for editor in audit.editors:
                for arm in arms:
                    for step in range(wanted.seeds):
                        yield Trial.of(
                            portrait,
                            experiment=DIAGNOSE,
                            arm=arm.id,
                            prompt=prompt.id,
                            instruction=arm.instruction(prompt.text),
                            editor=editor.id,
                            settings=settings[editor.id],
                            seed=(editor.seed or 0) + arm.seed_offset + step,
                        )


def prompts(protocol: Protocol, wanted: Diagnose | Mitigate) -> list[Prompt]:
    """The prompts asked for, in the protocol's order."""
    return [p for p in protocol.prompts.prompts if wanted.prompts == "all" or p.id in wanted.prompts]


def _controls(
    audit: Audit,
    protocol: Protocol,
    portraits: Iterable[Portrait],
    settings: Mapping[str, str],
    makes: Mapping[str, Collection[str]],
) -> Iterator[Trial]:
    """Portrait by portrait, each control once for everybody who makes it."""
    wanted = wanted_controls(audit, protocol)
    for portrait in portraits:
        for control in wanted:
            for editor, seed in _makers(audit, control, makes):
                yield Trial.of(
                    portrait,
                    experiment=CONTROLS,
                    arm=BASELINE,
                    prompt=control.id,
                    instruction=control.text or f"[control] {control.id}",  # words, so that each has its own key
                    editor=editor,
                    settings=settings[editor],
                    seed=seed,
                )


def _makers(audit: Audit, control: Control, makes: Mapping[str, Collection[str]]) -> list[tuple[str, int]]:
    """Who makes a control, with which seed."""
    if control.by == "stillme":
        return [(control.id, 0)]
    able = [row for row in audit.editors if control.by == "prompt" or control.id in makes.get(row.id, ())]
    return [(row.id, row.seed or 0) for row in able]


def measured(
    trials: Sequence[Trial], portraits: Sequence[Portrait], protocol: Protocol, share: float
) -> list[Trial]:
    """The trials that are measured: every control, and a share of the others. In the plan's order.

    The share holds within every prompt and group of the reference dimension, and is the same portraits and prompts
    for every editor, arm and seed; a larger share contains a smaller one.
    """
    chosen = set(_chosen_pairs(trials, portraits, protocol, share))
    return [t for t in trials if t.is_control or (t.prompt, t.portrait) in chosen]


def _chosen_pairs(
    trials: Iterable[Trial], portraits: Iterable[Portrait], protocol: Protocol, share: float
) -> Iterator[tuple[str, str]]:
    groups = protocol.groups
    dimension = next(iter(groups.reference_group), next(iter(groups.dimensions)))
    group_of = {portrait.key: portrait.labels.get(dimension, "") for portrait in portraits}
    strata: dict[tuple[str, str], set[str]] = {}
    for trial in trials:
        if not trial.is_control and trial.experiment != STEREOTYPE:
            strata.setdefault((trial.prompt, group_of[trial.portrait]), set()).add(trial.portrait)
    for (prompt, _), people in strata.items():
        drawn = sorted(people, key=lambda person: digest("measured", portrait=person, prompt=prompt))
        yield from ((prompt, person) for person in drawn[: _part(len(people), share)])


def _part(whole: int, share: float) -> int:
    """Rounded up, so that no stratum is left out; 1e-9: 0.07 × 100 is a little more than 7."""
    return math.ceil(whole * share - 1e-9)
