"""What a reader is told, and what no reader may be told."""

from __future__ import annotations

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report import sentences
from stillme.report.build import Context, Party
from stillme.stats.findings import Findings
from tests.report.synthetic_audit import EDITORS, JUDGES, audit, context, even, people

CLAIM = "a difference of"


def found(findings: Findings, told: Context) -> dict[str, sentences.Found]:
    return {one.editor.id: one for one in sentences.found(findings, told)}


def everything(findings: Findings, told: Context) -> str:
    parts = [
        *sentences.audited(told),
        *(text for one in found(findings, told).values() for text in (*one.shown, *one.rest, one.rates)),
        *sentences.how_sure(findings, told),
        *sentences.missing(findings, told),
    ]
    return " ".join(parts)


def test_a_planted_difference_is_named_with_its_size_interval_and_persons() -> None:
    findings, told = audit(), context()
    label = told.outcomes[told.tables.contrasts[2]].label
    row = findings.contrasts.filter(editor="lighten", outcome=told.tables.contrasts[2]).row(0, named=True)
    (said,) = found(findings, told)["lighten"].shown
    assert said.startswith(f"{label} in ")
    assert "people perceived as other than White" in said
    assert f"{row['difference'] * 100:.1f} percentage points" in said
    assert f"interval {row['low'] * 100:.1f} to {row['high'] * 100:.1f}; 72 and 12 persons" in said


def test_every_planted_difference_is_shown_and_no_other() -> None:
    shown = {id: len(one.shown) for id, one in found(audit(), context()).items()}
    assert shown == {"even": 0, "lighten": 1, "replace": 2}


@pytest.mark.parametrize("seed", range(4))
def test_an_even_audit_is_not_accused(seed: int) -> None:
    findings = audit(rates=even, seed=seed)
    text = everything(findings, context())
    assert CLAIM not in text
    assert "No difference between groups was shown (that is not evidence of none)" in text


@pytest.mark.parametrize("word", ["unbiased", "debiased", "fair ", "race of the person"])
def test_words_that_no_audit_can_back(word: str) -> None:
    assert word not in everything(audit(rates=even, prompts=4), context()).lower()


def test_too_few_persons_are_not_compared() -> None:
    protocol = builtin()
    few = [person for person in people(protocol) if person.id in ("p0", "p13", "p14")]
    one = found(audit(persons=few), context())["even"]
    assert not one.shown
    assert "a comparison needs 3 on each side" in " ".join(one.rest)


def test_sides_without_spread_get_no_made_up_interval() -> None:
    findings = audit(prompts=2)
    flat = findings.contrasts.with_columns(difference=0.0, low=None, high=None, p=1.0, p_holm=1.0)
    text = everything(Findings(**{**vars(findings), "contrasts": flat}), context())
    assert "0.0 points, no interval" in text
    assert CLAIM not in text


def test_an_editor_without_a_judged_edit_is_said_to_be_unknown() -> None:
    one = found(audit(broken=("replace",), prompts=4), context())["replace"]
    assert one.rest == ("No edit of this editor was judged, so nothing can be said about it.",)
    assert not one.shown
    assert not one.rates


def test_what_is_missing_is_counted_with_its_reasons() -> None:
    findings = audit(broken=("replace",), prompts=4)
    lost = findings.statuses.filter(pl.col("status") == "refused")["edits"].sum()
    text = " ".join(sentences.missing(findings, context()))
    assert f"{lost} of 1,008 edits gave no usable picture (refused {lost})" in text
    assert "Replacer (simulated) (100.0\N{NO-BREAK SPACE}%)" in text


def test_an_edit_that_was_never_made_is_not_called_refused() -> None:
    findings = audit(prompts=2)
    statuses = findings.statuses.with_columns(pl.when(pl.col("status") == "ok").then("status").alias("status"))
    text = " ".join(sentences.missing(Findings(**{**vars(findings), "statuses": statuses}), context()))
    assert "not run" in text


def test_the_banner_counts_what_is_simulated() -> None:
    said = sentences.simulated(context())
    assert said.startswith("3 editors and 2 judges are simulated")
    assert "placeholders" in said
    assert "inputs, not findings" in said


def test_real_parties_have_no_banner_and_no_mark() -> None:
    editors = tuple(Party(p.id, p.label, p.description, False, p.settings) for p in EDITORS)
    judges = tuple(Party(p.id, p.label, p.description, False, p.settings) for p in JUDGES)
    told = context(editors=editors, judges=judges)
    assert sentences.simulated(told) == ""
    assert "simulated" not in everything(audit(prompts=3), told)


def test_planted_truth_is_counted_only_where_it_is_known() -> None:
    assert "planted rates lie inside" in sentences.recovered(audit(prompts=3))
    assert sentences.recovered(audit(prompts=3, plant=False)) == ""


def test_no_pair_of_judges_says_so() -> None:
    findings = audit(prompts=2)
    alone = Findings(**{**vars(findings), "agreement": findings.agreement.clear()})
    assert "nothing is known about their agreement" in sentences.agreed(alone)
