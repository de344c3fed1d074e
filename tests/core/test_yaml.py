from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from stillme.core.errors import ConfigIssuesError
from stillme.core.yaml import Document, StrictModel, dotted, read_text


class Inner(StrictModel):
    size: int
    word: str = ""


class Outer(StrictModel):
    name: str
    rows: tuple[Inner, ...] = ()
    share: float = Field(default=0.5, ge=0, le=1)


def faults(text: str) -> list[str]:
    document = Document("f.yaml", text)
    document.read_as(Outer)
    return [str(fault) for fault in sorted(document.faults)]


def test_all_faults_are_named_at_once_with_line_and_field() -> None:
    found = faults("nam: x\nrows:\n  - {size: big}\n  - {siez: 1}\nshare: 3\n")
    assert found == [
        "f.yaml:1: nam: is not a known key; did you mean 'name'?",
        "f.yaml:1: name: is missing",
        "f.yaml:3: rows[0].size: input should be a valid integer, unable to parse string as an integer (given: 'big')",
        "f.yaml:4: rows[1].siez: is not a known key; did you mean 'size'?",
        "f.yaml:4: rows[1].size: is missing",
        "f.yaml:5: share: input should be less than or equal to 1 (given: 3)",
    ]


def test_duplicate_keys_are_refused_with_their_line() -> None:
    assert faults("name: a\nshare: 0.1\nname: b\n") == ["f.yaml:3: name: is given twice"]


def test_a_key_that_is_far_from_any_known_one_lists_the_known_ones() -> None:
    assert faults("name: a\nzzz: 1\n") == ["f.yaml:2: zzz: is not a known key; known keys here: name, rows, share"]


@pytest.mark.parametrize(
    "text", ["name: [unclosed", "name: {a: b", "\tname: a", "name: &x a\nrows: *x", "!!python/object:os.system {}"]
)
def test_broken_or_unsafe_yaml_is_a_fault(text: str) -> None:
    assert faults(text)


def test_words_stay_words() -> None:
    read_ = Document("f.yaml", "a: no\nb: on\nc: 12:30\nd: 2026-01-02\ne: true\nf: 12\ng: 0.5\nh: null").data
    assert read_ == {
        "a": "no",
        "b": "on",
        "c": "12:30",
        "d": "2026-01-02",
        "e": True,
        "f": 12,
        "g": 0.5,
        "h": None,
    }


def test_an_alias_bomb_is_refused_quickly() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    assert any("alias" in fault for fault in faults(bomb))


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(text: str) -> None:
    Document("f.yaml", text).read_as(Outer)


@pytest.mark.parametrize(
    "text", ["[\n" * 1_900, "{a:\n" * 1_900, "- " * 990 + "1", "{a: " * 100_000, "- " * 100_000]
)
def test_a_text_of_any_depth_is_a_fault_and_no_crash(text: str) -> None:
    closes = "".join({"[": "]", "{": "}"}.get(sign, "") for sign in reversed(text))
    assert faults(text + closes) == ["f.yaml: is nested too deeply to be read"]


def test_missing_and_binary_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigIssuesError, match="does not exist"):
        read_text(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ConfigIssuesError, match="is not UTF-8 text"):
        read_text(tmp_path / "b.yaml")


def test_models_are_frozen() -> None:
    model = Document("f.yaml", "name: a").read_as(Outer)
    assert model is not None
    with pytest.raises(Exception, match="frozen"):
        model.name = "b"  # type: ignore[misc]


def test_dotted() -> None:
    assert dotted(("editors", 0, "settings", "truth")) == "editors[0].settings.truth"


@pytest.mark.parametrize(
    ("text", "given"), [("- a", "a list"), ("rows: [a]\nname: n", "'a'"), ("rows: [null]\nname: n", "empty")]
)
def test_what_should_be_keys_and_values_is_said_without_the_name_of_a_class(text: str, given: str) -> None:
    (said,) = faults(text)
    assert (
        said.endswith(f"should be keys with their values (`key: value`), and is {given}") and "Outer" not in said
    )
