from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from stillme.core.errors import ConfigIssuesError
from stillme.sources import Reason
from stillme.sources.folder import Listed, Named, Settings, read
from tests.sources import written

LICENCE = {"licence": "CC0-1.0"}
COLUMNS = {"file": "path", "race": "ethnicity", "age": "years", "split": "part"}


def open_(place: Path, **settings: object) -> Listed | Named:
    own = {"hair": {"covered": ("hijab",), "open": ()}}
    given = {"folder": "images", **LICENCE, **settings}
    return read(Settings.model_validate(given), place, written.vocabulary(custom=own))


def fill(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names, 1):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(written.picture(number))
    return folder


def test_labels_in_a_table_with_columns_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path / "images", "a/1.png", "2.png")
    table = [["x", "a/1.png", "Latino", "34", "dev"], ["y", "./2.png", "Black", "70", "test"]]
    written.write_csv(tmp_path / "people.csv", table, ("key", "path", "ethnicity", "years", "part"))
    reader = open_(tmp_path, labels="people.csv", columns=COLUMNS)
    rows = written.rows_of(reader)
    assert [(row.id, row.split, dict(row.labels)) for row in rows] == [
        ("a/1.png", "dev", {"race": "latino", "age": "30s"}),
        ("2.png", "test", {"race": "black", "age": "70plus"}),
    ]
    assert rows[1].annotated == {"race": "Black", "age": "70"}
    assert (rows[1].file, rows[1].row) == ("people.csv", 3)
    assert dict(written.contents(reader, rows)) == {"a/1.png": written.picture(1), "2.png": written.picture(2)}


def test_labels_in_parquet_images_in_a_zip(tmp_path: Path) -> None:
    fill(tmp_path / "plain", "1.png", "2.png")
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(tmp_path / "plain/1.png", "portraits/1.png")
        packed.write(tmp_path / "plain/2.png", "portraits/2.png")
    columns = {"path": ["1.png", "2.png", "3.png"], "years": [34.0, None, 50.0], "ethnicity": ["Black"] * 3}
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    names = {"file": "path", "race": "ethnicity", "age": "years"}
    reader = open_(tmp_path, folder="images.zip", labels="people.parquet", columns=names)
    rows, remarks = written.split_up(reader)
    assert [(row.id, row.row, dict(row.labels)) for row in rows] == [("1.png", 1, {"race": "black", "age": "30s"})]
    assert [(remark.row, remark.reason) for remark in remarks] == [
        (2, Reason.MISSING_LABEL),
        (3, Reason.MISSING_FILE),
    ]
    assert dict(written.contents(reader, rows)) == {"1.png": written.picture(1)}


def test_an_axis_of_ones_own(tmp_path: Path) -> None:
    fill(tmp_path / "images", "1.png", "2.png")
    written.write_csv(
        tmp_path / "people.tsv", [["1.png", "Hijab"], ["2.png", "open"]], ("file", "head"), delimiter="\t"
    )
    rows = written.rows_of(open_(tmp_path, labels="people.tsv", columns={"file": "file", "hair": "head"}))
    assert [dict(row.labels) for row in rows] == [{"hair": "covered"}, {"hair": "open"}]


def test_names_as_utkface_has_them(tmp_path: Path) -> None:
    names = (
        "26_1_4_20170104023010422.jpg.chip.jpg",
        "34_0_0_20170117011514573.jpg",
        "7_1_1_20161219140530307.jpg",
        "24_0_1_20170116220224657 .jpg",
        "39_1_20170116174525125.jpg.chip.jpg",  # UTKFace has a few without a race
        "50_0_9_20170116174525125.jpg",
        "readme.txt",
    )
    fill(tmp_path / "images", *names)
    reader = open_(tmp_path, naming="utkface")
    rows, remarks = written.split_up(reader)
    assert [(row.row, dict(row.annotated), dict(row.labels)) for row in rows] == [
        (1, {"age": "24", "gender": "Male", "race": "Black"}, {"age": "20s", "gender": "male", "race": "black"}),
        (2, {"age": "26", "gender": "Female", "race": "Others"}, {"age": "20s", "gender": "female"}),
        (3, {"age": "34", "gender": "Male", "race": "White"}, {"age": "30s", "gender": "male", "race": "white"}),
        (6, {"age": "7", "gender": "Female", "race": "Black"}, {"gender": "female", "race": "black"}),
    ]
    assert [(remark.file, remark.row, remark.reason) for remark in remarks] == [
        ("images", 4, Reason.BAD_ROW),
        ("images", 5, Reason.BAD_ROW),
    ]
    assert "39_1_20170116174525125.jpg.chip.jpg" in remarks[0].said
    assert "the class 9 of race; there are 5, from 0" in remarks[1].said
    assert len(dict(written.contents(reader, rows))) == 4


def test_names_in_a_zip_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = fill(
        tmp_path / "images", "UTKFace/26_1_3_20170104023010422.jpg", "UTKFace/34_0_0_20170117011514573.jpg"
    )
    with zipfile.ZipFile(tmp_path / "UTKFace.zip", "w") as packed:
        for path in sorted(folder.rglob("*.jpg"), reverse=True):
            packed.write(path, path.relative_to(folder).as_posix())
        packed.writestr("__MACOSX/UTKFace/._26_1_3_20170104023010422.jpg", b"litter")
    zipped = open_(tmp_path, folder="UTKFace.zip", naming="utkface")
    plain = open_(tmp_path, folder="images/UTKFace", naming="utkface")
    assert [row.id for row in written.rows_of(zipped)] == [row.id for row in written.rows_of(plain)]
    assert dict(written.contents(zipped, written.rows_of(zipped))) == dict(
        written.contents(plain, written.rows_of(plain))
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "exactly one of 'labels'"),
        ({"labels": "x.csv", "columns": {"file": "a"}, "naming": "utkface"}, "exactly one of 'labels'"),
        ({"labels": "x.csv", "columns": {"race": "a"}}, "'columns' needs 'file'"),
        ({"naming": "utkface", "columns": {"file": "a"}}, "'columns' belongs to 'labels'"),
        ({"naming": "utkface", "licence": " "}, "licence"),
        ({"naming": "celeba"}, "utkface"),
        ({"naming": "utkface", "colums": {}}, "colums"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        open_(tmp_path, **settings)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="'hairdo' is not a thing that a column can hold; known: file, split, race"
    ):
        open_(tmp_path, labels="x.csv", columns={"file": "f", "hairdo": "h"})
    with pytest.raises(ValueError, match="images does not exist"):
        open_(tmp_path, naming="utkface")
    fill(tmp_path / "images", "1.jpg")
    with pytest.raises(ConfigIssuesError, match=r"x\.csv: does not exist"):
        open_(tmp_path, labels="x.csv", columns={"file": "f"})


def test_names_that_are_no_text_are_said(tmp_path: Path) -> None:
    name, odd = "26_1_3_20170104023010422.jpg", os.fsdecode(b"caf\xe9")
    fill(tmp_path / odd, name, f"{odd}/{name}")
    rows, remarks = written.split_up(open_(tmp_path / odd, folder=".", naming="utkface"))
    assert [row.id for row in rows] == [name]
    assert [(remark.row, remark.reason) for remark in remarks] == [(2, Reason.BAD_ROW)]
    assert "is not UTF-8; rename it" in remarks[0].said
    "".join([rows[0].file, remarks[0].file, remarks[0].said]).encode()
