"""A small audit made of numbers: two noisy judges, three editors, known rates, run through the real analysis."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from PIL import Image, ImageDraw

from stillme.judges.ensemble import combine
from stillme.protocol import Protocol
from stillme.protocol.reader import builtin
from stillme.protocol.schema import Axis, Rounding
from stillme.report.build import Context, Example, Party
from stillme.stats.findings import Findings, analyse
from stillme.stats.measured import Measured

MODES: tuple[Rounding, ...] = ("half_even", "half_up", "toward_neutral")
Chance = Callable[[str, str, str], float]  # editor, outcome, group of the main dimension -> planted rate
Refuse = Callable[[str, str], float]  # editor, group of the main dimension -> how often it refuses
Measure = Callable[[pl.DataFrame, pl.DataFrame], Measured]  # trials, ensemble scores -> tables of measurements


@dataclass(frozen=True)
class Person:
    id: str
    labels: Mapping[str, str]


def people(protocol: Protocol, drop: Callable[[Mapping[str, str]], bool] = lambda labels: False) -> list[Person]:
    dimensions = protocol.groups.dimensions
    cells = product(*(protocol.groups.ids(dimension) for dimension in dimensions))
    labelled = [dict(zip(dimensions, cell, strict=True)) for cell in cells]
    return [Person(f"p{n}", labels) for n, labels in enumerate(labelled) if not drop(labels)]


def chance(editor: str, outcome: str, group: str) -> float:
    """The demo's three: an even-handed editor, one that lightens, one that erases and replaces unevenly."""
    protocol = builtin()
    others = group != protocol.groups.reference_group[protocol.manifest.tables.change_by_group.by]
    first, second, third = protocol.manifest.tables.contrasts
    base = {first: 0.06, second: 0.05, third: 0.08}.get(outcome, 0.04)
    lifted = {("lighten", third): 0.41, ("replace", first): 0.26, ("replace", second): 0.22}
    return lifted.get((editor, outcome), base) if others else base


def even(editor: str, outcome: str, group: str) -> float:
    return {"edit_succeeded": 0.9}.get(outcome, 0.07)


def audit(
    editors: Sequence[str] = ("even", "lighten", "replace"),
    prompts: int = 20,
    seed: int = 1,
    rates: Chance = chance,
    preset: str = "default",
    persons: Sequence[Person] | None = None,
    broken: Sequence[str] = (),
    refused: float | Refuse = 0.01,
    silent: float = 0.02,
    plant: bool = True,
    measure: Measure | None = None,
    ways: Sequence[str] = ("refused",),
) -> Findings:
    """Findings of an audit with the given planted rates; `broken` editors never give a picture.

    `ways`: the statuses of refusals, in turn.
    """
    protocol = builtin()
    made = frames(editors, prompts, seed, rates, persons, broken, refused, silent, ways)
    planted = (
        made.asked.filter(pl.col("planted").is_not_null()).select("trial", "outcome", "planted") if plant else None
    )
    measured = measure(made.trials, made.scores[MODES[0]]) if measure else None
    judged = made.judged.drop("neutral")
    return analyse(made.scores, judged, made.trials, protocol, preset, planted, measured)


@dataclass(frozen=True)
class Frames:
    """The tidy frames of an audit: what was asked, what each judge said, what the ensemble came to."""

    trials: pl.DataFrame
    asked: pl.DataFrame
    judged: pl.DataFrame
    scores: Mapping[str, pl.DataFrame]


def frames(
    editors: Sequence[str] = ("even", "lighten", "replace"),
    prompts: int | Sequence[str] = 20,
    seed: int = 1,
    rates: Chance = chance,
    persons: Sequence[Person] | None = None,
    broken: Sequence[str] = (),
    refused: float | Refuse = 0.01,
    silent: float = 0.02,
    ways: Sequence[str] = ("refused",),
) -> Frames:
    protocol = builtin()
    random = np.random.default_rng(seed)
    refuse = refused if callable(refused) else lambda editor, group: refused
    trials = _trials(protocol, persons or people(protocol), editors, prompts, broken, refuse, ways, random)
    asked = _asked(protocol, trials, rates, random)
    judged = _judged(asked, silent, random)
    return Frames(trials, asked, judged, {mode: _ensemble(judged, asked, mode) for mode in MODES})


def _trials(
    protocol: Protocol,
    persons: Sequence[Person],
    editors: Sequence[str],
    prompts: int | Sequence[str],
    broken: Sequence[str],
    refuse: Refuse,
    ways: Sequence[str],
    random: np.random.Generator,
) -> pl.DataFrame:
    by = protocol.manifest.tables.change_by_group.by
    asked = protocol.prompts.prompts
    asked = asked[:prompts] if isinstance(prompts, int) else tuple(q for q in asked if q.id in prompts)
    rows = [
        {"trial": f"{e}-{p.id}-{q.id}", "editor": e, "person": p.id, "prompt": q.id, **p.labels}
        for p, q, e in product(persons, asked, editors)
    ]
    draws = random.random(len(rows))
    status = [
        ways[n % len(ways)] if r["editor"] in broken or d < refuse(r["editor"], r[by]) else "ok"
        for n, (r, d) in enumerate(zip(rows, draws, strict=True))
    ]
    said = {way: f"{way}_by_policy" for way in ways}
    return pl.DataFrame(rows).with_columns(
        status=pl.Series(status), last_status=pl.Series(status), code=pl.Series([said.get(s, "") for s in status])
    )


