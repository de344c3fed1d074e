"""looks.yaml is read strictly: each fault is a sentence that names the row."""

from __future__ import annotations

from importlib import resources

import pytest

from stillme.looks.table import parse, table

ROW = """
looks:
  - id: X-01
    garment: suit
    colours: [["#112233", "#445566", "#778899"]]
    scene: boardroom
    props: [podium]
    notes: a row
"""


def test_a_row_is_read_whole() -> None:
    row = parse(ROW)["X-01"]
    assert (row.garment, row.scene, row.props, row.marks, row.posture) == (
        "suit",
        "boardroom",
        ("podium",),
        (),
        None,
    )
    assert row.colours == (((0x11, 0x22, 0x33), (0x44, 0x55, 0x66), (0x77, 0x88, 0x99)),)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("    notes: a row", "    notes: a row\n    hat: top", "X-01: hat is not a known key"),
        ("    notes: a row\n", "", "X-01: notes is missing"),
        ("    notes: a row", "    notes: a row\n    scene: bus", "scene is given twice"),
        ("props: [podium]", "props: podium", "X-01: props is a list of words"),
        ("props: [podium]", "props: [1]", "X-01: props is a list of words"),
        ("garment: suit", "garment: 7", "X-01: garment is a word"),
        ('"#112233"', "red", "X-01: colours is one to four rows"),
        ('"#112233", ', "", "X-01: colours is one to four rows"),
        ("looks:", "looks:\n  - 3", "a row is a mapping"),
        ("looks:", "hats: []\nlooks:", "the only key at the top is 'looks'"),
    ],
)
def test_a_fault_is_a_sentence(old: str, new: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse(ROW.replace(old, new))


def test_two_rows_cannot_share_an_id() -> None:
    with pytest.raises(ValueError, match="two rows have the same id"):
        parse(ROW + ROW.split("looks:")[1])


def test_the_shipped_file_has_four_colourways_a_look() -> None:
    assert all(len(look.colours) == 4 for look in table().values())


def test_the_shipped_file_names_no_group() -> None:
    text = resources.files("stillme.looks").joinpath("looks.yaml").read_text("utf-8").lower()
    assert not [word for word in ("male", "female", "woman", "white-", "asian", "latino") if f" {word}" in text]
