"""Calibration of the judges: pairs made from the audit's own portraits, judged like any edit, compared with truth.

It is no part of an audit's plan, rates or counts. What it did before is in the run, so doing it again is a resume.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stillme.core import images
from stillme.core.errors import IncompleteError, InputError
from stillme.core.records import CALIBRATE, Portrait, Status, Trial, digest
from stillme.engine.backends import require_packages
from stillme.engine.progress import Progress
from stillme.engine.threads import INTERRUPTED, StopEvent
from stillme.judges.calibration import MAKER, instruction
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.plan.audit import BASELINE
from stillme.plan.config import Config, check_keys
from stillme.plan.design import Design, make_design, record_design
from stillme.protocol import Protocol
from stillme.sources.heads import key_in
from stillme.steps.budget import Budget
from stillme.steps.edit import edit, pending_edits
from stillme.steps.judge import JudgeTask, judge, pending_judge_tasks, views
from stillme.steps.judge import calibration as calibration_tasks
from stillme.steps.portraits import gather

if TYPE_CHECKING:
    import polars as pl

    from stillme.stats.calibration import Calibration


# Which pairs


def calibration_design(audited: Design) -> Design:
    """The same audit with calibration pairs in place of its trials: person by person, kind by kind."""
    rules = audited.config.protocol.calibration
    if rules is None:
        return replace(audited, trials=[])
    settings = settings_hash("editor", audited.config.makers[MAKER].effective)
    trials = []
    for portrait in select_portraits(audited):
        for kind in rules.kinds:
            partner = other_person(audited, portrait) if kind.by == "person" else None
            if kind.by == "person" and partner is None:
                continue
            trials.append(
                Trial.of(
                    portrait,
                    experiment=CALIBRATE,
                    arm=BASELINE,
                    prompt=kind.id,
                    instruction=instruction(kind),
                    editor=MAKER,
                    settings=settings,
                    seed=0,
                    partner=partner,
                )
            )
    return replace(audited, trials=trials)


def select_portraits(audited: Design) -> list[Portrait]:
    """As many portraits of each group of the reference dimension as the audit says, balanced in all others.

    One after the other the portrait whose gender and age are rarest so far; ties are broken by hashes that are the
    same for every group, so that groups differ in as little else as the portraits allow.
    """
    protocol, options = audited.config.protocol, audited.config.audit.calibrating
    reference = _reference(protocol)
    others = [dimension for dimension in protocol.groups.dimensions if dimension != reference]
    selected: list[Portrait] = []
    for group in protocol.groups.ids(reference):
        left = [portrait for portrait in audited.portraits if portrait.labels.get(reference) == group]
        counts: Counter[tuple[str, str]] = Counter()

        def rank(portrait: Portrait, counts: Counter[tuple[str, str]] = counts) -> tuple[Any, ...]:
            cell = [portrait.labels.get(d, "") for d in others]
            n_alike = sum(counts[d, word] for d, word in zip(others, cell, strict=True))
            return (
                n_alike,
                digest("calibrate", cell=cell, seed=options.seed),
                digest("calibrate", portrait=portrait.key, seed=options.seed),
            )

        for _ in range(min(options.portraits, len(left))):
            best = min(left, key=rank)
            left.remove(best)
            selected.append(best)
            counts.update((d, best.labels.get(d, "")) for d in others)
    return selected


def _reference(protocol: Protocol) -> str:
    return next(iter(protocol.groups.reference_group), next(iter(protocol.groups.dimensions)))


def other_person(audited: Design, portrait: Portrait) -> Portrait | None:
    """Somebody of another group of the reference dimension, equal in the others; None where there is nobody."""
    protocol, seed = audited.config.protocol, audited.config.audit.calibrating.seed
    reference = _reference(protocol)
    others = [dimension for dimension in protocol.groups.dimensions if dimension != reference]
    candidates = [
        other
        for other in audited.portraits
        if other.labels.get(reference, "") not in ("", portrait.labels.get(reference))
        and all(other.labels.get(d) == portrait.labels.get(d) for d in others)
    ]
    return min(
        candidates, key=lambda other: digest("partner", a=portrait.key, b=other.key, seed=seed), default=None
    )


def count_calibration_calls(audited: Design) -> dict[str, int]:
    """Judge -> how many calls calibrating it takes, at most."""
    pairs = len(calibration_design(audited).trials)
    return {judge: pairs * len(views(audited)) for judge in audited.judges}


# The work


def calibrate(config: Config, progress: Progress) -> Calibration:
    """Make and judge every pair that is still missing, and return what came of it. Editors are not needed."""
    if config.protocol.calibration is None:
        raise InputError(
            "The protocol has no calibration.yaml, so it is not known what pairs to show to judges.",
            "`stillme init --protocol FOLDER` writes one to start from.",
        )
    if all(prepared.derived for prepared in config.judges.values()):
        raise InputError("The audit has no judge to calibrate.", "Add one to 'judges'.")
    check_keys(config, ("sources", "judges"))
    # Pairs are made on this machine, and are nobody's edits, so the audit's limit of edits is not theirs.
    engine = config.audit.engine.model_copy(update={"kind": "local"})
    budgets = config.audit.budgets.model_copy(update={"edits": None})
    local = replace(config, audit=config.audit.model_copy(update={"engine": engine, "budgets": budgets}))
    stop = StopEvent()
    with Run.open_for_writing(config.run, config.protocol, config.audit.objects) as run:
        budget = Budget(local, run.spent_usd())
        audited = make_design(config, gather(run, config, progress), run)
        pairs = replace(calibration_design(audited), config=local)
        pictures = {trial.image for trial in pairs.trials}
        if not pictures:
            raise InputError("No portrait is of a group that the protocol knows.", "Check the audit's sources.")
        if any(key_in(images.comment(run.image(picture))) is None for picture in pictures):
            require_packages(("cv2",), "Finding skin in photographs")
        for maker in config.makers.values():
            run.add_settings("editor", maker.effective)
        record_design(run, replace(audited, trials=pairs.trials))  # before anything is spent
        edit(run, pairs, progress, stop, budget)
        judge(run, pairs, progress, stop, budget)
        if stop.reason == INTERRUPTED:
            raise KeyboardInterrupt
        n_pairs, n_verdicts = len(pending_edits(run, pairs)), len(pending_judge_tasks(run, pairs))
        if n_pairs or n_verdicts:
            reason = stop.reason or budget.reason or "some calls failed"
            raise IncompleteError(
                f"The calibration is incomplete (pairs missing: {n_pairs:,}, verdicts missing: {n_verdicts:,}) "
                f"because {reason}.",
                f"Everything done is kept in {run.path}; run the same command again to go on.",
            )
        result = findings(run, audited)
        assert result is not None  # every pair has a verdict
        return result


# What came of it


def findings(run: Run, audited: Design) -> Calibration | None:
    """The calibration that the run has for this audit; None where no judge has looked at a pair."""
    if not run.query("SELECT 1 FROM trial WHERE experiment = ? LIMIT 1", (CALIBRATE,)):
        return None
    if audited.config.protocol.calibration is None or not audited.judges:
        return None
    from stillme.stats.calibration import calibration

    frame, judge_by_subject = _score_frame(run, calibration_design(audited))
    if not judge_by_subject:
        return None
    return calibration(frame, audited.config.protocol, _cost_frame(run, list(audited.judges), judge_by_subject))


def _score_frame(run: Run, pairs: Design) -> tuple[pl.DataFrame, dict[str, str]]:
    """Every task × axis with its score; and the subject of its attempts -> judge, of the tasks that ended."""
    import polars as pl

    protocol, disclosed = pairs.config.protocol, pairs.config.disclose
    reference, axes = _reference(protocol), list(protocol.axes)
    columns = ", ".join(f's."{axis}"' for axis in axes)
    verdicts = {
        key: (status, call, dict(zip(axes, scores, strict=True)))
        for key, status, call, *scores in run.query(
            f"SELECT v.key, v.status, v.call, {columns} FROM verdict v LEFT JOIN score s ON s.verdict = v.key"  # noqa: S608 (axes are words by the schema, and quoted)
        )
    }
    people = {portrait.key: portrait for portrait in pairs.portraits}
    edit_status = dict(run.query("SELECT key, status FROM edit"))
    keys = {_task_id(task): task.key for task in calibration_tasks(run, pairs)}
    rows: list[dict[str, Any]] = []
    judge_by_subject: dict[str, str] = {}
    for trial in pairs.trials:
        labels = people[trial.portrait].labels
        ended = edit_status.get(trial.edit, Status.PENDING.value)
        waiting = Status.PENDING.value if ended == Status.OK.value else ended
        for dimensions, repeat in views(pairs):
            disclosed_labels = tuple(name for name in dimensions if name in labels)
            for name in pairs.judges:
                key = keys.get((trial.key, name, disclosed_labels, repeat), "")
                status, call, scores = verdicts.get(key, (waiting, "", {}))
                if key in verdicts:
                    judge_by_subject[call or key] = name
                task = {
                    "judge": name,
                    "kind": trial.prompt,
                    "person": trial.portrait,
                    reference: labels.get(reference),
                    "as_audited": dimensions == disclosed,
                    "told": set(dimensions) == set(protocol.groups.dimensions),
                    "repeat": repeat,
                    "status": status,
                }
                rows += [
                    {**task, "axis": axis, "score": scores.get(axis)} for axis in protocol.axes_of(trial.prompt)
                ]
    schema: dict[str, Any] = dict.fromkeys(("judge", "kind", "person", reference), pl.String)
    schema |= {"as_audited": pl.Boolean, "told": pl.Boolean, "repeat": pl.Int64}
    schema |= {"status": pl.String, "axis": pl.String, "score": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row"), judge_by_subject


def _task_id(task: JudgeTask) -> tuple[str, str, tuple[str, ...], int]:
    return task.trial.key, task.judge, tuple(task.disclosed), task.repeat


def _cost_frame(run: Run, judges: list[str], judge_by_subject: dict[str, str]) -> pl.DataFrame:
    """Judge -> attempts and cost of its calls."""
    import polars as pl

    attempts: Counter[str] = Counter()
    cost: dict[str, float] = dict.fromkeys(judges, 0.0)
    for subject, spent in run.query("SELECT subject, cost_usd FROM attempt"):
        if subject in judge_by_subject:
            attempts[judge_by_subject[subject]] += 1
            cost[judge_by_subject[subject]] += spent
    rows = [(judge, attempts[judge], cost[judge]) for judge in judges]
    schema: dict[str, Any] = {"judge": pl.String, "attempts": pl.Int64, "cost_usd": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def to_dict(found: Calibration) -> dict[str, Any]:
    """For scripts: judge -> its verdict, the reasons, and the figures behind them."""
    tables = {"specificity": found.specificity, "sensitivity": found.sensitivity, "retest": found.retest}
    return {
        judge: {
            "verdict": found.verdict(judge).value,
            "reasons": list(found.reasons(judge)),
            **found.took.filter(judge=judge).drop("judge").to_dicts()[0],
            **{name: frame.filter(judge=judge).drop("judge").to_dicts() for name, frame in tables.items()},
        }
        for judge in found.judges
    }
