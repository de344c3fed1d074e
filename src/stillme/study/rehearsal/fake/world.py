"""What the fake Prolific knows and the rules by which it changes: studies, places, submissions, payments, hooks.

One JSON file, written whole after every change, so that a rehearsal goes on after a restart.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stillme.core.atomic import replace_file
from stillme.engine.http import is_loopback

HELD = ("RESERVED", "ACTIVE", "AWAITING REVIEW", "APPROVED", "PARTIALLY APPROVED")  # their place is taken
LEGACY = ("completion_code", "completion_option", "eligibility_requirements")
REQUIRED = (
    "name",
    "description",
    "prolific_id_option",
    "completion_codes",
    "total_available_places",
    "estimated_completion_time",
    "reward",
    "device_compatibility",
)
STUDY_MOVES = {
    "PUBLISH": (("UNPUBLISHED",), "ACTIVE"),
    "PAUSE": (("ACTIVE",), "PAUSED"),
    "START": (("PAUSED",), "ACTIVE"),
    "STOP": (("ACTIVE", "PAUSED"), "AWAITING REVIEW"),
}
MOVES = {
    "APPROVE": (("AWAITING REVIEW", "TIMED-OUT"), "APPROVED"),
    "REJECT": (("AWAITING REVIEW",), "REJECTED"),
    "UNREJECT": (("REJECTED",), "AWAITING REVIEW"),
    "RETURN": (("RESERVED", "ACTIVE", "AWAITING REVIEW"), "RETURNED"),
    "TIMEOUT": (("RESERVED", "ACTIVE"), "TIMED-OUT"),  # by the clock, not by a researcher
    "SCREEN_OUT": (("ACTIVE", "AWAITING REVIEW"), "SCREENED OUT"),
    "START": (("RESERVED",), "ACTIVE"),
}
SHORTEST_MESSAGE = 100
FEE = 1 / 3  # of rewards and bonuses
LINE = re.compile(r"([0-9a-z]{24}),(\d{1,4}\.\d{2})")
Found = dict[str, Any]


class NoError(Exception):
    """Prolific's no: a status and what it says."""

    def __init__(self, status: int, detail: Any, title: str = "Bad request") -> None:
        super().__init__(str(detail))
        self.status, self.detail, self.title = status, detail, title


def new_id() -> str:
    return secrets.token_hex(12)


