"""The plan that `stillme check` prints: what is asked for, what is done, what is missing, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.cli.render import wrap
from stillme.core.records import CONTROLS, DIAGNOSE
from stillme.core.text import table
from stillme.plan.config import Config
from stillme.steps.forecast import MIN_CALLS_FOR_ESTIMATE, Cost, EditorForecast, Forecast, JudgeForecast

NAME_WIDTH = 26  # columns of an editor's or a judge's name


def render_plan(config: Config, plan: Forecast) -> str:
    """Return the whole plan as text."""
    has_experiments = any(row.experiment not in (DIAGNOSE, CONTROLS) for row in plan.experiments)
    size = f"{plan.portraits} portraits × {plan.prompts} prompts × {plan.editors} editors"
    if has_experiments:
        size = f"{plan.portraits} portraits, {plan.editors} editors"
    controls = f", and {plan.controls:,} negative controls" if plan.controls else ""
    totals = {
        "edits": (plan.edits_done, plan.edits_missing),
        "measurements": (plan.measurements_done, plan.measurements_missing),
        "verdicts": (plan.verdicts_done, plan.verdicts_missing),
        "second looks": (plan.repeats_done, plan.repeats_missing),
    }
    rows = [
        (name, f"{done:,}", f"{missing:,}")
        for name, (done, missing) in totals.items()
        if done or missing or name in ("edits", "verdicts")
    ]
    lines = [
        f"{config.audit.name}: valid. Protocol {config.protocol.name}, preset {config.audit.preset}.",
        f"{size}: {plan.trials:,} trials{controls}",
        "",
        table(("", "done", "missing"), rows),
        "",
        *(_experiments(plan) if has_experiments else ()),
        *_editors(plan),
        *_judges(plan),
        *_notes(plan),
    ]
    for source in config.sources.values():
        for caveat in source.caveats:
            lines += [*wrap(caveat), ""]
    in_batches = any(judge.batch_wait_s is not None and judge.calls > 0 for judge in plan.judges)
    duration = f"about {format_duration(plan.seconds)}{' and the time that batches take' if in_batches else ''}"
    lines += [
        *_calibration(plan),
        f"Expected for what is missing: {_cost_sentence(plan.cost)}, {duration}.",
        *_budget(plan),
        f"Run directory: {config.run}",
    ]
    if any(backend.simulated for backend in (*config.editors.values(), *config.judges.values())):
        lines.insert(1, "Some editors or judges are simulated: what they show was planted, not found.")
    return "\n".join(lines)


# Tables


def _experiments(plan: Forecast) -> Iterator[str]:
    """Each with its trials, calls and cost."""
    rows, notes = [], []
    for row in plan.experiments:
        trials = f"{'at most ' if row.most else ''}{row.trials:,}"
        cost = _cost_cell(row.cost, row.edits_missing + row.verdicts_missing + row.portraits_missing)
        rows.append((row.experiment, trials, f"{row.edits_missing:,}", f"{row.verdicts_missing:,}", cost))
        if n_portraits := row.portraits_missing:
            unread = f"features are still to be read off {n_portraits:,} portraits, before anything is edited."
            notes.append(f"{row.experiment}: {unread}")
        if row.most:
            later = "its cases are drawn once the verdicts of the diagnosis are complete; there may be fewer."
            notes.append(f"{row.experiment}: {later}")
        notes += [f"{row.experiment}: {note}" for note in row.notes]
    head = ("experiment", "trials", "edits missing", "verdicts missing", "cost in USD")
    yield table(head, rows, right=range(1, 4))
    for note in notes:
        yield from wrap(note, rest="  ")
    yield ""


def _editors(plan: Forecast) -> Iterator[str]:
    rows = []
    for editor in plan.ahead:
        counts = (editor.images, editor.trials, editor.controls, editor.done, editor.missing)
        cost = _cost_cell(editor.cost, editor.missing)
        cells = (*(f"{number:,}" for number in counts), format_duration(editor.seconds), cost)
        rows.append((_shorten(editor.editor), *cells))
    head = ("editor", "images", "trials", "controls", "done", "missing", "time", "cost in USD")
    yield table(head, rows, right=range(1, 7))
    yield ""


def _judges(plan: Forecast) -> Iterator[str]:
    rows = []
    for judge in plan.judges:
        how = "here" if not judge.is_remote else "live" if judge.batch_wait_s is None else "batch"
        rows.append(
            {
                "judge": _shorten(judge.judge),
                "asked": how,
                "done": f"{judge.done:,}",
                "missing": f"{judge.missing:,}",
                "second looks": f"{judge.repeats_missing:,}" if judge.is_remote else "–",
                # How long a batch takes is up to the service.
                "time": "–" if how == "batch" else format_duration(judge.seconds),
                "cost in USD": _cost_cell(judge.cost, judge.calls),
            }
        )
    is_remote = any(judge.is_remote for judge in plan.judges)
    if not is_remote:  # two columns say nothing of judges that are on this machine
        rows = [{name: row[name] for name in row if name not in ("asked", "second looks")} for row in rows]
    if rows:
        right = range(2 if is_remote else 1, len(rows[0]) - 1)
        yield table(tuple(rows[0]), [tuple(row.values()) for row in rows], right)
        yield ""


def _shorten(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


# Sentences that no table has room for


def _notes(plan: Forecast) -> Iterator[str]:
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


def _sources_of_times(plan: Forecast) -> Iterator[str]:
    live_judges = [
        judge for judge in plan.judges if judge.calls and judge.is_remote and judge.batch_wait_s is None
    ]
    rows: list[tuple[str, EditorForecast | JudgeForecast]] = [(editor.editor, editor) for editor in plan.ahead]
    rows += [(judge.judge, judge) for judge in live_judges]
    measured = []
    for name, row in rows:
        s = row.seconds_a_call
        if row.measured:
            text = format_duration(s) if s >= 90 else f"{s:.2f} s" if s < 1 else f"{s:.1f} s"
            measured.append(f"{name} ({text} a call)")
    if measured:
        yield f"Times of {', '.join(measured)} are those of this run's own calls."
    if any(not row.measured and row.missing for _, row in rows):
        others = "of the others " if measured else ""
        yield f"Times {others}are guesses until {MIN_CALLS_FOR_ESTIMATE} calls of an editor or a judge are done."


def _backend_notes(name: str, row: EditorForecast | JudgeForecast, calls: int) -> Iterator[str]:
    if row.price_date and calls:
        yield f"{name}: prices as of {row.price_date}; they change without notice."
    if not row.cost.known:
        yield f"{name}: its price is not known, so a budget sees it only after the first call."
    for parameter, reason in row.dropped.items():
        yield f"{name}: {parameter} will have no effect: {reason.rstrip('.')}."
    for caveat in row.caveats:
        yield f"{name}: {caveat}"


def _memory(editor: EditorForecast, plan: Forecast) -> Iterator[str]:
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


def _calibration(plan: Forecast) -> Iterator[str]:
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


def _budget(plan: Forecast) -> Iterator[str]:
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


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit in which it is at least one and a half."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
