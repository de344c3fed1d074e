"""Two versions of an editor, set against each other: read, matched, compared. `stillme compare A B`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from stillme.assurance.compare import sides
from stillme.assurance.compare.sides import Side
from stillme.assurance.compare.terms import apart, unsaid
from stillme.core.errors import InputError
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.stats import versions as statistics
from stillme.stats.mitigation import summaries
from stillme.stats.versions import Shared, Versions, Watched

ANYWAY = "The difference would not be the editors' alone. Compare runs that differ in the editor, or add --anyway."


@dataclass(frozen=True)
class Asked:
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


@dataclass(frozen=True)
class Step:
    """One step of audits that were run together: persons looked at, calls made so far, and what was seen."""

    persons: int
    calls: int
    watched: tuple[Watched, ...]


@dataclass(frozen=True)
class Driven:
    """How audits were run step by step. `more`: the calls of the step that would have passed the budget, or 0."""

    steps: tuple[Step, ...]
    budget: int
    persons: int
    more: int

    @property
    def calls(self) -> int:
        return self.steps[-1].calls if self.steps else 0


@dataclass(frozen=True)
class Compared:
    """What was found. `apart`: why the two could not be compared, were it not asked for anyway.

    `by`: how persons were told to be the same. `about`: the experiment and arm that the tables are of; `arms`: the
    others. `watched`: the confidence sequences, where they were asked for.
    """

    a: Side
    b: Side
    apart: tuple[str, ...]
    by: str
    about: tuple[str, str]
    shared: Shared
    found: Versions
    arms: pl.DataFrame
    watched: tuple[Watched, ...] = ()
    driven: Driven | None = None

    @property
    def protocol(self) -> Protocol:
        return self.found.protocol

    @property
    def notes(self) -> list[str]:
        """What a reader should know; the gravest first."""
        return [*_unfinished(self), *_notes(self)]


def compare(asked: Asked) -> Compared:
    """Reads both sides and compares one editor of each, or says why that cannot be done."""
    a = sides.read("A", asked.a, asked.protocol, asked.preset)
    b = sides.read("B", asked.b, asked.protocol, asked.preset)
    return compared(*sides.chosen(a, b, asked.editor_a, asked.editor_b), asked)


def compared(a: Side, b: Side, asked: Asked, among: Collection[str] | None = None) -> Compared:
    """One editor of each side. `among`: the persons to look at, by picture; None: all of them."""
    why = refused(apart(a.terms, b.terms), asked.anyway)
    protocol = a.terms.protocol
    lacking = [name for name in protocol.groups.dimensions if name not in b.scores.columns]
    if lacking:
        raise InputError(f"B knows nothing of {', '.join(lacking)}, by which A tells groups.", "Use one protocol.")
    a, b, by = sides.matched(a, b)
    if among is not None:
        a, b = (replace(s, scores=s.scores.filter(pl.col("person").is_in(list(among)))) for s in (a, b))
    known = sides.arms(a.scores, b.scores)
    if not known:
        raise InputError("A and B share no experiment and arm.", "Give runs of the same experiments.")
    about = sides.main_arm(known, protocol)
    first, second = (_of_arm(side.scores, about) for side in (a, b))
    paired = statistics.pairs(first, second, protocol)
    _refuse_nothing(first, second, paired, by)
    endpoints = tuple(asked.outcomes) or statistics.declared(protocol)
    margin = protocol.analysis.equivalence_points / 100 if asked.margin is None else asked.margin
    found = Versions(paired, protocol, checked(endpoints, protocol), margin, asked.seed)
    others = pl.concat([_summed(a.scores, b.scores, one, protocol) for one in known])
    watched = tuple(found.watched(primary(asked, protocol))) if asked.sequential else ()
    counts = statistics.shared(first, second, paired, protocol)
    return Compared(a, b, why, by, about, counts, found, others, watched)


def refused(why: Sequence[str], anyway: bool) -> tuple[str, ...]:
    if why and not anyway:
        raise InputError(f"A and B cannot be compared. {' '.join(why)}", ANYWAY)
    return tuple(why)


def checked(outcomes: Sequence[str], protocol: Protocol) -> tuple[str, ...]:
    every = statistics.known(protocol)
    for outcome in outcomes:
        if outcome not in every:
            raise InputError(f"--outcome: {unknown(outcome, 'outcome or signed axis', every)}.")
    return tuple(dict.fromkeys(outcomes))


def primary(asked: Asked, protocol: Protocol) -> tuple[str, ...]:
    """What is watched person by person: what was asked for, else the first declared endpoint."""
    wanted = tuple(asked.outcomes) or statistics.declared(protocol)[:1]
    if not wanted:
        raise InputError("The protocol declares no endpoint to watch.", "Name one with --outcome.")
    return checked(wanted, protocol)


def _of_arm(scores: pl.DataFrame, about: tuple[str, str]) -> pl.DataFrame:
    return scores.filter((pl.col("experiment") == about[0]) & (pl.col("arm") == about[1]))


def _refuse_nothing(a: pl.DataFrame, b: pl.DataFrame, paired: pl.DataFrame, by: str) -> None:
    persons = set(a["person"]) & set(b["person"])
    if not persons:
        counts = f"{a['person'].n_unique():,} in A and {b['person'].n_unique():,} in B"
        raise InputError(
            f"A and B share no person: of {counts}, none is the same by {by}.",
            "Compare runs on the same portraits.",
        )
    if not set(a["prompt"]) & set(b["prompt"]):
        raise InputError("A and B share no prompt.", "Compare runs that asked for the same edits.")
    if not paired["difference"].count():
        raise InputError(
            "No pair of edits of the same person and prompt has a score in both A and B.",
            "Go on with the audits (`stillme run`), or give other runs.",
        )


def _summed(a: pl.DataFrame, b: pl.DataFrame, about: tuple[str, str], protocol: Protocol) -> pl.DataFrame:
    some = statistics.pairs(_of_arm(a, about), _of_arm(b, about), protocol)
    return summaries(some, ["experiment", "arm", "outcome"]).rename(statistics.OURS)


def _notes(compared: Compared) -> Iterator[str]:
    a, b = compared.a, compared.b
    yield from unsaid(a.terms, b.terms)
    if a.terms.simulated or b.terms.simulated:
        yield "Some editors or judges are simulated: what they show was planted, not found."
    if a.settings and a.settings == b.settings:
        yield "Both editors have the very same settings: what differs is chance, or what a service changed unsaid."


def _unfinished(compared: Compared) -> Iterator[str]:
    """Work that stopped by what was seen may not be read as if it had been meant to stop there."""
    waiting = max(compared.a.waiting, compared.b.waiting)
    if waiting and compared.driven is None:
        stopped = "if work stopped because of what was seen, intervals and p-values do not hold: use --sequential"
        yield f"Edits of {waiting:,} persons are not made yet; {stopped}."
