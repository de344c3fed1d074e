"""The exported folder as the source of an audit: a whole run on it, its caveats, and every kind of bad folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme import pipeline
from stillme.cli.render.plan import render_plan
from stillme.core.errors import ConfigIssuesError, SetupError
from stillme.engine.backends import BackendContext, PreparedSource
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.protocol import Protocol
from stillme.sources import portraits
from stillme.sources.portraits import Settings
from stillme.sources.selection import export
from stillme.sources.selection.store import Store
from stillme.steps import forecast
from tests.sources.selection.exported import decide, selection

Load = Callable[..., Config]


def exported(folder: Path, **changes: object) -> Path:
    plan = selection(folder, **changes)  # type: ignore[arg-type]
    with Store.open_for_writing(plan.folder) as store:
        decide(store, plan)
        return export.export_portraits(plan, store, folder / "portraits")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four heads as they are; tests copy it."""
    return exported(tmp_path_factory.mktemp("plain"), upscaling={"method": "none"})


@pytest.fixture(scope="module")
def enlarged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("enlarged"), upscaling={"method": "bicubic", "to": 640})


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "portraits"))


def prepared(folder: Path, protocol: Protocol, **settings: object) -> PreparedSource[portraits.Chosen]:
    given = Settings.model_validate({"folder": folder.name, **settings})
    return portraits.prepare(given, BackendContext(folder.parent, protocol))


def audit(load: Load, folder: str = "portraits", **changes: object) -> Config:
    source = {"id": "chosen", "kind": "portraits", "settings": {"folder": folder}}
    return load(**{"sources": [source], "engine": {"workers": 1}, **changes})


# A run


def test_a_whole_audit_of_an_exported_folder(load_audit: Load, folder: Path) -> None:
    config = audit(load_audit)
    path = pipeline.run(config, Progress())
    status = pipeline.status(config.run)
    assert status["trials"] == 4 * 3 * 2 and sum(status["edits"].values()) == 4 * 3 * 2
    assert status["edits"]["ok"] > 12, "planted editors recognise the heads"
    report = path.read_text(encoding="utf-8")
    assert "Chosen portraits: 4 of FairFace." in report
    assert report.count("4 of 4 portraits are face-sized in their data set (384 pixels at the shorter side)") == 3
    with Run.open_readonly(config.run) as seen:
        keys = {row[0] for row in seen.query("SELECT key FROM portrait")}
        kept = seen.query("SELECT source, source_id, split, licence FROM portrait ORDER BY source_id")
    table = pl.read_parquet(folder / "portraits.parquet")
    assert keys == set(table["portrait"]), "the table's keys are the run's"
    assert kept[0][:3] == ("FairFace", "train/1.jpg", "train") and kept[0][3].startswith("CC BY 4.0")


def test_a_report_needs_the_run_alone(load_audit: Load, folder: Path, tmp_path: Path) -> None:
    config = audit(load_audit)
    before = pipeline.run(config, Progress()).read_bytes()
    shutil.rmtree(folder)
    moved = Path(shutil.move(config.run, tmp_path / "elsewhere"))
    (moved / "report.html").unlink()
    assert pipeline.rebuild_report(moved, Progress(), whole=False).read_bytes() == before
    assert pipeline.status(moved)["edits_missing"] == 0
    assert pipeline.export(moved, tmp_path / "tables", "csv")


def test_a_run_goes_on_wherever_the_folder_lies(load_audit: Load, folder: Path, tmp_path: Path) -> None:
    config = audit(load_audit)
    pipeline.run(config, Progress())
    attempts = pipeline.status(config.run)["attempts"]
    folder.rename(tmp_path / "moved")
    again = audit(load_audit, "moved")
    assert again.sources["chosen"].effective == config.sources["chosen"].effective
    pipeline.run(again, Progress())
    assert pipeline.status(config.run)["attempts"] == attempts, "nothing is made twice"


def test_no_path_of_this_machine_stands_in_the_run(load_audit: Load, folder: Path, tmp_path: Path) -> None:
    config = audit(load_audit)
    with Run.open_for_writing(config.run, config.protocol) as held:
        pipeline.plan(held, config, pipeline.gather(held, config, Progress()))
        assert str(tmp_path) not in str(held.last_audit())


def test_a_check_prints_the_caveat(load_audit: Load, folder: Path) -> None:
    config = audit(load_audit)
    text = render_plan(config, forecast.look_ahead(config))
    assert "4 portraits × 3 prompts" in text
    flowing = " ".join(text.split())
    assert "face-sized" in flowing and "were not enlarged" in flowing and "whatever the prompt asks" in flowing
    assert max(len(line) for line in text.splitlines() if not line.startswith("Run directory")) <= 100


