"""Bytes of the ledger that change on the disk: broken pages are found before anything is read off them or spent,
changed rows when they are compared with the copy; the run goes back to that, and only what came after it is made
again."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.ledger import backup
from stillme.ledger.run import LEDGER
from tests.conftest import audit_data, dump_audit
from tests.faults.faulty import files, often, rows, stillme
from tests.faults.test_damaged_images import THIRD

SEED = 12


def page_of(ledger: Path, table: str) -> tuple[int, int]:
    """Where the first page of a table begins, and how long pages are."""
    with closing(sqlite3.connect(ledger)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return (root - 1) * size, size


def flip(ledger: Path, at: int, bits: int = 0xFF) -> None:
    content = bytearray(ledger.read_bytes())
    content[at] ^= bits
    ledger.write_bytes(content)


def break_a_page(ledger: Path) -> None:
    at, _ = page_of(ledger, "verdict")
    flip(ledger, at)


def clear_a_page(ledger: Path) -> None:
    at, size = page_of(ledger, "edit")
    content = bytearray(ledger.read_bytes())
    content[at : at + size] = bytes(size)
    ledger.write_bytes(content)


def change_a_word(ledger: Path) -> None:
    """What SQLite cannot see: one refusal becomes something that stillme never writes."""
    content = ledger.read_bytes()
    at = content.rindex(b"refused")
    ledger.write_bytes(content[:at] + b"R" + content[at + 1 :])


def cut_short(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[: ledger.stat().st_size // 2])


def lose_it(ledger: Path) -> None:
    ledger.unlink()


@pytest.fixture
def folder(audited: Path, tmp_path: Path) -> Path:
    """The audit's own run, where its file says; without the log, so that the ledger is one file."""
    for name in ("ledger.sqlite", "ledger.backup", "ledger.backup.sha256", "report.html"):
        (tmp_path / "run").mkdir(exist_ok=True)
        shutil.copy2(audited / "run" / name, tmp_path / "run" / name)
    shutil.copytree(audited / "run/objects", tmp_path / "run/objects")
    shutil.copy2(audited / "audit.yaml", tmp_path / "audit.yaml")
    return tmp_path


@pytest.mark.parametrize(
    "harm",
    [
        break_a_page,
        change_a_word,
        *(pytest.param(harm, marks=pytest.mark.slow) for harm in (clear_a_page, cut_short, lose_it)),
    ],
)
def test_damage_is_named_and_the_run_goes_back_to_its_copy(
    folder: Path, audited: Path, harm: Callable[[Path], None]
) -> None:
    run, audit = folder / "run", folder / "audit.yaml"
    harm(run / LEDGER)
    before = files(run)
    message = "that stillme did not write" if harm is change_a_word else "is damaged"
    for command in (("status", run), ("run", audit)):
        said = stillme(folder, *command).check(3).said
        assert message in said and f"with: stillme restore {run}" in said
    after = files(run)
    assert {name: after[name] for name in before if name != "lock"} == before, "nothing was changed"
    answer = stillme(folder, "restore", run).check().answer
    assert "24 edits" in answer and "48 verdicts" in answer
    assert rows(run) == rows(audited / "run")
    stillme(folder, "status", run, "--check").check()
    assert len(list(run.glob("ledger.damaged-*.sqlite"))) == (harm is not lose_it), "the damaged one is kept"
    assert "is whole, so nothing was changed" in stillme(folder, "restore", run).check(2).said


def test_a_row_that_only_the_copy_can_prove_wrong(folder: Path, audited: Path) -> None:
    """It is found when rows are compared: when somebody asks, and before it would get into the copy."""
    run = folder / "run"
    content = (run / LEDGER).read_bytes()
    at = content.rindex(b"simulated")
    (run / LEDGER).write_bytes(content[:at] + b"S" + content[at + 1 :])
    said = stillme(folder, "status", run, "--check").check(3).said
    assert "of verdict is not what it was" in said and f"with: stillme restore {run}" in said
    good = (run / "ledger.backup").read_bytes()
    dump_audit(folder / "audit.yaml", judges=[*audit_data()["judges"], THIRD])  # type: ignore[misc]
    assert "of verdict is not what it was" in stillme(folder, "run", folder / "audit.yaml").check(3).said
    assert (run / "ledger.backup").read_bytes() == good
    stillme(folder, "restore", run).check()
    assert rows(run) == rows(audited / "run")


@pytest.mark.slow
def test_only_what_came_after_the_copy_is_made_again(tmp_path: Path) -> None:
    audit, run = tmp_path / "audit.yaml", tmp_path / "run"
    dump_audit(audit, experiments={"diagnose": {"prompts": ["O-01", "V-02"]}})
    stillme(tmp_path, "run", audit).check()
    kept = {name: (run / name).read_bytes() for name in ("ledger.backup", "ledger.backup.sha256")}
    dump_audit(audit)
    stillme(tmp_path, "run", audit).check()
    whole, images = rows(run), files(run / "objects")
    for name, content in kept.items():
        (run / name).write_bytes(content)
    at, _ = page_of(run / LEDGER, "measurement")
    flip(run / LEDGER, at)
    answer = stillme(tmp_path, "restore", run).check().answer
    assert "16 edits, 32 verdicts" in answer.splitlines()[0]
    assert "8 edits, 16 verdicts" in answer.splitlines()[1], "what is lost is said before anything is spent"
    ahead = stillme(tmp_path, "check", audit).check().answer
    assert any(line.split()[:3] == ["edits", "16", "8"] for line in ahead.splitlines()), ahead
    stillme(tmp_path, "run", audit).check()
    assert rows(run) == whole and files(run / "objects") == images


@often(50, 2_000)
def test_a_flipped_byte_anywhere_is_found_or_changes_nothing(
    folder: Path, audited: Path, times: int, record_property: Callable[[str, object], None]
) -> None:
    ledger = folder / "run" / LEDGER
    whole, expected = ledger.read_bytes(), rows(audited / "run")
    chance = random.Random(SEED)
    found = harmless = 0
    for _ in range(times):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        ledger.write_bytes(content)
        try:
            backup.check(ledger, thorough=True, rows=True)
        except SetupError:
            found += 1
        else:
            assert rows(folder / "run") == expected
            harmless += 1
        for log in folder.glob("run/ledger.sqlite-*"):
            log.unlink()
    record_property("flipped bytes", f"{times} (seed {SEED}): {found} found, {harmless} harmless, 0 unseen")
    assert found > times / 4


def test_a_copy_of_a_damaged_ledger_never_takes_the_place_of_a_good_one(folder: Path) -> None:
    ledger = folder / "run" / LEDGER
    good = (folder / "run/ledger.backup").read_bytes()
    change_a_word(ledger)
    with pytest.raises(backup.DamagedError, match="is not what it was"):
        backup.back_up(ledger)
    assert (folder / "run/ledger.backup").read_bytes() == good
    assert list(folder.glob("run/.ledger*")) == []


def test_without_a_whole_copy_nothing_is_restored(folder: Path) -> None:
    run = folder / "run"
    break_a_page(run / LEDGER)
    flip(run / "ledger.backup", 5_000)
    before = files(run)
    assert "is damaged too" in stillme(folder, "restore", run).check(3).said
    assert {n: h for n, h in files(run).items() if n in before and n != "lock"} == before
    (run / "ledger.backup").unlink()
    assert "has no ledger.backup to go back to" in stillme(folder, "restore", run).check(2).said
