"""`stillme sources init`: a selection that fits the data set, and goes through without a change where it can."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stillme.core.errors import ConfigIssuesError, InputError
from stillme.engine.progress import Progress
from stillme.sources.selection import config, flow
from tests.sources.selection import data


def reader(file: Path) -> dict[str, object]:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))["readers"][0]
    assert isinstance(found, dict)
    return found


def test_fairface_as_released_is_recognised_and_can_be_sampled(tmp_path: Path) -> None:
    data.fairface(tmp_path / "fairface", data.KEYS)
    file = config.init(tmp_path / "fairface", tmp_path / "selection.yaml")
    assert reader(file) == {"id": "fairface", "kind": "fairface", "settings": {"folder": "./fairface"}}
    plan = config.load(file)
    assert len(plan.grid.cells) == 84 and plan.selection.pools.seeds() == (1, 2, 3, 4, 5, 6, 7)
    found = flow.sample(file, 1, False, Progress())
    assert found.candidates == 4 and len(found.shorts) == 80


def test_parquet_shards_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "hf/1.25").mkdir(parents=True)
    (tmp_path / "hf/1.25/train-00000-of-00001.parquet").write_bytes(b"")
    assert reader(config.init(tmp_path / "hf", tmp_path / "s.yaml"))["kind"] == "fairface_parquet"


def test_names_in_utkfaces_manner_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "utk").mkdir()
    (tmp_path / "utk/34_1_0_20170109150557335.jpg.chip.jpg").write_bytes(b"")
    settings = reader(config.init(tmp_path / "utk", tmp_path / "s.yaml"))["settings"]
    assert isinstance(settings, dict) and settings["naming"] == "utkface"


def test_a_folder_with_a_table_asks_for_its_licence(tmp_path: Path) -> None:
    folder = data.fairface(tmp_path / "faces", data.KEYS)
    (folder / "fairface_label_train.csv").rename(folder / "people.csv")
    file = config.init(folder, tmp_path / "s.yaml")
    settings = reader(file)["settings"]
    assert isinstance(settings, dict) and settings["labels"] == "./faces/people.csv"
    with pytest.raises(ConfigIssuesError, match="licence"):
        config.load(file)
    file.write_text(file.read_text().replace('licence: ""', "licence: CC0 1.0"))
    assert flow.sample(file, 1, False, Progress()).candidates == 4


def test_nothing_is_overwritten_and_a_wrong_folder_is_named(tmp_path: Path) -> None:
    data.fairface(tmp_path / "fairface", data.KEYS[:1])
    file = config.init(tmp_path / "fairface", tmp_path / "s.yaml")
    before = file.read_text()
    with pytest.raises(InputError, match="exists already"):
        config.init(tmp_path / "fairface", file)
    with pytest.raises(InputError, match="There is no"):
        config.init(tmp_path / "fairfase", tmp_path / "t.yaml")
    assert file.read_text() == before and not (tmp_path / "t.yaml").exists()


@pytest.mark.parametrize("name", ["FairFace [0.25]", "a: b, {c}", 'say "ah" #1', "überall", "2024"])
def test_any_name_of_a_folder_is_written_so_that_it_is_read(tmp_path: Path, name: str) -> None:
    data.fairface(tmp_path / name, data.KEYS[:1])
    file = config.init(tmp_path / name, tmp_path / "2024.yaml")
    assert reader(file)["settings"] == {"folder": f"./{name}"}
    assert config.load(file).selection.name == "2024"


def test_a_table_in_a_folder_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "faces, [all]").mkdir()
    (tmp_path / "faces, [all]/people: #1.csv").write_text("file\n")
    settings = reader(config.init(tmp_path / "faces, [all]", tmp_path / "s.yaml"))["settings"]
    assert isinstance(settings, dict)
    assert (settings["folder"], settings["labels"]) == ("./faces, [all]", "./faces, [all]/people: #1.csv")
