"""Judges that err by group are put right by a rectifier a group; persons are the unit; too little is said to be so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl
import pytest

from stillme.core.errors import InputError
from stillme.stats.contrast import welch
from stillme.stats.intervals import clustered_share
from stillme.stats.rectified import METHODS, Rectified, rectified

CUTS = (-1.5, -0.75, 0.0, 1.2)
GROUPS, PERSONS, PROMPTS = 7, 12, 20
LATENT = np.array([-3.7, -2.4, -2.6, -2.3, -2.5, -2.2, -2.7])  # the first group is the reference


def scored(severity: np.ndarray) -> np.ndarray:
    return np.asarray(1 + np.searchsorted(CUTS, severity))


def audit(rng: np.random.Generator, shift: float, persons: int = PERSONS) -> tuple[np.ndarray, ...]:
    """Group of each person, and per person × prompt whether raters and judges see a change; judges see `shift` more
    of it in everyone but the reference group."""
    group = np.repeat(np.arange(GROUPS), persons)
    size = (len(group), PROMPTS)
    prompts = np.random.default_rng(5).normal(0, 0.6, PROMPTS)
    severity = LATENT[group][:, None] + rng.normal(0, 0.5, size[0])[:, None] + prompts + rng.logistic(size=size)
    people = np.median([scored(severity + rng.normal(0, 0.8, size)) for _ in range(3)], axis=0) >= 4
    tilt = shift * (group > 0)[:, None]
    judges = np.mean([scored(severity + tilt + rng.normal(0, 0.5, size)) for _ in range(2)], axis=0) >= 3.5
    return group, people, judges


def frames(
    group: np.ndarray, people: np.ndarray, judges: np.ndarray, labelled: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`labelled`: the places of labelled outputs, person by person."""
    each = people.shape[1]
    marked = pl.DataFrame(
        {
            "trial": np.arange(people.size),
            "person": np.repeat(np.arange(len(group)), each),
            "race": [f"g{g}" for g in np.repeat(group, each)],
            "editor": "e",
            "outcome": "o",
            "hit": judges.ravel(),
        }
    )
    labels = pl.DataFrame({"trial": labelled, "outcome": "o", "human": people.ravel()[labelled].astype(float)})
    return marked, labels


@lru_cache(maxsize=256)
def simulated(seed: int, shift: float, human: int = 500) -> Rectified:
    rng = np.random.default_rng(seed)
    group, people, judges = audit(rng, shift)
    return rectified(*frames(group, people, judges, rng.permutation(people.size)[:human]), "race", "g0")


def contrast(found: Rectified, method: str) -> dict[str, float]:
    (row,) = found.contrasts.filter(pl.col("method") == method).to_dicts()
    return row


def rate(found: Rectified, group: str, method: str) -> dict[str, float]:
    (row,) = found.rates.filter((pl.col("method") == method) & (pl.col("group") == group)).to_dicts()
    return row


@pytest.fixture(scope="module")
def truth() -> float:
    """Everyone else − reference, as raters would see it in very many persons."""
    group, people, _ = audit(np.random.default_rng(0), 0.0, persons=6000)
    return float(people[group > 0].mean() - people[group == 0].mean())


def covered(rows: Sequence[dict[str, float]], truth: float) -> float:
    return float(np.mean([row["low"] <= truth <= row["high"] for row in rows]))


@pytest.mark.parametrize("shift", [0.5, pytest.param(-0.5, marks=pytest.mark.slow)])
def test_a_judge_that_sees_more_in_some_groups_is_put_right(shift: float, truth: float) -> None:
    found = [simulated(seed, shift) for seed in range(80)]
    bias = {m: np.mean([contrast(f, m)["estimate"] for f in found]) - truth for m in METHODS}
    cover = {m: covered([contrast(f, m) for f in found], truth) for m in METHODS}
    assert bias["judges"] > 0.05 if shift > 0 else bias["judges"] < -0.02
    assert cover["judges"] < (0.25 if shift > 0 else 0.75)
    for method in ("corrected", "tuned"):
        assert abs(bias[method]) < 0.008  # three times its error over 80 audits
        assert cover[method] >= 0.875  # three errors below 95 %
    spread = {m: np.std([contrast(f, m)["estimate"] for f in found]) for m in METHODS}
    assert spread["tuned"] < spread["raters"]


def test_rates_of_groups_cover_too() -> None:
    group, people, _ = audit(np.random.default_rng(0), 0.5, persons=6000)
    true = [people[group == g].mean() for g in range(GROUPS)]
    found = [simulated(seed, 0.5) for seed in range(50)]
    for method in ("corrected", "tuned"):
        inside = [
            row["low"] <= true[int(row["group"][1:])] <= row["high"]
            for f in found
            for row in f.rates.filter(pl.col("method") == method).to_dicts()
        ]
        assert 0.92 <= np.mean(inside) <= 0.99


