"""What a run would do, before anything is written or spent: what is missing, its time, its cost, editor by editor
and judge by judge.

No model is loaded and no service is asked. Times come from the run's own calls once there are a few of them, and
from the backends' own guesses before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from stillme.core import gpus
from stillme.core.gpus import Gpu
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, Status, Trial
from stillme.engine.backends import ExecutionMode, PreparedSystem, Price
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.config import Config, check_keys
from stillme.plan.design import Design, PlanInputs, load_plan_inputs, make_design, with_placeholders
from stillme.steps.calibrate import count_calibration_calls, findings
from stillme.steps.judge import all_judge_tasks, pending_judge_tasks
from stillme.steps.measure import count_measurements, pending_measurements, select_measured_trials
from stillme.steps.portraits import list_portraits

# calls of an editor or a judge after which the median of its own times replaces the guess
MIN_CALLS_FOR_ESTIMATE = 5
VRAM = "vram_gb"


@dataclass(frozen=True)
class Cost:
    """In USD. `known` is false where an editor may cost something and nobody knows how much."""

    low: float = 0.0
    expected: float = 0.0
    high: float = 0.0
    known: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            low=self.low + other.low,
            expected=self.expected + other.expected,
            high=self.high + other.high,
            known=self.known and other.known,
        )


@dataclass(frozen=True, kw_only=True)
class EditorForecast:
    """What is ahead of one editor. `measured`: its pace is that of its own calls, not a guess.

    `dropped`: parameter -> why it will have no effect. `vram_gb`: what it needs; None where it does not say.
    """

    editor: str
    trials: int
    controls: int
    done: int
    missing: int
    seconds: float
    seconds_a_call: float
    measured: bool
    cost: Cost
    price_date: str
    vram_gb: float | None
    images: int
    dropped: Mapping[str, str]
    caveats: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class JudgeForecast:
    """What is ahead of one judge. `repeats_…`: second looks, which are in no score.

    `calls`: at most, because looks at equal pixels share one. `batch_wait_s`: how long it is waited for batches,
    whose time nobody knows, so that `seconds` is 0; None where it is asked live.
    """

    judge: str
    done: int
    missing: int
    repeats_done: int
    repeats_missing: int
    calls: int
    is_remote: bool
    batch_wait_s: float | None
    seconds: float
    seconds_a_call: float
    measured: bool
    cost: Cost
    price_date: str
    dropped: Mapping[str, str]
    caveats: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ExperimentForecast:
    """What is ahead of one experiment: its trials, the calls that are missing, and what they cost.

    `portraits_missing`: off which features are still to be read. `most`: the counts are the most that it can be,
    because its cases will be drawn from what another experiment finds. `notes`: what to know before it is run.
    """

    experiment: str
    trials: int
    edits_missing: int
    verdicts_missing: int
    portraits_missing: int
    cost: Cost
    most: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalibrationForecast:
    """What calibrating one judge takes, and what came of it where it was done: passed, failed, or cannot tell."""

    judge: str
    calls: int
    cost: Cost
    verdict: str = ""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a run would do: counts, cost and time of what is missing. Second looks are counted apart.

    `gpus`: this machine's; None where no editor needs one, and where nobody could look.
    """

    portraits: int
    prompts: int
    editors: int
    trials: int
    controls: int
    edits_done: int
    edits_missing: int
    measurements_done: int
    measurements_missing: int
    verdicts_done: int
    verdicts_missing: int
    repeats_done: int
    repeats_missing: int
    cost_usd: float
    cost: Cost
    spent_usd: float
    budget_usd: float | None
    seconds: float
    ahead: tuple[EditorForecast, ...]
    judges: tuple[JudgeForecast, ...]
    gpus: tuple[Gpu, ...] | None
    experiments: tuple[ExperimentForecast, ...]
    calibration: tuple[CalibrationForecast, ...]


