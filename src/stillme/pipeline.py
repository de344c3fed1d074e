"""The audit, step by step:

    sources ──▶ portraits ──▶ plan ──▶ edit ──▶ measure ──▶ judge ──▶ analyse ──▶ report

Each step does what is still missing and nothing else, so a second run of anything is a resume. A step never
changes an earlier step's rows. Nothing after the frames touches the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stillme.analysis import draw
from stillme.core.errors import IncompleteError, InputError
from stillme.core.records import MITIGATE, Portrait
from stillme.engine.progress import Progress
from stillme.engine.threads import INTERRUPTED, StopEvent
from stillme.ledger import Run, backup
from stillme.ledger.run import LEDGER, shows
from stillme.plan.config import Config, check_keys
from stillme.plan.design import Design, load_design, make_design, record_design
from stillme.steps.budget import Budget
from stillme.steps.edit import count_edit_statuses, edit, pending_edits
from stillme.steps.features import count_features, extract_features, portraits_without_features
from stillme.steps.judge import all_judge_tasks, count_verdict_statuses, judge, pending_judge_tasks
from stillme.steps.measure import (
    count_measurement_statuses,
    count_measurements,
    measure,
    pending_measurements,
)
from stillme.steps.portraits import gather as gather

REPORT = "report.html"


def run(config: Config, progress: Progress, only: Sequence[str] = ()) -> Path:
    """The whole audit, from portraits to report, or these experiments of it. Returns the report's path."""
    check_keys(config)
    stop = StopEvent()
    with Run.open_for_writing(config.run, config.protocol, config.audit.objects) as run:
        budget = Budget(config, run.spent_usd())
        portraits = gather(run, config, progress)
        while True:
            extract_features(run, config, portraits, progress, stop, budget, only)
            design = plan(run, config, portraits)
            part = design.only(only)
            edit(run, part, progress, stop, budget)
            run.back_up()
            measure_regardless(run, part, progress, stop)
            judge(run, part, progress, stop, budget)
            if stop or not draw.draw(run, design, progress):  # what was observed may say what comes next
                break
        if stop.reason == INTERRUPTED:
            raise KeyboardInterrupt
        report_path = report(run, design, progress)
        _raise_if_incomplete(run, design, only, stop, budget)
    return report_path


def run_partial_plan(config: Config, progress: Progress, part: Callable[[Design], Design]) -> None:
    """What is missing of a part of the plan, and nothing else: all of it is recorded, no report is written."""
    check_keys(config)
    stop = StopEvent()
    with Run.open_for_writing(config.run, config.protocol, config.audit.objects) as run:
        budget = Budget(config, run.spent_usd())
        design = part(plan(run, config, gather(run, config, progress)))
        edit(run, design, progress, stop, budget)
        run.back_up()
        measure_regardless(run, design, progress, stop)
        judge(run, design, progress, stop, budget)
    if stop.reason == INTERRUPTED:
        raise KeyboardInterrupt
    if reason := stop.reason or budget.reason or (_describe_failure(budget) if budget.edits_left else ""):
        raise IncompleteError(
            f"The audit stopped early because {reason}.",
            f"Everything done is kept in {config.run}; run the same command again to go on.",
        )


def measure_regardless(run: Run, design: Design, progress: Progress, stop: StopEvent) -> None:
    """Measure also what a spent budget leaves unjudged: it costs nothing. Only Ctrl-C keeps it from doing so."""
    own_stop = StopEvent()
    if stop.reason != INTERRUPTED:
        measure(run, design, progress, own_stop)
    if own_stop.reason == INTERRUPTED:
        raise KeyboardInterrupt


def plan(run: Run, config: Config, portraits: Sequence[Portrait]) -> Design:
    """Every trial, recorded before anything is spent on it."""
    design = make_design(config, portraits, run)
    if not design.trials:
        raise InputError("The audit asks for no edits.", "Check its sources, groups and prompts.")
    record_design(run, design)
    return design


def report(run: Run, design: Design, progress: Progress) -> Path:
    """Analyses what is there and writes report.html, unless it shows this very state already.

    The page alone, which is quick; `rebuild_report` writes all of it.
    """
    path = run.path / REPORT
    if shows(path, run):
        progress.say("Report: up to date, nothing to do")
        return path
    from stillme.report import publish  # polars, scipy and jinja2 load only when there is something to analyse

    publish.write(run, design, path)
    progress.say("Report: the page is written")
    return path


