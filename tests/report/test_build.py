"""The report as a reader gets it: whole, honest about what is missing, safe, and the same every time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import Example, Party, build
from stillme.report.figures import Line, Series, forest
from stillme.report.sections import gallery
from tests.report.synthetic_audit import EDITORS, audit, context, examples, people, picture

HOSTILE = '<script>alert("x")</script>'
MAIN = builtin().manifest.tables.change_by_group
OUTCOMES = builtin().rubrics.outcomes


class Text(HTMLParser):
    """What a reader sees, and the attributes that could fetch something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self._silent = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent = tag in ("style", "script")
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [value for name, value in given.items() if name in ("href", "src") and value]
        self.ids += [value for name, value in given.items() if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())


@cache
def demo() -> str:
    return build(audit(), context(examples=examples()))


@cache
def damaged() -> str:
    """An editor that never gave a picture, a group of one person, judges who often say nothing."""
    group, everyone = builtin().groups.ids(MAIN.by)[1], people(builtin())
    lone = next(person for person in everyone if person.labels[MAIN.by] == group)
    kept = [person for person in everyone if person.labels[MAIN.by] != group or person is lone]
    findings = audit(broken=("replace",), persons=kept, silent=0.4, prompts=5, preset="paper")
    return build(findings, context("paper"))


both = pytest.mark.parametrize("make", [demo, damaged])


@both
def test_nothing_missing_is_printed_as_a_number(make: Callable[[], str]) -> None:
    parsed = Text(make())
    for word in ("NaN", "nan", "None", "null", "Undefined", "inf"):
        assert not re.search(rf"\b{word}\b", parsed.text), word
    assert not re.search(r'data-sort="(nan|None|inf)"', make())


@both
def test_it_is_one_file_that_asks_for_nothing_and_every_link_resolves(make: Callable[[], str]) -> None:
    parsed = Text(make())
    assert all(link.startswith(("#", "data:")) for link in parsed.links)
    assert "link" not in parsed.tags
    for word in ("@import", "url(", "http://", "https://"):
        assert word not in make(), word
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)


def test_the_same_input_gives_the_same_bytes() -> None:
    once, again = (build(audit(prompts=2), context(examples=examples(1))) for _ in range(2))
    assert once == again


def test_every_rate_prints_its_denominator_on_a_page_that_stays_small() -> None:
    findings = audit()
    html = build(findings, context())
    assert len(html.encode()) <= 800_000
    text = Text(html).text
    for frame in (findings.by_editor, findings.by_group[MAIN.by]):
        for row in frame.to_dicts():
            assert f"{row['hits']:,}/{row['judged']:,}" in text


def test_the_paper_preset_prints_both_denominators() -> None:
    findings = audit(preset="paper", prompts=5)
    text = Text(build(findings, context("paper"))).text
    row = findings.by_editor.to_dicts()[0]
    assert row["missing"] > 0
    assert f"{row['hits']:,}/{row['asked']:,} asked" in text
    assert f"{row['hits']:,}/{row['judged']:,}" in text


def test_missing_values_are_dashes_that_say_why() -> None:
    html = damaged()
    assert re.search(r'title="no judged edit of [\d,]+ asked">–', html)
    assert "fewer than 8 persons: no interval" in html
    assert "nothing can be said about it" in html


def test_max_minus_min_is_marked_raw() -> None:
    assert "raw; above zero even when groups are alike" in Text(demo()).text


def test_hostile_names_stay_text() -> None:
    editors = tuple(Party(p.id, HOSTILE, HOSTILE, p.simulated, {HOSTILE: HOSTILE}) for p in EDITORS)
    shown = Example(next(iter(OUTCOMES)), "even", HOSTILE, HOSTILE, {}, picture(90), b"no picture", {}, HOSTILE)
    html = build(audit(prompts=2), context(name=HOSTILE, editors=editors, examples=(shown,)))
    assert HOSTILE not in html
    assert html.count("<script") == 1
    assert HOSTILE in Text(html).text


def test_every_simulated_name_is_marked() -> None:
    assert unmarked(Text(demo()).text, (*EDITORS, *context().judges)) == []


