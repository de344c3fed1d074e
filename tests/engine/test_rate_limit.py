from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.engine.rate_limit import ConcurrencyLimiter, RateLimiter, TokenBucket, duration


def test_an_overloaded_service_is_asked_half_as_much() -> None:
    gate = ConcurrencyLimiter(64)
    gate.learn(0, 503)
    assert gate.limit == 32
    for _ in range(40):
        gate.learn(0, 503)  # the rest of the same crowd
    assert gate.limit == 32
    gate.learn(1, 529)
    assert gate.limit == 16


def test_a_service_that_turns_calls_away_is_asked_three_quarters_as_much() -> None:
    gate = ConcurrencyLimiter(64)
    gate.learn(0, 429)
    assert gate.limit == 48


def test_a_service_that_recovers_is_asked_a_little_more_each_round() -> None:
    gate = ConcurrencyLimiter(8)
    gate.learn(0, 503)
    for expected in (5, 6, 7, 8, 8):
        for _ in range(gate.limit):
            gate.learn(1, 200)
        assert gate.limit == expected


def test_a_start_doubles_each_round_until_something_is_wrong() -> None:
    gate = ConcurrencyLimiter(64, 4)
    for expected in (8, 16, 32):
        for _ in range(gate.limit):
            gate.learn(0, 200)
        assert gate.limit == expected
    gate.learn(0, 429)
    assert gate.limit == 24
    for _ in range(24):
        gate.learn(1, 200)
    assert gate.limit == 25


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([200, 400, 429, 500, 503])), max_size=200))
def test_the_limit_stays_between_one_and_the_cap(events: list[tuple[int, int]]) -> None:
    gate = ConcurrencyLimiter(8)
    for cuts, code in events:
        gate.learn(cuts, code)
        assert 1 <= gate.limit <= 8


