"""The section about measurements: what it says, what it never says, and audits that measured little."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from functools import cache
from urllib.parse import unquote

import polars as pl
import pytest

from stillme.analysis.numbers import signed, span
from stillme.protocol.reader import builtin
from stillme.report import sentences
from stillme.report.build import Party, build
from stillme.report.tables import FEW_PERSONS
from stillme.stats.findings import Findings
from stillme.stats.measured import Measured, instruments
from tests.report.synthetic_audit import EDITORS, JUDGES, audit, context, people
from tests.report.synthetic_measures import AGE, BY, CHANGE, GENDER, IDENTITY, KINDS, REFERENCE, SKIN, measurements
from tests.report.test_build import HOSTILE, Text, unmarked

EVERY = (*KINDS, AGE, GENDER)
SCARCE = next(group for group in builtin().groups.ids(BY) if group != REFERENCE)
LABELS = builtin().groups.labels(BY)
INSTRUMENT = Party("instrument", "Pixel meter", "Scores from measures.", False, {}, instrument=True)


@cache
def found(share: float = 0.25, scarce: float = 0.01) -> Findings:
    return audit(prompts=6, measure=measurements(EVERY, share, missed={SCARCE: scarce}))


@cache
def page() -> str:
    return build(found(), context(measured_share=0.25))


def section(html: str) -> str:
    return html.split('<section id="measures"')[1].split("</section>")[0]


@cache
def unmeasured() -> str:
    return build(audit(prompts=1), context())


def text(findings: Findings | None = None, share: float = 0.25) -> str:
    """What the section says, of what was found unless told otherwise."""
    return Text(section(build(findings, context(measured_share=share)) if findings else page())).text


def measured(findings: Findings) -> Measured:
    assert findings.measured is not None
    return findings.measured


def table(html: str, id: str) -> str:
    return html.split(f'<div class="table" id="{id}">')[1].split("</table>")[0]


def numbers(html: str, id: str) -> list[dict[str, str]]:
    link = re.search(rf'download="{id}.csv" href="data:text/csv;charset=utf-8,([^"]+)"', html)
    assert link
    return list(csv.DictReader(io.StringIO(unquote(link[1]))))


def test_the_section_is_there_only_with_measurements_and_after_the_pictures() -> None:
    assert 'id="measures"' not in unmeasured()
    html = page()
    places = [html.index(f'<section id="{id}"') for id in ("gallery", "measures", "planted")]
    assert places == sorted(places)


def test_it_says_how_much_was_measured() -> None:
    counts = measured(found()).counts
    said = text()
    assert (
        f"Measured: {counts.edits} of 1,512 edits, a stratified share (at least 25 % of the persons in every "
        f"prompt × perceived {BY}), and {counts.controls} controls." in said
    )
    assert counts.controls == 84 * 5


def test_everything_measured_is_called_all() -> None:
    findings = audit(prompts=2, measure=measurements())
    assert "Measured: all 504 edits, and 420 controls." in text(findings, share=1.0)
    without = audit(prompts=2, measure=measurements(controls=False))
    said = text(without, share=1.0)
    assert "Measured: all 504 edits." in said
    assert "This audit has no controls" in said


def test_a_group_that_is_read_less_often_is_named_with_its_counts() -> None:
    findings = found(scarce=0.4)
    row = measured(findings).coverage.row(
        by_predicate=(pl.col("measure") == SKIN) & (pl.col("group") == SCARCE), named=True
    )
    said = text(findings)
    assert row["warns"]
    assert "Instruments miss some groups more often." in said
    assert f"{LABELS[SCARCE]} in {row['rate'] * 100:.1f} % ({row['read']}/{row['asked']})" in said
    assert "Instruments miss some groups more often" in " ".join(sentences.missing(findings, context()))


def test_groups_that_are_read_alike_raise_no_warning() -> None:
    assert "miss some groups" not in text()
    assert sentences.missing(found(), context())[-1] == "Human ratings are not part of this report."
    unmeasured = sentences.missing(audit(prompts=1), context())[-1]
    assert unmeasured == "Human ratings and picture measurements are not part of this report."


def test_controls_stand_beside_real_prompts_with_interval_and_counts() -> None:
    shifts, controls = measured(found()).shifts, measured(found()).controls
    assert shifts is not None and controls is not None
    html = page()
    cells = Text(table(html, "lightness-under-controls")).text
    shown = [row for frame in (shifts, controls) for row in frame.filter(pl.col("dimension").is_null()).to_dicts()]
    assert len(shown) == 3 + 5
    for row in shown:
        assert (
            f"{signed(row['mean'])} {span(row['low'], row['high'])} {row['persons']} persons "
            f"{row['read']}/{row['asked']} edits" in cells
        )
    assert len(numbers(html, "lightness-under-controls")) == len(shown)


def test_a_control_without_an_editor_stands_in_its_own_column() -> None:
    html = table(page(), "lightness-under-controls")
    heads = [" ".join(head.split()) for head in re.findall(r'class="sort">([^<]+)<', html)]
    assert heads == ["Control", "No editor", *(editor.label for editor in EDITORS)]
    assert html.count("(made without an editor)") == 2 * len(EDITORS)
    assert html.count("(this control needs an editor)") == 1
    labels = [control.label for control in instruments(builtin()).controls]
    rows = re.findall(r'<th scope="row"[^>]*>([^<]+)', html)
    assert rows == [*labels[:3], "Real prompts"], "no editor of this audit makes the last control"


def test_the_figure_shows_the_noise_floor_and_each_groups_numbers() -> None:
    noise, shifts = measured(found()).noise, measured(found()).shifts
    assert noise is not None and shifts is not None
    floor = noise.row(by_predicate=pl.col("control").is_null() & pl.col("group").is_null(), named=True)
    html = section(page())
    figure = html.split('id="figure-lightness"')[1].split("</figure>")[0]
    assert f"95 of 100 sources by ≤ {floor['p95']:.2f} L*" in figure
    assert figure.count('class="band"') == 2, "on the wide one and on the narrow one"
    for row in shifts.filter(dimension=BY).to_dicts():
        assert f">{signed(row['mean'])}</text>" in figure
        assert row["low"] is None or f">{span(row['low'], row['high'])}</text>" in figure


def test_no_change_prints_its_rule_and_where_it_comes_from() -> None:
    cells = Text(table(page(), "no-change")).text
    assert "the protocol 12 trials without a request" in cells
    assert "the editor’s own 84 trials without a request" in cells
    assert "cannot be told: when asked for nothing, this editor changes more than the rule may allow" in cells
    row = measured(found()).no_change.to_dicts()[0]  # type: ignore[union-attr]
    assert f"{row['hits']}/{row['read']}" in cells


def test_identity_is_centred_and_nobody_is_called_another_person() -> None:
    frame = measured(found()).identity
    assert frame is not None
    html = page()
    cells = Text(table(html, f"identity-by-{BY}")).text
    for row in frame.filter(dimension=BY).to_dicts():
        few = row["centred_low"] is None
        spread = FEW_PERSONS if few else span(row["centred_low"], row["centred_high"], 3)
        assert f"{signed(row['centred'], 3)} {spread}" in cells
        assert f"{row['persons']} persons, {row['read']}/{row['asked']}" in cells
    assert "No threshold says who is still the same person" in text()


def test_an_attribute_stands_beside_the_models_own_error() -> None:
    said = text()
    assert "hold a shift against the error beside it" in said
    assert "Left out: V-03 and V-04, which ask for this change." in said
    html = page()
    rows = numbers(html, f"age-shift-by-{BY}")
    assert {row["age_mae"] for row in rows} >= {"10.0", "11.0"}
    assert len(numbers(html, f"feminine-shift-by-{BY}")) == len(EDITORS) * len(LABELS)


def test_every_table_and_figure_is_marked_as_an_instruments() -> None:
    html = section(page())
    captions = re.findall(r'caption"><span>([^<]+)</span>', html)
    captions += re.findall(r"<figcaption><strong>([^<]+)\.</strong>", html)
    assert len(captions) > 12
    assert all("nstrument" in caption for caption in captions)


def test_tone_classes_are_description_and_folded_away() -> None:
    html = section(page())
    before, fold = html.split("Skin tone before and after, description only", 1)
    assert "ITA" not in before and "Monk" not in before
    assert "never thresholded" in fold


def test_what_was_planted_stands_beside_what_was_read() -> None:
    frame = measured(found()).planted
    assert frame is not None
    row = frame.row(by_predicate=pl.col("editor") == "lighten", named=True)
    assert 0.9 < row["slope"] < 1.1
    assert f"{row['slope']:.2f}" in Text(table(page(), "lightness-planted")).text
    unplanted = audit(prompts=2, measure=measurements(plant=False))
    assert 'id="lightness-planted"' not in build(unplanted, context())


def test_definitions_print_the_instruments_cut_points() -> None:
    assert "by the cut points −10.0, −3.0, +3.0 and +10.0 of ΔL*" in Text(page()).text
    assert "cut points" not in Text(unmeasured()).text


# Audits that measured little


@pytest.mark.parametrize(
    ("kinds", "lost"),
    [
        (EVERY, 0.01),
        *((kinds, 1.0) for kinds in ((SKIN,), (CHANGE,), (IDENTITY,), (AGE,), (GENDER,), EVERY)),
        *(
            pytest.param(kinds, 0.01, marks=pytest.mark.slow)
            for kinds in ((SKIN,), (CHANGE,), (IDENTITY,), (AGE,), (GENDER,))
        ),
    ],
)
def test_whatever_was_measured_the_page_is_whole(kinds: tuple[str, ...], lost: float) -> None:
    """From one measure to all, from nearly all read to none; a group of one person; an editor without a picture."""
    everyone = people(builtin())
    lone = next(person for person in everyone if person.labels[BY] == SCARCE)
    few = [person for person in everyone[:30] if person.labels[BY] != SCARCE] + [lone]
    missed = dict.fromkeys(LABELS, lost)
    findings = audit(prompts=1, persons=few, broken=("replace",), measure=measurements(kinds, missed=missed))
    parsed = Text(build(findings, context()))
    for word in ("NaN", "nan", "None", "null", "Undefined", "inf"):
        assert not re.search(rf"\b{word}\b", parsed.text), word
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)
    if SKIN in kinds:
        assert ("no edit could be read" if lost == 1.0 else "no interval") in parsed.text


def test_nothing_measured_yet_is_said_and_not_shown_as_zero() -> None:
    findings = audit(prompts=1, measure=measurements(share=0.0, controls=False))
    said = text(findings, share=0.1)
    assert "Measured: 0 of 252 edits, a stratified share (at least 10 %" in said
    assert "0.0 %" not in said


def test_hostile_names_stay_text() -> None:
    editors = tuple(replace(party, label=HOSTILE) for party in EDITORS)
    html = build(found(), context(editors=editors))
    assert HOSTILE not in html
    assert html.count("<script") == 1


def test_every_simulated_name_is_marked_in_the_section() -> None:
    assert unmarked(text(), EDITORS) == []


def test_the_same_measurements_give_the_same_bytes_and_few_of_them() -> None:
    once, again = (build(audit(prompts=1, measure=measurements(EVERY)), context()) for _ in range(2))
    assert once == again
    assert len(once.encode()) - len(unmeasured().encode()) <= 250_000


# The instrument among the judges


def test_an_instrument_is_named_as_one_and_scores_nothing() -> None:
    told = context(judges=(*JUDGES, INSTRUMENT))
    assert INSTRUMENT.name == "Pixel meter (instrument)"
    assert "Pixel meter" not in " ".join(sentences.audited(told))
    assert sentences.simulated(told) == sentences.simulated(context())
    said = Text(build(found(), told)).text
    assert "Planted judge 1 (simulated) and Planted judge 2 (simulated) scored the edits." in said
    assert (
        "Pixel meter (instrument) measured beside them and is in no score, rate or agreement of the judges."
        in said
    )


def test_an_instrument_that_is_mixed_in_is_named_among_those_who_scored() -> None:
    told = context(judges=(*JUDGES, replace(INSTRUMENT, mixed=True)))
    assert "Planted judge 2 (simulated) and Pixel meter (instrument)." in " ".join(sentences.audited(told))
    said = Text(build(found(), told)).text
    assert "Pixel meter (instrument) measures instead of judging; the audit mixes its scores in." in said
    assert "so the two are not independent" in said


def test_a_simulated_instrument_has_both_marks() -> None:
    assert replace(INSTRUMENT, simulated=True).name == "Pixel meter (simulated, instrument)"
