"""The ordinal mixed model: cumulative logits with crossed or nested random intercepts, Laplace's approximation.

P(score ≤ j) = F(θⱼ − xβ − Σₖ σₖu): a positive coefficient means higher scores. Without factors it is the ordered
logit; with two scores the mixed logistic regression. The same likelihood as R's `ordinal::clmm` (and `clm`, and
`lme4::glmer` with one quadrature point). Takes arrays; knows nothing of frames, persons or what a score means.

Spreads σ are unconstrained: their sign means nothing, so that 0 is an ordinary point where a search may end.
A direction along which the likelihood is flat (a group whose scores are all the lowest) has no estimate: what lies
in it is None with a reason, and everything else is estimated as usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from stillme.core.errors import InputError
from stillme.stats.cumulative import Codes, Floats, slopes, steps_of, thresholds
from stillme.stats.laplace import Laplace, Rows

START = 0.5  # the spread of every factor, to begin with
NUDGE = 1e-4  # for differences of gradients
ENOUGH = 1e-8  # of log-likelihood that another step would gain
ROUNDS = 200
FLAT = 1e-2  # information below which a direction has no estimate: its standard error would be above 10
TOUCHED = 1e-4  # share of a direction that is flat
NO_SPREAD = 1e-3  # a spread below this is 0
BEYOND = 10  # steps in a row past a limit, after which a search does not come back
MOST_REST = 3_000  # levels of the factors that are not eliminated: their block is dense
MOST_ENTRIES = 40_000_000  # of the blocks that are eliminated, and between them and the rest


@dataclass(frozen=True)
class Guess:
    """Where a search starts: thresholds, coefficients, spreads.

    `metric`: the inverse curvature there of the thresholds' steps, coefficients and spreads; None: not known.
    """

    at: Floats
    metric: Floats | None = None


@dataclass(frozen=True)
class Fit:
    """What was found. `estimate` and `covariance` are of thresholds, then coefficients, then spreads.

    `metric`: as in a guess, good enough to search with, not to report. `flat`: columns are directions (of
    thresholds and coefficients) that the data say nothing about. `values`: the scores that occur, lowest first;
    threshold j lies between values j and j + 1. `why`: what went wrong, or "".
    """

    names: tuple[str, ...]
    factors: tuple[str, ...]
    values: tuple[int, ...] = ()
    estimate: Floats = field(default_factory=lambda: np.zeros(0))
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    metric: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    flat: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    loglik: float | None = None
    parameters: int = 0
    observations: int = 0
    converged: bool = False
    why: str = ""
    evaluations: int = 0

    @property
    def cuts(self) -> int:
        return max(len(self.values) - 1, 0)

    @property
    def thresholds(self) -> tuple[float, ...]:
        return tuple(self.estimate[: self.cuts].tolist())

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation of each factor's intercepts, on the scale of log-odds."""
        found = self.estimate[self.cuts + len(self.names) :].tolist()
        return dict(zip(self.factors, found, strict=False))

    @property
    def coefficients(self) -> dict[str, float | None]:
        """Log-odds of a higher score; None where the data say nothing."""
        return {name: self.along(row)[0] for name, row in zip(self.names, np.eye(len(self.names)), strict=True)}

    @property
    def errors(self) -> dict[str, float | None]:
        return {name: self.along(row)[1] for name, row in zip(self.names, np.eye(len(self.names)), strict=True)}

    def along(self, weights: ArrayLike) -> tuple[float | None, float | None]:
        """A weighted sum of coefficients and its standard error."""
        wanted = np.asarray(weights, float)
        if self.loglik is None or self.is_flat(np.concatenate([np.zeros(self.cuts), wanted])):
            return None, None
        here = slice(self.cuts, self.cuts + len(self.names))
        value = float(wanted @ self.estimate[here])
        return value, float(np.sqrt(max(wanted @ self.covariance[here, here] @ wanted, 0.0)))

    def is_flat(self, direction: Floats) -> bool:
        """Whether a direction of thresholds and coefficients lies, even in part, where the data say nothing."""
        length = float(direction @ direction)
        return bool(self.flat.size and length and ((direction @ self.flat) ** 2).sum() > TOUCHED * length)

    def narrowed(self, names: Sequence[str]) -> Guess | None:
        """Where these coefficients alone are fitted, the search starts: if −log L were a parabola, at its end.

        None where the data say nothing of some coefficient here.
        """
        if self.loglik is None or self.flat.size:
            return None
        cuts, size = self.cuts, self.cuts + len(self.names)
        place = {name: cuts + k for k, name in enumerate(self.names)}
        stay = [*range(cuts), *(place[name] for name in names), *range(size, len(self.estimate))]
        go = [place[name] for name in self.names if name not in set(names)]
        at = np.concatenate([steps_of(self.estimate[:cuts]), self.estimate[cuts:]])
        across = self.metric[np.ix_(stay, go)]
        pull = np.linalg.solve(self.metric[np.ix_(go, go)], across.T).T
        moved = at[stay] - pull @ at[go]
        ends = [thresholds(moved[:cuts]), moved[cuts : cuts + len(names)], np.abs(moved[cuts + len(names) :])]
        return Guess(np.concatenate(ends), self.metric[np.ix_(stay, stay)] - pull @ across.T)


