"""A commented policy to start from, made from what the protocol declares.

Where the protocol has a threshold of its own (the margin within which rates may be called alike) it stands in the
rule; where it has none, the policy says that the number is the user's to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from stillme.assurance.gate.evidence import protocol_of
from stillme.core.atomic import replace_file
from stillme.core.errors import InputError, disk
from stillme.protocol import Protocol
from stillme.stats.disparity import is_wanted

CALIBRATION_RULE = (
    "  - {kind: calibration}         # run `stillme calibrate` first; `severity: warn` where you cannot yet\n"
)


def start(file: Path, run: Path | None = None, protocol: Path | None = None) -> Path:
    """Write a policy to start from, by the run's protocol where one is given. Never overwrite anything."""
    if file.exists():
        raise InputError(f"{file} exists already.", "Give another name, or move it away.")
    text = policy(file.name, protocol_of(run, protocol))
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode())
    return file


def policy(name: str, protocol: Protocol) -> str:
    """Return the text of a policy. `name`: of its file."""
    declared = protocol.analysis
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    template = resources.files("stillme.assurance.gate").joinpath("templates/policy.yaml")
    margin = f"{declared.equivalence_points / 100:g}"
    return template.read_text(encoding="utf-8").format(
        file=name,
        made="\n".join(_success_rules(protocol)),
        endpoints=", ".join([*declared.primary.outcomes, *declared.primary.net]),
        reference=protocol.groups.labels(dimension)[reference],
        points=f"{declared.equivalence_points:g}",
        margin=margin,
        even="\n".join(_fairness_rules(protocol, dimension, margin)),
        dimension=dimension,
        judged="" if protocol.calibration is None else CALIBRATION_RULE,
        first=next(iter(protocol.rubrics.outcomes)),
        group=next((g for g in protocol.groups.ids(dimension) if g != reference), reference),
    )


def _success_rules(protocol: Protocol) -> Iterator[str]:
    """The declared outcomes that say that an edit was not made, and those that say that it was."""
    outcomes = protocol.rubrics.outcomes
    wanted = [name for name, outcome in outcomes.items() if is_wanted(protocol, outcome)]
    axes = {outcomes[name].axis for name in wanted}
    for name in protocol.analysis.primary.outcomes:
        if outcomes[name].axis in axes and name not in wanted:
            yield f"  - {{kind: {name}, over: [everyone], at_most: 0.1}}"
            worst = f"name: {name.replace('_', ' ')} in the worst group, over: [worst_group]"
            yield f"  - {{kind: {name}, {worst}, at_most: 0.2}}"
    yield from (f"  - {{kind: {name}, over: [everyone], at_least: 0.8}}" for name in wanted)


def _fairness_rules(protocol: Protocol, dimension: str, margin: str) -> Iterator[str]:
    for name in protocol.analysis.primary.outcomes:
        about = f"name: {name.replace('_', ' ')} by {dimension}, outcome: {name}, dimension: {dimension}"
        yield f"  - {{kind: disparity, {about}, at_most: {margin}, undecided: warn}}"
    for axis in protocol.analysis.primary.net:
        bounds = f"at_least: -{margin}, at_most: {margin}, undecided: warn"
        yield f"  - {{kind: net, name: {axis.replace('_', ' ')} on balance, axis: {axis}, {bounds}}}"
