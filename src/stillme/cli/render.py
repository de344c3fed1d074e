"""What the terminal shows at the end: plain text tables that fit 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stillme.core.records import CONTROLS, DIAGNOSE, Status
from stillme.core.text import table
from stillme.ledger.backup import Restored
from stillme.measures.pair import Comparison
from stillme.plan.config import Config
from stillme.steps.forecast import ENOUGH, Ahead, Cost, ExperimentAhead, JudgeAhead, Outlook


def outlook(config: Config, plan: Outlook) -> str:
    """The plan: what is asked for, what is done, what is missing, how long it takes and what it costs."""
    lines = [
        f"{config.audit.name}: valid. Protocol {config.protocol.name}, preset {config.audit.preset}.",
        _asked(plan),
        "",
        table(
            ("", "done", "missing"),
            [
                ("edits", f"{plan.edits_done:,}", f"{plan.edits_missing:,}"),
                *_measured(plan),
                ("verdicts", f"{plan.verdicts_done:,}", f"{plan.verdicts_missing:,}"),
                *_second_looks(plan),
            ],
        ),
        "",
        *_experiments(plan),
        table(_AHEAD, [_ahead(one) for one in plan.ahead], right=range(1, 7)),
        "",
        *_judges(plan),
        *_told(plan),
        *_caveats(config),
        *_calibration(plan),
        f"Expected for what is missing: {_range(plan.cost)}, about {_duration(plan.seconds)}{_waiting(plan)}.",
        *_budget(plan),
        f"Run directory: {config.run}",
    ]
    if any(one.simulated for one in (*config.editors.values(), *config.judges.values())):
        lines.insert(1, "Some editors or judges are simulated: what they show was planted, not found.")
    return "\n".join(lines)


_AHEAD = ("editor", "images", "trials", "controls", "done", "missing", "time", "cost in USD")
_NAME = 26  # columns


def _ahead(one: Ahead) -> tuple[str, ...]:
    counts = (one.images, one.trials, one.controls, one.done, one.missing)
    return (
        _cut(one.editor),
        *(f"{number:,}" for number in counts),
        _duration(one.seconds),
        _ahead_cost(one.cost, one.missing),
    )


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


_REMOTE = ("asked", "second looks")  # columns that only judges behind a network have


def _judges(plan: Outlook) -> Iterator[str]:
    hidden = () if any(one.is_remote for one in plan.judges) else _REMOTE
    rows = [{name: cell for name, cell in _judge(one).items() if name not in hidden} for one in plan.judges]
    if rows:
        right = range(1 if hidden else 2, len(rows[0]) - 1)
        yield table(tuple(rows[0]), [tuple(row.values()) for row in rows], right)
        yield ""


def _judge(one: JudgeAhead) -> dict[str, str]:
    """Second looks that are missing; how long a batch takes nobody can tell."""
    how = "here" if not one.is_remote else "live" if one.batch_wait_s is None else "batch"
    return {
        "judge": _cut(one.judge),
        "asked": how,
        "done": f"{one.done:,}",
        "missing": f"{one.missing:,}",
        "second looks": f"{one.repeats_missing:,}" if one.is_remote else "–",
        "time": "–" if how == "batch" else _duration(one.seconds),
        "cost in USD": _ahead_cost(one.cost, one.calls),
    }


def _second_looks(plan: Outlook) -> Iterable[tuple[str, ...]]:
    if plan.repeats_done or plan.repeats_missing:
        yield "second looks", f"{plan.repeats_done:,}", f"{plan.repeats_missing:,}"


def _waiting(plan: Outlook) -> str:
    return " and the time that batches take" if any(_in_batches(one) for one in plan.judges) else ""


def _in_batches(one: JudgeAhead) -> bool:
    return one.batch_wait_s is not None and one.calls > 0


def _ahead_cost(cost: Cost, calls: int) -> str:
    """Where nothing is missing there is nothing to pay, which is not to say that it is free."""
    return _cost(cost) if calls else "–"


def _cost(cost: Cost) -> str:
    if not cost.known:
        return "no price known"
    if not cost.high:
        return "free"
    return f"{cost.expected:,.2f}" if cost.low == cost.high else _spread(cost)


def _spread(cost: Cost) -> str:
    return f"{cost.expected:,.2f} ({cost.low:,.2f} to {cost.high:,.2f})"


def _range(cost: Cost) -> str:
    """The cost of everything that is missing, in a sentence."""
    told = f"{cost.expected:,.2f} USD"
    told += "" if cost.low == cost.high else f" ({cost.low:,.2f} to {cost.high:,.2f})"
    return told if cost.known else f"{told} and what has no known price"


def _told(plan: Outlook) -> Iterator[str]:
    """What a table has no room for: where times and prices come from, what is needed, what has no effect."""
    said = [said for one in plan.ahead for said in (*_notes(one.editor, one, one.missing), *_memory(one, plan))]
    said += [said for one in plan.judges for said in (*_notes(one.judge, one, one.calls), *_batches(one))]
    for sentence in (*_paces(plan), *_again(plan), *said):
        yield from textwrap.wrap(sentence, 100, subsequent_indent="  ")
    if said or plan.ahead:
        yield ""


def _paces(plan: Outlook) -> Iterator[str]:
    judges = [one for one in plan.judges if one.calls and one.is_remote and one.batch_wait_s is None]
    each = [(one.editor, one) for one in plan.ahead] + [(one.judge, one) for one in judges]
    known = [f"{name} ({_seconds(one.seconds_a_call)} a call)" for name, one in each if one.measured]
    if known:
        yield f"Times of {', '.join(known)} are those of this run's own calls."
    if any(not one.measured and one.missing for _, one in each):
        others = "of the others " if known else ""
        yield f"Times {others}are guesses until {ENOUGH} calls of an editor or a judge are done."


def _again(plan: Outlook) -> Iterator[str]:
    if plan.repeats_missing:
        yield (
            "Second looks: judges behind a network look at a random share of the edits twice, to show how far "
            "they agree with themselves. They are in no score; the share is set under judging: repeats."
        )


def _notes(name: str, one: Ahead | JudgeAhead, calls: int) -> Iterator[str]:
    if one.price_date and calls:
        yield f"{name}: prices as of {one.price_date}; they change without notice."
    if not one.cost.known:
        yield f"{name}: its price is not known, so a budget sees it only after the first call."
    for parameter, why in one.dropped.items():
        yield f"{name}: {parameter} will have no effect: {why.rstrip('.')}."
    for said in one.caveats:
        yield f"{name}: {said}"


def _batches(one: JudgeAhead) -> Iterator[str]:
    if one.batch_wait_s is not None and one.calls:
        wait = _duration(one.batch_wait_s)
        yield f"{one.judge}: asked in batches; a run waits at most {wait}, and the next one fetches what is left."


def _memory(one: Ahead, plan: Outlook) -> Iterator[str]:
    if one.vram_gb is None:
        return
    need = f"{one.editor}: needs about {one.vram_gb:g} GB of GPU memory"
    if plan.gpus is None:
        yield f"{need}; which cards it will meet is not known here."
    elif not plan.gpus:
        yield f"{need}; no NVIDIA card is to be seen on this machine."
    else:
        cards = ", ".join(f"{card.name} ({card.memory_gb:g} GB)" for card in plan.gpus)
        fits = max(card.memory_gb for card in plan.gpus) >= one.vram_gb
        yield f"{need}; {'' if fits else 'too much for '}this machine{' has' if fits else ''}: {cards}."


def _budget(plan: Outlook) -> Iterator[str]:
    """Whether the limit is enough for what is missing, where there is one."""
    if plan.budget_usd is None:
        return
    left = max(0.0, plan.budget_usd - plan.spent_usd)
    told = f"Budget: {plan.budget_usd:,.2f} USD, {plan.spent_usd:,.2f} spent, {left:,.2f} left: "
    if plan.cost.expected > left:
        yield f"{told}the run will stop before it is complete."
    elif plan.cost.high > left or not plan.cost.known:
        yield f"{told}enough for what is expected, not for the highest prices."
    else:
        yield f"{told}enough."


def _asked(plan: Outlook) -> str:
    trials = f"{plan.portraits} portraits, {plan.editors} editors: {plan.trials:,} trials"
    if not _has_others(plan):
        grid = f"{plan.portraits} portraits × {plan.prompts} prompts × {plan.editors} editors"
        trials = f"{grid}: {plan.trials:,} trials"
    return f"{trials}, and {plan.controls:,} negative controls" if plan.controls else trials


_EXPERIMENTS = ("experiment", "trials", "edits missing", "verdicts missing", "cost in USD")


def _has_others(plan: Outlook) -> bool:
    return any(one.experiment not in (DIAGNOSE, CONTROLS) for one in plan.experiments)


def _experiments(plan: Outlook) -> Iterator[str]:
    """Each with its trials, calls and cost, where there is more than the diagnosis."""
    if not _has_others(plan):
        return
    yield table(_EXPERIMENTS, [_experiment(one) for one in plan.experiments], right=range(1, 4))
    notes = [f"{one.experiment}: {said}" for one in plan.experiments for said in _experiment_notes(one)]
    for said in notes:
        yield from textwrap.wrap(said, 100, subsequent_indent="  ")
    yield ""


def _experiment(one: ExperimentAhead) -> tuple[str, ...]:
    most = "at most " if one.most else ""
    counts = (f"{most}{one.trials:,}", f"{one.edits_missing:,}", f"{one.verdicts_missing:,}")
    calls = one.edits_missing + one.verdicts_missing + one.portraits_missing
    return one.experiment, *counts, _ahead_cost(one.cost, calls)


def _experiment_notes(one: ExperimentAhead) -> Iterator[str]:
    if one.portraits_missing:
        yield f"features are still to be read off {one.portraits_missing:,} portraits, before anything is edited."
    if one.most:
        yield "its cases are drawn once the verdicts of the diagnosis are complete; there may be fewer."
    yield from one.notes


def _calibration(plan: Outlook) -> Iterator[str]:
    """What is known of the judges before they are paid for."""
    told = [f"{one.judge} {one.verdict}" for one in plan.calibration if one.verdict]
    if told:
        yield from textwrap.wrap(f"Calibration of the judges: {', '.join(told)}.", 100)
    elif plan.calibration:
        calls = max(one.calls for one in plan.calibration)
        cost = _range(sum((one.cost for one in plan.calibration), Cost()))
        said = f"The judges are not calibrated yet: `stillme calibrate` asks each {calls:,} times, {cost} in all."
        yield from textwrap.wrap(said, 100)


def _caveats(config: Config) -> Iterator[str]:
    for one in config.sources.values():
        for said in one.caveats:
            yield from (*textwrap.wrap(said, 100), "")


def _measured(plan: Outlook) -> Iterable[tuple[str, ...]]:
    if plan.measurements_done or plan.measurements_missing:
        yield "measurements", f"{plan.measurements_done:,}", f"{plan.measurements_missing:,}"


def marked(text: str, good: str, bad: str) -> None:
    """Prints a text; on a terminal headings and what these patterns find stand out."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        print(text)
        return
    shown = Text(text)
    shown.highlight_regex(r"(?m)^\S.*$", "bold")
    shown.highlight_regex(good, "green")
    shown.highlight_regex(bad, "yellow")
    console.print(shown)


