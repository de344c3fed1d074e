"""The budget: what may still be spent. What a call may cost is set aside before it is made, so the limit holds.

A call that does not fit any more is not made; what is done is kept, and whatever is free goes on. The limit can be
passed only by as much as the calls under way cost more than was set aside for them. Nothing here knows what a call
is for.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from stillme.core.records import Trial
from stillme.engine.backends import PreparedSystem
from stillme.engine.threads import StopEvent
from stillme.plan.config import Config

COST_TOLERANCE_USD = 1e-9  # ten calls of 0.1 USD fit into 1 USD, whatever their sum is in binary
POLL_INTERVAL_S = 0.02  # until a call that has to wait looks again; short beside any call that costs money
EDITOR, JUDGE, EXTRACTOR = "editor", "judge", "extractor"
BudgetKey = tuple[str, str]  # EDITOR, JUDGE or EXTRACTOR, and its id


class BudgetDecision(Enum):
    """Whether a call may be made."""

    YES = "yes"
    LATER = "later"  # it would fit if calls under way cost less than was set aside for them
    NO = "no"


class Budget:
    """Counts cost from several threads. `spent` is what the run has cost so far, earlier sessions included."""

    def __init__(self, config: Config, spent: float) -> None:
        self.budgets = config.audit.budgets
        self.spent = spent
        self.edits_left = 0
        self._wanted = 0.0  # what the cheapest call that was not made may have cost; 0 while all were made
        makers = {**config.makers, **config.controls, **config.editors}
        editors = {(EDITOR, name): one for name, one in makers.items()}
        self._priced: dict[BudgetKey, PreparedSystem[Any]] = editors | {
            (JUDGE, n): one for n, one in config.judges.items()
        }
        if config.extractor is not None and config.extractor_row is not None:
            self._priced[EXTRACTOR, config.extractor_row.id] = config.extractor
        self._seen: dict[BudgetKey, float] = {}  # the most that a call of each has cost
        self._open: Counter[BudgetKey] = Counter()  # calls under way
        self._exhausted: set[BudgetKey] = set()  # whose accounts are used up
        self._change = threading.Condition()

    @property
    def reason(self) -> str:
        """Why calls were not made; empty when all were."""
        if self._exhausted:
            names = ", ".join(f"'{name}'" for _, name in sorted(self._exhausted))
            return f"the account of {names} is used up, as its service says"
        limit = self.budgets.cost_usd
        if limit is None or not self._wanted:
            return ""
        spent = f"{self.spent:.2f} USD spent, a call may cost {self._wanted:.2f}"
        return f"the budget of {limit:g} USD is reached ({spent})"

    def reserve(self, key: BudgetKey) -> BudgetDecision:
        """Sets aside what a call of this editor or judge may cost, if that still fits."""
        with self._change:
            answer = self._answer(key)
            if answer is BudgetDecision.YES:
                self._open[key] += 1
            return answer

    def wait(self, key: BudgetKey, stop: StopEvent) -> bool:
        """Sets it aside as soon as it fits; False where it never will, or when work is stopped."""
        while (answer := self.reserve(key)) is BudgetDecision.LATER and not stop:
            with self._change:
                self._change.wait(POLL_INTERVAL_S)
        return answer is BudgetDecision.YES

    async def wait_on_loop(self, key: BudgetKey, stop: StopEvent) -> bool:
        """The same on an event loop, which other calls go on using meanwhile."""
        while (answer := self.reserve(key)) is BudgetDecision.LATER and not stop:
            await asyncio.sleep(POLL_INTERVAL_S)
        return answer is BudgetDecision.YES

    def settle(self, key: BudgetKey, cost_usd: float, is_usual: bool = True) -> None:
        """What the call cost in the end; what was set aside for it is free again.

        `is_usual`: whether it says what calls cost; one that failed may have cost nothing.
        """
        with self._change:
            self.spent += cost_usd
            self._open[key] -= 1
            if is_usual or cost_usd:
                self._seen[key] = max(cost_usd, self._seen.get(key, 0.0))
            self._change.notify_all()

    def exhaust(self, key: BudgetKey) -> None:
        """Its service says that nothing more is paid for: asking on would only fail."""
        with self._change:
            self._exhausted.add(key)

    def spend(self, cost_usd: float) -> None:
        """What something cost that nothing was set aside for."""
        with self._change:
            self.spent += cost_usd

    def room(self, key: BudgetKey, share: float = 1.0) -> int | None:
        """How many calls fit into what is left; None where there is no limit. `share`: of the usual price."""
        with self._change:
            limit, price = self.budgets.cost_usd, self._price(key) * share
            if key in self._exhausted:
                return 0
            if limit is None or not price:
                return None
            aside = sum(count * self._price(name) for name, count in self._open.items())
            return max(0, int((limit - self.spent - aside + COST_TOLERANCE_USD) / price))

    def _answer(self, key: BudgetKey) -> BudgetDecision:
        if key in self._exhausted:
            return BudgetDecision.NO
        limit, price = self.budgets.cost_usd, self._price(key)
        is_unknown = self._priced[key].is_remote and key not in self._seen
        if limit is None or (not price and not is_unknown):
            return BudgetDecision.YES
        if not price:  # a service that nobody knows the price of is asked once, alone, and then it is known
            return BudgetDecision.LATER if self._open[key] else BudgetDecision.YES
        aside = sum(count * self._price(name) for name, count in self._open.items())
        if self.spent + price > limit + COST_TOLERANCE_USD:
            self._wanted = min(price, self._wanted or price)
            return BudgetDecision.NO
        return (
            BudgetDecision.LATER if self.spent + aside + price > limit + COST_TOLERANCE_USD else BudgetDecision.YES
        )

    def _price(self, key: BudgetKey) -> float:
        """The most that a call may cost as far as is known: the table's, or what one has cost already."""
        return max(max_price(self._priced[key]), self._seen.get(key, 0.0))

    def allowed_edits(self, todo: Sequence[Trial], already: int) -> Sequence[Trial]:
        """The edits that fit the budget; the others are counted in `edits_left`."""
        limit = self.budgets.edits
        fitting = todo if limit is None else todo[: max(0, limit - already)]
        self.edits_left = len(todo) - len(fitting)
        return fitting


def max_price(prepared: PreparedSystem[Any]) -> float:
    """The most that a call may cost; where no range is known, what is expected."""
    return prepared.price.high if prepared.price else prepared.price_usd


def with_max_cost(config: Config, cost_usd: float | None) -> Config:
    """The audit with another limit; None leaves its own."""
    if cost_usd is None:
        return config
    budgets = config.audit.budgets.model_copy(update={"cost_usd": cost_usd})
    return replace(config, audit=config.audit.model_copy(update={"budgets": budgets}))
