"""Scores as an ordinal mixed model sees them: how groups differ, where persons, prompts and edits may differ too.

Per axis, from the judges' own scores (no ensemble, no rounding):
score ~ group*editor + other dimensions + judge + group:judge
        + (1|person) + (1|person:editor) + (1|prompt) + (1|edit).
`group` is the dimension with a reference group. Without (1|person:editor) a few faces that one editor happens to
fail on would pass for a group that it fails on. For the same reason group:judge is tested with (1|person:judge),
in place of (1|edit), and group:arm with (1|person:arm): differences of groups are differences of persons.

A term whose variable has one level, or none that anybody knows, is left out, and so is a random intercept that
cannot be told from another or from noise (an edit with one score). Human ratings take (1|rater) in place of the
judges' terms. Cells where the prompt asks for the change are left out.

A coefficient speaks of the latent scale and of one and the same person, prompt and edit; `marginal` says what that
means in shares of scores. Nothing here is a claim: those rest on persons (see `contrast`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.cumulative import Codes, Floats
from stillme.stats.drift import CASE, changes
from stillme.stats.formula import Formula, Term, formula
from stillme.stats.intervals import LEVEL
from stillme.stats.mixed import START, Data, Fit, Guess, data_of, fit_to

FEWEST_LEVELS = 3  # of a random intercept
MOST_SCORES = 20_000  # of an axis: twice those of 84 portraits; persons beyond them are not needed
WIDEST_EDIT = 10.0  # logits: an edit's own intercept beyond it leaves judges 3 % of what they differ by
FEWEST_IN_SPLIT = 10  # scores on either side of a cut, below which a split says nothing
NODES = 31  # of Gauss–Hermite quadrature
EDIT = "edit"
RESIDUAL = "residual"  # the logistic's own variance, π² ÷ 3


@dataclass(frozen=True)
class Model:
    """The tables, each with a column `axis`. Where something cannot be estimated it is null, and `why` says why.

    `components` is to be printed first: SD and share of the latent variance of each random intercept, and of
    what is left. `tests`: likelihood-ratio tests of terms, each with the interactions that it is in. `odds`: of a
    higher score, a group against the reference; per editor, and (editor null) averaged over
    editors. `marginal`: probability of each outcome by group and editor.
    `splits`: log-odds of a group from binary models at each cut, without interactions; where odds are proportional
    they are alike, and like `ordinal`, the ordinal model's without interactions. `fits`: what was fitted, and how
    it went.
    """

    components: pl.DataFrame
    tests: pl.DataFrame
    odds: pl.DataFrame
    marginal: pl.DataFrame
    splits: pl.DataFrame
    fits: pl.DataFrame


_COMPONENTS = {"axis": pl.String, "factor": pl.String, "levels": pl.Int64, "sd": pl.Float64, "share": pl.Float64}
_TESTS = {
    "axis": pl.String,
    "term": pl.String,
    "chi2": pl.Float64,
    "df": pl.Int64,
    "p": pl.Float64,
    "why": pl.String,
}
_RANGE = {"low": pl.Float64, "high": pl.Float64}
_ODDS = {"odds_ratio": pl.Float64, **_RANGE, "why": pl.String}
_GROUP_ODDS = {"axis": pl.String, "editor": pl.String, "group": pl.String, "reference": pl.String, **_ODDS}
_ARM_ODDS = {"axis": pl.String, "arm": pl.String, "against": pl.String, "group": pl.String, **_ODDS}
_MARGINAL = {
    "axis": pl.String,
    "outcome": pl.String,
    "editor": pl.String,
    "group": pl.String,
    "probability": pl.Float64,
    **_RANGE,
    "why": pl.String,
}
_SPLITS = {
    "axis": pl.String,
    "at_least": pl.Int64,
    "group": pl.String,
    "log_odds": pl.Float64,
    "error": pl.Float64,
    "ordinal": pl.Float64,
    "why": pl.String,
}
_FITS = {
    "axis": pl.String,
    "formula": pl.String,
    "observations": pl.Int64,
    "persons": pl.Int64,
    "parameters": pl.Int64,
    "loglik": pl.Float64,
    "converged": pl.Boolean,
    "why": pl.String,
}
_UNKNOWN = "no estimate: all scores of a group are at one end, or there are none"
_AS_ONE = "scores of one edit nearly always agree: together they count as one, and (1|edit) is left out"


# What is fitted


@dataclass(frozen=True)
class Setting:
    """One axis: scores, the cell of each, the cells with how many scores they have, and the random intercepts."""

    scores: Codes
    rows: Codes
    cells: pl.DataFrame
    formula: Formula
    factors: Mapping[str, Codes]
    persons: int
    reader: Mapping[str, Codes]  # the intercepts with which the reader's interaction is tested
    edits: Codes  # which edit each score is of
    weights: Floats | None = None  # of the scores; None: each counts as one

    @property
    def for_reader(self) -> Setting:
        return replace(self, factors=self.reader, weights=None)

    @property
    def finest(self) -> str | None:
        """The intercept that every edit has to itself; None where there is none."""
        levels = int(self.edits.max(initial=-1)) + 1
        return next((name for name, codes in self.factors.items() if _same(self.edits, codes, levels)), None)

    @property
    def by_edit(self) -> Setting:
        """Without the edits' own intercept: all scores of an edit count as one together."""
        others = {name: codes for name, codes in self.factors.items() if name != self.finest}
        return replace(self, factors=others, weights=1.0 / np.bincount(self.edits)[self.edits])

    def fit(
        self,
        chosen: Formula,
        *,
        errors: bool = False,
        start: Guess | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> Fit:
        design = chosen.matrix(self.cells)
        return fit_to(self.data, design, chosen.names, errors=errors, start=start, limits=limits)

    @cached_property
    def data(self) -> Data:
        """What every formula is fitted to."""
        return data_of(self.scores, self.rows, self.factors, self.weights)

    @property
    def additive(self) -> Setting:
        """The same without interactions."""
        return replace(
            self, formula=Formula(self.formula.levels, tuple(t for t in self.formula.terms if len(t) == 1))
        )

    def split(self, at_least: int, start: Guess | None = None) -> Fit:
        """The binary model of scores at or above a cut."""
        high = replace(self, scores=(self.scores >= at_least).astype(np.int64))
        return high.fit(self.formula, start=start)

    @property
    def text(self) -> str:
        fixed = [":".join(term) for term in self.formula.terms]
        return "score ~ " + " + ".join([*fixed, *(f"(1|{name})" for name in self.factors)] or ["1"])


def setting(
    frame: pl.DataFrame,
    levels: Mapping[str, Sequence[str]],
    terms: Sequence[Term],
    factors: Mapping[str, pl.Expr],
    reader: str | None = None,
) -> Setting:
    """`frame`: scores of one axis, without missing ones. Rows that lack a label of a variable are left out, unless
    nobody has one: then it is the variable that is left out."""
    used = [variable for variable in levels if variable in frame.columns and _is_told(frame[variable])]
    known = frame.drop_nulls(used).with_columns(pl.col(used).cast(pl.String))
    known = known.with_columns(expression.alias(f"level of {name}") for name, expression in factors.items())
    present = {v: [level for level in levels[v] if level in set(known[v].unique().to_list())] for v in used}
    chosen = formula(present, terms)
    cells = known.group_by(used).len("scores").sort(used).with_row_index("cell")
    rows = known.join(cells.select("cell", *used), on=used, how="left", maintain_order="left")["cell"]
    codes = {name: _codes(known[f"level of {name}"]) for name in factors}
    pairs = (
        {f"person:{reader}": _codes(known.select(pl.struct("person", reader).alias("x"))["x"])} if reader else {}
    )
    others = {name: code for name, code in codes.items() if name != EDIT}
    return Setting(
        known["score"].cast(pl.Int64).to_numpy(),
        rows.cast(pl.Int64).to_numpy(),
        cells,
        chosen,
        _told_apart(codes, known.height),
        known["person"].n_unique(),
        _told_apart(others | pairs, known.height),
        _codes(known["trial"]),
    )


def _is_told(column: pl.Series) -> bool:
    return column.is_empty() or column.null_count() < len(column)


def _codes(column: pl.Series) -> Codes:
    return column.rank("dense").cast(pl.Int64).to_numpy() - 1


def _told_apart(codes: Mapping[str, Codes], rows: int) -> dict[str, Codes]:
    """The random intercepts with several levels, fewer than rows, and no twin among those before them."""
    kept: dict[str, Codes] = {}
    for name, code in codes.items():
        levels = int(code.max(initial=-1)) + 1
        if FEWEST_LEVELS <= levels < rows and not any(_same(code, other, levels) for other in kept.values()):
            kept[name] = code
    return kept


def _same(code: Codes, other: Codes, levels: int) -> bool:
    """Whether two factors divide the rows alike."""
    if int(other.max(initial=-1)) + 1 != levels:
        return False
    return len(np.unique(code * levels + other)) == levels


def _usable(scores: pl.DataFrame, axis: str) -> pl.DataFrame:
    wanted = (pl.col("axis") == axis) & pl.col("score").is_not_null()
    return scores.filter(wanted & ~pl.col("requested") if "requested" in scores.columns else wanted)


# The model of an audit


def model(
    judged: pl.DataFrame,
    protocol: Protocol,
    *,
    reader: str = "judge",
    level: float = LEVEL,
    most: int = MOST_SCORES,
    seed: int = 0,
) -> Model:
    """`judged`: one row per trial, axis and judge; with `reader="rater"` human ratings with a column `rater`.

    Of an axis with more than `most` scores the model is fitted on a sample of persons, drawn evenly over groups by
    `seed`, with all of their scores; `fits` says of how many.
    """
    makers: dict[str, Callable[[str, Setting, Fit], Iterator[dict[str, object]]]] = {
        "components": _components,
        "tests": lambda axis, found, full: _tests(axis, found, full, _tested(protocol, reader)),
        "odds": lambda axis, found, full: _group_odds(axis, found, full, protocol, level),
        "marginal": lambda axis, found, full: _marginal(axis, found, full, protocol, level),
        "splits": lambda axis, found, full: _splits(axis, found, full, protocol),
        "fits": _fitted,
    }
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in makers}
    for axis in [a.id for a in protocol.rubrics.axes if a.id in judged["axis"].unique().to_list()]:
        scores = _usable(judged, axis)
        drawn = sampled(scores, protocol, most, seed)
        found, full = _fit_audit(_audit_setting(drawn, protocol, reader))
        full = _of(full, drawn["person"].n_unique(), scores["person"].n_unique(), found.persons)
        for name, make in makers.items():
            rows[name].extend(make(axis, found, full))
    schemas = (_COMPONENTS, _TESTS, _GROUP_ODDS, _MARGINAL, _SPLITS, _FITS)
    return Model(*(pl.DataFrame(rows[name], schema=schema) for name, schema in zip(makers, schemas, strict=True)))


