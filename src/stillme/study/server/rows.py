"""What one person gave, as the rows of an export. Left and right are undone here, and nowhere else.

Takes rows of the database that were read together; whose they are it knows by pseudonym only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from stillme.study.bundle import CANNOT_DETERMINE, CHECK, COMMENT, LEFT, RIGHT, Bundle
from stillme.study.db.attention import needed
from stillme.study.db.deal import Deal, Screen, is_passed, questions
from stillme.study.db.tables import answer, opening, operation
from stillme.study.server import quality
from stillme.study.server.codebook import PARTICIPANTS, REVIEW
from stillme.study.server.quality import Given, Quality

SINGLE = "single"
BY_HAND, BY_RULE = "by_hand", "rule"

Row = dict[str, Any]


class Sat:
    """One sitting with its answers."""

    def __init__(self, connection: Connection, bundle: Bundle, row: Any, rater: str) -> None:
        self._bundle, self._row, self._rater = bundle, row, rater
        self._deal = Deal.model_validate_json(row.dealt)
        answers = connection.execute(select(answer).where(answer.c.sitting == row.id)).all()
        self._answers = {(one.item, one.field): one for one in answers}
        opened = connection.execute(select(opening).where(opening.c.sitting == row.id)).all()
        self._opened = {one.item: one for one in opened}

    @property
    def given(self) -> Sequence[Given]:
        return [
            Given(one.item, one.field, one.value, one.ms) for one in self._answers.values() if one.field != COMMENT
        ]

    @property
    def done(self) -> int:
        return sum(one.done is not None for one in self._opened.values())

    @property
    def items(self) -> int:
        return len(self._deal.screens)

    def ratings(self) -> Iterator[Row]:
        """Every question that was dealt, in the order of answering; a gap stands behind its item's answers."""
        if not self._opened and not self._answers:
            return
        asked: list[tuple[float, int, int, Row]] = []
        last = self._last()
        for number, screen in enumerate(self._deal.screens, start=1):
            for place, (field, output, question) in enumerate(questions(self._bundle, screen)):
                if field != CHECK:
                    found = self._answers.get((screen.item, field))
                    when = last.get(screen.item, math.inf) if found is None else found.at
                    row = self._rating(screen, number, output, question.id, found)
                    asked.append((when, number, place, row))
        yield from (row for *_, row in sorted(asked, key=lambda one: one[:3]))

    def _last(self) -> Mapping[str, float]:
        """Item -> when it was last answered, else opened."""
        times = {item: float(one.opened) for item, one in self._opened.items()}
        for (item, _), one in self._answers.items():
            times[item] = max(one.at, times.get(item, one.at))
        return times

    def _rating(self, screen: Screen, number: int, output: str, question: str, found: Any) -> Row:
        opened = self._opened.get(screen.item)
        left, right = screen.order if len(screen.order) > 1 else (None, None)
        only = screen.order[0] if len(screen.order) == 1 else ""
        return {
            "study": self._bundle.hash,
            "rater": self._rater,
            "sitting_state": self._row.state,
            "consent_version": self._row.consent_version,
            "task": self._row.task,
            "item": screen.item,
            "output": output or only or None,
            "question": question,
            **_value(self._bundle, screen, question, found),
            "place": SINGLE if only else screen.place.get(output),
            "left": left,
            "right": right,
            "position": number,
            "rev": None if found is None else found.rev,
            "ms": None if found is None else found.ms,
            "seconds": None if found is None or found.ms is None else found.ms / 1000,
            "opened_seconds": None if opened is None else self._since(opened.opened),
            "at_seconds": None if found is None else self._since(found.at),
            "complete": opened is not None and opened.done is not None,
        }

    def _since(self, time: float) -> float:
        return round(time - float(self._row.began), 3)

    def checks(self) -> Iterator[Row]:
        checked = [screen for screen in self._deal.screens if screen.check is not None]
        for number, screen in enumerate(checked, start=1):
            found = self._answers.get((screen.item, CHECK))
            if found is not None and screen.check is not None:
                wanted = self._bundle.question[screen.check.of].options[screen.check.option - 1].value
                yield {
                    "rater": self._rater,
                    "check": str(number),
                    "passed": is_passed(self._bundle, screen, found.value),
                    "item": screen.item,
                    "asked": wanted,
                    "given": found.value,
                }

    def comments(self) -> Iterator[Row]:
        for screen in self._deal.screens:
            found = self._answers.get((screen.item, COMMENT))
            if found is not None and found.value.strip():
                yield {"rater": self._rater, "item": screen.item, "comment": found.value, "review": REVIEW}


