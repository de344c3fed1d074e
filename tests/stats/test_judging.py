"""What judges did besides scoring: whom they refused, how their looks ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.judging import Judging, judge_findings

NEVER_TWICE = pl.DataFrame(
    schema=dict.fromkeys(("person", "axis", "judge"), pl.String)
    | dict.fromkeys(("score", "score_again"), pl.Int64)
)
HIT = "black"


def edits(rows: list[dict[str, str]]) -> pl.DataFrame:
    about = {"prompt": "O-01", "race": "white", "gender": "female", "age": "20s", "status": "ok"}
    full = [{"trial": f"t{n}", "edit": f"e{n}", "person": f"p{n}", **about, **row} for n, row in enumerate(rows)]
    return pl.DataFrame(full)


def judged(frame: pl.DataFrame, *judges: list[Status]) -> pl.DataFrame:
    """Two axes a look, as the frame of the run has them; a status for each edit."""
    rows = [
        (trial, axis, f"judge{rank}", rank, status.value)
        for rank, said in enumerate(judges)
        for trial, status in zip(frame["trial"], said, strict=True)
        for axis in ("edit_success", "skin_tone")
    ]
    schema = {"trial": pl.String, "axis": pl.String, "judge": pl.String, "rank": pl.Int64, "status": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def found(frame: pl.DataFrame, protocol: Protocol, *judges: list[Status]) -> Judging:
    return judge_findings(judged(frame, *judges), frame, NEVER_TWICE, protocol)


def of_group(frame: pl.DataFrame, **equal: str) -> dict[str, Any]:
    (row,) = frame.filter(**equal).to_dicts()
    return row


def test_a_look_is_decided_when_it_was_scored_or_refused_and_the_rest_stands_beside(protocol: Protocol) -> None:
    said = [Status.OK] * 3 + [Status.REFUSED, Status.INPUT_BLOCKED, Status.OUTPUT_BLOCKED]
    said += [Status.MALFORMED, Status.TRUNCATED, Status.REJECTED, Status.PENDING]
    tables = found(edits([{}] * len(said)), protocol, said)
    row = of_group(tables.refusals, dimension="race", group="white")
    assert (row["asked"], row["answered"], row["refused"], row["failed"], row["pending"]) == (10, 3, 3, 3, 1)
    assert (row["input"], row["output"], row["model"]) == (1, 1, 1) and tables.refused == 3
    assert row["decided"] == 6 and row["rate"] == pytest.approx(0.5) and row["persons"] == 6


def test_an_edit_that_was_not_made_is_no_look_and_one_that_is_shared_is_one(protocol: Protocol) -> None:
    frame = edits([{}, {"status": "refused"}, {"edit": "e0"}, {}])
    tables = found(frame, protocol, [Status.OK, Status.REFUSED, Status.OK, Status.REFUSED])
    assert tables.statuses.rows() == [("judge0", "ok", 1), ("judge0", "refused", 1)]
    row = of_group(tables.refusals, dimension="race", group="white")
    assert (row["asked"], row["refused"]) == (2, 1), "the editor's own refusal is not the judge's"


def drawn(protocol: Protocol, rate: float, hit: float, seed: int = 3) -> Judging:
    """84 persons, 20 edits each; one judge refuses one group more often, the other nobody."""
    chance = np.random.default_rng(seed)
    groups = [
        {"race": race, "gender": gender, "age": age, "person": f"{race} {gender} {age}"}
        for race in protocol.groups.ids("race")
        for gender in protocol.groups.ids("gender")
        for age in protocol.groups.ids("age")
    ]
    frame = edits([group for group in groups for _ in range(20)])
    limits = [hit if race == HIT else rate for race in frame["race"]]
    said = [Status.REFUSED if chance.random() < limit else Status.OK for limit in limits]
    return found(frame, protocol, said, [Status.OK] * len(said))


def test_a_judge_that_refuses_one_group_is_named_and_the_other_is_not(protocol: Protocol) -> None:
    tables = drawn(protocol, 0.02, 0.25)
    shown = tables.refusals.filter(pl.col("p_holm") < 0.05).select("judge", "dimension", "group").rows()
    assert shown == [("judge0", "race", HIT)]
    row = of_group(tables.refusals, judge="judge0", dimension="race", group=HIT)
    assert row["difference"] == pytest.approx(0.23, abs=0.08) and row["low"] < row["rate"] < row["high"]
    assert (tables.refusals.filter(judge="judge1")["p_holm"] == 1).all()


@pytest.mark.slow
def test_an_even_rate_seldom_names_anybody(protocol: Protocol) -> None:
    named = [
        drawn(protocol, 0.05, 0.05, seed).refusals.filter(pl.col("p_holm") < 0.05).height for seed in range(12)
    ]
    assert sum(map(bool, named)) <= 1, "each of them may err once in twenty; 2 of seeds 0 to 99 do"


def test_a_run_without_judges_has_empty_tables(protocol: Protocol) -> None:
    tables = found(edits([{}]), protocol)
    assert tables.refused == 0 and tables.refusals.is_empty() and tables.itself.is_empty()


def test_looks_that_were_decided_are_the_scored_and_the_refused(protocol: Protocol) -> None:
    said = [Status.OK, Status.OK, Status.REFUSED, Status.OUTPUT_BLOCKED, Status.TIMEOUT, Status.PENDING]
    tables = found(edits([{}] * len(said)), protocol, said)
    assert (tables.decided, tables.refused) == (4, 2), "what failed or is to come is not decided"
