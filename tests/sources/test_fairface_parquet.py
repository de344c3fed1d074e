from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from stillme.core.errors import ConfigIssuesError
from stillme.sources import Reason, RowIssue
from stillme.sources.fairface_parquet import Settings, Shards, read
from tests.sources import written


def open_(place: Path, **settings: object) -> Shards:
    return read(Settings.model_validate({"folder": ".", **settings}), place, written.vocabulary())


def test_shards_as_hugging_face_hosts_them(tmp_path: Path) -> None:
    written.shard(tmp_path / "0.25/train-00000-of-00002-d405faba4f4b9b85.parquet", 10)
    written.shard(tmp_path / "0.25/train-00001-of-00002-dd3cb68164727418.parquet", 3, start=11)
    written.shard(tmp_path / "0.25/validation-00000-of-00001-951dbd63c8724ee1.parquet", 2)
    reader = open_(tmp_path, config="0.25")
    rows = written.rows_of(reader)
    assert [row.id for row in rows] == [f"train/{n}.jpg" for n in range(1, 14)] + ["val/1.jpg", "val/2.jpg"]
    assert rows[11].annotated == written.labels(12)
    assert (rows[11].file, rows[11].row) == ("train-00001-of-00002-dd3cb68164727418.parquet", 2)
    assert rows[2].labels == {"age": "20s", "gender": "female", "race": "white"}
    drawn = [rows[n] for n in (12, 0, 5, 3, 14)]
    assert dict(written.contents(reader, drawn)) == {
        "train/1.jpg": written.picture(1),
        "train/4.jpg": written.picture(4),
        "train/6.jpg": written.picture(6),
        "train/13.jpg": written.picture(13),
        "val/2.jpg": written.picture(2),
    }


@pytest.mark.parametrize(
    "names",
    [
        ("data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet"),
        ("train-00000-of-00001.parquet", "val.parquet"),
        ("0.25/train/0000.parquet", "0.25/validation/0000.parquet"),
        ("fairface-train.parquet", "fairface-val.parquet"),
    ],
)
def test_other_places_of_shards(tmp_path: Path, names: tuple[str, str]) -> None:
    written.shard(tmp_path / names[0], 3, paths=None)
    written.shard(tmp_path / names[1], 2, paths=None)
    rows = written.rows_of(open_(tmp_path))
    assert [row.split for row in rows] == ["train"] * 3 + ["val"] * 2
    assert len({row.id for row in rows}) == 5
    assert [row.split for row in written.rows_of(open_(tmp_path, splits=["val"]))] == ["val"] * 2


def test_one_file(tmp_path: Path) -> None:
    written.shard(tmp_path / "faces.parquet", 3, paths=None)
    rows = written.rows_of(open_(tmp_path, folder="faces.parquet"))
    assert [(row.id, row.split) for row in rows] == [("faces#1", ""), ("faces#2", ""), ("faces#3", "")]


def test_which_config_is_asked_where_there_are_two(tmp_path: Path) -> None:
    for config in ("0.25", "1.25"):
        written.shard(tmp_path / config / "train-0.parquet", 2)
    with pytest.raises(ValueError, match=r"holds 0\.25 and 1\.25; say which"):
        open_(tmp_path)
    assert len(written.rows_of(open_(tmp_path, config=1.25))) == 2  # as YAML reads it without quotes
    assert len(written.rows_of(open_(tmp_path, folder="1.25", config="1.25"))) == 2
    with pytest.raises(ValidationError, match=r"'2\.5' is not a config of FairFace; known: 0\.25, 1\.25"):
        open_(tmp_path, config=2.5)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere does not exist"):
        open_(tmp_path, folder="nowhere")
    with pytest.raises(ValueError, match=r"holds no shards of these splits; looked for train-\*\.parquet, val-"):
        open_(tmp_path)
    with pytest.raises(ValueError, match=r"has no folder '0\.25'"):
        open_(tmp_path, config="0.25")
    with pytest.raises(ValueError, match="'hair' is not a thing that a column can hold; known: image, race"):
        open_(tmp_path, columns={"hair": "hair"})


