"""What a reader is told of the mitigation experiment: only what the numbers carry, and how cases were chosen."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import Further, Party, build
from stillme.report.context import Context
from stillme.report.sections import mitigation, tradeoff
from stillme.stats.drift import drifted
from stillme.stats.mitigation import Mitigation, mitigation_findings
from tests.plan.mitigation.simulated import EDITORS, cases, scores, truth
from tests.report.synthetic_audit import context
from tests.report.test_build import Text


@cache
def found(treated: bool = True, selected: bool = False) -> Mitigation:
    protocol = builtin()
    planted = truth(protocol) if treated else truth(protocol, kept={})
    made = scores(protocol, planted, cases(protocol, 500, 0), 0)
    return mitigation_findings(made, protocol, selected_on_outcome=selected)


def shown() -> Context:
    return context(editors=tuple(Party(name, name.title(), "", True, {}) for name in EDITORS))


def page(made: Mitigation) -> str:
    ready = shown()
    return build(None, ready, Further((mitigation.build(made, ready),), said=mitigation.said(made, ready)))


@cache
def whole() -> str:
    return page(found())


def said(made: Mitigation | None = None) -> str:
    """Of what is found unless told otherwise."""
    section = (page(made) if made else whole()).split('<section id="mitigation"')[1].split("</section>")[0]
    return Text(section).text.replace("\N{NO-BREAK SPACE}", " ")


def test_it_says_what_was_compared_and_how_many() -> None:
    text = said()
    assert "500 cases (portrait × prompt × editor) of 84 persons were edited in 4 arms" in text
    for arm in builtin().manifest.arms:
        assert f"“{arm.label}”" in text
    assert "without looking at any outcome" in text and "chosen because" not in text


def test_a_shown_effect_is_told_with_its_size_and_the_controls_beside_it() -> None:
    told = mitigation.claims(found(), shown())
    feature = next(line for line in told if "against the prompt alone: a difference was shown" in line)
    row = found().effects.filter(arm="feature", against="baseline", axis="race_drift").to_dicts()[0]
    assert f"race change (−{abs(row['difference']):.2f} [" in feature and "skin tone change (" in feature
    for control in ("The same prompt with another seed", "Neutral sentence first"):
        assert any(line.startswith(control) and mitigation.NOT_SHOWN in line for line in told)
        assert not any(line.startswith(control) and "was shown, in points" in line for line in told)
    assert any("is not the same for everybody" in line for line in told)


def test_without_an_effect_nothing_is_claimed() -> None:
    told = mitigation.claims(found(treated=False), shown())
    assert told and all(mitigation.NOT_SHOWN in line for line in told)
    first = mitigation.said(found(treated=False), shown())
    assert len(first) == 2 and mitigation.NOT_SHOWN in first[0]
    assert "edit success was shown to be no worse: a loss is below the declared 0.25 points" in first[1]


def test_cases_chosen_by_their_outcome_come_with_a_warning_and_without_claims_about_it() -> None:
    made = found(selected=True)
    text = said(made)
    assert "Cases were chosen by their outcome." in text and "is expected without any effect" in text
    again = made.regression(builtin()).filter(axis="race_drift").to_dicts()[0]
    figure = mitigation._size(again)
    assert f"race change {figure}" in text, "what asking the same again does stands in the warning"
    assert text.index("Cases were chosen by") < text.index("Every arm against another")
    assert not any("against the prompt alone" in line for line in mitigation.claims(made, shown()))
    assert any("against the same prompt with another seed" in line for line in mitigation.claims(made, shown()))
    assert "says nothing: chosen by outcome" in text
    assert "regression to the mean" in Text(page(made).split('<section id="mitigation"')[0]).text, "first screen"


def test_without_an_arm_that_asks_again_the_expected_part_is_said_to_be_unknown() -> None:
    made = found(selected=True)
    silent = replace(made, effects=made.effects.filter(pl.col("arm") != "reseed"))
    assert "how much of a difference was to be expected is not known" in said(silent)


def test_published_figures_stand_beside_every_group() -> None:
    text = said()
    protocol = builtin()
    table = text[text.index("Published before") : text.index("Difference by perceived race and axis")]
    for row in protocol.published[mitigation.BEFORE_AND_AFTER]:
        printed = " ".join(row[name].replace("-", "−") for name in ("baseline", "feature_prompt", "delta"))
        assert printed in table, row
    own = (
        found().by_group.filter(arm="feature", against="baseline", axis="race_drift", group="black").to_dicts()[0]
    )
    assert f"Black {own['first_mean'] + 1:.2f} {own['second_mean'] + 1:.2f}" in table, "as scores from 1 to 5"
    by_axis = text[text.index("Difference by perceived race and axis") :]
    assert re.search(r"Black .*−0\.72 .*−1\.48 .*−0\.89", by_axis), "table 14: skin, race, gender"


def test_every_figure_has_its_pairs_and_persons_and_a_csv() -> None:
    html = whole()
    later = ("no-worse", "no-worse-by-editor", "tradeoff-any", "tradeoff-axes", "omnibus", "ranks", "published")
    first = ("arms", "before-after", "by-race", "by-gender", "by-age", "directions", "by-editor", "asked")
    for name in (*first, *later):
        assert f'download="mitigation-{name}.csv"' in html, name
    row = found().effects.to_dicts()[0]
    assert f"{row['pairs']}/{row['cases']} pairs, {row['persons']} persons" in said()


def test_marked_feature_prompts_have_a_table_without_them() -> None:
    protocol = builtin()
    made = scores(protocol, truth(protocol), cases(protocol, 60, 1), 1)
    some = mitigation_findings(
        made, protocol, selected_on_outcome=False, marked=made["person"].unique(maintain_order=True)[:2].to_list()
    )
    assert "2 persons had a feature prompt that still held words" in said(some)
    assert "Without marked feature prompts" not in said()


@pytest.mark.parametrize("arms", [("baseline", "feature"), ("feature", "placebo"), ("baseline",)])
def test_fewer_arms_are_a_report_too(arms: tuple[str, ...]) -> None:
    protocol = builtin()
    made = scores(protocol, truth(protocol), cases(protocol, 30, 1), 1).filter(pl.col("arm").is_in(arms))
    text = said(mitigation_findings(made, protocol, selected_on_outcome=False))
    assert "30 cases" in text and f"edited in {len(arms)} arm" in text


def test_the_same_numbers_give_the_same_page() -> None:
    assert page(found()) == whole() and "unbiased" not in whole().lower()


def test_whether_edits_are_still_made_is_said_with_the_margin() -> None:
    """The planted treatment costs edit success, about as much as the margin."""
    told = tradeoff.kept(found(), shown(), lambda one: True)
    rows = found().no_worse
    assert rows is not None and len(told) == len(found().contrasts)
    feature = rows.filter(pl.col("editor").is_null(), arm="feature", against="baseline").to_dicts()[0]
    assert feature["verdict"] == "not shown" and "can be neither shown nor ruled out" in told[0]
    assert f"(−{abs(feature['difference']):.2f}, one-sided bounds [" in told[0]
    lost = rows.with_columns(verdict=pl.lit("worse"))
    assert "was shown to be worse" in tradeoff.kept(replace(found(), no_worse=lost), shown(), lambda one: True)[0]
    assert "Is the edit still made?" in said() and told[0].replace("\N{NO-BREAK SPACE}", " ") in said(found())


def test_an_arm_dominates_only_where_both_sides_were_shown() -> None:
    none = tradeoff.dominance(found(), shown(), lambda one: True)
    assert none == ["No arm surely dominates another: what is won on one side is not shown to be won on both."]
    made = found().tradeoff
    assert made is not None
    sure = made.differences.with_columns(
        surely=pl.when((pl.col("arm") == "feature") & pl.col("editor").is_null()).then(pl.lit("feature"))
    )
    won = replace(found(), tradeoff=replace(made, differences=sure))
    told = tradeoff.dominance(won, shown(), lambda one: True)
    assert "All editors: “Feature prompt first” surely dominates “The prompt alone”." in told and len(told) == 3
    assert tradeoff.dominance(won, shown(), lambda one: one.against != "baseline") == told[:2]


def test_all_groups_are_told_apart_where_that_was_shown() -> None:
    told = [line for line in mitigation.claims(found(), shown()) if "differs over all groups" in line]
    row = found().omnibus
    assert row is not None
    race = row.filter(axis="race_drift", against="baseline").to_dicts()[0]
    assert race["p_holm"] < 0.05 and f"from −{abs(race['smallest']):.2f} to " in told[0]
    assert not [line for line in mitigation.claims(found(treated=False), shown()) if "differs over all" in line]


def test_a_choice_that_nobody_told_is_seen_and_nothing_is_claimed_from_it() -> None:
    """Cases whose first edit drifted, handed on as if they had been drawn."""
    protocol = builtin()
    every = cases(protocol, 500, 3)
    made = scores(protocol, truth(protocol, kept={}), every, 3)
    seen = drifted(made, protocol).filter("drifted", arm="baseline")
    picked = made.join(seen, on=["editor", "prompt", "person"], how="semi")
    untold = mitigation_findings(picked, protocol, selected_on_outcome=False)
    text = said(untold)
    assert "Cases look as if they were chosen by their outcome." in text
    assert "without looking at any outcome" not in text and "says nothing: chosen by outcome" in text
    assert not any("against the prompt alone" in line for line in mitigation.claims(untold, shown()))
    assert "look as if they had been chosen" in mitigation.said(untold, shown())[0]
    assert "nothing speaks for a choice by the outcome" in said()


def test_the_published_rows_stand_in_the_published_order() -> None:
    text = said()
    table = text[text.index("Means over edits, by perceived race") :]
    printed = [row["race"] for row in builtin().published[mitigation.BY_GROUP]]
    places = [table.index(f" {name}") for name in printed]
    assert places == sorted(places) and table.index("Everybody") > places[-1]
    assert "net direction" in table and "amount of change" in table
