from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from stillme.ledger import Run
from stillme.report.browse import choosing, read
from stillme.report.browse.gallery import main_trials
from stillme.report.review.state import State


@pytest.fixture(scope="module")
def state(wall_run: Path) -> Iterator[State]:
    with Run.open_readonly(wall_run) as seen:
        yield read(seen)


@pytest.fixture(scope="module")
def trials(state: State) -> pl.DataFrame:
    return main_trials(state)


def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
    rows = list(range(frame.height))
    random.Random(1).shuffle(rows)
    return frame[rows]


def test_the_mosaic_is_even_over_editors_and_kinds_of_prompt(trials: pl.DataFrame) -> None:
    two = trials.with_columns(category=pl.when(pl.col("prompt") == "O-01").then(pl.lit("v")).otherwise("category"))
    chosen = choosing.mosaic(two, 40)
    assert Counter(chosen.select("editor", "category").iter_rows()) == dict.fromkeys(
        [("even", "v"), ("even", "occupational"), ("erases", "v"), ("erases", "occupational")], 10
    )
    assert chosen["image"].null_count() == 0
    assert chosen["editor"].is_sorted() or chosen["editor"].is_sorted(descending=True)


def test_the_mosaic_hangs_on_keys_alone(trials: pl.DataFrame) -> None:
    chosen = choosing.mosaic(trials, 40)
    assert set(choosing.mosaic(shuffled(trials), 40)["trial"]) == set(chosen["trial"])
    prompts = set(chosen["prompt"])
    assert len(prompts) == 5  # a draw, not the first ones


def test_the_mosaic_is_smaller_where_there_are_fewer(trials: pl.DataFrame) -> None:
    assert choosing.mosaic(trials).height == choosing.finished(trials).height < choosing.TILES


def test_a_grid_has_one_cell_and_the_first_key_of_each_group(state: State, trials: pl.DataFrame) -> None:
    first, second = choosing.grids(trials, state.protocol)
    assert [first.editor, second.editor] == ["even", "erases"]
    assert first.persons == second.persons and first.groups == ("white", "black")
    assert first.prompts == ("O-01", "O-03", "O-05")
    for group, person in first.persons.items():
        about = trials.filter(
            (pl.col("race") == group) & pl.all_horizontal(pl.col(n) == v for n, v in first.cell.items())
        )
        assert person == min(about["person"])
    assert choosing.grids(shuffled(trials), state.protocol)[0].persons == first.persons
    for (prompt, group), trial in first.trials.items():
        row = trials.row(by_predicate=pl.col("trial") == trial, named=True)
        assert (row["prompt"], row["race"], row["editor"]) == (prompt, group, "even")


def test_cases_are_what_they_are_called_and_spread(state: State, trials: pl.DataFrame) -> None:
    axes = state.axes[state.rounding]
    found = choosing.cases(trials, axes, state.protocol)
    assert Counter(case.kind for case in found) == {choosing.ERASED: 6, choosing.REPLACED: 6}
    assert found == choosing.cases(shuffled(trials), shuffled(axes), state.protocol)
    scores = {
        (t, a): (s, o, r)
        for t, a, s, o, r in axes.select("trial", "axis", "score", "open", "requested").iter_rows()
    }
    for case in found:
        success = scores[(case.trial, "edit_success")]
        if case.kind == choosing.ERASED:
            assert success[0] <= 2 and not success[1]
        else:
            drift = {axis: scores[(case.trial, axis)] for axis in ("race_drift", "gender_drift", "skin_tone")}
            assert success[0] >= 4
            assert any(
                not r and s is not None and (s >= 3 if axis != "skin_tone" else s != 3)
                for axis, (s, _, r) in drift.items()
            ) or scores.get((case.trial, "age_drift"))
    about = trials.join(pl.DataFrame({"trial": [c.trial for c in found if c.kind == choosing.ERASED]}), on="trial")
    assert Counter(about["editor"]) == {"even": 3, "erases": 3}
    assert Counter(about["race"]) == {"white": 3, "black": 3}


def test_the_clearest_case_comes_first(state: State, trials: pl.DataFrame) -> None:
    """Of one editor and group nothing that is left out is clearer than what is shown."""
    axes = state.axes[state.rounding]
    shown = {
        case.trial: case for case in choosing.cases(trials, axes, state.protocol) if case.kind == choosing.ERASED
    }
    every = choosing.cases(trials, axes, state.protocol, number=10_000)
    cell = {key: (editor, race) for key, editor, race in trials.select("trial", "editor", "race").iter_rows()}
    for case in shown.values():
        rest = [
            one
            for one in every
            if one.kind == case.kind and cell[one.trial] == cell[case.trial] and one.trial not in shown
        ]
        assert all((one.agreed, -one.severity) >= (case.agreed, -case.severity) for one in rest)


def test_no_case_where_nothing_was_judged(state: State, trials: pl.DataFrame) -> None:
    assert choosing.cases(trials, state.axes[state.rounding].clear(), state.protocol) == []
