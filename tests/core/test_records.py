from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.core.records import Portrait, Status, Trial, canonical, digest

PERSON = Portrait.of("s", "1", "img", {"race": "white"})
ASKED = {"experiment": "diagnose", "arm": "baseline", "prompt": "O-01", "instruction": "Do it.", "editor": "e"}


def trial(portrait: Portrait = PERSON, **changes: Any) -> Trial:
    return Trial.of(portrait, **{**ASKED, "settings": "s1", "seed": 0, **changes})


@pytest.mark.parametrize("change", [{"instruction": "Do that."}, {"settings": "s2"}, {"seed": 1}])
def test_whatever_changes_pixels_changes_the_edits_key(change: dict[str, Any]) -> None:
    assert trial(**change).edit != trial().edit


@pytest.mark.parametrize(
    "change", [{"arm": "other"}, {"experiment": "other"}, {"prompt": "O-99"}, {"editor": "other name"}]
)
def test_names_do_not_change_the_edits_key_so_that_nothing_is_paid_twice(change: dict[str, Any]) -> None:
    assert trial(**change).edit == trial().edit


def test_another_label_of_the_same_picture_shares_the_edit() -> None:
    other = Portrait.of("s", "1", "img", {"race": "black"})
    assert trial(other).edit == trial().edit
    assert trial(other).key != trial().key


def test_another_picture_is_another_edit() -> None:
    assert trial(Portrait.of("s", "1", "img2", PERSON.labels)).edit != trial().edit


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        trial().seed = 3  # type: ignore[misc]
    assert replace(trial(), seed=3).seed == 3


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()))
def test_equal_data_has_one_spelling(data: dict[str, object]) -> None:
    assert canonical(data) == canonical(dict(reversed(data.items())))
    assert digest("x", data=data) == digest("x", data=dict(data))


def test_a_key_never_hangs_on_a_number_that_is_not_one() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest("x", value=float("nan"))


def test_refusals_are_final_and_faults_of_the_line_are_not() -> None:
    assert Status.REFUSED.is_final and Status.INPUT_BLOCKED.is_final and Status.CORRUPT.is_final
    assert not any(
        s.is_final for s in (Status.TIMEOUT, Status.NETWORK, Status.RATE_LIMITED, Status.CRASHED, Status.QUOTA)
    )
