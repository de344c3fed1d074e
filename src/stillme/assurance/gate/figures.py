"""The figures that a rule is about, each with its interval: read off the tables, and nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stillme.assurance.gate import apart, rates, told
from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.figure import Figure
from stillme.assurance.gate.policy import (
    Calibration,
    Claims,
    Disparity,
    Missingness,
    NetDirection,
    Rate,
    RefusalGap,
    Rule,
)

_OF: Mapping[type[Rule], Callable[[Rule, Evidence], Iterator[Figure]]] = {
    Rate: rates.rate,
    NetDirection: rates.net,
    Disparity: apart.disparity,
    RefusalGap: apart.refusals,
    Missingness: apart.missing,
    Calibration: told.calibration,
    Claims: told.claims,
}


def figures(rule: Rule, evidence: Evidence) -> Iterator[Figure]:
    yield from _OF[type(rule)](rule, evidence)
