from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.core.errors import ConfigIssuesError
from stillme.protocol import Protocol, builtin, from_files
from stillme.sources import Reason, Row, RowIssue
from stillme.sources.labels import MAX_AGE, MAX_LISTED, UnknownLabelError, Vocabulary, fold, label
from tests.sources import written

WORDS = written.vocabulary()


def row(number: int, **annotated: str) -> Row:
    return Row(f"{number}.jpg", "train", {}, annotated, "labels.csv", number)


@pytest.mark.parametrize(
    ("dimension", "spelled", "group"),
    [
        ("race", "Latino_Hispanic", "latino"),
        ("race", "latino / hispanic", "latino"),
        ("race", "South-east Asian", "southeast_asian"),
        ("race", "SOUTH EAST ASIAN", "southeast_asian"),
        ("race", "Asian", None),
        ("gender", " f ", "female"),
        ("age", "more than 70", "70plus"),
        ("age", "20-29", "20s"),
        ("age", "20–29", "20s"),
        ("age", "70+", "70plus"),
        ("age", "3-9", None),
        ("age", "34", "30s"),
        ("age", "34.0", "30s"),
        ("age", "19", None),
        ("age", "116", "70plus"),
    ],
)
def test_spellings_of_data_sets_mean_groups(dimension: str, spelled: str, group: str | None) -> None:
    assert WORDS.group(dimension, spelled) == group


@pytest.mark.parametrize(
    ("dimension", "spelled"),
    [("race", "Martian"), ("race", "34"), ("gender", "1"), ("age", "-3"), ("age", "200"), ("age", "3.5")],
)
def test_a_number_is_an_age_only_where_ages_are(dimension: str, spelled: str) -> None:
    with pytest.raises(UnknownLabelError, match="not a known label"):
        WORDS.group(dimension, spelled)


def test_an_unknown_label_lists_the_known_ones() -> None:
    with pytest.raises(UnknownLabelError) as error:
        WORDS.group("age", "elderly")
    assert "'elderly' is not a known label of 'age'" in str(error.value)
    assert (
        "more than 70" in str(error.value) and "0-2" in str(error.value) and "an age in years" in str(error.value)
    )


@given(st.sampled_from(["race", "gender", "age"]), st.data())
def test_any_joint_and_any_case_spell_the_same_label(dimension: str, data: st.DataObject) -> None:
    known = data.draw(st.sampled_from(WORDS.shown[dimension]))
    joint = data.draw(st.sampled_from([" ", "_", "-", "/", "–", "  ", " - "]))
    other = "".join(joint if fold(letter) == "" else letter for letter in known)
    other = data.draw(st.sampled_from([other, other.upper(), other.lower(), f" {other}\t"]))
    assert WORDS.group(dimension, other) == WORDS.group(dimension, known)


@given(st.integers(0, MAX_AGE))
def test_every_age_in_years_is_in_its_group_or_outside(age: int) -> None:
    group = WORDS.group("age", str(age))
    assert (group is None) == (age < 20)
    assert group in (None, f"{age // 10 * 10}s", "70plus")


@given(st.text())
def test_any_text_is_a_group_or_outside_or_an_error(spelled: str) -> None:
    try:
        assert WORDS.group("race", spelled) in (None, *builtin().groups.ids("race"))
    except UnknownLabelError as error:
        assert "is not a known label of 'race'" in str(error)


def test_a_user_says_what_a_label_means() -> None:
    words = written.vocabulary(
        aliases={"race": {"Hispanic or Latino": "latino", "Pacific": "outside", "Black": "outside"}}
    )
    assert words.group("race", "hispanic-or-latino") == "latino"
    assert words.group("race", "Pacific") is None
    assert words.group("race", "black") is None  # a user's word goes before the protocol's


def test_what_is_wrong_with_aliases_is_said_all_at_once() -> None:
    with pytest.raises(ValueError) as error:
        written.vocabulary(aliases={"race": {"Hispanic": "latin"}, "hair": {"red": "outside"}})
    assert "aliases.race.Hispanic: 'latin' is not a group; known: white" in str(error.value)
    assert "'hair' is not a dimension; known: race, gender, age" in str(error.value)


def test_axes_of_ones_own() -> None:
    words = written.vocabulary(custom={"hair": {"covered": ("hijab", "Head-scarf"), "open": ()}})
    assert words.dimensions == ("race", "gender", "age", "hair")
    assert words.group("hair", "head scarf") == "covered"
    assert words.group("hair", "Open") == "open"
    with pytest.raises(ValueError, match="'hijab' is given to both 'covered' and 'open'"):
        written.vocabulary(custom={"hair": {"covered": ("hijab",), "open": ("hijab",)}})


def test_a_protocol_without_rules_for_portraits_still_has_its_groups(protocol: Protocol) -> None:
    files = {name: text for name, text in protocol.files.items() if name != "portraits.yaml"}
    words = Vocabulary.of(from_files(files, "x"))
    assert words.group("race", "East Asian") == "east_asian"
    assert words.fairface_classes == {}
    with pytest.raises(UnknownLabelError):
        words.group("race", "Others")


def test_rows_get_their_groups_and_keep_what_was_annotated() -> None:
    given = row(2, race="Latino_Hispanic", age="3-9")
    (found,) = label([given], WORDS)
    assert isinstance(found, Row)
    assert found.labels == {"race": "latino"}  # a child is known, and in no group
    assert found.annotated == {"race": "Latino_Hispanic", "age": "3-9"}


def test_an_empty_label_is_a_remark() -> None:
    (found,) = label([row(7, race=" ", age="", gender="Male")], WORDS)
    assert found == RowIssue("labels.csv", 7, Reason.MISSING_LABEL, "7.jpg has no label for race and age")


def test_a_portrait_that_is_listed_twice_counts_once() -> None:
    first, second = row(2, race="White"), row(2, race="Black")
    found = list(label([first, second], WORDS))
    assert isinstance(found[0], Row) and found[0].labels == {"race": "white"}
    assert isinstance(found[1], RowIssue) and found[1].reason is Reason.LISTED_TWICE


def test_unknown_labels_are_told_after_the_whole_pass() -> None:
    rows = [
        row(2, race="Martian"),
        row(3, race="White"),
        row(4, race="Martian", age="old"),
        row(5, race="Venusian"),
    ]
    found = label(rows, WORDS)
    kept = next(found)
    assert isinstance(kept, Row) and kept.row == 3
    with pytest.raises(ConfigIssuesError) as error:
        next(found)
    assert [(fault.line, fault.field) for fault in error.value.faults] == [(2, "race"), (4, "age"), (5, "race")]
    said = str(error.value)
    assert "labels.csv:2: race: 'Martian' is not a known label (2 rows); known: White, Black" in said
    assert 'aliases: {race: {"Martian": outside}}' in said


def test_a_wrong_column_is_not_told_a_hundred_thousand_times() -> None:
    with pytest.raises(ConfigIssuesError) as error:
        list(label([row(n, race=f"train/{n}.jpg") for n in range(2, 1002)], WORDS))
    assert len(error.value.faults) == MAX_LISTED + 1
    assert f"further labels that are not known, in {1000 - MAX_LISTED} rows; is this the right column?" in str(
        error.value
    )