# Caveats


def test_enlarged_portraits_are_warned_of_with_counts_sizes_and_method(enlarged: Path, protocol: Protocol) -> None:
    (said,) = prepared(enlarged, protocol).caveats
    assert "4 of 4 portraits" in said and "384 pixels" in said and "enlarged by the method “bicubic”" in said
    assert "“restore”" in said


def test_large_originals_need_no_warning(folder: Path, protocol: Protocol) -> None:
    assert protocol.portraits is not None
    low = protocol.portraits.model_copy(update={"face_sized": 384})

    assert prepared(folder, replace(protocol, portraits=low)).caveats == ()
    (said,) = prepared(folder, protocol, groups={"race": ["white"]}).caveats
    assert said.startswith("2 of 2 portraits")


def test_without_a_rule_every_enlarged_portrait_counts(enlarged: Path, plain: Path, protocol: Protocol) -> None:

    ruleless = replace(protocol, portraits=None)
    assert len(prepared(enlarged, ruleless).caveats) == 1 and prepared(plain, ruleless).caveats == ()


# The folder


def test_either_table_is_enough(folder: Path, tmp_path: Path, protocol: Protocol) -> None:
    both = prepared(folder, protocol)
    for name in ("portraits.csv", "portraits.parquet"):
        one = Path(shutil.copytree(folder, tmp_path / f"without-{name}"))
        (one / name).unlink()
        assert prepared(one, protocol).effective == both.effective
    first, content = next(iter(both.make().portraits()))
    assert first.labels == {"race": "white", "gender": "female", "age": "20s"}
    assert (folder / "images" / f"{first.image}.jpg").read_bytes() == content


def test_a_portrait_more_or_less_is_another_source(folder: Path, protocol: Protocol) -> None:
    before = prepared(folder, protocol).effective
    (folder / "portraits.parquet").unlink()
    table = folder / "portraits.csv"
    table.write_text("".join(table.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    after = prepared(folder, protocol)
    assert after.effective != before and len(list(after.make().portraits())) == 3


def test_groups_keep_some(folder: Path, protocol: Protocol) -> None:
    some = prepared(folder, protocol, groups={"race": ["black"], "age": ["60s"]})
    assert [p.source_id for p, _ in some.make().portraits()] == ["train/4.jpg"]
    with pytest.raises(ValueError, match=r"groups\.race: 'blue' is not a group; known: white, black"):
        prepared(folder, protocol, groups={"race": ["blue"]})
    with pytest.raises(ValueError, match="'height' is not a dimension; known: race, gender, age"):
        prepared(folder, protocol, groups={"height": ["tall"]})
    with pytest.raises(ValueError, match="no portrait of these groups"):
        prepared(folder, protocol, groups={"gender": ["male"]})


def test_guarded_names_come_back_as_they_were(folder: Path, protocol: Protocol) -> None:
    change(folder, source_id="=1+1")
    assert "'=1+1" in (folder / "portraits.csv").read_text(encoding="utf-8")
    first, _ = next(iter(prepared(folder, protocol).make().portraits()))
    assert first.source_id == "=1+1"
    for name in ("=a", "'a", "''=a", "-", "", "a'b", "@x", "+1", "\tx"):
        assert portraits.unguard(portraits.guard(name)) == name


# Bad folders


def change(folder: Path, parquet: bool = True, **values: Any) -> None:
    """Puts other values into the first row of the tables."""
    frame = pl.read_parquet(folder / "portraits.parquet")
    first = pl.int_range(pl.len()) == 0
    changed = frame.with_columns(
        [pl.when(first).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in values.items()]
    )
    (folder / "portraits.csv").write_bytes(export._csv(changed))
    if parquet:
        changed.write_parquet(folder / "portraits.parquet")


def first_image(folder: Path) -> Path:
    return folder / str(pl.read_parquet(folder / "portraits.parquet")["path"][0])


def said(folder: Path, protocol: Protocol) -> list[str]:
    with pytest.raises(ConfigIssuesError) as raised:
        prepared(folder, protocol)
    return [str(fault).removeprefix(f"{folder}/") for fault in raised.value.faults]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"race": "green"}, "race: 'green' is not a group of the protocol; known: white, black, east_asian"),
        ({"age": None}, "age: is missing; the protocol needs it of every portrait. Known: 20s, 30s"),
        ({"source_id": ""}, "source_id: is missing"),
        ({"image": "abc"}, "image: has to be a SHA-256 in 64 hexadecimal digits (given: 'abc')"),
        ({"path": "images/gone.jpg"}, "path: images/gone.jpg does not exist"),
        ({"path": "../../etc/passwd"}, "path: has to be a file in this folder (given: '../../etc/passwd')"),
        ({"path": "/etc/passwd"}, "path: has to be a file in this folder (given: '/etc/passwd')"),
        ({"width": None}, "width: has to be a number of pixels (given: '')"),
    ],
)
def test_a_bad_row_is_named(folder: Path, protocol: Protocol, values: dict[str, Any], fault: str) -> None:
    change(folder, **values)
    (found,) = said(folder, protocol)
    assert found.startswith(f"portraits.csv:2: {fault}")


