"""How large a study is and what it pays: items, tasks, seats, minutes, money. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stillme.core.errors import InputError
from stillme.protocol.study_schema import AttentionChecks, Overlap, Payment, Questionnaire, StudyPreset
from stillme.study.bundle import Pay


@dataclass(frozen=True)
class Asked:
    """How many items, tasks and raters are wanted; None: as the preset says. `overlap`: the share of items that
    several people rate, in tasks of one seat each."""

    size: int | None = None
    tasks: int | None = None
    raters: int | None = None
    overlap: float | None = None

    def check(self, rules: Overlap) -> None:
        """Refuses what cannot be."""
        for what, number in (("items", self.size), ("tasks", self.tasks), ("raters", self.raters)):
            if number is not None and number < 1:
                raise InputError(f"A study has at least one of its {what}, not {number}.")
        if self.overlap is None:
            return
        if not 0 < self.overlap <= 1:
            raise InputError(f"The overlap is a share between 0 and 1, not {self.overlap:g}.")
        if self.raters is not None:
            raise InputError(
                "With an overlap every task has one rater, and items that overlap stand in several tasks.",
                "Leave the number of raters away.",
            )
        if self.tasks is not None and self.tasks < rules.annotators:
            raise InputError(
                f"Items that {rules.annotators} people rate stand in as many tasks, never twice in one: "
                f"{self.tasks} tasks are too few."
            )

    def items(self, preset: StudyPreset, rules: Overlap) -> int:
        """How many are wanted."""
        if self.size is not None:
            return self.size
        places = (self.tasks or preset.tasks) * preset.items_per_task
        return places if self.overlap is None else int(places / (1 + self.overlap * (rules.annotators - 1)))

    def overlapped(self, items: int) -> int:
        return 0 if self.overlap is None else round(self.overlap * items)

    def number_of_tasks(self, items: int, preset: StudyPreset, rules: Overlap) -> int:
        """As asked for, else as many as hold what one person rates."""
        overlapped = self.overlapped(items)
        places = items + (rules.annotators - 1) * overlapped
        least = rules.annotators if overlapped else 1
        number = self.tasks or max(least, math.ceil(places / preset.items_per_task))
        if number > places:
            raise InputError(f"{items} items do not fill {number} tasks.", "Ask for fewer tasks.")
        return number


def minutes(preset: StudyPreset, sheet: Questionnaire, items: int, seconds: float) -> tuple[int, int]:
    """What a task takes: as estimated for so many items, and no less than the minimum times allow."""
    if preset.estimated_minutes:
        low, high, of = (*preset.estimated_minutes, preset.items_per_task)
    else:
        low, high, of = (*sheet.estimated_minutes, sheet.stimuli_per_participant)
    least = math.ceil(seconds * items / 60)
    return max(1, least, round(low * items / of)), max(1, least, math.ceil(high * items / of))


def pay(
    rules: Payment, preset: StudyPreset, high: int, reward: float | None = None, bonus: float | None = None
) -> Pay:
    """As given, else as the preset says, else what the hourly floor asks for at the longest estimate."""
    fair = math.ceil(rules.per_hour * high / 60 * 100 - 1e-6) / 100
    given = reward if reward is not None else preset.reward if preset.reward is not None else fair
    return Pay(
        currency=rules.currency,
        reward=given,
        bonus=rules.bonus if bonus is None else bonus,
        bonus_above=rules.bonus_attention_share_above,
        per_hour=rules.per_hour,
    )


def pay_said(pay: Pay, minutes: tuple[int, int]) -> str:
    """What a task pays by the hour, against the floor."""
    slow, quick = (pay.reward * 60 / length for length in reversed(minutes))
    told = f"{slow:.2f} to {quick:.2f}" if slow != quick else f"{slow:.2f}"
    start = f"A task pays {money(pay.currency, pay.reward)} for {spanned(minutes)} minutes: {told} an hour"
    if slow >= pay.per_hour - 0.005:
        return f"{start}, not below the floor of {pay.per_hour:.2f}."
    needed = math.ceil(pay.per_hour * minutes[1] / 60 * 100 - 1e-6) / 100
    return (
        f"{start}, which is below the floor of {pay.per_hour:.2f}. The study will not be published like that "
        f"unless told otherwise; {money(pay.currency, needed)} would meet the floor."
    )


def money(currency: str, amount: float) -> str:
    return f"{currency} {amount:.2f}"


def spanned(span: Sequence[int]) -> str:
    low, high = min(span), max(span)
    return f"{low}" if low == high else f"{low} to {high}"


def checks(rules: AttentionChecks, wanted: tuple[int, int] | None, smallest: int) -> tuple[int, int]:
    """Between how many attention checks a task has: never fewer than the rules say, unless a task is smaller."""
    low, high = wanted or rules.count
    least = min(rules.count[0], smallest)
    if low > high or low < least:
        raise InputError(
            f"{low} to {high} attention checks a task cannot be: a task needs {least} or more of them, and first "
            "comes the lower number."
        )
    return min(low, smallest), min(high, smallest)
