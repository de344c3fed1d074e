"""Publishes a study on Prolific: wage and cost first, then a draft, then, if told so, for everybody.

Done twice it is done once: the draft's name is written down before it is made, so one that was made when the
process ended is found again. What raters see is the bundle's; here is only what Prolific shows before they come.
"""

from __future__ import annotations

import html
import json
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError
from stillme.engine.http import is_loopback
from stillme.study.bundle import Bundle
from stillme.study.db.store import Store
from stillme.study.prolific import marks, wage
from stillme.study.prolific.client import Cost, Prolific, ProlificError, Study, major, minor
from stillme.study.prolific.launch import PARAMETERS

Say = Callable[[str], None]
DRAFT = "UNPUBLISHED"
START = "/p/start"
LABELS = ("ai_evaluation",)
RETURN = {
    "NO_CONSENT": "You did not consent to take part, which is fine: please return your submission.",
    "INCOMPATIBLE_DEVICE": "The study needs a larger screen than yours: please return your submission.",
}
ACTIONS = {"pause": "PAUSE", "start": "START", "stop": "STOP"}


@dataclass(frozen=True)
class Options:
    """What a coordinator decides. `public`: the study's address; `places`, `reward` (major units): instead of the
    bundle's, e.g. for a pilot; `is_signed`: launches with Prolific's signature; `taskflow`: Prolific spreads
    people over the tasks, one address a task."""

    public: str
    places: int | None = None
    reward: float | None = None
    description: str = ""
    filters: tuple[dict[str, Any], ...] = ()
    labels: tuple[str, ...] = LABELS
    warnings: tuple[str, ...] = ()
    warning_details: str = ""
    project: str = ""
    is_signed: bool = True
    taskflow: bool = False
    below_floor: bool = False
    go: bool = False


