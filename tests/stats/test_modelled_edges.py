"""The model of an audit where little can be known: few persons, one score, scores that never occur."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import special

from stillme.protocol import Protocol
from stillme.stats import mixed, modelled
from stillme.stats.mixed import fit
from stillme.stats.modelled import Model, at_or_below, model
from tests.stats.test_modelled import audit


def small(protocol: Protocol, **changes: Any) -> pl.DataFrame:
    return audit(protocol, **{"seed": 2, "races": 2, "each": 6, "prompts": 3, "editors": ("one",), **changes})


def reasons(found: Model) -> set[str | None]:
    return set(found.tests["why"])


def test_a_search_that_did_not_settle_has_no_p(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "ROUNDS", 1)
    found = model(small(protocol), protocol)
    assert "the search did not settle" in reasons(found) and not found.fits["converged"].item()


def test_few_persons_have_an_estimate_and_no_interval(protocol: Protocol) -> None:
    people = ["p0", "p8"]  # alike in everything but race
    few = small(protocol, each=6, prompts=12).filter(pl.col("person").is_in(people))
    found = model(few, protocol)
    odds = found.odds.filter(pl.col("editor").is_null()).row(0, named=True)
    assert odds["odds_ratio"] is not None and (odds["low"], odds["high"], odds["why"]) == (
        None,
        None,
        "too few persons",
    )
    told = found.marginal.filter(outcome="race_changed")
    assert set(told["why"]) == {"too few persons"} and told["low"].null_count() == told.height == 2
    assert told["probability"].is_between(0, 1).all()


def test_an_outcome_that_no_score_can_tell_is_certain_and_has_no_interval(protocol: Protocol) -> None:
    """Race is never seen to change: nobody scored above 2."""
    found = model(small(protocol).with_columns(score=pl.min_horizontal("score", 2)), protocol)
    told = found.marginal.filter(outcome="race_changed")
    assert told["probability"].to_list() == [0.0, 0.0] and told["low"].null_count() == 2
    assert set(told["why"]) == {"no such score, or no other"}


def test_without_random_effects_the_chance_is_that_of_the_threshold() -> None:
    full = fit([1, 2, 1, 3, 2, 3, 1, 3], [[0]] * 4 + [[1]] * 4, ["x"])
    below, slope = at_or_below(full, 0, np.array([[1.0]]), np.array([1.0]))
    expected = special.expit(full.thresholds[0] - (full.coefficients["x"] or 0))
    assert below == pytest.approx(expected) and slope[0] == pytest.approx(expected * (1 - expected))


def test_readers_whose_intercepts_cannot_be_crossed_leave_their_own_test_out(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the model does not need them."""

    def refusing(*given: Any, **more: Any) -> mixed.Fit:
        found = mixed.fit_to(*given, **more)
        if any("person:judge" in str(name) for name in found.factors):
            return mixed.Fit(found.names, found.factors, why="person:judge have too many levels to be crossed")
        return found

    monkeypatch.setattr(modelled, "fit_to", refusing)
    found = model(small(protocol), protocol)
    by_term = dict(found.tests.select("term", "why").iter_rows())
    assert by_term["race:judge"] == "person:judge have too many levels to be crossed"
    assert by_term["race"] is None


def test_a_group_whose_scores_are_all_the_same_has_no_odds_at_any_cut(protocol: Protocol) -> None:
    """The other groups' are as they were."""
    scores = small(protocol, races=3)
    found = model(scores.with_columns(score=pl.when(race="black").then(1).otherwise("score")), protocol)
    black, others = found.splits.filter(group="black"), found.splits.filter(group="east_asian")
    assert black["log_odds"].null_count() == black["ordinal"].null_count() == black.height == others.height > 0
    assert others["ordinal"].null_count() == 0 and others["log_odds"].null_count() < others.height


def test_groups_that_cannot_be_told_from_ages_have_no_estimate(protocol: Protocol) -> None:
    """Everybody of one race is of one age: what either does is what both do."""
    ages = dict(zip(protocol.groups.ids("race"), protocol.groups.ids("age"), strict=False))
    together = small(protocol).with_columns(age=pl.col("race").replace_strict(ages, default=None))
    found = model(together, protocol)
    for table, value in ((found.odds, "odds_ratio"), (found.splits, "log_odds"), (found.splits, "ordinal")):
        assert table.height > 0 and table[value].null_count() == table.height
    assert found.marginal["probability"].null_count() == found.marginal.height, (
        "nobody of one race has the other's age"
    )


def test_odds_are_those_of_the_editor_that_met_the_group(protocol: Protocol) -> None:
    """A group that one editor never met has odds with the other alone."""
    scores = small(protocol, races=3, each=8, editors=("one", "two"))
    found = model(scores.filter((pl.col("race") != "black") | (pl.col("editor") == "two")), protocol)
    odds = {(row["editor"], row["group"]): row["odds_ratio"] for row in found.odds.iter_rows(named=True)}
    assert odds["one", "black"] is None and odds[None, "black"] is None
    assert odds["two", "black"] is not None and odds["one", "east_asian"] is not None


def test_a_dimension_that_nobody_is_labelled_in_is_left_out_of_the_model(protocol: Protocol) -> None:
    """Not every table of scores says how old people look."""
    whole = small(protocol)
    found = model(whole.with_columns(age=pl.lit(None, pl.String)), protocol)
    assert found.fits["observations"].item() == whole.height and found.fits["why"].item() is None
    formula = found.fits["formula"].item()
    assert "race" in formula and "gender" in formula and "age" not in formula
    assert found.odds["odds_ratio"].null_count() == 0 < found.odds.height
    nobody = model(whole.with_columns(race=pl.lit(None, pl.String)), protocol)
    assert nobody.fits["loglik"].item() is not None and nobody.odds.is_empty() and nobody.marginal.is_empty()


def test_persons_without_a_label_are_said_to_be_left_out_and_not_to_be_drawn(protocol: Protocol) -> None:
    age = pl.when(pl.col("person") != "p0").then("age")
    whole = small(protocol, each=12).with_columns(age)
    persons = whole["person"].n_unique()
    assert model(whole, protocol).fits["why"].item() == f"1 of {persons} persons lack a label and are left out"
    drawn = model(whole, protocol, most=whole.height // 2).fits["why"].item()
    assert f"of {persons} persons, drawn evenly over groups" in drawn