def fit(
    scores: ArrayLike,
    design: ArrayLike,
    names: Sequence[str],
    factors: Mapping[str, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    errors: bool = True,
    start: Guess | None = None,
    limits: Mapping[str, float] | None = None,
) -> Fit:
    """The model that makes the scores most likely.

    `design` has a column per name, without a constant (thresholds take its place), and a row per score; or, where
    `rows` is given, `design[rows[i]]` is the row of score i. `factors`: name -> the level of each score.
    `weights`: how often each row occurs. `errors=False`: standard errors as if spreads were known, a few
    percent smaller, in a third of the time. `start`: a first guess. `limits`: factor -> the spread beyond which
    nobody wants to know more: a search that stays there ends, unsettled.

    >>> found = fit([1, 2, 1, 3, 2, 3, 1, 3], [[0]] * 4 + [[1]] * 4, ["x"])
    >>> [round(cut, 3) for cut in found.thresholds], round(found.coefficients["x"], 3)
    ([0.0, 1.099], 1.099)
    >>> fit([2, 2, 2], [[0], [1], [1]], ["x"]).why
    'every score is the same'
    """
    given = {} if factors is None else dict(factors)
    data = prepared(_table(scores, design, names, given, weights, rows), tuple(given))
    return fit_to(data, design, names, errors=errors, start=start, limits=limits)


@dataclass(frozen=True)
class Data:
    """Scores in the order of a search, to which any design can be fitted. `rows` have none yet; None: `why` not.

    `used`: the rows of a design that occur; `order`: of the factors in the search.
    """

    factors: tuple[str, ...]
    values: tuple[int, ...]
    observations: int
    rows: Rows | None
    order: tuple[int, ...]
    used: Codes
    why: str


def prepared(table: pl.DataFrame, factors: tuple[str, ...]) -> Data:
    """`table`: as `_table` makes it."""
    values = tuple(table["score"].unique().sort().to_list())
    blank = Data(factors, values, round(float(table["weight"].sum())), None, (), np.unique(table["cell"]), "")
    if len(values) < 2:
        return replace(blank, why="there is no score" if not values else "every score is the same")
    rows, order, why = arrange(table, np.zeros((int(blank.used.max()) + 1, 0)), factors)
    return replace(blank, rows=rows, order=order, why=why)


def fit_to(
    data: Data,
    design: ArrayLike,
    names: Sequence[str],
    *,
    errors: bool = True,
    start: Guess | None = None,
    limits: Mapping[str, float] | None = None,
) -> Fit:
    """As `fit`, of scores that several designs are fitted to."""
    blank = Fit(tuple(names), data.factors, data.values, observations=data.observations, why=data.why)
    if data.rows is None:
        return blank
    matrix = np.asarray(design, float)
    used = matrix.reshape(len(matrix), len(names))[data.used]
    kept, scale = _independent(used), np.ones(len(names))
    scale[kept] = np.maximum(used[:, kept].std(axis=0) * 2, 1e-12)
    problem = replace(data.rows, patterns=(used / scale)[:, kept])
    first = None if start is None else _inward(start, kept, scale, data.order, blank.cuts)
    widest = np.array([(limits or {}).get(data.factors[k], np.inf) for k in data.order])
    found = _search(Laplace(problem), problem, first, widest)
    aliased = _aliased(used, kept, blank.cuts)
    return _outward(blank, found, problem, kept, scale, data.order, aliased, errors)


# From arrays to rows and units


def _table(
    scores: ArrayLike,
    design: ArrayLike,
    names: Sequence[str],
    factors: Mapping[str, ArrayLike],
    weights: ArrayLike | None,
    rows: ArrayLike | None,
) -> pl.DataFrame:
    """One row per score: score, cell (its row of the design), weight and the codes of its levels."""
    y, matrix = np.asarray(scores), np.asarray(design, float)
    if matrix.size != len(names) * len(matrix) or (rows is None and len(matrix) != len(y)):
        raise InputError(_UNEVEN, "Give every score its design, levels and weight.")
    if not np.isfinite(matrix).all():
        raise InputError(_MISSING, "Leave out rows that lack a value.")
    return _coded(y, _cells(matrix, len(y), len(names)) if rows is None else rows, factors, weights)


_UNEVEN = "The model's columns differ in length."
_MISSING = "The design or the weights have missing values."


def _cells(matrix: Floats, rows: int, columns: int) -> Codes:
    """Of each row the first one with the same design."""
    if not columns:
        return np.zeros(rows, np.int64)
    _, cell = np.unique(matrix, axis=0, return_inverse=True)
    first = np.full(int(cell.max(initial=-1)) + 1, -1)
    first[cell[::-1]] = np.arange(rows)[::-1]
    return first[cell]


def data_of(
    scores: ArrayLike, rows: ArrayLike, factors: Mapping[str, ArrayLike], weights: ArrayLike | None = None
) -> Data:
    """Everything but the design, of which `rows` says which row each score has. Arguments as in `fit`."""
    return prepared(_coded(scores, rows, factors, weights), tuple(factors))


def _coded(
    scores: ArrayLike, cell: ArrayLike, factors: Mapping[str, ArrayLike], weights: ArrayLike | None
) -> pl.DataFrame:
    y, at = np.asarray(scores, np.int64), np.asarray(cell, np.int64)
    weight = np.ones(len(y)) if weights is None else np.asarray(weights, float)
    if len({len(y), len(at), len(weight), *(len(np.asarray(codes)) for codes in factors.values())}) > 1:
        raise InputError(_UNEVEN, "Give every score its design, levels and weight.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError(_MISSING, "Leave out rows that lack a value.")
    levels = [np.unique(np.asarray(level), return_inverse=True)[1] for level in factors.values()]
    codes = {f"factor {k}": level for k, level in enumerate(levels)}
    frame = pl.DataFrame({"score": y, "cell": at, "weight": weight, **codes})
    return frame.filter(pl.col("weight") > 0)


def _independent(matrix: Floats) -> Codes:
    """The columns that are not constant and not sums of earlier ones."""
    kept: list[int] = []
    basis = np.ones((len(matrix), 1)) / np.sqrt(max(len(matrix), 1))
    for k in range(matrix.shape[1]):
        left = matrix[:, k] - basis @ (basis.T @ matrix[:, k])
        left = left - basis @ (basis.T @ left)
        size = float(np.linalg.norm(left))
        if size > 1e-8 * max(float(np.linalg.norm(matrix[:, k])), 1e-300):
            kept.append(k)
            basis = np.column_stack([basis, left / size])
    return np.array(kept, np.int64)


def _aliased(matrix: Floats, kept: Codes, cuts: int) -> Floats:
    """For every column that is left out: the direction of thresholds and coefficients along which nothing changes.

    It is a constant plus a sum of others, so that what it does cannot be told from what they do.
    """
    left = np.setdiff1d(np.arange(matrix.shape[1]), kept)
    earlier = np.column_stack([np.ones(len(matrix)), matrix[:, kept]])
    parts = np.linalg.lstsq(earlier, matrix[:, left], rcond=None)[0]
    parts[np.abs(parts) < 1e-8] = 0.0
    found = np.zeros((cuts + matrix.shape[1], len(left)))
    found[:cuts], found[cuts + kept] = parts[0], -parts[1:]
    found[cuts + left, np.arange(len(left))] = 1.0
    return found


def arrange(
    table: pl.DataFrame, patterns: Floats, names: tuple[str, ...]
) -> tuple[Rows | None, tuple[int, ...], str]:
    """Rows and units with equal ones collapsed, the order of factors in them, and why not where it cannot be."""
    codes = [f"factor {k}" for k in range(len(names))]
    frame = table.group_by("score", "cell", *codes).agg(pl.col("weight").sum()).sort(*codes, "cell", "score")
    sizes = {code: int(frame[code].n_unique()) for code in codes}
    order = sorted(codes, key=lambda code: -sizes[code])
    inner = order[0] if len(order) > 1 and _is_nested(frame, order[0], order[1:]) else None
    chosen = _anchored(frame, [code for code in order if code != inner], sizes)
    if chosen is None:
        return None, (), f"{' and '.join(names)} have too many levels to be crossed"
    values = frame["score"].unique().sort()
    frame = frame.with_columns(y=pl.Series(np.searchsorted(values.to_numpy(), frame["score"].to_numpy())))
    used, cell = np.unique(frame["cell"].to_numpy(), return_inverse=True)
    frame = frame.with_columns(cell=pl.Series(cell))
    near, far = chosen
    made = _plain(frame, near + far) if inner is None else _nested(frame, inner, near + far)
    y, cells, weight, unit, times, levels = made
    local, slots = _slots(levels[: len(near)])
    found = Rows(
        y,
        cells,
        weight,
        unit,
        times,
        levels[0] if near else np.zeros(len(times), np.int64),
        sizes[near[0]] if near else 0,
        slots,
        local,
        levels[len(near) :],
        tuple(sizes[code] for code in far),
        inner is not None,
        patterns[used],
    )
    return found, tuple(codes.index(code) for code in [*near, *far, *([inner] if inner else [])]), ""


def _anchored(
    frame: pl.DataFrame, outer: Sequence[str], sizes: Mapping[str, int]
) -> tuple[list[str], list[str]] | None:
    """The anchor with what is nested in it, and the factors that are left: whichever choice costs least."""
    best: tuple[float, tuple[list[str], list[str]]] | None = None if outer else (0.0, ([], []))
    for anchor in outer:
        near = [anchor, *(code for code in outer if code != anchor and _is_nested(frame, code, [anchor]))]
        slots = 1 + sum(_most(frame, anchor, code) for code in near[1:])
        left = [code for code in outer if code not in near]
        rest = sum(sizes[code] for code in left)
        entries = sizes[anchor] * slots * max(slots, rest)
        cost = float(sizes[anchor]) * slots * (slots**2 + rest**2) + float(rest) ** 3
        if rest <= MOST_REST and entries <= MOST_ENTRIES and (best is None or cost < best[0]):
            best = cost, (near, left)
    return None if best is None else best[1]


def _most(frame: pl.DataFrame, anchor: str, code: str) -> int:
    """How many levels of a nested factor an anchor's level has at most."""
    return int(frame.group_by(anchor).agg(pl.col(code).n_unique()).get_column(code).to_numpy().max(initial=0))


def _slots(levels: Sequence[Codes]) -> tuple[tuple[Codes, ...], int]:
    """Within its anchor's level: slot 0 for the anchor, then one for each level of every nested factor."""
    if not levels:
        return (), 1
    found, used = [np.zeros(len(levels[0]), np.int64)], 1
    for level in levels[1:]:
        pairs = pl.DataFrame({"anchor": levels[0], "level": level})
        slot = pairs.select((pl.col("level").rank("dense").over("anchor") - 1).cast(pl.Int64))["level"].to_numpy()
        found.append(used + slot)
        used += int(slot.max(initial=-1)) + 1
    return tuple(found), used


def _is_nested(frame: pl.DataFrame, inner: str, codes: Sequence[str]) -> bool:
    others = [pl.col(code).n_unique() for code in codes]
    return bool(frame.group_by(inner).agg(others).drop(inner).max().row(0) == (1,) * len(others))


_Made = tuple[Codes, Codes, Floats, Codes, Floats, tuple[Codes, ...]]


def _plain(frame: pl.DataFrame, units: Sequence[str]) -> _Made:
    """Rows of the same levels are one unit."""
    rows = frame.with_columns(unit=pl.struct(units).rank("dense") - 1 if units else pl.lit(0))
    alike = rows.unique("unit").sort("unit")
    levels = tuple(_array(alike, name) for name in units)
    unit, weight = _array(rows, "unit"), _floats(rows, "weight")
    return _array(rows, "y"), _array(rows, "cell"), weight, unit, np.ones(alike.height), levels


def _nested(frame: pl.DataFrame, inner: str, units: Sequence[str]) -> _Made:
    """Levels of the inner factor with the same rows in the same outer levels become one unit."""
    row = pl.struct("y", "cell", "weight").rank("dense").alias("row")
    ranked = frame.with_columns(row).sort(inner, "row")
    alike = (
        ranked.group_by(inner, maintain_order=True)
        .agg(pl.col("row").cast(pl.String).str.join(" "), *(pl.col(name).first() for name in units))
        .group_by("row", *units)
        .agg(pl.col(inner).min(), pl.len().alias("times"))
        .sort(inner)
        .with_row_index("unit")
    )
    rows = ranked.join(alike.select(inner, "unit"), on=inner, how="inner").sort("unit", "row")
    levels = tuple(_array(alike, name) for name in units)
    return (
        _array(rows, "y"),
        _array(rows, "cell"),
        _floats(rows, "weight"),
        _array(rows, "unit"),
        _floats(alike, "times"),
        levels,
    )


def _array(frame: pl.DataFrame, name: str) -> Codes:
    return frame[name].cast(pl.Int64).to_numpy()


def _floats(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).to_numpy()


# The search


@dataclass(frozen=True)
class Search:
    """Where it ended: parameters, −log L, the inverse curvature as far as it was learnt, whether it settled,
    gradients that it took."""

    at: Floats
    loss: float
    inverse: Floats
    settled: bool
    evaluations: int


def _begin(rows: Rows) -> Floats:
    """Thresholds of the scores' shares, no coefficients, and some spread."""
    counts = np.bincount(rows.y, rows.total, rows.categories)
    shares = np.cumsum(counts)[:-1] / counts.sum()
    theta = np.log(shares / (1 - shares))
    return np.concatenate([steps_of(theta), np.zeros(rows.patterns.shape[1]), np.full(rows.factors, START)])


def _search(laplace: Laplace, rows: Rows, start: Guess | None, widest: Floats) -> Search:
    at = _begin(rows) if start is None else start.at
    metric, taken = (start.metric, 0) if start and start.metric is not None else _metric(laplace, at)
    found = descend(laplace, at, metric, widest)
    return replace(found, evaluations=found.evaluations + taken)


def _metric(laplace: Laplace, at: Floats) -> tuple[Floats, int]:
    """A first guess of the inverse curvature: the information of the fixed part, and differences for spreads."""
    fixed = laplace.information(at)
    size, taken = len(fixed), 0
    whole = np.zeros((len(at), len(at)))
    whole[:size, :size] = fixed
    if len(at) > size:
        here = laplace.value_and_slope(at)[1]
        taken = 1
        for k in range(size, len(at)):
            moved = at.copy()
            moved[k] += NUDGE
            column = (laplace.value_and_slope(moved)[1] - here) / NUDGE
            whole[:, k], whole[k, :] = column, column
            taken += 1
    return _inverted(whole), taken


def _inverted(curvature: Floats) -> Floats:
    """The inverse, every direction of which goes down: what is flat or bent the wrong way is bent a little."""
    roots, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray((axes / np.maximum(np.abs(roots), 1e-3)) @ axes.T, np.float64)


def descend(laplace: Laplace, at: Floats, inverse: Floats, widest: Floats) -> Search:
    """Quasi-Newton steps (BFGS), halved until they gain, until the next one would gain nothing.

    `widest`: per spread, the last parameters, how wide it may stay before the search is given up.
    """
    loss, slope = laplace.value_and_slope(at)
    taken, beyond = 1, 0
    for _ in range(ROUNDS):
        step = -inverse @ slope
        gain = -float(slope @ step)
        if gain < ENOUGH:
            return Search(at, loss, inverse, True, taken)
        beyond = beyond + 1 if (np.abs(at[len(at) - len(widest) :]) > widest).any() else 0
        if beyond == BEYOND:
            return Search(at, loss, inverse, False, taken)
        share = min(1.0, 5.0 / float(np.abs(step).max()))
        while True:
            new, turned = laplace.value_and_slope(at + share * step)
            taken += 1
            if new <= loss - 1e-4 * share * gain or share < 1e-6:
                break
            share /= 2
        if new > loss:
            return Search(at, loss, inverse, gain < 1e-5, taken)
        moved, change = share * step, turned - slope
        inverse = updated(inverse, moved, change)
        at, loss, slope = at + moved, new, turned
    return Search(at, loss, inverse, False, taken)


def updated(inverse: Floats, moved: Floats, change: Floats) -> Floats:
    """BFGS: the inverse curvature, corrected by what the gradient did along a step."""
    along = float(moved @ change)
    if along <= 1e-12 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
        return inverse
    turned = inverse @ change
    outer = np.outer(moved, turned)
    whole: Floats = inverse + (1 + change @ turned / along) * np.outer(moved, moved) / along
    return whole - (outer + outer.T) / along


# From the search's parameters to the caller's


def _inward(start: Guess, kept: Codes, scale: Floats, order: Sequence[int], cuts: int) -> Guess:
    columns = len(scale)
    beta, spreads = start.at[cuts : cuts + columns] * scale, start.at[cuts + columns :]
    at = np.concatenate([steps_of(start.at[:cuts]), beta[kept], np.maximum(spreads[list(order)], 0.05)])
    if start.metric is None:
        return Guess(at)
    places, units = _places(cuts, kept, scale, order)
    return Guess(at, start.metric[np.ix_(places, places)] / np.outer(units, units))


def _places(cuts: int, kept: Codes, scale: Floats, order: Sequence[int]) -> tuple[Codes, Floats]:
    """Of each of the search's parameters its place among the caller's, and what one of it is there."""
    places = np.concatenate([np.arange(cuts), cuts + kept, cuts + len(scale) + np.array(order, np.int64)])
    return places, np.concatenate([np.ones(cuts), 1 / scale[kept], np.ones(len(order))])


def _outward(
    blank: Fit,
    found: Search,
    rows: Rows,
    kept: Codes,
    scale: Floats,
    order: Sequence[int],
    aliased: Floats,
    errors: bool,
) -> Fit:
    cuts, columns = blank.cuts, len(scale)
    inner = cuts + len(kept)
    places, units = _places(cuts, kept, scale, order)
    estimate = np.zeros(cuts + columns + len(order))
    spreads = np.abs(found.at[inner:])
    theta = thresholds(found.at[:cuts])
    estimate[places] = units * np.concatenate(
        [theta, found.at[cuts:inner], np.where(spreads < NO_SPREAD, 0, spreads)]
    )
    covariance, flat, inverse = _spreading(found, rows, theta, errors)
    whole, metric = np.zeros((2, len(estimate), len(estimate)))
    turns = units.copy()
    turns[inner:] *= np.where(found.at[inner:] < 0, -1, 1)  # a spread is told without its sign
    whole[np.ix_(places, places)] = covariance * np.outer(turns, turns)
    metric[np.ix_(places, places)] = inverse * np.outer(turns, turns)
    lost = np.zeros((cuts + columns, flat.shape[1]))
    # A coefficient in units of its column: a flat direction stays one, whatever the unit.
    lost[places[:inner]] = flat * units[:inner, None]
    lost = np.column_stack([lost, aliased])
    sizes = np.linalg.norm(lost, axis=0)
    fitted = replace(
        blank,
        estimate=estimate,
        covariance=whole,
        metric=metric,
        flat=np.linalg.qr(lost / sizes)[0] if len(sizes) else lost,
        loglik=-found.loss,
        parameters=cuts + len(kept) + len(order),
        converged=found.settled,
        evaluations=found.evaluations,
    )
    return replace(fitted, why=_why(fitted, found.settled))


def _why(fitted: Fit, settled: bool) -> str:
    lost = [name for name, value in fitted.coefficients.items() if value is None]
    reasons = [] if settled else ["the search did not settle"]
    if lost:
        reasons.append(f"the data say nothing about {', '.join(lost)}")
    return "; ".join(reasons)


def _spreading(found: Search, rows: Rows, theta: Floats, errors: bool) -> tuple[Floats, Floats, Floats]:
    """The covariance of thresholds, coefficients and spreads, the directions that are flat, and the search's own
    inverse curvature."""
    cuts, size = len(theta), len(found.at) - rows.factors
    laplace = Laplace(rows)
    curvature, inverse = np.zeros((len(found.at), len(found.at))), found.inverse
    if errors:
        curvature = _curvature(laplace, found.at)
        inverse = _inverted(curvature)
    else:
        curvature[:size, :size] = laplace.information(found.at)
    back = np.eye(len(found.at))
    back[:cuts, :cuts] = np.linalg.inv(slopes(theta))
    curvature = back.T @ curvature @ back
    roots, axes = np.linalg.eigh(curvature[:size, :size])
    flat = axes[:, roots < FLAT]
    spread = np.flatnonzero(np.abs(found.at[size:]) >= NO_SPREAD) if errors else np.arange(0)
    kept = np.concatenate([np.arange(size), size + spread])
    roots, axes = np.linalg.eigh(curvature[np.ix_(kept, kept)])
    firm = roots >= FLAT
    covariance = np.zeros_like(curvature)
    covariance[np.ix_(kept, kept)] = (axes[:, firm] / roots[firm]) @ axes[:, firm].T
    return covariance, flat, inverse


def _curvature(laplace: Laplace, at: Floats) -> Floats:
    """Differences of the exact gradient, forward: off by a share of about NUDGE, at half the cost of both ways."""
    here = laplace.value_and_slope(at)[1]
    found = np.stack([laplace.value_and_slope(at + nudge)[1] - here for nudge in NUDGE * np.eye(len(at))])
    return (found + found.T) / (2 * NUDGE)