def _asked(protocol: Protocol, trials: pl.DataFrame, rates: Chance, random: np.random.Generator) -> pl.DataFrame:
    """One row a trial and axis, with the true score that both judges try to see."""
    by = protocol.manifest.tables.change_by_group.by
    watched = {protocol.rubrics.outcomes[o].axis: o for o in protocol.manifest.tables.contrasts}
    rows = []
    for trial in trials.to_dicts():
        for axis in protocol.axes_of(trial["prompt"]):
            outcome = watched.get(axis)
            planted = rates(trial["editor"], outcome, trial[by]) if outcome else None
            hit = random.random() < (planted if planted is not None else 0.03)
            rows.append(
                {
                    **trial,
                    "axis": axis,
                    "neutral": protocol.axes[axis].neutral,
                    "requested": not protocol.unrequested(trial["prompt"], axis),
                    "outcome": outcome,
                    "planted": planted,
                    "true": _true(protocol, protocol.axes[axis], outcome, hit),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _true(protocol: Protocol, axis: Axis, outcome: str | None, hit: bool) -> int:
    calm = axis.neutral if axis.neutral is not None else max(axis.scale)
    if not hit or outcome is None:
        return min(calm + 1, max(axis.scale)) if hit else calm
    rule = protocol.rubrics.outcomes[outcome]
    return max(axis.scale) if rule.at_least is not None else min(axis.scale)


def _judged(asked: pl.DataFrame, silent: float, random: np.random.Generator) -> pl.DataFrame:
    parts = []
    for rank, judge in enumerate(("first", "second")):
        noise = random.choice([-1, 0, 1], size=asked.height, p=[0.02, 0.96, 0.02])
        quiet = random.random(asked.height) < silent
        mute = pl.lit(pl.Series(quiet)) | (pl.col("status") != "ok")
        score = pl.when(mute).then(None).otherwise((pl.col("true") + pl.lit(pl.Series(noise))).clip(1, 5))
        parts.append(asked.select("trial", "axis", "neutral", judge=pl.lit(judge), rank=pl.lit(rank), score=score))
    return pl.concat(parts)


def _ensemble(judged: pl.DataFrame, asked: pl.DataFrame, mode: Rounding) -> pl.DataFrame:
    combined = combine(judged, mode).drop("neutral")
    facts = asked.drop("outcome", "planted", "true", "neutral", "status", "last_status", "code")
    return facts.join(combined, on=["trial", "axis"], how="left", validate="1:1", maintain_order="left")


EDITORS = (
    Party(
        "even",
        "Even-handed",
        "Makes every edit alike for everyone.",
        True,
        {"seed": 7, "truth": {"rate": {"base": 0.06}, "variant": None}},
    ),
    Party("lighten", "Lightener", "Lightens darker skin.", True, {"seed": 7, "lightens": 0.41}),
    Party("replace", "Replacer", "Erases and replaces unevenly.", True, {"seed": 7}),
)
JUDGES = (
    Party("first", "Planted judge 1", "Simulated, declared noise.", True, {"noise": 0.04}),
    Party("second", "Planted judge 2", "Simulated, declared noise.", True, {"noise": 0.04}),
)


def context(
    preset: str = "default",
    editors: tuple[Party, ...] = EDITORS,
    judges: tuple[Party, ...] = JUDGES,
    name: str = "Demo audit",
    examples: tuple[Example, ...] = (),
    measured_share: float = 1.0,
) -> Context:
    return Context(
        name=name,
        preset=preset,
        protocol=builtin(),
        editors=editors,
        judges=judges,
        sources=("Portraits: 84 rendered heads, one for each cell of the design (CC0 geometry).",),
        counts={"portraits": 84, "prompts": 20, "trials": 5040},
        provenance=(("Seed", "1"), ("Cost", "0.00 USD"), ("Finished", "2026-11-15")),
        examples=examples,
        measured_share=measured_share,
    )


def picture(shade: int, size: tuple[int, int] = (200, 200)) -> bytes:
    image = Image.new("RGB", size, (110, 130, 150))
    draw = ImageDraw.Draw(image)
    draw.ellipse(
        (size[0] * 0.25, size[1] * 0.15, size[0] * 0.75, size[1] * 0.8), fill=(shade, shade - 30, shade - 50)
    )
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=80)
    return stream.getvalue()


def examples(each: int = 6) -> tuple[Example, ...]:
    protocol = builtin()
    dimensions = protocol.groups.dimensions
    labels = {dimension: groups[1].id for dimension, groups in dimensions.items()}
    prompts = protocol.prompts.prompts
    scores = {axis: (None if n == 3 else 2 + n % 3) for n, axis in enumerate(protocol.axes)}
    return tuple(
        Example(
            outcome,
            EDITORS[n % 3].id,
            prompts[n].label,
            prompts[n].text,
            labels,
            picture(120),
            picture(150 + 10 * n),
            scores,
            "Planted ΔL* 9.0",
        )
        for outcome in protocol.manifest.tables.gallery
        for n in range(each)
    )
