"""The benches' runner and its page: on benches that are made up, and on the cheapest real one, small."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from bench import __main__ as runner
from bench import figures, machine, page
from bench.__main__ import Bench
from bench.figures import Found, Row, cost, plain, rate
from bench.page import Kept

ROOT = Path(__file__).parents[1]
FAKE = """
import sys
from pathlib import Path
from bench import figures
figures.OUT = Path(sys.argv[1])
rows = [figures.rate("songs", float(sys.argv[2]), "a second", "a canary", 4.0).at_least(10)]
figures.write("fake", rows, "How quickly it sings.", ["whether anybody listens."], {"canary": "1.0"})
sys.exit(1)
"""
FALLS = 'import sys\nsys.exit("ModuleNotFoundError: /opt/secret/place/file.py: see http://10.1.2.3:81/simple")\n'


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the runner keeps everything, and modules that it can run."""
    for name, code in {"fake_bench": FAKE, "fallen_bench": FALLS}.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr(runner, "OUT", tmp_path)
    monkeypatch.setattr(runner, "KEPT", tmp_path / "results.json")
    monkeypatch.setattr(runner, "PAGE", tmp_path / "RESULTS.md")
    return tmp_path


def fake(folder: Path, speed: str, module: str = "fake_bench") -> dict[str, Bench]:
    return {"fake": Bench(module, (str(folder), speed)), "other": Bench("fake_bench", needs=folder / "nothing")}


def test_a_bench_is_run_and_stands_on_the_page_with_its_target_missed(
    benches: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["--only", "fake"], fake(benches, "8")) == 0, "a missed target is no failure of the runner"
    text = runner.PAGE.read_text(encoding="utf-8")
    assert "1 were set: 0 met, 1 not met, 0 not measured." in text
    assert "| fake | songs | at least 10 a second | 2 | 8 a second | 4 a second (a canary) | **not met** |" in text
    assert "- Does not show: whether anybody listens." in text and "canary 1.0" in text
    assert "## bench.other\n\nIt has not been run." in text
    assert "Written: bench/RESULTS.md" in capfd.readouterr().out


def test_a_bench_that_cannot_run_keeps_its_older_figures_and_says_why(
    benches: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["--only", "fake"], fake(benches, "12")) == 0
    assert runner.main([], fake(benches, "12", "fallen_bench")) == 1
    text = runner.PAGE.read_text(encoding="utf-8")
    assert "| songs | 3 | 12 a second |" in text, "what was measured before stays"
    said = re.search(r"\*\*Older figures\*\*: on \d{4}-\d\d-\d\d it could not be run: (.*)", text)
    assert said and said[1] == "it ended with 1: ModuleNotFoundError: a file: see an address"
    assert "other could not be run: there is no" in capfd.readouterr().err
    assert runner.main(["--only", "fake"], fake(benches, "13")) == 0
    assert "Older figures" not in runner.PAGE.read_text(encoding="utf-8")


def test_a_quick_run_of_the_cheapest_bench_changes_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "KEPT", tmp_path / "results.json")
    monkeypatch.setattr(runner, "PAGE", tmp_path / "RESULTS.md")
    assert runner.main(["--quick", "--only", "ledger"]) == 0
    assert "bench.ledger: runs; 5 figures, which mean nothing" in capfd.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_bench_is_said_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        runner.main(["--only", "ledgers"])
    assert (
        left.value.code == 2 and "there is no bench ledgers; there are ledger, sources" in capsys.readouterr().err
    )


def test_the_page_in_the_tree_is_made_of_what_is_kept() -> None:
    kept = runner.read()
    assert runner.PAGE.read_text(encoding="utf-8") == page.results(kept, list(runner.BENCHES)), (
        "run: python -m bench"
    )
    assert set(kept) == set(runner.BENCHES)
    for one in kept.values():
        assert one.found.shows and one.found.does_not_show


def test_no_page_names_a_machine_or_a_folder_of_it() -> None:
    text = runner.PAGE.read_text(encoding="utf-8") + runner.KEPT.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|work|opt|usr)/|https?://|\d+\.\d+\.\d+\.\d+:\d", text)


def test_every_bench_is_run_by_the_runner_and_told_on_the_page() -> None:
    parts = {"editors_local", "editors_remote"}  # run through editors_overhead, or by themselves
    modules = {path.stem for path in (ROOT / "bench").glob("*.py") if "figures.write(" in path.read_text("utf-8")}
    modules |= {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    ran = {bench.module.removeprefix("bench.") for bench in runner.BENCHES.values()} | set(runner.BENCHES)
    assert modules <= ran and parts <= ran
    told = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    assert all(f"`python -m {bench.module}`" in told or name in parts for name, bench in runner.BENCHES.items())


def test_what_tests_hold_is_held_by_tests_that_are_there() -> None:
    assert [test for _, test in page.HELD if not (ROOT / test).is_file()] == []


def test_ratios_say_how_many_times_better() -> None:
    assert rate("x", 8, "a second", "peer", 4).ratio == cost("x", 4, "s", "peer", 8).ratio == 2
    assert rate("x", 8, "a second").ratio is None and rate("x", 8, "a second", "peer", 0).ratio is None
    assert rate("x", 8, "a second", "peer", 4).times(2).met is True
    assert rate("x", 8, "a second").times(2).met is None, "without a peer nobody knows"
    assert cost("x", 8, "s").at_most(7).met is False and cost("x", 8, "s").below(8).met is False
    assert Row("x", None).at_least(3).met is None


def test_numbers_keep_the_digits_that_mean_something() -> None:
    assert [plain(value) for value in (0, 11_312.4, 0.0361, 1.0067, 3.0, 43.44)] == [
        "0", "11,312", "0.0361", "1.007", "3", "43.4"
    ]  # fmt: skip


def test_figures_come_back_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "OUT", tmp_path / "out")
    path = figures.write("x", [rate("a", 1, "s").at_least(1)], "shows", ["not that"], {"peer": "2"}, ["note"])
    found = Found.read(json.loads(path.read_text(encoding="utf-8")))
    kept = Kept(found, machine.described(), 0.5)
    assert Kept.read(json.loads(json.dumps(kept.plain()))) == kept
    assert kept.machine["Python"].endswith(sys.version.split()[0]) and int(kept.machine["cores"]) > 0


def test_pins_are_read_as_versions(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("# peers\nopenai==3.49.0\nhttpx==1.0  # why\n", encoding="utf-8")
    assert figures.pinned(tmp_path / "pins.txt", only=("openai",)) == {"openai": "3.49.0"}
