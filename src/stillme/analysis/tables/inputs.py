"""What there is to analyse: a run, a folder of exported tables, or a table of scores that somebody else made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from stillme.analysis import experiments
from stillme.analysis.frames import Tidy, tidy
from stillme.analysis.tables.files import Given, found, read, typed
from stillme.analysis.tables.ratings import read_checks, read_ratings
from stillme.analysis.tables.reading import Scores, read_scores
from stillme.core.errors import InputError
from stillme.core.yaml import unknown
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.design import Design, load_design
from stillme.protocol import BUILTIN, Protocol, load
from stillme.stats.stereotype import Stereotypes, stereotype_findings
from stillme.study import ratings as rated

SCORES, JUDGED, EDITS, DEPICTED, RATINGS = "scores", "judge_scores", "edits", "depicted", "ratings"
CHECKS, PARTICIPANTS = "checks", "participants"
COUNTED = ("rank", "people", "in_role", "unclear", "lowest", "highest")  # columns of `depicted` that are numbers
DEPICTED_TYPES = {"congruent": pl.Boolean, **dict.fromkeys(COUNTED, pl.Int64)}


@dataclass(frozen=True)
class Inputs:
    """Everything that an analysis may look at; what is not there is None. `used`: files and their SHA-256.

    `selected`: whether the cases of the mitigation experiment are known to have been chosen by their outcome.
    `choices`, `answers`: what raters of the run's own studies said besides ratings (see `study.ratings.Imported`).
    """

    protocol: Protocol
    preset: str
    scores: Scores
    edits: pl.DataFrame | None = None
    ratings: pl.DataFrame | None = None
    checks: pl.DataFrame | None = None
    participants: pl.DataFrame | None = None
    stereotypes: Stereotypes | None = None
    selected: bool | None = None
    choices: pl.DataFrame | None = None
    answers: pl.DataFrame | None = None
    used: tuple[tuple[str, str], ...] = ()

    @property
    def main(self) -> pl.DataFrame:
        """The scores that tables print, of every experiment."""
        return self.scores.scores[self.scores.main]

    @property
    def removes_straight_liners(self) -> bool:
        return self.protocol.presets[self.preset].straight_liners == "remove"


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line; None: as the run says, or as is usual."""

    path: Path
    protocol: Path | None = None
    preset: str | None = None
    ratings: Path | None = None
    checks: Path | None = None
    participants: Path | None = None


def gather(asked: Asked) -> Inputs:
    """Reads everything, or says everything that is wrong with a table."""
    if (asked.path / LEDGER).is_file():
        return _with_people(_of_run(asked), asked, asked.path)
    if asked.path.is_dir():
        return _with_people(_of_folder(asked), asked, asked.path)
    given = read(asked.path)
    return _with_people(_of_table(asked, given, given), asked, None)


def gather_frame(frame: pl.DataFrame, asked: Asked) -> Inputs:
    """A table in memory. `asked` says the rest; its path is what sentences call the table."""
    given = Given(str(asked.path), frame)
    return _with_people(_of_table(asked, given, given), asked, None)


def _of_run(asked: Asked) -> Inputs:
    if asked.protocol is not None or asked.preset is not None:
        raise InputError(
            f"{asked.path} is a run, which has its own protocol and preset.", "Leave the option away."
        )
    with Run.open_readonly(asked.path) as run:
        design = load_design(run)
        return of_run(run, design, tidy(run, design))


def of_run(run: Run, design: Design, every: Tidy) -> Inputs:
    """A run that is open, from its tidy frames."""
    config = design.config
    scores = Scores(every.scores, config.protocol.presets[config.audit.preset].rounding, every.judged)
    found = Inputs(
        config.protocol,
        config.audit.preset,
        scores,
        edits=every.asked_for,
        stereotypes=experiments.stereotypes(run, design, every),
        selected=config.select == "drifted" if config.audit.experiments.mitigate is not None else None,
    )
    return _with_studies(found, rated.imported(run, config.protocol), str(run.path))


def _with_studies(inputs: Inputs, said: rated.Imported, name: str) -> Inputs:
    """With what people said in studies that were taken into the run; of the trials that its tables are about."""
    own = None if said.ratings is None else said.ratings.join(inputs.main.select("trial").unique(), on="trial")
    has_ratings = own is not None and own.height > 0
    about, checks = Given(f"{name}: ratings", pl.DataFrame() if own is None else own), said.checks
    return replace(
        inputs,
        scores=replace(inputs.scores, notes=(*inputs.scores.notes, *said.notes)),
        ratings=read_ratings(about, inputs.main, inputs.protocol) if has_ratings else None,
        checks=checks if has_ratings else None,
        choices=said.choices,
        answers=said.answers,
    )


def _of_folder(asked: Asked) -> Inputs:
    path = found(asked.path, SCORES)
    if path is None:
        step = "Give a run, a folder that `stillme export` wrote, or a table of scores."
        raise InputError(f"{asked.path} has neither a {LEDGER} nor a table named {SCORES}.", step)
    judged, edits, depicted = (found(asked.path, name) for name in (JUDGED, EDITS, DEPICTED))
    given = _of_table(asked, read(path), read(judged or path))
    seen = None if depicted is None else read(depicted)
    return replace(
        given,
        edits=None if edits is None else typed(read(edits), _edit_types(given.protocol)),
        stereotypes=None if seen is None else stereotype_findings(typed(seen, DEPICTED_TYPES), given.protocol),
    )


def _edit_types(protocol: Protocol) -> dict[str, type[pl.DataType]]:
    about = ("trial", "experiment", "arm", "editor", "prompt", "person", "status", *protocol.groups.dimensions)
    return dict.fromkeys(about, pl.String)


def _of_table(asked: Asked, scores: Given, judged: Given) -> Inputs:
    protocol = load(asked.protocol or BUILTIN)
    preset = asked.preset or next(iter(protocol.presets))
    if preset not in protocol.presets:
        raise InputError(f"{unknown(preset, 'preset', protocol.presets)}.")
    finished = read_scores(scores, protocol, preset)
    if scores.name != judged.name:
        rows = read_scores(judged, protocol, preset)
        finished = Scores(finished.scores, finished.main, rows.judged, finished.notes)
    return Inputs(protocol, preset, finished, used=tuple(dict.fromkeys(_hashes(scores, judged))))


def _with_people(inputs: Inputs, asked: Asked, folder: Path | None) -> Inputs:
    """With what people said, where there is a file of it."""
    paths = {RATINGS: asked.ratings, CHECKS: asked.checks, PARTICIPANTS: asked.participants}
    beside = {name: path or (found(folder, name) if folder else None) for name, path in paths.items()}
    given = {name: read(path) for name, path in beside.items() if path is not None}
    if CHECKS in given and RATINGS not in given:
        raise InputError("Attention checks say nothing without ratings.", "Give the ratings as well.")
    ratings, checks = inputs.ratings, inputs.checks
    if RATINGS in given:  # a file stands in the place of what the run has
        ratings = read_ratings(given[RATINGS], inputs.main, inputs.protocol)
        checks = read_checks(given[CHECKS], inputs.protocol) if CHECKS in given else None
    return replace(
        inputs,
        ratings=ratings,
        checks=checks,
        participants=given[PARTICIPANTS].frame if PARTICIPANTS in given else None,
        used=(*inputs.used, *_hashes(*given.values())),
    )


def _hashes(*given: Given) -> Iterator[tuple[str, str]]:
    for one in given:
        if one.sha256:  # a table in memory is no file that somebody could compare
            yield Path(one.name).name, one.sha256
