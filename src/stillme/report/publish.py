"""From the ledger to what people read: tidy frames, findings, report.html, exported tables."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

import stillme
from stillme.analysis.experiments import depicted
from stillme.analysis.frames import Tidy, tidy
from stillme.core import images
from stillme.core.atomic import replace_file
from stillme.core.errors import InputError, disk
from stillme.core.records import (
    DELTA_L,
    DIAGNOSE,
    MITIGATE,
    OTHER_HEAD,
    STEREOTYPE,
    Role,
    Status,
    Trial,
    canonical,
)
from stillme.core.table_files import write_frame
from stillme.engine.backends import PreparedJudge, PreparedSystem
from stillme.judges import instrument
from stillme.ledger import Run, frames
from stillme.ledger.frames import COLUMNS, measured, perceived
from stillme.ledger.run import mark_of
from stillme.measures import ATTRIBUTES, FIGURES
from stillme.plan.audit import BASELINE, JudgeRow, Row
from stillme.plan.design import Design
from stillme.report.build import Context, Example, Further, Party, build
from stillme.report.context import Asked
from stillme.report.experiments import further
from stillme.stats.findings import Findings, analyse
from stillme.stats.judging import Judging, judge_findings
from stillme.stats.measured import Measured, measure_findings
from stillme.stats.outcomes import mark
from stillme.steps import judge as judging

THUMBNAIL = 224
SEED = 0  # of permutations and resampling, as `stillme analyse` has it
ERRORS: dict[str, Any] = {"dimension": pl.String, "group": pl.String, "faces": pl.Int64, "read": pl.Int64}
ERRORS |= dict.fromkeys(("age_mae", "age_bias", "gender_error"), pl.Float64)
COMPUTING = ("polars", "numpy", "scipy", "jinja2", "matplotlib", "pillow", "opencv-python-headless")


def write(run: Run, design: Design, path: Path) -> None:
    """Writes the report whole or not at all."""
    html = build(*findings_and_context(run, design))
    with disk(path):
        replace_file(path, f"{html}\n{mark_of(run)}\n".encode())


def findings_and_context(
    run: Run, design: Design, every: Tidy | None = None
) -> tuple[Findings | None, Context, Further]:
    """The main tables, None where the audit has none; other experiments stand apart. `every`: the run's tidy
    frames, where they are at hand."""
    every = every or tidy(run, design)
    findings, said = _main(run, design, every)
    return findings, said, further(run, design, every, said)


def _main(run: Run, design: Design, every: Tidy) -> tuple[Findings | None, Context]:
    protocol, preset = design.config.protocol, design.config.audit.preset
    found = every.of(*main_experiment(design))
    edits, main = found.asked_for, found.scores[protocol.presets[preset].rounding]
    if not edits.height:
        return None, context(run, design, every.asked_for, main)
    planted = planted_rates(design, edits)
    measured = measure_findings_of(run, design, found, main)
    judged = judge_findings_of(run, design, found)
    findings = analyse(found.scores, found.judged, edits, protocol, preset, planted, measured, judged)
    return findings, context(run, design, edits, main)


def main_experiment(design: Design) -> tuple[str, str]:
    """What the main tables are about: the prompt alone, as the diagnosis asks it, where the audit has one; else as
    the sample of the mitigation experiment does, which is as good where it was not chosen by its outcome."""
    wanted = design.config.audit.experiments.diagnose
    if wanted is None:
        return MITIGATE, BASELINE
    return DIAGNOSE, BASELINE if BASELINE in wanted.arms else wanted.arms[0]


def measure_findings_of(run: Run, design: Design, found: Tidy, scores: pl.DataFrame) -> Measured | None:
    """The tables of the measurements; None where the audit measures nothing."""
    protocol, measured = design.config.protocol, found.measured
    if measured is None or protocol.measures is None:
        return None
    return measure_findings(
        measured,
        instrument.no_change(measured, protocol.measures),
        instrument.thresholds(measured, protocol.measures),
        instrument.scores(measured, protocol),
        scores,
        protocol,
        planted=planted_shifts(run, design, measured),
        errors=_attribute_errors(design),
    )


def judge_findings_of(run: Run, design: Design, found: Tidy) -> Judging | None:
    """The tables of the judges that were asked; None where there are none."""
    if not design.judges:
        return None
    judged = found.judged.filter(pl.col("judge").is_in(list(design.judges)))
    return judge_findings(judged, found.asked_for, repeats(run, design, found), design.config.protocol)


def repeats(run: Run, design: Design, found: Tidy) -> pl.DataFrame:
    """Second looks beside the first."""
    protocol = design.config.protocol
    first, second = (
        [(look.key, look.trial.edit, look.judge) for look in some]
        for some in (judging.judge_tasks(run, design), judging.repeat_tasks(run, design))
    )
    edits = found.edits.filter(pl.col("edit").is_in([edit for _, edit, _ in second]))
    return frames.repeats(run, protocol, frames.trial_axis_frame(protocol, edits), first, second)


def planted_shifts(run: Run, design: Design, measured: pl.DataFrame) -> pl.DataFrame | None:
    """Trial -> by how much L* skin was moved, of the edits that show the same head; None without planted ones."""
    if not any(one.expected for one in design.config.editors.values()):
        return None
    truth = frames.truth(run)
    others = truth.filter(pl.col("quantity") == OTHER_HEAD).select("edit")
    moved = truth.filter(pl.col("quantity") == DELTA_L).join(others, on="edit", how="anti")
    return measured.select("trial", "edit").join(moved, on="edit").select("trial", delta_l="value")


def _attribute_errors(design: Design) -> pl.DataFrame | None:
    """How wrong the model of apparent age and gender presentation is, by group; None where it is not used."""
    if not any(row.kind in ATTRIBUTES for row in design.config.audit.measures):
        return None
    from stillme.measures.attributes import errors

    return pl.DataFrame(errors(), schema=ERRORS, orient="row")


def planted_rates(design: Design, edits: pl.DataFrame) -> pl.DataFrame | None:
    """Trial × outcome: the probability that was planted; None when no editor is a planted one."""
    expected = {name: one.expected for name, one in design.config.editors.items() if one.expected}
    if not expected:
        return None
    dimensions = list(design.config.protocol.groups.dimensions)
    keys = ["editor", "prompt", *dimensions]
    rows = [
        (editor, *about, outcome, rate)
        for editor, *about in edits.select(keys).unique(maintain_order=True).iter_rows()
        if editor in expected
        for outcome, rate in expected[editor](about[0], dict(zip(dimensions, about[1:], strict=True))).items()
    ]
    schema: dict[str, Any] = dict.fromkeys((*keys, "outcome"), pl.String) | {"planted": pl.Float64}
    told = pl.DataFrame(rows, schema=schema, orient="row")
    found = edits.select("trial", *keys).join(told, on=keys, nulls_equal=True, maintain_order="left_right")
    return found.select("trial", "outcome", "planted")


# The report's context


def context(run: Run, design: Design, edits: pl.DataFrame, scores: pl.DataFrame) -> Context:
    config, took = design.config, _took(run, design)
    return Context(
        name=config.audit.name,
        preset=config.audit.preset,
        protocol=config.protocol,
        editors=tuple(_party(row, config.editors[row.id]) for row in config.audit.editors),
        judges=tuple(_judge(row, config.judges[row.id], took.get(row.id)) for row in config.ranked_judges()),
        sources=tuple(one.description for one in config.sources.values()),
        caveats=tuple(said for one in config.sources.values() for said in one.caveats),
        counts=_counts(design, edits),
        provenance=tuple(_provenance(run, design)),
        examples=tuple(examples(run, design, edits, scores)),
        measured_share=config.audit.measuring.share,
        disclose=config.disclose,
        people=tuple(portrait.labels for portrait in design.portraits),
        asked=tuple(_asked(design)),
        made_with=made_with(versions()),
    )


def versions() -> dict[str, Any]:
    """Of what computes numbers and draws here, and on what kind of machine."""
    packages = {name: _version(name) for name in COMPUTING}
    return {
        "stillme": stillme.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": packages,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def made_with(found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Versions as a reader sees them; what is not installed is not listed."""
    own = {"stillme": found["stillme"], "Python": found["python"], **found["packages"]}
    named = own | {"Platform": found.get("platform", "")}
    return tuple((name, version) for name, version in named.items() if version)


