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
from stillme.analysis.tables.files import found as find_table_file
from stillme.analysis.tables.files import read as read_table
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
from stillme.steps.edit import pending_edits
from stillme.steps.judge import pending_judge_tasks

Tables = Callable[[str], pl.DataFrame | None]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class MissingWork:
    """What was asked for and is not there yet."""

    edits: int = 0
    verdicts: int = 0


@dataclass(frozen=True)
class JudgeCalibration:
    """One judge. Without a ruling nobody calibrated it."""

    ruling: Ruling | None
    reasons: tuple[str, ...] = ()
    looks: int = 0
    persons: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """`table`: by its id, None where there is none. `judges`: None where calibration cannot be known.
    `left`: None where the edits that were asked for are not known."""

    name: str
    protocol: Protocol
    table: Tables
    judges: Callable[[], Mapping[str, JudgeCalibration] | None] = lambda: None
    left: MissingWork | None

    @property
    def editors(self) -> list[str]:
        return _distinct(self.table("outcomes_by_editor"), "editor")

    def groups(self, dimension: str) -> list[str]:
        """Those that somebody is of, in the protocol's order."""
        present = set(_distinct(self.table(f"outcomes_by_{dimension}"), dimension))
        return [group for group in self.protocol.groups.ids(dimension) if group in present]

    def rows(self, id: str, **values: str) -> list[Row]:
        """The rows of a table that have these values; none where there is no such table."""
        frame = self.table(id)
        return [] if frame is None else list(frame.filter(**values).iter_rows(named=True))


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
        with Run.open_readonly(path) as run:
            return run.protocol()
    return load(protocol or BUILTIN)


# Computed


def _of_run(path: Path, protocol: Path | None, seed: int) -> Evidence:
    audit = Audit(gather(Asked(path, protocol)), seed)
    experiments = audit.scores["experiment"].unique().to_list()
    with Run.open_readonly(path) as run:
        part = load_design(run).only(experiments)
        left = MissingWork(edits=len(pending_edits(run, part)), verdicts=len(pending_judge_tasks(run, part)))
    judges = partial(_calibrated, path)
    return Evidence(name=str(path), protocol=audit.protocol, table=lazy_tables(audit), judges=judges, left=left)


def _calibrated(path: Path) -> Mapping[str, JudgeCalibration]:
    """Every judge of a run, calibrated or not."""
    with Run.open_readonly(path) as run:
        design = load_design(run)
        findings = calibrate.findings(run, design)
    judges = dict.fromkeys(design.judges, JudgeCalibration(None))
    if findings is None:
        return judges
    for judge in findings.judges:
        if judge in judges:
            own = [ruling.persons for ruling in findings.rulings if ruling.judge == judge]
            judges[judge] = JudgeCalibration(
                ruling=findings.verdict(judge),
                reasons=tuple(findings.reasons(judge)),
                looks=int(findings.missing.filter(judge=judge)["looks"].sum()),
                persons=max(own, default=0),
            )
    return judges


def _of_scores(path: Path, protocol: Path | None, seed: int) -> Evidence:
    audit = Audit(gather(Asked(path, protocol)), seed)
    left = None
    if audit.edits is not None:
        left = MissingWork(edits=audit.edits.filter(pl.col("status") == Status.PENDING.value).height)
    return Evidence(name=str(path), protocol=audit.protocol, table=lazy_tables(audit), left=left)


def lazy_tables(audit: Audit) -> Tables:
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
        makers |= _tables_by(audit, dimension)

    @cache
    def table(id: str) -> pl.DataFrame | None:
        return makers[id]() if id in makers else None

    return table


def _tables_by(audit: Audit, dimension: str) -> dict[str, Callable[[], pl.DataFrame]]:
    protocol, by = audit.protocol, ["editor", dimension]
    return {
        f"outcomes_by_{dimension}": lambda: rates(audit.marked.drop_nulls(dimension), by),
        f"signed_by_{dimension}": lambda: signed(audit.scores.drop_nulls(dimension), protocol, by),
        f"disparity_by_{dimension}": lambda: disparities(audit.marked, protocol, dimension, audit.seed),
        f"pairs_by_{dimension}": lambda: pairs(audit.marked, protocol, dimension, audit.seed),
    }


# Read back from files


def _of_analysis(folder: Path, protocol: Path | None) -> Evidence:
    path = folder / ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        ids = set(dict(about["tables"]))
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise InputError(f"{path} is not as `stillme analyse` wrote it.", "Analyse the scores again.") from None
    current = load(protocol or BUILTIN)
    if about.get("protocol_hash") != current.hash:
        raise InputError(
            f"{folder} was analysed with the protocol {about.get('protocol')}, which is not the one at hand.",
            "Give its folder with --protocol.",
        )

    @cache
    def table(id: str) -> pl.DataFrame | None:
        path = find_table_file(folder / FILES, id) if id in ids else None
        return None if path is None else _with_types(read_table(path).frame, current)

    counts = table("missing_counts")
    left = None
    if counts is not None and "pending" in counts.columns:
        left = MissingWork(edits=int(counts.filter(pl.col("dimension").is_null())["pending"].sum()))
    return Evidence(name=str(folder), protocol=current, table=table, left=left)


_TEXT_COLUMNS = {"editor", "outcome", "axis", "dimension", "group", "other", "kind", "reason"}
_TEXT_COLUMNS |= {"highest_group", "lowest_group", "worst_group"}


def _with_types(frame: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """CSV has no types: a column that is not known to be text is a number, or yes and no."""
    texts = _TEXT_COLUMNS | set(protocol.groups.dimensions)
    numbers = [name for name, kind in frame.schema.items() if kind == pl.String and name not in texts]
    return frame.with_columns(
        pl.col(name).replace({"true": "1", "false": "0", "": None}).cast(pl.Float64, strict=False)
        for name in numbers
    )