def test_class_names_come_from_the_file_before_the_protocol(tmp_path: Path) -> None:
    other = {**written.CLASSES, "race": tuple(reversed(written.RACES))}
    written.shard(tmp_path / "train-0.parquet", 7, classes=other)
    turned = [row.annotated["race"] for row in written.rows_of(open_(tmp_path))]
    written.shard(tmp_path / "train-0.parquet", 7, declared=False)
    plain = [row.annotated["race"] for row in written.rows_of(open_(tmp_path))]
    assert plain == [written.labels(n)["race"] for n in range(1, 8)]
    assert turned == [other["race"][written.RACES.index(race)] for race in plain]


def test_labels_as_words_and_other_columns(tmp_path: Path) -> None:
    words = {"ethnicity": ["White", "Black"], "race": None, "age": ["34", "more than 70"], "gender": ["F", "M"]}
    written.shard(tmp_path / "train-0.parquet", 2, columns=words)
    rows = written.rows_of(open_(tmp_path, columns={"race": "ethnicity"}))
    assert [dict(row.labels) for row in rows] == [
        {"age": "30s", "gender": "female", "race": "white"},
        {"age": "70plus", "gender": "male", "race": "black"},
    ]


def test_images_as_plain_bytes(tmp_path: Path) -> None:
    written.shard(tmp_path / "train-0.parquet", 3, columns={"image": [written.picture(n) for n in (1, 2, 3)]})
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    assert [row.id for row in rows] == ["train-0#1", "train-0#2", "train-0#3"]
    assert dict(written.contents(reader, rows[1:])) == {
        "train-0#2": written.picture(2),
        "train-0#3": written.picture(3),
    }


@pytest.mark.parametrize("path", ["/data/fairface/1.jpg", "../1.jpg", "C:\\faces\\1.jpg", None, ""])
def test_a_name_that_says_something_of_a_machine_is_no_id(tmp_path: Path, path: str | None) -> None:
    written.shard(tmp_path / "train-0.parquet", 2, paths=[path, "2.jpg"])
    assert [row.id for row in written.rows_of(open_(tmp_path))] == ["train-0#1", "train/2.jpg"]


def test_images_of_one_name_are_told_apart(tmp_path: Path) -> None:
    written.shard(tmp_path / "train-0.parquet", 3, paths=["image.jpg"] * 3)
    assert [row.id for row in written.rows_of(open_(tmp_path))] == ["train/image.jpg", "train-0#2", "train-0#3"]


def test_a_class_that_is_missing_and_one_that_does_not_exist(tmp_path: Path) -> None:
    written.shard(tmp_path / "train-0.parquet", 4, columns={"race": [0, -1, None, 3]})
    rows, remarks = written.split_up(open_(tmp_path))
    assert [row.row for row in rows] == [1, 4]
    assert [(remark.row, remark.reason) for remark in remarks] == [
        (2, Reason.MISSING_LABEL),
        (3, Reason.MISSING_LABEL),
    ]
    written.shard(tmp_path / "train-0.parquet", 4, columns={"age": [3, 34, 4, 5]})
    with pytest.raises(
        ConfigIssuesError, match=r"train-0\.parquet:2: age: 'class 34' is not a known label \(1 row\)"
    ):
        list(open_(tmp_path).rows())


