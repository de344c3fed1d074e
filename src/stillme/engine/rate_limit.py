"""How fast a service is asked: how many calls at a time, and when the next may start.

Knows the clock and what answers say of limits; nothing of what is asked, and no network.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

_OVERLOADED = (503, 529)
_TOO_MANY_REQUESTS = 429
# What a service has shown of late: in a longer window a limit that has just changed would be noticed late, in a
# shorter one slow services would have shown too little. At most as many answers as are worth remembering.
RECENT_S, MAX_RECENT_ANSWERS = 2.0, 4096
# The constants below are trade-offs between a rate that is used up and calls that are turned away. They were set
# together; tests/judges/test_storm.py checks them on simulated services with a limit of 100 calls a second: hardly
# a request may be sent in vain.
LARGE_CUT_WINDOW_S = 2.0  # a cut so soon after another is a large one: the first was not enough
COOLDOWN_S = 0.25  # after a cut nothing is sent, and calls that had their turn before count for nothing
RATE_DECREASE, LARGE_RATE_DECREASE = 0.9, 0.5  # of the rate that was answered
BURST_S = 0.1  # seconds' worth of calls that may be sent at once after a rest; more would be a crowd again
CEILING_AFTER_LARGE_CUT = 0.85  # of the rate before a large cut: from there on it grows slowly
# Shares of the answers that may be 429 for other reasons than the rate; the larger one where the service says how
# long to wait, which all callers do then, so that another cut is hardly needed.
TOLERATED_429_SHARE, TOLERATED_EXPLAINED_429_SHARE = 0.03, 0.15
MIN_429, MIN_ANSWERS = 4, 8  # with fewer nothing is learned: chance would decide
GROWTH_FAR, GROWTH_NEAR = 1.3, 1.01  # a second; far from where it was turned away, and near it
OWN_SHARE = 0.9  # of what a service says is left: a tenth is for others who use the same account
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = re.compile(
    "".join(f"(?:(?P<{unit}>{_NUMBER}){unit}(?![a-z]))?" for unit in _UNITS) + f"|(?P<plain>{_NUMBER})"
)


class ConcurrencyLimiter:
    """How many calls may be under way: from `first` twice as many a round until something is wrong, then one more
    after a good round, half as many when a service is overloaded, three quarters when it turns calls away."""

    def __init__(self, most: int, first: int | None = None) -> None:
        self.most = most
        self.limit = min(most, first or most)
        self._is_starting = self.limit < most
        self._under_way = 0
        self._cuts = 0  # how often the limit was cut
        self._successes = 0  # since the limit last changed
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> int:
        """Wait for a place; return how often the limit was cut so far, for `leave`."""
        if self._under_way < self.limit and not self._queue:
            self._under_way += 1
            return self._cuts
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place  # `_admit` has counted it then
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # admitted and gone at the same time
                self._under_way -= 1
                self._admit()
            raise
        return self._cuts

    def leave(self, cuts: int, status_code: int | None) -> None:
        self._under_way -= 1
        if status_code is not None:
            self.learn(cuts, status_code)
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._under_way < self.limit:
            place = self._queue.popleft()
            if not place.done():
                place.set_result(None)
                self._under_way += 1

    def learn(self, cuts: int, status_code: int) -> None:
        """Calls that started before the last cut say nothing new: a crowd that is turned away is one event."""
        if status_code == _TOO_MANY_REQUESTS or status_code in _OVERLOADED:
            if cuts == self._cuts:
                lowered = self.limit * 3 // 4 if status_code == _TOO_MANY_REQUESTS else self.limit // 2
                self.limit = max(1, lowered)
                self._cuts += 1
                self._successes = 0
                self._is_starting = False
        elif 200 <= status_code < 300 and self.limit < self.most:
            self._successes += 1
            if self._is_starting or self._successes >= self.limit:
                self.limit += 1
                self._successes = 0


class RateLimiter:
    """When the next call may start: by the limits that are known, and by what a service says or shows of its own.

    A service that tells what is left (`x-ratelimit-*`) is asked as fast as that refills. One that turns calls away
    is asked half as fast as it has just answered, and then slowly faster again; strays change nothing.
    """

    def __init__(
        self,
        requests_per_minute: float | None,
        tokens_per_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._fixed_limits = [
            (TokenBucket(limit / 60, clock), by_tokens)
            for limit, by_tokens in ((requests_per_minute, False), (tokens_per_minute, True))
            if limit
        ]
        self.learned: TokenBucket | None = None
        self._ceiling = 0.0  # calls a second at which it was turned away last
        self._grown_at, self._cut_at, self._n_429 = clock(), -1.0, 0
        self._answer_times: deque[float] = deque(maxlen=MAX_RECENT_ANSWERS)

    def reserve(self, tokens: int = 0) -> float:
        """Take a place in the queue; return how many seconds away it is."""
        delays = [bucket.take(float(tokens) if by_tokens else 1.0) for bucket, by_tokens in self._fixed_limits]
        if self.learned is not None:
            self._grow(self.learned)
            delays.append(self.learned.take(1.0))
        return max(delays, default=0.0)

    def answered(self, headers: Mapping[str, str]) -> None:
        """A success: when it was, and what it says of the limit."""
        self._answer_times.append(self._clock())
        left = headers.get("x-ratelimit-remaining-requests")
        if left is not None:
            self._learn_from_headers(left, headers)

    def _learn_from_headers(self, left: str, headers: Mapping[str, str]) -> None:
        """What is left and when it is full again give how fast it refills."""
        limit, reset = headers.get("x-ratelimit-limit-requests", ""), headers.get("x-ratelimit-reset-requests", "")
        seconds = duration(reset)
        try:
            remaining, most = float(left), float(limit)
        except ValueError:
            return
        if not seconds or most <= remaining:
            return
        rate = 0.95 * (most - remaining) / seconds  # a little less than it refills
        if self.learned is None:
            self.learned = TokenBucket(rate, self._clock)
        self.learned.rate, self.learned.most = rate, most
        self.learned.tokens = min(self.learned.tokens, OWN_SHARE * remaining)
        self._ceiling, self._grown_at = rate, self._clock()

    def turned_away(self, started: float, is_explained: bool = False) -> bool:
        """Slower than the service has just answered, if that is more than a stray; returns whether it is.

        Calls that had their turn before the last cut say nothing new. `is_explained`: the service said how long to
        wait, and everybody does; after a first cut it takes much for another.
        """
        now = self._clock()
        if started <= self._cut_at + COOLDOWN_S:
            return False
        self._n_429 += 1
        answered = sum(at > max(self._cut_at, now - RECENT_S) for at in self._answer_times)
        share = TOLERATED_EXPLAINED_429_SHARE if is_explained and self.learned is not None else TOLERATED_429_SHARE
        is_much = self._n_429 >= MIN_429 and self._n_429 > share * (self._n_429 + answered)
        if is_much:
            self._slow_down(now)
        return is_much

    def _slow_down(self, now: float) -> None:
        """A first cut, and one soon after another, is a large one: answers tell of a while ago, when there was
        more in hand. Where too few have come to tell anything, callers wait by themselves."""
        recent = [at for at in self._answer_times if at > now - RECENT_S]
        if len(recent) < MIN_ANSWERS:
            return
        answered_rate = len(recent) / max(now - recent[0], 0.1)  # a second
        if self.learned is None:
            self.learned = TokenBucket(LARGE_RATE_DECREASE * answered_rate, self._clock)
            self._ceiling = self.learned.rate
        else:
            before = min(answered_rate, self.learned.rate)
            is_soon = now - self._cut_at < LARGE_CUT_WINDOW_S
            self.learned.rate = (LARGE_RATE_DECREASE if is_soon else RATE_DECREASE) * before
            self._ceiling = CEILING_AFTER_LARGE_CUT * before if is_soon else before
        self.learned.most = max(1.0, BURST_S * self.learned.rate)
        self.learned.tokens = min(self.learned.tokens, -COOLDOWN_S * self.learned.rate)
        self._cut_at, self._grown_at, self._n_429 = now, now, 0

    def _grow(self, learned: TokenBucket) -> None:
        """Quickly where it was never turned away, slowly near where it was."""
        now = self._clock()
        seconds, near = now - self._grown_at, 0.9 * self._ceiling
        far = min(near, learned.rate * GROWTH_FAR**seconds)
        learned.rate = far if learned.rate < near else learned.rate * GROWTH_NEAR**seconds
        self._grown_at = now


class TokenBucket:
    """Tokens that refill at a rate; it holds a second's worth, at least one."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate  # a second
        self.most = self.tokens = max(1.0, rate)
        self._clock = clock
        self._at = clock()

    def take(self, count: float) -> float:
        """Take them, in advance where they are not there yet, and says how many seconds away that is."""
        now = self._clock()
        self.tokens = min(self.most, self.tokens + (now - self._at) * self.rate) - count
        self._at = now
        return max(0.0, -self.tokens / self.rate)


def duration(text: str) -> float | None:
    """Seconds, of times as services write them; None of anything else.

    >>> duration("1m30.5s"), duration("20ms"), duration("7"), duration("soon")
    (90.5, 0.02, 7.0, None)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not text.strip():
        return None
    if match["plain"]:
        return float(match["plain"])
    return sum(float(match[unit] or 0) * seconds for unit, seconds in _UNITS.items())
