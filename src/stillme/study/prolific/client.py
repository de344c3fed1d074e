"""Prolific's API, as far as a study needs it: calls, their shapes and their refusals as sentences.

It decides nothing and stores nothing. What may have happened although no answer came is said in the error, because
whoever moves money has to know.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from stillme.core.errors import InputError, SetupError
from stillme.engine.http import Client, ClientConfig, HttpRequest, HttpResponse, RemoteError, is_loopback, origin

API = "https://api.prolific.com/api/v1"
SITE = "https://app.prolific.com"
JWKS = "/.well-known/study/jwks.json"
PAGE = 100  # submissions or studies of one answer
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
LIMITS = ClientConfig(timeout_s=30, deadline_s=150, attempts=6, backoff_s=1.0, concurrency=16)
# Submissions whose place is taken, and those whose person may enter.
LIVE = frozenset({"RESERVED", "ACTIVE"})
AWAITING, APPROVED, REJECTED = "AWAITING REVIEW", "APPROVED", "REJECTED"
RETURNED, TIMED_OUT, SCREENED_OUT = "RETURNED", "TIMED-OUT", "SCREENED OUT"
PAID_FOR = frozenset({APPROVED, "PARTIALLY APPROVED"})


class ProlificError(SetupError):
    """Prolific said no, or nothing. `is_open`: what was asked may have happened all the same."""

    def __init__(self, sentence: str, next_step: str, status_code: int = 0, is_open: bool = False) -> None:
        super().__init__(sentence, next_step)
        self.status_code = status_code
        self.is_open = is_open


@dataclass(frozen=True)
class Submission:
    """One person's participation, whichever of Prolific's two shapes it came in. Times: seconds since 1970."""

    id: str
    pid: str = field(repr=False)
    study: str
    status: str
    code: str = ""
    started: float | None = None
    completed: float | None = None
    seconds: float | None = None
    return_requested: bool = False
    bonuses: tuple[int, ...] = ()  # minor units


@dataclass(frozen=True)
class Study:
    """A study at Prolific; `reward` in minor units."""

    id: str
    status: str
    internal_name: str
    places: int
    taken: int
    reward: int


@dataclass(frozen=True)
class Cost:
    """What a study costs, in minor units; the parts where Prolific tells them."""

    total: int
    fees: int | None = None
    vat: int | None = None


@dataclass(frozen=True)
class Prepared:
    """A bonus payment that was prepared and not paid; minor units."""

    id: str
    amount: int
    total: int


def connect(environ: Mapping[str, str] | None = None, limits: ClientConfig = LIMITS) -> Prolific:
    """The client that the environment describes: PROLIFIC_TOKEN or PROLIFIC_TOKEN_FILE, and PROLIFIC_API for
    rehearsals."""
    environ = os.environ if environ is None else environ
    return Prolific(_token(environ), environ.get("PROLIFIC_API", "") or API, limits)


def _token(environ: Mapping[str, str]) -> str:
    path = environ.get("PROLIFIC_TOKEN_FILE", "")
    token = (environ.get("PROLIFIC_TOKEN", "") or (_private(Path(path)) if path else "")).strip()
    if not token:
        said = "There is no token for Prolific."
        raise SetupError(said, "Set PROLIFIC_TOKEN, or PROLIFIC_TOKEN_FILE to a file with mode 0600.")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InputError(
            "The token for Prolific is more than one word.", "Copy it again from Prolific's settings."
        )
    return token


def _private(path: Path) -> str:
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SetupError(f"The token file {path} cannot be read.", "Check PROLIFIC_TOKEN_FILE.") from None
    if stat.S_IMODE(mode) & 0o077:
        said = f"The token file {path} can be read by others."
        raise SetupError(said, f"chmod 600 {path}, and consider the token known.")
    return text


def checked_id(value: str, what: str) -> str:
    """An id that may stand in a path; anything else would ask for something else."""
    if not ID.fullmatch(value):
        raise InputError(f"That is no {what} of Prolific.", "Ids are letters and digits.")
    return value


class Prolific:
    """One account at Prolific, or a fake one at a loopback address."""

    def __init__(self, token: str, base: str = API, limits: ClientConfig = LIMITS) -> None:
        self.base = base.rstrip("/")
        if urlsplit(self.base).scheme != "https" and not is_loopback(self.base):
            said = "Prolific is only asked over https; plain http is for a rehearsal on this machine."
            raise InputError(said, "Check PROLIFIC_API.")
        self._remote = Client(self.base, limits, {"Authorization": f"Token {token}"})

    @property
    def site(self) -> str:
        """Where people are sent with their codes."""
        return SITE if self.base == API else "{}://{}".format(*urlsplit(self.base)[:2])

    async def close(self) -> None:
        await self._remote.close()

    # the account

    async def me(self) -> dict[str, Any]:
        return await self._object(HttpRequest("GET", "/users/me/"))

    async def workspaces(self) -> list[dict[str, Any]]:
        return [found async for found in self._pages("/workspaces/", {})]

    # studies

    async def calculate(self, reward: int, places: int) -> Cost:
        """What a study costs with fees and taxes. Nothing is made, so it may be asked again."""
        body = {"reward": reward, "total_available_places": places}
        found = await self._object(HttpRequest("POST", "/study-cost-calculator/", json=body, repeatable=True))
        return Cost(_whole(found.get("total_cost")), _whole_or(found.get("fees")), _whole_or(found.get("vat")))

    async def create_study(self, fields: Mapping[str, Any]) -> Study:
        return _study(await self._object(HttpRequest("POST", "/studies/", json=dict(fields), once=True)))

    async def update_study(self, study: str, fields: Mapping[str, Any]) -> Study:
        call = HttpRequest("PATCH", f"/studies/{checked_id(study, 'study')}/", json=dict(fields), repeatable=True)
        return _study(await self._object(call))

    async def study(self, study: str) -> Study:
        return _study(await self._object(HttpRequest("GET", f"/studies/{checked_id(study, 'study')}/")))

    async def studies(self) -> list[Study]:
        return [_study(found) async for found in self._pages("/studies/", {})]

    async def transition_study(self, study: str, action: str) -> Study:
        """PUBLISH, PAUSE, START or STOP."""
        url = f"/studies/{checked_id(study, 'study')}/transition/"
        return _study(await self._object(HttpRequest("POST", url, json={"action": action}, once=True)))

    # submissions

    async def submissions(self, study: str) -> AsyncIterator[Submission]:
        url = f"/studies/{checked_id(study, 'study')}/submissions/"
        async for found in self._pages(url, {}):
            yield listed(found, study)

    async def submission(self, submission: str) -> Submission:
        return single(
            await self._object(HttpRequest("GET", f"/submissions/{checked_id(submission, 'submission')}/"))
        )

    async def transition(self, submission: str, action: str, **more: Any) -> None:
        url = f"/submissions/{checked_id(submission, 'submission')}/transition/"
        await self._object(HttpRequest("POST", url, json={"action": action, **more}, once=True))

    async def request_return(self, submission: str, reasons: Sequence[str]) -> None:
        url = f"/submissions/{checked_id(submission, 'submission')}/request-return/"
        await self._object(HttpRequest("POST", url, json={"request_return_reasons": list(reasons)}, once=True))

    async def bulk_approve(self, submissions: Sequence[str]) -> None:
        ids = [checked_id(submission, "submission") for submission in submissions]
        await self._ask(HttpRequest("POST", "/submissions/bulk-approve/", json={"submission_ids": ids}, once=True))

    # bonuses

    async def prepare_bonus(self, study: str, rows: Iterable[tuple[str, int]]) -> Prepared:
        """Prepares a payment, which moves no money. `rows`: submission, minor units."""
        body = {"study_id": checked_id(study, "study"), "csv_bonuses": bonus_rows(rows)}
        found = await self._object(HttpRequest("POST", "/submissions/bonus-payments/", json=body, once=True))
        return Prepared(_text(found, "id"), _whole(found.get("amount")), _whole(found.get("total_amount")))

    async def pay_bonus(self, bulk: str) -> None:
        """Moves the money. Prolific does it again when asked again, so it is asked once."""
        url = f"/bulk-bonus-payments/{checked_id(bulk, 'payment')}/pay/"
        await self._ask(HttpRequest("POST", url, once=True))

    # webhooks

    async def hook_secrets(self, workspace: str) -> list[dict[str, Any]]:
        return [found async for found in self._pages("/hooks/secrets/", {"workspace_id": workspace})]

    async def create_hook_secret(self, workspace: str) -> dict[str, Any]:
        """A new secret for all webhooks of the workspace: the old one stops being used."""
        call = HttpRequest("POST", "/hooks/secrets/", json={"workspace_id": workspace}, once=True)
        return await self._object(call)

    async def subscriptions(self, workspace: str) -> list[dict[str, Any]]:
        return [found async for found in self._pages("/hooks/subscriptions/", {"workspace_id": workspace})]

    async def subscribe(self, workspace: str, event: str, target: str) -> tuple[str, str]:
        """(subscription, the secret that confirms it)."""
        body = {"workspace_id": workspace, "event_type": event, "target_url": target}
        answer = await self._ask(HttpRequest("POST", "/hooks/subscriptions/", json=body, once=True))
        return _text(_mapping(answer), "id"), answer.headers.get("X-Hook-Secret", "") if answer else ""

    async def confirm(self, subscription: str, secret: str) -> None:
        url = f"/hooks/subscriptions/{checked_id(subscription, 'subscription')}/"
        await self._object(HttpRequest("POST", url, json={"secret": secret}, repeatable=True))

    # launches

    async def launch_keys(self) -> list[dict[str, Any]]:
        """The public keys that launches are signed with."""
        scheme, host, port = origin(self.base)
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{JWKS}"
        found = await self._object(HttpRequest("GET", url, keyless=True))
        return [key for key in found.get("keys", []) if isinstance(key, dict)]

    # how it is asked

    async def _pages(self, url: str, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """All results, page by page; a list that takes no pages comes whole, and ends there."""
        seen: set[str] = set()
        while True:
            asked = urlencode({**query, "limit": PAGE, "offset": len(seen)})
            found = await self._object(HttpRequest("GET", f"{url}?{asked}"))
            fresh = {_text(one, "id"): one for one in _objects(found.get("results")) if one.get("id") not in seen}
            for one in fresh.values():
                yield one
            seen |= set(fresh)
            if len(fresh) < PAGE:
                return

    async def _object(self, call: HttpRequest) -> dict[str, Any]:
        return _mapping(await self._ask(call))

    async def _ask(self, call: HttpRequest) -> HttpResponse | None:
        """The answer; None where Prolific agreed and said nothing."""
        try:
            return await self._remote.call(call)
        except RemoteError as error:
            if 200 <= error.status_code < 300 and not error.body.strip():
                return None
            raise _refusal(call, error) from None


def _refusal(call: HttpRequest, error: RemoteError) -> ProlificError:
    code = error.status_code
    is_open = call.method != "GET" and not 400 <= code < 500
    if not code:
        said, step = f"Prolific does not answer: {error.message}.", "Check the connection, then try again."
    elif code in (401, 403):
        said, step = "Prolific does not accept this token for that.", "Check PROLIFIC_TOKEN and its workspace."
    elif code == 404:
        said, step = f"Prolific does not know it: {error.message}.", "Check the id, and whose token this is."
    elif code == 429:
        said, step = "Prolific turns us away for now (429).", "Wait a minute, then run the same command again."
    elif code >= 500:
        said, step = (
            f"Prolific has a fault of its own ({code}).",
            "Try again later; status.prolific.com may say more.",
        )
    else:
        said, step = f"Prolific refuses ({code}): {_reason(error)}.", "Mend what it names, then try again."
    return ProlificError(said, step, code, is_open)


def _reason(error: RemoteError) -> str:
    """Prolific's own words, out of either of its two shapes of errors."""
    said = error.said
    inner = said.get("error", said) if isinstance(said, Mapping) else {}
    detail = inner.get("detail") or inner.get("message") if isinstance(inner, Mapping) else ""
    return (_flat(detail) or error.message).rstrip(".")[:300]


