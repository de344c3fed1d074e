"""Planted audits, analysed: do 95 % intervals cover what was planted, and do tests hold their level?

    python -m bench.recovery [--sets 500] [--jobs 1] [--seed 1]

84 persons (7 groups of 12), 20 prompts; the persons are as alike as an intra-person correlation of 0.03, 0.06 and
0.11 makes them. Groups' rates are all the same, or those of the seed's table 13 (FLUX.2-dev, Step1X-Edit), or
evenly spaced. The analysis is the product's own, whole. It also shows what fails: the seed's Kruskal–Wallis per
edit, and the direction of a signed axis taken from rounded scores.

Bounds: intervals of rates, contrast and max − min cover 92–98 % (give or take one Monte Carlo error, which is
printed), tests of groups that are alike reject at most 7 %. Exits with 1 when anything is out of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from bench import figures
from bench.figures import Row
from stillme.stats import disparity
from stillme.stats.contrast import contrasts, permutation_ps, welch
from stillme.stats.intervals import clustered_share
from stillme.stats.outcomes import direction
from stillme.stats.resample import People
from stillme.stats.simulate import (
    EVEN_CUTS,
    Spread,
    ensemble,
    judges_scores,
    people,
    person_sd_of,
    severities,
)

GROUPS, PERSONS, PROMPTS, CUT = 7, 12, 20, 0.05
AT_ONCE = 25  # data sets that are analysed together, as columns of one audit
DRAWS, SEEDS = 1_999, 4  # a test at 5 % is as exact with fewer draws; four sets of them take turns
COVERED = (0.92, 0.98)
SIZE_AT_MOST, FAILS_ABOVE = 0.07, 0.40
ICCS = (0.03, 0.06, 0.11)
SHAPES = {
    "all alike": [0.09] * 7,
    "FLUX.2-dev": [0.013, 0.167, 0.096, 0.151, 0.185, 0.179, 0.151],  # table 13, reference group first
    "Step1X-Edit": [0.021, 0.089, 0.062, 0.078, 0.102, 0.091, 0.084],
    "evenly spaced": list(np.linspace(0.06, 0.12, 7)),
}
SHOWS = (
    "Simulated audits with planted rates: how often intervals hold the truth, and how often tests accuse "
    "the even-handed."
)
DOES_NOT_SHOW = (
    "audits of other shapes: 84 persons in 7 groups, 20 prompts, persons as alike as a correlation of "
    "0.03 to 0.11.",
    "editors whose failures hang on the prompt and the group together.",
    "what the wrong test would do everywhere: how often a Kruskal–Wallis of every edit errs at 0.03 hangs on the "
    "simulator's cut points (38 % with others).",
)
MODES = ("half_even", "half_up", "toward_neutral")


@dataclass(frozen=True)
class Case:
    shape: str
    icc: float
    sets: int
    seed: int

    @property
    def rates(self) -> np.ndarray:
        return np.array(SHAPES[self.shape])

    @cached_property
    def person_sd(self) -> float:
        return person_sd_of(self.icc, float(self.rates.mean()))

    def chance(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, list(SHAPES).index(self.shape), round(self.icc * 1000)])


def as_people(hits: np.ndarray, trials: int) -> People:
    """Data sets as columns: the same 84 persons' places, other hits. A stratum has one person of each group."""
    sets, groups, persons = hits.shape
    sums = hits.reshape(sets, groups * persons).T.astype(float)
    return People(
        tuple(f"g{group}" for group in range(groups)),
        np.repeat(np.arange(groups), persons),
        np.tile(np.arange(persons), groups),
        tuple(("e", str(number)) for number in range(sets)),
        sums,
        np.full_like(sums, trials),
    )


