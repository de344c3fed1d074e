"""The ledger's rows as frames: one row each, in order, and what is missing stays missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from stillme.core.records import (
    CONTROLS,
    STEREOTYPE,
    Adjudication,
    Attempt,
    Depicted,
    Edit,
    Feature,
    Measurement,
    Portrait,
    Status,
    Trial,
    Verdict,
)
from stillme.ledger import Run, frames
from stillme.ledger.writer import RowInsert
from stillme.protocol import Protocol
from tests.ledger.test_run import picture

AT = "2026-01-01T00:00:00.000+00:00"


@pytest.fixture
def run(tmp_path: Path, protocol: Protocol) -> Iterator[Run]:
    with Run.open_for_writing(tmp_path / "r", protocol) as held:
        yield held


def trial(person: Portrait, prompt: str, experiment: str = "diagnose", **about: object) -> Trial:
    return Trial.of(
        person,
        experiment=experiment,
        arm="baseline",
        prompt=prompt,
        instruction=prompt,
        editor="e",
        settings="h",
        seed=7,
        about=about,
    )


def made(run: Run, edit: str, status: Status = Status.OK, code: str = "") -> None:
    call = Attempt(edit, status, AT, 0.5, 0.25, "said", code, "r1")
    run.add_edit(Edit(edit, status, None), call, None).result()


def person(race: str | None = "white") -> Portrait:
    labels = {"gender": "female", "age": "20s", **({"race": race} if race else {})}
    return Portrait.of("s", race or "unlabelled", f"image of {race}", labels)


def test_a_trial_is_a_row_with_its_prompts_kind_and_how_the_newest_call_ended(
    run: Run, protocol: Protocol
) -> None:
    people = [person(), person(None)]
    trials = [
        trial(people[0], "O-01"),
        trial(people[1], "O-01"),
        trial(people[0], "W-01", STEREOTYPE),
        trial(people[0], "no_op", CONTROLS),
    ]
    made(run, trials[0].edit)
    made(run, trials[1].edit, Status.INPUT_BLOCKED, "policy")
    run.add_attempt(Attempt(trials[2].edit, Status.RATE_LIMITED, AT, 0.1, code="429")).result()
    run.add_attempt(Attempt(trials[2].edit, Status.TIMEOUT, AT, 0.1)).result()
    found = frames.edits(run, protocol, trials, people)
    assert found["trial"].to_list() == [one.key for one in trials]
    columns = ("category", "subcategory", "race", "status", "last_status", "code", "stage")
    assert found.select(columns).rows() == [
        ("occupational", "authority", "white", "ok", "ok", "", ""),
        ("occupational", "authority", None, "input_blocked", "input_blocked", "policy", "input"),
        ("stereotype", "stereotype", "white", "pending", "timeout", "", ""),
        ("control", "control", "white", "pending", "", "", ""),
    ]


def test_what_was_measured_stands_beside_its_trial(run: Run, protocol: Protocol) -> None:
    people = [person(race) for race in ("white", "black", "indian", "latino")]
    trials = [trial(one, "O-01") for one in people]
    stored, settings = run.store(picture(10)), run.add_settings("measure", {})
    for number, one in enumerate(trials[:3]):
        status = Status.REFUSED if number == 2 else Status.OK
        call = Attempt(one.edit, status, AT, 0.5)
        run.add_edit(Edit(one.edit, status, stored.sha256 if number < 2 else None), call, stored).result()
    pair = (stored.sha256, stored.sha256)
    seen = Measurement("m1", *pair, "skin_tone", settings, Status.OK, {"shift": -2.5})
    unseen = Measurement("m2", *pair, "skin_tone", settings, Status.NO_FACE, {}, "no face")
    run.add_measurements([seen, unseen]).result()
    keys = {"skin_tone": {trials[0].key: "m1", trials[1].key: "m2"}, "change": {}}
    edits = frames.edits(run, protocol, trials, people)
    found = frames.measurements(run, edits, keys, {"skin_tone": ("shift", "spread"), "change": ("lpips",)})
    skin = ("skin_tone_status", "skin_tone_detail", "shift", "spread")
    assert found.columns == [*edits.columns, *skin, "change_status", "change_detail", "lpips"]
    assert found.select(skin).rows() == [
        ("ok", "", -2.5, None),
        ("no_face", "no face", None, None),
        ("refused", "", None, None),
        ("pending", "", None, None),
    ], "where there is no edit its own status says why; a figure that was not read is missing, not 0"
    assert found["change_status"].to_list() == ["pending", "pending", "refused", "pending"]


def test_whom_a_judge_saw(run: Run, protocol: Protocol) -> None:
    about: dict[str, object] = {"mode": "separate", "target": "cook", "other": "clerk", "stereotype": "male"}
    about |= {"pronoun": "he", "cue": "pro", "order": "first", "source": "female", "congruent": False}
    people = [person(race) for race in ("white", "black", "indian", "latino")]
    trials = [trial(one, "W-06", STEREOTYPE, **about) for one in people] + [trial(people[0], "O-01")]
    settings = run.add_settings("judge", {})
    for one in trials[:3]:
        made(run, one.edit)
    made(run, trials[3].edit, Status.REFUSED)
    crowd = (Depicted("cook", 2), Depicted("cook", 5), Depicted("cook", None), Depicted("clerk", 1))
    verdicts = [
        Verdict("v0", trials[0].edit, "j", settings, Status.OK, {}, people=crowd),
        Verdict("v1", trials[1].edit, "j", settings, Status.OK, {}),
    ]
    for verdict in verdicts:
        run.add_verdict(verdict, Attempt(verdict.key, Status.OK, AT, 0.5)).result()
    edits = frames.edits(run, protocol, trials, people)
    looks = [(f"v{number}", one.edit, "j") for number, one in enumerate(trials[:3])]
    found = frames.depicted(run, trials, edits, ["j"], looks)
    assert found.select("status", "people", "in_role", "unclear", "lowest", "highest").rows() == [
        ("ok", 4, 3, 1, 2, 5),
        ("ok", 0, 0, 0, None, None),
        ("pending", None, None, None, None, None),
        ("refused", None, None, None, None, None),
    ], "nobody was seen is a count; nobody has looked is none"
    assert found.select("target", "cue", "source_gender", "congruent").unique().rows() == [
        ("cook", "pro", "female", False)
    ]


def test_calls_features_decisions_and_truth(run: Run) -> None:
    stored, settings = run.store(picture(10)), run.add_settings("judge", {})
    call = Attempt("e1", Status.OK, AT, 0.5, 0.25, "said", "stop", "r1")
    run.add_edit(
        Edit("e1", Status.OK, stored.sha256, "", {"delta_l": 3.5, "strength": 1.0}), call, stored
    ).result()
    assert frames.attempts(run).rows() == [("e1", "ok", AT, 0.5, 0.25, "said", "stop", "r1")]
    assert frames.truth(run).rows() == [("e1", "delta_l", 3.5), ("e1", "strength", 1.0)]
    run.add_feature(Feature("f", stored.sha256, settings, Status.OK, {"eyes": "brown"}, ("woman",)), []).result()
    assert frames.features(run).rows() == [(stored.sha256, "ok", '{"eyes":"brown"}', '["woman"]', "")]
    assert frames.decisions(run).is_empty() and frames.decisions(run)["withdrawn"].dtype == pl.Boolean
    run.add_adjudication(Adjudication("e1", "O-01", "skin_tone", None, "anna", "too dark", AT)).result()
    assert frames.decisions(run).rows() == [("e1", "O-01", "skin_tone", None, False, "anna", "too dark", AT)]


def test_answers_of_raters_in_the_order_of_answering(run: Run) -> None:
    def rating(rater: str, question: str, seconds: float | None) -> RowInsert:
        about = ("s1", rater, "complete", "task", "item", "out", "t1", question, "scored")
        return RowInsert("rating", (f"{rater}-{question}", *about, "4", None, None, 1, 1, 800, seconds, 1))

    assert frames.ratings_frame(run).is_empty() and frames.rating_checks(run).is_empty()
    rows = [
        rating("r1", "late", 9.0),
        rating("r1", "untimed", None),
        rating("r1", "early", 2.0),
        rating("r0", "x", 1),
    ]
    checks = [RowInsert("rating_check", ("s1", "r1", name, "item", int(name == "one"))) for name in ("one", "two")]
    run.add_ratings([RowInsert("study", ("s1", AT, "paper", "paper", "{}")), *rows, *checks])
    found = frames.ratings_frame(run)
    assert found.select("rater", "question").rows() == [
        ("r0", "x"),
        ("r1", "early"),
        ("r1", "late"),
        ("r1", "untimed"),
    ], "an answer without a time comes last, not first"
    assert found.select("value", "ms", "at_seconds", "complete").row(1) == ("4", 800, 2.0, 1)
    assert frames.rating_checks(run).rows() == [("s1", "r1", "one", True), ("s1", "r1", "two", False)]
