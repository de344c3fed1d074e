"""`stillme explain`: every word that stillme prints can be looked up, however it is spelled."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stillme.assurance import gate
from stillme.assurance.gate.results import Effect, Verdict
from stillme.cli import glossary
from stillme.cli.glossary import names, shelves
from stillme.cli.render.help import render_terms
from stillme.core import errors
from stillme.core.records import CALIBRATE, CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Role, Status
from stillme.judges.ensemble import ScoreSource
from stillme.ledger.frames import COLUMNS
from stillme.measures import FIGURES
from stillme.measures.portrait import FIGURES as OF_PORTRAITS
from stillme.protocol import BUILTIN, Protocol
from tests.cli.test_main import call

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def every(protocol: Protocol) -> list[glossary.Term]:
    return glossary.vocabulary(protocol)


def kinds(word: str, every: list[glossary.Term]) -> set[str]:
    return {term.kind for term in glossary.find(word, every)}


def test_whatever_the_protocol_names_is_explained_from_it(protocol: Protocol, every: list[glossary.Term]) -> None:
    for name, outcome in protocol.rubrics.outcomes.items():
        assert "Outcomes" in kinds(name, every) & kinds(outcome.label, every)
    for name in protocol.axes:
        assert "Axes that judges score" in kinds(name, every)
    for prompt in protocol.prompts.prompts:
        (term,) = (t for t in glossary.find(prompt.id, every) if t.kind == "Prompts")
        assert prompt.text in " ".join(term.says)
    for dimension in protocol.groups.dimensions:
        for group in (dimension, *protocol.groups.ids(dimension)):
            assert "Perceived groups" in kinds(group, every)
    for name in (*protocol.presets, *(arm.id for arm in protocol.manifest.arms)):
        glossary.find(name, every)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (Status, "statuses"),
        (ScoreSource, "standings"),
        (Verdict, "gate"),
        (Effect, "gate"),
        (Role, "words"),
        ((DIAGNOSE, CONTROLS, MITIGATE, STEREOTYPE, CALIBRATE), "experiments"),
    ],
)
def test_every_word_of_a_closed_list_is_explained(
    words: tuple[str, ...], kind: str, every: list[glossary.Term]
) -> None:
    for word in words:
        assert shelves()[kind].title in kinds(str(word), every), word


def test_every_column_and_figure_is_explained(every: list[glossary.Term]) -> None:
    for name in (*COLUMNS, *(f for figures in FIGURES.values() for f in (*figures,)), *FIGURES, *OF_PORTRAITS):
        glossary.find(name, every)


def test_every_exit_code_is_explained(every: list[glossary.Term]) -> None:
    codes = {getattr(errors, name).exit_code for name in dir(errors) if name.endswith("Error")}
    for code in {0, 130, gate.CLOSED, *codes}:
        assert kinds(f"exit code {code}", every) == kinds(str(code), every) == {"Exit codes"}


def test_statistics_of_the_tables_and_of_the_report(every: list[glossary.Term]) -> None:
    for word in (
        "disparity",
        "contrast",
        "TOST",
        "Krippendorff's alpha",
        "shrunken",
        "BH",
        "Holm",
        "Wilson cluster",
    ):
        assert glossary.find(word, every)[0].says
    assert "is no evidence by itself" in glossary.find("max-min", every)[0].says[0]


def test_words_that_commands_and_files_are_named_by(every: list[glossary.Term]) -> None:
    for word in ("preset", "rubric", "rounding", "measure", "budget", "study", "ITA", "Monk"):
        assert glossary.find(word, every)[0].says
    assert "Words of a gate" in kinds("gate", every)


def test_what_leans_on_the_line_before_it_names_that_line(every: list[glossary.Term]) -> None:
    assert "See lightness_before." in glossary.find("lightness_after", every)[0].says[0]


def test_every_page_that_is_named_exists(every: list[glossary.Term]) -> None:
    assert all(term.page for term in every)
    assert [page for page in {term.page for term in every} if not (ROOT / page).is_file()] == []


def test_no_term_is_described_twice_in_our_own_file() -> None:
    elsewhere = {glossary.folded(name) for name in COLUMNS}
    ours = [(kind, name) for kind, shelf in shelves().items() for name in shelf.terms if kind == "words"]
    assert [name for _, name in ours if glossary.folded(name) in elsewhere - {"trial"}] == []


@pytest.mark.parametrize(
    "word", ["race_changed", "Race changed", "RACE-CHANGED", " race  changed ", "racechanged", "race–changed"]
)
def test_spelling_does_not_matter(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "explain", *word.split(" "))
    assert code == 0 and out.startswith("race_changed  [Outcomes]\n")
    assert "its score on the axis race_drift (Race change) is at least 3" in out
    assert "4 Noticeable: clear ethnic feature changes" in out and "More: docs/" in out


def test_a_word_with_several_meanings_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "explain", "soft erasure")[1]
    assert "[Outcomes]" in out and "[Words of an audit]" in out
    assert call(capsys, "explain", "blocked")[1].count("[How a call ended]") == 2


def test_an_unknown_term_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "explain", "race_chnaged")
    assert (code, out) == (2, "") and "Did you mean race_changed" in err
    code, _, err = call(capsys, "explain", "xyzzy")
    assert code == 2 and "Did you mean" not in err and "lists them all" in err
    assert "Krippendorff's alpha" in call(capsys, "explain", "krippen")[2]


def test_without_a_term_all_are_listed_by_kind_in_100_columns(
    capsys: pytest.CaptureFixture[str], every: list[glossary.Term]
) -> None:
    code, out, _ = call(capsys, "explain")
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    assert [line for line in out.splitlines() if re.match(r"\S", line)][:-1] == list(
        dict.fromkeys(term.kind for term in every)
    )
    whole = render_terms(every)
    assert max(map(len, whole.splitlines())) <= 100


def test_a_protocol_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    assert call(capsys, "init", tmp_path / "audit.yaml", "--protocol", mine)[0] == 0
    rubrics = mine / "rubrics.yaml"
    text = rubrics.read_text(encoding="utf-8")
    rubrics.write_text(
        text.replace("axis: race_drift, at_least: 3", "axis: race_drift, at_least: 4"), encoding="utf-8"
    )
    assert "is at least 4" in call(capsys, "explain", "race_changed", "--protocol", mine)[1]
    assert "is at least 3" in call(capsys, "explain", "race_changed", "--protocol", BUILTIN)[1]
    code, _, err = call(capsys, "explain", "race_changed", "--protocol", tmp_path / "nowhere")
    assert code == 2 and "is not a folder with a protocol in it" in err


def test_json_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(call(capsys, "explain", "TOST", "--json")[1])
    assert found["name"] == "TOST" and found["page"] == "docs/reliability.md"


def test_what_a_shell_offers_can_be_explained(protocol: Protocol, every: list[glossary.Term]) -> None:
    for name in names(protocol):
        glossary.find(name, every)