def status(found: Mapping[str, Any]) -> str:
    """How far a run is."""
    rows = [("edits", _counts(found["edits"]), f"{found['edits_missing']:,}")]
    rows += [(f"measure {name}", _counts(counts), "") for name, counts in found["measurements"].items()]
    if found["measurements"]:
        measured = sum(sum(counts.values()) for counts in found["measurements"].values())
        rows.append(("measurements in all", f"{measured:,}", f"{found['measurements_missing']:,}"))
    rows += [(f"verdicts of {judge}", _counts(counts), "") for judge, counts in found["verdicts"].items()]
    rows.append(("verdicts in all", f"{found['verdicts_done']:,}", f"{found['verdicts_missing']:,}"))
    if found["second_looks_done"] or found["second_looks_missing"]:
        rows.append(("second looks", f"{found['second_looks_done']:,}", f"{found['second_looks_missing']:,}"))
    rows += _each_experiment(found)
    controls = f" and {found['controls']:,} controls" if found["controls"] else ""
    head = f"{found['name']}: {found['trials']:,} trials{controls}, protocol {found['protocol']}"
    head += f", preset {found['preset']}"
    return f"{head}\n{table(('', 'done', 'missing'), rows)}\nSpent: {found['cost_usd']:,.2f} USD"


def image_faults(faults: Sequence[str]) -> tuple[str, str]:
    """What is wrong with images, and what to do."""
    listed = "\n".join(f"  {fault}" for fault in faults)
    said = f"{len(faults):,} of the run's images are damaged or missing:\n{listed}\n"
    return said, (
        "Put them back from a copy of your own. A portrait is also put back by `stillme run`, from its source, "
        "when the damaged file is deleted."
    )


