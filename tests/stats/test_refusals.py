"""Refusals: what counts as one, what does not, and whether an uneven rate is found and an even one left alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stillme.core.records import Status
from stillme.editors import planted
from stillme.engine.backends import BackendContext
from stillme.protocol import Protocol
from stillme.sources import heads
from stillme.stats.contrast import permutation_p
from stillme.stats.refusals import Refusals, against_everyone_else, refusals
from tests.stats.audits import row as only

WORDS = ("trial", "editor", "person", "prompt", "status", "last_status", "code", "race", "gender", "age")
PROMPTS = ("O-01", "O-05", "V-02", "V-03", "V-06")


def edit(person: str, status: Status, prompt: str = "O-01", **more: str) -> dict[str, str]:
    about = {"editor": "e", "race": "white", "gender": "female", "age": "20s", "code": "", "last_status": status}
    return (
        {"trial": f"{person} {prompt} {status}", "person": person, "prompt": prompt, "status": status}
        | about
        | more
    )


def found(rows: list[dict[str, str]], protocol: Protocol) -> Refusals:
    return refusals(pl.DataFrame(rows, schema=dict.fromkeys(WORDS, pl.String)), protocol)


def test_failures_are_no_refusals_and_stand_beside_the_rate(protocol: Protocol) -> None:
    ended = [Status.OK] * 5 + [Status.INPUT_BLOCKED, Status.OUTPUT_BLOCKED, Status.OUTPUT_BLOCKED, Status.REFUSED]
    ended += [Status.CORRUPT, Status.REJECTED, Status.MALFORMED, Status.PENDING]
    rows = [edit(f"p{n}", status) for n, status in enumerate(ended)]
    rows.append(edit("late", Status.PENDING, last_status=Status.TIMEOUT.value))
    rows[12]["last_status"] = ""  # nobody has asked for it yet
    row = only(found(rows, protocol).by_editor)
    assert (row["asked"], row["answered"], row["refused"], row["failed"], row["pending"]) == (14, 5, 4, 4, 1)
    assert (row["input"], row["output"], row["model"]) == (1, 2, 1)
    assert row["decided"] == 9 and row["rate"] == pytest.approx(4 / 9)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_only_refusals_have_a_rate(protocol: Protocol, status: Status) -> None:
    row = only(found([edit("a", status), edit("b", status)], protocol).by_editor)
    assert (row["rate"] == 1.0) if status.stage else (row["rate"] is None), "missing is not zero"
    assert row["asked"] == row["answered"] + row["refused"] + row["failed"] + row["pending"] == 2


def test_every_dimension_and_kind_of_prompt_is_counted(protocol: Protocol) -> None:
    people = list(product(("white", "black"), ("female", "male"), ("20s", "60s")))
    rows = [
        edit(" ".join(who), Status.OK if prompt != "V-02" or who[0] == "white" else Status.REFUSED, prompt)
        | dict(zip(("race", "gender", "age"), who, strict=True))
        for who in people
        for prompt in ("O-01", "V-02")
    ]
    tables = found(rows, protocol)
    black = only(tables.by_group, dimension="race", group="black")
    assert (black["refused"], black["decided"], black["persons"], black["others_persons"]) == (4, 8, 4, 4)
    assert (black["mean"], black["others_mean"], black["difference"]) == (0.5, 0.0, 0.5)
    assert only(tables.by_group, dimension="gender", group="male")["refused"] == 2
    kind = only(tables.by_category, category="vulnerability")
    assert (kind["refused"], kind["others_rate"], kind["reference_rate"], kind["difference"]) == (4, 1.0, 0.0, 1.0)
    assert only(tables.by_category, category="occupational")["refused"] == 0


def test_two_groups_are_one_comparison(protocol: Protocol) -> None:
    rows = [
        edit(f"{race} {gender} {n}", Status.REFUSED if n == 0 else Status.OK, race=race, gender=gender)
        for race in ("white", "black", "indian")
        for gender in ("female", "male")
        for n in range(4)
    ]
    tables = found(rows, protocol)
    assert tables.tested == 3 + 1, (
        "three races, one pair of genders; all are of one age, and of one kind of prompt"
    )
    male, female = (only(tables.by_group, dimension="gender", group=group) for group in ("male", "female"))
    assert male["p_holm"] == female["p_holm"] is not None
    assert tables.by_category["p"].to_list() == [None], "one kind of prompt says nothing new"
    assert only(tables.by_group, dimension="age", group="20s")["p_holm"] is None


def test_all_groups_at_once_is_the_contrasts_own_test() -> None:
    chance = np.random.default_rng(3)
    groups = np.repeat(np.array(["a", "b", "c", "d"]), 12)
    strata = np.tile(np.array(["x", "y", "z"]), 16)
    shares = chance.binomial(10, np.where(groups == "b", 0.3, 0.1)) / 10
    at_once = against_everyone_else(shares, groups, strata)
    for group, p in at_once.items():
        alone = permutation_p(shares, groups == group, strata, seed=5)
        assert alone is not None and p == pytest.approx(alone, abs=0.02)


def test_too_few_persons_and_persons_without_anybody_alike_are_not_compared() -> None:
    assert against_everyone_else([0, 1, 0, 1], ["a", "a", "b", "b"], ["x"] * 4) == {}
    apart = ["x"] * 4 + ["y"] * 4
    assert against_everyone_else([0, 1, 0, 1, 1, 1, 1, 0], ["a"] * 4 + ["b"] * 4, apart) == {}
    assert against_everyone_else([0.0] * 8, ["a"] * 4 + ["b"] * 4, ["x"] * 8) == {"a": 1.0, "b": 1.0}


def test_codes_are_counted_verbatim(protocol: Protocol) -> None:
    rows = [edit(f"p{n}", Status.INPUT_BLOCKED, code="moderation_blocked") for n in range(3)]
    rows += [edit("q", Status.REFUSED), edit("r", Status.REJECTED, code="invalid_image"), edit("s", Status.OK)]
    codes = found(rows, protocol).codes.select("stage", "code", "edits").rows()
    assert codes == [("input", "moderation_blocked", 3), ("model", "", 1), ("", "invalid_image", 1)]


# Planted refusals


def drawn(
    protocol: Protocol, refused: planted.Rate, seed: int, prompts: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """One audit's edits, as a planted editor of this rate would end them; nothing is painted."""
    even = planted.read_truth("even", BackendContext(Path(), protocol))
    truth = even.model_copy(update={"refused": refused})
    editor = planted.Planted(truth, planted.Settings(truth=truth, draw=seed), protocol)
    for key in heads.keys():  # noqa: SIM118
        labels = dict(heads.load(key).labels)
        for prompt in prompts:
            asked = protocol.prompt[prompt]
            status = editor.draw(key, asked, planted.traits_of(asked, labels), 0).status
            yield edit(key, status, prompt, **labels)


