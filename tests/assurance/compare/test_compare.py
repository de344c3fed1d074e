"""`stillme compare` as people call it: on runs, on tables, on audits under a budget, and on what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme import pipeline
from stillme.assurance import compare as versions
from stillme.assurance.compare import CompareOptions, ComparisonResult
from stillme.assurance.compare.inputs import find_incompatibilities, of_config
from stillme.assurance.compare.sequential import sizes
from stillme.cli import init
from stillme.cli import main as cli
from stillme.cli.render.release import render_versions
from stillme.core.errors import InputError
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.design import Design
from stillme.protocol import Protocol
from tests.assurance.compare.making import GROUPS, make_run, simulated, truth, write_audit

RATES = (0.1, 0.6)  # how often A and B erase


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("versions")
    return make_run(folder, RATES[0], "one"), make_run(folder, RATES[1], "two")


@pytest.fixture
def tables(tmp_path: Path, protocol: Protocol) -> tuple[Path, Path]:
    """Two tables of scores, as somebody else might bring them."""
    found = simulated(protocol, 1, {"race_drift": [[0.1], [0.4]]})
    paths = tmp_path / "a.parquet", tmp_path / "b.csv"
    found[0].write_parquet(paths[0])
    found[1].drop("trial", "category", "subcategory").write_csv(paths[1])
    return paths


def compare(a: Path, b: Path, budget: int | None = None, **more: Any) -> ComparisonResult:
    return versions.compare(CompareOptions(a, b, **more), budget, pipeline.run_partial_plan, Progress())


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *map(str, words)])
    assert ended.value.code == 0
    return capsys.readouterr().out


# Runs


def test_two_runs_show_the_planted_difference(runs: tuple[Path, Path]) -> None:
    found = compare(*runs)
    row = found.versions.outcomes.row(by_predicate=pl.col("outcome") == "soft_erasure", named=True)
    assert row["verdict"] == "worse" and row["persons"] == 24
    assert row["low"] < RATES[1] - RATES[0] < row["high"]
    assert found.matched_by == "the portrait's picture"
    told = " ".join(render_versions(found).split())
    assert "Soft erasure: B is worse" in told
    assert "no difference" not in told.replace("neither a difference nor its absence", "")


def test_what_is_printed_fits_a_terminal_and_what_is_written_is_whole(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, *runs, "--sequential", "--margin", 0.1, "--to", tmp_path / "out")
    assert max(map(len, out.splitlines())) <= 100
    assert "would have been decided after" in out and str(tmp_path / "out" / "compare.md") in out
    page = (tmp_path / "out/compare.md").read_text(encoding="utf-8")
    assert "B is worse" in page and "(tables/by_group.csv)" in page
    about = json.loads((tmp_path / "out/compare.json").read_text(encoding="utf-8"))
    for name in about["tables"]:
        csv, parquet = (tmp_path / "out/tables" / f"{name}{ending}" for ending in (".csv", ".parquet"))
        assert pl.read_csv(csv).height == pl.read_parquet(parquet).height
    plain = json.loads(said(capsys, *runs, "--json"))
    assert plain["endpoints"][0] == "soft_erasure" and plain["shared"]["persons"] == 24
    assert {"outcomes", "by_group", "flips"} <= set(plain["tables"])


def test_a_run_against_tables_that_were_exported_from_another(runs: tuple[Path, Path], tmp_path: Path) -> None:
    pipeline.export(runs[1], tmp_path / "exported", "csv")
    found = compare(runs[0], tmp_path / "exported")
    assert found.matched_by == "the portrait's picture" and found.shared.persons == 24
    assert found.versions.outcomes.equals(compare(*runs).versions.outcomes)
    assert any("taken on trust" in note for note in found.notes)


def test_exported_persons_without_a_picture_keep_their_names(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """The table of edits may say less than that of scores; nobody is taken for somebody else."""
    folder = tmp_path / "tables"
    pipeline.export(runs[1], folder, "csv")
    edits = pl.read_csv(folder / "edits.csv", infer_schema=False)
    people = edits["person"].unique(maintain_order=True)
    blank = pl.when(pl.col("person") != people[1]).then("source_image").alias("source_image")
    edits.filter(pl.col("person") != people[0]).with_columns(blank).write_csv(folder / "edits.csv")
    found = compare(runs[0], folder)
    assert found.shared.persons == len(people) - 2 == found.versions.people("soft_erasure").height
    assert (found.shared.persons_a, found.shared.persons_b) == (2, 2)


def test_two_editors_of_one_table_have_to_be_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.parquet"
    other = pl.read_csv(tables[1]).select("editor", "person", "prompt", "race", "axis", "score")
    pl.concat([pl.read_parquet(tables[0]).select(other.columns), other]).write_parquet(both)
    with pytest.raises(InputError, match=r"A has A, B; B has A, B.*--editor-a"):
        compare(both, both)
    with pytest.raises(InputError, match=r"same editor, A"):
        compare(both, both, editor_a="A")
    with pytest.raises(InputError, match=r"no editor 'C'.*Known: A, B"):
        compare(both, both, editor_a="C", editor_b="B")
    found = compare(both, both, editor_a="A", editor_b="B")
    assert found.shared.persons == 84


# Tables


def test_tables_of_scores_are_compared_by_their_persons(tables: tuple[Path, Path]) -> None:
    found = compare(*tables, outcomes=["race_changed"])
    assert found.matched_by == "the column `person`" and found.shared.persons == 84
    row = found.versions.outcomes.row(by_predicate=pl.col("outcome") == "race_changed", named=True)
    assert row["verdict"] == "worse" and row["p"] == row["p_holm"], "a family of one"


def test_what_is_not_shared_is_counted_and_said(tables: tuple[Path, Path], tmp_path: Path) -> None:
    frame = pl.read_parquet(tables[0])
    gone = frame["person"].unique(maintain_order=True)[:2].to_list()
    frame.filter(~pl.col("person").is_in(gone)).write_parquet(tmp_path / "fewer.parquet")
    told = render_versions(compare(tmp_path / "fewer.parquet", tables[1]))
    assert "Left out: 2 persons only in B." in told and "not missing alike" not in told


def test_a_version_that_refuses_more_is_told(tables: tuple[Path, Path], tmp_path: Path) -> None:
    frame = pl.read_parquet(tables[0])
    lost = pl.when(pl.col("race") == "black").then(None)
    refusing = frame.with_columns(lost.otherwise(pl.col(name)).alias(name) for name in ("score", "mean"))
    refusing.write_parquet(tmp_path / "refusing.parquet")
    told = " ".join(render_versions(compare(tmp_path / "refusing.parquet", tables[1])).split())
    assert "60 pairs without a score in A or in B and 12 persons without any such pair" in told
    assert "Scores are not missing alike (0 pairs have one in A alone, 60 in B alone" in told


# What does not fit


def test_no_shared_person_and_no_shared_prompt(tables: tuple[Path, Path], tmp_path: Path) -> None:
    frame, other = pl.read_parquet(tables[0]), tmp_path / "other.parquet"
    frame.with_columns(pl.col("person") + "-x").write_parquet(other)
    with pytest.raises(InputError, match=r"share no person: of 84 in A and 84 in B"):
        compare(other, tables[1])
    frame.with_columns(pl.col("prompt") + "-x").write_parquet(other)
    with pytest.raises(InputError, match=r"share no prompt"):
        compare(other, tables[1])


def test_a_run_without_a_judged_edit(runs: tuple[Path, Path], tmp_path: Path) -> None:
    loaded = config.load(write_audit(tmp_path, 0.1, "empty"))
    pipeline.run_partial_plan(loaded, Progress(), nothing)
    with pytest.raises(InputError, match=r"B \(.*empty-run\) has no judged edit by 'editor'. Go on"):
        compare(runs[0], loaded.run)


def nothing(design: Design) -> Design:
    return replace(design, trials=[])


def test_names_that_nobody_knows(runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist. Give a run"):
        compare(runs[0], tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"--outcome: .*soft_erasur.*soft_erasure"):
        compare(*runs, outcomes=["soft_erasur"])
    with pytest.raises(InputError, match=r"is an audit, not a run. Run it first"):
        compare(runs[0], write_audit(tmp_path, 0.1))
    with pytest.raises(InputError, match=r"A budget is for audits"):
        compare(*runs, budget=5)


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "preset": ({"preset": "paper"}, "presets differ (default and paper)"),
    "judges": (
        {"judges": [{"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.4}}]},
        "Other judges scored them, or the same with other settings",
    ),
    "disclosure": ({"judging": {"disclose": ["race"]}}, "told different things of the source person"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_runs_that_were_judged_otherwise_are_refused(what: str, tmp_path: Path) -> None:
    changes, sentence = DIFFERENT[what]
    a, b = write_audit(tmp_path, 0.1, "a"), write_audit(tmp_path, 0.2, "b", **changes)
    why = find_incompatibilities(of_config(config.load(a)), of_config(config.load(b)))
    assert any(sentence in one for one in why)
    with pytest.raises(InputError, match=r"cannot be compared.*--anyway"):
        compare(a, b, 100, sequential=True)
    assert not (tmp_path / "a-run").exists(), "nothing is spent on what cannot be compared"


def test_other_thresholds_are_refused_unless_told_otherwise(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "protocol"
    init.init(tmp_path / "audit.yaml", folder)
    rubrics = folder / "rubrics.yaml"
    text = rubrics.read_text(encoding="utf-8")
    line = "soft_erasure:     {label: Soft erasure, axis: edit_success, at_most: 2}"
    assert line in text
    rubrics.write_text(text.replace(line, line.replace("at_most: 2", "at_most: 3")), encoding="utf-8")
    pipeline.export(runs[1], tmp_path / "tables", "parquet")
    with pytest.raises(InputError, match=r"other thresholds .soft_erasure.*different protocols.*rubrics.yaml"):
        compare(runs[0], tmp_path / "tables", protocol=folder)
    told = said(capsys, runs[0], tmp_path / "tables", "--protocol", folder, "--anyway")
    assert "Compared anyway (--anyway)" in told and "other thresholds" in told


# Audits under a budget


def test_audits_are_run_until_it_is_decided(tmp_path: Path) -> None:
    a, b = write_audit(tmp_path, 0.02, "a"), write_audit(tmp_path, 0.95, "b")
    found = compare(a, b, 100, sequential=True)
    assert found.driven is not None and not found.driven.next_calls
    assert found.driven.calls == 2 * 2 * 8, "8 persons, an edit and a look each, in two runs"
    (watched,) = found.watched
    assert watched.verdict == "worse" and (watched.after or 99) <= 8
    told = " ".join(render_versions(found).split())
    assert "Stopped because it is decided: 32 of 100 calls, 8 of 24 persons." in told
    assert "95 % interval" not in told, "it does not hold where work stops by what is seen"
    assert made(tmp_path / "a-run") == made(tmp_path / "b-run") == 8
    again = compare(a, b, 100, sequential=True)
    assert again.driven is not None and again.driven.calls == 0, "a second time is a resume"


def test_a_budget_stops_before_it_is_passed(runs: tuple[Path, Path], tmp_path: Path) -> None:
    b = write_audit(tmp_path, RATES[0], "b", judging={"repeats": 0.5})
    found = compare(runs[0], b, 30, sequential=True)
    assert found.driven is not None
    assert [step.persons for step in found.driven.steps] == [8, 12] and found.driven.calls == 24
    assert found.driven.next_calls == 12, "six more persons, an edit and a look each"
    told = " ".join(render_versions(found).split())
    assert "Stopped by the budget: 24 of 30 calls, 12 of 24 persons; the next step would take 12 calls." in told
    assert "would be needed in all" in told
    assert made(tmp_path / "b-run") == 12
    waits = compare(runs[0], tmp_path / "b-run")
    assert any("use --sequential" in note for note in waits.notes)


def made(run: Path) -> int:
    with Run.open_readonly(run) as seen:
        return int(seen.query("SELECT count(*) FROM edit")[0][0])


def test_a_budget_that_is_too_small_spends_nothing(tmp_path: Path) -> None:
    a, b = write_audit(tmp_path, 0.1, "a"), write_audit(tmp_path, 0.2, "b")
    with pytest.raises(
        InputError, match=r"first step takes 32 calls, more than the budget of 31. Nothing was spent"
    ):
        compare(a, b, 31, sequential=True)
    assert not (tmp_path / "a-run").exists()


def test_audits_of_other_portraits_or_of_one_run_are_refused(tmp_path: Path) -> None:
    a = write_audit(tmp_path, 0.1, "a")
    groups = {**GROUPS, "race": ["latino"]}
    sources = [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}]
    b = write_audit(tmp_path, 0.2, "b", sources=sources)
    with pytest.raises(InputError, match=r"share no person: of 24 and 6 portraits"):
        compare(a, b, 100, sequential=True)
    same = write_audit(tmp_path, 0.2, "c", run="a-run")
    with pytest.raises(InputError, match=r"Both audits write to"):
        compare(a, same, 100, sequential=True)


@pytest.mark.slow
def test_two_editors_of_one_audit_are_run_together(tmp_path: Path) -> None:
    rows = {"old": 0.02, "new": 0.95, "idle": 0.5}
    editors = [{"id": n, "kind": "planted", "settings": {"truth": truth(r)}} for n, r in rows.items()]
    a = write_audit(tmp_path, 0.0, "a", editors=editors)
    found = compare(a, a, 100, sequential=True, editor_a="old", editor_b="new")
    assert found.driven is not None and found.driven.calls == 32, "the third editor is left alone"
    assert found.watched[0].verdict == "worse"


def test_steps_grow() -> None:
    assert list(sizes(84)) == [8, 12, 18, 27, 41, 62, 84]
    assert list(sizes(8)) == [8] and list(sizes(3)) == [3]
