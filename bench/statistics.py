"""The statistics beside the field's packages on the same numbers; the whole analysis from 5,040 to 504,000 edits.

    python -m bench.statistics [--only coefficients,bootstrap,whole,growth] [--ratings 3000,300000,3000000]

Coefficients: Krippendorff's alpha beside krippendorff and simpledorff (by intervals: it knows no ordinal metric),
Fleiss' kappa beside statsmodels, weighted kappa beside sklearn, the ICC beside pingouin, rates by group beside
fairlearn. Every side gets its own natural input, made before the clock starts, and the values are compared.
Bootstrap: 2,000 replicates of max − min at 1,000,000 rows beside scipy.stats.bootstrap, and 200 of fairlearn's own
at 1,000 rows; both peers draw rows, ours draws persons. Whole: `stillme analyse` on an audit of 84 persons, 20
prompts, 3 editors and 2 judges with 3,000 ratings, in a process of its own. Growth: the same without ratings, with
ten and a hundred times the edits.

CPU seconds, the best of several turns. Peers come with the extras `dev` and `bench`; one that is not installed is
left out and said. What it does not show: that a number is right. That is what the tests are for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bench import figures
from bench.figures import Row
from stillme.core.text import table
from stillme.protocol import builtin
from stillme.stats import icc, reliability
from stillme.stats.agreement import kappa
from stillme.stats.rates import rates
from stillme.stats.resample import disparity_replicates, gather
from stillme.stats.simulate import audit

SCALE = range(1, 6)
RATERS = 3
PATIENCE = 5.0  # CPU seconds: what takes longer has one turn
ROWS = 1_000_000
REPLICATES = 2_000
RATES = (0.02, 0.16, 0.10, 0.15, 0.18, 0.18, 0.15)
PARTS = ("coefficients", "bootstrap", "whole", "growth")
Way = Callable[[], Any]


SHOWS = (
    "Agreement, ICC, rates and the bootstrap of max − min beside libraries that compute them; the whole "
    "`stillme analyse`."
)
DOES_NOT_SHOW = (
    "the same question everywhere: fairlearn has no intervals, simpledorff no ordinal metric, and scipy "
    "and fairlearn draw "
    "rows where ours draws persons.",
    "what reading a file costs: every side gets its own natural input, made before the clock starts.",
    "the ordinal model of everybody: in large audits it takes a sample of persons, which is why time "
    "grows less than edits.",
)
PEERS = ("krippendorff", "simpledorff", "statsmodels", "scikit-learn", "pingouin", "fairlearn", "scipy")
TIMES_KRIPPENDORFF, TIMES_SCIPY, WHOLE_S, WHOLE_MB = 4, 100, 60, 1000
Line = tuple[str, str, float, Any, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--ratings", default="3000,300000,3000000")
    parser.add_argument("--edits", default="5040,50400,504000", help="of the growth")
    asked = parser.parse_args()
    wanted = asked.only.split(",")
    rows: list[Row] = []
    if "coefficients" in wanted:
        for size in map(int, asked.ratings.split(",")):
            rows += beside_rows(
                f"{size:,} ratings", show(f"{size:,} ratings, {RATERS} a thing", coefficients(size))
            )
    if "bootstrap" in wanted:
        title = f"Bootstrap of max − min, {REPLICATES:,} replicates"
        rows += beside_rows(f"{REPLICATES:,} replicates of max − min", show(title, bootstraps()))
    if "whole" in wanted:
        rows += whole()
    if "growth" in wanted:
        rows += growth([int(size) for size in asked.edits.split(",")])
    peers = figures.versions(*PEERS)
    left_out = [f"Left out, not installed: {name}." for name in PEERS if name not in peers]
    figures.write("statistics", rows, SHOWS, DOES_NOT_SHOW, peers, left_out)


def beside_rows(size: str, lines: list[Line]) -> Iterator[Row]:
    """Each peer beside ours, which stands before it."""
    mine = 0.0
    for what, who, seconds, _, _ in lines:
        if who == "stillme":
            mine = seconds
            continue
        row = figures.cost(f"{what}, {size}", mine, "CPU s", who, seconds)
        if who == "krippendorff" and size == "3,000,000 ratings":
            row = row.times(TIMES_KRIPPENDORFF)
        yield row.times(TIMES_SCIPY) if who == "scipy" else row


# Measuring


def cpu(way: Way) -> tuple[float, Any]:
    """CPU seconds of the best of several turns, and what came out."""
    turns: list[float] = []
    while sum(turns) < 0.5 or (len(turns) < 2 and sum(turns) < PATIENCE):  # the first turn may import
        before = time.process_time()
        found = way()
        turns.append(max(time.process_time() - before, 1e-6))
    return min(turns), found


def show(title: str, rows: Iterator[Line]) -> list[Line]:
    """What, who, seconds, value, and how many times ours."""
    found = list(rows)
    lines = [(what, who, f"{s:.5f}", _value(v), f"{ratio:.1f}") for what, who, s, v, ratio in found]
    print(f"\n{title}")
    print(table(("", "by", "CPU s", "value", "times ours"), lines, right={2, 3, 4}), flush=True)
    return found


def _value(found: Any) -> str:
    return "–" if found is None else f"{found:.6f}"


def beside(what: str, ours: Way, **peers: Way) -> Iterator[Line]:
    own, value = cpu(ours)
    yield what, "stillme", own, value, 1.0
    for name, way in peers.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed, and left out", file=sys.stderr)
            continue
        taken, theirs = cpu(way)
        yield what, name, taken, theirs, taken / own


# Coefficients


def coefficients(ratings: int) -> Iterator[Line]:
    import pandas as pd

    rng = np.random.default_rng(7)
    things = ratings // RATERS
    truth = rng.normal(size=things)[:, None]
    scores = np.clip(np.round(3 + truth + rng.normal(size=(things, RATERS))), 1, 5).astype(np.int64)
    items, flat = np.repeat(np.arange(things), RATERS), scores.ravel()
    long = pd.DataFrame({"thing": items, "rater": np.tile(np.arange(RATERS), things), "score": flat})
    matrix = scores.T.astype(float)
    yield from beside(
        "alpha, ordinal",
        lambda: reliability.alpha(reliability.counts(items, flat, SCALE)),
        krippendorff=lambda: _krippendorff(matrix),
        simpledorff=lambda: _simpledorff(long),
    )
    yield from beside(
        "Fleiss' kappa",
        lambda: reliability.fleiss(reliability.counts(items, flat, SCALE)).kappa,
        statsmodels=lambda: _fleiss(scores),
    )
    yield from beside(
        "weighted kappa",
        lambda: kappa(scores[:, 0], scores[:, 1], SCALE).kappa,
        sklearn=lambda: _kappa(scores),
    )
    yield from beside("ICC(2,1)", lambda: icc.icc(scores)[icc.Form.TWO].icc, pingouin=lambda: _icc(long))
    yield from groups(ratings)


def _krippendorff(matrix: np.ndarray) -> float:
    import krippendorff

    return float(krippendorff.alpha(matrix, level_of_measurement="ordinal", value_domain=list(SCALE)))


def _simpledorff(long: Any) -> float:
    import simpledorff

    return float(
        simpledorff.calculate_krippendorffs_alpha_for_df(
            long,
            experiment_col="thing",
            annotator_col="rater",
            class_col="score",
            metric_fn=simpledorff.metrics.interval_metric,
        )
    )


def _fleiss(scores: np.ndarray) -> float:
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    return float(fleiss_kappa(aggregate_raters(scores)[0]))


def _kappa(scores: np.ndarray) -> float:
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(scores[:, 0], scores[:, 1], labels=list(SCALE), weights="quadratic"))


def _icc(long: Any) -> float:
    import pingouin

    found = pingouin.intraclass_corr(data=long, targets="thing", raters="rater", ratings="score")
    return float(found["ICC"].iloc[1])


def groups(rows: int) -> Iterator[Line]:
    """Rates by group: ours with person-clustered intervals, fairlearn's without any."""
    marked = _marked(rows)
    hits, race = marked["hit"].to_numpy().astype(int), marked["race"].to_numpy()
    yield from beside(
        "rates by group",
        lambda: rates(marked, ["editor", "race"])["rate"].max(),
        fairlearn=lambda: _fair(hits, race),
    )