def look_ahead(config: Config) -> Forecast:
    """The plan, without writing or spending anything."""
    check_keys(config)
    portraits = list_portraits(config)
    inputs = PlanInputs()
    if (config.run / LEDGER).is_file():
        with Run.open_readonly(config.run) as run:
            run.expect(config.protocol)
            inputs = load_plan_inputs(run, config, portraits)
    design = make_design(config, portraits, inputs=with_placeholders(config, portraits, inputs))
    done = _read_done(config, design)
    edits = design.distinct_edits()
    pending = [trial for trial in edits if trial.edit not in done.edits]
    editors = _forecast_editors(design, pending, done.editor_calls)
    judges = _forecast_judges(design, pending, done)
    # A measurement to come belongs to an edit to come; measuring follows, on as many threads as there are.
    measured_edits = {trial.edit for trial in select_measured_trials(design)}
    n_measurements = sum(trial.edit in measured_edits for trial in pending) * len(design.measures)
    n_measurements += done.measurements_missing
    each = [measure.seconds for measure in config.measures.values()]
    measuring_s = n_measurements * sum(each) / len(each) / config.audit.engine.threads if each else 0.0
    editing_s = _side_by_side((config.editor(one.editor).mode, one.seconds) for one in editors)
    judging_s = _side_by_side((config.judges[one.judge].mode, one.seconds) for one in judges)
    feature_cost = _cost(config.extractor, _count_without_features(design, inputs)) if config.extractor else Cost()
    cost = sum((*(one.cost for one in editors), *(one.cost for one in judges), feature_cost), Cost())
    n_controls = sum(trial.is_control for trial in design.trials)
    # Graphics cards matter where an editor needs one; those of a cluster are not looked at.
    needs_gpu = config.audit.engine.kind != "ray" and any(one.vram_gb for one in editors)
    return Forecast(
        portraits=len(portraits),
        prompts=len({t.prompt for t in design.trials if t.experiment == DIAGNOSE}),
        editors=len(config.editors),
        trials=len(design.trials) - n_controls,
        controls=n_controls,
        edits_done=len(edits) - len(pending),
        edits_missing=len(pending),
        measurements_done=done.measurements,
        measurements_missing=n_measurements,
        verdicts_done=sum(one.done for one in judges),
        verdicts_missing=sum(one.missing for one in judges),
        repeats_done=sum(one.repeats_done for one in judges),
        repeats_missing=sum(one.repeats_missing for one in judges),
        cost_usd=cost.expected,
        cost=cost,
        spent_usd=done.spent_usd,
        budget_usd=config.audit.budgets.cost_usd,
        seconds=editing_s + measuring_s + judging_s,
        ahead=tuple(editors),
        judges=tuple(judges),
        gpus=gpus.detect_gpus() if needs_gpu else None,
        experiments=tuple(_forecast_experiments(design, pending, done, inputs)),
        calibration=tuple(_forecast_calibration(design)),
    )


# What a run has already


@dataclass(frozen=True)
class Call:
    """A call that an editor or a judge answered: when, and for how long."""

    start: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _Done:
    """What a run has already; an edit that was refused has no verdict to wait for.

    Attributes:
        tasks: (judge, is it a repeat, is it done) -> how many.
        pending_tasks: (experiment, judge) -> how many are not done.
        editor_calls: Editor -> its calls; judge_calls: judge -> its calls.
    """

    edits: frozenset[str] = frozenset()
    tasks: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)
    pending_tasks: Counter[tuple[str, str]] = field(default_factory=Counter)
    measurements: int = 0
    measurements_missing: int = 0
    spent_usd: float = 0.0
    editor_calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    judge_calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)


def _read_done(config: Config, design: Design) -> _Done:
    if not (config.run / LEDGER).is_file():
        return _Done()
    with Run.open_readonly(config.run) as run:
        run.expect(config.protocol)
        unmeasured, n_measured = pending_measurements(run, design)
        verdicts = run.keys("verdict")
        tasks = Counter(
            (task.judge, task.repeat > 0, task.key in verdicts) for task in all_judge_tasks(run, design)
        )
        pending = Counter((task.trial.experiment, task.judge) for task in pending_judge_tasks(run, design))
        return _Done(
            edits=frozenset(run.keys("edit")),
            tasks=tasks,
            pending_tasks=pending,
            measurements=n_measured,
            measurements_missing=count_measurements(unmeasured),
            spent_usd=run.spent_usd(),
            editor_calls=_editor_calls(run, design),
            judge_calls=_judge_calls(run, design),
        )


def _judge_calls(run: Run, design: Design) -> dict[str, list[Call]]:
    """Judge -> the calls that it answered, with the same settings."""
    subjects = "SELECT DISTINCT settings, iif(call = '', key, call) AS subject FROM verdict"
    rows = run.query(
        "SELECT v.settings, a.status, a.started, a.seconds "  # noqa: S608 (names are ours, values are parameters)
        f"FROM attempt a JOIN ({subjects}) v ON v.subject = a.subject"
    )
    calls: dict[str, list[Call]] = {}
    for settings, status, started, seconds in rows:
        if Status(status).is_final:
            calls.setdefault(settings, []).append(Call(datetime.fromisoformat(started).timestamp(), seconds))
    return {name: calls.get(settings, []) for name, settings in design.judges.items()}


