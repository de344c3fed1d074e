"""The two inputs of a comparison: a run, a folder of exported tables or a table of scores; one editor of each.

Scores rest on more than their editor: on a protocol, a preset, judges. Inputs that differ in these measured
something else. A table of scores says less than a run; what it does not say does not count as a difference, and is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from stillme.analysis.frames import tidy
from stillme.analysis.tables.inputs import Asked, Inputs, gather
from stillme.core.errors import InputError
from stillme.core.records import DIAGNOSE, MITIGATE, Role, Status
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.config import Config
from stillme.plan.design import load_design, settings_hashes
from stillme.protocol import Protocol

# What scores rest on besides the editor


@dataclass(frozen=True, kw_only=True)
class ScoringConditions:
    """`judges`: in their ranks, id, role and hash of the settings; `disclose`: labels of the person that they see.

    Both are None where nobody says. `named`: the ids of all judges, an instrument beside them among them.
    `simulated`: whether anything in it was planted.
    """

    protocol: Protocol
    preset: str
    named: tuple[str, ...] = ()
    judges: tuple[tuple[str, str, str], ...] | None = None
    disclose: tuple[str, ...] | None = None
    simulated: bool = False


def of_config(config: Config) -> ScoringConditions:
    rows = config.ranked_judges()
    scoring = [row for row in rows if row.role is not Role.INSTRUMENT]
    settings = settings_hashes("judge", config.judges)
    return ScoringConditions(
        protocol=config.protocol,
        preset=config.audit.preset,
        named=tuple(row.id for row in rows),
        judges=tuple((row.id, row.role.value, settings[row.id]) for row in scoring),
        disclose=tuple(sorted(config.disclose)),
        simulated=any(backend.simulated for backend in (*config.editors.values(), *config.judges.values())),
    )


def of_table(inputs: Inputs) -> ScoringConditions:
    judged = inputs.scores.judged
    named = () if judged is None else tuple(judged.sort("rank")["judge"].unique(maintain_order=True))
    return ScoringConditions(protocol=inputs.protocol, preset=inputs.preset, named=named)


def find_incompatibilities(a: ScoringConditions, b: ScoringConditions) -> list[str]:
    """Why two sets of scores cannot be set against each other, in sentences; empty where they can."""
    presets = [f"Their presets differ ({a.preset} and {b.preset})."] if a.preset != b.preset else []
    return [*_protocol_differences(a.protocol, b.protocol), *presets, *_judge_differences(a, b)]


def _protocol_differences(a: Protocol, b: Protocol) -> Iterator[str]:
    if a.hash == b.hash:
        return
    first, second = a.rubrics.outcomes, b.rubrics.outcomes
    if changed := [name for name in {**first, **second} if first.get(name) != second.get(name)]:
        yield f"Their outcomes have other thresholds ({', '.join(changed)})."
    files = [name for name in {**a.files, **b.files} if a.files.get(name) != b.files.get(name)]
    listed = f"{', '.join(files[:4])}{', …' if len(files) > 4 else ''}"
    yield f"They were made with different protocols ({a.hash[:12]} and {b.hash[:12]}; {listed} differ)."


def _judge_differences(a: ScoringConditions, b: ScoringConditions) -> Iterator[str]:
    if a.judges is None or b.judges is None:
        if a.named and b.named and set(a.named) != set(b.named):
            yield f"Other judges scored them ({', '.join(a.named)} and {', '.join(b.named)})."
        return
    # Roles and settings, not ids: the same judge may have another id elsewhere.
    if [judge[1:] for judge in a.judges] != [judge[1:] for judge in b.judges]:
        first, second = (
            ", ".join(f"{name} {settings[:8]}" for name, _, settings in judges) or "none"
            for judges in (a.judges, b.judges)
        )
        yield f"Other judges scored them, or the same with other settings or roles ({first} and {second})."
    if a.disclose != b.disclose:
        first, second = (", ".join(terms.disclose or ()) or "nothing" for terms in (a, b))
        yield f"Their judges were told different things of the source person ({first} and {second})."


# One side: its scores, and what they rest on


@dataclass(frozen=True, kw_only=True)
class Side:
    """One version: its scores, a row a trial and axis. `images`: person -> the portrait's picture, where known.

    `editors`: id -> hash of its settings, empty of a table. `waiting`: persons with an edit that is not made yet.
    """

    name: str
    path: Path
    terms: ScoringConditions
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
    images = None
    if inputs.edits is not None and "source_image" in inputs.edits.columns:
        pairs = inputs.edits.select("person", "source_image").drop_nulls().unique("person")
        images = dict(pairs.iter_rows())
    return Side(
        name=name,
        path=path,
        terms=of_table(inputs),
        scores=inputs.main,
        editors=dict.fromkeys(inputs.main["editor"].unique(maintain_order=True), ""),
        images=images,
        notes=inputs.scores.notes,
    )


def of_run(name: str, path: Path) -> Side:
    with Run.open_readonly(path) as run:
        design = load_design(run)
        config, frames = design.config, tidy(run, design)
        pending = frames.asked_for.filter(pl.col("status") == Status.PENDING.value)
        return Side(
            name=name,
            path=path,
            terms=of_config(config),
            scores=frames.scores[config.protocol.presets[config.audit.preset].rounding],
            editors=dict(design.editors),
            images={portrait.key: portrait.image for portrait in design.portraits},
            waiting=pending["person"].n_unique(),
        )


# Which editor of which


def select_editors(a: Side, b: Side, editor_a: str = "", editor_b: str = "") -> tuple[Side, Side]:
    """Each side with one editor: those named, else the id that both have, else the only one of each."""
    first, second = editors(a.editors, b.editors, editor_a, editor_b)
    if first == second and a.path.resolve() == b.path.resolve():
        raise InputError(
            f"A and B are the same editor, {first}, of the same scores.",
            "Name two with --editor-a and --editor-b.",
        )
    return _with_editor(a, first), _with_editor(b, second)


def editors(a: Mapping[str, str], b: Mapping[str, str], named_a: str, named_b: str) -> tuple[str, str]:
    """The ids of the editors that are compared, from the ids of both sides and what the command line names."""
    for option, named, available in (("--editor-a", named_a, a), ("--editor-b", named_b, b)):
        if named and named not in available:
            raise InputError(f"{option}: there is no editor '{named}'.", f"Known: {', '.join(available)}.")
    shared = [name for name in a if name in b]
    first = named_a or _default_editor(list(a), named_b, shared)
    second = named_b or _default_editor(list(b), named_a, shared)
    if not first or not second:
        raise InputError(
            f"It is not clear which editors to compare: A has {', '.join(a)}; B has {', '.join(b)}.",
            "Name them with --editor-a and --editor-b.",
        )
    return first, second


def _default_editor(available: Sequence[str], other: str, shared: Sequence[str]) -> str:
    """The other side's id where this side has it, else the only id that both have, else the only one here."""
    if other in available:
        return other
    if len(shared) == 1 and not other:
        return shared[0]
    return available[0] if len(available) == 1 else ""