def sampled(scores: pl.DataFrame, protocol: Protocol, most: int, seed: int) -> pl.DataFrame:
    """All scores of as many persons as make about `most` of them, the same share of every cell of groups."""
    if scores.height <= most:
        return scores
    people = scores.select("person", *protocol.groups.dimensions).unique("person", maintain_order=True)
    order = np.random.default_rng(seed).permutation(people.height)
    place = pl.col("_order").rank("ordinal").over(list(protocol.groups.dimensions))
    wanted = (pl.len().over(list(protocol.groups.dimensions)) * most / scores.height).ceil()
    kept = people.with_columns(_order=pl.Series(order)).filter(place <= wanted)["person"]
    return scores.filter(pl.col("person").is_in(kept.implode()))


def _of(full: Fit, drawn: int, every: int, used: int) -> Fit:
    """With who is not in it: persons who were not drawn, and those who lack a label."""
    said = [full.why] if full.why else []
    if drawn < every:
        said.append(f"fitted on {drawn:,} of {every:,} persons, drawn evenly over groups")
    if used < drawn:
        said.append(f"{drawn - used:,} of {drawn:,} persons lack a label and are left out")
    return replace(full, why="; ".join(said))


def _fit_audit(found: Setting) -> tuple[Setting, Fit]:
    """The full model. Where readers nearly always agree, an edit's own intercept swallows everything: it grows
    without bound, and persons seem not to differ. Then all scores of an edit are taken as one."""
    first = found.fit(found.formula, limits={found.finest: WIDEST_EDIT} if found.finest else None)
    if first.spreads.get(found.finest or "", 0.0) > WIDEST_EDIT:
        together = found.by_edit
        return together, together.fit(found.formula, errors=True)
    return found, found.fit(found.formula, errors=True, start=first.narrowed(found.formula.names))


