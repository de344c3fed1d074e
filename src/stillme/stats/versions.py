"""Two versions of an editor on the same persons and prompts: B − A, person by person.

A pair is a person × prompt of one experiment and arm that both versions were asked for; edits with several seeds
are averaged within it, and a pair counts where both have a score. Pairs are averaged within a person, persons are
the unit: Student's interval over them, p from flipping the sign of whole persons. Claims rest on the declared
endpoints, corrected (Holm); everything else is for reading.

What is worse is the protocol's to say: more of an outcome, unless it is the upper end of an axis that has no
"nothing changed" (an edit that succeeded). A direction (net, of signed axes) is neither: it moved up, moved down,
or did not. Nothing is ever called alike because no difference was found: two one-sided tests have to rule the
margin out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.core.records import digest
from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, FEWER_DRAWS, MANY_PERSONS, TIE, permutation_p, welch
from stillme.stats.drift import directions, signed_axes
from stillme.stats.equivalence import SIZE, noninferiority, tost
from stillme.stats.families import holm
from stillme.stats.flips import flipped_p
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.matched import matched
from stillme.stats.means import by_groups
from stillme.stats.mitigation import summaries
from stillme.stats.outcomes import mark
from stillme.stats.versions_anytime import Bounds, sequence

RATE, NET = "rate", "net"
BETTER, NO_WORSE, WORSE = "better", "not worse", "worse"
UP, DOWN, WITHIN = "moved up", "moved down", "within"
UNDECIDED = "not decided"
TOO_FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons"
SAME = "every person has the same difference"
CELL = ("experiment", "arm", "prompt", "person")
OURS = {"first_only": "a_only", "second_only": "b_only", "first_mean": "a", "second_mean": "b"}
FARTHEST = 3_000  # persons: nobody plans for more
Row = dict[str, Any]


# What is compared


def worse_when(protocol: Protocol, outcome: str) -> int:
    """1: more of it is worse; −1: less of it is; 0: a direction, of which neither is."""
    if outcome in protocol.axes:
        return 0
    about = protocol.rubrics.outcomes[outcome]
    return -1 if protocol.axes[about.axis].neutral is None and about.at_least is not None else 1


def known(protocol: Protocol) -> list[str]:
    """Everything that can be compared: the outcomes, then the signed axes' directions."""
    return [*protocol.rubrics.outcomes, *(axis.id for axis in signed_axes(protocol))]


def declared(protocol: Protocol) -> tuple[str, ...]:
    """The endpoints that claims rest on, the primary one first."""
    return (*protocol.analysis.primary.outcomes, *protocol.analysis.primary.net)


