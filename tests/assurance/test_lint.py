"""`stillme lint`: the published tables, files that are none, and what a newcomer reads."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.command import stillme

PUBLISHED = Path(__file__).parents[2] / "src/stillme/protocol/files/published"
CHANGE = PUBLISHED / "table13_race_change_by_race_and_model.csv"
OUTCOMES = PUBLISHED / "table12_outcomes_by_model.csv"


run = partial(stillme, "lint")


def parts(out: str) -> dict[str, str]:
    """Table -> what is said of it, on one line."""
    blocks = [" ".join(block.split()) for block in out.strip().split("\n\n")]
    return {block.split(":")[0]: block for block in blocks}


def test_the_published_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PUBLISHED) == 2
    out = capsys.readouterr().out
    found = parts(out)
    change = found[CHANGE.name]
    assert change.startswith(f"{CHANGE.name}: 2 errors, 3 warnings")
    errors = [part.split(" WARNING")[0] for part in change.split(" ERROR, ")[1:]]
    assert "Step1X-Edit-v1p2: the mean of the 7 rows is 7.53" in errors[0] and "says 8.0" in errors[0]
    assert "Qwen-Image-Edit-2511: the mean of the 7 rows is 8.63" in errors[1] and "says 9.2" in errors[1]
    assert not any("FLUX" in error for error in errors)
    assert "FLUX.2-dev fits its total: the mean of the 7 rows is 13.46" in change and "says 13.4" in change
    for name, other in (
        ("table14_feature_prompt_delta_by_race.csv", "table19_race_drift_before_after.csv"),
        ("table19_race_drift_before_after.csv", "table14_feature_prompt_delta_by_race.csv"),
    ):
        assert found[name].startswith(f"{name}: passes checked")
        assert f"of {other} in all 7 rows" in found[name]
    assert out.rstrip().endswith("5 tables: 1 cannot be right as printed.")
    assert max(map(len, out.splitlines())) <= 100


def test_fourteen_of_21_percentages_are_not_possible(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(CHANGE, "--n", 240, "--json") == 0, "warnings alone are no error"
    found = json.loads(capsys.readouterr().out)
    rule = next(ran for ran in found["tables"][0]["ran"] if ran["rule"] == "attainable percentages")
    assert rule["checked"] == 21 and sum(len(finding["rows"]) for finding in rule["findings"]) == 14
    assert all("No n from 120 to 240" in finding["said"] for finding in rule["findings"])


def test_totals_from_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(CHANGE, "--totals", OUTCOMES) == 2
    assert "7.53" in capsys.readouterr().out
    assert run(CHANGE) == 0, "alone it contradicts nothing"


def test_a_table_of_our_own_in_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rates.parquet"
    frame = pl.DataFrame({"editor": ["a"], "asked": [20], "judged": [19], "missing": [1], "hits": [4]})
    frame.write_parquet(file)
    assert run(file) == 0
    assert capsys.readouterr().out.startswith("rates.parquet: passes")
    frame.with_columns(missing=pl.lit(3)).write_parquet(file)
    assert run(file) == 2
    assert "a has 20, and 19 + 3 = 22" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.csv", None, "There is no file"),
        ("page.html", b"<html>", "is neither CSV nor parquet"),
        ("bad.parquet", b"no parquet", "cannot be read as a table"),
        ("empty.csv", b"", "cannot be read as a table"),
        ("folder", None, "There is no table in"),
    ],
)
def test_what_is_no_table_is_a_sentence(
    tmp_path: Path, name: str, content: bytes | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    if name == "folder":
        path.mkdir()
    assert run(path) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("stillme: ") and told in errors
