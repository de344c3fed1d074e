"""stillme from Python: an audit to run, a run to read, scores to analyse. What `import stillme` offers.

Everything here is a thin hold on what the commands call. With `progress=False` nothing is printed, and nothing is
written but where a method says so. Errors are `stillme.StillmeError`: a sentence, and the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import polars as pl
from PIL import Image

from stillme import pipeline
from stillme.analysis.frames import Tidy, tidy
from stillme.analysis.tables import inputs, saying, whole, writing
from stillme.analysis.tables.tables import Tabled
from stillme.cli.init import demo as write_demo
from stillme.core import images
from stillme.core.errors import InputError, SetupError
from stillme.core.yaml import unknown
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.config import Config
from stillme.plan.design import Design, load_design
from stillme.protocol import Protocol as Rules
from stillme.report import publish
from stillme.steps.budget import with_max_cost
from stillme.steps.forecast import Forecast, look_ahead
from stillme.study.ratings import imported

__all__ = ["Analysis", "Audit", "LoadedRun", "Plan", "analyse", "load_run"]
StrPath = str | PathLike[str]


class Arrow(Protocol):
    """A table of any library that speaks Arrow: polars, pandas (with pyarrow), pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# An audit


class Audit:
    """An `audit.yaml`, read and checked whole: whatever is wrong in it is said here, all at once.

    `engine`, `address` and `max_cost` stand in the place of the file's own, as they do for `stillme run`.

    >>> audit = Audit.demo("demo", small=True)  # or Audit("audit.yaml")
    >>> plan = audit.check()
    >>> plan.outlook.portraits, plan.outlook.prompts, plan.outlook.editors, plan.outlook.trials
    (9, 4, 3, 108)
    >>> run = audit.run(progress=False)  # does what is missing: here nothing is, the demo has been run
    >>> run.edits.height == audit.status()["trials"] + audit.status()["controls"]
    True
    """

    def __init__(
        self,
        file: StrPath = "audit.yaml",
        *,
        engine: str | None = None,
        address: str | None = None,
        max_cost: float | None = None,
    ) -> None:
        given = {name: word for name, word in (("kind", engine), ("address", address)) if word is not None}
        self.file = Path(file)
        self.config: Config = with_max_cost(config.load(self.file, engine=given), max_cost)

    @classmethod
    def demo(cls, folder: StrPath = "demo", *, small: bool = False) -> Audit:
        """The audit of `stillme demo`: rendered heads, planted editors. Writes its audit.yaml once."""
        return cls(write_demo(Path(folder), small))

    @property
    def path(self) -> Path:
        """The directory of its run, which may not be there yet."""
        return self.config.run

    def check(self) -> Plan:
        """What `run` would do: trials, cost and time. Nothing is written and nothing is spent."""
        return Plan(self.config, look_ahead(self.config))

    def run(self, *, only: Sequence[str] = (), progress: bool = True) -> LoadedRun:
        """Does what is still missing and writes the report's page; `only`: these experiments of the file.

        Whatever stops it, everything done is kept, and calling it again goes on. An audit that ends with something
        missing raises `stillme.IncompleteError`; `load` reads what there is. Editors that compute have processes
        of their own, so a script (not a notebook) needs its calls under `if __name__ == "__main__":`.
        """
        pipeline.run(self.config, _progress(progress), config.chosen_experiments(self.config.audit, only))
        return self.load()

    def status(self) -> dict[str, Any]:
        """How far its run is, as `stillme status --json` says it."""
        return pipeline.status(self.path)

    def load(self) -> LoadedRun:
        """Its run as it is now, complete or not."""
        return load_run(self.path)

    def report(self, *, faces: str | None = None, only: Sequence[str] = (), progress: bool = True) -> Path:
        """Writes the whole report of its run; see `LoadedRun.report`."""
        return self.load().report(faces=faces, only=only, progress=progress)

    def __repr__(self) -> str:
        return f"<Audit {self.config.audit.name}: {self.file}, run {self.path}>"


@dataclass(frozen=True, repr=False)
class Plan:
    """What a run would do: `outlook` has the numbers, printing it shows them as `stillme check` does."""

    config: Config
    outlook: Forecast

    def __repr__(self) -> str:
        from stillme.cli.render.plan import render_plan  # only a plan that is printed needs it

        return render_plan(self.config, self.outlook)


# A run


