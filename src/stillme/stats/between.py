"""Editor against editor on the persons that both were given.

A face that is hard for one editor is often hard for the other, so differences are taken within persons: of the
rate, of the fixed contrast (everyone else − reference group), and of max − min less its bias. Persons whom only
one editor has a judged edit of are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.contrast import (
    DRAWS,
    FEWER_DRAWS,
    FEWEST_PERSONS,
    MANY_PERSONS,
    TIE,
    Difference,
    permutation_ps,
    welch,
    with_interval,
)
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.resample import People, gather, reach, resampled

_SCHEMA = {
    **dict.fromkeys(("quantity", "outcome", "editor", "other"), pl.String),
    **dict.fromkeys(("persons", "left_out"), pl.Int64),
    **dict.fromkeys(("estimate", "other_estimate", "difference", "low", "high", "p", "p_holm"), pl.Float64),
}


Pairs = list[tuple[int, int]]  # places of two columns: the same outcome under two editors


@dataclass(frozen=True)
class Compared:
    """One quantity of two editors, over the persons that they share."""

    estimate: float | None
    other_estimate: float | None
    found: Difference
    p: float | None


NOTHING = Compared(None, None, Difference(None, None, None), None)


def between(
    marked: pl.DataFrame, protocol: Protocol, seed: int = 0, level: float = LEVEL, dimension: str | None = None
) -> pl.DataFrame:
    """One row per quantity, outcome and pair of editors: `editor` − `other` on shared persons.

    `quantity` is "rate", "contrast" (of everyone else − the reference group) or "disparity" (max − min less its
    bias, from joint draws of persons). `p_holm` is corrected over all pairs and outcomes of the quantity.
    """
    main = dimension or next(iter(protocol.groups.reference_group))
    strata = [name for name in protocol.groups.dimensions if name != main]
    people = gather(marked, main, protocol.groups.ids(main), strata)
    reference = protocol.groups.reference_group.get(main)
    kinds: dict[str, Callable[[People, Pairs], list[Compared]]] = {
        "rate": lambda who, of: rates(who, of, seed, level)
    }
    if reference is not None:
        kinds["contrast"] = lambda who, of: contrasts(who, of, reference, seed, level)
    kinds["disparity"] = lambda who, of: disparities(who, of, seed, level)
    every = _pairs(people)
    rows = [row for name, compare in kinds.items() for row in _rows(name, people, every, compare)]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    corrected = [holm(part["p"].to_list()) for _, part in frame.group_by("quantity", maintain_order=True)]
    return frame.with_columns(pl.Series("p_holm", [p for part in corrected for p in part], dtype=pl.Float64))


def rates(people: People, pairs: Pairs, seed: int = 0, level: float = LEVEL) -> list[Compared]:
    """The mean over persons of own share under one editor − under the other, with Student's interval.

    p: signs of persons' differences are drawn anew; if editors do the same, either sign was as likely.
    """
    n, shares = people.size, people.shares()
    if n == 0:
        return [NOTHING] * len(pairs)
    difference = _differences(shares, pairs)
    told = []
    for (a, b), own, p in zip(pairs, difference.T, _sign_ps(difference, seed), strict=True):
        variance = float(own.var(ddof=1) / n) if n >= FEWEST_FOR_INTERVAL else None
        found = with_interval(float(own.mean()), variance, n - 1, level)
        told.append(Compared(float(shares[:, a].mean()), float(shares[:, b].mean()), found, p))
    return told


def contrasts(people: People, pairs: Pairs, reference: str, seed: int = 0, level: float = LEVEL) -> list[Compared]:
    """The difference of two editors' contrasts: Welch on persons' own differences, p by permutation of persons."""
    shares = people.shares()
    own = people.group == (people.groups.index(reference) if reference in people.groups else -1)
    if min(int(own.sum()), int((~own).sum())) < FEWEST_PERSONS:
        return [NOTHING] * len(pairs)
    each = shares[~own].mean(axis=0) - shares[own].mean(axis=0)
    difference = _differences(shares, pairs)
    ps = permutation_ps(difference, own, people.stratum, _draws(people.size), seed)
    return [
        Compared(float(each[a]), float(each[b]), welch(one[~own], one[own], level, cautious=True), p)
        for (a, b), one, p in zip(pairs, difference.T, ps, strict=True)
    ]


def disparities(people: People, pairs: Pairs, seed: int = 0, level: float = LEVEL) -> list[Compared]:
    """The difference of max − min, each less its bootstrap bias, with the SD of the difference over joint draws.

    The interval is ± t on the smallest group's persons − 1, and p comes from the same t.
    """
    if len(people.groups) < 2:
        return [NOTHING] * len(pairs)
    drawn = resampled(people, seed=seed)
    replicates = reach(drawn.replicates)
    corrected = 2 * reach(drawn.rates) - replicates.mean(axis=0)
    fewest = int(np.bincount(people.group).min())
    told = []
    for a, b in pairs:
        moved = replicates[:, a] - replicates[:, b]
        variance = float(moved.var(ddof=1)) if fewest >= FEWEST_FOR_INTERVAL else None
        found = with_interval(float(corrected[a] - corrected[b]), variance, fewest - 1, level)
        told.append(Compared(float(corrected[a]), float(corrected[b]), found, _t_p(found)))
    return told


def _differences(shares: np.ndarray, pairs: Pairs) -> np.ndarray:
    """[persons, pairs]: each person's share under one editor − under the other."""
    first, second = np.array(pairs).T
    return np.asarray(shares[:, first] - shares[:, second])


