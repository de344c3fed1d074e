"""Answers of raters from a study's export into the run and into its analysis: whole, once, and what they meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import update

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.inputs import Asked, gather
from stillme.analysis.tables.parts import preferences as part
from stillme.core.errors import ConfigIssuesError, InputError
from stillme.ledger import Run
from stillme.stats.preferences import preferences
from stillme.study import ratings as rated
from stillme.study.builder import Built
from stillme.study.builder.key import Key, path_of
from stillme.study.db import seats
from stillme.study.db.deal import Screen
from stillme.study.db.tables import answer, participant
from tests.studies import Raters, built

pytestmark = pytest.mark.usefixtures("tutorials_drawn_once")


@pytest.fixture
def run(studied: Path, tmp_path: Path) -> Path:
    """The run, for this test alone; its pictures are those of the original."""
    copy = tmp_path / "run"
    copy.mkdir()
    with Run.open_readonly(studied) as seen:
        seen.connection.execute("VACUUM INTO ?", (str(copy / "ledger.sqlite"),))
    (copy / "objects").symlink_to(studied / "objects")
    return copy


Open = Callable[..., tuple[Raters, Built]]


@pytest.fixture
def opened(run: Path, tmp_path: Path) -> Iterator[Open]:
    """Builds a bundle of a preset and opens its study."""
    every: list[Raters] = []

    def open_(preset: str, **more: object) -> tuple[Raters, Built]:
        made = built(run, tmp_path / preset, preset, **more)
        every.append(Raters(tmp_path, made))
        return every[-1], made

    yield open_
    for raters in every:
        raters.close()


def by_arm(key: Key, screen: Screen, output: str, question: str) -> str:
    """4 for the edit with the feature sentence, 2 for the plain one."""
    return "4" if key.outputs[output].arm == "feature" else "2"


def keeps_feature(key: Key, screen: Screen, output: str, question: str) -> str:
    """Always the edit with the feature sentence, wherever it stands; whoever asks for age cannot tell."""
    if question == "age":
        return "cannot_determine"
    feature = next(name for name in screen.order if key.outputs[name].arm == "feature")
    return screen.place[feature]


def test_ratings_reach_the_analysis_as_they_were_meant(run: Path, opened: Open) -> None:
    raters, made = opened("paper")
    raters.whole("anna", by_arm)
    raters.whole("bob", by_arm)
    taken = rated.take(run, raters.exported(), made.key)
    asked = len(made.bundle.items) * 2 * 5
    assert (taken.added, taken.known, taken.raters, taken.waiting) == (2 * asked, 0, 2, 0)
    inputs = gather(Asked(run))
    assert inputs.ratings is not None and inputs.ratings.height == 2 * asked
    assert set(inputs.ratings["answer"]) == {"scored"} and set(inputs.ratings["seconds"]) == {4.0}
    scores = dict(inputs.ratings.group_by("arm").agg(pl.col("score").unique()).iter_rows())
    assert scores == {"feature": [4], "baseline": [2]}, "left and right are undone, whoever saw what where"
    assert inputs.checks is not None and inputs.checks["passed"].all() and inputs.checks.height >= 6
    assert inputs.choices is None
    (table,) = part.build(Audit(inputs))
    found = {row["axis"]: row["difference"] for row in table.frame.to_dicts()}
    assert found["edit_success"] == 2.0 and found["skin_tone"] == 0.0, "4 and 2 are equally far from no change"
    assert found["race_drift"] == 2.0


def test_importing_again_adds_only_what_is_new(run: Path, opened: Open) -> None:
    raters, made = opened("paper")
    raters.whole("anna", by_arm)
    first = rated.take(run, raters.exported("csv"), made.key)
    again = rated.take(run, raters.exported("parquet"), made.key)
    assert (again.added, again.known, again.checks) == (0, first.added, 0)
    raters.whole("bob", by_arm)
    later = rated.take(run, raters.exported("csv"), made.key)
    assert (later.added, later.known) == (first.added, first.added)
    with Run.open_readonly(run) as seen:
        assert seen.query("SELECT count(*) FROM rating") == [(2 * first.added,)]
        assert made.key.read_text(encoding="utf-8") and "secret" not in next(iter(seen.studies().values()))


def test_whoever_is_not_done_waits_and_whoever_left_is_kept_apart(run: Path, opened: Open) -> None:
    raters, made = opened("paper")
    raters.whole("anna", by_arm)
    raters.rate(raters.sit("bob"), by_arm, items=2)
    gone = raters.sit("cleo")
    raters.rate(gone, by_arm, items=2)
    raters.desk.do(lambda c: seats.free(c, gone, "returned", raters.desk.now))
    taken = rated.take(run, raters.exported(), made.key)
    assert (taken.raters, taken.waiting) == (2, 1) and "1 raters may still go on" in taken.words()
    inputs = gather(Asked(run))
    assert inputs.ratings is not None and inputs.ratings["rater"].n_unique() == 1
    assert any("left before the end" in note for note in inputs.scores.notes)
    with Run.open_readonly(run) as seen:
        assert seen.query("SELECT count(DISTINCT rater) FROM rating WHERE sitting = 'returned'") == [(1,)]


def test_raters_left_out_withdrawn_or_taken_back_leave_the_analysis(run: Path, opened: Open) -> None:
    raters, made = opened("paper")
    sittings = [raters.whole(name, by_arm) for name in ("anna", "bob", "cleo")]
    rated.take(run, raters.exported(), made.key)

    def mark(excluded: str | None) -> None:
        one = raters.desk.do(lambda c: seats.sit(c, sittings[0])).participant
        told = update(participant).where(participant.c.id == one).values(excluded=excluded, excluded_by="eve")
        raters.desk.do(lambda c: c.execute(told))

    def people() -> int:
        with Run.open_readonly(run) as seen:
            found = rated.imported(seen, seen.protocol()).ratings
        return 0 if found is None else found["rater"].n_unique()

    assert people() == 3
    mark("answered without looking")
    raters.desk.do(lambda c: seats.free(c, sittings[1], "withdrew", raters.desk.now))
    assert rated.take(run, raters.exported(), made.key).exclusions == 2
    assert people() == 1
    mark(None)
    assert rated.take(run, raters.exported(), made.key).exclusions == 1
    assert people() == 2


def test_a_changed_answer_is_refused_and_named(run: Path, opened: Open) -> None:
    raters, made = opened("exp1")
    raters.whole("anna", lambda *_: "3")
    rated.take(run, raters.exported(), made.key)
    raters.desk.do(lambda c: c.execute(update(answer).where(answer.c.field == "age_drift").values(value="5")))
    with pytest.raises(ConfigIssuesError, match="age_drift: the run has '3', this export has '5'"):
        rated.take(run, raters.exported(), made.key)
    ratings = gather(Asked(run)).ratings
    assert ratings is not None and set(ratings["score"]) == {3}, "nothing was overwritten"


def test_choices_are_counted_for_the_arm_that_was_meant(run: Path, opened: Open) -> None:
    raters, made = opened("exp2-pairwise")
    raters.whole("anna", keeps_feature)
    raters.whole("bob", keeps_feature)
    rated.take(run, raters.exported("csv"), made.key)
    inputs = gather(Asked(run))
    assert inputs.ratings is None and inputs.choices is not None
    items = len(made.bundle.items)
    found = {row["question"]: row for row in preferences(inputs.choices).to_dicts()}
    assert (found["identity"]["arm"], found["identity"]["against"]) == ("feature", "baseline")
    assert found["identity"]["chosen"] == 2 * items and found["identity"]["chosen_against"] == 0
    assert found["identity"]["share"] == 1.0
    assert found["age"]["cannot_determine"] == 2 * items and found["age"]["share"] is None
    tables = {table.id: table for table in part.build(Audit(inputs))}
    assert tables["preferences"].rows() and tables["preferences_by_editor"].frame["editor"].n_unique() == 2


def test_answers_about_occupations_are_kept_with_the_stereotype(run: Path, opened: Open) -> None:
    raters, made = opened("exp3")
    raters.whole("anna", lambda key, screen, output, question: "5" if question == "depiction" else "2")
    rated.take(run, raters.exported(), made.key)
    inputs = gather(Asked(run))
    assert inputs.ratings is None and inputs.answers is not None
    assert set(inputs.answers["stereotype"]) == {"male", "female"}
    (table,) = part.build(Audit(inputs))
    told = {(row["question"], row["value"]) for row in table.frame.to_dicts()}
    assert told == {
        ("depiction", "5"),
        *((word, "2") for word in ("gender_presentation", "typicality", "portrayal")),
    }


def test_an_interval_of_preferences_is_clustered_by_person() -> None:
    rows = [
        {
            "rater": f"r{rater}",
            "person": f"p{person}",
            "question": "q",
            "arm": "x",
            "against": "y",
            "chosen": chosen,
        }
        for person in range(10)
        for rater in range(6)
        for chosen in ["x" if person < 7 else "y"]
    ]
    (found,) = preferences(pl.DataFrame(rows)).to_dicts()
    assert found["share"] == pytest.approx(0.7) and found["persons"] == 10
    assert found["low"] < 0.45 and found["high"] > 0.85, "60 answers about 10 persons say what 10 answers do"


# What is refused


def doctored(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """The ratings of a CSV export, changed, with hashes that agree."""
    path = folder / "ratings.csv"
    change(pl.read_csv(path, infer_schema=False)).write_csv(path)
    told = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    (folder / "export.json").write_text(json.dumps({**told, "sha256": {}}), encoding="utf-8")


def test_every_fault_is_said_at_once_with_its_row(run: Path, opened: Open) -> None:
    raters, made = opened("exp1")
    raters.whole("anna", lambda *_: "3")
    folder = raters.exported("csv")
    odd = {"value": "9", "question": "weight", "task": "none", "ms": "soon"}

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        for row, (column, word) in enumerate(odd.items()):
            here = pl.int_range(frame.height) == row
            frame = frame.with_columns(pl.when(here).then(pl.lit(word)).otherwise(column).alias(column))
        return pl.concat([frame, frame[8:9]])

    doctored(folder, change)
    with pytest.raises(ConfigIssuesError) as error:
        rated.take(run, folder, made.key)
    said = str(error.value)
    assert "ratings.csv:2: value: '9' is not an answer to" in said
    assert "ratings.csv:3: question: the study does not ask 'weight'" in said
    assert "ratings.csv:4: task: the study has no task 'none'" in said
    assert "ratings.csv:5: ms: 'soon' is not a number" in said
    assert "is answered in row 10 already" in said
    with Run.open_readonly(run) as seen:
        assert seen.studies() == {}, "nothing was taken in"


def test_other_keys_runs_and_exports_are_refused(run: Path, opened: Open, finished: Path, tmp_path: Path) -> None:
    raters, made = opened("exp1")
    raters.whole("anna", lambda *_: "3")
    folder = raters.exported("csv")
    other = built(run, tmp_path / "other", "exp1", secret="t" * 64)
    with pytest.raises(InputError, match="the key is that of"):
        rated.take(run, folder, other.key)
    with pytest.raises(InputError, match="belongs to another run"):
        rated.take(finished / "run", folder, made.key)
    with pytest.raises(InputError, match="not an export"):
        rated.take(run, tmp_path, made.key)
    with pytest.raises(InputError, match="not a key file"):
        rated.take(run, folder, path_of(tmp_path / "nowhere"))
    with (folder / "ratings.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(InputError, match="changed after it was exported"):
        rated.take(run, folder, made.key)
