"""Tables and archives as people have them: every flaw gets a sentence with file and row, and the rest is read."""

from __future__ import annotations

import csv
import io
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from stillme.core.errors import ConfigIssuesError
from stillme.sources import Reason, RowIssue, files
from stillme.sources.fairface import FairFace, Settings, read
from stillme.sources.files import FileProblem, open_files, safe_member_name
from stillme.sources.tables import MAX_LINE_CHARS, SEPARATORS, open_table
from tests.sources import written


def open_(place: Path) -> FairFace:
    return read(Settings(folder="."), place, written.vocabulary())


def table(tmp_path: Path, content: bytes | str, columns: tuple[str, ...] = ("file", "race")) -> list[object]:
    path = tmp_path / "labels.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(open_table(path, columns).rows())


# CSV


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=8),
    separator=st.sampled_from(SEPARATORS),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    ending=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
)
def test_any_table_that_was_written_is_read_back(
    tmp_path: Path, rows: list[tuple[str, str, str]], separator: str, quoting: int, ending: str, encoding: str
) -> None:
    # A bare carriage return ends a line, as old Macs have it, unless it is quoted; this writer may leave it bare.
    assume(
        ending == "\r\n" or quoting != csv.QUOTE_MINIMAL or not any("\r" in word for row in rows for word in row)
    )
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, quoting=quoting, lineterminator=ending).writerows(  # type: ignore[arg-type]
        [("file", "a note", "race"), *rows]
    )
    path = tmp_path / "labels.csv"
    path.write_bytes(buffer.getvalue().encode(encoding))
    found = list(open_table(path, ("race", "file")).rows())
    assert all(isinstance(one, tuple) for one in found)
    assert [(one[1]["file"], one[1]["race"]) for one in found if isinstance(one, tuple)] == [
        (first, last) for first, _, last in rows
    ]
    starts = [one[0] for one in found if isinstance(one, tuple)]
    assert starts == sorted(set(starts)) and all(start > 1 for start in starts)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_are_rows_and_remarks_or_a_sentence(tmp_path: Path, content: bytes) -> None:
    for start in (b"", b"file,race\n"):
        try:
            found = table(tmp_path, start + content)
        except ConfigIssuesError as error:
            assert "labels.csv" in str(error)
        else:
            assert all(isinstance(one, tuple | RowIssue) for one in found)


def test_row_numbers_are_those_of_an_editor_of_text(tmp_path: Path) -> None:
    content = 'file,note,race\n1.jpg,"two\nlines",White\n\n2.jpg,,Black\r\n3.jpg,"a ""b"" c",Indian'
    assert table(tmp_path, content) == [
        (2, {"file": "1.jpg", "race": "White"}),
        (5, {"file": "2.jpg", "race": "Black"}),
        (6, {"file": "3.jpg", "race": "Indian"}),
    ]


def test_line_endings_of_old_macs(tmp_path: Path) -> None:
    assert table(tmp_path, "file,race\r1.jpg,White\r") == [(2, {"file": "1.jpg", "race": "White"})]


