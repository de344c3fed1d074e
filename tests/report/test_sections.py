"""The sections that are made of analysis tables, from a small audit through the real analysis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from stillme.analysis.numbers import points, signed
from stillme.report import build, plots
from stillme.report.blocks import Block, Fold, Prose, Section
from stillme.report.context import Asked
from stillme.report.figures import Figure
from stillme.report.sections import alike, bounds, disparity, methods, people, published
from stillme.report.sections.summary import Summary
from stillme.report.tables import Table
from tests.report.synthetic_audit import context
from tests.report.synthetic_tables import Whole, small, some_people, whole

ANALYSED = (
    *("disparity", "distributions", "prompts-by-group", "people"),
    *("bounds", "sensitivity", "alike", "components"),
)
COUNTED = (
    *("groups", "gender-drift", "rounding", "disparity", "skin-tone", "age-drift", "distributions"),
    *("prompts-by-group", "bounds", "sensitivity", "alike", "components"),
)
UNCOUNTED = ("mean-race",)  # each of its rows prints its persons; what is missing stands in the table above it


@pytest.fixture(scope="module")
def made() -> Whole:
    return small()


@pytest.fixture(scope="module")
def sections(made: Whole) -> dict[str, Section]:
    return {one.id: one for one in build.sections(made.findings, made.context, None, made.tables)}


@pytest.fixture(scope="module")
def html(made: Whole, sections: dict[str, Section]) -> str:
    return build.render(list(sections.values()), made.context)


def blocks(some: tuple[Block, ...]) -> Iterator[Block]:
    for block in some:
        yield block
        yield from blocks(getattr(block, "blocks", ()))


def tables(section: Section) -> dict[str, Table]:
    return {block.id: block for block in blocks(section.blocks) if isinstance(block, Table)}


def said(section: Section) -> str:
    told = [text for block in blocks(section.blocks) if isinstance(block, Prose) for text in block.paragraphs]
    return " ".join(told).replace("\N{NO-BREAK SPACE}", " ")


def column(table: Table, label: str) -> list[str]:
    place = [one.label for one in table.columns].index(label)
    return [row[place].text for row in table.rows]


# What there is, and what is left out


def test_design_comes_first_and_every_heading_of_the_contents_has_its_sections(
    sections: dict[str, Section],
) -> None:
    assert list(sections)[:2] == ["summary", "design"]
    assert set(ANALYSED) | {"skin-tone", "gender-drift", "age-drift", "published", "methods"} <= set(sections)
    parts = [one.part for one in sections.values()]
    assert parts == sorted(parts, key=parts.index), "a heading of the contents comes twice"
    assert "left-out" not in sections


def test_without_tables_sections_are_left_out_and_the_page_says_what_makes_them(made: Whole) -> None:
    found = {one.id: one for one in build.sections(made.findings, made.context)}
    assert not set(ANALYSED) & set(found)
    told = said(found["left-out"])
    assert "“stillme report RUN”" in told and "how far groups lie apart" in told and "study import" in told
    assert not [b for one in found.values() for b in blocks(one.blocks) if isinstance(b, plots.Drawn)]


def test_without_ratings_nothing_is_said_about_raters(made: Whole) -> None:
    unrated = {id: frame for id, frame in made.tables.items() if id != "reliability"}
    found = {one.id: one for one in build.sections(made.findings, made.context, None, unrated)}
    assert "people" not in found and "Nobody’s ratings" in said(found["left-out"])
    assert "No person rated the edits." in said(found["methods"])
    assert "Human ratings" in " ".join(summary(found["summary"]).missing)


def test_with_ratings_no_section_says_that_there_are_none(sections: dict[str, Section]) -> None:
    assert "Human ratings" not in said(sections["missing"]), "as the first screen, which knows of them"
    assert "Picture measurements are not part" in said(sections["missing"])


def summary(section: Section) -> Summary:
    block = section.blocks[0]
    assert isinstance(block, Summary)
    return block


@pytest.mark.parametrize("id", COUNTED)
def test_every_table_prints_persons_and_what_is_missing(sections: dict[str, Section], id: str) -> None:
    for table in tables(sections[id]).values():
        printed = " ".join([*(one.label for one in table.columns), *table.notes]).casefold()
        assert table.id in UNCOUNTED or ("persons" in printed and "missing" in printed), table.id


def test_how_judges_agree_and_how_edits_ended_is_counted_too(sections: dict[str, Section]) -> None:
    agreed, ended = tables(sections["judges"])["agreement"], tables(sections["missing"])["statuses"]
    assert column(agreed, "Persons") == ["36"] * len(agreed.rows) and len(agreed.rows) > 1
    asked = {
        int(pairs) + int(none)
        for pairs, none in zip(column(agreed, "Pairs"), column(agreed, "Missing"), strict=True)
    }
    assert asked == {36 * 3 * 2, 36 * 2}, "persons, prompts, editors, or one prompt: scored by both, or missing"
    assert set(column(ended, "Persons")) == {"12"}, "36 persons of three groups"


def test_the_page_is_whole(html: str) -> None:
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert not set(re.findall(r'href="#([^"]+)"', html)) - set(ids)
    text = re.sub(r"<(style|script)>.*?</\1>|data:[^\"]*|<[^>]+>", " ", html, flags=re.S)
    assert not re.search(r"\b(nan|None|inf)\b|unbiased|debiased|fair model", text)
    assert len(html) < 5_000_000
    assert html.count('<details name="contents">') == 4


def test_every_figure_has_words_and_numbers(sections: dict[str, Section]) -> None:
    drawn = [b for one in sections.values() for b in blocks(one.blocks) if isinstance(b, plots.Drawn)]
    assert {one.id for one in drawn} >= {"drawn-disparity", "drawn-groups", "drawn-bars", "drawn-components"}
    plain = [b.id for one in sections.values() for b in blocks(one.blocks) if isinstance(b, Figure)]
    assert "figure-refusals" not in plain and not any(id.startswith("figure-race-changed-by-race") for id in plain)
    for one in drawn:
        assert one.alternative and one.data.href.startswith("data:text/csv"), one.id


# What they say


def test_a_planted_group_is_named_first_and_the_even_editor_is_not(
    made: Whole, sections: dict[str, Section]
) -> None:
    (found,) = disparity.apart(made.tables, made.context)
    assert (found.editor, found.outcome, found.above) == ("replace", "race_changed", ("black",))
    even, uneven = (entry.found for entry in summary(sections["summary"]).found)
    assert even.is_quiet and "not evidence of none" in even.rest[0]
    assert uneven.shown[0].startswith("Race changed, above the groups’ mean: Black")


def test_the_spread_is_printed_with_what_chance_would_give(made: Whole, sections: dict[str, Section]) -> None:
    table = tables(sections["disparity"])["disparity-race"]
    row = made.tables["disparity_by_race"].filter(editor="replace", outcome="race_changed").row(0, named=True)
    place = [cells[0].text == "Race changed" and "Replacer" in cells[1].text for cells in table.rows].index(True)
    for label, key in (("By chance", "expected"), ("Max − min, raw", "disparity"), ("Corrected", "corrected")):
        assert column(table, label)[place] == points(row[key])
    assert column(table, "Gate")[place] == "passed"


def test_directions_stand_apart_from_size_and_no_signed_mean_is_printed(
    made: Whole, sections: dict[str, Section]
) -> None:
    table = tables(sections["skin-tone"])["signed-skin-tone"]
    assert [one.label for one in table.columns][1:5] == ["Above 3", "Below 3", "Net", "Size |s − 3|"]
    assert [one.note for one in table.columns][1:3] == ["skin lightened", "skin darkened"]
    rows = made.tables["signed_by_editor"].filter(axis="skin_tone").to_dicts()
    assert column(table, "Net") == [signed(100 * (row["above"] - row["below"]), 1) for row in rows]


def test_the_requested_age_stands_apart_and_old_sources_too(sections: dict[str, Section]) -> None:
    table = tables(sections["age-drift"])["age-accuracy-table"]
    assert column(table, "Source perceived as") == ["Under 60", "60 or older"] * 2
    assert column(table, "Asked") == ["24", "12"] * 2  # one prompt of 36 persons, 12 of them 60 or older
    assert "V-03" in said(sections["age-drift"])


def test_a_cell_of_prompt_and_group_leads_to_its_edits(sections: dict[str, Section]) -> None:
    table = tables(sections["prompts-by-group"])["prompts-race-changed-replace"]
    cell = table.rows[0][2]
    assert cell.samples == "editor=replace&outcome=race_changed&prompt=O-01&race=black"
    assert "▲" in cell.text and "/" in cell.small[0]
    assert "To look at, not to claim" in said(sections["prompts-by-group"])


def test_under_a_table_by_group_stands_what_its_rates_rest_on(made: Whole, sections: dict[str, Section]) -> None:
    (note,) = tables(sections["groups"])["table-race-changed-by-race"].notes
    row = made.findings.by_editor.filter(editor="replace", outcome="race_changed").row(0, named=True)
    assert f"{row['judged']:,} judged, {row['missing']:,} missing, {row['persons']} persons." in note
    assert len(note.split(";")) == 2


def test_contrasts_print_what_they_rest_on(made: Whole, sections: dict[str, Section]) -> None:
    table = tables(sections["contrasts"])["contrasts-table"]
    row = made.findings.by_editor.filter(editor="even", outcome="soft_erasure").row(0, named=True)
    assert (column(table, "Judged")[0], column(table, "Missing")[0]) == (str(row["judged"]), str(row["missing"]))
    assert table.rows[0][2].small == ("24 persons",) and table.rows[0][3].small == ("12 persons",)


def test_missing_scores_turn_no_sign_where_nothing_is_missing(made: Whole) -> None:
    bounds_ = made.tables["bounds_of_contrasts"].with_columns(
        *(pl.lit(0.0).alias(name) for name in ("difference", "least", "most")), keeps_sign=pl.lit(False)
    )
    section = bounds.build({**made.tables, "bounds_of_contrasts": bounds_}, made.context)
    assert "No missing score could turn the sign of any of the 6 contrasts" in said(section)
    assert set(column(tables(section)["bounds-contrasts"], "Keeps its sign")) == {"–"}


def test_nothing_is_said_about_signs_of_contrasts_that_could_not_be_compared(made: Whole) -> None:
    unknown = made.tables["bounds_of_contrasts"].with_columns(keeps_sign=pl.lit(None, pl.Boolean))
    untested = made.tables["missing_by_group"].with_columns(p_holm=pl.lit(None, pl.Float64))
    given = {**made.tables, "bounds_of_contrasts": unknown, "missing_by_group": untested}
    told = said(bounds.build(given, made.context))
    assert "turn the sign" not in told and "could not be compared" in told and "0 comparisons" not in told


def test_raters_who_all_say_the_same_are_not_called_unpaired(made: Whole) -> None:
    alike_ = made.tables["reliability"].with_columns(
        *(pl.lit(None, pl.Float64).alias(name) for name in ("alpha_ordinal", "alpha_interval", "fleiss", "ac2")),
        gate=pl.lit(None, pl.String),
    )
    given = {**made.tables, "reliability": alike_}
    section = people.build(given, made.context)
    table = tables(section)["reliability"]
    assert "Cannot be told (every rating is the same): edit success," in said(section)
    assert people.briefly(given, made.context) == (
        "How far 18 raters agree beyond chance cannot be told on any axis.",
    )
    assert {cell.why for row in table.rows for cell in row if cell.why} == {"every rating is the same"}


def test_axes_say_what_may_rest_on_raters(made: Whole, sections: dict[str, Section]) -> None:
    table = tables(sections["people"])["reliability"]
    gates = set(made.tables["reliability"]["gate"].drop_nulls())
    assert gates and set(column(table, "May carry")) - {"–"} == gates
    assert "0.667" in said(sections["people"]) and "18 raters" in said(sections["people"])
    assert {"Judges", "Raters", "Judges, corrected by raters"} == set(
        column(tables(sections["people"])["corrected-contrasts"], "From")
    )


def test_the_declared_endpoints_are_tested_beneath_the_contrasts(
    made: Whole, sections: dict[str, Section]
) -> None:
    table = tables(sections["contrasts"])["declared-endpoints"]
    assert column(table, "Endpoint") == ["Soft erasure", "Race changed", "Skin tone change, net direction"] * 2
    tested = {(row["editor"], row["outcome"]): row["p_holm"] for row in made.tables["primary"].to_dicts()}
    place = [one.label for one in table.columns].index("p, corrected")
    assert [row[place].sort for row in table.rows] == [
        tested[editor, outcome]
        for editor in ("even", "replace")
        for outcome in ("soft_erasure", "race_changed", "skin_tone")
    ]
    assert all(int(n) > 100 for n in column(table, "Judged")) and set(column(table, "Missing")) != {"0"}


def test_what_rests_on_raters_says_how_many_persons_they_saw(sections: dict[str, Section]) -> None:
    rates = tables(sections["people"])["corrected-rates"]
    place = [one.label for one in rates.columns].index("Persons")
    rated = [row["labelled_persons"] for row in rates.numbers.to_dicts()]
    assert {f"{one} rated" for one in rated} >= {row[place].small[0] for row in rates.rows} != {"0 rated"}


def test_alike_is_said_only_where_two_one_sided_tests_say_so(made: Whole) -> None:
    assert alike.said(made.tables, made.context) == ()
    shown = made.tables["equivalence"].with_columns(alike=pl.col("editor") == "even", p_holm=pl.lit(0.01))
    told = alike.said({**made.tables, "equivalence": shown}, made.context)
    assert told == ("Even-handed (simulated): alike within ± 3 points for soft erasure and race changed.",)


def test_declared_thresholds_stand_beside_their_neighbours(sections: dict[str, Section]) -> None:
    cuts = column(tables(sections["sensitivity"])["thresholds"], "Score")
    assert "≥ 3 (declared)" in cuts and "≥ 2" in cuts and "≥ 4" in cuts and "≤ 2 (declared)" in cuts
    notes = {one.label: one.note for one in tables(sections["sensitivity"])["denominators"].columns}
    assert notes["Of edits judged"] == "this report" and not notes["Of edits asked for"]


# Beside the published run


def test_published_columns_that_contradict_each_other_are_marked(
    made: Whole, sections: dict[str, Section]
) -> None:
    table = tables(sections["published"])["published-by-group"]
    assert column(table, "FLUX.2-dev")[0] == "1.3‡"  # agrees with table 12; cannot come from whole counts
    assert column(table, "Step1X-Edit-v1p2")[0] == "2.1†" and column(table, "Qwen-Image-Edit-2511")[0] == "3.2†"
    told = said(sections["published"])
    assert "Step1X-Edit-v1p2: the mean of the 7 rows is 7.53, and table 12 says 8.0" in told
    assert "as in the seed, not cluster-adjusted" in told
    assert [one.severity.value for one in published.lint(made.context.protocol)][:2] == ["error", "error"]


def test_beside_each_naive_figure_stands_the_adjusted_one(sections: dict[str, Section]) -> None:
    table = tables(sections["published"])["published-by-editor"]
    assert [one.label for one in table.columns].count("Adjusted") == 3
    own = [row for row in table.rows if "this run" in row[0].text]
    assert all("design effect" in row[3].small[-1] for row in own)
    tests = tables(sections["published"])["published-tests-table"]
    assert {"Design effect", "p permuted", "Of persons’ means"} <= {one.label for one in tests.columns}


# Methods


def test_methods_say_what_was_done_and_nothing_else(made: Whole, sections: dict[str, Section]) -> None:
    told = said(sections["methods"])
    assert "36 portraits were used" in told and "3 groups of perceived race" in told
    assert "race changed where race change ≥ 3" in told and "halves to the score that means no change" in told
    assert "two one-sided tests within ± 3 points" in told and "prediction-powered" in told
    plain = said(methods.build(made.findings, {}, made.context))
    assert "one-sided" not in plain and "resampling" not in plain and "prediction-powered" not in plain
    assert "No person rated the edits." in plain


def test_arms_that_ask_for_as_much_share_a_sentence(made: Whole) -> None:
    arms = ("published", "he_first", "she_first")
    asked = tuple(Asked("stereotype", arm, 2, 1, 2, 1, 4) for arm in arms)
    told = said(methods.build(made.findings, made.tables, replace(made.context, asked=asked)))
    assert "“stereotype” (arms published, he_first and she_first) asked for 4 edits each: 2 portraits," in told
    assert told.count("The experiment") == 1


def test_methods_say_how_other_experiments_were_tested_where_there_are_any(made: Whole) -> None:
    gaps = pl.DataFrame({"gap": [None]}, schema={"gap": pl.Float64})
    found = {"mitigation_effects": gaps, "stereotype_adherence": gaps, "stereotype_gaps": gaps}
    told = said(methods.build(made.findings, {**made.tables, **found}, made.context))
    assert "flipping the signs of whole persons" in told and "exact binomial" in told and "every cue" not in told
    assert "flipping" not in said(methods.build(made.findings, made.tables, made.context))


# Odd audits


@pytest.mark.parametrize(
    "how",
    [
        {"editors": ("replace",)},
        {"persons": some_people("black")},
        pytest.param({"refused": 1.0}, marks=pytest.mark.slow),
        {"silent": 1.0},
        pytest.param({"persons": some_people("white", "black")[:5]}, marks=pytest.mark.slow),
    ],
    ids=["one editor", "one group", "everything refused", "nothing judged", "five persons"],
)
def test_odd_audits_have_a_page(how: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "prompts": ("O-01", "V-03"),
        "editors": ("even", "replace"),
        "persons": some_people("white", "black"),
        **how,
    }
    made = whole(**given)
    html = build.build(made.findings, made.context, None, made.tables)
    text = re.sub(r"<(style|script)>.*?</\1>|data:[^\"]*|<[^>]+>", " ", html, flags=re.S)
    assert not re.search(r"\b(nan|None|inf)\b", text)
    assert 'id="methods"' in html and 'id="published"' in html
    assert "above the groups’ mean" not in text or "editors" in how


def test_the_paper_preset_says_so_everywhere() -> None:
    made = whole("paper", prompts=("O-01",), editors=("replace",), persons=some_people("white", "black"))
    found = {one.id: one for one in build.sections(made.findings, made.context, None, made.tables)}
    assert "asked for (nominal)" in said(found["methods"]) and "halves to the even neighbour" in said(
        found["methods"]
    )
    notes = {one.label: one.note for one in tables(found["sensitivity"])["denominators"].columns}
    assert notes["Of edits asked for"] == "this report"


def test_design_counts_portraits_and_leaves_out_what_is_not_known(
    made: Whole, sections: dict[str, Section]
) -> None:
    found = tables(sections["design"])
    assert column(found["portraits"], "All") == ["6"] * 6 and found["portraits"].foot[0][-1].text == "36"
    assert column(found["asked"], "Edits") == ["216"]
    bare = {one.id: one for one in build.sections(made.findings, replace(context(), people=(), asked=()))}
    assert "portraits" not in tables(bare["design"]) and "asked" not in tables(bare["design"])


def test_folds_hold_what_the_first_look_does_not_need(sections: dict[str, Section]) -> None:
    folds = [block.title for block in sections["prompts-by-group"].blocks if isinstance(block, Fold)]
    assert len(folds) == 8  # two heat maps, and three outcomes of two editors as tables
