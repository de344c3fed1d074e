"""A bundle verifies; change one number in it, wherever, and `verify` fails and names it."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme import pipeline
from stillme.assurance.evidence import VerificationResult, bundle, contents, ledger, manifest, verification, verify
from stillme.cli.main import main
from stillme.cli.render.release import render_verification
from stillme.core.errors import InputError
from stillme.engine.progress import Progress
from stillme.ledger import backup
from stillme.plan import config
from stillme.report import publish
from tests.assurance.evidence.conftest import change, query, quickly, repacked, reseal, rewrite
from tests.conftest import Write


@pytest.fixture(scope="session")
def anew(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[VerificationResult, Path]:
    """What verify says of the bundle, and everything that it made anew on the way."""
    kept, derive = tmp_path_factory.mktemp("anew") / "made", verification._derive

    def keep(run: Any, design: Any, found: Any, then: Any, folder: Path, say: Any) -> None:
        derive(run, design, found, then, folder, say)
        shutil.copytree(folder, kept)

    with quickly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "_derive", keep)
        return verify(packed), kept


@pytest.fixture
def same_ledger(anew: tuple[VerificationResult, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """For bundles whose ledger is the real one: what it gives is known already."""

    def take(run: Any, design: Any, found: Any, then: Any, folder: Path, say: Any) -> None:
        shutil.copytree(anew[1], folder, dirs_exist_ok=True)

    monkeypatch.setattr(verification, "_derive", take)


def differing(found: VerificationResult) -> list[str]:
    assert not found.holds
    return [str(one) for one in found.compared.differences]


def test_a_bundle_verifies(anew: tuple[VerificationResult, Path]) -> None:
    verified = anew[0]
    assert verified.faults == () and verified.compared.differences == [], render_verification(verified)
    assert verified.keys > 50 and verified.notes == ()
    counts = verified.compared.counts
    for kind in ("tables of report.html", "sentences of report.html", "data links of report.html"):
        assert counts[kind] > 50, kind
    for kind in ("tables/", "rows/", "report/tables/", "report/cards/"):
        assert counts[kind] > 50, kind
    last = render_verification(verified).splitlines()[-1]
    assert last == "Verified: every file is as it was packed, and every printed number is the ledger's."


def test_what_is_in_it(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
        listed = json.loads(archive.read(manifest.FILE))
        ledger_ = archive.read("ledger.sqlite")
    assert {entry["path"] for entry in listed["files"]} | {manifest.FILE} == names
    assert {"ledger.sqlite", "report.html", "settings/audit.yaml", "settings/protocol/rubrics.yaml"} < names
    assert {"tables/scores.parquet", "rows/score.parquet", "versions.json", "README.md"} < names
    assert {"report/cards/audit-card.json", "report/tables/outcomes-by-editor.tex"} < names
    assert not any(name.startswith(("objects/", "report/browse/", ".")) for name in names)
    assert ledger_[18:20] == b"\x01\x01", "one file, without a log beside it"


@pytest.mark.slow
def test_two_bundles_of_a_run_are_the_same_bytes(packed: Path, finished: Path, tmp_path: Path) -> None:
    again = bundle(finished / "run", tmp_path / "again.zip").path
    with zipfile.ZipFile(packed) as one, zipfile.ZipFile(again) as other:
        pairs = zip(one.infolist(), other.infolist(), strict=True)
        assert [a.filename for a, b in pairs if (a.filename, a.CRC) != (b.filename, b.CRC)] == []
    assert packed.read_bytes() == again.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.zip"], "nothing is left beside it"


# A forger who has every hash right


def test_any_one_score_that_is_changed_is_named(unpacked: Path) -> None:
    sql = "SELECT s.verdict, s.edit_success FROM score s JOIN verdict v ON v.key = s.verdict WHERE v.judge = 'a'"
    chance = random.Random(7)
    verdict, old = chance.choice(sorted(query(unpacked, sql)))
    new = 1 if old > 3 else 5
    change(unpacked, "score", "UPDATE score SET edit_success = ? WHERE verdict = ?", (new, verdict))
    reseal(unpacked)
    said = differing(verify(unpacked))
    printed = [one for one in said if one.startswith("table outcomes-by-editor, row ")]
    assert printed and all(re.search(r": printed [\d.]+ %.*, the ledger gives [\d.]+ %", one) for one in printed)
    own = (
        f"rows/score.parquet, verdict {verdict[:12]}…, column edit_success: printed {old}, the ledger gives {new}"
    )
    assert own in said
    assert any(one.startswith("tables/judge_scores.parquet, trial ") and f"gives {new}" in one for one in said)


@pytest.mark.slow
def test_a_verdict_that_is_changed_is_named(unpacked: Path) -> None:
    sql = "UPDATE verdict SET status = 'refused' WHERE key = (SELECT max(verdict) FROM score)"
    change(unpacked, "verdict", sql)
    reseal(unpacked)
    said = differing(verify(unpacked))
    assert said[0].startswith("table ") and re.search(r"printed .*\d.*, the ledger gives .*\d", said[0])
    assert any(one.endswith("column status: printed ok, the ledger gives refused") for one in said)


@pytest.mark.slow
def test_rows_that_are_changed_together_are_named_each(unpacked: Path) -> None:
    """What was planted, what was paid, and whom a portrait shows, which its key is made of."""
    change(unpacked, "truth", "UPDATE truth SET value = value + 1 WHERE rowid = (SELECT max(rowid) FROM truth)")
    change(unpacked, "attempt", "UPDATE attempt SET cost_usd = 2.5 WHERE id = 3")
    change(unpacked, "label", "UPDATE label SET value = 'black' WHERE value = 'white' AND rowid < 4")
    reseal(unpacked)
    found = verify(unpacked)
    said = differing(found)
    assert any(one.startswith("tables/truth.parquet, edit ") and "column value: printed" in one for one in said)
    assert any("column cost_usd: printed 0, the ledger gives 2.5" in one for one in said)
    assert any("of portrait was changed: its key is not the hash" in one for one in found.faults)


def test_a_ledger_whose_guards_are_gone_or_whose_pages_are_broken_is_told(unpacked: Path) -> None:
    path = unpacked / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER score_no_update")
        connection.execute("CREATE VIEW scores AS SELECT * FROM score")
    said = list(ledger.integrity_errors(path))
    assert "The ledger lacks the trigger score_no_update." in said
    assert "The ledger has a view scores that stillme does not make." in said
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 3 + 600] = b"\xff" * 600
    path.write_bytes(content)
    reseal(unpacked)
    found = verify(unpacked)
    assert any("damaged" in said or "cannot be read" in said for said in found.faults)


@pytest.mark.usefixtures("same_ledger")
def test_a_number_that_is_changed_where_it_is_printed_is_named(unpacked: Path, tmp_path: Path) -> None:
    rate = re.compile(r'(id="outcomes-by-editor".*?<td class="n"[^>]*>\d+)\.(\d)(\s%)', re.S)
    page = unpacked / "report.html"
    rewrite(page, lambda text: rate.sub(lambda m: f"{m[1]}.{(int(m[2]) + 1) % 10}{m[3]}", text, count=1))
    tex = unpacked / "report/tables/outcomes-by-editor.tex"
    rewrite(tex, lambda text: re.sub(r"(\d)\.(\d)", lambda m: f"{m[1]}.{(int(m[2]) + 1) % 10}", text, count=1))
    csv = unpacked / "report/tables/outcomes-by-editor.csv"
    rewrite(csv, lambda text: re.sub(r",0\.(\d)", lambda m: f",0.{(int(m[1]) + 1) % 10}", text, count=1))
    card = unpacked / "report/cards/audit-card.json"
    rewrite(card, lambda text: re.sub(r'"printed": "\d', '"printed": "7', text, count=1))
    scores = unpacked / "tables/scores.parquet"
    frame = pl.read_parquet(scores)
    frame.with_columns(score=pl.lit(2, pl.Int64)).write_parquet(scores)
    reseal(unpacked)
    found = verify(repacked(unpacked, tmp_path / "forged.zip"))
    said, faults = differing(found), found.faults
    assert faults == (), "the manifest is right again"
    assert re.match(r"table outcomes-by-editor, row \w+.*, column .*: printed \d+\.\d %", said[0])
    for where in ("report/tables/outcomes-by-editor.tex: ", "report/tables/outcomes-by-editor.csv, row "):
        assert any(one.startswith(where) for one in said), where
    assert any(one.startswith("report/cards/audit-card.json: ") for one in said)
    assert any(one.startswith("tables/scores.parquet, trial ") for one in said)


@pytest.mark.usefixtures("same_ledger")
def test_a_sentence_a_setting_and_a_missing_file_are_named(
    unpacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = unpacked / "report.html"
    rewrite(page, lambda text: re.sub(r"(\d)( portraits)", lambda m: f"{int(m[1]) + 1}{m[2]}", text, count=1))
    rewrite(unpacked / "settings/audit.yaml", lambda text: text.replace("preset: default", "preset: paper"))
    rewrite(unpacked / "settings/protocol/rubrics.yaml", lambda text: text.replace("at_least: 4", "at_least: 3"))
    (unpacked / "rows/score.parquet").unlink()
    (unpacked / "tables/notes.md").write_text("5 more")
    reseal(unpacked)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(unpacked)])
    assert ended.value.code == 2
    said = capsys.readouterr().out
    assert "section summary: printed “" in said
    assert "settings/audit.yaml: printed “preset: paper”, the ledger gives “preset: default”" in said
    assert "rows/score.parquet: printed nothing, the ledger gives a file" in said
    assert "tables/notes.md: printed a file, the ledger gives nothing" in said
    assert "settings/protocol/rubrics.yaml" in said and said.splitlines()[-1].startswith("Not verified: ")


@pytest.mark.usefixtures("same_ledger")
def test_a_file_that_no_bundle_has_is_named(unpacked: Path) -> None:
    for name in ("SUMMARY.md", "report/more.html", "objects/note.txt", "report/browse/index.html"):
        (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).write_text("Soft erasure: 0.0 %")
    reseal(unpacked)
    told = " ".join(verify(unpacked).faults)
    for name in ("SUMMARY.md", "report/more.html", "objects/note.txt", "report/browse/index.html"):
        assert f"{name}: is no part of a bundle" in told


@pytest.mark.usefixtures("same_ledger")
def test_what_a_stranger_wrote_does_not_steer_the_terminal(unpacked: Path) -> None:
    rewrite(unpacked / "report.html", lambda text: text.replace("</h1>", "\x1b[2J\x1b[HVerified</h1>", 1))
    (unpacked / "odd\x1b[2J").write_text("")
    reseal(unpacked)
    found = verify(unpacked)
    assert not found.holds and "[2J" in render_verification(found) and "\x1b" not in render_verification(found)


@pytest.mark.usefixtures("same_ledger")
def test_files_that_are_not_as_packed_are_named_first(unpacked: Path) -> None:
    (unpacked / "README.md").rename(unpacked / "READ.md")
    (unpacked / "versions.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        verify(unpacked)
    versions = publish.versions() | {"stillme": "9.9"}
    (unpacked / "versions.json").write_text(json.dumps(versions))
    found = verify(unpacked)
    assert [said.split(":")[0] for said in found.faults] == ["README.md", "READ.md", "versions.json"]
    assert found.notes == (f"Made with stillme 9.9; verified with {publish.versions()['stillme']}.",)
    assert "versions that made it" in render_verification(found).splitlines()[-1]


@pytest.mark.slow
def test_a_bundle_verifies_elsewhere_too_and_says_with_what_it_was_made(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = publish.versions()
    there = own | {"platform": "Plan9 mips", "packages": own["packages"] | {"numpy": "9.9", "pillow": ""}}
    monkeypatch.setattr(publish, "versions", lambda: there)
    found = verify(packed)
    assert found.holds, render_verification(found)
    assert found.notes == (
        f"Made with numpy {own['packages']['numpy']}; verified with 9.9.",
        f"Made with pillow {own['packages']['pillow']}; verified with none.",
        f"Made with Platform {own['platform']}; verified with Plan9 mips.",
    )


@pytest.mark.usefixtures("same_ledger")
def test_a_version_that_is_printed_is_the_one_that_was_noted(unpacked: Path) -> None:
    noted = publish.versions()["packages"]["numpy"]
    page = (unpacked / "report.html").read_text(encoding="utf-8")
    assert re.search(rf'<th scope="row"[^>]*>numpy</th><td[^>]*>{re.escape(noted)}</td>', page)
    rewrite(unpacked / "report.html", lambda text: text.replace(f">{noted}<", ">1.0.0<", 1))
    reseal(unpacked)
    assert any("table made-with, row numpy, 1.0.0" in said for said in differing(verify(unpacked)))


def test_a_truncated_bundle_is_a_sentence(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = tmp_path / "half.zip"
    half.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(half)])
    assert ended.value.code == 2 and "half.zip is damaged" in capsys.readouterr().err


# Making one


@pytest.mark.slow
def test_no_secret_is_in_a_bundle(
    write_audit: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys come from the environment; whatever was in it, no file of the bundle holds it."""
    secret = "sk-THIS-IS-A-SECRET-0123456789"
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "STILLME_SECRET"):
        monkeypatch.setenv(name, secret)
    judge = {"id": "a", "kind": "planted", "key_env": "OPENAI_API_KEY", "settings": {"noise": 0.2}}
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    sources = [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}]
    one = {"experiments": {"diagnose": {"prompts": ["O-01"]}}, "sources": sources}
    loaded = config.load(write_audit(judges=[judge], **one))
    pipeline.run(loaded, Progress())
    with pytest.raises(SystemExit) as ended:
        main(["bundle", str(loaded.run), "--with-images", "--faces", "none"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    target = loaded.run / "evidence.zip"
    assert said.splitlines()[-1] == str(target)
    with zipfile.ZipFile(target) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert any(name.startswith("objects/") for name in contents)
    for name, content in contents.items():
        assert secret.encode() not in content and str(Path.home()).encode() not in content, name
    found = json.loads(contents[manifest.FILE])
    assert found["sha256"] in said and found["faces"] == "none" and found["images"] is True
    pictures = {Path(e["path"]).stem: e["sha256"] for e in found["files"] if e["path"].startswith("objects/")}
    assert pictures and all(name == sha256 for name, sha256 in pictures.items())
    verified = verify(target)
    assert verified.holds and "only the hashes were checked" in render_verification(verified).splitlines()[-1]


@pytest.mark.slow
def test_faces_that_the_report_hides_stay_hidden_in_the_bundle(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished / "run", tmp_path / "run"))
    pipeline.rebuild_report(run, Progress(), faces="none", only=["cards"])
    with zipfile.ZipFile(bundle(run).path) as archive:
        told, page = json.loads(archive.read(manifest.FILE)), archive.read("report.html").decode()
    assert told["faces"] == "none" and len(set(re.findall(r"data:image/webp;base64,[^\"]+", page))) == 1, (
        "the same words"
    )


@pytest.mark.parametrize(("asked", "taken"), [(None, "none"), ("blur", "blur")])
def test_faces_are_treated_as_asked_else_as_in_the_runs_report(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, taken: str
) -> None:
    def fill(run: Any, folder: Path, faces: str, *_: Any) -> None:
        raise InputError(f"Faces: {faces}.")

    run = Path(shutil.copytree(finished / "run", tmp_path / "run"))
    (run / "report").mkdir(exist_ok=True)
    (run / "report/about.json").write_text('{"faces": "none"}', encoding="utf-8")
    monkeypatch.setattr(contents, "_fill", fill)
    with pytest.raises(InputError, match=f"Faces: {taken}"):
        bundle(run, faces=asked)


def test_a_copy_beside_a_writer_is_whole(finished: Path, tmp_path: Path) -> None:
    source = tmp_path / "ledger.sqlite"
    backup.copy(finished / "run/ledger.sqlite", source)
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO audit VALUES (NULL, 'now', '{}')")
        backup.copy(source, tmp_path / "copy.sqlite")
        writer.execute("COMMIT")
    assert list(ledger.integrity_errors(tmp_path / "copy.sqlite")) == []
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM audit WHERE at = 'now'").fetchone() == (0,)
    assert not (tmp_path / "copy.sqlite-wal").exists()


def test_a_target_that_is_no_zip_and_a_folder_that_is_no_run_are_sentences(finished: Path, tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "b.tar"):
        with pytest.raises(InputError, match="cannot be a bundle"):
            bundle(finished / "run", target)
    with pytest.raises(InputError, match="is not a run"):
        bundle(tmp_path, tmp_path / "b.zip")
    assert list(tmp_path.iterdir()) == []
