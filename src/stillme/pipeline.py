"""The audit, told once:

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
from stillme.engine.local import INTERRUPTED, Stop
from stillme.engine.progress import Progress
from stillme.ledger import Run, backup
from stillme.ledger.run import LEDGER, shows
from stillme.plan import design as designs
from stillme.plan.config import Config, check_keys
from stillme.plan.design import Design
from stillme.steps import edit as editing
from stillme.steps import features as extracting
from stillme.steps import judge as judging
from stillme.steps import measure as measuring
from stillme.steps.budget import Purse
from stillme.steps.portraits import gather as gather

REPORT = "report.html"


def run(config: Config, progress: Progress, only: Sequence[str] = ()) -> Path:
    """The whole audit, from portraits to report, or these experiments of it. Returns the report's path."""
    check_keys(config)
    stop = Stop()
    with Run.hold(config.run, config.protocol, config.audit.objects) as held:
        purse = Purse(config, held.spent_usd())
        portraits = gather(held, config, progress)
        while True:
            extracting.extract(held, config, portraits, progress, stop, purse, only)
            design = plan(held, config, portraits)
            work(held, design.only(only), progress, stop, purse)
            if stop or not draw.draw(held, design, progress):  # what was observed may say what comes next
                break
        if stop.reason == INTERRUPTED:
            raise KeyboardInterrupt
        report_path = report(held, design, progress)
        _raise_if_incomplete(held, design, only, stop, purse)
    return report_path


def advance(config: Config, progress: Progress, part: Callable[[Design], Design]) -> None:
    """What is missing of a part of the plan, and nothing else: the plan is noted whole, no report is written."""
    check_keys(config)
    stop = Stop()
    with Run.hold(config.run, config.protocol, config.audit.objects) as held:
        purse = Purse(config, held.spent_usd())
        work(held, part(plan(held, config, gather(held, config, progress))), progress, stop, purse)
    if stop.reason == INTERRUPTED:
        raise KeyboardInterrupt
    if why := stop.reason or purse.reason or (_why(purse) if purse.edits_left else ""):
        raise IncompleteError(
            f"The audit stopped early because {why}.",
            f"Everything done is kept in {config.run}; run the same command again to go on.",
        )


def work(held: Run, design: Design, progress: Progress, stop: Stop, purse: Purse) -> None:
    """Everything that a design asks for and that is missing."""
    editing.edit(held, design, progress, stop, purse)
    held.back_up()
    measure(held, design, progress, stop)
    judging.judge(held, design, progress, stop, purse)


def measure(held: Run, design: Design, progress: Progress, stop: Stop) -> None:
    """Measures also what a spent budget leaves unjudged: it costs nothing. Only Ctrl-C keeps it from doing so."""
    own = Stop()
    if stop.reason != INTERRUPTED:
        measuring.measure(held, design, progress, own)
    if own.reason == INTERRUPTED:
        raise KeyboardInterrupt


def plan(held: Run, config: Config, portraits: Sequence[Portrait]) -> Design:
    """Notes every trial, before anything is spent on it."""
    design = designs.make(config, portraits, designs.known(held, config, portraits))
    if not design.trials:
        raise InputError("The audit asks for no edits.", "Check its sources, groups and prompts.")
    designs.note(held, design)
    return design


def report(held: Run, design: Design, progress: Progress) -> Path:
    """Analyses what is there and writes report.html, unless it shows this very state already.

    The page alone, which is quick; `report_again` writes all of it.
    """
    path = held.path / REPORT
    if shows(path, held):
        progress.say("Report: up to date, nothing to do")
        return path
    from stillme.report import publish  # polars, scipy and jinja2 load only when there is something to analyse

    publish.write(held, design, path)
    progress.say("Report: the page is written")
    return path


def _raise_if_incomplete(held: Run, whole: Design, only: Sequence[str], stop: Stop, purse: Purse) -> None:
    design = whole.only(only)
    edits = len(editing.missing(held, design))
    verdicts = len(judging.missing(held, design)[0])
    measurements = measuring.count(measuring.missing(held, design)[0])
    mitigates = whole.config.audit.experiments.mitigate is not None and (not only or MITIGATE in only)
    unread = len(extracting.missing(held, whole.config, whole.portraits)) if mitigates else 0
    waits = draw.waits(held, whole) if mitigates else ""
    if edits or verdicts or measurements or unread or waits:
        failed = "" if not (edits or verdicts or measurements or unread) else _why(purse)
        why = stop.reason or purse.reason or failed or waits
        left = f"edits missing: {edits:,}, verdicts missing: {verdicts:,}"
        left += f", measurements missing: {measurements:,}" if design.measures else ""
        left += f", portraits whose features are not read: {unread:,}" if unread else ""
        raise IncompleteError(
            f"The audit is incomplete ({left}) because {why}.",
            f"Everything done is kept in {held.path}; run the same command again to go on.",
        )