def values(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """One row per cell and outcome: the mean over seeds of 0 or 1, of a direction of −1, 0 or 1.

    `value` is null where no seed has a score. `scores`: one version's, one row a trial and axis.
    """
    keys = [*CELL, *protocol.groups.dimensions, "outcome"]
    hits = mark(scores, protocol.rubrics.outcomes).select(*keys, pl.col("hit").cast(pl.Float64).alias("value"))
    net = directions(scores, protocol).with_columns(outcome=pl.col("axis")).select(*keys, "value")
    both = pl.concat([hits, net.with_columns(pl.col("value").cast(pl.Float64))])
    labels = [pl.col(name).first() for name in protocol.groups.dimensions]
    return both.group_by(*CELL, "outcome", maintain_order=True).agg(*labels, pl.col("value").mean())


def pairs(a: pl.DataFrame, b: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """The cells that both versions were asked for: `first` is A's value, `second` B's, `difference` B − A.

    A person whom the two label differently in a dimension has no group in it.
    """
    dimensions, keys = list(protocol.groups.dimensions), [*CELL, "outcome"]
    first = values(a, protocol).rename({"value": "first"})
    second = values(b, protocol).rename({"value": "second"} | {d: f"{d}_b" for d in dimensions})
    joined = first.join(second, on=keys, how="inner", validate="1:1", maintain_order="left")
    agreed = [pl.when(pl.col(d).eq_missing(pl.col(f"{d}_b"))).then(pl.col(d)).alias(d) for d in dimensions]
    told = joined.with_columns(*agreed, difference=pl.col("second") - pl.col("first"))
    return told.drop(f"{d}_b" for d in dimensions)


@dataclass(frozen=True)
class Shared:
    """What the two versions have in common, and what only one of them has."""

    persons: int
    prompts: int
    persons_a: int
    persons_b: int
    prompts_a: int
    prompts_b: int
    pairs: int
    pairs_a: int
    pairs_b: int
    unjudged: int
    persons_unjudged: int
    relabelled: int
    p_unjudged: float | None


def shared(a: pl.DataFrame, b: pl.DataFrame, paired: pl.DataFrame, protocol: Protocol) -> Shared:
    """Counts of persons, prompts and pairs (person × prompt).

    `unjudged`: pairs without a score in A or in B; `pairs_a`, `pairs_b`: those of them with one in A or B alone.
    `p_unjudged`: whether scores are missing as often in both, signs of whole persons flipped.
    """
    persons, prompts = ((set(a[name]), set(b[name])) for name in ("person", "prompt"))
    cells = paired.group_by(CELL, maintain_order=True).agg(pl.col("first", "second").is_not_null().any())
    judged = cells.filter(pl.col("first") & pl.col("second"))
    found = matched(cells["first"].to_numpy(), cells["second"].to_numpy(), cells["person"].to_list())
    return Shared(
        persons=len(persons[0] & persons[1]),
        prompts=len(prompts[0] & prompts[1]),
        persons_a=len(persons[0] - persons[1]),
        persons_b=len(persons[1] - persons[0]),
        prompts_a=len(prompts[0] - prompts[1]),
        prompts_b=len(prompts[1] - prompts[0]),
        pairs=judged.height,
        pairs_a=found.first_only,
        pairs_b=found.second_only,
        unjudged=cells.height - judged.height,
        persons_unjudged=cells["person"].n_unique() - judged["person"].n_unique(),
        relabelled=_relabelled(a, b, protocol),
        p_unjudged=found.p_clusters,
    )


def _relabelled(a: pl.DataFrame, b: pl.DataFrame, protocol: Protocol) -> int:
    dimensions = list(protocol.groups.dimensions)
    one, other = (frame.select("person", *dimensions).unique("person") for frame in (a, b))
    both = one.join(other, on="person", suffix="_b")
    return both.filter(pl.any_horizontal(pl.col(d).ne_missing(pl.col(f"{d}_b")) for d in dimensions)).height


# Estimates and claims

_CLAIM = {
    **dict.fromkeys(("p", "p_holm", "p_margin", "p_margin_holm", "p_alike", "p_alike_holm"), pl.Float64),
    **dict.fromkeys(("verdict", "why"), pl.String),
}


@dataclass(frozen=True)
class Versions:
    """Two versions' pairs, and everything that is said of them. `endpoints`: what is claimed about, one family.

    `pairs` are those of one experiment and arm; `margin` is in shares.
    """

    pairs: pl.DataFrame
    protocol: Protocol
    endpoints: tuple[str, ...]
    margin: float
    seed: int = 0

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """A row an outcome: A's and B's mean over persons, B − A with its interval, p, and the verdict.

        p: signs of persons flipped. p_margin: one-sided, worse by the margin or more. p_alike: two one-sided
        tests, further apart than ± the margin. `_holm`: over the endpoints; others have none, and no verdict.
        """
        frame = self._summed(self.pairs, ["outcome"])
        tests = [self._tests(row) for row in frame.iter_rows(named=True)]
        whole = pl.concat([frame, pl.DataFrame(tests, schema=_TESTS)], how="horizontal")
        told = _corrected(whole, ("p", "p_margin", "p_alike"), pl.col("endpoint"))
        verdicts = [_verdict(row, self.worse_when(row["outcome"])) for row in told.iter_rows(named=True)]
        ours = told.with_columns(pl.Series("verdict", verdicts, dtype=pl.String))
        return ours.select(*frame.columns, "endpoint", "kind", *_CLAIM)

    def worse_when(self, outcome: str) -> int:
        return worse_when(self.protocol, outcome)

    @cached_property
    def _people(self) -> dict[str, pl.DataFrame]:
        labels = [pl.col(name).first() for name in self.protocol.groups.dimensions]
        known = self.pairs.drop_nulls("difference").group_by("outcome", "person", maintain_order=True)
        means = known.agg(pl.col("difference").mean(), *labels)
        return {str(name): some for (name,), some in means.group_by("outcome", maintain_order=True)}

    def people(self, outcome: str) -> pl.DataFrame:
        """Persons' own mean differences, those who have one."""
        none = next(iter(self._people.values())).clear()
        return self._people.get(outcome, none)

    def _summed(self, some: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Means and intervals; persons who do not differ at all give none."""
        frame = summaries(some, by).rename(OURS)
        spreads = pl.col("sd") > TIE
        return frame.with_columns(pl.when(spreads).then(pl.col("low", "high")))

    def _tests(self, row: Row) -> Row:
        outcome, n = row["outcome"], row["persons"]
        worse = self.worse_when(outcome)
        about = {"endpoint": outcome in self.endpoints, "kind": RATE if worse else NET}
        if n < FEWEST_FOR_INTERVAL:
            return {**about, "why": TOO_FEW}
        p = flipped_p(self.people(outcome)["difference"], seed=self.seed)
        if row["sd"] <= TIE:
            return {**about, "p": p, "why": SAME}
        error = row["sd"] / float(np.sqrt(n))
        alike = tost(row["difference"], error, n - 1, self.margin)
        harm = noninferiority(-worse * row["difference"], error, n - 1, self.margin)
        return {**about, "p": p, "p_margin": harm.p if worse else None, "p_alike": alike.p, "why": ""}

    # Did it get worse for somebody?

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Dimension × group × outcome: B − A among a group's persons; `p_holm` over a dimension's endpoints.

        `verdict`: worse, better, moved up, moved down where the corrected p is below 0.05.
        """
        split = by_groups(self.pairs, ["outcome"], self._dimensions, self._summed)
        frame = split.filter(pl.col("group").is_not_null())
        p = [self._group_p(row) for row in frame.iter_rows(named=True)]
        told = frame.with_columns(self._is_endpoint, self._kind, pl.Series("p", p, dtype=pl.Float64))
        ours = _corrected(told, ("p",), pl.col("endpoint"), "dimension")
        verdicts = [_side(row, self.worse_when(row["outcome"])) for row in ours.iter_rows(named=True)]
        named = ours.with_columns(pl.Series("verdict", verdicts, dtype=pl.String))
        return named.sort("endpoint", descending=True, maintain_order=True)

    @property
    def _is_endpoint(self) -> pl.Expr:
        return pl.col("outcome").is_in(list(self.endpoints)).alias("endpoint")

    @property
    def _kind(self) -> pl.Expr:
        is_rate = pl.col("outcome").is_in(list(self._rates))
        return pl.when(is_rate).then(pl.lit(RATE)).otherwise(pl.lit(NET)).alias("kind")

    def _group_p(self, row: Row) -> float | None:
        people = self.people(row["outcome"]).filter(pl.col(row["dimension"]) == row["group"])
        enough = people.height >= FEWEST_FOR_INTERVAL
        return flipped_p(people["difference"], seed=self.seed) if enough else None

    @property
    def _dimensions(self) -> list[str]:
        """Those in which there is somebody to set apart."""
        return [d for d in self.protocol.groups.dimensions if self.pairs[d].drop_nulls().n_unique() > 1]

    @cached_property
    def uneven(self) -> pl.DataFrame:
        """Dimension × group × outcome: a group's B − A minus the reference group's, of dimensions that have one.

        Welch on persons' own differences, p by persons who change places within the other dimensions' strata,
        `p_holm` over the endpoints. Above 0: more was added, or less taken away, than for the reference group.
        """
        frame = pl.DataFrame(list(self._uneven_rows()), schema=_UNEVEN)
        told = _corrected(frame, ("p",), self._is_endpoint)
        return told.sort(self._is_endpoint, descending=True, maintain_order=True)

    def _uneven_rows(self) -> Iterator[Row]:
        groups = self.protocol.groups
        for dimension, reference in groups.reference_group.items():
            strata = [name for name in groups.dimensions if name != dimension]
            for outcome in (
                self.pairs["outcome"].unique(maintain_order=True) if dimension in self._dimensions else ()
            ):
                people = self.people(outcome)
                for group in groups.ids(dimension):
                    some = people.filter(pl.col(dimension).is_in([group, reference]))
                    if group != reference and group in set(some[dimension]):
                        about = {
                            "dimension": dimension,
                            "group": group,
                            "reference": reference,
                            "outcome": outcome,
                        }
                        yield {**about, **self._against(some, pl.col(dimension) == reference, strata)}

    def _against(self, some: pl.DataFrame, is_reference: pl.Expr, strata: Sequence[str]) -> Row:
        own, theirs = (some.filter(which)["difference"] for which in (is_reference, ~is_reference))
        layer = some.select(pl.concat_str(pl.lit(""), *strata, separator="\t", ignore_nulls=True)).to_series()
        draws = DRAWS if some.height < MANY_PERSONS else FEWER_DRAWS
        found = welch(theirs, own, cautious=True)
        chosen = some.select(is_reference).to_series()
        return {
            "persons": len(theirs),
            "reference_persons": len(own),
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
            "p": permutation_p(some["difference"], chosen, layer, draws, self.seed),
        }

    # Which edits changed sides

    @cached_property
    def flips(self) -> pl.DataFrame:
        """Outcome by outcome, over pairs: seen in both versions, in A only, in B only, in neither (McNemar).

        `mixed`: pairs whose seeds do not agree within a version; they are in no other column. For reading: `p`
        takes pairs for independent, `p_persons` flips whole persons.
        """
        whole = self.pairs.drop_nulls("difference").filter(pl.col("outcome").is_in(list(self._rates)))
        rows = [_flips(name, some, self.seed) for (name,), some in whole.group_by("outcome", maintain_order=True)]
        return pl.DataFrame(rows, schema=_FLIPS)

    @property
    def _rates(self) -> Mapping[str, Any]:
        return self.protocol.rubrics.outcomes

    # One person after the other

    def watched(self, outcomes: Sequence[str], level: float = LEVEL) -> list[Watched]:
        """The confidence sequence of each outcome over persons by hash; together they hold with `level`."""
        each = 1 - (1 - level) / max(1, len(outcomes))
        return [self._watch(outcome, each) for outcome in outcomes]

    def _watch(self, outcome: str, level: float) -> Watched:
        people = self.people(outcome)
        differences = dict(people.select("person", "difference").iter_rows())
        values = np.array([differences[person] for person in in_turn(differences)], float)
        return Watched(outcome, self.worse_when(outcome), self.margin, level, values)


_TESTS = {
    "endpoint": pl.Boolean,
    "kind": pl.String,
    **dict.fromkeys(("p", "p_margin", "p_alike"), pl.Float64),
    "why": pl.String,
}
_UNEVEN = {
    **dict.fromkeys(("dimension", "group", "reference", "outcome"), pl.String),
    **dict.fromkeys(("persons", "reference_persons"), pl.Int64),
    **dict.fromkeys(("difference", "low", "high", "p"), pl.Float64),
}
_FLIPS = {
    "outcome": pl.String,
    **dict.fromkeys(("pairs", "both", "a_only", "b_only", "neither", "mixed", "persons"), pl.Int64),
    **dict.fromkeys(("p", "p_persons"), pl.Float64),
}


def _corrected(frame: pl.DataFrame, names: Sequence[str], endpoint: pl.Expr, family: str = "") -> pl.DataFrame:
    """With Holm's p over the endpoints, or over those of each `family`; null for everything else."""
    parts = frame.partition_by(family, maintain_order=True) if family and frame.height else [frame]
    return pl.concat([_with_holm(part, names, endpoint) for part in parts])


def _with_holm(frame: pl.DataFrame, names: Sequence[str], endpoint: pl.Expr) -> pl.DataFrame:
    claimed = frame.select(pl.when(endpoint).then(pl.col(name)).alias(name) for name in names)
    return frame.with_columns(
        pl.Series(f"{name}_holm", holm(claimed[name].to_list()), dtype=pl.Float64) for name in names
    )


def _shown(p: float | None) -> bool:
    return p is not None and p < SIZE


def _side(row: Row, worse: int) -> str | None:
    """Which way a corrected p says that it went; None where it does not."""
    if not row["endpoint"] or not _shown(row["p_holm"]):
        return None
    up = row["difference"] > 0
    if not worse:
        return UP if up else DOWN
    return WORSE if up == (worse > 0) else BETTER


def _verdict(row: Row, worse: int) -> str | None:
    """Better, or not worse by more than the margin, or worse, or not decided; of a direction, which way it moved.

    What is shown to be worse, and shown to be so by less than the margin, is not worse by more than the margin.
    """
    if not row["endpoint"]:
        return None
    side = _side(row, worse)
    if side != BETTER and _shown(row["p_margin_holm"]):
        return NO_WORSE
    if not worse and _shown(row["p_alike_holm"]):
        return WITHIN
    return side or UNDECIDED


def _flips(outcome: object, some: pl.DataFrame, seed: int) -> Row:
    whole = some.filter(pl.all_horizontal(pl.col("first", "second").is_in([0.0, 1.0])))
    found = matched(whole["first"].to_numpy(), whole["second"].to_numpy(), whole["person"].to_list(), seed)
    return {
        "outcome": str(outcome),
        "pairs": some.height,
        "both": found.both,
        "a_only": found.first_only,
        "b_only": found.second_only,
        "neither": found.neither,
        "mixed": some.height - whole.height,
        "persons": found.clusters,
        "p": found.p,
        "p_persons": found.p_clusters,
    }


# One person after the other


def in_turn(persons: Sequence[str] | Mapping[str, Any] | set[str]) -> list[str]:
    """Persons in an order that hangs on who they are alone: the same for every comparison, whatever came out."""
    return sorted(persons, key=lambda person: digest("turn", person=person))


@dataclass(frozen=True)
class Watched:
    """An outcome's confidence sequence. `after`: how many persons it took to decide; None where it is open."""

    outcome: str
    worse: int
    margin: float
    level: float
    differences: NDArray[np.float64]  # persons' own, in their order

    @cached_property
    def bounds(self) -> Bounds:
        return sequence(self.differences, self.level, 1.0 if self.worse else 2.0)

    @cached_property
    def _decisions(self) -> list[str]:
        ends = zip(self.bounds.low, self.bounds.high, strict=True)
        return [decision(float(low), float(high), self.worse, self.margin) for low, high in ends]

    @property
    def after(self) -> int | None:
        return next((n for n, said in enumerate(self._decisions, 1) if said != UNDECIDED), None)

    @property
    def verdict(self) -> str:
        """What the last look says."""
        return self._decisions[-1] if self._decisions else UNDECIDED

    @property
    def first(self) -> str:
        """What the first look that decided anything said: bounds only draw together, so it stays true."""
        return UNDECIDED if self.after is None else self._decisions[self.after - 1]

    @cached_property
    def expected(self) -> int | None:
        """How many persons it takes if those so far came again and again; None where FARTHEST are not enough."""
        if self.after is not None or not len(self.differences):
            return self.after
        again = np.resize(self.differences, max(FARTHEST, len(self.differences)))
        return replace(self, differences=again).after

    def last(self) -> Row:
        found, n = self.bounds, self.bounds.persons
        ends = (float(found.mean[-1]), float(found.low[-1]), float(found.high[-1])) if n else (None, None, None)
        return {
            "outcome": self.outcome,
            "kind": RATE if self.worse else NET,
            "persons": n,
            **dict(zip(("difference", "low", "high"), ends, strict=True)),
            "level": self.level,
            "verdict": self.verdict,
            "after": self.after,
            "first": self.first,
            "expected": self.expected,
        }

    def looks(self) -> pl.DataFrame:
        """A row a person looked at."""
        found = self.bounds
        return pl.DataFrame(
            {
                "outcome": [self.outcome] * found.persons,
                "persons": np.arange(1, found.persons + 1),
                "difference": found.mean,
                "low": found.low,
                "high": found.high,
                "verdict": self._decisions,
            },
            schema_overrides={"outcome": pl.String, "verdict": pl.String, "persons": pl.Int64},
        )


def decision(low: float, high: float, worse: int, margin: float) -> str:
    """What bounds of B − A decide: on which side of 0, or of the margin, they lie.

    >>> [decision(*ends, worse=1, margin=0.03) for ends in ((-0.1, -0.01), (-0.1, 0.02), (0.01, 0.2), (-0.1, 0.1))]
    ['better', 'not worse', 'worse', 'not decided']
    """
    if not worse:
        return WITHIN if max(-low, high) < margin else UP if low > 0 else DOWN if high < 0 else UNDECIDED
    least, most = (low, high) if worse > 0 else (-high, -low)
    if most < 0:
        return BETTER
    return NO_WORSE if most < margin else WORSE if least > 0 else UNDECIDED


WATCHED = {
    **dict.fromkeys(("outcome", "kind"), pl.String),
    "persons": pl.Int64,
    **dict.fromkeys(("difference", "low", "high", "level"), pl.Float64),
    "verdict": pl.String,
    "after": pl.Int64,
    "first": pl.String,
    "expected": pl.Int64,
}
