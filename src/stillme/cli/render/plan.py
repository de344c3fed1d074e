"""The plan that `stillme check` prints: what is asked for, what is done, what is missing, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.cli.render import wrap
from stillme.core.records import CONTROLS, DIAGNOSE
from stillme.core.text import table
from stillme.plan.config import Config
from stillme.steps.forecast import ENOUGH, Ahead, Cost, ExperimentAhead, JudgeAhead, Outlook

NAME_WIDTH = 26  # columns of an editor's or a judge's name: nine columns of an editors' row still fit in 100
_EDITOR_HEAD = ("editor", "images", "trials", "controls", "done", "missing", "time", "cost in USD")
_EXPERIMENT_HEAD = ("experiment", "trials", "edits missing", "verdicts missing", "cost in USD")
_REMOTE_COLUMNS = ("asked", "second looks")  # columns that only judges behind a network have


def render_plan(config: Config, plan: Outlook) -> str:
    """Return the whole plan as text."""
    lines = [
        f"{config.audit.name}: valid. Protocol {config.protocol.name}, preset {config.audit.preset}.",
        _size(plan),
        "",
        table(("", "done", "missing"), list(_totals(plan))),
        "",
        *_experiments(plan),
        table(_EDITOR_HEAD, [_editor_row(editor) for editor in plan.ahead], right=range(1, 7)),
        "",
        *_judges(plan),
        *_notes(plan),
    ]
    for source in config.sources.values():
        for caveat in source.caveats:
            lines += [*wrap(caveat), ""]
    lines += [*_calibration(plan), _remaining(plan), *_budget(plan), f"Run directory: {config.run}"]
    if any(backend.simulated for backend in (*config.editors.values(), *config.judges.values())):
        lines.insert(1, "Some editors or judges are simulated: what they show was planted, not found.")
    return "\n".join(lines)


def _size(plan: Outlook) -> str:
    trials = f"{plan.portraits} portraits, {plan.editors} editors: {plan.trials:,} trials"
    if not _has_more_than_diagnosis(plan):
        grid = f"{plan.portraits} portraits × {plan.prompts} prompts × {plan.editors} editors"
        trials = f"{grid}: {plan.trials:,} trials"
    return f"{trials}, and {plan.controls:,} negative controls" if plan.controls else trials


def _has_more_than_diagnosis(plan: Outlook) -> bool:
    return any(row.experiment not in (DIAGNOSE, CONTROLS) for row in plan.experiments)


def _totals(plan: Outlook) -> Iterator[tuple[str, ...]]:
    yield "edits", f"{plan.edits_done:,}", f"{plan.edits_missing:,}"
    if plan.measurements_done or plan.measurements_missing:
        yield "measurements", f"{plan.measurements_done:,}", f"{plan.measurements_missing:,}"
    yield "verdicts", f"{plan.verdicts_done:,}", f"{plan.verdicts_missing:,}"
    if plan.repeats_done or plan.repeats_missing:
        yield "second looks", f"{plan.repeats_done:,}", f"{plan.repeats_missing:,}"


# Tables


def _experiments(plan: Outlook) -> Iterator[str]:
    """Each with its trials, calls and cost, where there is more than the diagnosis."""
    if not _has_more_than_diagnosis(plan):
        return
    yield table(_EXPERIMENT_HEAD, [_experiment_row(row) for row in plan.experiments], right=range(1, 4))
    for row in plan.experiments:
        for note in _experiment_notes(row):
            yield from wrap(f"{row.experiment}: {note}", rest="  ")
    yield ""


def _experiment_row(row: ExperimentAhead) -> tuple[str, ...]:
    at_most = "at most " if row.most else ""
    counts = (f"{at_most}{row.trials:,}", f"{row.edits_missing:,}", f"{row.verdicts_missing:,}")
    calls = row.edits_missing + row.verdicts_missing + row.portraits_missing
    return row.experiment, *counts, _cost_cell(row.cost, calls)


def _experiment_notes(row: ExperimentAhead) -> Iterator[str]:
    if row.portraits_missing:
        yield f"features are still to be read off {row.portraits_missing:,} portraits, before anything is edited."
    if row.most:
        yield "its cases are drawn once the verdicts of the diagnosis are complete; there may be fewer."
    yield from row.notes


def _editor_row(editor: Ahead) -> tuple[str, ...]:
    counts = (editor.images, editor.trials, editor.controls, editor.done, editor.missing)
    return (
        _shorten(editor.editor),
        *(f"{number:,}" for number in counts),
        format_duration(editor.seconds),
        _cost_cell(editor.cost, editor.missing),
    )


def _judges(plan: Outlook) -> Iterator[str]:
    hidden = () if any(judge.is_remote for judge in plan.judges) else _REMOTE_COLUMNS
    rows = [
        {name: cell for name, cell in _judge_cells(judge).items() if name not in hidden} for judge in plan.judges
    ]
    if rows:
        right = range(1 if hidden else 2, len(rows[0]) - 1)
        yield table(tuple(rows[0]), [tuple(row.values()) for row in rows], right)
        yield ""


def _judge_cells(judge: JudgeAhead) -> dict[str, str]:
    """Heading -> cell. How long a batch takes is up to the service, so it has no time."""
    how = "here" if not judge.is_remote else "live" if judge.batch_wait_s is None else "batch"
    return {
        "judge": _shorten(judge.judge),
        "asked": how,
        "done": f"{judge.done:,}",
        "missing": f"{judge.missing:,}",
        "second looks": f"{judge.repeats_missing:,}" if judge.is_remote else "–",
        "time": "–" if how == "batch" else format_duration(judge.seconds),
        "cost in USD": _cost_cell(judge.cost, judge.calls),
    }


def _shorten(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


# Sentences that no table has room for


def _notes(plan: Outlook) -> Iterator[str]:
    """Yield where times and prices come from, what is needed, and what has no effect."""
    sentences: list[str] = []
    for editor in plan.ahead:
        sentences += [*_backend_notes(editor.editor, editor, editor.missing), *_memory(editor, plan)]
    for judge in plan.judges:
        sentences += _backend_notes(judge.judge, judge, judge.calls)
        if judge.batch_wait_s is not None and judge.calls:
            wait = format_duration(judge.batch_wait_s)
            waiting = f"a run waits at most {wait}, and the next one fetches what is left."
            sentences.append(f"{judge.judge}: asked in batches; {waiting}")
    second_looks = (
        "Second looks: judges behind a network look at a random share of the edits twice, to show how far "
        "they agree with themselves. They are in no score; the share is set under judging: repeats."
    )
    for sentence in (*_sources_of_times(plan), *([second_looks] if plan.repeats_missing else ()), *sentences):
        yield from wrap(sentence, rest="  ")
    if sentences or plan.ahead:
        yield ""


def _sources_of_times(plan: Outlook) -> Iterator[str]:
    live_judges = [
        judge for judge in plan.judges if judge.calls and judge.is_remote and judge.batch_wait_s is None
    ]
    rows: list[tuple[str, Ahead | JudgeAhead]] = [(editor.editor, editor) for editor in plan.ahead]
    rows += [(judge.judge, judge) for judge in live_judges]
    measured = [f"{name} ({_seconds(row.seconds_a_call)} a call)" for name, row in rows if row.measured]
    if measured:
        yield f"Times of {', '.join(measured)} are those of this run's own calls."
    if any(not row.measured and row.missing for _, row in rows):
        others = "of the others " if measured else ""
        yield f"Times {others}are guesses until {ENOUGH} calls of an editor or a judge are done."


def _backend_notes(name: str, row: Ahead | JudgeAhead, calls: int) -> Iterator[str]:
    if row.price_date and calls:
        yield f"{name}: prices as of {row.price_date}; they change without notice."
    if not row.cost.known:
        yield f"{name}: its price is not known, so a budget sees it only after the first call."
    for parameter, reason in row.dropped.items():
        yield f"{name}: {parameter} will have no effect: {reason.rstrip('.')}."
    for caveat in row.caveats:
        yield f"{name}: {caveat}"


def _memory(editor: Ahead, plan: Outlook) -> Iterator[str]:
    if editor.vram_gb is None:
        return
    need = f"{editor.editor}: needs about {editor.vram_gb:g} GB of GPU memory"
    if plan.gpus is None:
        yield f"{need}; which cards it will meet is not known here."
    elif not plan.gpus:
        yield f"{need}; no NVIDIA card is to be seen on this machine."
    else:
        cards = ", ".join(f"{gpu.name} ({gpu.memory_gb:g} GB)" for gpu in plan.gpus)
        fits = max(gpu.memory_gb for gpu in plan.gpus) >= editor.vram_gb
        yield f"{need}; {'' if fits else 'too much for '}this machine{' has' if fits else ''}: {cards}."


def _calibration(plan: Outlook) -> Iterator[str]:
    """Yield what is known of the judges before they are paid for."""
    verdicts = [f"{row.judge} {row.verdict}" for row in plan.calibration if row.verdict]
    if verdicts:
        yield from wrap(f"Calibration of the judges: {', '.join(verdicts)}.")
    elif plan.calibration:
        calls = max(row.calls for row in plan.calibration)
        cost = _cost_sentence(sum((row.cost for row in plan.calibration), Cost()))
        yield from wrap(
            f"The judges are not calibrated yet: `stillme calibrate` asks each {calls:,} times, {cost} in all."
        )


def _remaining(plan: Outlook) -> str:
    in_batches = any(judge.batch_wait_s is not None and judge.calls > 0 for judge in plan.judges)
    waiting = " and the time that batches take" if in_batches else ""
    duration = f"about {format_duration(plan.seconds)}{waiting}"
    return f"Expected for what is missing: {_cost_sentence(plan.cost)}, {duration}."


def _budget(plan: Outlook) -> Iterator[str]:
    """Yield whether the limit is enough for what is missing, where there is one."""
    if plan.budget_usd is None:
        return
    remaining = max(0.0, plan.budget_usd - plan.spent_usd)
    budget = f"Budget: {plan.budget_usd:,.2f} USD, {plan.spent_usd:,.2f} spent, {remaining:,.2f} left: "
    if plan.cost.expected > remaining:
        yield f"{budget}the run will stop before it is complete."
    elif plan.cost.high > remaining or not plan.cost.known:
        yield f"{budget}enough for what is expected, not for the highest prices."
    else:
        yield f"{budget}enough."


# Numbers


def _cost_cell(cost: Cost, calls: int) -> str:
    """Where nothing is missing there is nothing to pay, which is not to say that it is free."""
    if not calls:
        return "–"
    if not cost.known:
        return "no price known"
    if not cost.high:
        return "free"
    return f"{cost.expected:,.2f}{_cost_range(cost)}"


def _cost_sentence(cost: Cost) -> str:
    text = f"{cost.expected:,.2f} USD{_cost_range(cost)}"
    return text if cost.known else f"{text} and what has no known price"


def _cost_range(cost: Cost) -> str:
    return "" if cost.low == cost.high else f" ({cost.low:,.2f} to {cost.high:,.2f})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 90 else format_duration(seconds)


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit in which it is at least one and a half."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
