"""The maker of calibration pairs, as an editor that an audit drives. Loads nothing heavy before it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stillme.core.yaml import Frozen
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.judges.calibration import MAKER
from stillme.protocol.schema import Kind

if TYPE_CHECKING:
    from stillme.judges.calibration.pairs import Maker

VERSION = 1  # raise when the same kinds give other pixels
_WORDS = {"label", "expects", "asks", "swaps"}  # of a kind, that change no pixel


class Settings(Frozen):
    """The kinds that are made."""

    kinds: tuple[Kind, ...]


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
