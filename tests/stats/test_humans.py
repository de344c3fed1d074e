"""Judges beside raters: distances, orders and errors are what they say, for whom they differ is found, and only then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.inter_rater import cohens_kappa

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.humans import (
    alignment,
    between_p,
    clustered_mean,
    confusion,
    functioning,
    human_findings,
    lower_bound,
    lower_bound_of_change,
    majority,
    pairs,
    raters_scores,
    reliability_of_mean,
)
from stillme.stats.icc import Form, icc
from stillme.stats.outcomes import mark
from stillme.stats.simulate import audit

CHANGED = {"changed": Outcome(label="Changed", axis="x", at_least=3)}


def scores_of(given: Sequence[int | None], each: int = 1, neutral: int | None = 1) -> pl.DataFrame:
    """One output a score, `each` to a person, on one axis."""
    n = len(given)
    return pl.DataFrame(
        {
            "trial": [f"t{i}" for i in range(n)],
            "person": [f"p{i // each}" for i in range(n)],
            "race": [f"g{i // each % 2}" for i in range(n)],
            "axis": "x",
            "neutral": pl.Series([neutral] * n, dtype=pl.Int64),
            "requested": False,
            "score": pl.Series(given, dtype=pl.Int64),
        }
    )


def ratings_of(given: Iterable[Sequence[int | None]], neutral: int | None = 1) -> pl.DataFrame:
    """Raters' scores of each output."""
    rows = [
        (f"t{place}", f"r{rater}", "x", neutral, score)
        for place, all_ in enumerate(given)
        for rater, score in enumerate(all_)
    ]
    schema = {"trial": pl.String, "rater": pl.String, "axis": pl.String, "neutral": pl.Int64, "score": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def drawn(seed: int, n: int = 160) -> tuple[list[int], list[list[int]]]:
    """Judges' and three raters' scores of the same outputs, each with their own noise."""
    rng = np.random.default_rng(seed)
    severity = rng.normal(2.2, 1.0, n) + np.repeat(rng.normal(0, 0.5, n // 8), 8)
    seen = np.clip(np.rint(severity + rng.normal(0, 0.7, (4, n))), 1, 5).astype(int)
    return seen[0].tolist(), seen[1:].T.tolist()


def test_a_typical_score_leans_to_neither_side() -> None:
    """Between two scores the one nearer to neutral; without a neutral score the lower one."""
    given: list[list[int | None]] = [[1, 2], [4, 5], [2, 3], [3, 4], [2, 4], [1, 1, 5], [None, 4]]
    assert raters_scores(ratings_of(given, neutral=3))["typical"].to_list() == [2, 4, 3, 3, 3, 1, 4]
    assert raters_scores(ratings_of(given, neutral=1))["typical"].to_list() == [1, 4, 2, 3, 3, 1, 4]
    assert raters_scores(ratings_of(given, neutral=None))["typical"].to_list() == [1, 4, 2, 3, 3, 1, 4]


def test_equal_means_of_other_numbers_of_raters_tie() -> None:
    found = raters_scores(ratings_of([[1, 2, 2], [1, 2, 2, 1, 2, 2], [2, 2, 1, None]]))
    assert found["human"].n_unique() == 1
    assert found["raters"].to_list() == [3, 6, 3]


def test_figures_are_those_of_the_libraries() -> None:
    judges, people = drawn(1)
    found = alignment(scores_of(judges, each=8), ratings_of(people)).row(0, named=True)
    human = np.array(people).mean(axis=1)
    middle = np.median(people, axis=1).astype(int)
    table = np.zeros((5, 5))
    np.add.at(table, (middle - 1, np.array(judges) - 1), 1)
    assert found["difference"] == pytest.approx(np.mean(judges - human))
    assert found["exact"] == pytest.approx(np.mean(judges == middle))
    assert found["within_one"] == pytest.approx(np.mean(np.abs(judges - middle) <= 1))
    assert found["kappa"] == pytest.approx(cohens_kappa(table, wt="quadratic").kappa)
    assert found["rho"] == pytest.approx(stats.spearmanr(judges, human).statistic)
    assert found["rho_low"] < found["rho"] < found["rho_high"]
    assert found["reliability"] == pytest.approx(icc(people)[Form.ONE_K].icc)
    assert found["rho_corrected"] == pytest.approx(found["rho"] / np.sqrt(found["reliability"]))


def test_the_interval_is_the_cluster_robust_one() -> None:
    judges, people = drawn(2)
    difference = judges - np.array(people).mean(axis=1)
    who = np.repeat(np.arange(20), 8)
    fit = OLS(difference, np.ones(len(who))).fit(cov_type="cluster", cov_kwds={"groups": who}, use_t=True)
    found = alignment(scores_of(judges, each=8), ratings_of(people)).row(0, named=True)
    assert (found["low"], found["high"]) == pytest.approx(tuple(fit.conf_int()[0]))


def test_judges_unrounded_mean_is_compared_where_there_is_one() -> None:
    scores = scores_of([2, 3]).with_columns(mean=pl.Series([1.5, 3.0]))
    assert pairs(scores, ratings_of([[1], [3]]))["difference"].to_list() == [0.5, 0.0]


def test_what_prompts_ask_for_and_what_nobody_scored_is_left_out() -> None:
    scores = scores_of([1, 2, None, 4]).with_columns(requested=pl.Series([True, False, False, False]))
    both = pairs(scores, ratings_of([[1], [2, 3], [1], [None]]))
    assert both["trial"].to_list() == ["t1"]


def test_raters_set_how_far_anybody_can_agree() -> None:
    """A judge who errs like one more rater reaches the ceiling, and one who errs more does not."""
    rng = np.random.default_rng(3)
    severity = rng.normal(3, 1.2, 1600)
    seen = [
        np.clip(np.rint(severity + rng.normal(0, sd, 1600)), 1, 5).astype(int) for sd in (0.8, 0.8, 0.8, 0.8, 2.5)
    ]
    people = np.array(seen[:3]).T.tolist()
    alike, worse = (
        alignment(scores_of(judge.tolist(), each=20), ratings_of(people)).row(0, named=True) for judge in seen[3:]
    )
    assert alike["rho_left_out"] == pytest.approx(alike["ceiling_rho"], abs=0.05)
    assert alike["kappa_left_out"] == pytest.approx(alike["ceiling_kappa"], abs=0.05)
    assert worse["rho_left_out"] < worse["ceiling_rho"] - 0.2
    assert alike["rho_corrected"] > alike["rho"]
    assert worse["ceiling_rho"] == alike["ceiling_rho"]


def test_identical_raters_and_judges_agree_wholly() -> None:
    given = [1, 2, 3, 4, 5, 1, 2, 5, 3, 4]
    found = alignment(scores_of(given), ratings_of([[s] * 3 for s in given])).row(0, named=True)
    names = ("exact", "within_one", "kappa", "rho", "reliability", "rho_corrected", "ceiling_rho", "ceiling_kappa")
    assert [found[name] for name in names] == pytest.approx([1.0] * 8)
    assert (found["difference"], found["low"]) == (0.0, None)  # nothing varies, so nothing says how surely


@pytest.mark.parametrize("people", [[[1]] * 9, [[3, 3]] * 9, [[None]] * 9, [[1, 5]] * 9])
def test_what_cannot_be_told_is_null_and_never_nan(people: list[list[int | None]]) -> None:
    found = alignment(scores_of([1] * 9), ratings_of(people))
    assert found["rho"].null_count() == found.height
    assert found.select(pl.col(pl.Float64).is_nan().any()).sum_horizontal().sum() == 0


def test_fewer_than_eight_persons_have_figures_without_intervals() -> None:
    judges, people = drawn(4, n=56)
    found = alignment(scores_of(judges, each=8), ratings_of(people)).row(0, named=True)
    assert found["persons"] == 7 and found["rho"] is not None and found["difference"] is not None
    assert found["low"] is found["rho_low"] is None


def test_each_judge_and_each_group_has_a_row_and_the_whole_one_too() -> None:
    judges, people = drawn(5)
    own = scores_of(judges, each=8)
    judged = pl.concat([own.with_columns(judge=pl.lit(j)) for j in ("a", "b")])
    assert alignment(judged, ratings_of(people), ["judge", "axis"])["outputs"].to_list() == [160, 160]
    by_group = alignment(own, ratings_of(people), ["axis", "race"])
    assert by_group["outputs"].to_list() == [80, 80] and by_group["race"].to_list() == ["g0", "g1"]
    assert alignment(own, ratings_of(people), [])["outputs"].to_list() == [160]


def test_rows_that_stand_twice_are_an_error() -> None:
    scores, ratings = scores_of([1, 2]), ratings_of([[1], [2]])
    with pytest.raises(InputError, match="ratings have t0 × x × r0 more than once"):
        pairs(scores, pl.concat([ratings, ratings.head(1)]))
    with pytest.raises(InputError, match="scores have t0 × x more than once"):
        pairs(pl.concat([scores, scores.head(1)]), ratings)


def test_a_mean_of_persons_without_variation_or_persons() -> None:
    assert clustered_mean([], []).mean is None
    assert clustered_mean([0.0] * 10, [3] * 10).error is None
    assert clustered_mean([1, 2], [1, 1]).low is None


def test_reliability_needs_outputs_that_differ_and_raters_that_share() -> None:
    assert reliability_of_mean([3, 4], [9, 16], [1, 1]) is None
    assert reliability_of_mean([6, 6], [26, 26], [2, 2]) is None  # (1, 5) twice: outputs differ less than raters


def persons(seed: int, shift: float = 0.0, follow: str = "race") -> pl.DataFrame:
    """Pairs of 84 persons in 7 groups × 12 strata with four outputs each; judge − human is higher in one group."""
    rng = np.random.default_rng(seed)
    race, age = np.repeat(np.arange(7), 12), np.tile(np.arange(12), 7)
    mean = rng.normal(0, 0.3, 84) + shift * ((race if follow == "race" else age) == 2)
    return pl.DataFrame(
        {
            "person": np.repeat(np.arange(84), 4),
            "race": [f"g{g}" for g in np.repeat(race, 4)],
            "age": [f"a{a}" for a in np.repeat(age, 4)],
            "difference": np.repeat(mean, 4) + rng.normal(0, 0.6, 336),
        }
    )


def test_a_judge_that_differs_for_one_group_is_found_and_on_the_right_axis() -> None:
    both = pl.concat(
        [
            persons(1, 0.7).with_columns(axis=pl.lit("skewed")),
            persons(2).with_columns(axis=pl.lit("even"), difference=pl.col("difference") + 1),  # far off, for all
            persons(3, 2.0, follow="age").with_columns(axis=pl.lit("by age")),
        ]
    )
    found = functioning(both, "race", "g2", ["age"])
    told = {row["axis"]: row for row in found.to_dicts()}
    assert told["skewed"]["p_holm"] < 0.01 and told["skewed"]["contrast_p_holm"] < 0.01
    assert (
        told["skewed"]["high"] < 0 and told["skewed"]["reference_difference"] > told["skewed"]["others_difference"]
    )
    assert told["even"]["p_holm"] > 0.05 and told["by age"]["p_holm"] > 0.05
    assert all(row["groups"] == 7 and row["persons"] == 84 for row in told.values())


def test_chance_is_found_no_more_often_than_it_may_be() -> None:
    """300 audits in which nobody's group matters, but age does."""
    race, age = np.repeat(np.arange(7), 12), np.tile(np.arange(12), 7)
    rng = np.random.default_rng(5)
    found = [between_p(rng.normal(0, 1, 84) + age / 3, race, age, draws=199, seed=seed) for seed in range(300)]
    assert np.mean([p is not None and p <= 0.05 for p in found]) <= 0.08


def test_one_group_or_strata_that_never_meet_say_nothing() -> None:
    values = np.arange(8.0)
    assert between_p(values, ["a"] * 8, ["s"] * 8) is None
    assert between_p(values, ["a", "b"] * 4, [str(i) for i in range(8)]) is None
    assert between_p(np.ones(8), ["a", "b"] * 4, ["s"] * 8) is None
    alone = persons(1).filter(pl.col("race") == "g0").with_columns(axis=pl.lit("x"))
    row = functioning(alone, "race", "g0", ["age"]).row(0, named=True)
    assert row["p"] is row["contrast"] is row["eta2"] is row["p_holm"] is None


def test_a_split_is_half_and_cannot_determine_is_no_vote() -> None:
    found = majority(ratings_of([[3, 3, 1], [3, 1, 1], [3, 1], [5, None, None], [None]]), CHANGED)
    assert found.select("trial", "raters", "yes", "human").rows() == [
        ("t0", 3, 2, 1.0),
        ("t1", 3, 1, 0.0),
        ("t2", 2, 1, 0.5),
        ("t3", 1, 1, 1.0),
    ]


def test_errors_are_counted_by_group() -> None:
    """g0: judges see 1 of 2 changes and call 1 of 2 calm outputs changed; g1: all right, one split."""
    scores = scores_of([3, 1, 4, 2, 1, 1, 5, 3], each=2)  # g0 g0 g1 g1 g0 g0 g1 g1
    people = [[3, 3, 1], [4, 4, 4], [3, 4], [1, 2], [1, 1], [1, 2, 1], [5, 5], [3, 2]]
    scores = scores.with_columns(score=pl.when(pl.col("trial") == "t5").then(4).otherwise("score").cast(pl.Int64))
    found = confusion(mark(scores, CHANGED), ratings_of(people), CHANGED, ["race"])
    columns = ("race", "outputs", "split", "human_yes", "human_no", "sensitivity", "specificity")
    assert found.select(columns).rows() == [("g0", 4, 0, 2, 2, 0.5, 0.5), ("g1", 4, 1, 2, 1, 1.0, 1.0)]
    assert found["sensitivity_low"].null_count() == 2  # two persons


def seen_by(judges: float, raters: float, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    marks, votes = rng.random(480) < judges, rng.random((480, 3)) < raters
    return scores_of(np.where(marks, 4, 1).tolist(), each=12), ratings_of(np.where(votes, 4, 1).tolist())


@pytest.mark.parametrize(
    ("judges", "raters", "verdict"),
    [(0.1, 0.4, "supported"), (0.5, 0.2, "contradicted"), (0.3, 0.363, "not shown")],
)
def test_whether_judges_are_a_lower_bound_is_said_only_where_it_is_shown(
    judges: float, raters: float, verdict: str
) -> None:
    scores, ratings = seen_by(judges, raters, seed=1)  # most of three raters at 0.363 each are 0.3
    row = lower_bound(mark(scores, CHANGED), ratings, CHANGED).row(0, named=True)
    assert row["verdict"] == verdict
    assert row["difference"] == pytest.approx(row["human_mean"] - row["judge_mean"])
    assert row["low"] < row["difference"] < row["high"]
    assert row["p_lower"] + row["p_higher"] == pytest.approx(1)
    assert lower_bound_of_change(scores, ratings).row(0, named=True)["verdict"] == verdict


def test_change_is_how_far_a_score_is_from_neutral_on_either_side() -> None:
    scores = scores_of([1, 5, 3, 3] * 4, neutral=3)
    row = lower_bound_of_change(scores, ratings_of([[3, 3, 3], [3, 3, 3], [1, 1, 2], [5, 5, 3]] * 4, neutral=3))
    assert row.select("judge_mean", "human_mean", "verdict").row(0) == (1.0, 1.0, "not shown")
    assert lower_bound_of_change(scores_of([1] * 9, neutral=None), ratings_of([[1]] * 9, neutral=None)).height == 0


def test_alike_rates_are_called_higher_or_lower_no_more_often_than_they_may_be() -> None:
    """Two one-sided tests at 5 %, on 60 audits in which most raters and judges say yes alike."""
    told = [
        lower_bound(mark(scores, CHANGED), ratings, CHANGED)["verdict"][0]
        for scores, ratings in (seen_by(0.3, 0.363, seed) for seed in range(60))
    ]
    assert told.count("supported") <= 8 and told.count("contradicted") <= 8  # 5 % and three errors


def test_few_persons_or_none_that_differ_show_nothing() -> None:
    few = lower_bound(mark(scores_of([1] * 6), CHANGED), ratings_of([[5]] * 6), CHANGED).row(0, named=True)
    assert (few["verdict"], few["reason"], few["p_lower"]) == ("not shown", "fewer than 8 persons", None)
    same = lower_bound(mark(scores_of([1] * 9), CHANGED), ratings_of([[1]] * 9), CHANGED).row(0, named=True)
    assert (same["verdict"], same["reason"]) == ("not shown", "persons do not differ")


def test_many_looks_are_corrected() -> None:
    scores, ratings = seen_by(0.3, 0.45, seed=3)
    one = lower_bound(mark(scores, CHANGED), ratings, CHANGED)
    many = {f"changed {i}": CHANGED["changed"] for i in range(30)}
    rows = lower_bound(mark(scores, many), ratings, many)
    assert rows["p_lower_holm"][0] == pytest.approx(min(1, 30 * one["p_lower"][0]))


def raters_of(scores: pl.DataFrame, protocol: Protocol, seed: int, share: float) -> pl.DataFrame:
    """Three raters for a share of the trials, each near the judges' score."""
    rng = np.random.default_rng(seed)
    trials = scores["trial"].unique(maintain_order=True)
    chosen = trials.filter(pl.Series(rng.random(len(trials)) < share))
    part = scores.filter(pl.col("trial").is_in(chosen.to_list()))
    return pl.concat(
        part.with_columns(
            pl.lit(f"r{rater}").alias("rater"),
            pl.Series("score", np.clip(part["score"].to_numpy() + rng.integers(-1, 2, part.height), 1, 5)),
        )
        for rater in range(3)
    )


def test_a_whole_audit_comes_out_with_every_table(protocol: Protocol) -> None:
    made = audit(protocol, seed=1, editors=["e"], prompts=list(protocol.prompt)[:6])
    ratings = raters_of(made.scores, protocol, 2, share=0.5)
    marked = mark(made.scores, protocol.rubrics.outcomes)
    found = human_findings(made.scores, marked, ratings, protocol, made.judged)
    groups = len(protocol.groups.ids("race"))
    axes = found.alignment.height
    assert axes >= 5 and found.by_group.height == axes * groups
    assert found.by_judge is not None and found.by_judge.height == axes * 2
    assert found.functioning.height == axes
    assert found.confusion.height == found.bounds.height * groups == len(protocol.rubrics.outcomes) * groups
    assert found.rectified.contrasts.height == 4 * len(protocol.rubrics.outcomes)
    assert found.rectified.contrasts["low"].null_count() == 0
    for frame in (found.alignment, found.by_group, found.functioning, found.confusion, found.bounds):
        assert frame.select(pl.col(pl.Float64).is_nan().any()).sum_horizontal().item() == 0
    again = alignment(made.scores, ratings, ["axis"])
    assert again.equals(found.alignment)


def test_nothing_to_compare_is_an_empty_table() -> None:
    judges, people = drawn(1, 16)
    assert alignment(scores_of(judges), ratings_of(people), by=()).height == 1
    unscored = scores_of([None] * 16)
    for by in ((), ("axis",)):
        found = alignment(unscored, ratings_of(people), by=by)
        assert found.is_empty() and "rho" in found.columns


def test_a_main_table_by_a_dimension_without_a_reference_group_does_no_harm(protocol: Protocol) -> None:
    """Judges and raters are held against each other by the groups that have one."""
    table = protocol.manifest.tables.change_by_group.model_copy(update={"by": "gender"})
    tables = protocol.manifest.tables.model_copy(update={"change_by_group": table})
    other = replace(protocol, manifest=protocol.manifest.model_copy(update={"tables": tables}))
    made = audit(protocol, seed=1, editors=["e"], prompts=list(protocol.prompt)[:2])
    ratings, marked = raters_of(made.scores, protocol, 2, share=0.5), mark(made.scores, protocol.rubrics.outcomes)
    found = human_findings(made.scores, marked, ratings, other)
    assert found.by_group.equals(human_findings(made.scores, marked, ratings, protocol).by_group)
