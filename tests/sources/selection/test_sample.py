"""Sampling through the real reader and store: what is drawn, what is skipped and why, and that nothing is lost."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stillme.cli.render.selection import render_sample
from stillme.core.errors import ConfigIssuesError, InputError
from stillme.core.images import MAX_PIXELS
from stillme.engine.progress import Progress
from stillme.sources import heads
from stillme.sources.selection import flow
from stillme.sources.selection import sample as sampling
from stillme.sources.selection.pools import position
from stillme.sources.selection.sample import Sampled
from stillme.sources.selection.store import Store
from tests.command import stillme
from tests.sources import written
from tests.sources.selection import data, shelf
from tests.sources.selection.data import KEYS, Spoil


def sample(file: Path, pools: int | None = None, strict: bool = False) -> Sampled:
    return flow.sample(file, pools, strict, Progress())


def drawn(folder: Path) -> list[tuple[int, str, str]]:
    with Store.open_readonly(folder) as store:
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
    assert "Every cell has all its candidates." in render_sample(found, flow.plan(file).grid, file)


def test_candidates_keep_where_they_come_from(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS))
    sample(file, pools=1)
    with Store.open_readonly(tmp_path / "work") as store:
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
    return saved(Image.new("1", (12_000, 12_000)), format="PNG")


def tiny(content: bytes) -> bytes:
    return saved(opened(content).resize((64, 64)))


SKIPPED = {
    "corrupt": (lambda content: content[: len(content) // 2], "corrupt", "cannot be decoded"),
    "not an image": (lambda _: b"<html>not found</html>", "corrupt", "is not an image file"),
    "empty": (lambda _: b"", "corrupt", "is not an image file"),
    "a bomb": (bomb, "too_large", f"{MAX_PIXELS:,}"),
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
    shown = render_sample(found, flow.plan(tmp_path / "s.yaml").grid, tmp_path / "s.yaml")
    assert "1 of 4 cells have fewer candidates" in shown and "1 of 2     2         1" in shown


@pytest.mark.parametrize(
    ("spoil", "reason", "said"), [(cmyk, "converted", "from CMYK"), (lying, "turned_upright", "EXIF")]
)
def test_what_can_be_mended_is_mended_and_said(tmp_path: Path, spoil: Spoil, reason: str, said: str) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, spoil={"train/2.jpg": spoil})
    plain = opened(data.fairface(tmp_path / "g", KEYS).joinpath("train/2.jpg").read_bytes())
    found = sample(data.selection(tmp_path / "s.yaml", folder), pools=1, strict=True)
    assert found.candidates == 4 and found.reasons == {reason: 1} and said in str(found.remarks[0])
    with Store.open_readonly(tmp_path / "work") as store:
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
    with pytest.raises(InputError, match="nothing was sampled yet"), Store.open_readonly(tmp_path):
        pass


def test_faults_in_the_file_are_named_all_at_once(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS[:1])
    file = data.selection(
        tmp_path / "s.yaml",
        folder,
        grid={"axes": {"race": ["whit"], "hair": "all", "gender": {"a": ["b"]}}},
        readers=[{"id": "a", "kind": "fairfase"}, {"id": "a", "kind": "fairface"}],
    )
    with pytest.raises(ConfigIssuesError) as caught:
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


def broken(_: bytes) -> bytes:
    return b"nothing"


def test_pools_are_added_where_a_later_one_would_have_had_a_copy_first(tmp_path: Path) -> None:
    """The first of its cell is broken, and the next one shows what a candidate of a later cell shows."""
    first, second = sorted((1, 3), key=lambda number: position(1, f"fairface\0train/{number}.jpg"))
    keys = ("white-female-20s", "black-female-20s", "white-female-20s")
    folder = data.fairface(tmp_path / "f", keys, spoil={f"train/{first}.jpg": broken})
    shutil.copy(folder / f"train/{second}.jpg", folder / "train/2.jpg")
    axes = {"race": ["white", "black"], "gender": ["female"], "age": ["20s"]}
    file = data.selection(tmp_path / "s.yaml", folder, grid={"axes": axes})
    assert sample(file, pools=1).reasons == {"corrupt": 1, "duplicate": 1}
    before = drawn(tmp_path / "work")
    assert before == [(1, "white-female-20s", f"train/{second}.jpg")]
    sample(file, pools=2)
    assert drawn(tmp_path / "work") == before


def test_a_shard_that_ends_early_costs_the_rows_that_it_lacks(tmp_path: Path) -> None:
    pictures = [data.variant(heads.load(KEYS[0]), number) for number in range(8)]
    path = tmp_path / "shards/train-0.parquet"
    written.shard(path, 8, group=8, columns={"image": pictures}, write=written.PLAIN)
    written.cut_short(path, "image", 8)
    reader = {"id": "hf", "kind": "fairface_parquet", "settings": {"folder": str(path.parent)}}
    grid = {"axes": {"gender": "all"}}
    file = data.selection(tmp_path / "s.yaml", tmp_path, readers=[reader], grid=grid, pools={"count": 4})
    found = sample(file)
    assert found.reasons == {"corrupt": 4} and found.candidates == 4


def test_strict_holds_for_pools_that_were_drawn_before(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "f", KEYS, copies=2, spoil={"train/3.jpg": grey})
    file = data.selection(tmp_path / "s.yaml", folder)
    sample(file)
    with pytest.raises(InputError, match=r"(?s)row 4: .*no colour.*black-female-20s: 1 of 2"):
        sample(file, strict=True)


def test_strict_counts_what_it_does_not_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_QUOTED", 2)
    spoil: dict[str, Spoil] = {f"train/{number}.jpg": broken for number in range(1, 6)}
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, copies=2, spoil=spoil))
    with pytest.raises(InputError, match=r"and 3 more\n"):
        sample(file, strict=True)


def test_a_draw_that_was_refused_is_no_selection(tmp_path: Path) -> None:
    file = data.selection(tmp_path / "s.yaml", data.fairface(tmp_path / "f", KEYS, spoil={"train/3.jpg": grey}))
    with pytest.raises(InputError, match="nothing was changed"):
        sample(file, strict=True)
    for use in (
        lambda: flow.screen(file, Progress()),
        lambda: flow.select(file, ["anna"], "127.0.0.1", 0),
        lambda: flow.status(file),
        lambda: flow.export(file, tmp_path / "out", True, Progress()),
    ):
        with pytest.raises(InputError, match="nothing was sampled yet"):
            use()


def test_json_says_what_was_drawn_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = {"axes": {"race": ["white"], "gender": ["female"], "age": ["20s", "60s"]}}
    folder = data.fairface(tmp_path / "f", KEYS, spoil={"train/1.jpg": grey})
    file = data.selection(tmp_path / "s.yaml", folder, grid=grid, pools={"count": 1})
    for is_new in (True, False):
        assert stillme("sources", "sample", file, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["pools"], found["candidates"], found["is_new"]) == ({"1": 1}, 1, is_new)
        assert (found["outside"], found["reasons"]) == ({"race: Black": 2}, {"greyscale": 1})
        assert found["remarks"][0]["row"] == 2 and found["shorts"][0]["cell"] == "white-female-20s"
    with Store.open_for_writing(tmp_path / "work") as store:
        shelf.screen_all(flow.plan(file), store, {"train/2.jpg": ["frontal_face"]})
    assert stillme("sources", "screen", file, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["candidates"], found["statuses"], found["findings"]) == (1, {"ok": 1}, [])
    assert found["overall"]["frontal_face"] == [0, 1]
    rates = {(row["dimension"], row["group"], row["criterion"]): row["passed"] for row in found["rates"]}
    assert rates["age", "60s", "frontal_face"] == 0 and rates["age", "60s", "upright_posture"] == 1


def faces(folder: Path, number: int, **more: str) -> dict[str, object]:
    """A reader of a folder with the same names in every one, and other pictures."""
    spoil = {f"train/{place}.jpg": _another(key, number) for place, key in enumerate(KEYS, start=1)}
    data.fairface(folder, KEYS, spoil=spoil)
    columns = {word: word for word in ("file", "race", "gender", "age")}
    table = str(folder / "fairface_label_train.csv")
    settings = {"folder": str(folder), "labels": table, "columns": columns, "licence": "mine", **more}
    return {"id": f"faces{number}", "kind": "folder", "settings": settings}


def _another(key: str, number: int) -> Spoil:
    return lambda _: data.variant(heads.load(key), number)


def test_a_portrait_of_two_readers_counts_once_unless_each_names_its_data_set(tmp_path: Path) -> None:
    rows = [faces(tmp_path / "a", 1), faces(tmp_path / "b", 2)]
    found = sample(data.selection(tmp_path / "s.yaml", tmp_path, readers=rows))
    assert found.reasons == {"listed_twice": 4} and found.candidates == 4
    assert "train/1.jpg of a folder of portraits is listed by another reader already" in str(found.remarks[0])
    assert "'dataset'" in str(found.remarks[0])
    rows = [faces(tmp_path / "c", 1, dataset="ours"), faces(tmp_path / "d", 2, dataset="theirs")]
    (tmp_path / "named").mkdir()
    found = sample(data.selection(tmp_path / "named/s.yaml", tmp_path, readers=rows))
    assert found.reasons == {} and found.candidates == 8


def test_every_reader_takes_the_name_of_its_data_set(tmp_path: Path) -> None:
    data.fairface(tmp_path / "f", KEYS)
    written.shard(tmp_path / "hf/train-0.parquet", 2)
    rows = [
        {"id": kind, "kind": kind, "settings": {"folder": str(tmp_path / place), "dataset": f"{kind} of ours"}}
        for kind, place in (("fairface", "f"), ("fairface_parquet", "hf"))
    ]
    plan = flow.plan(data.selection(tmp_path / "s.yaml", tmp_path, readers=rows))
    assert [one.name for one in plan.readers.values()] == ["fairface of ours", "fairface_parquet of ours"]
