"""stillme in an environment that seems to have Step1X's branch of diffusers.

python -m tests.diffusers.served editors serve AUDIT ROW --port 0
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

if __name__ == "__mp_main__":  # the process of the editor, which starts with this module too
    from tests.diffusers import standin

    standin.install()


@contextmanager
def served(audit: Path, row: str, port: int = 0) -> Iterator[dict[str, object]]:
    """Settings for an editor of the kind openai that asks a server of the stand-in, while it runs."""
    command = [sys.executable, "-m", "tests.diffusers.served", "editors", "serve", str(audit), row]
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(3))
        base, settings = re.search(r"at (\S+)/images/edits", said), re.search(r"extra: {settings: (\w+)}", said)
        assert base and settings, said
        yield {
            "service": "stillme",
            "base_url": base[1],
            "model": row,
            "extra": {"settings": settings[1]},
        }
        process.send_signal(signal.SIGINT)
        process.wait(60)


if __name__ == "__main__":
    from stillme.cli.main import main

    main()
