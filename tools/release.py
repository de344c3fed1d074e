"""Builds what is released, looks into it, and tries it as a stranger would. Publishes nothing.

    python tools/release.py [--to dist] [--python python3.12 ...] [--no-try] [--no-isolation]

The sdist is made from the tree and the wheel from the sdist, as whoever has only the sdist makes it. The wheel holds
every file of src/stillme that is under version control and nothing else, the sdist likewise of its folders. Then the
wheel is installed into an empty environment outside of the tree, first bare, then with its extra `vision`, and from
another folder `stillme demo --small`, `stillme bundle` and `stillme verify` are run. `--python`: with these instead of
this one. Exit code 1 where anything is not as it should be.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/stillme"
# What an installation cannot do without, and a build might forget because it is no code
NEEDED = (
    "stillme/py.typed",
    "stillme/protocol/files/*.yaml",
    "stillme/protocol/files/questionnaires/*.yaml",
    "stillme/cli/*.yaml",
    "stillme/cli/templates/*.yaml",
    "stillme/report/templates/*.css",
    "stillme/report/review/static/*.js",
    "stillme/study/server/static/*.js",
    "stillme/sources/selection/static/*.js",
    "stillme/report/browse/static/*.js",
    "stillme/sources/heads/files/*",
    "stillme/sources/looks/layers/index.json",
    "stillme/sources/looks/layers/*/*.webp",
    "stillme/measures/weights/*.onnx",
    "stillme/measures/weights/LICENSE-*.txt",
    "stillme-*.dist-info/licenses/LICENSE",
    "stillme-*.dist-info/licenses/LICENSES.md",
)
UNWANTED = ("tests/*.jpg", "tests/*.png", "demo/*", "runs/*", "bench/out/*", "*.sqlite")
ADDED = {
    "PKG-INFO",
    "pyproject.toml",
    ".gitignore",
    "README.md",
    "LICENSE",
}  # to an sdist, whatever the settings say
LARGEST = 30_000_000  # bytes of a wheel; package indexes take 100 MB, people on trains less


class WrongError(Exception):
    """Something is not as it should be; the sentence says what."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="where both files go")
    parser.add_argument(
        "--python", action="append", default=[], help="try with this Python; several times for several"
    )
    parser.add_argument(
        "--no-isolation", action="store_true", help="build with what is installed, fetching nothing"
    )
    parser.add_argument("--no-try", action="store_true", help="build and look into it, install nothing")
    given = parser.parse_args()
    try:
        sdist, wheel = build(given.to, isolated=not given.no_isolation)
        check_wheel(wheel)
        check_sdist(sdist)
        for python in [] if given.no_try else given.python or [sys.executable]:
            attempt(wheel, python)
    except WrongError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def build(folder: Path, isolated: bool = True) -> tuple[Path, Path]:
    """The sdist of the tree, and the wheel that is made from it."""
    with tempfile.TemporaryDirectory() as name:
        alone = [] if isolated else ["--no-isolation"]
        call([sys.executable, "-m", "build", *alone, "--outdir", name, str(ROOT)], ROOT)
        folder.mkdir(parents=True, exist_ok=True)
        made = [path.replace(folder / path.name) for path in (only(name, "*.tar.gz"), only(name, "*.whl"))]
    for path in made:
        print(f"Built {path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return made[0], made[1]


def only(folder: str, pattern: str) -> Path:
    found = list(Path(folder).glob(pattern))
    if len(found) != 1:
        raise WrongError(f"{pattern}: one file was to be made, there are {len(found)}.")
    return found[0]


# What is in them


def check_wheel(wheel: Path, new: bool = False) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    code = {name for name in names if ".dist-info/" not in name}
    compare("wheel", code, {path.removeprefix("src/") for path in tracked(PACKAGE, new)})
    if lacking := [pattern for pattern in NEEDED if not fnmatch.filter(names, pattern)]:
        raise WrongError(f"The wheel has nothing named {', '.join(lacking)}.")
    if wheel.stat().st_size > LARGEST:
        raise WrongError(f"The wheel has {wheel.stat().st_size:,} bytes, more than {LARGEST:,}.")
    print(f"The wheel has {len(code):,} files, all under version control, none forgotten")


def check_sdist(sdist: Path, new: bool = False) -> None:
    with tarfile.open(sdist) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    compare("sdist", names - ADDED, kept(wanted, new))
    if unwanted := [name for pattern in UNWANTED for name in fnmatch.filter(names, pattern)]:
        raise WrongError(f"The sdist has what nobody needs: {', '.join(unwanted[:5])}.")
    print(f"The sdist has {len(names):,} files, all under version control, none forgotten")


def kept(wanted: Iterable[str], new: bool = False) -> set[str]:
    """The files under version control that the settings name: whole folders, and files beside them."""
    here = [name for name in tracked(".", new) if "/" in name or name not in ADDED]
    return {
        n for n in here for one in wanted if n.startswith(f"{one}/") or ("/" not in n and fnmatch.fnmatch(n, one))
    }


def tracked(folder: str, new: bool = False) -> list[str]:
    """`new`: also what would be, were everything committed."""
    others = ["--cached", "--others", "--exclude-standard"] if new else []
    listed = subprocess.run(["git", "ls-files", "-z", *others, folder], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode or not listed.stdout:
        raise WrongError("This is no clone: what belongs into a release is what is under version control.")
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]


def compare(what: str, found: set[str], wanted: set[str]) -> None:
    said = {"has what is not under version control": found - wanted, "lacks": wanted - found}
    if wrong := [f"{words}: {', '.join(sorted(names)[:5])}" for words, names in said.items() if names]:
        raise WrongError(f"The {what} {'; it '.join(wrong)}.")


# Does it work elsewhere?


def attempt(wheel: Path, python: str) -> None:
    """From nothing to a verified report, in a folder that knows nothing of this tree."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call([python, "-m", "venv", str(folder / "venv")], folder)
        own = folder / "venv" / "bin"
        version = call(
            [str(own / "python"), "-c", "import platform; print(platform.python_version())"], folder
        ).strip()
        print(f"Python {version}")
        started = time.monotonic()
        install(own, str(wheel), folder)
        print(f"  installed, bare, in {time.monotonic() - started:.0f} s")
        check_place(own, folder)
        for step in steps(own, wheel, folder):
            print(f"  {step}")


def steps(own: Path, wheel: Path, folder: Path) -> Iterator[str]:
    away = folder / "elsewhere"
    away.mkdir()
    yield f"the demo, small, without measures, in {demo(own, away / 'bare'):.0f} s"
    install(own, f"{wheel}[vision]", folder)
    yield f"the demo, small, with them, in {demo(own, away / 'vision'):.0f} s"
    stillme, run = str(own / "stillme"), "vision/small"
    call([stillme, "bundle", run], away)
    said = call([stillme, "verify", f"{run}/evidence.zip"], away).strip().splitlines()
    yield f"`stillme verify`: {said[-1]}"


def demo(own: Path, folder: Path) -> float:
    """Seconds of a whole small audit, with its report."""
    started = time.monotonic()
    said = call([str(own / "stillme"), "demo", "--small", folder.name], folder.parent)
    if not (folder / "small/report/browse/index.html").is_file():
        raise WrongError(f"`stillme demo --small` wrote no whole report. It said:\n{said}")
    return time.monotonic() - started


def install(own: Path, what: str, folder: Path) -> None:
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--constraint"]
    call([str(own / "python"), "-m", "pip", *words, str(ROOT / "constraints.txt"), what], folder)


def check_place(own: Path, folder: Path) -> None:
    """That it is the wheel's code that runs, and that it says the wheel's version."""
    code = "import importlib.metadata, stillme; print(stillme.__file__); print(stillme.__version__ == importlib.metadata.version('stillme'))"
    place, agrees = call([str(own / "python"), "-c", code], folder).split()
    if not Path(place).resolve().is_relative_to(folder.resolve()) or agrees != "True":
        raise WrongError(
            f"What runs is {place}, and its version is {'' if agrees == 'True' else 'not '}the wheel's."
        )


def call(words: list[str], folder: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        told = "\n".join([done.stdout, done.stderr]).strip()[-2000:]
        raise WrongError(f"`{' '.join([Path(words[0]).name, *words[1:]])}` ended with {done.returncode}:\n{told}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