def _audit_setting(frame: pl.DataFrame, protocol: Protocol, reader: str) -> Setting:
    main, others = _dimensions(protocol)
    levels = {**_group_levels(protocol), "editor": _sorted(frame, "editor")}
    terms: list[Term] = [(main,), ("editor",), (main, "editor"), *((name,) for name in others)]
    factors = {
        "person": pl.col("person"),
        "person:editor": pl.struct("person", "editor"),
        "prompt": pl.col("prompt"),
        EDIT: pl.col("trial"),
    }
    if reader in _FIXED:
        levels[reader] = _sorted(frame, reader)
        terms += [(reader,), (main, reader)]
    else:
        factors[reader] = pl.col(reader)
    return setting(frame, levels, terms, factors, reader if reader in _FIXED else None)


_FIXED = ("judge",)  # readers that are few and chosen; others are a sample of many
_WITHIN = ("editor", "judge", "arm")  # what differs within persons


def _sorted(frame: pl.DataFrame, name: str) -> list[str]:
    return [str(value) for value in frame[name].drop_nulls().unique().cast(pl.String).sort()]


def _dimensions(protocol: Protocol) -> tuple[str, list[str]]:
    """The dimension with a reference group, and the others."""
    main = next(iter(protocol.groups.reference_group))
    return main, [name for name in protocol.groups.dimensions if name != main]


