"""A picture of what the skin instrument read: both portraits with the skin that counted, and its colour beside.

Portraits stand undistorted and equally tall on neutral grey. Outlines, not verdict colours.
"""

from __future__ import annotations

import io

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from stillme.core.images import Pixels
from stillme.measures.regions import Skin
from stillme.measures.skin import Tone
from stillme.measures.skin_tone_shift import Settings
from stillme.measures.view import Pair, UnreadableError, View

TALL, GAP, SWATCH = 512, 24, 96
GROUND, INK, OUTLINE = (238, 238, 238), (32, 32, 32), (0, 114, 178)


def draw(pair: Pair) -> bytes:
    """A PNG: source and edit side by side, each with its skin's outline and swatch, the shift beneath."""
    try:
        tones: tuple[Tone | None, Tone | None] = pair.tones(Settings())
        said = (
            f"L* {tones[0].lightness:.1f} before, {tones[1].lightness:.1f} after" if tones[0] and tones[1] else ""
        )
    except UnreadableError as error:
        tones, said = (None, None), f"not measured: {error.detail}"
    panels = [_panel(pair.source, tones[0], "before"), _panel(pair.edit, tones[1], "after")]
    width = sum(panel.width for panel in panels) + 3 * GAP
    sheet = Image.new("RGB", (width, panels[0].height + 2 * GAP + 40), GROUND)
    left = GAP
    for panel in panels:
        sheet.paste(panel, (left, GAP))
        left += panel.width + GAP
    ImageDraw.Draw(sheet).text((GAP, sheet.height - 44), said, INK, ImageFont.load_default(24))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _panel(view: View, tone: Tone | None, name: str) -> Image.Image:
    outlined = _outlined(view.pixels, tone.region) if tone else view.pixels
    scale = TALL / outlined.shape[0]
    portrait = Image.fromarray(outlined).resize((max(1, round(outlined.shape[1] * scale)), TALL))
    panel = Image.new("RGB", (max(portrait.width, 2 * SWATCH), TALL + SWATCH + 2 * GAP), GROUND)
    panel.paste(portrait, (0, 0))
    pen = ImageDraw.Draw(panel)
    top = TALL + GAP
    if tone:
        pen.rectangle((0, top, SWATCH, top + SWATCH), fill=tone.rgb, outline=INK)
    words = f"{name}\nL* {tone.lightness:.1f}\nMonk {tone.monk} (description)" if tone else name
    pen.text((SWATCH + 12 if tone else 0, top), words, INK, ImageFont.load_default(18))
    return panel


def _outlined(picture: Pixels, region: Skin) -> Pixels:
    """The picture with the outline of the skin that was read."""
    left, top, right, bottom = region.corners
    mask = np.zeros(picture.shape[:2], np.uint8)
    size = (right - left, bottom - top)
    mask[top:bottom, left:right] = cv2.resize(region.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
    outlines, _ = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    thick = max(1, round(picture.shape[0] / 256))
    return np.asarray(cv2.drawContours(picture.copy(), outlines, -1, OUTLINE, thick), np.uint8)
