"""Serves an app from this process until Ctrl-C, and says how to reach it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator

import uvicorn
from starlette.applications import Starlette

from stillme.core.errors import SurroundingsError
from stillme.web.guard import EVERYWHERE
from stillme.web.patience import Patience, allow_many

Say = Callable[[str], None]


def address(host: str, port: int) -> str:
    """Where a browser finds a server that listens there."""
    name = socket.gethostname() if host in EVERYWHERE else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """The socket, taken before anything is promised; port 0 takes any that is free."""
    allow_many()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(1024)
    except OSError as error:
        found.close()
        said = f"The tool cannot listen on {host}, port {port}: {error.strerror}."
        raise SurroundingsError(said, "Give another --port, or stop what listens there.") from None
    return found


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(app: Starlette, bound: socket.socket, host: str, greeting: Iterable[str], say: Say) -> None:
    """Greets, and answers until Ctrl-C. No access log: addresses can carry keys."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=Patience,
        timeout_graceful_shutdown=3,
    )
    try:
        for line in (*warning(host), *greeting):
            say(line)
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()


def warning(host: str) -> Iterator[str]:
    """What listening there means, where it means something."""
    if not is_loopback(host):
        yield (
            f"Listening on {host}: others on the network can reach this, and nothing is encrypted on its way,"
            " neither links nor portraits. Put it behind a proxy with TLS, or use --host 127.0.0.1 with an SSH"
            " tunnel."
        )
