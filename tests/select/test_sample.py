"""Sampling through the real reader and store: what is drawn, what is skipped and why, and that nothing is lost."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stillme.errors import FaultsError, InputError
from stillme.images import LARGEST_PIXELS
from stillme.progress import Progress
from stillme.select import flow, words
from stillme.select.sample import Sampled
from stillme.select.store import Store
from tests.select import data
from tests.select.data import KEYS, Spoil


def sample(file: Path, pools: int | None = None, strict: bool = False) -> Sampled:
    return flow.sample(file, pools, strict, Progress())


def drawn(folder: Path) -> list[tuple[int, str, str]]:
    with Store.look(folder) as store:
        return [(one.pool, one.cell, one.portrait.source_id) for one in store.candidates()]


def saved(picture: Image.Image, **how: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, **{"format": "JPEG", "quality": 92, **how})  # type: ignore[arg-type]
    return buffer.getvalue()


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_one_candidate_a_cell_and_pool(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, copies=3))
    found = sample(file)
    assert found.candidates == 8 and found.shorts == [] and found.reasons == {}
    assert sorted((pool, cell) for pool, cell, _ in drawn(tmp_path / "work")) == [
        (pool, cell) for pool in (1, 2) for cell in sorted(KEYS)
    ]
    assert "Every cell has all its candidates." in words.sampled(found, flow.plan(file).grid, file)


def test_candidates_keep_where_they_come_from(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS))
    sample(file, pools=1)
    with Store.look(tmp_path / "work") as store:
        one = next(c for c in store.candidates() if c.cell == "black-female-60s")
        assert (one.portrait.source_id, one.file, one.row) == ("train/4.jpg", "fairface_label_train.csv", 5)
        assert one.portrait.labels == {"race": "black", "gender": "female", "age": "60s"}
        assert one.annotated == {"race": "Black", "gender": "Female", "age": "60-69"}
        assert (one.portrait.source, one.portrait.split, one.seed) == ("FairFace", "train", 1)
        assert "CC BY 4.0" in one.portrait.licence
        assert store.image(one.portrait.image) == (tmp_path / "f/train/4.jpg").read_bytes()


def test_a_second_time_there_is_nothing_to_do_and_pools_can_be_added(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, copies=3))
    sample(file, pools=1)
    first = drawn(tmp_path / "work")
    assert not sample(file, pools=1).is_new and drawn(tmp_path / "work") == first
    assert sample(file, pools=3).candidates == 12
    assert drawn(tmp_path / "work")[:4] == first and len(drawn(tmp_path / "work")) == 12


def test_a_moved_data_set_is_the_same_one_and_other_settings_are_not(tmp_path: Path) -> None:
    first = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, copies=2))
    sample(first, pools=1)
    shutil.move(tmp_path / "f", tmp_path / "elsewhere")
    sample(data.selection(tmp_path / "s.yaml", tmp_path / "elsewhere"), pools=2)
    before = drawn(tmp_path / "work")
    other = data.selection(tmp_path / "s.yaml", tmp_path / "elsewhere", pools={"count": 2, "seed": 9})
    with pytest.raises(InputError, match="drawn with other settings"):
        sample(other)
    assert drawn(tmp_path / "work") == before
    assert flow.status(other).candidates == 8, "what was drawn can still be looked at, chosen from and exported"
    grid = {"axes": {"race": ["white"], "gender": ["female"], "age": ["20s", "60s"]}}
    with pytest.raises(InputError, match="another grid"):
        flow.status(data.selection(tmp_path / "s.yaml", tmp_path / "elsewhere", grid=grid))


def test_pools_are_not_added_to_a_data_set_that_changed(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, copies=2))
    sample(file, pools=1)
    table = tmp_path / "f/fairface_label_train.csv"
    gone = drawn(tmp_path / "work")[0][2]
    table.write_text("".join(x for x in table.read_text().splitlines(True) if not x.startswith(f"{gone},")))
    with pytest.raises(InputError, match="files have changed"):
        sample(file, pools=2)


def test_people_outside_the_grid_are_counted_and_not_drawn(tmp_path: Path) -> None:
    extra = [
        {"file": "train/1.jpg", "age": age, "gender": "Male", "race": "Indian", "service_test": ""}
        for age in ("3-9",)
    ]
    folder = data.fairface(tmp_path / "f", [*KEYS, "indian-male-20s"], extra=[{**extra[0], "file": "train/5.jpg"}])
    shutil.copy(folder / "train/5.jpg", folder / "train/6.jpg")
    table = folder / "fairface_label_train.csv"
    table.write_text(re.sub(r"^train/5.jpg,3-9", "train/6.jpg,3-9", table.read_text(), flags=re.M))
    found = sample(data.selection(tmp_path / "s.yaml", folder), pools=1)
    assert found.candidates == 4 and sum(found.outside.values()) == 2
    assert found.outside == {"race: Indian": 2}


def grey(content: bytes) -> bytes:
    return saved(opened(content).convert("L").convert("RGB"))


def cmyk(content: bytes) -> bytes:
    return saved(opened(content).convert("CMYK"))


def lying(content: bytes) -> bytes:
    picture = opened(content)
    exif = picture.getexif()
    exif[0x0112] = 6
    return saved(picture.transpose(Image.Transpose.ROTATE_90), exif=exif)


def animated(content: bytes) -> bytes:
    frames = [opened(content), opened(content).transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    return saved(frames[0], format="WEBP", save_all=True, append_images=frames[1:])


def bomb(_: bytes) -> bytes:
    return saved(Image.new("1", (40_000, 40_000)), format="PNG")


def tiny(content: bytes) -> bytes:
    return saved(opened(content).resize((64, 64)))


SKIPPED = {
    "corrupt": (lambda content: content[: len(content) // 2], "corrupt", "cannot be decoded"),
    "not an image": (lambda _: b"<html>not found</html>", "corrupt", "is not an image file"),
    "empty": (lambda _: b"", "corrupt", "is not an image file"),
    "a bomb": (bomb, "too_large", f"{LARGEST_PIXELS:,}"),
    "animated": (animated, "animated", "has 2 frames"),
    "without colour": (grey, "greyscale", "has no colour"),
    "grey file": (lambda content: saved(opened(content).convert("L")), "greyscale", "has no colour"),
    "too small": (tiny, "too_small", "64 × 64"),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_what_cannot_be_used_is_named_and_replaced(tmp_path: Path, name: str) -> None:
    spoil, reason, said = SKIPPED[name]
    folder = data.fairface(tmp_path / "f", KEYS, copies=2, spoil={"train/3.jpg": spoil})
    found = sample(data.selection(tmp_path / "s.yaml", folder))
    assert found.reasons == {reason: 1}
    assert str(found.remarks[0]).startswith("fairface_label_train.csv, row 4: the image train/3.jpg ")
    assert said in str(found.remarks[0])
    assert [(s.cell, s.drawn, s.wanted, s.listed, s.rejected) for s in found.shorts] == [
        ("black-female-20s", 1, 2, 2, 1)
    ]
    assert len(drawn(tmp_path / "work")) == 7, "the rest is read"
    shown = words.sampled(found, flow.plan(tmp_path / "s.yaml").grid, tmp_path / "s.yaml")
    assert "1 of 4 cells have fewer candidates" in shown and "1 of 2     2         1" in shown


@pytest.mark.parametrize(
    ("spoil", "reason", "said"), [(cmyk, "converted", "from CMYK"), (lying, "turned_upright", "EXIF")]
)
def test_what_can_be_mended_is_mended_and_said(tmp_path: Path, spoil: Spoil, reason: str, said: str) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, spoil={"train/2.jpg": spoil})
    plain = opened(data.fairface(tmp_path / "g", KEYS).joinpath("train/2.jpg").read_bytes())
    found = sample(data.selection(tmp_path / "s.yaml", folder), pools=1, strict=True)
    assert found.candidates == 4 and found.reasons == {reason: 1} and said in str(found.remarks[0])
    with Store.look(tmp_path / "work") as store:
        one = next(c for c in store.candidates() if c.portrait.source_id == "train/2.jpg")
        shown = opened(store.image(one.portrait.image))
        assert said in one.mended and shown.mode == "RGB" and shown.size == plain.size
        away = np.abs(np.asarray(shown, np.int16) - np.asarray(plain, np.int16)).mean()
        assert away < 6, "the same picture, upright"


def test_strict_turns_a_skip_into_an_error_and_changes_nothing(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, copies=2, spoil={"train/3.jpg": grey})
    file = data.selection(tmp_path / "s.yaml", folder)
    with pytest.raises(InputError, match=r"(?s)nothing was changed.*row 4: .*no colour.*black-female-20s: 1 of 2"):
        sample(file, strict=True)
    assert drawn(tmp_path / "work") == [] and list((tmp_path / "work/objects").rglob("*.jpg")) == []


def test_a_missing_file_is_named_and_the_rest_read(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, copies=2)
    (folder / "train/3.jpg").unlink()
    found = sample(data.selection(tmp_path / "s.yaml", folder))
    assert found.reasons == {"missing_file": 1} and found.candidates == 7
    assert "row 4" in str(found.remarks[0]) and "train/3.jpg" in str(found.remarks[0])


def test_copies_and_near_copies_are_left_out(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, copies=3)
    shutil.copy(folder / "train/1.jpg", folder / "train/5.jpg")
    mirrored = opened((folder / "train/2.jpg").read_bytes()).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    (folder / "train/6.jpg").write_bytes(saved(mirrored.resize((300, 300)), quality=70))
    found = sample(data.selection(tmp_path / "s.yaml", folder), pools=3)
    assert found.reasons == {"duplicate": 1, "near_duplicate": 1}
    ids = {name for _, _, name in drawn(tmp_path / "work")}
    assert len(ids & {"train/1.jpg", "train/5.jpg"}) == 1 and len(ids & {"train/2.jpg", "train/6.jpg"}) == 1
    assert {short.cell for short in found.shorts} == {"white-female-20s", "white-female-60s"}


def test_many_unusable_rows_do_not_shorten_a_pool(tmp_path: Path) -> None:
    """More than are kept in spare: the labels are read again, and the pool is full all the same."""
    bad = {f"train/{n}.jpg": (lambda _: b"nothing") for n in range(1, 117)}
    folder = data.fairface(tmp_path / "f", KEYS[:1], copies=120, spoil=bad)
    axes = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    found = sample(data.selection(tmp_path / "s.yaml", folder, grid={"axes": axes}))
    assert found.candidates == 2 and found.shorts == [] and found.reasons["corrupt"] > 32


def test_a_selection_that_was_never_sampled_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing was sampled yet"), Store.look(tmp_path):
        pass


def test_faults_in_the_file_are_named_all_at_once(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS[:1])
    file = data.selection(
        tmp_path / "s.yaml",
        folder,
        grid={"axes": {"race": ["whit"], "hair": "all", "gender": {"a": ["b"]}}},
        readers=[{"id": "a", "kind": "fairfase"}, {"id": "a", "kind": "fairface"}],
    )
    with pytest.raises(FaultsError) as caught:
        sample(file)
    said = str(caught.value)
    for part in (
        "'whit' is not a group",
        "'hair' is not a dimension",
        "list its groups",
        "'fairfase' is not a kind",
        "2 times",
    ):
        assert part in said
    assert not (tmp_path / "work").exists()


def test_an_axis_of_ones_own(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, copies=2)
    table = folder / "fairface_label_train.csv"
    rows = table.read_text().splitlines()
    spelled = [rows[0] + ",Hair"] + [f"{row},{'Long' if n % 2 else 'short '}" for n, row in enumerate(rows[1:])]
    (tmp_path / "labels.csv").write_text("\n".join(spelled))
    settings = {
        "folder": str(folder),
        "labels": str(tmp_path / "labels.csv"),
        "columns": {"file": "file", "race": "race", "hair": "Hair"},
        "licence": "ours",
    }
    axes = {"race": ["white", "black"], "hair": {"long_hair": ["long"], "short_hair": ["short"]}}
    file = data.selection(
        tmp_path / "s.yaml",
        folder,
        grid={"axes": axes},
        readers=[{"id": "x", "kind": "folder", "settings": settings}],
    )
    assert sample(file).candidates == 8
    assert {cell for _, cell, _ in drawn(tmp_path / "work")} == {
        f"{race}-{hair}" for race in ("white", "black") for hair in ("long_hair", "short_hair")
    }
