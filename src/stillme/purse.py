"""The budget: what may still be spent. Reaching a limit stops new work; what is done is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from stillme.config import Config
from stillme.engine.local import Stop
from stillme.records import Trial


class Purse:
    """Counts cost from several threads. `spent` is what the run has cost so far, earlier sessions included."""

    def __init__(self, config: Config, spent: float) -> None:
        self.budgets = config.audit.budgets
        self.spent = spent
        self.edits_left = 0
        self._paid = any(one.price_usd for part in (config.editors, config.judges) for one in part.values())
        self._lock = threading.Lock()

    def spend(self, cost_usd: float, stop: Stop) -> None:
        with self._lock:
            self.spent += cost_usd
        self.check(stop)

    def check(self, stop: Stop) -> None:
        """Stops new work once the limit is reached; free work is never stopped by it."""
        limit = self.budgets.cost_usd
        if limit is not None and self._paid and self.spent >= limit:
            stop.set(f"the budget of {limit:g} USD is reached ({self.spent:.2f} USD spent)")

    def allowed_edits(self, todo: Sequence[Trial], already: int) -> Sequence[Trial]:
        """The edits that fit the budget; the others are counted in `edits_left`."""
        limit = self.budgets.edits
        fitting = todo if limit is None else todo[: max(0, limit - already)]
        self.edits_left = len(todo) - len(fitting)
        return fitting
