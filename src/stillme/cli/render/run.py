"""A run on a terminal: how far it is, what a restored ledger has again, how its judges were calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stillme.cli.render import wrap
from stillme.core.records import CONTROLS, DIAGNOSE, Status
from stillme.core.text import table

if TYPE_CHECKING:
    from stillme.ledger.backup import Restored
    from stillme.stats.calibration import Calibration

# How far a run is


def render_status(status: Mapping[str, Any]) -> str:
    """Return the progress of a run, as `pipeline.status` counts it."""
    rows = [("edits", _counts(status["edits"]), f"{status['edits_missing']:,}")]
    rows += [(f"measure {name}", _counts(counts), "") for name, counts in status["measurements"].items()]
    if status["measurements"]:
        n_measured = sum(sum(counts.values()) for counts in status["measurements"].values())
        rows.append(("measurements in all", f"{n_measured:,}", f"{status['measurements_missing']:,}"))
    rows += [(f"verdicts of {judge}", _counts(counts), "") for judge, counts in status["verdicts"].items()]
    rows.append(("verdicts in all", f"{status['verdicts_done']:,}", f"{status['verdicts_missing']:,}"))
    if status["second_looks_done"] or status["second_looks_missing"]:
        rows.append(("second looks", f"{status['second_looks_done']:,}", f"{status['second_looks_missing']:,}"))
    rows += _experiments(status)
    controls = f" and {status['controls']:,} controls" if status["controls"] else ""
    head = f"{status['name']}: {status['trials']:,} trials{controls}, protocol {status['protocol']}"
    head += f", preset {status['preset']}"
    return f"{head}\n{table(('', 'done', 'missing'), rows)}\nSpent: {status['cost_usd']:,.2f} USD"


def _counts(counts: Mapping[str, int]) -> str:
    """ok first, then every other status that calls ended with."""
    texts = [f"{counts.get(Status.OK, 0):,} ok"]
    texts += [f"{number:,} {Status(word).label}" for word, number in counts.items() if word != Status.OK]
    return ", ".join(texts)


def _experiments(status: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Experiment by experiment, where there is more than the diagnosis."""
    if set(status["experiments"]) - {DIAGNOSE, CONTROLS}:
        for name, counts in status["experiments"].items():
            missing = f"{counts['edits_missing']:,} edits, {counts['verdicts_missing']:,} verdicts"
            is_done = not counts["edits_missing"] and not counts["verdicts_missing"]
            yield f"experiment {name}", f"{counts['trials']:,} trials", "nothing" if is_done else missing
    if features := status["features"]:
        marked = f", {features['marked']:,} of them marked" if features.get("marked") else ""
        yield (
            "features read off portraits",
            f"{features.get('ok', 0):,} ok{marked}",
            f"{features.get('missing', 0):,}",
        )


def describe_image_faults(faults: Sequence[str]) -> tuple[str, str]:
    """Return what is wrong with images, and what to do about it."""
    listed = "\n".join(f"  {fault}" for fault in faults)
    return f"{len(faults):,} of the run's images are damaged or missing:\n{listed}\n", (
        "Put them back from a copy of your own. A portrait is also put back by `stillme run`, from its source, "
        "when the damaged file is deleted."
    )


# A restored ledger


def render_restore_result(restored: Restored, run: Path) -> str:
    """Return what a ledger has again, and what has to be made again. A count of None: too damaged to count."""
    rows = ", ".join(f"{number:,} {name}s" for name, number in restored.rows.items() if number)
    lost = ", ".join(
        f"{name}s that can no longer be counted" if number is None else f"{number:,} {name}s"
        for name, number in restored.lost.items()
        if number != 0
    )
    loss = f"It had more than that: {lost}." if lost else "It had no more than that: nothing is lost."
    return (
        f"The ledger of {run} is the one of {restored.when} again: {rows}.\n{loss}\n"
        f"The damaged one is kept as {restored.aside}; images are all where they were.\n"
        "What it costs to make up for it says `stillme check` with the audit's file; `stillme run` does it."
    )


# Calibration of the judges


def render_calibration(calibration: Calibration) -> str:
    """Return every judge's verdict, and why."""
    return "\n\n".join("\n".join(_judge(calibration, judge)) for judge in calibration.judges)


def _judge(calibration: Calibration, judge: str) -> Iterator[str]:
    ((attempts, cost),) = calibration.took.filter(judge=judge).select("attempts", "cost_usd").iter_rows()
    yield f"{judge}: {calibration.verdict(judge).value} ({attempts:,} calls, {cost:.2f} USD)"
    sentences = []
    n_looks: dict[str, int] = {}
    for status, number in calibration.missing.filter(judge=judge).select("status", "looks").iter_rows():
        n_looks[status] = n_looks.get(status, 0) + number
    without = [f"{number:,} {Status(word).label}" for word, number in n_looks.items() if word != Status.OK.value]
    if without:
        sentences.append(f"Looks without a score: {', '.join(without)}.")
    own_rulings = [ruling for ruling in calibration.rulings if ruling.judge == judge]
    sentences += calibration.reasons(judge) or [rule.said for rule in own_rulings if rule.rule == "Group gap"]
    for label, frame in (
        ("unchanged pairs scored neutral", calibration.specificity),
        ("direction of a skin shift seen", calibration.sensitivity),
        ("second look within one point", calibration.retest),
    ):
        rates = frame.filter(judge=judge)
        if "group" in rates.columns:  # the shares of everyone alone
            rates = rates.filter(rates["group"].is_null())
        if rates.height:
            sentences.append(f"{label}: {', '.join(map(_rate, rates.to_dicts()))}")
    for sentence in sentences:
        yield from wrap(sentence, "  ", "    ", width=98)


def _rate(row: Mapping[str, Any]) -> str:
    about = f"{row['size']:g} L*" if row.get("size") is not None else str(row["axis"]).replace("_", " ")
    rate = "–" if row["rate"] is None else f"{row['rate'] * 100:.0f} %"
    return f"{about} {rate}"
