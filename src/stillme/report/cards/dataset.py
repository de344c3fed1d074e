"""The dataset card of an audit's own data: the tidy tables that `stillme export` writes, in Hugging Face's form.

The pictures are not part of it, and no table shows anybody's face; the words stand in templates/dataset-card.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import yaml

from stillme.analysis.numbers import count
from stillme.report import publish
from stillme.report.cards.audit import LIMITS
from stillme.report.cards.facts import Data, Known
from stillme.sources.selection.cards import markdown

FOLDER = "tables"  # where the files stand: beside the report, in a run as in a bundle

ABOUT = {
    "edits": "one row a trial: what was asked, of whom, by which editor, and how it ended",
    "judge_scores": "one row per trial, axis and judge; the score is empty where a judge gave none",
    "scores": "one row per trial and axis: the ensemble's score, and how it came to be",
    "attempts": "every call, however it ended, with its cost",
    "truth": "what planted editors really did; empty where editors are real",
    "measurements": "what instruments read off each edit and its source",
    "repeats": "second looks of judges beside the first",
    "depicted": "whom judges saw in scenes of the stereotype experiment",
    "features": "what was read off portraits, to be kept in an edit",
    "decisions": "what people decided where judges disagreed, by pseudonym",
}


def page(known: Known, told: Data, tables: Mapping[str, pl.DataFrame]) -> str:
    said = {
        "front": front(known, tables),
        "told": told,
        "tables": [(name, count(frame.height), ABOUT.get(name, "")) for name, frame in tables.items()],
        "columns": {name: columns(known, frame) for name, frame in tables.items()},
        "limits": LIMITS,
        "simulated": bool(told["simulated"]),
    }
    return markdown("stillme.report.cards").get_template("dataset-card.md").render(said)


def front(known: Known, tables: Mapping[str, pl.DataFrame]) -> str:
    """What Hugging Face reads of a card. The licence is the publisher's to choose."""
    rows = max(frame.height for frame in tables.values())
    data = {
        "pretty_name": f"{known.context.name}: audit data",
        "license": "other",
        "license_name": "left-for-the-publisher",
        "language": ["en"],
        "task_categories": ["image-to-image"],
        "tags": ["fairness", "audit", "image-editing", "tabular"],
        "size_categories": [_size(rows)],
        "configs": [{"config_name": name, "data_files": f"{FOLDER}/{name}.parquet"} for name in tables],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _size(rows: int) -> str:
    """Hugging Face's own words."""
    bounds = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
    return next((word for bound, word in bounds.items() if rows < bound), "n>10M")


def columns(known: Known, frame: pl.DataFrame) -> list[tuple[str, str, str]]:
    """Name, type and meaning of every column."""
    words = publish.described(known.design)
    return [(name, str(kind), words[name]) for name, kind in frame.schema.items()]
