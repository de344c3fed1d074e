"""The table of participants is rebuilt from an export, to the last percentage, and points at nobody."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from stillme.core.errors import InputError
from stillme.stats.participants import MORE, TABLE, participants, table

AGES = [21, 21, 22, 24, 24, 24, 25, 25, 25, 26, 27, 27, 30, 31, 33, 35, 35, 35, 36, 37, 38, 38, 40, 40, 42, 42, 45, 59,
        62, 69]  # fmt: skip
SEX = {"Female": 15, "Male": 15}
ETHNICITY = {"White": 17, "Black": 8, "Mixed": 2, "Other": 2, "Asian": 1}
STUDENT = {"No": 15, "Yes": 12, "DATA_EXPIRED": 3}
LANGUAGE = {"English": 14, "Spanish": 8, "French": 2, "Portuguese": 2, "Czech": 1, "Greek": 1, "Indonesian": 1,
            "Slovak": 1}  # fmt: skip
COUNTRY = {"South Africa": 8, "Spain": 5, "France": 3, "Greece": 2, "Mexico": 2, "Portugal": 2, "United States": 2,
           "Chile": 1, "Czech Republic": 1, "Indonesia": 1, "Ireland": 1, "Slovakia": 1, "United Kingdom": 1}  # fmt: skip


def spelled_out(counts: dict[str, int]) -> list[str]:
    return [name for name, n in reversed(counts.items()) for _ in range(n)]


def export() -> pl.DataFrame:
    """Thirty who count, in no order of the table's, and an approved one without a code, as the seed had it."""
    rows: dict[str, list[str]] = {
        "Submission id": [f"s{i}" for i in range(30)],
        "Participant id": [f"5f{i:022d}" for i in range(30)],
        "Status": ["APPROVED"] * 30,
        "Completion code": ["C1X2Y3"] * 30,
        "Time taken": [str(1500 + 10 * i) for i in range(30)],
        "Age": [str(age) for age in AGES],
        **{
            name: spelled_out(counts)
            for name, counts in zip(TABLE, (SEX, ETHNICITY, STUDENT, LANGUAGE, COUNTRY), strict=True)
        },
    }
    last = {name: values[-1] for name, values in rows.items()}
    without = last | {"Participant id": "5fx", "Completion code": "NOCODE", "Age": "80"}
    return pl.concat([pl.DataFrame(without), pl.DataFrame(rows)])


def counted(frame: pl.DataFrame, name: str, smallest: int = 1) -> list[tuple[str, int]]:
    found = participants(frame, smallest=smallest).characteristics.filter(pl.col("characteristic") == name)
    return list(found.select("group", "n").iter_rows())


def changed(column: str, values: Sequence[str | None]) -> pl.DataFrame:
    return (
        export()
        .head(len(values))
        .with_columns(pl.Series(column, values, dtype=pl.String), pl.lit("C1X2Y3").alias("Completion code"))
    )


def test_the_seeds_table_10_comes_out_as_printed() -> None:
    found = participants(export())
    assert found.approved == 30
    assert found.excluded.rows() == [("approved, no valid completion code", 1)]
    assert table(found).rows() == [
        ("Participants (approved)", "30"),
        ("Age (years)", "34.6 ± 12.0 (range 21–69)"),
        ("Sex", "Female 15 (50.0%), Male 15 (50.0%)"),
        (
            "Ethnicity simplified",
            "White 17 (56.7%), Black 8 (26.7%), Mixed 2 (6.7%), Other 2 (6.7%), Asian 1 (3.3%)",
        ),
        ("Student status", "No 15 (50.0%), Yes 12 (40.0%), Missing 3 (10.0%)"),
        (
            "Language",
            "English 14 (46.7%), Spanish 8 (26.7%), French 2 (6.7%), Portuguese 2 (6.7%), Czech 1 (3.3%), "
            "Greek 1 (3.3%), Indonesian 1 (3.3%), Slovak 1 (3.3%)",
        ),
        (
            "Country of residence",
            "South Africa 8 (26.7%), Spain 5 (16.7%), France 3 (10.0%), Greece 2 (6.7%), Mexico 2 (6.7%), "
            "Portugal 2 (6.7%), United States 2 (6.7%), Chile 1 (3.3%), Czech Republic 1 (3.3%), "
            "Indonesia 1 (3.3%), Ireland 1 (3.3%), Slovakia 1 (3.3%), United Kingdom 1 (3.3%)",
        ),
    ]
    assert found.minutes == pytest.approx(1645 / 60)


