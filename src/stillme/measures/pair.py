"""Two pictures measured on the spot: what `stillme measure` shows. Writes only the picture that was asked for."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stillme import measures
from stillme.core import images
from stillme.core.errors import InputError, disk
from stillme.core.records import MeasureRequest, Reading
from stillme.engine import backends
from stillme.measures import attributes
from stillme.measures.skin_tone_shift import Settings, is_background_unchanged, lightness_change
from stillme.protocol import Protocol, builtin

if TYPE_CHECKING:
    from PIL import Image

    from stillme.measures.skin import Tone
    from stillme.measures.view import Pair, View


@dataclass(frozen=True)
class Comparison:
    """What was read from two pictures: kind of measure -> reading."""

    before: Path
    after: Path
    readings: Mapping[str, Reading]
    protocol: Protocol

    def figures(self, kind: str) -> Mapping[str, float]:
        return self.readings[kind].figures if kind in self.readings else {}

    @property
    def lightness_change(self) -> float | None:
        """The skin's shift, without the light's where the background allows it."""
        rules = self.protocol.measures
        return lightness_change(self.figures("skin_tone_shift"), rules.skin_tone.background) if rules else None

    @property
    def is_controlled(self) -> bool:
        rules, figures = self.protocol.measures, self.figures("skin_tone_shift")
        return rules is not None and is_background_unchanged(figures, rules.skin_tone.background)

    @property
    def nothing_changed(self) -> bool | None:
        """By the protocol's own thresholds; None where it was not read."""
        rules, figures = self.protocol.measures, self.figures("change")
        if not figures or rules is None:
            return None
        rule = rules.no_change
        return figures["lpips"] < rule.lpips and figures["changed_share"] < rule.changed_share

    def to_dict(self) -> dict[str, object]:
        """For scripts."""
        return {
            "before": str(self.before),
            "after": str(self.after),
            **{
                kind: {"status": reading.status.value, "detail": reading.detail, **reading.figures}
                for kind, reading in self.readings.items()
            },
            "lightness_change": self.lightness_change,
            "controlled": self.is_controlled,
            "nothing_changed": self.nothing_changed,
        }


def compare(before: Path, after: Path, show: Path | None = None) -> Comparison:
    """Every measure that this installation can take; `show`: where to put a picture of what was read."""
    request = MeasureRequest(str(before), _read_image(before), _read_image(after), tuple(_available_kinds()))
    prepared = {kind: _prepared(kind) for kind in request.measures}
    for kind, one in prepared.items():
        backends.require_packages(one.requires, f"'{kind}'")
    from stillme.measures.runner import MeasureRunner

    bench = MeasureRunner({kind: one.make() for kind, one in prepared.items()})
    readings = dict(zip(request.measures, bench.measure(request), strict=True))
    if show is not None:
        with disk(show):
            show.write_bytes(draw(bench.pair(request)))
    return Comparison(before, after, readings, builtin())


def _available_kinds() -> Iterator[str]:
    """All kinds, but those of the optional extra only where it is installed."""
    for kind in measures.BACKENDS:
        if kind not in measures.ATTRIBUTES or importlib.util.find_spec(attributes.MODULE):
            yield kind


def _prepared(kind: str) -> backends.PreparedMeasure[measures.Reader]:
    module = backends.load(measures.BACKENDS, kind)
    prepared: backends.PreparedMeasure[measures.Reader] = module.prepare(
        module.Settings(), backends.BackendContext(Path(), builtin())
    )
    return prepared


def _read_image(path: Path) -> bytes:
    """A file that is not an image is the user's error; a face that is not there is a reading."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.", "Give two picture files: before and after the edit.")
    with disk(path):
        content = path.read_bytes()
    try:
        images.inspect(content)
    except images.BadImageError as error:
        raise InputError(f"{path} {error}.", "Give a JPEG, PNG or WebP picture.") from None
    return content


# The picture: both portraits undistorted and equally tall on neutral grey, with the outline of the skin that
# counted and its colour.

PORTRAIT_HEIGHT, GAP, SWATCH = 512, 24, 96  # pixels
GROUND, INK, OUTLINE = (238, 238, 238), (32, 32, 32), (0, 114, 178)


def draw(pair: Pair) -> bytes:
    """A PNG: source and edit side by side, each with its skin's outline and swatch, the shift below."""
    from PIL import Image, ImageDraw, ImageFont

    from stillme.measures.view import UnreadableError

    tones: tuple[Tone | None, Tone | None] = (None, None)
    try:
        before, after = tones = pair.tones(Settings())
        caption = f"L* {before.lightness:.1f} before, {after.lightness:.1f} after"
    except UnreadableError as error:
        caption = f"not measured: {error.detail}"
    panels = [_panel(pair.source, tones[0], "before"), _panel(pair.edit, tones[1], "after")]
    width = sum(panel.width for panel in panels) + 3 * GAP
    canvas = Image.new("RGB", (width, panels[0].height + 2 * GAP + 40), GROUND)
    left = GAP
    for panel in panels:
        canvas.paste(panel, (left, GAP))
        left += panel.width + GAP
    ImageDraw.Draw(canvas).text((GAP, canvas.height - 44), caption, INK, ImageFont.load_default(24))
    buffer = io.BytesIO()
    canvas.save(buffer, "PNG")
    return buffer.getvalue()


def _panel(view: View, tone: Tone | None, name: str) -> Image.Image:
    """One portrait with the outline of the skin that was read, and its swatch below."""
    import cv2
    from PIL import Image, ImageDraw, ImageFont

    pixels = view.pixels
    if tone:
        mask = tone.region.full_mask(pixels.shape[:2]).astype(np.uint8)
        outlines, _ = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        thickness = max(1, round(pixels.shape[0] / 256))
        pixels = np.asarray(cv2.drawContours(pixels.copy(), outlines, -1, OUTLINE, thickness), np.uint8)
    scale = PORTRAIT_HEIGHT / pixels.shape[0]
    portrait = Image.fromarray(pixels).resize((max(1, round(pixels.shape[1] * scale)), PORTRAIT_HEIGHT))
    panel = Image.new("RGB", (max(portrait.width, 2 * SWATCH), PORTRAIT_HEIGHT + SWATCH + 2 * GAP), GROUND)
    panel.paste(portrait, (0, 0))
    pen = ImageDraw.Draw(panel)
    top = PORTRAIT_HEIGHT + GAP
    if tone:
        pen.rectangle((0, top, SWATCH, top + SWATCH), fill=tone.rgb, outline=INK)
    text = f"{name}\nL* {tone.lightness:.1f}\nMonk {tone.monk} (description)" if tone else name
    pen.text((SWATCH + 12 if tone else 0, top), text, INK, ImageFont.load_default(18))
    return panel
