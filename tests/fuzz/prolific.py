"""What Prolific sends: webhooks, and answers of its API."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stillme.core.records import Status
from stillme.engine.http import HttpResponse, RemoteError
from stillme.study.prolific import hooks
from stillme.study.prolific.client import ID, ProlificError, _mapping, _objects, _reason, _study, listed, single
from tests.fuzz.damage import Input, bytes_of, json_of
from tests.fuzz.target import Feed, Target, sentence

SECRET = b"a-secret-of-the-workspace"
NOW = 1_790_000_000.0
TIMES = (
    "1790000000",
    "1790000000000",
    "2026-09-21T15:33:20Z",
    "2026-09-21T15:33:20",
    "0001-01-01T00:00:00+23:59",
    "nan",
    "inf",
    "-1e400",
)
EVENT = {"event_type": hooks.EVENT, "resource_id": "60d9aadeb86739de712faee0", "status": "RETURNED"}
SUBMISSION: dict[str, Any] = {
    "id": "60d9aadeb86739de712faee0", "status": "AWAITING REVIEW", "participant": "p", "participant_id": "p", "study_id": "s",
    "study_code": "C", "entered_code": "C", "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:09:00.123456Z",
    "time_taken": 540.5, "return_requested": None, "bonus_payments": [{"amount": 100}, 200],
}  # fmt: skip
STUDY = {
    "id": "s",
    "status": "ACTIVE",
    "internal_name": "n",
    "total_available_places": 9,
    "places_taken": 1,
    "reward": 500,
}
ERRORS = (
    {"error": {"detail": {"reward": ["too low"], "a": {"b": ["c"]}}, "title": "t"}},
    {"detail": "no"},
    {"message": ["x"]},
)


def _webhooks(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """A delivery whose signature is right, of any time and any body; and headers that are none."""
    bodies, times = json_of(EVENT), bytes_of(*(time.encode() for time in TIMES))

    def made(chance: random.Random) -> bytes:
        time = chance.choice(TIMES).encode() if chance.random() < 0.5 else times(chance).replace(b"\n", b"")
        return time + b"\n" + bodies(chance)

    def feed(content: bytes) -> None:
        stamp, _, body = content.partition(b"\n")
        text = stamp.decode("latin-1")
        right = hooks.signature(SECRET, text, body)
        for given in (right, right[:-2], text, ""):
            headers = {"x-prolific-request-timestamp": text, "x-prolific-request-signature": given}
            genuine = hooks.is_genuine(SECRET, headers, body, NOW)
            assert not genuine or given == right
            assert not hooks.is_genuine(b"", headers, body, NOW)
        about = hooks._about(body)
        assert about == "" or ID.fullmatch(about)

    return made, feed


def _answers(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    def feed(content: bytes) -> None:
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            return
        error = RemoteError(Status.REJECTED, "no", 400, said=said)
        assert len(_reason(error)) <= 300
        with sentence(ProlificError):
            found = _mapping(HttpResponse(200, {}, content, said, 0.1))
            for read in (single, _study, lambda one: listed(one, "s")):
                with sentence(ProlificError):
                    read(found)
        with sentence(ProlificError):
            _objects(said)

    return json_of(SUBMISSION, STUDY, [SUBMISSION], *ERRORS), feed


TARGETS = (Target("webhooks of Prolific", _webhooks, 16_000), Target("answers of Prolific", _answers, 14_000))
