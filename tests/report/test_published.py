"""The authors' published counts, through analysis and report: the percentages that their tables print."""

from __future__ import annotations

import re

import polars as pl
import pytest

from stillme.protocol.reader import builtin
from stillme.report.build import Party, build
from stillme.stats.findings import Findings, analyse
from tests.report.synthetic_audit import MODES, context, people

ASKED = 1680
# judged, race ≥ 3, edit ≤ 2, skin ≥ 4, skin ≤ 2 (PROTOCOL.md, "Published figures")
COUNTS = {
    "FLUX.2-dev": (1674, 225, 105, 1184, 148),
    "Step1X-Edit-v1p2": (1677, 135, 363, 1044, 251),
    "Qwen-Image-Edit-2511": (1679, 155, 51, 1128, 272),
}


def scores() -> pl.DataFrame:
    protocol = builtin()
    persons = people(protocol)
    rows = []
    for editor, (judged, race, erased, lighter, darker) in COUNTS.items():
        per_axis = {"race_drift": (race, 3, 0), "edit_success": (erased, 2, 0), "skin_tone": (lighter, 4, darker)}
        for axis, (many, score, opposite) in per_axis.items():
            calm = protocol.axes[axis].neutral or 5
            values = (
                [score] * many + [2] * opposite + [calm] * (judged - many - opposite) + [None] * (ASKED - judged)
            )
            rows += [
                {
                    "trial": f"{editor}-{n}",
                    "editor": editor,
                    "person": p.id,
                    **p.labels,
                    "axis": axis,
                    "score": value,
                }
                for n, value in enumerate(values)
                for p in [persons[n % len(persons)]]
            ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(requested=pl.lit(False), single=pl.lit(False), flagged=pl.lit(False))


def findings(preset: str) -> Findings:
    frame = scores()
    judged = frame.select("trial", "axis", "score", judge=pl.lit("one"), rank=pl.lit(0))
    edits = frame.filter(axis="race_drift").with_columns(
        status=pl.lit("ok"), last_status=pl.lit("ok"), code=pl.lit(""), prompt=pl.lit(next(iter(builtin().prompt)))
    )
    return analyse(dict.fromkeys(MODES, frame), judged, edits, builtin(), preset)


def printed(preset: str, outcome: str) -> list[str]:
    """The outcome's column in the main table, first line of each cell."""
    editors = tuple(Party(name, name, "", False, {}) for name in COUNTS)
    table = (
        build(findings(preset), context(preset, editors)).split('id="outcomes-by-editor"')[1].split("</table>")[0]
    )
    labels = re.findall(r'class="sort">([^<]+)</button>', table)
    place = labels.index(builtin().rubrics.outcomes[outcome].label)
    rows = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", table)
    return [re.findall(r"<t[hd][^>]*>([^<]+)", row)[place].split("\N{NO-BREAK SPACE}")[0] for row in rows]


@pytest.mark.parametrize(
    ("preset", "outcome", "expected"),
    [
        ("paper", "race_changed", ["13.4", "8.0", "9.2"]),
        ("paper", "soft_erasure", ["6.2", "21.6", "3.0"]),
        ("default", "skin_lightened", ["70.7", "62.3", "67.2"]),
    ],
)
def test_the_published_counts_print_the_published_rates(preset: str, outcome: str, expected: list[str]) -> None:
    assert printed(preset, outcome) == expected
