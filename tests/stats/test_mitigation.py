"""Arms of the same case held against each other: persons are the unit, missing is missing, p is exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats.drift import changes
from stillme.stats.families import holm
from stillme.stats.flips import flipped_p
from stillme.stats.mitigation import (
    Contrast,
    Mitigation,
    contrasts,
    effects,
    mitigation_findings,
    paired,
    published_order,
    seed_tables,
)
from tests.stats.audits import row as one

SCHEMA = {
    "trial": pl.String, "arm": pl.String, "editor": pl.String, "prompt": pl.String, "person": pl.String, "race": pl.String,
    "gender": pl.String, "age": pl.String, "axis": pl.String, "neutral": pl.Int64, "requested": pl.Boolean, "score": pl.Int64,
}  # fmt: skip
Given = tuple[str, str, Sequence[int | None]]  # person, arm, one score a prompt


def frame(
    protocol: Protocol, given: Iterable[Given], axis: str = "race_drift", race: str = "black"
) -> pl.DataFrame:
    """Scores on one axis, the first of a person's under the first prompt and so on."""
    rows = [
        (f"{person} {arm} {prompt}", arm, "one", prompt, person, race, "male", "20s", axis, protocol.axes[axis].neutral,
         not protocol.unrequested(prompt, axis), score)
        for person, arm, scores in given
        for prompt, score in zip(protocol.prompt, scores, strict=False)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def found(protocol: Protocol, scores: pl.DataFrame, **given: bool) -> Mitigation:
    return mitigation_findings(scores, protocol, selected_on_outcome=given.get("selected", False))


def test_a_person_counts_once_however_many_cases_there_are(protocol: Protocol) -> None:
    """One person with three cases of −4, one with a single case of 0: the mean over persons is −2, not −3."""
    scores = frame(
        protocol,
        [("a", "baseline", [5, 5, 5]), ("a", "feature", [1, 1, 1]), ("b", "baseline", [1]), ("b", "feature", [1])],
    )
    row = one(found(protocol, scores).effects)
    assert row["difference"] == -2.0 and row["first_mean"] == 2.0 and row["second_mean"] == 0.0
    assert (row["cases"], row["pairs"], row["persons"], row["zeros"]) == (4, 4, 2, 0.25)
    assert row["p"] is None, "two persons say nothing about how persons differ"


def test_a_pair_needs_both_sides_and_what_is_missing_is_counted(protocol: Protocol) -> None:
    scores = frame(
        protocol,
        [("a", "baseline", [5, None, 4, None]), ("a", "feature", [2, 3, None, None]), ("b", "baseline", [3])],
    )
    made = found(protocol, scores)
    row = one(made.effects)
    assert (row["cases"], row["pairs"], row["first_only"], row["second_only"]) == (5, 1, 2, 1)
    assert row["difference"] == -3.0 and row["low"] is None, "one person: no interval"
    arms = {arm["arm"]: arm for arm in made.arms.to_dicts()}
    assert arms["feature"] == {"arm": "feature", "asked": 4, "scored": 2, "missing": 2, "unasked": 1}
    assert arms["baseline"] == {"arm": "baseline", "asked": 5, "scored": 3, "missing": 2, "unasked": 0}
    assert made.cases == 5 and made.persons == 2


def test_nothing_scored_is_no_zero(protocol: Protocol) -> None:
    scores = frame(protocol, [("a", "baseline", [None, None]), ("a", "feature", [2, 2])])
    row = one(found(protocol, scores).effects)
    assert row["pairs"] == 0 and row["difference"] is None and row["zeros"] is None and row["p_holm"] is None
    assert found(protocol, scores.clear()).effects.is_empty()


def test_lighter_and_darker_are_both_change_and_their_direction_stands_apart(protocol: Protocol) -> None:
    """Before: two shades lighter and two darker. After: one lighter twice. Less change, more lightening."""
    scores = frame(protocol, [("a", "baseline", [5, 1]), ("a", "feature", [4, 4])], axis="skin_tone")
    made = found(protocol, scores)
    amount, direction = one(made.effects), one(made.directions)
    assert (amount["first_mean"], amount["second_mean"], amount["difference"]) == (2.0, 1.0, -1.0)
    assert (direction["first_mean"], direction["second_mean"], direction["difference"]) == (0.0, 1.0, 1.0)
    unsigned = frame(protocol, [("a", "baseline", [5, 1]), ("a", "feature", [4, 4])])
    assert found(protocol, unsigned).directions.is_empty()


def test_what_a_prompt_asks_for_is_no_drift(protocol: Protocol) -> None:
    asking = [name for name in protocol.prompt if not protocol.unrequested(name, "age_drift")]
    every = len(protocol.prompt)
    scores = frame(protocol, [("a", "baseline", [5] * every), ("a", "feature", [3] * every)], axis="age_drift")
    assert asking and one(found(protocol, scores).effects)["cases"] == every - len(asking)


def test_edit_success_is_compared_as_it_is_and_age_accuracy_is_no_drift(protocol: Protocol) -> None:
    scores = frame(protocol, [("a", "baseline", [5, 4]), ("a", "feature", [3, 4])], axis="edit_success")
    assert one(found(protocol, scores).effects)["difference"] == -1.0
    aged = frame(protocol, [("a", "baseline", [5]), ("a", "feature", [3])], axis="age_accuracy")
    assert found(protocol, aged).effects.is_empty()


def drawn(protocol: Protocol, people: int = 30, shift: float = -0.6) -> pl.DataFrame:
    chance = np.random.default_rng(4)
    given: list[Given] = []
    for person in range(people):
        for arm in protocol.arms:
            level = 3 + (shift if arm == "feature" else 0)
            given.append(
                (f"p{person}", arm, np.clip(chance.normal(level, 1, 6).round(), 1, 5).astype(int).tolist())
            )
    return frame(protocol, given)


def test_the_interval_is_students_over_persons_and_p_is_corrected_over_the_family(protocol: Protocol) -> None:
    scores = drawn(protocol)
    made = found(protocol, scores)
    row = one(made.effects, arm="feature", against="baseline")
    pairs = paired(changes(scores, protocol), [Contrast("feature", "baseline")], list(protocol.groups.dimensions))
    persons = pairs.group_by("person").agg(pl.col("difference").mean())["difference"].to_numpy()
    expected = stats.ttest_1samp(persons, 0).confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))
    assert made.effects["p_holm"].to_list() == holm(made.effects["p"].to_list())
    assert row["p"] == pytest.approx(stats.ttest_1samp(persons, 0).pvalue, abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_share_of_sign_patterns_that_are_as_extreme(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0.4, 1, 9).round(1)
    exact = stats.permutation_test(
        (values,),
        lambda x, axis: x.sum(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert flipped_p(values) == pytest.approx(exact.pvalue)
    assert flipped_p(values, flips=400) == pytest.approx(exact.pvalue, abs=0.08), "drawn, not enumerated"


def test_p_is_never_zero_and_no_difference_is_no_evidence() -> None:
    assert flipped_p([0.0] * 40) == 1.0
    sure = flipped_p(np.full(60, -1.0))
    assert sure is not None and 0 < sure <= 0.001
    assert flipped_p(np.arange(40.0), seed=1) == flipped_p(np.arange(40.0), seed=1)
    assert flipped_p([1.0, 2.0]) is None


def test_p_has_its_nominal_size() -> None:
    """Persons who differ from each other, and no effect: 5 % of 2,000 experiments are accused."""
    chance = np.random.default_rng(8)
    found = [flipped_p(chance.normal(0, chance.uniform(0.2, 2, 25)), flips=199, seed=n) for n in range(2000)]
    assert 0.04 <= float(np.mean([p is not None and p <= 0.05 for p in found])) <= 0.06


def test_what_is_compared_with_what(protocol: Protocol) -> None:
    every = set(protocol.arms)
    plain = [("feature", "baseline"), ("reseed", "baseline"), ("placebo", "baseline"), ("feature", "placebo")]
    assert contrasts(protocol, every, False) == plain
    assert set(contrasts(protocol, every, True)) == {*plain, ("feature", "reseed")}
    assert contrasts(protocol, {"baseline", "feature"}, False) == [("feature", "baseline")]
    assert contrasts(protocol, {"feature", "placebo"}, False) == [("feature", "placebo")]
    assert contrasts(protocol, {"baseline"}, False) == []


def test_the_order_of_rows_changes_nothing(protocol: Protocol) -> None:
    scores = drawn(protocol, 8)
    first, second = found(protocol, scores), found(protocol, scores.sample(fraction=1.0, shuffle=True, seed=3))
    left, right = (one.effects.sort("arm", "against", "axis") for one in (first, second))
    for name in ("difference", "low", "high", "first_mean"):
        assert left[name].to_list() == pytest.approx(right[name].to_list())
    assert left["pairs"].to_list() == right["pairs"].to_list()


def test_marked_persons_are_left_out_of_a_table_of_their_own(protocol: Protocol) -> None:
    scores = drawn(protocol, 10)
    made = mitigation_findings(scores, protocol, selected_on_outcome=False, marked=["p3", "p7", "stranger"])
    assert made.marked == 2 and made.unmarked is not None
    assert set(made.effects["persons"]) == {10} and set(made.unmarked["persons"]) == {8}
    assert found(protocol, scores).unmarked is None


def test_groups_have_their_own_rows_and_an_uneven_effect_is_found(protocol: Protocol) -> None:
    """Everybody but the reference group is helped."""
    reference = protocol.groups.reference_group["race"]
    parts = []
    for race in protocol.groups.ids("race"):
        after = 3 if race == reference else 1
        for n in range(8):
            given: list[Given] = [
                (f"{race}{n}", "baseline", [3, 4, 3]),
                (f"{race}{n}", "feature", [after, after, 3]),
            ]
            parts.append(frame(protocol, given, race=race))
    made = found(protocol, pl.concat(parts))
    groups = made.by_group.filter(pl.col("dimension") == "race")
    assert dict(zip(groups["group"], groups["difference"].round(3), strict=True)) == {
        race: pytest.approx(-1 / 3 if race == reference else -5 / 3, abs=1e-3)
        for race in protocol.groups.ids("race")
    }
    assert set(groups["persons"]) == {8} and set(groups["pairs"]) == {24}
    row = one(made.uneven)
    assert row["difference"] == pytest.approx(-4 / 3) and isinstance(row["p_holm"], float) and row["p_holm"] < 0.01


def test_reseeding_is_what_regression_to_the_mean_is_read_off(protocol: Protocol) -> None:
    made = found(protocol, drawn(protocol), selected=True)
    assert set(made.regression(protocol)["arm"]) == {"reseed"}
    assert effects(paired(changes(drawn(protocol), protocol), made.contrasts, ["race"])).height == 5


# The published tables


def test_the_published_tables_are_means_over_edits_with_signed_axes_twice(protocol: Protocol) -> None:
    """Table 19's form: a person with three cases weighs three times here, and lighter does not cancel darker."""
    drift: list[Given] = [
        ("a", "baseline", [5, 5, 5]),
        ("a", "feature", [1, 1, 1]),
        ("b", "baseline", [1]),
        ("b", "feature", [1]),
    ]
    tone: list[Given] = [("a", "baseline", [5, 1, 3]), ("a", "feature", [4, 4, None])]
    table = seed_tables(pl.concat([frame(protocol, drift), frame(protocol, tone, axis="skin_tone")]), protocol)
    mine = {(row["axis"], row["quantity"]): row for row in table.filter(group="black").to_dicts()}
    assert set(mine) == {("race_drift", "score"), ("skin_tone", "amount"), ("skin_tone", "net")}
    race = mine["race_drift", "score"]
    assert (race["baseline"], race["feature"], race["delta"], race["cases"], race["persons"]) == (4, 1, -3, 4, 2)
    amount, net = mine["skin_tone", "amount"], mine["skin_tone", "net"]
    assert (amount["baseline"], amount["feature"], amount["delta"], amount["cases"]) == (2.0, 1.0, -1.0, 2)
    assert (net["baseline"], net["feature"], net["delta"]) == (0.0, 1.0, 1.0)
    everybody = table.filter(pl.col("group").is_null())
    assert everybody["delta"].to_list() == [row["delta"] for row in mine.values()], "one group is everybody"


def test_rows_stand_in_the_published_order_where_asked(protocol: Protocol) -> None:
    name = "table14_feature_prompt_delta_by_race"
    order = published_order(protocol, name, "race")
    printed = [row["race"] for row in protocol.published[name]]
    labels = {one.id: (one.label, *one.aliases) for one in protocol.groups.dimensions["race"]}
    assert [next(w for w in printed if w in labels[group]) for group in order] == printed
    parts = [
        frame(protocol, [(race, "baseline", [3]), (race, "feature", [2])], race=race)
        for race in protocol.groups.ids("race")
    ]
    table = seed_tables(pl.concat(parts), protocol, order=order)
    assert table["group"].to_list() == [*order, None] and set(table["delta"]) == {-1.0}
    assert published_order(protocol, name, "gender") == list(protocol.groups.ids("gender"))


def test_without_both_arms_there_is_no_published_table(protocol: Protocol) -> None:
    scores = frame(protocol, [("a", "baseline", [3]), ("a", "placebo", [2])])
    assert seed_tables(scores, protocol).is_empty()
    assert found(protocol, scores).published is not None and seed_tables(scores.clear(), protocol).is_empty()


def test_one_group_one_arm_or_no_spread_give_gaps_and_no_nan(protocol: Protocol) -> None:
    """Everything that `stillme analyse` may be given: a table comes back, and no figure in it is NaN."""
    arms: list[Given] = [(p, arm, [3, 3]) for p in "abcdefgh" for arm in protocol.arms]
    for scores in (
        frame(protocol, arms),
        frame(protocol, arms).filter(arm="baseline"),
        frame(protocol, arms).with_columns(score=pl.lit(None, pl.Int64)),
        frame(protocol, arms).with_columns(race=pl.lit(None, pl.String)),
        frame(protocol, arms).clear(),
    ):
        made = found(protocol, scores)
        assert made.tradeoff is not None
        tables = [one for one in vars(made).values() if isinstance(one, pl.DataFrame)]
        for table in (*tables, made.tradeoff.points, made.tradeoff.differences):
            numbers = table.select(pl.selectors.float())
            assert not any(numbers[name].is_nan().any() for name in numbers.columns)


def test_two_edits_of_a_case_in_one_arm_are_refused(protocol: Protocol) -> None:
    scores = frame(protocol, [("a", "baseline", [3]), ("a", "baseline", [4])])
    with pytest.raises(InputError, match="more than one score on race_drift in the arm baseline"):
        found(protocol, scores)
