"""Editor against editor on the persons that both were given.

A face that is hard for one editor is often hard for the other, so differences are taken within persons: of the
rate, of the fixed contrast (everyone else − reference group), and of max − min less its bias. Persons whom only
one editor has a judged edit of are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import polars as pl
from scipy import special

from stillme.analysis.contrast import (
    DRAWS,
    FEWER_DRAWS,
    MANY_PERSONS,
    MOST_KEPT,
    TIE,
    Difference,
    permutation_p,
    welch,
    with_interval,
)
from stillme.analysis.families import holm
from stillme.analysis.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.analysis.resample import People, gather, reach, resampled
from stillme.protocol import Protocol

_SCHEMA = {
    **dict.fromkeys(("quantity", "outcome", "editor", "other"), pl.String),
    **dict.fromkeys(("persons", "left_out"), pl.Int64),
    **dict.fromkeys(("estimate", "other_estimate", "difference", "low", "high", "p", "p_holm"), pl.Float64),
}


@dataclass(frozen=True)
class Compared:
    """One quantity of two editors, over the persons that they share."""

    estimate: float | None
    other_estimate: float | None
    found: Difference
    p: float | None


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
    kinds: dict[str, Callable[[People], Compared]] = {"rate": lambda pair: rates(pair, seed, level)}
    if reference is not None:
        kinds["contrast"] = lambda pair: contrasts(pair, reference, seed, level)
    kinds["disparity"] = lambda pair: disparities(pair, seed, level)
    rows = [_row(name, pair, compare) for name, compare in kinds.items() for pair in _pairs(people)]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    corrected = [holm(part["p"].to_list()) for _, part in frame.group_by("quantity", maintain_order=True)]
    return frame.with_columns(pl.Series("p_holm", [p for part in corrected for p in part], dtype=pl.Float64))


def rates(pair: People, seed: int = 0, level: float = LEVEL) -> Compared:
    """The mean over persons of own share under one editor − under the other, with Student's interval.

    p: signs of persons' differences are drawn anew; if editors do the same, either sign was as likely.
    """
    shares = pair.shares()
    difference = shares[:, 0] - shares[:, 1]
    n = len(difference)
    if n == 0:
        return Compared(None, None, Difference(None, None, None), None)
    few = n < FEWEST_FOR_INTERVAL
    variance = None if few else float(difference.var(ddof=1) / n)
    found = with_interval(float(difference.mean()), variance, n - 1, level)
    return Compared(float(shares[:, 0].mean()), float(shares[:, 1].mean()), found, _sign_p(difference, seed))


def contrasts(pair: People, reference: str, seed: int = 0, level: float = LEVEL) -> Compared:
    """The difference of two editors' contrasts: Welch on persons' own differences, p by permutation of persons."""
    shares = pair.shares()
    own = pair.group == (pair.groups.index(reference) if reference in pair.groups else -1)
    difference = shares[:, 0] - shares[:, 1]
    found = welch(difference[~own], difference[own], level, cautious=True)
    if found.difference is None:
        return Compared(None, None, found, None)
    each = shares[~own].mean(axis=0) - shares[own].mean(axis=0)
    p = permutation_p(difference, own, pair.stratum, _draws(len(own)), seed)
    return Compared(float(each[0]), float(each[1]), found, p)


def disparities(pair: People, seed: int = 0, level: float = LEVEL) -> Compared:
    """The difference of max − min, each less its bootstrap bias, with the SD of the difference over joint draws.

    The interval is ± t on the smallest group's persons − 1, and p comes from the same t.
    """
    drawn = resampled(pair, seed=seed)
    if (drawn.persons.max(axis=0, initial=0) == 0).any() or len(pair.groups) < 2:
        return Compared(None, None, Difference(None, None, None), None)
    seen, replicates = reach(drawn.rates), reach(drawn.replicates)
    corrected = 2 * seen - replicates.mean(axis=0)
    fewest = int(drawn.persons.min())
    variance = float((replicates[:, 0] - replicates[:, 1]).var(ddof=1)) if fewest >= FEWEST_FOR_INTERVAL else None
    found = with_interval(float(corrected[0] - corrected[1]), variance, fewest - 1, level)
    return Compared(float(corrected[0]), float(corrected[1]), found, _t_p(found))


def _pairs(people: People) -> list[People]:
    """Every two editors' columns of the same outcome, with the persons that both have a trial of."""
    outcomes = list(dict.fromkeys(outcome for _, outcome in people.columns))
    places = {column: place for place, column in enumerate(people.columns)}
    editors = list(dict.fromkeys(editor for editor, _ in people.columns))
    wanted = [
        (places[(a, outcome)], places[(b, outcome)])
        for outcome in outcomes
        for a, b in combinations(editors, 2)
        if (a, outcome) in places and (b, outcome) in places
    ]
    return [_taken(people, both) for both in wanted]


def _taken(people: People, columns: Sequence[int]) -> People:
    return replace(
        people,
        columns=tuple(people.columns[place] for place in columns),
        sums=people.sums[:, columns],
        trials=people.trials[:, columns],
    )


def _shared(pair: People) -> People:
    """Only the persons that both editors have a trial of, and only the groups that they belong to."""
    both = pair.known().all(axis=1)
    present, group = np.unique(pair.group[both], return_inverse=True)
    return People(
        tuple(pair.groups[place] for place in present),
        group,
        pair.stratum[both],
        pair.columns,
        pair.sums[both],
        pair.trials[both],
    )


def _row(quantity: str, pair: People, compare: Callable[[People], Compared]) -> dict[str, object]:
    shared = _shared(pair)
    told = compare(shared)
    (editor, outcome), (other, _) = pair.columns
    return {
        "quantity": quantity,
        "outcome": outcome,
        "editor": editor,
        "other": other,
        "persons": shared.size,
        "left_out": int(pair.known().any(axis=1).sum()) - shared.size,
        "estimate": told.estimate,
        "other_estimate": told.other_estimate,
        "difference": told.found.difference,
        "low": told.found.low,
        "high": told.found.high,
        "p": told.p,
    }


def _draws(persons: int) -> int:
    return DRAWS if persons < MANY_PERSONS else FEWER_DRAWS


def _sign_p(difference: np.ndarray, seed: int) -> float | None:
    """Two-sided p of the mean under signs drawn anew; None with too few persons to say anything."""
    if len(difference) < FEWEST_FOR_INTERVAL:
        return None
    draws = _draws(len(difference))
    drawn = _kept_signs if len(difference) <= MOST_KEPT else _signs
    beyond = np.abs(drawn(len(difference), draws, seed) @ difference) >= abs(difference.sum()) - TIE
    return float((1 + beyond.sum()) / (draws + 1))


def _signs(persons: int, draws: int, seed: int) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return np.asarray(chance.integers(0, 2, (draws, persons), dtype=np.int8) * 2.0 - 1.0)


_kept_signs = lru_cache(maxsize=2)(_signs)  # every outcome and pair of editors is drawn alike


def _t_p(found: Difference) -> float | None:
    if found.error is None or found.df is None or found.difference is None:
        return None
    return float(2 * special.stdtr(found.df, -abs(found.difference) / found.error))