def test_one_rectifier_for_everybody_leaves_the_judges_error_in_the_contrast() -> None:
    rng = np.random.default_rng(3)
    group, people, judges = audit(rng, 0.5, persons=400)
    labelled = rng.permutation(people.size)[:20_000]
    found = rectified(*frames(group, people, judges, labelled), "race", "g0")
    pooled = float((people.ravel()[labelled].astype(float) - judges.ravel()[labelled]).mean())
    rates = [rate(found, f"g{g}", "judges")["estimate"] + pooled for g in range(GROUPS)]
    assert np.mean(rates[1:]) - rates[0] == pytest.approx(contrast(found, "judges")["estimate"], abs=1e-9)
    seen = people[group > 0].mean() - people[group == 0].mean()
    assert contrast(found, "judges")["estimate"] - seen > 0.05
    assert abs(contrast(found, "corrected")["estimate"] - seen) < 0.01


def small() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two groups of eight persons with four outputs each, half of them labelled."""
    rng = np.random.default_rng(11)
    group, people, judges = np.repeat([0, 1], 8), rng.random((16, 4)) < 0.4, rng.random((16, 4)) < 0.5
    return frames(group, people, judges, np.arange(0, 64, 2))


def mean(values: pl.Series) -> float:
    return float(values.to_numpy().mean())


def test_estimates_are_the_formulas() -> None:
    marked, labels = small()
    found = rectified(marked, labels, "race", "g0")
    both = marked.join(labels, on=["trial", "outcome"], how="left").with_columns(pl.col("hit").cast(pl.Float64))
    for group in ("g0", "g1"):
        part = both.filter(pl.col("race") == group)
        seen = part.drop_nulls("human")
        judged, human, beside = mean(part["hit"]), mean(seen["human"]), mean(seen["hit"])
        assert rate(found, group, "judges")["estimate"] == pytest.approx(judged)
        assert rate(found, group, "raters")["estimate"] == pytest.approx(human)
        assert rate(found, group, "corrected")["estimate"] == pytest.approx(judged + human - beside)
        power = rate(found, group, "tuned")["power"]
        assert 0 <= power <= 1
        tuned = power * judged + human - power * beside
        assert rate(found, group, "tuned")["estimate"] == pytest.approx(tuned)
    counts = found.contrasts.select("outputs", "labelled", "persons", "labelled_persons").unique()
    assert counts.rows() == [(64, 32, 16, 16)]


def test_judges_alone_are_what_the_other_tables_print() -> None:
    marked, labels = small()
    found = rectified(marked, labels, "race", "g0")
    people = marked.group_by("race", "person").agg(pl.col("hit").sum(), pl.len())
    own = people.filter(pl.col("race") == "g0")
    share = clustered_share(own["hit"], own["len"])
    row = rate(found, "g0", "judges")
    assert (row["low"], row["high"]) == pytest.approx((share.low, share.high))
    means = people.with_columns(mean=pl.col("hit") / pl.col("len"))
    theirs, ours = (means.filter(pl.col("race") == g)["mean"] for g in ("g1", "g0"))
    gap = welch(theirs, ours)
    row = contrast(found, "judges")
    assert (row["estimate"], row["low"], row["high"]) == pytest.approx((gap.difference, gap.low, gap.high))


def test_the_error_is_that_of_leaving_each_person_out() -> None:
    """A person's outputs with and without labels move together: the jackknife over persons knows nothing else."""
    rng = np.random.default_rng(4)
    group, people, judges = audit(rng, 0.5, persons=60)
    marked, labels = frames(group, people, judges, rng.permutation(people.size)[:4000])
    marked = marked.filter(pl.col("race").is_in(["g0", "g1"]))
    whole = contrast(rectified(marked, labels, "race", "g0"), "corrected")
    without = np.array(
        [
            contrast(rectified(marked.filter(pl.col("person") != p), labels, "race", "g0"), "corrected")[
                "estimate"
            ]
            for p in range(120)
        ]
    )
    error = np.sqrt(sum(59 / 60 * ((part - part.mean()) ** 2).sum() for part in np.split(without, 2)))
    assert (whole["high"] - whole["low"]) / 2 / error == pytest.approx(1.98, rel=0.03)


def test_the_same_persons_again_and_again_are_no_more_persons() -> None:
    marked, labels = small()
    often = pl.concat([marked.with_columns(trial=pl.col("trial") + 1000 * i) for i in range(10)])
    seen = pl.concat([labels.with_columns(trial=pl.col("trial") + 1000 * i) for i in range(10)])
    once, many = (
        contrast(rectified(*given, "race", "g0"), "corrected") for given in ((marked, labels), (often, seen))
    )
    assert (many["low"], many["high"]) == pytest.approx((once["low"], once["high"]))


