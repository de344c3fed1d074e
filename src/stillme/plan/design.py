"""The design of a run: which portraits, which trials, and the hash of each backend's settings.

`make_design` makes it from a configuration, `load_design` reads it back from the run itself, so a report needs
nothing but the run directory. Pure but for that, and in the same order every time: portraits × prompts × editors ×
arms × seeds, experiment by experiment, and the negative controls after them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stillme.core.errors import InputError
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Feature, Portrait, Status, Trial, digest
from stillme.core.yaml import Document
from stillme.engine.backends import PreparedBackend
from stillme.judges.feature_form import FeatureForm
from stillme.ledger import Run
from stillme.ledger.database import wrap_row_errors
from stillme.ledger.run import settings_hash
from stillme.plan.audit import BASELINE, Audit, Diagnose, Mitigate, Stereotype
from stillme.plan.config import Config, settle, wanted_controls
from stillme.plan.mitigation import sentences
from stillme.plan.mitigation.sampling import Cell, stratified
from stillme.plan.stereotype import scenes
from stillme.protocol import Protocol
from stillme.protocol.schema import Arm, Mitigation, Prompt


@dataclass(frozen=True)
class PlanInputs:
    """What a plan depends on besides its configuration: what the run has found out so far.

    A trial that needs something that is not known yet is not planned yet.

    Attributes:
        features: An image -> what was read from it.
        drifted: The cases that were drawn by their outcome; None where they are not drawn yet.
    """

    features: Mapping[str, Feature] = field(default_factory=dict)
    drifted: Sequence[Cell] | None = None


@dataclass(frozen=True, kw_only=True)
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
    inputs: PlanInputs = field(default_factory=PlanInputs)

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


def make_design(
    config: Config,
    portraits: Sequence[Portrait],
    run: Run | None = None,
    inputs: PlanInputs | None = None,
) -> Design:
    """The design of an audit: the entry point of this package.

    Args:
        config: The audit, prepared.
        portraits: Those of its sources.
        run: Where to look for what the plan depends on besides; without one nothing is known.
        inputs: That, where the caller has it already.
    """
    if inputs is None:
        inputs = PlanInputs() if run is None else load_plan_inputs(run, config, portraits)
    editors, controls = settings_hashes("editor", config.editors), settings_hashes("editor", config.controls)
    judges = {row.id: config.judges[row.id] for row in config.ranked_judges() if not config.judges[row.id].derived}
    trials = plan_trials(config, portraits, {**controls, **editors}, inputs)
    check_arms(trials)
    return Design(
        config=config,
        portraits=portraits,
        trials=trials,
        editors=editors,
        judges=settings_hashes("judge", judges),
        measures=settings_hashes("measure", config.measures),
        controls=controls,
        inputs=inputs,
    )


def settings_hashes(kind: str, backends: Mapping[str, PreparedBackend[Any]]) -> dict[str, str]:
    return {name: settings_hash(kind, backend.effective) for name, backend in backends.items()}


def load_plan_inputs(run: Run, config: Config, portraits: Sequence[Portrait]) -> PlanInputs:
    """What the run has found out that a plan depends on."""
    keys = feature_keys(config, portraits)
    features = {feature.image: feature for feature in run.features(keys.values()).values()}
    drawn = run.drawn(draw_key(config, portraits)) if config.select == "drifted" else None
    return PlanInputs(features=features, drifted=None if drawn is None else [Cell(*cell) for cell in drawn])


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
    options = config.audit.experiments.mitigate
    asked = options.model_dump(mode="json", include={"sample", "prompts", "seed"}) if options else {}
    editors = settings_hashes("editor", config.editors)
    return digest("draw", asked=asked, editors=editors, portraits=[portrait.key for portrait in portraits])


def record_design(run: Run, design: Design) -> None:
    """Write the design into the run: settings, trials, and the configuration that asked for them."""
    config = design.config
    extractor = {} if config.extractor is None else {"extractor": config.extractor}
    backends_by_kind: dict[str, Mapping[str, PreparedBackend[Any]]] = {
        "editor": {**config.controls, **config.editors},
        "judge": {**config.judges, **extractor},
        "measure": config.measures,
    }
    for kind, backends in backends_by_kind.items():
        for backend in backends.values():
            run.add_settings(kind, backend.effective)
    run.add_trials(design.trials)
    run.add_audit(audit_content(design))


def audit_content(design: Design) -> dict[str, Any]:
    """The configuration with every setting spelled out, as the run keeps it."""
    config = design.config
    audit = config.audit.model_dump(mode="json")
    for part in ("sources", "editors", "judges", "measures"):
        for row in audit[part]:
            row["settings"] = dict(getattr(config, part)[row["id"]].inputs)
    mitigate = audit["experiments"]["mitigate"]
    if config.extractor is not None and mitigate and mitigate["extractor"]:
        mitigate["extractor"]["settings"] = dict(config.extractor.inputs)
    return {"audit": audit, "sources": source_settings(config), "portraits": [p.key for p in design.portraits]}


def source_settings(config: Config) -> dict[str, Any]:
    return {name: dict(prepared.effective) for name, prepared in config.sources.items()}


def load_design(run: Run) -> Design:
    """The design of the newest configuration that the run has seen."""
    kept = run.last_audit()
    document = Document(f"{run.path}: audit", "")
    with wrap_row_errors(run.path, "a configuration"):
        audit, keys = Audit.model_validate(kept["audit"]), list(kept["portraits"])
        if len(set(keys)) < len(keys):
            raise ValueError("a portrait is listed twice")
    config = settle(audit, run.path, document, run.protocol())
    return make_design(config, run.portraits(keys), run)


# The trials


def plan_trials(
    config: Config,
    portraits: Sequence[Portrait],
    settings: Mapping[str, str],
    inputs: PlanInputs | None = None,
) -> list[Trial]:
    """Every trial that the audit asks for, as far as it is known.

    `settings`: editor id -> hash of its effective settings, the makers of controls among them.
    """
    audit, protocol, experiments = config.audit, config.protocol, config.audit.experiments
    trials: list[Trial] = []
    if experiments.diagnose is not None:
        trials += _diagnose(audit, protocol, experiments.diagnose, portraits, settings)
    if experiments.mitigate is not None:
        trials += _mitigate(config, experiments.mitigate, portraits, settings, inputs or PlanInputs())
    if experiments.stereotype is not None:
        trials += _stereotype(config, experiments.stereotype, portraits, settings)
    trials += _controls(config, portraits, settings)
    return trials


# Experiment 2


def mitigation_cases(config: Config, portraits: Sequence[Portrait], inputs: PlanInputs) -> Sequence[Cell] | None:
    """The cases of the mitigation experiment; None where they cannot be drawn yet."""
    wanted = config.audit.experiments.mitigate
    if wanted is None:
        return []
    if config.select == "drifted":
        return inputs.drifted
    editors = [row.id for row in config.audit.editors]
    asked = selected_prompts(config.protocol, wanted)
    return stratified(portraits, asked, editors, wanted.sample, wanted.seed, config.protocol.groups)


def _mitigate(
    config: Config,
    wanted: Mitigate,
    portraits: Sequence[Portrait],
    settings: Mapping[str, str],
    inputs: PlanInputs,
) -> Iterator[Trial]:
    """Case by case, all arms of a case one after the other."""
    protocol, rules = config.protocol, config.protocol.mitigation
    assert rules is not None  # the configuration was checked
    people = {portrait.key: portrait for portrait in portraits}
    seeds = {row.id: row.seed or 0 for row in config.audit.editors}
    moved = 0 if config.select == "drifted" else rules.seed_offset
    arms = [arm for arm in protocol.manifest.arms if arm.id in wanted.arms]
    for cell in mitigation_cases(config, portraits, inputs) or ():
        portrait, prompt = people[cell.portrait], protocol.prompt[cell.prompt]
        for arm in arms:
            text = _instruction(arm, prompt, inputs.features.get(portrait.image), rules)
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


def with_placeholders(config: Config, portraits: Sequence[Portrait], inputs: PlanInputs) -> PlanInputs:
    """What is known, and stand-ins for the rest, so that what is to come can be counted before it is known.

    Cases that will be drawn by their outcome are supposed to be as many as may be drawn.
    """
    wanted = config.audit.experiments.mitigate
    if wanted is None:
        return inputs
    rules = config.protocol.mitigation
    texts = dict.fromkeys((*(rules.dimensions if rules else ()), sentences.SENTENCE), "not known yet")
    features = {
        portrait.image: Feature(key="", image=portrait.image, settings="", status=Status.OK, features=texts)
        for portrait in portraits
    }
    editors = [row.id for row in config.audit.editors]
    asked = (
        selected_prompts(config.protocol, wanted),
        editors,
        wanted.sample,
        wanted.seed,
        config.protocol.groups,
    )
    drifted = stratified(portraits, *asked) if inputs.drifted is None else inputs.drifted
    return PlanInputs(features={**features, **inputs.features}, drifted=drifted)


def check_arms(trials: Iterable[Trial]) -> None:
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
                about=scene.metadata,
            )


# Experiment 1


def _diagnose(
    audit: Audit, protocol: Protocol, wanted: Diagnose, portraits: Iterable[Portrait], settings: Mapping[str, str]
) -> Iterator[Trial]:
    """Portrait by portrait, so that an editor meets one picture for all its prompts."""
    arms = [arm for arm in protocol.manifest.arms if arm.id in wanted.arms]
    for portrait in portraits:
        for prompt in selected_prompts(protocol, wanted):
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


def selected_prompts(protocol: Protocol, wanted: Diagnose | Mitigate) -> list[Prompt]:
    """The prompts asked for, in the protocol's order."""
    return [p for p in protocol.prompts.prompts if wanted.prompts == "all" or p.id in wanted.prompts]