def _party(row: Row, prepared: PreparedSystem[Any]) -> Party:
    settings = json.loads(canonical(prepared.effective))  # in one order, however they were given
    return Party(row.id, row.name, prepared.description, prepared.simulated, settings)


def _judge(row: JudgeRow, prepared: PreparedJudge[Any], took: tuple[int, float] | None) -> Party:
    is_read = prepared.derived
    attempts, cost = took or (None, None)
    return replace(
        _party(row, prepared),
        instrument=is_read,
        mixed=is_read and row.role is not Role.INSTRUMENT,
        dropped=dict(prepared.dropped),
        caveats=prepared.caveats,
        attempts=attempts,
        cost_usd=cost,
    )


def _took(run: Run, design: Design) -> dict[str, tuple[int, float]]:
    """Judge -> how many attempts its calls took, and what they cost."""
    found = {settings: (attempts, cost) for settings, attempts, cost in frames.judge_calls(run).iter_rows()}
    return {name: found.get(settings, (0, 0.0)) for name, settings in design.judges.items()}


def _counts(design: Design, edits: pl.DataFrame) -> dict[str, int]:
    return {
        "portraits": len(design.portraits),
        "prompts": edits["prompt"].n_unique(),
        "editors": len(design.editors),
        "judges": len(design.judges),
        "trials": len(edits),
        "edits": edits.filter(pl.col("status") == Status.OK.value).height,
    }


