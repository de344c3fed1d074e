"""Verdicts follow the bounds, whatever the numbers are; and the interval of a worst group holds for the worst one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.assurance.gate.results import Effect, Verdict, effect_of, verdict_on
from stillme.protocol import Protocol
from stillme.stats.extremes import corrected, mean_ends, share_ends
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.signed import signed
from stillme.stats.simulate import audit

numbers = st.floats(-1, 1, allow_nan=False)
ends = st.tuples(numbers, numbers).map(sorted)
maybe = st.one_of(st.none(), numbers)


@given(ends, numbers)
def test_a_verdict_is_where_the_interval_lies(interval: list[float], threshold: float) -> None:
    low, high = interval
    found = verdict_on(low, high, at_most=threshold)
    assert (found is Verdict.PASS) == (high <= threshold)
    assert (found is Verdict.FAIL) == (low > threshold)
    assert (found is Verdict.UNDECIDED) == (low <= threshold < high)


@given(maybe, maybe, numbers)
def test_a_lower_threshold_is_an_upper_one_turned_round(
    low: float | None, high: float | None, threshold: float
) -> None:
    below, above = (None if end is None else -end for end in (high, low))
    assert verdict_on(low, high, at_least=threshold) is verdict_on(below, above, at_most=-threshold)


@given(maybe, maybe, numbers, numbers)
def test_of_two_thresholds_the_worse_counts(low: float | None, high: float | None, a: float, b: float) -> None:
    both = verdict_on(low, high, at_least=a, at_most=b)
    each = {verdict_on(low, high, at_least=a), verdict_on(low, high, at_most=b)}
    worst = next(v for v in (Verdict.FAIL, Verdict.UNDECIDED, Verdict.PASS) if v in each)
    assert both is worst


@given(maybe, maybe, numbers, st.floats(0, 1))
def test_allowing_more_never_makes_it_worse(
    low: float | None, high: float | None, threshold: float, more: float
) -> None:
    order = [Verdict.FAIL, Verdict.UNDECIDED, Verdict.PASS]
    stricter, looser = (verdict_on(low, high, at_most=limit) for limit in (threshold, threshold + more))
    assert order.index(looser) >= order.index(stricter)


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_not_known_decides_nothing(nothing: float | None) -> None:
    assert verdict_on(nothing, nothing, at_most=1.0) is Verdict.UNDECIDED
    assert verdict_on(0.0, nothing, at_most=0.5) is Verdict.UNDECIDED, "no upper end: it may be anywhere above"
    assert verdict_on(0.6, nothing, at_most=0.5) is Verdict.FAIL, "all of it lies above, however far"
    assert verdict_on(0.1, 0.2) is Verdict.UNDECIDED, "nothing is asked"


def test_what_verdicts_do_to_the_gate() -> None:
    closes, warns, none = Effect.CLOSES, Effect.WARNS, Effect.NONE
    fail, undecided = Verdict.FAIL, Verdict.UNDECIDED
    assert [effect_of(fail, "fail", o) for o in ("fail", "warn", "pass")] == [closes] * 3
    assert [effect_of(fail, "warn", o) for o in ("fail", "warn", "pass")] == [warns] * 3
    assert [effect_of(undecided, "fail", o) for o in ("fail", "warn", "pass")] == [closes, warns, none]
    assert [effect_of(undecided, "warn", o) for o in ("fail", "warn", "pass")] == [warns, warns, none]
    assert effect_of(Verdict.PASS, "fail", "fail") is effect_of(Verdict.SKIPPED, "fail", "fail") is none


def test_bounds_at_another_level_are_those_that_the_tables_would_have(protocol: Protocol) -> None:
    """What is read off a printed table is what the analysis itself gives at that level."""
    scores = audit(protocol, 3, editors=["e"], prompts=list(protocol.prompt)[:4]).scores
    level, by = corrected(7), ["editor", "race"]
    marked = mark(scores, protocol.rubrics.outcomes)
    for row, other in zip(rates(marked, by).to_dicts(), rates(marked, by, level).to_dicts(), strict=True):
        found = share_ends(row["rate"], row["judged"], row["deff"], row["persons"], level)
        assert (found.low, found.high) == pytest.approx((other["low"], other["high"]))
        own = share_ends(row["rate"], row["judged"], row["deff"], row["persons"])
        assert (own.low, own.high) == pytest.approx((row["low"], row["high"]))
    wider = signed(scores, protocol, by, level)
    for row, other in zip(signed(scores, protocol, by).to_dicts(), wider.to_dicts(), strict=True):
        found = mean_ends(row["net"], row["net_low"], row["net_high"], row["persons"], level)
        assert (found.low, found.high) == pytest.approx((other["net_low"], other["net_high"]))