def written(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


class World:
    """Everything, and what may happen to it. `path`: the file that it is kept in; None: nowhere."""

    def __init__(self, path: Path | None, token: str = "", clock: Callable[[], float] = time.time) -> None:
        self._path, self.clock = path, clock
        known = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
        self.token: str = token or known.get("token") or secrets.token_urlsafe(24)
        self.key: str = known.get("key", "")
        self.workspace: str = known.get("workspace") or new_id()
        self.studies: dict[str, Found] = known.get("studies", {})
        self.submissions: dict[str, Found] = known.get("submissions", {})
        self.payments: dict[str, Found] = known.get("payments", {})
        self.secret: str = known.get("secret", "")
        self.subscriptions: dict[str, Found] = known.get("subscriptions", {})
        self.events: list[Found] = known.get("events", [])

    def save(self) -> None:
        if self._path is None:
            return
        names = (
            "token",
            "key",
            "workspace",
            "studies",
            "submissions",
            "payments",
            "secret",
            "subscriptions",
            "events",
        )
        content = json.dumps({name: getattr(self, name) for name in names})
        replace_file(self._path, content.encode(), private=True, durable=False)

    # studies

    def create(self, fields: Found) -> Found:
        _check_draft(fields)
        made: Found = {
            "internal_name": fields["name"],
            "filters": [],
            **fields,
            "id": new_id(),
            "status": "UNPUBLISHED",
            "date_created": written(self.clock()),
        }
        self.studies[made["id"]] = made
        return made

    def study(self, study: str) -> Found:
        if study not in self.studies:
            raise NoError(404, "Study not found", "Not found")
        return self.studies[study]

    def change(self, study: str, fields: Found) -> Found:
        """A draft takes anything; a study that is out only takes more places."""
        found = self.study(study)
        if "status" in fields:
            raise NoError(400, {"status": ["use the transition endpoint"]})
        if found["status"] != "UNPUBLISHED":
            if set(fields) - {"total_available_places", "internal_name"}:
                raise NoError(400, "A published study can only get more places")
            if fields.get("total_available_places", 10**6) < found["total_available_places"]:
                raise NoError(400, {"total_available_places": ["can only be increased"]})
        else:
            _check_draft({**found, **fields})
        found.update(fields)
        return found

    def move_study(self, study: str, action: str) -> Found:
        found = self.study(study)
        if action not in STUDY_MOVES:
            raise NoError(400, {"action": [f"'{action}' is not a valid choice"]})
        before, after = STUDY_MOVES[action]
        if found["status"] not in before:
            raise NoError(400, f"A study that is {found['status']} cannot {action}")
        found["status"] = after
        return found

    def taken(self, study: str) -> int:
        return sum(one["study_id"] == study and one["status"] in HELD for one in self.submissions.values())

    def shown_study(self, found: Found) -> Found:
        rewards = found["reward"] * found["total_available_places"]
        return {
            **found,
            "places_taken": self.taken(found["id"]),
            "total_cost": round(rewards * (1 + FEE)),
            "currency_code": "USD",
            "average_reward_per_hour": 0,
        }

    # people

    def arrive(self, study: str, pid: str = "", surplus: bool = False, reserve: bool = False) -> Found:
        """Somebody takes a place. `surplus`: more than there are, as happens when people come back. Who holds one
        already, and asks again because the answer got lost, has it still."""
        found = self.study(study)
        mine = self._place_of(pid, study)
        if mine is not None and mine["status"] in ("RESERVED", "ACTIVE"):
            return mine
        if found["status"] != "ACTIVE":
            raise NoError(409, f"The study is {found['status']}")
        if not surplus and self.taken(study) >= found["total_available_places"]:
            raise NoError(409, "All places are taken")
        if mine is not None:
            raise NoError(409, "They have taken part already")
        made: Found = {
            "id": new_id(),
            "participant": pid or new_id(),
            "study_id": study,
            "status": "RESERVED",
            "started": self.clock(),
            "completed": None,
            "entered_code": None,
            "return_requested": None,
            "bonuses": [],
            "url": self._url(found),
        }
        self.submissions[made["id"]] = made
        self._tell(made)
        return made if reserve else self.move(made["id"], "START")

    def _place_of(self, pid: str, study: str) -> Found | None:
        every = self.submissions.values()
        return next((o for o in every if pid and o["participant"] == pid and o["study_id"] == study), None)

    def _url(self, study: Found) -> str:
        """The study's address; with one a task, the first that has an allocation left."""
        details = study.get("access_details") or []
        if not details:
            return str(study["external_study_url"])
        mine = [
            o["url"] for o in self.submissions.values() if o["study_id"] == study["id"] and o["status"] in HELD
        ]
        free = [
            one["external_url"] for one in details if mine.count(one["external_url"]) < one["total_allocation"]
        ]
        return str((free or [details[-1]["external_url"]])[0])

    def submission(self, submission: str) -> Found:
        if submission not in self.submissions:
            raise NoError(404, "Submission not found", "Not found")
        return self.submissions[submission]

    def move(self, submission: str, action: str, **more: Any) -> Found:
        found = self.submission(submission)
        if action not in MOVES:
            raise NoError(400, {"action": [f"'{action}' is not a valid choice"]})
        before, after = MOVES[action]
        if found["status"] not in before:
            raise NoError(400, f"Submission {submission} is {found['status']} and cannot be moved to {after}")
        if action == "REJECT":
            if len(more.get("message", "")) < SHORTEST_MESSAGE:
                raise NoError(400, {"message": [f"must have at least {SHORTEST_MESSAGE} characters"]})
            if not more.get("rejection_category"):
                raise NoError(400, {"rejection_category": ["is required"]})
        return self._become(found, after)

    def _become(self, found: Found, status: str) -> Found:
        found["status"] = status
        if status not in ("RESERVED", "ACTIVE") and found["completed"] is None:
            found["completed"] = self.clock()
        self._tell(found)
        return found

    def complete(self, submission: str, code: str) -> Found:
        """Somebody hands in with a code; what the study wants done with that code is done."""
        found = self.submission(submission)
        if found["status"] != "ACTIVE":
            raise NoError(400, f"The submission is {found['status']}")
        codes = self.study(found["study_id"])["completion_codes"]
        actions: list[Found] = next((one["actions"] for one in codes if one["code"] == code), [])
        found["entered_code"] = code
        self._become(found, "AWAITING REVIEW")
        for action in actions:
            if action["action"] == "AUTOMATICALLY_APPROVE":
                self._become(found, "APPROVED")
            if action["action"] == "REQUEST_RETURN":
                found["return_requested"] = written(self.clock())
        return found

    def ask_return(self, submission: str, reasons: list[str]) -> Found:
        found = self.submission(submission)
        if not reasons:
            raise NoError(400, {"request_return_reasons": ["is required"]})
        found["return_requested"] = written(self.clock())
        return found

    def approve(self, submissions: list[str]) -> None:
        """All or none."""
        for one in submissions:
            if self.submission(one)["status"] != "AWAITING REVIEW":
                raise NoError(400, f"Submission {one} is not awaiting review")
        for one in submissions:
            self.move(one, "APPROVE")

    # the two shapes of a submission

    def listed(self, found: Found) -> Found:
        end = found["completed"]
        return {
            "id": found["id"],
            "participant_id": found["participant"],
            "started_at": written(found["started"]),
            "completed_at": written(end),
            "is_complete": end is not None,
            "time_taken": None if end is None else round(end - found["started"]),
            "reward": self.study(found["study_id"])["reward"],
            "status": found["status"],
            "strata": {},
            "study_code": found["entered_code"],
            "star_awarded": False,
            "bonus_payments": found["bonuses"],
            "ip": "",
        }

    def single(self, found: Found) -> Found:
        return {
            "id": found["id"],
            "participant": found["participant"],
            "study_id": found["study_id"],
            "started_at": written(found["started"]),
            "completed_at": written(found["completed"]),
            "status": found["status"],
            "entered_code": found["entered_code"],
            "return_requested": found["return_requested"],
        }

    # bonuses

    def prepare(self, study: str, text: str) -> Found:
        self.study(study)
        rows = [self._bonus(study, line) for line in text.splitlines()]
        if not rows:
            raise NoError(400, {"csv_bonuses": ["is empty"]})
        amount = sum(one for _, one in rows)
        made: Found = {"id": new_id(), "study": study, "rows": rows, "amount": amount, "paid": 0}
        self.payments[made["id"]] = made
        fees = round(amount * FEE)
        shown = {"id": made["id"], "study": study, "amount": amount, "fees": fees, "vat": 0}
        return {**shown, "total_amount": amount + fees}

    def _bonus(self, study: str, line: str) -> tuple[str, int]:
        parts = LINE.fullmatch(line)
        if parts is None:
            raise NoError(400, {"csv_bonuses": [f"cannot be read: {line[:40]}"]})
        for one in self.submissions.values():
            if one["study_id"] == study and parts[1] in (one["id"], one["participant"]):
                if one["status"] not in ("AWAITING REVIEW", "APPROVED"):
                    raise NoError(400, {"csv_bonuses": [f"{parts[1]} is {one['status']}"]})
                return one["id"], round(float(parts[2]) * 100)
        raise NoError(400, {"csv_bonuses": [f"{parts[1]} has not taken part"]})

    def pay(self, payment: str) -> None:
        """Asked twice, it pays twice: so does Prolific."""
        if payment not in self.payments:
            raise NoError(404, "Payment not found", "Not found")
        found = self.payments[payment]
        found["paid"] += 1
        for submission, amount in found["rows"]:
            self.submissions[submission]["bonuses"].append(amount)

    # webhooks

    def subscribe(self, event: str, target: str) -> Found:
        if not target.startswith("https://") and not is_loopback(target):
            raise NoError(400, {"target_url": ["must be a public https address"]})
        made: Found = {
            "id": new_id(),
            "event_type": event,
            "target_url": target,
            "is_enabled": False,
            "workspace_id": self.workspace,
            "proof": secrets.token_urlsafe(16),
        }
        self.subscriptions[made["id"]] = made
        return made

    def confirm(self, subscription: str, proof: str) -> Found:
        found = self.subscriptions.get(subscription)
        if found is None:
            raise NoError(404, "Subscription not found", "Not found")
        if found["proof"] != proof:
            raise NoError(400, {"secret": ["is not the one that the subscription was made with"]})
        found["is_enabled"] = True
        return found

    def _tell(self, found: Found) -> None:
        for one in self.subscriptions.values():
            if one["is_enabled"] and one["event_type"] == "submission.status.change":
                body = {
                    "event_type": one["event_type"],
                    "resource_id": found["id"],
                    "participant_id": found["participant"],
                    "status": found["status"],
                }
                self.events.append({"id": new_id(), "target": one["target_url"], "body": body, "tries": 0})


def _check_draft(fields: Found) -> None:
    faults = {name: ["This field is required."] for name in REQUIRED if fields.get(name) in (None, "", [])}
    faults |= {name: ["This field is retired."] for name in LEGACY if name in fields}
    details = fields.get("access_details") or []
    if bool(details) == bool(fields.get("external_study_url")):
        faults["external_study_url"] = ["Give this or access_details."]
    if details and sum(o["total_allocation"] for o in details) != fields.get("total_available_places"):
        faults["access_details"] = ["The allocations must add up to the places."]
    if faults:
        raise NoError(400, faults)