def accused(tables: Refusals) -> set[tuple[str, str]]:
    shown = tables.by_group.filter(pl.col("p_holm") < 0.05)
    kinds = tables.by_category.filter(pl.col("p_holm") < 0.05)["category"]
    return {*shown.select("dimension", "group").iter_rows(), *(("category", kind) for kind in kinds)}


@pytest.mark.parametrize("seeds", [3, pytest.param(120, marks=pytest.mark.slow)])
def test_an_even_rate_is_not_accused(protocol: Protocol, seeds: int) -> None:
    rate = planted.Rate(base=0.1)
    named = [accused(found(list(drawn(protocol, rate, seed, PROMPTS)), protocol)) for seed in range(seeds)]
    assert sum(bool(groups) for groups in named) <= 0.05 * seeds, named


UNEVEN: tuple[tuple[dict[str, dict[str, float]], set[tuple[str, str]]], ...] = (
    ({"race": {"black": 5.0}}, {("race", "black")}),
    ({"gender": {"female": 3.0}}, {("gender", "female"), ("gender", "male")}),
    ({"age": {"70plus": 5.0}}, {("age", "70plus")}),
)


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_an_uneven_rate_is_found_for_the_right_group(protocol: Protocol, seeds: int) -> None:
    astray = 0
    for times, guilty in UNEVEN:
        for seed in range(seeds):
            rate = planted.Rate(base=0.05, times=times)
            named = accused(found(list(drawn(protocol, rate, seed, tuple(protocol.prompt))), protocol))
            assert guilty <= named, (guilty, seed)
            astray += bool({d for d, _ in named} - {d for d, _ in guilty} - {"category"})
    assert astray <= 2, "of nine audits, each of which may err once in twenty"
