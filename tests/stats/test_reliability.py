"""Agreement of raters beside krippendorff, statsmodels and sklearn; ratings of a study in a frame."""

from __future__ import annotations

import warnings

import krippendorff
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats import reliability as module
from stillme.stats.agreement import Weights, kappa, kappa_of
from stillme.stats.reliability import (
    alpha,
    alpha_bootstrap,
    alpha_jackknife,
    counts,
    fleiss,
    gwet,
    gwet_jackknife,
    of_mean,
    percent_agreement,
    raters_needed,
    reliability,
)

METRICS: tuple[module.Metric, ...] = ("nominal", "ordinal", "interval", "ratio")
SCALE = range(1, 6)
tables = st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=2, max_size=25)
sheets = st.lists(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, None]), min_size=3, max_size=3), min_size=2, max_size=20
)


def simulated(seed: int, tasks: int = 10, raters: int = 3, items: int = 100, severity: float = 0.5) -> np.ndarray:
    """Scores, tasks × raters × items: raters of a task are more or less severe with all of its items."""
    chance = np.random.default_rng(seed)
    latent = chance.normal(0, 1, (tasks, 1, items)) + chance.normal(0, severity, (tasks, raters, 1))
    return 1 + np.digitize(latent + chance.logistic(0, 0.6, (tasks, raters, items)), [0.5, 1.2, 1.9, 2.6])


