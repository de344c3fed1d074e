"""The demo, small: the same path as `make demo`, from a bare folder to a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stillme.analysis.frames import tidy
from stillme.ledger import Run
from stillme.plan.design import load_design

pytestmark = pytest.mark.slow
HEAVY = ("torch", "cv2", "skimage")
TELLING = f"""
import sys
from pathlib import Path
from stillme.cli.main import main
told = Path(sys.argv.pop(1))
try:
    main()
finally:
    told.write_text(" ".join(name for name in {HEAVY!r} if name in sys.modules))
"""


def stillme(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "stillme", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    words = [sys.executable, "-c", TELLING, str(folder / "loaded"), "demo", str(folder), "--small"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_its_last_line_is_the_path_of_the_report(demo: tuple[Path, str]) -> None:
    folder, out = demo
    assert out.splitlines()[-1] == f"Report: {folder / 'small/report.html'}"
    assert (folder / "small/report.html").stat().st_size < 5_000_000


def test_output_fits_100_columns(demo: tuple[Path, str]) -> None:
    assert max(len(line) for line in demo[1].splitlines()[:-1]) <= 100


def test_a_whole_audit_loads_neither_torch_nor_cv2(demo: tuple[Path, str]) -> None:
    assert (demo[0] / "loaded").read_text(encoding="utf-8") == ""


def test_the_whole_report_is_written(demo: tuple[Path, str]) -> None:
    parts = {path.name for path in (demo[0] / "small/report").iterdir() if path.is_dir()}
    assert parts == {"tables", "figures", "browse", "pictures", "cards"}


def test_the_report_says_plainly_that_everything_is_simulated(demo: tuple[Path, str]) -> None:
    text = (demo[0] / "small/report.html").read_text(encoding="utf-8")
    assert "placeholders" in text and "inputs, not findings" in text
    assert text.count("simulated") > 10


def test_again_there_is_nothing_to_do_and_a_browser_opens_where_asked(
    demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = demo[0] / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {demo[0]}/opened\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    again = stillme("demo", str(demo[0]), "--small")
    assert again.returncode == 0 and again.stdout.count("nothing to do") == 5
    assert not (demo[0] / "opened").exists(), "nobody asked"
    again = stillme("demo", str(demo[0]), "--small", "--open")
    assert again.returncode == 0 and again.stdout.splitlines()[-1].endswith("small/report.html")
    assert (demo[0] / "opened").read_text(encoding="utf-8").strip() == (demo[0] / "small/report.html").as_uri()


def test_every_edit_has_an_outcome(demo: tuple[Path, str]) -> None:
    found = json.loads(stillme("status", str(demo[0] / "small"), "--json").stdout)
    assert found["trials"] == 9 * 4 * 3
    assert sum(found["edits"].values()) == found["trials"] + found["controls"]
    assert found["edits_missing"] == found["verdicts_missing"] == found["measurements_missing"] == 0


def test_the_instrument_reads_back_what_was_planted(demo: tuple[Path, str]) -> None:
    """The editor that lightens everybody when asked nothing is seen to; the others are not."""
    with Run.open_readonly(demo[0] / "small") as seen:
        measured = tidy(seen, load_design(seen)).measured
    assert measured is not None
    controls = measured.filter(pl.col("prompt") == "no_op")
    shifts = dict(controls.group_by("editor").agg(pl.col("lightness_change").mean()).iter_rows())
    assert shifts.pop("lightens") > 1.5
    assert max(map(abs, shifts.values())) < 0.2
