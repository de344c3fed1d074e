"""Ensembles of a whole run: found together for every rounding, they are what each rounding finds alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from stillme.analysis.frames import ROUNDINGS, ensembles, tidy
from stillme.judges.ensemble import combine
from stillme.ledger import Run, frames
from stillme.plan.design import load_design


def test_every_rounding_is_what_it_is_alone(finished: Path) -> None:
    with Run.open_readonly(finished / "run") as run:
        design = load_design(run)
        found = tidy(run, design)
        asked = frames.trial_axis_frame(design.config.protocol, found.edits)
    assert tuple(found.scores) == ROUNDINGS
    for rounding in ROUNDINGS:
        alone = combine(found.judged, rounding).drop("neutral")
        both = asked.drop("edit_status").join(alone, on=["trial", "axis"], how="left", maintain_order="left")
        assert found.scores[rounding].equals(both.select(found.scores[rounding].columns))


def test_what_nobody_judged_is_missing_and_in_its_place(finished: Path) -> None:
    with Run.open_readonly(finished / "run") as run:
        found = tidy(run, load_design(run))
        asked = frames.trial_axis_frame(load_design(run).config.protocol, found.edits)
    some = found.judged.filter(pl.col("axis") != "skin_tone")
    for _, frame in ensembles(asked, some):
        assert frame.select("trial", "axis").equals(asked.select("trial", "axis"))
        lost = frame.filter(pl.col("axis") == "skin_tone")
        assert lost["score"].is_null().all() and set(lost["standing"]) == {"missing"} and lost["judges"].sum() == 0
        kept = frame.filter(pl.col("axis") != "skin_tone")
        whole = found.scores["half_even"].filter(pl.col("axis") != "skin_tone")
        assert kept["mean"].equals(whole["mean"]) and kept.schema == whole.schema


def test_keys_and_labels_are_strings_and_scores_whole_numbers(finished: Path) -> None:
    """What `stillme export` writes: whoever reads the files relies on it."""
    with Run.open_readonly(finished / "run") as run:
        found = tidy(run, load_design(run))
    for frame in (found.judged, *found.scores.values()):
        kinds = dict(frame.schema)
        assert all(kinds[name] == pl.String for name in ("trial", "edit", "person", "editor", "axis", "race"))
        assert kinds["score"] == kinds["neutral"] == kinds["seed"] == pl.Int64 and kinds["requested"] == pl.Boolean
    assert found.judged.schema["rank"] == pl.Int64 and found.judged.schema["status"] == pl.String