def _editor_calls(run: Run, design: Design) -> dict[str, list[Call]]:
    """Editor -> the calls that it answered, with the same settings."""
    editor_of = {trial.edit: trial.editor for trial in design.distinct_edits()}
    calls: dict[str, list[Call]] = {}
    for subject, status, started, seconds in run.query("SELECT subject, status, started, seconds FROM attempt"):
        if subject in editor_of and Status(status).is_final:
            call = Call(datetime.fromisoformat(started).timestamp(), seconds)
            calls.setdefault(editor_of[subject], []).append(call)
    return calls


# Editor by editor


def _forecast_editors(
    design: Design, pending: Sequence[Trial], calls: Mapping[str, Sequence[Call]]
) -> list[EditorForecast]:
    n_edits, n_missing = (Counter(trial.editor for trial in some) for some in (design.distinct_edits(), pending))
    n_trials = Counter((trial.editor, trial.is_control) for trial in design.trials)
    forecasts = []
    for name, total in n_edits.items():
        editor, missing = design.config.editor(name), n_missing[name]
        throughput = _throughput(design.config, editor, calls.get(name, ()))
        forecasts.append(
            EditorForecast(
                editor=name,
                trials=n_trials[name, False],
                controls=n_trials[name, True],
                done=total - missing,
                missing=missing,
                seconds=missing * throughput.seconds_per_call / throughput.concurrency,
                seconds_a_call=throughput.seconds_per_call,
                measured=throughput.is_measured,
                cost=_cost(editor, missing),
                price_date=editor.price.date if editor.price else "",
                vram_gb=editor.needs.get(VRAM),
                images=editor.most_images,
                dropped=dict(editor.dropped),
                caveats=editor.caveats,
            )
        )
    return forecasts


def _cost(system: PreparedSystem[Any], calls: float) -> Cost:
    price = system.price or Price(low=system.price_usd, expected=system.price_usd, high=system.price_usd, date="")
    is_known = not system.is_remote or system.price is not None or system.price_usd > 0
    return Cost(
        low=round(calls * price.low, 6),
        expected=round(calls * price.expected, 6),
        high=round(calls * price.high, 6),
        known=is_known or not calls,
    )


@dataclass(frozen=True)
class _Throughput:
    """How long a call takes, and how many are under way at a time."""

    seconds_per_call: float
    concurrency: float
    is_measured: bool


def _throughput(config: Config, system: PreparedSystem[Any], calls: Sequence[Call]) -> _Throughput:
    """As its own calls show once there are enough of them, and a guess before."""
    is_measured = len(calls) >= MIN_CALLS_FOR_ESTIMATE
    if system.mode is ExecutionMode.THREADS:
        concurrency: float = config.audit.engine.threads
    elif is_measured:
        concurrency = overlap(calls)
    else:
        concurrency = system.concurrency if system.is_remote else 1
    seconds = median(call.seconds for call in calls) if is_measured else system.seconds
    return _Throughput(seconds_per_call=seconds, concurrency=concurrency, is_measured=is_measured)


def overlap(calls: Iterable[Call]) -> float:
    """How many calls were under way on average, while any was; pauses between sessions count for nothing.

    >>> overlap([Call(0, 10), Call(0, 10), Call(1000, 10), Call(1000, 10)])
    2.0
    """
    busy, until, total = 0.0, float("-inf"), 0.0
    for call in sorted(calls, key=lambda call: call.start):
        end = call.start + call.seconds
        busy += max(0.0, end - max(call.start, until))
        until = max(until, end)
        total += call.seconds
    return max(1.0, total / busy) if busy else 1.0


def _side_by_side(each: Iterable[tuple[ExecutionMode, float]]) -> float:
    """Quick ones take turns; models and services work beside them. The slowest decides."""
    together, alone = 0.0, [0.0]
    for mode, seconds in each:
        if mode is ExecutionMode.THREADS:
            together += seconds
        else:
            alone.append(seconds)
    return max(together, *alone)


# Experiment by experiment


