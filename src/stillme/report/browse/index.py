"""What browse filters by: a row a trial and a row an axis of it, as columns of letters; and the words for them.

The words of a query mean what they mean in the review tool, whose frames these are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from stillme.measures import FIGURES
from stillme.report import publish
from stillme.report.browse.coding import column, packed, plus_one
from stillme.report.review import target
from stillme.report.review.query import OF_SCORE, OF_TRIAL
from stillme.report.review.samples import FLAGS, HAPPENED, SORTS
from stillme.report.review.state import State
from stillme.report.review.words import Words

NAME = 20  # letters of a picture's hash that name its thumbnail
BITS = ("requested", "single", "flagged", "open", "adjudicated", "contested")  # of a score, the lowest first
FACETS = ("flag", "outcome", "happened", "experiment", "editor", "arm", "category", "prompt")
MORE = ("standing", "why", "ended", "status", "stage")
ONE = ("flag", "outcome", "happened")  # facets that take one value
OTHERS = ("trial", "person", "axis", "low", "high", "single", "text", "rounding", "sort")  # have a title, no facet


def index(
    state: State, words: Words, shown: Collection[str], formats: Mapping[str, str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """`shown`: the pictures that have a thumbnail; `formats`: see `pictures`; `about`: of the page."""
    dimensions = list(state.protocol.groups.dimensions)
    listed = [*(name for name in OF_TRIAL if name != "trial"), *dimensions]
    trials = {name: column(state.trials[name]) for name in listed}
    return {
        **about,
        "name": state.design.config.audit.name,
        "main": publish.main_experiment(state.design),
        "total": state.trials.height,
        "dimensions": dimensions,
        "filters": {"trial": [*OF_TRIAL, *dimensions], "score": OF_SCORE, "happened": HAPPENED, "flags": FLAGS},
        "facets": [*FACETS, *dimensions, *MORE],
        "one": ONE,
        "sorts": SORTS,
        "trials": trials,
        "keys": "".join(state.trials["trial"]),
        **pictures(state, shown, formats),
        "scores": scores(state),
        **vocabulary(state, words, trials),
    }


def pictures(state: State, shown: Collection[str], formats: Mapping[str, str]) -> dict[str, Any]:
    """Of every trial the pictures by their places in one list; 0 where there is none, or none that is shown.

    `formats`: the endings of the files in the run's own folder, where the page may lead there; else empty.
    """
    partners: list[str | None] = [state.trial[key].partner_image for key in state.trials["trial"]]
    asked: dict[str, list[str | None]] = {
        "source": state.trials["source_image"].to_list(),
        "partner": partners,
        "image": state.trials["image"].to_list(),
    }
    names = list(dict.fromkeys(one for values in asked.values() for one in values if one and one in shown))
    place = {name: number for number, name in enumerate(names, 1)}
    most = len(names)
    return {
        "pictures": [f"{name}.{formats[name]}" if formats else name[:NAME] for name in names],
        "places": {
            name: packed([place.get(one or "", 0) for one in values], most) for name, values in asked.items()
        },
    }


def scores(state: State) -> dict[str, Any]:
    axes = state.axes[state.rounding]
    counts = state.trials.select("row").join(
        axes.group_by("row").len(), on="row", how="left", maintain_order="left"
    )
    bits = axes.select(pl.sum_horizontal(pl.col(name).cast(pl.Int64) * 2**n for n, name in enumerate(BITS)))
    return {
        "counts": packed(counts["len"].fill_null(0)),
        "axis": column(axes["axis"], [*state.protocol.axes, target.AXIS.id]),
        "score": {mode: plus_one(frame["score"]) for mode, frame in state.axes.items()},
        "rounding": state.rounding,
        "spread": plus_one(axes["spread"]),
        "standing": column(axes["standing"]),
        "why": column(axes["why"]),
        "bits": packed(bits.to_series()),
    }


def vocabulary(state: State, words: Words, trials: dict[str, Any]) -> dict[str, Any]:
    """The words for every value, in the order in which they are offered."""
    protocol = state.protocol
    values = {name: coded["values"] for name, coded in trials.items() if name != "person"}
    values |= {
        name: state.axes[state.rounding][name].unique().drop_nulls().to_list() for name in ("standing", "why")
    }
    values |= {"flag": FLAGS, "happened": HAPPENED, "sort": SORTS, "axis": [*protocol.axes, target.AXIS.id]}
    values |= {"outcome": list(protocol.rubrics.outcomes), "rounding": list(state.axes), "single": ["yes"]}
    labels = {name: _labels(words, name, known) for name, known in values.items()}
    titles = {name: words.title(name) for name in dict.fromkeys((*FACETS, *trials, *MORE, *OTHERS))}
    axes = [target.AXIS, *protocol.axes.values()]
    measures = dict.fromkeys(row.kind for row in state.design.config.audit.measures)
    return {
        "titles": titles,
        "labels": labels,
        "judges": [words.label("judge", name) for name in judges_of(state)],
        "axes": {
            axis.id: {"label": axis.label, "scale": {str(k): v for k, v in axis.scale.items()}} for axis in axes
        },
        "outcomes": {
            name: {"axis": one.axis, "at_least": one.at_least, "at_most": one.at_most}
            for name, one in protocol.rubrics.outcomes.items()
        },
        "measures": [
            [
                kind,
                kind.replace("_", " ").capitalize(),
                [[n.replace("_", " "), said] for n, said in FIGURES[kind].items()],
            ]
            for kind in measures
        ],
    }


def judges_of(state: State) -> list[str]:
    """In the order in which records name them by number."""
    return [row.id for row in state.design.config.ranked_judges()]


def _labels(words: Words, name: str, values: Collection[str]) -> list[tuple[str, str]]:
    counts = dict.fromkeys((value for value in values if value), 1)
    found = [(value, label) for value, label, _ in words.ordered(name, counts)]
    return [("", words.label(name, "")), *found] if name == "sort" else found