def read_filters(path: Path) -> tuple[dict[str, Any], ...]:
    """Prolific's filters out of a JSON file: a list of objects, each with its filter_id."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigIssuesError([ConfigIssue(str(path), 0, "", f"cannot be read: {error.strerror}")]) from None
    except ValueError as error:
        raise ConfigIssuesError([ConfigIssue(str(path), 0, "", f"is not JSON: {error}")]) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) and one.get("filter_id") for one in found):
        problem = "is not a list of filters, each with a filter_id"
        raise ConfigIssuesError(
            [ConfigIssue(str(path), 0, "", problem)], "Write it as Prolific's API documents filters."
        )
    return tuple(found)


async def publish(store: Store, client: Prolific, bundle: Bundle, options: Options, say: Say) -> Study:
    """Makes or finds the draft, says what it costs, and publishes it if `options.go`."""
    places = _places(bundle, options)
    _check_address(options)
    earned = await store.read(lambda connection: wage.measured(connection, bundle, options.reward))
    say(f"{earned}.")
    wage.guard(earned, options.below_floor)
    await _check_currency(client, bundle)
    cost = await client.calculate(minor(earned.reward), places)
    for line in cost_lines(bundle, earned.reward, places, cost):
        say(line)
    codes = await store.read(marks.codes)
    name = await store.write(lambda connection: _name(connection, bundle))
    fields = draft(bundle, options, codes, name, earned, places)
    found = await _found(store, client, name)
    if found is None:
        found = await client.create_study(fields)
        say(f"The draft is made: {found.id}.")
    elif found.status == DRAFT:
        found = await client.update_study(found.id, fields)
        say(f"The draft {found.id} was there already; it is as you say now.")
    await store.write(lambda connection: _remember(connection, found, options))
    return await _released(client, found, options.go, say)


async def _released(client: Prolific, found: Study, go: bool, say: Say) -> Study:
    if found.status != DRAFT:
        say(f"The study {found.id} is {found.status.lower()} on Prolific; nothing was published again.")
    elif not go:
        say("Nobody sees it yet. Look at the draft on Prolific, then run the same command with --go.")
    else:
        found = await client.transition_study(found.id, "PUBLISH")
        say(f"The study {found.id} is published: {found.places} places. Keep the server running.")
    return found


def _places(bundle: Bundle, options: Options) -> int:
    places = bundle.places if options.places is None else options.places
    if not 1 <= places <= bundle.places:
        said = f"{places} places do not fit: the bundle has {bundle.places} seats."
        raise InputError(said, "Surplus people would come in vain. Give --places within that.")
    if options.taskflow and places != bundle.places:
        said = "With a task an address, Prolific needs exactly as many places as the bundle has seats."
        raise InputError(said, f"Leave out --places, which gives {bundle.places}, or --taskflow.")
    return places


def _check_address(options: Options) -> None:
    if not options.public.startswith("https://") and not is_loopback(options.public):
        said = "People can only be sent to an address with https."
        raise InputError(said, "Give the study's public address with --public https://…")


async def _check_currency(client: Prolific, bundle: Bundle) -> None:
    has, wants = (await client.me()).get("currency_code") or "", bundle.settings.pay.currency
    if has and has != wants:
        said = f"The bundle pays in {wants}, this account at Prolific in {has}."
        raise InputError(said, "Use an account in that currency, or build the bundle with pay in this one.")


def cost_lines(bundle: Bundle, reward: float, places: int, cost: Cost) -> list[str]:
    """The preview: rewards with fees as Prolific says, and what bonuses may come to at most."""
    pay, rewards = bundle.settings.pay, minor(reward) * places
    share = cost.total / rewards if rewards else 1.0
    said = [f"{places} places × {reward:.2f} {pay.currency} cost {major(cost.total)} with fees and taxes."]
    if reserve := minor(pay.bonus) * places:
        most = math.ceil(reserve * share)
        said.append(
            f"Bonuses of {pay.bonus:.2f} for more than {pay.bonus_above:.0%} of attention checks: up to"
            f" {major(most)} more with fees; in all at most {major(cost.total + most)} {pay.currency}."
        )
    return said


def _name(connection: Connection, bundle: Bundle) -> str:
    """The draft's internal name: the same for this database whatever happens, and no other's."""
    fresh = f"stillme {bundle.name} {bundle.hash[:8]} {secrets.token_hex(4)}"
    marks.put(connection, marks.NAME, fresh, keep=True)
    return marks.get(connection, marks.NAME)


def _remember(connection: Connection, found: Study, options: Options) -> None:
    marks.put(connection, marks.STUDY, found.id)
    marks.put(connection, marks.PUBLIC, options.public.rstrip("/"))


async def _found(store: Store, client: Prolific, name: str) -> Study | None:
    """The study that was made before, by its id or, if that was not kept, by its name."""
    known = await store.read(lambda connection: marks.get(connection, marks.STUDY))
    if known:
        try:
            return await client.study(known)
        except ProlificError as error:
            if error.status_code != 404:
                raise
    return next((one for one in await client.studies() if one.internal_name == name), None)


def draft(
    bundle: Bundle, options: Options, codes: dict[str, str], name: str, earned: wage.Wage, places: int
) -> dict[str, Any]:
    """The study as Prolific wants to be told."""
    fields: dict[str, Any] = {
        "name": bundle.title,
        "internal_name": name,
        "description": options.description or _description(bundle, earned),
        "prolific_id_option": "url_parameters",
        "is_external_study_url_secure": options.is_signed,
        "completion_codes": [_code(outcome, codes[outcome]) for outcome in sorted(codes)],
        "total_available_places": places,
        "estimated_completion_time": math.ceil(earned.minutes),
        "maximum_allowed_time": bundle.settings.maximum_minutes,
        "reward": minor(earned.reward),
        "device_compatibility": ["desktop"],
        "peripheral_requirements": [],
        "study_labels": list(options.labels),
        "filters": list(options.filters),
        "submissions_config": {"max_submissions_per_participant": 1},
    }
    if options.taskflow:
        fields["access_details"] = [
            {"external_url": address(options.public, task.id), "total_allocation": task.seats}
            for task in bundle.tasks
        ]
    else:
        fields["external_study_url"] = address(options.public)
    if options.warnings:
        fields |= {"content_warnings": list(options.warnings), "content_warning_details": options.warning_details}
    return fields | ({"project": options.project} if options.project else {})


def address(public: str, task: str = "") -> str:
    """Where Prolific sends people, with the places that it fills in."""
    query = "&".join(f"{name}={{{{%{name}%}}}}" for name in PARAMETERS)
    return f"{public.rstrip('/')}{START}?{query}" + (f"&task={task}" if task else "")


def _code(outcome: str, code: str) -> dict[str, Any]:
    reason = RETURN.get(outcome)
    action = {"action": "REQUEST_RETURN", "return_reason": reason} if reason else {"action": "MANUALLY_REVIEW"}
    return {"code": code, "code_type": outcome, "actor": "participant", "actions": [action]}


def _description(bundle: Bundle, earned: wage.Wage) -> str:
    width, height = bundle.settings.minimum_screen
    return (
        f"<p>{html.escape(bundle.title)}</p><p>You look at pictures that were made from portraits and answer"
        f" questions about them. It takes about {earned.minutes:.0f} minutes, on a screen of at least"
        f" {width} × {height}. You can pause and go on later.</p>"
    )


async def move(store: Store, client: Prolific, what: str, say: Say) -> None:
    """pause, start or stop."""
    study = await store.read(marks.study)
    found = await client.transition_study(study, ACTIONS[what])
    say(f"The study {found.id} is {found.status.lower()} on Prolific.")


async def set_places(
    store: Store, client: Prolific, bundle: Bundle, places: int, say: Say, below_floor: bool = False
) -> None:
    """More places, for example after a pilot, whose pace the wage is checked with. Prolific takes none away, and
    there are no more than seats."""
    study = await client.study(await store.read(marks.study))
    if not study.places <= places <= bundle.places:
        said = f"{places} places do not fit: Prolific has {study.places} now, the bundle {bundle.places} seats."
        raise InputError(said, "Places can only grow, up to the seats.")
    earned = await store.read(lambda connection: wage.measured(connection, bundle, study.reward / 100))
    say(f"{earned}.")
    wage.guard(earned, below_floor)
    found = await client.update_study(study.id, {"total_available_places": places})
    say(f"The study {found.id} has {found.places} places now.")
