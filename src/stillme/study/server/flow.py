"""Which step a person is at. Pages ask here before they show anything; whoever is elsewhere is sent there."""

from __future__ import annotations

from starlette.requests import Request

from stillme.study.bundle import Bundle
from stillme.study.db.people import Person

GUIDE, CONSENT, TUTORIAL, TASKS, ITEMS = "guide", "consent", "tutorial", "tasks", "items"
DEBRIEF, COMPLETE, DECLINED, CLOSED = "debrief", "complete", "declined", "closed"


class ElsewhereError(Exception):
    """The person belongs to another page; answered by a redirect."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def step(person: Person, bundle: Bundle) -> str:
    if person.state == "complete":
        return COMPLETE if person.debriefed else DEBRIEF
    if person.state in ("returned", "released", "withdrew"):
        return CLOSED
    if person.sitting is not None:
        return ITEMS if person.seated else TASKS  # who timed out may take a seat again
    for passed, name in (
        (not person.declined, DECLINED),
        (person.guided, GUIDE),
        (person.consented, CONSENT),
        (person.tutored or not bundle.tutorial, TUTORIAL),
    ):
        if not passed:
            return name
    return TASKS


def next_page(person: Person, bundle: Bundle) -> str:
    """The page of the step that a person is at."""
    return f"/{step(person, bundle)}"


def need(request: Request, *steps: str) -> Person:
    """The person, who is at one of these steps; anybody else is sent to theirs."""
    person: Person = request.state.person
    if step(person, request.app.state.study.bundle) not in steps:
        raise ElsewhereError(next_page(person, request.app.state.study.bundle))
    return person