def recovered(case: Case) -> dict[str, float]:
    """Shares of data sets in which each interval holds the truth, and in which each test rejects."""
    chance = case.chance(0)
    parts = []
    for number in range(0, case.sets, AT_ONCE):
        hits = people(chance, case.rates, PERSONS, PROMPTS, person_sd=case.person_sd, replicates=AT_ONCE)
        parts.append(pl.concat([_disparity(hits, case, number), _fixed(hits, case, number)], how="horizontal"))
    means = pl.concat(parts).head(case.sets).mean()
    return {name: float(value) for name, value in means.row(0, named=True).items()}


def _disparity(hits: np.ndarray, case: Case, number: int) -> pl.DataFrame:
    told = disparity.of_people(as_people(hits, PROMPTS), seed=number // AT_ONCE % SEEDS, draws=DRAWS)
    truth, sd = float(np.ptp(case.rates)), float(case.rates.std(ddof=1))
    return told.select(
        pl.col("disparity", "expected", "corrected", "sd_raw", "sd"),
        _holds("low", "high", truth).alias("max − min"),
        _holds("sd_low", "sd_high", sd).alias("between groups"),
        _holds("bound_low", "bound_high", truth).alias("max-T"),
        (pl.col("p_rank") <= CUT).alias("rank"),
        (pl.col("p_range") <= CUT).alias("range"),
    )


def _holds(low: str, high: str, truth: float) -> pl.Expr:
    return (pl.col(low) <= truth + 1e-12) & (pl.col(high) >= truth - 1e-12)


def _fixed(hits: np.ndarray, case: Case, number: int) -> pl.DataFrame:
    """Group rates (the share of groups that are covered), and everyone else − the first group."""
    truth = float(case.rates[1:].mean() - case.rates[0])
    rows = []
    for one in hits:
        held = [_covered(group, rate) for group, rate in zip(one, case.rates, strict=True)]
        found = welch(one[1:].ravel() / PROMPTS, one[0] / PROMPTS, cautious=True)
        rows.append({"rates": np.mean(held), "contrast": _inside(found.low, truth, found.high)})
    shares = hits.reshape(len(hits), -1).T / PROMPTS
    first = np.repeat(np.arange(GROUPS), PERSONS) == 0
    ps = permutation_ps(shares, first, np.tile(np.arange(PERSONS), GROUPS), DRAWS, number // AT_ONCE % SEEDS)
    return pl.DataFrame(rows).with_columns(pl.Series("permutation", [p is not None and p <= CUT for p in ps]))


def _covered(hits: np.ndarray, rate: float) -> bool:
    share = clustered_share(hits, np.full(len(hits), PROMPTS))
    return _inside(share.low, rate, share.high)


def _inside(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def per_edit(case: Case) -> dict[str, float]:
    """Kruskal–Wallis on judges' 1–5 scores when all groups are alike: every edit a unit, and persons' means."""
    from scipy import stats

    chance, spread = case.chance(1), Spread(case.person_sd)
    rejected = []
    for _ in range(case.sets):
        bad = severities(chance, case.rates, PERSONS, PROMPTS, spread)[0, 0]
        scores, _, _ = ensemble(judges_scores(chance, bad), "half_even", 1)
        edits = stats.kruskal(*scores.reshape(GROUPS, -1)).pvalue
        persons = stats.kruskal(*scores.mean(axis=-1)).pvalue
        rejected.append((edits <= CUT, persons <= CUT))
    edits, persons = np.mean(rejected, axis=0)
    return {"per edit": float(edits), "person means": float(persons)}


def other_prompts(case: Case) -> dict[str, float]:
    """Coverage of the contrast when every data set has prompts of its own: taken as fixed, and as a sample."""
    chance, spread = case.chance(2), Spread(case.person_sd, uneven=0.2)
    truth = float(case.rates[1:].mean() - case.rates[0])
    held: dict[str, list[bool]] = {"fixed": [], "sample": []}
    for start in range(0, case.sets, AT_ONCE):
        count = min(AT_ONCE, case.sets - start)
        bad = severities(chance, case.rates, PERSONS, PROMPTS, spread, replicates=count, sample_prompts=True)
        frame = _edits(bad[:, 0] > 0)
        for prompts in ("fixed", "sample"):
            names = frame["outcome"].unique(maintain_order=True).to_list()
            found = contrasts(frame, names, "group", "0", ["place"], prompts=prompts)
            held[prompts] += found.select(_holds("low", "high", truth)).to_series().to_list()
    return {name: float(np.mean(values)) for name, values in held.items()}


def _edits(hit: np.ndarray) -> pl.DataFrame:
    """One row an edit: hits [sets, groups, persons, prompts]."""
    sets, group, place, prompt = (index.ravel() for index in np.indices(hit.shape))
    return pl.DataFrame(
        {"outcome": sets, "group": group, "place": place, "prompt": prompt, "hit": hit.ravel()}
    ).with_columns(
        pl.col("outcome", "group", "place").cast(pl.String),
        pl.lit("e").alias("editor"),
        pl.format("{}-{}", "group", "place").alias("person"),
    )


def nets(seed: int) -> Iterator[tuple[str, float, float]]:
    """Judges who go up exactly as often as down: the net of rounded scores, and the product's."""
    chance = np.random.default_rng(seed)
    one = judges_scores(chance, severities(chance, [0.5], 500, PROMPTS, Spread()).ravel(), EVEN_CUTS)
    both = np.hstack([one, 6 - one])  # every pair of scores with its mirror image
    for mode in MODES:
        score, mean, _ = ensemble(both, mode, 3)
        frame = pl.DataFrame({"score": score, "mean": mean, "neutral": 3})
        rounded = float(np.sign(score - 3).mean())
        yield mode, rounded, float(frame.select(direction(frame).mean()).item())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    options.add_argument("--sets", type=int, default=500, help="data sets a row")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--seed", type=int, default=1)
    told = options.parse_args()
    cases = [Case(shape, icc, told.sets, told.seed) for shape in SHAPES for icc in ICCS]
    alike = [case for case in cases if case.shape == "all alike"]
    with ProcessPoolExecutor(told.jobs) as pool:
        found, per = list(pool.map(recovered, cases)), list(pool.map(per_edit, alike))
        wrong = _print_recovered(cases, found, told.sets)
        wrong += _print_per_edit(alike, per)
        flux = [case for case in cases if case.shape == "FLUX.2-dev"]
        wrong += _print_prompts(flux, list(pool.map(other_prompts, flux)))
    wrong += _print_nets(told.seed)
    figures.write(
        "recovery",
        rows(cases, found, per, told.seed),
        SHOWS,
        DOES_NOT_SHOW,
        notes=[f"{told.sets} data sets a row."],
    )
    print("\n" + ("Out of bounds: " + "; ".join(wrong) if wrong else "Everything is within its bounds."))
    return int(bool(wrong))


def rows(
    cases: list[Case], found: list[dict[str, float]], per: list[dict[str, float]], seed: int
) -> Iterator[Row]:
    error = monte_carlo(cases[0].sets)
    for name in ("rates", "contrast", "max − min"):
        shares = [row[name] for row in found]
        low, high = COVERED[0] - error, COVERED[1] + error  # give or take one Monte Carlo error
        yield figures.rate(f"95 % intervals of {name} that hold the truth: lowest", min(shares), "").at_least(low)
        yield figures.cost(f"95 % intervals of {name} that hold the truth: highest", max(shares), "").at_most(high)
    sizes = [row[test] for case, row in zip(cases, found, strict=True) if case.shape == "all alike"
             for test in ("rank", "range", "permutation")]  # fmt: skip
    yield figures.cost("false positives of our tests at 5 %: most", max(sizes), "").at_most(SIZE_AT_MOST)
    wrong, fine = (max(row[way] for row in per) for way in ("per edit", "person means"))
    ours = figures.cost(
        "false positives: persons' means, most", fine, "", "Kruskal–Wallis, every edit a unit", wrong
    )
    yield ours.at_most(SIZE_AT_MOST)
    least = min(row["per edit"] for row in per)
    yield Row("false positives of Kruskal–Wallis, every edit a unit: least", least).at_least(FAILS_ABOVE)
    net = max(abs(net) for _, _, net in nets(seed))
    yield figures.cost("net direction where judges go up as often as down", net, "").at_most(0)


def monte_carlo(sets: int) -> float:
    return float(np.sqrt(0.95 * 0.05 / sets))


def is_covered(share: float, sets: int) -> bool:
    """Within 92–98 %, give or take one Monte Carlo error."""
    return COVERED[0] - monte_carlo(sets) <= share <= COVERED[1] + monte_carlo(sets)


def _print_recovered(cases: list[Case], found: list[dict[str, float]], sets: int) -> list[str]:
    print(f"{sets} data sets a row; Monte Carlo error of a coverage near 95 %: ± {monte_carlo(sets):.1%}\n")
    print("Coverage of 95 % intervals; max − min in percentage points; rejections at 5 %")
    print(f"{'rates':14}{'ICC':>5} | {'rates':>6}{'contr.':>7}{'max−min':>8}{'SD':>7}{'max-T':>7} | ", end="")
    print(f"{'true':>5}{'raw':>6}{'chance':>7}{'corr.':>6} | {'rank':>6}{'range':>6}{'contr.':>7}")
    wrong = []
    for case, row in zip(cases, found, strict=True):
        named = [row[name] for name in ("rates", "contrast", "max − min", "between groups", "max-T")]
        points = [100 * x for x in (np.ptp(case.rates), row["disparity"], row["expected"], row["corrected"])]
        tests = [row[name] for name in ("rank", "range", "permutation")]
        print(f"{case.shape:14}{case.icc:5.2f} | {named[0]:6.3f}{named[1]:7.3f}{named[2]:8.3f}", end="")
        print(f"{named[3]:7.3f}{named[4]:7.3f} | {points[0]:5.1f}{points[1]:6.1f}{points[2]:7.1f}", end="")
        print(f"{points[3]:6.1f} | {tests[0]:6.3f}{tests[1]:6.3f}{tests[2]:7.3f}")
        wrong += [f"{case.shape} {case.icc}: {share}" for share in named[:3] if not is_covered(share, sets)]
        if case.shape == "all alike":
            wrong += [f"{case.shape} {case.icc}: size {p}" for p in tests if p > SIZE_AT_MOST]
    return wrong


def _print_per_edit(cases: list[Case], found: list[dict[str, float]]) -> list[str]:
    print("\nKruskal–Wallis when all groups are alike: how often p ≤ 0.05")
    for case, row in zip(cases, found, strict=True):
        edits, persons = row["per edit"], row["person means"]
        print(f"  ICC {case.icc:.2f}: every edit a unit {edits:.3f}, persons' means {persons:.3f}")
    return [
        f"Kruskal–Wallis per edit at {case.icc}: {row['per edit']}"
        for case, row in zip(cases, found, strict=True)
        if row["per edit"] <= FAILS_ABOVE or row["person means"] > SIZE_AT_MOST
    ]


def _print_prompts(cases: list[Case], found: list[dict[str, float]]) -> list[str]:
    print("\nCoverage of the contrast (FLUX.2-dev) where prompts are a sample, uneven between groups")
    for case, row in zip(cases, found, strict=True):
        print(f"  ICC {case.icc:.2f}: prompts taken as fixed {row['fixed']:.3f}, as a sample {row['sample']:.3f}")
    bad = [row["sample"] for row in found if not is_covered(row["sample"], cases[0].sets)]
    return [f"contrast over prompts: {share}" for share in bad]


def _print_nets(seed: int) -> list[str]:
    print("\nNet direction of a signed axis when judges go up exactly as often as down")
    wrong = []
    for mode, rounded, net in nets(seed):
        print(f"  {mode:15} from rounded scores {rounded:+.3f}, from unrounded means {net:+.3f}")
        wrong += [f"net under {mode}: {net}"] * (net != 0)
        wrong += ["rounded half-up scores look even"] * (mode == "half_up" and rounded < 0.05)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
