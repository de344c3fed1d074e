"""The task dashboard: how the tasks stand, in words and counts. Who may sit where is `seats`' to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stillme.study.bundle import Bundle, Task
from stillme.study.db.seats import Card

AWAY = (
    "You were away for a long time, so your place was opened to others. It is still free: you can take it"
    " again and go on where you stopped. Your answers are kept."
)
GONE = (
    "You were away for a long time, and your place was given to somebody else. Your answers are kept. Please"
    " return your submission on Prolific, or write to us. If somebody leaves, your place may open up again."
)


def page(bundle: Bundle, cards: Mapping[str, Card], wanted: str | None = None) -> dict[str, Any]:
    """What the dashboard of somebody without a task shows. `wanted`: the task that was chosen for them; if it is
    full, any other will do."""
    free = sum(card.free > 0 for card in cards.values())
    only = wanted if wanted and wanted in cards and cards[wanted].free > 0 else None
    return {
        "is_chosen": only is not None,
        "cards": [_shown(task, cards[task.id]) for task in bundle.tasks if only in (None, task.id)],
        "counters": (
            ("Tasks in all", len(cards)),
            ("Available", free),
            ("Completed by you", 0),
            ("Left for you to do", 1),
            ("Locked", len(cards) - free),
        ),
        "lengths": _lengths(bundle),
    }


def _shown(task: Task, card: Card) -> dict[str, Any]:
    taken = card.seats - card.free
    return {
        "id": task.id,
        "title": task.title,
        "count": len(task.items),
        "taken": taken,
        "seats": card.seats,
        "dots": [place < taken for place in range(card.seats)],
        "is_free": card.free > 0,
    }


def _lengths(bundle: Bundle) -> str:
    sizes = {len(task.items) for task in bundle.tasks}
    low, high = min(sizes), max(sizes)
    short, long = bundle.settings.estimated_minutes
    count = f"{low} {'item' if low == 1 else 'items'}" if low == high else f"{low} to {high} items"
    minutes = f"{short}" if short == long else f"{short} to {long}"
    return f"Each task contains {count} and takes about {minutes} minutes."


def away(card: Card) -> dict[str, Any]:
    """The page of somebody whose lease has run out: their own task again, if it has a place."""
    if card.free <= 0:
        return {"title": "Your place was given away", "sentence": GONE}
    again = {"action": "/tasks", "label": "Go on with my task", "fields": (("task", card.task),)}
    return {"title": "Welcome back", "sentence": AWAY, "again": again}