def _with_editor(side: Side, editor: str) -> Side:
    scores = side.scores.filter(pl.col("editor") == editor)
    if not scores["score"].count():
        raise InputError(
            f"{side.name} ({side.path}) has no judged edit by '{editor}'.",
            "Go on with its audit (`stillme run`), or give another run.",
        )
    return replace(side, editor=editor, scores=scores)


# The same persons, and the experiments that both have


def match_persons(a: Side, b: Side) -> tuple[Side, Side, str]:
    """Both sides with persons under one name, and by what they are the same."""
    if a.images is None or b.images is None:
        return a, b, "the column `person`"
    return _by_image(a, a.images), _by_image(b, b.images), "the portrait's picture"


def _by_image(side: Side, images: Mapping[str, str]) -> Side:
    """One picture is one person, even where a run has it under two names. Who has no picture keeps the name."""
    named = pl.col("person").replace_strict(images, default=pl.col("person"), return_dtype=pl.String)
    return replace(side, scores=side.scores.with_columns(named))


def shared_arms(a: pl.DataFrame, b: pl.DataFrame) -> list[tuple[str, str]]:
    """The experiments and arms that both sides have."""
    of_b = set(b.select("experiment", "arm").iter_rows())
    return [arm for arm in a.select("experiment", "arm").unique(maintain_order=True).iter_rows() if arm in of_b]


def main_arm(arms: Sequence[tuple[str, str]], protocol: Protocol) -> tuple[str, str]:
    """What is compared first: the prompt alone, in the diagnosis where there is one."""
    plain = [arm.id for arm in protocol.manifest.arms if not arm.lead and not arm.prefix and not arm.seed_offset]
    preferred = [(experiment, arm) for experiment in (DIAGNOSE, MITIGATE) for arm in plain]
    return next((arm for arm in preferred if arm in arms), arms[0])