def load_run(path: StrPath) -> LoadedRun:
    """The run in a directory, to read. Somebody may be at work on it meanwhile.

    >>> run = load_run("demo/small")
    >>> run.edits.group_by("editor", "status").len().sort("editor", "status").head(2).rows()
    [('erases', 'ok', 53), ('erases', 'refused', 1)]
    >>> before, after = run.pair(run.edits["trial"][0])
    >>> before.size
    (384, 384)
    """
    with Run.open_readonly(Path(path)) as run:
        run.last_audit()  # a run that was never planned is refused here, not at the first table
    return LoadedRun(Path(path))


class LoadedRun:
    """A run's tables and pictures.

    Tables are polars frames (`.to_pandas()` makes pandas ones), read when they are first asked for and then kept;
    `load_run` again to see what has come since. Between two reads nothing is held open.
    `columns` says what every column is. A score that is missing is null: never a 0, never a guess.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The audit's name."""
        return self._design.config.audit.name

    @property
    def protocol(self) -> Rules:
        """The protocol that the run was made with: prompts, rubrics, groups."""
        return self._design.config.protocol

    # Tables

    @property
    def edits(self) -> pl.DataFrame:
        """One row a trial, negative controls too: what was asked of which editor, and how it ended."""
        return self._tidy.edits

    @property
    def scores(self) -> pl.DataFrame:
        """One row a trial and axis: the ensemble's score, rounded as the preset says."""
        return self.scores_by_rounding[self.protocol.presets[self._design.config.audit.preset].rounding]

    @property
    def scores_by_rounding(self) -> Mapping[str, pl.DataFrame]:
        """`scores` under every way of rounding the mean of two judges."""
        return self._tidy.scores

    @property
    def judged(self) -> pl.DataFrame:
        """One row a trial, axis and judge: what each said by itself, the instrument's scores among them."""
        return self._tidy.every_judge

    @property
    def measured(self) -> pl.DataFrame | None:
        """One row a measured trial: what instruments read off the pixels. None where nothing is measured."""
        return self._tidy.measured

    @cached_property
    def ratings(self) -> pl.DataFrame | None:
        """What people said in studies that were taken into the run. None where there was none."""
        with Run.open_readonly(self.path) as run:
            return imported(run, self.protocol).ratings

    @cached_property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every table of `stillme export`, by the name of its file."""
        with Run.open_readonly(self.path) as run:
            return publish.tables_of(run, self._design, self._tidy)

    @property
    def columns(self) -> Mapping[str, str]:
        """Column -> what it is."""
        return publish.described(self._design)

    # Pictures

    def pair(self, trial: str) -> tuple[Image.Image, Image.Image | None]:
        """The portrait before and after the edit; None where there is no edited picture."""
        rows = self.edits.filter(pl.col("trial") == trial)
        if rows.is_empty():
            raise InputError(f"The run {self.path} has no trial '{trial}'.", "Take one from its `edits`.")
        source, edited = rows.select("source_image", "image").row(0)
        return self.image(source), self.image(edited) if edited else None

    def image(self, sha256: str) -> Image.Image:
        """A picture by its hash (columns `source_image` and `image` of `edits`), upright and in sRGB."""
        return Image.fromarray(images.pixels(self.content(sha256)))

    def content(self, sha256: str) -> bytes:
        """The picture's file as it was given or made, byte for byte."""
        with Run.open_readonly(self.path) as run:
            return run.image(sha256)

    # What can be made of it

    def status(self) -> dict[str, Any]:
        """How far the run is now, as `stillme status --json` says it."""
        return pipeline.status(self.path)

    def analyse(self, *, seed: int = 0, progress: bool = False) -> Analysis:
        """Every table with its uncertainty; see `stillme.analyse`."""
        return analyse(self, seed=seed, progress=progress)

    def export(self, folder: StrPath, file_format: str = "parquet") -> list[Path]:
        """Writes `tables` as files, with a page that describes their columns."""
        return pipeline.export(self.path, Path(folder), file_format)

    def report(self, *, faces: str | None = None, only: Sequence[str] = (), progress: bool = True) -> Path:
        """Writes the whole report; returns its page's path. `faces`: show, blur or none; `only`: parts of it."""
        return pipeline.rebuild_report(self.path, _progress(progress), faces, only)

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.path}, {len(self._design.trials):,} trials>"

    @cached_property
    def _design(self) -> Design:
        with Run.open_readonly(self.path) as run:
            return load_design(run)

    @cached_property
    def _tidy(self) -> Tidy:
        with Run.open_readonly(self.path) as run:
            return tidy(run, self._design)


