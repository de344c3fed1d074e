"""Two versions of an editor, set against each other: read, matched, compared. `stillme compare A B`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from stillme.assurance.compare.inputs import (
    Side,
    find_incompatibilities,
    main_arm,
    match_persons,
    read,
    select_editors,
    shared_arms,
)
from stillme.core.errors import InputError
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.stats import versions
from stillme.stats.mitigation import summaries
from stillme.stats.versions import Shared, Versions, Watched

ANYWAY = "The difference would not be the editors' alone. Compare runs that differ in the editor, or add --anyway."


@dataclass(frozen=True)
class CompareOptions:
    """What the command line asks for. `outcomes`: what is claimed about, in place of the declared endpoints.

    `margin`: in shares; None: the protocol's. `anyway`: compare what cannot be compared, and say so.
    """

    a: Path
    b: Path
    editor_a: str = ""
    editor_b: str = ""
    outcomes: Sequence[str] = ()
    margin: float | None = None
    sequential: bool = False
    anyway: bool = False
    protocol: Path | None = None
    preset: str | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of audits that were run together: persons looked at, calls made so far, and what was seen."""

    persons: int
    calls: int
    watched: tuple[Watched, ...]


@dataclass(frozen=True, kw_only=True)
class SequentialRun:
    """How audits were run step by step. `next_calls`: of the step that would have passed the budget, or 0."""

    steps: tuple[Step, ...]
    budget: int
    persons: int
    next_calls: int

    @property
    def calls(self) -> int:
        return self.steps[-1].calls if self.steps else 0


@dataclass(frozen=True, kw_only=True)
class ComparisonResult:
    """The result. `incompatibilities`: why the two could not be compared, were it not asked for anyway.

    `matched_by`: what makes persons the same. `arm`: the experiment and arm that the tables are of; `arms`: all.
    `watched`: the confidence sequences, where they were asked for.
    """

    a: Side
    b: Side
    incompatibilities: tuple[str, ...]
    matched_by: str
    arm: tuple[str, str]
    shared: Shared
    versions: Versions
    arms: pl.DataFrame
    watched: tuple[Watched, ...] = ()
    driven: SequentialRun | None = None

    @property
    def protocol(self) -> Protocol:
        return self.versions.protocol

    @property
    def notes(self) -> list[str]:
        """What a reader should know; the gravest first."""
        a, b = self.a, self.b
        notes = []
        # Work that stopped because of what was seen may not be read as if it had been meant to stop there.
        waiting = max(a.waiting, b.waiting)
        if waiting and self.driven is None:
            stopped = (
                "if work stopped because of what was seen, intervals and p-values do not hold: use --sequential"
            )
            notes.append(f"Edits of {waiting:,} persons are not made yet; {stopped}.")
        if a.terms.judges is None or b.terms.judges is None:
            notes.append("A table does not say how its judges were set: that both had the same is taken on trust.")
        if a.terms.simulated or b.terms.simulated:
            notes.append("Some editors or judges are simulated: what they show was planted, not found.")
        if a.settings and a.settings == b.settings:
            notes.append(
                "Both editors have the very same settings: what differs is chance, or what a service changed "
                "unsaid."
            )
        return notes


def compare_sides(options: CompareOptions) -> ComparisonResult:
    """Read both sides and compare one editor of each, or say why that cannot be done."""
    a = read("A", options.a, options.protocol, options.preset)
    b = read("B", options.b, options.protocol, options.preset)
    return compare_editor_pair(*select_editors(a, b, options.editor_a, options.editor_b), options)


def compare_editor_pair(
    a: Side, b: Side, options: CompareOptions, among: Collection[str] | None = None
) -> ComparisonResult:
    """One editor of each side. `among`: the persons to look at, by picture; None: all of them."""
    incompatibilities = incompatibility_notes(find_incompatibilities(a.terms, b.terms), options.anyway)
    protocol = a.terms.protocol
    lacking = [name for name in protocol.groups.dimensions if name not in b.scores.columns]
    if lacking:
        raise InputError(f"B knows nothing of {', '.join(lacking)}, by which A tells groups.", "Use one protocol.")
    a, b, matched_by = match_persons(a, b)
    if among is not None:
        a, b = (replace(s, scores=s.scores.filter(pl.col("person").is_in(list(among)))) for s in (a, b))
    arms = shared_arms(a.scores, b.scores)
    if not arms:
        raise InputError("A and B share no experiment and arm.", "Give runs of the same experiments.")
    arm = main_arm(arms, protocol)
    first, second = (_scores_of(side.scores, arm) for side in (a, b))
    paired = versions.pairs(first, second, protocol)
    _refuse_nothing(first, second, paired, matched_by)
    endpoints = checked(tuple(options.outcomes) or versions.declared(protocol), protocol)
    margin = protocol.analysis.equivalence_points / 100 if options.margin is None else options.margin
    result = Versions(paired, protocol, endpoints, margin, options.seed)
    return ComparisonResult(
        a=a,
        b=b,
        incompatibilities=incompatibilities,
        matched_by=matched_by,
        arm=arm,
        shared=versions.shared(first, second, paired, protocol),
        versions=result,
        arms=pl.concat([_summarize_arm(a.scores, b.scores, one, protocol) for one in arms]),
        watched=tuple(result.watched(primary(options, protocol))) if options.sequential else (),
    )


def incompatibility_notes(reasons: Sequence[str], anyway: bool) -> tuple[str, ...]:
    if reasons and not anyway:
        raise InputError(f"A and B cannot be compared. {' '.join(reasons)}", ANYWAY)
    return tuple(reasons)


def checked(outcomes: Sequence[str], protocol: Protocol) -> tuple[str, ...]:
    available = versions.known(protocol)
    for outcome in outcomes:
        if outcome not in available:
            raise InputError(f"--outcome: {unknown(outcome, 'outcome or signed axis', available)}.")
    return tuple(dict.fromkeys(outcomes))


def primary(options: CompareOptions, protocol: Protocol) -> tuple[str, ...]:
    """What is watched person by person: what was asked for, else the first declared endpoint."""
    outcomes = tuple(options.outcomes) or versions.declared(protocol)[:1]
    if not outcomes:
        raise InputError("The protocol declares no endpoint to watch.", "Name one with --outcome.")
    return checked(outcomes, protocol)


def _scores_of(scores: pl.DataFrame, arm: tuple[str, str]) -> pl.DataFrame:
    return scores.filter((pl.col("experiment") == arm[0]) & (pl.col("arm") == arm[1]))


def _summarize_arm(a: pl.DataFrame, b: pl.DataFrame, arm: tuple[str, str], protocol: Protocol) -> pl.DataFrame:
    paired = versions.pairs(_scores_of(a, arm), _scores_of(b, arm), protocol)
    return summaries(paired, ["experiment", "arm", "outcome"]).rename(versions.OURS)


def _refuse_nothing(a: pl.DataFrame, b: pl.DataFrame, paired: pl.DataFrame, matched_by: str) -> None:
    if not set(a["person"]) & set(b["person"]):
        counts = f"{a['person'].n_unique():,} in A and {b['person'].n_unique():,} in B"
        raise InputError(
            f"A and B share no person: of {counts}, none is the same by {matched_by}.",
            "Compare runs on the same portraits.",
        )
    if not set(a["prompt"]) & set(b["prompt"]):
        raise InputError("A and B share no prompt.", "Compare runs that asked for the same edits.")
    if not paired["difference"].count():
        raise InputError(
            "No pair of edits of the same person and prompt has a score in both A and B.",
            "Go on with the audits (`stillme run`), or give other runs.",
        )
