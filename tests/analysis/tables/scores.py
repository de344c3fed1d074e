"""Tables of scores as somebody might bring them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stillme.protocol import Protocol
from stillme.stats.simulate import audit

# judged, race ≥ 3, edit ≤ 2, skin ≥ 4, skin ≤ 2: known of the published study
COUNTS = {
    "FLUX.2-dev": (1674, 225, 105, 1184, 148),
    "Step1X-Edit-v1p2": (1677, 135, 363, 1044, 251),
    "Qwen-Image-Edit-2511": (1679, 155, 51, 1128, 272),
}


def published(protocol: Protocol) -> pl.DataFrame:
    """5,040 edits with the published counts, a column per axis; who had what is drawn."""
    groups = protocol.groups
    people = [(r.id, g.id, a.id) for r in groups.race for g in groups.gender for a in groups.age]
    cells = [(person, prompt) for person in range(len(people)) for prompt in protocol.prompt]
    rows = []
    for editor, counts in COUNTS.items():
        for place, cell in enumerate(np.random.default_rng(1).permutation(len(cells)).tolist()):
            person, prompt = cells[cell]
            who = dict(zip(("race", "gender", "age"), people[person], strict=True))
            scores = scored(place, *counts)
            rows.append({"model": editor, "person": f"p{person:02d}", **who, "prompt": prompt, **scores})
    return pl.DataFrame(rows)


def scored(place: int, judged: int, race: int, erased: int, lighter: int, darker: int) -> dict[str, int | None]:
    if place >= judged:
        return {"race_drift": None, "edit_success": None, "skin_tone": None}
    skin = 4 if place < lighter else 2 if place < lighter + darker else 3
    return {"race_drift": 3 if place < race else 1, "edit_success": 2 if place < erased else 5, "skin_tone": skin}


def rows(persons: int, prompts: Sequence[str], axes: Sequence[str], **changes: Any) -> list[dict[str, Any]]:
    """Scores of two editors in other words than ours, a row each."""
    return [
        {
            "model": model,
            "person": f"p{person}",
            "race": ("White", "Black", "Indian")[person % 3],
            "gender": "Male" if person % 2 else "F",
            "age": "20-29",
            "prompt": prompt,
            "axis": axis,
            "score": (person + len(axis)) % 5 + 1,
        }
        | changes
        for model in ("one", "two")
        for person in range(persons)
        for prompt in prompts
        for axis in axes
    ]


def planted(
    protocol: Protocol,
    path: Path,
    rates: Sequence[Sequence[float]],
    axes: Sequence[str],
    seed: int = 0,
    prompts: int = 6,
) -> pl.DataFrame:
    """Judges' scores on some axes with planted rates of race change, by editor and group, as a file."""
    editors = [f"e{place + 1}" for place in range(len(rates))]
    chosen = list(protocol.prompt)[:prompts]
    found = audit(protocol, seed, {"race_drift": rates}, editors, prompts=chosen).judged
    kept = found.filter(pl.col("axis").is_in(list(axes)))
    kept.write_parquet(path)
    return kept


def rated(judged: pl.DataFrame, outputs: int, raters: int = 3, seed: int = 0) -> pl.DataFrame:
    """Ratings of some outputs: what the first judge says, give or take a point."""
    rng = np.random.default_rng(seed)
    trials = judged["trial"].unique(maintain_order=True)
    chosen = trials.gather(np.sort(rng.choice(len(trials), outputs, replace=False)))
    rows = judged.filter(pl.col("trial").is_in(chosen.implode()) & (pl.col("rank") == 0))
    tasks = dict(zip(chosen, (np.arange(outputs) % 6).tolist(), strict=True))
    task = rows["trial"].replace_strict(tasks, return_dtype=pl.Int64).cast(pl.String)
    parts = []
    for rater in range(raters):
        moved = np.clip(rows["score"].to_numpy() + rng.integers(-1, 2, rows.height), 1, 5)
        parts.append(
            rows.select("trial", "axis").with_columns(
                task=task, rater=task + f"-{rater}", score=pl.Series(moved), seconds=pl.lit(8.0)
            )
        )
    return pl.concat(parts)
