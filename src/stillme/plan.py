"""The plan: portraits × prompts × editors × arms × seeds -> trials. Pure, and in the same order every time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stillme.config import Audit, Diagnose
from stillme.protocol import Protocol
from stillme.protocol.schema import Prompt
from stillme.records import Portrait, Trial

DIAGNOSE = "diagnose"


def trials(
    audit: Audit, protocol: Protocol, portraits: Sequence[Portrait], settings: Mapping[str, str]
) -> list[Trial]:
    """Every trial that the audit asks for. `settings`: editor id -> hash of its effective settings."""
    planned: list[Trial] = []
    if audit.experiments.diagnose is not None:
        planned += _diagnose(audit, protocol, audit.experiments.diagnose, portraits, settings)
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
                            seed=editor.seed + arm.seed_offset + step,
                        )


def prompts(protocol: Protocol, wanted: Diagnose) -> list[Prompt]:
    """The prompts asked for, in the protocol's order."""
    return [p for p in protocol.prompts.prompts if wanted.prompts == "all" or p.id in wanted.prompts]
