"""Two one-sided tests beside statsmodels; what may be called alike."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind

from stillme.protocol import Protocol
from stillme.stats.contrast import contrasts
from stillme.stats.equivalence import equivalence, noninferiority, tost, welch
from stillme.stats.outcomes import mark
from tests.stats.audits import audit


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(3, 40), st.integers(3, 40), st.floats(0.05, 1.0))
def test_it_is_statsmodels(seed: int, n: int, m: int, margin: float) -> None:
    chance = np.random.default_rng(seed)
    first, second = chance.normal(0.1, 1, n), chance.normal(0, 0.5, m)
    means, sds = (first.mean(), second.mean()), (first.std(ddof=1), second.std(ddof=1))
    found = welch(means, sds, (n, m))
    told = tost(found.difference, found.error, found.df, margin)
    p, (t_lower, p_lower, _), (t_upper, p_upper, _) = ttost_ind(first, second, -margin, margin, usevar="unequal")
    assert told.p == pytest.approx(p) and p == max(p_lower, p_upper)
    assert (told.t_lower, told.t_upper) == pytest.approx((t_lower, t_upper))
    assert told.low is not None and told.high is not None
    assert told.alike == (-margin < told.low and told.high < margin), "equally, the 90 % interval lies within"
    one_sided = stats.ttest_ind(first + margin, second, equal_var=False, alternative="greater")
    no_worse = noninferiority(found.difference, found.error, found.df, margin)
    assert (no_worse.t, no_worse.p) == pytest.approx((one_sided.statistic, one_sided.pvalue))
    assert no_worse.no_worse == (no_worse.low is not None and no_worse.low > -margin)


def test_persons_without_spread_are_no_proof() -> None:
    found = tost(0.0, 0.0, 20, 0.03)
    assert found.p is found.alike is None
    assert noninferiority(0.0, 0.0, 20, 0.03).no_worse is None


def test_rates_of_groups_are_the_contrasts_and_a_dozen_persons_show_no_likeness(protocol: Protocol) -> None:
    marked = mark(audit(protocol, 1), protocol.rubrics.outcomes)
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    found = equivalence(marked, protocol)
    beside = contrasts(marked, found["outcome"].to_list(), dimension, reference)
    joined = found.join(beside, on=["editor", "outcome"], suffix="_contrast")
    for name in ("difference", "error", "df"):
        assert joined[name].to_list() == pytest.approx(joined[f"{name}_contrast"].to_list()), name
    assert (found["margin"] == 0.03).all() and (found["high"] > found["low"]).all()
    assert not found["alike"].any(), "twelve persons of the reference group cannot show ± 3 points"
    assert (found["p_holm"] >= found["p"]).all()


def test_many_persons_who_are_alike_are_shown_to_be(protocol: Protocol) -> None:
    one = mark(audit(protocol, 2, person=0.2, prompts=40), protocol.rubrics.outcomes)
    many = pl.concat(
        mark(audit(protocol, seed, person=0.2, prompts=40), protocol.rubrics.outcomes).with_columns(
            person=pl.col("person") + f"-{seed}"
        )
        for seed in range(20)
    )
    apart = pl.concat(
        mark(audit(protocol, seed, person=0.2, others=1.0, prompts=40), protocol.rubrics.outcomes).with_columns(
            person=pl.col("person") + f"-{seed}"
        )
        for seed in range(20)
    )
    chosen = [next(iter(protocol.rubrics.outcomes))]
    assert equivalence(many, protocol, chosen)["alike"].to_list() == [True]
    assert equivalence(apart, protocol, chosen)["alike"].to_list() == [False]
    assert equivalence(one, protocol, chosen)["error"][0] > equivalence(many, protocol, chosen)["error"][0]


def test_what_cannot_be_told_has_a_reason_and_no_nan(protocol: Protocol) -> None:
    frame = audit(protocol, 3, prompts=2)
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    marked = mark(frame, protocol.rubrics.outcomes)
    alone = equivalence(marked.filter(pl.col(dimension) == reference), protocol)
    assert set(alone["reason"]) == {"fewer than 8 persons on one side"} and alone["p"].null_count() == len(alone)
    constant = equivalence(mark(frame.with_columns(score=pl.lit(3)), protocol.rubrics.outcomes), protocol)
    assert set(constant["reason"]) == {"persons do not differ at all"} and constant["alike"].null_count() == len(
        constant
    )
    assert not any(column.is_nan().any() for column in constant.select(pl.col(pl.Float64)).iter_columns())
    missing = mark(frame.with_columns(score=pl.lit(None, pl.Int64)), protocol.rubrics.outcomes)
    assert equivalence(missing, protocol).is_empty() and equivalence(marked.clear(), protocol).is_empty()