def _raise_if_incomplete(run: Run, design: Design, only: Sequence[str], stop: StopEvent, budget: Budget) -> None:
    part = design.only(only)
    n_edits, n_verdicts = len(pending_edits(run, part)), len(pending_judge_tasks(run, part))
    n_measurements = count_measurements(pending_measurements(run, part)[0])
    mitigates = design.config.audit.experiments.mitigate is not None and (not only or MITIGATE in only)
    n_portraits = len(portraits_without_features(run, design.config, design.portraits)) if mitigates else 0
    waits = draw.waits(run, design) if mitigates else ""
    if n_edits or n_verdicts or n_measurements or n_portraits or waits:
        failure = _describe_failure(budget) if n_edits or n_verdicts or n_measurements or n_portraits else ""
        reason = stop.reason or budget.reason or failure or waits
        missing = f"edits missing: {n_edits:,}, verdicts missing: {n_verdicts:,}"
        missing += f", measurements missing: {n_measurements:,}" if part.measures else ""
        missing += f", portraits whose features are not read: {n_portraits:,}" if n_portraits else ""
        raise IncompleteError(
            f"The audit is incomplete ({missing}) because {reason}.",
            f"Everything done is kept in {run.path}; run the same command again to go on.",
        )


def _describe_failure(budget: Budget) -> str:
    return "the edit budget is reached" if budget.edits_left else "some calls failed"


def status(path: Path) -> dict[str, Any]:
    """How far a run is; reads beside a writer."""
    with Run.open_readonly(path) as run:
        design = load_design(run)
        tasks, judged = all_judge_tasks(run, design), run.keys("verdict")
        is_done = [task.key in judged for task in tasks if not task.repeat]
        is_repeat_done = [task.key in judged for task in tasks if task.repeat]
        measurements = count_measurement_statuses(run, design)
        verdicts = count_verdict_statuses(run, design)
        return {
            "run": str(path),
            "name": design.config.audit.name,
            "protocol": design.config.protocol.name,
            "preset": design.config.audit.preset,
            "trials": sum(not trial.is_control for trial in design.trials),
            "controls": sum(trial.is_control for trial in design.trials),
            "experiments": _count_by_experiment(run, design),
            "features": count_features(run, design.config, design.portraits),
            "waits": draw.waits(run, design),
            "edits": dict(sorted(count_edit_statuses(run, design).items())),
            "edits_missing": len(pending_edits(run, design)),
            "measurements": {name: dict(sorted(counts.items())) for name, counts in measurements.items()},
            "measurements_missing": count_measurements(pending_measurements(run, design)[0]),
            "verdicts": {judge: dict(sorted(counts.items())) for judge, counts in verdicts.items()},
            "verdicts_done": sum(is_done),
            "verdicts_missing": len(is_done) - sum(is_done),
            "second_looks_done": sum(is_repeat_done),
            "second_looks_missing": len(is_repeat_done) - sum(is_repeat_done),
            "attempts": run.query("SELECT count(*) FROM attempt")[0][0],
            "cost_usd": run.spent_usd(),
            "report": str(path / REPORT) if (path / REPORT).is_file() else None,
            "backup": backup.made_at(path / LEDGER),
        }


def check_images(path: Path, progress: Progress) -> list[str]:
    """Reads every image of a run; a sentence for each that is not what its name says. Before that, every row of
    the ledger is compared with its copy."""
    backup.check(path / LEDGER, rows=True)
    with Run.open_readonly(path) as run:
        names = [name for (name,) in run.query("SELECT sha256 FROM object ORDER BY sha256")]
        sentences = [sentence for name in names if (sentence := run.fault(name))]
    progress.say(f"Images: {len(names):,} read, {len(sentences):,} damaged or missing")
    return sentences


def restore(path: Path) -> backup.Restored:
    """Goes back to the copy of a damaged ledger: of a run, or of a selection."""
    ledgers = (path / name for name in backup.LEDGERS)
    return backup.restore(next((file for file in ledgers if backup.backup_of(file).is_file()), path / LEDGER))


def _count_by_experiment(run: Run, design: Design) -> dict[str, dict[str, int]]:
    """Experiment -> its trials, and what is missing of it; an edit counts in every experiment that needs it."""
    counts = {}
    for name in dict.fromkeys(trial.experiment for trial in design.trials):
        part = design.only([name])
        counts[name] = {
            "trials": len(part.trials),
            "edits_missing": len(pending_edits(run, part)),
            "verdicts_missing": len(pending_judge_tasks(run, part)),
        }
    return counts


def export(path: Path, folder: Path, file_format: str) -> list[Path]:
    """The run's tidy frames as files that pandas, R and DuckDB read."""
    from stillme.report import publish

    with Run.open_readonly(path) as run:
        return publish.export(run, load_design(run), folder, file_format)


def rebuild_report(
    path: Path,
    progress: Progress,
    faces: str | None = None,
    only: Sequence[str] = (),
    anew: bool = True,
    whole: bool = True,
    browse_most: int | None = None,
) -> Path:
    """The whole report of a run, from the run alone; `only`: these parts of it; not `whole`: the page as `run`
    writes it; `browse_most`: of how many edits pictures and raw exchanges can be browsed. Without `anew` one that
    shows this very state stays."""
    from stillme.report import folder

    with Run.open_readonly(path) as run:
        if not anew and folder.is_current(run, path / REPORT, faces):
            progress.say("Report: up to date, nothing to do")
            return path / REPORT
        design = load_design(run)
        page = path / REPORT
        return folder.write(run, design, page, faces, whole, only, progress.say, browse_most=browse_most)
