"""`stillme analyse` on tables that anybody could bring: what it prints, what it writes, what it never says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.analysis import tables
from stillme.analysis.tables import Analysed, Asked, whole
from stillme.analysis.tables.saying import sentences
from stillme.cli import glossary
from stillme.core.errors import InputError
from stillme.protocol import Protocol
from tests.analysis.tables import scores
from tests.command import stillme

EVEN = [0.1] * 7
UNEVEN = [0.02, *[0.3] * 6]
AXES = ("race_drift", "skin_tone")


def analysed(path: Path, **more: Any) -> Analysed:
    return tables.analyse(Asked(path, **more), path.parent / "out")


def said(found: Analysed) -> str:
    return "\n".join(sentences(found.tables, found.inputs))


def table(found: Analysed, id: str) -> pl.DataFrame:
    return next(one.frame for one in found.tables if one.id == id)


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the models and resamplings, for what does not depend on them."""
    kept = ("what there is", "how often", "judges and people")
    monkeypatch.setattr(whole, "PARTS", tuple(part for part in whole.PARTS if part[0] in kept))


@pytest.mark.usefixtures("few_parts")
def test_the_published_counts_print_the_published_percentages(
    protocol: Protocol, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores.published(protocol).write_csv(tmp_path / "scores.csv")
    assert stillme("analyse", tmp_path / "scores.csv", "--to", tmp_path / "out") == 0
    out = capsys.readouterr().out
    written = pl.read_csv(tmp_path / "out/tables/outcomes_by_editor.csv")

    def percent(outcome: str, column: str) -> list[float]:
        rows = written.filter(outcome=outcome)
        return [round(100 * dict(zip(rows["editor"], rows[column], strict=True))[e], 1) for e in scores.COUNTS]

    assert percent("race_changed", "nominal_rate") == [13.4, 8.0, 9.2]
    assert percent("soft_erasure", "nominal_rate") == [6.2, 21.6, 3.0]
    assert percent("skin_lightened", "rate") == [70.7, 62.3, 67.2]
    printed = out[out.index("Outcomes by editor") :]
    lines = [line.replace("\xa0", " ").split() for line in printed.splitlines()]
    shown = {(" ".join(line[:2]), line[2]): line for line in lines if len(line) > 8 and line[2] in scores.COUNTS}
    assert [shown["Race changed", e][8] for e in scores.COUNTS] == ["13.4", "8.0", "9.2"]
    assert [shown["Soft erasure", e][8] for e in scores.COUNTS] == ["6.2", "21.6", "3.0"]
    assert [shown["Skin lightened", e][3] for e in scores.COUNTS] == ["70.7", "62.3", "67.2"]
    assert "5,040 edits, 10 without a score" in out
    page = (tmp_path / "out/analysis.md").read_text(encoding="utf-8")
    assert "### Outcomes by editor (as table 12)" in page and "tables/outcomes_by_editor.csv" in page
    about = json.loads((tmp_path / "out/analysis.json").read_text(encoding="utf-8"))
    assert about["seed"] == 0 and len(about["inputs"]["scores.csv"]) == 64


@pytest.fixture(scope="module")
def found(protocol: Protocol, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """Two editors: the first changes everyone's race but the reference group's, the second treats all alike."""
    folder = tmp_path_factory.mktemp("planted")
    judged = scores.planted(protocol, folder / "scores.parquet", [UNEVEN, EVEN], AXES, prompts=3)
    scores.rated(judged, 150).write_parquet(folder / "ratings.parquet")
    checks = [{"rater": f"{task}-{rater}", "check": f"c{n}", "passed": not (task == rater == 0)} for task in range(6) for rater in range(3) for n in range(4)]  # fmt: skip
    pl.DataFrame(checks).write_csv(folder / "checks.csv")
    return analysed(folder / "scores.parquet", ratings=folder / "ratings.parquet", checks=folder / "checks.csv")


def test_a_planted_disparity_is_named_and_the_even_editor_is_not(found: Analysed) -> None:
    told = said(found)
    assert "e1, race changed:" in told and "more often for everyone else than for perceived White" in told
    assert "e2, race changed: 0" not in told.split("max − min")[0]
    rows = table(found, "primary").filter(outcome="race_changed").sort("editor")
    assert rows["p_holm"][0] < 0.05 < rows["p_holm"][1]
    apart = table(found, "disparity_by_race").filter(outcome="race_changed").sort("editor")
    assert apart["gated"].to_list() == [True, False] and apart["low"][1] == 0 < apart["low"][0]
    assert apart["lowest_group"][0] == "white" and apart["disparity"][0] > apart["expected"][0]


def test_every_part_is_there_and_components_come_first(found: Analysed) -> None:
    ids = [one.id for one in found.tables]
    assert ids[:2] == ["design", "components"] and ids[-1] == "lint"
    wanted = {
        "outcomes_by_race", "primary", "equivalence", "disparity_by_race", "between_editors", "odds_by_equations", "signed_by_race",
        "seed_tests", "model_tests", "model_odds", "model_marginal", "thresholds", "scoring", "crossings", "missing_by_group", "bounds",
        "judge_agreement", "judge_functioning", "rater_verdicts", "reliability", "judges_raters_alignment", "judges_raters_functioning",
        "judges_raters_bounds", "corrected_rates", "corrected_contrasts", "ratings_missing",
    }  # fmt: skip
    assert wanted <= set(ids)
    assert "Variance components" in found.words() and "skin tone" in said(found).casefold()
    assert "unbiased" not in found.words()


def test_every_column_of_every_table_can_be_explained(found: Analysed, protocol: Protocol) -> None:
    known = glossary.vocabulary(protocol)
    spelled = {glossary.folded(name) for term in known for name in (term.name, *term.also)}
    columns = {column for one in found.tables for column in one.frame.columns}
    assert len(columns) > 150
    assert sorted(column for column in columns if glossary.folded(column) not in spelled) == []


def test_a_rater_who_fails_the_checks_is_removed_with_the_reason(found: Analysed) -> None:
    rater = table(found, "rater_verdicts").filter(rater="0-0").row(0, named=True)
    assert rater["verdict"] == "removed" and "0 attention checks passed, 4 needed" in rater["reasons"]
    samples = table(found, "reliability")
    assert set(samples["sample"]) == {"all", "kept"}
    kept = dict(samples.filter(axis="race_drift").select("sample", "raters").iter_rows())
    assert kept == {"all": 18, "kept": 17}
    for name in ("judges_raters_alignment", "corrected_contrasts"):
        assert set(table(found, name)["sample"]) == {"all", "kept"}, name


def assert_finite(found: Analysed) -> None:
    assert not table(found, "lint").filter(severity="error").height
    for one in found.tables:
        for column in one.frame.select(pl.col(pl.Float64)).iter_columns():
            assert column.drop_nulls().is_finite().all(), (one.id, column.name)


def test_our_own_tables_pass_lint_and_hold_no_nan(found: Analysed) -> None:
    assert_finite(found)
    written = "".join(path.read_text() for path in (found.page.parent / "tables").glob("*.csv"))
    assert "NaN" not in written and "inf" not in written.replace("informative", "").replace("infl", "")


def same_bytes_twice(protocol: Protocol, folder: Path) -> set[str]:
    """The names of the files of an analysis, which are the same when it is made again elsewhere."""
    contents = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        scores.planted(protocol, folder / name / "scores.parquet", [EVEN], ["skin_tone"], prompts=3)
        written = analysed(folder / name / "scores.parquet").page.parent.rglob("*")
        contents.append({path.name: path.read_bytes() for path in written if path.is_file()})
    assert contents[0] == contents[1]
    return set(contents[0])


@pytest.mark.slow
def test_the_same_table_and_seed_give_the_same_bytes(protocol: Protocol, tmp_path: Path) -> None:
    assert len(same_bytes_twice(protocol, tmp_path)) > 20


@pytest.mark.usefixtures("few_parts")
def test_counts_are_the_same_bytes_every_time(protocol: Protocol, tmp_path: Path) -> None:
    assert {"analysis.md", "analysis.json", "outcomes_by_race.csv"} <= same_bytes_twice(protocol, tmp_path)


ODD: dict[str, dict[str, Any]] = {
    "one group": {"race": "White"},
    "all missing": {"score": None},
    "all the same": {"score": 3},
    "one person": {"person": "p1", "race": "Black", "gender": "F"},
}
ODD_AND_SLOW: dict[str, dict[str, Any]] = {
    "one prompt": {"prompt": "O-01"},
    "one editor": {"model": "one"},
    "no gender or age": {"gender": None, "age": None},
    "prompts of their own": {"prompt": "make them fly"},
}


@pytest.mark.parametrize(
    "odd",
    [
        *(pytest.param(odd, id=name) for name, odd in ODD.items()),
        *(pytest.param(odd, id=name, marks=pytest.mark.slow) for name, odd in ODD_AND_SLOW.items()),
    ],
)
def test_tables_with_little_in_them_are_analysed_without_a_nan(odd: dict[str, Any], tmp_path: Path) -> None:
    rows = scores.rows(27, ("O-01", "V-08"), ("skin_tone", "race_drift"), **odd)
    unique = pl.DataFrame(rows, infer_schema_length=None).unique(
        ["model", "person", "prompt", "axis"], keep="first", maintain_order=True
    )
    unique.write_csv(tmp_path / "scores.csv")
    found = analysed(tmp_path / "scores.csv")
    assert_finite(found)
    assert found.words() and "nan" not in found.words().casefold().split()


def test_what_cannot_be_analysed_is_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="neither a ledger"):
        analysed(tmp_path / "folder")
    (tmp_path / "checks.csv").write_text("rater,check,passed\nr,c,yes\n")
    (tmp_path / "scores.csv").write_text("person,editor,prompt,axis,score,race\np,e,O-01,skin_tone,3,White\n")
    with pytest.raises(InputError, match="say nothing without ratings"):
        analysed(tmp_path / "scores.csv", checks=tmp_path / "checks.csv")
    with pytest.raises(InputError, match="'strict' is not a preset"):
        analysed(tmp_path / "scores.csv", preset="strict")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def with_ratings(protocol: Protocol, tmp_path: Path) -> dict[str, Path]:
    """Scores, and ratings of them by raters of whom one always gives the same answer."""
    judged = scores.planted(protocol, tmp_path / "scores.parquet", [EVEN], ["race_drift"], prompts=2)
    always = pl.when(pl.col("rater") == "0-0").then(1).otherwise(pl.col("score")).alias("score")
    scores.rated(judged, 60).with_columns(always).write_parquet(tmp_path / "ratings.parquet")
    return {"path": tmp_path / "scores.parquet", "ratings": tmp_path / "ratings.parquet"}


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize(("preset", "verdict"), [("default", "flagged"), ("paper", "removed")])
def test_the_preset_says_whether_straight_liners_are_removed(
    with_ratings: dict[str, Path], preset: str, verdict: str
) -> None:
    verdicts = table(analysed(**with_ratings, preset=preset), "rater_verdicts")
    assert verdicts.filter(rater="0-0")["verdict"].to_list() == [verdict]


@pytest.mark.usefixtures("few_parts")
def test_tables_of_an_earlier_analysis_do_not_stay(with_ratings: dict[str, Path]) -> None:
    files = analysed(**with_ratings).page.parent / "tables"
    (files / "mine.csv").write_text("kept")
    assert (files / "reliability.csv").is_file()
    analysed(with_ratings["path"])
    assert not (files / "reliability.csv").exists() and (files / "outcomes_by_editor.csv").is_file()
    assert (files / "mine.csv").read_text() == "kept", "only what an analysis wrote is taken away"
