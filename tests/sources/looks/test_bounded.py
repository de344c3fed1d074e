"""The caches of painted layers forget what was used longest ago."""

from __future__ import annotations

from stillme.sources.looks.bounded import Bounded


def test_a_kept_value_is_not_made_again() -> None:
    cache: Bounded[int] = Bounded(2)
    assert cache.get("a", lambda: 1) == 1
    assert cache.get("a", lambda: 2) == 1


def test_the_least_recently_used_leaves_first() -> None:
    cache: Bounded[int] = Bounded(2)
    for name in ("a", "b", "a", "c"):
        cache.get(name, lambda: 1)
    assert cache.get("a", lambda: 2) == 1
    assert cache.get("b", lambda: 2) == 2
