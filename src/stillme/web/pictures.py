"""Pictures by their hash, whole and small: only those that a tool shows, and for ever, as a hash never changes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stillme.web.app import FOREVER, TYPES
from stillme.web.thumbnails import SIDES, Thumbnails

_KEPT = {"Cache-Control": FOREVER}


class Pictures:
    """`read`: the bytes of a hash. `shown`: the hashes that a tool shows, as they are when it is asked."""

    def __init__(self, folder: Path, read: Callable[[str], bytes], shown: Callable[[], Container[str]]) -> None:
        self._read, self._shown = read, shown
        self._thumbnails = Thumbnails(folder, read)

    def routes(self) -> Iterator[Route]:
        yield Route("/image/{sha256}", self.image, methods=["GET"])
        yield Route("/thumb/{sha256}", self.thumbnail, methods=["GET"])

    def image(self, request: Request) -> Response:
        content = self._read(self._known(request))
        kind = TYPES.get(content[:2], "application/octet-stream")
        return Response(content, media_type=kind, headers=_KEPT)

    def thumbnail(self, request: Request) -> Response:
        side = request.query_params.get("s", "")
        if side not in {str(known) for known in SIDES}:
            raise HTTPException(404)
        content = self._thumbnails.get(self._known(request), int(side))
        return Response(content, media_type="image/webp", headers=_KEPT)

    def _known(self, request: Request) -> str:
        sha256: str = request.path_params["sha256"]
        if sha256 not in self._shown():
            raise HTTPException(404)
        return sha256
