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

from stillme.analysis.cumulative import Codes, Floats, slopes, steps_of, thresholds
from stillme.analysis.laplace import Laplace, Rows
from stillme.errors import InputError

START = 0.5  # the spread of every factor, to begin with
NUDGE = 1e-4  # for differences of gradients
ENOUGH = 1e-8  # of log-likelihood that another step would gain
ROUNDS = 200
FLAT = 1e-2  # information below which a direction has no estimate: its standard error would be above 10
TOUCHED = 1e-4  # share of a direction that is flat
NO_SPREAD = 1e-3  # a spread below this is 0
MOST_REST = 3_000  # levels of the factors that are not eliminated: their block is dense
MOST_ENTRIES = 40_000_000  # of the blocks that are eliminated, and between them and the rest


@dataclass(frozen=True)
class Fit:
    """What was found. `estimate` and `covariance` are of thresholds, then coefficients, then spreads.

    `flat`: columns are directions (of thresholds and coefficients) that the data say nothing about. `values`: the
    scores that occur, lowest first; threshold j lies between values j and j + 1. `why`: what went wrong, or "".
    """

    names: tuple[str, ...]
    factors: tuple[str, ...]
    values: tuple[int, ...] = ()
    estimate: Floats = field(default_factory=lambda: np.zeros(0))
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))
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


