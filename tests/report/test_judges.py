"""What a reader is told about judges: how they were asked, how far they agree, whom they refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import polars as pl

from stillme.protocol.reader import builtin
from stillme.report import refusals, sentences
from stillme.report.build import build
from stillme.report.context import Context, Party
from stillme.stats.agreement import self_agreement
from stillme.stats.findings import Findings
from stillme.stats.judging import Judging
from tests.report.synthetic_audit import JUDGES, audit, context
from tests.report.test_build import Text
from tests.stats.test_agreement import twice
from tests.stats.test_judging import HIT, drawn

AXIS = next(iter(builtin().axes))
NAMES = {"judge0": "first", "judge1": "second"}
HOSTED = Party(
    "first",
    "Flash",
    "flash-3, asked by HTTP.",
    False,
    {"model": "flash-3", "parameters": {"effort": "low", "seed": 7}, "form": [1, "0123456789abcdef" * 4]},
    dropped={"temperature": "the model takes none"},
    caveats=("Its maker pins no snapshot.",),
    attempts=1234,
    cost_usd=2.5,
)


@cache
def findings(rate: float = 0.02, hit: float = 0.25) -> Findings:
    """Two judges, of whom the first refuses one group more often and looked twice at some edits."""
    made = drawn(builtin(), rate, hit)
    itself = self_agreement(twice(("a", 1, 1), ("a", 1, 2), ("b", 2, 2), ("b", 2, 3), ("c", 4, None)))
    statuses, refused = (f.with_columns(pl.col("judge").replace(NAMES)) for f in (made.statuses, made.refusals))
    looked = itself.with_columns(judge=pl.lit("first"), axis=pl.lit(AXIS))
    return replace(audit(prompts=2), judging=Judging(statuses, refused, looked))


def changed(found: Findings, **frames: pl.DataFrame) -> Findings:
    assert found.judging is not None
    return replace(found, judging=replace(found.judging, **frames))


def judging(found: Findings) -> Judging:
    assert found.judging is not None
    return found.judging


def told() -> Context:
    return context(judges=(HOSTED, JUDGES[1]))


@cache
def page() -> str:
    return build(findings(), told())


def section(found: Findings | None = None, shown: Context | None = None) -> str:
    """Of what is found and told unless told otherwise."""
    html = build(found or findings(), shown or told()) if found or shown else page()
    return Text(html.split('<section id="judges"')[1].split("</section>")[0]).text


def test_every_judge_says_how_it_was_asked_and_what_it_took() -> None:
    said = section()
    for words in (
        "Flash flash-3 effort low, seed 7 temperature: the model takes none version 1, 0123456789ab",
        "1,234 2.50",
        "Flash: Its maker pins no snapshot.",
        "Scored Refused Attempts",
    ):
        assert words in said, words
    assert "0123456789abcdef0" not in said, "a hash is shown short; the provenance has it whole"


def test_simulated_judges_have_no_empty_columns() -> None:
    said = section(shown=context())
    assert "How judges were asked" in said
    assert not {"Model", "Parameters in effect", "Without effect", "Form"} & set(
        said.split("Agreement")[0].split()
    )


def test_agreement_with_oneself_stands_beside_agreement_with_others() -> None:
    found, said = findings(), section()
    assert "gave the same score in 50.0 % of 4 score pairs" in said.replace("\N{NO-BREAK SPACE}", " ")
    assert said.index("Agreement of two judges by axis") < said.index(
        "Agreement of each judge with itself by axis"
    )
    rows = said[said.index("Looked twice") :]
    assert "2/4" in rows, "five edits were looked at twice, four got two scores"
    alone = changed(found, itself=judging(found).itself.clear())
    assert not sentences.agreed_with_themselves(alone) and "with itself" not in section(alone)


def test_who_is_refused_a_verdict_more_often_is_told_on_the_first_screen() -> None:
    label = builtin().groups.labels("race")[HIT]
    claim = f"Flash refused to judge edits of people perceived as {label} more often than everyone else"
    assert claim in Text(page().split('id="first-refusals"')[1].split("</div>")[0]).text
    assert claim in section() and "Verdicts refused by perceived race" in section()
    assert len(refusals.judges_claims(findings(), told())) == 1


def test_refusals_without_a_shown_difference_are_no_accusation() -> None:
    found = findings(0.05, 0.05)
    quiet = changed(found, refusals=judging(found).refusals.with_columns(p_holm=1.0))
    html = build(quiet, told())
    assert "refused to judge" not in html
    assert "No difference between groups was shown (that is not evidence of none)" in Text(html).text


def test_without_refusals_there_is_no_table_of_them() -> None:
    assert "Verdicts refused" not in build(findings(0.0, 0.0), told())


def test_three_judges_are_compared_two_by_two() -> None:
    found = findings()
    more = found.agreement.with_columns(second_judge=pl.lit("third"))
    third = replace(JUDGES[1], id="third", label="Third")
    said = section(replace(found, agreement=pl.concat([found.agreement, more])), context(judges=(*JUDGES, third)))
    assert "Agreement of every two judges by axis" in said
    assert "Planted judge 1 (simulated) and Third (simulated)" in said
    assert "more than one apart" in said and "flagged for review" not in said, (
        "three are flagged once, not by pairs"
    )
