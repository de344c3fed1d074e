"""The export: what stands in the folder, that it is the same every time, and that it is whole or not there."""

from __future__ import annotations

import errno
import hashlib
import io
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import polars as pl
import pytest
import yaml
from PIL import Image

from stillme.core import images
from stillme.core.errors import InputError, SetupError
from stillme.core.records import Reading, Status
from stillme.engine.progress import Progress
from stillme.sources.selection import export as exporting
from stillme.sources.selection import flow
from stillme.sources.selection.action_log import Verb
from stillme.sources.selection.cards import find_licence
from stillme.sources.selection.config import Plan
from stillme.sources.selection.screen import screening_settings
from stillme.sources.selection.service import SelectionService
from stillme.sources.selection.store import Store
from stillme.stats.passing import passing
from tests.sources.selection import data
from tests.sources.selection.exported import CHOICES, act, by_cell, decide, sampled, selection

NONE = {"method": "none"}
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Four cells, decided; tests only read it."""
    made = selection(tmp_path_factory.mktemp("decided"))
    with Store.open_for_writing(made.folder) as store:
        decide(store, made)
    return made


@pytest.fixture(scope="module")
def folder(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(plan, tmp_path_factory.mktemp("exported") / "portraits")


def export(plan: Plan, to: Path, partial: bool = False, rates: pl.DataFrame | None = None) -> Path:
    with Store.open_readonly(plan.folder) as store:
        return exporting.export_portraits(plan, store, to, partial, rates)


def frame(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "portraits.parquet")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_one_row_a_cell_with_where_it_comes_from(folder: Path, plan: Plan) -> None:
    found = frame(folder)
    assert found["cell"].to_list() == [cell.id for cell in plan.grid.cells]
    assert found["pool"].to_list() == list(CHOICES) and found["seed"].to_list() == list(CHOICES)
    last = found.row(-1, named=True)
    assert (last["race"], last["gender"], last["age"]) == ("black", "female", "60s")
    assert (last["race_annotated"], last["age_annotated"]) == ("Black", "60-69")
    assert (last["dataset"], last["split"], last["source_id"]) == ("FairFace", "train", "train/4.jpg")
    assert (last["file"], last["row"]) == ("fairface_label_train.csv", 5)
    assert last["licence"].startswith("CC BY 4.0") and last["reviewer"] == "anna"
    assert last["second_reviewer"] is None and last["agreed"] is None and last["mended"] is None
    own = (plan.path.parent / "fairface/train/4.jpg").read_bytes()
    assert last["original_sha256"] == hashlib.sha256(own).hexdigest()


def test_both_tables_say_the_same(folder: Path) -> None:
    read = pl.read_csv(folder / "portraits.csv", schema=frame(folder).schema)
    assert read.equals(frame(folder))


def test_small_portraits_are_enlarged_as_declared_and_it_is_noted(folder: Path) -> None:
    for row in frame(folder).iter_rows(named=True):
        content = (folder / row["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == row["image"] == Path(row["path"]).stem
        assert Image.open(io.BytesIO(content)).size == (row["width"], row["height"]) == (1024, 1024)
        assert (row["upscaled_from"], row["upscaled_to"], row["upscaling"]) == (384, 1024, "lanczos")
        assert (row["original_width"], row["original_height"]) == (384, 384)
    assert len(list((folder / "images").iterdir())) == frame(folder).height


@pytest.mark.parametrize("upscaling", [NONE, {"method": "lanczos", "to": 384}])
def test_portraits_that_are_large_enough_stay_as_they_are(tmp_path: Path, upscaling: dict[str, object]) -> None:
    plan = selection(tmp_path, upscaling=upscaling)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan)
    out = export(plan, tmp_path / "out")
    for row in frame(out).iter_rows(named=True):
        own = (tmp_path / "fairface" / row["source_id"]).read_bytes()
        assert (out / row["path"]).read_bytes() == own and row["path"].endswith(".jpg")
        assert row["upscaled_from"] is None and row["upscaling"] is None
    assert "the file as it was" in (out / "LICENCE.txt").read_text(encoding="utf-8")


def test_exporting_again_gives_the_same_bytes(folder: Path, plan: Plan, tmp_path: Path) -> None:
    assert contents(export(plan, tmp_path / "again")) == contents(folder)


def test_every_file_has_its_sum(folder: Path) -> None:
    listed = {line[66:]: line[:64] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    found = {name: hashlib.sha256(content).hexdigest() for name, content in contents(folder).items()}
    assert listed == {name: sha for name, sha in found.items() if name != "SHA256SUMS"}
    assert {"README.md", "croissant.json", "LICENCE.txt", "actions.csv"} < set(listed)


def test_undecided_cells_are_named_unless_a_part_is_wanted(tmp_path: Path) -> None:
    plan = selection(tmp_path)
    with Store.open_for_writing(plan.folder) as store:
        with pytest.raises(InputError, match="Nobody has chosen"):
            exporting.export_portraits(plan, store, tmp_path / "out")
        store.add_reviewer("anna")
        with pytest.raises(InputError, match="No portrait was chosen"):
            exporting.export_portraits(plan, store, tmp_path / "out", partial=True)
        decide(store, plan, CHOICES[:2])
    with pytest.raises(
        InputError, match=r"2 of 4 cells are undecided: Black · Female · 20–29; Black · Female · 60–69"
    ):
        export(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    out = export(plan, tmp_path / "out", partial=True)
    assert frame(out)["cell"].to_list() == [cell.id for cell in plan.grid.cells[:2]]
    assert "2 of 4 cells are undecided" in (out / "README.md").read_text(encoding="utf-8")


def test_what_is_there_is_never_overwritten(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    for taken in (tmp_path / "mine", tmp_path / "mine/letter.txt"):
        with pytest.raises(InputError, match="exists already"):
            export(plan, taken)
    assert contents(tmp_path) == {"mine/letter.txt": b"dear"}
    (tmp_path / "empty").mkdir()
    assert "README.md" in contents(export(plan, tmp_path / "empty"))


def test_a_full_disk_leaves_nothing(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, written = Path.write_bytes, []

    def fail(path: Path, content: bytes) -> int:
        written.append(path)
        if path.name == "README.md":
            raise OSError(errno.ENOSPC, "No space left on device")
        return put(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(SetupError, match="is full"):
        export(plan, tmp_path / "out")
    assert len(written) > 5 and list(tmp_path.iterdir()) == []


def test_a_killed_export_leaves_no_folder_and_the_next_one_clears_up(
    folder: Path, plan: Plan, tmp_path: Path
) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        from stillme.sources.selection import config, export
        from stillme.sources.selection.store import Store
        put = Path.write_bytes
        def die(path, content):
            put(path, content)
            if path.name == "README.md":
                os.kill(os.getpid(), signal.SIGKILL)
        Path.write_bytes = die
        plan = config.load(Path(sys.argv[1]))
        with Store.open_readonly(plan.folder) as store:
            export.export_portraits(plan, store, Path(sys.argv[2]))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(plan.path), str(tmp_path / "out")]
    died = subprocess.run(command, check=False, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert not (tmp_path / "out").exists()
    assert contents(export(plan, tmp_path / "out")) == contents(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_no_text_is_a_formula_to_a_spreadsheet(tmp_path: Path) -> None:
    plan = selection(tmp_path, upscaling=NONE)
    note = '=HYPERLINK("http://example.invalid";"x")'
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan)
        act(store, 50, Verb.NOTE, plan.grid.cells[0].id, before="", after=note)
        act(store, 51, Verb.NOTE, plan.grid.cells[1].id, before="", after="'tis\r\na note")
        act(store, 52, Verb.FLAG, plan.grid.cells[1].id, before=False, after=True)
    out = export(plan, tmp_path / "out")
    assert frame(out)["note"].to_list() == [note, "'tis\r\na note", None, None]
    assert frame(out)["flagged"].to_list() == [False, True, False, False]
    shown = pl.read_csv(out / "portraits.csv", schema=frame(out).schema)
    assert shown["note"].to_list()[:2] == [f"'{note}", "''tis\r\na note"]
    log = pl.read_csv(out / "actions.csv")
    assert not any(str(value).startswith(("=", "+", "@")) for value in log["after"])


def test_the_log_of_actions_is_whole(folder: Path, plan: Plan) -> None:
    log = pl.read_csv(folder / "actions.csv")
    with Store.open_readonly(plan.folder) as store:
        assert log["op"].to_list() == [action.op for action in store.actions()]
    assert set(log["verb"]) == {"choose"} and set(log["reviewer"]) == {"anna"}


def test_ticks_are_the_reviewers_else_the_pre_screens(tmp_path: Path) -> None:
    plan = selection(tmp_path, upscaling=NONE)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan, (1, 1, 1, 1))
        first, second, third, _ = [by_cell(store)[cell.id][0] for cell in plan.grid.cells]
        for one, yaw in ((first, 50.0), (second, 50.0)):
            store.add_reading(one.portrait.image, "s", Reading(Status.OK, {"yaw": yaw, "pitch": 0.0})).result()
        store.add_reading(third.portrait.image, "s", Reading(Status.NO_FACE, detail="none")).result()
        act(
            store,
            60,
            Verb.TICK,
            second.cell,
            candidate=second.key,
            after=True,
            criteria={"criterion": "frontal_face"},
        )
    found = frame(export(plan, tmp_path / "out"))
    assert found["criterion_frontal_face"].to_list() == [False, True, None, None]
    assert found["figure_yaw"].to_list() == [50.0, 50.0, None, None]
    assert found["figure_focus"].null_count() == 4, "what was not read is missing, not 0"
    assert found["screening"].to_list() == ["ok", "ok", "no_face", None]
    text = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert "| Frontal face | Face oriented toward camera, no profiles | 1 | 1 | 2 |" in text


def test_a_second_reviewer_stands_beside_blind(tmp_path: Path) -> None:
    plan = selection(tmp_path, upscaling=NONE)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan, (1, 2, 2, 1))
        decide(store, plan, (1, 1, 2), "ben", first=10)
        cell = plan.grid.cells[1].id
        act(store, 20, Verb.COMPARE, "")
        other = by_cell(store)[cell][1].key
        act(store, 21, Verb.CHOOSE, cell, before=[], after=[other], candidate=other, reviewer="ben")
    found = frame(export(plan, tmp_path / "out"))
    assert found["agreed"].to_list() == [True, False, True, None], "what followed the comparison was not blind"
    assert set(found["second_reviewer"]) == {"ben"} and set(found["reviewer"]) == {"anna"}
    text = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert (
        "the same portrait for 2 of the 3 that both decided. Cohen's kappa of their blind choices is 0.40" in text
    )


def test_ticks_are_those_that_the_reviewer_saw(tmp_path: Path) -> None:
    """A pre-screen of another version that ran last is not what the tool shows."""
    plan = selection(tmp_path, upscaling=NONE)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan)
        for settings, yaw in ((screening_settings(), 0.0), ("another", 50.0)):
            for one in store.candidates():
                figures = {"certainty": 1.0, "yaw": yaw, "pitch": 0.0}
                store.add_reading(one.portrait.image, settings, Reading(Status.OK, figures)).result()
        desk = SelectionService(plan, store, ["anna"])
        shown = [
            next(check.met for check in card.checks if check.id == "frontal_face")
            for cell in plan.grid.cells
            for card in desk.sheet("anna", cell.id).chosen
        ]
    found = frame(export(plan, tmp_path / "out"))
    assert found["criterion_frontal_face"].to_list() == shown == [True] * 4
    assert found["figure_yaw"].to_list() == [0.0] * 4


def test_a_short_cell_is_decided_with_what_it_has(tmp_path: Path) -> None:
    made = data.fairface(tmp_path / "fairface", data.KEYS, 2, {"train/5.jpg": lambda _: b"no"})
    axes = {"race": ["white", "black"], "gender": ["female"], "age": ["20s", "60s"]}
    grid = {"axes": axes, "per_cell": 2}
    file = data.selection(tmp_path / "s.yaml", made, grid=grid, pools={"count": 1}, upscaling=NONE)
    plan = sampled(file)
    with Store.open_for_writing(plan.folder) as store:
        for place, (reviewer, second) in enumerate((("anna", 2), ("ben", 1))):
            store.add_reviewer(reviewer)
            for number, cell in enumerate(plan.grid.cells):
                keys = [one.key for one in by_cell(store)[cell.id]][: second if number == 1 else 2]
                about = {"before": [], "after": keys, "reviewer": reviewer}
                act(store, 10 * place + number, Verb.CHOOSE, cell.id, **about)
        act(store, 50, Verb.COMPARE, "")
    found = flow.status(file)
    assert [(one.name, one.decided) for one in found.reviewers] == [("anna", 4), ("ben", 3)]
    assert found.undecided == [] and found.agreement is not None
    assert (found.agreement.n, found.agreement.agreement) == (3, 1.0), "half of a cell is not a choice"
    out = export(plan, tmp_path / "out")
    assert frame(out)["agreed"].to_list() == [True, None, None, True, True, True, True]
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "the same portrait for 5 of the 5 that both decided" in text
    assert "cells are undecided" not in text


def test_a_portrait_that_cannot_be_enlarged_is_named(tmp_path: Path) -> None:
    def lengthen(content: bytes) -> bytes:
        buffer = io.BytesIO()
        Image.open(io.BytesIO(content)).resize((4000, 224)).save(buffer, "JPEG")
        return buffer.getvalue()

    made = data.fairface(tmp_path / "fairface", data.KEYS[:1], 1, {"train/1.jpg": lengthen})
    large = {"method": "bicubic", "to": 4096}
    file = data.selection(tmp_path / "s.yaml", made, pools={"count": 1}, upscaling=large)
    plan = sampled(file)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan, (1,))
    with pytest.raises(
        InputError, match=r"The portrait train/1\.jpg of FairFace, .* would have 73143 × 4096 pixels"
    ):
        export(plan, tmp_path / "out", partial=True)
    assert not (tmp_path / "out").exists()


def test_several_a_cell_have_a_place_each(tmp_path: Path) -> None:
    grid = {"axes": {"race": ["white", "black"], "gender": ["female"], "age": ["20s", "60s"]}, "per_cell": 2}
    plan = selection(tmp_path, copies=4, grid=grid, upscaling=NONE)
    with Store.open_for_writing(plan.folder) as store:
        store.add_reviewer("anna")
        for number, cell in enumerate(plan.grid.cells):
            keys = [one.key for one in by_cell(store)[cell.id][1:3]]
            act(store, number, Verb.CHOOSE, cell.id, before=[], after=keys)
    found = frame(export(plan, tmp_path / "out"))
    assert found["place"].to_list() == [1, 2] * 4
    assert found["cell"].to_list() == [cell.id for cell in plan.grid.cells for _ in range(2)]
    assert found["portrait"].n_unique() == 8


def test_an_axis_that_is_called_like_a_column_is_refused(tmp_path: Path) -> None:
    axes = {"race": ["white", "black"], "pool": {"women": ["Female"]}}
    made = data.fairface(tmp_path / "fairface", data.KEYS)
    table = made / "fairface_label_train.csv"
    reader = {
        "folder": str(made),
        "labels": str(table),
        "columns": {"file": "file", "race": "race", "pool": "gender"},
        "licence": "mine",
    }
    rows = [{"id": "mine", "kind": "folder", "settings": reader}]
    file = data.selection(tmp_path / "s.yaml", made, readers=rows, grid={"axes": axes}, pools={"count": 1})
    plan = sampled(file)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan, (1, 1))
        with pytest.raises(InputError, match="An axis is called 'pool'"):
            exporting.export_portraits(plan, store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_card_says_what_it_is_and_describes_every_column(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["license"] == "cc-by-4.0" and front["configs"][0]["data_files"] == "portraits.parquet"
    for column in frame(folder).columns:
        assert f"| `{column}` |" in text
    assert "| 1 | 1 | 4 | 2 |" in text and "| 2 | 2 | 4 | 2 |" in text, "choices by pool"
    assert "4 actions in 1 min" in text and "pseudonym anna" in text
    assert "must not be used to recognise" in text and "perceptions" in text
    assert "4 of 4 portraits have 384 pixels at the shorter side" in text and "“restore”" in text
    assert "4 of 4 are rendered heads that show nobody" in text
    assert "Taking a picture out" in text
    assert "{{" not in text and "{%" not in text and "\n\n\n" not in text


def test_the_card_says_what_was_skipped_and_who_passes(tmp_path: Path) -> None:
    def lie_down(content: bytes) -> bytes:
        """Stored on its side, as some cameras do it."""
        exif = Image.Exif()
        exif[images.ORIENTATION] = 6
        buffer = io.BytesIO()
        Image.open(io.BytesIO(content)).rotate(90).save(buffer, "JPEG", exif=exif)
        return buffer.getvalue()

    made = data.fairface(
        tmp_path / "fairface", data.KEYS, 1, {"train/1.jpg": lie_down, "train/2.jpg": lambda _: b"no"}
    )
    file = data.selection(tmp_path / "s.yaml", made, pools={"count": 1})
    plan = sampled(file)
    with Store.open_for_writing(plan.folder) as store:
        store.add_reviewer("anna")
        for number, (cell, listed) in enumerate(by_cell(store).items()):
            act(store, number, Verb.CHOOSE, cell, before=[], after=[listed[0].key])
    judged = pl.DataFrame({"criterion": ["frontal_face"] * 2, "passed": [True, False], "race": ["white", "black"]})
    out = export(plan, tmp_path / "out", partial=True, rates=passing(judged, ["race"]))
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "- corrupt: 1" in text and "- turned upright: 1 (changed, and kept)" in text
    assert "too few candidates for White · Female · 60–69: 0 of 1" in text
    assert "| perceived | group | Frontal face |" in text and "| race | Black | 0% of 1 |" in text
    licence = (out / "LICENCE.txt").read_text(encoding="utf-8")
    assert "1 portrait: turned upright as its EXIF says, enlarged from 384 to 1024 pixels" in licence
    assert frame(out)["mended"].to_list()[0] == "turned upright as its EXIF says"


def test_licences_are_named_in_full(folder: Path) -> None:
    text = (folder / "LICENCE.txt").read_text(encoding="utf-8")
    assert "FairFace by Kimmo Kärkkäinen and Jungseock Joo" in text
    assert "Creative Commons Attribution 4.0 International" in text
    assert "https://creativecommons.org/licenses/by/4.0/" in text and "without warranties" in text
    assert find_licence("all rights reserved") is None
    known = find_licence("CC0-1.0, rendered by stillme")
    assert known is not None and known.id == "cc0-1.0"


def test_croissant_is_valid_and_its_records_can_be_read(folder: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that mlcroissant uses
        dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
        issues = dataset.metadata.ctx.issues
        records = list(dataset.records("portraits"))
    assert issues.errors == set()
    assert all("datePublished" in said for said in issues.warnings), "the publisher's to say, and nothing else"
    rows = {row["image"]: row for row in frame(folder).iter_rows(named=True)}
    assert {record["portraits/image"].decode() for record in records} == set(rows)
    for record in records:
        row = rows[record["portraits/image"].decode()]
        assert record["portraits/cell"].decode() == row["cell"] and record["portraits/pool"] == row["pool"]
        assert record["portraits/picture"].size == (row["width"], row["height"])
    told = dataset.metadata
    assert any("perceptions" in said for said in told.data_biases)
    assert any("Not for recognising" in said for said in told.data_use_cases)
    assert told.personal_sensitive_information is None, "rendered heads show nobody"
    assert told.license == ["https://creativecommons.org/licenses/by/4.0/"]


def test_nothing_tells_where_or_when_it_was_exported(folder: Path, plan: Plan) -> None:
    for name, content in contents(folder).items():
        assert str(plan.path.parent).encode() not in content and str(folder).encode() not in content, name


SAMPLE = ROOT.parent / "shared/data/fairface_sample"


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the sample of FairFace is not at hand")
def test_photographs_are_said_to_be_of_people(tmp_path: Path) -> None:
    grid = {"axes": {"race": ["white", "black"], "gender": ["female"], "age": ["30s"]}}
    file = data.selection(tmp_path / "s.yaml", SAMPLE, grid=grid, pools={"count": 1}, upscaling=NONE)
    plan = sampled(file)
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan, (1, 1))
    out = export(plan, tmp_path / "out")
    assert "rai:personalSensitiveInformation" in (out / "croissant.json").read_text(encoding="utf-8")
    assert "rendered heads" not in (out / "README.md").read_text(encoding="utf-8")
    assert frame(out)["original_width"].to_list() == [448, 448]


def test_progress_is_told_a_portrait_at_a_time(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open_readonly(plan.folder) as store:
        exporting.export_portraits(plan, store, tmp_path / "out", progress=Progress("plain"))
    assert "Portraits: 4 of 4" in capsys.readouterr().out