def _group_levels(protocol: Protocol) -> dict[str, list[str]]:
    """Per dimension its groups, the reference group first."""
    return {
        name: sorted(
            protocol.groups.ids(name), key=lambda group: group != protocol.groups.reference_group.get(name)
        )
        for name in protocol.groups.dimensions
    }


def _tested(protocol: Protocol, reader: str) -> list[Term]:
    main, others = _dimensions(protocol)
    return [(main,), (main, "editor"), (main, reader), *((name,) for name in others)]


# Tables


def _components(axis: str, found: Setting, full: Fit) -> Iterator[dict[str, object]]:
    if full.loglik is None:
        return
    variances = {name: sd**2 for name, sd in full.spreads.items()} | {RESIDUAL: np.pi**2 / 3}
    for name, variance in variances.items():
        yield {
            "axis": axis,
            "factor": name,
            "levels": None if name == RESIDUAL else int(found.factors[name].max()) + 1,
            "sd": float(np.sqrt(variance)),
            "share": float(variance / sum(variances.values())),
        }


def _tests(axis: str, found: Setting, full: Fit, terms: Sequence[Term]) -> Iterator[dict[str, object]]:
    for term in terms:
        if found.formula.has(*term):
            yield {"axis": axis, "term": ":".join(term), **_test(found, full, term)}


def _test(found: Setting, full: Fit, term: Term) -> dict[str, object]:
    """Judges may see persons differently: their interaction is tested with that, and is in no other group test."""
    smaller = found.formula.without(*term)
    if full.loglik is None:
        return ratio_test(found, full, smaller)
    if len(term) > 1 and set(term) & set(_FIXED):
        read = found.for_reader
        return ratio_test(read, read.fit(found.formula, start=_with_factors(full, read.factors)), smaller)
    apart = [pair for pair in found.formula.terms if set(pair) & set(_FIXED) and set(term) < set(pair)]
    if apart:
        whole = found.formula.without(*apart[0])
        return ratio_test(found, found.fit(whole, start=full.narrowed(whole.names)), smaller)
    return ratio_test(found, full, smaller)


