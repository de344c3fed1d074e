"""What can be told about the care that a rater took: times, checks, sameness, gaps. It marks and never removes.

The rules are the bundle's, the definitions those of the analysis: "cannot determine" is an answer, and sameness is
looked at over all questions together. Raters are named by their pseudonyms; nothing here reads who they are.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from stillme.study.bundle import CANNOT_DETERMINE, CHECK, COMMENT, LEFT, RIGHT, Bundle
from stillme.study.db.attention import Attention, counted, needed
from stillme.study.db.deal import Deal, allowed
from stillme.study.db.keys import Keys
from stillme.study.db.tables import answer, participant, sitting

MANY_QUICK = 0.1  # share of answers under the rule's seconds that is remarked upon
FEW = 10  # answers: below this, shares and medians tell nothing
FAST, QUICK, STRAIGHT = "fast", "quick answers", "one answer"
ATTENTION, INCOMPLETE, SHARED_ADDRESS, AWAY = "attention", "incomplete", "shared address", "away"
REMOVES = frozenset({FAST, ATTENTION, INCOMPLETE})  # the analysis leaves such raters out; the rest is for a person
MANY_AWAY = 10  # times that a page lost the focus


@dataclass(frozen=True)
class Flag:
    """A rule that a rater is beyond, and what was found. `removes`: the analysis leaves the rater out."""

    rule: str
    reason: str

    @property
    def removes(self) -> bool:
        return self.rule in REMOVES


@dataclass(frozen=True)
class Quality:
    """One rater. Shares and times are None where there is nothing to take them from.

    `participant` and `sitting` are the database's own ids and stay in it; `rater` is the name for outside.
    `checks` are all that the task has, `unchecked` those that have no answer yet. `alike`: how many other people
    came from the same address. `excluded`: why a coordinator marked the rater, if one did.
    """

    rater: str
    participant: str
    sitting: str
    task: str
    state: str
    began: float
    ended: float | None
    passed: int
    checks: int
    unchecked: int
    answers: int
    asked: int
    median_seconds: float | None
    quick_share: float | None
    same_share: float | None
    cannot_share: float | None
    away: int
    away_seconds: float
    alike: int
    excluded: str
    excluded_by: str
    flags: tuple[Flag, ...] = ()

    @property
    def attention_share(self) -> float:
        """A check without an answer is not passed; whoever was asked nothing failed nothing."""
        return Attention(self.passed, self.checks).share

    @property
    def unanswered_share(self) -> float:
        return 1 - self.answers / self.asked if self.asked else 0.0

    @property
    def minutes(self) -> float | None:
        """From taking the seat to the end."""
        return None if self.ended is None else (self.ended - self.began) / 60

    @property
    def is_removed(self) -> bool:
        """Whether a rule or a coordinator leaves the rater out."""
        return bool(self.excluded) or any(flag.removes for flag in self.flags)

    @property
    def reasons(self) -> str:
        """Everything that was found, in one line; empty where nothing was."""
        said = [f"excluded: {self.excluded}"] if self.excluded else []
        return "; ".join([*said, *(flag.reason for flag in self.flags)])


class Given(NamedTuple):
    """One answer to a question, as it is stored."""

    item: str
    field: str
    value: str
    ms: int | None


@dataclass(frozen=True)
class Agreement:
    """Pairs of raters who answered one question about one picture: how many chose the same, how many at most the
    next point of the scale (None where the question has no scale)."""

    question: str
    pairs: int
    same: int
    near: int | None


Answered = Mapping[str, Sequence[Given]]  # sitting -> what was answered there


def raters(connection: Connection, bundle: Bundle, keys: Keys, given: Answered | None = None) -> list[Quality]:
    """Everybody who ever took a seat, in the order in which they did. `given`: answers that were read already."""
    known = answered(connection) if given is None else given
    return [_judged(bundle, one) for one in _found(connection, bundle, keys, known)]


def judged(bundle: Bundle, keys: Keys, row: Any, given: Sequence[Given], alike: int) -> Quality:
    """One rater, from rows that were read already: an export sees one sitting at a time. `row`: the sitting's,
    with the participant's `excluded` and `excluded_by`."""
    return _judged(bundle, _measured(bundle, keys, row, given, alike))


def answered(connection: Connection) -> Answered:
    """Sitting -> what was answered there, checks included, comments not."""
    found: defaultdict[str, list[Given]] = defaultdict(list)
    asked = select(answer.c.sitting, answer.c.item, answer.c.field, answer.c.value, answer.c.ms)
    for of, item, field, value, ms in connection.execute(asked.where(answer.c.field != COMMENT)).all():
        found[of].append(Given(item, field, value, ms))
    return found


def _found(connection: Connection, bundle: Bundle, keys: Keys, given: Answered) -> Iterator[Quality]:
    rows = connection.execute(
        select(sitting, participant.c.address_hash, participant.c.excluded, participant.c.excluded_by)
        .join(participant, participant.c.id == sitting.c.participant)
        .order_by(sitting.c.began, sitting.c.id)
    ).all()
    addresses = Counter(row.address_hash for row in _everybody(connection))
    for row in rows:
        alike = addresses[row.address_hash] - 1 if row.address_hash else 0
        yield _measured(bundle, keys, row, given.get(row.id, ()), alike)


def _everybody(connection: Connection) -> Sequence[Any]:
    return connection.execute(select(participant.c.address_hash)).all()