def _flat(detail: Any) -> str:
    """`{"reward": ["too low"]}` -> `reward: too low`."""
    if isinstance(detail, Mapping):
        return "; ".join(f"{name}: {_flat(value)}" for name, value in detail.items())
    if isinstance(detail, list):
        return ", ".join(_flat(value) for value in detail)
    return str(detail or "")


def listed(found: Mapping[str, Any], study: str) -> Submission:
    """A submission as a list has it."""
    return _submission(found, "participant_id", "study_code", study)


def single(found: Mapping[str, Any]) -> Submission:
    """A submission as it comes by itself."""
    return _submission(found, "participant", "entered_code", str(found.get("study_id") or ""))


def _submission(found: Mapping[str, Any], pid: str, code: str, study: str) -> Submission:
    status = _text(found, "status").upper()
    return Submission(
        id=_text(found, "id"),
        pid=str(found.get(pid) or ""),
        study=study,
        status="TIMED-OUT" if status in ("TIMED OUT", "TIMEDOUT") else status,
        code=str(found.get(code) or ""),
        started=_moment(found.get("started_at")),
        completed=_moment(found.get("completed_at")),
        seconds=_number(found.get("time_taken")),
        return_requested=bool(found.get("return_requested")),
        bonuses=tuple(_bonuses(found.get("bonus_payments"))),
    )


