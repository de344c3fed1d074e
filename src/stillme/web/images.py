"""Images by their hash, whole and as thumbnails: only those that a tool shows, cached for ever.

Thumbnails are made once and kept in a folder that may be deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stillme.core import images
from stillme.core.atomic import replace_file
from stillme.core.errors import disk
from stillme.web.app import FOREVER, TYPES

SIDES = (96, 192, 384)  # pixels: a closed list, so that no visitor can ask for work without end
MAX_DECODING = 2  # images decoded at a time: a large photograph takes 200 MB
_KEPT = {"Cache-Control": FOREVER}


class Pictures:
    """`read`: the bytes of a hash. `shown`: the hashes that a tool shows, as they are when it is asked."""

    def __init__(self, folder: Path, read: Callable[[str], bytes], shown: Callable[[], Container[str]]) -> None:
        self._read = read
        self._shown = shown
        self._thumbnails = Thumbnails(folder, read)

    def routes(self) -> Iterator[Route]:
        yield Route("/image/{sha256}", self.image, methods=["GET"])
        yield Route("/thumb/{sha256}", self.thumbnail, methods=["GET"])

    def image(self, request: Request) -> Response:
        content = self._read(self._sha256(request))
        kind = TYPES.get(content[:2], "application/octet-stream")
        return Response(content, media_type=kind, headers=_KEPT)

    def thumbnail(self, request: Request) -> Response:
        side = request.query_params.get("s", "")
        if side not in {str(size) for size in SIDES}:
            raise HTTPException(404)
        content = self._thumbnails.get(self._sha256(request), int(side))
        return Response(content, media_type="image/webp", headers=_KEPT)

    def _sha256(self, request: Request) -> str:
        """The hash in the address, if the tool shows that image."""
        sha256: str = request.path_params["sha256"]
        if sha256 not in self._shown():
            raise HTTPException(404)
        return sha256


class Thumbnails:
    """Safe to use from several threads; two that make the same one make the same bytes."""

    def __init__(self, folder: Path, load: Callable[[str], bytes]) -> None:
        """`load` gives the picture of a hash."""
        self._folder = folder
        self._load = load
        self._decoding = threading.BoundedSemaphore(MAX_DECODING)

    def get(self, sha256: str, side: int) -> bytes:
        path = self._folder / f"{sha256}.{side}.webp"
        with disk(path):
            if path.exists():
                return path.read_bytes()
            with self._decoding:
                content = images.thumbnail(self._load(sha256), side)
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, durable=False)
        return content
