"""Asks whether a version that constraints.txt names is known to be vulnerable (pip-audit), and says what was asked.

python tools/audit_packages.py [constraints.txt …]

Fails on a known vulnerability. Where the service cannot be asked nothing is known: that is said, and is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

ASK = (
    sys.executable,
    "-m",
    "pip_audit",
    "--no-deps",
    "--disable-pip",
    "--format",
    "json",
    "--progress-spinner",
    "off",
)


def main(files: list[str]) -> int:
    return max(told(file) for file in files)


def told(file: str) -> int:
    done = subprocess.run([*ASK, "-r", file], capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(
            f"{file}: nothing is known, the audit did not run: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
        )
        return 0
    asked = [one for one in found if "skip_reason" not in one]
    vulnerable = [one for one in asked if one["vulns"]]
    for one in vulnerable:
        print(f"{file}: {said(one)}")
    if not asked:
        print(f"{file}: nothing is known, the service was not reached for any of {len(found)} distributions")
    else:
        print(
            f"{file}: {len(asked)} of {len(found)} distributions asked about, {len(vulnerable)} known to be vulnerable"
        )
    return int(bool(vulnerable))


def said(one: dict[str, Any]) -> str:
    ids = ", ".join(f"{v['id']} (mended in {', '.join(v['fix_versions']) or 'no version'})" for v in one["vulns"])
    return f"{one['name']} {one['version']}: {ids}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["constraints.txt", "constraints-editors.txt"]))
