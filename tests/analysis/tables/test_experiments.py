"""Experiments go through the analysis too: arms of a table, and a run as it is, exported, or told by its folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from stillme import pipeline
from stillme.analysis import tables as analysing
from stillme.analysis.tables import Asked, whole
from stillme.engine.progress import Progress
from stillme.plan import config
from stillme.protocol import Protocol
from tests.conftest import dump_audit
from tests.plan.mitigation.simulated import cases, truth
from tests.plan.mitigation.simulated import scores as arms_of
from tests.test_experiments import SMALL


def test_arms_of_a_table_are_compared_and_a_choice_by_outcome_is_said(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "PARTS", (whole.PARTS[0], whole.PARTS[-1]))  # what there is, and experiments
    made = arms_of(protocol, truth(protocol), cases(protocol, 120, 0), 0)
    kept = made.filter(pl.col("axis").is_in(["race_drift", "edit_success"]))
    kept.write_parquet(tmp_path / "scores.parquet")
    found = analysing.analyse(Asked(tmp_path / "scores.parquet"), tmp_path / "out")
    tables = {one.id: one for one in found.tables}
    effect = tables["mitigation_effects"].frame.filter(arm="feature", against="baseline", axis="race_drift")
    assert effect["p_holm"][0] < 0.05 and effect["high"][0] < 0
    assert {"mitigation_no_worse", "mitigation_omnibus", "tradeoff_points", "treatment_tests"} <= set(tables)
    assert tables["mitigation_effects"].notes == () and "What each arm changes" in found.words()
    drifted = kept.filter(
        (pl.col("arm") == "baseline") & (pl.col("axis") == "race_drift") & (pl.col("score") >= 3)
    )
    keys = ["editor", "prompt", "person"]
    kept.join(drifted.select(keys), on=keys, how="semi").write_parquet(tmp_path / "chosen.parquet")
    chosen = analysing.analyse(Asked(tmp_path / "chosen.parquet"), tmp_path / "again")
    assert "chosen" in chosen.words()
    assert next(one for one in chosen.tables if one.id == "mitigation_effects").notes


@pytest.mark.slow
def test_a_run_and_its_exported_tables_give_the_same_numbers(tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", **SMALL)
    loaded = config.load(tmp_path / "audit.yaml")
    pipeline.run(loaded, Progress())
    pipeline.export(loaded.run, tmp_path / "tables", "parquet")
    pipeline.export(loaded.run, tmp_path / "texts", "csv")
    of_run = analysing.analyse(Asked(loaded.run), tmp_path / "one")
    of_files = analysing.analyse(Asked(tmp_path / "tables"), tmp_path / "two")
    of_texts = analysing.analyse(Asked(tmp_path / "texts"), tmp_path / "three")
    first, second, third = ({one.id: one.frame for one in some.tables} for some in (of_run, of_files, of_texts))
    assert "stereotype_gaps" in first and "mitigation_effects" in first and "judge_agreement" in first
    assert list(first) == list(second) == list(third)
    for name in (
        "outcomes_by_editor",
        "outcomes_by_race",
        "mitigation_effects",
        "stereotype_gaps",
        "judge_agreement",
    ):
        assert first[name].equals(second[name]) and first[name].equals(third[name]), name
    assert of_run.page.is_file() and not first["lint"].filter(severity="error").height
