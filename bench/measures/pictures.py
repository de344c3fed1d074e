"""The pictures that the bench measures: labelled photographs where there are any, and the shipped heads.

Labels are annotators' perceptions; those of the rendered heads are inputs, not findings. Nothing is written here.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from stillme.core import images
from stillme.sources import heads

BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "fairface_sample"
QUALITY = 95


@dataclass(frozen=True)
class Photo:
    """A portrait as a file's content; `race` as perceived by annotators, or as rendered."""

    name: str
    content: bytes
    race: str


def sample(folder: Path | None) -> list[Photo]:
    """The photographs of a folder in FairFace's layout; none where no folder is given and none is beside us."""
    place = folder or BESIDE
    tables = sorted(place.glob("fairface_label_*.csv"))
    if folder is not None and not tables:
        raise SystemExit(f"There is no fairface_label_*.csv in {place}. Give a folder in FairFace's layout.")
    rows = [row for path in tables for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]
    return [Photo(row["file"], (place / row["file"]).read_bytes(), row["race"]) for row in rows]


def rendered() -> list[Photo]:
    """The shipped heads, as an audit has them."""
    found = [heads.load(key) for key in heads.keys()]  # noqa: SIM118
    return [Photo(head.key, images.encode(heads.photograph(head), QUALITY), head.labels["race"]) for head in found]


def resized(photo: Photo, side: int) -> Photo:
    """The same picture with its longer side at `side` pixels."""
    with Image.open(io.BytesIO(photo.content)) as opened:
        scale = side / max(opened.size)
        size = (round(opened.width * scale), round(opened.height * scale))
        whole = opened.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    whole.save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return replace(photo, content=buffer.getvalue())
