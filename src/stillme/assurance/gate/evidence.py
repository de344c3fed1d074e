"""What a gate looks at: the tables of `stillme analyse`, computed one by one as rules ask for them, or read back.

The same tables whether they come from a run, from a table of scores or from a folder that `stillme analyse` wrote;
the slow ones (the ordinal model, estimating equations) are not among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.files import found as file_of
from stillme.analysis.tables.files import read as read_file
from stillme.analysis.tables.inputs import Asked, gather
from stillme.analysis.tables.writing import ABOUT, FILES
from stillme.core.errors import InputError
from stillme.core.records import Status
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.design import load_design
from stillme.protocol import BUILTIN, Protocol, load
from stillme.stats.contrast import primary
from stillme.stats.disparity import disparities
from stillme.stats.gate import Ruling
from stillme.stats.missingness import unevenness
from stillme.stats.rates import rates
from stillme.stats.signed import signed
from stillme.stats.simultaneous import pairs
from stillme.steps import calibrate
from stillme.steps import edit as editing
from stillme.steps import judge as judging

Tables = Callable[[str], pl.DataFrame | None]
_WORDS = {"editor", "outcome", "axis", "dimension", "group", "other", "kind", "reason"}
_WORDS |= {"highest_group", "lowest_group", "worst_group"}


@dataclass(frozen=True)
class Left:
    """What was asked for and is not there yet."""

    edits: int = 0
    verdicts: int = 0


@dataclass(frozen=True)
class Calibrated:
    """One judge. Without a ruling nobody calibrated it."""

    ruling: Ruling | None
    reasons: tuple[str, ...] = ()
    looks: int = 0
    persons: int = 0


@dataclass(frozen=True)
class Evidence:
    """`table`: by its id, None where there is none. `judges`: None where calibration cannot be known.
    `left`: None where nobody said what was asked for."""

    name: str
    protocol: Protocol
    table: Tables
    judges: Callable[[], Mapping[str, Calibrated] | None]
    left: Left | None

    @property
    def editors(self) -> list[str]:
        return _distinct(self.table("outcomes_by_editor"), "editor")

    def groups(self, dimension: str) -> list[str]:
        """Those that somebody is of, in the protocol's order."""
        here = set(_distinct(self.table(f"outcomes_by_{dimension}"), dimension))
        return [group for group in self.protocol.groups.ids(dimension) if group in here]


def _distinct(frame: pl.DataFrame | None, column: str) -> list[str]:
    return [] if frame is None else frame[column].drop_nulls().unique(maintain_order=True).to_list()


def look(path: Path, protocol: Path | None = None, seed: int = 0) -> Evidence:
    """A run, a folder that `stillme analyse` wrote, a folder of exported tables, or a table of scores."""
    if not path.exists():
        step = "Give a run, a folder that `stillme analyse` or `stillme export` wrote, or a table of scores."
        raise InputError(f"{path} does not exist.", step)
    if (path / LEDGER).is_file():
        return _of_run(path, protocol, seed)
    if (path / ABOUT).is_file():
        return _of_analysis(path, protocol)
    return _of_scores(path, protocol, seed)


def protocol_of(path: Path | None, protocol: Path | None = None) -> Protocol:
    """What the path is judged by, without reading its scores."""
    if path is not None and (path / LEDGER).is_file():
        with Run.look(path) as run:
            return run.protocol()
    return load(protocol or BUILTIN)


# Computed


def _of_run(path: Path, protocol: Path | None, seed: int) -> Evidence:
    audit = Audit(gather(Asked(path, protocol)), seed)
    experiments = audit.scores["experiment"].unique().to_list()
    with Run.look(path) as run:
        part = load_design(run).only(experiments)
        left = Left(len(editing.pending_edits(run, part)), len(judging.pending_judge_tasks(run, part)))
    return Evidence(str(path), audit.protocol, computed(audit), partial(_calibrated, path), left)


