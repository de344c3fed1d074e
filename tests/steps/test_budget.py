"""The budget holds, whatever calls cost and however many are under way."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme import pipeline
from stillme.core.errors import IncompleteError
from stillme.engine.backends import ExecutionMode, Price
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.plan import config as configs
from stillme.plan.config import Config
from stillme.steps.budget import EDITOR, Budget, BudgetDecision, BudgetKey, with_max_cost
from tests.conftest import dump_audit

Load = Callable[..., Config]
CENT = st.integers(0, 60).map(lambda cents: cents / 100)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("purse") / "audit.yaml"
    dump_audit(path)
    return configs.load(path)


def priced(audit: Config, limit: float, **prices: Price | None) -> Config:
    """The audit with editors of these prices; None is a service of unknown price."""
    model = next(iter(audit.editors.values()))
    editors = {
        name: replace(model, price=price, mode=ExecutionMode.THREADS if price else ExecutionMode.REMOTE)
        for name, price in prices.items()
    }
    return with_max_cost(replace(audit, editors=editors), limit)


def price(high: float) -> Price:
    return Price(0.0, high / 2, high, "2026-11-15")


def spend(purse: Budget, calls: list[tuple[BudgetKey, float]], lanes: int) -> list[float]:
    """Makes calls in threads and on a loop at the same time; returns what the calls cost that were made."""
    stop, made, turn = StopEvent(), [], threading.Lock()

    def settled(who: BudgetKey, cost: float) -> None:
        with turn:
            made.append(cost)
        purse.settle(who, cost)

    def in_a_thread(call: tuple[BudgetKey, float]) -> None:
        if purse.wait(call[0], stop):
            settled(*call)

    async def on_a_loop(call: tuple[BudgetKey, float]) -> None:
        if await purse.wait_on_loop(call[0], stop):
            await asyncio.sleep(0)
            settled(*call)

    async def all_on_a_loop(some: list[tuple[BudgetKey, float]]) -> None:
        await asyncio.gather(*map(on_a_loop, some))

    with ThreadPoolExecutor(lanes + 1) as pool:
        waiting = pool.submit(asyncio.run, all_on_a_loop(calls[::2]))
        list(pool.map(in_a_thread, calls[1::2]))
        waiting.result(timeout=60)
    return made


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(0, 500).map(lambda cents: cents / 100),
    highs=st.tuples(CENT, CENT),
    costs=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=40),
)
def test_no_limit_is_passed_when_no_call_costs_more_than_its_price(
    audit: Config, limit: float, highs: tuple[float, float], costs: list[tuple[bool, float]]
) -> None:
    purse = Budget(priced(audit, limit, a=price(highs[0]), b=price(highs[1])), 0.0)
    calls = [((EDITOR, "b" if second else "a"), share * highs[second]) for second, share in costs]
    made = spend(purse, calls, lanes=4)
    assert sum(made) == pytest.approx(purse.spent)
    assert purse.spent <= limit + 1e-6
    if sum(cost for _, cost in calls) + max(highs) <= limit:
        assert len(made) == len(calls), "what fits is made"


@settings(max_examples=40, deadline=None)
@given(limit=st.floats(0.1, 4), over=st.lists(st.floats(0, 0.5), min_size=1, max_size=30))
def test_a_limit_is_passed_by_no_more_than_prices_were_wrong_by(
    audit: Config, limit: float, over: list[float]
) -> None:
    purse = Budget(priced(audit, limit, a=price(0.1)), 0.0)
    made = spend(purse, [((EDITOR, "a"), 0.1 + more) for more in over], lanes=3)
    assert purse.spent <= limit + sum(cost - 0.1 for cost in made) + 1e-6


def test_a_price_that_was_too_low_is_learned(audit: Config) -> None:
    purse = Budget(priced(audit, 1.0, a=price(0.1)), 0.0)
    assert purse.wait((EDITOR, "a"), StopEvent())
    purse.settle((EDITOR, "a"), 0.4)
    answers = [purse.reserve((EDITOR, "a")) for _ in range(2)]
    assert answers == [BudgetDecision.YES, BudgetDecision.LATER], (
        "0.4 spent, 0.4 set aside, and 0.4 more would not fit"
    )


def test_a_service_of_unknown_price_is_asked_alone_until_its_price_is_known(audit: Config) -> None:
    purse = Budget(priced(audit, 1.0, a=None), 0.0)
    who = (EDITOR, "a")
    assert [purse.reserve(who), purse.reserve(who)] == [BudgetDecision.YES, BudgetDecision.LATER]
    purse.settle(who, 0.0, is_usual=False)  # it failed, which says nothing of the price
    assert [purse.reserve(who), purse.reserve(who)] == [BudgetDecision.YES, BudgetDecision.LATER]
    purse.settle(who, 0.6)
    assert purse.reserve(who) is BudgetDecision.NO
    assert purse.reason == "the budget of 1 USD is reached (0.60 USD spent, a call may cost 0.60)"


def test_free_editors_never_stop_and_an_audit_without_a_limit_never_asks(audit: Config) -> None:
    broke = Budget(priced(audit, 0.0, a=price(0.0), b=price(0.1)), 5.0)
    assert broke.reserve((EDITOR, "a")) is BudgetDecision.YES
    assert broke.reserve((EDITOR, "b")) is BudgetDecision.NO
    endless = Budget(audit, 1e6)
    assert endless.reserve((EDITOR, "even")) is BudgetDecision.YES
    assert not endless.reason


def test_waiting_ends_when_work_is_stopped(audit: Config) -> None:
    purse, stop = Budget(priced(audit, 0.1, a=price(0.1)), 0.0), StopEvent()
    assert purse.wait((EDITOR, "a"), stop)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(purse.wait, (EDITOR, "a"), stop)
        stop.set("it was interrupted")
        assert waiting.result(timeout=60) is False


def test_a_run_ends_below_its_limit_and_the_free_editor_is_complete(load_audit: Load) -> None:
    editors = [
        {"id": "dear", "kind": "planted", "settings": {"truth": "erases", "price_usd": 0.30}},
        {"id": "free", "kind": "planted", "settings": {"truth": "even"}},
    ]
    loaded = load_audit(editors=editors, engine={"workers": 4}, budgets={"cost_usd": 9.0})
    with pytest.raises(IncompleteError, match=r"the budget of 1 USD is reached \(0\.90 USD spent"):
        pipeline.run(with_max_cost(loaded, 1.0), Progress())
    with Run.open_readonly(loaded.run) as seen:
        made = dict(
            seen.query(
                "SELECT t.editor, count(*) FROM edit e JOIN trial t ON t.edit = e.key GROUP BY t.editor ORDER BY 1"
            )
        )
        assert made == {"dear": 3, "free": 12}
        assert seen.spent_usd() == pytest.approx(0.9)
    pipeline.run(loaded, Progress())


def test_spending_never_goes_down(audit: Config) -> None:
    purse = Budget(priced(audit, 3.0, a=price(0.2)), 0.5)
    chance, seen = random.Random(1), [purse.spent]
    while purse.wait((EDITOR, "a"), StopEvent()):
        purse.settle((EDITOR, "a"), chance.random() * 0.2)
        seen.append(purse.spent)
    assert all(before <= after for before, after in pairwise(seen))
    assert 2.8 < seen[-1] <= 3.0


def test_an_account_that_is_used_up_is_asked_no_more(audit: Config) -> None:
    purse = Budget(priced(audit, 10, a=price(1), b=price(1)), 0.0)
    purse.exhaust((EDITOR, "a"))
    assert purse.reserve((EDITOR, "a")) is BudgetDecision.NO
    assert purse.room((EDITOR, "a")) == 0
    assert purse.reserve((EDITOR, "b")) is BudgetDecision.YES
    assert purse.reason == "the account of 'a' is used up, as its service says"


def test_how_many_calls_still_fit(audit: Config) -> None:
    purse = Budget(priced(audit, 10, a=price(1), free=price(0)), 0.0)
    assert purse.room((EDITOR, "a")) == 10
    assert purse.room((EDITOR, "a"), share=0.5) == 20
    purse.reserve((EDITOR, "a"))
    purse.spend(2.5)
    assert purse.room((EDITOR, "a")) == 6
    assert purse.room((EDITOR, "free")) is None