def _controls(config: Config, portraits: Iterable[Portrait], settings: Mapping[str, str]) -> Iterator[Trial]:
    """Portrait by portrait, each control once for every editor that makes it."""
    for portrait in portraits:
        for control in wanted_controls(config.audit, config.protocol):
            makers = [(control.id, 0)]  # stillme's own
            if control.by != "stillme":
                makers = [
                    (row.id, row.seed or 0)
                    for row in config.audit.editors
                    if control.by == "prompt" or control.id in config.editors[row.id].controls
                ]
            for editor, seed in makers:
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


def trials_to_measure(
    trials: Sequence[Trial], portraits: Sequence[Portrait], protocol: Protocol, share: float
) -> list[Trial]:
    """The trials that are measured: every control, and a share of the others. In the plan's order.

    The share holds within every prompt and group of the reference dimension, and is the same portraits and prompts
    for every editor, arm and seed; a larger share contains a smaller one.
    """
    groups = protocol.groups
    dimension = next(iter(groups.reference_group), next(iter(groups.dimensions)))
    group_of = {portrait.key: portrait.labels.get(dimension, "") for portrait in portraits}
    strata: dict[tuple[str, str], set[str]] = {}
    for trial in trials:
        if not trial.is_control and trial.experiment != STEREOTYPE:
            strata.setdefault((trial.prompt, group_of[trial.portrait]), set()).add(trial.portrait)
    chosen: set[tuple[str, str]] = set()
    for (prompt, _), people in strata.items():
        ordered = sorted(people, key=lambda person: digest("measured", portrait=person, prompt=prompt))
        # Rounded up, so that no stratum is left out; 1e-9: 0.07 × 100 is a little more than 7 in binary.
        chosen.update((prompt, person) for person in ordered[: math.ceil(len(people) * share - 1e-9)])
    return [t for t in trials if t.is_control or (t.prompt, t.portrait) in chosen]
