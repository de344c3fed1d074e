"""How a gate starts: a commented policy, made from what the protocol declares.

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

CALIBRATED = (
    "  - {kind: calibration}         # run `stillme calibrate` first; `severity: warn` where you cannot yet\n"
)


def start(file: Path, run: Path | None = None, protocol: Path | None = None) -> Path:
    """Writes a policy to start from, by the run's protocol where one is given. Never overwrites anything."""
    if file.exists():
        raise InputError(f"{file} exists already.", "Give another name, or move it away.")
    text = policy(file.name, protocol_of(run, protocol))
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode())
    return file


def policy(name: str, protocol: Protocol) -> str:
    declared = protocol.analysis
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    shipped = (
        resources.files("stillme.assurance.gate").joinpath("templates/policy.yaml").read_text(encoding="utf-8")
    )
    return shipped.format(
        file=name,
        made="\n".join(_made(protocol)),
        endpoints=", ".join([*declared.primary.outcomes, *declared.primary.net]),
        reference=protocol.groups.labels(dimension)[reference],
        points=f"{declared.equivalence_points:g}",
        margin=_margin(protocol),
        even="\n".join(_even(protocol, dimension)),
        dimension=dimension,
        judged="" if protocol.calibration is None else CALIBRATED,
        first=next(iter(protocol.rubrics.outcomes)),
        group=next((g for g in protocol.groups.ids(dimension) if g != reference), reference),
    )


def _margin(protocol: Protocol) -> str:
    return f"{protocol.analysis.equivalence_points / 100:g}"


def _made(protocol: Protocol) -> Iterator[str]:
    """The declared outcomes that say that an edit was not made, and those that say that it was."""
    outcomes = protocol.rubrics.outcomes
    wanted = [name for name, one in outcomes.items() if is_wanted(protocol, one)]
    axes = {outcomes[name].axis for name in wanted}
    for name in protocol.analysis.primary.outcomes:
        if outcomes[name].axis in axes and name not in wanted:
            yield f"  - {{kind: {name}, over: [everyone], at_most: 0.1}}"
            worst = f"name: {_words(name)} in the worst group, over: [worst_group]"
            yield f"  - {{kind: {name}, {worst}, at_most: 0.2}}"
    yield from (f"  - {{kind: {name}, over: [everyone], at_least: 0.8}}" for name in wanted)


def _even(protocol: Protocol, dimension: str) -> Iterator[str]:
    declared, margin = protocol.analysis.primary, _margin(protocol)
    for name in declared.outcomes:
        about = f"name: {_words(name)} by {dimension}, outcome: {name}, dimension: {dimension}"
        yield f"  - {{kind: disparity, {about}, at_most: {margin}, undecided: warn}}"
    for axis in declared.net:
        ends = f"at_least: -{margin}, at_most: {margin}, undecided: warn"
        yield f"  - {{kind: net, name: {_words(axis)} on balance, axis: {axis}, {ends}}}"


def _words(id: str) -> str:
    return id.replace("_", " ")