def ratio_test(found: Setting, full: Fit, smaller: Formula) -> dict[str, object]:
    """Twice the gain in log-likelihood over the smaller model, and the chance of as much if that one is true."""
    if full.loglik is None:
        return {"chi2": None, "df": None, "p": None, "why": full.why}
    left = found.fit(smaller, start=full.narrowed(smaller.names)) if full.converged else None
    if left is None or left.loglik is None or not left.converged:
        return {"chi2": None, "df": None, "p": None, "why": "the search did not settle"}
    chi2, df = max(2 * (full.loglik - left.loglik), 0.0), full.parameters - left.parameters
    return {"chi2": chi2, "df": df, "p": float(special.chdtrc(df, chi2)) if df > 0 else None, "why": None}


def _with_factors(full: Fit, factors: Iterable[str]) -> Guess | None:
    """The full one's estimates where other random intercepts are fitted; those that it lacks start as usual."""
    if full.flat.size or full.loglik is None:
        return None
    spreads = [full.spreads.get(name, START) for name in factors]
    return Guess(np.concatenate([full.estimate[: full.cuts + len(full.names)], spreads]))


def _at_cut(ordinal: Fit, place: int) -> Guess | None:
    """The ordinal model's estimates for the binary one at a cut: where odds are proportional they are the same."""
    if ordinal.flat.size or ordinal.loglik is None:
        return None
    return Guess(np.concatenate([ordinal.estimate[place : place + 1], ordinal.estimate[ordinal.cuts :]]))


def _difference(chosen: Formula, one: Mapping[str, str], other: Mapping[str, str]) -> Floats:
    """The weights of coefficients in η(one) − η(other), other variables averaged over their levels."""
    return _averaged(chosen, one) - _averaged(chosen, other)


def _averaged(chosen: Formula, held: Mapping[str, str]) -> Floats:
    weights = np.ones(len(chosen.columns))
    for k, column in enumerate(chosen.columns):
        for variable, level in column.items():
            weights[k] *= float(held[variable] == level) if variable in held else 1 / len(chosen.levels[variable])
    return weights


def _reach(found: Setting, level: float) -> float | None:
    """How many standard errors an interval reaches: t × √(persons ÷ free); None of too few persons.

    `free`: persons − what is estimated between them. Maximum likelihood takes persons to differ less than they do.
    """
    free = found.persons - 1 - sum(not set(column) & set(_WITHIN) for column in found.formula.columns)
    if free < 1:
        return None
    return float(special.stdtrit(free, 0.5 + level / 2)) * float(np.sqrt(found.persons / free))


def _odds_row(found: Setting, full: Fit, weights: Floats, level: float) -> dict[str, object]:
    value, error = full.along(weights)
    if value is None or error is None:
        why = full.why if full.loglik is None else _UNKNOWN
        return {"odds_ratio": None, "low": None, "high": None, "why": why}
    reach = _reach(found, level)
    if reach is None:
        return {"odds_ratio": float(np.exp(value)), "low": None, "high": None, "why": "too few persons"}
    ends = {"odds_ratio": value, "low": value - reach * error, "high": value + reach * error}
    return {**{name: float(np.exp(end)) for name, end in ends.items()}, "why": None}


def _group_odds(
    axis: str, found: Setting, full: Fit, protocol: Protocol, level: float
) -> Iterator[dict[str, object]]:
    main, _ = _dimensions(protocol)
    reference = found.formula.levels.get(main, ())[:1]
    for editor in (None, *found.formula.levels.get("editor", ())):
        held = {} if editor is None else {"editor": editor}
        for group in found.formula.levels.get(main, ())[1:]:
            weights = _difference(found.formula, {main: group, **held}, {main: reference[0], **held})
            about = {"axis": axis, "editor": editor, "group": group, "reference": reference[0]}
            yield {**about, **_odds_row(found, full, weights, level)}


