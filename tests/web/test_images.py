from __future__ import annotations

from pathlib import Path

from stillme.core import images
from stillme.sources import heads
from stillme.web.images import Thumbnails


def test_a_thumbnail_is_made_once_and_undistorted(tmp_path: Path) -> None:
    wide = images.encode(heads.photograph(heads.load(heads.keys()[0]))[:200])
    asked: list[str] = []

    def load(sha256: str) -> bytes:
        asked.append(sha256)
        return wide

    shelf = Thumbnails(tmp_path / "t", load)
    made = shelf.get("ab", 192)
    assert Thumbnails(tmp_path / "t", load).get("ab", 192) == made
    assert asked == ["ab"]
    facts = images.inspect(made)
    assert (facts.extension, facts.width, facts.height) == ("webp", 192, 100)
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["ab.192.webp"]