def _calibrated(path: Path) -> Mapping[str, Calibrated]:
    with Run.look(path) as run:
        design = load_design(run)
        found = calibrate.findings(run, design)
        if found is None:
            return dict.fromkeys(design.judges, Calibrated(None))
        looks = {judge: int(found.missing.filter(judge=judge)["looks"].sum()) for judge in found.judges}
        persons = {
            judge: max((r.persons for r in found.rulings if r.judge == judge), default=0) for judge in looks
        }
        there = {
            judge: Calibrated(found.verdict(judge), tuple(found.reasons(judge)), looks[judge], persons[judge])
            for judge in found.judges
        }
        return {judge: there.get(judge, Calibrated(None)) for judge in design.judges}


def _of_scores(path: Path, protocol: Path | None, seed: int) -> Evidence:
    audit = Audit(gather(Asked(path, protocol)), seed)
    edits = audit.edits
    left = None if edits is None else Left(edits.filter(pl.col("status") == Status.PENDING.value).height)
    return Evidence(str(path), audit.protocol, computed(audit), lambda: None, left)


def computed(audit: Audit) -> Tables:
    """The tables of `analysis.tables.whole.tables` with these ids, each computed when it is first asked for."""
    protocol, seed = audit.protocol, audit.seed
    makers: dict[str, Callable[[], pl.DataFrame]] = {
        "outcomes_by_editor": lambda: rates(audit.marked, ["editor"]),
        "signed_by_editor": lambda: signed(audit.scores, protocol, ["editor"]),
        "missing_disparity": lambda: unevenness(audit.scores, protocol, audit.edits, audit.judged, seed=seed),
    }
    if audit.has_reference:
        makers["primary"] = lambda: primary(audit.marked, audit.scores, protocol, seed)
    for dimension in audit.dimensions:
        makers |= _by(audit, dimension)

    @cache
    def table(id: str) -> pl.DataFrame | None:
        return makers[id]() if id in makers else None

    return table


def _by(audit: Audit, dimension: str) -> dict[str, Callable[[], pl.DataFrame]]:
    protocol, by = audit.protocol, ["editor", dimension]
    return {
        f"outcomes_by_{dimension}": lambda: rates(audit.marked.drop_nulls(dimension), by),
        f"signed_by_{dimension}": lambda: signed(audit.scores.drop_nulls(dimension), protocol, by),
        f"disparity_by_{dimension}": lambda: disparities(audit.marked, protocol, dimension, audit.seed),
        f"pairs_by_{dimension}": lambda: pairs(audit.marked, protocol, dimension, audit.seed),
    }


# Read back


def _of_analysis(folder: Path, protocol: Path | None) -> Evidence:
    about = _about(folder / ABOUT)
    known = load(protocol or BUILTIN)
    if about.get("protocol_hash") != known.hash:
        raise InputError(
            f"{folder} was analysed with the protocol {about.get('protocol')}, which is not the one at hand.",
            "Give its folder with --protocol.",
        )
    words = _WORDS | set(known.groups.dimensions)

    @cache
    def table(id: str) -> pl.DataFrame | None:
        path = file_of(folder / FILES, id) if id in about["tables"] else None
        return None if path is None else _typed(read_file(path).frame, words)

    counts = table("missing_counts")
    left = None
    if counts is not None and "pending" in counts.columns:
        left = Left(int(counts.filter(pl.col("dimension").is_null())["pending"].sum()))
    return Evidence(str(folder), known, table, lambda: None, left)


def _about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        return {**about, "tables": dict(about["tables"])}
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise InputError(f"{path} is not as `stillme analyse` wrote it.", "Analyse the scores again.") from None


def _typed(frame: pl.DataFrame, words: set[str]) -> pl.DataFrame:
    """Text files forget types: what is no word is a number, or yes and no."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String and name not in words]
    return frame.with_columns(
        pl.col(name).replace({"true": "1", "false": "0", "": None}).cast(pl.Float64, strict=False)
        for name in texts
    )