def _asked(design: Design) -> Iterator[Asked]:
    """What the design asks for, one experiment and arm after the other."""
    parts: dict[tuple[str, str], list[Trial]] = {}
    for trial in design.trials:
        parts.setdefault((trial.experiment, trial.arm), []).append(trial)
    for (experiment, arm), trials in parts.items():
        about = ("portrait", "prompt", "editor", "seed")
        portraits, prompts, editors, seeds = (len({getattr(trial, name) for trial in trials}) for name in about)
        yield Asked(experiment, arm, portraits, prompts, editors, seeds, len(trials))


def _provenance(run: Run, design: Design) -> Iterator[tuple[str, str]]:
    meta = run.meta()
    yield "stillme", meta["stillme"]
    yield "Python", meta["python"]
    yield "Preset", design.config.audit.preset
    hashed = {"Editor": design.editors, "Judge": design.judges, "Measure": design.measures}
    for kind, hashes in hashed.items():
        for name, value in hashes.items():
            yield f"{kind} {name}: settings", f"SHA-256 {value}"
    for row in design.config.audit.editors:
        yield f"Editor {row.id}: seed", str(row.seed)
    yield "Seed of permutations and resampling", str(SEED)
    for name, told in _circumstances(run).items():
        yield f"Editor {name}: made with", told
    for name, (attempts, cost) in _took(run, design).items():
        yield f"Judge {name}: attempts", f"{attempts:,}, {cost:.2f} USD"
    yield "Cost", f"{run.spent_usd():.2f} USD"
    yield "Run made", meta["created"]
    first, last = run.query("SELECT min(started), max(started) FROM attempt")[0]
    yield "First and last call", f"{first} to {last}" if first else "none yet"


def _circumstances(run: Run) -> dict[str, str]:
    """Editor -> libraries and device that its edits were made with, as they were noted then; several in turn."""
    found: dict[str, list[str]] = {}
    asked = "SELECT DISTINCT editor, content FROM making JOIN circumstances ON circumstances = hash "
    for editor, content in run.query(f"{asked} JOIN trial USING (edit) ORDER BY editor, content"):
        facts = json.loads(content).items()
        told = ", ".join(f"{name} {value}" for name, value in facts if isinstance(value, str | int | float))
        found.setdefault(editor, []).append(told)
    return {editor: "; ".join(told) for editor, told in found.items()}