def test_labels_drawn_unevenly_are_weighted_by_what_they_were_drawn_with() -> None:
    """People look at three times as many of the outputs in which judges see a change."""
    rng = np.random.default_rng(9)
    group, people, judges = audit(rng, 0.5, persons=300)
    chance = np.where(judges.ravel(), 0.6, 0.2)
    labelled = np.flatnonzero(rng.random(people.size) < chance)
    marked, labels = frames(group, people, judges, labelled)
    weighted = labels.with_columns(pl.Series("probability", chance[labelled]))
    seen = people[group > 0].mean() - people[group == 0].mean()
    naive, known = (contrast(rectified(marked, given, "race", "g0"), "raters") for given in (labels, weighted))
    assert naive["estimate"] - seen > 0.05
    assert abs(known["estimate"] - seen) < 0.01
    assert known["low"] < seen < known["high"]
    corrected = contrast(rectified(marked, weighted, "race", "g0"), "corrected")
    assert abs(corrected["estimate"] - seen) < 0.01


def test_too_few_labelled_persons_give_no_interval_and_say_so() -> None:
    marked, labels = small()
    few = labels.filter(pl.col("trial") >= 4)  # one person of g0 loses the labels
    found = rectified(marked, few, "race", "g0")
    row = rate(found, "g0", "corrected")
    assert row["estimate"] is not None and row["low"] is None
    assert row["reason"] == "fewer than 8 labelled persons: g0 has 7"
    assert rate(found, "g1", "corrected")["low"] is not None
    assert rate(found, "g0", "judges")["low"] is not None
    row = contrast(found, "tuned")
    assert row["estimate"] is not None and row["low"] is None and "g0 has 7" in str(row["reason"])


def test_a_group_without_labels_has_no_corrected_rate() -> None:
    marked, labels = small()
    found = rectified(marked, labels.filter(pl.col("trial") < 32), "race", "g0")
    assert [rate(found, "g1", m)["estimate"] is None for m in METHODS] == [False, True, True, True]
    assert [contrast(found, m)["estimate"] is None for m in METHODS] == [False, True, True, True]


def test_without_any_label_judges_stand_alone() -> None:
    marked, labels = small()
    found = rectified(marked, labels.clear(), "race", "g0")
    assert [contrast(found, m)["low"] is None for m in METHODS] == [False, True, True, True]
    assert found.rates["labelled"].sum() == 0


def test_one_group_alone_is_set_against_nobody() -> None:
    marked, labels = small()
    alone = rectified(marked.filter(pl.col("race") == "g0"), labels, "race", "g0")
    others = rectified(marked, labels, "race", "nobody")
    assert set(alone.contrasts["reason"]) == {"no judged output of anyone else"}
    assert set(others.contrasts["reason"]) == {"no judged output of the reference group nobody"}
    assert alone.contrasts["estimate"].null_count() == others.contrasts["estimate"].null_count() == 4


@pytest.mark.parametrize("hit", [True, False])
@pytest.mark.parametrize("human", [1.0, 0.0, 0.5])
def test_where_nothing_varies_there_is_a_reason_and_never_nan(hit: bool, human: float) -> None:
    marked, labels = small()
    found = rectified(marked.with_columns(hit=pl.lit(hit)), labels.with_columns(human=pl.lit(human)), "race", "g0")
    for frame in (found.rates, found.contrasts):
        assert frame.select(pl.col(pl.Float64).is_nan().any()).sum_horizontal().item() == 0
    assert set(found.contrasts["low"]) == {None} and None not in set(found.contrasts["reason"])
    row = rate(found, "g0", "corrected")
    assert row["estimate"] == human and row["low"] <= human <= row["high"] and row["high"] - row["low"] > 0.2


def test_unjudged_outputs_and_people_without_a_group_are_left_out() -> None:
    marked, labels = small()
    gaps = marked.with_columns(
        hit=pl.when(pl.col("trial") != 0).then("hit"), race=pl.when(pl.col("person") != 15).then("race")
    )
    found = rectified(gaps, labels, "race", "g0")
    assert rate(found, "g0", "corrected")["outputs"] == 31 and rate(found, "g0", "corrected")["labelled"] == 15
    assert rate(found, "g1", "corrected")["persons"] == 7


def test_editors_may_be_pooled() -> None:
    marked, labels = small()
    two = marked.with_columns(editor=pl.when(pl.col("trial") % 4 < 2).then(pl.lit("a")).otherwise(pl.lit("b")))
    assert rectified(two, labels, "race", "g0").contrasts.height == 2 * len(METHODS)
    pooled = rectified(two, labels, "race", "g0", by=())
    assert (
        pooled.contrasts["estimate"].to_list()
        == rectified(marked, labels, "race", "g0").contrasts["estimate"].to_list()
    )


def test_rows_that_stand_twice_are_an_error() -> None:
    marked, labels = small()
    with pytest.raises(InputError, match="the table of outcomes has 0 × o more than once"):
        rectified(pl.concat([marked, marked.head(1)]), labels, "race", "g0")
    with pytest.raises(InputError, match="the table of labels"):
        rectified(marked, pl.concat([labels, labels.head(1)]), "race", "g0")


@pytest.mark.parametrize("probability", [0.0, 1.5, None])
def test_a_probability_that_is_none_is_an_error(probability: float | None) -> None:
    marked, labels = small()
    with pytest.raises(InputError, match="probability above 0"):
        rectified(marked, labels.with_columns(probability=pl.lit(probability, pl.Float64)), "race", "g0")