def _bonuses(found: Any) -> Iterator[int]:
    for one in found if isinstance(found, list) else ():
        yield _whole(one.get("amount") if isinstance(one, Mapping) else one)


def _study(found: Mapping[str, Any]) -> Study:
    return Study(
        id=_text(found, "id"),
        status=_text(found, "status").upper(),
        internal_name=str(found.get("internal_name") or ""),
        places=_whole(found.get("total_available_places")),
        taken=_whole(found.get("places_taken")),
        reward=_whole(found.get("reward")),
    )


def bonus_rows(rows: Iterable[tuple[str, int]]) -> str:
    """Lines `submission,amount` in major units; nothing else can stand in them."""
    return "\n".join(f"{checked_id(submission, 'submission')},{major(amount)}" for submission, amount in rows)


def major(amount: int) -> str:
    """Minor units as people write money.

    >>> major(100), major(1205)
    ('1.00', '12.05')
    """
    return f"{amount // 100}.{amount % 100:02d}"


def minor(amount: float) -> int:
    return round(amount * 100)


def _mapping(answer: HttpResponse | None) -> dict[str, Any]:
    found = answer.json if answer is not None else {}
    if not isinstance(found, dict):
        raise ProlificError("Prolific's answer has another shape than it documents.", "Update stillme.", 200, True)
    return found


def _objects(found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ProlificError("Prolific's list has another shape than it documents.", "Update stillme.", 200)
    return found


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        said = f"Prolific's answer lacks what it documents: {name}."
        raise ProlificError(said, "Update stillme.", 200, True)
    return value


_ENDLESS = 1e300  # no time and no money; what is not a number is not below it either


def _number(value: Any) -> float | None:
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ENDLESS
    return float(value) if is_one else None


def _whole_or(value: Any) -> int | None:
    found = _number(value)
    return None if found is None else round(found)


def _whole(value: Any) -> int:
    return _whole_or(value) or 0


def _moment(value: Any) -> float | None:
    """Seconds since 1970, of a date as ISO 8601 writes it."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if found is None else found.replace(tzinfo=found.tzinfo or UTC).timestamp()
