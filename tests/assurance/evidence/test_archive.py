"""Bundles of strangers: nothing in a zip reaches outside, nothing that it claims is believed."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from stillme.assurance.evidence import archive, manifest
from stillme.assurance.evidence.archive import open_bundle, pack
from stillme.core.errors import InputError

ABOUT = {"stillme": "0", "name": "a", "run": "r", "protocol": "p", "protocol_hash": "h", "preset": "default"}
ABOUT_ALL = {**ABOUT, "faces": "show", "images": False}


def zipped(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "../out.txt",
        "a/../../out.txt",
        "/etc/passwd",
        "C:\\out.txt",
        "..\\out.txt",
        "a\\b.txt",
        "C:out.txt",
        "a\nb",
    ],
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    entry = zipfile.ZipInfo("x")
    entry.filename = name  # the constructor would mend it
    path = zipped(tmp_path / "b.zip", (entry, b"gotcha"))
    with pytest.raises(InputError, match="leads out of the bundle"), open_bundle(path):
        pass
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["b.zip"]


def test_a_link_is_refused(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("report.html")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    path = zipped(tmp_path / "b.zip", (entry, b"/etc/passwd"))
    with pytest.raises(InputError, match="is a link"), open_bundle(path):
        pass


def test_a_link_in_a_folder_is_named_and_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    made = manifest.write_manifest(folder, ABOUT_ALL)
    (folder / "b.txt").symlink_to("/etc/passwd")
    (folder / "c").symlink_to("/etc")
    with open_bundle(folder) as files:
        assert set(files.sizes()) == {"a.txt", manifest.FILE}
        said = [str(one) for one in manifest.check_files(made, files)]
    assert said == ["b.txt: is a link or no plain file", "c: is a link or no plain file"]


def test_sizes_that_cannot_be_true_are_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.zip", ("ledger.sqlite", b"\0" * (120 * 2**20)))
    assert path.stat().st_size < 2**18
    with pytest.raises(InputError, match="125,829,120 bytes unpacked"), open_bundle(path):
        pass


def test_a_file_that_is_larger_than_it_says_is_not_written_whole(tmp_path: Path) -> None:
    with open_bundle(zipped(tmp_path / "b.zip", ("a", b"x" * 3_000_000))) as files:
        with pytest.raises(InputError, match="a is larger than it says"):
            archive.unpack(files, "a", tmp_path / "a", 1_000_000)
    assert (tmp_path / "a").stat().st_size <= 1_000_000


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zipped(tmp_path / "b.zip", ("a.txt", b"1"), ("a.txt", b"2"))
    with pytest.raises(InputError, match="more than once"), open_bundle(path):
        pass
    path = zipped(tmp_path / "c.zip", ("a.txt", b"1"), ("A.TXT", b"2"))
    with pytest.raises(InputError, match="more than once"), open_bundle(path):
        pass


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 50])
def test_what_is_no_zip_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"), open_bundle(path):
        pass
    with pytest.raises(InputError, match="neither a bundle"), open_bundle(tmp_path / "nothing.zip"):
        pass


def test_damage_inside_a_file_is_named(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip", ("a.txt", bytes(range(256)) * 40))
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    with open_bundle(path) as files, pytest.raises(InputError, match=r"a\.txt is damaged"):
        archive.content(files, "a.txt")


def test_the_same_files_give_the_same_bytes_whenever_they_are_packed(tmp_path: Path) -> None:
    for name, order in (("one", "ab"), ("two", "ba")):
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        for letter in order:
            (folder / "sub" / letter).write_text(letter * 1000)
        pack(folder, tmp_path / f"{name}.zip")
    (tmp_path / "one/sub/a").touch()
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_bundle_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a").write_text("a")
    target = tmp_path / "b.zip"
    target.write_bytes(b"the old one")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Exception, match="is full"):
        pack(folder, target)
    assert target.read_bytes() == b"the old one"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.zip", "f"]


def test_a_manifest_names_what_is_missing_added_renamed_and_changed(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for name in ("gone", "old-name", "changed", "grown"):
        (folder / name).write_text(name)
    made = manifest.write_manifest(folder, ABOUT_ALL)
    (folder / "gone").unlink()
    (folder / "old-name").rename(folder / "new-name")
    (folder / "changed").write_text("CHANGED")
    (folder / "grown").write_text("grown more")
    with open_bundle(folder) as files:
        said = [str(one) for one in manifest.check_files(made, files)]
    assert [one.split(": ")[0] for one in said] == ["gone", "old-name", "new-name", "changed", "grown"]
    assert "not in the bundle" in said[0] and "not listed" in said[2] and "has 10 bytes, and 5" in said[4]


def test_a_manifest_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    for content, said in ((b"{", "cannot be read"), (b'{"bundle": 2}', "bundle"), (b"[]", "cannot be read")):
        path = zipped(tmp_path / "b.zip", (manifest.FILE, content))
        with open_bundle(path) as files, pytest.raises(InputError, match=said):
            manifest.read_manifest(files)
    with (
        open_bundle(zipped(tmp_path / "c.zip", ("x", b""))) as files,
        pytest.raises(InputError, match="is no bundle"),
    ):
        manifest.read_manifest(files)
