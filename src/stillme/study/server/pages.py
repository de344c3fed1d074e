"""The raters' pages around the evaluation: the link, guide, consent, examples and tasks; debrief, code, leaving.

Every page first asks `flow` whether the person is at its step; a form that is sent twice changes nothing the
second time. What an item looks like and how it is answered is not known here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from stillme.study.db import people, seats
from stillme.study.db.people import Launch, Person, RefusedError
from stillme.study.db.tables import participant
from stillme.study.server import coordinators, flow, lessons, tasks
from stillme.study.server.asking import own_form
from stillme.study.server.desk import Study
from stillme.study.server.door import cookie_name
from stillme.study.server.entering import is_paused, launched, plain
from stillme.study.server.showing import render
from stillme.web.bodies import read_form

BACK = "/submissions/complete?cc="
BEFORE = (flow.GUIDE, flow.CONSENT, flow.TUTORIAL, flow.TASKS)
ON_THE_WAY = (*BEFORE, flow.ITEMS)
NAME = "Please choose a name of letters, digits, dots, dashes or underscores, at most 64 of them, without spaces."
PAUSED = "The study takes a break and lets nobody new in at the moment. Please try again later; nothing is lost."
NOBODY = (
    "Please open the study with your link from Prolific. If you were here before, the same link brings you back."
)
ENDED = {
    "withdrew": "You have withdrawn, and your place was given back. Thank you for your time. What you answered is"
    " kept, marked as withdrawn; ask us if you want it deleted.",
    "returned": "You have returned this study on Prolific, so your place was given back. Thank you for your time.",
    "released": "The researchers have given your place back. If that surprises you, please ask them.",
}
STOP = (
    "Please choose “Stop without completing” on Prolific, if you have not done so: it does not count against you."
)


def routes(study: Study) -> list[BaseRoute]:
    shown = {
        "/": _home,
        "/p/start": _start,
        "/welcome": _welcome,
        "/guide": _guide,
        "/consent": _consent,
        "/declined": _declined,
        "/tutorial": _tutorial,
        "/tutorial/{number:int}": _example,
        "/tasks": _tasks,
        "/debrief": _debrief,
        "/complete": _complete,
        "/leave": _leave,
        "/closed": _closed,
        "/device": _device,
    }
    sent = {
        "/welcome": _named,
        "/guide": _guided,
        "/consent": _consented,
        "/decline": _decline,
        "/tutorial/{number:int}": _answered,
        "/tasks": _chosen,
        "/debrief": _debriefed,
        "/leave": _withdrawn,
        "/device": _unfit,
    }
    gets = [Route(path, page, methods=["GET"]) for path, page in shown.items()]
    return [*gets, *(Route(path, page, methods=["POST"]) for path, page in sent.items())]


def _study(request: Request) -> Study:
    study: Study = request.app.state.study
    return study


def _to(path: str) -> Response:
    return RedirectResponse(path, 303)


def _returns(request: Request) -> bool:
    """Whether people came from Prolific and go back there."""
    return _study(request).serving.entry != "plain"


async def _code(request: Request, outcome: str) -> dict[str, Any]:
    study = _study(request)
    code = await study.store.read(lambda c: seats.code(c, outcome))
    client = study.launches.client if study.launches is not None else None
    return {"code": code, "back": f"{client.site}{BACK}{code}" if client is not None else ""}


# Coming in


async def _home(request: Request) -> Response:
    person: Person | None = request.state.person
    if person is not None:
        return _to(flow.next_page(person, _study(request).bundle))
    if _returns(request):
        return render(request, "closed.html", 401, title="Please use your link", sentence=NOBODY)
    return _to("/welcome")


async def _start(request: Request) -> Response:
    if not _returns(request) and "PROLIFIC_PID" not in request.query_params:
        return _to("/welcome")
    return await _enter(request, await launched(request))


async def _welcome(request: Request) -> Response:
    if _returns(request):
        return _to("/")
    return render(request, "welcome.html", refused="")


async def _named(request: Request) -> Response:
    """A pilot's own name. Nobody is logged in yet, so there is no token; the door has checked the origin."""
    if _returns(request):
        raise HTTPException(404)
    given = (await read_form(request)).get("name", [""])[-1].strip()
    try:
        return await _enter(request, plain(given))
    except RefusedError as error:
        said = NAME if error.page == "welcome" else error.sentence
        return render(request, "welcome.html", 422, refused=said)


