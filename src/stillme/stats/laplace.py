"""Random intercepts integrated out of a cumulative logit by Laplace's approximation, with its exact gradient.

The predictor of a row is η = xβ + Σₖ σₖ u[level of factor k], every u standard normal. For given thresholds, β and
σ the u that fit best are found by Newton's method; then −log L ≈ −Σ w log P + ½ u′u + ½ log |H|, H being the
curvature there.

H is never built whole. A factor whose levels each lie within one level of every other factor (an edit is of one
person and one prompt) is the *inner* one: its block is diagonal, and once it is eliminated a level counts like one
row with weight s ÷ (1 + σ²s), s being the sum of its rows' curvatures. Of the *outer* factors one is the anchor
(persons); with those nested in it (persons × editors) it has a block per level, and they are eliminated next. What
is left to factorise has the size of the other outer factors.
Levels of the inner factor that look alike are one *unit* that counts several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stillme.stats.cumulative import Chances, Codes, Floats, slopes, thresholds

STEPS = 60  # Newton's; the sum is concave, so a handful is enough
SETTLED = 1e-16  # what the next step would gain; log |H| is off by about the root of it
ROUNDING = 1e-14  # of the sum, relative: a loss within it is no loss


def sums(codes: Codes, values: Floats, size: int) -> Floats:
    """Per code the sum of its values."""
    return np.asarray(np.bincount(codes, values, size), np.float64)


@dataclass(frozen=True)
class Rows:
    """What is fitted: rows in units, units in levels of the outer factors.

    `y` codes from 0; `cell`: the row of `patterns` (distinct rows of the design) that a row has; `weight`: how
    often a row occurs within its unit; `unit`: the unit of a row; `times`: how often a unit occurs; `has_inner`:
    whether a unit has an effect of its own (else rows of the same outer levels are one, which saves sums);
    `anchors`: how many levels the anchor has, `slots`: how many places each of them has, for itself and for levels
    of the factors nested in it; `local`: per such factor (the anchor first) the slot of each unit; `anchor`: the
    anchor's level of each unit. `levels`: per factor that is left the level of each unit, `sizes`: how many.
    """

    y: Codes
    cell: Codes
    weight: Floats
    unit: Codes
    times: Floats
    anchor: Codes
    anchors: int
    slots: int
    local: tuple[Codes, ...]
    levels: tuple[Codes, ...]
    sizes: tuple[int, ...]
    has_inner: bool
    patterns: Floats

    @cached_property
    def categories(self) -> int:
        return int(self.y.max()) + 1

    @cached_property
    def total(self) -> Floats:
        """How often a row occurs in all."""
        return self.weight * self.to_rows(self.times)

    @property
    def first(self) -> int:
        """Places of the anchor and the factors nested in it."""
        return self.anchors * self.slots

    @property
    def rest(self) -> int:
        return sum(self.sizes)

    @property
    def factors(self) -> int:
        return len(self.local) + len(self.levels) + int(self.has_inner)

    @cached_property
    def left(self) -> tuple[Codes, ...]:
        """Per factor that is left the place of each unit's level among theirs."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        return tuple(start + level for start, level in zip(starts, self.levels, strict=False))

    @cached_property
    def places(self) -> tuple[Codes, ...]:
        """Per outer factor the place of each unit's level among all."""
        near = tuple(self.anchor * self.slots + slot for slot in self.local)
        return near + tuple(self.first + place for place in self.left)

    def to_rows(self, values: Floats) -> Floats:
        return values[self.unit]

    def to_units(self, values: Floats) -> Floats:
        return sums(self.unit, values, len(self.times))

    def gather(self, effects: Floats, spreads: Floats) -> Floats:
        """Per unit the sum of its levels' effects, each times its factor's spread."""
        found = np.zeros(len(self.times))
        for place, spread in zip(self.places, spreads, strict=True):
            found += spread * effects[place]
        return found

    def scatter(self, values: Floats, spreads: Floats) -> Floats:
        """Per outer level the sum of its units' values, times its factor's spread."""
        found = np.zeros(self.first + self.rest)
        for place, spread in zip(self.places, spreads, strict=True):
            found += spread * np.bincount(place, values, len(found))
        return found

    def split(self, parameters: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Thresholds, coefficients, spreads of the outer factors, spread of the inner one (0 without one)."""
        cuts, columns = self.categories - 1, self.patterns.shape[1]
        spreads = parameters[cuts + columns :]
        inner = float(spreads[-1]) if self.has_inner else 0.0
        outer = spreads[:-1] if self.has_inner else spreads
        return thresholds(parameters[:cuts]), parameters[cuts : cuts + columns], outer, inner


class Outer:
    """The outer factors' block of H, with the anchor and what is nested in it eliminated."""

    def __init__(self, rows: Rows, weights: Floats, spreads: Floats) -> None:
        self.rows = rows
        self.near, self.far = spreads[: len(rows.local)], spreads[len(rows.local) :]
        self.spreads = spreads
        self.inverse, self.log_first = self._first(weights)
        self.bridge = self._bridge(weights)
        self.over = self._within(self.bridge)
        self.factor = np.linalg.cholesky(self._corner(weights) - self.bridge.T @ self.over)

    def _first(self, weights: Floats) -> tuple[Floats, float]:
        """Per level of the anchor the inverse of its block, and the sum of their log determinants."""
        rows, slots = self.rows, self.rows.slots
        flat = np.zeros(rows.anchors * slots**2)
        for one, spread in zip(rows.local, self.near, strict=True):
            for other, second in zip(rows.local, self.near, strict=True):
                at = (rows.anchor * slots + one) * slots + other
                flat += spread * second * sums(at, weights, len(flat))
        blocks = np.eye(slots) + flat.reshape(rows.anchors, slots, slots)
        if slots == 1:
            return 1.0 / blocks, float(np.log(blocks).sum())
        inverse = np.asarray(np.linalg.inv(blocks), np.float64)
        return inverse, float(np.linalg.slogdet(blocks)[1].sum())

    def _bridge(self, weights: Floats) -> Floats:
        rows = self.rows
        flat = np.zeros(rows.first * rows.rest)
        for near, spread in zip(rows.places, self.near, strict=False):
            for far, second in zip(rows.left, self.far, strict=True):
                flat += spread * second * sums(near * rows.rest + far, weights, len(flat))
        return flat.reshape(rows.first, rows.rest)

    def _corner(self, weights: Floats) -> Floats:
        rows = self.rows
        flat = np.eye(rows.rest).ravel()
        for one, spread in zip(rows.left, self.far, strict=True):
            for other, second in zip(rows.left, self.far, strict=True):
                flat += spread * second * sums(one * rows.rest + other, weights, len(flat))
        return flat.reshape(rows.rest, rows.rest)

    def _within(self, right: Floats) -> Floats:
        """The inverse of the first block times a vector, or times each column of a matrix."""
        width = 1 if right.ndim == 1 else right.shape[1]
        return (self.inverse @ right.reshape(self.rows.anchors, self.rows.slots, width)).reshape(right.shape)

    @property
    def log_determinant(self) -> float:
        return self.log_first + float(2 * np.log(np.diag(self.factor)).sum())

    def solve(self, right: Floats) -> Floats:
        """H⁻¹ times a vector, or times each column of a matrix."""
        top, bottom = self._within(right[: self.rows.first]), right[self.rows.first :]
        low = self.corner_inverse @ (bottom - self.bridge.T @ top)
        return np.concatenate([top - self.over @ low, low])

    @cached_property
    def corner_inverse(self) -> Floats:
        half = np.linalg.solve(self.factor, np.eye(self.rows.rest))
        return half.T @ half

    def at_units(self) -> list[Floats]:
        """Per outer factor, of each unit: the entry of H⁻¹z at its own level, z being the unit's spreads."""
        rows, across = self.rows, self.over @ self.corner_inverse
        shape = (rows.anchors, rows.slots, rows.rest)
        own = self.inverse + across.reshape(shape) @ self.over.reshape(shape).transpose(0, 2, 1)
        found = [np.zeros(len(rows.times)) for _ in rows.places]
        near = len(rows.local)
        for k, one in enumerate(rows.local):
            for other, spread in zip(rows.local, self.near, strict=True):
                found[k] += spread * own[rows.anchor, one, other]
            for m, far in enumerate(rows.left):
                link = across[rows.places[k], far]
                found[k] -= self.far[m] * link
                found[near + m] -= self.near[k] * link
        for k, one in enumerate(rows.left):
            for other, spread in zip(rows.left, self.far, strict=True):
                found[near + k] += spread * self.corner_inverse[one, other]
        return found


@dataclass(frozen=True)
class Mode:
    """The effects that fit best, and the curvature there."""

    chances: Chances
    inner: Floats
    outer: Floats
    loss: float
    bends: Floats
    thickness: Floats
    block: Outer

    @property
    def log_determinant(self) -> float:
        return float(self.block.rows.times @ np.log(self.thickness)) + self.block.log_determinant


class Laplace:
    """−log L and its gradient at parameters (threshold steps, coefficients, spreads).

    Remembers the last mode, where the next search starts; the value does not depend on it.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.inner = np.zeros(len(rows.times))
        self.outer = np.zeros(rows.first + rows.rest)

    def mode(self, parameters: Floats) -> Mode:
        """Newton's method, with steps halved until they gain."""
        theta, beta, spreads, inner_spread = self.rows.split(parameters)
        fixed = (self.rows.patterns @ beta)[self.rows.cell]
        inner, outer = self.inner, self.outer
        chances, loss = self._loss(theta, fixed, spreads, inner_spread, inner, outer)
        for _ in range(STEPS):
            found = self._curved(chances, spreads, inner_spread, inner, outer, loss)
            downs = self._gradient(chances, spreads, inner_spread, inner, outer)
            step = solve(found, inner_spread, *downs)
            gain = float(self.rows.times @ (downs[0] * step[0]) + downs[1] @ step[1])
            if gain < SETTLED:
                break
            share = 1.0
            while True:
                tried = inner - share * step[0], outer - share * step[1]
                chances, new = self._loss(theta, fixed, spreads, inner_spread, *tried)
                if new <= loss + ROUNDING * (1 + abs(loss)) or share < 1e-8:
                    break
                share /= 2
            (inner, outer), loss = tried, new
        self.inner, self.outer = inner, outer
        return found

    def _loss(
        self, theta: Floats, fixed: Floats, spreads: Floats, inner_spread: float, inner: Floats, outer: Floats
    ) -> tuple[Chances, float]:
        rows = self.rows
        eta = fixed + rows.to_rows(inner_spread * inner + rows.gather(outer, spreads))
        chances = Chances(rows.y, eta, theta)
        penalty = 0.5 * float(rows.times @ inner**2 + outer @ outer)
        return chances, penalty - float(rows.total @ chances.log)

    def _curved(
        self, chances: Chances, spreads: Floats, inner_spread: float, inner: Floats, outer: Floats, loss: float
    ) -> Mode:
        rows = self.rows
        bends = rows.to_units(rows.weight * chances.bend)
        thickness = 1.0 + inner_spread**2 * bends
        block = Outer(rows, rows.times * bends / thickness, spreads)
        return Mode(chances, inner, outer, loss, bends, thickness, block)

    def _gradient(
        self, chances: Chances, spreads: Floats, inner_spread: float, inner: Floats, outer: Floats
    ) -> tuple[Floats, Floats]:
        rows = self.rows
        pulls = rows.to_units(rows.weight * chances.pull)
        return inner_spread * pulls + inner, rows.scatter(rows.times * pulls, spreads) + outer

    def value(self, parameters: Floats) -> float:
        found = self.mode(parameters)
        return found.loss + 0.5 * found.log_determinant

    def value_and_slope(self, parameters: Floats) -> tuple[float, Floats]:
        """−log L and its gradient: what the parameters do directly, through H, and through the mode."""
        found = self.mode(parameters)
        return found.loss + 0.5 * found.log_determinant, self._slope(parameters, found)

    def _slope(self, parameters: Floats, found: Mode) -> Floats:
        rows, c = self.rows, found.chances
        theta, _, spreads, inner_spread = rows.split(parameters)
        leverage, own = leverages(found, spreads, inner_spread)
        turn = -(c.upper_turn + c.lower_turn)
        twist = rows.to_units(rows.weight * turn * rows.to_rows(leverage))
        moved = solve(found, inner_spread, inner_spread * twist, rows.scatter(rows.times * twist, spreads))
        echo = rows.to_rows(inner_spread * moved[0] + rows.gather(moved[1], spreads))
        half = 0.5 * rows.to_rows(leverage)
        per_row = c.pull + half * turn - 0.5 * c.bend * echo
        upper = -c.upper_share + half * c.upper_turn + 0.5 * c.upper_density * echo
        lower = c.lower_share + half * c.lower_turn + 0.5 * c.lower_density * echo
        return np.concatenate(
            [
                slopes(theta).T @ by_cut(rows, upper, lower),
                rows.patterns.T @ np.bincount(rows.cell, rows.total * per_row, len(rows.patterns)),
                self._spread_slopes(found, own, moved, per_row),
            ]
        )

    def _spread_slopes(
        self, found: Mode, own: Sequence[Floats], moved: tuple[Floats, Floats], per_row: Floats
    ) -> Floats:
        rows, c = self.rows, found.chances
        slope = rows.times * rows.to_units(rows.weight * per_row)
        pulls = rows.times * rows.to_units(rows.weight * c.pull)
        bends = rows.times * found.bends
        effects = [(found.outer[place], moved[1][place]) for place in rows.places]
        if rows.has_inner:
            effects.append((found.inner, moved[0]))
        return np.array(
            [
                slope @ effect + bends @ entry - 0.5 * (pulls @ shift)
                for (effect, shift), entry in zip(effects, own, strict=True)
            ]
        )

    def information(self, parameters: Floats) -> Floats:
        """The curvature of −log L in threshold steps and coefficients, had log |H| none: near the true one."""
        rows, found = self.rows, self.mode(parameters)
        theta, _, spreads, inner_spread = rows.split(parameters)
        whole, mixed = fixed_information(rows, found.chances), unit_information(rows, found.chances)
        thick = found.thickness[:, None]
        whole -= inner_spread**2 * (mixed.T @ (mixed * (rows.times[:, None] / thick)))
        over = mixed * (rows.times[:, None] / thick)
        if rows.places:
            down = np.stack([rows.scatter(column, spreads) for column in over.T], axis=1)
            whole -= down.T @ found.block.solve(down)
        turned = np.eye(len(whole))
        turned[: len(theta), : len(theta)] = slopes(theta)
        return turned.T @ whole @ turned


def solve(found: Mode, inner_spread: float, inner: Floats, outer: Floats) -> tuple[Floats, Floats]:
    """H⁻¹ times a vector of inner and outer parts; the inner part is per unit, not per time that it occurs."""
    rows, spreads = found.block.rows, found.block.spreads
    carried = inner_spread * found.bends / found.thickness
    low = found.block.solve(outer - rows.scatter(rows.times * carried * inner, spreads))
    return inner / found.thickness - carried * rows.gather(low, spreads), low


def leverages(found: Mode, spreads: Floats, inner_spread: float) -> tuple[Floats, list[Floats]]:
    """Of each unit z′H⁻¹z, and per factor the entry of H⁻¹z at the unit's own level (the inner factor last)."""
    entries = found.block.at_units()
    outer = np.zeros(len(found.thickness))
    for spread, entry in zip(spreads, entries, strict=True):
        outer += spread * entry
    own = [entry / found.thickness for entry in entries]
    if found.block.rows.has_inner:
        own.append(inner_spread / found.thickness * (1.0 - found.bends * outer / found.thickness))
    return inner_spread**2 / found.thickness + outer / found.thickness**2, own


def by_cut(rows: Rows, upper: Floats, lower: Floats) -> Floats:
    """Per threshold: the sum of `upper` over scores just below it, plus that of `lower` over those just above."""
    tops = sums(rows.y, rows.total * upper, rows.categories)
    lows = sums(rows.y, rows.total * lower, rows.categories)
    return tops[:-1] + lows[1:]


def fixed_information(rows: Rows, c: Chances) -> Floats:
    """−d² log L in thresholds and coefficients with every effect held still."""
    at, size = rows.cell * rows.categories + rows.y, len(rows.patterns) * rows.categories
    cuts = rows.categories - 1

    def table(values: Floats) -> Floats:
        return sums(at, rows.total * values, size).reshape(-1, rows.categories)

    tops = by_cut(rows, c.upper_share**2 - c.upper_share * (1 - 2 * c.below), np.zeros(len(rows.y)))
    lows = by_cut(rows, np.zeros(len(rows.y)), c.lower_share**2 + c.lower_share * (2 * c.over - 1))
    sides = -table(c.upper_share * c.lower_share).sum(axis=0)[1:cuts]
    corner = np.diag(tops + lows) + np.diag(sides, 1) + np.diag(sides, -1)
    edge = -(table(c.upper_density)[:, :-1] + table(c.lower_density)[:, 1:]).T @ rows.patterns
    bends = table(c.bend).sum(axis=1)
    body = rows.patterns.T @ (rows.patterns * bends[:, None])
    return np.block([[corner, edge], [edge.T, body]])


def unit_information(rows: Rows, c: Chances) -> Floats:
    """−d² log P between thresholds and coefficients (columns) and a unit's predictor (rows), per unit once."""
    from scipy import sparse

    shape = (len(rows.times), rows.categories + 1)
    upper = sparse.coo_matrix((-rows.weight * c.upper_density, (rows.unit, rows.y + 1)), shape).toarray()
    lower = sparse.coo_matrix((-rows.weight * c.lower_density, (rows.unit, rows.y)), shape).toarray()
    bends = (rows.weight * c.bend, (rows.unit, rows.cell))
    cells = sparse.coo_matrix(bends, (len(rows.times), len(rows.patterns)))
    return np.concatenate([(upper + lower)[:, 1:-1], cells.tocsr() @ rows.patterns], axis=1)
