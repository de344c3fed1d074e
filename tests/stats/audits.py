"""Simulated score tables for the tests of comparability and equivalence: persons differ, groups as planted."""

from __future__ import annotations

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