def test_a_shard_without_images_lists_its_columns(tmp_path: Path) -> None:
    written.shard(tmp_path / "train-0.parquet", 2, columns={"image": None, "img": [b"1", b"2"]})
    written.shard(tmp_path / "train-1.parquet", 2, columns={"image": ["1.jpg", "2.jpg"]})
    with pytest.raises(ConfigIssuesError) as error:
        open_(tmp_path)
    assert (
        "has no column 'image' (did you mean 'img'?); columns found: age, gender, race, service_test, img"
        in str(error.value)
    )
    assert "the column 'image' holds string; image files as bytes are needed" in str(error.value)
    (tmp_path / "train-1.parquet").unlink()
    assert len(written.rows_of(open_(tmp_path, columns={"image": "img"}))) == 2


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "train-0.parquet").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    whole = written.shard(tmp_path / "train-1.parquet").read_bytes()
    (tmp_path / "train-1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigIssuesError) as error:
        open_(tmp_path)
    assert len(error.value.faults) == 2
    assert "train-0.parquet: is not a Parquet file, or not a whole one" in str(error.value)


def test_an_image_that_is_not_in_the_shard(tmp_path: Path) -> None:
    empty = [{"bytes": None, "path": "1.jpg"}, {"bytes": b"", "path": "2.jpg"}, None]
    written.shard(tmp_path / "train-0.parquet", 3, columns={"image": empty})
    reader = open_(tmp_path)
    found = [content for _, content in reader.images(written.rows_of(reader))]
    assert [content.reason for content in found if isinstance(content, RowIssue)] == [Reason.MISSING_FILE] * 3
    assert "train/1.jpg has no image in the shard, only labels" in str(found[0])


def spoil(path: Path, group: int, column: str) -> None:
    """Overwrites one column of one row group, as a bad disk would."""
    parts = pq.ParquetFile(path).metadata.row_group(group)
    chunk = next(c for c in (parts.column(n) for n in range(parts.num_columns)) if c.path_in_schema == column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)


def test_a_broken_row_group_costs_its_own_rows_only(tmp_path: Path) -> None:
    path = written.shard(tmp_path / "train-0.parquet", 10, group=4)
    spoil(path, 1, "race")
    rows, remarks = written.split_up(open_(tmp_path))
    assert [row.row for row in rows] == [1, 2, 3, 4, 9, 10]
    assert [(remark.row, remark.reason) for remark in remarks] == [(row, Reason.CORRUPT) for row in (5, 6, 7, 8)]
    assert "row group 1 cannot be read" in remarks[0].said


def test_broken_images_of_a_row_group_cost_themselves_only(tmp_path: Path) -> None:
    path = written.shard(tmp_path / "train-0.parquet", 10, group=4)
    spoil(path, 1, "image.bytes")
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    found = {row.row: content for row, content in reader.images(rows)}
    assert [row for row, content in found.items() if isinstance(content, bytes)] == [1, 2, 3, 4, 9, 10]
    assert all(isinstance(found[n], RowIssue) for n in (5, 6, 7, 8))


def test_labels_are_read_without_the_images(tmp_path: Path) -> None:
    path = written.shard(tmp_path / "train-0.parquet", 10, group=4)
    for group in range(3):
        spoil(path, group, "image.bytes")
    assert len(written.rows_of(open_(tmp_path))) == 10


def test_images_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """One row group of 80 MB, as some tools write a whole file: a page and a few images of it are held."""
    large = [b"\xff" * 100 + bytes([n % 256]) * 1_000_000 for n in range(80)]
    columns: dict[str, Any] = {"image": large, **{word: [n % 2 for n in range(80)] for word in written.CLASSES}}
    how: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_batch_size": 4}
    pq.write_table(pa.table(columns), tmp_path / "train-0.parquet", **how)
    del columns
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    before = pa.total_allocated_bytes()
    most = 0
    for row, content in reader.images(rows):
        assert content == large[row.row - 1]
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 50_000_000


def test_a_column_of_images_that_ends_early_leaves_no_row_unanswered(tmp_path: Path) -> None:
    path = written.shard(tmp_path / "train-0.parquet", 10, group=10, write=written.PLAIN)
    written.cut_short(path, "image.bytes", 10)
    reader = open_(tmp_path)
    rows = written.rows_of(reader)
    found = {row.row: content for row, content in reader.images(rows)}
    assert sorted(found) == list(range(1, 11))
    lost = [found[row] for row in range(6, 11)]
    assert [one.reason for one in lost if isinstance(one, RowIssue)] == [Reason.CORRUPT] * 5
    assert "train/6.jpg cannot be read from row group 0: the column of images ends before this row" in str(lost[0])


def test_a_split_that_was_asked_for_and_is_not_there(tmp_path: Path) -> None:
    written.shard(tmp_path / "train-0.parquet", 2)
    assert len(written.rows_of(open_(tmp_path))) == 2, "by default, those that are there"
    with pytest.raises(ValueError, match=r"holds no shards of these splits; looked for val-\*\.parquet"):
        open_(tmp_path, splits=["train", "val"])
