"""How often somebody may ask: token buckets in memory, one a key. It does not know what a key stands for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MOST = 10_000  # keys that are remembered; the one that was longest silent is forgotten first


@dataclass
class _Bucket:
    left: float
    at: float


class Buckets:
    """`burst` at once, then `rate` a second, for each key by itself."""

    def __init__(self, rate: float, burst: int, most: int = MOST) -> None:
        self.rate, self.burst, self.most = rate, burst, most
        self._known: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def take(self, key: str, now: float) -> float:
        """Takes one; 0 if there was one to take, else the seconds after which there will be."""
        bucket = self._filled(key, now)
        if bucket.left >= 1:
            bucket.left -= 1
            return 0.0
        return (1 - bucket.left) / self.rate

    def wait(self, key: str, now: float) -> float:
        """What `take` would say, without taking."""
        left = self._filled(key, now).left
        return 0.0 if left >= 1 else (1 - left) / self.rate

    def forget(self, key: str) -> None:
        """As if the key had never been seen: after a login that was right."""
        self._known.pop(key, None)

    def _filled(self, key: str, now: float) -> _Bucket:
        bucket = self._known.setdefault(key, _Bucket(float(self.burst), now))
        self._known.move_to_end(key)
        passed = max(0.0, now - bucket.at)  # a clock may be set back
        bucket.left, bucket.at = min(self.burst, bucket.left + passed * self.rate), now
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return bucket