def _fair(hits: np.ndarray, race: np.ndarray, **more: Any) -> float:
    from fairlearn.metrics import MetricFrame, selection_rate

    found = MetricFrame(metrics=selection_rate, y_true=hits, y_pred=hits, sensitive_features=race, **more)
    return float(found.by_group.max()) if not more else float(found.difference_ci()[0])


def _marked(rows: int) -> pl.DataFrame:
    """One editor's outcomes: 84 persons, as many edits each as it takes."""
    rng, groups = np.random.default_rng(1), list(builtin().groups.ids("race"))
    person = np.arange(rows) % 84
    hit = rng.random(rows) < np.asarray(RATES)[person % 7]
    return pl.DataFrame(
        {
            "person": person.astype(str),
            "race": np.asarray(groups)[person % 7],
            "editor": "one",
            "outcome": "any",
            "hit": hit,
            "single": False,
            "flagged": False,
        }
    )


# Bootstrap


def bootstraps() -> Iterator[Line]:
    order = list(builtin().groups.ids("race"))
    marked, few = _marked(ROWS), _marked(1_000)
    yield from beside(
        f"{ROWS:,} rows", lambda: _own(marked, order), scipy=lambda: _scipy_bootstrap(*_rows(marked))
    )
    yield from beside("1,000 rows", lambda: _own(few, order), fairlearn=lambda: _fair_bootstrap(*_rows(few)))


