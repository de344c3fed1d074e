"""Simulated score tables, in which persons differ and groups as planted; and what is looked for in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from stillme.protocol import Protocol


def audit(
    protocol: Protocol, seed: int, person: float = 0.8, others: float = 0.0, editors: int = 1, prompts: int = 20
) -> pl.DataFrame:
    """One axis: a person of every race × gender × age, `prompts` edits each; `person`: how far persons differ.

    `others`: by how much everyone but the reference group scores higher, on the latent scale.
    """
    groups, chance = protocol.groups, np.random.default_rng(seed)
    dimension, reference = next(iter(groups.reference_group.items()))
    people: list[dict[str, str]] = [{}]
    for name in groups.dimensions:
        people = [{**who, name: group} for who in people for group in groups.ids(name)]
    own = chance.normal(0, person, len(people)) + np.array(
        [others * (who[dimension] != reference) for who in people]
    )
    latent = own[:, None, None] + chance.normal(0, 0.3, (len(people), editors, 1)) + chance.normal(0, 0.6, prompts)
    scores = 1 + np.digitize(latent + chance.logistic(0, 1, (len(people), editors, prompts)), [0.8, 1.6, 2.4, 3.2])
    which, by, what = np.indices(scores.shape).reshape(3, -1)
    return pl.DataFrame(
        {
            "trial": np.arange(scores.size),
            "person": [f"p{i}" for i in which],
            "editor": [f"e{i}" for i in by],
            "prompt": [f"q{i}" for i in what],
            **{name: [people[i][name] for i in which] for name in groups.dimensions},
            "axis": next(iter(protocol.axes)),
            "requested": False,
            "score": scores.ravel(),
            "single": False,
            "flagged": False,
        }
    )


def row(table: pl.DataFrame | None, **equal: Any) -> dict[str, Any]:
    """The one row in which columns have these values; None: in which they are missing."""
    assert table is not None
    where = [pl.col(name).is_null() if value is None else pl.col(name) == value for name, value in equal.items()]
    (found,) = table.filter(*where).to_dicts()
    return found


def no_nan(*tables: pl.DataFrame) -> bool:
    numbers = [column for table in tables for column in table.select(pl.col(pl.Float64)).iter_columns()]
    return not any(column.is_nan().any() for column in numbers)