def test_whoever_gives_up_in_line_takes_no_place() -> None:
    async def crowd() -> list[str]:
        gate, came = ConcurrencyLimiter(1), []
        await gate.enter()

        async def one(name: str) -> None:
            cuts = await gate.enter()
            came.append(name)
            gate.leave(cuts, None)

        tasks = [asyncio.create_task(one(name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[0].cancel()
        gate.leave(0, None)
        await asyncio.gather(*tasks[1:])
        cuts = await gate.enter()  # the place is free again
        gate.leave(cuts, None)
        return came

    assert asyncio.run(asyncio.wait_for(crowd(), 60)) == ["b", "c"]


def test_whoever_is_let_in_and_gives_up_at_once_leaves_the_place_to_the_next() -> None:
    async def crowd() -> None:
        gate = ConcurrencyLimiter(1)
        await gate.enter()
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        gate.leave(0, None)  # lets it in
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await gate.enter()

    asyncio.run(asyncio.wait_for(crowd(), 60))


@given(st.floats(1, 6000), st.lists(st.floats(0, 5), max_size=60))
def test_no_minute_holds_more_calls_than_allowed(per_minute: float, gaps: list[float]) -> None:
    now = 0.0
    pace = RateLimiter(per_minute, clock=lambda: now)
    starts = []
    for gap in gaps:
        now += gap
        starts.append(now + pace.reserve())
    burst = max(1.0, per_minute / 60)
    for first in starts:
        inside = [one for one in starts if first <= one < first + 60]
        assert len(inside) <= per_minute + burst + 1e-6


def test_tokens_are_counted_too() -> None:
    now = 0.0
    pace = RateLimiter(None, 6000, clock=lambda: now)  # a hundred a second
    assert pace.reserve(100) == 0
    assert pace.reserve(300) == pytest.approx(3)
    assert pace.reserve(0) == pytest.approx(3)


def test_without_a_rate_nobody_waits() -> None:
    pace = RateLimiter(None)
    assert [pace.reserve() for _ in range(1000)] == [0.0] * 1000


def test_a_service_that_tells_what_is_left_is_asked_as_fast_as_that_refills() -> None:
    now = 0.0
    pace = RateLimiter(None, clock=lambda: now)
    told = {"limit": "600", "remaining": "10", "reset": "59s"}  # ten a second
    pace.answered({f"x-ratelimit-{name}-requests": value for name, value in told.items()})
    waits = [pace.reserve() for _ in range(19)]
    assert waits[:9] == [0.0] * 9
    assert waits[-1] == pytest.approx(10 / 9.5, rel=0.05)


@pytest.mark.parametrize(
    "told", [("600", "600", "0s"), ("many", "3", "1s"), ("600", "3", "soon"), ("600", "3", "")]
)
def test_a_service_that_tells_nothing_of_use_changes_nothing(told: tuple[str, str, str]) -> None:
    pace = RateLimiter(None)
    names = ("limit", "remaining", "reset")
    pace.answered({f"x-ratelimit-{name}-requests": value for name, value in zip(names, told, strict=True)})
    assert pace.learned is None


class Clock:
    """Stands still unless it is moved on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def answer(self, pace: RateLimiter, rate: float, seconds: float) -> None:
        """So many answers a second, for so long."""
        for _ in range(round(rate * seconds)):
            self.now += 1 / rate
            pace.answered({})


@pytest.fixture
def clock() -> Clock:
    return Clock()


def turned_away(clock: Clock) -> RateLimiter:
    """After a first cut: it answered a hundred a second, and then turned calls away."""
    pace = RateLimiter(None, clock=clock)
    clock.answer(pace, 100, 2)
    for _ in range(10):
        pace.turned_away(clock.now)
    return pace


def test_a_service_that_turns_calls_away_is_asked_half_as_fast_as_it_answered(clock: Clock) -> None:
    pace = turned_away(clock)
    assert pace.learned is not None
    assert pace.learned.rate == pytest.approx(50, rel=0.02)
    assert pace.reserve() >= 0.25, "and is left alone for a moment"


def test_a_stray_among_many_answers_changes_nothing(clock: Clock) -> None:
    pace = RateLimiter(None, clock=clock)
    clock.answer(pace, 100, 2)
    for _ in range(3):
        pace.turned_away(clock.now)
    assert pace.learned is None


def test_a_crowd_that_is_turned_away_is_one_event(clock: Clock) -> None:
    pace = turned_away(clock)
    for _ in range(50):
        pace.turned_away(clock.now + 0.2)
    assert pace.learned is not None and pace.learned.rate == pytest.approx(50, rel=0.02)


def test_a_service_that_goes_on_turning_calls_away_is_asked_slower_still(clock: Clock) -> None:
    pace = turned_away(clock)
    clock.answer(pace, 50, 1)
    for _ in range(5):
        pace.turned_away(clock.now)
    assert pace.learned is not None and pace.learned.rate == pytest.approx(25, rel=0.1)


def test_and_much_later_only_a_little_slower(clock: Clock) -> None:
    pace = turned_away(clock)
    clock.answer(pace, 50, 10)
    for _ in range(5):
        pace.turned_away(clock.now)
    assert pace.learned is not None and pace.learned.rate == pytest.approx(45, rel=0.1)


def test_and_then_slowly_faster_again(clock: Clock) -> None:
    pace = RateLimiter(None, clock=clock)
    pace.learned = TokenBucket(10, clock=clock)
    pace._ceiling = 100.0
    rates = []
    for _ in range(30):
        clock.now += 1
        pace.reserve()
        rates.append(pace.learned.rate)
    assert rates[4] > 30 and rates[8] == pytest.approx(90)  # far from where it was turned away: quickly
    assert 100 < rates[-1] < 115  # near it: slowly


def test_after_a_rest_calls_do_not_come_all_at_once(clock: Clock) -> None:
    pace = turned_away(clock)
    clock.now += 60
    at_once = sum(pace.reserve() == 0 for _ in range(100))
    assert 1 <= at_once <= 10


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("6m0s", 360), ("1h2m3.5s", 3723.5), ("20ms", 0.02), ("1m30.5s", 90.5), ("7", 7), ("1d", 86400)],
)
def test_durations_as_services_write_them(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "  ", "soon", "1x", "-1s", "1s2m"])
def test_anything_else_is_no_duration(text: str) -> None:
    assert duration(text) is None