async def _enter(request: Request, launch: Launch) -> Response:
    """Opens a session; from here on no address carries an id."""
    study = _study(request)
    address = request.client.host if request.client else ""

    def work(connection: Connection) -> str:
        if is_paused(connection) and not _is_known(connection, study.keys.person(launch.pid)):
            raise RefusedError(PAUSED, "closed")
        return people.enter(connection, study.keys, launch, address, study.now(), _wanted(request))

    answer = _to("/")
    answer.set_cookie(
        cookie_name(study),
        await study.store.write(work),
        max_age=people.SESSION_SECONDS,
        secure=study.serving.is_encrypted,
        httponly=True,
        samesite="lax",
    )
    return answer


def _wanted(request: Request) -> str | None:
    """The task that the link names, where Prolific spreads people over the tasks."""
    task = request.query_params.get("task", "")
    return task if task in _study(request).bundle.task else None


def _is_known(connection: Connection, person: str) -> bool:
    return connection.scalar(select(participant.c.id).where(participant.c.pid_hash == person)) is not None


# Before the tasks


async def _guide(request: Request) -> Response:
    """Who has read it may read it again, until the end."""
    if not request.state.person.guided:
        flow.need(request, flow.GUIDE)
    bundle = _study(request).bundle
    asked = tuple(question.text for question in bundle.questions)
    listed = next((section for section in bundle.texts.guide if section.points == asked), None)
    return render(request, "guide.html", listed=listed)


async def _guided(request: Request) -> Response:
    await own_form(request)
    await _note(request, flow.need(request, flow.GUIDE), "guided")
    return _to("/consent")


async def _note(request: Request, person: Person, step: str) -> None:
    study = _study(request)
    await study.store.write(lambda c: people.note(c, person.id, step, study.now()))


async def _consent(request: Request) -> Response:
    """Who did not agree may read the form again."""
    flow.need(request, flow.CONSENT, flow.DECLINED)
    return render(request, "consent.html", lacking=False, ticked=())


async def _consented(request: Request) -> Response:
    form = await own_form(request)
    person = flow.need(request, flow.CONSENT, flow.DECLINED)
    study = _study(request)
    agreed = study.bundle.texts.consent
    ticked = {n for n in range(1, len(agreed.statements) + 1) if str(n) in form.get("statement", ())}
    if len(ticked) < len(agreed.statements) or form.get("version") != [agreed.version]:
        return render(request, "consent.html", 422, lacking=True, ticked=ticked)
    await study.store.write(lambda c: people.consent(c, person.id, agreed.version, study.now()))
    return _to("/tutorial" if study.bundle.tutorial else "/tasks")


async def _decline(request: Request) -> Response:
    await own_form(request)
    person = flow.need(request, flow.CONSENT)
    study = _study(request)
    await study.store.write(lambda c: people.decline(c, person.id, study.now()))
    return _to("/declined")


async def _declined(request: Request) -> Response:
    flow.need(request, flow.DECLINED)
    return render(request, "declined.html", **await _code(request, "NO_CONSENT"))


async def _tutorial(request: Request) -> Response:
    person = flow.need(request, flow.TUTORIAL)
    return _to(f"/tutorial/{await _open_example(request, person)}")


async def _open_example(request: Request, person: Person) -> int:
    """The first example that is not over, else the last one."""
    known = await _study(request).store.read(lambda c: lessons.read(c, person.id))
    return lessons.first_open(_study(request).bundle, known)


async def _example(request: Request) -> Response:
    person, number = flow.need(request, flow.TUTORIAL), request.path_params["number"]
    study = _study(request)
    known = await study.store.read(lambda c: lessons.read(c, person.id))
    if not 0 < number <= lessons.first_open(study.bundle, known):
        return _to("/tutorial")
    return render(request, "tutorial.html", **lessons.page(study.bundle, number, known.get(number)))


async def _answered(request: Request) -> Response:
    """An answer to an example, or going on from one that is over."""
    form = await own_form(request)
    person, number = flow.need(request, flow.TUTORIAL), request.path_params["number"]
    study = _study(request)
    value, tries = form.get("value", [""])[-1], form.get("tries", [""])[-1]
    known = await study.store.write(
        lambda c: lessons.answer(c, study.bundle, person.id, number, value, tries, study.now())
    )
    if "on" not in form.get("go", ()) or not lessons.is_over(known.get(number)):
        return _to(f"/tutorial/{number}" if number in known else "/tutorial")
    if not lessons.is_all_over(study.bundle, known):
        return _to("/tutorial")
    await _note(request, person, "tutored")
    return _to("/tasks")


