"""Calibration pairs: pictures made from an audit's own portraits by a change that is known exactly.

An editor that the audit drives makes them (`pairs`, loaded when it is needed); their true scores are known here.
Knows no judge, and no statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.judges import PLANTED_SCORE
from stillme.protocol import Protocol
from stillme.protocol.schema import CalibrationPairKind

if TYPE_CHECKING:
    from stillme.judges.calibration.pairs import Maker

VERSION = 1  # raise when the same kinds give other pixels
MAKER = "calibration:pairs"  # the editor of their trials; no editor of an audit can have this id
_MARK = "[calibration] "
_WORDS = {"label", "expects", "asks", "swaps"}  # of a kind, that change no pixel


def instruction(kind: CalibrationPairKind) -> str:
    """The maker's instruction; a pair that is shown the other way round is the same picture."""
    return f"{_MARK}{kind.swaps or kind.id}"


def kind_of(instruction: str) -> str:
    """The id of the kind that an instruction names."""
    return instruction.removeprefix(_MARK)


def planted(protocol: Protocol, kind: str) -> dict[str, float]:
    """The true scores of a pair, as simulated judges read them."""
    assert protocol.calibration is not None
    expected = protocol.expected(protocol.calibration.kind(kind))
    return {PLANTED_SCORE + axis: expectation.score for axis, expectation in expected.items()}


class Settings(StrictModel):
    """The kinds that are made."""

    kinds: tuple[CalibrationPairKind, ...]


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[Maker]:
    made = [kind.model_dump(mode="json", exclude=_WORDS, exclude_none=True) for kind in settings.kinds]
    return PreparedEditor(
        effective={"backend": MAKER, "version": VERSION, "kinds": made},
        inputs=settings.model_dump(mode="json"),
        make=lambda: _made(settings),
        description="Makes pairs of which it is known what changed.",
        seconds=0.05,
        computes=True,
    )


def _made(settings: Settings) -> Maker:
    from stillme.judges.calibration.pairs import Maker

    return Maker(settings.kinds)
