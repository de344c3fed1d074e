"""Which edits a question finds, and how many there would be under every other filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from stillme.report.review.desk import PAGE, Desk
from stillme.report.review.query import Query
from stillme.report.review.samples import FLAGS, HAPPENED

Find = Callable[..., list[str]]


@pytest.fixture
def find(desk: Desk) -> Find:
    """The keys of the trials that a question finds, in their order."""
    state = desk.state()

    def ask(**asked: str | list[str]) -> list[str]:
        rows = desk.kept(state, question(desk, **asked))
        return [str(key) for key in state.trials["trial"].gather(rows)]

    return ask


def question(desk: Desk, **asked: str | list[str]) -> Query:
    pairs = [(k, v) for k, values in asked.items() for v in ([values] if isinstance(values, str) else values)]
    return Query.read(pairs, desk.state().protocol.groups.dimensions)


def scores(desk: Desk) -> pl.DataFrame:
    state = desk.state()
    return state.axes[state.rounding]


def test_filters_combine_and_values_of_one_are_alternatives(desk: Desk, find: Find) -> None:
    frame = desk.state().trials
    wanted = frame.filter(
        (pl.col("editor") == "even") & pl.col("race").is_in(["white", "black"]) & (pl.col("gender") == "female")
    )
    assert find(editor="even", race=["white", "black"], gender="female") == wanted["trial"].to_list()
    assert len(find()) == frame.height == 240 and find(editor="nobody") == [] and find(nonsense="x") == find()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"editor": "erases", "age": ["20s", "70plus"]},
        {"outcome": "skin_lightened", "race": "black"},
        {"outcome": "race_changed", "happened": "missing"},
        {"flag": "open", "axis": "age_drift", "prompt": ["O-01", "O-02"]},
        {"text": "red scarf", "standing": "single"},
        {"rounding": "half_up", "outcome": "seems_older"},
    ],
)
def test_every_count_beside_a_filter_is_what_choosing_it_finds(desk: Desk, asked: dict[str, Any]) -> None:
    state, query = desk.state(), question(desk, **asked)
    for name, values in desk.counts(state, query).items():
        for value, count in values.items():
            chosen = query.without(name).plus({name: value})
            assert len(desk.kept(state, chosen)) == count, (asked, name, value)


def test_an_outcome_is_read_as_the_report_reads_it(desk: Desk, find: Find) -> None:
    for name, outcome in desk.state().protocol.rubrics.outcomes.items():
        read = scores(desk).filter((pl.col("axis") == outcome.axis) & ~pl.col("requested"))
        counts = {word: len(find(outcome=name, happened=word)) for word in HAPPENED}
        assert counts["any"] == read.height and counts["judged"] == read["score"].count()
        assert counts["yes"] + counts["no"] == counts["judged"] == counts["any"] - counts["missing"]
        assert counts["yes"] == len(find(outcome=name))


def test_what_is_asked_of_scores_holds_for_one_score(desk: Desk, find: Find) -> None:
    """Not a flag on one axis and a score on another."""
    wanted = scores(desk).filter((pl.col("axis") == "skin_tone") & pl.col("flagged") & (pl.col("score") >= 4))
    assert find(axis="skin_tone", flag="flagged", low="4") == wanted["trial"].to_list()
    both = scores(desk).filter(pl.col("open") & (pl.col("score") == 2))
    assert find(flag="open", low="2", high="2") == both["trial"].unique(maintain_order=True).to_list()


def test_order_by_score_and_by_how_far_judges_are_apart(desk: Desk, find: Find) -> None:
    known = dict(scores(desk).filter(axis="edit_success").select("trial", "score").iter_rows())
    for order, best in (("lowest", min), ("highest", max)):
        found = [known[key] for key in find(axis="edit_success", sort=order)]
        there = [score for score in found if score is not None]
        assert found[: len(there)] == there and there == sorted(there, reverse=order == "highest")
        assert found[0] == best(there) and found[-1] is None, "what has no score comes last"
    spread = dict(scores(desk).group_by("trial").agg(pl.col("spread").max()).iter_rows())
    apart = [spread[key] or 0 for key in find(sort="apart")]
    assert apart == sorted(apart, reverse=True)


def test_words_of_judges_are_found_in_any_case_and_literally(desk: Desk, find: Find) -> None:
    found = find(text="RED scarf")
    assert 0 < len(found) < 240 and find(text="red.scarf") == []
    assert find(text="red scarf", editor="even") == [key for key in found if key in set(find(editor="even"))]


def test_flags_and_reasons(desk: Desk, find: Find) -> None:
    for flag in FLAGS:
        assert len(find(flag=flag)) == scores(desk).filter(pl.col(flag))["trial"].n_unique()
    refused = desk.state().trials.filter(pl.col("status") == "refused")["trial"].to_list()
    assert find(status="refused") == refused and set(refused) <= set(find(why="refused"))
    assert len(find(ended="refused")) == len(find(stage="input")) + len(find(stage="model"))
    assert find(flag="nonsense") == [] and find(outcome="nonsense") == []


def test_pages_neighbours_and_the_next_flag(desk: Desk) -> None:
    state, query = desk.state(), question(desk, editor="even")
    pages = [desk.page(state, Query(query.chosen, number)) for number in range(1, 6)]
    assert [len(page.rows) for page in pages] == [PAGE] * 5 and pages[0].pages == 5
    assert desk.page(state, Query(query.chosen, 99)).number == 5, "beyond the last is the last"
    first, last = (str(state.trials["trial"][int(pages[p].rows[r])]) for p, r in ((0, 0), (4, -1)))
    assert desk.neighbour(state, query, first, -1) == last and desk.neighbour(state, query, last, 1) == first
    flagged = question(desk, editor="even", flag="open")
    here = desk.next_open(state, query)
    seen = [here]
    while (here := desk.next_open(state, query, str(here))) != seen[0]:
        seen.append(here)
    assert len(seen) == len(desk.kept(state, flagged)), "every open flag once, and round"


def test_an_address_is_read_in_one_order_and_written_back() -> None:
    read = Query.read([("sort", "apart"), ("editor", "b"), ("page", "3"), ("editor", "a"), ("x", "y")], ("race",))
    assert read.text(read.page) == "editor=b&editor=a&sort=apart&page=3"
    assert read.without("editor", "b").text() == "editor=a&sort=apart"
    assert Query.read([("page", "0"), ("low", "x")], ()).page == 1
    assert Query.read([("low", "x")], ()).number("low") is None
