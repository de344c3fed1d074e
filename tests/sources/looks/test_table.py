"""looks.yaml is read strictly: each fault is a sentence that names the row."""

from __future__ import annotations

from importlib import resources

import pytest

from stillme.core.errors import ConfigIssuesError
from stillme.sources.looks.table import parse, table

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
        ("    notes: a row", "    notes: a row\n    hat: top", r"looks\[0\].hat: is not a known key"),
        ("    notes: a row\n", "", r"looks\[0\].notes: is missing"),
        ("    notes: a row", "    notes: a row\n    scene: bus", r"looks\[0\].scene: is given twice"),
        ("props: [podium]", "props: podium", r"looks\[0\].props: input should be a valid tuple"),
        ("props: [podium]", "props: [1]", r"looks\[0\].props\[0\]: input should be a valid string"),
        ("garment: suit", "garment: 7", r"looks\[0\].garment: input should be a valid string"),
        ('"#112233"', "red", "a colour is written '#rrggbb'"),
        ('"#112233", ', "", r"looks\[0\].colours\[0\]\[2\]: is missing"),
        ("looks:", "looks:\n  - 3", r"looks\[0\]: should be keys with their values .* and is 3"),
        ("looks:", "hats: []\nlooks:", "hats: is not a known key"),
    ],
)
def test_a_fault_is_a_sentence(old: str, new: str, sentence: str) -> None:
    with pytest.raises(ConfigIssuesError, match=sentence):
        parse(ROW.replace(old, new))


def test_two_rows_cannot_share_an_id() -> None:
    with pytest.raises(ConfigIssuesError, match="two rows have the same id"):
        parse(ROW + ROW.split("looks:")[1])


def test_the_shipped_file_has_four_colourways_a_look() -> None:
    assert all(len(look.colours) == 4 for look in table().values())


def test_the_shipped_file_names_no_group() -> None:
    text = resources.files("stillme.sources.looks").joinpath("looks.yaml").read_text("utf-8").lower()
    assert not [word for word in ("male", "female", "woman", "white-", "asian", "latino") if f" {word}" in text]
