"""The plan: portraits × prompts × editors × arms × seeds -> trials, and the negative controls after them.

Pure, and in the same order every time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from stillme.config import BASELINE, Audit, Diagnose, wanted_controls
from stillme.protocol import Protocol
from stillme.protocol.schema import Control, Prompt
from stillme.records import CONTROLS, Portrait, Trial, digest

DIAGNOSE = "diagnose"


def trials(
    audit: Audit,
    protocol: Protocol,
    portraits: Sequence[Portrait],
    settings: Mapping[str, str],
    makes: Mapping[str, Collection[str]] | None = None,
) -> list[Trial]:
    """Every trial that the audit asks for.

    `settings`: editor id -> hash of its effective settings, the makers of controls among them.
    `makes`: editor id -> the controls that it makes with its own parts.
    """
    planned: list[Trial] = []
    if audit.experiments.diagnose is not None:
        planned += _diagnose(audit, protocol, audit.experiments.diagnose, portraits, settings)
    planned += _controls(audit, protocol, portraits, settings, makes or {})
    return planned


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


def prompts(protocol: Protocol, wanted: Diagnose) -> list[Prompt]:
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
        if not trial.is_control:
            strata.setdefault((trial.prompt, group_of[trial.portrait]), set()).add(trial.portrait)
    for (prompt, _), people in strata.items():
        drawn = sorted(people, key=lambda person: digest("measured", portrait=person, prompt=prompt))
        yield from ((prompt, person) for person in drawn[: _part(len(people), share)])


def _part(whole: int, share: float) -> int:
    """Rounded up, so that no stratum is left out; 1e-9: 0.07 × 100 is a little more than 7."""
    return math.ceil(whole * share - 1e-9)
