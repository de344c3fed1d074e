"""The two sides of a comparison: a run, a folder of exported tables or a table of scores; one editor of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from stillme.analysis.frames import tidy
from stillme.analysis.tables.inputs import Asked, gather
from stillme.assurance.compare.terms import Terms, of_config, of_table
from stillme.core.errors import InputError
from stillme.core.records import DIAGNOSE, MITIGATE, Status
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.design import load_design
from stillme.protocol import Protocol


@dataclass(frozen=True)
class Side:
    """One version: its scores, a row a trial and axis. `images`: person -> the portrait's picture, where known.

    `editors`: id -> hash of its settings, empty of a table. `waiting`: persons with an edit that is not made yet.
    """

    name: str
    path: Path
    terms: Terms
    scores: pl.DataFrame
    editors: Mapping[str, str]
    editor: str = ""
    images: Mapping[str, str] | None = None
    waiting: int = 0
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> str:
        return self.editors.get(self.editor, "")


def read(name: str, path: Path, protocol: Path | None = None, preset: str | None = None) -> Side:
    """Everything that is there, of all its editors."""
    if not path.exists():
        raise InputError(
            f"{path} does not exist.", "Give a run, a folder of exported tables, or a table of scores."
        )
    if (path / LEDGER).is_file():
        return of_run(name, path)
    inputs = gather(Asked(path, protocol, preset))
    scores, edits = inputs.main, inputs.edits
    images = None if edits is None or "source_image" not in edits.columns else _images(edits)
    editors = dict.fromkeys(scores["editor"].unique(maintain_order=True), "")
    return Side(name, path, of_table(inputs), scores, editors, images=images, notes=inputs.scores.notes)


def of_run(name: str, path: Path) -> Side:
    with Run.look(path) as run:
        design = load_design(run)
        found, config = tidy(run, design), design.config
        scores = found.scores[config.protocol.presets[config.audit.preset].rounding]
        pending = found.asked_for.filter(pl.col("status") == Status.PENDING.value)
        return Side(
            name,
            path,
            of_config(config),
            scores,
            dict(design.editors),
            images={portrait.key: portrait.image for portrait in design.portraits},
            waiting=pending["person"].n_unique(),
        )


def _images(edits: pl.DataFrame) -> dict[str, str]:
    return dict(edits.select("person", "source_image").drop_nulls().unique("person").iter_rows())


# Which editor of which


def chosen(a: Side, b: Side, editor_a: str = "", editor_b: str = "") -> tuple[Side, Side]:
    """Each side with one editor: those named, else the id that both have, else the only one of each."""
    first, second = editors(a.editors, b.editors, editor_a, editor_b)
    if first == second and a.path.resolve() == b.path.resolve():
        raise InputError(
            f"A and B are the same editor, {first}, of the same scores.",
            "Name two with --editor-a and --editor-b.",
        )
    return _of(a, first), _of(b, second)


def editors(a: Mapping[str, str], b: Mapping[str, str], named_a: str, named_b: str) -> tuple[str, str]:
    """The ids of the editors that are compared, from the ids of both sides and what the command line names."""
    for option, named, known in (("--editor-a", named_a, a), ("--editor-b", named_b, b)):
        if named and named not in known:
            raise InputError(f"{option}: there is no editor '{named}'.", f"Known: {', '.join(known)}.")
    both = [name for name in a if name in b]
    first = named_a or _default(a, named_b, both)
    second = named_b or _default(b, named_a, both)
    if not first or not second:
        raise InputError(
            f"It is not clear which editors to compare: A has {', '.join(a)}; B has {', '.join(b)}.",
            "Name them with --editor-a and --editor-b.",
        )
    return first, second


def _default(known: Mapping[str, str], other: str, both: Sequence[str]) -> str:
    """The other side's id where this side has it, else the only id that both have, else the only one here."""
    if other:
        return other if other in known else _only(list(known))
    return _only(both) or _only(list(known))


def _only(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ""


def _of(side: Side, editor: str) -> Side:
    scores = side.scores.filter(pl.col("editor") == editor)
    if not scores["score"].count():
        raise InputError(
            f"{side.name} ({side.path}) has no judged edit by '{editor}'.",
            "Go on with its audit (`stillme run`), or give another run.",
        )
    return replace(side, editor=editor, scores=scores)


# The same persons


def matched(a: Side, b: Side) -> tuple[Side, Side, str]:
    """Both sides with persons under one name, and how they were told to be the same."""
    if a.images is None or b.images is None:
        return a, b, "the column `person`"
    return _by_image(a, a.images), _by_image(b, b.images), "the portrait's picture"


def _by_image(side: Side, images: Mapping[str, str]) -> Side:
    """One picture is one person, even where a run has it under two names. Who has no picture keeps the name."""
    named = pl.col("person").replace_strict(images, default=pl.col("person"), return_dtype=pl.String)
    return replace(side, scores=side.scores.with_columns(named))


def arms(a: pl.DataFrame, b: pl.DataFrame) -> list[tuple[str, str]]:
    """The experiments and arms that both sides have."""
    known = set(b.select("experiment", "arm").iter_rows())
    return [one for one in a.select("experiment", "arm").unique(maintain_order=True).iter_rows() if one in known]


def main_arm(known: Sequence[tuple[str, str]], protocol: Protocol) -> tuple[str, str]:
    """What is compared first: the prompt alone, in the diagnosis where there is one."""
    plain = [arm.id for arm in protocol.manifest.arms if not arm.lead and not arm.prefix and not arm.seed_offset]
    wanted = [(experiment, arm) for experiment in (DIAGNOSE, MITIGATE) for arm in plain]
    return next((one for one in wanted if one in known), known[0])
