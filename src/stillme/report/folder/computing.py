"""Everything that a report shows, computed once: the run's tidy frames feed findings and analysis tables alike.

The analysis takes longest, so its tables are kept beside the run under the name of what they depend on: the run's
state, the seed, the very code that computes them, and the versions of what that code computes with. A report of an
unchanged run reads them back.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import polars as pl

from stillme.analysis import experiments
from stillme.analysis.frames import Tidy, tidy
from stillme.analysis.tables import inputs as given
from stillme.analysis.tables import whole
from stillme.core.atomic import replace_folder
from stillme.core.errors import disk
from stillme.core.records import digest
from stillme.ledger import Run
from stillme.ledger.run import state_of
from stillme.plan.design import Design
from stillme.report import publish
from stillme.report.build import Context, Further
from stillme.report.files.paper import SAMPLE, sampled
from stillme.report.publish import SEED
from stillme.stats.findings import Findings
from stillme.stats.stereotype import Stereotypes

KEPT = ".analysis"
ORDER = "order.json"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Computed:
    """What the sections are made of. `tables`: the analysis tables by their ids; `every`: the tidy frames."""

    findings: Findings | None
    context: Context
    further: Further
    tables: Mapping[str, pl.DataFrame]
    every: Tidy


def compute(run: Run, design: Design, folder: Path, say: Say) -> Computed:
    """`folder`: where analysis tables are kept."""
    say("Report: reading the run")
    every = tidy(run, design)
    say("Report: rates and differences")
    findings, context, apart = publish.findings_and_context(run, design, every)
    if findings is not None:
        tables = _tables(run, design, every, context, folder / KEPT, say)
    else:
        tables = _alone(experiments.stereotypes(run, design, every))
    return Computed(findings, context, apart, tables, every)


def _alone(found: Stereotypes | None) -> dict[str, pl.DataFrame]:
    """The tables behind the figures of an audit that asks about occupations and nothing else."""
    names = ("adherence", "gaps", "effects", "occupations", "flips")
    return {} if found is None else {f"stereotype_{name}": getattr(found, name) for name in names}


def _tables(
    run: Run, design: Design, every: Tidy, context: Context, folder: Path, say: Say
) -> dict[str, pl.DataFrame]:
    key = digest("analysis", state=state_of(run), seed=SEED, code=_code(), versions=publish.versions())
    if (found := _read(folder, key)) is not None:
        say(f"Report: {len(found):,} analysis tables are as they were")
        return found
    inputs = given.of_run(run, design, every)
    found = {one.id: one.frame for one in whole.tables(inputs, SEED, lambda text: say(f"Report: {text.lower()}"))}
    if inputs.ratings is not None:
        found[SAMPLE] = sampled(inputs.ratings, context)
    _keep(found, folder, key)
    return found


def _read(folder: Path, key: str) -> dict[str, pl.DataFrame] | None:
    """None where nothing, or something else, is kept."""
    try:
        kept = json.loads((folder / ORDER).read_text(encoding="utf-8"))
        if kept["key"] != key:
            return None
        return {name: pl.read_parquet(folder / f"{name}.parquet") for name in kept["tables"]}
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        return None


def _keep(tables: Mapping[str, pl.DataFrame], folder: Path, key: str) -> None:
    with disk(folder), replace_folder(folder) as aside:
        for name, frame in tables.items():
            (aside / f"{name}.parquet").write_bytes(_packed(frame))
        order = {"key": key, "tables": list(tables)}
        (aside / ORDER).write_text(json.dumps(order), encoding="utf-8")


def _packed(frame: pl.DataFrame) -> bytes:
    """In memory first: a full disk is then told by the disk, in its own words."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@cache
def _code() -> str:
    """The hash of all our code: which of it a number hangs on is not for a list to say."""
    found = hashlib.sha256()
    with resources.as_file(resources.files("stillme")) as folder:
        for path in sorted(folder.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
