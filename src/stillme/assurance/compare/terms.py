"""What the scores of a run rest on, besides its editor: whoever differs in it measured something else.

A table of scores says less than a run. What it does not say is not held against it, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stillme.analysis.tables.inputs import Inputs
from stillme.core.records import Role
from stillme.plan.config import Config
from stillme.plan.design import settings_hashes
from stillme.protocol import Protocol


@dataclass(frozen=True)
class Terms:
    """`judges`: in their ranks, id, role and hash of the settings; `disclose`: what they are told of the person.

    Both are None where nobody says. `named`: the ids of all judges, an instrument beside them among them.
    `simulated`: whether anything in it was planted.
    """

    protocol: Protocol
    preset: str
    named: tuple[str, ...] = ()
    judges: tuple[tuple[str, str, str], ...] | None = None
    disclose: tuple[str, ...] | None = None
    simulated: bool = False


def of_config(config: Config) -> Terms:
    every = config.ranked_judges()
    rows = [row for row in every if row.role is not Role.INSTRUMENT]
    hashed = settings_hashes("judge", config.judges)
    made = (*config.editors.values(), *config.judges.values())
    return Terms(
        config.protocol,
        config.audit.preset,
        tuple(row.id for row in every),
        tuple((row.id, row.role.value, hashed[row.id]) for row in rows),
        tuple(sorted(config.disclose)),
        any(one.simulated for one in made),
    )


def of_table(inputs: Inputs) -> Terms:
    judged = inputs.scores.judged
    named = () if judged is None else tuple(judged.sort("rank")["judge"].unique(maintain_order=True))
    return Terms(inputs.protocol, inputs.preset, named)


def apart(a: Terms, b: Terms) -> list[str]:
    """Why two sets of scores cannot be set against each other, in sentences; empty where they can."""
    return [*_protocols(a.protocol, b.protocol), *_presets(a, b), *_judges(a, b)]


def _protocols(a: Protocol, b: Protocol) -> Iterator[str]:
    if a.hash == b.hash:
        return
    if a.rubrics.outcomes != b.rubrics.outcomes:
        changed = [name for name in {**a.rubrics.outcomes, **b.rubrics.outcomes} if _moved(a, b, name)]
        yield f"Their outcomes have other thresholds ({', '.join(changed)})."
    files = [name for name in {**a.files, **b.files} if a.files.get(name) != b.files.get(name)]
    told = f"{', '.join(files[:4])}{', …' if len(files) > 4 else ''}"
    yield f"They were made with different protocols ({a.hash[:12]} and {b.hash[:12]}; {told} differ)."


def _moved(a: Protocol, b: Protocol, outcome: str) -> bool:
    return a.rubrics.outcomes.get(outcome) != b.rubrics.outcomes.get(outcome)


def _presets(a: Terms, b: Terms) -> Iterator[str]:
    if a.preset != b.preset:
        yield f"Their presets differ ({a.preset} and {b.preset})."


def _judges(a: Terms, b: Terms) -> Iterator[str]:
    if a.judges is None or b.judges is None:
        if a.named and b.named and set(a.named) != set(b.named):
            yield f"Other judges scored them ({', '.join(a.named)} and {', '.join(b.named)})."
        return
    if _settings(a) != _settings(b):
        told = f"{_ranked(a)} and {_ranked(b)}"
        yield f"Other judges scored them, or the same with other settings or roles ({told})."
    if a.disclose != b.disclose:
        told = " and ".join(", ".join(one.disclose or ()) or "nothing" for one in (a, b))
        yield f"Their judges were told different things of the source person ({told})."


def _settings(terms: Terms) -> list[tuple[str, str]]:
    """Roles and settings: the same judge may have another id elsewhere."""
    return [(role, settings) for _, role, settings in terms.judges or ()]


def _ranked(terms: Terms) -> str:
    """Judges with the beginnings of their settings' hashes."""
    return ", ".join(f"{name} {settings[:8]}" for name, _, settings in terms.judges or ()) or "none"


def unsaid(a: Terms, b: Terms) -> Iterator[str]:
    """What has to be taken on trust."""
    if a.judges is None or b.judges is None:
        yield "A table does not say how its judges were set: that both had the same is taken on trust."
