"""Estimating equations against statsmodels, and on what they cannot answer."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stillme.protocol import Protocol
from stillme.stats import gee as module
from stillme.stats.gee import exchangeable, gee
from stillme.stats.outcomes import mark
from tests.stats.test_modelled import audit


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(8, 20))
def test_the_answers_are_statsmodels(seed: int, persons: int) -> None:
    chance = np.random.default_rng(seed)
    person = chance.integers(0, persons, 200)
    group = person % 2
    design = np.column_stack([group, chance.normal(size=200)])
    hits = 0.7 * group + 0.5 * chance.normal(size=persons)[person] + chance.logistic(size=200) > 0.5
    known = sm.GEE(
        hits.astype(float),
        sm.add_constant(design),
        person,
        family=sm.families.Binomial(),
        cov_struct=sm.cov_struct.Exchangeable(),
    )
    robust, reduced = known.fit(ctol=1e-10), known.fit(cov_type="bias_reduced", ctol=1e-10)
    correlation = float(robust.cov_struct.dep_params)
    assume(
        correlation > -0.95 / np.bincount(person).max()
    )  # near what no correlation can be, we stop and they go on
    found = exchangeable(hits, design, person)
    assert found.coefficients == pytest.approx(robust.params, abs=1e-6)
    assert np.sqrt(np.diag(found.robust)) == pytest.approx(robust.bse, abs=1e-6)
    assert np.sqrt(np.diag(found.reduced)) == pytest.approx(reduced.bse, abs=1e-6)
    assert found.correlation == pytest.approx(correlation, abs=1e-6)


def test_counted_rows_are_rows_that_occur_so_often() -> None:
    chance = np.random.default_rng(1)
    person, hits, counts = np.repeat(np.arange(10), 2), np.tile([0, 1], 10), chance.integers(1, 9, 20)
    design = (person % 2)[:, None]
    spread = [np.repeat(column, counts, axis=0) for column in (hits, design, person)]
    found, whole = exchangeable(hits, design, person, counts), exchangeable(*spread)
    assert found.coefficients == pytest.approx(whole.coefficients)
    assert found.reduced == pytest.approx(whole.reduced)
    assert found.correlation == pytest.approx(whole.correlation)


def test_a_planted_difference_is_found(protocol: Protocol) -> None:
    scores = audit(protocol, seed=6, each=12, effect={"two": 2.0}, judges=("a",))
    marked = mark(scores.with_columns(single=pl.lit(False), flagged=pl.lit(False)), protocol.rubrics.outcomes)
    rows = {(r["editor"], r["outcome"]): r for r in gee(marked, protocol).iter_rows(named=True)}
    assert rows["two", "race_changed"]["low"] > 1 and rows["two", "race_changed"]["p"] < 0.01
    assert rows["one", "race_changed"]["low"] < 1 < rows["one", "race_changed"]["high"]
    assert rows["two", "race_changed"]["persons"] == 36


def test_what_cannot_be_known_is_null_with_a_reason(protocol: Protocol) -> None:
    marked = mark(audit(protocol, judges=("a",), editors=("one",)), protocol.rubrics.outcomes)
    reference = pl.col("race") == protocol.groups.reference_group["race"]
    unhit = gee(marked.with_columns(hit=pl.col("hit") & ~reference), protocol)
    assert (
        unhit["odds_ratio"].to_list() == [None] and unhit["why"].item() == "a side has no hit, or nothing but hits"
    )
    assert gee(marked.filter(~reference), protocol)["why"].item() == "there is one group only"
    few = gee(marked.filter(pl.col("person").is_in(["p0", "p1", "p9", "p10"])), protocol)
    assert few["why"].item() == "too few persons"
    assert gee(marked.clear(), protocol).is_empty()
    assert gee(marked.with_columns(hit=pl.lit(None, pl.Boolean)), protocol).is_empty()


def test_a_group_of_another_dimension_without_hits_does_no_harm(protocol: Protocol) -> None:
    marked = mark(audit(protocol, seed=8, judges=("a",), editors=("one",)), protocol.rubrics.outcomes)
    silent = marked.with_columns(hit=pl.col("hit") & (pl.col("age") != protocol.groups.ids("age")[1]))
    found = gee(silent, protocol).row(0, named=True)
    assert found["low"] < found["odds_ratio"] < found["high"]


def test_edits_of_persons_who_have_one_each_are_not_correlated() -> None:
    hits, side = [0, 1, 1, 1, 0, 0, 1, 0], [[0]] * 4 + [[1]] * 4
    found = exchangeable(hits, side, range(8))
    assert found.correlation == 0.0 and found.clusters == 8 and found.converged
    assert found.coefficients == pytest.approx([np.log(3), -2 * np.log(3)], abs=1e-6), "odds of 3 and of 1 ÷ 3"


def test_odds_without_end_are_not_called_found() -> None:
    """One side has nothing but hits: every step goes further out."""
    found = exchangeable([0, 1, 0, 1, 1, 1, 1, 1], [[0]] * 4 + [[1]] * 4, [0, 0, 1, 1, 2, 2, 3, 3])
    assert not found.converged


def test_equations_that_do_not_settle_are_null_with_a_reason(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROUNDS", 1)
    marked = mark(audit(protocol, judges=("a",), editors=("one",)), protocol.rubrics.outcomes)
    row = gee(marked, protocol).row(0, named=True)
    assert row["why"] == "the equations have no solution" and row["odds_ratio"] is None and row["persons"] > 0


def test_a_dimension_that_nobody_is_labelled_in_is_not_held_alike(protocol: Protocol) -> None:
    marked = mark(
        audit(protocol, seed=3).drop("judge"), {"race_changed": protocol.rubrics.outcomes["race_changed"]}
    )
    found = gee(marked.with_columns(age=pl.lit(None, pl.String)), protocol)
    assert found["persons"].to_list() == gee(marked, protocol)["persons"].to_list()
    assert found["odds_ratio"].null_count() == 0 < found.height
