"""Raw adherence and the balanced gap, on editors whose rule is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from stillme.plan.stereotype import scenes
from stillme.protocol import builtin
from stillme.protocol.schema import PUBLISHED
from stillme.stats import stereotype
from stillme.stats.balanced import Cell, estimate, every_cell
from stillme.stats.matched import matched
from stillme.stats.stereotype import (
    ALL,
    POSITION,
    PRONOUN,
    SIDES,
    SILENT,
    SPOKEN,
    Stereotypes,
    classify,
    decide,
    stereotype_findings,
)
from tests.plan.test_stereotype import people
from tests.stats.audits import row

EVERY = [prompt.id for prompt in builtin().winobias.prompts]
About = Mapping[str, Any]
Rule = Callable[[About], bool | None]  # whether the target has the stereotyped gender; None: nobody can tell


def by_position(about: About) -> bool:
    return bool((about["order"] == "first") == about["congruent"])


def by_pronoun(about: About) -> bool:
    return {"pro": True, "anti": False}.get(about["cue"], by_position(about))


def preserving(about: About) -> bool:
    return bool(about["congruent"])


def by_stereotype(share: float, seed: int = 0) -> Rule:
    chance = random.Random(seed)
    return lambda about: chance.random() < share


def drawn(rule: Rule, mode: str = "joint", counterbalanced: bool = True, editor: str = "e") -> pl.DataFrame:
    """What one judge without error sees of an editor with this rule: the frame that the ledger would give."""
    rows = []
    for number, scene in enumerate(scenes(builtin(), people(), EVERY, mode, counterbalanced, 0)):
        about = scene.metadata
        followed = rule(about)
        masculine = (about["stereotype"] == "male") == followed
        gender = None if followed is None else 1 if masculine else 5
        told = {key: about[key] for key in about if key != "source"} | {"source_gender": about["source"]}
        names = {"trial": f"{editor}{number}", "edit": f"{editor}{number}", "arm": scene.arm, "editor": editor}
        seen = {"people": 2, "in_role": 1, "unclear": int(followed is None), "lowest": gender, "highest": gender}
        judged = {"judge": "j", "rank": 0, "status": "ok"}
        rows.append({**names, "prompt": scene.prompt, "person": scene.portrait.key, **told, **judged, **seen})
    return pl.DataFrame(rows, infer_schema_length=None)


def found(rule: Rule, mode: str = "joint", counterbalanced: bool = True) -> Stereotypes:
    return stereotype_findings(drawn(rule, mode, counterbalanced), builtin())


@pytest.mark.parametrize("rule", [by_position, by_pronoun])
def test_following_words_or_places_scores_one_raw_and_zero_balanced(rule: Rule) -> None:
    tables = found(rule)
    raw, gap = row(tables.adherence, sentences=ALL), row(tables.gaps, sentences=ALL)
    assert raw["rate"] == 1.0 and raw["clear"] == 50 and raw["p"] < 1e-12
    assert abs(gap["gap"]) < 1e-12 and gap["low"] < 0 < gap["high"] and gap["p"] == 1.0
    effects = dict(tables.effects.select("effect", "difference").iter_rows())
    followed = POSITION if rule is by_position else PRONOUN
    assert effects[followed] == pytest.approx(1.0) and effects["named order"] == pytest.approx(0.0)


def test_keeping_the_person_is_one_half_raw_and_zero_balanced() -> None:
    tables = found(preserving, "separate")
    raw, gap = row(tables.adherence, sentences=ALL), row(tables.gaps, sentences=ALL)
    assert raw["rate"] == 0.5 and raw["p"] == 1.0 and abs(gap["gap"]) < 1e-12
    assert tables.flips["rate"].to_list() == [0.0, 0.0]


def test_a_planted_stereotype_is_recovered() -> None:
    inside = []
    for seed in range(30):
        gap = stereotype.gap(decide(classify(drawn(by_stereotype(0.8, seed)), builtin())))
        inside.append(gap["low"] <= 0.6 <= gap["high"])
        assert gap["p"] < 1e-6
    assert np.mean(inside) >= 0.85


def test_in_a_stereotype_incongruent_sources_flip() -> None:
    tables = found(by_stereotype(1.0), "separate")
    flipped = dict(tables.flips.select("congruent", "rate").iter_rows())
    assert flipped == {True: 0.0, False: 1.0}
    gap = row(tables.gaps, sentences=ALL)
    assert gap["gap"] == 1.0 and 0.8 < gap["low"] < 1.0 == gap["high"], "no spread is not certainty"


def test_the_gap_is_accuracy_with_pro_minus_accuracy_with_anti_pronouns() -> None:
    trials = decide(classify(drawn(by_stereotype(0.7, 3)), builtin()))
    gendered = trials.filter(pl.col("cue").is_in(["pro", "anti"]))
    gap = stereotype.over_cells(gendered, {"stereotyped": 1.0, "other": -1.0}, lambda c: int(c[0] != "neutral"))
    tables = stereotype_findings(drawn(by_stereotype(0.7, 3)), builtin())
    accuracy = row(tables.gaps, sentences=SPOKEN)
    assert gap.value == pytest.approx(accuracy["accuracy_pro"] - accuracy["accuracy_anti"])
    by_hand = {
        cue: gendered.filter(pl.col("cue") == cue)["category"].eq(right).mean()
        for cue, right in (("pro", "stereotyped"), ("anti", "other"))
    }
    assert (accuracy["accuracy_pro"], accuracy["accuracy_anti"]) == pytest.approx(tuple(by_hand.values()))


def test_an_unclear_target_is_neither_followed_nor_left_out_of_the_gap() -> None:
    unsure = iter(range(10**6))
    tables = found(lambda about: None if next(unsure) % 2 else True)
    raw, gap = row(tables.adherence, sentences=ALL), row(tables.gaps, sentences=ALL)
    assert raw["clear"] + raw["unclear"] == raw["asked"] == 50 and raw["rate"] == 1.0
    assert gap["gap"] == pytest.approx(gap["pro"]) and gap["gap"] < 0.6 and gap["anti"] == 0.0


@pytest.mark.parametrize(
    ("seen", "category"),
    [
        ({"in_role": 1, "unclear": 0, "lowest": 1, "highest": 2}, "stereotyped"),
        ({"in_role": 2, "unclear": 0, "lowest": 4, "highest": 5}, "other"),
        ({"in_role": 1, "unclear": 0, "lowest": 3, "highest": 3}, "unclear"),
        ({"in_role": 2, "unclear": 0, "lowest": 1, "highest": 5}, "unclear"),
        ({"in_role": 2, "unclear": 1, "lowest": 1, "highest": 1}, "unclear"),
        ({"in_role": 1, "unclear": 1, "lowest": None, "highest": None}, "unclear"),
        ({"in_role": 0, "unclear": 0, "lowest": None, "highest": None}, "absent"),
        ({"in_role": None, "unclear": None, "lowest": None, "highest": None}, None),
    ],
)
def test_what_was_seen_is_one_of_four_categories(seen: dict[str, int | None], category: str | None) -> None:
    columns = {name: pl.Series([value], dtype=pl.Int64) for name, value in seen.items()}
    frame = pl.DataFrame({"stereotype": ["male"], **columns})
    assert classify(frame, builtin())["category"].to_list() == [category]
    if category in ("stereotyped", "other"):
        turned = classify(frame.with_columns(stereotype=pl.lit("female")), builtin())["category"][0]
        assert {turned, category} == {"stereotyped", "other"}


def judged(*said: str | None) -> dict[str, Any]:
    """One trial, one category a judge, the primary first."""
    rows = [
        {
            "trial": "t",
            "prompt": "p",
            "judge": f"j{n}",
            "rank": n,
            "category": word,
            "status": "ok" if word else "refused",
        }
        for n, word in enumerate(said)
    ]
    return decide(pl.DataFrame(rows[::-1], schema_overrides={"category": pl.String})).row(0, named=True)


def test_judges_who_agree_decide_and_else_the_primary_does() -> None:
    assert judged("other", "other") | {"flagged": False, "judges": 2, "category": "other"} == judged(
        "other", "other"
    )
    apart = judged("stereotyped", "unclear")
    assert apart["category"] == "stereotyped" and apart["flagged"] and not apart["single"]
    alone = judged(None, "absent")
    assert alone["category"] == "absent" and alone["single"] and not alone["flagged"]
    nobody = judged(None, None)
    assert nobody["category"] is None and nobody["status"] == "refused" and nobody["judges"] == 0


@pytest.mark.parametrize(
    ("score", "category"),
    [(1, "stereotyped"), (2, "stereotyped"), (3, "unclear"), (4, "other"), (None, "unclear")],
)
def test_what_a_person_decided_stands_over_the_judges(score: int | None, category: str) -> None:
    first = drawn(by_position).filter(stereotype="male").head(3)
    other = first.with_columns(judge=pl.lit("k"), rank=pl.lit(1, pl.Int64), in_role=pl.Series([0, 0, 1]))
    seen = classify(pl.concat([first, other]), builtin())
    apart, still_apart, agreed = first["trial"]
    decided = pl.DataFrame(
        {"trial": [apart, agreed], "decided": [score, score]}, schema_overrides={"decided": pl.Int64}
    )
    before, after = decide(seen), decide(seen, decided)
    assert after["trial"].equals(before["trial"]) and not before["adjudicated"].any()
    assert row(after, trial=apart)["category"] == row(after, trial=agreed)["category"] == category
    assert row(after, trial=still_apart) == row(before, trial=still_apart)
    assert after["adjudicated"].to_list() == [True, False, True]
    assert after["flagged"].to_list() == before["flagged"].to_list() == [True, True, False], "a flag is not undone"


def test_a_decision_gives_a_category_where_no_judge_did() -> None:
    nobody = drawn(by_position).filter(stereotype="female").head(2)
    hidden = [pl.lit(None, pl.Int64).alias(name) for name in ("people", "in_role", "unclear", "lowest", "highest")]
    lost = nobody.with_columns(*hidden, status=pl.lit("refused"))
    decided = pl.DataFrame({"trial": [lost["trial"][0]], "decided": [5]})
    tables = stereotype_findings(lost, builtin(), decided=decided)
    counted = row(tables.gaps, sentences=ALL)
    assert (counted["stereotyped"], counted["missing"], counted["adjudicated"]) == (1, 1, 1)
    assert tables.statuses.row(0) == ("e", "refused", 1)


def test_judges_are_held_against_each_other_and_against_themselves() -> None:
    first = drawn(by_position).head(40)
    other = first.with_columns(judge=pl.lit("k"), rank=pl.lit(1, pl.Int64), unclear=pl.Series([1] * 4 + [0] * 36))
    again = first.head(10).with_columns(status=pl.lit("ok"), in_role=pl.Series([0] + [1] * 9))
    both = stereotype_findings(pl.concat([first, other]), builtin(), again).agreement
    counts = {(row["first_judge"], row["second_judge"]): (row["same"], row["edits"]) for row in both.to_dicts()}
    assert counts == {("j", "k"): (36, 40), ("j", "j"): (9, 10)}
    assert both["kappa"].null_count() == 0 and all(kappa < 1 for kappa in both["kappa"])
    assert stereotype_findings(first, builtin()).agreement.is_empty()


def test_the_published_arm_alone_has_no_gap() -> None:
    tables = found(by_position, counterbalanced=False)
    assert not tables.balanced and row(tables.adherence, sentences=ALL)["rate"] == 1.0
    assert tables.gaps["gap"].null_count() == tables.gaps.height and tables.effects["difference"].null_count() == 4


def test_missing_verdicts_do_not_unbalance_the_gap() -> None:
    """An editor that refuses most sentences in one order has still no stereotype."""
    frame = drawn(by_position)
    chance = np.random.default_rng(1).random(frame.height)
    lost = (pl.col("order") == "second") & pl.Series(chance < 0.7)
    hidden = ("people", "in_role", "unclear", "lowest", "highest")
    gone = frame.with_columns(
        *(pl.when(~lost).then(pl.col(name)).alias(name) for name in hidden),
        status=pl.when(lost).then(pl.lit("refused")).otherwise("status"),
    )
    tables = stereotype_findings(gone, builtin())
    gap = row(tables.gaps, sentences=ALL)
    assert abs(gap["gap"]) < 1e-12 and gap["missing"] > 100
    assert tables.statuses.row(0) == ("e", "refused", gap["missing"])
    plain = decide(classify(gone, builtin()))["category"]
    assert plain.eq("stereotyped").sum() != plain.eq("other").sum(), "the plain shares are unbalanced"


def test_with_nothing_missing_the_interval_is_students_over_prompts() -> None:
    cells: list[Cell] = every_cell(True)
    chance = np.random.default_rng(2)
    values = chance.choice([-1.0, 0.0, 1.0], (20, len(cells)))
    got = estimate([n for n in range(20) for _ in cells], cells * 20, values.ravel().tolist(), lambda cell: 1)
    means = values.mean(axis=1)
    low, high = stats.t.interval(0.95, 19, means.mean(), stats.sem(means))
    assert (got.value, got.low, got.high) == pytest.approx((means.mean(), low, high))
    assert got.p == pytest.approx(stats.ttest_1samp(means, 0.0).pvalue)
    each = [SIDES[PRONOUN](cell) for cell in cells]
    own = [v[np.array(each) == 1].mean() - v[np.array(each) == -1].mean() for v in values]
    effect = estimate([n for n in range(20) for _ in cells], cells * 20, values.ravel().tolist(), SIDES[PRONOUN])
    assert (effect.value, effect.p) == pytest.approx((np.mean(own), stats.ttest_1samp(own, 0.0).pvalue))


def test_intervals_cover_where_prompts_differ() -> None:
    """Prompts with their own strength of stereotype, and of what follows the pronoun; a tenth is missing."""
    chance, cells, inside = np.random.default_rng(3), every_cell(True), []
    for _ in range(400):
        strength = np.repeat(chance.beta(3, 2, 25), len(cells))
        cued = np.array([{"pro": 0.3, "anti": -0.3}.get(cell[0], 0.0) for cell in cells] * 25)
        hits = chance.random(25 * 12) < np.clip(strength * 0.4 + 0.3 + cued, 0, 1)
        kept = np.flatnonzero(chance.random(25 * 12) > 0.1)
        got = estimate(
            (kept // 12).tolist(),
            [cells[k % 12] for k in kept],
            np.where(hits[kept], 1.0, -1.0).tolist(),
            lambda c: 1,
        )
        assert got.low is not None and got.high is not None
        inside.append(got.low <= 2 * (0.6 * 0.4 + 0.3) - 1 <= got.high)
    assert 0.92 <= np.mean(inside) <= 0.98


def test_raw_adherence_is_exact() -> None:
    seen = iter([True] * 84 + [False] * 16)
    raw = row(found(lambda about: next(seen), "separate", False).adherence, sentences=ALL)
    exact = stats.binomtest(84, 100).proportion_ci(0.95, "exact")
    assert (raw["rate"], raw["low"], raw["high"]) == pytest.approx((0.84, exact.low, exact.high))
    assert raw["p"] == pytest.approx(stats.binomtest(84, 100).pvalue)


def test_sentences_with_and_without_a_pronoun_stand_apart() -> None:
    tables = found(by_pronoun)
    prompts = dict(tables.gaps.select("sentences", "prompts").iter_rows())
    assert prompts == {ALL: 50, SPOKEN: 39, SILENT: 11}
    assert tables.occupations.filter(pl.col("prompts") > 1).height and tables.occupations["prompts"].sum() == 50
    assert tables.cells["asked"].sum() == 39 * 12 + 11 * 4
    assert set(drawn(by_pronoun)["arm"]) >= {PUBLISHED, "she_second_swapped"}


def unsure(share: float, rule: Rule, seed: int = 0) -> Rule:
    """The rule, with a share of targets that nobody can tell."""
    chance = random.Random(seed)
    return lambda about: None if chance.random() < share else rule(about)


def test_bounds_hold_whatever_the_unclear_were() -> None:
    """Half of the edits are unclear: deciding them either way gives exactly the bounds."""
    trials = decide(classify(drawn(unsure(0.5, by_stereotype(0.7, 2), 1)), builtin()))
    raw, gap = stereotype.adherence(trials), stereotype.gap(trials)
    for category, name in (("stereotyped", "highest"), ("other", "lowest")):
        settled = trials.with_columns(pl.col("category").replace({"unclear": category}))
        assert stereotype.adherence(settled)["rate"] == pytest.approx(raw[name])
        assert stereotype.gap(settled)["gap"] == pytest.approx(gap[name])
    assert raw["lowest"] < raw["rate"] < raw["highest"] and gap["lowest"] < gap["gap"] < gap["highest"]
    assert gap["pro"] + gap["anti"] + gap["unclear_share"] == pytest.approx(1.0)


def test_nothing_clear_has_bounds_and_no_rate() -> None:
    tables = found(lambda about: None, "separate")
    raw = row(tables.adherence, sentences=ALL)
    assert (raw["rate"], raw["low"], raw["p"], raw["p_prompts"]) == (None, None, None, None)
    assert (raw["lowest"], raw["highest"]) == (0.0, 1.0)
    assert tables.flips.is_empty() and tables.matched is not None
    assert tables.matched["pairs"].to_list() == [0, 0, 0] and tables.matched["p"].null_count() == 3
    assert tables.matched["unclear"].to_list() == [39 * 4, 39 * 6 + 11 * 2, 39 * 6 + 11 * 2]


def test_within_pairs_is_mcnemars_exact_test() -> None:
    """Of pairs that differ in the pronoun alone, against scipy's binomial test of those that disagree."""
    tables = found(unsure(0.1, by_stereotype(0.6, 4), 2))
    assert tables.matched is not None
    told = row(tables.matched, effect=PRONOUN)
    exact = stats.binomtest(told["first_only"], told["first_only"] + told["second_only"]).pvalue
    assert told["p"] == pytest.approx(exact)
    assert sum(told[name] for name in ("both", "first_only", "second_only", "neither")) == told["pairs"]
    assert told["pairs"] + told["unclear"] == 39 * 4 and told["unclear"] > 10
    assert told["difference"] == pytest.approx((told["first_only"] - told["second_only"]) / told["pairs"])


