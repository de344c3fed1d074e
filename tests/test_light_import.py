from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "cv2", "matplotlib", "polars", "scipy", "numpy", "PIL", "ray", "diffusers", "skimage")


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, stillme.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
