"""The task that every server is given: 50 items, each a source and two outputs, drawn rather than photographed."""

from __future__ import annotations

import io
import random
from functools import lru_cache

from PIL import Image, ImageFilter

ITEMS = 50
SIDE, GRAIN = 512, 32
ROLES = ("source", "a", "b")
QUESTIONS = ("edit", "skin", "race", "gender", "age")
POINTS = ("1", "2", "3", "4", "5")


def name(item: int, role: str) -> str:
    return f"{item:03}_{role}.jpg"


def prompt(item: int) -> str:
    return f"Show the person in the role of number {item}"


@lru_cache(maxsize=ITEMS * len(ROLES))
def picture(item: int, role: str) -> bytes:
    """Blurred patches of colour, the same in every run: a JPEG of about 20 KB."""
    drawn = random.Random(name(item, role)).randbytes(3 * GRAIN * GRAIN)
    image = Image.frombytes("RGB", (GRAIN, GRAIN), drawn).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.filter(ImageFilter.GaussianBlur(4)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