def test_a_byte_order_mark_and_another_separator(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    path = tmp_path / "fairface_label_train.csv"
    written.write_csv(path, written.listed(range(1, 6)), encoding="utf-8-sig", delimiter=";")
    assert len(written.rows_of(open_(tmp_path))) == 5


def test_a_row_of_another_length_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    found = table(tmp_path, "file,race\n1.jpg\n2.jpg,White\n3.jpg,White,x\n")
    assert [str(one) for one in found if isinstance(one, RowIssue)] == [
        "labels.csv, row 2: the row has 1 fields and the header 2",
        "labels.csv, row 4: the row has 3 fields and the header 2",
    ]
    assert (3, {"file": "2.jpg", "race": "White"}) in found


def test_a_quote_without_its_partner_costs_rows_that_are_all_counted(tmp_path: Path) -> None:
    found = table(
        tmp_path, 'file,race\n1.jpg,White\n2.jpg,"White\n3.jpg,Black\n4.jpg,Indian\n5.jpg,"Black"\n6.jpg,Black\n'
    )
    assert [one[0] for one in found if isinstance(one, tuple)] == [2, 7]
    remarks = [one for one in found if isinstance(one, RowIssue)]
    assert [(one.row, one.reason) for one in remarks] == [(row, Reason.BAD_ROW) for row in (3, 4, 5, 6)]
    assert "begins in row 3" in str(remarks[1])
    open_end = table(tmp_path, 'file,race\n1.jpg,"White\n2.jpg,Black\n')
    assert [one.row for one in open_end if isinstance(one, RowIssue)] == [2, 3]


def test_wrong_columns_are_listed_with_a_near_match(tmp_path: Path) -> None:
    written.fairface(tmp_path)
    header = ("File", "age", "gender", "ethnicity", "service_test")
    written.write_csv(tmp_path / "fairface_label_train.csv", written.listed([1]), header)
    with pytest.raises(ConfigIssuesError) as error:
        open_(tmp_path)
    assert "has no column 'file' (did you mean 'File'?)" in str(error.value)
    assert (
        "has no column 'race'; columns found: File, age, gender, ethnicity, service_test; wanted: file, age, gender, race"
    ) in str(error.value)
    assert str(tmp_path / "fairface_label_train.csv") in str(error.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; a table begins with the names of its columns"),
        (b"\n\n", "is empty"),
        (b"file,race,race\n", "has the column 'race' more than once"),
        (
            b"file,race\n1.jpg,White\n2.jpg,Caf\xe9\n",
            "labels.csv:3: is not UTF-8 text from this line on; save it as CSV",
        ),
        ("file,race\n".encode("utf-16"), "labels.csv:1: is not UTF-8 text"),
        (b"file\0,race\n", "holds NUL characters"),
        (
            b"file,race\n" + b"x" * (MAX_LINE_CHARS + 5),
            "labels.csv:2: has a line of more than 1,000,000 characters",
        ),
    ],
)
def test_a_table_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ConfigIssuesError) as error:
        table(tmp_path, content)
    assert said in str(error.value)


def test_a_nul_costs_its_row_only(tmp_path: Path) -> None:
    found = table(tmp_path, "file,race\n1.jpg,Wh\0ite\n2.jpg,White\n")
    assert isinstance(found[0], RowIssue) and found[0].row == 2 and "NUL" in found[0].said
    assert found[1] == (3, {"file": "2.jpg", "race": "White"})


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigIssuesError, match="does not exist"):
        open_table(tmp_path / "labels.csv", ("file",))
    with pytest.raises(ConfigIssuesError, match="is a folder, not a table"):
        open_table(tmp_path, ("file",))


def test_a_parquet_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "labels.parquet").write_text("file,race\n")
    with pytest.raises(ConfigIssuesError, match="is not a Parquet file"):
        open_table(tmp_path / "labels.parquet", ("file",))
    pq.write_table(pa.table({"file": ["1.jpg"], "rase": ["White"]}), tmp_path / "labels.parquet")
    with pytest.raises(
        ConfigIssuesError, match=r"no column 'race' \(did you mean 'rase'\?\); columns found: file, rase"
    ):
        open_table(tmp_path / "labels.parquet", ("file", "race"))


# Labels, through a reader


def test_unknown_labels_of_all_lists_are_told_at_once(tmp_path: Path) -> None:
    written.fairface(tmp_path, 3)
    written.fairface(tmp_path, 3, "val")
    wrong = written.listed([1, 2, 3])
    wrong[1][3] = "Martian"
    written.write_csv(tmp_path / "fairface_label_train.csv", wrong)
    wrong = written.listed([1, 2, 3], "val")
    wrong[0][1], wrong[2][3] = "aged", "Martian"
    written.write_csv(tmp_path / "fairface_label_val.csv", wrong)
    rows = open_(tmp_path).rows()
    with pytest.raises(ConfigIssuesError) as error:
        list(rows)
    assert "fairface_label_train.csv:3: race: 'Martian' is not a known label (2 rows); known: White" in str(
        error.value
    )
    assert "fairface_label_val.csv:2: age: 'aged' is not a known label (1 row)" in str(error.value)


def test_a_list_with_every_small_flaw_is_read_to_its_end(tmp_path: Path) -> None:
    written.fairface(tmp_path, 6)
    rows = written.listed(range(1, 7))
    rows[0][0] = "../secret.jpg"
    rows[1][0] = "/etc/passwd"
    rows[2][0] = ""
    rows[3][3] = ""
    rows.append(rows[4])
    written.write_csv(tmp_path / "fairface_label_train.csv", rows)
    (tmp_path.parent / "secret.jpg").write_bytes(b"x")
    kept, remarks = written.split_up(open_(tmp_path))
    assert [row.id for row in kept] == ["train/5.jpg", "train/6.jpg"]
    assert [(remark.row, remark.reason) for remark in remarks] == [
        (2, Reason.MISSING_FILE),
        (3, Reason.MISSING_FILE),
        (4, Reason.BAD_ROW),
        (5, Reason.MISSING_LABEL),
        (8, Reason.LISTED_TWICE),
    ]
    assert "'../secret.jpg' leads out of the image folder and is not read" in str(remarks[0])


