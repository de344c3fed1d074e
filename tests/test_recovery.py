"""The audit finds what was planted, and does not accuse the editor that treats everybody alike.

100 audits of a small grid, drawn with the planted editors' and judges' own code and read with the real analysis. Only
the painting is left out: it does not touch the scores (tests/editors shows that pixels follow the draw).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from stillme.core.records import JudgeRequest, Status
from stillme.editors import planted as editing
from stillme.engine.backends import BackendContext
from stillme.judges import planted as judging
from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.sources import heads
from stillme.stats.contrast import contrasts
from stillme.stats.findings import beside_planted
from stillme.stats.outcomes import mark

SEEDS = 100
TRUTHS = ("even", "lightens", "erases")
PROMPTS = ("O-01", "O-05", "V-02", "V-03", "V-06")
JUDGES = (
    {"noise": 0.2, "refused": 0.004, "malformed": 0.002, "draw": 1},
    {"noise": 0.25, "lapse": 0.002, "refused": 0.006, "malformed": 0.004, "draw": 2},
)
SCHEMA = {
    "trial": pl.String, "editor": pl.String, "person": pl.String, "race": pl.String, "gender": pl.String, "age": pl.String, "axis": pl.String,
    "neutral": pl.Int64, "requested": pl.Boolean, "rank": pl.Int64, "score": pl.Int64,
}  # fmt: skip
People = dict[str, dict[str, str]]


def everybody() -> People:
    return {key: dict(heads.load(key).labels) for key in heads.keys()}  # noqa: SIM118


def drawn_scores(
    protocol: Protocol, people: People, seed: int, prompts: tuple[str, ...]
) -> Iterator[tuple[object, ...]]:
    """Every judge's scores of one audit, row by row."""
    place = BackendContext(Path(), protocol)
    judges = [judging.Planted(judging.Settings.model_validate(j), protocol) for j in JUDGES]
    for name in TRUTHS:
        editor = editing.Planted(
            editing.read_truth(name, place), editing.Settings(truth=name, draw=seed), protocol
        )
        for key, labels in people.items():
            for prompt in prompts:
                asked = protocol.prompt[prompt]
                draw = editor.draw(key, asked, editing.traits_of(asked, labels), 0)
                noted = {f"score.{a}": s for a, s in editor.true_scores(draw, (key, prompt)).items()}
                axes = protocol.axes_of(prompt)
                request = JudgeRequest(f"{seed} {name} {key} {prompt}", b"", b"", "", axes, {}, noted, labels)
                for rank, judge in enumerate(judges):
                    made = draw.status is Status.OK
                    scores = judge.judge(request).scores if made else {}
                    for axis in axes:
                        about = (f"{name} {key} {prompt}", name, key, *labels.values(), axis)
                        requested = not protocol.unrequested(prompt, axis)
                        yield (*about, protocol.axes[axis].neutral, requested, rank, scores.get(axis))


def audit(protocol: Protocol, people: People, seed: int, prompts: tuple[str, ...] = PROMPTS) -> pl.DataFrame:
    """One audit's outcomes, as the pipeline would mark them."""
    rows = pl.DataFrame(list(drawn_scores(protocol, people, seed, prompts)), schema=SCHEMA, orient="row")
    about = rows.drop("rank", "score", "neutral").unique(["trial", "axis"], maintain_order=True)
    combined = combine(rows, protocol.presets["default"].rounding).drop("neutral")
    scores = about.join(combined, on=["trial", "axis"], validate="1:1", maintain_order="left")
    return mark(scores, protocol.rubrics.outcomes)


def planted_rates(protocol: Protocol, people: People) -> pl.DataFrame:
    place = BackendContext(Path(), protocol)
    rows = [
        (f"{name} {key} {prompt}", outcome, rate)
        for name in TRUTHS
        for key, labels in people.items()
        for prompt in PROMPTS
        for outcome, rate in editing.expected_rates(
            editing.read_truth(name, place), protocol, prompt, labels
        ).items()
    ]
    return pl.DataFrame(
        rows, schema={"trial": pl.String, "outcome": pl.String, "planted": pl.Float64}, orient="row"
    )


@pytest.mark.slow
def test_planted_rates_are_recovered_and_the_even_handed_editor_is_not_accused(protocol: Protocol) -> None:
    people = everybody()
    planted = planted_rates(protocol, people)
    covered: Counter[tuple[str, str, str]] = Counter()
    accused: Counter[str] = Counter()
    for seed in range(SEEDS):
        marked = audit(protocol, people, seed)
        table = beside_planted(marked, planted, "race")
        covered.update(table.filter(pl.col("recovered")).select("outcome", "editor", "race").iter_rows())
        claims = contrasts(marked, protocol.manifest.tables.contrasts, "race", "white", ["gender", "age"])
        accused.update(claims.filter(pl.col("p_holm") < 0.05)["editor"].unique())
    cells = len(TRUTHS) * len(protocol.rubrics.outcomes) * 7
    assert len(covered) == cells
    worst = min(covered.items(), key=lambda item: item[1])
    print(f"lowest coverage: {worst}; mean {sum(covered.values()) / cells:.1f}; accused: {dict(accused)}")
    assert worst[1] >= 90, worst
    assert accused["even"] <= 5


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_with_all_prompts_the_uneven_editors_are_named_and_for_the_right_outcome(
    protocol: Protocol, seed: int
) -> None:
    marked = audit(protocol, everybody(), 1000 + seed, tuple(protocol.prompt))
    claims = contrasts(marked, protocol.manifest.tables.contrasts, "race", "white", ["gender", "age"])
    shown = set(claims.filter(pl.col("p_holm") < 0.05).select("editor", "outcome").iter_rows())
    assert {("lightens", "skin_lightened"), ("erases", "soft_erasure"), ("erases", "race_changed")} <= shown
    assert not any(editor == "even" for editor, _ in shown)
