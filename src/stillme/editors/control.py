"""The editor of the negative controls that need no model: a portrait re-encoded, or enlarged and re-encoded.

What an instrument reads from such a pair is the effect of the file format or of resampling. It uses neither
instruction nor seed, works on any picture, and gives the same bytes every time.
"""

from __future__ import annotations

import numpy as np
from PIL import Image
from pydantic import Field

from stillme.core import images
from stillme.core.records import EditReply, EditRequest, Status
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedEditor

VERSION = 1  # raise when the same settings give other pixels


class Settings(StrictModel):
    """quality: of the JPEG. scale: of width and height."""

    quality: int = Field(ge=1, le=100)
    scale: float = Field(default=1.0, gt=0, le=4)


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[Control]:
    named = settings.model_dump(mode="json")
    return PreparedEditor(
        effective={"backend": "control", "version": VERSION, **named},
        inputs=named,
        make=lambda: Control(settings),
        description=_described(settings),
        seconds=0.02,
        computes=True,
    )


def _described(settings: Settings) -> str:
    enlarged = f"Scaled by {settings.scale:g} and saved" if settings.scale != 1 else "Saved again"
    return f"{enlarged} as JPEG of quality {settings.quality}; nothing is edited."


class Control:
    """One negative control."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def edit(self, request: EditRequest) -> EditReply:
        try:
            picture = scaled(images.pixels(request.image), self.settings.scale)
        except images.BadImageError as error:
            return EditReply(Status.REJECTED, detail=f"the portrait {error}")
        return EditReply(Status.OK, images.encode(picture, self.settings.quality))


def scaled(picture: images.Pixels, scale: float) -> images.Pixels:
    """The picture with its sides times `scale`, resampled by Lanczos."""
    if scale == 1:
        return picture
    height, width = (max(1, round(side * scale)) for side in picture.shape[:2])
    images.require_room(width, height)
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.LANCZOS))