def _forecast_experiments(
    design: Design, pending: Sequence[Trial], done: _Done, inputs: PlanInputs
) -> Iterator[ExperimentForecast]:
    """An edit that several experiments need is counted in the first of them."""
    config = design.config
    for name, n_trials in Counter(trial.experiment for trial in design.trials).items():
        is_mitigation = name == MITIGATE
        n_edits = Counter(trial.editor for trial in pending if trial.experiment == name)
        n_verdicts = {judge: done.pending_tasks[name, judge] for judge in design.judges}
        if name != CONTROLS:
            for judge in _asked_judges(design):
                n_verdicts[judge] += n_edits.total()
        n_portraits = _count_without_features(design, inputs) if is_mitigation else 0
        costs = [_cost(config.editor(editor), count) for editor, count in n_edits.items()]
        for judge, count in n_verdicts.items():
            repeats = config.audit.judging.repeats if config.judges[judge].is_remote else 0.0
            costs.append(_cost(config.judges[judge], count * (1 + repeats) if repeats else count))
        costs += [_cost(config.extractor, n_portraits)] if config.extractor else []
        yield ExperimentForecast(
            experiment=name,
            trials=n_trials,
            edits_missing=n_edits.total(),
            verdicts_missing=sum(n_verdicts.values()),
            portraits_missing=n_portraits,
            cost=sum(costs, Cost()),
            most=is_mitigation and config.select == "drifted" and inputs.drifted is None,
            notes=tuple(_mitigation_notes(config)) if is_mitigation else (),
        )


def _count_without_features(design: Design, inputs: PlanInputs) -> int:
    """Portraits from which features are still to be read."""
    if design.config.extractor is None:
        return 0
    images = {trial.image for trial in design.trials if trial.experiment == MITIGATE}
    return len(images - set(inputs.features))


def _mitigation_notes(config: Config) -> Iterator[str]:
    wanted, row = config.audit.experiments.mitigate, config.extractor_row
    if config.select == "drifted":
        yield (
            "cases are chosen by the drift that was seen in them, so their second edits will look better even if "
            "nothing helps (regression to the mean); the arm 'reseed' shows by how much."
        )
    if row is not None and wanted is not None and wanted.extractor is None:
        yield f"features are read by the primary judge, {row.id}, which then judges what came of them."


def _forecast_calibration(design: Design) -> Iterator[CalibrationForecast]:
    config = design.config
    if config.protocol.calibration is None:
        return
    calibration = None
    if (config.run / LEDGER).is_file():
        with Run.open_readonly(config.run) as run:
            calibration = findings(run, design)
    verdicts = (
        {} if calibration is None else {name: calibration.verdict(name).value for name in calibration.judges}
    )
    for judge, calls in count_calibration_calls(design).items():
        cost = _cost(config.judges[judge], calls)
        yield CalibrationForecast(judge=judge, calls=calls, cost=cost, verdict=verdicts.get(judge, ""))


def _asked_judges(design: Design) -> list[str]:
    """Judges with equal settings share their tasks: the last one is asked."""
    return list({settings: name for name, settings in design.judges.items()}.values())


# Judge by judge


def _forecast_judges(design: Design, pending: Iterable[Trial], done: _Done) -> list[JudgeForecast]:
    """Verdicts on the edits that are there, and on those that are still to be made, as if none of them failed."""
    config = design.config
    n_edits = sum(not trial.is_control for trial in pending)
    asked = _asked_judges(design)
    forecasts = []
    for name in design.judges:
        judge, to_come = config.judges[name], n_edits if name in asked else 0
        repeats_to_come = round(to_come * config.audit.judging.repeats) if judge.is_remote else 0
        missing, repeats = (
            done.tasks[name, False, False] + to_come,
            done.tasks[name, True, False] + repeats_to_come,
        )
        in_batches = judge.batch_wait_s is not None
        throughput = _throughput(config, judge, () if in_batches else done.judge_calls.get(name, ()))
        seconds = (missing + repeats) * throughput.seconds_per_call / throughput.concurrency
        forecasts.append(
            JudgeForecast(
                judge=name,
                done=done.tasks[name, False, True],
                missing=missing,
                repeats_done=done.tasks[name, True, True],
                repeats_missing=repeats,
                calls=missing + repeats,
                is_remote=judge.is_remote,
                batch_wait_s=judge.batch_wait_s,
                seconds=0.0 if in_batches else seconds,
                seconds_a_call=throughput.seconds_per_call,
                measured=throughput.is_measured,
                cost=_cost(judge, missing + repeats),
                price_date=judge.price.date if judge.price else "",
                dropped=dict(judge.dropped),
                caveats=judge.caveats,
            )
        )
    return forecasts
