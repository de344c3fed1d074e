"""Tables that contradict themselves are told so, and tables that do not are left alone."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.protocol import Protocol
from stillme.stats import printed, simulate
from stillme.stats.contrast import contrasts
from stillme.stats.disparity import max_minus_min
from stillme.stats.lint import Linted, Severity, lint_frame, lint_table
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.together import lint_together

RIGHT = {
    "editor": "a",
    "asked": 240,
    "judged": 238,
    "missing": 2,
    "hits": 36,
    "rate": 36 / 238,
    "nominal_rate": 36 / 240,
    "low": 0.08,
    "high": 0.25,
    "persons": 24,
    "p": 0.02,
    "p_holm": 0.04,
}


def said(linted: Linted) -> str:
    return "\n".join(f"{one.severity.value} {one.rule}: {one.said}" for one in linted.findings)


def csv(name: str, text: str) -> printed.Table:
    return printed.read(name, pl.read_csv(text.encode(), infer_schema=False))


def test_a_table_that_is_right_passes() -> None:
    found = lint_frame(pl.DataFrame([RIGHT]))
    assert said(found) == ""
    rules = {ran.rule for ran in found.ran if ran.checked}
    assert rules >= {
        "denominators",
        "rates from counts",
        "intervals",
        "persons behind intervals",
        "p-values",
        "keys",
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"missing": 1}, "error denominators: asked is not judged + missing: a has 240, and 238 + 1 = 239."),
        ({"hits": 239}, "hits is more than judged: a has 239 of 238"),
        ({"hits": -1}, "hits counts things and is negative"),
        ({"rate": 0.16}, "rate is not hits ÷ judged: a says 0.16, and 36/238 = 0.1513"),
        ({"nominal_rate": 36 / 238}, "nominal_rate is not hits ÷ asked"),
        ({"low": 0.3}, "low is above high: a has 0.3 to 0.25"),
        ({"low": 0.2}, "low to high does not hold its estimate: a has 0.2 to 0.25 around rate 0.151261"),
        ({"high": 1.2}, "high is not between 0 and 1: a has 1.2"),
        ({"persons": 7}, "error persons behind intervals: a has an interval from 7 persons"),
        ({"persons": 12}, "warning persons behind intervals: 1 of 1 intervals come from 12 persons"),
        ({"p": 1.2, "p_holm": 1.3}, "p is not between 0 and 1: a has 1.2"),
        ({"p_holm": 0.01}, "p_holm is smaller than p: a has 0.01"),
        ({"rate": float("nan")}, "rate is not a number in a"),
        ({"high": float("inf")}, "high is not a number in a"),
        ({"judged": 0, "missing": 240, "hits": 0, "nominal_rate": 0.0}, "rate of nothing: judged is 0 in a"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_each_contradiction_is_named_with_its_numbers(change: dict[str, float], told: str) -> None:
    assert told in said(lint_frame(pl.DataFrame([RIGHT | change])))


def test_no_interval_and_no_rate_are_no_fault() -> None:
    empty = {"asked": 3, "judged": 0, "missing": 3, "hits": 0, "persons": 2, "nominal_rate": 0.0}
    gaps = dict.fromkeys(("rate", "low", "high", "p", "p_holm"))
    frame = pl.DataFrame([RIGHT, RIGHT | empty | gaps | {"editor": "b"}], schema=list(RIGHT))
    assert said(lint_frame(frame)) == ""


def test_a_row_that_comes_twice() -> None:
    frame = pl.DataFrame([RIGHT, RIGHT | {"hits": 35, "rate": 35 / 238, "nominal_rate": 35 / 240}])
    assert "error keys: editor: two rows or more for a." in said(lint_frame(frame))
    assert "keys" not in said(lint_frame(frame, keys=["editor", "hits"]))


def test_zero_differences_belong_beside_a_paired_test() -> None:
    many = pl.DataFrame({"axis": ["a", "b"], "p": [0.01, 0.01], "zeros": [0.64, 0.2]})
    assert "More than half of the differences are zero: a has 64%" in said(lint_frame(many))
    unsaid = pl.DataFrame({"axis": ["a"], "wilcoxon_p": [0.01]})
    assert "is not printed beside wilcoxon_p" in said(lint_frame(unsaid))


def test_differences_and_max_minus_min() -> None:
    frame = pl.DataFrame({"editor": ["a"], "others_rate": [0.3], "reference_rate": [0.1], "difference": [0.25]})
    assert "difference is not others_rate − reference_rate: a says 0.25" in said(lint_frame(frame))
    before = csv("t", "race,before,after,delta\nA,2.89,1.41,-1.48\nB,2.71,1.48,-1.24\nC,2.71,1.48,-1.33\n")
    assert said(lint_table(before)) == (
        "error differences: delta is not after − before: C says -1.33, and after − before = -1.23."
    )


def test_rows_that_sum_up_the_others() -> None:
    table = csv("t", "race,n,x_pct\nA,100,10.0\nB,100,20.0\nall,200,16.0\nmax − min,,10.0\n")
    assert said(lint_table(table)) == (
        "error closing rows: x_pct: the rows have the mean 15, and 'all' says 16.0."
    )
    table = csv("t", "race,n,x_pct\nA,100,10.0\nB,300,20.0\nall,400,17.5\nmax − min,,9.0\n")
    assert said(lint_table(table)) == "error closing rows: x_pct: max − min is 10, and 'max − min' says 9.0."


def test_whole_numbers_are_summed_up_by_their_sum_or_their_mean() -> None:
    for label in ("Mean", "average", "All", "Overall"):
        assert said(lint_table(csv("t", f"race,x (%)\nA,13\nB,8\nC,10\n{label},10\n"))) == "", "per cent"
        assert said(lint_table(csv("t", f"race,score\nA,3\nB,2\nC,4\n{label},3\n"))) == "", "scores"
    assert said(lint_table(csv("t", "race,judged\nA,90\nB,110\nMean,100\n"))) == ""
    assert said(lint_table(csv("t", "race,judged,x_pct\nA,90,10.0\nB,10,20.0\nMean,,15.0\n"))) == ""
    assert said(lint_table(csv("t", "race,cats\nA,90\nB,110\nall,200\n"))) == ""
    assert said(lint_table(csv("t", "race,judged\nA,90\nB,110\nall,100\n"))) == (
        "error closing rows: judged: the rows sum to 200, and 'all' says 100."
    )
    assert "x (%): the rows have the mean 10.33, and 'Mean' says 20" in said(
        lint_table(csv("t", "race,x (%)\nA,13\nB,8\nC,10\nMean,20\n"))
    )


def test_the_uncertainty_of_a_whole_is_not_the_mean_of_its_parts() -> None:
    text = "race,judged,rate,low,high,sd,p\nA,100,0.10,0.05,0.17,0.03,0.5\nB,100,0.20,0.14,0.28,0.04,0.5\n"
    assert said(lint_table(csv("t", text + "All,200,0.15,0.11,0.20,0.02,0.01\n"))) == ""
    assert "rate: the rows have the mean 0.15, and 'All' says 0.18" in said(
        lint_table(csv("t", text + "All,200,0.18,0.11,0.20,0.02,0.01\n"))
    )


def test_an_impossible_percentage_is_a_warning_with_its_neighbours() -> None:
    table = csv("t", "race,n,x_pct\nA,240,15.1\nB,240,15.0\nC,1680,15.1\n")
    assert said(lint_table(table)).startswith(
        "warning attainable percentages: x_pct: 1 of 2 percentages are not possible: "
        "A 15.1 (36/240 = 15.0, 37/240 = 15.4). "
    )
    assert not lint_table(table).errors


def test_an_impossible_mean() -> None:
    found = said(lint_table(csv("t", "axis,n,mean\na,15,2.53\nb,15,2.54\n")))
    assert "1 of 2 means are not possible: b 2.54 (38/15 = 2.53, 39/15 = 2.60)" in found


@given(st.integers(1, 400), st.floats(0, 1), st.integers(0, 2), st.sampled_from(["half even", "half up"]))
def test_every_real_percentage_is_possible(n: int, part: float, digits: int, rounding: str) -> None:
    """Whatever k of n is printed, under either rounding of a half, is accepted."""
    k = round(part * n)
    units = 100 * 10**digits * k
    whole = (2 * units + n) // (2 * n) if rounding == "half up" else round(units / n)
    assert printed.attainable(whole / 10**digits, digits, n)


@given(st.integers(2, 400), st.integers(0, 1000))
def test_an_impossible_percentage_has_no_count(n: int, units: int) -> None:
    possible = any(abs(100 * k / n - units / 10) <= 0.05 + 1e-12 for k in range(n + 1))
    assert bool(printed.attainable(units / 10, 1, n)) == possible


def test_numbers_are_read_as_printed() -> None:
    table = csv("t", 'who,a,b,c,d\nx,"1,680",−1.48,13.4 %,< 0.001\ny,–,2,nan,0.02\n')
    assert table.frame["a"].to_list() == [1680, None]
    assert table.frame["b"].to_list() == [-1.48, 2.0] and table.digits["b"] == (2, 0)
    assert table.frame["c"].to_list() == [13.4, None] and table.percent == {"c"}
    assert table.frame["d"].to_list() == [None, 0.02]
    assert "c is not a number in y" in said(lint_table(table))


def test_names_that_look_like_numbers_are_names() -> None:
    table = csv("t", "editor,x\ne1,1e-05\n12a,.5\n-,2.\n")
    assert table.words == ["editor"] and table.frame["x"].to_list() == [1e-05, 0.5, 2.0]


WRITTEN = st.text("0123456789.,+-−eE%<n/ainfx ", max_size=6)


@given(st.lists(st.tuples(WRITTEN, WRITTEN, WRITTEN), min_size=1, max_size=4))
def test_whatever_is_written_can_be_read(rows: list[tuple[str, str, str]]) -> None:
    text = pl.DataFrame(rows, schema=dict.fromkeys(("who", "rate", "judged"), pl.String), orient="row")
    table = printed.read("t", text)
    lint_table(table, n=20)
    for column in table.numeric:
        assert not table.frame[column].cast(pl.Float64).is_nan().any()


def test_counts_of_groups_sum_to_the_whole() -> None:
    whole = pl.DataFrame({"editor": ["a"], "asked": [40], "judged": [40], "missing": [0]})
    parts = pl.DataFrame({"editor": ["a"] * 2, "race": ["x", "y"], "asked": [20, 20], "judged": [20, 19]})
    tables = [printed.typed("whole", whole), printed.typed("parts", parts)]
    found = lint_together(tables, splits=["race"])
    assert (
        said(found[1])
        == "error sums over groups: judged over race does not sum to that of whole: a 39 against 40."
    )
    assert said(found[0]) == ""
    assert all(said(one) == "" for one in lint_together(tables)), "what no one calls a split is none"


def test_a_csv_of_our_own_is_checked_like_its_frame() -> None:
    """Columns without a value say nothing, and shares of something else than `judged` are not held against it."""
    whole = "editor,asked,judged,hits,rate,nominal_rate,low\na,48,46,2,0.043478260869565216,0.0417,\n"
    parts = "editor,race,gender,asked,judged,low\na,x,f,24,22,\na,x,m,24,23,\n"
    found = lint_together([csv("whole", whole), csv("parts", parts)], splits=["race", "gender"])
    assert said(found[0]) == ""
    assert "judged over race × gender does not sum to that of whole: a 45 against 46." in said(found[1])


def test_the_same_quantity_told_differently() -> None:
    first = csv("table1_delta_by_race.csv", "race,delta_skin\nA,-1.48\nB,-1.23\nC,-0.5\n")
    second = csv("table2_skin.csv", "race,delta\nA,-1.48\nB,-1.32\nC,-0.5\n")
    found = lint_together([first, second])
    assert "delta_skin is not delta of table2_skin.csv: B -1.23 and -1.32." in said(found[0])


def test_the_tables_of_an_audit_pass(protocol: Protocol) -> None:
    """Everything that we compute ourselves; with 12 persons a group there are warnings, and no errors."""
    main = simulate.main_dimension(protocol)
    strata = [name for name in protocol.groups.dimensions if name != main]
    marked = mark(simulate.audit(protocol, 1, editors=("e1",)).scores, protocol.rubrics.outcomes)
    by_group = rates(marked, ["editor", main])
    reference = protocol.groups.reference_group[main]
    tables = {
        "by_editor": rates(marked, ["editor"]),
        "by_group": by_group,
        "by_prompt": rates(marked, ["editor", "prompt"]),
        "disparity": max_minus_min(by_group, ["outcome", "editor"], main),
        "contrasts": contrasts(marked, list(protocol.rubrics.outcomes), main, reference, strata),
    }
    found = lint_together([printed.typed(*one) for one in tables.items()], splits=[main, "prompt"])
    assert [one.table for one in found if one.errors] == []
    assert {f.severity for one in found for f in one.findings} == {Severity.WARNING}
    assert "sums over groups" in {ran.rule for one in found for ran in one.ran}


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame(),
        pl.DataFrame(schema={**dict.fromkeys(RIGHT, pl.Float64), "editor": pl.String, "zeros": pl.Float64}),
        pl.DataFrame([dict.fromkeys(RIGHT)], schema=dict.fromkeys(RIGHT, pl.Float64)),
        pl.DataFrame({"who": [[1], [2]], "rate": [None, None]}),
        pl.DataFrame({"who": ["all", "b", "c"], "x": [None, 1.0, None]}),
        pl.DataFrame({"who": ["a"], "x_pct": [5.0], "n": [0]}),
        pl.DataFrame({"who": ["a"], "hits": [True], "judged": [2], "rate": [0.5]}),
    ],
    ids=["nothing", "no rows", "all missing", "lists", "gaps", "of nothing", "marks"],
)
def test_what_has_nothing_to_check_passes(frame: pl.DataFrame) -> None:
    assert said(lint_frame(frame, n=20)) == ""


def test_an_interval_may_be_of_the_column_beside_it() -> None:
    frame = pl.DataFrame({"who": ["a"], "rate": [0.8], "deviation": [0.05], "low": [-0.1], "high": [0.2]})
    assert said(lint_frame(frame)) == ""
    assert "does not hold" in said(lint_frame(frame.with_columns(deviation=pl.lit(0.3))))


def test_a_count_of_zeros_says_nothing_without_its_whole() -> None:
    assert said(lint_frame(pl.DataFrame({"axis": ["a", "b"], "p": [0.01, 0.01], "zeros": [64, 20]}))) == ""


def test_totals_of_groups_whose_sizes_are_not_told() -> None:
    for sizes in ("", ",n", ",judged"):
        cells = ["", "", ""] if not sizes else [",100", ",", ",400"]
        text = f"race,x_pct{sizes}\nA,10.0{cells[0]}\nB,20.0{cells[1]}\nall,17.5{cells[2]}\n"
        assert said(lint_table(csv("t", text))) == (
            "warning closing rows: x_pct: the rows have the mean 15, and 'all' says 17.5, which only groups of "
            "unequal size could explain."
        )


def test_groups_by_models_are_percentages_where_n_is_given() -> None:
    matrix = csv("t", "race,one,two\nA,15.0,15.1\nB,20.0,20.4\n")
    assert "two: 1 of 2 percentages are not possible: A 15.1" in said(lint_table(matrix, 240))
    for other in ("race,sex,one\nA,m,15.1\nB,f,20.4\n", "race,one\nA,15\nB,20\n", "race,one\nA,1.1\nB,2.4\n"):
        assert said(lint_table(csv("t", other), 240)) == "", "of two dimensions, of whole numbers, or of scores"


def test_what_would_repair_a_column() -> None:
    def told(rows: str) -> str:
        return said(lint_table(csv("t", f"race,n,x_pct\n{rows}"))).rsplit(". ", 1)[1]

    assert told("A,240,15.1\nB,240,8.9\n") == "With n = 225 the whole column would be possible."
    assert told("A,20,15.1\nB,20,15.0\n") == "No n from 10 to 20 makes the whole column possible."
    assert told("A,240,15.1\nB,120,15.0\n") == "Then either n or the number is not as printed."


def test_a_missing_number_is_shown_as_one() -> None:
    table = csv("t", "race,x\nA,1.50\nB,\n")
    assert (table.shown("x", 0), table.shown("x", 1)) == ("1.50", "–")


def test_rows_without_a_name_are_counted() -> None:
    frame = pl.DataFrame({"asked": [240, 240], "judged": [238, 238], "missing": [2, 1]})
    assert "row 2 has 240, and 238 + 1 = 239" in said(lint_frame(frame))
