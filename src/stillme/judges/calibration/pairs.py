"""Makes the altered picture of a calibration pair: one known change of a portrait, exactly, and nothing else.

It looks at no seed and gives the same bytes every time. Pictures are written without loss, except where the loss
is the change that is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from stillme.core import images
from stillme.core.records import DELTA_L, OTHER_HEAD, EditReply, EditRequest, Status
from stillme.judges.calibration import named
from stillme.judges.calibration.pixels import framed, relit, shifted
from stillme.judges.calibration.skin import Finder, NoSkinError
from stillme.protocol.schema import Kind


class Maker:
    """One set of kinds."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.kinds = {kind.id: kind for kind in kinds}
        self._finder = Finder()

    def edit(self, request: EditRequest) -> EditReply:
        kind = self.kinds[named(request.instruction)]
        if kind.by == "copy":
            return EditReply(Status.OK, request.image, truth={DELTA_L: 0.0})
        if kind.by == "person":
            return EditReply(Status.OK, request.references[0], truth={OTHER_HEAD: 1.0})
        try:
            picture = images.pixels(request.image)
        except images.BadImageError as error:
            return EditReply(Status.REJECTED, detail=f"the portrait {error}")
        return self._skin(request, picture, kind) if kind.by == "skin" else _made(picture, kind)

    def _skin(self, request: EditRequest, picture: images.Pixels, kind: Kind) -> EditReply:
        delta_l = kind.delta_l or 0.0
        try:
            skin = self._finder.find(request.image, picture)
        except NoSkinError as error:
            return EditReply(error.status, detail=error.detail)
        return EditReply(Status.OK, images.lossless(shifted(picture, skin, delta_l)), truth={DELTA_L: delta_l})


def _made(picture: images.Pixels, kind: Kind) -> EditReply:
    """The kinds that need no skin."""
    if kind.quality is not None:
        content = images.encode(picture, kind.quality)
    elif kind.gain is not None:
        content = images.lossless(relit(picture, kind.gain))
    else:
        content = images.lossless(framed(picture, kind.width or 0.0, kind.colour or (0, 0, 0)))
    return EditReply(Status.OK, content, truth={DELTA_L: 0.0})