def unmarked(text: str, parties: Sequence[Party]) -> list[str]:
    """Where the name of somebody who is simulated stands without saying so."""
    hits = [hit for party in parties for hit in re.finditer(re.escape(party.label), text)]
    is_marked = [text[hit.end() : hit.end() + 16].lstrip(" ↕(").startswith("simulated") for hit in hits]
    return [text[hit.start() - 40 : hit.end() + 40] for hit, fine in zip(hits, is_marked, strict=True) if not fine]


def test_the_planted_section_is_there_only_with_planted_truth() -> None:
    assert 'id="planted"' in demo()
    assert 'id="planted"' not in build(audit(prompts=2, plant=False), context())


def test_groups_stand_in_the_protocols_order() -> None:
    table = demo().split(f'id="table-{MAIN.outcome}-by-{MAIN.by}"'.replace("_", "-"))[1].split("</table>")[0]
    names = re.findall(r'<th scope="row"[^>]*>([^<]+)', table)
    assert names[:-1] == [group.label for group in builtin().groups.dimensions[MAIN.by]]


def test_each_data_link_holds_the_numbers_that_are_shown() -> None:
    findings = audit(prompts=3)
    html = build(findings, context())
    link = re.search(r'download="outcomes-long.csv" href="data:text/csv;charset=utf-8,([^"]+)"', html)
    assert link
    rows = list(csv.DictReader(io.StringIO(unquote(link[1]))))
    assert [int(row["hits"]) for row in rows] == findings.by_editor["hits"].to_list()
    assert [float(row["rate"]) for row in rows] == pytest.approx(findings.by_editor["rate"].to_list(), abs=1e-6)


def test_figures_are_well_formed_and_say_what_they_show() -> None:
    every = re.findall(r"<svg viewBox=\"0 0.*?</svg>", demo(), re.DOTALL)
    drawings = [drawing for drawing in every if 'class="narrow"' not in drawing]
    assert drawings and len(drawings) * 2 == len(every), "each of them for a phone, too"
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert root.find("title") is not None and root.findtext("desc")
        assert len(root.findall("path[@class='whisker']")) == 1


def test_a_rate_without_an_interval_is_a_mark_without_whiskers() -> None:
    few = {"rate": 0.2, "low": None, "high": None, "hits": 4, "judged": 20}
    many = {"rate": 0.3, "low": 0.2, "high": 0.4, "hits": 30, "judged": 100}
    for row, whiskers in ((few, 0), (many, 1)):
        drawn = forest(
            "f", "Rates", ["Group"], [Series("e", "Editor")], [Line("Group", 0, row)], pl.DataFrame([row])
        )
        root = ElementTree.fromstring(str(drawn.svg))
        assert len(root.findall("path[@class='whisker']")) == whiskers
        assert ("no interval" in str(drawn.svg)) == (whiskers == 0)
        assert len(root.findall("path[@class='mark c0']")) == 2, "in the legend, and in its row"


def test_pictures_are_shown_as_given() -> None:
    assert demo().count('src="data:image/webp;base64,') == 2 * len(examples())
    assert gallery.picture(b"\xff\xd8\xff\xe0") == "data:image/jpeg;base64,/9j/4A=="
    assert gallery.picture(b"") == ""


def test_scores_that_no_judge_gave_are_dashes_in_captions() -> None:
    axes: Mapping[str, object] = builtin().axes
    silent = builtin().axes[list(axes)[3]].label
    assert f"{silent} –" in Text(demo()).text


def test_an_editor_that_nobody_described_is_refused() -> None:
    with pytest.raises(ValueError, match="replace"):
        build(audit(prompts=1), context(editors=EDITORS[:2]))


def test_many_editors_share_one_sentence_and_none_is_lost() -> None:
    ids = ("replace", *(f"e{n}" for n in range(5)))
    editors = tuple(Party(id, f"Model {id}", "", False, {}) for id in ids)
    html = build(audit(editors=ids, prompts=5), context(editors=editors))
    summary = Text(html.split('<div class="found">')[1].split('<div class="around">')[0])
    assert summary.tags.count("h4") == 1
    for editor in editors:
        assert editor.label in summary.text


def test_nested_settings_are_spelled_out_and_unset_ones_left_out() -> None:
    text = Text(demo()).text
    assert "truth.rate.base 0.06" in text
    assert "variant" not in text


def test_definitions_print_every_threshold() -> None:
    text = Text(demo()).text
    told = context()
    for outcome in OUTCOMES:
        assert " ".join(told.rule(outcome).split()) in text
