"""A bundle of the small run that tests share, and the tools of somebody who forges it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stillme.analysis.tables import whole
from stillme.assurance.evidence import bundle, contents, manifest

COMPUTED = ("what there is", "how often")  # the parts of the analysis that are computed here


@contextmanager
def quickly() -> Iterator[None]:
    """Without most of the analysis and the figures' files: what takes longest changes nothing in how this works."""
    with pytest.MonkeyPatch.context() as patch:
        kept = tuple(part for part in whole.PARTS if part[0] in COMPUTED)
        assert len(kept) == len(COMPUTED)
        patch.setattr(whole, "PARTS", kept)
        patch.setattr(contents, "PARTS", ("html", "tables", "cards"))
        yield


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Test by test: other tests of the same process analyse everything."""
    with quickly():
        yield


@pytest.fixture(scope="session")
def packed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle; tests only read it."""
    with quickly():
        return bundle(finished / "run", tmp_path_factory.mktemp("bundle") / "evidence.zip").path


@pytest.fixture
def unpacked(packed: Path, tmp_path: Path) -> Path:
    """The bundle as a folder of one's own."""
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    return folder


def reseal(folder: Path) -> None:
    """What a forger does last: a manifest whose hashes are right again."""
    about = json.loads((folder / manifest.FILE).read_text(encoding="utf-8"))
    (folder / manifest.FILE).unlink()
    kept = {name: about[name] for name in about if name not in ("bundle", "files", "sha256")}
    manifest.write_manifest(folder, kept)


def repacked(folder: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())
    return target


def change(folder: Path, table: str, sql: str, values: tuple[object, ...] = ()) -> None:
    """Changes rows of the ledger past the triggers that forbid it, and puts the triggers back."""
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as connection:
        rows = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type='trigger' AND tbl_name=?", (table,)
        )
        triggers = rows.fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(sql, values).rowcount == 1
        for _, made in triggers:
            connection.execute(made)


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        return connection.execute(sql).fetchall()


Edit = Callable[[str], str]


def rewrite(path: Path, edit: Edit) -> None:
    before = path.read_text(encoding="utf-8")
    after = edit(before)
    assert after != before
    path.write_text(after, encoding="utf-8")


def copied(folder: Path, target: Path) -> Path:
    return Path(shutil.copytree(folder, target))