# An analysis


def analyse(
    scores: LoadedRun | StrPath | Arrow,
    *,
    ratings: StrPath | None = None,
    checks: StrPath | None = None,
    participants: StrPath | None = None,
    protocol: StrPath | None = None,
    preset: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Analysis:
    """Rates, disparities, tests and models of a run or of anybody's scores, each with its uncertainty.

    `scores`: a run (or its path), a folder of exported tables, a file, or a table in memory (docs/analyse.md
    says what columns it needs). The other arguments are those of `stillme analyse`. Nothing is written before
    `Analysis.write`.

    >>> run = load_run("demo/small")
    >>> found = analyse(run.scores)  # a polars table; a pandas one does as well
    >>> found.title("outcomes_by_editor")
    'Outcomes by editor (as table 12)'
    >>> erased = found["outcomes_by_editor"].filter(outcome="soft_erasure")
    >>> erased.select("editor", "persons", "judged", "hits").rows()
    [('even', 9, 36, 2), ('lightens', 9, 36, 1), ('erases', 9, 35, 14)]
    >>> found.sentences[0]
    '3 editors, 9 persons, 4 prompts: 108 edits, 1 without a score.'
    """
    say = _progress(progress).say
    source = scores.path if isinstance(scores, LoadedRun) else scores
    options = inputs.Asked(
        path=Path(source) if isinstance(source, str | PathLike) else Path("the table"),
        protocol=_path(protocol),
        preset=preset,
        ratings=_path(ratings),
        checks=_path(checks),
        participants=_path(participants),
    )
    if isinstance(source, str | PathLike):
        gathered = inputs.gather(options)
    else:
        gathered = inputs.gather_frame(_frame(source), options)
    return Analysis(gathered, whole.tables(gathered, seed, say), seed)


class Analysis(Mapping[str, pl.DataFrame]):
    """Every table of an analysis by its id, as computed; printing it says what may be claimed, and on what.

    `contents` lists the tables; `title` and `notes` belong to a table and should travel with it.
    """

    def __init__(self, given: inputs.Inputs, tables: Sequence[Tabled], seed: int) -> None:
        self._inputs = given
        self._tables = {table.id: table for table in tables}
        self._seed = seed

    def __getitem__(self, id: str) -> pl.DataFrame:
        return self._tables[id].frame

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def contents(self) -> pl.DataFrame:
        """One row a table: its id, the part it belongs to, its title, how many rows it has."""
        rows = [(table.id, table.part, table.title, table.frame.height) for table in self._tables.values()]
        return pl.DataFrame(rows, schema=["id", "part", "title", "rows"], orient="row")

    @property
    def sentences(self) -> list[str]:
        """What the numbers say: only of what was declared, only where a gate is passed."""
        return saying.sentences(list(self._tables.values()), self._inputs)

    def title(self, id: str) -> str:
        return self._table(id).title

    def notes(self, id: str) -> tuple[str, ...]:
        """What has to be known to read the table."""
        return self._table(id).notes

    def write(self, folder: StrPath, file_format: str = "csv") -> Path:
        """A page and a file a table, as `stillme analyse` writes them. Returns the page's path."""
        tables = list(self._tables.values())
        return writing.write(Path(folder), tables, self.sentences, self._inputs, self._seed, file_format)

    def __repr__(self) -> str:
        return saying.words(list(self._tables.values()), self._inputs)

    def _table(self, id: str) -> Tabled:
        if id not in self._tables:
            raise InputError(f"{unknown(id, 'table', self._tables)}.")
        return self._tables[id]


def _frame(given: Arrow) -> pl.DataFrame:
    if isinstance(given, pl.DataFrame):
        return given
    if not hasattr(given, "__arrow_c_stream__"):
        kind = type(given).__name__
        raise InputError(
            f"Scores are a run, a path or a table; this is a {kind}.", "Give a polars or pandas table."
        )
    try:
        return pl.DataFrame(given)
    except ImportError:
        step = "Install it with `pip install pyarrow`, or give a polars table or the path of a file."
        raise SetupError("Tables of this library are read through pyarrow, which is not there.", step) from None


def _path(given: StrPath | None) -> Path | None:
    return None if given is None else Path(given)


def _progress(wanted: bool) -> Progress:
    """Lines, or a live display in a terminal; or nothing."""
    return Progress.fitting() if wanted else Progress()
