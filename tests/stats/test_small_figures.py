"""Figures at their edges: tables of nothing, persons who do not differ, groups that are too small to say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats.agreement import Kappa, agreement_weights, kappa_of
from stillme.stats.beside import crossed
from stillme.stats.equivalence import Welch, tost, welch
from stillme.stats.gaps import gaps
from stillme.stats.versions_anytime import sequence


def test_a_table_without_ratings_has_no_kappa() -> None:
    assert kappa_of(np.zeros((3, 3))) == Kappa(0, None, None)


def test_persons_who_do_not_differ_have_no_error_and_prove_nothing() -> None:
    found = welch((2.0, 1.5), (0.0, 0.0), (5, 4))
    assert found == Welch(0.5, 0.0, 7.0)
    assert tost(found.difference, found.error, found.df, 3.0).alike is None


def test_an_axis_without_a_low_end_has_no_erased_edits(protocol: Protocol) -> None:
    known = pl.DataFrame({"trial": ["a", "b", "c"], "editor": "e", "no_change": [True, True, False]})
    scores = pl.DataFrame({"trial": ["a", "b", "c"], "axis": "edit_success", "score": [1, 5, 5]})
    both = crossed(known, scores, protocol, "edit_success")
    assert (
        both.filter(pl.col("editor").is_null()).rows()
        == both.filter(editor="e").with_columns(editor=pl.lit(None, pl.String)).rows()
    )
    assert crossed(known, scores.with_columns(axis=pl.lit("race_drift")), protocol, "race_drift").is_empty()


def test_of_two_pairs_of_persons_any_gap_may_be_chance() -> None:
    values = np.array([[0.0], [0.0], [1.0], [1.0]])
    found = gaps(values, ["a", "a", "b", "b"], ["a", "b"], sure=0.98)
    assert found.gap[:, 0].tolist() == [-1.0, 1.0]
    assert np.isinf(found.half).all(), "a third of all deals look like this: no interval is sure enough"
    assert found.p[0, 0] == pytest.approx(1 / 3, abs=0.03)


def test_where_persons_change_on_the_way_the_last_bounds_stay() -> None:
    """A sequence promises one mean; where none fits any more it keeps what it had said."""
    found = sequence([0.95] * 400 + [-0.95] * 400)
    assert (found.low <= found.high).all()
    assert found.low[-1] == found.low[-50] and found.high[-1] == found.high[-50]
    assert found.low[-1] > 0.3, "what was ruled out stays ruled out"


def test_credit_falls_by_the_pairs_of_scores_in_between() -> None:
    """Of 10 pairs of five points, 1, 3, 6 and all 10 lie within 1, 2, 3 and 4 points."""
    assert agreement_weights(5, "ordinal")[0].tolist() == pytest.approx([1.0, 0.9, 0.7, 0.4, 0.0])
    assert agreement_weights(5, "linear")[0].tolist() == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    assert agreement_weights(1, "quadratic").tolist() == [[1.0]], "a scale of one point"