def _pairs(people: People) -> Pairs:
    """Every two editors' columns of the same outcome."""
    outcomes = list(dict.fromkeys(outcome for _, outcome in people.columns))
    places = {column: place for place, column in enumerate(people.columns)}
    editors = list(dict.fromkeys(editor for editor, _ in people.columns))
    return [
        (places[(a, outcome)], places[(b, outcome)])
        for outcome in outcomes
        for a, b in combinations(editors, 2)
        if (a, outcome) in places and (b, outcome) in places
    ]


def _rows(
    quantity: str, people: People, pairs: Pairs, compare: Callable[[People, Pairs], list[Compared]]
) -> list[dict[str, object]]:
    """A row a pair, in their order. Pairs that share the same persons are compared from the same draws."""
    known = people.known()
    masks = [known[:, a] & known[:, b] for a, b in pairs]
    alike: dict[bytes, list[int]] = {}
    for index, mask in enumerate(masks):
        alike.setdefault(mask.tobytes(), []).append(index)
    rows: dict[int, dict[str, object]] = {}
    for places in alike.values():
        columns = sorted({column for index in places for column in pairs[index]})
        shared = _shared(people, masks[places[0]], columns)
        here = [(columns.index(pairs[index][0]), columns.index(pairs[index][1])) for index in places]
        for index, pair, told in zip(places, here, compare(shared, here), strict=True):
            left_out = int(known[:, list(pairs[index])].any(axis=1).sum()) - shared.size
            rows[index] = _row(quantity, shared, pair, left_out, told)
    return [rows[index] for index in range(len(pairs))]


def _shared(people: People, both: np.ndarray, columns: Sequence[int]) -> People:
    """Only the persons that both editors have a trial of, and only the groups that they belong to."""
    present, group = np.unique(people.group[both], return_inverse=True)
    return People(
        tuple(people.groups[place] for place in present),
        group,
        people.stratum[both],
        tuple(people.columns[place] for place in columns),
        people.sums[both][:, columns],
        people.trials[both][:, columns],
    )


def _row(quantity: str, shared: People, pair: tuple[int, int], left_out: int, told: Compared) -> dict[str, object]:
    (editor, outcome), (other, _) = (shared.columns[place] for place in pair)
    return {
        "quantity": quantity,
        "outcome": outcome,
        "editor": editor,
        "other": other,
        "persons": shared.size,
        "left_out": left_out,
        "estimate": told.estimate,
        "other_estimate": told.other_estimate,
        "difference": told.found.difference,
        "low": told.found.low,
        "high": told.found.high,
        "p": told.p,
    }


def _draws(persons: int) -> int:
    return DRAWS if persons < MANY_PERSONS else FEWER_DRAWS


def _sign_ps(difference: np.ndarray, seed: int) -> list[float | None]:
    """Two-sided p of every column's mean under signs drawn anew; None with too few persons to say anything."""
    persons, columns = difference.shape
    if persons < FEWEST_FOR_INTERVAL:
        return [None] * columns
    draws = _draws(persons)
    signs = np.random.default_rng(seed).integers(0, 2, (draws, persons), dtype=np.int8) * 2.0 - 1.0
    beyond = np.abs(signs @ difference) >= np.abs(difference.sum(axis=0)) - TIE
    return [float(p) for p in (1 + beyond.sum(axis=0)) / (draws + 1)]


def _t_p(found: Difference) -> float | None:
    if found.error is None or found.df is None or found.difference is None:
        return None
    return float(2 * special.stdtr(found.df, -abs(found.difference) / found.error))
