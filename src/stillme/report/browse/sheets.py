"""Many pictures on one: tiles of equal size on neutral grey, each whole and undistorted. Pixels in, image out."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from stillme.core.images import Pixels

GREY, INK, EMPTY = (128, 128, 128), (0, 0, 0), (150, 150, 150)
GAP = 2
LABEL = 15  # pixels of a letter's height


@dataclass(frozen=True)
class Tile:
    """A picture, or the words that stand where there is none."""

    picture: Pixels | None
    words: str = ""


def mosaic(tiles: Sequence[Tile], columns: int, side: int) -> Image.Image:
    """Row by row; the first is at the top left."""
    rows = -(-len(tiles) // columns)
    step = side + GAP
    sheet = Image.new("RGB", (min(columns, len(tiles)) * step + GAP, rows * step + GAP), GREY)
    for place, tile in enumerate(tiles):
        row, column = divmod(place, columns)
        _put(sheet, tile, GAP + column * step, GAP + row * step, side)
    return sheet


def grid(rows: Sequence[tuple[str, Sequence[Tile]]], heads: Sequence[str], side: int) -> Image.Image:
    """Rows with a name at their left, columns with a name above them."""
    step, left, top = side + GAP, 10 * LABEL, 2 * LABEL + 8
    sheet = Image.new("RGB", (left + len(heads) * step + GAP, top + len(rows) * step + GAP), GREY)
    pen = ImageDraw.Draw(sheet)
    for column, head in enumerate(heads):
        _write(pen, head, left + column * step + side / 2, top / 2, side)
    for row, (name, tiles) in enumerate(rows):
        _write(pen, name, left / 2, top + row * step + side / 2, left - 8)
        for column, tile in enumerate(tiles):
            _put(sheet, tile, left + column * step, top + GAP + row * step, side)
    return sheet


def _put(sheet: Image.Image, tile: Tile, left: int, top: int, side: int) -> None:
    if tile.picture is None:
        pen = ImageDraw.Draw(sheet)
        pen.rectangle((left, top, left + side - 1, top + side - 1), fill=EMPTY)
        if side >= 6 * LABEL:
            _write(pen, tile.words, left + side / 2, top + side / 2, side - 8)
        return
    picture = Image.fromarray(tile.picture)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    sheet.paste(picture, (left + (side - picture.width) // 2, top + (side - picture.height) // 2))


def _write(pen: ImageDraw.ImageDraw, text: str, x: float, y: float, width: float) -> None:
    font = ImageFont.load_default(LABEL)
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and pen.textlength(longer, font) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    pen.multiline_text((x, y), "\n".join(lines[:4]), INK, font, anchor="mm", align="center")


def webp(sheet: Image.Image, quality: int = 80) -> bytes:
    buffer = io.BytesIO()
    sheet.save(buffer, "WEBP", quality=quality, method=3)
    return buffer.getvalue()


def words_only(words: str, side: int) -> Image.Image:
    """What stands where a picture is left out."""
    sheet = Image.new("RGB", (side, side), EMPTY)
    _write(ImageDraw.Draw(sheet), words, side / 2, side / 2, side - 8)
    return sheet