def _why(purse: Purse) -> str:
    return "the edit budget is reached" if purse.edits_left else "some calls failed"


def status(path: Path) -> dict[str, Any]:
    """How far a run is; reads beside a writer."""
    with Run.look(path) as seen:
        design = designs.recall(seen)
        verdicts = judging.standing(seen, design)
        looks, judged = judging.wanted(seen, design), seen.keys("verdict")
        again = [look.key in judged for look in looks if look.repeat]
        first = [look.key in judged for look in looks if not look.repeat]
        unmeasured, _ = measuring.missing(seen, design)
        measured = measuring.standing(seen, design)
        return {
            "run": str(path),
            "name": design.config.audit.name,
            "protocol": design.config.protocol.name,
            "preset": design.config.audit.preset,
            "trials": sum(not trial.is_control for trial in design.trials),
            "controls": sum(trial.is_control for trial in design.trials),
            "experiments": _experiments(seen, design),
            "features": extracting.standing(seen, design.config, design.portraits),
            "waits": draw.waits(seen, design),
            "edits": dict(sorted(editing.standing(seen, design).items())),
            "edits_missing": len(editing.missing(seen, design)),
            "measurements": {name: dict(sorted(counts.items())) for name, counts in measured.items()},
            "measurements_missing": measuring.count(unmeasured),
            "verdicts": {judge: dict(sorted(counts.items())) for judge, counts in verdicts.items()},
            "verdicts_done": sum(first),
            "verdicts_missing": len(first) - sum(first),
            "second_looks_done": sum(again),
            "second_looks_missing": len(again) - sum(again),
            "attempts": seen.query("SELECT count(*) FROM attempt")[0][0],
            "cost_usd": seen.spent_usd(),
            "report": str(path / REPORT) if (path / REPORT).is_file() else None,
            "backup": backup.made_at(path / LEDGER),
        }


def check_images(path: Path, progress: Progress) -> list[str]:
    """Reads every image of a run; a sentence for each that is not what its name says. Before that, every row of
    the ledger is compared with its copy."""
    backup.check(path / LEDGER, rows=True)
    with Run.look(path) as seen:
        names = [name for (name,) in seen.query("SELECT sha256 FROM object ORDER BY sha256")]
        found = [said for name in names if (said := seen.fault(name))]
    progress.say(f"Images: {len(names):,} read, {len(found):,} damaged or missing")
    return found


def restore(path: Path) -> backup.Restored:
    """Goes back to the copy of a damaged ledger: of a run, or of a selection."""
    known = (path / name for name in backup.LEDGERS)
    return backup.restore(next((one for one in known if backup.backup_of(one).is_file()), path / LEDGER))


def _experiments(seen: Run, design: Design) -> dict[str, dict[str, int]]:
    """Experiment -> its trials, and what is missing of it; an edit counts in every experiment that needs it."""
    found = {}
    for name in dict.fromkeys(trial.experiment for trial in design.trials):
        part = design.only([name])
        found[name] = {
            "trials": len(part.trials),
            "edits_missing": len(editing.missing(seen, part)),
            "verdicts_missing": len(judging.missing(seen, part)[0]),
        }
    return found


def export(path: Path, folder: Path, file_format: str) -> list[Path]:
    """The run's tidy frames as files that pandas, R and DuckDB read."""
    from stillme.report import publish

    with Run.look(path) as seen:
        return publish.export(seen, designs.recall(seen), folder, file_format)


def report_again(
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
    from stillme.report import folder as reporting

    with Run.look(path) as seen:
        if not anew and reporting.is_current(seen, path / REPORT, faces):
            progress.say("Report: up to date, nothing to do")
            return path / REPORT
        design = designs.recall(seen)
        page = path / REPORT
        return reporting.write(seen, design, page, faces, whole, only, progress.say, browse_most=browse_most)
