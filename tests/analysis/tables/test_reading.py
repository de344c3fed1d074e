"""Tables that other people made: read as they are meant, or every fault said with its row, and nothing guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stillme.analysis.tables.files import Given, read
from stillme.analysis.tables.ratings import read_checks, read_ratings
from stillme.analysis.tables.reading import AS_GIVEN, read_scores
from stillme.core.errors import ConfigIssuesError, InputError
from stillme.protocol import Protocol
from tests.analysis.tables import scores


def rows(**changes: Any) -> list[dict[str, Any]]:
    return scores.rows(6, ("O-01", "V-03"), ("edit_success", "skin_tone", "age_drift"), **changes)


def given(table: list[dict[str, Any]]) -> Given:
    return Given("scores.csv", pl.DataFrame(table, infer_schema_length=None), 2)


def faults(table: list[dict[str, Any]], protocol: Protocol) -> str:
    with pytest.raises(ConfigIssuesError) as error:
        read_scores(given(table), protocol, "default")
    return str(error.value)


def test_a_table_in_other_words_is_read_in_ours(protocol: Protocol) -> None:
    found = read_scores(given(rows()), protocol, "default")
    frame = found.scores[found.main]
    assert found.main == AS_GIVEN and found.judged is None and frame.height == 72
    assert set(frame["race"]) == {"white", "black", "indian"} and set(frame["gender"]) == {"male", "female"}
    assert frame["trial"].n_unique() == 24 and set(frame["age"]) == {"20s"}
    aged = frame.filter(prompt="V-03", axis="age_drift")
    assert aged["requested"].all() and aged["neutral"].unique().to_list() == [3]
    assert not frame.filter(prompt="O-01")["requested"].any()


def test_a_column_an_axis_is_the_same_table(protocol: Protocol) -> None:
    long = pl.DataFrame(rows())
    wide = long.pivot("axis", index=["model", "person", "race", "gender", "age", "prompt"], values="score")
    first = read_scores(given(rows()), protocol, "default").scores[AS_GIVEN]
    second = read_scores(Given("wide.csv", wide, 2), protocol, "default").scores[AS_GIVEN]
    key = ["trial", "axis", "score", "requested", "neutral"]
    assert first.select(key).sort(key).equals(second.select(key).sort(key))


def test_an_axis_that_a_scanner_misread_is_the_axis(protocol: Protocol) -> None:
    table = [row | {"axis": row["axis"].replace("skin_tone", "skin_stone")} for row in rows()]
    frame = read_scores(given(table), protocol, "default").scores[AS_GIVEN]
    assert "skin_tone" in set(frame["axis"]) and "skin_stone" not in set(frame["axis"])


def test_scores_of_judges_make_an_ensemble_in_every_rounding(protocol: Protocol) -> None:
    table = [row | {"judge": judge, "score": score} for row in rows() for judge, score in (("a", 3), ("b", 4))]
    found = read_scores(given(table), protocol, "default")
    halves = {
        mode: frame.filter(axis="skin_tone")["score"].unique().to_list() for mode, frame in found.scores.items()
    }
    assert halves == {"half_even": [4], "half_up": [4], "toward_neutral": [3]} and found.main == "toward_neutral"
    assert found.judged is not None and found.judged.height == 144
    assert found.judged.group_by("judge").agg(pl.col("rank").first()).sort("rank")["judge"].to_list() == ["a", "b"]


def test_a_missing_score_stays_missing_however_it_is_spelled(protocol: Protocol) -> None:
    table = [
        row | {"score": spelling}
        for row, spelling in zip(rows(), ["NA", "", "nan", "4", "3.0", None] * 12, strict=True)
    ]
    frame = read_scores(given(table), protocol, "default").scores[AS_GIVEN]
    assert frame["score"].null_count() == 48 and set(frame["score"].drop_nulls()) == {3, 4}


def test_every_fault_is_said_at_once_with_its_row(protocol: Protocol) -> None:
    table = rows()
    table[0]["race"], table[1]["score"], table[2]["person"], table[3]["axis"] = "Martian", "4.5", None, "charm"
    said = faults(table, protocol)
    assert "4 faults, nothing was changed" in said
    assert "scores.csv:2: race: 'Martian' is not a group of race; known: white" in said
    assert "scores.csv:3: score: 4.5 is not a whole number" in said
    assert "scores.csv:4: person: is empty" in said
    assert "scores.csv:5: axis: 'charm' is not an axis of the protocol" in said


@pytest.mark.parametrize("score", [0, 6, -1, 99])
def test_a_score_outside_its_scale_is_a_fault(protocol: Protocol, score: int) -> None:
    table = rows()
    table[7]["score"] = score
    assert f"scores.csv:9: score: {score} is not on the scale of skin_tone, 1 to 5" in faults(table, protocol)


def test_words_where_numbers_belong(protocol: Protocol) -> None:
    table = [row | {"score": "good"} for row in rows()]
    assert "'good' is not a number; leave what is missing empty (72 rows)" in faults(table, protocol)


def test_a_join_that_multiplied_rows_is_seen(protocol: Protocol) -> None:
    table = pl.DataFrame(rows())
    twice = table.join(pl.DataFrame({"race": ["Black", "Black"], "note": [1, 2]}), on="race", how="left")
    said = faults(twice.to_dicts(), protocol)
    assert "2 rows are about the same edit" in said and "a join may have multiplied rows" in said


def test_a_join_that_mixed_persons_up_is_seen(protocol: Protocol) -> None:
    table = rows()
    table[0]["race"] = "Indian"
    assert "person p0 is indian, white: a join may have mixed persons up" in faults(table, protocol)


def test_a_table_that_lacks_columns_says_which_and_what_it_has(protocol: Protocol) -> None:
    said = faults([{"who": "a", "score": 3}], protocol)
    assert "person: the table has no such column; it has: who, score" in said and "editor:" in said


def test_nobody_is_anybody(protocol: Protocol) -> None:
    table = [{k: v for k, v in row.items() if k not in ("race", "gender", "age")} for row in rows()]
    assert "give one of the columns race, gender, age" in faults(table, protocol)


def test_an_empty_table(protocol: Protocol, tmp_path: Path) -> None:
    empty = Given("scores.csv", pl.DataFrame(rows()).clear(), 2)
    with pytest.raises(ConfigIssuesError, match="has no rows"):
        read_scores(empty, protocol, "default")
    (tmp_path / "scores.csv").write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        read(tmp_path / "scores.csv")


@pytest.mark.parametrize(
    ("name", "content"), [("a.parquet", b"PAR1nonsense"), ("b.csv", b"a,b\n1,2,3,4\n\xff\xfe,1\n")]
)
def test_a_file_that_is_no_table_is_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a table"):
        read(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / f"no-{name}")
    for other in ("scores.xlsx", "folder.csv"):
        (tmp_path / other).mkdir() if other.startswith("folder") else (tmp_path / other).touch()
        with pytest.raises(InputError, match="is no table: one is a file that ends in"):
            read(tmp_path / other)


def test_what_cannot_differ_is_said(protocol: Protocol) -> None:
    table = [row | {"race": "White", "score": None if row["axis"] == "skin_tone" else 3} for row in rows()]
    notes = " ".join(read_scores(given(table), protocol, "default").notes)
    assert "with one group of race there is nothing to compare" in notes
    assert "No edit has a score on skin_tone." in notes and "Every score on edit_success is 3" in notes


def test_prompts_that_the_protocol_does_not_know_are_said(protocol: Protocol) -> None:
    table = [row | {"prompt": f"my {row['prompt']}"} for row in rows()]
    found = read_scores(given(table), protocol, "default")
    assert "The protocol does not know 2 prompts (my O-01, my V-03)" in " ".join(found.notes)
    assert not found.scores[AS_GIVEN]["requested"].any()


# Ratings


def rated(**changes: Any) -> list[dict[str, Any]]:
    return [
        {
            "rater": rater,
            "task": "1",
            "model": "one",
            "person": "p1",
            "prompt": "O-01",
            "axis": "skin_tone",
            "score": 4,
        }
        | changes
        for rater in ("r1", "r2", "r3")
    ]


def test_ratings_know_whom_they_are_about_from_the_scores(protocol: Protocol) -> None:
    scores = read_scores(given(rows()), protocol, "default").scores[AS_GIVEN]
    found = read_ratings(given(rated()), scores, protocol)
    assert found.height == 3 and set(found["race"]) == {"black"} and set(found["answer"]) == {"scored"}
    unknown = read_ratings(given(rated(score=None, answer="cannot_determine")), scores, protocol)
    assert unknown["score"].null_count() == 3 and set(unknown["answer"]) == {"cannot_determine"}


def test_ratings_of_nothing_and_ratings_twice_are_faults(protocol: Protocol) -> None:
    scores = read_scores(given(rows()), protocol, "default").scores[AS_GIVEN]
    with pytest.raises(ConfigIssuesError, match="the table of scores has no such output"):
        read_ratings(given(rated(person="p9")), scores, protocol)
    with pytest.raises(ConfigIssuesError, match="a join may have multiplied rows"):
        read_ratings(given([*rated(), *rated()]), scores, protocol)
    with pytest.raises(ConfigIssuesError, match="not on the scale"):
        read_ratings(given(rated(score=9)), scores, protocol)


def test_ratings_that_may_be_about_two_outputs_are_not_guessed(protocol: Protocol) -> None:
    two = [row | {"seed": seed} for row in rows() for seed in (1, 2)]
    scores = read_scores(given(two), protocol, "default").scores[AS_GIVEN]
    with pytest.raises(ConfigIssuesError, match="tell them apart by a column 'trial'"):
        read_ratings(given(rated()), scores, protocol)


def test_attention_checks(protocol: Protocol) -> None:
    table = [{"rater": "r1", "check": "c1", "passed": "yes"}, {"rater": "r1", "check": "c2", "passed": 0}]
    found = read_checks(Given("checks.csv", pl.DataFrame(table, strict=False), 2), protocol)
    assert found["passed"].to_list() == [True, False]
    with pytest.raises(ConfigIssuesError, match="neither true nor false"):
        read_checks(
            Given("checks.csv", pl.DataFrame([{"rater": "r", "check": "c", "passed": "maybe"}]), 2), protocol
        )


def test_a_label_that_some_rows_of_a_person_lack_is_that_of_the_others(protocol: Protocol) -> None:
    table = rows()
    table[0] |= {"gender": ""}
    found = read_scores(given(table), protocol, "default")
    frame = found.scores[found.main]
    assert frame["gender"].null_count() == 0
    assert "Some rows of 1 person lack the gender that other rows have: it is taken." in found.notes
    nobody = [row | ({"gender": None} if row["person"] == "p0" else {}) for row in rows()]
    lacking = read_scores(given(nobody), protocol, "default")
    assert set(lacking.scores[AS_GIVEN].filter(person="p0")["gender"]) == {None}
    assert not any("it is taken" in note for note in lacking.notes)
