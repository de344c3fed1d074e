"""Which of two edits raters chose: counted answer by answer, with persons as the unit."""

from __future__ import annotations

import polars as pl
import pytest

from stillme.stats.intervals import clustered_share
from stillme.stats.preferences import preferences


def choices(*said: tuple[str, str], question: str = "identity", race: str = "white") -> pl.DataFrame:
    """(person, what was chosen), a rater each."""
    return pl.DataFrame(
        {
            "rater": [f"r{n}" for n in range(len(said))],
            "person": [person for person, _ in said],
            "question": question,
            "arm": "feature",
            "against": "baseline",
            "chosen": [chosen for _, chosen in said],
            "race": race,
        }
    )


def test_every_answer_has_a_column_and_the_share_is_of_those_that_chose() -> None:
    said = [("p1", "feature"), ("p1", "feature"), ("p1", "baseline"), ("p2", "feature"), ("p3", "both_equally")]
    (row,) = preferences(choices(*said, ("p3", "neither"), ("p3", "neither"))).to_dicts()
    assert (row["chosen"], row["chosen_against"], row["both_equally"], row["neither"]) == (3, 1, 1, 2)
    assert (row["answers"], row["raters"]) == (7, 7)
    assert row["share"] == pytest.approx(3 / 4) and row["persons"] == 2, (
        "who chose neither says nothing of the share"
    )
    assert row["low"] is None, "of two persons there is no interval"


def test_the_interval_is_over_persons() -> None:
    said = [(f"p{n}", "feature" if n % 3 else "baseline") for n in range(12) for _ in range(4)]
    (row,) = preferences(choices(*said)).to_dicts()
    whole = clustered_share([0 if n % 3 == 0 else 4 for n in range(12)], [4] * 12)
    assert (row["share"], row["low"], row["high"]) == pytest.approx((8 / 12, whole.low, whole.high))


def test_questions_and_groups_stand_apart_and_nothing_chosen_is_missing() -> None:
    frame = pl.concat(
        [
            choices(("p1", "feature")),
            choices(("p2", "neither"), race="black"),
            choices(("p1", "x"), question="age"),
        ]
    )
    found = preferences(frame, by=["race"])
    assert found.select("question", "race", "chosen", "share").rows() == [
        ("identity", "white", 1, 1.0),
        ("identity", "black", 0, None),
        ("age", "white", 0, None),
    ]
    assert preferences(frame.clear()).is_empty()
