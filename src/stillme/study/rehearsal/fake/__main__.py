"""Runs the fake Prolific on this machine until Ctrl-C.

python -m stillme.study.rehearsal.fake --state rehearsal.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from stillme.core.errors import StillmeError
from stillme.study.rehearsal.fake.app import API, Fake, Options
from stillme.study.rehearsal.fake.world import World
from stillme.web.server import listen

HOST = "127.0.0.1"  # a rehearsal is nobody else's


def serve(state: Path, port: int, token: str, options: Options, say: Callable[[str], None]) -> None:
    """Listens on this machine only; says how a study is pointed at it."""
    world = World(state, token)
    fake = Fake(world, options)
    bound = listen(HOST, port)
    base = f"http://{HOST}:{bound.getsockname()[1]}"
    config = uvicorn.Config(
        fake.app(), log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
    )
    world.save()
    say(f"A fake Prolific is at {base}; its page lists everybody who takes part. No money, no people.")
    say(f"  export PROLIFIC_API={base}{API} PROLIFIC_TOKEN={world.token}")
    try:
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stillme.study.rehearsal.fake", description=__doc__)
    parser.add_argument(
        "--state", type=Path, default=Path("fake-prolific.json"), help="the file that it is kept in"
    )
    parser.add_argument("--port", type=int, default=8641)
    parser.add_argument("--token", default="", help="the token that it takes; made if not given")
    parser.add_argument("--turn-away", type=int, default=0, metavar="N", help="answer every Nth call with 429")
    parser.add_argument("--twice", action="store_true", help="deliver every webhook twice")
    given = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        serve(given.state, given.port, given.token, Options(given.turn_away, given.twice), say)
    except StillmeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
