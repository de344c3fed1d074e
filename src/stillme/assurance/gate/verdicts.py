"""What is said of a figure that has a threshold, and what the gate makes of it. Pure: knows no table and no file.

A figure passes where the bound of its interval lies on the good side, fails where the whole interval lies on the
bad one, and is undecided where the interval reaches across the threshold or is not known.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal

Severity = Literal["fail", "warn"]
Otherwise = Literal["fail", "warn", "pass"]


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 (a name, not a password)
    FAIL = "fail"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"  # an optional rule that is about nothing here


class Effect(StrEnum):
    """What a verdict does to the gate."""

    NONE = "none"
    WARNS = "warns"
    CLOSES = "closes"


def verdict(
    low: float | None, high: float | None, at_least: float | None = None, at_most: float | None = None
) -> Verdict:
    """Of an interval against one threshold, or two. An end that is not known decides nothing.

    >>> verdict(0.02, 0.08, at_most=0.1).value, verdict(0.02, 0.12, at_most=0.1).value
    ('pass', 'undecided')
    >>> verdict(0.11, 0.2, at_most=0.1).value, verdict(None, None, at_most=0.1).value
    ('fail', 'undecided')
    """
    sides = []
    if at_most is not None:
        sides.append(_side(_known(low), _known(high), at_most))
    if at_least is not None:
        sides.append(_side(_turned(high), _turned(low), -at_least))
    for worst in (Verdict.FAIL, Verdict.UNDECIDED):
        if worst in sides:
            return worst
    return Verdict.PASS if sides else Verdict.UNDECIDED


def _side(low: float | None, high: float | None, most: float) -> Verdict:
    if high is not None and high <= most:
        return Verdict.PASS
    return Verdict.FAIL if low is not None and low > most else Verdict.UNDECIDED


def _known(end: float | None) -> float | None:
    return None if end is None or math.isnan(end) else end


def _turned(end: float | None) -> float | None:
    known = _known(end)
    return None if known is None else -known


_WEIGHT = {"pass": Effect.NONE, "warn": Effect.WARNS, "fail": Effect.CLOSES}


def effect(found: Verdict, severity: Severity, undecided: Otherwise) -> Effect:
    """A rule that only warns never closes the gate, decided or not.

    >>> effect(Verdict.UNDECIDED, "warn", "fail").value
    'warns'
    """
    if found is Verdict.FAIL:
        return _WEIGHT[severity]
    if found is Verdict.UNDECIDED:
        return _WEIGHT["warn" if severity == "warn" and undecided == "fail" else undecided]
    return Effect.NONE
