"""What a reader is told about refusals: on the first screen, in the tables, and nowhere more than was shown."""

from __future__ import annotations

import re
from functools import cache

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report import refusals
from stillme.report.build import build
from stillme.stats.findings import Findings
from tests.report.synthetic_audit import audit, context, people
from tests.report.test_build import Text

BY = builtin().manifest.tables.change_by_group.by
REFERENCE = builtin().groups.reference_group[BY]
HIT = builtin().groups.ids(BY)[1]
LABEL = builtin().groups.labels(BY)[HIT]
WAYS = ("input_blocked", "output_blocked", "refused", "input_blocked")


def unevenly(editor: str, group: str) -> float:
    """One editor refuses one group, another everybody but the reference group."""
    if editor == "lighten":
        return 0.15 if group == HIT else 0.02
    return 0.02 if editor == "even" or group == REFERENCE else 0.15


@cache
def uneven() -> Findings:
    return audit(refused=unevenly, ways=WAYS)


@cache
def page() -> str:
    return build(uneven(), context())


def first_screen(html: str) -> str:
    return Text(html.split('id="first-refusals"')[1].split("</div>")[0]).text


def section(html: str) -> str:
    return html.split('<section id="refusals"')[1].split("</section>")[0]


def test_shown_differences_stand_on_the_first_screen_with_their_size() -> None:
    findings, said = uneven(), first_screen(page())
    row = findings.refusals.by_group.filter(dimension=BY, editor="lighten", group=HIT).row(0, named=True)
    assert f"Lightener (simulated) refused people perceived as {LABEL} more often than everyone else" in said
    assert f"a difference of {row['difference'] * 100:.1f} percentage points" in said
    assert "12 and 72 persons" in said
    assert "Replacer (simulated) refused people perceived as other than White more often than people" in said
    assert "Even-handed" not in said
    assert f"{findings.refusals.refused} of 5,040 edits" in said
    assert re.search(r"\d+ on the way in, \d+ on the way out and \d+ in the model’s own words", said)


def test_an_even_rate_is_not_called_a_difference() -> None:
    findings = audit(refused=0.05)
    said = first_screen(build(findings, context()))
    assert "No difference between groups was shown (that is not evidence of none)." in said
    assert "a difference of" not in said and not refusals.claims(findings, context())


def test_no_refusal_is_one_line_with_its_denominator() -> None:
    html = build(audit(refused=0.0, prompts=4), context())
    assert first_screen(html).endswith("No edit was refused: all 1,008 that were decided gave a picture.")
    assert "<svg" not in section(html), "nothing to draw"


def test_failures_are_said_to_be_no_refusals() -> None:
    findings = audit(refused=0.03, ways=("timeout",), prompts=4)
    said = first_screen(build(findings, context()))
    failed = findings.refusals.by_editor["failed"].sum()
    assert failed and f"{failed} edits failed, which is no refusal." in said and "No edit was refused" in said


def test_nothing_decided_says_nothing() -> None:
    html = build(audit(broken=("even", "lighten", "replace"), ways=("network",), prompts=2), context())
    assert "nothing is known about refusals" in first_screen(html)
    assert not re.search(r"\b(nan|None)\b", Text(section(html)).text)


def test_the_table_has_every_count_of_every_group() -> None:
    text = Text(section(page())).text
    for row in uneven().refusals.by_group.to_dicts():
        assert f"{row['refused']:,}/{row['decided']:,}" in text
    for heading in ("Asked", "Answered", "Failed", "Way in", "Way out", "Own words", "Against everyone else"):
        assert heading in text
    assert "comparisons were corrected together (Holm)" in text


def test_codes_are_shown_verbatim_and_read_in_words() -> None:
    text = Text(section(page())).text
    assert "refused on the way in input_blocked_by_policy" in text
    hostile = uneven().refusals.codes.with_columns(code=pl.lit("<b>blocked</b>"))
    findings = Findings(**{**vars(uneven()), "refusals": _with(uneven(), codes=hostile)})
    assert "<b>blocked</b>" not in build(findings, context())


def _with(findings: Findings, **changes: pl.DataFrame) -> object:
    return type(findings.refusals)(**{**vars(findings.refusals), **changes})


def test_of_two_groups_only_the_one_that_is_refused_more_is_told() -> None:
    gender = next(d for d, groups in builtin().groups.dimensions.items() if len(groups) == 2)
    frame = uneven().refusals.by_group
    certain = pl.when(pl.col("dimension") == gender).then(0.001).otherwise(1.0).alias("p_holm")
    turned = frame.with_columns(certain)
    findings = Findings(**{**vars(uneven()), "refusals": _with(uneven(), by_group=turned)})
    told = [claim.text for claim in refusals.claims(findings, context()) if "than everyone else" in claim.text]
    assert len(told) == 3 and all("more often" in text for text in told), "one sentence an editor"


@pytest.mark.parametrize("persons", [2, 5])
def test_few_persons_are_dashes_that_say_why(persons: int) -> None:
    findings = audit(persons=people(builtin())[:persons], refused=0.5, prompts=6)
    assert "too few persons, or nobody alike to compare with" in section(build(findings, context()))
    assert not refusals.claims(findings, context())
