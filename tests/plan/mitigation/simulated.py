"""The mitigation experiment without painting: planted editors draw, planted judges read, the real code pairs up.

The painting does not touch the scores (tests/editors shows that pixels follow the draw), so that many experiments
can be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import polars as pl

from stillme.core.records import JudgeRequest, Portrait, Status
from stillme.editors import planted as editing
from stillme.engine.backends import BackendContext
from stillme.judges import planted as judging
from stillme.judges.ensemble import combine
from stillme.plan.mitigation.sampling import Cell, stratified
from stillme.protocol import Protocol
from stillme.sources import heads

EDITORS = ("one", "two", "three")
JUDGES = ({"noise": 0.2, "refused": 0.006, "draw": 1}, {"noise": 0.25, "refused": 0.01, "draw": 2})
SCHEMA = {
    "trial": pl.String, "arm": pl.String, "editor": pl.String, "prompt": pl.String, "person": pl.String, "race": pl.String,
    "gender": pl.String, "age": pl.String, "axis": pl.String, "neutral": pl.Int64, "requested": pl.Boolean, "rank": pl.Int64, "score": pl.Int64,
}  # fmt: skip


@cache
def people() -> tuple[Portrait, ...]:
    return tuple(
        Portrait(key, "heads", key, key, dict(heads.load(key).labels))
        for key in heads.keys()  # noqa: SIM118
    )


def truth(protocol: Protocol, name: str = "keeps", **changes: object) -> editing.Truth:
    known = editing.read_truth(name, BackendContext(Path(), protocol)).model_dump()
    return editing.Truth.model_validate({**known, **changes})


def leads(protocol: Protocol) -> dict[str, tuple[str, int]]:
    """Arm -> what stands before the prompt, and how far the seed moves."""
    rules = protocol.mitigation
    assert rules is not None
    said = {None: "", "features": f"{rules.opening} round face.", "placebo": "This picture is a file."}
    return {arm.id: (said[arm.lead], arm.seed_offset) for arm in protocol.manifest.arms}


def cases(protocol: Protocol, size: int, seed: int) -> list[Cell]:
    return stratified(people(), protocol.prompts.prompts, EDITORS, size, seed, protocol.groups)


def trial(seed: int, cell: Cell, arm: str) -> str:
    return f"{seed} {' '.join(cell)} {arm}"


def scores(
    protocol: Protocol, planted: editing.Truth, chosen: Sequence[Cell], seed: int, arms: Sequence[str] = ()
) -> pl.DataFrame:
    """The ensemble's scores of these cases in these arms or in all, as the pipeline would give them on."""
    asked = {name: how for name, how in leads(protocol).items() if not arms or name in arms}
    rows = pl.DataFrame(list(_rows(protocol, planted, chosen, seed, asked)), schema=SCHEMA, orient="row")
    about = rows.drop("rank", "score").unique(["trial", "axis"], maintain_order=True)
    combined = combine(rows, protocol.presets["default"].rounding).drop("neutral")
    return about.join(combined, on=["trial", "axis"], validate="1:1", maintain_order="left")


def _rows(
    protocol: Protocol,
    planted: editing.Truth,
    chosen: Sequence[Cell],
    seed: int,
    arms: Mapping[str, tuple[str, int]],
) -> Iterator[tuple[object, ...]]:
    judges = [judging.Planted(judging.Settings.model_validate(one), protocol) for one in JUDGES]
    editors = {
        name: editing.Planted(planted, editing.Settings(truth=planted, draw=10 * seed + n), protocol)
        for n, name in enumerate(EDITORS)
    }
    labels = {portrait.key: portrait.labels for portrait in people()}
    for cell in chosen:
        own = labels[cell.portrait]
        for arm, (lead, moved) in arms.items():
            noted = _edited(editors[cell.editor], protocol, cell, own, lead, moved)
            name = trial(seed, cell, arm)
            about = (
                name,
                arm,
                cell.editor,
                cell.prompt,
                cell.portrait,
                *(own[d] for d in protocol.groups.dimensions),
            )
            axes = protocol.axes_of(cell.prompt)
            for rank, judge in enumerate(judges):
                request = JudgeRequest(name, b"", b"", "", axes, {}, noted or {}, own)
                said = judge.judge(request).scores if noted else {}
                for axis in axes:
                    asked = not protocol.unrequested(cell.prompt, axis)
                    yield (*about, axis, protocol.axes[axis].neutral, asked, rank, said.get(axis))


def _edited(
    editor: editing.Planted, protocol: Protocol, cell: Cell, labels: Mapping[str, str], lead: str, moved: int
) -> dict[str, float] | None:
    """True scores of an edit; None where there is no picture to judge."""
    prompt = protocol.prompt[cell.prompt]
    drawn = editor.draw(cell.portrait, prompt, editing.traits_of(prompt, labels), moved, lead)
    if drawn.status is not Status.OK:
        return None
    about = (cell.portrait, cell.prompt, moved, lead)
    return {f"score.{axis}": score for axis, score in editor.true_scores(drawn, about).items()}


def planted_effect(
    protocol: Protocol, planted: editing.Truth, axis: str, chosen: Sequence[Cell], group: str | None = None
) -> float:
    """The planted mean difference, feature − baseline, over these cases as the analysis weighs them: by person."""
    labels = {portrait.key: portrait.labels for portrait in people()}
    own: dict[str, list[float]] = {}
    for cell in chosen:
        who = labels[cell.portrait]
        if protocol.unrequested(cell.prompt, axis) and group in (None, who["race"]):
            before, after = (
                editing.expected_change(planted, protocol, axis, cell.prompt, who, keeps)
                for keeps in (False, True)
            )
            own.setdefault(cell.portrait, []).append(after - before)
    means = [sum(values) / len(values) for values in own.values()]
    return sum(means) / len(means)
