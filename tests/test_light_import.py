from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "cv2", "matplotlib", "polars", "scipy", "numpy", "PIL", "ray", "diffusers", "skimage")


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, stillme.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_whole_audit_loads_neither_torch_nor_cv2_nor_matplotlib(tmp_path: object) -> None:
    code = (
        "import sys; sys.argv = ['stillme', 'demo', sys.argv[1], '--small']\n"
        "from stillme.cli import main\n"
        "try: main()\n"
        "except SystemExit as left: assert not left.code, left\n"
        "print([name for name in ('torch', 'cv2', 'matplotlib', 'skimage') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"
