"""What the runner costs beside bare loops: a local model that computes, and a service that is waited for.

    python -m bench.editors_overhead [--only local,remote]

Local: our runner against a loop over the same tiny pipeline with the same steps, seconds an edit; it needs torch,
diffusers and transformers. Remote: edits a second against concurrency ÷ latency, over loopback; it needs aiohttp.
"""

from __future__ import annotations

import argparse
import importlib
import sys

PARTS = {"local": "bench.editors_local", "remote": "bench.editors_remote"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by comma")
    chosen = parser.parse_args().only.split(",")
    met = [importlib.import_module(PARTS[part]).measure() for part in chosen]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
