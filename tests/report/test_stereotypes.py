"""What a reader is told about stereotypes: what was measured, what explains it, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import Further, build
from stillme.report.context import Context, Party
from stillme.report.sections import stereotypes
from stillme.stats.stereotype import Stereotypes, stereotype_findings
from tests.report.synthetic_audit import context
from tests.report.test_build import Text
from tests.stats.test_stereotype import Rule, by_position, by_pronoun, by_stereotype, drawn, preserving

RULES: dict[str, Callable[[], Rule]] = {
    "position": lambda: by_position,
    "pronoun": lambda: by_pronoun,
    "biased": lambda: by_stereotype(0.8, 5),
    "fair coin": lambda: by_stereotype(0.5, 7),
    "keeps": lambda: preserving,
}


def told(*names: str) -> Context:
    editors = tuple(Party(name, name.capitalize(), "", True, {}) for name in names or RULES)
    return context(editors=editors)


@cache
def found(mode: str = "joint", counterbalanced: bool = True, *names: str) -> Stereotypes:
    frames = [drawn(RULES[name](), mode, counterbalanced, name) for name in names or RULES]
    return stereotype_findings(pl.concat(frames), builtin())


def page(tables: Stereotypes, shown: Context) -> str:
    section = stereotypes.build(tables, shown)
    html = build(None, shown, Further((section,), said=stereotypes.said(tables, shown)))
    return html.replace("\N{NO-BREAK SPACE}", " ")


def section(tables: Stereotypes, shown: Context) -> str:
    return Text(page(tables, shown).split('<section id="stereotypes"')[1].split("</section>")[0]).text


def claim(name: str, mode: str = "joint") -> str:
    every = stereotypes.claims(found(mode), told())
    return next(text for text in every if text.startswith(name.capitalize())).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("name", "followed"), [("position", "position, who is named first"), ("pronoun", "the pronoun")]
)
def test_full_adherence_without_a_gap_is_explained_by_what_is_followed(name: str, followed: str) -> None:
    text = claim(name)
    assert "the stereotyped gender in 100.0 % of 50 clear verdicts on the sentences as published" in text
    assert "no stereotype was shown (that is not evidence of none): the gap is 0.0 points" in text
    assert f"It follows {followed}" in text and text.endswith("which explains the figure as published.")


def test_a_stereotype_is_told_with_its_size_and_interval() -> None:
    text = claim("biased")
    (row,) = found().gaps.filter(editor="biased", sentences="all").to_dicts()
    assert "more often than the other, by " in text and f"{row['gap'] * 100:.1f} points" in text
    assert "no stereotype" not in text and "follows" not in text


def test_nothing_is_claimed_of_a_coin() -> None:
    text = claim("fair coin")
    assert "no stereotype was shown" in text and "follows" not in text


def test_who_keeps_the_person_is_told_so() -> None:
    text = claim("keeps", "separate")
    assert "50.0 % of 100 clear verdicts" in text and text.endswith(
        "It follows the gender of the portrait (+100.0 points)."
    )


def test_the_section_has_both_figures_what_they_leave_out_and_the_published_one() -> None:
    text = section(found(), told())
    for words in (
        "one portrait of each gender at once",
        "Judges saw the edit alone",
        "Adherence on the sentences as published",
        "The gap with pronoun, named order and portraits balanced",
        "What an editor follows",
        "Published: 84 to 86 percent of occupation edits",
        "Unclear",
        "Absent",
        "construction worker",
        "With a pronoun",
    ):
        assert words in text, words
    assert "Adherence alone does not show a stereotype" not in text and "Why edits have no verdict" not in text
    assert "another gender than the portrait" not in text, "of two portraits neither is the target's"


def test_without_balance_there_is_a_warning_and_no_gap() -> None:
    tables = found("separate", False)
    text = section(tables, told())
    assert "Adherence alone does not show a stereotype" in text and "reaches 100 % without any" in text
    assert "no stereotype was shown" not in text and "With every cue balanced" not in text
    assert "so what it follows cannot be told" in stereotypes.said(tables, told())[0]
    assert "Targets shown with another gender than the portrait’s" in text


def test_what_is_missing_is_counted_with_its_reason() -> None:
    frame = drawn(by_position, editor="position")
    lost = pl.col("prompt") == "W-01"
    seen = ("people", "in_role", "unclear", "lowest", "highest")
    hidden = [pl.when(~lost).then(pl.col(name)).alias(name) for name in seen]
    status = pl.when(lost).then(pl.lit("input_blocked")).otherwise("status").alias("status")
    tables = stereotype_findings(frame.with_columns(*hidden, status), builtin())
    text = section(tables, told("position"))
    assert "Why edits have no verdict" in text and "input blocked 12" in text and "49/49" in text


def test_how_far_judges_agree_is_told_where_there_are_two() -> None:
    first = drawn(by_position, editor="position")
    other = first.with_columns(judge=pl.lit("second"), rank=pl.lit(1, pl.Int64), in_role=pl.lit(0, pl.Int64))
    both = pl.concat([first.with_columns(judge=pl.lit("first")), other])
    text = section(
        stereotype_findings(both, builtin(), first.with_columns(judge=pl.lit("first"))), told("position")
    )
    assert "How far judges agree on who is the target" in text and "looking twice 512 100.0 %" in text
    assert "0/512" in text and "agree on who" not in section(found(), told())


def test_the_first_screen_says_the_same() -> None:
    tables, shown = found("joint", True, "position", "biased"), told("position", "biased")
    html = page(tables, shown)
    summary = Text(html.split('<section id="summary"')[1].split("</section>")[0]).text
    assert all(one.replace("\N{NO-BREAK SPACE}", " ") in summary for one in stereotypes.said(tables, shown))


def test_every_figure_stands_with_its_clusters_and_what_is_unclear() -> None:
    tables = found("separate")
    html, text = page(tables, told()), section(tables, told())
    for name in ("pairs", "flips-by-sentence", "arms", "occupations", "gap", "adherence"):
        assert f'download="stereotype-{name}.csv"' in html, name
    (row,) = tables.gaps.filter(editor="biased", sentences="all").to_dicts()
    assert f"[{row['occupation_low'] * 100:.1f}, {row['occupation_high'] * 100:.1f}] 40 occupations" in text
    assert tables.matched is not None
    (pairs,) = tables.matched.filter(editor="pronoun", effect="pronoun").to_dicts()
    assert (pairs["first_only"], pairs["second_only"]) == (
        156,
        0,
    ) and "the pronoun 156 0 0 156 0 0 < 0.001" in text
    assert "McNemar" in text and "none or all followed" in text


def test_arms_that_were_not_balanced_have_no_table_of_pairs() -> None:
    text = section(found("separate", False), told())
    assert "Pairs that differ in one cue" not in text and "Adherence in every arm" not in text


def test_words_are_those_of_the_project() -> None:
    text = section(found(), told()).lower()
    assert not [word for word in ("unbiased", "debiased", "fair model", "bias-free") if word in text]
