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
_TURNED_AWAY = 429
MOST_SEEN, LATELY = 4096, 2.0  # answers, seconds: what a service has shown of late
CROWD, BREATH = 2.0, 0.25  # seconds after a cut within which the next is large; and in which nothing is sent
SLOWER, MUCH_SLOWER = 0.9, 0.5  # of the rate that was answered
IN_HAND = 0.1  # seconds' worth that may be sent at once after a rest
BELOW = 0.85  # of the rate before a large cut: from there on it grows slowly
STRAY, MANY = 0.03, 0.15  # of the answers: what may be turned away for other reasons than the rate
FEW, ENOUGH = 4, 8  # turned away, answered: with less nothing is learned
FAR, NEAR = 1.3, 1.01  # growth a second, far from where it was turned away and near it
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = re.compile(
    "".join(f"(?:(?P<{unit}>{_NUMBER}){unit}(?![a-z]))?" for unit in _UNITS) + f"|(?P<plain>{_NUMBER})"
)


class Gate:
    """How many calls may be under way: from `first` twice as many a round until something is wrong, then one more
    after a good round, half as many when a service is overloaded, three quarters when it turns calls away."""

    def __init__(self, most: int, first: int | None = None) -> None:
        self.most, self.limit = most, min(most, first or most)
        self._is_starting = self.limit < most
        self._under_way = self._cuts = self._well = 0
        self._line: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> int:
        """Waits for a place. Returns how often the limit was cut so far, for `leave`."""
        if self._under_way < self.limit and not self._line:
            self._under_way += 1
        else:
            await self._queue()
        return self._cuts

    async def _queue(self) -> None:
        """In line; whoever lets one in has counted it already."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # let in and gone at the same time
                self._under_way -= 1
                self._let_in()
            raise

    def leave(self, cuts: int, status_code: int | None) -> None:
        self._under_way -= 1
        if status_code is not None:
            self.learn(cuts, status_code)
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self._under_way < self.limit:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                self._under_way += 1

    def learn(self, cuts: int, status_code: int) -> None:
        """Calls that started before the last cut say nothing new: a crowd that is turned away is one event."""
        if status_code == _TURNED_AWAY or status_code in _OVERLOADED:
            if cuts == self._cuts:
                left = self.limit * 3 // 4 if status_code == _TURNED_AWAY else self.limit // 2
                self.limit, self._cuts, self._well, self._is_starting = max(1, left), self._cuts + 1, 0, False
        elif 200 <= status_code < 300 and self.limit < self.most:
            self._well += 1
            if self._is_starting or self._well >= self.limit:
                self.limit, self._well = self.limit + 1, 0


class Pace:
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
        self._known = [
            (Bucket(limit / 60, clock), by_tokens)
            for limit, by_tokens in ((requests_per_minute, False), (tokens_per_minute, True))
            if limit
        ]
        self.learned: Bucket | None = None
        self._ceiling = 0.0  # calls a second at which it was turned away last
        self._grown, self._cut, self._away = clock(), -1.0, 0
        self._answered: deque[float] = deque(maxlen=MOST_SEEN)

    def reserve(self, tokens: int = 0) -> float:
        """Takes a place in line and says how many seconds it is away."""
        away = [bucket.take(float(tokens) if by_tokens else 1.0) for bucket, by_tokens in self._known]
        if self.learned is not None:
            self._grow(self.learned)
            away.append(self.learned.take(1.0))
        return max(away, default=0.0)

    def answered(self, headers: Mapping[str, str]) -> None:
        """A success: when it was, and what it says of the limit."""
        self._answered.append(self._clock())
        left = headers.get("x-ratelimit-remaining-requests")
        if left is not None:
            self._told(left, headers)

    def _told(self, left: str, headers: Mapping[str, str]) -> None:
        """What is left and when it is full again give how fast it refills. A tenth is left for others."""
        limit, reset = headers.get("x-ratelimit-limit-requests", ""), headers.get("x-ratelimit-reset-requests", "")
        seconds = duration(reset)
        try:
            room, most = float(left), float(limit)
        except ValueError:
            return
        if not seconds or most <= room:
            return
        rate = 0.95 * (most - room) / seconds
        if self.learned is None:
            self.learned = Bucket(rate, self._clock)
        self.learned.rate, self.learned.most = rate, most
        self.learned.tokens = min(self.learned.tokens, 0.9 * room)
        self._ceiling, self._grown = rate, self._clock()

    def turned_away(self, started: float, is_told: bool = False) -> bool:
        """Slower than the service has just answered, if that is more than a stray; returns whether it is.

        Calls that had their turn before the last cut say nothing new. `is_told`: the service said how long to
        wait, and everybody does; after a first cut it takes much for another.
        """
        now = self._clock()
        if started <= self._cut + BREATH:
            return False
        self._away += 1
        answered = sum(at > max(self._cut, now - LATELY) for at in self._answered)
        share = MANY if is_told and self.learned is not None else STRAY
        is_much = self._away >= FEW and self._away > share * (self._away + answered)
        if is_much:
            self._slow_down(now)
        return is_much

    def _slow_down(self, now: float) -> None:
        """A first cut, and one soon after another, is a large one: answers tell of a while ago, when there was
        more in hand. Where too few have come to tell anything, callers wait by themselves."""
        seen = self._seen(now)
        if seen is None:
            return
        if self.learned is None:
            self.learned = Bucket(MUCH_SLOWER * seen, self._clock)
            self._ceiling = self.learned.rate
        else:
            before = min(seen, self.learned.rate)
            is_soon = now - self._cut < CROWD
            self.learned.rate = (MUCH_SLOWER if is_soon else SLOWER) * before
            self._ceiling = BELOW * before if is_soon else before
        self.learned.most = max(1.0, IN_HAND * self.learned.rate)
        self.learned.tokens = min(self.learned.tokens, -BREATH * self.learned.rate)
        self._cut, self._grown, self._away = now, now, 0

    def _seen(self, now: float) -> float | None:
        """Answers a second, of late; None where there are too few to say."""
        recent = [at for at in self._answered if at > now - LATELY]
        return len(recent) / max(now - recent[0], 0.1) if len(recent) >= ENOUGH else None

    def _grow(self, learned: Bucket) -> None:
        """Quickly where it was never turned away, slowly near where it was."""
        now = self._clock()
        seconds, near = now - self._grown, 0.9 * self._ceiling
        far = min(near, learned.rate * FAR**seconds)
        learned.rate = far if learned.rate < near else learned.rate * NEAR**seconds
        self._grown = now


class Bucket:
    """Tokens that refill at a rate; it holds a second's worth, at least one."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate  # a second
        self.most = self.tokens = max(1.0, rate)
        self._clock = clock
        self._at = clock()

    def take(self, count: float) -> float:
        """Takes them, in advance where they are not there yet, and says how many seconds away that is."""
        now = self._clock()
        self.tokens = min(self.most, self.tokens + (now - self._at) * self.rate) - count
        self._at = now
        return max(0.0, -self.tokens / self.rate)


def duration(text: str) -> float | None:
    """Seconds, of times as services write them; None of anything else.

    >>> duration("1m30.5s"), duration("20ms"), duration("7"), duration("soon")
    (90.5, 0.02, 7.0, None)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or not text.strip():
        return None
    if found["plain"]:
        return float(found["plain"])
    return sum(float(found[unit] or 0) * seconds for unit, seconds in _UNITS.items())