def _rows(marked: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return marked["hit"].to_numpy().astype(int), marked["race"].to_numpy()


def _own(marked: pl.DataFrame, order: list[str]) -> float:
    drawn = disparity_replicates(gather(marked, "race", order), REPLICATES)
    return float(np.percentile(drawn, 2.5))


def _scipy_bootstrap(hits: np.ndarray, race: np.ndarray) -> float:
    from scipy.stats import bootstrap

    codes = np.unique(race, return_inverse=True)[1]

    def spread(hit: np.ndarray, group: np.ndarray) -> float:
        found = np.bincount(group, hit, 7) / np.bincount(group, minlength=7)
        return float(found.max() - found.min())

    drawn = bootstrap(
        (hits, codes), spread, n_resamples=REPLICATES, paired=True, vectorized=False, method="percentile", batch=1,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    return float(drawn.confidence_interval.low)


def _fair_bootstrap(hits: np.ndarray, race: np.ndarray) -> float:
    """A tenth of our replicates."""
    return _fair(hits, race, n_boot=REPLICATES // 10, ci_quantiles=[0.025, 0.975], random_state=0)


# The whole analysis


def make_audit(folder: Path, persons_per_cell: int, ratings: int = 0) -> None:
    """Judges' scores of a simulated audit on all axes, and ratings of some of its outputs."""
    protocol = builtin()
    planted = {protocol.rubrics.outcomes[protocol.manifest.tables.change_by_group.outcome].axis: [RATES] * 3}
    judged = audit(protocol, 0, planted, per_cell=persons_per_cell).judged
    judged.write_parquet(folder / "scores.parquet")
    if ratings:
        make_ratings(judged, ratings).write_parquet(folder / "ratings.parquet")


def make_ratings(judged: pl.DataFrame, outputs: int) -> pl.DataFrame:
    """Three raters an output, 10 tasks: what the first judge says, give or take a point."""
    rng = np.random.default_rng(3)
    trials = judged["trial"].unique(maintain_order=True)
    chosen = trials.gather(np.sort(rng.choice(len(trials), outputs // RATERS, replace=False)))
    rows = judged.filter(pl.col("trial").is_in(chosen.implode()) & (pl.col("rank") == 0)).drop_nulls("score")
    tasks = dict(zip(chosen, (np.arange(len(chosen)) % 10).tolist(), strict=True))
    parts = []
    for rater in range(RATERS):
        moved = np.clip(rows["score"].to_numpy() + rng.integers(-1, 2, rows.height), 1, 5)
        task = rows["trial"].replace_strict(tasks, return_dtype=pl.Int64).cast(pl.String)
        parts.append(
            rows.select("trial", "axis").with_columns(
                task=task, rater="r" + task + f"-{rater}", score=pl.Series(moved), seconds=pl.lit(8.0)
            )
        )
    return pl.concat(parts)


def analysed(folder: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak megabytes of the command, in a process of its own."""
    command = [sys.executable, "-m", "stillme", "analyse", str(folder), "--to", str(folder / "out")]
    code = (
        "import json,resource,subprocess,sys,time\n"
        f"t=time.perf_counter(); subprocess.run({command!r}, check=True, stdout=subprocess.DEVNULL)\n"
        "r=resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([time.perf_counter()-t, r.ru_utime+r.ru_stime, r.ru_maxrss/1024]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    seconds, spent, megabytes = json.loads(done.stdout)
    return seconds, spent, megabytes


def whole() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        make_audit(Path(folder), 1, ratings=3_000)
        seconds, spent, megabytes = analysed(Path(folder))
    print("\nThe whole analysis: 5,040 edits, 3 editors, 2 judges, 3,000 ratings of 1,000 outputs")
    print(f"{seconds:.1f} s on {os.cpu_count()} cores, {spent:.1f} CPU s, {megabytes:.0f} MB at most", flush=True)
    told = "the whole analysis, 5,040 edits, 3,000 ratings"
    return [
        figures.cost(told, seconds, "s").at_most(WHOLE_S),
        figures.cost(f"{told}: peak memory", megabytes, "MB").at_most(WHOLE_MB),
    ]


def growth(sizes: list[int]) -> list[Row]:
    print("\nThe whole analysis as edits grow (more persons, as many prompts and editors)")
    first: tuple[int, float] | None = None
    lines, rows = [], []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_audit(Path(folder), max(1, size // 5_040))
            seconds, spent, megabytes = analysed(Path(folder))
        first = first or (size, spent)
        times = f"{size / first[0]:.0f} × edits, {spent / first[1]:.1f} × CPU"
        rows.append(figures.cost(f"the whole analysis, {size:,} edits: CPU", spent, "s"))
        rows.append(figures.cost(f"the whole analysis, {size:,} edits: peak memory", megabytes, "MB"))
        if size > first[0]:
            name = f"CPU at {size:,} edits, over that at {first[0]:,}"
            rows.append(figures.cost(name, spent / first[1], "times").at_most(size / first[0]))
        lines.append((f"{size:,}", f"{seconds:.1f}", f"{spent:.1f}", f"{megabytes:.0f}", times))
    print(table(("edits", "s", "CPU s", "peak MB", ""), lines, right={0, 1, 2, 3}), flush=True)
    return rows


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
