"""Every kind of figure, from frames that the real analysis made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import polars as pl
import pytest

from stillme.report import illustrated, plots
from stillme.report.plots.palette import AMOUNTS, BAND, INK, LINE, over
from stillme.report.plots.sheet import SMALL, Style, Words, width
from stillme.stats.disparity import disparities
from tests.report.plots.frames import KINDS, SENTENCES, draw, frames
from tests.report.synthetic_audit import EDITORS, context, people

every_kind = pytest.mark.parametrize("kind", list(KINDS))
VALUES = (
    *("rate", "rate_low", "rate_high", "gap", "low", "high"),
    *("shrunken", "estimate", "disparity", "corrected", "share", "part"),
)
MEANS = ("first_mean", "second_mean", "difference")


def texts(svg: str) -> list[str]:
    return [(element.text or "").replace("\xa0", " ") for element in ElementTree.fromstring(svg).iter("text")]


def reach(words: Words) -> tuple[float, float]:
    """Where a line of words begins and ends."""
    wide = width(words.text, words.size)
    left = words.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * wide
    return left, left + wide


def emptied(frame: pl.DataFrame) -> pl.DataFrame:
    """As if nothing had been judged, read or paired."""
    values = {name: pl.lit(None, pl.Float64) for name in (*VALUES, *MEANS) if name in frame.columns}
    swatches = {name: pl.lit(None, pl.Int64) for name in ("before", "after") if name in frame.columns}
    return frame.with_columns(**values, **swatches)


@every_kind
def test_the_svg_may_stand_in_the_page(kind: str) -> None:
    drawn = draw(kind)
    root = ElementTree.fromstring(drawn.svg)
    assert root.get("role") == "img" and root.get("width") is None and root.get("height") is None
    assert root.get("viewBox") == f"0 0 {drawn.sheet.width:g} {drawn.sheet.height:g}"
    tags = {element.tag for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "path", "text"}
    assert "style" not in {name for element in root.iter() for name in element.attrib}
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids == [f"{drawn.id}-title", f"{drawn.id}-desc"]
    assert root.findtext("title") == drawn.title and root.findtext("desc") == drawn.alternative
    assert len(drawn.svg) < 40_000 and not drawn.svg.startswith("<?xml")


@every_kind
def test_a_phone_is_shown_the_same_numbers_on_a_narrow_sheet_and_words_once(kind: str) -> None:
    drawn = draw(kind)
    root = ElementTree.fromstring(drawn.phone)
    assert root.get("aria-labelledby") == f"{drawn.id}-title {drawn.id}-desc"
    assert root.find("title") is None and root.find("desc") is None, "the wide one says them"
    assert drawn.narrow.width < drawn.sheet.width / 2
    told = {text for text in texts(drawn.phone) if "%" in text}
    assert {text for text in told if text[0].isdigit() and text.endswith(" %")} <= set(texts(drawn.svg))


@every_kind
def test_nothing_lies_outside_and_nothing_is_too_small_to_read(kind: str) -> None:
    for sheet in (draw(kind).sheet, draw(kind).narrow):
        for words in sheet.texts:
            assert words.size >= SMALL
            assert -0.01 <= words.x <= sheet.width + 0.01 and 0 <= words.y <= sheet.height, words
        for shape in sheet.shapes.values():
            assert all(-1 <= x <= sheet.width + 1 and -1 <= y <= sheet.height + 1 for _, x, y in shape.steps)


@every_kind
def test_what_is_missing_is_hatched_and_said_and_never_a_zero(kind: str) -> None:
    whole, gone = draw(kind), draw(kind, emptied)
    hatches = [shape for shape in gone.sheet.shapes.values() if shape.style.stroke and not shape.style.fill]
    assert sum(len(shape.steps) for shape in hatches) > 50
    said = " ".join(texts(gone.svg))
    assert "0.0 %" not in said and "nan" not in said.lower() and "none" not in said.lower()
    assert gone.alternative != whole.alternative and " from " not in gone.alternative


@every_kind
def test_one_editor_and_twelve_with_long_names_find_room(kind: str) -> None:
    one = draw(kind, lambda f: f.filter(pl.col("editor") == "replace") if "editor" in f.columns else f,
               editors=EDITORS[2:])  # fmt: skip
    assert one.sheet.height > 20
    many = tuple(
        replace(EDITORS[n % 3], id=f"e{n}", label=f"A-rather-long-name-of-an-editor-{n}") for n in range(12)
    )
    ids = {party.id: [f"e{n}" for n in range(12) if n % 3 == place] for place, party in enumerate(EDITORS)}

    def twelve(frame: pl.DataFrame) -> pl.DataFrame:
        if "editor" not in frame.columns:
            return frame
        copies = [
            frame.filter(pl.col("editor") == old).with_columns(editor=pl.lit(new))
            for old, news in ids.items()
            for new in news
        ]
        return pl.concat(copies)

    drawn = draw(kind, twelve, editors=many)
    for sheet in (drawn.sheet, drawn.narrow):
        for words in sheet.texts:
            assert -0.01 <= words.x <= sheet.width + 0.01 and 0 <= words.y <= sheet.height, words


def test_a_forest_prints_its_numbers_and_names_the_lowest_and_the_highest() -> None:
    drawn = draw("forest")
    rows = frames().by_race.filter(outcome="race_changed", editor="replace").sort("rate")
    low, high = rows.row(0, named=True), rows.row(-1, named=True)
    said = texts(drawn.svg)
    assert f"{high['rate'] * 100:.1f} %" in said and f"{high['hits']}/{high['judged']}" in said
    assert f"[{high['low'] * 100:.1f}, {high['high'] * 100:.1f}]" in said
    labels = {"white": "White", "middle_eastern": "Middle Eastern", "black": "Black", "indian": "Indian",
              "east_asian": "East Asian", "southeast_asian": "Southeast Asian", "latino": "Latino/Hispanic"}  # fmt: skip
    ends = f"from {low['rate'] * 100:.1f} % ({labels[low['race']]}) to {high['rate'] * 100:.1f} % ("
    assert f"Replacer (simulated): {ends}{labels[high['race']]})" in drawn.alternative.replace("\xa0", " ")
    assert "12 persons a line" in drawn.note and "missing and in no rate" in drawn.note
    assert drawn.data.file == "f1.csv" and "naive_low" in drawn.data.href


def test_fewer_than_eight_persons_have_no_interval_and_it_is_said() -> None:
    def few(frame: pl.DataFrame) -> pl.DataFrame:
        gone = dict.fromkeys(("low", "high"), pl.lit(None, pl.Float64))
        return frame.with_columns(**gone, persons=pl.lit(3), reason=pl.lit("3 persons in a group"))

    for kind in ("forest", "ladder", "bars", "refusal_bars"):
        drawn = draw(kind, few)
        said = "9 lines (3 persons in a group)" if kind == "ladder" else "fewer than 8 persons: no interval"
        assert said in drawn.note
        naive = [shape for (_, style), shape in drawn.sheet.shapes.items() if style.width == 4.5]
        assert all(len(shape.steps) == 2 for shape in naive)  # the legend's own
        assert not [style for _, style in drawn.sheet.shapes if style.width == 0.9]


def test_a_ladder_shows_what_chance_does_beside_what_is_left() -> None:
    drawn = draw("ladder")
    row = frames().disparity.filter(outcome="skin_lightened", editor="lighten").row(0, named=True)
    said = texts(drawn.svg)
    assert {f"{row[name] * 100:.1f}" for name in ("expected", "disparity", "corrected")} <= set(said)
    assert "Skin lightened" in said and "expected by chance where groups are alike" in said


def test_groups_that_are_all_alike_are_a_disparity_of_zero_and_not_a_missing_one() -> None:
    protocol = context().protocol
    marked = pl.DataFrame(
        [{"trial": person.id, "editor": "even", "outcome": "race_changed", "person": person.id, **person.labels}
         for person in people(protocol)]
    ).with_columns(requested=False, hit=False)  # fmt: skip
    found = disparities(marked, protocol, "race", 1)
    drawn = plots.ladder("f", "Ladder", found, context(editors=EDITORS[:1]), ["race_changed"])
    assert "0.0" in texts(drawn.svg) and not any("nothing to compare" in text for text in texts(drawn.svg))
    assert "Without an interval: 1 line (no difference between persons of one group)." in drawn.note
    assert "fewer than 8" not in drawn.note


def test_cells_that_stand_out_are_marked_and_counted() -> None:
    drawn = draw(
        "heatmap", lambda f: f.with_columns(marked=pl.when(pl.col("group") == "black").then(pl.lit("above")))
    )
    assert "4 cells marked." in drawn.alternative and "Exploratory" in drawn.note
    assert sum(words.bold and words.anchor == "middle" for words in drawn.sheet.texts) == 12


def test_ribbons_are_as_many_as_there_are_ways() -> None:
    drawn, tones = draw("flow"), frames().tones
    read = tones.drop_nulls("before")
    starts = sum(
        step[0] == "M" for shape in drawn.sheet.shapes.values() if shape.style.opacity < 1 for step in shape.steps
    )
    assert starts == read.height + 3  # and the legend
    lighter = read.filter((pl.col("editor") == "lighten") & (pl.col("after") < pl.col("before")))["edits"].sum()
    share = int(lighter) / int(read.filter(editor="lighten")["edits"].sum())
    assert f"Lightener (simulated): lighter {share * 100:.1f} %" in drawn.alternative.replace("\xa0", " ")
    assert "that could not be read are in no ribbon" in drawn.note


def test_shares_of_a_distribution_are_printed_and_nothing_is_rounded_away() -> None:
    drawn, spread = draw("distributions"), frames().spread
    row = spread.filter(axis="skin_tone", editor="lighten", race="black", score=3).row(0, named=True)
    assert f"{row['part'] * 100:.0f}" in texts(drawn.svg)
    assert "scores above 3" in drawn.alternative and "Nothing is rounded" in drawn.note


def test_refusals_are_cut_by_where_they_came_from() -> None:
    drawn = draw("refusal_bars")
    row = frames().refused.filter(dimension="race", editor="replace", group="black").row(0, named=True)
    assert f"{row['refused']}/{row['decided']}" in texts(drawn.svg)
    assert "(Black)" in drawn.alternative


def test_adherence_of_all_beside_a_gap_of_nothing_can_be_seen_at_once() -> None:
    drawn = draw("stereotypes")
    said = texts(drawn.svg)
    assert "Adherence as published" in said and "Gap with every cue balanced" in said
    assert "100.0 %" in said and "65.1" in said
    assert "34 clear verdicts of 36 edits asked for as published" in drawn.note, "parts of all count once"
    assert "Gaps of one prompt have no interval." in drawn.note
    alone = plots.stereotypes("f", "Given", frames().assigned, context(), SENTENCES, False)
    assert "Gap with every cue balanced" not in texts(alone.svg) and "gap" not in alone.alternative.lower()


def test_what_an_editor_follows_is_filled_where_it_is_shown() -> None:
    drawn = draw("cues")
    said = texts(drawn.svg)
    assert "the stereotype (the gap)" in said and "the pronoun" in said and "−3.1" in said
    filled = [shape for (_, style), shape in drawn.sheet.shapes.items() if style.fill == INK]
    assert sum(step[0] == "M" for shape in filled for step in shape.steps) == 3 + 4 + 1  # gaps, cues, the legend


def test_a_case_that_lacks_an_arm_is_in_no_slope() -> None:
    drawn = draw("slopes")
    assert any("Latino/Hispanic: no case has both arms" in text for text in texts(drawn.svg))
    assert "−1.25 (Indian)" in drawn.alternative


@pytest.mark.parametrize("count", [7, 16])
@pytest.mark.parametrize("end", [1.1, 3.4])
def test_groups_that_end_alike_keep_their_labels_in_their_panel(count: int, end: float) -> None:
    one = frames().changes.filter(group="white")
    groups = [one.with_columns(group=pl.lit(f"g{n}"), first_mean=1.2 + n / 7, second_mean=end + n / 400)
              for n in range(count)]  # fmt: skip
    drawn = draw("slopes", lambda _: pl.concat(groups))
    for sheet in (drawn.sheet, drawn.narrow):
        steps = next(shape.steps for shape in sheet.shapes.values() if shape.style == Style(stroke=LINE))
        panels = {(top, bottom) for (_, _, top), (_, _, bottom) in zip(steps[::2], steps[1::2], strict=True)}
        assert len(panels) == (2 if sheet is drawn.narrow else 1)
        told = [words for words in sheet.texts if " g" in words.text]
        for top, bottom in panels:
            own = sorted(words.y for words in told if top + words.size <= words.y <= bottom)
            assert len(own) == len(told) / len(panels), "every label, from its upper edge"
        for x in {words.x for words in told}:
            own = sorted(words.y for words in told if words.x == x)
            assert min(below - above for above, below in pairwise(own)) > SMALL


def test_long_names_of_arms_stand_side_by_side_in_the_sheet() -> None:
    arms = {"baseline": "without_anything", "feature": "with_all_of_them"}
    third = frames().changes.filter(axis="race_drift").with_columns(axis=pl.lit("skin_tone"))
    frame = pl.concat([frames().changes, third]).with_columns(pl.col("arm", "against").replace(arms))
    drawn = plots.slopes("f", "Slopes", frame, context(), "race", arms["feature"], arms["baseline"])
    for sheet in (drawn.sheet, drawn.narrow):
        heads = [words for words in sheet.texts if words.text[:8] in ("without_", "with_all")]
        assert len(heads) == 6
        spans = [reach(words) for words in heads]
        assert all(left >= 0 and right <= sheet.width for left, right in spans)
        assert all(first[1] < second[0] for first, second in zip(spans[::2], spans[1::2], strict=True))


@pytest.mark.parametrize("several", [False, True])
def test_slopes_of_two_feature_arms_have_names_of_their_own(several: bool) -> None:
    ready, changes = context(), frames().changes
    again = next(arm for arm in ready.protocol.manifest.arms if arm.lead == "features")
    arms = (*ready.protocol.manifest.arms, again.model_copy(update={"id": "shorter"}))
    manifest = ready.protocol.manifest.model_copy(update={"arms": arms})
    if several:
        changes = pl.concat([changes, changes.with_columns(arm=pl.lit("shorter"))])
    made = illustrated._arms(
        {"mitigation_by_group": changes}, replace(ready, protocol=replace(ready.protocol, manifest=manifest))
    )
    names = {
        False: ["drawn-slopes-baseline"],
        True: [f"drawn-slopes-{arm}-baseline" for arm in ("feature", "shorter")],
    }
    assert [block.id for block in made if isinstance(block, plots.Drawn)] == names[several]


def test_levels_that_differ_from_axis_to_axis_are_a_range() -> None:
    asked = pl.when((pl.col("factor") == "prompt") & (pl.col("axis") == "race_drift")).then(19)
    drawn = draw("components", lambda frame: frame.with_columns(levels=asked.otherwise("levels")))
    assert drawn.note == "Levels: person 84, person under one editor 252, prompt 19 to 20, edit 5,040."


def test_a_line_of_raters_names_the_persons_whom_they_rated() -> None:
    drawn = draw("corrected", lambda frame: frame.with_columns(persons=pl.lit(12), labelled_persons=pl.lit(5)))
    column = max(words.x for words in drawn.sheet.texts)
    told = {words.y: words.text for words in drawn.sheet.texts if words.x == column and words.text.isdigit()}
    lines = [(words.text, told[words.y]) for words in drawn.sheet.texts if words.y in told]
    assert {said for said in lines if said[0] in ("judges", "raters", "corrected")} == {
        ("judges", "12"),
        ("raters", "5"),
        ("corrected", "5"),
    }


@pytest.mark.parametrize(
    ("fill", "words"), [("#1f4e79", "#fffffe"), ("#fdb863", "#000001"), ("#e66101", "#000001")]
)
def test_words_stand_out_from_what_is_beneath_them(fill: str, words: str) -> None:
    assert over(fill) == words


def test_matplotlib_is_loaded_when_something_is_drawn_and_not_before() -> None:
    code = "import sys, stillme.report.build, stillme.report.plots; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_every_prompt_of_the_protocol_is_named_in_full_on_the_wide_heat_map() -> None:
    ids = [prompt.id for prompt in context().protocol.prompts.prompts]
    first = frames().cells["prompt"][0]
    drawn = draw(
        "heatmap",
        lambda frame: pl.concat(
            frame.filter(pl.col("prompt") == first).with_columns(prompt=pl.lit(id, frame["prompt"].dtype))
            for id in ids
        ),
    )
    assert "O-06 Airport security supervisor" in texts(drawn.svg)
    assert not [text for text in texts(drawn.svg) if text.endswith("…")]


def test_what_a_share_lacks_turns_with_the_page_and_whole_shares_stand_clear_of_their_bar() -> None:
    drawn = draw("components", lambda frame: frame.with_columns(share=pl.lit(1.0)))
    fills = {shape.style.fill for shape in drawn.sheet.shapes.values() if shape.style.fill}
    assert BAND in fills and AMOUNTS[0] not in fills
    bar = max(x for shape in drawn.sheet.shapes.values() if shape.style.fill == BAND for _, x, _ in shape.steps)
    last = max(words.x for words in drawn.sheet.texts if words.text.endswith("%") and words.anchor == "end")
    assert last - width("100.0 %", SMALL) > bar + 2
