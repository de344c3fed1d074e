"""Frames of judges who look twice and of what their calls took, from rows written as the judging step does."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from stillme.core.records import Attempt, Edit, Status, Verdict
from stillme.ledger import Run, frames
from stillme.ledger.run import call_row, question_row
from stillme.protocol import Protocol
from tests.ledger.test_run import picture

AXES = ("edit_success", "skin_tone")
NONE: dict[str, int] = {}


def call(subject: str, status: Status = Status.OK, cost: float = 0.01) -> Attempt:
    return Attempt(subject, status, "2026-01-01T00:00:00.000+00:00", 0.5, cost)


def asked(*edits: tuple[str, str]) -> pl.DataFrame:
    """(trial, edit) on every axis, as `frames.trial_axis_frame` has them."""
    rows = [(trial, edit, f"person-{edit}", axis, "ok") for trial, edit in edits for axis in AXES]
    names = ("trial", "edit", "person", "axis", "edit_status")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def test_second_looks_stand_beside_the_first_and_a_missing_one_is_missing(
    tmp_path: Path, protocol: Protocol
) -> None:
    given = {"e1": (4, 5), "e2": (2, None), "e3": (None, 1)}
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        settings = run.add_settings("judge", {"model": "m"})
        for edit, scores in given.items():
            run.add_edit(Edit(edit, Status.OK, None), call(edit), None).result()
            for repeat, score in enumerate(scores):
                status = Status.OK if score else Status.REFUSED
                said = dict.fromkeys(AXES, score) if score else NONE
                verdict = Verdict(f"{edit}-{repeat}", edit, "j", settings, status, said, repeat=repeat)
                run.add_verdict(verdict, call(verdict.key)).result()
        looks, again = ([(f"{edit}-{n}", edit, "j") for edit in (*given, "e4")] for n in (0, 1))
        trials = asked(("t1", "e1"), ("again", "e1"), ("t2", "e2"), ("t3", "e3"), ("t4", "e4"), ("t5", "e5"))
        found = frames.repeats(run, protocol, trials, looks, again)
    assert found.filter(axis=AXES[0]).select("trial", "judge", "score", "score_again").rows() == [
        ("t1", "j", 4, 5),
        ("t2", "j", 2, None),
        ("t3", "j", None, 1),
        ("t4", "j", None, None),
    ], "an edit that two trials share counts once; one that nobody was to look at twice does not"
    assert found.height == 8 and found["person"].to_list()[:2] == ["person-e1"] * 2


def test_no_second_looks_are_an_empty_frame(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        found = frames.repeats(run, protocol, asked(("t1", "e1")), [("v", "e1", "j")], [])
    assert found.is_empty() and {"person", "judge", "score", "score_again"} <= set(found.columns)


def test_every_attempt_of_a_judge_is_counted_with_its_cost(tmp_path: Path, protocol: Protocol) -> None:
    """One call with two attempts and two verdicts, one call that failed so far, and a judge without calls."""
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        stored = run.store(picture(10))
        run.add_edit(Edit("e1", Status.OK, stored.sha256), call("e1", cost=5), stored).result()
        hosted, local = (run.add_settings("judge", {"model": model}) for model in ("hosted", "local"))
        verdicts = [Verdict(f"v{n}", "e1", "j", hosted, Status.REFUSED, NONE, call="c1") for n in range(2)]
        pixels = (stored.sha256, stored.sha256)
        rows = [question_row("q", {"text": "?"}), call_row("c1", "q", *pixels, 0)]
        run.add_verdicts(verdicts, [call("c1", Status.MALFORMED), call("c1", Status.REFUSED)], rows).result()
        run.add_verdicts([], [call("c2", Status.TIMEOUT, 0.04)], [call_row("c2", "q", *pixels, 1)]).result()
        free = Verdict("v9", "e1", "k", local, Status.REFUSED, NONE)
        run.add_verdict(free, call("v9", Status.REFUSED, 0)).result()
        found = {row["settings"]: row for row in frames.judge_calls(run).to_dicts()}
    assert found[hosted]["attempts"] == 3 and found[hosted]["cost_usd"] == pytest.approx(0.06)
    assert (found[local]["attempts"], found[local]["cost_usd"]) == (1, 0)
    assert len(found) == 2, "an editor's call is no judge's"


def test_every_judges_score_stands_where_it_was_asked_for(tmp_path: Path, protocol: Protocol) -> None:
    said: dict[str, dict[str, tuple[int | None, int | None]]] = {
        "a": {"e1": (4, 2), "e2": (1, 5)},
        "b": {"e1": (3, None)},
    }
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        settings = run.add_settings("judge", {"model": "m"})
        for edit in ("e1", "e2"):
            run.add_edit(Edit(edit, Status.OK, None), call(edit), None).result()
        for judge, given in said.items():
            for edit, pair in given.items():
                scores = {axis: score for axis, score in zip(AXES, pair, strict=True) if score is not None}
                verdict = Verdict(f"{judge}-{edit}", edit, judge, settings, Status.OK, scores)
                run.add_verdict(verdict, call(verdict.key)).result()
        trials = asked(("t1", "e1"), ("t2", "e2"), ("again", "e1"), ("t3", "e3")).with_columns(
            edit_status=pl.when(pl.col("edit") == "e3").then(pl.lit("refused")).otherwise("edit_status")
        )
        looks = [(f"{judge}-{edit}", edit, judge) for judge in said for edit in ("e1", "e2", "e3")]
        found = frames.judge_scores(run, protocol, trials, list(said), looks)
        nobody = frames.judge_scores(run, protocol, trials, [], [])
    assert found.select("trial", "axis", "rank", "judge", "score", "status").rows() == [
        (trial, axis, rank, judge, said[judge].get(edit, (None, None))[place], _ended(edit, judge))
        for trial, edit in (("t1", "e1"), ("t2", "e2"), ("again", "e1"), ("t3", "e3"))
        for place, axis in enumerate(AXES)
        for rank, judge in enumerate(said)
    ], "axis by axis, the primary judge first; trials that share an edit share its scores"
    assert "edit_status" not in found.columns
    assert nobody.is_empty() and nobody.schema == found.schema


def _ended(edit: str, judge: str) -> str:
    return "refused" if edit == "e3" else "pending" if (edit, judge) == ("e2", "b") else "ok"