# The tasks


async def _tasks(request: Request) -> Response:
    return await _board(request, flow.need(request, flow.TASKS))


async def _board(request: Request, person: Person, refused: str = "") -> Response:
    """The tasks to choose from; a kind page where none is free, or for somebody who was away too long."""
    study = _study(request)
    cards = await study.store.read(lambda c: seats.board(c, study.bundle))
    status = 409 if refused else 200
    if person.task is not None:
        return render(request, "closed.html", status, **tasks.away(cards[person.task]))
    if not any(card.free > 0 for card in cards.values()):
        await study.store.write(lambda c: coordinators.turned_away(c, study.keys, person.id, study.now()))
        return render(request, "closed.html", status, title="All places are taken", sentence=seats.FULL)
    wanted = await study.store.read(lambda c: people.wanted(c, person.id))
    return render(request, "tasks.html", status, refused=refused, **tasks.page(study.bundle, cards, wanted))


async def _chosen(request: Request) -> Response:
    form = await own_form(request)
    person, task = flow.need(request, flow.TASKS), form.get("task", [""])[-1]
    study = _study(request)
    if task not in study.bundle.task:
        return await _board(request, person, "There is no such task. Please choose one of these.")
    try:
        await study.store.write(
            lambda c: seats.take(c, study.bundle, person.id, task, study.now(), study.serving.lease)
        )
    except RefusedError as error:
        if error.page != "tasks":
            raise
        return await _board(request, person, error.sentence)
    return _to("/items")


# The end


async def _debrief(request: Request) -> Response:
    flow.need(request, flow.DEBRIEF)
    return render(request, "debrief.html", returns=_returns(request))


async def _debriefed(request: Request) -> Response:
    form = await own_form(request)
    await _note(request, flow.need(request, flow.DEBRIEF), "debriefed")
    return _to("/complete" if "yes" in form.get("return", ()) or not _returns(request) else "/complete?stay=1")


async def _complete(request: Request) -> Response:
    """The code, for somebody whose every item is done by the server's own count."""
    person = flow.need(request, flow.COMPLETE)
    assert person.task is not None
    content: dict[str, Any] = {
        "items": len(_study(request).bundle.task[person.task].items),
        "is_returning": "stay" not in request.query_params,
    }
    return render(request, "complete.html", **content, **await _code(request, "COMPLETED"))


async def _leave(request: Request, status: int = 200, unsure: bool = False) -> Response:
    flow.need(request, *ON_THE_WAY)
    minutes = round(_study(request).serving.lease / 60)
    return render(request, "leave.html", status, returns=_returns(request), minutes=minutes, unsure=unsure)


async def _withdrawn(request: Request) -> Response:
    form = await own_form(request)
    person = flow.need(request, *ON_THE_WAY)
    study, sitting = _study(request), person.sitting
    if sitting is None:
        return _to("/leave")
    if "yes" not in form.get("sure", ()):
        return await _leave(request, 422, unsure=True)

    def work(connection: Connection) -> None:
        if seats.sit(connection, sitting).state != "complete":  # another tab may have finished meanwhile
            seats.free(connection, sitting, "withdrew", study.now())

    await study.store.write(work)
    return _to("/closed")


async def _closed(request: Request) -> Response:
    person = flow.need(request, flow.CLOSED)
    assert person.state is not None
    more = STOP if _returns(request) and person.state != "returned" else ""
    return render(request, "closed.html", title="Your part ends here", sentence=ENDED[person.state], more=more)


async def _device(request: Request) -> Response:
    person = flow.need(request, *ON_THE_WAY)
    offered = await _is_offered(request, person)
    return render(request, "device.html", code="", is_offered=offered, returns=_returns(request))


async def _unfit(request: Request) -> Response:
    """The code for a device that does not fit: on request, and only where a place could have been had."""
    await own_form(request)
    if not await _is_offered(request, flow.need(request, *ON_THE_WAY)):
        return _to("/device")
    return render(request, "device.html", **await _code(request, "INCOMPATIBLE_DEVICE"))


async def _is_offered(request: Request, person: Person) -> bool:
    study = _study(request)
    if person.sitting is not None:
        return False
    cards = await study.store.read(lambda c: seats.board(c, study.bundle))
    return any(card.free > 0 for card in cards.values())