def tallied(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Its table of items × scores, and the task of every item."""
    tasks, _, items = scores.shape
    which = np.broadcast_to(np.arange(tasks * items).reshape(tasks, 1, items), scores.shape)
    return counts(which.ravel(), scores.ravel(), SCALE), np.repeat(np.arange(tasks), items)


@settings(max_examples=40)
@given(sheets)
def test_alpha_is_krippendorffs(sheet: list[list[int | None]]) -> None:
    scores = np.array(sheet, float)
    table = counts(np.repeat(np.arange(len(scores)), 3), scores.ravel(), SCALE)
    used = table[table.sum(1) >= 2].sum(0)
    for metric in METRICS:
        if (used > 0).sum() < 2:
            assert alpha(table, metric) is None, "one score only: nothing could have differed"
        else:
            theirs = krippendorff.alpha(
                value_counts=table, value_domain=[1.0, 2, 3, 4, 5], level_of_measurement=metric
            )
            assert alpha(table, metric) == pytest.approx(theirs, abs=1e-9), metric


def test_missing_scores_are_no_category() -> None:
    """Some packages take NaN for a sixth score on new versions of numpy: AC1 is then 0.78553."""
    sheet = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    scores = np.array(sheet, float).T
    table = counts(np.repeat(np.arange(12), 4), scores.ravel(), SCALE)
    assert table.shape == (12, 5) and table.sum() == 41
    assert gwet(table).coefficient == pytest.approx(0.77544, abs=5e-6)
    assert alpha(table, "nominal") == pytest.approx(0.743, abs=5e-4)


def test_counting_knows_gaps_in_the_scale_and_refuses_what_is_not_on_it() -> None:
    assert counts([0, 1, 1], [1, 5, 3], [1, 3, 5]).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert counts([0, 1, 1], [np.nan, 2, 2], SCALE).tolist() == [[0] * 5, [0, 2, 0, 0, 0]]
    assert counts([], [], SCALE).shape == (0, 5)
    for wrong in ([6], [0], [2.5], [np.inf]):
        with pytest.raises(InputError, match="scale has 1 to 5"):
            counts([0], wrong, SCALE)


@given(tables)
def test_fleiss_is_statsmodels_where_all_have_the_same_number_of_ratings(rows: list[list[int]]) -> None:
    table = np.array(rows)
    found = fleiss(table)
    rated = table.sum(1)
    numbers = np.bincount(rated, minlength=2)[2:]
    if not numbers.any():
        assert found == module.Fleiss(0, None)
        return
    assert found.raters is not None and numbers[found.raters - 2] == numbers.max() == found.things
    same = table[rated == found.raters]
    if (same.sum(0) > 0).sum() < 2:
        assert found.kappa is None
    else:
        assert found.kappa == pytest.approx(fleiss_kappa(same), abs=1e-9)


@given(tables)
def test_coefficients_depend_neither_on_order_nor_on_how_things_are_counted(rows: list[list[int]]) -> None:
    table = np.array(rows)
    plain, twice = (gwet(table, "quadratic"), percent_agreement(table)), np.vstack([table[::-1], table])
    again = gwet(twice, "quadratic")
    if plain[0].coefficient is None:
        assert again.coefficient is None
    else:
        assert again.coefficient == pytest.approx(plain[0].coefficient)
    assert percent_agreement(twice) == (None if plain[1] is None else pytest.approx(plain[1]))
    sorted_out = module._patterns(table * 1000)  # too many patterns to count by number
    assert np.array_equal(sorted_out.kinds[sorted_out.of], table * 1000.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=50))
def test_weighted_kappa_is_sklearns_and_its_interval_statsmodels(pairs: list[tuple[int, int]]) -> None:
    one, other = (list(scores) for scores in zip(*pairs, strict=True))
    table = np.bincount([5 * (a - 1) + b - 1 for a, b in pairs], minlength=25).reshape(5, 5)
    apart = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    by_kind: dict[Weights, np.ndarray] = {"linear": apart / 4, "quadratic": apart**2 / 16}
    for weights, lost in by_kind.items():
        found = kappa(one, other, SCALE, weights)
        if found.kappa is None:
            assert set(one) == set(other) and len(set(one)) == 1, "one and the same score"
            continue
        assert found.kappa == pytest.approx(cohen_kappa_score(one, other, labels=list(SCALE), weights=weights))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = cohens_kappa(table, weights=lost)
        if np.isfinite(theirs.kappa_low):
            bounds = (max(-1.0, theirs.kappa_low), min(1.0, theirs.kappa_upp))
            assert (found.low, found.high) == pytest.approx(bounds, abs=1e-6)
        assert kappa_of(table, weights) == found


def test_kappa_refuses_scores_that_are_not_on_the_scale() -> None:
    with pytest.raises(InputError, match="A score is 6"):
        kappa([1, 6], [1, 2], SCALE)
    assert kappa([1, np.nan, 3, 4], [1, 2, np.nan, 5], SCALE).n == 2


def test_a_replicate_of_alpha_is_the_alpha_of_the_drawn_tasks() -> None:
    table, tasks = tallied(simulated(1, tasks=6, items=15))
    without = [alpha(table[tasks != task]) for task in range(6)]
    found = alpha_jackknife(table, tasks)
    by_hand = module.jackknife(alpha(table), [value for value in without if value is not None])
    assert found.clusters == 6 and (found.low, found.high) == pytest.approx((by_hand.low, by_hand.high))
    parts = module._cluster_coincidences(table, tasks)
    drawn = np.concatenate([table[tasks == task] for task in (0, 0, 2, 5)])
    for metric in METRICS:
        summed = parts[[0, 0, 2, 5]].sum(0)[None]
        assert module._alphas(summed, metric, np.arange(1.0, 6))[0] == pytest.approx(alpha(drawn, metric))


def test_leaving_out_tasks_is_wider_than_drawing_items() -> None:
    """Raters sit in tasks, so items of one task go wrong together."""
    table, tasks = tallied(simulated(2, severity=0.9))
    items, by_task, left_out = alpha_bootstrap(table), alpha_bootstrap(table, tasks), alpha_jackknife(table, tasks)
    widths = []
    for found in (items, by_task, left_out):
        assert found.estimate is not None and found.low is not None and found.high is not None
        assert found.low < found.estimate < found.high
        widths.append(found.high - found.low)
    assert widths[0] < 0.8 * widths[1] and widths[1] < widths[2]
    assert alpha_bootstrap(table, tasks) == by_task, "the seed is an argument"


def test_gwets_interval_by_tasks_is_wider_than_by_items() -> None:
    table, tasks = tallied(simulated(3, severity=0.9))
    plain, by_task = gwet(table, "quadratic"), gwet_jackknife(table, tasks, "quadratic")
    assert plain.coefficient == pytest.approx(by_task.estimate)
    assert plain.low is not None and by_task.low is not None and by_task.low < plain.low


def test_leaving_out_a_task_covers_the_truth() -> None:
    """A smaller version of the reference's simulation: 95 % there; 100 studies here, so 89 at the least."""
    many, _ = tallied(simulated(99, tasks=3000, items=20))
    truth = alpha(many)
    assert truth is not None
    hits = 0
    for seed in range(100):
        found = alpha_jackknife(*tallied(simulated(1000 + seed, items=40)))
        assert found.low is not None and found.high is not None
        hits += found.low <= truth <= found.high
    assert 89 <= hits <= 100


def test_prevalence_lowers_alpha_and_not_gwet() -> None:
    table = np.array([[3, 0, 0, 0, 0]] * 95 + [[2, 1, 0, 0, 0]] * 5)
    low, high, same = alpha(table), gwet(table, "quadratic").coefficient, percent_agreement(table)
    assert low is not None and high is not None and same is not None
    assert low < 0.05 and high > 0.95 and same > 0.95


def test_what_cannot_be_told_is_missing() -> None:
    for empty in (np.zeros((0, 5), int), np.zeros((4, 5), int), np.eye(5, dtype=int)):
        assert alpha(empty) is fleiss(empty).kappa is gwet(empty).coefficient is percent_agreement(empty) is None
        assert alpha_jackknife(empty, np.arange(len(empty))).low is None
        assert alpha_bootstrap(empty).low is gwet_jackknife(empty, np.arange(len(empty))).estimate is None
    constant = np.tile([0, 0, 3, 0, 0], (8, 1))
    assert alpha(constant) is fleiss(constant).kappa is None and percent_agreement(constant) == 1.0
    assert alpha_bootstrap(constant).low is alpha_jackknife(constant, range(8)).low is None


def test_more_raters_are_more_reliable() -> None:
    assert of_mean(0.5, 1) == 0.5 and of_mean(-0.1, 3) is None
    for single in (0.23, 0.336, 0.46):
        k = raters_needed(single, 0.8)
        assert k is not None
        enough, fewer = of_mean(single, k), of_mean(single, k - 1)
        assert enough is not None and fewer is not None and fewer < 0.8 <= enough
    assert raters_needed(0, 0.8) is raters_needed(-0.2, 0.8) is None and raters_needed(1.0, 0.8) == 1


def ratings(scores: np.ndarray, axis: str) -> pl.DataFrame:
    tasks, raters, items = np.indices(scores.shape).reshape(3, -1)
    return pl.DataFrame(
        {
            "task": [f"t{task}" for task in tasks],
            "rater": [f"r{task}-{rater}" for task, rater in zip(tasks, raters, strict=True)],
            "trial": [f"x{task}-{item}" for task, item in zip(tasks, items, strict=True)],
            "person": [f"p{item % 12}" for item in items],
            "race": ["a" if item % 2 else "b" for item in items],
            "axis": axis,
            "score": scores.ravel(),
        }
    )


@pytest.fixture
def axis(protocol: Protocol) -> str:
    return next(iter(protocol.axes))


def test_a_studys_ratings_by_axis(protocol: Protocol, axis: str) -> None:
    scores = simulated(5)
    table, tasks = tallied(scores)
    found = reliability(ratings(scores, axis), protocol).row(0, named=True)
    expected = alpha_jackknife(table, tasks)
    assert (found["asked"], found["ratings"], found["items"], found["paired"]) == (3000, 3000, 1000, 1000)
    assert (found["raters"], found["clusters"], found["unit"]) == (30, 10, "task")
    assert found["alpha_ordinal"] == pytest.approx(expected.estimate)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["alpha_nominal"] == pytest.approx(alpha(table, "nominal"))
    assert found["fleiss"] == pytest.approx(fleiss(table).kappa) and found["fleiss_raters"] == 3
    assert found["ac2_low"] < found["ac2"] == pytest.approx(gwet(table, "quadratic").coefficient)
    assert found["of_mean"] == pytest.approx(of_mean(found["alpha_ordinal"], 3))
    assert (found["gate"], found["bar"]) == ("exploratory", "problematic") and found["alpha_ordinal"] < 0.4


@pytest.mark.parametrize(
    ("noise", "gate", "bar"),
    [(0.05, "confirmatory", "acceptable"), (0.26, "models only", "between"), (2.0, "exploratory", "problematic")],
)
def test_what_may_rest_on_an_axis(protocol: Protocol, axis: str, noise: float, gate: str, bar: str) -> None:
    chance = np.random.default_rng(1)
    truth = chance.integers(1, 6, (8, 1, 60))
    scores = np.clip(np.rint(truth + chance.normal(0, 4 * noise, (8, 3, 60))), 1, 5).astype(int)
    found = reliability(ratings(scores, axis), protocol).row(0, named=True)
    assert (found["gate"], found["bar"]) == (gate, bar), found["alpha_ordinal"]


def test_missing_ratings_and_groups_are_counted_beside(protocol: Protocol, axis: str) -> None:
    frame = ratings(simulated(6, tasks=4, items=30), axis)
    gone = (pl.col("rater").str.ends_with("-2")) & (pl.col("race") == "a")
    frame = frame.with_columns(score=pl.when(~gone).then("score"))
    found = {row["race"]: row for row in reliability(frame, protocol, ["race"]).iter_rows(named=True)}
    assert (found["a"]["asked"], found["a"]["ratings"], found["a"]["raters"]) == (180, 120, 8)
    assert (found["a"]["fleiss_raters"], found["b"]["fleiss_raters"]) == (2, 3)
    alone = reliability(frame.filter(pl.col("race") == "a"), protocol).drop("axis")
    assert alone.row(0) == reliability(frame, protocol, ["race"]).filter(pl.col("race") == "a").drop(
        "axis", "race"
    ).row(0)


def test_tasks_that_share_outputs_count_as_one_and_persons_take_their_place(protocol: Protocol, axis: str) -> None:
    frame = ratings(simulated(7, tasks=4, items=36), axis)
    shared = frame.filter(pl.col("trial").str.ends_with("-0")).with_columns(
        trial=pl.lit("shared"), person=pl.lit("p0")
    )
    joined = pl.concat([frame.filter(~pl.col("trial").str.ends_with("-0")), shared])
    found = reliability(joined, protocol).row(0, named=True)
    assert (found["unit"], found["clusters"]) == ("person", 12) and found["low"] is not None


def test_nothing_to_say_is_null_never_nan(protocol: Protocol, axis: str) -> None:
    frame = ratings(simulated(8, tasks=4, items=5), axis)
    silent = reliability(frame.with_columns(score=pl.lit(None, pl.Int64)), protocol).row(0, named=True)
    assert (silent["asked"], silent["ratings"], silent["items"]) == (60, 0, 0)
    assert silent["alpha_ordinal"] is silent["gate"] is silent["agreement"] is silent["low"] is None
    constant = reliability(frame.with_columns(score=pl.lit(3)), protocol).row(0, named=True)
    assert constant["alpha_ordinal"] is constant["gate"] is None and constant["agreement"] == 1.0
    single = reliability(frame.filter(pl.col("rater").str.ends_with("-0")), protocol).row(0, named=True)
    assert (single["items"], single["paired"], single["alpha_ordinal"]) == (20, 0, None)
    assert reliability(frame.clear(), protocol).is_empty()


def test_wrong_ratings_are_refused(protocol: Protocol, axis: str) -> None:
    frame = ratings(simulated(9, tasks=3, items=4), axis)
    with pytest.raises(InputError, match="scale has 1 to 5"):
        reliability(frame.with_columns(score=pl.lit(7)), protocol)
    with pytest.raises(InputError, match="twice"):
        reliability(pl.concat([frame, frame[:1]]), protocol)
    with pytest.raises(InputError, match="no axis"):
        reliability(frame.with_columns(axis=pl.lit("nonsense")), protocol)


def test_patterns_are_counted_alike_however_many_raters_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few patterns are numbered, many are sorted."""
    table, tasks = tallied(simulated(3, items=20))
    numbered = [alpha(table), gwet(table), alpha_jackknife(table, tasks)]
    monkeypatch.setattr(module, "MOST_KEYS", 1)
    assert [alpha(table), gwet(table), alpha_jackknife(table, tasks)] == numbered
