"""Whoever comes from Prolific: is it them? By the signed launch, or by asking Prolific about the submission.

A launch that does not hold is refused with a sentence for the person; why exactly is nobody's business but ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from stillme.study.db.people import Launch, RefusedError
from stillme.study.db.store import Store
from stillme.study.prolific import marks
from stillme.study.prolific.client import AWAITING, ID, LIVE, Prolific, ProlificError

ISSUER = "https://www.prolific.com"
PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
TOKEN = "prolific_token"  # noqa: S105 (a name, not a password)
LONGEST_TOKEN = 8_192  # characters
FRESH = 24 * 3600.0  # seconds for which Prolific's keys are kept
PAUSE = 60.0  # seconds between two looks for a key that is not known
BREATH = 5.0  # seconds after a look that failed
PATIENCE = 12.0  # seconds that somebody who comes in waits for Prolific
LEEWAY = 30  # seconds by which clocks may differ

BROKEN = "This link is not complete. Please open the study again from its page on Prolific."
STRANGE = "This link is not valid, or not valid any more. Please open the study again from its page on Prolific."
OVER = "This submission has ended on Prolific, so it cannot be opened here any more. Thank you for coming."
SILENT = "We cannot reach Prolific to check your link right now. Please try again in a minute; nothing is lost."


class Keyring:
    """Prolific's public keys, kept for a day; an unknown one is looked for at most once a minute.

    One look serves everybody who waits for it, and goes on when one of them has waited long enough.
    """

    def __init__(self, client: Prolific, clock: Callable[[], float] = time.time) -> None:
        self._client, self._clock = client, clock
        self._keys: dict[str, Any] = {}
        self._read = self._tried = float("-inf")
        self._silent: ProlificError | None = None  # why the last look failed
        self._look: asyncio.Task[None] | None = None

    async def key(self, name: str) -> Any | None:
        if self._look is None and self._is_lacking(name):
            self._tried = self._clock()
            self._look = asyncio.create_task(self._looked())
        if self._look is not None:
            await asyncio.shield(self._look)
        found = None if self._is_stale else self._keys.get(name)
        if found is None and self._silent is not None:  # nobody's link is at fault
            raise self._silent
        return found

    @property
    def _is_stale(self) -> bool:
        return self._clock() - self._read >= FRESH

    def _is_lacking(self, name: str) -> bool:
        """Whether it is time to look for a key."""
        pause = PAUSE if self._silent is None else BREATH
        return (self._is_stale or name not in self._keys) and self._clock() - self._tried >= pause

    async def _looked(self) -> None:
        try:
            self._keys = _public(await self._client.launch_keys())
            self._read, self._silent = self._clock(), None
        except ProlificError as error:
            self._silent = error
        finally:
            self._look = None


def _public(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Name -> key, of RSA keys that are meant for signatures; anything else is left out."""
    import jwt

    kept = {}
    for one in found:
        if one.get("kty") == "RSA" and one.get("use", "sig") == "sig" and isinstance(one.get("kid"), str):
            try:
                kept[one["kid"]] = jwt.PyJWK(one, algorithm="RS256").key
            except jwt.PyJWTError:
                continue
    return kept


@dataclass
class Door:
    """How people get in. `plain`: anybody who names themselves, for pilots; `prolific`: Prolific is asked about
    the submission; `signed`: only with Prolific's signature. `public`: the address that browsers know us by."""

    entry: Literal["plain", "prolific", "signed"]
    public: str
    store: Store
    client: Prolific | None = None
    clock: Callable[[], float] = time.time
    _keyring: Keyring | None = field(default=None, repr=False)

    async def launched(self, query: Mapping[str, str]) -> Launch:
        """Who is coming, after it was checked; else a RefusedError with a kind sentence."""
        claimed = _claimed(query)
        if self.entry == "plain":
            return claimed
        assert self.client is not None, "nobody can be checked without a client"
        await self._check_study(claimed)
        try:
            async with asyncio.timeout(PATIENCE):
                if self.entry == "signed":
                    await self._check_signature(claimed, query.get(TOKEN, ""))
                else:
                    await self._check_submission(claimed)
        except (ProlificError, TimeoutError):
            raise RefusedError(SILENT, "closed", PAUSE) from None
        return claimed

    async def _check_study(self, claimed: Launch) -> None:
        """Another study may point here too; its people are not ours."""
        if claimed.study != await self.store.read(lambda connection: marks.get(connection, marks.STUDY)):
            raise RefusedError(STRANGE, "closed")

    async def _check_signature(self, claimed: Launch, token: str) -> None:
        assert self.client is not None
        if self._keyring is None:
            self._keyring = Keyring(self.client, self.clock)
        host = urlsplit(self.public).netloc
        if not await is_signed(token, claimed, host, self._keyring, self.clock()):
            raise RefusedError(STRANGE, "closed")

    async def _check_submission(self, claimed: Launch) -> None:
        assert self.client is not None
        try:
            found = await self.client.submission(claimed.submission)
        except ProlificError as error:
            if error.status_code in (400, 404):
                raise RefusedError(STRANGE, "closed") from None
            raise
        if (found.id, found.pid, found.study) != (claimed.submission, claimed.pid, claimed.study):
            raise RefusedError(STRANGE, "closed")
        if found.status not in LIVE | {AWAITING}:
            raise RefusedError(OVER, "closed")


def _claimed(query: Mapping[str, str]) -> Launch:
    pid, study, submission = (query.get(name, "") for name in PARAMETERS)
    if not all(ID.fullmatch(value) for value in (pid, study, submission)):
        raise RefusedError(BROKEN, "closed")
    return Launch(pid, study, submission)


async def is_signed(token: str, claimed: Launch, host: str, keyring: Keyring, now: float) -> bool:
    """Whether Prolific signed exactly this launch, for this host, and not too long ago."""
    import jwt

    if not token or len(token) > LONGEST_TOKEN or not host:
        return False
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") != "RS256":
            return False
        key = await keyring.key(str(header.get("kid", "")))
        if key is None:
            return False
        found = _decoded(token, key, host, now)
    except (jwt.PyJWTError, TypeError, ValueError):  # the latter of claims that are no numbers
        return False
    return _matches(found, claimed)


def _decoded(token: str, key: Any, host: str, now: float) -> dict[str, Any]:
    """The claims. Times are compared here, by the study's own clock."""
    import jwt

    found: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=["RS256"],
        audience=[host, f"https://{host}"],
        issuer=ISSUER,
        options={
            "require": ["exp", "iss", "aud", "sub"],
            "verify_exp": False,
            "verify_iat": False,
            "verify_nbf": False,
        },
    )
    is_late = now > float(found["exp"]) + LEEWAY
    is_early = any(now < float(found.get(name, now)) - LEEWAY for name in ("iat", "nbf"))
    if is_late or is_early:
        raise jwt.ExpiredSignatureError
    return found


def _matches(found: Mapping[str, Any], claimed: Launch) -> bool:
    signed = found.get("prolific")
    if not isinstance(signed, Mapping) or found.get("sub") != claimed.submission:
        return False
    return tuple(signed.get(name) for name in PARAMETERS) == (claimed.pid, claimed.study, claimed.submission)
