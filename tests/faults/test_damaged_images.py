"""Images that are cut short, swapped or gone: never judged as if whole, named, and put back where that can be."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stillme.ledger.run import LEDGER
from tests.conftest import audit_data, dump_audit
from tests.faults.faulty import rows, stillme

THIRD = {"id": "c", "kind": "planted", "role": "secondary", "settings": {"noise": 0.1, "draw": 3}}


@pytest.fixture
def folder(audited: Path, tmp_path: Path) -> Path:
    shutil.copytree(audited, tmp_path / "copy")
    return tmp_path / "copy"


def images(folder: Path, table: str) -> list[Path]:
    """The files of the edits, or of the portraits."""
    with closing(sqlite3.connect(folder / "run" / LEDGER)) as connection:
        found = connection.execute(
            f"SELECT sha256, format FROM object JOIN {table} ON sha256 = image ORDER BY sha256"
        )
        return [folder / f"run/objects/{name[:2]}/{name}.{ending}" for name, ending in found]


def cut(some: list[Path]) -> list[Path]:
    some[0].write_bytes(some[0].read_bytes()[:100])
    return some[:1]


def swap(some: list[Path]) -> list[Path]:
    one, other = some[:2]
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return [one, other]


def lose(some: list[Path]) -> list[Path]:
    some[0].unlink()
    return some[:1]


def ask_one_more_judge(folder: Path) -> None:
    dump_audit(folder / "audit.yaml", judges=[*audit_data()["judges"], THIRD])  # type: ignore[misc]


@pytest.mark.parametrize("harm", [cut, *(pytest.param(harm, marks=pytest.mark.slow) for harm in (swap, lose))])
def test_an_edit_that_is_not_whole_is_named_and_never_judged(
    folder: Path, harm: Callable[[list[Path]], list[Path]], record_property: Callable[[str, object], None]
) -> None:
    every = images(folder, "edit")
    copies = {path: path.read_bytes() for path in every}
    harmed = harm(every)
    said = stillme(folder, "status", folder / "run", "--check").check(3).said
    assert all(str(path) in said for path in harmed) and f"{len(harmed)} of the run's images" in said
    ask_one_more_judge(folder)
    ended = stillme(folder, "run", folder / "audit.yaml").check(3)
    assert any(str(path) in ended.said for path in harmed) and "copy of your own" in ended.said
    names = {path.stem for path in harmed}
    with closing(sqlite3.connect(folder / "run" / LEDGER)) as connection:
        judged = connection.execute(
            "SELECT image FROM verdict JOIN edit ON edit.key = verdict.edit WHERE judge = 'c'"
        ).fetchall()
    assert not names & {name for (name,) in judged}
    for path in harmed:
        path.write_bytes(copies[path])
    stillme(folder, "run", folder / "audit.yaml").check()
    assert len(rows(folder / "run", ("verdict",))["verdict"]) == 72
    record_property(f"images: {harm.__name__}", f"{len(harmed)} harmed, {len(harmed)} named, 0 judged")


def test_a_portrait_that_is_gone_is_put_back_from_its_source(folder: Path) -> None:
    portrait = images(folder, "portrait")[0]
    content = portrait.read_bytes()
    portrait.unlink()
    ask_one_more_judge(folder)
    stillme(folder, "run", folder / "audit.yaml").check()
    assert portrait.read_bytes() == content