def _value(bundle: Bundle, screen: Screen, question: str, found: Any) -> Row:
    """What was answered, and what was meant by it: `left` is the output that stood there."""
    nothing: Row = {"answer": "skipped", "value": None, "score": None, "shown": None}
    if found is None:
        return nothing
    if found.value == CANNOT_DETERMINE:
        return {**nothing, "answer": CANNOT_DETERMINE, "shown": CANNOT_DETERMINE}
    if bundle.question[question].kind == "scale":
        score = int(found.value) if found.value.isdecimal() else None
        return {"answer": "scored", "value": found.value, "score": score, "shown": found.value}
    meant = found.value
    if meant in (LEFT, RIGHT) and len(screen.order) > 1:
        meant = screen.order[(LEFT, RIGHT).index(meant)]
    return {"answer": "chosen", "value": meant, "score": None, "shown": found.value}


def visitor(row: Any, rater: str) -> Row:
    """Somebody who took no task."""
    known = {"rater": rater, "state": _step(row), **_agreed(row), **_excluded(row)}
    return {**dict.fromkeys(PARTICIPANTS.names), **known}


def _step(row: Any) -> str:
    """How far somebody came who took no task."""
    steps = (("tutored", row.tutored), ("consented", row.consented), ("declined", row.declined))
    return next((name for name, time in steps if time is not None), "entered")


def _agreed(row: Any) -> Row:
    day = None if row.consented is None else datetime.fromtimestamp(row.consented, UTC).date().isoformat()
    return {"consent_version": row.consent_version, "consent_day": day, "submission_status": row.status}


def _excluded(row: Any) -> Row:
    return {"excluded": row.excluded is not None}


def participant(row: Any, sat: Sat, found: Quality) -> Row:
    """Somebody who did."""
    answered = found.checks - found.unchecked
    return {
        "rater": found.rater,
        "state": row.state,
        **_agreed(row),
        "task": row.task,
        "items_done": sat.done,
        "items": sat.items,
        "minutes": round(((row.ended or row.clock) - row.began) / 60, 2),
        "checks_passed": found.passed,
        "checks_answered": answered,
        "attention": round(found.passed / answered, 4) if answered else None,
        "away": row.away,
        "away_seconds": round(row.away_seconds, 3),
        "flags": "; ".join(flag.rule for flag in found.flags) or None,
        **_excluded(row),
    }


def exclusions(bundle: Bundle, found: Quality) -> Iterator[Row]:
    for flag in found.flags:
        value, threshold = _beyond(bundle, found)[flag.rule]
        row: Row = {"rater": found.rater, "rule": flag.rule, "why": flag.reason, "by": BY_RULE}
        yield {**row, "value": None if value is None else round(value, 4), "threshold": threshold}
    if found.excluded:
        row = {"rater": found.rater, "rule": BY_HAND, "why": found.excluded, "by": found.excluded_by}
        yield {**row, "value": None, "threshold": None}


def _beyond(bundle: Bundle, found: Quality) -> Mapping[str, tuple[float | None, float | None]]:
    """Rule -> what was measured, and its threshold."""
    limits = bundle.settings.exclude
    share = limits.get("attention_pass_share_below", bundle.settings.checks.pass_share)
    return {
        quality.FAST: (found.median_seconds, limits.get("median_response_below_seconds")),
        quality.QUICK: (found.quick_share, quality.MANY_QUICK),
        quality.STRAIGHT: (found.same_share, limits.get("straight_lining_share_above")),
        quality.ATTENTION: (found.passed, needed(found.checks, share)),
        quality.INCOMPLETE: (found.unanswered_share, limits.get("skipped_share_above")),
        quality.SHARED_ADDRESS: (found.alike, 0),
        quality.AWAY: (found.away, quality.MANY_AWAY),
    }


def operations(connection: Connection, row: Any, rater: str) -> Iterator[Row]:
    own = select(operation).where(operation.c.sitting == row.id)
    for one in connection.execute(own.order_by(operation.c.received, operation.c.at, operation.c.id)):
        yield {
            "rater": rater,
            "kind": one.kind,
            "item": one.item,
            "field": one.field or None,
            "value": None if one.kind == COMMENT else one.value or None,
            "rev": one.rev,
            "ms": one.ms,
            "at_seconds": round(one.at - row.began, 3),
            "received_seconds": round(one.received - row.began, 3),
            "refused": one.refused or None,
        }