def examples(run: Run, design: Design, edits: pl.DataFrame, scores: pl.DataFrame) -> Iterator[Example]:
    """For each outcome of the gallery: edits that show it, spread over editors and groups."""
    protocol = design.config.protocol
    wanted = protocol.manifest.tables.gallery
    groups = list(protocol.groups.reference_group)
    told = scores.select("trial", "editor", *groups, "axis", "requested", "score")
    for outcome, number in wanted.items():
        hits = mark(told, {outcome: protocol.rubrics.outcomes[outcome]}).filter("hit")
        for trial in _spread(hits, groups, number):
            yield _example(run, design, edits, scores, outcome, trial)


def _spread(hits: pl.DataFrame, groups: list[str], number: int) -> list[str]:
    """Up to `number` trials, one editor and group after the other; the choice hangs on keys, not on looks."""
    turn = pl.col("trial").rank("ordinal").over("editor", *groups).alias("turn")
    within = pl.col("trial").rank("ordinal").over("editor").alias("within")
    return (
        hits.with_columns(turn, within).sort("turn", "within", "editor", "trial").head(number)["trial"].to_list()
    )


def _example(
    run: Run, design: Design, edits: pl.DataFrame, scores: pl.DataFrame, outcome: str, trial: str
) -> Example:
    protocol = design.config.protocol
    row = edits.row(by_predicate=pl.col("trial") == trial, named=True)
    found = dict(scores.filter(pl.col("trial") == trial).select("axis", "score").iter_rows())
    prompt = protocol.prompt[row["prompt"]]
    labels = {d: protocol.groups.labels(d).get(row[d], row[d]) for d in protocol.groups.dimensions}
    return Example(
        outcome=outcome,
        editor=row["editor"],
        prompt_label=f"{prompt.id} {prompt.label}",
        instruction=prompt.text,
        labels=labels,
        source=images.thumbnail(run.image(row["source_image"]), THUMBNAIL),
        edited=images.thumbnail(run.image(row["image"]), THUMBNAIL),
        scores=found,
        trial=trial,
    )


# Export


def export(run: Run, design: Design, folder: Path, file_format: str) -> list[Path]:
    """Writes every frame and a page that describes the columns."""
    if file_format not in ("parquet", "csv"):
        raise InputError(f"'{file_format}' is not a format; known: parquet, csv.")
    tables = tables_of(run, design, tidy(run, design))
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        written = [write_frame(frame, folder / f"{name}.{file_format}") for name, frame in tables.items()]
        columns = folder / "columns.md"
        replace_file(columns, _columns_page(tables, design).encode())
    return [*written, columns]


def tables_of(run: Run, design: Design, found: Tidy) -> dict[str, pl.DataFrame]:
    """The run's frames by the names of their files; those that an audit does not have are left out."""
    rounding = design.config.protocol.presets[design.config.audit.preset].rounding
    tables = {
        "edits": found.edits,
        "judge_scores": found.every_judge,
        "scores": found.scores[rounding],
        "attempts": frames.attempts(run),
        "truth": frames.truth(run),
    }
    if found.measured is not None:
        tables["measurements"] = found.measured
    if (twice := repeats(run, design, found)).height:
        tables["repeats"] = twice
    part = design.only([STEREOTYPE])
    others = {
        "depicted": depicted(run, part, found, judging.judge_tasks(run, part)),
        "features": frames.features(run),
        "decisions": frames.decisions(run),
    }
    return tables | {name: frame for name, frame in others.items() if frame.height}


def _columns_page(tables: Mapping[str, pl.DataFrame], design: Design) -> str:
    known = described(design)
    lines = ["# Columns", ""]
    for name, frame in tables.items():
        lines += [f"## {name}", "", "| column | type | what it is |", "|---|---|---|"]
        lines += [f"| {column} | {kind} | {known[column]} |" for column, kind in frame.schema.items()]
        lines.append("")
    return "\n".join(lines)


def described(design: Design) -> dict[str, str]:
    """Column -> what it is, of every exported table."""
    known = dict(COLUMNS)
    known |= {d: perceived(d) for d in design.config.protocol.groups.dimensions}
    for kind, figures in FIGURES.items():
        known |= {**figures, **measured(kind)}
    return known
