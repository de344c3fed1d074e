"""SIGKILL while something is written for people: what was there is still there, whole, or the new one is; a second
try gives what an undisturbed one gives, and nothing that was begun stays behind."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.faulty import files, killed, moments, parts, stillme

SEED = 11
WORDS: dict[str, tuple[str, ...]] = {
    "report": ("--only", "html", "--only", "tables", "--only", "cards"),
    "bundle": (),
    "export": (),
    "analyse": (),
}
TIMES = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00")


def whole(run: Path, command: str) -> bool:
    """Whether what a command writes can be read to its end."""
    if command == "report":
        page = (run / "report.html").read_text(encoding="utf-8")
        return "<!-- stillme-state" in page and "</html>" in page
    if command == "bundle":
        with zipfile.ZipFile(run / "evidence.zip") as packed:
            return packed.testzip() is None and "MANIFEST.json" in packed.namelist()
    return True  # written file by file: see below


def written(run: Path, command: str) -> dict[str, str]:
    if command == "bundle":
        return {"evidence.zip": files(run)["evidence.zip"]}
    folder = {"report": "report", "export": "tables", "analyse": "analysis"}[command]
    return files(run / folder)


def found(run: Path, command: str) -> dict[str, str]:
    """What whoever looks after a kill finds: of a folder that is swapped whole, perhaps under its old name."""
    if command == "report" and not (run / "report").exists():
        return files(run / ".report.old")
    return written(run, command)


LONG = ("bundle", "analyse")  # they take longest


@pytest.mark.parametrize(
    ("command", "times"),
    [
        *((command, 1) for command in WORDS if command not in LONG),
        *(pytest.param(command, 10, marks=pytest.mark.slow) for command in WORDS),
    ],
)
def test_killed_while_writing(
    audited: Path, tmp_path: Path, command: str, times: int, record_property: Callable[[str, object], None]
) -> None:
    run, aside = tmp_path / "run", tmp_path / "aside"
    aside.mkdir()
    shutil.copytree(audited / "run", run)
    words: list[str | Path] = [command, run, *WORDS[command]]
    points = moments(run, aside, words, times, SEED)
    before, page = written(run, command), (run / "report.html").read_text(encoding="utf-8")
    deaths = 0
    for moment in points:
        deaths += killed(aside, run, moment, *words).code != 0
        after = found(run, command)
        assert whole(run, command)
        if command in ("report", "bundle"):
            assert after == before, "the old one or the new one: they are the same"
        else:
            assert {name: before[name] for name in after if name in before} == {
                name: value for name, value in after.items() if name in before
            }, "every file that is there is whole"
    stillme(aside, *words).check()
    assert written(run, command) == before
    assert TIMES.sub("", (run / "report.html").read_text(encoding="utf-8")) == TIMES.sub("", page)
    assert parts(run) == []
    record_property(f"{command} killed", f"{deaths} times of {len(points)} moments (seed {SEED}), 0 halves")