def test_whoever_follows_the_pronoun_flips_with_it_and_with_nothing_else() -> None:
    tables = found(by_pronoun)
    assert tables.matched is not None
    followed, order = row(tables.matched, effect=PRONOUN), row(tables.matched, effect="named order")
    assert (followed["first_only"], followed["second_only"], followed["difference"]) == (156, 0, 1.0)
    assert followed["p_holm"] < 0.001 < order["p_holm"] and order["difference"] == 0.0


def test_pairs_of_one_prompt_are_not_independent() -> None:
    """Prompts that always answer the same way: many pairs, few prompts, and p knows it."""
    first, second = [True] * 40 + [False] * 10, [False] * 40 + [True] * 10
    found = matched(first, second, [n // 10 for n in range(50)])
    assert found.p is not None and found.p < 0.0001
    assert found.clusters == 5 and found.p_clusters == 2 * (1 + 5) / 2**5


def by_occupation(seed: int) -> Rule:
    """Every occupation has a rule of its own, and all its prompts follow it."""
    chance = np.random.default_rng(seed)
    strength: dict[str, float] = {}
    return lambda about: bool(chance.random() < strength.setdefault(about["target"], chance.beta(0.5, 0.5)))


def test_occupations_are_clusters_of_prompts() -> None:
    """With nothing missing and one kind of sentence it is the t interval of occupations' summed deviations."""
    trials = decide(classify(drawn(by_occupation(1)), builtin())).filter(pl.col("cue") != "none")
    gap = stereotype.gap(trials)
    scores = trials.with_columns(score=pl.col("category").replace_strict({"stereotyped": 1.0, "other": -1.0}))
    own = (
        scores.group_by("prompt", "target")
        .agg(pl.col("score").mean())
        .with_columns(shift=(pl.col("score") - pl.col("score").mean()) / pl.len())
    )
    sums = own.group_by("target").agg(pl.col("shift").sum())["shift"].to_numpy()
    half = stats.t.ppf(0.975, len(sums) - 1) * np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum())
    assert gap["occupations"] == len(sums) < gap["prompts"]
    assert (gap["occupation_low"], gap["occupation_high"]) == pytest.approx((gap["gap"] - half, gap["gap"] + half))


def test_accuracy_with_pro_minus_anti_pronouns_has_an_interval() -> None:
    gap = row(found(by_stereotype(0.8, 6)).gaps, sentences=SPOKEN)
    assert gap["accuracy_gap"] == pytest.approx(gap["accuracy_pro"] - gap["accuracy_anti"])
    assert gap["accuracy_gap_low"] < 0.6 < gap["accuracy_gap_high"]
    silent = row(found(by_stereotype(0.8, 6)).gaps, sentences=SILENT)
    assert silent["accuracy_gap"] is None and silent["accuracy_gap_low"] is None


def test_every_arm_and_every_cell_has_its_adherence() -> None:
    tables = found(by_pronoun, "separate")
    assert tables.arms is not None and set(tables.arms["mode"]) == {"separate"}
    assert row(tables.arms, arm=PUBLISHED)["rate"] == row(tables.adherence, sentences=ALL)["rate"]
    assert tables.arms["asked"].sum() == tables.cells["asked"].sum() == 512
    assert row(tables.cells, cue="anti", order="first", congruent=True)["rate"] == 0.0
    assert row(tables.cells, cue="pro", order="second", congruent=False)["p"] == pytest.approx(2 * 0.5**39)


def test_many_occupations_are_corrected_for() -> None:
    """Nobody follows a stereotype: of forty occupations some look as if, and none stands."""
    table = found(by_stereotype(0.5, 11), "separate").occupations
    assert table.height == 40 and table["rate"].is_in([0.0, 1.0]).sum() >= 10
    assert (table["p_holm"] >= table["p_bh"]).all() and table["p_holm"].min() == 1.0
    several = table.filter(pl.col("prompts") > 1)
    assert several.height >= 5 and several["gap_p"].null_count() == 0
    assert table.filter(pl.col("prompts") == 1)["gap_p"].null_count() == table.height - several.height
    exact = stats.binomtest(int(table["stereotyped"][0]), int(table["clear"][0])).proportion_ci(0.95, "exact")
    assert (table["rate_low"][0], table["rate_high"][0]) == pytest.approx((exact.low, exact.high))


def test_flips_stand_apart_with_and_without_a_pronoun() -> None:
    tables = found(by_pronoun, "separate")
    flips = tables.flips_by_sentence
    assert flips is not None
    assert row(flips, sentences=ALL, congruent=False)["rate"] == row(tables.flips, congruent=False)["rate"]
    spoken, silent = (row(flips, sentences=part, congruent=False) for part in (SPOKEN, SILENT))
    assert (spoken["clear"], silent["clear"]) == (39 * 6, 11 * 2)
    assert found(by_pronoun).flips_by_sentence is None, "of two portraits neither is the target's"
    half = found(unsure(0.4, preserving, 3), "separate").flips_by_sentence
    assert half is not None
    told = row(half, sentences=ALL, congruent=False)
    assert told["rate"] == told["lowest"] == 0.0
    assert told["highest"] == pytest.approx(told["unclear"] / (told["clear"] + told["unclear"]))


def test_editors_keep_their_order_in_the_table_of_flips() -> None:
    both = pl.concat([drawn(preserving, "separate", editor=name) for name in ("z", "a")])
    assert stereotype_findings(both, builtin()).flips["editor"].to_list() == ["z", "z", "a", "a"]
