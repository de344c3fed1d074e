"""What a reader is told about the calibration of the judges."""

from __future__ import annotations

from functools import cache

import polars as pl

from stillme.protocol import builtin
from stillme.report.blocks import Notice
from stillme.report.build import Further, build
from stillme.report.context import Context, Party
from stillme.report.sections import calibration as section
from stillme.stats.calibration import Calibration, calibration
from tests.judges.calibration.judging import TOOK, Habit, drawn, relit
from tests.report.synthetic_audit import context
from tests.report.test_build import Text

PARTIES = tuple(Party(id, label, "", False, {}) for id, label in (("good", "Flash"), ("bad", "Mini")))


@cache
def found(portraits: int = 6) -> Calibration:
    habits = {"good": Habit(0.3), "bad": Habit(0.3, relit("indian", "skin_tone"))}
    took = pl.DataFrame([("good", 1764, 3.2), ("bad", 1770, 0.5)], schema=TOOK, orient="row")
    return calibration(drawn(builtin(), habits, portraits), builtin(), took)


def shown() -> Context:
    return context(judges=PARTIES)


def text(seen: Calibration | None) -> str:
    html = build(None, shown(), Further(judging=(section.build(seen, shown()),)))
    return Text(html.split('<section id="calibration"')[1].split("</section>")[0]).text


def test_the_verdict_comes_first_with_group_axis_and_size() -> None:
    said = text(found())
    assert said.index("Mini did not pass the calibration") < said.index("Flash: passed")
    assert said.index("Flash: passed") < said.index("The gate, rule by rule")
    assert "Skin tone change: Indian people are scored +" in said
    assert "(brighter light, dimmer light)" in said
    assert "1,764 calls, 3.20 USD" in said


def test_every_rule_stands_there_with_its_threshold() -> None:
    said, gate = text(found()), builtin().calibration
    assert gate is not None
    for words in (
        "Specificity",
        "at least 60.0",
        "Sensitivity",
        "at least 80.0",
        "Bias",
        "at most ±0.30",
        "Group gap",
    ):
        assert words in said, words
    assert "wider than 0.25 points" in said


def test_every_kind_and_every_group_has_its_row() -> None:
    said, protocol = text(found()), builtin()
    assert protocol.calibration is not None
    for label in (*(kind.label for kind in protocol.calibration.kinds), *protocol.groups.labels("race").values()):
        assert label in said, label


def test_who_passed_is_not_accused() -> None:
    good = found()
    alone = calibration(drawn(builtin(), {"good": Habit(0.3)}), builtin(), good.took)
    blocks = section.build(alone, shown()).blocks
    assert not any(isinstance(block, Notice) for block in blocks)


def test_too_few_pairs_are_said_to_be_too_few() -> None:
    said = text(found(1))
    assert "cannot be told: not enough pairs" in said and "did not pass" not in said


def test_nobody_calibrated_is_a_sentence() -> None:
    assert "were not calibrated; `stillme calibrate` does that." in text(None)
