"""Calibration pairs: pictures made from an audit's own portraits by a change that is known exactly.

Makes pictures and says what is true of them. Knows no judge, and no statistics.
"""

from __future__ import annotations

from stillme.protocol import Protocol
from stillme.protocol.schema import Kind

MAKER = "calibration:pairs"  # the editor of their trials; no editor of an audit can have this id
_MARK = "[calibration] "
QUANTITY = "score."  # planted quantities that are true scores on an axis


def instruction(kind: Kind) -> str:
    """What the maker is asked for; a pair that is shown the other way round is the same picture."""
    return f"{_MARK}{kind.swaps or kind.id}"


def named(text: str) -> str:
    """The kind that an instruction names."""
    return text.removeprefix(_MARK)


def planted(protocol: Protocol, kind: str) -> dict[str, float]:
    """The true scores of a pair, as simulated judges read them."""
    assert protocol.calibration is not None
    expected = protocol.expected(protocol.calibration.kind(kind))
    return {QUANTITY + axis: one.score for axis, one in expected.items()}