def restored(found: Restored, run: Path) -> str:
    """What a ledger has again, and what is to be made anew."""
    has = ", ".join(f"{number:,} {name}s" for name, number in found.rows.items() if number)
    gone = ", ".join(_gone(name, number) for name, number in found.lost.items() if number != 0)
    lost = f"It had more than that: {gone}." if gone else "It had no more than that: nothing is lost."
    return (
        f"The ledger of {run} is the one of {found.when} again: {has}.\n{lost}\n"
        f"The damaged one is kept as {found.aside}; images are all where they were.\n"
        "What it costs to make up for it says `stillme check` with the audit's file; `stillme run` does it."
    )


def _gone(name: str, number: int | None) -> str:
    return f"{name}s that can no longer be counted" if number is None else f"{number:,} {name}s"


def _each_experiment(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Experiment by experiment, where there is more than the diagnosis."""
    if set(found["experiments"]) - {DIAGNOSE, CONTROLS}:
        for name, counts in found["experiments"].items():
            left = f"{counts['edits_missing']:,} edits, {counts['verdicts_missing']:,} verdicts"
            done = not counts["edits_missing"] and not counts["verdicts_missing"]
            yield f"experiment {name}", f"{counts['trials']:,} trials", "nothing" if done else left
    if found["features"]:
        yield "features read off portraits", _read(found["features"]), f"{found['features'].get('missing', 0):,}"


def _read(counts: Mapping[str, int]) -> str:
    """How many were read, and how many of them still name what they should not."""
    marked = f", {counts['marked']:,} of them marked" if counts.get("marked") else ""
    return f"{counts.get('ok', 0):,} ok{marked}"


def comparison(found: Comparison) -> str:
    """What instruments read off two pictures."""
    rows = [(f"{name}:", said) for name, said in _compared(found)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name.ljust(width)}  {said}".rstrip() for name, said in rows]
    return "\n".join([f"{found.before} → {found.after}", *lines])


def _compared(found: Comparison) -> Iterator[tuple[str, str]]:
    for kind, reading in found.readings.items():
        name = kind.replace("_", " ")
        if reading.status is Status.OK:
            yield from _READ[kind](name, found, reading.figures)
        else:
            yield name, f"not measured: {reading.detail} ({reading.status.label})"


_Lines = Iterator[tuple[str, str]]
_Figures = Mapping[str, float]


def _skin(name: str, found: Comparison, read: _Figures) -> _Lines:
    yield name, f"{found.lightness_change or 0.0:+.2f} L*, {_way(found.lightness_change or 0.0, read)}"
    light = f"{read['background_shift']:+.2f} L* of light" if "background_shift" in read else "none to be seen"
    taken = "taken off" if found.is_controlled else "not taken off: changed, or too little"
    yield "  background", f"{light}, {taken}; skin by itself {read['lightness_shift']:+.2f}"
    yield "  colour", f"hue {read['hue_shift']:+.1f}°, CIEDE2000 {read['delta_e']:.1f}"
    tones = f"L* {read['lightness_before']:.1f} → {read['lightness_after']:.1f}"
    ita = f"ITA {read['ita_before']:.0f}° → {read['ita_after']:.0f}°"
    monk = f"Monk {read['monk_before']:.0f} → {read['monk_after']:.0f}"
    yield "  description", f"{tones}, {ita}, {monk}"
    if read["faces_before"] > 1 or read["faces_after"] > 1:
        yield "  faces", f"{read['faces_before']:.0f} before, {read['faces_after']:.0f} after; one person is read"


def _way(change: float, read: _Figures) -> str:
    """Lighter or darker, unless re-encoding alone moves the reading as far."""
    word = "lighter" if change > 0 else "darker"
    if "noise_floor" not in read:
        return word
    noise = read["noise_floor"]
    if abs(change) <= noise:
        return f"no more than re-encoding alone ({noise:.2f})"
    return f"{word}; re-encoding alone moves it by up to {noise:.2f}"


def _change(name: str, found: Comparison, read: _Figures) -> _Lines:
    yield name, "nothing to be seen" if found.nothing_changed else f"{read['changed_share']:.1%} of the picture"
    similar = f"LPIPS {read['lpips']:.3f}, SSIM {read['ssim']:.3f}"
    yield "  distance", f"{similar}, hash {read['phash_distance']:.0f} of 64 bits"


def _identity(name: str, found: Comparison, read: _Figures) -> _Lines:
    alone = f" (re-encoding alone {read['similarity_reencoded']:.3f})" if "similarity_reencoded" in read else ""
    yield name, f"similarity {read['similarity']:.3f}{alone}; no threshold says who is who"


def _age(name: str, found: Comparison, read: _Figures) -> _Lines:
    yield name, f"{read['age_before']:.0f} → {read['age_after']:.0f} years to the model"
    yield "  its error", f"{_error('age_mae', '{:.0f}')}, in years, against labelled photographs"


def _gender(name: str, found: Comparison, read: _Figures) -> _Lines:
    yield name, f"feminine to the model {read['feminine_before']:.2f} → {read['feminine_after']:.2f}"
    yield "  its error", f"{_error('gender_error', '{:.0%}')} wrong, against labelled photographs"


def _error(figure: str, form: str) -> str:
    """How wrong the model of attributes was on average, and by group; nobody knows which one applies."""
    from stillme.measures.attributes import errors

    overall = next(getattr(row, figure) for row in errors() if row.dimension == "all")
    groups = [getattr(row, figure) for row in errors() if row.dimension != "all"]
    return f"{form.format(overall)} ({form.format(min(groups))} to {form.format(max(groups))} by group)"


_READ = {
    "skin_tone_shift": _skin,
    "change": _change,
    "identity": _identity,
    "apparent_age": _age,
    "gender_presentation": _gender,
}


def _counts(counts: Mapping[str, int]) -> str:
    """ok first, then what else came of it."""
    words = [f"{counts.get(Status.OK, 0):,} ok"]
    words += [f"{number:,} {Status(word).label}" for word, number in counts.items() if word != Status.OK]
    return ", ".join(words)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 90 else _duration(seconds)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