def _splits(axis: str, found: Setting, full: Fit, protocol: Protocol) -> Iterator[dict[str, object]]:
    main, _ = _dimensions(protocol)
    simple = found.additive
    groups = simple.formula.levels.get(main, ())
    if full.loglik is None or len(groups) < 2:
        return
    ordinal = simple.fit(simple.formula, start=full.narrowed(simple.formula.names))
    for place, cut in enumerate(full.values[1:]):
        few = min(int((found.scores >= cut).sum()), int((found.scores < cut).sum())) < FEWEST_IN_SPLIT
        split = None if few else simple.split(cut, _at_cut(ordinal, place))
        for group in groups[1:]:
            weights = _difference(simple.formula, {main: group}, {main: groups[0]})
            value, error = (None, None) if split is None else split.along(weights)
            yield {
                "axis": axis,
                "at_least": cut,
                "group": group,
                "log_odds": value,
                "error": error,
                "ordinal": ordinal.along(weights)[0],
                "why": "too few scores on one side" if few else _UNKNOWN if value is None else None,
            }


def _fitted(axis: str, found: Setting, full: Fit) -> Iterator[dict[str, object]]:
    yield {
        "axis": axis,
        "formula": found.text,
        "observations": full.observations,
        "persons": found.persons,
        "parameters": full.parameters,
        "loglik": full.loglik,
        "converged": full.converged,
        "why": "; ".join(said for said in (full.why, "" if found.weights is None else _AS_ONE) if said) or None,
    }


# Probabilities


def _marginal(
    axis: str, found: Setting, full: Fit, protocol: Protocol, level: float
) -> Iterator[dict[str, object]]:
    """Of every outcome of the axis, by group and editor; other variables as they are in all scores together."""
    main, _ = _dimensions(protocol)
    outcomes = {name: outcome for name, outcome in protocol.rubrics.outcomes.items() if outcome.axis == axis}
    groups, editors = found.formula.levels.get(main, ()), found.formula.levels.get("editor", ())
    if full.loglik is None or not outcomes or not groups or not editors:
        return
    others = [name for name in found.formula.levels if name not in (main, "editor")]
    rest = (
        found.cells.group_by(others, maintain_order=True).agg(pl.col("scores").sum())
        if others
        else found.cells.select("scores").sum()
    )
    share = (rest["scores"] / rest["scores"].sum()).to_numpy()
    reach = _reach(found, level)
    for editor in editors:
        for group in groups:
            cells = rest.with_columns(pl.lit(group).alias(main), pl.lit(editor).alias("editor"))
            design = found.formula.matrix(cells)
            for name, outcome in outcomes.items():
                about = {"axis": axis, "outcome": name, "editor": editor, "group": group}
                yield {**about, **_probability(full, outcome, design, share, reach)}


def _probability(
    full: Fit, outcome: Outcome, design: Floats, share: Floats, reach: float | None
) -> dict[str, object]:
    cut, is_above = _cut(full, outcome)
    if cut in (0, len(full.values)):
        sure = float((cut == 0) == is_above)
        return {"probability": sure, "low": None, "high": None, "why": "no such score, or no other"}
    lean = np.zeros(full.cuts + len(full.names))
    lean[cut - 1], lean[full.cuts :] = 1.0, -(share @ design)
    if full.is_flat(lean):
        return {"probability": None, "low": None, "high": None, "why": _UNKNOWN}
    below, slope = at_or_below(full, cut - 1, design, share)
    value, slope = (1 - below, -slope) if is_above else (below, slope)
    error = float(np.sqrt(np.maximum(slope @ full.covariance @ slope, 0.0)))
    # On the scale of log-odds, so that both ends are probabilities.
    if reach is None:
        return {"probability": value, "low": None, "high": None, "why": "too few persons"}
    half = reach * error / (value * (1 - value)) if 0 < value < 1 else 0.0
    ends = special.expit(special.logit(value) + np.array([-half, half]))
    return {"probability": value, "low": float(ends[0]), "high": float(ends[1]), "why": None}


def _cut(full: Fit, outcome: Outcome) -> tuple[int, bool]:
    """How many of the scores that occur lie below the outcome's threshold, and whether it is what lies above."""
    if outcome.at_least is not None:
        return sum(value < outcome.at_least for value in full.values), True
    return sum(value <= (outcome.at_most or 0) for value in full.values), False