def test_a_picture_that_is_not_what_its_name_says_is_named(folder: Path, protocol: Protocol) -> None:
    first_image(folder).write_bytes(b"something else")
    (found,) = said(folder, protocol)
    assert found.startswith(
        f"portraits.csv:2: image: images/{first_image(folder).name} was changed: its SHA-256 is "
    )


def test_a_picture_that_is_gone_is_named(folder: Path, protocol: Protocol) -> None:
    first_image(folder).unlink()
    (found,) = said(folder, protocol)
    assert found == f"portraits.csv:2: path: images/{first_image(folder).name} does not exist"


def test_a_portrait_listed_twice_is_named(folder: Path, protocol: Protocol) -> None:
    change(folder, source_id="train/4.jpg")
    assert said(folder, protocol) == [
        "portraits.csv:5: source_id: 'train/4.jpg' of 'FairFace' stands in row 2 already"
    ]


def test_all_faults_are_said_at_once(load_audit: Load, folder: Path) -> None:
    change(folder, race="green", gender="x")
    first_image(folder).unlink()
    with pytest.raises(ConfigIssuesError, match="3 faults") as raised:
        audit(load_audit)
    assert raised.value.exit_code == 2


def test_tables_that_differ_are_not_guessed_about(folder: Path, protocol: Protocol) -> None:
    change(folder, parquet=False, age="30s")
    (found,) = said(folder, protocol)
    advice = "in portraits.parquet; delete the table that is out of date"
    assert found == f"portraits.csv:2: age: is '30s' here and '20s' {advice}"
    table = folder / "portraits.csv"
    table.write_text("".join(table.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    assert said(folder, protocol)[0] == f"portraits.csv: lists 3 portraits and 4 stand {advice}"


@pytest.mark.parametrize("name", ["portraits.csv", "portraits.parquet"])
def test_a_table_without_a_needed_column_is_named(folder: Path, protocol: Protocol, name: str) -> None:
    frame = pl.read_parquet(folder / "portraits.parquet").drop("age", "image")
    for path in (folder / "portraits.csv", folder / "portraits.parquet"):
        path.unlink()
    frame.write_csv(folder / name) if name.endswith("csv") else frame.write_parquet(folder / name)
    found = said(folder, protocol)
    assert [text.split(" (")[0].split(";")[0] for text in found] == [
        f"{name}: has no column 'age'",
        f"{name}: has no column 'image'",
    ]


def test_broken_and_empty_tables_are_sentences(folder: Path, tmp_path: Path, protocol: Protocol) -> None:
    whole = (folder / "portraits.parquet").read_bytes()
    (folder / "portraits.parquet").write_bytes(whole[: len(whole) // 2])
    assert said(folder, protocol)[0].startswith("portraits.parquet: is not a Parquet file, or not a whole one")
    (folder / "portraits.parquet").unlink()
    table = folder / "portraits.csv"
    header = table.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    table.write_text(header, encoding="utf-8")
    assert said(folder, protocol) == ["portraits.csv: lists no portraits"]
    table.write_text(f"{header}only,three,fields\n", encoding="utf-8")
    assert said(folder, protocol)[0].startswith("portraits.csv:2: the row has 3 fields")
    table.unlink()
    assert "holds neither portraits.csv nor portraits.parquet; give a folder that" in said(folder, protocol)[0]
    assert said(tmp_path / "nowhere", protocol)[0].endswith(
        "is not a folder; give a folder that `stillme sources export` wrote"
    )


def test_a_picture_that_changes_meanwhile_is_not_taken(folder: Path, protocol: Protocol) -> None:
    source = prepared(folder, protocol).make()
    first_image(folder).write_bytes(b"other")
    with pytest.raises(SetupError, match="changed while it was read"):
        list(source.portraits())