def test_only_approved_submissions_with_a_code_of_the_study_count_and_the_others_are_counted() -> None:
    frame = changed("Status", ["APPROVED", "RETURNED", "Timed-Out", "approved", "RETURNED", None])
    frame = frame.with_columns(pl.Series("Completion code", ["C1X2Y3", "C1X2Y3", None, "guess", None, None]))
    found = participants(frame, codes=["C1X2Y3"])
    assert found.approved == 1
    assert found.excluded.rows() == [
        ("approved, no valid completion code", 1),
        ("no status", 1),
        ("returned", 2),
        ("timed-out", 1),
    ]


def test_a_participant_counts_once() -> None:
    frame = changed("Participant id", ["a", "a", "b"])
    found = participants(frame)
    assert (found.approved, found.excluded.rows()) == (2, [("approved, the same participant again", 1)])


def test_what_is_unavailable_is_missing_and_last_and_who_would_not_say_is_a_row_of_their_own() -> None:
    values = [
        "DATA_EXPIRED",
        "CONSENT_REVOKED",
        "",
        None,
        "Not Applicable",
        "Prefer not to say",
        "Yes",
        "Prefer not to say",
    ]
    frame = changed("Student status", values)
    assert counted(frame, "Student status") == [("Yes", 1), ("Prefer not to say", 2), ("Missing", 5)]


def test_ages_that_are_no_numbers_are_missing() -> None:
    found = participants(changed("Age", ["30", "40", "CONSENT_REVOKED", "DATA_EXPIRED", ""]))
    assert (found.age.known, found.age.missing, found.age.mean, found.age.low) == (2, 3, 35.0, 30)
    assert table(found)["distribution"][1] == "35.0 ± 7.1 (range 30–40), Missing 3"


def test_nobody_approved_gives_an_empty_table_and_no_figure() -> None:
    found = participants(changed("Status", ["REJECTED", "RETURNED"]))
    assert (found.approved, found.age.mean, found.age.sd, found.minutes) == (0, None, None, None)
    assert found.characteristics.height == 0
    assert table(found).rows() == [("Participants (approved)", "0")]


def test_small_groups_are_put_together_until_they_point_at_nobody() -> None:
    """Asian 1 alone would be told from the rest, and with Mixed and Other there are 5."""
    assert counted(export(), "Ethnicity simplified", smallest=5) == [
        ("White", 17),
        ("Black", 8),
        ("Small groups", 5),
    ]
    assert counted(export(), "Ethnicity simplified", smallest=6) == [("White", 17), ("Small groups", 13)]
    assert counted(export(), "Sex", smallest=5) == [("Female", 15), ("Male", 15)]
    found = participants(export(), smallest=5)
    assert (found.age.low, found.age.high) == (None, None)  # the youngest and the oldest are one person each
    assert found.characteristics.filter(pl.col("group") == "Small groups")["groups"].to_list() == [3, 6, 11]


@pytest.mark.parametrize("smallest", [1, 2, 3, 4, 5, 10])
def test_no_count_is_below_the_smallest_and_all_add_up(smallest: int) -> None:
    found = participants(export(), smallest=smallest).characteristics.filter(pl.col("group") != "Missing")
    assert min(found["n"].to_list()) >= smallest
    whole = (
        participants(export(), smallest=smallest).characteristics.group_by("characteristic").agg(pl.col("n").sum())
    )
    assert set(whole["n"]) == {30}


def test_no_id_is_in_what_comes_out() -> None:
    found = participants(export())
    said = f"{found.excluded.rows()}{found.characteristics.rows()}{table(found).rows()}{found.age}"
    assert not any(name in said for name in export()["Participant id"])
    assert not any(name in found.characteristics.columns for name in ("Participant id", "Submission id"))


def test_other_characteristics_are_counted_when_asked_for_and_absent_ones_left_out() -> None:
    frame = export().with_columns(pl.lit("Full-Time").alias(MORE[-1]))
    found = participants(frame, characteristics=[MORE[-1], "Nationality"]).characteristics
    assert found.select("characteristic", "group", "n").rows() == [("Employment status", "Full-Time", 30)]


def test_an_export_without_its_columns_is_an_error_that_names_them() -> None:
    with pytest.raises(InputError, match="Status, Age"):
        participants(export().drop("Status", "Age"))


def test_an_export_without_times_has_no_median() -> None:
    assert participants(export(), smallest=1).minutes == pytest.approx((1500 + 145) / 60)
    assert participants(export().drop("Time taken"), smallest=1).minutes is None