def _measured(bundle: Bundle, keys: Keys, row: Any, given: Sequence[Given], alike: int) -> Quality:
    dealt = Deal.model_validate_json(row.dealt)
    seen = counted(bundle, dealt, {one.item: one.value for one in given if one.field == CHECK})
    own = [one for one in given if one.field != CHECK]
    quick = bundle.settings.exclude.get("flag_response_below_seconds")
    seconds = [one.ms / 1000 for one in own if one.ms is not None]
    return Quality(
        rater=keys.pseudonym(row.participant),
        participant=row.participant,
        sitting=row.id,
        task=row.task,
        state=row.state,
        began=row.began,
        ended=row.ended,
        passed=seen.passed,
        checks=seen.asked,
        unchecked=seen.open,
        answers=len(own),
        asked=sum(len(allowed(bundle, screen)) for screen in dealt.screens) - seen.asked,
        median_seconds=statistics.median(seconds) if seconds else None,
        quick_share=_share(seconds, lambda one: one < quick) if quick is not None else None,
        same_share=_same(bundle, own),
        cannot_share=_share(own, lambda one: one.value == CANNOT_DETERMINE),
        away=row.away,
        away_seconds=row.away_seconds,
        alike=alike,
        excluded=row.excluded or "",
        excluded_by=row.excluded_by or "",
    )


def _share(values: Sequence[Any], holds: Any) -> float | None:
    return sum(map(holds, values)) / len(values) if values else None


def _same(bundle: Bundle, given: Iterable[Given]) -> float | None:
    """The share of the most frequent point among all answers on scales; choices have no straight line."""
    scales = {question.id for question in bundle.questions if question.kind == "scale"}
    counts = Counter(
        one.value for one in given if question_of(one.field) in scales and one.value != CANNOT_DETERMINE
    )
    return max(counts.values()) / counts.total() if counts else None


def question_of(field: str) -> str:
    """The question that a field is about."""
    return field.rpartition(".")[2]


def _judged(bundle: Bundle, one: Quality) -> Quality:
    return replace(one, flags=tuple(Flag(rule, said) for rule, said in _flags(bundle, one)))


def _flags(bundle: Bundle, one: Quality) -> Iterator[tuple[str, str]]:
    least = bundle.settings.exclude
    enough = one.answers >= FEW or one.state == "complete"
    if enough:
        yield from _by_answers(least, one)
    share = least.get("attention_pass_share_below", bundle.settings.checks.pass_share)
    must = needed(one.checks, share)
    if one.passed + one.unchecked < must:  # the checks that are still to come cannot make up for it
        yield ATTENTION, f"{one.passed} of {one.checks} attention checks passed, {must} needed"
    most = least.get("skipped_share_above")
    if most is not None and one.state != "active" and one.unanswered_share > most:
        yield INCOMPLETE, f"{one.unanswered_share:.0%} of questions not answered (more than {most:.0%})"
    if one.alike:
        said = "1 other person" if one.alike == 1 else f"{one.alike} other people"
        yield SHARED_ADDRESS, f"{said} came from the same address"
    if one.away >= MANY_AWAY:
        yield AWAY, f"the page lost the focus {one.away} times, {one.away_seconds / 60:.1f} minutes in all"


def _by_answers(least: Mapping[str, float], one: Quality) -> Iterator[tuple[str, str]]:
    seconds, median = least.get("median_response_below_seconds"), one.median_seconds
    if seconds is not None and median is not None and median < seconds:
        yield FAST, f"median of {median:.1f} s an answer, below {seconds:g} s"
    if one.quick_share is not None and one.quick_share > MANY_QUICK:
        limit = least["flag_response_below_seconds"]
        yield QUICK, f"{one.quick_share:.0%} of answers in less than {limit:g} s (more than {MANY_QUICK:.0%})"
    most, same = least.get("straight_lining_share_above"), one.same_share
    if most is not None and same is not None and same > most:
        yield STRAIGHT, f"{same:.0%} of all answers are the same (more than {most:.0%})"


def agreement(connection: Connection, bundle: Bundle, given: Answered | None = None) -> list[Agreement]:
    """How raters who hold a seat agree so far, question by question, without those whom a coordinator excluded."""
    known = answered(connection) if given is None else given
    rows = connection.execute(
        select(sitting.c.id, sitting.c.dealt)
        .join(participant, participant.c.id == sitting.c.participant)
        .where(sitting.c.state.in_(("active", "complete")), participant.c.excluded.is_(None))
    )
    dealt = {row.id: Deal.model_validate_json(row.dealt) for row in rows}
    about: defaultdict[str, defaultdict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for of in dealt.keys() & known.keys():
        for one in known[of]:
            if one.field != CHECK and one.value != CANNOT_DETERMINE:
                value = _undone(dealt[of], one)
                about[question_of(one.field)][one.item, one.field].append(value)
    return [_agreed(bundle, question.id, about[question.id].values()) for question in bundle.questions]


def _undone(dealt: Deal, one: Given) -> str:
    """Left and right as the output that was shown there, so that raters who saw them swapped can be compared."""
    if one.value not in (LEFT, RIGHT):
        return one.value
    places = dealt.screens[dealt.number[one.item] - 1].place
    return next((output for output, place in places.items() if place == one.value), one.value)


def _agreed(bundle: Bundle, question: str, about: Iterable[Sequence[str]]) -> Agreement:
    asked = bundle.question[question]
    place = {option.value: number for number, option in enumerate(asked.options)}
    both = [pair for values in about for pair in combinations(values, 2)]
    near = sum(abs(place[one] - place[other]) <= 1 for one, other in both) if asked.kind == "scale" else None
    return Agreement(question, len(both), sum(one == other for one, other in both), near)
