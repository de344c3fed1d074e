"""A gate in words: the table that fits a terminal, and the page that a summary of a workflow shows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from stillme.analysis.numbers import bracket, count, percent, points
from stillme.assurance.gate.results import Gated, Result, allowed
from stillme.assurance.gate.verdicts import Effect, Verdict
from stillme.core.text import plainly, table

WIDTH = 100
RULE, ABOUT = 2, 3  # the columns that give way
UNITS = "In percent, or in percentage points where no % stands; brackets are 95 % intervals."
HEAD = ("gate", "verdict", "rule", "about", "number", "allowed")


def words(gated: Gated) -> str:
    """For a terminal: every verdict in a line, a sentence on whatever did not pass, the gate last."""
    head = f"{plainly(gated.name)}: {plainly(gated.run)} by {gated.policy}"
    lines = [*textwrap.wrap(head, WIDTH, subsequent_indent="  ", break_long_words=False), ""]
    lines.append(table(HEAD, _fitting([_row(one) for one in gated.results]), right={4, 5}))
    lines += ["", UNITS]
    told = [one for one in gated.results if one.verdict not in (Verdict.PASS, Verdict.SKIPPED)]
    told += [one for one in gated.results if one.verdict is Verdict.SKIPPED]
    for one in told:
        said = f"{one.verdict.value}, {plainly(one.rule)}: {plainly(one.said)}"
        lines += ["", *textwrap.wrap(said, WIDTH, subsequent_indent="  ")]
    return "\n".join([*lines, "", gated.summary])


def _row(one: Result) -> tuple[str, ...]:
    return (
        "" if one.effect is Effect.NONE else one.effect.value,
        one.verdict.value,
        plainly(one.rule),
        plainly(one.about),
        one.number,
        _limit(one),
    )


def _limit(one: Result) -> str:
    figure = one.figure
    ends = [("≥", figure.at_least), ("≤", figure.at_most)]
    return " ".join(f"{sign} {points(value)}" for sign, value in ends if value is not None)


def _fitting(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """With names as short as the numbers beside them require."""
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    room = WIDTH - 2 * (len(HEAD) - 1) - sum(width for at, width in enumerate(widths) if at not in (RULE, ABOUT))
    rule = min(widths[RULE], max(room // 2, room - widths[ABOUT]))
    longest = {RULE: rule, ABOUT: room - rule}
    return [tuple(_short(cell, longest.get(at, WIDTH)) for at, cell in enumerate(row)) for row in rows]


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# Markdown


def page(gated: Gated) -> str:
    """One Markdown page, the gate first."""
    return "\n".join(_page(gated)) + "\n"


def _page(gated: Gated) -> Iterator[str]:
    yield f"## {_escaped(gated.name)}: {gated.word}"
    yield from ("", _escaped(gated.summary), "")
    yield "| gate | verdict | rule | about | number | 95 % interval | n | persons | allowed |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|"
    for one in gated.results:
        yield "| " + " | ".join(_escaped(cell) for cell in _cells(one)) + " |"
    yield ""
    for one in gated.results:
        if one.verdict is not Verdict.PASS:
            yield f"- **{one.verdict.value}**, {_escaped(one.rule)}: {_escaped(one.said)}"
    yield from ("", f"Of {_escaped(gated.run)}, by {_escaped(str(gated.policy))}.")


def _cells(one: Result) -> tuple[str, ...]:
    figure = one.figure
    told = points if figure.is_difference else percent
    unit = " points" if figure.is_difference and figure.estimate is not None else ""
    counts = ["" if number is None else count(number) for number in (figure.n, figure.persons)]
    known = figure.low is not None or figure.high is not None
    ends = "counted" if figure.is_counted else bracket(figure.low, figure.high) if known else ""
    number = "" if figure.estimate is None else f"{told(figure.estimate)}{unit}"
    return (_row(one)[0], one.verdict.value, one.rule, one.about, number, ends, *counts, allowed(figure))


def _escaped(text: str) -> str:
    """As text, whatever a name holds: no markup, no tags, no new lines."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", plainly(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
