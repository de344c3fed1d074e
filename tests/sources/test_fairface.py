from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from stillme.sources import Reason
from stillme.sources.fairface import LICENCE, FairFace, Settings, read
from tests.sources import written

SAMPLE = Path(__file__).parents[2].parent / "shared/data/fairface_sample"


def open_(place: Path, **settings: object) -> FairFace:
    return read(Settings.model_validate({"folder": ".", **settings}), place, written.vocabulary())


def pack(archive: Path, folder: Path, inner: str = "") -> None:
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(folder.rglob("*.jpg")):
            packed.write(path, f"{inner}{path.relative_to(folder).as_posix()}")


def test_rows_as_released(tmp_path: Path) -> None:
    written.fairface(tmp_path, 5)
    written.fairface(tmp_path, 3, "val")
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    assert [row.id for row in rows] == [f"train/{n}.jpg" for n in range(1, 6)] + [
        f"val/{n}.jpg" for n in (1, 2, 3)
    ]
    assert [row.split for row in rows] == ["train"] * 5 + ["val"] * 3
    assert rows[2].annotated == written.labels(3)
    assert rows[2].labels == {"age": "20s", "gender": "female", "race": "white"}
    assert (rows[2].file, rows[2].row) == ("fairface_label_train.csv", 4)
    assert dict(written.contents(reader, rows)) == {
        row.id: written.picture(int(row.id.split("/")[1].removesuffix(".jpg"))) for row in rows
    }


def test_only_the_splits_that_are_there_or_asked_for(tmp_path: Path) -> None:
    written.fairface(tmp_path, 2)
    assert {row.split for row in written.rows_of(open_(tmp_path))} == {"train"}
    written.fairface(tmp_path, 2, "val")
    assert {row.split for row in written.rows_of(open_(tmp_path, splits=["val"]))} == {"val"}
    with pytest.raises(ValueError, match=r"holds no list of labels; looked for fairface_label_test\.csv"):
        open_(tmp_path, splits=["test"])
    with pytest.raises(ValueError, match=r"holds no list of labels; looked for fairface_label_test\.csv"):
        open_(tmp_path, splits=["train", "test"])


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("fairface-img-margin125-trainval.zip", "train/"),
        ("fairface-img-margin125-trainval.zip", "fairface-img-margin125-trainval/train/"),
        ("train.zip", "train/"),
        ("train.zip", ""),
    ],
)
def test_zipped_images(tmp_path: Path, name: str, inner: str) -> None:
    plain, zipped = written.fairface(tmp_path / "plain"), tmp_path / "zipped"
    zipped.mkdir()
    (plain / "fairface_label_train.csv").rename(zipped / "fairface_label_train.csv")
    pack(zipped / name, plain / "train", inner)
    reader = open_(zipped)
    rows = written.rows_of(reader)
    assert [row.id for row in rows] == [f"train/{n}.jpg" for n in range(1, 6)]
    assert dict(written.contents(reader, rows[1:3])) == {f"train/{n}.jpg": written.picture(n) for n in (2, 3)}


def test_one_split_zipped_and_the_other_not(tmp_path: Path) -> None:
    written.fairface(tmp_path, 2)
    other = written.fairface(tmp_path / "other", 2, "val")
    pack(tmp_path / "val.zip", other / "val")
    (other / "fairface_label_val.csv").rename(tmp_path / "fairface_label_val.csv")
    reader = open_(tmp_path)
    assert len(dict(written.contents(reader, written.rows_of(reader)))) == 4


def test_which_images_is_asked_where_several_fit(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    pack(tmp_path / "padding025.zip", tmp_path / "train", "train/")
    with pytest.raises(
        ValueError, match=r"several hold the split 'train'.*padding025\.zip; say which with 'images'"
    ):
        open_(tmp_path)
    assert len(written.rows_of(open_(tmp_path, images="padding025.zip"))) == 5
    assert len(written.rows_of(open_(tmp_path, images="."))) == 5


def test_where_images_were_looked_for_is_said(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    (tmp_path / "train").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"looked for a folder 'train', 'train\.zip'"):
        open_(tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        open_(tmp_path, folder="nowhere")
    with pytest.raises(ValueError, match="does not exist; give a folder or a zip"):
        open_(tmp_path, images="nowhere.zip")


def test_a_file_that_is_not_there_is_named_with_its_row(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    (tmp_path / "train/3.jpg").unlink()
    rows, remarks = written.split_up(open_(tmp_path))
    assert [row.row for row in rows] == [2, 3, 5, 6]
    assert [str(remark) for remark in remarks] == [
        "fairface_label_train.csv, row 4: train/3.jpg is not in " + tmp_path.name
    ]
    assert remarks[0].reason is Reason.MISSING_FILE


def test_a_file_that_goes_away_before_it_is_read_is_a_remark(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    (tmp_path / "train/1.jpg").unlink()
    found = {row.id: content for row, content in reader.images(rows)}
    assert "train/1.jpg cannot be read" in str(found.pop("train/1.jpg"))
    assert all(isinstance(content, bytes) for content in found.values())


def test_the_same_rows_wherever_the_data_set_lies(tmp_path: Path) -> None:
    written.fairface(tmp_path / "a")
    written.fairface(tmp_path / "b/c")
    assert written.rows_of(open_(tmp_path / "a")) == written.rows_of(open_(tmp_path / "b", folder="c"))


def test_the_licence_names_those_who_made_it() -> None:
    assert "CC BY 4.0" in LICENCE and "Joo" in LICENCE


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="no fairface_sample beside the project")
def test_the_sample_beside_the_project() -> None:
    reader = open_(SAMPLE.parent, folder=SAMPLE.name)
    rows = written.rows_of(reader)
    assert len({tuple(sorted(row.labels.items())) for row in rows}) == 84
    assert len(dict(written.contents(reader, rows))) == len(rows)
