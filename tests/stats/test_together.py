"""Tables against each other: totals that no groups can have, told with what they were held against."""

from __future__ import annotations

import polars as pl

from stillme.stats import printed
from stillme.stats.lint import Linted
from stillme.stats.together import lint_together
from tests.stats.test_lint import csv, said


def by_name(found: list[Linted]) -> dict[str, str]:
    return {one.table: said(one) for one in found}


def notes(found: list[Linted], name: str, rule: str) -> list[str]:
    return [ran.said for one in found if one.table == name for ran in one.ran if ran.rule == rule]


GROUPS = csv("race_changed_by_race", "race,one,two\nA,10.0,20.0\nB,20.0,30.0\n")
WHOLE = csv("outcomes", "editor,n,race_changed_pct,erased_pct\none,400,15.0,3.0\ntwo,400,27.0,3.0\n")


def test_a_total_is_the_mean_of_groups_of_equal_size() -> None:
    found = lint_together([GROUPS, WHOLE])
    assert by_name(found)["outcomes"] == ""
    assert by_name(found)["race_changed_by_race"] == (
        "error totals: two: the mean of the 2 rows is 25.00, and outcomes says 27.0 (race_changed_pct). "
        "With 200 in each row the total is the mean; rounding explains 0.1, not 2.00."
    )
    assert "one fits its total" in notes(found, "race_changed_by_race", "totals")[0]
    assert notes(found, "race_changed_by_race", "attainable percentages") == [""], (
        "of 200 each, which the whole says"
    )


def test_only_the_table_that_was_named_holds_totals() -> None:
    other = csv("race_changed_again", "editor,race_changed_pct\none,99.0\ntwo,99.0\n")
    both = lint_together([GROUPS, WHOLE, other])
    assert both[0].findings and "race_changed_again says 99.0" in by_name(both)["race_changed_by_race"]
    named = by_name(lint_together([GROUPS, WHOLE, other], totals="outcomes"))["race_changed_by_race"]
    assert "outcomes says 27.0" in named and "race_changed_again" not in named


def test_without_a_name_in_common_the_total_is_the_one_that_the_groups_span() -> None:
    unnamed = csv("table", "race,one,two\nA,10.0,20.0\nB,20.0,30.0\n")
    found = lint_together([unnamed, WHOLE])
    assert (
        "two: the mean of the 2 rows is 25.00, and outcomes says 27.0 (race_changed_pct)"
        in by_name(found)["table"]
    )
    outside = csv("outcomes", "editor,x,y\none,3.0,99.0\ntwo,3.0,99.0\n")
    assert by_name(lint_together([unnamed, outside]))["table"] == "", "no column can be meant"
    two = csv("outcomes", "editor,x,y\none,15.0,15.0\ntwo,26.0,26.0\n")
    assert by_name(lint_together([unnamed, two]))["table"] == "", "either of two may be meant"


def test_a_missing_number_is_held_against_nothing() -> None:
    gap = csv("race_changed_by_race", "race,one,two\nA,10.0,\nB,20.0,30.0\n")
    found = lint_together([gap, WHOLE])
    assert by_name(found)["race_changed_by_race"] == ""
    (ran,) = [ran for ran in found[0].ran if ran.rule == "totals"]
    assert ran.checked == 1, "the other column alone"


def test_a_column_without_numbers_spans_nothing() -> None:
    empty = printed.typed("table", pl.DataFrame({"race": ["A", "B"], "one": [None, None], "two": [20.0, 30.0]},
                                                schema_overrides={"one": pl.Float64}))  # fmt: skip
    assert by_name(lint_together([empty, WHOLE]))["table"] == ""


def test_sizes_that_do_not_divide_are_not_told() -> None:
    odd = csv("outcomes", "editor,n,race_changed_pct\none,401,15.0\ntwo,401,27.0\n")
    assert (
        "With rows of equal size the total is the mean"
        in by_name(lint_together([GROUPS, odd]))["race_changed_by_race"]
    )


def test_tables_that_share_few_rows_are_not_compared() -> None:
    first = csv("race_changed", "race,race_changed_pct\nA,1.0\nB,2.0\nC,3.0\n")
    few = csv("race_changed_again", "race,race_changed_pct\nA,9.0\nB,9.0\n")
    enough = csv("race_changed_again", "race,race_changed_pct\nA,9.0\nB,2.0\nC,3.0\n")
    assert by_name(lint_together([first, few]))["race_changed"] == ""
    assert "A 1.0 and 9.0" in by_name(lint_together([first, enough]))["race_changed"]


def test_rows_of_another_whole_are_not_its_parts() -> None:
    parts = csv("parts", "editor,race,hits\na,A,1\na,B,2\n")
    other = csv("whole", "editor,hits\na,3\nb,5\n")
    assert all(not text for text in by_name(lint_together([parts, other], splits=["race"])).values())
    own = csv("whole", "editor,hits\na,4\n")
    assert by_name(lint_together([parts, own], splits=["race"]))["parts"] == (
        "error sums over groups: hits over race does not sum to that of whole: a 3 against 4."
    )
