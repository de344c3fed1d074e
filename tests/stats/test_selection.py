"""A choice by the outcome is seen in the data, and none is seen where nobody chose."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stillme.protocol import Protocol
from stillme.stats.drift import drifted
from stillme.stats.mitigation import mitigation_findings
from stillme.stats.selection import selection

Drawn = dict[str, np.ndarray]  # axis -> cases × arms
AXES = {"race_drift": (1, 1.4), "gender_drift": (1, 0.6), "skin_tone": (3, 3.1)}  # axis -> neutral, mean


class Editors:
    """Cases of 84 persons whose edits drift more or less: a person effect, a case effect, and chance in every edit."""

    def __init__(self, cases: int, seed: int, persons: int = 84, spread: float = 0.6) -> None:
        self.chance = np.random.default_rng(seed)
        self.person = np.arange(cases) % persons
        self.own = self.chance.normal(0, spread, persons)[self.person] + self.chance.normal(0, 0.4, cases)

    def edit(self) -> Drawn:
        """One more edit of every case, scored on every axis."""
        made = {}
        for axis, (neutral, mean) in AXES.items():
            moved = self.own + self.chance.normal(0, 0.9, len(self.own))
            scale = 0.5 if neutral == 3 else 1.0
            made[axis] = np.clip(np.rint(mean + scale * moved), 1, 5).astype(int)
        return made


def frame(protocol: Protocol, editors: Editors, arms: dict[str, Drawn], chosen: np.ndarray) -> pl.DataFrame:
    """Scores of the chosen cases, as the pipeline would give them on."""
    parts = [
        pl.DataFrame(
            {
                "trial": [f"{arm}{case}" for case in chosen],
                "arm": arm,
                "editor": "one",
                "prompt": [f"P{case}" for case in chosen],
                "person": [f"p{n}" for n in editors.person[chosen]],
                "race": ["white" if n % 7 == 0 else "black" for n in editors.person[chosen]],
                "gender": "male",
                "age": "20s",
                "axis": axis,
                "neutral": AXES[axis][0],
                "requested": False,
                "score": drawn[chosen],
            }
        )
        for arm, edit in arms.items()
        for axis, drawn in edit.items()
    ]
    return pl.concat(parts)


def unselected(protocol: Protocol, cases: int, seed: int, **how: float) -> pl.DataFrame:
    editors = Editors(cases, seed, **how)  # type: ignore[arg-type]
    return frame(protocol, editors, {"baseline": editors.edit(), "reseed": editors.edit()}, np.arange(cases))


def chosen_by_outcome(
    protocol: Protocol, size: int, seed: int, again: bool = True, at_least: int = 3
) -> pl.DataFrame:
    """Of 5,040 cases, `size` whose first edit drifted; asked again after the choice."""
    editors = Editors(5040, seed)
    first = editors.edit()
    seen = (first["race_drift"] >= at_least) | (first["gender_drift"] >= at_least) | (first["skin_tone"] != 3)
    picked = editors.chance.permutation(np.flatnonzero(seen))[:size]
    return frame(protocol, editors, {"baseline": first} | ({"reseed": editors.edit()} if again else {}), picked)


@pytest.mark.parametrize("experiments", [32, pytest.param(200, marks=pytest.mark.slow)])
def test_nobody_is_suspected_of_a_choice_that_was_not_made(protocol: Protocol, experiments: int) -> None:
    """Small and large ones, persons alike and persons far apart."""
    sizes, spreads = (60, 168, 300, 500), (0.0, 0.6, 1.2, 2.5)
    found = [
        selection(unselected(protocol, sizes[n % 4], n, spread=spreads[n // 4 % 4]), protocol, flips=1999)
        for n in range(experiments)
    ]
    assert not [one for one in found if one.suspected]
    assert all("nothing speaks for a choice" in one.because for one in found)
    shares = np.array([(one.share_baseline, one.share_reseed) for one in found], float)
    assert np.abs(shares[:, 0] - shares[:, 1]).mean() < 0.05


def test_every_sample_of_drifted_cases_is_suspected(protocol: Protocol) -> None:
    for seed, size in enumerate((60, 60, 100, 168, 168, 300, 500, 500)):
        found = selection(chosen_by_outcome(protocol, size, seed), protocol)
        assert found.suspected and found.share_baseline == 1.0 and found.cases == size
        assert found.share_reseed is not None and found.share_reseed < 0.9
        assert (
            f"{size} of {size} first edits show drift" in found.because
            and "look as if they had been chosen" in found.because
        )


def test_a_choice_by_half_is_seen_too(protocol: Protocol) -> None:
    """Half of the cases were chosen, half drawn: not all drifted, and still far more than when asked again."""
    drawn, picked = unselected(protocol, 250, 1), chosen_by_outcome(protocol, 250, 2)
    mixed = pl.concat([drawn.with_columns(editor=pl.lit("two")), picked])
    found = selection(mixed, protocol)
    assert found.suspected and found.share_baseline is not None and found.share_baseline < 0.95


def test_an_editor_that_always_drifts_was_not_chosen_by(protocol: Protocol) -> None:
    always = unselected(protocol, 168, 3).with_columns(
        score=pl.when(pl.col("axis") == "race_drift").then(4).otherwise("score")
    )
    found = selection(always, protocol)
    assert (found.share_baseline, found.share_reseed, found.suspected) == (1.0, 1.0, False)


def test_without_a_second_edit_all_drifting_is_suspect_and_less_is_not(protocol: Protocol) -> None:
    picked = selection(chosen_by_outcome(protocol, 100, 4, again=False), protocol)
    assert picked.suspected and picked.share_reseed is None and "unless an editor always drifts" in picked.because
    drawn = unselected(protocol, 100, 5).filter(arm="baseline")
    found = selection(drawn, protocol)
    assert not found.suspected and "cannot be told" in found.because
    few = chosen_by_outcome(protocol, 100, 4, again=False).filter(pl.col("person").is_in(["p1", "p2", "p3"]))
    assert not selection(few, protocol).suspected, "three persons may all drift"


def test_nothing_to_look_at_is_said(protocol: Protocol) -> None:
    none = unselected(protocol, 60, 6)
    for empty in (none.clear(), none.filter(arm="reseed"), none.with_columns(score=pl.lit(None, pl.Int64))):
        found = selection(empty, protocol)
        assert not found.suspected and found.share_baseline is None and "No case has a score" in found.because
    two = selection(none.filter(pl.col("person").is_in(["p1", "p2"])), protocol)
    assert not two.suspected and "too few to tell" in two.because


def test_what_is_unknown_is_neither_drift_nor_none(protocol: Protocol) -> None:
    """One axis seen to drift is enough; none seen and one missing is unknown."""
    one = unselected(protocol, 3, 7).filter(arm="baseline").sort("prompt", "axis")
    scores = [1, 4, None, 1, 1, None, 1, 1, 3]  # gender, race, skin of three cases
    found = drifted(one.with_columns(score=pl.Series(scores, dtype=pl.Int64)), protocol)
    assert found["drifted"].to_list() == [True, None, False]


def test_what_a_prompt_asks_for_is_no_drift(protocol: Protocol) -> None:
    asked = unselected(protocol, 5, 8).with_columns(requested=pl.col("axis") == "race_drift", score=pl.lit(5))
    kept = drifted(asked.filter(pl.col("axis") == "race_drift"), protocol)
    assert kept.is_empty()


@pytest.mark.parametrize("told", [False, True])
def test_a_suspicion_changes_what_is_compared_whatever_was_told(protocol: Protocol, told: bool) -> None:
    scores = chosen_by_outcome(protocol, 120, 9)
    feature = scores.filter(arm="reseed").with_columns(arm=pl.lit("feature"))
    found = mitigation_findings(pl.concat([scores, feature]), protocol, selected_on_outcome=told)
    assert found.is_selected and found.selected_on_outcome is told
    assert ("feature", "reseed") in found.contrasts
    assert found.selection is not None and found.selection.suspected
    again = found.effects.filter(arm="reseed", axis="race_drift").to_dicts()[0]
    assert again["high"] < 0, "asking the same again 'improves' what was chosen"