# Folders and archives


@given(st.text(max_size=20))
def test_no_name_leads_out(name: str) -> None:
    found = safe_member_name(name)
    assume(found is not None)
    assert found is not None
    assert not (Path("/a/b") / found).is_absolute() or str(Path("/a/b") / found).startswith("/a/b")
    assert ".." not in found.split("/") and "\0" not in found and safe_member_name(found) == found


@pytest.mark.parametrize(
    "name", ["../1.jpg", "a/../../1.jpg", "/1.jpg", "\\\\host\\1.jpg", "C:\\1.jpg", "c:1.jpg", "", ".", "a\0"]
)
def test_names_that_are_refused(name: str) -> None:
    assert safe_member_name(name) is None


def test_names_from_other_systems() -> None:
    assert safe_member_name("train\\1.jpg") == safe_member_name("./train//1.jpg") == "train/1.jpg"


def only(path: Path, name: str) -> bytes | FileProblem:
    ((_, content),) = open_files(path).read([name])
    return content


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_IMAGE_BYTES", 1000)
    (tmp_path / "1.jpg").write_bytes(b"x" * 1001)
    (tmp_path / "2.jpg").write_bytes(b"x" * 1000)
    found = only(tmp_path, "1.jpg")
    assert isinstance(found, FileProblem) and found.reason is Reason.TOO_LARGE
    assert only(tmp_path, "2.jpg") == b"x" * 1000


def zipped(path: Path, content: bytes = b"x" * 5000, packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as packed:
        packed.writestr("1.jpg", content)
        packed.writestr("2.jpg", b"fine")
    return path


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_IMAGE_BYTES", 1000)
    path = zipped(tmp_path / "a.zip")
    told = open_files(path).flaw("1.jpg")
    assert told is not None and told.reason is Reason.TOO_LARGE
    assert open_files(path).flaw("2.jpg") is None


def test_a_size_that_an_archive_declares_is_not_trusted(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", b"x" * 5_000_000)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<L", 5_000_000), struct.pack("<L", 10)))
    found = only(path, "1.jpg")
    assert isinstance(found, FileProblem) and found.reason is Reason.CORRUPT
    assert only(path, "2.jpg") == b"fine"


def test_a_broken_member_costs_itself_only(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", b"0123456789" * 10, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"01234", b"0x234", 1))
    found = only(path, "1.jpg")
    assert isinstance(found, FileProblem) and "1.jpg cannot be unpacked: Bad CRC-32" in found.message
    assert only(path, "2.jpg") == b"fine"


def test_packings_without_a_bound_are_not_read(tmp_path: Path) -> None:
    found = only(zipped(tmp_path / "a.zip", packing=zipfile.ZIP_LZMA), "1.jpg")
    assert isinstance(found, FileProblem) and "pack the zip with 'deflate'" in found.message


def test_an_encrypted_member_is_said(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip")
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flags] |= 1
    path.write_bytes(content)
    found = only(path, "1.jpg")
    assert isinstance(found, FileProblem) and "1.jpg is encrypted in a.zip" in found.message


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06"])
def test_a_zip_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.zip is neither a folder nor a whole zip"):
        open_files(tmp_path / "a.zip")


def test_a_zip_that_is_cut_off(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="is neither a folder nor a whole zip"):
        open_files(path)


def test_a_name_that_is_damaged_costs_its_member_only(tmp_path: Path) -> None:
    path = tmp_path / "faces.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("é.jpg", b"one")
        packed.writestr("b.jpg", b"two")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff", 1))  # in the member's own header
    found = dict(open_files(path).read(["é.jpg", "b.jpg"]))
    assert isinstance(found[0], FileProblem) and found[0].reason is Reason.CORRUPT and found[1] == b"two"


def test_a_parquet_table_that_ends_early_says_how_much_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    words = {"file": [f"{number}.jpg" for number in range(10)], "race": ["White"] * 10}
    pq.write_table(pa.table(words), path, compression="none", use_dictionary=False)
    for column in words:
        written.cut_short(path, column, 10)
    *rows, last = open_table(path, words).rows()
    assert [one[0] for one in rows if isinstance(one, tuple)] == [1, 2, 3, 4, 5]
    assert isinstance(last, RowIssue) and (last.row, last.reason) == (6, Reason.CORRUPT)
    assert "row group 0 ends here; 5 more rows were to come" in last.said