def fit(
    scores: ArrayLike,
    design: ArrayLike,
    names: Sequence[str],
    factors: Mapping[str, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    errors: bool = True,
    start: Floats | None = None,
) -> Fit:
    """The model that makes the scores most likely.

    `design` has a column per name, without a constant (thresholds take its place), and a row per score; or, where
    `rows` is given, `design[rows[i]]` is the row of score i. `factors`: name -> the level of each score.
    `weights`: how often each row occurs. `errors=False`: standard errors as if spreads were known, a few
    percent smaller, in a third of the time. `start`: a first guess of thresholds, coefficients and spreads.

    >>> found = fit([1, 2, 1, 3, 2, 3, 1, 3], [[0]] * 4 + [[1]] * 4, ["x"])
    >>> [round(cut, 3) for cut in found.thresholds], round(found.coefficients["x"], 3)
    ([0.0, 1.099], 1.099)
    >>> fit([2, 2, 2], [[0], [1], [1]], ["x"]).why
    'every score is the same'
    """
    given = {} if factors is None else dict(factors)
    table = _table(scores, design, names, given, weights, rows)
    matrix = np.asarray(design, float)
    matrix = matrix.reshape(len(matrix), len(names))
    blank = Fit(tuple(names), tuple(given), observations=round(float(table["weight"].sum())))
    values = tuple(table["score"].unique().sort().to_list())
    if len(values) < 2:
        return replace(blank, values=values, why="there is no score" if not values else "every score is the same")
    used = np.unique(table["cell"].to_numpy())
    kept, scale = _independent(matrix[used]), np.ones(len(names))
    scale[kept] = np.maximum(matrix[used][:, kept].std(axis=0) * 2, 1e-12)
    problem, order, why = arrange(table, (matrix / scale)[:, kept], tuple(given))
    if problem is None:
        return replace(blank, values=values, why=why)
    first = None if start is None else _inward(start, kept, scale, order, len(values) - 1)
    found = _search(Laplace(problem), problem, first)
    return _outward(blank, values, found, problem, kept, scale, order, errors)


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
    cell = np.arange(len(y)) if rows is None else np.asarray(rows)
    weight = np.ones(len(y)) if weights is None else np.asarray(weights, float)
    lengths = {len(y), len(cell), len(weight), *(len(np.asarray(codes)) for codes in factors.values())}
    if len(lengths) > 1 or matrix.size != len(names) * len(matrix) or (rows is None and len(matrix) != len(y)):
        raise InputError(
            "The model's columns differ in length.", "Give every score its design, levels and weight."
        )
    if not np.isfinite(matrix).all() or not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("The design or the weights have missing values.", "Leave out rows that lack a value.")
    if rows is None and len(names):
        _, cell = np.unique(matrix, axis=0, return_inverse=True)
        first = np.full(int(cell.max(initial=-1)) + 1, -1)
        first[cell[::-1]] = np.arange(len(y))[::-1]
        cell = first[cell]
    elif rows is None:
        cell = np.zeros(len(y), np.int64)
    codes = {
        f"factor {k}": np.unique(np.asarray(level), return_inverse=True)[1]
        for k, level in enumerate(factors.values())
    }
    frame = pl.DataFrame(
        {"score": np.asarray(y, np.int64), "cell": np.asarray(cell, np.int64), "weight": weight, **codes}
    )
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


_Made = tuple[Codes, Codes, Floats, Codes | None, Floats, tuple[Codes, ...]]


def _plain(frame: pl.DataFrame, units: Sequence[str]) -> _Made:
    levels = tuple(_array(frame, name) for name in units)
    return _array(frame, "y"), _array(frame, "cell"), np.ones(frame.height), None, _floats(frame, "weight"), levels


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
    """Where it ended: parameters, −log L, whether it settled, gradients that it took."""

    at: Floats
    loss: float
    settled: bool
    evaluations: int


def _begin(rows: Rows) -> Floats:
    """Thresholds of the scores' shares, no coefficients, and some spread."""
    counts = np.bincount(rows.y, rows.total, rows.categories)
    shares = np.cumsum(counts)[:-1] / counts.sum()
    theta = np.log(shares / (1 - shares))
    return np.concatenate([steps_of(theta), np.zeros(rows.patterns.shape[1]), np.full(rows.factors, START)])


def _search(laplace: Laplace, rows: Rows, start: Floats | None) -> Search:
    at = _begin(rows) if start is None else start
    metric, taken = _metric(laplace, rows, at)
    found = descend(laplace, at, metric)
    return replace(found, evaluations=found.evaluations + taken)


def _metric(laplace: Laplace, rows: Rows, at: Floats) -> tuple[Floats, int]:
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
    roots, axes = np.linalg.eigh((whole + whole.T) / 2)
    return (axes / np.maximum(np.abs(roots), 1e-3)) @ axes.T, taken


def descend(laplace: Laplace, at: Floats, inverse: Floats) -> Search:
    """Quasi-Newton steps (BFGS), halved until they gain, until the next one would gain nothing."""
    loss, slope = laplace.value_and_slope(at)
    taken = 1
    for _ in range(ROUNDS):
        step = -inverse @ slope
        gain = -float(slope @ step)
        if gain < ENOUGH:
            return Search(at, loss, True, taken)
        share = min(1.0, 5.0 / float(np.abs(step).max()))
        while True:
            new, turned = laplace.value_and_slope(at + share * step)
            taken += 1
            if new <= loss - 1e-4 * share * gain or share < 1e-6:
                break
            share /= 2
        if new > loss:
            return Search(at, loss, gain < 1e-5, taken)
        moved, change = share * step, turned - slope
        inverse = updated(inverse, moved, change)
        at, loss, slope = at + moved, new, turned
    return Search(at, loss, False, taken)


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


def _inward(start: Floats, kept: Codes, scale: Floats, order: Sequence[int], cuts: int) -> Floats:
    columns = len(scale)
    beta, spreads = start[cuts : cuts + columns] * scale, start[cuts + columns :]
    return np.concatenate([steps_of(start[:cuts]), beta[kept], np.maximum(spreads[list(order)], 0.05)])


def _outward(
    blank: Fit,
    values: tuple[int, ...],
    found: Search,
    rows: Rows,
    kept: Codes,
    scale: Floats,
    order: Sequence[int],
    errors: bool,
) -> Fit:
    cuts, columns = len(values) - 1, len(scale)
    inner = cuts + len(kept)
    places = np.concatenate([np.arange(cuts), cuts + kept, cuts + columns + np.array(order, np.int64)])
    estimate = np.zeros(cuts + columns + len(order))
    spreads = np.abs(found.at[inner:])
    units = np.concatenate([np.ones(cuts), 1 / scale[kept], np.ones(len(order))])
    theta = thresholds(found.at[:cuts])
    estimate[places] = units * np.concatenate(
        [theta, found.at[cuts:inner], np.where(spreads < NO_SPREAD, 0, spreads)]
    )
    covariance, flat = _spreading(found, rows, theta, errors)
    whole = np.zeros((len(estimate), len(estimate)))
    whole[np.ix_(places, places)] = covariance * np.outer(units, units)
    missing = np.setdiff1d(np.arange(columns), kept)
    lost = np.zeros((cuts + columns, flat.shape[1] + len(missing)))
    # A coefficient in units of its column: a flat direction stays one, whatever the unit.
    lost[places[:inner], : flat.shape[1]] = flat * units[:inner, None]
    lost[cuts + missing, flat.shape[1] + np.arange(len(missing))] = 1.0
    sizes = np.linalg.norm(lost, axis=0)
    fitted = replace(
        blank,
        values=values,
        estimate=estimate,
        covariance=whole,
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


def _spreading(found: Search, rows: Rows, theta: Floats, errors: bool) -> tuple[Floats, Floats]:
    """The covariance of thresholds, coefficients and spreads, and the directions that are flat."""
    cuts, size = len(theta), len(found.at) - rows.factors
    laplace = Laplace(rows)
    curvature = np.zeros((len(found.at), len(found.at)))
    if errors:
        curvature = _curvature(laplace, found.at)
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
    return covariance, flat


def _curvature(laplace: Laplace, at: Floats) -> Floats:
    """Differences of the exact gradient, forward: off by a share of about NUDGE, at half the cost of both ways."""
    here = laplace.value_and_slope(at)[1]
    found = np.stack([laplace.value_and_slope(at + nudge)[1] - here for nudge in NUDGE * np.eye(len(at))])
    return (found + found.T) / (2 * NUDGE)