def at_or_below(full: Fit, cut: int, design: Floats, share: Floats) -> tuple[float, Floats]:
    """P(score ≤ cut) averaged over the design's rows and over all random effects, and its gradient.

    The effects add up to one normal with variance Σσ², over which Gauss–Hermite quadrature averages.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    spreads = full.estimate[full.cuts + len(full.names) :]
    total = float(np.sqrt(spreads @ spreads))
    beta = full.estimate[full.cuts : full.cuts + len(full.names)]
    below = special.expit(full.estimate[cut] - (design @ beta)[:, None] - total * nodes)
    density = below * (1 - below) * weights * share[:, None]
    slope = np.zeros(len(full.estimate))
    slope[cut] = density.sum()
    slope[full.cuts : full.cuts + len(full.names)] = -density.sum(axis=1) @ design
    if total > 0:
        slope[full.cuts + len(full.names) :] = -float(density.sum(axis=0) @ nodes) * spreads / total
    return float(share @ below @ weights), slope


# The model of a treatment


@dataclass(frozen=True)
class Treatment:
    """As `Model`. `odds`: of an arm against the first one, per group and (group null) averaged over groups."""

    components: pl.DataFrame
    tests: pl.DataFrame
    odds: pl.DataFrame
    fits: pl.DataFrame


def treatment_model(scores: pl.DataFrame, protocol: Protocol, *, level: float = LEVEL) -> Treatment:
    """Per axis score ~ arm*group + others + editor + (1|person) + (1|person:arm) + (1|prompt) + (1|case).

    `scores`: the ensemble's, of all arms. What is modelled is how far a score is from "nothing changed", or the
    score where an axis has no such point: odds below 1 mean less. A case is a portrait × prompt × editor.
    """
    main, _ = _dimensions(protocol)
    valued = changes(scores, protocol).with_columns(score=pl.col("value"))
    makers: dict[str, Callable[[str, Setting, Fit], Iterator[dict[str, object]]]] = {
        "components": _components,
        "tests": lambda axis, found, full: _tests(axis, found, full, [("arm",), (main, "arm")]),
        "odds": lambda axis, found, full: _arm_odds(axis, found, full, main, level),
        "fits": _fitted,
    }
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in makers}
    for axis in [a.id for a in protocol.rubrics.axes if a.id in valued["axis"].unique().to_list()]:
        found = _treatment_setting(_usable(valued, axis), protocol)
        full = found.fit(found.formula, errors=True)
        for name, make in makers.items():
            rows[name].extend(make(axis, found, full))
    schemas = (_COMPONENTS, _TESTS, _ARM_ODDS, _FITS)
    return Treatment(
        *(pl.DataFrame(rows[name], schema=schema) for name, schema in zip(makers, schemas, strict=True))
    )


def _treatment_setting(frame: pl.DataFrame, protocol: Protocol) -> Setting:
    main, others = _dimensions(protocol)
    arms = [arm.id for arm in protocol.manifest.arms]
    levels = {**_group_levels(protocol), "editor": _sorted(frame, "editor"), "arm": arms}
    terms: list[Term] = [("arm",), (main,), (main, "arm"), *((name,) for name in others), ("editor",)]
    factors = {
        "person": pl.col("person"),
        "person:arm": pl.struct("person", "arm"),
        "prompt": pl.col("prompt"),
        "case": pl.struct(CASE),
    }
    return setting(frame, levels, terms, factors)


def _arm_odds(axis: str, found: Setting, full: Fit, main: str, level: float) -> Iterator[dict[str, object]]:
    arms = found.formula.levels.get("arm", ())
    for arm in arms[1:]:
        for group in (None, *found.formula.levels.get(main, ())):
            held = {} if group is None else {main: group}
            weights = _difference(found.formula, {"arm": arm, **held}, {"arm": arms[0], **held})
            about = {"axis": axis, "arm": arm, "against": arms[0], "group": group}
            yield {**about, **_odds_row(found, full, weights, level)}
